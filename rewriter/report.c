// The report in its forms. What is printed for people stays within a screen by merging what
// belongs together and by naming what was left out; the JSON document holds everything.
#include "rewriter/report.h"

#include "runtime/utf8.h"

#include <inttypes.h>
#include <stdio.h>

#define FUSED_ROWS 14 // of one file
#define REFUSED_ROWS 6
#define FILE_ROWS 24 // of several files
#define REASON_ROWS 5
#define LINES_PER_ROW 6
#define PLACE_WIDTH 40
#define ROWS_BACK 64     // how far apart two blocks of one function may be and still share a row
#define MOST_CAUSES 1024 // distinct reasons told apart; keeps the search linear

// --- building blocks ---

typedef enum style { BOLD, GREEN, YELLOW, RED, DIM } style;

static void start_style(tfr_buf *out, style s, bool color) {
    static const char *const CODES[] = {"\033[1m", "\033[32m", "\033[1;33m", "\033[1;31m",
                                        "\033[2m"};
    if (color) {
        tfr_buf_add_str(out, tfr_str_from(CODES[s]));
    }
}

static void end_style(tfr_buf *out, bool color) {
    if (color) {
        tfr_buf_add_str(out, TFR_STR("\033[0m"));
    }
}

// Text from the input or the file system must not move the terminal's cursor.
static void add_safe(tfr_buf *out, tfr_str text) {
    for (size_t i = 0, len; i < text.len; i += len) {
        len = tfr_utf8_length(text.data + i, text.len - i);
        if (len && tfr_utf8_shown(text.data + i, len)) {
            tfr_buf_add(out, text.data + i, len);
        } else {
            len = len ? len : 1;
            tfr_buf_add(out, "?", 1);
        }
    }
}

static void add_styled(tfr_buf *out, tfr_str text, style s, bool color) {
    start_style(out, s, color);
    add_safe(out, text);
    end_style(out, color);
}

static void pad(tfr_buf *out, size_t used, size_t width) {
    for (; used < width; used++) {
        tfr_buf_add(out, " ", 1);
    }
    tfr_buf_add(out, " ", 1);
}

static const char *plural(size_t n) { return n == 1 ? "" : "s"; }

// "Class" for its forward, else "Class.function"; "function" at module level.
static tfr_str place_name(tfr_arena *arena, tfr_str class_name, tfr_str function) {
    if (!class_name.len) {
        return function.len ? function : TFR_STR("<module>");
    }
    if (!function.len || tfr_str_eq(function, TFR_STR("forward"))) {
        return class_name;
    }
    return tfr_str_format(arena, "%.*s.%.*s", (int)class_name.len, class_name.data,
                          (int)function.len, function.data);
}

static size_t fused_total(const tfr_report *report) {
    size_t total = 0;
    for (size_t i = 0; i < report->fused.count; i++) {
        total += report->fused.items[i].count;
    }
    return total;
}

// The source text that a reason speaks of.
static void add_found(tfr_buf *out, const tfr_refused *r) {
    if (r->found.len) {
        tfr_buf_add_str(out, TFR_STR(": `"));
        add_safe(out, r->found);
        tfr_buf_add_str(out, TFR_STR("`"));
    }
}

// --- copies ---

static tfr_str copy_str(tfr_str text, tfr_arena *arena) {
    return (tfr_str){tfr_str_dup(arena, text), text.len};
}

