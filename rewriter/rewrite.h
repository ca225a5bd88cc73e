// The whole way of one file: parse, lower, match, plan, edit, check. The command line and the
// C API call this; nothing here prints, reads files (but user rules) or knows torch or CUDA.
#ifndef TFR_REWRITE_H
#define TFR_REWRITE_H

#include "rewriter/report.h"

typedef enum tfr_target { TFR_TARGET_AUTO, TFR_TARGET_HOST, TFR_TARGET_CUDA } tfr_target;

// The ops known to this process: built-in rules, and those of `--rules DIR`. Read-only once made.
typedef struct tfr_rules tfr_rules;

// `user_dirs` may be NULL. A fault in a rule file is TFR_E_USAGE with its file:line:col.
tfr_status tfr_rules_new(tfr_rules **out, const char *const *user_dirs, size_t user_dir_count,
                         tfr_error *err);
void tfr_rules_free(tfr_rules *rules);
// Adds one rule file from memory. TFR_E_USAGE: it has a fault; the rules are then to be freed.
tfr_status tfr_rules_add(tfr_rules *rules, const char *path, tfr_str text, tfr_error *err);

// For `tfrewrite rules [OP]`: prints the list, or one op. TFR_E_USAGE: no such op.
tfr_status tfr_rules_print(tfr_buf *out, const tfr_rules *rules, const char *op, tfr_error *err);
// Whether an op of that name exists (for --only and --skip).
bool tfr_rules_has_op(const tfr_rules *rules, tfr_str op);

typedef struct tfr_options {
    const tfr_rules *rules;
    tfr_target target;
    const tfr_str *only; // NULL: every op
    size_t only_count;
    const tfr_str *skip;
    size_t skip_count;
    struct tfr_project *project; // where imports are looked up (imports.h); NULL: nowhere
} tfr_options;

typedef struct tfr_result {
    tfr_str text; // the rewritten file; the very same bytes when nothing changed
    tfr_report report;
} tfr_result;

// TFR_E_REFUSED: the input does not parse or a gate failed; `out` then holds nothing.
// `src` and `arena` must outlive `out`.
tfr_status tfr_rewrite(tfr_result *out, const tfr_source *src, const tfr_options *options,
                       tfr_arena *arena, tfr_error *err);

#endif
