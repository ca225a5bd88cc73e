// RMS norm of whole rows on CUDA: what rms_norm.cu, add_rms_norm.cu and l2_norm.cu share. It must
// not know where the values of a row come from: a kernel says that in a struct ROW (see
// tfr_norm_kernel).
#ifndef TFR_DEVICE_NORM_H
#define TFR_DEVICE_NORM_H

#include "codegen_templates/device_vec.h"
#include "codegen_templates/norm_orders.h"

// The fewest threads that a multiprocessor of the architecture holds.
#define TFR_SM_THREADS (__CUDA_ARCH__ < 800 ? 1024 : 1536)

// How rows of WIDTH elements, V of them in a pack, are split over threads. Thread t of those of a
// row has packs t, t + threads, ...; rows of up to 16384 stay in its registers. Up to four packs
// for each thread of a warp; wider rows get more warps, for two packs each, or four where there are
// many.
TFR_CONSTANT int tfr_norm_threads(int64_t width, int64_t packs) {
    int threads = 1;
    if (width > 16384)
        return 512;
    if (packs > 4 * 32)
        return (int)(packs <= 1024 ? (packs + 63) / 64 : (packs + 127) / 128) * 32;
    while (threads < 32 && threads < packs)
        threads *= 2;
    return threads;
}

// WEIGHTS: how many arrays of that dtype there are as wide as a row.
template <int64_t WIDTH, int V, int WEIGHT, int WEIGHTS = 1> struct tfr_norm_shape {
    enum {
        packs = (int)((WIDTH + V - 1) / V),
        threads = tfr_norm_threads(WIDTH, packs), // of a row
        held = WIDTH <= 16384,
        each = held ? (packs + threads - 1) / threads : 1, // packs of a thread
        weight_bytes = WEIGHTS * packs * (int)sizeof(tfr_pack<WEIGHT, V>),
        // Rows of a block at a time: with more of them it asks less often for the weight, which
        // they share. 512 threads or a few more, 640 at most and 512 with two weights of 16 bits,
        // so that registers do for two blocks; 48 KB of shared memory are there on every GPU.
        most = (WEIGHTS > 1 && V > 4 ? 512 : 640) / threads,
        some = (511 + threads) / threads <= most ? (511 + threads) / threads : most,
        rows = held && threads <= 320 && weight_bytes <= 40 << 10 ? some : 1,
        block = rows * threads,
        // How many of them a multiprocessor holds at least: registers must allow that.
        blocks = rows > 1 && 2 * block <= TFR_SM_THREADS ? 2 : 1,
        even = packs * V == (int)WIDTH,                // no pack is cut
        full = even && held && packs == each * threads // every thread has as many
    };
};

// The sum over the threads of each row of a block, for each of them the same bits. THREADS: a power
// of two up to 32, or whole warps; then `turn` alternates between 0 and 1 from one call to the
// next, so that one barrier does.
template <int THREADS, int BLOCK> TFR_INLINE float tfr_row_sum(float x, int turn) {
#pragma unroll
    for (int d = (THREADS < 32 ? THREADS : 32) / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    if constexpr (THREADS > 32) {
        static_assert(THREADS % 32 == 0 && BLOCK <= 1024, "whole warps, and 32 at most");
        __shared__ float part[2][BLOCK / 32];
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = THREADS / 32;
        if (lane == 0)
            part[turn][warp] = x;
        __syncthreads();
        x = lane < warps ? part[turn][warp / warps * warps + lane] : 0.0f;
#pragma unroll
        for (int d = 16; d > 0; d /= 2)
            x += __shfl_xor_sync(0xffffffffu, x, d);
    }
    return x;
}

// V values of a row through the norm, up to the rounding of the result. `weight` as loaded.
template <int ORDER, int DTYPE, int WEIGHT, int V>
TFR_INLINE void tfr_norm_scale(float *x, float root, const tfr_pack<WEIGHT, V> &weight) {
    constexpr tfr_norm_dtypes t = tfr_norm_dtypes_of(ORDER, DTYPE, WEIGHT);
    float factor[V];
    tfr_floats<WEIGHT, V>(weight, factor);
    if (tfr_norm_adds_one(ORDER)) {
#pragma unroll
        for (int i = 0; i < V; i++)
            factor[i] = 1.0f + factor[i];
        if (tfr_norm_rounds_one_plus(ORDER))
            tfr_round<WEIGHT, V>(factor);
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] = tfr_norm_is_l2(ORDER) && !tfr_l2_multiplies(ORDER) ? x[i] / root : x[i] * root;
    if constexpr (tfr_norm_has_weight(ORDER)) {
        tfr_round<t.inner, V>(x);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] *= factor[i];
    }
}

