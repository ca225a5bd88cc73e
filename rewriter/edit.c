// The text of a planned function: calls with their arguments, the statements that are inserted or
// removed, indentation, line breaks and the comments that must not get lost.
#include "rewriter/emit_plan.h"

#define MAX_COLUMN 119 // longer lines are broken after the call's parenthesis

static void render_span(tfr_plan *p, tfr_buf *out, uint32_t start, uint32_t end, uint32_t but);

static bool word_char(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// `self.eps` that only a method seen through mentions.
static bool render_own_attribute(tfr_plan *p, tfr_buf *out, tfr_value value) {
    const tfr_vnode *n = tfr_flow_node(p->flow, value);
    const tfr_version *self = &p->flow->versions.items[1]; // the first parameter
    tfr_value object = n->op == TFR_V_ATTR ? tfr_flow_arg(p->flow, value, 0).value : 0;
    if (!object || p->flow->class_index == TFR_NO_CLASS || self->kind != TFR_VER_PARAM ||
        !tfr_flow_same(p->flow, object, self->value))
        return false;
    tfr_str text = tfr_plan_text(p, self->name), name = tfr_plan_text(p, n->name);
    tfr_buf_format(out, "%.*s.%.*s", (int)text.len, text.data, (int)name.len, name.data);
    return true;
}

static void render_leaf(tfr_plan *p, tfr_buf *out, uint32_t match, uint32_t leaf) {
    tfr_arg arg = p->matches[match].leaves[leaf];
    const tfr_vnode *n = tfr_flow_node(p->flow, arg.value);
    if (!arg.ast) {
        if (n->op == TFR_V_CONST)
            tfr_buf_add_str(out, tfr_plan_text(p, n->name));
        else if (!render_own_attribute(p, out, arg.value))
            tfr_plan_fail(
                p, match, 0,
                "an input is made inside a call: it would have to be an expression of this "
                "function");
        return;
    }
    switch (tfr_tree_kind(p->tree, arg.ast)) {
    case TFR_N_YIELD:
    case TFR_N_NAMED:
    case TFR_N_GENERATOR:
    case TFR_N_EXPRESSION_LIST:
    case TFR_N_LIST_SPLAT:
    case TFR_N_DICT_SPLAT:
        tfr_plan_fail(
            p, match, arg.ast,
            "an input is an expression that cannot be an argument: it would have to be assigned "
            "to a name before");
        return;
    default:
        render_span(p, out, tfr_plan_node(p, arg.ast)->start, tfr_plan_node(p, arg.ast)->end, 0);
    }
}

#define MAX_TESTS 8

// `self.k_proj`, or `self.k_proj if test else None` where only `block` calls it.
static void render_module(tfr_plan *p, tfr_buf *out, uint32_t match, uint32_t leaf) {
    const tfr_match *m = &p->matches[match];
    const tfr_flow *f = p->flow;
    struct {
        uint32_t ast;
        bool when;
    } tests[MAX_TESTS]; // from the innermost
    uint32_t count = 0;
    uint32_t block = m->block ? tfr_flow_node(f, m->roots[leaf - 1])->block : 0;
    for (; block != m->block; block = f->blocks.items[block].parent) {
        uint32_t ast =
            tfr_siblings_test(f, block, m->leaves[leaf].value, p->outputs[match].statement);
        if (ast == TFR_NO_TEST)
            continue;
        if (!ast || count == MAX_TESTS) {
            tfr_plan_fail(
                p, match, f->blocks.items[block].test_ast,
                "branch: it runs under more than 8 conditions: it would have to run under fewer");
            return;
        }
        tests[count].ast = ast;
        tests[count++].when = f->blocks.items[block].when;
    }
    for (uint32_t i = count; i-- > 0;) {
        tfr_str text = tfr_tree_text(p->tree, tests[i].ast);
        if (!tests[i].when)
            tfr_buf_format(out, "None if %.*s else ", (int)text.len, text.data);
        else if (i > 0)
            tfr_buf_add(out, "(", 1);
    }
    render_leaf(p, out, match, leaf);
    for (uint32_t i = 0; i < count; i++) {
        tfr_str text = tfr_tree_text(p->tree, tests[i].ast);
        if (!tests[i].when)
            continue;
        if (i > 0)
            tfr_buf_add(out, ")", 1);
        tfr_buf_format(out, " if %.*s else None", (int)text.len, text.data);
    }
}

static void render_modules(tfr_plan *p, tfr_buf *out, uint32_t match) {
    for (uint32_t l = 1; l < p->matches[match].leaf_count; l++) {
        if (l > 1)
            tfr_buf_add(out, ", ", 2);
        render_module(p, out, match, l);
    }
}

// The rule's CALL with its parameters replaced: "x" at its places, never in `x=` or 'x'.
static void render_arguments(tfr_plan *p, tfr_buf *out, uint32_t match, tfr_str call) {
    const tfr_rule *rule = p->matches[match].rule;
    bool quoted = false;
    for (size_t i = 0; i < call.len;) {
        char c = call.data[i];
        if (c == '\'')
            quoted = !quoted;
        if (!quoted && c == '*' && rule->siblings) {
            render_modules(p, out, match);
            return;
        }
        if (quoted || !word_char(c)) {
            tfr_buf_add(out, c == '\'' ? "\"" : &c, 1);
            i++;
            continue;
        }
        size_t n = i;
        while (n < call.len && word_char(call.data[n]))
            n++;
        tfr_str word = {call.data + i, n - i};
        bool keyword = n < call.len && call.data[n] == '=';
        uint32_t l = 0;
        while (l < rule->param_count && !tfr_str_eq(tfr_plan_text(p, rule->params[l].name), word))
            l++;
        if (!keyword && l < rule->param_count)
            render_leaf(p, out, match, l);
        else
            tfr_buf_add_str(out, word);
        i = n;
    }
}

static void indent_at(const tfr_plan *p, uint32_t offset, tfr_str *out) {
    tfr_str text = p->tree->src->text;
    uint32_t start = offset;
    while (start > 0 && text.data[start - 1] != '\n' && text.data[start - 1] != '\r')
        start--;
    uint32_t end = start;
    while (end < text.len &&
           (text.data[end] == ' ' || text.data[end] == '\t' || text.data[end] == '\f'))
        end++;
    *out = (tfr_str){text.data + start, end - start};
}

static tfr_str indent_unit(const tfr_plan *p, tfr_str indent) {
    uint32_t function = p->flow->module->scope->functions.items[p->flow->function].node;
    tfr_str outer;
    indent_at(p, tfr_plan_node(p, function)->start, &outer);
    uint32_t body = tfr_tree_first(p->tree, tfr_tree_field(p->tree, function, TFR_F_BODY));
    tfr_str inner;
    indent_at(p, tfr_plan_node(p, body)->start, &inner);
    if (inner.len > outer.len)
        return (tfr_str){inner.data + outer.len, inner.len - outer.len};
    return indent.len && indent.data[0] == '\t' ? TFR_STR("\t") : TFR_STR("    ");
}

// On one line of their own, one level in; when they are too long for that, one line each.
static void break_arguments(tfr_plan *p, tfr_buf *out, tfr_str arguments, uint32_t at) {
    tfr_str newline = p->tree->src->newline, indent;
    indent_at(p, at, &indent);
    tfr_str unit = indent_unit(p, indent);
    bool each = indent.len + unit.len + arguments.len > MAX_COLUMN;
    int depth = 0;
    char quote = 0;
    size_t start = 0;
    for (size_t i = 0; i <= arguments.len; i++) {
        char c = i < arguments.len ? arguments.data[i] : ',';
        if (quote) {
            if (c == quote)
                quote = 0;
            if (c == '\\')
                i++;
            if (i < arguments.len)
                continue;
        }
        if (c == '"' || c == '\'')
            quote = c;
        depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (i < arguments.len && (!each || c != ',' || depth))
            continue;
        tfr_buf_add_str(out, newline);
        tfr_buf_add_str(out, indent);
        tfr_buf_add_str(out, unit);
        tfr_buf_add(out, arguments.data + start, i - start);
        if (each)
            tfr_buf_add(out, ",", 1);
        start = i + 2;
    }
    tfr_buf_add_str(out, newline);
    tfr_buf_add_str(out, indent);
}

// `via=helper`; `via=(helper, "unsqueeze_dim")` when the source gives the helper that keyword
// itself; `inner=helper`.
static void render_guard(tfr_plan *p, tfr_buf *out, uint32_t match) {
    const tfr_place *place = &p->places[match];
    if (place->via_method) {
        tfr_str text = tfr_tree_text(p->tree, place->via_method);
        tfr_buf_format(out, ", via=%.*s", (int)text.len, text.data);
    }
    const tfr_function *functions = p->flow->module->scope->functions.items;
    if (place->inner != UINT32_MAX) {
        tfr_str text = tfr_plan_text(p, functions[place->inner].name);
        tfr_buf_format(out, ", inner=%.*s", (int)text.len, text.data);
    }
    if (place->via == UINT32_MAX)
        return;
    tfr_str name = tfr_plan_text(p, place->via_module->scope->functions.items[place->via].name);
    if (!place->via_keywords) {
        tfr_buf_format(out, ", via=%.*s", (int)name.len, name.data);
        return;
    }
    tfr_buf_format(out, ", via=(%.*s", (int)name.len, name.data);
    for (uint32_t k = 0; k < p->matches[match].rule->keyword_count; k++) {
        tfr_str key = tfr_plan_text(p, p->matches[match].rule->keywords[k]);
        if (place->via_keywords >> k & 1u)
            tfr_buf_format(out, ", \"%.*s\"", (int)key.len, key.data);
    }
    tfr_buf_add(out, ")", 1);
}

// `before` and `after`: characters that share the line with the call.
static void render_call(tfr_plan *p, tfr_buf *out, uint32_t match, size_t before, size_t after,
                        uint32_t at) {
    const tfr_match *m = &p->matches[match];
    tfr_str call = m->rule->call;
    size_t open = (size_t)((const char *)memchr(call.data, '(', call.len) - call.data);
    tfr_buf arguments = {.arena = p->arena};
    render_arguments(p, &arguments, match, (tfr_str){call.data + open + 1, call.len - open - 2});
    render_guard(p, &arguments, match);
    tfr_buf_format(out, "%.*s.%.*s(", (int)p->alias.len, p->alias.data, (int)open, call.data);
    size_t width = before + p->alias.len + open + arguments.len + after + 3;
    if (width > MAX_COLUMN && arguments.len && !memchr(arguments.data, '\n', arguments.len))
        break_arguments(p, out, tfr_buf_str(&arguments), at);
    else
        tfr_buf_add_str(out, tfr_buf_str(&arguments));
    tfr_buf_add(out, ")", 1);
}

static size_t to_line_start(const tfr_plan *p, uint32_t offset) {
    tfr_str text = p->tree->src->text;
    uint32_t n = 0;
    while (offset > n && text.data[offset - n - 1] != '\n' && text.data[offset - n - 1] != '\r')
        n++;
    return n;
}

static size_t to_line_end(const tfr_plan *p, uint32_t offset) {
    tfr_str text = p->tree->src->text;
    size_t n = 0;
    while (offset + n < text.len && text.data[offset + n] != '\n' && text.data[offset + n] != '\r')
        n++;
    return n;
}

static void render_home(tfr_plan *p, tfr_buf *out, const tfr_home *h) {
    const tfr_output *o = &p->outputs[h->match];
    if (o->insert) {
        tfr_buf_add_str(out, o->names[h->root]);
        return;
    }
    const tfr_node *n = tfr_plan_node(p, h->ast);
    render_call(p, out, h->match, to_line_start(p, n->start), to_line_end(p, n->end), n->start);
    if (o->only_root >= 0)
        tfr_buf_format(out, "[%d]", o->only_root);
}

// `return(a)*b` and `(a)if c`: a parenthesis kept the words apart that now meet.
static void keep_apart(tfr_buf *out, char before, char after) {
    if (word_char(before) && word_char(after))
        tfr_buf_add(out, " ", 1);
}

// A home that is replaced where it stands: not one inside another, nor of an inserted statement's
// sibling result.
static bool is_rendered(const tfr_plan *p, const tfr_home *h) {
    const tfr_output *o = &p->outputs[h->match];
    return o->only_root < 0 || (uint32_t)o->only_root == h->root;
}

static void render_span(tfr_plan *p, tfr_buf *out, uint32_t start, uint32_t end, uint32_t but) {
    uint32_t at = start;
    for (uint32_t i = 0; i < p->homes.count; i++) {
        const tfr_home *h = &p->homes.items[i];
        const tfr_node *n = tfr_plan_node(p, h->ast);
        if (n->start < at || n->end > end || h->ast == but || !is_rendered(p, h))
            continue;
        tfr_buf_add(out, p->tree->src->bytes.data + at, n->start - at);
        if (out->len)
            keep_apart(out, out->data[out->len - 1], 'a');
        render_home(p, out, h);
        at = n->end;
        if (at < end)
            keep_apart(out, out->data[out->len - 1], p->tree->src->bytes.data[at]);
    }
    tfr_buf_add(out, p->tree->src->bytes.data + at, end - at);
}

// Comments of a replaced or removed piece that no argument carries along, as lines of their own.
static void keep_comments(tfr_plan *p, tfr_buf *out, uint32_t root, tfr_str indent) {
    for (uint32_t n = root; n; n = tfr_tree_walk(p->tree, root, n, false)) {
        if (tfr_tree_kind(p->tree, n) != TFR_N_COMMENT)
            continue;
        bool carried = false;
        for (uint32_t a = n; a != root; a = tfr_plan_node(p, a)->parent)
            carried |= tfr_plan_is_leaf(p, a);
        if (carried)
            continue;
        const tfr_node *c = tfr_plan_node(p, n);
        tfr_buf_add_str(out, indent);
        tfr_buf_add(out, p->tree->src->bytes.data + c->start, c->end - c->start);
        tfr_buf_add_str(out, p->tree->src->newline);
    }
}

static void add_edit(tfr_plan *p, tfr_edits *edits, uint32_t start, uint32_t end, tfr_buf *text) {
    *TFR_PUSH(p->arena, edits) = (tfr_edit){start, end, tfr_buf_str(text)};
}

// Whether a statement has its lines to itself; then *start and *end are those lines.
static bool own_lines(const tfr_plan *p, uint32_t ast, uint32_t *start, uint32_t *end,
                      tfr_str *trailing) {
    tfr_str text = p->tree->src->text;
    const tfr_node *n = tfr_plan_node(p, ast);
    uint32_t s = n->start, e = n->end;
    while (s > 0 &&
           (text.data[s - 1] == ' ' || text.data[s - 1] == '\t' || text.data[s - 1] == '\f'))
        s--;
    if (s > 0 && text.data[s - 1] != '\n' && text.data[s - 1] != '\r')
        return false;
    while (e < text.len && (text.data[e] == ' ' || text.data[e] == '\t'))
        e++;
    *trailing = (tfr_str){"", 0};
    if (e < text.len && text.data[e] == '#') {
        size_t n_comment = to_line_end(p, e);
        *trailing = (tfr_str){p->tree->src->bytes.data + e, n_comment};
        e += (uint32_t)n_comment;
    }
    if (e < text.len && text.data[e] != '\n' && text.data[e] != '\r')
        return false;
    if (e < text.len && text.data[e] == '\r')
        e++;
    if (e < text.len && text.data[e] == '\n' &&
        (e == 0 || text.data[e - 1] == '\r' || e == n->end || text.data[e - 1] != '\n'))
        e++;
    *start = s;
    *end = e;
    return true;
}

static bool edit_insertion(tfr_plan *p, tfr_edits *edits, uint32_t match) {
    const tfr_output *o = &p->outputs[match];
    if (!o->insert)
        return true;
    uint32_t ast = p->flow->statements.items[o->statement].ast, start, end;
    tfr_str indent, trailing;
    if (!own_lines(p, ast, &start, &end, &trailing) &&
        to_line_start(p, tfr_plan_node(p, ast)->start) != 0) {
        indent_at(p, tfr_plan_node(p, ast)->start, &indent);
        if (to_line_start(p, tfr_plan_node(p, ast)->start) != indent.len)
            return tfr_plan_fail(
                p, match, ast,
                "its statement shares a line with another one: it would have to stand alone");
    }
    indent_at(p, tfr_plan_node(p, ast)->start, &indent);
    start = tfr_plan_node(p, ast)->start - (uint32_t)indent.len;
    tfr_buf out = {.arena = p->arena};
    for (uint32_t r = 0; r < p->places[match].home_count; r++)
        keep_comments(p, &out, p->places[match].home[r], indent);
    tfr_buf names = {.arena = p->arena};
    for (uint32_t r = 0; r < p->matches[match].root_count; r++)
        tfr_buf_format(&names, "%s%.*s", r ? ", " : "", (int)o->names[r].len, o->names[r].data);
    tfr_buf_format(&out, "%.*s%.*s = ", (int)indent.len, indent.data, (int)names.len, names.data);
    render_call(p, &out, match, indent.len + names.len + 3, 0, tfr_plan_node(p, ast)->start);
    tfr_buf_add_str(&out, p->tree->src->newline);
    add_edit(p, edits, start, start, &out);
    return true;
}

static bool needs_first(const tfr_plan *p, uint32_t match, uint32_t other) {
    if (match == other || !p->outputs[other].insert)
        return false;
    for (uint32_t r = 0; r < p->places[other].home_count; r++)
        if (tfr_plan_in_leaf_of(p, match, p->places[other].home[r]))
            return true;
    return false;
}

// At one place in the text, what an argument needs comes before the call that has it.
static bool edit_insertions(tfr_plan *p, tfr_edits *edits) {
    bool *done = TFR_NEW_ARRAY(p->arena, bool, p->count);
    for (uint32_t left = p->count, before = left + 1; left && left < before;) {
        before = left;
        for (uint32_t m = 0; m < p->count; m++) {
            bool ready = !done[m];
            for (uint32_t k = 0; k < p->count && ready; k++)
                ready = done[k] || !needs_first(p, m, k);
            if (!ready)
                continue;
            if (!edit_insertion(p, edits, m))
                return false;
            done[m] = true;
            left--;
        }
    }
    return true;
}

// Whether nothing is left of the suite that a statement is the last of.
static bool leaves_suite_empty(const tfr_plan *p, uint32_t statement) {
    const tfr_flow *f = p->flow;
    uint32_t ast = f->statements.items[statement].ast, suite = tfr_plan_node(p, ast)->parent;
    if (tfr_tree_next(p->tree, ast))
        return false;
    for (uint32_t m = 0; m < p->count; m++) {
        uint32_t s = p->outputs[m].insert ? p->outputs[m].statement : 0;
        if (s && tfr_plan_node(p, f->statements.items[s].ast)->parent == suite)
            return false;
    }
    for (uint32_t s = statement; s > 0; s--) { // from the last to the first
        uint32_t other = f->statements.items[s].ast;
        if (tfr_plan_node(p, other)->parent != suite)
            continue;
        if (!p->removed[s])
            return false;
        if (tfr_tree_first(p->tree, suite) == other)
            break;
    }
    return true;
}

// The first character of a line, or its end.
static uint32_t line_text(const tfr_plan *p, uint32_t line) {
    tfr_str text = p->tree->src->text;
    while (line < text.len &&
           (text.data[line] == ' ' || text.data[line] == '\t' || text.data[line] == '\f'))
        line++;
    return line;
}

static bool is_blank(const tfr_plan *p, uint32_t line) {
    uint32_t at = line_text(p, line);
    return at < p->tree->src->text.len && to_line_end(p, at) == 0;
}

// Behind `most` blank lines at `at`, or those that there are.
static uint32_t skip_blank(const tfr_plan *p, uint32_t at, uint32_t most) {
    tfr_str text = p->tree->src->text;
    for (; most > 0 && is_blank(p, at); most--) {
        at += (uint32_t)to_line_end(p, at);
        at += text.data[at] == '\r' && at + 1 < text.len && text.data[at + 1] == '\n' ? 2 : 1;
    }
    return at;
}

static const tfr_edit *edit_before(const tfr_edits *edits, uint32_t first, uint32_t at) {
    for (uint32_t i = first; i < edits->count; i++) {
        const tfr_edit *e = &edits->items[i];
        if (e->start <= at && at <= e->end && (e->start < at || e->end == at))
            return e;
    }
    return NULL;
}

// How many blank lines stand before a statement: the longest run of those that only removed
// statements part. At the start of a suite, where there need be none, any number.
static uint32_t blank_before(const tfr_plan *p, const tfr_edits *edits, uint32_t first,
                             uint32_t ast, uint32_t at) {
    tfr_str text = p->tree->src->text;
    uint32_t top = tfr_plan_node(p, tfr_tree_first(p->tree, tfr_plan_node(p, ast)->parent))->start;
    for (uint32_t most = 0, run = 0; at > 0;) {
        const tfr_edit *edit = edit_before(edits, first, at);
        if (edit && edit->text.len)
            return most;
        if (edit) {
            at = edit->start;
            run = 0;
            continue;
        }
        uint32_t line = at - 1;
        if (line > 0 && text.data[line] == '\n' && text.data[line - 1] == '\r')
            line--;
        line -= (uint32_t)to_line_start(p, line);
        if (!is_blank(p, line)) {
            bool comment = text.data[line_text(p, line)] == '#';
            return at <= top && !comment ? UINT32_MAX : most;
        }
        at = line;
        most = ++run > most ? run : most;
    }
    return UINT32_MAX;
}

static bool edit_removal(tfr_plan *p, tfr_edits *edits, uint32_t first, uint32_t statement) {
    uint32_t parent = p->flow->statements.items[statement].parent;
    if (!p->removed[statement] || (parent && p->removed[parent]))
        return true;
    uint32_t ast = p->flow->statements.items[statement].ast, start, end;
    tfr_str trailing, indent;
    if (!own_lines(p, ast, &start, &end, &trailing))
        return tfr_plan_fail(
            p, p->count - 1, ast,
            "a statement that it takes in shares a line with another one: it would have to "
            "stand alone");
    indent_at(p, tfr_plan_node(p, ast)->start, &indent);
    tfr_buf out = {.arena = p->arena};
    keep_comments(p, &out, ast, indent);
    if (trailing.len) {
        tfr_buf_add_str(&out, indent);
        tfr_buf_add_str(&out, trailing);
        tfr_buf_add_str(&out, p->tree->src->newline);
    }
    if (leaves_suite_empty(p, statement))
        tfr_buf_format(&out, "%.*spass%.*s", (int)indent.len, indent.data,
                       (int)p->tree->src->newline.len, p->tree->src->newline.data);
    if (!out.len) // of the blank lines on its two sides the longer run stays
        end = skip_blank(p, end, blank_before(p, edits, first, ast, start));
    add_edit(p, edits, start, end, &out);
    return true;
}

static bool in_removed(const tfr_plan *p, uint32_t ast) {
    for (uint32_t s = 1; s < p->flow->statements.count; s++)
        if (p->removed[s] && tfr_tree_covers(p->tree, p->flow->statements.items[s].ast, ast))
            return true;
    return false;
}

static void edit_home(tfr_plan *p, tfr_edits *edits, uint32_t index) {
    const tfr_home *h = &p->homes.items[index];
    if (!is_rendered(p, h) || in_removed(p, h->ast))
        return;
    for (uint32_t i = 0; i < index; i++) // inside another home: rendered there, or gone with it
        if (is_rendered(p, &p->homes.items[i]) && p->homes.items[i].ast != h->ast &&
            tfr_tree_covers(p->tree, p->homes.items[i].ast, h->ast))
            return;
    tfr_buf out = {.arena = p->arena};
    tfr_str bytes = p->tree->src->bytes;
    const tfr_node *n = tfr_plan_node(p, h->ast);
    if (n->start)
        keep_apart(&out, bytes.data[n->start - 1], 'a');
    render_home(p, &out, h);
    if (n->end < bytes.len)
        keep_apart(&out, out.data[out.len - 1], bytes.data[n->end]);
    add_edit(p, edits, n->start, n->end, &out);
    if (p->outputs[h->match].insert)
        return;
    tfr_buf comments = {.arena = p->arena};
    uint32_t s = tfr_flow_node(p->flow, p->matches[h->match].roots[0])->statement;
    uint32_t at = tfr_plan_node(p, p->flow->statements.items[s].ast)->start;
    tfr_str indent;
    indent_at(p, at, &indent);
    keep_comments(p, &comments, h->ast, indent);
    if (!comments.len)
        return;
    at -= (uint32_t)indent.len;
    if (at > 0 && to_line_start(p, at) != 0) {
        tfr_plan_fail(p, h->match, 0,
                      "a comment inside it has no place to go: it would have to stand before the "
                      "statement");
        return;
    }
    add_edit(p, edits, at, at, &comments);
}

static void sort_edits(tfr_edits *edits, uint32_t first) {
    for (uint32_t i = first + 1; i < edits->count; i++)
        for (uint32_t k = i; k > first; k--) {
            tfr_edit *a = &edits->items[k - 1], *b = &edits->items[k];
            if (a->start < b->start || (a->start == b->start && a->end <= b->end))
                break;
            tfr_edit t = *a;
            *a = *b;
            *b = t;
        }
}

bool tfr_plan_edit(tfr_plan *p, tfr_edits *edits) {
    uint32_t first = edits->count;
    bool ok = edit_insertions(p, edits);
    for (uint32_t s = 1; s < p->flow->statements.count && ok; s++)
        ok = edit_removal(p, edits, first, s);
    for (uint32_t i = 0; i < p->homes.count && ok; i++)
        edit_home(p, edits, i);
    if (p->misfit.reason)
        return false;
    sort_edits(edits, first);
    return true;
}
