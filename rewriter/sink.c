// `h = residual + h` before `if cross:` and again at its end is one sum behind it, and one more
// where the branch reads the first: on each way it is made as often as before, by the same names.
// Each way keeps one object, so nothing else may read what is moved.
#include "rewriter/sink.h"

#define MAX_COPIES 4

typedef struct sink {
    const tfr_flow *flow;
    const tfr_tree *tree;
    tfr_arena *arena;
    uint32_t joined;                         // the version that joins the sums
    uint32_t branch;                         // statement of the `if`
    uint32_t version[2], statement[2];       // of the sums
    uint32_t start[2], end[2];               // their lines
    tfr_str text;                            // of both
    uint32_t copies[MAX_COPIES], copy_count; // statements behind the sum, which go where it goes
} sink;

static const tfr_node *node_of(const sink *s, uint32_t ast) { return &s->tree->nodes[ast]; }
static uint32_t syntax(const sink *s, uint32_t statement) {
    return s->flow->statements.items[statement].ast;
}

static uint32_t joined_version(const tfr_flow *flow, tfr_value value) {
    const tfr_vnode *n = tfr_flow_node(flow, value);
    if (n->op != TFR_V_ATEN || n->name != flow->module->words->add || n->ast || n->in_call)
        return 0;
    for (uint32_t v = 1; v < flow->versions.count; v++)
        if (flow->versions.items[v].kind == TFR_VER_PHI && flow->versions.items[v].value == value)
            return v;
    return 0;
}

bool tfr_sink_is_joined(const tfr_flow *flow, tfr_value value) {
    return joined_version(flow, value) != 0;
}

// A statement that has one line to itself.
static bool is_line(const sink *s, uint32_t ast, uint32_t *start, uint32_t *end) {
    tfr_str text = s->tree->src->text;
    uint32_t from = node_of(s, ast)->start, to = node_of(s, ast)->end;
    if (memchr(text.data + from, '\n', to - from))
        return false;
    while (from && (text.data[from - 1] == ' ' || text.data[from - 1] == '\t'))
        from--;
    if (to < text.len && text.data[to] == '\r')
        to++;
    if ((from && text.data[from - 1] != '\n') || to == text.len || text.data[to] != '\n')
        return false;
    *start = from, *end = to + 1;
    return true;
}

// `name = a + b` of names, that makes version number `i` of the two.
static bool find_sum(sink *s, int i) {
    const tfr_version *v = &s->flow->versions.items[s->version[i]];
    s->statement[i] = v->statement;
    if (v->kind != TFR_VER_ASSIGN || !v->target || !v->statement)
        return false;
    const tfr_statement *st = &s->flow->statements.items[v->statement];
    uint32_t inner = tfr_tree_first(s->tree, st->ast);
    if (tfr_tree_kind(s->tree, st->ast) != TFR_N_EXPR_STATEMENT || st->impure ||
        st->first_event != st->end_event || tfr_tree_kind(s->tree, inner) != TFR_N_ASSIGNMENT ||
        tfr_tree_field(s->tree, inner, TFR_F_LEFT) != v->target ||
        tfr_tree_field(s->tree, inner, TFR_F_RIGHT) != tfr_flow_node(s->flow, v->value)->ast)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t operand = tfr_flow_arg(s->flow, v->value, k).ast;
        if (!operand || tfr_tree_kind(s->tree, operand) != TFR_N_IDENTIFIER)
            return false;
    }
    tfr_str text = tfr_tree_text(s->tree, st->ast);
    if (i && !tfr_str_eq(text, s->text))
        return false;
    s->text = text;
    return is_line(s, st->ast, &s->start[i], &s->end[i]);
}

static bool in_branch(const sink *s, int i) {
    return s->flow->statements.items[s->statement[i]].parent == s->branch;
}

static uint32_t suite_of(const sink *s, int i) {
    return node_of(s, syntax(s, s->statement[i]))->parent;
}

