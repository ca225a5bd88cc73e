// What kernels with a rotary position embedding share: a walk over the rows of several arrays in
// the order of memory, the rotation of one pair of values, and the strides that torch gives
// `(x * cos) + (rotate_half(x) * sin)`. It must not know the other layouts of rules/rope.py, nor
// what comes before.
#ifndef TFR_ROPE_H
#define TFR_ROPE_H

#include "codegen_templates/norm.h"

#include "codegen_templates/norm.h"

// Lanes of two vectors by constant number: 0..7 are a's, 8..15 b's. GCC before 12 has another name.
#if defined(__clang__) || __GNUC__ >= 12
#define TFR_LANES(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TFR_LANES(a, b, ...) __builtin_shuffle(a, b, (tfr_i8){__VA_ARGS__})
#endif

// n elements of `p` from i on, 8 at most, into lanes 0 .. n - 1, and back. n <= 0: none.
TFR_INLINE tfr_v8 tfr_get(const void *p, int64_t i, int64_t n, int dtype) {
    return n <= 0 ? tfr_all(0) : n < 8 ? tfr_load_part(p, i, n, dtype) : tfr_load(p, i, dtype);
}

TFR_INLINE void tfr_put(void *p, int64_t i, int64_t n, tfr_v8 v, int dtype) {
    if (n >= 8)
        tfr_store(p, i, v, dtype);
    else if (n > 0)
        tfr_store_part(p, i, n, v, dtype);
}

// ------------------------------------------------------------------ walks
enum { TFR_WALK_ARRAYS = 4 };

typedef struct tfr_walk {
    int ndim; // of the leading dimensions, those with more than one row; at least 1
    int64_t size[TFR_MAX_DIMS], at[TFR_MAX_DIMS];
    int64_t step[TFR_WALK_ARRAYS][TFR_MAX_DIMS]; // in bytes; 0 where an array repeats
    char *here[TFR_WALK_ARRAYS];
} tfr_walk;

// Starts at the first row of arrays that broadcast to the leading dimensions of `to` (one of them).
// The order is that of the first array's memory, so that it is read from one end to the other.
static inline __attribute__((unused)) void tfr_walk_start(tfr_walk *w, const tfr_array *const *of,
                                                          const tfr_array *to) {
    w->ndim = 0;
    for (int n = 0; n < TFR_WALK_ARRAYS; n++)
        w->here[n] = of[n]->data;
    for (int i = 0; i + 1 < to->ndim; i++) {
        int64_t step[TFR_WALK_ARRAYS];
        if (to->size[i] == 1)
            continue;
        for (int n = 0; n < TFR_WALK_ARRAYS; n++) {
            int from = i - (to->ndim - of[n]->ndim);
            step[n] = from >= 0 && of[n]->size[from] != 1
                          ? of[n]->stride[from] * tfr_size_of(of[n]->dtype)
                          : 0;
        }
        int at = w->ndim++;
        for (; at > 0 && w->step[0][at - 1] < step[0]; at--) {
            w->size[at] = w->size[at - 1];
            for (int n = 0; n < TFR_WALK_ARRAYS; n++)
                w->step[n][at] = w->step[n][at - 1];
        }
        w->size[at] = to->size[i];
        for (int n = 0; n < TFR_WALK_ARRAYS; n++)
            w->step[n][at] = step[n];
    }
    if (w->ndim == 0) {
        w->size[w->ndim++] = 1;
        for (int n = 0; n < TFR_WALK_ARRAYS; n++)
            w->step[n][0] = 0;
    }
    for (int i = 0; i < w->ndim; i++)
        w->at[i] = 0;
}

// Goes to row `row` from the first one.
static inline __attribute__((unused)) void tfr_walk_seek(tfr_walk *w, int64_t row) {
    for (int i = w->ndim; i-- > 0; row /= w->size[i]) {
        w->at[i] = row % w->size[i];
        for (int n = 0; n < TFR_WALK_ARRAYS; n++)
            w->here[n] += w->at[i] * w->step[n][i];
    }
}

// How many of the next `rows` rows lie `step[.][ndim - 1]` apart.
TFR_INLINE int64_t tfr_walk_run(const tfr_walk *w, int64_t rows) {
    int64_t left = w->size[w->ndim - 1] - w->at[w->ndim - 1];
    return left < rows ? left : rows;
}

// From a row to the next of the same run.
TFR_INLINE void tfr_walk_step(const tfr_walk *w, char **at) {
    for (int n = 0; n < TFR_WALK_ARRAYS; n++)
        at[n] += w->step[n][w->ndim - 1];
}

// Goes over the next `rows` rows, no more than tfr_walk_run allows.
TFR_INLINE void tfr_walk_go(tfr_walk *w, int64_t rows) {
    int i = w->ndim - 1;
    w->at[i] += rows;
    for (int n = 0; n < TFR_WALK_ARRAYS; n++)
        w->here[n] += rows * w->step[n][i];
    for (; i > 0 && w->at[i] == w->size[i]; i--) {
        w->at[i] = 0;
        w->at[i - 1]++;
        for (int n = 0; n < TFR_WALK_ARRAYS; n++)
            w->here[n] += w->step[n][i - 1] - w->size[i] * w->step[n][i];
    }
}

