// add_layer_norm: s = residual + x and its layer norm, as rules/add_layer_norm.py.
//
// in: x, residual: [..., D], anywhere in memory, of one shape or repeating along leading
// dimensions; norm_weight, norm_bias [D] of s's dtype or absent. number: eps, and D as the norm
// knows it. out: norm(s), contiguous; with RESULTS=BOTH also s, in torch's promotion of the two.
// Must move: x and residual in, the results out, weight and bias once.
// Work: one unit is one row. The rounded sum stays in scratch memory as f32, which the two passes
// after the first read: the variance is that of what has the mean taken off, not a difference.
// Rounding: s to its dtype; then (s - mean) * root * weight + bias, and once to s's dtype.
#include "codegen_templates/lay.h"
#include "codegen_templates/vec.h"

#define VALUES(X) X(BOTH) X(NORM)
enum { VALUES(TFR_VALUE_ENUM) };

#ifndef RESULTS
#define RESULTS (c->option[0])
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
#ifndef NORM_BIAS_DTYPE
#define NORM_BIAS_DTYPE (c->in[3].dtype)
#endif
#ifndef X_LAST
#define X_LAST tfr_last(&c->in[0])
#endif
#define SUM_DTYPE tfr_promote(X_DTYPE, RESIDUAL_DTYPE)

enum { GRAIN = 1 << 15, BLOCK = 2048 }; // elements

static int fits(const tfr_array *a, int64_t width, int dtype) {
    return a->dtype == TFR_NONE || (a->dtype == dtype && a->ndim == 1 && a->size[0] == width);
}

static int tfr_plan(tfr_call *c) {
    const tfr_array *x = &c->in[0], *residual = &c->in[1], *of[] = {residual, x};
    int64_t width = tfr_last(x);
    tfr_array sum;
    if (x->ndim == 0 || residual->ndim == 0 || width != tfr_last(residual) ||
        tfr_out_of(&sum, of, 2))
        return tfr_refuse(c, "add_layer_norm: the rows of x and residual do not run in step");
    if ((double)width != c->number[1] || !fits(&c->in[2], width, sum.dtype) ||
        !fits(&c->in[3], width, sum.dtype))
        return tfr_refuse(c, "add_layer_norm: the norm is not of x's last dimension and dtype");
    if (RESULTS == BOTH)
        c->out[1] = sum;
    tfr_out_dense(&c->out[0], &sum, width, sum.dtype);
    c->units = width ? tfr_rows(&sum) : 0;
    c->grain = 1 + GRAIN / (width + 1);
    c->scratch = (width + 7) / 8 * 32;
    return 0;
}

// Elements i .. i + n - 1, n <= 8, of `p`; the other lanes are 0.
TFR_INLINE tfr_v8 load_8(const void *p, int64_t i, int64_t n, int dtype) {
    return n < 8 ? tfr_load_part(p, i, n, dtype) : tfr_load(p, i, dtype);
}

TFR_INLINE void store_8(void *p, int64_t i, int64_t n, tfr_v8 v, int dtype) {
    if (n < 8)
        tfr_store_part(p, i, n, v, dtype);
    else
        tfr_store(p, i, v, dtype);
}

// Elements i .. i + n - 1, n <= 8, of the rounded sum, to `row`, and to `sum` unless that is NULL.
TFR_INLINE tfr_v8 add_8(const void *x, const void *residual, void *sum, float *row, int64_t i,
                        int64_t n, int x_dtype, int residual_dtype) {
    const int to = tfr_promote(x_dtype, residual_dtype);
    tfr_v8 s = load_8(residual, i, n, residual_dtype) + load_8(x, i, n, x_dtype);
    s = tfr_round(s, to);
    if (sum)
        store_8(sum, i, n, s, to);
    tfr_store(row, i, s, TFR_F32);
    return s;
}

// Adds a row and returns its total times `unit`, a power of two that keeps it from overflowing.
TFR_INLINE float add_as(const void *x, const void *residual, void *sum, float *row, float unit,
                        int64_t n, int x_dtype, int residual_dtype) {
    tfr_v8 total = {0}, units = tfr_all(unit);
    for (int64_t i = 0; i < n;) { // in blocks: short sums, small errors
        tfr_v8 part[4] = {{0}, {0}, {0}, {0}};
        int64_t end = n - i < BLOCK ? n : i + BLOCK;
        for (; i + 32 <= end; i += 32)
            for (int k = 0; k < 4; k++)
                part[k] +=
                    units * add_8(x, residual, sum, row, i + 8 * k, 8, x_dtype, residual_dtype);
        for (; i + 8 <= end; i += 8)
            part[0] += units * add_8(x, residual, sum, row, i, 8, x_dtype, residual_dtype);
        if (i < end)
            part[1] += units * add_8(x, residual, sum, row, i, end - i, x_dtype, residual_dtype);
        i = end;
        total += (part[0] + part[2]) + (part[1] + part[3]);
    }
    return tfr_sum(total);
}

// One loop for each pair of dtypes; with macros only one of them is compiled.
TFR_INLINE float add(const void *x, const void *residual, void *sum, float *row, float unit,
                     int64_t n, int x_dtype, int residual_dtype) {
    if (x_dtype == TFR_F32 && residual_dtype == TFR_F32)
        return add_as(x, residual, sum, row, unit, n, TFR_F32, TFR_F32);
    if (x_dtype == TFR_F32)
        return add_as(x, residual, sum, row, unit, n, TFR_F32, TFR_BF16);
    if (residual_dtype == TFR_F32)
        return add_as(x, residual, sum, row, unit, n, TFR_BF16, TFR_F32);
    return add_as(x, residual, sum, row, unit, n, TFR_BF16, TFR_BF16);
}

