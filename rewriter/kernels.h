// The kernels that the rules declare: which torch op each reference with `kernel=` becomes, and
// what its arguments are. Data alone; runtime/ registers and runs them, `tfrewrite warmup`
// compiles.
#ifndef TFR_KERNELS_H
#define TFR_KERNELS_H

#include "rewriter/aten.h"

#define TFR_MAX_SIBLINGS 8

// A parameter of a reference expands by its kind: Tensor and Param to a tensor, Scalar to a float,
// Const to an int, Act to an int (the activation's number), Linear to weight and optional bias,
// LayerNorm to the optional weight and bias, the eps and the size that it normalises over,
// Norm to the optional weight, the eps and the number of the norm's own reference.
typedef enum tfr_argument_kind {
    TFR_A_TENSOR,
    TFR_A_OPTIONAL, // a tensor or None
    TFR_A_FLOAT,
    TFR_A_INT,
    TFR_A_NORM, // an int: which reference of rms_norm; its options join the kernel's
    TFR_A_ACT,  // an int: becomes the option ACT=<name>
} tfr_argument_kind;

typedef struct tfr_kernel_argument {
    const char *name;
    tfr_argument_kind kind;
    bool specialize; // a tensor whose last size is compiled in
} tfr_kernel_argument;

// One torch op, `tfr::<op>.<variant>`.
typedef struct tfr_kernel_op {
    const char *op, *variant;
    const char *schema; // "rms_norm.cast_then_weight(Tensor x, Tensor weight, float eps) -> Tensor"
    const char *options;       // "ORDER=CAST_WEIGHT"
    const char *template_name; // for the host; it also plans the calls of the CUDA kernel
    const char *cuda_template; // NULL: there is none
    const char *directory;     // of a user's rule file, where its template is; NULL: built in
    tfr_kernel_argument *arguments;
    uint32_t argument_count, output_count;
    uint32_t order;               // among the references of the op
    const tfr_aten_program *aten; // what runs without a kernel; NULL: none, as no_aten says
    const char *no_aten;
    bool is_siblings; // `variant` is "m<count>"
    bool is_linear;   // has arguments from a Linear: torch's own matmul is the other choice
} tfr_kernel_op;

typedef struct tfr_kernel_ops {
    TFR_LIST(tfr_kernel_op) ops;
    // Options of the references of rms_norm, by number; NULL: that one has no kernel.
    const char *norm_options[32];
    uint32_t norm_count;
} tfr_kernel_ops;

// Every op with a kernel, in the order of rule files and references. Strings live in `arena`.
void tfr_kernels_list(tfr_kernel_ops *out, const tfr_rules *rules, tfr_arena *arena);

// The op of one reference; of siblings, the one for `modules` modules. NULL: no kernel.
const tfr_kernel_op *tfr_kernels_find(const tfr_kernel_ops *ops, tfr_str op, tfr_str variant,
                                      uint32_t modules);

#endif
