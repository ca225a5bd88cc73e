// How the CUDA kernel of qk_norm_rope cuts the work, for it and for tfr_lay.
#ifndef TFR_QK_ROWS_H
#define TFR_QK_ROWS_H

#include "codegen_templates/device.h"
#include "codegen_templates/norm_orders.h"

#define VALUES(X) TFR_NORM_VALUES(X) X(SAME) X(TRANSPOSED)
enum { VALUES(TFR_VALUE_ENUM) };

// A unit is that many threads, a few for each row; and the widest head there is a kernel for.
#define TFR_QK_THREADS 128
#define TFR_QK_HEAD 1024

// Columns of each half in a pack: 128 bits, or less where the half is no multiple of it.
TFR_CONSTANT int tfr_qk_vector(int64_t head, int x, int out) {
    return tfr_divisor(head / 2, tfr_vector(tfr_promote(x, out)));
}

// Threads of a row, a power of two up to 32: one for each pack of a half, where that is enough.
TFR_CONSTANT int tfr_qk_lanes(int64_t head, int vector) {
    int lanes = 1;
    while (lanes < 32 && lanes * vector < head / 2)
        lanes *= 2;
    return lanes;
}

#endif