// Adds the squares of a pack to sums, one for each place in it: short sums, small errors.
template <int DTYPE, int V>
TFR_INLINE void tfr_norm_square(const tfr_pack<DTYPE, V> &pack, float *sum) {
    float x[V];
    tfr_floats(pack, x);
#pragma unroll
    for (int i = 0; i < V; i++)
        sum[i] = fmaf(x[i], x[i], sum[i]);
}

// The same, each square rounded where an l2 norm's form says so.
template <int ORDER, int DTYPE, int V>
TFR_INLINE void tfr_norm_square_in(const tfr_pack<DTYPE, V> &pack, float *sum) {
    if constexpr (tfr_norm_is_l2(ORDER) && tfr_l2_squares(ORDER, DTYPE) != TFR_F32) {
        float x[V];
        tfr_floats(pack, x);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] *= x[i];
        tfr_round<DTYPE, V>(x);
#pragma unroll
        for (int i = 0; i < V; i++)
            sum[i] += x[i];
    } else {
        tfr_norm_square(pack, sum);
    }
}

// What an l2 norm divides by, or multiplies with, rounded after each step as its form says.
template <int FORM, int DTYPE> TFR_INLINE float tfr_l2_length(float s, float eps) {
    if (tfr_l2_multiplies(FORM))
        return rsqrtf(s + eps);
    tfr_round<tfr_l2_squares(FORM, DTYPE), 1>(&s);
    if (FORM == TFR_NORM_L2_SQRT || FORM == TFR_NORM_L2_MEAN_SQRT)
        s += eps;
    tfr_round<tfr_l2_squares(FORM, DTYPE), 1>(&s);
    s = sqrtf(s);
    tfr_round<DTYPE, 1>(&s);
    if (FORM == TFR_NORM_L2_NORM_ADD)
        s += eps;
    if (FORM == TFR_NORM_L2_NORMALIZE)
        s = s < eps ? eps : s;
    tfr_round<DTYPE, 1>(&s);
    return s;
}

// The root of a row from the sums of each of its threads; `turn` as in tfr_row_sum.
template <int ORDER, int DTYPE, int THREADS, int BLOCK, int V>
TFR_INLINE float tfr_norm_root(float *sum, int turn, int width, float eps) {
#pragma unroll
    for (int d = V / 2; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < d; i++)
            sum[i] += sum[i + d];
    const float total = tfr_row_sum<THREADS, BLOCK>(sum[0], turn);
    if constexpr (tfr_norm_is_l2(ORDER))
        return tfr_l2_length<ORDER, DTYPE>(tfr_l2_means(ORDER) ? total / (float)width : total, eps);
    float root = rsqrtf(total / (float)width + eps);
    if (ORDER == TFR_NORM_ROOT_CAST)
        tfr_round<DTYPE, 1>(&root);
    return root;
}

