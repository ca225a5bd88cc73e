// qk_norm_rope on CUDA: q and k, each row through its RMS norm and then through the rotary position
// embedding of layout "half".
//
// part[0] for q, part[1] for k: x [rows, COS_LAST], cos and sin, which repeat along the heads, and
// out, the same; rows anywhere in memory (OUT moves heads by strides alone). flat[0], flat[1]: the
// weights of q's and k's norm [COS_LAST], or absent. number[0], number[1]: their eps.
// Must move: q and k in, as much out, and cos, sin and the weights once. cos and sin are asked for
// by each head, and come from the caches; the weights are read once per block for each row at a
// time. Work: a unit is as many rows of q, or of k, as TFR_QK_THREADS threads have: up to 32
// threads for a row, each with packs of the same columns of both halves, which stay in its
// registers. Rounding: the norm's points (norm_orders.h), then each product and the sum to the
// dtype that torch promotes the norm's result, cos and sin to.
#include "codegen_templates/device_norm.h"
#include "codegen_templates/device_rope.h"
#include "codegen_templates/qk_rows.h"

#if !defined ORDER || !defined Q_DTYPE || !defined K_DTYPE || !defined COS_DTYPE ||                \
    !defined SIN_DTYPE || !defined COS_LAST
#error "qk_norm_rope.cu needs ORDER, the dtypes and COS_LAST"
#endif
#ifndef Q_NORM_WEIGHT_DTYPE
#define Q_NORM_WEIGHT_DTYPE TFR_NONE
#endif
#ifndef K_NORM_WEIGHT_DTYPE
#define K_NORM_WEIGHT_DTYPE TFR_NONE
#endif
static_assert(!tfr_norm_has_weight(ORDER) ||
                  (Q_NORM_WEIGHT_DTYPE != TFR_NONE && K_NORM_WEIGHT_DTYPE != TFR_NONE),
              "this order has weights");

enum { X, COS, SIN, OUT_ROW, ARRAYS };
enum { HEAD = (int)COS_LAST, HALF = HEAD / 2, WEIGHTED = tfr_norm_has_weight(ORDER) };
static_assert(HEAD % 2 == 0 && HEAD <= TFR_QK_HEAD, "tfr_lay refuses such heads");

// What the rows of one of q and k are compiled for.
template <int DTYPE, int WEIGHT> struct kind {
    enum {
        x = DTYPE,
        weight = WEIGHTED ? WEIGHT : TFR_F32, // which nobody reads then
        normed = tfr_norm_result(ORDER, x, weight),
        out = tfr_promote(normed, tfr_promote(COS_DTYPE, SIN_DTYPE)),
        vector = tfr_qk_vector(HEAD, x, out),
        packs = HALF / vector,
        lanes = tfr_qk_lanes(HEAD, vector),
        rows = TFR_QK_THREADS / lanes, // of a unit
        each = (packs + lanes - 1) / lanes,
        full = packs == each * lanes
    };
};

// The values of one pack of each half through norm and rotation to the result.
template <class K, bool ALIGNED>
TFR_INLINE void turn(char *const *at, int i, float root, const tfr_pack<K::x, K::vector> *x,
                     const tfr_pack<K::weight, K::vector> *weight) {
    constexpr int V = K::vector;
    float v[2][V], cos[2][V], sin[2][V];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        tfr_load_floats<COS_DTYPE, V, ALIGNED>(at[COS], half * HALF + i, cos[half]);
        tfr_load_floats<SIN_DTYPE, V, ALIGNED>(at[SIN], half * HALF + i, sin[half]);
        tfr_floats(x[half], v[half]);
        tfr_norm_scale<ORDER, K::x>(v[half], root, weight[half]);
        tfr_round<K::normed, V>(v[half]);
    }
    tfr_rotate<tfr_promote(K::normed, COS_DTYPE), tfr_promote(K::normed, SIN_DTYPE), V>(
        v[0], v[1], cos[0], sin[0], cos[1], sin[1]);
    tfr_store_floats<K::out, V, ALIGNED>(at[OUT_ROW], i, v[0]);
    tfr_store_floats<K::out, V, ALIGNED>(at[OUT_ROW], HALF + i, v[1]);
}

