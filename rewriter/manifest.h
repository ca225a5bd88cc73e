// Which kernels a model needs: the ops of its rewritten modeling file, with the sizes, dtypes and
// options that its configuration gives them. Reads text alone; no kernel is made here.
#ifndef TFR_MANIFEST_H
#define TFR_MANIFEST_H

#include "rewriter/config.h"
#include "rewriter/kernels.h"
#include "rewriter/rewrite.h"

// As TFR_NONE, TFR_F32, TFR_BF16 and TFR_F16 of codegen_templates/kernel.h.
typedef enum tfr_need_dtype {
    TFR_NEED_ABSENT = -1, // an optional tensor that is not given
    TFR_NEED_F32 = 0,
    TFR_NEED_BF16 = 1,
    TFR_NEED_F16 = 2, // CUDA alone has kernels for it
} tfr_need_dtype;

typedef struct tfr_need_tensor {
    const char *name; // as in the op's schema
    tfr_need_dtype dtype;
    int64_t last; // its last size; -1: not compiled in
} tfr_need_tensor;

typedef struct tfr_need {
    const tfr_kernel_op *op;
    const char *options; // "ORDER=CAST_WEIGHT ROOT=RSQRT ACT=SILU"
    tfr_need_tensor *tensors;
    uint32_t tensor_count;
} tfr_need;

// A call whose kernel is left to run time.
typedef struct tfr_unmet {
    tfr_str op, class_name, function; // class_name: "" at module level
    uint32_t line;                    // of the source as given
    tfr_str reason; // "the last size of x depends on: config.json has no head_dim"
} tfr_unmet;

typedef struct tfr_manifest {
    TFR_LIST(tfr_need) needs; // each once, in the order of the text
    TFR_LIST(tfr_unmet) unmet;
} tfr_manifest;

typedef struct tfr_manifest_options {
    tfr_options rewrite; // what is fused
    const tfr_kernel_ops *kernels;
    const tfr_json *config;
    const char *config_name; // for reasons: "config.json"
    const tfr_need_dtype *dtypes;
    size_t dtype_count;
} tfr_manifest_options;

// Rewrites `src` as `options->rewrite` says (calls that are there already count too) and adds what
// it needs to `out`, which may hold the needs of other files. What is added lives in `arena`.
tfr_status tfr_manifest_add(tfr_manifest *out, const tfr_source *src,
                            const tfr_manifest_options *options, tfr_arena *arena, tfr_error *err);

// "rms_norm.cast_then_weight ORDER=CAST_WEIGHT x:bf16[1024] weight:bf16"
void tfr_need_print(tfr_buf *out, const tfr_need *need);

#endif
