// gated_rms_norm on CUDA: an RMS norm of rows, or of groups of each row, and a gate before or
// after.
//
// part[0]: x, gate, weight, out: rows of width[0] elements, a group of a row each, anywhere in
// memory; the weight repeats. number: eps; then the group's size or number, which the host has
// used; then whether the norm comes first. Dtypes and rounding as in gated_rms_norm.c. Must move: x
// and gate in, x's size out, and the weight once; that is what it moves for whole rows up to 16384
// wide (the weight once for each row of a block). Groups have a weight of their own, read from the
// cache with each; wider rows are read twice. Work: one unit is one group, for up to 32 threads
// where rows are narrow, for 128 or 512 where they have groups, else for a block of 256 or 512, so
// that blocks are few and have several rows for their weight. Up to eight packs of 128 bits of x
// and gate stay in a thread's registers.
#include "codegen_templates/device_act.h"
#include "codegen_templates/device_norm.h"
#include "codegen_templates/gate_forms.h"

#if !defined ORDER || !defined FORM || !defined ACT || !defined X_LAST || !defined X_DTYPE
#error "gated_rms_norm.cu needs ORDER, FORM, ACT, X_LAST and the dtypes"
#endif

TFR_CONSTANT int threads_of(int packs, bool whole) {
    int threads = 1;
    if (packs > 4 * 32 && whole)
        return packs <= 256 ? 256 : 512;
    if (packs > 4 * 32)
        return packs <= 8 * 128 ? 128 : 512;
    while (threads < 32 && threads < packs)
        threads *= 2;
    return threads;
}

enum {
    OUT_DTYPE = tfr_gate_result(ORDER, FORM, X_DTYPE, WEIGHT_DTYPE),
    V = tfr_vector(tfr_promote(tfr_promote(X_DTYPE, GATE_DTYPE), OUT_DTYPE)),
    PACKS = (int)((X_LAST + V - 1) / V),
    WHOLE = FORM == NORM_GATE || FORM == GATE_NORM, // rows, not groups
    T = threads_of(PACKS, WHOLE),
    HELD = PACKS <= 8 * T,
    EACH = HELD ? (PACKS + T - 1) / T : 1,
    ROWS = T < 256 ? 256 / T : 1, // of a block at a time
    WEIGHTED = ORDER == CAST_WEIGHT ? tfr_promote(X_DTYPE, WEIGHT_DTYPE) : TFR_F32
};

struct row_of {
    char *at[4]; // x, gate, weight, out
    int width;
    bool gate_first;
};

typedef tfr_pack<TFR_F32, V> floats;
typedef tfr_pack<GATE_DTYPE, V> gates;
typedef tfr_pack<WEIGHT_DTYPE, V> weights;

// Elements i .. i + n - 1 of what the norm reads, and of the gate. Adds the squares to `sum`.
template <bool ALIGNED>
TFR_INLINE void read(const row_of &r, int i, floats *x, gates *gate, float *sum) {
    const int n = r.width - i;
    float v[V];
    tfr_floats(tfr_load<X_DTYPE, V, ALIGNED>(r.at[0] + i * (int)tfr_size_of(X_DTYPE), n), v);
    *gate = tfr_load<GATE_DTYPE, V, ALIGNED>(r.at[1] + i * (int)tfr_size_of(GATE_DTYPE), n);
    if (r.gate_first) {
        float g[V];
        tfr_floats(*gate, g);
        tfr_act<GATE_ACT, TFR_F32, V>(g);
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = k < n ? v[k] * g[k] : 0.0f; // act(0) need not be 0
    }
    *x = tfr_packed<TFR_F32, V>(v);
    tfr_norm_square(*x, sum);
}

template <bool ALIGNED> TFR_INLINE weights weight_at(const row_of &r, int i) {
    return tfr_load<WEIGHT_DTYPE, V, ALIGNED>(r.at[2] + i * (int)tfr_size_of(WEIGHT_DTYPE),
                                              r.width - i);
}

template <bool ALIGNED>
TFR_INLINE void write(const row_of &r, int i, float root, const floats &x, const gates &gate,
                      const weights &weight) {
    float y[V];
    tfr_floats(x, y);
    tfr_norm_scale<ORDER, X_DTYPE>(y, root, weight);
    tfr_round<WEIGHTED, V>(y);
    if (!r.gate_first) {
        float g[V];
        tfr_floats(gate, g);
        tfr_act<GATE_ACT, TFR_F32, V>(g);
#pragma unroll
        for (int k = 0; k < V; k++)
            y[k] *= g[k];
    }
    tfr_store<ALIGNED>(r.at[3] + i * (int)tfr_size_of(OUT_DTYPE), tfr_packed<OUT_DTYPE, V>(y),
                       r.width - i);
}

template <bool ALIGNED> TFR_INLINE void norm(const tfr_device_args &a) {
    const int begin = (int)threadIdx.x % T * V, group = (int)threadIdx.x / T;
    row_of r;
    r.width = WHOLE ? (int)X_LAST : (int)a.width[0];
    r.gate_first = tfr_gate_first(FORM, a.number[2] != 0.0f);
    r.at[2] = a.part[0].data[2];
    weights weight[EACH] = {};
    if constexpr (WHOLE && HELD) {
        const bool any = ROWS == 1 || blockIdx.x + (int64_t)group * gridDim.x < a.units;
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (any && begin + k * T * V < r.width)
                weight[k] = weight_at<ALIGNED>(r, begin + k * T * V);
    }
    int turn = 0;
    for (int64_t first = blockIdx.x; first < a.units; first += (int64_t)gridDim.x * ROWS) {
        const int64_t row = first + (int64_t)group * gridDim.x;
        const bool mine = row < a.units; // all threads meet at barriers
        floats x[EACH] = {};
        gates gate[EACH] = {};
        float sum[V] = {};
        tfr_find_row<4>(a.part[0], mine ? row : 0, r.at);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (HELD && mine && begin + k * T * V < r.width)
                read<ALIGNED>(r, begin + k * T * V, &x[k], &gate[k], sum);
        for (int i = begin; !HELD && i < r.width; i += T * V)
            read<ALIGNED>(r, i, x, gate, sum);
        const float root =
            tfr_norm_root<ORDER, TFR_F32, T, T * ROWS, V>(sum, turn, r.width, a.number[0]);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (HELD && mine && begin + k * T * V < r.width)
                write<ALIGNED>(r, begin + k * T * V, root, x[k], gate[k],
                               WHOLE ? weight[k] : weight_at<ALIGNED>(r, begin + k * T * V));
        for (int i = begin; !HELD && i < r.width; i += T * V) {
            read<ALIGNED>(r, i, x, gate, sum);
            write<ALIGNED>(r, i, root, *x, *gate, weight_at<ALIGNED>(r, i));
        }
        turn ^= 1;
    }
}

extern "C" __global__ void __launch_bounds__(T *ROWS)
    tfr_gated_rms_norm(const __grid_constant__ tfr_device_args a) {
    if (a.part[0].aligned)
        norm<true>(a);
    else
        norm<false>(a);
}
