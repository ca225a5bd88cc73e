// add_layer_norm on CUDA: s = residual + x and its layer norm, as rules/add_layer_norm.py.
//
// part[0]: x, residual, the norm out, and with RESULTS=BOTH s out: [rows, X_LAST] each, rows
// anywhere in memory. flat[0], flat[1]: the norm's weight and bias [X_LAST], absent or of s's
// dtype. number[0]: eps. Dtypes as in add_layer_norm.c.
// Must move: x and residual in, the results out, weight and bias once; that is what it moves for
// rows up to 16384 wide (weight and bias once per block, or per row where a row takes more than
// 512 threads). Wider rows add three times, and read weight and bias again.
// Work: as rms_norm.cu, with two sums over a row: its total, then the squares of what has the mean
// taken off.
// Rounding: s to its dtype; then (s - mean) * root * weight + bias in f32, and once to s's dtype.
#include "codegen_templates/device_norm.h"

#define VALUES(X) X(BOTH) X(NORM)
enum { VALUES(TFR_VALUE_ENUM) };

#if !defined RESULTS || !defined X_DTYPE || !defined RESIDUAL_DTYPE || !defined X_LAST
#error "add_layer_norm.cu needs RESULTS, X_DTYPE, RESIDUAL_DTYPE and X_LAST"
#endif
#ifndef NORM_WEIGHT_DTYPE
#define NORM_WEIGHT_DTYPE TFR_NONE
#endif
#ifndef NORM_BIAS_DTYPE
#define NORM_BIAS_DTYPE TFR_NONE
#endif

enum {
    DTYPE = tfr_promote(X_DTYPE, RESIDUAL_DTYPE),
    V = tfr_vector(DTYPE),
    WIDTH = (int)X_LAST,
    OUT = 2,
    SUM = 3,
    ARRAYS = RESULTS == BOTH ? 4 : 3,
    HAS_WEIGHT = NORM_WEIGHT_DTYPE != TFR_NONE,
    HAS_BIAS = NORM_BIAS_DTYPE != TFR_NONE
};
// A power of two that keeps a row's total from overflowing.
TFR_CONSTANT float unit_of(int64_t width) {
    float unit = 1.0f;
    while (unit * (float)width > 1.0f)
        unit /= 2;
    return unit;
}

typedef tfr_norm_shape<X_LAST, V, DTYPE, 2> shape;
typedef tfr_pack<DTYPE, V> pack;
static_assert(!HAS_WEIGHT || NORM_WEIGHT_DTYPE == DTYPE, "the weight has the sum's dtype");
static_assert(!HAS_BIAS || NORM_BIAS_DTYPE == DTYPE, "the bias has the sum's dtype");

// The pack of the rounded sum from element i on, n at most.
template <bool ALIGNED> TFR_INLINE pack add_pack(char *const *at, int i, int n) {
    float s[V], x[V];
    const char *residual = at[1] + i * (int)tfr_size_of(RESIDUAL_DTYPE);
    tfr_floats(tfr_load<RESIDUAL_DTYPE, V, ALIGNED>(residual, n), s);
    tfr_floats(tfr_load<X_DTYPE, V, ALIGNED>(at[0] + i * (int)tfr_size_of(X_DTYPE), n), x);
#pragma unroll
    for (int k = 0; k < V; k++)
        s[k] += x[k];
    return tfr_packed<DTYPE, V>(s);
}

template <bool ALIGNED> TFR_INLINE void keep_sum(char *const *at, int i, int n, const pack &s) {
    if constexpr (RESULTS == BOTH)
        tfr_store<ALIGNED>(at[SUM] + i * (int)tfr_size_of(DTYPE), s, n);
}

// Times unit_of the width. What lies behind the row's end is 0.
TFR_INLINE float total_of(const pack &s) {
    constexpr float unit = unit_of(X_LAST);
    float x[V], total = 0.0f;
    tfr_floats(s, x);
#pragma unroll
    for (int k = 0; k < V; k++)
        total += x[k] * unit;
    return total;
}

