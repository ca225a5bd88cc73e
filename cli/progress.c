// Draws with a carriage return and "clear to the end of the line" alone, which every terminal has.
#include "cli/progress.h"

#define BAR_WIDTH 24u
#define LEAST_COLUMNS 20u

void tfr_progress_draw(tfr_buf *out, size_t done, size_t count, tfr_str label, size_t columns) {
    if (!count) {
        return;
    }
    columns = columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns;
    tfr_str number = tfr_str_format(out->arena, "%zu/%zu", done, count);
    size_t used = number.len;
    tfr_buf_add_str(out, TFR_STR(TFR_PROGRESS_CLEAR));
    if (columns > BAR_WIDTH + used + 4) {
        size_t full = done < count ? done * BAR_WIDTH / count : BAR_WIDTH;
        char bar[BAR_WIDTH + 2];
        memset(bar, '-', sizeof bar);
        memset(bar, '#', full + 1);
        bar[0] = '[';
        bar[BAR_WIDTH + 1] = ']';
        tfr_buf_add(out, bar, sizeof bar);
        tfr_buf_add(out, " ", 1);
        used += sizeof bar + 1;
    }
    tfr_buf_add_str(out, number);
    // The last column stays empty: some terminals go to the next line after writing there.
    for (size_t i = 0; i < label.len && used + 2 < columns; i++, used++) {
        if (!i) {
            tfr_buf_add(out, " ", 1);
        }
        tfr_buf_add(out, label.data[i] >= ' ' && label.data[i] <= '~' ? &label.data[i] : "?", 1);
    }
}
