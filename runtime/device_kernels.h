// The CUDA kernels of one op at run time: what has been compiled and loaded for the dtypes,
// options, widths and devices that calls brought. Knows jit/ and the driver, not torch.
#ifndef TFR_DEVICE_KERNELS_H
#define TFR_DEVICE_KERNELS_H

#include "runtime/driver.h"
#include "runtime/op_kernels.h"

// The kernel for a planned call on a device. NULL: there is none (yet): it is being compiled, waits
// for all ranks (tfr_device_adopt), must not be compiled or loaded during a capture, or cannot be
// had, as a warning has said. `capturing`: asks whether the stream is being captured; called before
// anything is compiled or loaded, never on the usual way.
const tfr_driver_kernel *tfr_device_kernels_get(tfr_op_kernels *op, const tfr_call *c, int64_t norm,
                                                int64_t act, int32_t device,
                                                bool (*capturing)(void *context), void *context);

// With several ranks (WORLD_SIZE > 1) and TFR_JIT=async, kernels that calls have asked for are used
// from this call on, and not before: ranks call it at the same step, after tfr_jit_wait. So no rank
// computes with a kernel what another computes with the fallback.
void tfr_device_adopt(void);

#endif
