// What a CUDA kernel is given: one argument, by value. The host (runtime/device_call.c) fills it
// from the views that the C template of the op lists in tfr_lay; the kernel reads it from constant
// memory. Sizes and counts are in elements, strides in bytes.
#ifndef TFR_DEVICE_H
#define TFR_DEVICE_H

#include "codegen_templates/dtypes.h"

#define TFR_DEVICE_DIMS 4
#define TFR_DEVICE_ARRAYS 6
#define TFR_DEVICE_PARTS 2
#define TFR_DEVICE_FLATS 4
#define TFR_DEVICE_NUMBERS 8

// Elements of a dtype in one access of 128 bits. Kernels take the widest of the dtypes that they
// stream: with more elements the threads of one access would leave gaps between each other.
TFR_CONSTANT int tfr_vector(int dtype) { return (int)(16 / tfr_size_of(dtype)); }

// The largest power of two up to `most` that divides n: packs of so many elements start aligned.
TFR_CONSTANT int tfr_divisor(int64_t n, int most) {
    while (n % most)
        most /= 2;
    return most;
}

// Rows (runs of the last dimension) of several arrays that run in step. Dimensions of size 1 are
// left out, and neighbours joined where every array allows it: mostly one is left.
typedef struct tfr_device_rows {
    int64_t count;                 // rows; 0: this part is not there
    int32_t ndim;                  // 1 .. TFR_DEVICE_DIMS
    int32_t aligned;               // every row of every array starts at a multiple of 16 bytes
    int64_t size[TFR_DEVICE_DIMS]; // outermost first
    int64_t stride[TFR_DEVICE_ARRAYS][TFR_DEVICE_DIMS]; // 0: the array repeats
    char *data[TFR_DEVICE_ARRAYS];
} tfr_device_rows;

typedef struct tfr_device_args {
    tfr_device_rows part[TFR_DEVICE_PARTS]; // of qk_norm_rope: q's rows, then k's
    const void *flat[TFR_DEVICE_FLATS];     // dense one-dimensional arrays: weights; NULL: absent
    int64_t width[TFR_DEVICE_PARTS];        // last size of a part's first array
    int64_t units;                          // what the kernel loops over
    float number[TFR_DEVICE_NUMBERS];       // the call's numbers
    int32_t flat_aligned;                   // every flat array starts at a multiple of 16 bytes
} tfr_device_args;

#endif
