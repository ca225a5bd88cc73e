// Where act_mul finds gate and up, and how its CUDA kernel cuts the work: for the host and the CUDA
// template of act_mul alone.
#ifndef TFR_ACT_LAYOUTS_H
#define TFR_ACT_LAYOUTS_H

#include "codegen_templates/acts.h"
#include "codegen_templates/device.h"

#define VALUES(X) TFR_ACT_VALUES(X) X(TWO_INPUTS) X(GATE_UP) X(UP_GATE) X(INTERLEAVED)
enum { VALUES(TFR_VALUE_ENUM) };

#ifdef GATE_UP_DTYPE
#define GATE_DTYPE GATE_UP_DTYPE
#define UP_DTYPE GATE_UP_DTYPE
#elif defined UP_GATE_DTYPE
#define GATE_DTYPE UP_GATE_DTYPE
#define UP_DTYPE UP_GATE_DTYPE
#endif

// A unit of the CUDA kernel: that many threads with a pack of elements each.
#define TFR_ACT_THREADS 256

// Results in a pack: 128 bits of the widest dtype; interleaved, of what is read.
TFR_CONSTANT int tfr_act_vector(int layout, int gate, int up) {
    return tfr_vector(tfr_promote(gate, up)) / (layout == INTERLEAVED ? 2 : 1);
}

#endif
