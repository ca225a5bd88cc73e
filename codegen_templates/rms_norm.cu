// rms_norm on CUDA: every variant of rules/rms_norm.py, chosen by ORDER.
//
// part[0]: x [rows, X_LAST], out [rows, X_LAST], rows anywhere in memory. flat[0]: the weight
// [X_LAST], but for CAST, ROOT_CAST and UNROUNDED. number[0]: eps. Dtypes as in rms_norm.c.
// Must move: x in, as much out, and the weight once; that is what it moves for rows up to 16384
// wide (the weight once per block). Wider rows, and then the weight with each, are read twice.
// Work: one unit is one row, for up to 32 threads where it is narrow, else for a block
// (tfr_norm_shape). Blocks walk over rows with the weight in registers.
// Rounding: the sum of squares (fused, in f32) and the root are f32; then x * root and the product
// with the weight as norm_orders.h says.
#include "codegen_templates/device_norm.h"

enum { TFR_NORM_VALUES(TFR_VALUE_ENUM) };

#if !defined ORDER || !defined X_DTYPE || !defined X_LAST
#error "rms_norm.cu needs ORDER, X_DTYPE and X_LAST"
#endif
#ifndef WEIGHT_DTYPE
#define WEIGHT_DTYPE TFR_NONE
#endif
static_assert(!tfr_norm_has_weight(ORDER) || WEIGHT_DTYPE != TFR_NONE, "this order has a weight");

struct norm_row {
    enum {
        order = ORDER,
        dtype = X_DTYPE,
        weight = tfr_norm_has_weight(ORDER) ? WEIGHT_DTYPE : TFR_F32,
        vector = tfr_vector(tfr_promote(dtype, tfr_norm_result(order, dtype, weight))),
        width = (int)X_LAST,
        arrays = 2,
        out = 1
    };
    typedef tfr_norm_shape<X_LAST, vector, weight> shape;

    template <bool ALIGNED>
    static __device__ tfr_pack<dtype, vector> first(char *const *at, int i, int n) {
        return tfr_load<dtype, vector, ALIGNED>(at[0] + i * (int)tfr_size_of(dtype), n);
    }
    template <bool ALIGNED>
    static __device__ tfr_pack<dtype, vector> again(char *const *at, int i, int n) {
        return first<ALIGNED>(at, i, n);
    }
};

extern "C" __global__ void __launch_bounds__(norm_row::shape::block, norm_row::shape::blocks)
    tfr_rms_norm(const __grid_constant__ tfr_device_args a) {
    tfr_norm_kernel<norm_row>(a);
}