// Whether another join than ours takes in a version.
static bool joins_elsewhere(const sink *s, uint32_t version) {
    for (uint32_t v = 1; v < s->flow->versions.count; v++) {
        const tfr_version *x = &s->flow->versions.items[v];
        bool takes = x->merges[0] == version || x->merges[1] == version ||
                     (x->kind == TFR_VER_REGION && x->before == version);
        if (takes && v != s->joined)
            return true;
    }
    return tfr_flow_captures(s->flow, s->flow->versions.items[version].name);
}

// The statement of a suite that an expression is in; 0: none.
static uint32_t statement_around(const sink *s, uint32_t suite, uint32_t ast) {
    while (ast && node_of(s, ast)->parent != suite)
        ast = node_of(s, ast)->parent;
    return ast;
}

// The first statement of `suite` that reads a version; UINT32_MAX: it is read elsewhere too.
static uint32_t first_reader(const sink *s, uint32_t version, uint32_t suite) {
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->flow->reads.count; i++) {
        const tfr_read *r = &s->flow->reads.items[i];
        if (r->version != version)
            continue;
        uint32_t at = suite ? statement_around(s, suite, r->ast) : 0;
        if (!at)
            return UINT32_MAX;
        if (!first || node_of(s, at)->start < node_of(s, first)->start)
            first = at;
    }
    return first;
}

static void remove_line(sink *s, tfr_edits *edits, int i) {
    *TFR_PUSH(s->arena, edits) = (tfr_edit){s->start[i], s->end[i], TFR_STR("")};
}

// What stands before a statement on its line.
static tfr_str indent_of(const sink *s, uint32_t ast) {
    tfr_str text = s->tree->src->text;
    uint32_t to = node_of(s, ast)->start, from = to;
    while (from && (text.data[from - 1] == ' ' || text.data[from - 1] == '\t'))
        from--;
    return (tfr_str){text.data + from, to - from};
}

// The sum as a line of its own at `at`, indented like the statement `like`; then its copies.
static void add_line(sink *s, tfr_edits *edits, uint32_t at, uint32_t like) {
    tfr_str newline = s->tree->src->newline, indent = indent_of(s, like), lines = TFR_STR("");
    for (uint32_t i = 0; i <= s->copy_count; i++) {
        tfr_str text = i ? tfr_tree_text(s->tree, s->copies[i - 1]) : s->text;
        lines = tfr_str_format(s->arena, "%.*s%.*s%.*s%.*s", (int)lines.len, lines.data,
                               (int)indent.len, indent.data, (int)text.len, text.data,
                               (int)newline.len, newline.data);
    }
    *TFR_PUSH(s->arena, edits) = (tfr_edit){at, at, lines};
}

static uint32_t line_behind(const sink *s, uint32_t ast) {
    tfr_str text = s->tree->src->text;
    uint32_t end = node_of(s, ast)->end;
    while (end < text.len && text.data[end] != '\n')
        end++;
    return end < text.len ? end + 1 : end;
}

// The sum as the `else` of a branch, indented like a statement of its body.
static void add_else(sink *s, tfr_edits *edits, uint32_t branch, uint32_t like) {
    tfr_str newline = s->tree->src->newline, indent = indent_of(s, branch);
    uint32_t at = line_behind(s, branch);
    add_line(s, edits, at, like);
    tfr_edit *e = &edits->items[edits->count - 1];
    e->text = tfr_str_format(s->arena, "%.*selse:%.*s%.*s", (int)indent.len, indent.data,
                             (int)newline.len, newline.data, (int)e->text.len, e->text.data);
}

static uint32_t line_start(const sink *s, uint32_t at) {
    while (at && s->tree->src->text.data[at - 1] != '\n')
        at--;
    return at;
}

