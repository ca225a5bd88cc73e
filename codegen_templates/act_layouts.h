// Where act_mul finds gate and up, and how its CUDA kernel cuts the work: for the host and the CUDA
// template of act_mul alone.
#ifndef TFR_ACT_LAYOUTS_H
#define TFR_ACT_LAYOUTS_H

#include "codegen_templates/acts.h"
#include "codegen_templates/device.h"

#define VALUES(X)                                                                                  \
    TFR_ACT_VALUES(X)                                                                              \
    X(TWO_INPUTS)                                                                                  \
    X(GATE_UP)                                                                                     \
    X(UP_GATE)                                                                                     \
    X(INTERLEAVED)                                                                                 \
    X(PLAIN)                                                                                       \
    X(CLAMPED)                                                                                     \
    X(CLAMPED_AFTER)                                                                               \
    X(SWISH)                                                                                       \
    X(SLOPED)                                                                                      \
    X(SLOPED_CLAMPED)                                                                              \
    X(IN_FLOAT32)
enum { VALUES(TFR_VALUE_ENUM) };

// What a form computes: see act_mul.c. Which of the call's numbers it takes, in this order; the
// axis of a packed tensor comes after them.
TFR_CONSTANT int has_limit(int form) {
    return form == CLAMPED || form == CLAMPED_AFTER || form == SLOPED_CLAMPED;
}
TFR_CONSTANT int has_slope(int form) { return form == SLOPED || form == SLOPED_CLAMPED; }
TFR_CONSTANT int is_sloped(int form) { return has_slope(form) || form == SWISH; }

#ifdef GATE_UP_DTYPE
#define GATE_DTYPE GATE_UP_DTYPE
#define UP_DTYPE GATE_UP_DTYPE
#elif defined UP_GATE_DTYPE
#define GATE_DTYPE UP_GATE_DTYPE
#define UP_DTYPE UP_GATE_DTYPE
#endif

// A unit of the CUDA kernel: that many threads with a pack of elements each.
#define TFR_ACT_THREADS 256

TFR_CONSTANT int result_dtype(int form, int gate, int up) {
    return form == IN_FLOAT32 ? gate : tfr_promote(gate, up);
}

// Results in a pack: 128 bits of the widest dtype; interleaved, of what is read.
TFR_CONSTANT int tfr_act_vector(int layout, int gate, int up) {
    return tfr_vector(tfr_promote(gate, up)) / (layout == INTERLEAVED ? 2 : 1);
}

#endif
