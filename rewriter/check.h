// Proves an edit: the new text must parse, keep every token outside the edits, and have functions
// whose graphs, with `tfr.*` calls replaced by their references, equal the old ones.
#ifndef TFR_REWRITER_CHECK_H
#define TFR_REWRITER_CHECK_H

#include "rewriter/emit.h"

// Tokens outside the edits are the same in both trees. Edits are sorted and do not overlap.
bool tfr_check_tokens(const tfr_tree *old_tree, const tfr_tree *new_tree, const tfr_edits *edits);

// Same values returned and same effects, in the same order, under the same conditions. Both flows
// were built with the same tfr_numbers. `why` names the first difference.
bool tfr_check_flows(const tfr_flow *old_flow, const tfr_flow *new_flow, const char **why);

#endif
