// Lines for people and the document of `--json`; what they say comes from rewriter/symbolic.
#include "cli/verify_symbolic.h"

#include <inttypes.h>

#include "rewriter/report.h"

static void add_name(tfr_buf *out, const tfr_compared *f) {
    tfr_str module = TFR_STR("outside of functions");
    tfr_buf_add_str(out, f->class_name);
    tfr_buf_add_str(out, f->class_name.len ? TFR_STR(".") : TFR_STR(""));
    tfr_buf_add_str(out, f->function.len ? f->function : module);
}

static void add_function(tfr_buf *out, const tfr_verified *file, const tfr_compared *f) {
    tfr_buf_format(out, "%s:%" PRIu32 ":%" PRIu32 ": ", file->path, f->line, f->column);
    add_name(out, f);
    if (!f->difference.len) {
        tfr_buf_add_str(out, TFR_STR(": equal\n"));
        return;
    }
    tfr_buf_format(out, ": DIFFERENT at %s:%" PRIu32 ":%" PRIu32 ": %.*s\n", file->other_path,
                   f->other_line, f->other_column, (int)f->difference.len, f->difference.data);
}

void tfr_verify_text(tfr_buf *out, const tfr_verified *files, size_t count, bool quiet) {
    size_t functions = 0, changed = 0, different = 0, compared = 0;
    for (size_t i = 0; i < count; i++) {
        const tfr_comparison *c = &files[i].comparison;
        for (size_t k = 0; k < c->functions.count; k++) {
            const tfr_compared *f = &c->functions.items[k];
            if (f->difference.len || (f->changed && count == 1 && !quiet)) {
                add_function(out, &files[i], f);
            }
            functions += f->function.len > 0;
        }
        changed += c->changed, different += c->different;
        compared += !files[i].error;
    }
    if (!quiet && compared) {
        tfr_buf_format(out, "%s: %zu functions of %zu file%s compared, %zu of them rewritten",
                       different ? "DIFFERENT" : "equal", functions, compared,
                       compared == 1 ? "" : "s", changed);
        if (different) {
            tfr_buf_format(out, ", %zu different", different);
        }
        tfr_buf_add(out, "\n", 1);
    }
}

static void add_json_function(tfr_buf *out, const tfr_compared *f) {
    tfr_buf_add_str(out, TFR_STR("{\"class\": "));
    tfr_report_json_string(out, f->class_name);
    tfr_buf_add_str(out, TFR_STR(", \"function\": "));
    tfr_report_json_string(out, f->function);
    tfr_buf_format(out,
                   ", \"line\": %" PRIu32 ", \"column\": %" PRIu32 ", \"other_line\": %" PRIu32
                   ", \"other_column\": %" PRIu32 ", \"changed\": %s, \"equal\": %s",
                   f->line, f->column, f->other_line, f->other_column,
                   f->changed ? "true" : "false", f->difference.len ? "false" : "true");
    if (f->difference.len) {
        tfr_buf_add_str(out, TFR_STR(", \"difference\": "));
        tfr_report_json_string(out, f->difference);
    }
    tfr_buf_add(out, "}", 1);
}

void tfr_verify_json(tfr_buf *out, const tfr_verified *files, size_t count) {
    tfr_buf_add_str(out, TFR_STR("{\"version\": 1, \"files\": ["));
    for (size_t i = 0; i < count; i++) {
        const tfr_comparison *c = &files[i].comparison;
        tfr_buf_add_str(out, i ? TFR_STR(",\n  {\"path\": ") : TFR_STR("\n  {\"path\": "));
        tfr_report_json_string(out, tfr_str_from(files[i].path));
        if (files[i].error) {
            tfr_buf_add_str(out, TFR_STR(", \"error\": "));
            tfr_report_json_string(out, tfr_str_from(files[i].error->message));
        }
        bool equal = !files[i].error && !c->different;
        tfr_buf_format(out, ", \"equal\": %s, \"functions\": [", equal ? "true" : "false");
        for (size_t k = 0; k < c->functions.count; k++) {
            tfr_buf_add_str(out, k ? TFR_STR(",\n    ") : TFR_STR("\n    "));
            add_json_function(out, &c->functions.items[k]);
        }
        tfr_buf_add_str(out, TFR_STR("]}"));
    }
    tfr_buf_add_str(out, TFR_STR("]}\n"));
}
