// add_rms_norm on CUDA: s = residual + x and its RMS norm, every order of rules/rms_norm.py.
//
// part[0]: x, residual, the norm out, s out: [rows, X_LAST] each, rows anywhere in memory. flat[0]:
// the norm's weight [X_LAST] or absent. number[0]: eps. Dtypes as in add_rms_norm.c.
// Must move: x and residual in, norm(s) and s out, and the weight once; that is what it moves for
// rows up to 16384 wide (the weight once per block). Wider rows read s, and the weight, back.
// Work: as rms_norm.cu.
// Rounding: s to its dtype, and the norm reads what was rounded; then as rms_norm.cu.
#include "codegen_templates/device_norm.h"

enum { TFR_NORM_VALUES(TFR_VALUE_ENUM) };

#if !defined ORDER || !defined X_DTYPE || !defined RESIDUAL_DTYPE || !defined X_LAST
#error "add_rms_norm.cu needs ORDER, X_DTYPE, RESIDUAL_DTYPE and X_LAST"
#endif
#ifndef NORM_WEIGHT_DTYPE
#define NORM_WEIGHT_DTYPE TFR_NONE
#endif
static_assert(!tfr_norm_has_weight(ORDER) || NORM_WEIGHT_DTYPE != TFR_NONE,
              "this order has a weight");

struct norm_row {
    enum {
        order = ORDER,
        dtype = tfr_promote(X_DTYPE, RESIDUAL_DTYPE),
        weight = tfr_norm_has_weight(ORDER) ? NORM_WEIGHT_DTYPE : TFR_F32,
        vector = tfr_vector(tfr_promote(dtype, tfr_norm_result(order, dtype, weight))),
        width = (int)X_LAST,
        arrays = 4,
        out = 2,
        sum = 3
    };
    typedef tfr_norm_shape<X_LAST, vector, weight> shape;

    template <bool ALIGNED>
    static __device__ tfr_pack<dtype, vector> first(char *const *at, int i, int n) {
        float s[vector], x[vector];
        const char *from = at[0] + i * (int)tfr_size_of(X_DTYPE);
        const char *residual = at[1] + i * (int)tfr_size_of(RESIDUAL_DTYPE);
        tfr_floats(tfr_load<RESIDUAL_DTYPE, vector, ALIGNED>(residual, n), s);
        tfr_floats(tfr_load<X_DTYPE, vector, ALIGNED>(from, n), x);
#pragma unroll
        for (int k = 0; k < vector; k++)
            s[k] += x[k];
        tfr_pack<dtype, vector> both = tfr_packed<dtype, vector>(s);
        tfr_store<ALIGNED>(at[sum] + i * (int)tfr_size_of(dtype), both, n);
        return both;
    }
    // Each thread reads what it stored itself.
    template <bool ALIGNED>
    static __device__ tfr_pack<dtype, vector> again(char *const *at, int i, int n) {
        return tfr_load<dtype, vector, ALIGNED>(at[sum] + i * (int)tfr_size_of(dtype), n);
    }
};

extern "C" __global__ void __launch_bounds__(norm_row::shape::block, norm_row::shape::blocks)
    tfr_add_rms_norm(const __grid_constant__ tfr_device_args a) {
    tfr_norm_kernel<norm_row>(a);
}
