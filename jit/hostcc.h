// The C compiler of this machine: which one, what it calls itself, and running it. Knows no cache
// but for one choice (jit/cache.h), which spares asking the compiler its version in each process.
#ifndef TFR_HOSTCC_H
#define TFR_HOSTCC_H

#include "runtime/arena.h"

typedef struct tfr_hostcc {
    const char *path;
    tfr_str identity; // "gcc (Debian 12.2.0-14) 12.2.0; 12.2.0; x86_64-linux-gnu"
} tfr_hostcc;

typedef enum tfr_hostcc_found {
    TFR_HOSTCC_FOUND,
    TFR_HOSTCC_NONE,
    TFR_HOSTCC_UNASKED, // it would have to be run first, which `may_run` forbade
} tfr_hostcc_found;

// TFR_CC, else cc, gcc or clang in PATH: the first that answers. Found once a process.
tfr_hostcc_found tfr_hostcc_find(bool may_run, const tfr_hostcc **out);
// Warns, once, that there is none.
void tfr_hostcc_warn_none(void);

// All options of a compilation but for file names: the same on every machine with this CPU.
tfr_str tfr_hostcc_options(void);
// False: `why` says what went wrong, with the compiler's first words. Takes TFR_CC_TIMEOUT seconds
// (60) at most. A compiler that hangs or always fails is not run again by this process.
bool tfr_hostcc_compile(tfr_arena *arena, const tfr_hostcc *compiler, tfr_str source,
                        tfr_str *binary, char *why, size_t why_size);

#endif