tfr_report tfr_report_copy(const tfr_report *report, tfr_arena *arena) {
    tfr_report copy = *report;
    copy.path = tfr_str_dup(arena, tfr_str_from(report->path));
    copy.note = copy_str(report->note, arena);
    copy.fused.cap = report->fused.count;
    copy.fused.items = TFR_NEW_ARRAY(arena, tfr_fused, report->fused.count);
    for (size_t i = 0; i < report->fused.count; i++) {
        tfr_fused f = report->fused.items[i];
        f.op = copy_str(f.op, arena);
        f.class_name = copy_str(f.class_name, arena);
        f.function = copy_str(f.function, arena);
        copy.fused.items[i] = f;
    }
    copy.refused.cap = report->refused.count;
    copy.refused.items = TFR_NEW_ARRAY(arena, tfr_refused, report->refused.count);
    for (size_t i = 0; i < report->refused.count; i++) {
        tfr_refused r = report->refused.items[i];
        r.op = copy_str(r.op, arena);
        r.class_name = copy_str(r.class_name, arena);
        r.function = copy_str(r.function, arena);
        r.reason = copy_str(r.reason, arena);
        r.found = copy_str(r.found, arena);
        r.rule = copy_str(r.rule, arena);
        copy.refused.items[i] = r;
    }
    copy.reads.cap = report->reads.count;
    copy.reads.items = TFR_NEW_ARRAY(arena, tfr_file_read, report->reads.count);
    for (size_t i = 0; i < report->reads.count; i++) {
        copy.reads.items[i].path = copy_str(report->reads.items[i].path, arena);
        copy.reads.items[i].fault = copy_str(report->reads.items[i].fault, arena);
    }
    if (report->error) {
        tfr_error *error = TFR_NEW(arena, tfr_error);
        *error = *report->error;
        copy.error = error;
    }
    return copy;
}

// --- one file, for people ---

// All fused blocks of one op in one function: one row.
typedef struct row {
    tfr_str place;
    const tfr_fused *first;
    size_t blocks;
    tfr_buf lines;
} row;

typedef struct rows {
    row *items;
    size_t count, cap;
} rows;

static void add_lines(row *r, const tfr_fused *f) {
    if (r->blocks++ >= LINES_PER_ROW) {
        return;
    }
    tfr_buf_format(&r->lines, r->blocks > 1 ? ", %" PRIu32 : "%" PRIu32, f->line);
    if (f->end_line > f->line) {
        tfr_buf_format(&r->lines, "-%" PRIu32, f->end_line);
    }
    if (f->count > 1) {
        tfr_buf_format(&r->lines, " (x%" PRIu32 ")", f->count);
    }
}

static rows collect_rows(const tfr_report *report, tfr_arena *arena) {
    rows all = {0};
    for (size_t i = 0; i < report->fused.count; i++) {
        const tfr_fused *f = &report->fused.items[i];
        row *found = NULL;
        size_t oldest = all.count > ROWS_BACK ? all.count - ROWS_BACK : 0;
        for (size_t j = oldest; j < all.count && !found; j++) {
            const tfr_fused *g = all.items[j].first;
            bool same = tfr_str_eq(f->op, g->op) && tfr_str_eq(f->class_name, g->class_name) &&
                        tfr_str_eq(f->function, g->function);
            found = same ? &all.items[j] : NULL;
        }
        if (!found) {
            found = TFR_PUSH(arena, &all);
            *found = (row){.place = place_name(arena, f->class_name, f->function),
                           .first = f,
                           .lines = {.arena = arena}};
        }
        add_lines(found, f);
    }
    return all;
}

static void print_fused(tfr_buf *out, const tfr_report *report, bool color) {
    rows all = collect_rows(report, out->arena);
    size_t place_width = 0;
    size_t op_width = 0;
    for (size_t i = 0; i < all.count && i < FUSED_ROWS; i++) {
        size_t place = all.items[i].place.len;
        size_t op = all.items[i].first->op.len;
        place_width = place > place_width ? place : place_width;
        op_width = op > op_width ? op : op_width;
    }
    place_width = place_width < PLACE_WIDTH ? place_width : PLACE_WIDTH;
    for (size_t i = 0; i < all.count && i < FUSED_ROWS; i++) {
        const row *r = &all.items[i];
        bool repeated = i > 0 && tfr_str_eq(r->place, all.items[i - 1].place);
        tfr_str place = repeated ? TFR_STR("") : r->place;
        tfr_buf_add_str(out, TFR_STR("  "));
        add_safe(out, place);
        pad(out, place.len, place_width);
        add_styled(out, r->first->op, GREEN, color);
        pad(out, r->first->op.len, op_width);
        bool single = r->blocks == 1 && r->first->end_line <= r->first->line;
        tfr_buf_format(out, "line%s %.*s", single ? "" : "s", (int)r->lines.len, r->lines.data);
        if (r->blocks > LINES_PER_ROW) {
            tfr_buf_format(out, " and %zu more", r->blocks - LINES_PER_ROW);
        }
        tfr_buf_add(out, "\n", 1);
    }
    if (all.count > FUSED_ROWS) {
        tfr_buf_format(out, "  %zu more: use --json\n", all.count - FUSED_ROWS);
    }
}