// What elements i .. i + 7 of a row are without the mean, squared.
TFR_INLINE tfr_v8 squares_8(const float *row, tfr_v8 mean, int64_t i) {
    tfr_v8 v = tfr_load(row, i, TFR_F32) - mean;
    return v * v;
}

// The sum of those squares. Behind the row's end `row` has memory to the next eight.
TFR_INLINE float squares_of(float *row, float mean, int64_t n) {
    tfr_v8 total = {0}, means = tfr_all(mean);
    for (int64_t i = n; i < (n + 7) / 8 * 8; i++)
        row[i] = mean; // whose square is 0
    for (int64_t i = 0; i < n;) {
        tfr_v8 part[4] = {{0}, {0}, {0}, {0}};
        int64_t end = n - i < BLOCK ? n : i + BLOCK;
        for (; i + 32 <= end; i += 32)
            for (int k = 0; k < 4; k++)
                part[k] += squares_8(row, means, i + 8 * k);
        for (; i < end; i += 8)
            part[0] += squares_8(row, means, i);
        total += (part[0] + part[2]) + (part[1] + part[3]);
    }
    return tfr_sum(total);
}

// f32 in f64 up to the one rounding: torch, whose product and bias are one fused operation, is no
// more exact.
typedef float tfr_f4 __attribute__((vector_size(16)));
typedef double tfr_d4 __attribute__((vector_size(32)));

TFR_INLINE tfr_f4 load_4(const float *p) {
    tfr_f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

TFR_INLINE void scale_f32(const float *row, float mean, double root, const float *weight,
                          const float *bias, float *out, int64_t n) {
    const tfr_d4 roots = {root, root, root, root};
    const tfr_f4 means = {mean, mean, mean, mean};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        tfr_d4 v = __builtin_convertvector(load_4(row + i) - means, tfr_d4) * roots;
        if (weight)
            v *= __builtin_convertvector(load_4(weight + i), tfr_d4);
        if (bias)
            v += __builtin_convertvector(load_4(bias + i), tfr_d4);
        tfr_f4 y = __builtin_convertvector(v, tfr_f4);
        memcpy(out + i, &y, sizeof y);
    }
    for (; i < n; i++) {
        double v = (double)(row[i] - mean) * root * (weight ? (double)weight[i] : 1.0);
        out[i] = (float)(bias ? v + (double)bias[i] : v);
    }
}

TFR_INLINE void scale_8(const float *row, float mean, float root, const void *weight,
                        const void *bias, void *out, int64_t i, int64_t n) {
    tfr_v8 v = (tfr_load(row, i, TFR_F32) - tfr_all(mean)) * tfr_all(root);
    if (weight)
        v *= load_8(weight, i, n, TFR_BF16);
    if (bias)
        v += load_8(bias, i, n, TFR_BF16);
    store_8(out, i, n, v, TFR_BF16);
}

TFR_INLINE void scale_bf16(const float *row, float mean, double root, const void *weight,
                           const void *bias, void *out, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        scale_8(row, mean, (float)root, weight, bias, out, i, 8);
    if (i < n)
        scale_8(row, mean, (float)root, weight, bias, out, i, n - i);
}

static const void *row_of(const tfr_array *a, int64_t row, int dtype) {
    return (const char *)a->data + tfr_row(a, row) * tfr_size_of(dtype);
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    const tfr_array *out = &c->out[0];
    tfr_array x = c->in[0], residual = c->in[1];
    const void *weight = NORM_WEIGHT_DTYPE == TFR_NONE ? 0 : c->in[2].data;
    const void *bias = NORM_BIAS_DTYPE == TFR_NONE ? 0 : c->in[3].data;
    const int64_t width = X_LAST;
    float *row = scratch, unit = 1.0F;
    while (unit * (float)width > 1.0F)
        unit /= 2;
    (void)tfr_broadcast_rows(&x, out); // the plan has seen that they fit
    (void)tfr_broadcast_rows(&residual, out);
    for (int64_t r = begin; r < end; r++) {
        void *sum = RESULTS == BOTH ? (void *)row_of(&c->out[1], r, SUM_DTYPE) : 0;
        void *to = (void *)row_of(out, r, SUM_DTYPE);
        float total = add(row_of(&x, r, X_DTYPE), row_of(&residual, r, RESIDUAL_DTYPE), sum, row,
                          unit, width, X_DTYPE, RESIDUAL_DTYPE);
        float mean = total / (unit * (float)width);
        float squares = squares_of(row, mean, width);
        double root = 1.0 / __builtin_sqrt((double)squares / (double)width + c->number[0]);
        if (SUM_DTYPE == TFR_BF16)
            scale_bf16(row, mean, root, weight, bias, to, width);
        else
            scale_f32(row, mean, root, weight, bias, to, width);
    }
}

// x, residual, the norm, and the sum where it is kept; weight and bias.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    const tfr_array *with[] = {&c->in[0], &c->in[1], &c->out[0], &c->out[1]};
    l->units = c->units;
    if (tfr_lay_part(l, with, RESULTS == BOTH ? 4 : 3))
        return 1;
    for (int i = 0; i < 2; i++)
        if (c->in[2 + i].dtype != TFR_NONE && tfr_lay_flat(l, i, &c->in[2 + i], X_LAST))
            return 1;
    return 0;
}

TFR_DEVICE_KERNEL("RESULTS", VALUES)
