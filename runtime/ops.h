// The ops as torch sees them, `torch.ops.tfr.<op>.<variant>`, and what tfrewrite's Python package
// asks of the library through ctypes. Strings given out live until the process ends.
#ifndef TFR_OPS_H
#define TFR_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TFR_EXPORT __attribute__((visibility("default")))

// Registers the op of every reference that has a kernel, built in or in one of `directories`
// (separated by ':'; NULL: none), which is not registered yet. Needs torch in the process. NULL,
// or the first fault, for the user; ops without a fault are registered all the same. Ops of a
// user's rule whose template does not compile stay away; the reason is a warning.
TFR_EXPORT const char *tfr_torch_register(const char *directories);

// "rms_norm\tcast_then_weight\nrms_norm\t...": the ops that are registered.
TFR_EXPORT const char *tfr_torch_registered(void);

// What served this thread's last op; "" before the first. On the CPU "generic", "jit" or "torch";
// on a CUDA device "cuda", "aten" (the rule's torch operations), "torch" or "packed" (matmuls).
TFR_EXPORT const char *tfr_torch_last_path(void);

// Takes the oldest warning; false: there is none.
TFR_EXPORT bool tfr_torch_take_warning(char *out, size_t size);

// For measuring linears (tfrewrite.measure). dtype: 0 float32, 1 bfloat16; rows: 0 one, 1 two to
// eight, 2 more; columns: of all modules together. `path`: 0 the kernel, 1 torch, -1 as stored.
TFR_EXPORT void tfr_torch_force_linear(int path); // of this thread, until it is called again
TFR_EXPORT bool tfr_torch_linear_known(int dtype, int rows, int64_t columns, int64_t width);
TFR_EXPORT bool tfr_torch_linear_default(int dtype, int rows, int64_t columns, int64_t width);
TFR_EXPORT void tfr_torch_linear_remember(int dtype, int rows, int64_t columns, int64_t width,
                                          bool torch);

// With several ranks and TFR_JIT=async: CUDA kernels that are ready are used from now on. To be
// called by all ranks at one step (runtime/device_kernels.h).
TFR_EXPORT void tfr_torch_adopt(void);

// NULL: CUDA kernels can be compiled for and launched on this device. Else why not. `target` (32
// bytes; may be NULL) gets what they are compiled for, "sm_90a".
TFR_EXPORT const char *tfr_torch_device_fault(int32_t device, char *target);

// For tests and measurements: calls `observer` before each launch (runtime/op_call.h).
TFR_EXPORT void tfr_torch_observe_launches(void (*observer)(const char *op, int32_t count,
                                                            void *const *data, const int64_t *bytes,
                                                            const int32_t *written));

// Waits until no kernel is being compiled in the background.
TFR_EXPORT void tfr_torch_wait(void);

#endif