// Refusals with the same op and the same reason.
typedef struct cause {
    const tfr_refused *first;
    const char *path; // of the first
    size_t places, files;
    const char *last_path;
} cause;

typedef struct causes {
    cause *items;
    size_t count, cap;
    size_t untold; // refusals beyond MOST_CAUSES
} causes;

static void collect_causes(causes *all, const tfr_report *report, tfr_arena *arena) {
    for (size_t i = 0; i < report->refused.count; i++) {
        const tfr_refused *r = &report->refused.items[i];
        cause *found = NULL;
        for (size_t j = 0; j < all->count && !found; j++) {
            const tfr_refused *first = all->items[j].first;
            bool same = tfr_str_eq(r->op, first->op) && tfr_str_eq(r->reason, first->reason);
            found = same ? &all->items[j] : NULL;
        }
        if (!found && all->count == MOST_CAUSES) {
            all->untold++;
            continue;
        }
        if (!found) {
            found = TFR_PUSH(arena, all);
            *found = (cause){.first = r, .path = report->path};
        }
        found->places++;
        found->files += found->last_path != report->path;
        found->last_path = report->path;
    }
}

static void print_refused(tfr_buf *out, const tfr_report *report, bool color) {
    causes all = {0};
    collect_causes(&all, report, out->arena);
    if (all.count) {
        tfr_buf_add_str(out, TFR_STR("  not fused:\n"));
    }
    for (size_t i = 0; i < all.count && i < REFUSED_ROWS; i++) {
        const cause *c = &all.items[i];
        const tfr_refused *r = c->first;
        tfr_buf_format(out, "  %" PRIu32 ":%" PRIu32 " ", r->line, r->column);
        add_safe(out, place_name(out->arena, r->class_name, r->function));
        tfr_buf_add(out, " ", 1);
        add_styled(out, r->op, YELLOW, color);
        tfr_buf_add_str(out, TFR_STR(": "));
        add_safe(out, r->reason);
        if (c->places > 1) {
            tfr_buf_format(out, " (%zu places)", c->places);
        } else {
            add_found(out, r);
        }
        tfr_buf_add(out, "\n", 1);
    }
    if (all.count > REFUSED_ROWS) {
        tfr_buf_format(out, "  %zu more: use --json or `tfrewrite why FILE`\n",
                       all.count - REFUSED_ROWS + all.untold);
    }
}

// What an import led to and could not be read: blocks that need it are left alone.
static void print_unread(tfr_buf *out, const tfr_report *report) {
    for (size_t i = 0; i < report->reads.count; i++) {
        const tfr_file_read *file = &report->reads.items[i];
        if (!file->fault.len) {
            continue;
        }
        tfr_buf_add_str(out, TFR_STR("not read: "));
        add_safe(out, file->path);
        tfr_buf_add_str(out, TFR_STR(": "));
        add_safe(out, file->fault);
        tfr_buf_add(out, "\n", 1);
    }
}

static void add_note(tfr_buf *out, const tfr_report *report) {
    if (report->note.len) {
        tfr_buf_add_str(out, TFR_STR(" ("));
        add_safe(out, report->note);
        tfr_buf_add_str(out, TFR_STR(")"));
    }
}

