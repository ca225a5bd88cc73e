// What runs when a module is imported (classes, bases, decorators, signatures, `__init__` and all
// other statements) must be the same tokens in the same tree; each function's graph the same graph.
#include "rewriter/symbolic.h"

#include "rewriter/check.h"
#include "rewriter/imports.h"
#include "rewriter/rules.h"

typedef struct side {
    const tfr_source *src;
    tfr_tree tree;
    tfr_scope scope;
    tfr_module module;
    bool *graph;     // by node: a function's body that is compared as a graph
    uint32_t import; // `from tfrewrite import ops`, which the other side has not; 0: none
} side;

typedef struct comparison {
    side old, new;
    tfr_names names;
    tfr_imports *imports;
    tfr_arena *arena;
    tfr_comparison *out;
} comparison;

static tfr_status side_init(side *s, const tfr_source *src, comparison *c,
                            const tfr_options *options, tfr_error *err) {
    s->src = src;
    tfr_status status = tfr_tree_parse(&s->tree, src, c->arena, err);
    if (status != TFR_OK)
        return status;
    tfr_tree_free(&s->tree); // the flat nodes stay
    tfr_scope_build(&s->scope, &s->tree, &c->names, c->arena);
    tfr_rules_module(&s->module, options->rules, &s->scope, &c->names, c->arena);
    tfr_imports_attach(c->imports, &s->module);
    s->graph = TFR_NEW_ARRAY(c->arena, bool, s->tree.count);
    for (uint32_t i = 0; i < s->scope.functions.count; i++) {
        const tfr_function *f = &s->scope.functions.items[i];
        if (f->name != s->module.words->init)
            s->graph[tfr_tree_field(&s->tree, f->node, TFR_F_BODY)] = true;
    }
    return TFR_OK;
}

// ---- tokens ---------------------------------------------------------------------------------

// A walk that knows how deep it is: equal tokens at other depths are other programs.
typedef struct walker {
    const side *side;
    uint32_t node, root;
    int depth;
} walker;

static bool is_whole(tfr_kind kind) {
    return kind == TFR_N_STRING || kind == TFR_N_COMMENT || kind == TFR_N_LINE_CONTINUATION;
}

static void step(walker *w) {
    const tfr_tree *t = &w->side->tree;
    bool down = !is_whole(tfr_tree_kind(t, w->node)) && !w->side->graph[w->node];
    if (down && t->nodes[w->node].child) {
        w->node = t->nodes[w->node].child;
        w->depth++;
        return;
    }
    while (w->node != w->root && !t->nodes[w->node].next) {
        w->node = t->nodes[w->node].parent;
        w->depth--;
    }
    w->node = w->node == w->root ? 0 : t->nodes[w->node].next;
}

// The next node that means something.
static void advance(walker *w) {
    do {
        step(w);
        if (w->node && w->node == w->side->import) { // over it as a whole
            const tfr_tree *t = &w->side->tree;
            while (w->node && tfr_tree_covers(t, w->side->import, w->node))
                step(w);
        }
    } while (w->node && (tfr_tree_kind(&w->side->tree, w->node) == TFR_N_COMMENT ||
                         tfr_tree_kind(&w->side->tree, w->node) == TFR_N_LINE_CONTINUATION));
}

static tfr_str bytes_of(const side *s, uint32_t node) {
    const tfr_node *n = &s->tree.nodes[node];
    return (tfr_str){s->src->bytes.data + n->start, n->end - n->start};
}

static bool same_node(const walker *x, const walker *y) {
    const tfr_tree *t = &x->side->tree, *u = &y->side->tree;
    if (!x->node || !y->node)
        return x->node == y->node;
    if (t->nodes[x->node].symbol != u->nodes[y->node].symbol || x->depth != y->depth)
        return false;
    bool leaf = !t->nodes[x->node].child || is_whole(tfr_tree_kind(t, x->node));
    return !leaf || tfr_str_eq(bytes_of(x->side, x->node), bytes_of(y->side, y->node));
}

// Zero at both: the same tokens below `*old_node` and `*new_node`; else where they differ.
static void compare_tokens(const comparison *c, uint32_t *old_node, uint32_t *new_node) {
    walker x = {&c->old, *old_node, *old_node, 0}, y = {&c->new, *new_node, *new_node, 0};
    while (same_node(&x, &y) && x.node) {
        advance(&x);
        advance(&y);
    }
    *old_node = x.node, *new_node = y.node;
}

// ---- results --------------------------------------------------------------------------------

static void place(const side *s, uint32_t node, uint32_t *line, uint32_t *column) {
    uint32_t at = node ? s->tree.nodes[node].start : s->tree.nodes[1].end;
    tfr_source_position(s->src, at, line, column);
}

