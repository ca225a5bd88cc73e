// What every kernel template and its caller agree on. Templates and runtime/ include it; a
// generated source holds its text. It must know no single op.
//
// A template defines `tfr_plan` and `tfr_run` and ends with TFR_KERNEL. What it is specialised for
// reaches it as macros, each with a default that reads the call instead, so that the same text
// compiled without any macro is the generic build of every specialisation at once:
//
//     #ifndef ORDER              an option, from kernel="ORDER=CAST_WEIGHT" of the rule's @ref
//     #define ORDER (c->option[0])
//     #endif
//     #ifndef X_DTYPE            TFR_F32 or TFR_BF16 for each tensor parameter, in capitals;
//     #define X_DTYPE (c->in[0].dtype)            TFR_NONE: an optional tensor that is absent
//     #endif
//     #ifndef X_LAST             the last size of the parameters in the op's `specialize=`
//     #define X_LAST (c->in[0].size[c->in[0].ndim - 1])
//     #endif
#ifndef TFR_KERNEL_H
#define TFR_KERNEL_H

#include "codegen_templates/device.h"

#define TFR_KERNEL_ABI 2
#define TFR_MAX_DIMS 8
#define TFR_MAX_INPUTS 17 // x and eight weights with their biases
#define TFR_MAX_OUTPUTS 8
#define TFR_MAX_OPTIONS 4
#define TFR_MAX_NUMBERS TFR_DEVICE_NUMBERS

// A strided array. Sizes and strides are in elements. Inputs have stride 1 in their last dimension
// (the caller copies others); outputs get their sizes, strides and dtype from the plan.
typedef struct tfr_array {
    void *data; // NULL: absent
    int32_t dtype, ndim;
    int64_t size[TFR_MAX_DIMS], stride[TFR_MAX_DIMS];
} tfr_array;

typedef struct tfr_call {
    int32_t option[TFR_MAX_OPTIONS]; // in the order of TFR_OPTION_NAMES
    int32_t input_count, output_count;
    double number[TFR_MAX_NUMBERS]; // float and int arguments, in the schema's order
    // Set by the plan:
    int64_t units;     // independent pieces of work; 0: nothing to do
    int64_t grain;     // fewer pieces than that are not worth another thread
    int64_t scratch;   // bytes of memory that each call of `run` needs, aligned to 64
    const char *error; // why the plan failed, for the user
    tfr_array in[TFR_MAX_INPUTS], out[TFR_MAX_OUTPUTS];
} tfr_call;

// How a CUDA kernel of the op (its .cu template) finds the arrays of a planned call: see device.h.
typedef struct tfr_layout {
    int32_t part_count, array_count; // array_count: of each part
    // Views with the same leading dimensions (all but the last) within a part, stride 0 where one
    // repeats, in the order in which the kernel numbers them.
    tfr_array rows[TFR_DEVICE_PARTS][TFR_DEVICE_ARRAYS];
    const tfr_array *flat[TFR_DEVICE_FLATS]; // one-dimensional and dense; NULL: absent
    int64_t units;                           // 0: nothing to do
} tfr_layout;

typedef struct tfr_kernel {
    uint32_t abi;
    // 0, or not 0 with c->error set: the arguments do not fit together.
    int (*plan)(tfr_call *c);
    // Does the pieces begin <= i < end. Called by several threads at once on one call.
    void (*run)(const tfr_call *c, int64_t begin, int64_t end, void *scratch);
    // After plan, with memory for the outputs. Not 0: a CUDA kernel cannot do this call. NULL: the
    // op has none.
    int (*lay)(const tfr_call *c, tfr_layout *out);
    const char *options; // "ORDER ROOT": the names of c->option, with spaces between
    const char *values;  // "CAST_WEIGHT WEIGHT_CAST ...": what they may be, numbered from 0
} tfr_kernel;

// For plans: small code, which compiles in half the time.
#define TFR_HELPER static inline __attribute__((unused, cold))

// ------------------------------------------------------------------ for plans
TFR_HELPER int tfr_refuse(tfr_call *c, const char *why) {
    c->error = why;
    return 1;
}

TFR_INLINE int64_t tfr_last(const tfr_array *a) { return a->ndim ? a->size[a->ndim - 1] : 1; }

// How many rows (runs of the last dimension) an array has.
TFR_INLINE int64_t tfr_rows(const tfr_array *a) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < a->ndim; i++)
        rows *= a->size[i];
    return rows;
}

