// Proves an edit: the new text must parse, keep every token outside the edits, and have functions
// whose graphs, with `tfr.*` calls replaced by their references, equal the old ones.
#ifndef TFR_REWRITER_CHECK_H
#define TFR_REWRITER_CHECK_H

#include "rewriter/emit.h"

// Tokens outside the edits are the same in both trees. Edits are sorted and do not overlap.
bool tfr_check_tokens(const tfr_tree *old_tree, const tfr_tree *new_tree, const tfr_edits *edits);

// The first difference of two graphs. The places are in the two texts, 0: none that can be named.
typedef struct tfr_difference {
    const char *what;
    uint32_t old_ast, new_ast;
    tfr_value old_value, new_value; // where two values begin to differ; 0: no value does
} tfr_difference;

// Same values returned and same effects, in the same order, under the same conditions; everything
// that they depend on is computed between the same effects. Both flows were built with the same
// tfr_numbers.
bool tfr_check_flows(const tfr_flow *old_flow, const tfr_flow *new_flow, tfr_difference *d);

#endif