static tfr_compared *add(comparison *c, const tfr_function *f, uint32_t old_node, uint32_t new_node,
                         tfr_str difference) {
    tfr_compared *item = TFR_PUSH(c->arena, &c->out->functions);
    *item = (tfr_compared){.difference = difference};
    if (f)
        item->function = tfr_names_text(&c->names, f->name);
    if (f && f->class_index != TFR_NO_CLASS)
        item->class_name =
            tfr_names_text(&c->names, c->old.scope.classes.items[f->class_index].name);
    place(&c->old, old_node, &item->line, &item->column);
    place(&c->new, new_node, &item->other_line, &item->other_column);
    c->out->different += difference.len > 0;
    return item;
}

static tfr_str quote(const comparison *c, const side *s, uint32_t node) {
    if (!node)
        return TFR_STR("the end");
    tfr_str text = bytes_of(s, node);
    size_t n = 0;
    while (n < text.len && n < 40 && text.data[n] != '\n' && text.data[n] != '\r')
        n++;
    return tfr_str_format(c->arena, "`%.*s%s`", (int)n, text.data, n < text.len ? "..." : "");
}

static tfr_str other_token(const comparison *c, uint32_t old_node, uint32_t new_node) {
    tfr_str was = quote(c, &c->old, old_node), is = quote(c, &c->new, new_node);
    return tfr_str_format(c->arena, "%.*s became %.*s", (int)was.len, was.data, (int)is.len,
                          is.data);
}

// ---- the file -------------------------------------------------------------------------------

static bool is_our_import(const tfr_tree *t, uint32_t n) {
    uint32_t from = tfr_tree_field(t, n, TFR_F_MODULE_NAME);
    uint32_t what = from ? tfr_tree_next(t, from) : 0;
    if (tfr_tree_kind(t, n) != TFR_N_IMPORT_FROM || !from || !tfr_tree_is(t, from, "tfrewrite"))
        return false;
    uint32_t name = tfr_tree_kind(t, what) == TFR_N_ALIASED_IMPORT ? tfr_tree_first(t, what) : what;
    return what && tfr_tree_is(t, name, "ops") && !tfr_tree_next(t, what);
}

static uint32_t find_import(const tfr_tree *t) {
    uint32_t n = tfr_tree_first(t, 1);
    while (n && !is_our_import(t, n))
        n = tfr_tree_next(t, n);
    return n;
}

static bool stays_first(const tfr_tree *t, uint32_t statement) {
    return tfr_tree_kind(t, statement) == TFR_N_IMPORT_FUTURE ||
           (tfr_tree_kind(t, statement) == TFR_N_EXPR_STATEMENT &&
            statement == tfr_tree_first(t, 1) &&
            tfr_tree_kind(t, tfr_tree_first(t, statement)) == TFR_N_STRING);
}

// The import that only the rewritten text has. NULL: it does no harm.
static const char *allow_import(comparison *c, uint32_t *old_node) {
    const tfr_tree *t = &c->old.tree, *u = &c->new.tree;
    if (find_import(t) || !(c->new.import = find_import(u)))
        return NULL;
    uint32_t x = tfr_tree_first(t, 1);
    for (uint32_t y = tfr_tree_first(u, 1); y != c->new.import &&x; y = tfr_tree_next(u, y))
        x = tfr_tree_next(t, x);
    for (; x; x = tfr_tree_next(t, x))
        if (stays_first(t, x)) {
            *old_node = x;
            return "the import of the ops stands before what must come first";
        }
    uint32_t what = tfr_tree_next(u, tfr_tree_field(u, c->new.import, TFR_F_MODULE_NAME));
    uint32_t alias = tfr_tree_field(u, what, TFR_F_ALIAS);
    tfr_str name = tfr_tree_text(u, alias ? alias : what);
    for (uint32_t n = 1; n < t->count; n++)
        if (tfr_tree_kind(t, n) == TFR_N_IDENTIFIER && tfr_str_eq(tfr_tree_text(t, n), name)) {
            *old_node = n;
            return "the original uses the name under which the ops are imported";
        }
    return NULL;
}

static bool compare_outside(comparison *c) {
    uint32_t x = 0, y = c->new.import;
    const char *why = allow_import(c, &x);
    if (why) {
        add(c, NULL, x, c->new.import, tfr_str_from(why));
        return false;
    }
    x = y = 1;
    compare_tokens(c, &x, &y);
    tfr_str difference = x || y ? other_token(c, x, y) : TFR_STR("");
    if (difference.len)
        add(c, NULL, x, y, difference);
    else
        add(c, NULL, 1, 1, difference);
    return !difference.len && c->old.scope.functions.count == c->new.scope.functions.count;
}