// The squares of n values without the mean, one sum for each place in a pack.
TFR_INLINE void add_squares(const pack &s, float mean, int n, float *sum) {
    float x[V];
    tfr_floats(s, x);
#pragma unroll
    for (int k = 0; k < V; k++) {
        const float d = shape::even || k < n ? x[k] - mean : 0.0f;
        sum[k] = fmaf(d, d, sum[k]);
    }
}

TFR_INLINE float mean_of(float total) { return total / (unit_of(X_LAST) * (float)WIDTH); }

// 1 / sqrt(variance + eps) of a row from the sums of each of its threads.
template <int T> TFR_INLINE float root_of(float *sum, int turn, float eps) {
#pragma unroll
    for (int d = V / 2; d > 0; d /= 2)
#pragma unroll
        for (int k = 0; k < d; k++)
            sum[k] += sum[k + d];
    return rsqrtf(tfr_row_sum<T, shape::block>(sum[0], turn) / (float)WIDTH + eps);
}

// Weight and bias from element i on, n at most.
template <bool ALIGNED>
TFR_INLINE void load_affine(const tfr_device_args &a, int i, int n, pack *weight, pack *bias) {
    const int from = i * (int)tfr_size_of(DTYPE);
    if constexpr (HAS_WEIGHT)
        *weight = tfr_load<DTYPE, V, ALIGNED>((const char *)a.flat[0] + from, n);
    if constexpr (HAS_BIAS)
        *bias = tfr_load<DTYPE, V, ALIGNED>((const char *)a.flat[1] + from, n);
}

template <bool ALIGNED>
TFR_INLINE void store_norm(char *const *at, int i, int n, const pack &s, float mean, float root,
                           const pack &weight, const pack &bias) {
    float x[V], factor[V], shift[V];
    tfr_floats(s, x);
    tfr_floats(weight, factor);
    tfr_floats(bias, shift);
#pragma unroll
    for (int k = 0; k < V; k++) {
        x[k] = (x[k] - mean) * root;
        x[k] = fmaf(x[k], HAS_WEIGHT ? factor[k] : 1.0f, HAS_BIAS ? shift[k] : -0.0f);
    }
    tfr_store<ALIGNED>(at[OUT] + i * (int)tfr_size_of(DTYPE), tfr_packed<DTYPE, V>(x), n);
}

// Weight, then bias, of a block whose rows share them. Not in held_rows, of which there are two.
template <int PACKS> TFR_INLINE pack *shared_packs() {
    __shared__ __align__(16) pack kept[2 * PACKS];
    return kept;
}

// Whoever reads what is shared has passed a barrier: here, or in the sums where those have one.
template <bool ALIGNED> TFR_INLINE void fill_shared(const tfr_device_args &a, pack *shared) {
#pragma unroll 1
    for (int k = threadIdx.x; k < shape::packs; k += shape::block)
        load_affine<ALIGNED>(a, k * V, shape::even ? V : WIDTH - k * V, &shared[k],
                             &shared[shape::packs + k]);
    if (shape::threads <= 32)
        __syncthreads();
}

// As one access: the compiler would make several of halves.
TFR_INLINE pack read_shared(const pack *at) { return tfr_load<DTYPE, V, true>((const char *)at); }

// The packs of weight and bias that go with those of a thread.
template <bool ALIGNED>
TFR_INLINE void load_own(const tfr_device_args &a, int begin, pack *weight, pack *bias) {
#pragma unroll
    for (int k = 0; k < shape::each; k++) {
        const int i = begin + k * shape::threads * V;
        if (shape::full || i < WIDTH)
            load_affine<ALIGNED>(a, i, shape::even ? V : WIDTH - i, &weight[k], &bias[k]);
    }
}

