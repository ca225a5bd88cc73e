// The rule files of rewriter/rules/, in order of name, and rewriter/canon.py, as they were when the
// program was built. The definitions are written by cmake/embed_rules.cmake.
#ifndef TFR_BUILTIN_RULES_H
#define TFR_BUILTIN_RULES_H

#include <stdint.h>

typedef struct tfr_builtin_rule {
    const char *name; // "rms_norm.py"
    const char *text; // NUL-terminated
    uint32_t length;  // without the NUL
} tfr_builtin_rule;

extern const tfr_builtin_rule tfr_builtin_rules[];
extern const uint32_t tfr_builtin_rule_count;
extern const tfr_builtin_rule tfr_builtin_canon; // canon.py

#endif
