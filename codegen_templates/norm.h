// RMS norm of one row, in the orders of rounding of norm_orders.h. Shared by every host kernel with
// a norm in it; it must not know where rows lie.
#ifndef TFR_NORM_H
#define TFR_NORM_H

#include "codegen_templates/norm_orders.h"
#include "codegen_templates/vec.h"

// What x * root is multiplied with, from the weight as loaded.
TFR_INLINE tfr_v8 tfr_norm_factor(tfr_v8 weight, int order, int dtype) {
    if (!tfr_norm_adds_one(order))
        return weight;
    weight = tfr_all(1.0F) + weight;
    return tfr_norm_rounds_one_plus(order) ? tfr_round(weight, dtype) : weight;
}

// The sum of the squares of n elements, each square rounded to `each`: a fixed order, whatever the
// build. In blocks, so that the error stays at a few 2^-24 of the sum however long the row.
TFR_INLINE float tfr_norm_rounded_squares(const void *x, int64_t n, int dtype, int each) {
    tfr_v8 total = {0};
    int64_t i = 0;
    do {
        tfr_v8 sum[4] = {{0}, {0}, {0}, {0}};
        int64_t end = n - i < 2048 ? n : i + 2048;
        for (; i + 32 <= end; i += 32) {
            for (int k = 0; k < 4; k++) {
                tfr_v8 v = tfr_load(x, i + 8 * k, dtype);
                sum[k] += tfr_round(v * v, each);
            }
        }
        for (; i + 8 <= end; i += 8) {
            tfr_v8 v = tfr_load(x, i, dtype);
            sum[0] += tfr_round(v * v, each);
        }
        if (i < end) {
            tfr_v8 v = tfr_load_part(x, i, end - i, dtype);
            sum[1] += tfr_round(v * v, each);
            i = end;
        }
        total += (sum[0] + sum[2]) + (sum[1] + sum[3]);
    } while (i < n);
    return tfr_sum(total);
}

TFR_INLINE float tfr_norm_squares(const void *x, int64_t n, int dtype) {
    return tfr_norm_rounded_squares(x, n, dtype, TFR_F32);
}

// What each x is multiplied with. `dtype` is x's.
TFR_INLINE float tfr_norm_root(float squares, int64_t n, float eps, int order, int dtype) {
    float root = 1.0F / tfr_sqrt(squares / (float)n + eps);
    return order == TFR_NORM_ROOT_CAST ? tfr_round(tfr_all(root), dtype)[0] : root;
}

#endif