// Behind the branch: before the first statement that reads the sum, if nothing happens until then.
static void add_behind(sink *s, tfr_edits *edits) {
    uint32_t branch = syntax(s, s->branch), suite = node_of(s, branch)->parent;
    uint32_t reader = first_reader(s, s->joined, suite);
    for (uint32_t k = s->branch + 1; k < s->flow->statements.count; k++) {
        const tfr_statement *next = &s->flow->statements.items[k];
        if (node_of(s, next->ast)->parent != suite)
            continue;
        if (next->ast == reader) {
            add_line(s, edits, line_start(s, node_of(s, reader)->start), reader);
            return;
        }
        if (next->first_event != next->end_event)
            break;
    }
    add_line(s, edits, line_behind(s, branch), branch);
}

// The sum at the end of a way: nothing else may read it, and something must stay there.
static bool leaves_branch(sink *s, tfr_edits *edits, int i) {
    uint32_t sum = syntax(s, s->statement[i]);
    if (!in_branch(s, i) || first_reader(s, s->version[i], 0) ||
        (tfr_tree_first(s->tree, suite_of(s, i)) == sum && !tfr_tree_next(s->tree, sum)))
        return false;
    remove_line(s, edits, i);
    return true;
}

// The sum before the branch, into the way whose own sum is `inner` if that reads it.
static bool enters_branch(sink *s, tfr_edits *edits, int i, int inner) {
    const tfr_statement *st = &s->flow->statements.items[s->statement[i]];
    uint32_t reader = first_reader(s, s->version[i], suite_of(s, inner));
    if (reader == UINT32_MAX || st->parent != s->flow->statements.items[s->branch].parent ||
        node_of(s, st->ast)->parent != node_of(s, syntax(s, s->branch))->parent)
        return false;
    remove_line(s, edits, i);
    if (reader)
        add_line(s, edits, line_start(s, node_of(s, reader)->start), reader);
    return true;
}

static bool behind_branch(sink *s, tfr_edits *edits) {
    for (int i = 0; i < 2; i++) {
        s->version[i] = s->flow->versions.items[s->joined].merges[i];
        if (!find_sum(s, i) || joins_elsewhere(s, s->version[i]))
            return false;
    }
    bool first = in_branch(s, 0), second = in_branch(s, 1);
    if (!first && !second)
        return false;
    if (!(first ? leaves_branch(s, edits, 0) : enters_branch(s, edits, 0, 1)) ||
        !(second ? leaves_branch(s, edits, 1) : enters_branch(s, edits, 1, 0)))
        return false;
    add_behind(s, edits);
    return true;
}

// The version that a sum is given as, and in s->joined the one that joins it with another value.
static uint32_t version_of(sink *s, tfr_value value) {
    uint32_t found = 0;
    for (uint32_t v = s->flow->versions.count; v-- > 1;) {
        const tfr_version *x = &s->flow->versions.items[v];
        if (x->value == value && x->kind == TFR_VER_ASSIGN)
            found = v; // the first one; others are copies
    }
    for (uint32_t v = found; found && v < s->flow->versions.count && !s->joined; v++) {
        const tfr_version *x = &s->flow->versions.items[v];
        if (x->kind == TFR_VER_PHI && (x->merges[0] == found || x->merges[1] == found))
            s->joined = v;
    }
    return found;
}

// The body of an `if` without `else`; 0: none.
static uint32_t only_body(const sink *s, uint32_t ast) {
    if (!ast || tfr_tree_kind(s->tree, ast) != TFR_N_IF)
        return 0;
    for (uint32_t c = tfr_tree_first(s->tree, ast); c; c = tfr_tree_next(s->tree, c))
        if (node_of(s, c)->field == TFR_F_ALTERNATIVE)
            return 0;
    return tfr_tree_field(s->tree, ast, TFR_F_CONSEQUENCE);
}

