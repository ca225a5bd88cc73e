// One slot for each kind. A slot goes NONE -> WRITING -> READY -> TAKEN and never back; a thread
// that a fork loses while it writes costs one warning and blocks nobody.
#include "jit/warn.h"

#include "runtime/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { NONE, WRITING, READY, TAKEN };

static struct {
    atomic_int state;
    unsigned order;
    char text[2048]; // a compiler's message, the lines that it is about, paths
} slots[TFR_WARN_COUNT];
static atomic_uint next_order;
static atomic_int ready; // how many can be taken: the quick way out

bool tfr_warn(tfr_warning kind, const char *format, ...) {
    int none = NONE;
    if (!atomic_compare_exchange_strong(&slots[kind].state, &none, WRITING)) {
        return false;
    }
    va_list args;
    va_start(args, format);
    if (vsnprintf(slots[kind].text, sizeof slots[kind].text, format, args) < 0) {
        slots[kind].text[0] = 0;
    }
    va_end(args);
    tfr_one_line(slots[kind].text); // paths and compilers' messages may hold anything
    slots[kind].order = atomic_fetch_add(&next_order, 1);
    atomic_store(&slots[kind].state, READY);
    atomic_fetch_add(&ready, 1);
    return true;
}

bool tfr_warn_take(char *out, size_t size) {
    while (atomic_load(&ready) > 0) {
        int oldest = -1;
        for (int i = 0; i < TFR_WARN_COUNT; i++) {
            if (atomic_load(&slots[i].state) == READY &&
                (oldest < 0 || slots[i].order < slots[oldest].order)) {
                oldest = i;
            }
        }
        if (oldest < 0) {
            return false;
        }
        int state = READY;
        if (atomic_compare_exchange_strong(&slots[oldest].state, &state, TAKEN)) {
            atomic_fetch_sub(&ready, 1);
            if (size) {
                (void)snprintf(out, size, "%s", slots[oldest].text);
            }
            return true;
        }
    }
    return false;
}
