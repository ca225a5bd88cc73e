// Runs an aten program: one slot for each step, released after the last step that reads it. A call
// gives its arguments away, so each tensor among them is a new handle.
#include "runtime/aten_calls.h"

#include <stdio.h>

#include "codegen_templates/acts.h"
#include "runtime/aten_lists.h"

_Static_assert(TFR_ACT_COUNT <= TFR_ATEN_MAX_ACTS, "acts.py has a row for each");

typedef struct frame {
    const tfr_aten_program *p;
    const tfr_aten_inputs *in;
    tfr_tensor tensors[TFR_ATEN_MAX_STEPS]; // NULL: not yet, no more, or the step is an integer
    int64_t integers[TFR_ATEN_MAX_STEPS];
} frame;

static _Thread_local char message[512];

static const char *failed(const char *op) {
    (void)snprintf(message, sizeof message, "%s: %s", op, tfr_torch_last_error());
    return message;
}

static void release(tfr_tensor *t) {
    if (*t)
        tfr_torch.aoti_torch_delete_tensor_object(*t);
    *t = NULL;
}

// ------------------------------------------------------------------ values
static int64_t dtype_number(uint32_t index) {
    int32_t (*const numbers[])(void) = {
#define NUMBER(path, name) tfr_torch.aoti_torch_dtype_##name,
        TFR_ATEN_DTYPES(NUMBER)
#undef NUMBER
    };
    return numbers[index]();
}

// Borrowed; NULL: None, or no tensor.
static tfr_tensor tensor_of(const frame *f, tfr_aten_value v) {
    return v.kind == TFR_AV_TENSOR ? f->in->tensors[v.index]
           : v.kind == TFR_AV_STEP ? f->tensors[v.index]
                                   : NULL;
}

static double number_of(const frame *f, tfr_aten_value v) {
    return v.kind == TFR_AV_ARGUMENT ? f->in->numbers[v.index] : v.number;
}

static int64_t integer_of(const frame *f, tfr_aten_value v) {
    return v.kind == TFR_AV_STEP    ? f->integers[v.index]
           : v.kind == TFR_AV_DTYPE ? dtype_number(v.index)
                                    : (int64_t)number_of(f, v);
}

// How many sizes TFR_AV_SIZES stands for, and where they are.
static int64_t sizes_of(const frame *f, tfr_aten_value v, int64_t **sizes) {
    tfr_tensor t = tensor_of(f, f->p->values[v.index]);
    int64_t ndim = 0;
    if (!t || tfr_torch.aoti_torch_get_dim(t, &ndim) || tfr_torch.aoti_torch_get_sizes(t, sizes))
        return 0;
    return ndim > v.count ? ndim - v.count : 0;
}

static bool is_missing(const frame *f, const tfr_aten_parameter *p, tfr_aten_value v) {
    return p->type == TFR_AT_TENSOR && !p->optional && v.kind == TFR_AV_TENSOR && !tensor_of(f, v);
}

// A new handle. A number becomes a tensor without dimensions, on the CPU: like a Python number it
// leaves the other operand's dtype alone (only floats come here), and kernels read its value.
static tfr_tensor make_tensor(const frame *f, tfr_aten_value v) {
    tfr_tensor given = tensor_of(f, v), made = NULL;
    if (given)
        tfr_torch.aoti_torch_new_tensor_handle(given, &made);
    else
        tfr_torch.aoti_torch_scalar_to_tensor_float64(number_of(f, v), &made);
    return made;
}

static tfr_value_bits make_one(const frame *f, const tfr_aten_parameter *p, tfr_aten_value v) {
    tfr_text text = NULL;
    tfr_value_bits bits = 0;
    double number;
    switch (p->type) {
    case TFR_AT_TENSOR:
        return tfr_torch_from_tensor(make_tensor(f, v));
    case TFR_AT_FLOAT:
        number = number_of(f, v);
        memcpy(&bits, &number, sizeof number);
        return bits;
    case TFR_AT_TEXT:
        tfr_torch.torch_new_string_handle(v.text, strlen(v.text), &text);
        return (tfr_value_bits)(uintptr_t)text;
    default:
        return (tfr_value_bits)integer_of(f, v);
    }
}

static tfr_value_bits make_argument(const frame *f, const tfr_aten_parameter *p, tfr_aten_value v) {
    if (v.kind == TFR_AV_NONE || (v.kind == TFR_AV_TENSOR && p->optional && !tensor_of(f, v)))
        return 0;
    tfr_list list = NULL;
    if (v.kind == TFR_AV_LIST)
        tfr_torch.torch_new_list_reserve_size(v.count, &list);
    for (uint32_t i = 0; i < v.count && list; i++) {
        tfr_aten_value item = f->p->values[v.index + i];
        int64_t count = 0, *sizes = NULL;
        if (item.kind == TFR_AV_SIZES)
            count = sizes_of(f, item, &sizes);
        else
            tfr_torch.torch_list_push_back(list, make_one(f, p, item));
        for (int64_t k = 0; k < count; k++)
            tfr_torch.torch_list_push_back(list, (tfr_value_bits)sizes[k]);
    }
    tfr_value_bits bits = list ? (tfr_value_bits)(uintptr_t)list : make_one(f, p, v);
    return p->optional ? tfr_torch_give_some(bits) : bits;
}

