// Aten programs: what a reference computes as a flat list of calls of torch's own ops. Where no
// kernel can be used, runtime/aten_calls.c runs one through torch's dispatcher, also where no
// Python runs. Made from the graph that the rules are matched by, when the kernels are listed: that
// takes microseconds, works for users' rules, and leaves no generated table to keep. Knows names
// and schemas (aten.def), no torch.
#ifndef TFR_ATEN_H
#define TFR_ATEN_H

#include "rewriter/rules.h"

#define TFR_ATEN_MAX_PARAMETERS 8
#define TFR_ATEN_MAX_STEPS 128
#define TFR_ATEN_MAX_NORMS 32
#define TFR_ATEN_MAX_ACTS 16

// dtypes that references name: X(path, the shim's name for it)
#define TFR_ATEN_DTYPES(X)                                                                         \
    X("torch.float32", float32)                                                                    \
    X("torch.bfloat16", bfloat16)                                                                  \
    X("torch.float16", float16)                                                                    \
    X("torch.float64", float64)

typedef enum tfr_aten_value_kind {
    TFR_AV_NONE,
    TFR_AV_STEP,     // result of steps[index]
    TFR_AV_TENSOR,   // the call's tensor `index`
    TFR_AV_ARGUMENT, // the call's number `index`
    TFR_AV_NUMBER,   // number
    TFR_AV_BOOL,     // number: 0 or 1
    TFR_AV_DTYPE,    // TFR_ATEN_DTYPES by index
    TFR_AV_TEXT,     // text
    TFR_AV_LIST,     // values[index] .. values[index + count - 1]
    TFR_AV_SIZES,    // in a list: the sizes of the tensor values[index] but the last `count`
} tfr_aten_value_kind;

typedef struct tfr_aten_value {
    tfr_aten_value_kind kind;
    uint32_t index, count;
    double number;
    const char *text;
} tfr_aten_value;

typedef enum tfr_aten_type {
    TFR_AT_TENSOR,
    TFR_AT_INT,
    TFR_AT_FLOAT,
    TFR_AT_BOOL,
    TFR_AT_DTYPE,
    TFR_AT_TEXT,
    TFR_AT_SCALAR,
    TFR_AT_OTHER, // only ever None
} tfr_aten_type;

typedef struct tfr_aten_parameter {
    tfr_aten_type type;
    bool list, optional;
    tfr_str fallback; // the default, as the schema writes it; empty: none
} tfr_aten_parameter;

typedef enum tfr_aten_how { TFR_ATEN_CALL, TFR_ATEN_ADD, TFR_ATEN_SUB, TFR_ATEN_POW } tfr_aten_how;

// A row of aten.def.
typedef struct tfr_aten_op {
    const char *name, *overload; // "aten::mean", "dim"
    tfr_aten_how how;
    tfr_aten_parameter parameters[TFR_ATEN_MAX_PARAMETERS];
    uint32_t count;
} tfr_aten_op;

typedef enum tfr_aten_step_kind {
    TFR_AS_CALL,     // an aten op: a tensor
    TFR_AS_ACT,      // (tensor): the activation that the call names
    TFR_AS_NORM,     // (tensor, weight or None, eps): the norm that the call names
    TFR_AS_SELECT,   // (condition, tensor if so, tensor if not)
    TFR_AS_SIZE,     // (tensor, dimension): an integer, as all that follow
    TFR_AS_DTYPE,    // (tensor)
    TFR_AS_IN,       // (value, list): 0 or 1
    TFR_AS_ADD,      // (a, b)
    TFR_AS_SUB,      // (a, b)
    TFR_AS_MUL,      // (a, b)
    TFR_AS_FLOORDIV, // (a, b)
} tfr_aten_step_kind;

typedef struct tfr_aten_step {
    tfr_aten_step_kind kind;
    const tfr_aten_op *op; // of TFR_AS_CALL
    uint32_t first, count; // arguments: values[first ...]; of a call one for each parameter
    uint32_t last; // the last step that reads its result; the number of steps: it is given out
} tfr_aten_step;

typedef struct tfr_aten_program {
    const tfr_aten_step *steps;
    const tfr_aten_value *values, *results;
    uint32_t step_count, result_count;
    const char *const *tensors, *const *numbers; // names of the inputs, for printing
    uint32_t tensor_count, number_count;
    const struct tfr_aten_parts *parts; // what acts and norms are taken from
} tfr_aten_program;

// What a number given with a call stands for. A norm's program takes x and weight, and eps; an
// activation's takes x. NULL: that one cannot be written as a program.
typedef struct tfr_aten_parts {
    const tfr_aten_program *norms[TFR_ATEN_MAX_NORMS], *acts[TFR_ATEN_MAX_ACTS];
    const char *act_names[TFR_ATEN_MAX_ACTS];
    uint32_t act_count;
} tfr_aten_parts;

// The program of a reference; of siblings, for `modules` modules. Its inputs are the tensors and
// numbers of the reference's torch op (kernels.h), in order. NULL: *why says, for the user, what it
// uses that aten.def does not have. `parts` is only kept.
const tfr_aten_program *tfr_aten_program_new(const tfr_rule *rule, uint32_t modules,
                                             const tfr_aten_parts *parts, tfr_arena *arena,
                                             const char **why);

// Fills in the activations, from acts.py.
void tfr_aten_read_acts(tfr_aten_parts *parts, const tfr_rules *rules, tfr_arena *arena);

// One line for each step: "%3 = mean.dim(%2, [-1], True, None)", and what is returned.
void tfr_aten_print(tfr_buf *out, const tfr_aten_program *program);

#endif