// Whether an array has no gaps and no overlaps, in any order of its dimensions: the strides of
// dimensions of size 1 do not count.
TFR_HELPER int tfr_is_dense(const tfr_array *a) {
    int64_t want = 1;
    int left = 0;
    for (int i = 0; i < a->ndim; i++) {
        left += a->size[i] != 1;
        if (a->size[i] == 0)
            return 1;
    }
    while (left--) {
        int i = 0;
        while (i < a->ndim && (a->size[i] == 1 || a->stride[i] != want))
            i++;
        if (i == a->ndim)
            return 0;
        want *= a->size[i];
    }
    return 1;
}

TFR_HELPER int tfr_is_contiguous(const tfr_array *a) {
    int64_t want = 1;
    int yes = 1;
    for (int i = a->ndim; i-- > 0;) {
        if (a->size[i] == 0)
            return 1;
        yes &= a->size[i] == 1 || a->stride[i] == want;
        want *= a->size[i];
    }
    return yes;
}

TFR_HELPER void tfr_dense_strides(tfr_array *a) {
    int64_t stride = 1;
    for (int i = a->ndim; i-- > 0;) {
        a->stride[i] = stride;
        stride *= a->size[i] > 0 ? a->size[i] : 1;
    }
}

// > 0: in memory, dimension i lies outside dimension j, by the strides of the operands; 0: nothing
// decides. The rules of torch's TensorIterator: the first operand that repeats in neither decides.
TFR_HELPER int tfr_outside(const tfr_array *out, const tfr_array *const *of, int count, int i,
                           int j) {
    for (int n = 0; n < count; n++) {
        int shift = out->ndim - of[n]->ndim, a = i - shift, b = j - shift;
        if (a < 0 || b < 0 || of[n]->size[a] != out->size[i] || of[n]->size[b] != out->size[j])
            continue;
        int64_t by = of[n]->stride[a] - of[n]->stride[b];
        if (of[n]->stride[a] == 0 || of[n]->stride[b] == 0)
            continue;
        if (by != 0)
            return by > 0 ? 1 : -1;
        if (out->size[i] > out->size[j])
            return 1;
    }
    return 0;
}

// Whether the strides of one operand alone decide the order of the dimensions: wherever it ties,
// the order does not matter.
TFR_HELPER int tfr_decides(const tfr_array *a) {
    int yes = 1;
    for (int i = 0; i < a->ndim; i++) {
        yes &= a->stride[i] != 0;
        for (int j = 0; j < i; j++)
            yes &= a->stride[i] != a->stride[j] || (a->size[i] == 1 && a->size[j] == 1);
    }
    return yes;
}

// Gives `out`, whose sizes are set, dense strides in the order of the operands' strides. The two
// callers differ in what torch makes of a size of 0.
TFR_HELPER void tfr_strides_as(tfr_array *out, const tfr_array *const *of, int count,
                               int elementwise) {
    int order[TFR_MAX_DIMS] = {0}, n = out->ndim; // from the innermost outwards
    for (int i = 0; i < n; i++) {
        order[i] = n - 1 - i;
        for (int at = i, before = i - 1; before >= 0; before--) {
            int way = tfr_outside(out, of, count, order[before], order[at]);
            if (way < 0)
                break;
            if (way > 0) {
                int moved = order[at];
                order[at] = order[before];
                order[before] = moved;
                at = before;
            }
        }
    }
    int plain = !elementwise;
    for (int i = 0; i < n && order[i] == n - 1 - i; i++)
        plain |= i + 1 == n;
    int64_t stride = 1;
    for (int i = 0; i < n; i++) {
        out->stride[order[i]] = stride;
        stride *= out->size[order[i]] > 0 || !plain ? out->size[order[i]] : 1;
    }
}

// Makes `out` as torch's `like.to(dtype)`, which copies: its strides where it is dense.
TFR_HELPER void tfr_out_copy(tfr_array *out, const tfr_array *like, int32_t dtype) {
    tfr_array from = *like; // `out` may be `like`
    const tfr_array *of[] = {&from};
    *out = from;
    out->data = 0;
    out->dtype = dtype;
    if (!tfr_is_dense(&from))
        tfr_strides_as(out, of, 1, 0);
}