// ------------------------------------------------------------------ calls
static void flatten(const frame *f, tfr_aten_type type, tfr_aten_value v, tfr_flat_call *out) {
    uint32_t *count = type == TFR_AT_TENSOR ? &out->tensor_count : &out->integer_count;
    int64_t *sizes = NULL, rest = v.kind == TFR_AV_SIZES ? sizes_of(f, v, &sizes) : 0;
    for (int64_t i = 0; i < rest && *count < TFR_FLAT_MAX; i++)
        out->integers[(*count)++] = sizes[i];
    if (v.kind == TFR_AV_SIZES)
        return;
    if (v.kind == TFR_AV_NONE || *count == TFR_FLAT_MAX)
        return;
    if (type == TFR_AT_TENSOR)
        out->tensors[*count] = tensor_of(f, v);
    else
        out->integers[*count] = integer_of(f, v);
    ++*count;
}

static const char *call_without_lists(const frame *f, const tfr_aten_step *step, tfr_tensor *out) {
    const tfr_aten_value *args = f->p->values + step->first;
    tfr_flat_call flat = {.tensor_count = 0};
    for (uint32_t i = 0; i < step->count; i++) {
        tfr_aten_type type = step->op->parameters[i].type;
        if (args[i].kind != TFR_AV_LIST)
            flatten(f, type, args[i], &flat);
        for (uint32_t k = 0; k < args[i].count; k++)
            flatten(f, type, f->p->values[args[i].index + k], &flat);
    }
    bool needs_newer = flat.integer_count == TFR_FLAT_MAX || flat.tensor_count == TFR_FLAT_MAX;
    if (!needs_newer && tfr_aten_call_without_lists(step->op, &flat, out, &needs_newer))
        return NULL;
    return needs_newer ? "without a kernel it needs torch 2.10 or newer" : failed(step->op->name);
}

// What only torch 2.10 and newer can be given.
static bool has_lists(const tfr_aten_op *op) {
    for (uint32_t i = 0; i < op->count; i++)
        if (op->parameters[i].list || op->parameters[i].type == TFR_AT_TEXT)
            return true;
    return false;
}

static const char *dispatch(const frame *f, const tfr_aten_step *step, tfr_tensor *out) {
    const tfr_aten_op *op = step->op;
    tfr_value_bits stack[TFR_ATEN_MAX_PARAMETERS];
    if (!tfr_torch.torch_new_list_reserve_size && has_lists(op))
        return call_without_lists(f, step, out);
    for (uint32_t i = 0; i < op->count; i++)
        stack[i] = make_argument(f, &op->parameters[i], f->p->values[step->first + i]);
    if (!tfr_torch_call(op->name, op->overload, stack))
        return failed(op->name);
    *out = tfr_torch_to_tensor(stack[0]);
    return NULL;
}

static const char *add(const frame *f, const tfr_aten_step *step, tfr_tensor *out) {
    const tfr_aten_value *args = f->p->values + step->first;
    tfr_tensor other = make_tensor(f, args[1]);
    bool done =
        tfr_torch_add(tensor_of(f, args[0]), other, step->op->how == TFR_ATEN_ADD ? 1 : -1, out);
    release(&other);
    return done ? NULL : failed(step->op->name);
}

// On a GPU torch itself takes an exponent without dimensions for a number; on the CPU it does not.
static const char *power(const frame *f, const tfr_aten_step *step, tfr_tensor *out) {
    const tfr_aten_value *args = f->p->values + step->first;
    tfr_tensor base = tensor_of(f, args[0]);
    double exponent = number_of(f, args[1]);
    if (tfr_torch_is_cpu(base))
        return tfr_torch.aoti_torch_cpu_pow_Tensor_Scalar(base, exponent, out)
                   ? failed(step->op->name)
                   : NULL;
    tfr_value_bits stack[2] = {tfr_torch_from_tensor(make_tensor(f, args[0])),
                               tfr_torch_from_tensor(make_tensor(f, args[1]))};
    if (!tfr_torch_call("aten::pow", "Tensor_Tensor", stack))
        return failed(step->op->name);
    *out = tfr_torch_to_tensor(stack[0]);
    return NULL;
}

static const char *call(const frame *f, const tfr_aten_step *step, tfr_tensor *out) {
    for (uint32_t i = 0; i < step->count; i++)
        if (is_missing(f, &step->op->parameters[i], f->p->values[step->first + i]))
            return "a tensor is missing";
    switch (step->op->how) {
    case TFR_ATEN_CALL:
        return dispatch(f, step, out);
    case TFR_ATEN_ADD:
    case TFR_ATEN_SUB:
        return add(f, step, out);
    case TFR_ATEN_POW:
        break;
    }
    return power(f, step, out);
}

