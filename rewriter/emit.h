// Turns the matches of one function into text edits: where the call goes, which statements are
// left over, which names carry the results. Knows text, liveness and order; knows no op.
#ifndef TFR_EMIT_H
#define TFR_EMIT_H

#include "rewriter/match.h"

typedef struct tfr_edit {
    uint32_t start, end; // bytes of the source that `text` replaces
    tfr_str text;
} tfr_edit;

typedef TFR_LIST(tfr_edit) tfr_edits;

// Where a match stands in the text. `reason` is NULL when it can be emitted; "" when it must be
// passed over without a word (the code is that op's own call already).
typedef struct tfr_place {
    const char *reason;
    uint32_t reason_ast;
    uint32_t home[TFR_MAX_ROOTS]; // expression that each result's text stands at
    uint32_t home_count;          // 1 with several roots: one call that gives them all
    uint32_t via;                 // helper function to guard by; UINT32_MAX: none
    const tfr_module *via_module; // whose function that is
    uint32_t via_method;          // `self._norm` in the text, when a method is guarded by; 0: none
    uint32_t inner;               // helper function of a part, guarded apart; UINT32_MAX: none
    uint32_t via_keywords;        // bits: keywords of the rule that the source gives the helper
    uint32_t block;
} tfr_place;

// The call in this function's text in which a value is made, seen through; 0: none.
uint32_t tfr_emit_call(const tfr_flow *flow, tfr_value value);

// The function of the file in which a value is made, seen through from here; UINT32_MAX: this one.
uint32_t tfr_emit_helper(const tfr_flow *flow, tfr_value value);

// Checks order, effects, branches and helpers of one match by itself.
void tfr_emit_place(tfr_place *out, const tfr_flow *flow, const tfr_match *match);

// Plans all chosen matches of a function together and appends the edits, in order of position.
// False: one of them cannot be emitted together with the others.
typedef struct tfr_misfit {
    uint32_t match, ast; // its number, and where the cause stands; ast 0: the match
    const char *reason;
} tfr_misfit;
bool tfr_emit_function(tfr_edits *edits, tfr_flow *flow, const tfr_match *matches,
                       const tfr_place *places, uint32_t count, tfr_str alias, tfr_arena *arena,
                       tfr_misfit *misfit);

#endif
