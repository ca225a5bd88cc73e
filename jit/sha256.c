// A disk hit hashes the source and the entry, some 100 kB: the CPU's SHA instructions make that
// 0.05 ms instead of 0.3, so they are used where they are. Both ways are tested against each other.
#include "jit/sha256.h"

#include <stdatomic.h>
#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void plain_blocks(uint32_t state[8], const uint8_t *p, size_t blocks) {
    for (; blocks > 0; blocks--, p += 64) {
        uint32_t w[64];
        for (int i = 0; i < 16; i++) {
            w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
                   (uint32_t)p[4 * i + 2] << 8 | (uint32_t)p[4 * i + 3];
        }
        for (int i = 16; i < 64; i++) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            uint32_t t = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                         K[i] + w[i];
            uint32_t u =
                (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t;
            d = c, c = b, b = a, a = t + u;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

// The instructions keep the state as (a, b, e, f) and (c, d, g, h).
__attribute__((target("sha,sse4.1"))) static void sha_blocks(uint32_t state[8], const uint8_t *p,
                                                             size_t blocks) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; blocks > 0; blocks--, p += 64) {
        __m128i w[4], before_abef = abef, before_cdgh = cdgh;
        for (int i = 0; i < 16; i++) { // four rounds each
            __m128i m;
            if (i < 4) {
                m = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
                m = _mm_shuffle_epi8(m, swap);
            } else {
                __m128i t = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
                t = _mm_add_epi32(t, _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4));
                m = _mm_sha256msg2_epu32(t, w[(i + 3) & 3]);
            }
            w[i & 3] = m;
            m = _mm_add_epi32(m, _mm_loadu_si128((const __m128i *)(const void *)(K + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, m);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(m, 0x0e));
        }
        abef = _mm_add_epi32(abef, before_abef);
        cdgh = _mm_add_epi32(cdgh, before_cdgh);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    dcba = _mm_blend_epi16(feba, dchg, 0xf0);
    hgfe = _mm_alignr_epi8(dchg, feba, 8);
    _mm_storeu_si128((__m128i *)(void *)state, dcba);
    _mm_storeu_si128((__m128i *)(void *)(state + 4), hgfe);
}

static int cpu_has_sha(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1)) {
        return 0;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}
#else
static void sha_blocks(uint32_t state[8], const uint8_t *p, size_t blocks) {
    plain_blocks(state, p, blocks);
}
static int cpu_has_sha(void) { return 0; }
#endif

static atomic_int use_sha = -1; // not asked yet; set to the same by every thread

int tfr_sha256_use_instructions(int wanted) {
    int has = cpu_has_sha();
    atomic_store_explicit(&use_sha, wanted && has, memory_order_relaxed);
    return has;
}

static void add_blocks(tfr_sha256 *sha, const uint8_t *p, size_t blocks) {
    int use = atomic_load_explicit(&use_sha, memory_order_relaxed);
    if (use < 0) {
        use = tfr_sha256_use_instructions(1);
    }
    if (use) {
        sha_blocks(sha->state, p, blocks);
    } else {
        plain_blocks(sha->state, p, blocks);
    }
}

void tfr_sha256_start(tfr_sha256 *sha) {
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, first, sizeof first);
    sha->length = 0;
}

void tfr_sha256_add(tfr_sha256 *sha, const void *data, size_t len) {
    const uint8_t *p = data;
    size_t used = sha->length % 64;
    sha->length += len;
    if (used) {
        size_t part = len < 64 - used ? len : 64 - used;
        memcpy(sha->block + used, p, part);
        if (used + part < 64) {
            return;
        }
        add_blocks(sha, sha->block, 1);
        p += part;
        len -= part;
    }
    if (len >= 64) {
        add_blocks(sha, p, len / 64);
    }
    if (len % 64) {
        memcpy(sha->block, p + len / 64 * 64, len % 64);
    }
}

void tfr_sha256_end(tfr_sha256 *sha, uint8_t out[TFR_SHA256_SIZE]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = sha->length * 8;
    size_t used = sha->length % 64;
    uint8_t tail[8];
    for (int i = 0; i < 8; i++) {
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    tfr_sha256_add(sha, padding, used < 56 ? 56 - used : 120 - used);
    tfr_sha256_add(sha, tail, 8);
    for (int i = 0; i < 32; i++) {
        out[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void tfr_sha256_of(const void *data, size_t len, uint8_t out[TFR_SHA256_SIZE]) {
    tfr_sha256 sha;
    tfr_sha256_start(&sha);
    if (len) {
        tfr_sha256_add(&sha, data, len);
    }
    tfr_sha256_end(&sha, out);
}

void tfr_sha256_hex(const uint8_t digest[TFR_SHA256_SIZE], char out[TFR_SHA256_HEX]) {
    for (size_t i = 0; i < TFR_SHA256_SIZE; i++) {
        out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    out[2 * TFR_SHA256_SIZE] = 0;
}