// `if not a:` and `if a:`, in either order: one of them runs.
static bool are_opposite(const sink *s, uint32_t one, uint32_t other) {
    uint32_t tests[2] = {tfr_tree_field(s->tree, one, TFR_F_CONDITION),
                         tfr_tree_field(s->tree, other, TFR_F_CONDITION)};
    for (int i = 0; i < 2; i++)
        if (tfr_tree_kind(s->tree, tests[i]) == TFR_N_NOT &&
            tfr_str_eq(tfr_tree_text(s->tree, tfr_tree_first(s->tree, tests[i])),
                       tfr_tree_text(s->tree, tests[1 - i])))
            return true;
    return false;
}

// Into the branch that alone reads a sum; where that does not run, into the next one, which then
// runs, or into an `else` for it.
static bool into_branch(sink *s, tfr_edits *edits) {
    uint32_t sum, branch = 0, body = 0, reader = 0, after;
    if (!find_sum(s, 0) || joins_elsewhere(s, s->version[0]))
        return false;
    sum = syntax(s, s->statement[0]);
    for (branch = tfr_tree_next(s->tree, sum); branch; branch = tfr_tree_next(s->tree, branch)) {
        body = only_body(s, branch);
        reader = first_reader(s, s->version[0], body);
        if (body && reader && reader != UINT32_MAX)
            break;
    }
    if (!branch)
        return false;
    remove_line(s, edits, 0);
    after = tfr_tree_next(s->tree, branch);
    if (s->joined && first_reader(s, s->joined, 0)) {
        uint32_t other = only_body(s, after);
        uint32_t next = other && are_opposite(s, branch, after) ? first_reader(s, s->joined, other)
                                                                : UINT32_MAX;
        if (next && next != UINT32_MAX)
            add_line(s, edits, line_start(s, node_of(s, next)->start), next);
        else
            add_else(s, edits, branch, reader);
    }
    add_line(s, edits, line_start(s, node_of(s, reader)->start), reader);
    return true;
}

// Whether a statement gives a name the sum, by another name of it.
static bool is_copy(const sink *s, uint32_t ast) {
    uint32_t inner = tfr_tree_first(s->tree, ast);
    if (tfr_tree_kind(s->tree, ast) != TFR_N_EXPR_STATEMENT ||
        tfr_tree_kind(s->tree, inner) != TFR_N_ASSIGNMENT ||
        tfr_tree_kind(s->tree, tfr_tree_field(s->tree, inner, TFR_F_RIGHT)) != TFR_N_IDENTIFIER)
        return false;
    uint32_t left = tfr_tree_field(s->tree, inner, TFR_F_LEFT), v = s->version[0];
    tfr_value sum = s->flow->versions.items[v].value;
    while (v < s->flow->versions.count && s->flow->versions.items[v].target != left)
        v++;
    return v < s->flow->versions.count && s->flow->versions.items[v].value == sum;
}

// Whether the test of a branch reads the sum, by any name, or a closure may.
static bool is_tested(const sink *s, uint32_t branch) {
    const tfr_node *test = node_of(s, tfr_tree_field(s->tree, branch, TFR_F_CONDITION));
    tfr_value sum = s->flow->versions.items[s->version[0]].value;
    bool found = false;
    for (uint32_t i = 0; i < s->flow->reads.count; i++) {
        const tfr_node *at = node_of(s, s->flow->reads.items[i].ast);
        found |= s->flow->versions.items[s->flow->reads.items[i].version].value == sum &&
                 at->start >= test->start && at->end <= test->end;
    }
    for (uint32_t v = 1; v < s->flow->versions.count; v++)
        found |= s->flow->versions.items[v].value == sum &&
                 tfr_flow_captures(s->flow, s->flow->versions.items[v].name);
    return found;
}

// The first statement of a suite, if it begins a line; 0: it does not.
static uint32_t first_line(const sink *s, uint32_t suite) {
    uint32_t first = tfr_tree_first(s->tree, suite);
    uint32_t start = line_start(s, node_of(s, first)->start);
    return node_of(s, first)->start - start == indent_of(s, first).len ? first : 0;
}

