// The call of `linear` and `linears` on a CUDA device.
#ifndef TFR_DEVICE_LINEAR_H
#define TFR_DEVICE_LINEAR_H

#include "runtime/op_call.h"

// As tfr_op_call_device. `*path`: "packed" (one matmul over weights that lie together) or "torch".
const char *tfr_linear_on_device(tfr_op_call *s, const char **path);

#endif