// Rows that stay in registers from the sum to the result, shape::rows of them at a time.
template <bool ALIGNED> TFR_INLINE void held_rows(const tfr_device_args &a) {
    constexpr int T = shape::threads, EACH = shape::each;
    constexpr bool shares = shape::rows > 1;    // weight and bias; else a thread has its own,
    constexpr bool keeps = !shares && T <= 512; // for all its rows where registers do for that
    const int group = shape::rows == 1 ? 0 : threadIdx.x / T;
    const int begin = (shape::rows == 1 ? threadIdx.x : threadIdx.x % T) * V;
    pack weight[EACH] = {}, bias[EACH] = {}, *shared = nullptr;
    if constexpr (shares)
        shared = shared_packs<shape::packs>();
    for (int64_t first = blockIdx.x; first < a.units; first += (int64_t)gridDim.x * shape::rows) {
        const int64_t row = first + (int64_t)group * gridDim.x;
        const bool mine = shape::rows == 1 || row < a.units; // all threads meet at barriers
        char *at[ARRAYS];
        pack s[EACH] = {};
        float total = 0.0f, sum[V] = {};
        tfr_find_row<ARRAYS>(a.part[0], mine ? row : 0, at);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int i = begin + k * T * V, n = shape::even ? V : WIDTH - i;
            if (mine && (shape::full || i < WIDTH)) {
                s[k] = add_pack<ALIGNED>(at, i, n);
                keep_sum<ALIGNED>(at, i, n, s[k]);
            }
            total += total_of(s[k]);
        }
        if (first == blockIdx.x && shares)
            fill_shared<ALIGNED>(a, shared);
        if (first == blockIdx.x && keeps)
            load_own<ALIGNED>(a, begin, weight, bias);
        const float mean = mean_of(tfr_row_sum<T, shape::block>(total, 0));
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int i = begin + k * T * V;
            if (shape::full || i < WIDTH)
                add_squares(s[k], mean, WIDTH - i, sum);
        }
        const float root = root_of<T>(sum, 1, a.number[0]);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int i = begin + k * T * V, n = shape::even ? V : WIDTH - i;
            if (!mine || !(shape::full || i < WIDTH))
                continue;
            if (!keeps && !shares)
                load_affine<ALIGNED>(a, i, n, &weight[k], &bias[k]);
            store_norm<ALIGNED>(at, i, n, s[k], mean, root,
                                shares && HAS_WEIGHT ? read_shared(&shared[i / V]) : weight[k],
                                shares && HAS_BIAS ? read_shared(&shared[shape::packs + i / V])
                                                   : bias[k]);
        }
    }
}

// Rows too wide for that, a block for each.
template <bool ALIGNED> TFR_INLINE void wide_rows(const tfr_device_args &a) {
    constexpr int T = shape::block, STEP = T * V;
    for (int64_t row = blockIdx.x; row < a.units; row += gridDim.x) {
        char *at[ARRAYS];
        float total = 0.0f, sum[V] = {};
        tfr_find_row<ARRAYS>(a.part[0], row, at);
#pragma unroll 4
        for (int i = threadIdx.x * V; i < WIDTH; i += STEP)
            total += total_of(add_pack<ALIGNED>(at, i, shape::even ? V : WIDTH - i));
        const float mean = mean_of(tfr_row_sum<T, T>(total, 0));
#pragma unroll 4
        for (int i = threadIdx.x * V; i < WIDTH; i += STEP) {
            const int n = shape::even ? V : WIDTH - i;
            add_squares(add_pack<ALIGNED>(at, i, n), mean, n, sum);
        }
        const float root = root_of<T>(sum, 1, a.number[0]);
#pragma unroll 2
        for (int i = threadIdx.x * V; i < WIDTH; i += STEP) {
            const int n = shape::even ? V : WIDTH - i;
            const pack s = add_pack<ALIGNED>(at, i, n);
            pack weight = {}, bias = {};
            load_affine<ALIGNED>(a, i, n, &weight, &bias);
            keep_sum<ALIGNED>(at, i, n, s);
            store_norm<ALIGNED>(at, i, n, s, mean, root, weight, bias);
        }
    }
}

template <bool ALIGNED> TFR_INLINE void every_row(const tfr_device_args &a) {
    if constexpr (shape::held)
        held_rows<ALIGNED>(a);
    else
        wide_rows<ALIGNED>(a);
}

extern "C" __global__ void __launch_bounds__(shape::block, shape::blocks)
    tfr_add_layer_norm(const __grid_constant__ tfr_device_args a) {
    if (a.part[0].aligned && a.flat_aligned)
        every_row<true>(a);
    else
        every_row<false>(a);
}
