// The bytes of one kernel: from the cache, else from the compiler and into the cache. Which
// compiler that is, the C compiler or NVRTC, the request's target decides, here and nowhere else.
// Knows nothing of loading, threads or what is asked for next.
#ifndef TFR_OBTAIN_H
#define TFR_OBTAIN_H

#include "jit/cache.h"
#include "jit/entry.h"
#include "jit/hostcc.h"
#include "jit/jit.h"
#include "jit/key.h"
#include "jit/nvrtc.h"

typedef struct tfr_wanted {
    tfr_key key;
    tfr_str text, label;
    const tfr_cuda_target *cuda; // NULL: for this machine's CPU
    bool has_compiler;           // false: an entry of any compiler will do
    const tfr_hostcc *cc;        // the compiler; one of these
    const tfr_nvrtc *nvrtc;
} tfr_wanted;

// Makes the key. False: the compiler would have to be run for its version, which `may_run` forbids.
// The request's target must be a known one.
bool tfr_wanted_make(tfr_arena *arena, const tfr_jit_request *request, bool may_run,
                     tfr_wanted *out);

// The request that an entry's key answers; false: for a target that this program does not know.
bool tfr_request_of(const tfr_key *key, tfr_str label, tfr_jit_request *out);

// As much of a label as a message shows, for "%.*s".
static inline int tfr_label_len(tfr_str label) { return label.len > 200 ? 200 : (int)label.len; }

// From the cache alone.
bool tfr_obtain_stored(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                       tfr_entry *out);

// From these layers of the cache, else compiled. NOWHERE: `why` says why; warned of once. Whether
// what was compiled could be stored is `stored`.
tfr_jit_origin tfr_obtain(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                          tfr_entry *out, bool *stored, char *why, size_t why_size);

#endif