// ------------------------------------------------------------------ the rotation
// (a, b) by the angles of (c1, s1) and (c2, s2): a * c1 - b * s1 and b * c2 + a * s2, the products
// rounded to `dtype`; the sums are left to the store. x - y is torch's x + (-y) to the bit. All
// values come of `dtype` alone (tfr_round_own).
TFR_INLINE void tfr_rotate(tfr_v8 *a, tfr_v8 *b, tfr_v8 c1, tfr_v8 s1, tfr_v8 c2, tfr_v8 s2,
                           int dtype) {
    tfr_v8 first = tfr_round_own(*a * c1, dtype) - tfr_round_own(*b * s1, dtype);
    *b = tfr_round_own(*b * c2, dtype) + tfr_round_own(*a * s2, dtype);
    *a = first;
}

// 16 elements of `p` from i on in two vectors: one after the other, or, of bf16, which must be the
// dtype of everything that these meet, those at even and those at odd places.
TFR_INLINE void tfr_load_16(const void *p, int64_t i, int dtype, int in_turns, tfr_v8 *v) {
    if (in_turns) {
        tfr_load_pair(p, i, &v[0], &v[1]);
    } else {
        v[0] = tfr_load(p, i, dtype);
        v[1] = tfr_load(p, i + 8, dtype);
    }
}

TFR_INLINE void tfr_store_16(void *p, int64_t i, const tfr_v8 *v, int dtype, int in_turns) {
    if (in_turns) {
        tfr_store_pair(p, i, tfr_bf16_upper_own(v[0]), tfr_bf16_upper_own(v[1]));
    } else {
        tfr_store(p, i, v[0], dtype);
        tfr_store(p, i + 8, v[1], dtype);
    }
}

TFR_INLINE float tfr_load_one(const void *p, int64_t i, int dtype) {
    return tfr_load_part(p, i, 1, dtype)[0];
}

TFR_INLINE float tfr_round_one(float x, int dtype) { return tfr_round(tfr_all(x), dtype)[0]; }

// ------------------------------------------------------------------ plans
// torch's unsqueeze. Not 0: there is no such dimension, or too many.
TFR_INLINE int tfr_unsqueeze(tfr_array *a, int64_t dim) {
    dim += dim < 0 ? a->ndim + 1 : 0;
    if (dim < 0 || dim > a->ndim || a->ndim == TFR_MAX_DIMS)
        return 1;
    for (int i = a->ndim; i > dim; i--) {
        a->size[i] = a->size[i - 1];
        a->stride[i] = a->stride[i - 1];
    }
    a->stride[dim] = dim < a->ndim ? a->size[dim + 1] * a->stride[dim + 1] : 1;
    a->size[dim] = 1;
    a->ndim++;
    return 0;
}

// Whether `a` repeats along `x` without adding to its shape; `*same`: it has that shape itself.
TFR_HELPER int tfr_fits(const tfr_array *a, const tfr_array *x, int *same) {
    *same = a->ndim == x->ndim;
    for (int i = 0; i < a->ndim; i++) {
        int at = i + x->ndim - a->ndim;
        if (at < 0 || (a->size[i] != 1 && a->size[i] != x->size[at]))
            return 0;
        *same &= a->size[i] == x->size[at];
    }
    return 1;
}

// `out` as torch gives (x * cos) + (rotated * sin), where `rotated` is a fresh contiguous copy of
// x. Not 0: the shapes do not fit. `out` may be `x`.
TFR_HELPER int tfr_rope_out(tfr_array *out, const tfr_array *x, const tfr_array *cos,
                            const tfr_array *sin) {
    tfr_array rotated, first, second;
    const tfr_array *a[] = {x, cos}, *b[] = {&rotated, sin}, *sum[] = {&first, &second};
    int same, some = 1;
    for (int i = 0; i < x->ndim; i++)
        some &= x->size[i] != 0;
    if (some && tfr_decides(x) && tfr_fits(sin, x, &same) && tfr_fits(cos, x, &same) && !same) {
        // the usual case, worked out: of two contiguous products, or ordered by the first one
        first = *x;
        first.data = 0;
        first.dtype = tfr_promote(x->dtype, tfr_promote(cos->dtype, sin->dtype));
        tfr_strides_as(&first, a, 1, 1);
        if (tfr_is_contiguous(&first))
            tfr_dense_strides(&first);
        if (tfr_is_contiguous(&first) || tfr_decides(&first)) {
            *out = first;
            return 0;
        }
    }
    tfr_out_dense(&rotated, x, tfr_last(x), x->dtype);
    return tfr_out_of(&first, a, 2) || tfr_out_of(&second, b, 2) || tfr_out_of(out, sum, 2);
}

// ------------------------------------------------------------------ q and k
typedef void tfr_run_part(const tfr_call *c, int part, int64_t begin, int64_t end, void *scratch);

// Units are the rows of the first result, q, then those of the second, if there is one, k.
TFR_INLINE void tfr_run_parts(const tfr_call *c, int64_t begin, int64_t end, void *scratch,
                              tfr_run_part *run) {
    int64_t first = tfr_last(&c->out[0]) ? tfr_rows(&c->out[0]) : 0;
    if (begin < first)
        run(c, 0, begin, end < first ? end : first, scratch);
    if (end > first && c->output_count > 1)
        run(c, 1, (begin > first ? begin : first) - first, end - first, scratch);
}

#endif
