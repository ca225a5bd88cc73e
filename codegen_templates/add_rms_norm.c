// add_rms_norm: s = residual + x and its RMS norm, every order of rules/rms_norm.py.
//
// in: x, residual: one shape [..., D], anywhere in memory; norm_weight [D] or absent. number: the
// norm's eps. out: norm(s), then s; s in torch's promotion of the two, norm(s) as rms_norm.c has
// it. Must move: x and residual in, norm(s) and s out, and the weight once; s is read back from the
// first cache where a row of it fits there.
// Work: one unit is one row. The weight's factors are made once per call of run.
// Rounding: s to its dtype, and the norm reads what was rounded; then as rms_norm.c.
#include "codegen_templates/lay.h"
#include "codegen_templates/norm_rows.h"

enum { TFR_NORM_VALUES(TFR_VALUE_ENUM) };

#ifndef ORDER
#define ORDER (c->option[0])
#endif
#ifndef X_DTYPE
#define X_DTYPE (c->in[0].dtype)
#endif
#ifndef RESIDUAL_DTYPE
#define RESIDUAL_DTYPE (c->in[1].dtype)
#endif
#ifndef NORM_WEIGHT_DTYPE
#define NORM_WEIGHT_DTYPE (c->in[2].dtype)
#endif
#ifndef X_LAST
#define X_LAST tfr_last(&c->in[0])
#endif
#define SUM_DTYPE tfr_promote(X_DTYPE, RESIDUAL_DTYPE)

enum { GRAIN = 1 << 15 }; // elements

static int tfr_plan(tfr_call *c) {
    const tfr_array *x = &c->in[0], *residual = &c->in[1], *weight = &c->in[2];
    const tfr_array *of[] = {residual, x};
    if (x->ndim == 0 || x->ndim != residual->ndim)
        return tfr_refuse(c, "add_rms_norm: x and residual differ in shape");
    for (int i = 0; i < x->ndim; i++)
        if (x->size[i] != residual->size[i])
            return tfr_refuse(c, "add_rms_norm: x and residual differ in shape");
    int64_t width = tfr_last(x);
    if (tfr_norm_has_weight(ORDER) &&
        (weight->dtype == TFR_NONE || weight->ndim != 1 || weight->size[0] != width))
        return tfr_refuse(c, "add_rms_norm: the weight is not [D] for x [..., D]");
    tfr_out_of(&c->out[1], of, 2);
    tfr_out_like(&c->out[0], &c->out[1], tfr_norm_result(ORDER, SUM_DTYPE, NORM_WEIGHT_DTYPE));
    c->units = width ? tfr_rows(x) : 0;
    c->grain = 1 + GRAIN / (width + 1);
    c->scratch = tfr_norm_factor_bytes(width);
    return 0;
}

// Elements i .. i + n - 1, n <= 8, of the sum, rounded to `to`.
TFR_INLINE tfr_v8 add_8(const void *x, const void *residual, void *sum, int64_t i, int64_t n,
                        int x_dtype, int residual_dtype) {
    int to = tfr_promote(x_dtype, residual_dtype);
    tfr_v8 s;
    if (n < 8) {
        s = tfr_load_part(residual, i, n, residual_dtype) + tfr_load_part(x, i, n, x_dtype);
        s = tfr_round(s, to);
        tfr_store_part(sum, i, n, s, to);
    } else {
        s = tfr_round(tfr_load(residual, i, residual_dtype) + tfr_load(x, i, x_dtype), to);
        tfr_store(sum, i, s, to);
    }
    return s;
}

// Elements i .. i + 15 of bf16, in any order of their own.
TFR_INLINE void add_pair(const void *x, const void *residual, void *sum, int64_t i, tfr_v8 *s) {
    tfr_v8 a[2], b[2];
    tfr_load_pair(residual, i, &a[0], &a[1]);
    tfr_load_pair(x, i, &b[0], &b[1]);
    s[0] = tfr_round_own(a[0] + b[0], TFR_BF16);
    s[1] = tfr_round_own(a[1] + b[1], TFR_BF16);
    tfr_store_pair(sum, i, (tfr_u8)s[0], (tfr_u8)s[1]);
}