// ------------------------------------------------------------------ whole rows
// The rows of part 0, with the norm's weight in flat[0] and its eps in number[0]. ROW has
//     order, dtype, weight     the norm's order, the dtypes of a row and of the weight (TFR_F32 for
//                              an order without one, which does not read it)
//     vector, width, shape     elements of a pack and of a row, the row's tfr_norm_shape
//     arrays, out              how many arrays the part has, and which takes the result
//     first<ALIGNED>(at, i, n) the pack of elements i .. i + n - 1 of the row at `at`, read once
//     again<ALIGNED>(at, i, n) the same for the second time, of rows too wide for the registers

// The weight from element i on, n at most.
template <class ROW, bool ALIGNED>
TFR_INLINE void tfr_norm_weight(const tfr_device_args &a, int i, int n,
                                tfr_pack<ROW::weight, ROW::vector> *weight) {
    const char *from = (const char *)a.flat[0] + i * (int)tfr_size_of(ROW::weight);
    if constexpr (tfr_norm_has_weight(ROW::order))
        *weight = tfr_load<ROW::weight, ROW::vector, ALIGNED>(from, n);
}

// Where a block keeps the weight. Not in tfr_norm_held, of which there are two.
template <class ROW> TFR_INLINE tfr_pack<ROW::weight, ROW::vector> *tfr_norm_shared() {
    __shared__ __align__(16) tfr_pack<ROW::weight, ROW::vector> weight[ROW::shape::packs];
    return weight;
}

// The whole weight for a block, or a thread's packs of it, those from element `begin` on. Whoever
// reads what is shared has passed a barrier: here, or in the sum where that has one.
template <class ROW, bool ALIGNED, bool SHARES>
TFR_INLINE void tfr_norm_weights(const tfr_device_args &a, int begin,
                                 tfr_pack<ROW::weight, ROW::vector> *shared,
                                 tfr_pack<ROW::weight, ROW::vector> *own) {
    typedef typename ROW::shape shape;
    constexpr int V = ROW::vector, WIDTH = ROW::width;
    if constexpr (SHARES) {
#pragma unroll 1
        for (int k = threadIdx.x; k < shape::packs; k += shape::block)
            tfr_norm_weight<ROW, ALIGNED>(a, k * V, shape::even ? V : WIDTH - k * V, &shared[k]);
        if (shape::threads <= 32)
            __syncthreads();
    } else {
#pragma unroll
        for (int k = 0; k < shape::each; k++) {
            const int i = begin + k * shape::threads * V;
            if (shape::full || i < WIDTH)
                tfr_norm_weight<ROW, ALIGNED>(a, i, shape::even ? V : WIDTH - i, &own[k]);
        }
    }
}

// Scales and stores elements i .. i + n - 1.
template <class ROW, bool ALIGNED>
TFR_INLINE void tfr_norm_store(char *const *at, int i, int n, float root,
                               const tfr_pack<ROW::dtype, ROW::vector> &pack,
                               const tfr_pack<ROW::weight, ROW::vector> &weight) {
    constexpr int result = tfr_norm_result(ROW::order, ROW::dtype, ROW::weight);
    float x[ROW::vector];
    tfr_floats(pack, x);
    tfr_norm_scale<ROW::order, ROW::dtype>(x, root, weight);
    tfr_store<ALIGNED>(at[ROW::out] + i * (int)tfr_size_of(result),
                       tfr_packed<result, ROW::vector>(x), n);
}

