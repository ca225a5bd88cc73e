// act_mul on CUDA: act(gate) * up, and the forms of act_mul.c.
//
// part[0]: gate, up, out [rows, width], rows anywhere in memory; where all three run through memory
// alike, one row. Halves of a packed tensor are such views; LAYOUT=INTERLEAVED: the packed tensor
// [rows, 2 width] itself, gate and up in turns, and out. width[0]: the first array's.
// Must move: each input in and the result out, once.
// Work: a unit is TFR_ACT_THREADS packs of elements, a pack for each thread: 128 bits of gate, of
// up and of out, or less of a narrower dtype; row by row. Rounding: after each of torch's
// operations, to the gate's or up's dtype, the product to the result's. A bound too.
#include "codegen_templates/act_layouts.h"
#include "codegen_templates/device_act.h"

#if !defined LAYOUT || !defined ACT || !defined FORM || !defined GATE_DTYPE || !defined UP_DTYPE
#error "act_mul.cu needs LAYOUT, ACT, FORM and the dtypes"
#endif

enum {
    VECTOR = tfr_act_vector(LAYOUT, GATE_DTYPE, UP_DTYPE),
    OUT_DTYPE = result_dtype(FORM, GATE_DTYPE, UP_DTYPE),
    ARRAYS = LAYOUT == INTERLEAVED ? 2 : 3
};

// The n elements from i on of a row's gate and up, VECTOR at most.
template <bool ALIGNED>
TFR_INLINE void load_both(char *const *at, int64_t i, int n, float *gate, float *up) {
    if constexpr (LAYOUT == INTERLEAVED) {
        float both[2 * VECTOR];
        const char *from = at[0] + 2 * i * tfr_size_of(GATE_DTYPE);
        tfr_floats(tfr_load<GATE_DTYPE, 2 * VECTOR, ALIGNED>(from, 2 * n), both);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            gate[k] = both[2 * k];
            up[k] = both[2 * k + 1];
        }
    } else {
        const char *g = at[0] + i * tfr_size_of(GATE_DTYPE), *u = at[1] + i * tfr_size_of(UP_DTYPE);
        tfr_pack<GATE_DTYPE, VECTOR> gates = tfr_load<GATE_DTYPE, VECTOR, ALIGNED>(g, n);
        tfr_pack<UP_DTYPE, VECTOR> ups = tfr_load<UP_DTYPE, VECTOR, ALIGNED>(u, n);
        tfr_floats(gates, gate);
        tfr_floats(ups, up);
    }
}

// Keeps a NaN.
TFR_INLINE float at_most(float x, float high) { return x > high ? high : x; }

// x * sigmoid(x * slope), in three operations.
TFR_INLINE void sloped(float *x, float slope) {
    float y[VECTOR];
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        y[k] = x[k] * slope;
    tfr_round<GATE_DTYPE, VECTOR>(y);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        y[k] = tfr_sigmoid(y[k]);
    tfr_round<GATE_DTYPE, VECTOR>(y);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        x[k] *= y[k];
    tfr_round<GATE_DTYPE, VECTOR>(x);
}

// Both factors of the product, from what was loaded.
TFR_INLINE void make_factors(const float *number, float *gate, float *up) {
    float bound[2] = {number[0], number[0]}, up_bound[2] = {number[0], number[0]};
    tfr_round<GATE_DTYPE, 2>(bound);
    tfr_round<UP_DTYPE, 2>(up_bound);
#pragma unroll
    for (int k = 0; k < VECTOR && has_limit(FORM); k++) {
        gate[k] = FORM == CLAMPED_AFTER ? gate[k] : at_most(gate[k], bound[0]);
        up[k] = at_most(up[k] < -up_bound[0] ? -up_bound[0] : up[k], up_bound[0]);
        up[k] += FORM == SLOPED_CLAMPED ? 1.0f : 0.0f;
    }
    if constexpr (FORM == SLOPED_CLAMPED)
        tfr_round<UP_DTYPE, VECTOR>(up);
    if constexpr (is_sloped(FORM))
        sloped(gate, FORM == SWISH ? 1.0f : number[has_limit(FORM)]);
    else
        tfr_act<ACT, FORM == IN_FLOAT32 ? TFR_F32 : GATE_DTYPE, VECTOR>(gate);
#pragma unroll
    for (int k = 0; k < VECTOR && FORM == CLAMPED_AFTER; k++)
        gate[k] = at_most(gate[k], bound[0]);
}

template <bool ALIGNED> TFR_INLINE void multiply(const tfr_device_args &a) {
    const int64_t width = LAYOUT == INTERLEAVED ? a.width[0] / 2 : a.width[0];
    const int64_t packs = (width + VECTOR - 1) / VECTOR, all = packs * a.part[0].count;
    for (int64_t unit = blockIdx.x; unit < a.units; unit += gridDim.x) {
        const int64_t pack = unit * TFR_ACT_THREADS + threadIdx.x;
        if (pack >= all)
            break;
        const int64_t row = a.part[0].count == 1 ? 0 : tfr_quotient(pack, packs, all < 1LL << 31);
        const int64_t i = (pack - row * packs) * VECTOR;
        const int n = width - i < VECTOR ? (int)(width - i) : VECTOR;
        char *at[ARRAYS];
        float gate[VECTOR], up[VECTOR];
        tfr_find_row<ARRAYS>(a.part[0], row, at);
        load_both<ALIGNED>(at, i, n, gate, up);
        make_factors(a.number, gate, up);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            gate[k] *= up[k];
        tfr_store<ALIGNED>(at[ARRAYS - 1] + i * tfr_size_of(OUT_DTYPE),
                           tfr_packed<OUT_DTYPE, VECTOR>(gate), n);
    }
}

extern "C" __global__ void __launch_bounds__(TFR_ACT_THREADS)
    tfr_act_mul(const __grid_constant__ tfr_device_args a) {
    if (a.part[0].aligned)
        multiply<true>(a);
    else
        multiply<false>(a);
}
