// softcap on CUDA: tanh(x / cap) * cap, and the forms of softcap.c.
//
// part[0]: x and the result [rows, width], rows anywhere in memory; where both run through memory
// alike, one row. number: cap, scale. Must move: x in and the result out, once.
// Work: a unit is TFR_SOFTCAP_THREADS packs of elements, 128 bits of the result for each thread.
// Rounding: after each operation, to the result's dtype. torch divides by a number by multiplying
// with its reciprocal on CUDA.
#include "codegen_templates/device_vec.h"
#include "codegen_templates/softcap_forms.h"

#if !defined FORM || !defined X_DTYPE
#error "softcap.cu needs FORM and X_DTYPE"
#endif

enum { DTYPE = softcap_dtype(FORM, X_DTYPE), VECTOR = tfr_vector(DTYPE) };

TFR_INLINE void times(float *x, float factor) {
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        x[k] *= factor;
    tfr_round<DTYPE, VECTOR>(x);
}

template <bool ALIGNED> TFR_INLINE void cap_all(const tfr_device_args &a) {
    const int64_t width = a.width[0], packs = (width + VECTOR - 1) / VECTOR;
    const int64_t all = packs * a.part[0].count;
    for (int64_t unit = blockIdx.x; unit < a.units; unit += gridDim.x) {
        const int64_t pack = unit * TFR_SOFTCAP_THREADS + threadIdx.x;
        if (pack >= all)
            break;
        const int64_t row = a.part[0].count == 1 ? 0 : tfr_quotient(pack, packs, all < 1LL << 31);
        const int64_t i = (pack - row * packs) * VECTOR;
        const int n = width - i < VECTOR ? (int)(width - i) : VECTOR;
        char *at[2];
        float x[VECTOR];
        tfr_find_row<2>(a.part[0], row, at);
        tfr_floats(tfr_load<X_DTYPE, VECTOR, ALIGNED>(at[0] + i * tfr_size_of(X_DTYPE), n), x);
        if constexpr (FORM == SCALED)
            times(x, a.number[1]);
        times(x, 1.0f / a.number[0]);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            x[k] = tanhf(x[k]);
        tfr_round<DTYPE, VECTOR>(x);
        times(x, a.number[0]);
        tfr_store<ALIGNED>(at[1] + i * tfr_size_of(DTYPE), tfr_packed<DTYPE, VECTOR>(x), n);
    }
}

extern "C" __global__ void __launch_bounds__(TFR_SOFTCAP_THREADS)
    tfr_softcap(const __grid_constant__ tfr_device_args a) {
    if (a.part[0].aligned)
        cap_all<true>(a);
    else
        cap_all<false>(a);
}