static void print_file(tfr_buf *out, const tfr_report *report, bool color) {
    size_t fused = fused_total(report);
    size_t refused = report->refused.count;
    if (!fused) {
        start_style(out, YELLOW, color);
        tfr_buf_add_str(out, TFR_STR("NOTHING WAS FUSED in "));
        add_safe(out, tfr_str_from(report->path));
        tfr_buf_add_str(out, refused ? TFR_STR(": no block fulfils every condition of a rule")
                                     : TFR_STR(": no block resembles what a rule describes"));
        end_style(out, color);
    } else {
        add_styled(out, tfr_str_from(report->path), BOLD, color);
        tfr_buf_format(out, ": %zu block%s fused", fused, plural(fused));
        if (refused) {
            tfr_buf_format(out, ", %zu not", refused);
        }
    }
    add_note(out, report);
    tfr_buf_add(out, "\n", 1);
    print_fused(out, report, color);
    print_refused(out, report, color);
    print_unread(out, report);
}

// --- several files, for people ---

typedef struct op_count {
    tfr_str op;
    size_t count;
} op_count;

typedef struct op_counts {
    op_count *items;
    size_t count, cap;
} op_counts;

static void count_ops(op_counts *ops, const tfr_report *report, tfr_arena *arena) {
    for (size_t i = 0; i < report->fused.count; i++) {
        const tfr_fused *f = &report->fused.items[i];
        op_count *found = NULL;
        for (size_t j = 0; j < ops->count && !found; j++) {
            found = tfr_str_eq(ops->items[j].op, f->op) ? &ops->items[j] : NULL;
        }
        if (!found) {
            found = TFR_PUSH(arena, ops);
            *found = (op_count){.op = f->op};
        }
        found->count += f->count;
    }
}

static void print_ops(tfr_buf *out, const op_counts *ops, bool color) {
    for (size_t i = 0; i < ops->count; i++) {
        tfr_buf_add_str(out, i ? TFR_STR(", ") : TFR_STR(""));
        add_styled(out, ops->items[i].op, GREEN, color);
        tfr_buf_format(out, " %zu", ops->items[i].count);
    }
}

static void print_file_rows(tfr_buf *out, const tfr_report *reports, size_t count, bool color) {
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        size_t fused = reports[i].error ? 0 : fused_total(&reports[i]);
        if (!fused || shown++ >= FILE_ROWS) {
            continue;
        }
        op_counts ops = {0};
        count_ops(&ops, &reports[i], out->arena);
        add_styled(out, tfr_str_from(reports[i].path), BOLD, color);
        tfr_buf_add_str(out, TFR_STR(": "));
        print_ops(out, &ops, color);
        if (reports[i].refused.count) {
            tfr_buf_format(out, "; %zu not fused", reports[i].refused.count);
        }
        tfr_buf_add(out, "\n", 1);
    }
    if (shown > FILE_ROWS) {
        tfr_buf_format(out, "%zu more files: use --json\n", shown - FILE_ROWS);
    }
}

// Moves the commonest to the front; a selection, since mostly a few are shown.
static void rank_causes(causes *all, size_t shown) {
    for (size_t n = 0; n < shown && n < all->count; n++) {
        cause *best = &all->items[n];
        for (size_t i = n + 1; i < all->count; i++) {
            if (all->items[i].places > best->places) {
                best = &all->items[i];
            }
        }
        cause c = *best;
        *best = all->items[n];
        all->items[n] = c;
    }
}

static void print_cause(tfr_buf *out, const cause *c, bool color) {
    add_styled(out, c->first->op, YELLOW, color);
    tfr_buf_add_str(out, TFR_STR(": "));
    add_safe(out, c->first->reason);
    tfr_buf_format(out, " (%zu place%s in %zu file%s, first ", c->places, plural(c->places),
                   c->files, plural(c->files));
    add_safe(out, tfr_str_from(c->path));
    tfr_buf_format(out, ":%" PRIu32 ":%" PRIu32, c->first->line, c->first->column);
    add_found(out, c->first);
    tfr_buf_add_str(out, TFR_STR(")\n"));
}

