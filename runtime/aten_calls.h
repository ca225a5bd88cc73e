// Runs the aten program of a reference (rewriter/aten.h) through torch's dispatcher: what an op
// does where no kernel can be used, with the bits that the reference gives in Python.
#ifndef TFR_ATEN_CALLS_H
#define TFR_ATEN_CALLS_H

#include "rewriter/aten.h"
#include "runtime/torch_abi.h"

// The arguments of the torch op, borrowed.
typedef struct tfr_aten_inputs {
    const tfr_tensor *tensors; // in the order of the schema; NULL: None
    const double *numbers;     // floats and integers, in that order too; activation and norm apart
    int64_t norm, act;
} tfr_aten_inputs;

// Sets out[0 .. result_count - 1] to new handles. NULL; or why not, until this thread's next call:
// then nothing is in `out`.
const char *tfr_aten_run(const tfr_aten_program *program, const tfr_aten_inputs *in,
                         tfr_tensor *out);

#endif
