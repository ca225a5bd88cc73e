// The rotation of pairs of values on CUDA. It must not know where pairs lie.
#ifndef TFR_DEVICE_ROPE_H
#define TFR_DEVICE_ROPE_H

#include "codegen_templates/device_vec.h"

// V pairs (a, b) by the angles of (c1, s1) and (c2, s2): a * c1 - b * s1 and b * c2 + a * s2, the
// products with cos rounded to COS_PRODUCT and those with sin to SIN_PRODUCT; the sums are left to
// the store. x - y is torch's x + (-y) to the bit.
template <int COS_PRODUCT, int SIN_PRODUCT, int V>
TFR_INLINE void tfr_rotate(float *a, float *b, const float *c1, const float *s1, const float *c2,
                           const float *s2) {
    float x[V], y[V];
#pragma unroll
    for (int i = 0; i < V; i++) {
        x[i] = b[i] * s1[i];
        y[i] = a[i] * s2[i];
        a[i] *= c1[i];
        b[i] *= c2[i];
    }
    tfr_round<COS_PRODUCT, V>(a);
    tfr_round<COS_PRODUCT, V>(b);
    tfr_round<SIN_PRODUCT, V>(x);
    tfr_round<SIN_PRODUCT, V>(y);
#pragma unroll
    for (int i = 0; i < V; i++) {
        a[i] -= x[i];
        b[i] += y[i];
    }
}

// V floats of a row from element i on.
template <int DTYPE, int V, bool ALIGNED>
TFR_INLINE void tfr_load_floats(const char *row, int i, float *to) {
    tfr_floats(tfr_load<DTYPE, V, ALIGNED>(row + i * (int)tfr_size_of(DTYPE)), to);
}

template <int DTYPE, int V, bool ALIGNED>
TFR_INLINE void tfr_store_floats(char *row, int i, const float *from) {
    tfr_store<ALIGNED>(row + i * (int)tfr_size_of(DTYPE), tfr_packed<DTYPE, V>(from));
}

// V pairs from pair i on that lie side by side.
template <int DTYPE, int V, bool ALIGNED>
TFR_INLINE void tfr_load_pairs(const char *row, int i, float *a, float *b) {
    float both[2 * V];
    tfr_load_floats<DTYPE, 2 * V, ALIGNED>(row, 2 * i, both);
#pragma unroll
    for (int k = 0; k < V; k++) {
        a[k] = both[2 * k];
        b[k] = both[2 * k + 1];
    }
}

template <int DTYPE, int V, bool ALIGNED>
TFR_INLINE void tfr_store_pairs(char *row, int i, const float *a, const float *b) {
    float both[2 * V];
#pragma unroll
    for (int k = 0; k < V; k++) {
        both[2 * k] = a[k];
        both[2 * k + 1] = b[k];
    }
    tfr_store_floats<DTYPE, 2 * V, ALIGNED>(row, 2 * i, both);
}

#endif
