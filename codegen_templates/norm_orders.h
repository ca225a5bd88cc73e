// The orders of rounding in an RMS norm that rules/rms_norm.py tells apart, for host and CUDA
// templates alike. The arguments `order` and `root` are one of TFR_NORM_VALUES, which a template
// takes into its own list of values:
//
//     #define VALUES(X) TFR_NORM_VALUES(X) X(MINE) ...
//     enum { VALUES(TFR_VALUE_ENUM) };
//
// y = round_result(round_inner(x * root) * factor(weight)), each rounding to the dtype below;
// root = 1 / sqrt(mean(x^2) + eps) in f32 (torch gives the same bits for rsqrt and pow(-0.5)).
#ifndef TFR_NORM_ORDERS_H
#define TFR_NORM_ORDERS_H

#include "codegen_templates/dtypes.h"

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
    X(UNROUNDED)                                                                                   \
    X(RSQRT)                                                                                       \
    X(POW)
// The forms of rules/l2_norm.py, which follow in the lists of its templates: y = x / length or, of
// those with RSQRT, x * root.
#define TFR_L2_VALUES(X)                                                                           \
    X(L2_RSQRT)                                                                                    \
    X(L2_RSQRT_IN_FLOAT32)                                                                         \
    X(L2_MEAN_RSQRT)                                                                               \
    X(L2_MEAN_RSQRT_IN_FLOAT32)                                                                    \
    X(L2_MEAN_SQRT)                                                                                \
    X(L2_SQRT)                                                                                     \
    X(L2_POW)                                                                                      \
    X(L2_NORM)                                                                                     \
    X(L2_NORM_ADD)                                                                                 \
    X(L2_NORMALIZE)
// The same numbers under names of their own, since a template's macros may take the plain ones.
#define TFR_NORM_NAME(name) TFR_NORM_##name,
enum { TFR_NORM_VALUES(TFR_NORM_NAME) TFR_L2_VALUES(TFR_NORM_NAME) };

TFR_CONSTANT int tfr_norm_is_l2(int order) { return order >= TFR_NORM_L2_RSQRT; }

TFR_CONSTANT int tfr_l2_multiplies(int form) {
    return form == TFR_NORM_L2_RSQRT || form == TFR_NORM_L2_RSQRT_IN_FLOAT32 ||
           form == TFR_NORM_L2_MEAN_RSQRT || form == TFR_NORM_L2_MEAN_RSQRT_IN_FLOAT32;
}

// The root is that of the squares' mean.
TFR_CONSTANT int tfr_l2_means(int form) {
    return form == TFR_NORM_L2_MEAN_RSQRT || form == TFR_NORM_L2_MEAN_RSQRT_IN_FLOAT32 ||
           form == TFR_NORM_L2_MEAN_SQRT;
}

// The dtype that each square and their sum or mean are rounded to: torch's norm rounds neither.
TFR_CONSTANT int tfr_l2_squares(int form, int x) {
    return form == TFR_NORM_L2_RSQRT || form == TFR_NORM_L2_SQRT || form == TFR_NORM_L2_POW ||
                   form == TFR_NORM_L2_MEAN_SQRT
               ? x
               : TFR_F32;
}

// The dtype that x * root is rounded to before the weight.
TFR_CONSTANT int tfr_norm_inner(int order, int x, int weight) {
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
TFR_CONSTANT int tfr_norm_result(int order, int x, int weight) {
    switch (order) {
    case TFR_NORM_CAST_WEIGHT:
    case TFR_NORM_CAST_ONE_PLUS:
        return tfr_promote(x, weight);
    case TFR_NORM_CAST_BY_WEIGHT:
        return weight;
    case TFR_NORM_NO_CAST:
    case TFR_NORM_UNROUNDED:
        return TFR_F32;
    default:
        return x;
    }
}

TFR_CONSTANT int tfr_norm_has_weight(int order) {
    return order != TFR_NORM_CAST && order != TFR_NORM_ROOT_CAST && order != TFR_NORM_UNROUNDED &&
           !tfr_norm_is_l2(order);
}

// Whether the weight becomes 1 + weight, rounded to the weight's dtype.
TFR_CONSTANT int tfr_norm_rounds_one_plus(int order) {
    return order == TFR_NORM_CAST_ONE_PLUS || order == TFR_NORM_ONE_PLUS_IN_DTYPE_CAST;
}

// Whether it becomes 1 + weight, rounded or not.
TFR_CONSTANT int tfr_norm_adds_one(int order) {
    return order == TFR_NORM_ONE_PLUS_CAST || tfr_norm_rounds_one_plus(order);
}

// The dtypes of a row, of x * root, and of the result.
typedef struct tfr_norm_dtypes {
    int x, inner, result;
} tfr_norm_dtypes;

TFR_CONSTANT tfr_norm_dtypes tfr_norm_dtypes_of(int order, int x, int weight) {
    // Without a weight there is one rounding, that of the result.
    int inner = tfr_norm_has_weight(order) ? tfr_norm_inner(order, x, weight) : TFR_F32;
    tfr_norm_dtypes t = {x, inner, tfr_norm_result(order, x, weight)};
    return t;
}

#endif
