// The CUDA driver, found by dlopen: kernels in, launches out. Works in the primary contexts, which
// are torch's, and on the streams that it is given. Never allocates on the device, never waits for
// it. Thread-safe. Knows no torch, no op and no cache.
#ifndef TFR_DRIVER_H
#define TFR_DRIVER_H

#include "jit/jit.h"
#include "jit/target.h"

#define TFR_MAX_DEVICES 64
#define TFR_DRIVER_MESSAGE 384u // enough for every message

typedef void *tfr_stream; // CUstream; NULL: the default stream

// NULL: the driver can be used. Else why not, as a sentence; found out once a process.
const char *tfr_driver_open(void);

// What kernels of this device are compiled for: sm_90a, or compute_120 where the device is
// newer than every row of target.def. TFR_CUDA_TARGET overrides it. NULL: `why` says why.
const tfr_cuda_target *tfr_driver_target(int32_t device, char *why);

// A kernel on one device, loaded for the rest of the process.
typedef struct tfr_driver_kernel {
    void *function;    // CUfunction of that device's primary context
    uint32_t block;    // threads
    uint32_t resident; // blocks that all of the device's multiprocessors hold at once
} tfr_driver_kernel;

// Loads a kernel, wholly: nothing is left to its first launch. Not during a capture. NULL: `why`
// says why.
const tfr_driver_kernel *tfr_driver_load(int32_t device, const tfr_device_code *code, char *why);

// Whether this stream is being captured into a graph. False in case of doubt.
bool tfr_driver_is_capturing(int32_t device, tfr_stream stream);

typedef enum tfr_launch_result {
    TFR_LAUNCHED,
    TFR_LAUNCH_REFUSED, // this launch alone: something else may run in its place
    TFR_LAUNCH_LOST,    // the context is lost: an earlier kernel of anybody failed
} tfr_launch_result;

// Launches with one argument, which is copied; the driver knows its size from the kernel. `units`,
// at least 1, bounds the grid: no more blocks than that, nor than are resident. `why` is set unless
// it was launched.
tfr_launch_result tfr_driver_launch(const tfr_driver_kernel *kernel, int32_t device,
                                    tfr_stream stream, int64_t units, const void *argument,
                                    char *why);

#endif
