// What went wrong in a compilation by NVRTC, for a person: the lines concerned, and a file to
// repeat it with. Knows no library.
#ifndef TFR_NVRTC_LOG_H
#define TFR_NVRTC_LOG_H

#include "runtime/arena.h"

#define TFR_NVRTC_SOURCE_NAME "kernel.cu" // of what stands before the first #line

typedef struct tfr_nvrtc_failure {
    const char *library; // its path
    int major, minor;    // its version
    tfr_str options, source, log;
    const char *fault; // what is wrong with the result; NULL: it did not compile
} tfr_nvrtc_failure;

// One line, never the whole source: messages with the source lines that they are about, library,
// options, and the path of a private file with source, options and log, which this writes.
void tfr_nvrtc_explain(tfr_arena *arena, const tfr_nvrtc_failure *failure, char *out, size_t size);

#endif