// ------------------------------------------------------------------ steps
static const char *run_part(const tfr_aten_program *part, const frame *f,
                            const tfr_aten_value *args, tfr_tensor *out) {
    tfr_tensor tensors[2] = {tensor_of(f, args[0]), NULL};
    double numbers[1] = {0};
    if (!part)
        return "its activation or norm has no torch operations";
    if (part->tensor_count > 1)
        tensors[1] = tensor_of(f, args[1]);
    if (part->number_count)
        numbers[0] = number_of(f, args[2]);
    tfr_aten_inputs in = {.tensors = tensors, .numbers = numbers};
    return tfr_aten_run(part, &in, out);
}

static const char *run_number(const frame *f, const tfr_aten_step *step,
                              const tfr_aten_program *const *parts, int64_t count, int64_t number,
                              tfr_tensor *out) {
    const tfr_aten_program *part = number >= 0 && number < count ? parts[number] : NULL;
    return run_part(part, f, f->p->values + step->first, out);
}

static const char *choose(const frame *f, const tfr_aten_value *args, tfr_tensor *out) {
    tfr_tensor chosen = tensor_of(f, args[integer_of(f, args[0]) ? 1 : 2]);
    if (!chosen)
        return "a tensor is missing";
    return tfr_torch.aoti_torch_new_tensor_handle(chosen, out) ? failed("a choice") : NULL;
}

static const char *size(const frame *f, const tfr_aten_value *args, int64_t *out) {
    int64_t ndim, *sizes, dim = integer_of(f, args[1]);
    tfr_tensor t = tensor_of(f, args[0]);
    if (!t || tfr_torch.aoti_torch_get_dim(t, &ndim) || tfr_torch.aoti_torch_get_sizes(t, &sizes))
        return "a tensor is missing";
    dim = dim < 0 ? dim + ndim : dim;
    if (dim < 0 || dim >= ndim)
        return "a tensor has too few dimensions";
    *out = sizes[dim];
    return NULL;
}

static bool is_in(const frame *f, const tfr_aten_value *args) {
    for (uint32_t i = 0; i < args[1].count; i++)
        if (integer_of(f, args[0]) == integer_of(f, f->p->values[args[1].index + i]))
            return true;
    return false;
}

static int64_t floor_divide(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static const char *compute(const frame *f, const tfr_aten_step *step, int64_t *out) {
    const tfr_aten_value *args = f->p->values + step->first;
    int64_t a = integer_of(f, args[0]), b = step->count > 1 ? integer_of(f, args[1]) : 0;
    int32_t dtype = 0;
    switch (step->kind) {
    case TFR_AS_SIZE:
        return size(f, args, out);
    case TFR_AS_DTYPE:
        if (!tensor_of(f, args[0]) || tfr_torch.aoti_torch_get_dtype(tensor_of(f, args[0]), &dtype))
            return "a tensor is missing";
        *out = dtype;
        return NULL;
    case TFR_AS_IN:
        *out = is_in(f, args);
        return NULL;
    case TFR_AS_ADD:
        *out = a + b;
        return NULL;
    case TFR_AS_SUB:
        *out = a - b;
        return NULL;
    case TFR_AS_MUL:
        *out = a * b;
        return NULL;
    case TFR_AS_FLOORDIV:
        if (b == 0)
            return "division by zero";
        *out = floor_divide(a, b);
        return NULL;
    default:
        return "unknown step";
    }
}

static const char *run_step(frame *f, uint32_t s) {
    const tfr_aten_step *step = &f->p->steps[s];
    const tfr_aten_parts *parts = f->p->parts;
    tfr_tensor *out = &f->tensors[s];
    switch (step->kind) {
    case TFR_AS_CALL:
        return call(f, step, out);
    case TFR_AS_ACT:
        return run_number(f, step, parts->acts, parts->act_count, f->in->act, out);
    case TFR_AS_NORM:
        return run_number(f, step, parts->norms, TFR_ATEN_MAX_NORMS, f->in->norm, out);
    case TFR_AS_SELECT:
        return choose(f, f->p->values + step->first, out);
    default:
        return compute(f, step, &f->integers[s]);
    }
}

const char *tfr_aten_run(const tfr_aten_program *program, const tfr_aten_inputs *in,
                         tfr_tensor *out) {
    frame f = {.p = program, .in = in};
    const char *why = NULL;
    for (uint32_t s = 0; s < program->step_count && !why; s++) {
        why = run_step(&f, s);
        for (uint32_t i = 0; i <= s; i++)
            if (program->steps[i].last <= s)
                release(&f.tensors[i]);
    }
    for (uint32_t i = 0; i < program->result_count; i++) {
        tfr_tensor result = why ? NULL : tensor_of(&f, program->results[i]);
        out[i] = NULL;
        if (!why && !result)
            why = "a tensor is missing";
        else if (!why && tfr_torch.aoti_torch_new_tensor_handle(result, &out[i]))
            why = failed("a result");
    }
    for (uint32_t i = 0; i < program->result_count && why; i++)
        release(&out[i]);
    for (uint32_t s = 0; s < program->step_count; s++)
        release(&f.tensors[s]);
    return why;
}