// Rows that stay in registers from the sum to the result, shape::rows of them at a time. The weight
// stays in shared memory, or in registers where a block has one row.
template <class ROW, bool ALIGNED> TFR_INLINE void tfr_norm_held(const tfr_device_args &a) {
    typedef typename ROW::shape shape;
    typedef tfr_pack<ROW::weight, ROW::vector> weight_pack;
    constexpr int V = ROW::vector, WIDTH = ROW::width, T = shape::threads, EACH = shape::each;
    constexpr bool shares = shape::rows > 1 && tfr_norm_has_weight(ROW::order);
    const int group = shape::rows == 1 ? 0 : threadIdx.x / T;
    const int begin = (shape::rows == 1 ? threadIdx.x : threadIdx.x % T) * V;
    weight_pack *shared = nullptr;
    if constexpr (shares)
        shared = tfr_norm_shared<ROW>();
    weight_pack weight[EACH] = {};
    int turn = 0;
    for (int64_t first = blockIdx.x; first < a.units; first += (int64_t)gridDim.x * shape::rows) {
        const int64_t row = first + (int64_t)group * gridDim.x;
        const bool mine = shape::rows == 1 || row < a.units; // all threads meet at barriers
        char *at[ROW::arrays];
        tfr_pack<ROW::dtype, V> x[EACH] = {};
        float sum[V] = {};
        tfr_find_row<ROW::arrays>(a.part[0], mine ? row : 0, at);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int i = begin + k * T * V;
            if (mine && (shape::full || i < WIDTH))
                x[k] = ROW::template first<ALIGNED>(at, i, shape::even ? V : WIDTH - i);
        }
        if (first == blockIdx.x) // the weight, once, while the first rows are under way
            tfr_norm_weights<ROW, ALIGNED, shares>(a, begin, shared, weight);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            tfr_norm_square_in<ROW::order>(x[k], sum);
        const float root = tfr_norm_root<ROW::order, ROW::dtype, T, shape::block, V>(
            sum, turn, WIDTH, a.number[0]);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int i = begin + k * T * V, n = shape::even ? V : WIDTH - i;
            if (mine && (shape::full || i < WIDTH))
                tfr_norm_store<ROW, ALIGNED>(
                    at, i, n, root, x[k],
                    // As one access: the compiler would make several of halves.
                    shares ? tfr_load<ROW::weight, V, true>((const char *)&shared[i / V])
                           : weight[k]);
        }
        turn ^= 1;
    }
}

// Rows too wide for that, a block for each: read twice.
template <class ROW, bool ALIGNED> TFR_INLINE void tfr_norm_wide(const tfr_device_args &a) {
    typedef typename ROW::shape shape;
    constexpr int V = ROW::vector, WIDTH = ROW::width, STEP = shape::block * V;
    int turn = 0;
    for (int64_t row = blockIdx.x; row < a.units; row += gridDim.x) {
        char *at[ROW::arrays];
        float sum[V] = {};
        tfr_find_row<ROW::arrays>(a.part[0], row, at);
#pragma unroll 4
        for (int i = threadIdx.x * V; i < WIDTH; i += STEP)
            tfr_norm_square_in<ROW::order>(
                ROW::template first<ALIGNED>(at, i, shape::even ? V : WIDTH - i), sum);
        const float root = tfr_norm_root<ROW::order, ROW::dtype, shape::block, shape::block, V>(
            sum, turn, WIDTH, a.number[0]);
#pragma unroll 2
        for (int i = threadIdx.x * V; i < WIDTH; i += STEP) {
            const int n = shape::even ? V : WIDTH - i;
            tfr_pack<ROW::weight, V> weight = {};
            tfr_norm_weight<ROW, ALIGNED>(a, i, n, &weight);
            tfr_norm_store<ROW, ALIGNED>(at, i, n, root, ROW::template again<ALIGNED>(at, i, n),
                                         weight);
        }
        turn ^= 1;
    }
}

template <class ROW, bool ALIGNED> TFR_INLINE void tfr_norm_rows(const tfr_device_args &a) {
    if constexpr (ROW::shape::held)
        tfr_norm_held<ROW, ALIGNED>(a);
    else
        tfr_norm_wide<ROW, ALIGNED>(a);
}

template <class ROW> TFR_INLINE void tfr_norm_kernel(const tfr_device_args &a) {
    if (a.part[0].aligned && a.flat_aligned)
        tfr_norm_rows<ROW, true>(a);
    else
        tfr_norm_rows<ROW, false>(a);
}

#endif
