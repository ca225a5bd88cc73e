// The kernels of one op at run time: the generic build, and what has been compiled for the dtypes,
// options and widths that calls brought. Knows jit/ and the ABI of kernels, not torch.
#ifndef TFR_OP_KERNELS_H
#define TFR_OP_KERNELS_H

#include "jit/jit.h"
#include "rewriter/kernels.h"

// Which kernel served a call; also the words of TFR_FORCE.
typedef enum tfr_path { TFR_PATH_GENERIC, TFR_PATH_JIT, TFR_PATH_TORCH, TFR_PATH_ATEN } tfr_path;

typedef struct tfr_op_kernels tfr_op_kernels;

#define TFR_MAX_WIDTHS 2
#define TFR_POLL_NS INT64_C(20000000) // how often a call asks whether the compiler is done

// What a kernel is compiled for, as far as calls of one op differ.
typedef struct tfr_op_key {
    uint64_t dtypes; // of the inputs, two bits each; norm and act above
    int64_t widths[TFR_MAX_WIDTHS];
} tfr_op_key;

static inline bool tfr_op_key_equal(const tfr_op_key *a, const tfr_op_key *b) {
    return a->dtypes == b->dtypes && a->widths[0] == b->widths[0] && a->widths[1] == b->widths[1];
}

// The kernels of one op for CUDA devices (device_kernels.c).
typedef struct tfr_device_kernels {
    _Atomic(struct tfr_device_entry *) entries;
} tfr_device_kernels;

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

// The steps of choosing, for device_kernels.c, which has kernels of its own. The generic build with
// the call's options set plans every call; NULL: c->error says why not.
const tfr_kernel *tfr_op_kernels_generic(const tfr_op_kernels *op, tfr_call *c, int64_t norm,
                                         int64_t act);
const char *tfr_op_kernels_plan(const tfr_kernel *kernel, tfr_call *c); // NULL, or why not
tfr_op_key tfr_op_kernels_key(const tfr_op_kernels *op, const tfr_call *c, int64_t norm,
                              int64_t act);
// What a call asks for; empty where the template is missing. `target`: as in tfr_jit_request.
tfr_jit_request tfr_op_kernels_request(const tfr_op_kernels *op, const tfr_call *c, int64_t norm,
                                       int64_t act, tfr_str target, tfr_arena *arena);
tfr_jit_mode tfr_op_kernels_mode(const tfr_op_kernels *op);
tfr_device_kernels *tfr_op_kernels_on_device(tfr_op_kernels *op);
int64_t tfr_now_ns(void);

// What TFR_FORCE asks for this op; false: nothing.
bool tfr_op_kernels_forced(const tfr_op_kernels *op, tfr_path *path);

#endif
