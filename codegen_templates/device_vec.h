// What CUDA kernels move: packs of a few elements of a row, 128 bits in one access where they lie
// aligned, and the conversions of bf16 and f16 to float and back, to the bits of CUDA's own library
// (which has no headers here). It must know no op.
#ifndef TFR_DEVICE_VEC_H
#define TFR_DEVICE_VEC_H

#include "codegen_templates/device.h"

#define TFR_HAS_BF16 (__CUDA_ARCH__ >= 800)

// V elements of a dtype, as they lie in memory: V is 1, 2, 4 or 8.
template <int DTYPE, int V> struct tfr_pack {
    static_assert(DTYPE == TFR_F32 || DTYPE == TFR_F16 || (DTYPE == TFR_BF16 && TFR_HAS_BF16),
                  "no such dtype, or bf16 before sm_80");
    enum { bytes = V * (int)tfr_size_of(DTYPE) };
    alignas(bytes >= 16 ? 16 : bytes == 8 ? 8 : 4) uint32_t word[(bytes + 3) / 4];
};

// ------------------------------------------------------------------ conversions
// The two elements of a 16-bit dtype in one word. The lower half is the first.
template <int DTYPE> TFR_INLINE void tfr_unpack(uint32_t word, float *first, float *second) {
    if constexpr (DTYPE == TFR_BF16) {
        *first = __uint_as_float(word << 16);
        *second = __uint_as_float(word & 0xffff0000u);
    } else {
        asm("cvt.f32.f16 %0, %1;" : "=f"(*first) : "h"((uint16_t)word));
        asm("cvt.f32.f16 %0, %1;" : "=f"(*second) : "h"((uint16_t)(word >> 16)));
    }
}

// Rounds to nearest, ties to even; a NaN becomes 0x7fff.
template <int DTYPE> TFR_INLINE uint32_t tfr_join(float first, float second) {
    uint32_t word;
    if constexpr (DTYPE == TFR_BF16) {
        asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(first), "f"(second));
    } else {
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(first), "f"(second));
#else
        uint16_t low, high;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(first));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(second));
        word = low | (uint32_t)high << 16;
#endif
    }
    return word;
}

template <int DTYPE, int V> TFR_INLINE void tfr_floats(const tfr_pack<DTYPE, V> &from, float *to) {
#pragma unroll
    for (int i = 0; i < V; i += 2) {
        float pair[2];
        if constexpr (DTYPE == TFR_F32) {
            pair[0] = __uint_as_float(from.word[i]);
            pair[1] = __uint_as_float(from.word[V > 1 ? i + 1 : i]);
        } else {
            tfr_unpack<DTYPE>(from.word[i / 2], &pair[0], &pair[1]);
        }
        to[i] = pair[0];
        if (V > 1)
            to[i + 1] = pair[1];
    }
}

template <int DTYPE, int V> TFR_INLINE tfr_pack<DTYPE, V> tfr_packed(const float *from) {
    tfr_pack<DTYPE, V> to;
#pragma unroll
    for (int i = 0; i < V; i += DTYPE == TFR_F32 ? 1 : 2) {
        if constexpr (DTYPE == TFR_F32)
            to.word[i] = __float_as_uint(from[i]);
        else
            to.word[i / 2] = tfr_join<DTYPE>(from[i], V > 1 ? from[i + 1] : 0.0f);
    }
    return to;
}

// Rounds V floats to a dtype and back.
template <int DTYPE, int V> TFR_INLINE void tfr_round(float *x) {
    if constexpr (DTYPE != TFR_F32)
        tfr_floats<DTYPE, V>(tfr_packed<DTYPE, V>(x), x);
}

// ------------------------------------------------------------------ loads and stores
// The first n elements at p, V at most; the rest is 0. ALIGNED: p is a multiple of the pack's bytes
// or of 16; without it elements come one by one.
template <int DTYPE, int V, bool ALIGNED>
TFR_INLINE tfr_pack<DTYPE, V> tfr_load(const char *p, int n = V) {
    tfr_pack<DTYPE, V> to = {};
    constexpr int bytes = tfr_pack<DTYPE, V>::bytes;
    if (ALIGNED && n >= V) {
        if constexpr (bytes == 2) {
            to.word[0] = *(const uint16_t *)p;
        } else if constexpr (bytes == 4) {
            to.word[0] = *(const uint32_t *)p;
        } else if constexpr (bytes == 8) {
            uint2 u = *(const uint2 *)p;
            to.word[0] = u.x;
            to.word[1] = u.y;
        } else {
#pragma unroll
            for (int i = 0; i < bytes / 16; i++) {
                uint4 u = ((const uint4 *)p)[i];
                to.word[4 * i] = u.x;
                to.word[4 * i + 1] = u.y;
                to.word[4 * i + 2] = u.z;
                to.word[4 * i + 3] = u.w;
            }
        }
        return to;
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (i < n) {
            if constexpr (DTYPE == TFR_F32)
                to.word[i] = ((const uint32_t *)p)[i];
            else
                to.word[i / 2] |= (uint32_t)((const uint16_t *)p)[i] << 16 * (i % 2);
        }
    }
    return to;
}

// Stores the first n elements of a pack at p, as tfr_load.
template <bool ALIGNED, int DTYPE, int V>
TFR_INLINE void tfr_store(char *p, const tfr_pack<DTYPE, V> &from, int n = V) {
    constexpr int bytes = tfr_pack<DTYPE, V>::bytes;
    if (ALIGNED && n >= V) {
        if constexpr (bytes == 2) {
            *(uint16_t *)p = (uint16_t)from.word[0];
        } else if constexpr (bytes == 4) {
            *(uint32_t *)p = from.word[0];
        } else if constexpr (bytes == 8) {
            *(uint2 *)p = make_uint2(from.word[0], from.word[1]);
        } else {
#pragma unroll
            for (int i = 0; i < bytes / 16; i++)
                ((uint4 *)p)[i] = make_uint4(from.word[4 * i], from.word[4 * i + 1],
                                             from.word[4 * i + 2], from.word[4 * i + 3]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (i < n) {
            if constexpr (DTYPE == TFR_F32)
                ((uint32_t *)p)[i] = from.word[i];
            else
                ((uint16_t *)p)[i] = (uint16_t)(from.word[i / 2] >> 16 * (i % 2));
        }
    }
}

// ------------------------------------------------------------------ rows
// Quotient by a divisor that is not 0. Numbers below 2^31 take a tenth of the instructions.
TFR_INLINE int64_t tfr_quotient(int64_t n, int64_t divisor, bool small) {
    return small ? (int64_t)((uint32_t)n / (uint32_t)divisor) : n / divisor;
}

// Where row `row` of the first ARRAYS arrays starts.
template <int ARRAYS>
TFR_INLINE void tfr_find_row(const tfr_device_rows &rows, int64_t row, char **at) {
    const bool small = rows.count <= 0x7fffffff;
#pragma unroll
    for (int n = 0; n < ARRAYS; n++)
        at[n] = rows.data[n];
#pragma unroll
    for (int i = TFR_DEVICE_DIMS - 1; i > 0; i--) {
        if (i < rows.ndim) {
            int64_t next = tfr_quotient(row, rows.size[i], small);
            int64_t rest = row - next * rows.size[i];
#pragma unroll
            for (int n = 0; n < ARRAYS; n++)
                at[n] += rest * rows.stride[n][i];
            row = next;
        }
    }
#pragma unroll
    for (int n = 0; n < ARRAYS; n++)
        at[n] += row * rows.stride[n][0];
}

#endif
