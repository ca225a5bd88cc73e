// Warnings of jit/, kept until the caller takes them (tfr_jit_take_warning): one of each kind in
// the life of a process. Lock-free, so that any thread may warn at any time, also across fork.
#ifndef TFR_WARN_H
#define TFR_WARN_H

#include <stdbool.h>
#include <stddef.h>

typedef enum tfr_warning {
    TFR_WARN_VARIABLE,    // an environment variable has no sense
    TFR_WARN_ISA,         // TFR_HOST_ISA asks for what this CPU lacks
    TFR_WARN_FOLDER,      // there is no user's folder, or it is refused
    TFR_WARN_READ_ONLY,   // a folder of TFR_CACHE_RO is refused
    TFR_WARN_ENTRY,       // an entry was bad
    TFR_WARN_NOT_STORED,  // an entry could not be written
    TFR_WARN_NO_COMPILER, //
    TFR_WARN_NO_COMPILER_CUDA,
    TFR_WARN_COMPILER,      // it failed, or took too long
    TFR_WARN_COMPILER_CUDA, // likewise, NVRTC
    TFR_WARN_LOAD,          // the system refuses to load code
    TFR_WARN_DEVICE,        // a CUDA kernel cannot be used
    TFR_WARN_COUNT,
} tfr_warning;

// The first of its kind is kept, later ones are dropped. Returns whether it was the first.
bool tfr_warn(tfr_warning kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Takes the oldest; false: there is none.
bool tfr_warn_take(char *out, size_t size);

#endif
