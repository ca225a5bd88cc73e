// Kernels: generated source in; a loaded kernel of this machine's processor or the code of a CUDA
// kernel out, by way of the cache on disk and a compiler. Thread-safe; knows no torch and no op,
// and never calls the CUDA driver. Nothing here prints: a fault becomes one warning, kept for the
// caller, and NULL, upon which the caller runs what stands in for the kernel.
#ifndef TFR_JIT_H
#define TFR_JIT_H

#include "codegen_templates/kernel.h"
#include "runtime/arena.h"
#include "runtime/error.h"

// TFR_JIT. Async: compile in a background thread, NULL until it is ready. Off: always NULL.
typedef enum tfr_jit_mode { TFR_JIT_ASYNC, TFR_JIT_SYNC, TFR_JIT_OFF } tfr_jit_mode;

typedef enum tfr_jit_origin {
    TFR_JIT_FROM_NOWHERE, // not there (yet)
    TFR_JIT_FROM_MEMORY,  // loaded by an earlier call of this process
    TFR_JIT_FROM_DISK,
    TFR_JIT_COMPILED,
} tfr_jit_origin;

// What one kernel was asked for as, for messages, `cache ls` and `cache why`.
// "rms_norm.cast_then_weight ORDER=CAST_WEIGHT X_DTYPE=TFR_BF16 X_LAST=1024"
// The label is stored in the entry, but is no part of the key.
typedef struct tfr_jit_request {
    tfr_str label, source;
    tfr_str target; // "sm_90a" or "compute_90", a name of jit/target.h; empty: this machine's CPU
} tfr_jit_request;

// The kernel of a request without a CUDA target, loaded and checked; it stays loaded until the
// process ends. NULL: use the generic build. `origin` may be NULL.
const tfr_kernel *tfr_jit_kernel(const tfr_jit_request *request, tfr_jit_mode mode,
                                 tfr_jit_origin *origin);

// One CUDA kernel as the driver takes it. Lives until the process ends.
typedef struct tfr_device_code {
    tfr_str binary;     // a cubin; for a compute_ target PTX text, with a NUL behind its length
    const char *entry;  // the kernel's name: "tfr_rms_norm"
    uint32_t registers; // per thread; 0: PTX does not say
    uint32_t shared_bytes, block; // static shared memory; threads, of __launch_bounds__
} tfr_device_code;

// The same for a request with a CUDA target. NULL: there is none (yet).
const tfr_device_code *tfr_jit_device_code(const tfr_jit_request *request, tfr_jit_mode mode,
                                           tfr_jit_origin *origin);

// Compiles what the cache lacks, for any targets, with `jobs` compilers at once (0: as many as
// CPUs), for `tfrewrite warmup`: nothing is loaded. `progress` (may be NULL) is called from this
// thread after each. Gives how many were compiled, found and failed; `err` has the first failure.
typedef struct tfr_jit_counts {
    size_t compiled, found, failed;
} tfr_jit_counts;
tfr_status tfr_jit_warm(const tfr_jit_request *requests, size_t count, int jobs,
                        void (*progress)(void *context, size_t done, size_t count, tfr_str label),
                        void *context, tfr_jit_counts *out, tfr_error *err);

// Whether a kernel is being compiled, or waits to be, in the background.
bool tfr_jit_busy(void);

// Waits until nothing is being compiled in the background.
void tfr_jit_wait(void);

// Takes the oldest warning not yet taken; false: there is none. Each fault warns once a process.
bool tfr_jit_take_warning(char *out, size_t size);

// TFR_JIT and the other variables are read at the first call; tests may ask for it again.
tfr_jit_mode tfr_jit_mode_from_environment(tfr_error *err);

#endif
