// `tfrewrite verify --symbolic`: what the comparison of two texts found, as text and as JSON.
#ifndef TFR_VERIFY_SYMBOLIC_H
#define TFR_VERIFY_SYMBOLIC_H

#include "rewriter/symbolic.h"

typedef struct tfr_verified {
    const char *path, *other_path; // of the original and of the rewritten text
    tfr_comparison comparison;
    const tfr_error *error; // why nothing was compared; NULL: it was
} tfr_verified;

// A line for each function that changed or differs, of `many` files for those that differ alone,
// then a total. `quiet`: differences alone.
void tfr_verify_text(tfr_buf *out, const tfr_verified *files, size_t count, bool quiet);
void tfr_verify_json(tfr_buf *out, const tfr_verified *files, size_t count);

#endif
