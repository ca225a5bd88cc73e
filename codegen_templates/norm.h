// RMS norm of one row, in the orders of rounding that rules/rms_norm.py tells apart. Shared by
// every kernel with a norm in it; it must not know where rows lie. The arguments `order` and `root`
// are one of TFR_NORM_VALUES, which a template takes into its own list of values:
//
//     #define VALUES(X) TFR_NORM_VALUES(X) X(MINE) ...
//     enum { VALUES(TFR_VALUE_ENUM) };
//
// y = round_result(round_inner(x * root) * factor(weight)), each rounding to the dtype below;
// root = 1 / sqrt(mean(x^2) + eps) in f32 (torch gives the same bits for rsqrt and pow(-0.5)).
#ifndef TFR_NORM_H
#define TFR_NORM_H

#include "codegen_templates/vec.h"

#define TFR_NORM_VALUES(X)                                                                         \
    X(CAST_WEIGHT)                                                                                 \
    X(WEIGHT_CAST)                                                                                 \
    X(WEIGHT32_CAST)                                                                               \
    X(ONE_PLUS_CAST)                                                                               \
    X(CAST_ONE_PLUS)                                                                               \
    X(CAST_BY_WEIGHT)                                                                              \
    X(NO_CAST)                                                                                     \
    X(CAST)                                                                                        \
    X(ROOT_CAST)                                                                                   \
    X(ONE_PLUS_IN_DTYPE_CAST)                                                                      \
    X(RSQRT)                                                                                       \
    X(POW)
// The same numbers under names of their own, since a template's macros may take the plain ones.
#define TFR_NORM_NAME(name) TFR_NORM_##name,
enum { TFR_NORM_VALUES(TFR_NORM_NAME) };

// torch's promotion of two dtypes; TFR_NONE takes no part.
TFR_INLINE int tfr_promote(int a, int b) { return a == TFR_F32 || b == TFR_F32 ? TFR_F32 : a & b; }

// The dtype that x * root is rounded to before the weight.
TFR_INLINE int tfr_norm_inner(int order, int x, int weight) {
    switch (order) {
    case TFR_NORM_CAST_WEIGHT:
    case TFR_NORM_CAST_ONE_PLUS:
    case TFR_NORM_CAST:
    case TFR_NORM_ROOT_CAST:
        return x;
    case TFR_NORM_CAST_BY_WEIGHT:
        return weight;
    default:
        return TFR_F32;
    }
}

// The dtype of the result.
TFR_INLINE int tfr_norm_result(int order, int x, int weight) {
    switch (order) {
    case TFR_NORM_CAST_WEIGHT:
    case TFR_NORM_CAST_ONE_PLUS:
        return tfr_promote(x, weight);
    case TFR_NORM_CAST_BY_WEIGHT:
        return weight;
    case TFR_NORM_NO_CAST:
        return TFR_F32;
    default:
        return x;
    }
}

TFR_INLINE int tfr_norm_has_weight(int order) {
    return order != TFR_NORM_CAST && order != TFR_NORM_ROOT_CAST;
}

// What x * root is multiplied with, from the weight as loaded.
TFR_INLINE tfr_v8 tfr_norm_factor(tfr_v8 weight, int order, int dtype) {
    switch (order) {
    case TFR_NORM_ONE_PLUS_CAST:
        return tfr_all(1.0F) + weight;
    case TFR_NORM_CAST_ONE_PLUS:
    case TFR_NORM_ONE_PLUS_IN_DTYPE_CAST:
        return tfr_round(tfr_all(1.0F) + weight, dtype);
    default:
        return weight;
    }
}

// The sum of the squares of n elements: a fixed order, whatever the build. In blocks, so that the
// error stays at a few 2^-24 of the sum however long the row.
TFR_INLINE float tfr_norm_squares(const void *x, int64_t n, int dtype) {
    tfr_v8 total = {0};
    int64_t i = 0;
    do {
        tfr_v8 sum[4] = {{0}, {0}, {0}, {0}};
        int64_t end = n - i < 2048 ? n : i + 2048;
        for (; i + 32 <= end; i += 32) {
            for (int k = 0; k < 4; k++) {
                tfr_v8 v = tfr_load(x, i + 8 * k, dtype);
                sum[k] += v * v;
            }
        }
        for (; i + 8 <= end; i += 8) {
            tfr_v8 v = tfr_load(x, i, dtype);
            sum[0] += v * v;
        }
        if (i < end) {
            tfr_v8 v = tfr_load_part(x, i, end - i, dtype);
            sum[1] += v * v;
            i = end;
        }
        total += (sum[0] + sum[2]) + (sum[1] + sum[3]);
    } while (i < n);
    return tfr_sum(total);
}

// What each x is multiplied with. `dtype` is x's.
TFR_INLINE float tfr_norm_root(float squares, int64_t n, float eps, int order, int dtype) {
    float root = 1.0F / tfr_sqrt(squares / (float)n + eps);
    return order == TFR_NORM_ROOT_CAST ? tfr_round(tfr_all(root), dtype)[0] : root;
}

#endif