// Stores the sum of a row and returns the sum of its squares, in blocks as tfr_norm_squares.
TFR_INLINE float add_as(const void *x, const void *residual, void *sum, int64_t n, int x_dtype,
                        int residual_dtype) {
    tfr_v8 total = {0};
    int64_t i = 0;
    do {
        tfr_v8 squares[4] = {{0}, {0}, {0}, {0}}, s[4];
        int64_t end = n - i < 2048 ? n : i + 2048;
        for (; i + 32 <= end; i += 32) {
            if (tfr_promote(x_dtype, residual_dtype) == TFR_BF16) {
                add_pair(x, residual, sum, i, &s[0]);
                add_pair(x, residual, sum, i + 16, &s[2]);
            } else {
                for (int k = 0; k < 4; k++)
                    s[k] = add_8(x, residual, sum, i + 8 * k, 8, x_dtype, residual_dtype);
            }
            for (int k = 0; k < 4; k++)
                squares[k] += s[k] * s[k];
        }
        for (; i < end; i += 8) {
            s[0] = add_8(x, residual, sum, i, end - i < 8 ? end - i : 8, x_dtype, residual_dtype);
            squares[0] += s[0] * s[0];
        }
        total += (squares[0] + squares[2]) + (squares[1] + squares[3]);
    } while (i < n);
    return tfr_sum(total);
}

// One loop for each pair of dtypes; with macros only one of them is compiled.
TFR_INLINE float add(const void *x, const void *residual, void *sum, int64_t n, int x_dtype,
                     int residual_dtype) {
    if (x_dtype == TFR_F32 && residual_dtype == TFR_F32)
        return add_as(x, residual, sum, n, TFR_F32, TFR_F32);
    if (x_dtype == TFR_F32)
        return add_as(x, residual, sum, n, TFR_F32, TFR_BF16);
    if (residual_dtype == TFR_F32)
        return add_as(x, residual, sum, n, TFR_BF16, TFR_F32);
    return add_as(x, residual, sum, n, TFR_BF16, TFR_BF16);
}

static const char *row_of(const tfr_array *a, int64_t row, int dtype) {
    return (const char *)a->data + tfr_row(a, row) * tfr_size_of(dtype);
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    const tfr_array *x = &c->in[0], *residual = &c->in[1], *out = &c->out[0], *sum = &c->out[1];
    const int64_t width = X_LAST;
    const tfr_norm_dtypes t = tfr_norm_dtypes_of(ORDER, SUM_DTYPE, NORM_WEIGHT_DTYPE);
    const float *factor = tfr_norm_factors(scratch, &c->in[2], NORM_WEIGHT_DTYPE, width, ORDER, t);
    const float eps = (float)c->number[0];
    for (int64_t row = begin; row < end; row++) {
        char *s = (char *)row_of(sum, row, t.x);
        float squares = add(row_of(x, row, X_DTYPE), row_of(residual, row, RESIDUAL_DTYPE), s,
                            width, X_DTYPE, RESIDUAL_DTYPE);
        float root = tfr_norm_root(squares, width, eps, ORDER, t.x);
        tfr_norm_scale(s, root, factor, width, (char *)row_of(out, row, t.result), t);
    }
}

// x, residual, the norm, the sum; the weight. A unit is a row here as there.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    const tfr_array *of[] = {&c->in[0], &c->in[1], &c->out[0], &c->out[1]};
    l->units = c->units;
    return tfr_lay_part(l, of, 4) ||
           (tfr_norm_has_weight(ORDER) && tfr_lay_flat(l, 0, &c->in[2], tfr_last(&c->in[0])));
}

TFR_DEVICE_KERNEL("ORDER", TFR_NORM_VALUES)
