// Unified diffs as git prints them, to be read by people, `patch -p1` and `git apply`.
#ifndef TFR_DIFF_H
#define TFR_DIFF_H

#include "runtime/arena.h"

// Adds nothing when the texts are equal. `path` is shown with a/ and b/ before it.
void tfr_diff(tfr_buf *out, const char *path, tfr_str before, tfr_str after, bool color);

#endif