static void print_causes(tfr_buf *out, causes *all, bool color) {
    if (all->count) {
        tfr_buf_add_str(out, TFR_STR("commonest reasons not to fuse:\n"));
    }
    rank_causes(all, REASON_ROWS);
    for (size_t i = 0; i < REASON_ROWS && i < all->count; i++) {
        tfr_buf_add_str(out, TFR_STR("  "));
        print_cause(out, &all->items[i], color);
    }
    if (all->count > REASON_ROWS) {
        tfr_buf_format(out, "  %zu more: use --json or `tfrewrite why`\n",
                       all->count - REASON_ROWS + all->untold);
    }
}

static void print_files(tfr_buf *out, const tfr_report *reports, size_t count, bool color) {
    op_counts ops = {0};
    causes all = {0};
    size_t with_fused = 0;
    size_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (reports[i].error) {
            failed++;
            continue;
        }
        with_fused += fused_total(&reports[i]) > 0;
        count_ops(&ops, &reports[i], out->arena);
        collect_causes(&all, &reports[i], out->arena);
    }
    print_file_rows(out, reports, count, color);
    print_causes(out, &all, color);
    if (with_fused) {
        tfr_buf_format(out, "%zu files: blocks fused in %zu, in %zu nothing to fuse", count,
                       with_fused, count - with_fused - failed);
    } else {
        start_style(out, YELLOW, color);
        tfr_buf_format(out, "NOTHING WAS FUSED in any of %zu file%s", count, plural(count));
        end_style(out, color);
    }
    if (failed) {
        start_style(out, RED, color);
        tfr_buf_format(out, ", %zu failed or refused (see the messages)", failed);
        end_style(out, color);
    }
    if (ops.count) {
        tfr_buf_add_str(out, TFR_STR("; "));
        print_ops(out, &ops, color);
    }
    tfr_buf_add(out, "\n", 1);
}

void tfr_report_text(tfr_buf *out, const tfr_report *reports, size_t count, bool color) {
    if (count == 1 && !reports[0].error) {
        print_file(out, &reports[0], color);
    } else if (count > 1) {
        print_files(out, reports, count, color);
    }
}

// --- why ---

static void why_refused(tfr_buf *out, const tfr_report *report, const tfr_refused *r, bool color) {
    tfr_str path = tfr_str_from(report->path);
    add_safe(out, path);
    tfr_buf_format(out, ":%" PRIu32 "-%" PRIu32 ": ", r->block_line, r->block_end_line);
    add_styled(out, place_name(out->arena, r->class_name, r->function), BOLD, color);
    tfr_buf_add_str(out, TFR_STR(": not fused; nearest rule "));
    add_styled(out, r->rule.len ? r->rule : r->op, YELLOW, color);
    tfr_buf_add_str(out, TFR_STR("\n  "));
    add_safe(out, path);
    tfr_buf_format(out, ":%" PRIu32 ":%" PRIu32 ": ", r->line, r->column);
    add_safe(out, r->reason);
    add_found(out, r);
    tfr_buf_add(out, "\n", 1);
}

static void why_fused(tfr_buf *out, const tfr_report *report, const tfr_fused *f, bool color) {
    add_safe(out, tfr_str_from(report->path));
    tfr_buf_format(out, ":%" PRIu32 "-%" PRIu32 ": ", f->line, f->end_line);
    add_styled(out, place_name(out->arena, f->class_name, f->function), BOLD, color);
    tfr_buf_add_str(out, TFR_STR(": fused as "));
    add_styled(out, f->op, GREEN, color);
    tfr_buf_add(out, "\n", 1);
}

