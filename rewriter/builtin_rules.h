// The rule files of rewriter/rules/, in order of name, and the tables rewriter/canon.py and
// acts.py, as they were when the program was built, already parsed. The definitions are written by
// cmake/embed_rules.c.
#ifndef TFR_BUILTIN_RULES_H
#define TFR_BUILTIN_RULES_H

#include "parser/tree.h"

typedef struct tfr_builtin_rule {
    const char *name; // "rms_norm.py"
    const char *text; // NUL-terminated
    uint32_t length;  // without the NUL
    const tfr_node *nodes;
    uint32_t node_count;
} tfr_builtin_rule;

extern const tfr_builtin_rule tfr_builtin_rules[];
extern const uint32_t tfr_builtin_rule_count;
extern const tfr_builtin_rule tfr_builtin_canon; // canon.py
extern const tfr_builtin_rule tfr_builtin_acts;  // acts.py

#endif
