// The kernels of one op at run time: the generic build, and what has been compiled for the dtypes,
// options and widths that calls brought. Knows jit/ and the ABI of kernels, not torch.
#ifndef TFR_OP_KERNELS_H
#define TFR_OP_KERNELS_H

#include "jit/jit.h"
#include "rewriter/kernels.h"

// Which kernel served a call; also the words of TFR_FORCE.
typedef enum tfr_path { TFR_PATH_GENERIC, TFR_PATH_JIT, TFR_PATH_TORCH } tfr_path;

typedef struct tfr_op_kernels tfr_op_kernels;

// `def` and what it points to must live for ever. NULL: there is no template, or its options do not
// match the rule's, as `err` says; or a user's template was not compiled: jit/ has warned, and
// `err` is left as it was.
tfr_op_kernels *tfr_op_kernels_new(const tfr_kernel_op *def, const tfr_kernel_ops *all,
                                   tfr_error *err);
const tfr_kernel_op *tfr_op_kernels_def(const tfr_op_kernels *op);

// Sets the call's options and gives the kernel for its inputs' dtypes and widths. `norm` and `act`
// are the numbers given for parameters of those kinds, 0 without. NULL: c->error says why not.
const tfr_kernel *tfr_op_kernels_choose(tfr_op_kernels *op, tfr_call *c, int64_t norm, int64_t act,
                                        tfr_path *path);

// What TFR_FORCE asks for this op; false: nothing.
bool tfr_op_kernels_forced(const tfr_op_kernels *op, tfr_path *path);

#endif
