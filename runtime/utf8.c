#include "runtime/utf8.h"

#include <stdint.h>
#include <string.h>

// The well-formed sequences: The Unicode Standard, table 3-7.
static const struct {
    unsigned char first, last, low, high; // of the first byte; of the second
    size_t len;
} SHAPES[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

size_t tfr_utf8_length(const char *text, size_t left) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        return 1;
    }
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        if (p[0] < SHAPES[i].first || p[0] > SHAPES[i].last) {
            continue;
        }
        bool valid = left >= SHAPES[i].len && p[1] >= SHAPES[i].low && p[1] <= SHAPES[i].high;
        for (size_t j = 2; valid && j < SHAPES[i].len; j++) {
            valid = (p[j] & 0xc0) == 0x80;
        }
        return valid ? SHAPES[i].len : 0;
    }
    return 0;
}

bool tfr_utf8_shown(const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text;
    if (len == 1) {
        return p[0] >= 0x20 && p[0] != 0x7f;
    }
    uint32_t code = p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        code = code << 6 | (p[i] & 0x3fu);
    }
    return !(code < 0xa0 || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
             (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
             code == 0xfeff);
}

void tfr_one_line(char *text) {
    for (size_t left = strlen(text), len; left; text += len, left -= len) {
        len = tfr_utf8_length(text, left);
        if (!len) {
            len = 1;
            *text = '?';
        } else if (!tfr_utf8_shown(text, len)) {
            memset(text, ' ', len);
        }
    }
}