// Makes `out` as the result of an elementwise torch operation on several arrays, which broadcast
// and promote: its sizes, strides and dtype. Not 0: they do not fit. torch orders the dimensions
// by the first operand, and where that repeats or ties, by the next ones. (Not modelled: its memory
// format channels-last, which contiguous rows have only where they are one element wide.)
TFR_HELPER int tfr_out_of(tfr_array *out, const tfr_array *const *of, int count) {
    tfr_array as[3];
    const tfr_array *by[3];
    int same = 1, contiguous = 1, equal = 1;
    tfr_array r = {.dtype = TFR_NONE};
    if (count > 3)
        return 1;
    for (int n = 0; n < count; n++) {
        r.ndim = of[n]->ndim > r.ndim ? of[n]->ndim : r.ndim;
        r.dtype = tfr_promote(r.dtype, of[n]->dtype);
    }
    for (int i = 0; i < r.ndim; i++) {
        r.size[i] = 1;
        for (int n = 0; n < count; n++) {
            int from = i - (r.ndim - of[n]->ndim);
            int64_t size = from < 0 ? 1 : of[n]->size[from];
            if (size != 1 && r.size[i] != 1 && size != r.size[i])
                return 1;
            r.size[i] = size != 1 ? size : r.size[i];
        }
    }
    for (int n = 0; n < count; n++) {
        by[n] = of[n];
        if (of[n]->dtype != r.dtype) { // torch casts it first, in a copy
            tfr_out_copy(&as[n], of[n], r.dtype);
            by[n] = &as[n];
        }
        same &= by[n]->ndim == r.ndim;
        for (int i = 0; same && i < r.ndim; i++) {
            same &= by[n]->size[i] == r.size[i];
            equal &= by[n]->stride[i] == by[0]->stride[i];
        }
        contiguous &= tfr_is_contiguous(by[n]);
    }
    if (same && contiguous) {
        tfr_dense_strides(&r);
    } else if (same && equal && tfr_is_dense(by[0])) {
        for (int i = 0; i < r.ndim; i++)
            r.stride[i] = by[0]->stride[i];
    } else {
        tfr_strides_as(&r, by, count, 1);
    }
    *out = r;
    return 0;
}

// Makes `out` as the result of an elementwise torch operation on `like`: its sizes, and dense
// strides in the order of its strides.
TFR_HELPER void tfr_out_like(tfr_array *out, const tfr_array *like, int32_t dtype) {
    tfr_out_of(out, &like, 1);
    out->dtype = dtype;
}

// Makes `out` contiguous with the sizes of `like`, but `last` in the last dimension.
TFR_HELPER void tfr_out_dense(tfr_array *out, const tfr_array *like, int64_t last, int32_t dtype) {
    tfr_array r = *like; // `out` may be `like`
    r.data = 0;
    r.dtype = dtype;
    if (r.ndim)
        r.size[r.ndim - 1] = last;
    tfr_dense_strides(&r);
    *out = r;
}

// Views `a` with the leading dimensions of `to` (all but the last), repeating where `a` has size 1
// or no such dimension: stride 0. The last dimension stays as it is. Not 0: they do not fit.
TFR_HELPER int tfr_broadcast_rows(tfr_array *a, const tfr_array *to) {
    if (a->ndim > to->ndim || a->ndim == 0)
        return 1;
    int shift = to->ndim - a->ndim;
    for (int i = to->ndim; i-- > 0;) {
        int from = i - shift;
        int64_t size = from >= 0 ? a->size[from] : 1, stride = from >= 0 ? a->stride[from] : 0;
        if (i + 1 < to->ndim) {
            if (size != to->size[i] && size != 1)
                return 1;
            stride = size == to->size[i] ? stride : 0;
            size = to->size[i];
        }
        a->size[i] = size;
        a->stride[i] = stride;
    }
    a->ndim = to->ndim;
    return 0;
}

// ------------------------------------------------------------------ for runs
// Where row `row` of an array starts, in elements. Rows count in the order of the dimensions.
TFR_INLINE int64_t tfr_row(const tfr_array *a, int64_t row) {
    if (a->ndim <= 2)
        return a->ndim == 2 ? row * a->stride[0] : 0;
    int64_t at = 0;
    for (int i = a->ndim - 2; i > 0; i--) {
        int64_t next = row / a->size[i];
        at += (row - next * a->size[i]) * a->stride[i];
        row = next;
    }
    return at + row * a->stride[0];
}

// ------------------------------------------------------------------ the table at the end
#ifndef TFR_KERNEL_SYMBOL // a kernel on its own; the generic builds name theirs
#define TFR_KERNEL_SYMBOL tfr_kernel_entry
#define TFR_KERNEL_EXPORT __attribute__((visibility("default")))
#else
#define TFR_KERNEL_EXPORT
#endif

#define TFR_KERNEL_TABLE(lay, option_names, VALUES)                                                \
    extern TFR_KERNEL_EXPORT const tfr_kernel TFR_KERNEL_SYMBOL;                                   \
    const tfr_kernel TFR_KERNEL_SYMBOL = {                                                         \
        TFR_KERNEL_ABI, tfr_plan, tfr_run, lay, option_names, VALUES(TFR_VALUE_TEXT)};
#define TFR_KERNEL(option_names, VALUES) TFR_KERNEL_TABLE(0, option_names, VALUES)
// Of an op with a CUDA kernel: there is tfr_lay.
#define TFR_DEVICE_KERNEL(option_names, VALUES) TFR_KERNEL_TABLE(tfr_lay, option_names, VALUES)

#endif
