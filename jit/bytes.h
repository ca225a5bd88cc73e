// Numbers as they lie in files: 32 bits, the lowest byte first, whatever the machine.
#ifndef TFR_BYTES_H
#define TFR_BYTES_H

#include <stdint.h>

static inline void tfr_put32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint32_t tfr_get32(const char *at) {
    uint32_t value = 0;
    for (int i = 3; i >= 0; i--) {
        value = value << 8 | (uint8_t)at[i];
    }
    return value;
}

#endif