// ---- functions ------------------------------------------------------------------------------

static uint32_t docstring(const tfr_tree *t, uint32_t body) {
    uint32_t first = tfr_tree_first(t, body);
    bool alone = tfr_tree_kind(t, first) == TFR_N_EXPR_STATEMENT;
    uint32_t string = alone ? tfr_tree_first(t, first) : 0;
    return tfr_tree_kind(t, string) == TFR_N_STRING ? string : 0;
}

static tfr_str explain(const comparison *c, const tfr_difference *d, const tfr_flow *old_flow,
                       const tfr_flow *new_flow) {
    if (!d->old_value)
        return tfr_str_from(d->what);
    tfr_str was = tfr_flow_describe(old_flow, d->old_value, c->arena);
    tfr_str is = tfr_flow_describe(new_flow, d->new_value, c->arena);
    if (tfr_str_eq(was, is))
        return tfr_str_format(c->arena, "%s (%.*s)", d->what, (int)was.len, was.data);
    return tfr_str_format(c->arena, "%s: %.*s became %.*s", d->what, (int)was.len, was.data,
                          (int)is.len, is.data);
}

static void compare_function(comparison *c, uint32_t index) {
    const tfr_function *f = &c->old.scope.functions.items[index];
    const tfr_function *g = &c->new.scope.functions.items[index];
    uint32_t body = tfr_tree_field(&c->old.tree, f->node, TFR_F_BODY);
    uint32_t other = tfr_tree_field(&c->new.tree, g->node, TFR_F_BODY);
    c->old.graph[body] = c->new.graph[other] = false;
    uint32_t x = body, y = other;
    compare_tokens(c, &x, &y);
    bool changed = x || y;
    tfr_numbers *numbers = TFR_NEW(c->arena, tfr_numbers);
    tfr_numbers_init(numbers, c->arena);
    tfr_flow *old_flow = tfr_flow_build(&c->old.module, index, numbers);
    tfr_flow *new_flow = tfr_flow_build(&c->new.module, index, numbers);
    tfr_difference d = {0};
    tfr_str difference = TFR_STR("");
    uint32_t p = docstring(&c->old.tree, body), q = docstring(&c->new.tree, other);
    if (p && !tfr_str_eq(bytes_of(&c->old, p), bytes_of(&c->new, q))) // none: one may come to be
        difference = TFR_STR("the docstring differs");
    else if (old_flow->unfit && new_flow->unfit)
        difference = changed ? other_token(c, x, y) : difference;
    else if (!tfr_check_flows(old_flow, new_flow, &d))
        difference = explain(c, &d, old_flow, new_flow);
    if (d.what)
        x = d.old_ast, y = d.new_ast;
    // Where a text has no place of its own for it: the other text's function.
    add(c, f, difference.len && x ? x : f->node, difference.len && y ? y : g->node, difference)
        ->changed = changed;
    c->out->changed += changed;
}

tfr_status tfr_symbolic_compare(tfr_comparison *out, const tfr_source *original,
                                const tfr_source *rewritten, const tfr_options *options,
                                tfr_arena *arena, tfr_error *err) {
    *out = (tfr_comparison){0};
    comparison *c = TFR_NEW(arena, comparison);
    c->arena = arena, c->out = out;
    tfr_names_init(&c->names, &options->rules->names, arena);
    tfr_report report = {0};
    c->imports = tfr_imports_new(options->project, original->path, &report, arena);
    tfr_status status = side_init(&c->old, original, c, options, err);
    if (status == TFR_OK)
        status = side_init(&c->new, rewritten, c, options, err);
    if (status != TFR_OK || !compare_outside(c))
        return status;
    // Each function by itself: one that differs is not counted against those that call it.
    if (c->old.scope.classes.count == c->new.scope.classes.count)
        c->new.module.before = &c->old.module;
    for (uint32_t i = 0; i < c->old.scope.functions.count; i++)
        compare_function(c, i);
    return TFR_OK;
}

static tfr_str copy(tfr_str text, tfr_arena *arena) {
    return (tfr_str){tfr_str_dup(arena, text), text.len};
}

tfr_comparison tfr_symbolic_copy(const tfr_comparison *found, tfr_arena *arena) {
    tfr_comparison out = {.changed = found->changed, .different = found->different};
    for (size_t i = 0; i < found->functions.count; i++) {
        tfr_compared item = found->functions.items[i];
        item.class_name = copy(item.class_name, arena);
        item.function = copy(item.function, arena);
        item.difference = copy(item.difference, arena);
        *TFR_PUSH(arena, &out.functions) = item;
    }
    return out;
}
