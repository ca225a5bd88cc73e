// Sums that both ways of a branch end in: moved behind the branch, and into the way that reads the
// first of them, each stands before the norm that it can be fused with. Knows text; knows no op.
#ifndef TFR_SINK_H
#define TFR_SINK_H

#include "rewriter/emit.h"

// Whether a value is what two sums join as.
bool tfr_sink_is_joined(const tfr_flow *flow, tfr_value value);
// The edits of whole lines that move the sums that `value` joins; the last one puts them behind the
// branch. What they come to is for check.c to say. False: a sum is read elsewhere too, or the two
// are not written alike.
bool tfr_sink_sum(tfr_edits *edits, const tfr_flow *flow, tfr_value value, tfr_arena *arena);
// The line of the source that a line of the edited text was. Edits are of whole lines, in order.
uint32_t tfr_sink_line(const tfr_source *src, const tfr_edits *edits, uint32_t line);

#endif