void tfr_report_why(tfr_buf *out, const tfr_report *report, uint32_t line, bool color) {
    size_t shown = 0;
    for (size_t i = 0; i < report->refused.count; i++) {
        const tfr_refused *r = &report->refused.items[i];
        bool holds = (r->block_line <= line && line <= r->block_end_line) || r->line == line;
        if (!line || holds) {
            why_refused(out, report, r, color);
            shown++;
        }
    }
    for (size_t i = 0; i < report->fused.count; i++) {
        const tfr_fused *f = &report->fused.items[i];
        if (!line || (f->line <= line && line <= f->end_line)) {
            why_fused(out, report, f, color);
            shown++;
        }
    }
    if (shown) {
        return;
    }
    start_style(out, YELLOW, color);
    add_safe(out, tfr_str_from(report->path));
    if (line) {
        tfr_buf_format(out, ":%" PRIu32, line);
    }
    tfr_buf_add_str(out, line ? TFR_STR(": no candidate block contains this line")
                              : TFR_STR(": no block resembles what a rule describes"));
    end_style(out, color);
    add_note(out, report);
    tfr_buf_add(out, "\n", 1);
}

// The reasons of all files, those that cost most blocks first.
static causes ranked_causes(const tfr_report *reports, size_t count, tfr_arena *arena) {
    causes all = {0};
    for (size_t i = 0; i < count; i++) {
        if (!reports[i].error) {
            collect_causes(&all, &reports[i], arena);
        }
    }
    rank_causes(&all, all.count);
    return all;
}

void tfr_report_reasons(tfr_buf *out, const tfr_report *reports, size_t count, bool color) {
    causes all = ranked_causes(reports, count, out->arena);
    for (size_t i = 0; i < all.count; i++) {
        tfr_buf_format(out, "%5zu  ", all.items[i].places);
        print_cause(out, &all.items[i], color);
    }
    if (all.untold) {
        tfr_buf_format(out, "%5zu  with other reasons: use --json\n", all.untold);
    }
    if (!all.count) {
        tfr_buf_format(out, "no block of %zu file%s came near a rule without being fused\n", count,
                       plural(count));
    }
}

void tfr_report_error(tfr_buf *out, const tfr_error *err, tfr_status status, bool color) {
    add_safe(out, err->path[0] ? tfr_str_from(err->path) : TFR_STR("tfrewrite"));
    if (err->line) {
        tfr_buf_format(out, ":%" PRIu32, err->line);
    }
    if (err->line && err->column) {
        tfr_buf_format(out, ":%" PRIu32, err->column);
    }
    tfr_buf_add_str(out, TFR_STR(": "));
    add_styled(out, status == TFR_E_REFUSED ? TFR_STR("refused") : TFR_STR("error"), RED, color);
    tfr_buf_add_str(out, TFR_STR(": "));
    add_safe(out, tfr_str_from(err->message));
    tfr_buf_add(out, "\n", 1);
}

// --- JSON ---

void tfr_report_json_string(tfr_buf *out, tfr_str text) {
    tfr_buf_add(out, "\"", 1);
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.data[i];
        size_t len = tfr_utf8_length(text.data + i, text.len - i);
        if (c == '"' || c == '\\') {
            tfr_buf_format(out, "\\%c", c);
        } else if (c < 0x20) {
            tfr_buf_format(out, "\\u%04x", c);
        } else if (len) {
            tfr_buf_add(out, text.data + i, len);
        } else {
            tfr_buf_add_str(out, TFR_STR("\\ufffd"));
        }
        i += len ? len : 1;
    }
    tfr_buf_add(out, "\"", 1);
}

static void json_field(tfr_buf *out, const char *name, tfr_str value) {
    tfr_buf_format(out, "\"%s\": ", name);
    tfr_report_json_string(out, value);
    tfr_buf_add_str(out, TFR_STR(", "));
}

static void json_place(tfr_buf *out, tfr_str op, tfr_str class_name, tfr_str function) {
    tfr_buf_add_str(out, TFR_STR("\n      {"));
    json_field(out, "op", op);
    json_field(out, "class", class_name);
    json_field(out, "function", function);
}

