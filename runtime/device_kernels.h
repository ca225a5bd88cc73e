// The CUDA kernels of one op at run time: what has been compiled and loaded for the dtypes,
// options, widths and devices that calls brought. Knows jit/ and the driver, not torch.
#ifndef TFR_DEVICE_KERNELS_H
#define TFR_DEVICE_KERNELS_H

#include "runtime/driver.h"
#include "runtime/op_kernels.h"

typedef enum tfr_device_answer {
    TFR_DEVICE_READY,
    TFR_DEVICE_NOT_YET, // being compiled, or waiting for all ranks (tfr_device_adopt)
    TFR_DEVICE_COLD,    // it may not be compiled or loaded now: `capturing`
    TFR_DEVICE_NEVER,   // it cannot be had, as a warning has said; or TFR_JIT=off
} tfr_device_answer;

// The kernel for a planned call on a device. `capturing`: asks whether the stream is being
// captured; called before anything is compiled or loaded, never on the usual way.
tfr_device_answer tfr_device_kernels_get(tfr_op_kernels *op, const tfr_call *c, int64_t norm,
                                         int64_t act, int32_t device,
                                         bool (*capturing)(void *context), void *context,
                                         const tfr_driver_kernel **out);

// With several ranks (WORLD_SIZE > 1) and TFR_JIT=async, kernels that calls have asked for are used
// from this call on, and not before: ranks call it at the same step, after tfr_jit_wait. So no rank
// computes with a kernel what another computes with the fallback.
void tfr_device_adopt(void);

#endif
