// The progress bar of long commands, as text: who draws it knows whether there is a terminal.
#ifndef TFR_PROGRESS_H
#define TFR_PROGRESS_H

#include "runtime/arena.h"

// Over the line before it: "[#####-----]  5/10 label", at most `columns` wide. With `count` 0
// nothing is drawn.
void tfr_progress_draw(tfr_buf *out, size_t done, size_t count, tfr_str label, size_t columns);
// Takes the bar away, so that a line may follow.
#define TFR_PROGRESS_CLEAR "\r\033[K"

#endif
