// Interned names: equal text, equal number. A table may stand on a read-only parent (the rules'),
// so that names of the rules and of a file compare as numbers.
#ifndef TFR_NAMES_H
#define TFR_NAMES_H

#include "runtime/arena.h"

typedef uint32_t tfr_name; // 0: none

typedef struct tfr_names {
    const struct tfr_names *parent;
    tfr_arena *arena;
    tfr_str *texts;
    uint32_t count, cap, first; // numbers first .. first + count - 1
    uint32_t *slots, slot_count;
} tfr_names;

void tfr_names_init(tfr_names *names, const tfr_names *parent, tfr_arena *arena);
tfr_name tfr_names_add(tfr_names *names, tfr_str text);        // copies nothing: text must live on
tfr_name tfr_names_find(const tfr_names *names, tfr_str text); // 0: never added
tfr_str tfr_names_text(const tfr_names *names, tfr_name name);
static inline tfr_name tfr_names_lit(tfr_names *names, const char *text) {
    return tfr_names_add(names, tfr_str_from(text));
}

#endif
