// Two whole files against each other: a rewritten one and its original, each parsed and lowered on
// its own, with the ops as their references. Knows no edits: any text may be compared.
#ifndef TFR_SYMBOLIC_H
#define TFR_SYMBOLIC_H

#include "rewriter/rewrite.h"

// One function, or what stands outside of functions (names "").
typedef struct tfr_compared {
    tfr_str class_name, function;
    uint32_t line, column, other_line, other_column; // of the first difference, or of the function
    bool changed;                                    // its text is another one
    tfr_str difference;                              // "": equal
} tfr_compared;

typedef struct tfr_comparison {
    struct {
        tfr_compared *items;
        size_t count, cap;
    } functions;
    size_t changed, different;
} tfr_comparison;

// A copy that needs nothing but `arena`.
tfr_comparison tfr_symbolic_copy(const tfr_comparison *found, tfr_arena *arena);

// Of the options it takes the rules and where imports are looked up, for both texts from where the
// original lies. TFR_E_REFUSED: one of the texts does not parse.
tfr_status tfr_symbolic_compare(tfr_comparison *out, const tfr_source *original,
                                const tfr_source *rewritten, const tfr_options *options,
                                tfr_arena *arena, tfr_error *err);

#endif
