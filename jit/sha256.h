// SHA-256 (FIPS 180-4), for keys and for the bytes of cache entries.
#ifndef TFR_SHA256_H
#define TFR_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define TFR_SHA256_SIZE 32u
#define TFR_SHA256_HEX (2u * TFR_SHA256_SIZE + 1u) // with the final NUL

typedef struct tfr_sha256 {
    uint32_t state[8];
    uint64_t length; // bytes added
    uint8_t block[64];
} tfr_sha256;

void tfr_sha256_start(tfr_sha256 *sha);
void tfr_sha256_add(tfr_sha256 *sha, const void *data, size_t len);
void tfr_sha256_end(tfr_sha256 *sha, uint8_t out[TFR_SHA256_SIZE]);

// All three at once.
void tfr_sha256_of(const void *data, size_t len, uint8_t out[TFR_SHA256_SIZE]);
void tfr_sha256_hex(const uint8_t digest[TFR_SHA256_SIZE], char out[TFR_SHA256_HEX]);

// False: never use the CPU's SHA instructions, so that tests reach the plain code. Returns whether
// this machine has them.
int tfr_sha256_use_instructions(int wanted);

#endif
