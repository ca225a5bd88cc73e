// The kernel cache on disk: layers of folders, entries found by key, choices found by name, and
// what `tfrewrite cache` does with them. The format is in docs/CACHE.md. Knows no compiler and
// loads nothing. Thread-safe and safe against other processes. Faults are warned of once
// (jit/warn.h) and never more than a miss to the caller.
//
// Layers: each folder of TFR_CACHE_RO (separated by ':', only read), then the user's folder:
// TFR_CACHE_DIR, else $XDG_CACHE_HOME/tfrewrite, else ~/.cache/tfrewrite. In each of them the files
// lie in the subfolder `kernels`.
#ifndef TFR_CACHE_H
#define TFR_CACHE_H

#include "jit/entry.h"
#include "jit/key.h"
#include "runtime/error.h"

// ------------------------------------------------------------------ for jit.c
// Which layers are asked: after an entry that did not load there may be a good one behind it.
typedef enum tfr_cache_layers { TFR_CACHE_ALL, TFR_CACHE_OWN, TFR_CACHE_NONE } tfr_cache_layers;

// Finds and verifies the entry of `key`, whose text is `text`. `any_compiler`: an entry of another
// compiler serves too. The bytes live in `arena`.
bool tfr_cache_get(tfr_arena *arena, const tfr_key *key, tfr_str text, tfr_cache_layers layers,
                   bool any_compiler, tfr_entry *out);

// Stores an entry, unless there is one already. False: it could not, and `why` (may be NULL) says
// so; a warning does too, once.
bool tfr_cache_put(const tfr_key *key, const tfr_entry *entry, char *why, size_t why_size);

// Takes an entry that was found but did not load out of the way, if it is the user's own.
void tfr_cache_reject(const tfr_entry *entry, const char *why);

// Waits a few seconds at most for others that compile the same key, to save double work. Gives a
// token for tfr_cache_unlock, -1 without a lock; the caller goes on in either case.
int tfr_cache_lock(const tfr_key *key);
void tfr_cache_unlock(int token);

// ------------------------------------------------------------------ choices (runtime/)
// A choice is a short text remembered by name: "linear bf16 4096x1024 m1 AMD EPYC 7B13" -> "torch".
// It is sticky and shared: the first one stored holds for every process. Names and values are at
// most TFR_CHOICE_MAX bytes. In memory only where no folder is usable.
#define TFR_CHOICE_MAX 1024u

// False: not stored. `out` is NUL-terminated.
bool tfr_choice_get(tfr_str name, char *out, size_t size);
// Stores `value` unless the name has one; `out` (may be NULL) gets the one that holds from now on.
void tfr_choice_put(tfr_str name, tfr_str value, char *out, size_t size);

// ------------------------------------------------------------------ `tfrewrite cache`
// The user's folder of kernels; need not exist. Fails where there is none (HOME unset).
tfr_status tfr_cache_path(char *out, size_t size, tfr_error *err);

typedef enum tfr_cache_item_kind {
    TFR_CACHE_KERNEL,
    TFR_CACHE_CHOICE,   // a choice of the runtime
    TFR_CACHE_COMPILER, // remembered: the identity of a compiler
    TFR_CACHE_BAD,      // quarantined
    TFR_CACHE_LEFTOVER, // of a killed process; `gc` removes it
} tfr_cache_item_kind;

typedef struct tfr_cache_item {
    tfr_cache_item_kind kind;
    bool read_only;           // in a layer of TFR_CACHE_RO
    const char *folder;       // with `kernels`
    const char *name;         // the file's
    uint64_t bytes;           // its size
    int64_t used;             // when it was last used, to a day; seconds since 1970
    const char *fault;        // NULL: verified and sound; only kernels, choices and compilers
    tfr_str label;            // of a kernel; the name of a choice; the path of a compiler
    tfr_str target, compiler; // of a kernel
    tfr_str value;            // of a choice; the identity of a compiler
    uint32_t registers, shared_bytes, block; // of a CUDA kernel
} tfr_cache_item;

typedef struct tfr_cache_listing {
    tfr_cache_item *items; // kernels by label, then choices, compilers, the rest
    size_t count, cap;
} tfr_cache_listing;

// Every file of every layer, each one read and verified: what `ls` and `verify` print. A folder
// that does not exist is empty; one that is refused is an error.
tfr_status tfr_cache_list(tfr_arena *arena, tfr_cache_listing *out, tfr_error *err);

// Moves the user's unsound items aside, as meeting them at run time does. Gives how many.
size_t tfr_cache_quarantine(const tfr_cache_listing *listing);

// Explains the kernels that `what` names (start of a file name, or part of a label): for each field
// of its key whether a request from this process would ask for the same. Lines into `out`.
tfr_status tfr_cache_why(tfr_arena *arena, const char *what, tfr_buf *out, tfr_error *err);

// Removes leftovers and quarantined files; kernels and choices not used for `max_age` seconds; then
// those unused longest until the user's folder has at most `max_bytes`. Negative: no such limit.
typedef struct tfr_cache_swept {
    size_t files, left_files;
    uint64_t bytes, left_bytes;
} tfr_cache_swept;
tfr_status tfr_cache_gc(int64_t max_bytes, int64_t max_age, tfr_cache_swept *out, tfr_error *err);

#endif
