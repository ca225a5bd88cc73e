// rope on CUDA: every variant of rules/rope.py but the one that looks its tables up.
//
// part[0] for q (or x alone), part[1] for k: x [rows, head], cos and sin [rows, COS_LAST], which
// repeat along the heads, out [rows, head]; rows anywhere in memory. width: the head sizes. LAYOUT
// says where pairs and their angles lie, as in rope.c: `width` columns turn, those behind them
// (PARTIAL=YES) or before them (LAST) are copied.
// Must move: q and k in, as much out, cos and sin once. cos and sin are asked for by each head, and
// come from the caches.
// Work: a unit is TFR_ROPE_THREADS packs, a pack for each thread: pairs (128 bits of one of them,
// or of both where they lie side by side; less if the row has no multiple of it) or copied columns.
// A block has packs of q or of k, not both. Rounding: as rope.c: each product to the dtype that
// torch promotes to, or f32 where ROUND says so, then the sum to the result's dtype.
#include "codegen_templates/device_rope.h"
#include "codegen_templates/rope_layouts.h"

#if !defined LAYOUT || !defined ROUND || !defined PARTIAL || !defined Q_DTYPE ||                   \
    !defined COS_DTYPE || !defined SIN_DTYPE || !defined COS_LAST
#error "rope.cu needs LAYOUT, ROUND, PARTIAL, the dtypes and COS_LAST"
#endif

enum { X, COS, SIN, OUT, ARRAYS };
enum { WIDTH = (int)turning(COS_LAST, LAYOUT), HALF_OF = WIDTH / 2 };

// What the rows of one dtype are compiled for.
template <int DTYPE> struct kind {
    enum {
        x = DTYPE,
        out = result_dtype(ROUND, DTYPE, Q_DTYPE, COS_DTYPE, SIN_DTYPE),
        vector = turned_vector(LAYOUT, WIDTH, x, out),
        copy = copied_vector(WIDTH, x, out),
        turned = HALF_OF / vector // packs of a row
    };
    static __device__ int64_t packs(int64_t head) {
        return turned + (PARTIAL == NO ? 0 : (head - WIDTH + copy - 1) / copy);
    }
};

// The angles of VECTOR pairs from pair i on.
template <int DTYPE, int VECTOR, bool ALIGNED>
TFR_INLINE void load_angles(const char *row, int i, float *first, float *second) {
    if constexpr (plain_pairs(LAYOUT)) {
        tfr_load_pairs<DTYPE, VECTOR, ALIGNED>(row, i, first, second);
    } else {
        const int other = one_angle(LAYOUT) ? i : HALF_OF + i;
        tfr_load_floats<DTYPE, VECTOR, ALIGNED>(row, i, first);
        tfr_load_floats<DTYPE, VECTOR, ALIGNED>(row, other, second);
    }
}

template <class K, bool ALIGNED> TFR_INLINE void turn(char *const *at, int i) {
    constexpr int V = K::vector;
    float a[V], b[V], c1[V], c2[V], s1[V], s2[V];
    if constexpr (reads_pairs(LAYOUT)) {
        tfr_load_pairs<K::x, V, ALIGNED>(at[X], i, a, b);
    } else {
        tfr_load_floats<K::x, V, ALIGNED>(at[X], i, a);
        tfr_load_floats<K::x, V, ALIGNED>(at[X], HALF_OF + i, b);
    }
    load_angles<COS_DTYPE, V, ALIGNED>(at[COS], i, c1, c2);
    load_angles<SIN_DTYPE, V, ALIGNED>(at[SIN], i, s1, s2);
    if constexpr (LAYOUT == HALF_BACK) {
#pragma unroll
        for (int n = 0; n < V; n++) {
            s1[n] = -s1[n];
            s2[n] = -s2[n];
        }
    }
    tfr_rotate<product_dtype(ROUND, K::x, COS_DTYPE), product_dtype(ROUND, K::x, SIN_DTYPE), V>(
        a, b, c1, s1, c2, s2);
    if constexpr (writes_pairs(LAYOUT)) {
        tfr_store_pairs<K::out, V, ALIGNED>(at[OUT], i, a, b);
    } else {
        tfr_store_floats<K::out, V, ALIGNED>(at[OUT], i, a);
        tfr_store_floats<K::out, V, ALIGNED>(at[OUT], HALF_OF + i, b);
    }
}

