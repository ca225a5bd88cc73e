// For torch 2.9, whose shim carries no lists: the ops that take one, called in other ways that give
// the same bits.
#ifndef TFR_ATEN_LISTS_H
#define TFR_ATEN_LISTS_H

#include "rewriter/aten.h"
#include "runtime/torch_abi.h"

// A call's arguments by kind, in order: tensors (borrowed); sizes, dimensions and flags.
#define TFR_FLAT_MAX 16
typedef struct tfr_flat_call {
    tfr_tensor tensors[TFR_FLAT_MAX];
    int64_t integers[TFR_FLAT_MAX];
    uint32_t tensor_count, integer_count;
} tfr_flat_call;

// False: it raised, or there is no other way (then *needs_newer).
bool tfr_aten_call_without_lists(const tfr_aten_op *op, const tfr_flat_call *call, tfr_tensor *out,
                                 bool *needs_newer);

#endif