// Units `unit`, unit + gridDim.x, ... below `end`; `begin` is the part's first. Returns the next.
template <class K, bool ALIGNED>
TFR_INLINE int64_t do_units(const tfr_device_args &a, int part, int64_t unit, int64_t begin,
                            int64_t end) {
    constexpr int V = K::vector, EACH = K::each;
    const int lane = threadIdx.x % K::lanes, group = threadIdx.x / K::lanes;
    const tfr_device_rows &rows = a.part[part];
    tfr_pack<K::weight, V> weight[EACH][2] = {};
    if (unit >= end)
        return unit;
    if constexpr (WEIGHTED) {
        const char *from = (const char *)a.flat[part];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const char *first = from + (k * K::lanes + lane) * V * (int)tfr_size_of(K::weight);
            if (K::full || k * K::lanes + lane < K::packs) {
                weight[k][0] = tfr_load<K::weight, V, ALIGNED>(first);
                weight[k][1] =
                    tfr_load<K::weight, V, ALIGNED>(first + HALF * (int)tfr_size_of(K::weight));
            }
        }
    }
    for (; unit < end; unit += gridDim.x) {
        const int64_t row = (unit - begin) * K::rows + group;
        const bool mine = row < rows.count; // all threads meet in the sum
        char *at[ARRAYS];
        tfr_pack<K::x, V> x[EACH][2] = {};
        float sum[V] = {};
        tfr_find_row<ARRAYS>(rows, mine ? row : 0, at);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const char *first = at[X] + (k * K::lanes + lane) * V * (int)tfr_size_of(K::x);
            if (mine && (K::full || k * K::lanes + lane < K::packs)) {
                x[k][0] = tfr_load<K::x, V, ALIGNED>(first);
                x[k][1] = tfr_load<K::x, V, ALIGNED>(first + HALF * (int)tfr_size_of(K::x));
            }
        }
#pragma unroll
        for (int k = 0; k < 2 * EACH; k++)
            tfr_norm_square(x[k / 2][k % 2], sum);
        const float root =
            tfr_norm_root<ORDER, K::x, K::lanes, TFR_QK_THREADS, V>(sum, 0, HEAD, a.number[part]);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (mine && (K::full || k * K::lanes + lane < K::packs))
                turn<K, ALIGNED>(at, (k * K::lanes + lane) * V, root, x[k], weight[k]);
    }
    return unit;
}

template <bool ALIGNED> TFR_INLINE void run(const tfr_device_args &a) {
    typedef kind<Q_DTYPE, Q_NORM_WEIGHT_DTYPE> q;
    typedef kind<K_DTYPE, K_NORM_WEIGHT_DTYPE> k;
    constexpr bool alike = (int)q::x == (int)k::x && (int)q::weight == (int)k::weight;
    const int64_t units = (a.part[0].count + q::rows - 1) / q::rows; // of q
    int64_t unit = blockIdx.x;
    if constexpr (alike) {
#pragma unroll 1
        for (int part = 0; part < 2; part++)
            unit = do_units<q, ALIGNED>(a, part, unit, part ? units : 0, part ? a.units : units);
    } else {
        unit = do_units<q, ALIGNED>(a, 0, unit, 0, units);
        do_units<k, ALIGNED>(a, 1, unit, units, a.units);
    }
}

extern "C" __global__ void __launch_bounds__(TFR_QK_THREADS)
    tfr_qk_norm_rope(const __grid_constant__ tfr_device_args a) {
    if (a.flat_aligned && (a.part[0].count == 0 || a.part[0].aligned) &&
        (a.part[1].count == 0 || a.part[1].aligned))
        run<true>(a);
    else
        run<false>(a);
}
