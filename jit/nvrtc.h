// NVRTC, CUDA's compiler as a library: which one, what it is, and compiling with it in this
// process. It is loaded when something is compiled and not before: a process that finds its kernels
// in the cache never maps it. Needs no driver and no GPU. Thread-safe; kernels are compiled at the
// same time.
#ifndef TFR_NVRTC_H
#define TFR_NVRTC_H

#include "jit/cubin.h"

typedef struct tfr_nvrtc {
    const char *path;
    tfr_str identity; // "nvrtc 13.0, build 65be0db342ad51a0, builtins ...": of the files' contents
} tfr_nvrtc;

typedef enum tfr_nvrtc_found {
    TFR_NVRTC_FOUND,
    TFR_NVRTC_NONE,
    TFR_NVRTC_UNASKED, // a file would have to be read as a whole first, which `may_read` forbade
} tfr_nvrtc_found;

// Found once a process; jit/nvrtc_find.h says where. One that could not be loaded counts as none.
tfr_nvrtc_found tfr_nvrtc_find(bool may_read, const tfr_nvrtc **out);
// Warns, once, that there is none.
void tfr_nvrtc_warn_none(void);

// All options of a compilation for `target`.
tfr_str tfr_nvrtc_options(tfr_arena *arena, const tfr_cuda_target *target);

// The binary is a cubin, or PTX text with a NUL behind its length; `read` is what it says of
// itself, held to the target. False: `why` says what went wrong: for a source that does not compile
// the lines concerned and where a file to repeat it lies.
bool tfr_nvrtc_compile(tfr_arena *arena, const tfr_nvrtc *nvrtc, const tfr_cuda_target *target,
                       tfr_str source, tfr_str *binary, tfr_cubin *read, char *why,
                       size_t why_size);

#endif