// What runs where the test of an `if` does not hold; 0: nothing. False: another test decides.
static bool find_else(const sink *s, uint32_t branch, uint32_t *body) {
    *body = 0;
    for (uint32_t c = tfr_tree_first(s->tree, branch); c; c = tfr_tree_next(s->tree, c)) {
        if (node_of(s, c)->field != TFR_F_ALTERNATIVE)
            continue;
        if (tfr_tree_kind(s->tree, c) != TFR_N_ELSE)
            return false;
        *body = tfr_tree_field(s->tree, c, TFR_F_BODY);
    }
    return true;
}

// The sum and the copies of it that follow, to the start of each way of the branch behind them.
static bool into_each_way(sink *s, tfr_edits *edits) {
    uint32_t sum, branch, body, other, start, end;
    if (!find_sum(s, 0))
        return false;
    sum = syntax(s, s->statement[0]);
    branch = tfr_tree_next(s->tree, sum);
    for (; branch && is_copy(s, branch); branch = tfr_tree_next(s->tree, branch)) {
        if (s->copy_count == MAX_COPIES || !is_line(s, branch, &start, &end))
            return false;
        s->copies[s->copy_count++] = branch;
    }
    if (!branch || tfr_tree_kind(s->tree, branch) != TFR_N_IF || is_tested(s, branch) ||
        !find_else(s, branch, &other))
        return false;
    body = first_line(s, tfr_tree_field(s->tree, branch, TFR_F_CONSEQUENCE));
    other = other ? first_line(s, other) : branch;
    if (!body || !other)
        return false;
    remove_line(s, edits, 0);
    for (uint32_t i = 0; i < s->copy_count; i++) {
        is_line(s, s->copies[i], &start, &end);
        *TFR_PUSH(s->arena, edits) = (tfr_edit){start, end, TFR_STR("")};
    }
    add_line(s, edits, line_start(s, node_of(s, body)->start), body);
    if (other == branch)
        add_else(s, edits, branch, body);
    else
        add_line(s, edits, line_start(s, node_of(s, other)->start), other);
    return true;
}

bool tfr_sink_sum(tfr_edits *edits, const tfr_flow *flow, tfr_value value, tfr_arena *arena) {
    sink s = {.flow = flow, .tree = flow->module->scope->tree, .arena = arena};
    s.joined = joined_version(flow, value);
    s.version[0] = s.joined ? 0 : version_of(&s, value);
    s.branch = flow->versions.items[s.joined].statement;
    if (s.joined && (!s.branch || tfr_tree_kind(s.tree, syntax(&s, s.branch)) != TFR_N_IF))
        return false;
    if (!s.version[0])
        return s.joined && behind_branch(&s, edits);
    // One of two that are joined is moved with the other.
    return !joined_version(flow, flow->versions.items[s.joined].value) &&
           (into_branch(&s, edits) || into_each_way(&s, edits));
}

static uint32_t line_of(const tfr_source *src, uint32_t offset) {
    uint32_t line, column;
    tfr_source_position(src, offset, &line, &column);
    return line;
}

static uint32_t line_ends(tfr_str text) {
    uint32_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '\n' ||
                 (text.data[i] == '\r' && (i + 1 == text.len || text.data[i + 1] != '\n'));
    return count;
}

uint32_t tfr_sink_line(const tfr_source *src, const tfr_edits *edits, uint32_t line) {
    uint32_t added = 0, gone = 0;
    for (uint32_t i = 0; i < edits->count; i++) {
        const tfr_edit *e = &edits->items[i];
        uint32_t at = line_of(src, e->start) + added - gone; // in the edited text
        uint32_t more = line_ends(e->text);
        if (line < at)
            break;
        if (line < at + more)
            return line_of(src, e->start);
        added += more;
        gone += line_ends((tfr_str){src->bytes.data + e->start, e->end - e->start});
    }
    return line + gone - added;
}
