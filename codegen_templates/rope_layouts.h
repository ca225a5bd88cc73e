// The variants of rules/rope.py as the host and the CUDA template of rope both need them: where the
// two of a pair and their angles lie, what is rounded to which dtype, and how the CUDA kernel cuts
// the work.
#ifndef TFR_ROPE_LAYOUTS_H
#define TFR_ROPE_LAYOUTS_H

#include "codegen_templates/device.h"

#define VALUES(X)                                                                                  \
    X(HALF)                                                                                        \
    X(HALF_BACK)                                                                                   \
    X(HALF_WIDTH)                                                                                  \
    X(PAIRS)                                                                                       \
    X(PAIRS_VIEW)                                                                                  \
    X(PAIRS_WIDTH)                                                                                 \
    X(PAIRS_REPEAT)                                                                                \
    X(PAIRS_TO_HALF)                                                                               \
    X(PAIRS_TO_HALF_WIDTH)                                                                         \
    X(REGROUPED)                                                                                   \
    X(EACH)                                                                                        \
    X(RESULT)                                                                                      \
    X(FLOAT32)                                                                                     \
    X(FLOAT32_AS_Q)                                                                                \
    X(NO)                                                                                          \
    X(YES)                                                                                         \
    X(LAST)                                                                                        \
    X(FOUR)
enum { VALUES(TFR_VALUE_ENUM) };

#ifdef X_DTYPE // of one tensor alone
#define Q_DTYPE X_DTYPE
#define K_DTYPE TFR_NONE
#endif

TFR_CONSTANT int reads_pairs(int layout) {
    return layout != HALF && layout != HALF_BACK && layout != HALF_WIDTH;
}
// As torch's view takes pairs apart: the same, but of no elements it makes no sense of -1.
TFR_CONSTANT int plain_pairs(int layout) { return layout == PAIRS || layout == PAIRS_VIEW; }
TFR_CONSTANT int writes_pairs(int layout) {
    return plain_pairs(layout) || layout == PAIRS_WIDTH || layout == PAIRS_REPEAT;
}
// Whether cos and sin have a column for each pair and no more.
TFR_CONSTANT int half_as_wide(int layout) {
    return layout == HALF_WIDTH || layout == PAIRS_WIDTH || layout == PAIRS_TO_HALF_WIDTH;
}
TFR_CONSTANT int one_angle(int layout) {
    return half_as_wide(layout) || layout == PAIRS_REPEAT || layout == PAIRS_TO_HALF;
}

// How many columns `angles` columns of cos turn; where they are one for all, the head size says it.
TFR_CONSTANT int64_t turning(int64_t angles, int layout) {
    int repeats = layout == PAIRS_REPEAT || layout == PAIRS_TO_HALF; // of two equal halves
    return half_as_wide(layout) ? 2 * angles : repeats ? angles / 2 * 2 : angles;
}

// The dtype of x times cos, or times sin.
TFR_CONSTANT int product_dtype(int round, int x, int angle) {
    return round == FLOAT32 || round == FLOAT32_AS_Q ? TFR_F32 : tfr_promote(x, angle);
}

// The dtype of the result for x, which is q or goes with it.
TFR_CONSTANT int result_dtype(int round, int x, int q, int cos, int sin) {
    return round == FLOAT32_AS_Q                 ? q
           : round == RESULT || round == FLOAT32 ? x
                                                 : tfr_promote(tfr_promote(x, cos), sin);
}

// ------------------------------------------------------------------ for the CUDA kernel
// A unit is that many threads with a pack each.
#define TFR_ROPE_THREADS 128

// Pairs in a pack: 128 bits of one of the pair, or of both where they lie side by side.
TFR_CONSTANT int turned_vector(int layout, int64_t width, int x, int out) {
    return tfr_divisor(width / 2, tfr_vector(tfr_promote(x, out)) / (reads_pairs(layout) ? 2 : 1));
}

// Columns in a pack of those behind the `width` that turn.
TFR_CONSTANT int copied_vector(int64_t width, int x, int out) {
    return tfr_divisor(width, tfr_vector(tfr_promote(x, out)));
}

#endif
