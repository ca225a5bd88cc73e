// The second pass of an RMS norm over whole rows, where the result is the norm itself: what
// rms_norm and add_rms_norm share. It must not know where rows lie.
//
// The weight becomes a row of f32 factors once per call of `run`, so that the rows need neither its
// dtype nor the order's arithmetic. bf16 rows that give bf16 go by pairs (vec.h), and their factors
// lie in that order: of each 16 the even ones, then the odd ones.
#ifndef TFR_NORM_ROWS_H
#define TFR_NORM_ROWS_H

#include "codegen_templates/norm.h"

TFR_INLINE int tfr_norm_by_pairs(tfr_norm_dtypes t) {
    return t.x == TFR_BF16 && t.result == TFR_BF16;
}

// Bytes of the factors of n elements.
TFR_INLINE int64_t tfr_norm_factor_bytes(int64_t n) { return (n + 15) / 16 * 64; }

// Nothing but the weight itself: its own memory serves.
TFR_INLINE int tfr_norm_is_plain(int order, const tfr_array *weight, tfr_norm_dtypes t) {
    return tfr_norm_has_weight(order) && !tfr_norm_adds_one(order) && weight->dtype == TFR_F32 &&
           !tfr_norm_by_pairs(t);
}

// The factors of n elements, in `memory` (of tfr_norm_factor_bytes) or the weight's own. `weight`
// is not read for an order without one.
TFR_INLINE const float *tfr_norm_factors(float *memory, const tfr_array *weight, int weight_dtype,
                                         int64_t n, int order, tfr_norm_dtypes t) {
    if (tfr_norm_is_plain(order, weight, t))
        return weight->data;
    for (int64_t i = 0; i < n; i += 8) {
        tfr_v8 w = tfr_all(1.0f);
        if (tfr_norm_has_weight(order)) {
            w = n - i < 8 ? tfr_load_part(weight->data, i, n - i, weight_dtype)
                          : tfr_load(weight->data, i, weight_dtype);
            w = tfr_norm_factor(w, order, weight_dtype);
        }
        if (!tfr_norm_by_pairs(t)) {
            tfr_store(memory, i, w, TFR_F32);
            continue;
        }
        float *even = memory + i / 16 * 16 + i / 8 % 2 * 4;
        for (int k = 0; k < 4; k++) {
            even[k] = w[2 * k];
            even[8 + k] = w[2 * k + 1];
        }
    }
    return memory;
}

// tfr_norm_squares, with a loop for each dtype.
TFR_INLINE float tfr_norm_squares_of(const void *x, int64_t n, int dtype) {
    return dtype == TFR_BF16 ? tfr_norm_squares(x, n, TFR_BF16) : tfr_norm_squares(x, n, TFR_F32);
}

TFR_INLINE void tfr_norm_pair(const uint16_t *x, float root, const float *factor, uint16_t *out,
                              int inner) {
    tfr_v8 even, odd;
    tfr_load_pair(x, 0, &even, &odd);
    even = tfr_round_own(even * root, inner) * tfr_load(factor, 0, TFR_F32);
    odd = tfr_round_own(odd * root, inner) * tfr_load(factor, 8, TFR_F32);
    tfr_store_pair(out, 0, tfr_bf16_upper(even), tfr_bf16_upper(odd));
}

TFR_INLINE void tfr_norm_scale_as(const void *x, float root, const float *factor, int64_t n,
                                  void *out, tfr_norm_dtypes t) {
    int64_t i = 0;
    if (tfr_norm_by_pairs(t)) {
        const uint16_t *from = x;
        uint16_t *to = out, in[16] = {0}, last[16];
        for (; i + 16 <= n; i += 16)
            tfr_norm_pair(from + i, root, factor + i, to + i, t.inner);
        if (i < n) {
            memcpy(in, from + i, (size_t)(n - i) * sizeof *in);
            tfr_norm_pair(in, root, factor + i, last, t.inner);
            memcpy(to + i, last, (size_t)(n - i) * sizeof *last);
        }
        return;
    }
    for (; i + 8 <= n; i += 8) {
        tfr_v8 y = tfr_round(tfr_load(x, i, t.x) * root, t.inner);
        tfr_store(out, i, y * tfr_load(factor, i, TFR_F32), t.result);
    }
    if (i < n) {
        tfr_v8 y = tfr_round(tfr_load_part(x, i, n - i, t.x) * root, t.inner);
        y = y * tfr_load_part(factor, i, n - i, TFR_F32);
        tfr_store_part(out, i, n - i, y, t.result);
    }
}

// out = round(round(x * root) * factor). One loop for each set of dtypes that an order can lead to;
// with macros only one of them is compiled.
TFR_INLINE void tfr_norm_scale(const void *x, float root, const float *factor, int64_t n, void *out,
                               tfr_norm_dtypes t) {
#define CASE(a, b, c)                                                                              \
    if (t.x == (a) && t.inner == (b) && t.result == (c)) {                                         \
        tfr_norm_scale_as(x, root, factor, n, out, (tfr_norm_dtypes){a, b, c});                    \
        return;                                                                                    \
    }
    CASE(TFR_F32, TFR_F32, TFR_F32)
    CASE(TFR_F32, TFR_BF16, TFR_BF16)
    CASE(TFR_BF16, TFR_F32, TFR_F32)
    CASE(TFR_BF16, TFR_F32, TFR_BF16)
    CASE(TFR_BF16, TFR_BF16, TFR_F32)
    CASE(TFR_BF16, TFR_BF16, TFR_BF16)
#undef CASE
}

#endif