// Columns i .. i + n - 1, n <= K::copy.
template <class K, bool ALIGNED> TFR_INLINE void copy(char *const *at, int i, int n) {
    tfr_pack<K::x, K::copy> x =
        tfr_load<K::x, K::copy, ALIGNED>(at[X] + i * (int)tfr_size_of(K::x), n);
    char *to = at[OUT] + i * (int)tfr_size_of(K::out);
    if constexpr ((int)K::out == (int)K::x) { // whatever the bits of a NaN are
        tfr_store<ALIGNED>(to, x, n);
    } else {
        float v[K::copy];
        tfr_floats(x, v);
        tfr_store<ALIGNED>(to, tfr_packed<K::out, K::copy>(v), n);
    }
}

// Pack `pack` of all rows of a part.
template <class K, bool ALIGNED>
TFR_INLINE void do_pack(const tfr_device_args &a, int part, int64_t pack) {
    const tfr_device_rows &rows = a.part[part];
    const int64_t head = a.width[part], packs = K::packs(head), all = packs * rows.count;
    if (pack >= all)
        return;
    const int64_t row = tfr_quotient(pack, packs, all <= 0x7fffffff);
    const int k = (int)(pack - row * packs);
    char *at[ARRAYS];
    tfr_find_row<ARRAYS>(rows, row, at);
    const int rest = (int)head - WIDTH; // columns that are copied
    if (PARTIAL == NO || k < K::turned) {
        if constexpr (PARTIAL == LAST) {
            at[X] += rest * (int)tfr_size_of(K::x);
            at[OUT] += rest * (int)tfr_size_of(K::out);
        }
        turn<K, ALIGNED>(at, k * K::vector);
    } else {
        const int n = (k - K::turned) * K::copy, left = rest - n;
        const int i = PARTIAL == LAST ? n : WIDTH + n;
        copy<K, ALIGNED>(at, i, left < K::copy ? left : K::copy);
    }
}

template <bool ALIGNED> TFR_INLINE void run(const tfr_device_args &a) {
    typedef kind<Q_DTYPE> q;
    typedef kind<K_DTYPE == TFR_NONE ? Q_DTYPE : K_DTYPE> k;
    const int64_t packs = q::packs(a.width[0]) * a.part[0].count;
    const int64_t units = (packs + TFR_ROPE_THREADS - 1) / TFR_ROPE_THREADS; // of q
    for (int64_t unit = blockIdx.x; unit < a.units; unit += gridDim.x) {
        const int part = unit >= units;
        const int64_t pack = (unit - (part ? units : 0)) * TFR_ROPE_THREADS + threadIdx.x;
        if (part && (int)k::x != (int)q::x)
            do_pack<k, ALIGNED>(a, 1, pack);
        else
            do_pack<q, ALIGNED>(a, part, pack);
    }
}

// Whether packs of this part start where whole loads may: also behind columns that come first.
TFR_INLINE bool is_aligned(const tfr_device_args &a, int part) {
    return a.part[part].count == 0 ||
           (a.part[part].aligned && (PARTIAL != LAST || (a.width[part] - WIDTH) % 8 == 0));
}

extern "C" __global__ void __launch_bounds__(TFR_ROPE_THREADS)
    tfr_rope(const __grid_constant__ tfr_device_args a) {
    if (is_aligned(a, 0) && is_aligned(a, 1))
        run<true>(a);
    else
        run<false>(a);
}
