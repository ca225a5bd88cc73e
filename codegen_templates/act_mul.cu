// act_mul on CUDA: act(gate) * up.
//
// part[0]: gate, up, out [rows, width], rows anywhere in memory; where all three run through memory
// alike, one row. Halves of a packed tensor are such views; LAYOUT=INTERLEAVED: the packed tensor
// [rows, 2 width] itself, gate and up in turns, and out. width[0]: the first array's.
// Must move: each input in and the result out, once.
// Work: a unit is TFR_ACT_THREADS packs of elements, a pack for each thread: 128 bits of gate, of
// up and of out, or less of a narrower dtype; row by row. Rounding: the activation to the gate's
// dtype (after each of torch's operations), the product to the dtype that torch promotes to.
#include "codegen_templates/act_layouts.h"
#include "codegen_templates/device_act.h"

#if !defined LAYOUT || !defined ACT || !defined GATE_DTYPE || !defined UP_DTYPE
#error "act_mul.cu needs LAYOUT, ACT and the dtypes"
#endif

enum {
    VECTOR = tfr_act_vector(LAYOUT, GATE_DTYPE, UP_DTYPE),
    OUT_DTYPE = tfr_promote(GATE_DTYPE, UP_DTYPE),
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
        tfr_act<ACT, GATE_DTYPE, VECTOR>(gate);
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
