// RMS norm of whole rows on CUDA: what rms_norm.cu and add_rms_norm.cu share. It must not know where
// the values of a row come from: a kernel says that in a struct ROW (see tfr_norm_kernel).
#ifndef TFR_DEVICE_NORM_H
#define TFR_DEVICE_NORM_H

#include "codegen_templates/device_vec.h"
#include "codegen_templates/norm_orders.h"

// How rows of WIDTH elements, V of them in a pack, are split over threads. Thread t of those of a
// row has packs t, t + threads, ...; rows of up to 16384 stay in its registers. Wider than a warp
// with four packs each: a block, with two packs each, or four of those with many.
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

template <int64_t WIDTH, int V> struct tfr_norm_shape {
    enum {
        packs = (int)((WIDTH + V - 1) / V),
        threads = tfr_norm_threads(WIDTH, packs), // of a row
        rows = threads < 128 ? 128 / threads : 1, // of a block at a time
        block = rows * threads,
        held = WIDTH <= 16384,
        each = held ? (packs + threads - 1) / threads : 1, // packs of a thread
        even = packs * V == (int)WIDTH,                    // no pack is cut
        full = even && held && packs == each * threads     // every thread has as many
    };
};

// The sum over the threads of a row, for each of them the same bits. THREADS: a power of two up to
// 32, or warps of one block; then `turn` alternates between 0 and 1 from one call to the next, so
// that one barrier does.
template <int THREADS> TFR_INLINE float tfr_row_sum(float x, int turn) {
#pragma unroll
    for (int d = (THREADS < 32 ? THREADS : 32) / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    if constexpr (THREADS > 32) {
        static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps, and 32 at most");
        __shared__ float part[2][THREADS / 32];
        const int lane = threadIdx.x % 32;
        if (lane == 0)
            part[turn][threadIdx.x / 32] = x;
        __syncthreads();
        x = lane < THREADS / 32 ? part[turn][lane] : 0.0f;
#pragma unroll
        for (int d = 16; d > 0; d /= 2)
            x += __shfl_xor_sync(0xffffffffu, x, d);
    }
    return x;
}

// What each x is multiplied with.
template <int ORDER, int DTYPE>
TFR_INLINE float tfr_norm_root(float squares, int64_t width, float eps) {
    float root = rsqrtf(squares / (float)width + eps);
    if (ORDER == TFR_NORM_ROOT_CAST)
        tfr_round<DTYPE, 1>(&root);
    return root;
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
        x[i] *= root;
    if constexpr (tfr_norm_has_weight(ORDER)) {
        tfr_round<t.inner, V>(x);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] *= factor[i];
    }
}

// The rows of part 0, with the norm's weight in flat[0] and its eps in number[0]. ROW has
//     order, dtype, weight     the norm's order, the dtypes of a row and of the weight (TFR_F32 for
//                              an order without one, which does not read it)
//     vector, width            elements of a pack and of a row
//     shape                    its tfr_norm_shape
//     arrays, out              how many arrays the part has, and which takes the result
//     first<ALIGNED>(at, i, n) the pack of elements i .. i + n - 1 of the row at `at`, read once
//     again<ALIGNED>(at, i, n) the same for the second time, of rows too wide for the registers
template <class ROW, bool ALIGNED> TFR_INLINE void tfr_norm_rows(const tfr_device_args &a) {
    typedef typename ROW::shape shape;
    constexpr int V = ROW::vector, WIDTH = ROW::width;
    constexpr int T = shape::threads, EACH = shape::each;
    constexpr int order = ROW::order, dtype = ROW::dtype, weight_dtype = ROW::weight;
    constexpr int result = tfr_norm_result(order, dtype, weight_dtype);
    constexpr int out_size = (int)tfr_size_of(result), weight_size = (int)tfr_size_of(weight_dtype);
    constexpr bool weighted = tfr_norm_has_weight(order);
    const int group = shape::rows == 1 ? 0 : threadIdx.x / T;
    const int lane = shape::rows == 1 ? threadIdx.x : threadIdx.x % T;
    const char *weights = (const char *)a.flat[0];

    tfr_pack<weight_dtype, V> weight[EACH] = {};
    if constexpr (shape::held && weighted) {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int i = (k * T + lane) * V;
            if (shape::full || i < WIDTH)
                weight[k] = tfr_load<weight_dtype, V, ALIGNED>(weights + i * weight_size,
                                                              shape::even ? V : WIDTH - i);
        }
    }
    int turn = 0;
    for (int64_t first = blockIdx.x; first < a.units; first += (int64_t)gridDim.x * shape::rows) {
        const int64_t row = first + (int64_t)group * gridDim.x;
        const bool mine = shape::rows == 1 || row < a.units; // all threads meet in the sum
        char *at[ROW::arrays];
        float x[V];
        tfr_find_row<ROW::arrays>(a.part[0], mine ? row : 0, at);
        if constexpr (shape::held) {
            tfr_pack<dtype, V> held[EACH] = {};
            float squares = 0.0f;
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                const int i = (k * T + lane) * V;
                if (mine && (shape::full || i < WIDTH))
                    held[k] = ROW::template first<ALIGNED>(at, i, shape::even ? V : WIDTH - i);
            }
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                tfr_floats<dtype, V>(held[k], x);
#pragma unroll
                for (int n = 0; n < V; n++)
                    squares = fmaf(x[n], x[n], squares);
            }
            squares = tfr_row_sum<T>(squares, turn);
            const float root = tfr_norm_root<order, dtype>(squares, WIDTH, a.number[0]);
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                const int i = (k * T + lane) * V;
                tfr_floats<dtype, V>(held[k], x);
                tfr_norm_scale<order, dtype>(x, root, weight[k]);
                if (mine && (shape::full || i < WIDTH))
                    tfr_store<ALIGNED>(at[ROW::out] + i * out_size, tfr_packed<result, V>(x),
                                       shape::even ? V : WIDTH - i);
            }
        } else {
            float sum[V] = {}; // one for each place of a pack: short sums, small errors
#pragma unroll 4
            for (int i = lane * V; i < WIDTH; i += T * V) {
                tfr_floats<dtype, V>(
                    ROW::template first<ALIGNED>(at, i, shape::even ? V : WIDTH - i), x);
#pragma unroll
                for (int n = 0; n < V; n++)
                    sum[n] = fmaf(x[n], x[n], sum[n]);
            }
#pragma unroll
            for (int d = V / 2; d > 0; d /= 2)
#pragma unroll
                for (int n = 0; n < d; n++)
                    sum[n] += sum[n + d];
            sum[0] = tfr_row_sum<T>(sum[0], turn);
            const float root = tfr_norm_root<order, dtype>(sum[0], WIDTH, a.number[0]);
#pragma unroll 2
            for (int i = lane * V; i < WIDTH; i += T * V) {
                const int n = shape::even ? V : WIDTH - i;
                if constexpr (weighted)
                    weight[0] = tfr_load<weight_dtype, V, ALIGNED>(weights + i * weight_size, n);
                tfr_floats<dtype, V>(ROW::template again<ALIGNED>(at, i, n), x);
                tfr_norm_scale<order, dtype>(x, root, weight[0]);
                tfr_store<ALIGNED>(at[ROW::out] + i * out_size, tfr_packed<result, V>(x), n);
            }
        }
        turn ^= 1;
    }
}

template <class ROW> TFR_INLINE void tfr_norm_kernel(const tfr_device_args &a) {
    if (a.part[0].aligned && a.flat_aligned)
        tfr_norm_rows<ROW, true>(a);
    else
        tfr_norm_rows<ROW, false>(a);
}

#endif
