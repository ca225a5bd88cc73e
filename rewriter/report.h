// What was fused and what was refused, and its two printed forms. Plain data: fill it, print it.
#ifndef TFR_REPORT_H
#define TFR_REPORT_H

#include "parser/source.h"

typedef struct tfr_fused {
    tfr_str op;         // "rms_norm"
    tfr_str class_name; // "" at module level
    tfr_str function;   // "forward"
    uint32_t line, end_line;
    uint32_t count; // matches of this op in this function at these lines (usually 1)
} tfr_fused;

typedef struct tfr_refused {
    tfr_str op; // the rule that came nearest
    tfr_str class_name, function;
    uint32_t line, column; // of the first condition that failed
    tfr_str reason;        // one sentence: what the code would need
    tfr_str found;         // the source text there, on one line and cut short; "": none
    tfr_str rule;          // the reference function that came nearest, "rms_norm/cast_weight"
    uint32_t block_line, block_end_line; // the candidate block itself
    uint32_t helper; // function of the file that it was seen through to; UINT32_MAX: none
} tfr_refused;

// A file that an import led to.
typedef struct tfr_file_read {
    tfr_str path;
    tfr_str fault; // why it was not read; "": it was
} tfr_file_read;

typedef struct tfr_report {
    const char *path;
    bool changed;
    struct {
        tfr_fused *items;
        size_t count, cap;
    } fused;
    struct {
        tfr_refused *items;
        size_t count, cap;
    } refused;
    struct {
        tfr_file_read *items;
        size_t count, cap;
    } reads;
    const tfr_error *error; // why the whole file was not read or rewritten; NULL: it was
    tfr_status status;      // of that error
    tfr_str note;           // a sentence on why nothing, or not more, was fused; or ""
} tfr_report;

// A copy that needs nothing but `arena`.
tfr_report tfr_report_copy(const tfr_report *report, tfr_arena *arena);

// One screen for a person: per class what was fused (op, lines), what was refused and why; a loud
// line when nothing matched. Several reports give a line per file, totals and the commonest
// reasons. Reports with an error are counted only. `color` adds ANSI colours.
void tfr_report_text(tfr_buf *out, const tfr_report *reports, size_t count, bool color);

// For `why`: every candidate block that was not fused (nearest rule, first failed condition) and
// every fused one. `line` 0: all of them; else those that contain that line.
void tfr_report_why(tfr_buf *out, const tfr_report *report, uint32_t line, bool color);

// For `why` of a folder: each reason once, with how many blocks it costs, in how many files, and
// the first place; the costliest first.
void tfr_report_reasons(tfr_buf *out, const tfr_report *reports, size_t count, bool color);
void tfr_report_reasons_json(tfr_buf *out, const tfr_report *reports, size_t count);

// "src/x.py:12:3: error: message", for a terminal: control characters become '?'.
void tfr_report_error(tfr_buf *out, const tfr_error *err, tfr_status status, bool color);

// The document of `--json` (docs/CLI.md): {"version": 1, "files": [...]}.
void tfr_report_json(tfr_buf *out, const tfr_report *reports, size_t count);
// One JSON string, quotes included; bytes that are no UTF-8 become U+FFFD.
void tfr_report_json_string(tfr_buf *out, tfr_str text);

#endif
