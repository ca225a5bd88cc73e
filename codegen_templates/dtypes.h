// What host templates (.c), CUDA templates (.cu) and runtime/ have in common: integers, dtypes and
// lists of option values. NVRTC is given no headers, so there the integers are made here.
#ifndef TFR_DTYPES_H
#define TFR_DTYPES_H

#ifdef __CUDACC__
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT64_C(x) x##LL
#define TFR_INLINE static __device__ __forceinline__
#define TFR_CONSTANT static constexpr __device__ __forceinline__
#else
#include <stdint.h>
#define TFR_INLINE static inline __attribute__((always_inline, unused))
#define TFR_CONSTANT TFR_INLINE // in CUDA its result can be a constant of the program
#endif

// Host kernels have f32 and bf16; CUDA kernels f16 too.
enum { TFR_NONE = -1, TFR_F32 = 0, TFR_BF16 = 1, TFR_F16 = 2 };

TFR_CONSTANT int64_t tfr_size_of(int dtype) { return dtype == TFR_F32 ? 4 : 2; }

// torch's promotion of two dtypes; TFR_NONE takes no part. Two unlike 16-bit dtypes give f32.
TFR_CONSTANT int tfr_promote(int a, int b) {
    return a == TFR_F32 || b == TFR_F32 ? TFR_F32 : a & b;
}

// Lists of option values, as X macros.
#define TFR_VALUE_ENUM(name) name,
#define TFR_VALUE_TEXT(name) #name " "

#endif
