// What a file says that bears on its rewriting as a whole: comments that switch parts of it off,
// functions that are compiled from their source, the import of the ops and where it goes.
#include "rewriter/rewrite_file.h"

static bool comment_says(tfr_str text, const char *what) {
    size_t i = 1;
    while (i < text.len && text.data[i] == ' ')
        i++;
    tfr_str rest = {text.data + i, text.len - i};
    size_t n = strlen(what);
    return rest.len >= n && memcmp(rest.data, what, n) == 0 &&
           (rest.len == n || rest.data[n] == ' ' || rest.data[n] == '\r');
}

// `# tfrewrite: off` on a line of its own: until `on` or the end of its block; behind a def or
// class line: that whole definition.
void tfr_remarks_off(rewriter *r) {
    const tfr_tree *t = &r->tree;
    tfr_str text = r->src->text;
    for (uint32_t n = 1; n; n = tfr_tree_walk(t, 1, n, false)) {
        if (tfr_tree_kind(t, n) != TFR_N_COMMENT ||
            !comment_says(tfr_tree_text(t, n), "tfrewrite: off"))
            continue;
        uint32_t line_start = t->nodes[n].start, first;
        while (line_start && text.data[line_start - 1] != '\n')
            line_start--;
        first = line_start;
        while (text.data[first] == ' ' || text.data[first] == '\t')
            first++;
        span off = {t->nodes[n].start, t->nodes[t->nodes[n].parent].end};
        if (first != t->nodes[n].start) { // behind code
            for (uint32_t d = n; d && t->nodes[d].end > first; d = t->nodes[d].parent)
                if (t->nodes[d].start == first &&
                    (tfr_tree_kind(t, d) == TFR_N_CLASS || tfr_tree_kind(t, d) == TFR_N_FUNCTION))
                    off = (span){t->nodes[d].start, t->nodes[d].end};
        } else {
            for (uint32_t c = n; c; c = t->nodes[c].next)
                if (tfr_tree_kind(t, c) == TFR_N_COMMENT &&
                    comment_says(tfr_tree_text(t, c), "tfrewrite: on"))
                    off.end = t->nodes[c].start;
        }
        *TFR_PUSH(r->arena, &r->off) = off;
    }
}

void tfr_remarks_alias(rewriter *r) {
    for (uint32_t i = 0; i < r->scope.bindings.count; i++) {
        const tfr_binding *b = &r->scope.bindings.items[i];
        if (b->kind == TFR_BIND_IMPORT && b->path == r->module.words->tfr_ops) {
            r->alias = tfr_names_text(&r->names, b->name);
            r->has_import = true;
            return;
        }
    }
    static const char *const names[] = {"tfr", "tfr_ops", "_tfr", "_tfr_ops_", "__tfrewrite_ops"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool taken = false;
        for (uint32_t n = 1; n < r->tree.count && !taken; n++)
            taken = r->tree.nodes[n].kind == TFR_N_IDENTIFIER && tfr_tree_is(&r->tree, n, names[i]);
        if (taken)
            continue;
        r->alias = tfr_str_from(names[i]);
        return;
    }
    r->alias = TFR_STR("__tfrewrite_ops_");
}

static uint32_t line_end(tfr_str text, uint32_t at) {
    while (at < text.len && text.data[at] != '\n' && text.data[at] != '\r')
        at++;
    if (at < text.len && text.data[at] == '\r')
        at++;
    if (at < text.len && text.data[at] == '\n')
        at++;
    return at;
}

// After the last import of the header; else after the docstring; else before the first statement.
tfr_edit tfr_remarks_import(rewriter *r) {
    const tfr_tree *t = &r->tree;
    tfr_str text = r->src->text, newline = r->src->newline;
    uint32_t after = r->scope.last_import, first = tfr_tree_first(t, 1);
    if (!after && first && tfr_tree_kind(t, first) == TFR_N_EXPR_STATEMENT &&
        tfr_tree_kind(t, tfr_tree_first(t, first)) == TFR_N_STRING)
        after = first;
    uint32_t at = after ? line_end(text, t->nodes[after].end) : first ? t->nodes[first].start : 0;
    bool open = after && (at == 0 || (text.data[at - 1] != '\n' && text.data[at - 1] != '\r'));
    tfr_str as = tfr_str_eq(r->alias, TFR_STR("ops"))
                     ? (tfr_str){"", 0}
                     : tfr_str_format(r->arena, " as %.*s", (int)r->alias.len, r->alias.data);
    tfr_str line = tfr_str_format(r->arena, "%.*sfrom tfrewrite import ops%.*s%.*s",
                                  open ? (int)newline.len : 0, newline.data, (int)as.len, as.data,
                                  (int)newline.len, newline.data);
    return (tfr_edit){at, at, line};
}

// `torch.jit.script(name)` compiles that function, or class, from its source: ours cannot be in it.
void tfr_remarks_scripted(rewriter *r) {
    const tfr_tree *t = &r->tree;
    for (uint32_t n = 1; n < t->count; n++) {
        if (t->nodes[n].kind != TFR_N_CALL)
            continue;
        tfr_str callee = tfr_tree_text(t, tfr_tree_field(t, n, TFR_F_FUNCTION));
        if (callee.len < 10 || memcmp(callee.data + callee.len - 10, "jit.script", 10) != 0)
            continue;
        uint32_t what = tfr_tree_first(t, tfr_tree_field(t, n, TFR_F_ARGUMENTS));
        tfr_name name = tfr_names_add(&r->names, tfr_tree_text(t, what));
        for (uint32_t f = 0; f < r->scope.functions.count; f++) {
            const tfr_function *function = &r->scope.functions.items[f];
            bool of_class = function->class_index != TFR_NO_CLASS &&
                            r->scope.classes.items[function->class_index].name == name;
            r->untouched[f] |= function->name == name || of_class;
        }
    }
}

void tfr_remarks_wildcard(rewriter *r) {
    if (!r->scope.wildcard)
        return;
    uint32_t line = 1, column;
    tfr_source_position(r->src, r->tree.nodes[r->scope.wildcard].start, &line, &column);
    r->report->note = tfr_str_format(
        r->arena,
        "after the import * of line %u no name imported before it is certain, torch or nn neither: "
        "names would have to be imported one by one",
        line);
}
