// squash on CUDA: y = tanh(x * slope).
//
// part[0]: x and y [rows, width], rows anywhere in memory; number[0]: slope. Must move: x and y once.
// Work: one unit is one row, a pack of 8 elements for each thread in turn. Rounding points as in
// squash.c.
#include "codegen_templates/device_vec.h"

enum { OWN, FLOAT32, THREADS = 128, PACK = 8 };
#define ROUND_DTYPE (CAST == FLOAT32 ? TFR_F32 : X_DTYPE)

template <bool ALIGNED> TFR_INLINE void squash(const tfr_device_args &a) {
    for (int64_t row = blockIdx.x; row < a.units; row += gridDim.x) {
        char *at[2];
        tfr_find_row<2>(a.part[0], row, at);
        for (int64_t i = threadIdx.x * PACK; i < a.width[0]; i += THREADS * PACK) {
            const int64_t bytes = i * tfr_size_of(X_DTYPE);
            const int n = a.width[0] - i < PACK ? (int)(a.width[0] - i) : PACK;
            float x[PACK];
            tfr_floats(tfr_load<X_DTYPE, PACK, ALIGNED>(at[0] + bytes, n), x);
#pragma unroll
            for (int k = 0; k < PACK; k++)
                x[k] = a.number[0] * x[k];
            tfr_round<ROUND_DTYPE, PACK>(x);
#pragma unroll
            for (int k = 0; k < PACK; k++)
                x[k] = tanhf(x[k]);
            tfr_store<ALIGNED>(at[1] + bytes, tfr_packed<X_DTYPE, PACK>(x), n);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tfr_squash(const __grid_constant__ tfr_device_args a) {
    if (a.part[0].aligned)
        squash<true>(a);
    else
        squash<false>(a);
}
