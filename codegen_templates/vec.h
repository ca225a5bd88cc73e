// Eight floats at a time in GCC and clang vector extensions: loads and stores of f32 and bf16,
// torch's roundings, sums in a fixed order. No intrinsics, so that every target compiles it; and no
// fused multiply-add, so that every build gives the same bits.
#ifndef TFR_VEC_H
#define TFR_VEC_H

#include <string.h>

#include "codegen_templates/kernel.h"

typedef float tfr_v8 __attribute__((vector_size(32)));
typedef int32_t tfr_i8 __attribute__((vector_size(32)));
typedef uint32_t tfr_u8 __attribute__((vector_size(32)));
typedef uint16_t tfr_h8 __attribute__((vector_size(16)));
typedef int16_t tfr_s8 __attribute__((vector_size(16)));

TFR_INLINE tfr_v8 tfr_all(float x) { return (tfr_v8){x, x, x, x, x, x, x, x}; }

// a where the mask's lanes are -1, b where they are 0.
TFR_INLINE tfr_v8 tfr_choose(tfr_i8 mask, tfr_v8 a, tfr_v8 b) {
    return (tfr_v8)(((tfr_i8)a & mask) | ((tfr_i8)b & ~mask));
}

// The larger and the smaller of x and a bound; a NaN stays. AVX has one instruction for each; clang
// finds it, gcc does not.
TFR_INLINE tfr_v8 tfr_at_least(tfr_v8 x, float low) {
#if defined __AVX__ && !defined __clang__
    return (tfr_v8)__builtin_ia32_maxps256(tfr_all(low), x);
#else
    return tfr_choose(x < tfr_all(low), tfr_all(low), x);
#endif
}

TFR_INLINE tfr_v8 tfr_at_most(tfr_v8 x, float high) {
#if defined __AVX__ && !defined __clang__
    return (tfr_v8)__builtin_ia32_minps256(tfr_all(high), x);
#else
    return tfr_choose(x > tfr_all(high), tfr_all(high), x);
#endif
}

// x rounded to bf16, in the upper halves; what the lower ones hold does not count. To nearest, ties
// to even; every NaN becomes 0x7fc0, as in torch.
TFR_INLINE tfr_u8 tfr_bf16_upper(tfr_v8 x) {
    tfr_u8 u = (tfr_u8)x;
    tfr_u8 rounded = u + 0x7fffu + ((u >> 16) & 1u), nan = {0};
    return (tfr_u8)tfr_choose(x != x, (tfr_v8)(nan + 0x7fc00000u), (tfr_v8)rounded);
}

// The same for x that comes of bf16 values alone: no NaN has bits in its lower half then, so adding
// there leaves it one.
TFR_INLINE tfr_u8 tfr_bf16_upper_own(tfr_v8 x) {
    tfr_u8 u = (tfr_u8)x;
    return u + 0x7fffu + ((u >> 16) & 1u);
}

TFR_INLINE tfr_u8 tfr_bf16_bits(tfr_v8 x) { return tfr_bf16_upper(x) >> 16; }

// x rounded to `dtype`, still as f32.
TFR_INLINE tfr_v8 tfr_round(tfr_v8 x, int dtype) {
    return dtype == TFR_BF16 ? (tfr_v8)(tfr_bf16_upper(x) & 0xffff0000u) : x;
}

// The same for x that comes of values of `dtype` alone.
TFR_INLINE tfr_v8 tfr_round_own(tfr_v8 x, int dtype) {
    return dtype == TFR_BF16 ? (tfr_v8)(tfr_bf16_upper_own(x) & 0xffff0000u) : x;
}

// Elements i .. i+7 of `p`, which holds `dtype`.
TFR_INLINE tfr_v8 tfr_load(const void *p, int64_t i, int dtype) {
    if (dtype == TFR_BF16) {
        tfr_h8 h;
        memcpy(&h, (const uint16_t *)p + i, sizeof h);
#if defined __AVX2__ && !defined __clang__ // gcc makes six instructions of what is one
        return (tfr_v8)((tfr_u8)__builtin_ia32_pmovzxwd256((tfr_s8)h) << 16);
#else
        return (tfr_v8)(__builtin_convertvector(h, tfr_u8) << 16);
#endif
    }
    tfr_v8 v;
    memcpy(&v, (const float *)p + i, sizeof v);
    return v;
}

// Stores x rounded to `dtype`.
TFR_INLINE void tfr_store(void *p, int64_t i, tfr_v8 x, int dtype) {
    if (dtype == TFR_BF16) {
        tfr_h8 h = __builtin_convertvector(tfr_bf16_bits(x), tfr_h8);
        memcpy((uint16_t *)p + i, &h, sizeof h);
        return;
    }
    memcpy((float *)p + i, &x, sizeof x);
}

// Elements i .. i+15 of bf16 at once, in two vectors of every other element, which is the cheapest
// way in and out where each element stands for itself.
TFR_INLINE void tfr_load_pair(const void *p, int64_t i, tfr_v8 *even, tfr_v8 *odd) {
    tfr_u8 u;
    memcpy(&u, (const uint16_t *)p + i, sizeof u);
    *even = (tfr_v8)(u << 16);
    *odd = (tfr_v8)(u & 0xffff0000u);
}

TFR_INLINE void tfr_store_pair(void *p, int64_t i, tfr_u8 even_upper, tfr_u8 odd_upper) {
    tfr_u8 u = (even_upper >> 16) | (odd_upper & 0xffff0000u);
    memcpy((uint16_t *)p + i, &u, sizeof u);
}

// As tfr_load and tfr_store for n < 8 elements; the other lanes are 0.
TFR_INLINE tfr_v8 tfr_load_part(const void *p, int64_t i, int64_t n, int dtype) {
    char bytes[32] = {0};
    memcpy(bytes, (const char *)p + i * tfr_size_of(dtype), (size_t)(n * tfr_size_of(dtype)));
    return tfr_load(bytes, 0, dtype);
}

TFR_INLINE void tfr_store_part(void *p, int64_t i, int64_t n, tfr_v8 x, int dtype) {
    char bytes[32];
    tfr_store(bytes, 0, x, dtype);
    memcpy((char *)p + i * tfr_size_of(dtype), bytes, (size_t)(n * tfr_size_of(dtype)));
}

// The sum of the lanes, as a tree.
TFR_INLINE float tfr_sum(tfr_v8 v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// Each lane's square root, rounded right.
TFR_INLINE float tfr_sqrt(float x) { return __builtin_sqrtf(x); }

#endif