static void json_file(tfr_buf *out, const tfr_report *report) {
    tfr_buf_add_str(out, TFR_STR("\n    {"));
    json_field(out, "path", tfr_str_from(report->path));
    tfr_buf_format(out, "\"changed\": %s,\n     \"fused\": [", report->changed ? "true" : "false");
    for (size_t i = 0; i < report->fused.count; i++) {
        const tfr_fused *f = &report->fused.items[i];
        tfr_buf_add_str(out, i ? TFR_STR(",") : TFR_STR(""));
        json_place(out, f->op, f->class_name, f->function);
        tfr_buf_format(out,
                       "\"line\": %" PRIu32 ", \"end_line\": %" PRIu32 ", \"count\": %" PRIu32 "}",
                       f->line, f->end_line, f->count);
    }
    tfr_buf_add_str(out, TFR_STR("],\n     \"refused\": ["));
    for (size_t i = 0; i < report->refused.count; i++) {
        const tfr_refused *r = &report->refused.items[i];
        tfr_buf_add_str(out, i ? TFR_STR(",") : TFR_STR(""));
        json_place(out, r->op, r->class_name, r->function);
        tfr_buf_format(out, "\"line\": %" PRIu32 ", \"column\": %" PRIu32 ", ", r->line, r->column);
        json_field(out, "reason", r->reason);
        json_field(out, "found", r->found);
        json_field(out, "rule", r->rule);
        tfr_buf_format(out, "\"block_line\": %" PRIu32 ", \"block_end_line\": %" PRIu32 "}",
                       r->block_line, r->block_end_line);
    }
    tfr_buf_add_str(out, TFR_STR("],\n     \"reads\": ["));
    for (size_t i = 0; i < report->reads.count; i++) {
        tfr_buf_add_str(out, i ? TFR_STR(", {") : TFR_STR("{"));
        json_field(out, "path", report->reads.items[i].path);
        tfr_buf_add_str(out, TFR_STR("\"fault\": "));
        tfr_report_json_string(out, report->reads.items[i].fault);
        tfr_buf_add(out, "}", 1);
    }
    tfr_buf_add(out, "]", 1);
    if (report->error) {
        tfr_buf_add_str(out, TFR_STR(",\n     \"error\": {"));
        json_field(out, "kind",
                   report->status == TFR_E_REFUSED ? TFR_STR("refused") : TFR_STR("io"));
        tfr_buf_format(out, "\"line\": %" PRIu32 ", \"column\": %" PRIu32 ", \"message\": ",
                       report->error->line, report->error->column);
        tfr_report_json_string(out, tfr_str_from(report->error->message));
        tfr_buf_add(out, "}", 1);
    }
    tfr_buf_add(out, "}", 1);
}

void tfr_report_reasons_json(tfr_buf *out, const tfr_report *reports, size_t count) {
    causes all = ranked_causes(reports, count, out->arena);
    tfr_buf_add_str(out, TFR_STR("{\"version\": 1, \"reasons\": ["));
    for (size_t i = 0; i < all.count; i++) {
        const cause *c = &all.items[i];
        tfr_buf_add_str(out, i ? TFR_STR(",\n    {") : TFR_STR("\n    {"));
        tfr_buf_format(out, "\"count\": %zu, \"files\": %zu, ", c->places, c->files);
        json_field(out, "op", c->first->op);
        json_field(out, "reason", c->first->reason);
        json_field(out, "found", c->first->found);
        json_field(out, "path", tfr_str_from(c->path));
        tfr_buf_format(out, "\"line\": %" PRIu32 ", \"column\": %" PRIu32 "}", c->first->line,
                       c->first->column);
    }
    tfr_buf_format(out, "],\n \"untold\": %zu}\n", all.untold);
}

void tfr_report_json(tfr_buf *out, const tfr_report *reports, size_t count) {
    tfr_buf_add_str(out, TFR_STR("{\"version\": 1, \"files\": ["));
    for (size_t i = 0; i < count; i++) {
        tfr_buf_add_str(out, i ? TFR_STR(",") : TFR_STR(""));
        json_file(out, &reports[i]);
    }
    tfr_buf_add_str(out, TFR_STR("]}\n"));
}
