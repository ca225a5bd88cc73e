// The loaded rules, for the files that match and rewrite. The public part is in rewrite.h.
#ifndef TFR_RULES_H
#define TFR_RULES_H

#include "rewriter/match.h"
#include "rewriter/rewrite.h"

typedef struct tfr_op_info {
    tfr_name name;
    tfr_str schema;     // as written in op(...)
    tfr_str doc;        // the module's docstring, quotes off
    tfr_str cpu;        // file name of the template for the host; "": there is none
    tfr_str cuda;       // the same for CUDA
    tfr_str specialize; // parameters whose last size is compiled in, with spaces between
    const char *path;
    bool builtin;
} tfr_op_info;

struct tfr_rules {
    tfr_arena *arena;
    tfr_names names; // read-only once the rules are loaded: the parent of every file's table
    tfr_canon *canon;
    TFR_LIST(tfr_module *) modules;
    TFR_LIST(tfr_rule *) rules; // in order of priority: larger patterns first
    TFR_LIST(tfr_op_info) ops;
    tfr_name norm_op; // "rms_norm": what the annotation Norm asks for
};

// The reference that `tfr.<op>(...)` with these arguments stands for.
tfr_op_reference tfr_rules_reference(const struct tfr_ops *ops, tfr_name op, uint32_t positional,
                                     const tfr_name *keywords, const tfr_name *literals,
                                     uint32_t keyword_count);

// What is known of a file before its functions are lowered.
void tfr_rules_module(tfr_module *out, const tfr_rules *rules, const tfr_scope *scope,
                      tfr_names *names, tfr_arena *arena);

static inline const struct tfr_ops *tfr_rules_as_ops(const tfr_rules *rules) {
    return (const struct tfr_ops *)rules;
}

#endif
