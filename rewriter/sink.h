// Sums that a branch keeps apart from the norm that they can be fused with: made on both ways and
// normed behind it, or made before it and normed inside. Knows text; knows no op.
#ifndef TFR_SINK_H
#define TFR_SINK_H

#include "rewriter/emit.h"

// Whether a value is what two sums join as.
bool tfr_sink_is_joined(const tfr_flow *flow, tfr_value value);
// The edits of whole lines that move the sums that `value` joins behind the branch, or the sum
// `value` into the branch that reads it. What they come to is for check.c to say. False: a sum is
// read elsewhere too, or the two are not written alike.
bool tfr_sink_sum(tfr_edits *edits, const tfr_flow *flow, tfr_value value, tfr_arena *arena);
// The line of the source that a line of the edited text was. Edits are of whole lines, in order.
uint32_t tfr_sink_line(const tfr_source *src, const tfr_edits *edits, uint32_t line);

#endif
