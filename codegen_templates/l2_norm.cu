// l2_norm on CUDA: every reference of rules/l2_norm.py, chosen by FORM.
//
// part[0]: x [rows, X_LAST], out [rows, X_LAST], rows anywhere in memory. number[0]: eps.
// Must move: x in, as much out; that is what it moves for rows up to 16384 wide. Wider rows are
// read twice. Work: as rms_norm.cu, without a weight. Rounding: as l2_norm.c; squares that are not
// rounded are fused into their sum.
#include "codegen_templates/device_norm.h"

#define VALUES(X) TFR_NORM_VALUES(X) TFR_L2_VALUES(X)
enum { VALUES(TFR_VALUE_ENUM) };

#if !defined FORM || !defined X_DTYPE || !defined X_LAST
#error "l2_norm.cu needs FORM, X_DTYPE and X_LAST"
#endif

struct norm_row {
    enum {
        order = FORM,
        dtype = X_DTYPE,
        weight = TFR_F32, // there is none
        vector = tfr_vector(dtype),
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
    tfr_l2_norm(const __grid_constant__ tfr_device_args a) {
    tfr_norm_kernel<norm_row>(a);
}
