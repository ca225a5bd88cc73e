// Plans the edits of a function. Results that a plain assignment already names keep that name;
// statements that only fed a match go when nothing that stays reads what they bind. What is
// planned here is proved afterwards by lowering the new text and comparing (check.c).
#include "rewriter/emit.h"

#define MAX_COLUMN 119 // longer lines are broken after the call's parenthesis

typedef struct home {
    uint32_t ast, match, root;
} home;

// How the results of one match reach the code that uses them.
typedef struct output {
    bool insert;          // a statement of its own, before `statement`
    uint32_t statement;
    int only_root;        // in place, one of several results: `call(...)[only_root]`; -1: all
    tfr_str names[TFR_MAX_ROOTS];
} output;

typedef struct plan {
    tfr_flow *flow;
    const tfr_tree *tree;
    const tfr_match *matches;
    const tfr_place *places;
    uint32_t count;
    tfr_str alias;
    tfr_arena *arena;
    TFR_LIST(home) homes; // by position, outer before inner
    bool *removed;        // by statement
    bool *live;           // by version
    output *outputs;      // by match
    const char *reason;
    uint32_t bad;
} plan;

static bool fail(plan *p, uint32_t match, const char *reason) {
    if (!p->reason) p->reason = reason, p->bad = match;
    return false;
}

static const tfr_node *node_at(const plan *p, uint32_t ast) { return &p->tree->nodes[ast]; }

static bool covers(const plan *p, uint32_t outer, uint32_t inner) {
    return node_at(p, outer)->start <= node_at(p, inner)->start &&
           node_at(p, inner)->end <= node_at(p, outer)->end;
}

static const home *home_at(const plan *p, uint32_t ast) {
    for (uint32_t i = 0; i < p->homes.count; i++)
        if (p->homes.items[i].ast == ast) return &p->homes.items[i];
    return NULL;
}

static bool is_leaf(const plan *p, uint32_t ast) {
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t l = 0; l < p->matches[m].leaf_count; l++)
            if (p->matches[m].leaves[l].ast == ast) return true;
    return false;
}

static uint32_t statement_of_ast(const plan *p, uint32_t ast) {
    for (uint32_t s = 1; s < p->flow->statements.count; s++)
        if (p->flow->statements.items[s].ast == ast) return s;
    return 0;
}

// ---- what stays -----------------------------------------------------------------------------

// Whether the text at `ast` is still there, itself or as an argument of a new call.
static bool survives(const plan *p, uint32_t ast) {
    for (uint32_t n = ast; n; n = node_at(p, n)->parent) {
        if (home_at(p, n)) return false; // also where it is an argument: its replacement is written
        if (is_leaf(p, n)) return true;
        tfr_kind kind = tfr_tree_kind(p->tree, n);
        if (kind == TFR_N_FUNCTION) return true;
        uint8_t parent = p->tree->nodes[p->tree->nodes[n].parent].kind;
        if (parent == TFR_N_BLOCK) {
            uint32_t s = statement_of_ast(p, n);
            if (s && p->removed[s]) return false;
        }
    }
    return true;
}

static bool is_captured(const plan *p, tfr_name name) {
    for (uint32_t i = 0; i < p->flow->captured.count; i++)
        if (p->flow->captured.items[i] == name) return true;
    return false;
}

static bool spread(plan *p) {
    bool changed = false;
    tfr_flow *f = p->flow;
    for (uint32_t v = f->versions.count; v-- > 1;) {
        const tfr_version *x = &f->versions.items[v];
        if (!p->live[v]) continue;
        uint32_t from[3] = {x->merges[0], x->merges[1], x->kind == TFR_VER_REGION ? x->before : 0};
        for (int i = 0; i < 3; i++)
            if (from[i] && !p->live[from[i]]) p->live[from[i]] = changed = true;
        for (uint32_t k = x->region_first; x->kind == TFR_VER_REGION && k < x->region_end; k++)
            if (f->versions.items[k].name == x->name && !p->live[k]) p->live[k] = changed = true;
    }
    return changed;
}

static void find_live(plan *p) {
    tfr_flow *f = p->flow;
    memset(p->live, 0, f->versions.count);
    for (uint32_t i = 0; i < f->reads.count; i++)
        if (survives(p, f->reads.items[i].ast)) p->live[f->reads.items[i].version] = true;
    for (uint32_t v = 1; v < f->versions.count; v++)
        if (is_captured(p, f->versions.items[v].name)) p->live[v] = true;
    while (spread(p)) {
    }
}

static bool is_assignment(const plan *p, uint32_t statement) {
    const tfr_statement *s = &p->flow->statements.items[statement];
    if (tfr_tree_kind(p->tree, s->ast) != TFR_N_EXPR_STATEMENT || s->impure) return false;
    uint32_t inner = tfr_tree_first(p->tree, s->ast);
    return tfr_tree_kind(p->tree, inner) == TFR_N_ASSIGNMENT && !tfr_tree_next(p->tree, inner);
}

// `name = expression` without effects: the only statements that may go, beside pure ifs.
static bool is_plain_assignment(const plan *p, uint32_t statement) {
    const tfr_statement *s = &p->flow->statements.items[statement];
    return is_assignment(p, statement) && s->first_event == s->end_event;
}

static bool is_pure_if(const plan *p, uint32_t statement) {
    const tfr_statement *s = &p->flow->statements.items[statement];
    if (tfr_tree_kind(p->tree, s->ast) != TFR_N_IF || s->impure || s->first_event != s->end_event)
        return false;
    for (uint32_t k = statement + 1; k < p->flow->statements.count; k++) {
        const tfr_statement *inner = &p->flow->statements.items[k];
        if (inner->parent == statement && !p->removed[k] &&
            tfr_tree_kind(p->tree, inner->ast) != TFR_N_PASS)
            return false;
    }
    return true;
}

static bool binds_live(const plan *p, uint32_t statement) {
    for (uint32_t v = 1; v < p->flow->versions.count; v++)
        if (p->flow->versions.items[v].statement == statement && p->live[v]) return true;
    return false;
}

// Starts from every statement that fed a match and gives back those that something still needs.
static void find_removed(plan *p, const bool *absorbed) {
    tfr_flow *f = p->flow;
    memset(p->removed, 0, f->statements.count);
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t i = 0; i < p->matches[m].member_count; i++) {
            uint32_t s = tfr_flow_node(f, p->matches[m].members[i])->statement;
            for (; s; s = f->statements.items[s].parent) p->removed[s] = true;
        }
    for (uint32_t s = 1; s < f->statements.count; s++) p->removed[s] |= absorbed[s];
    for (uint32_t s = f->statements.count; s-- > 1;)
        if (p->removed[s] && !absorbed[s] && !is_plain_assignment(p, s) && !is_pure_if(p, s))
            p->removed[s] = false;
    for (bool changed = true; changed;) {
        changed = false;
        find_live(p);
        for (uint32_t s = 1; s < f->statements.count; s++) {
            if (!p->removed[s] || absorbed[s]) continue;
            if (!binds_live(p, s) && (is_plain_assignment(p, s) || is_pure_if(p, s))) continue;
            p->removed[s] = false;
            changed = true;
        }
    }
}

// ---- homes ----------------------------------------------------------------------------------

static void collect_homes(plan *p) {
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t r = 0; r < p->places[m].home_count; r++)
            *TFR_PUSH(p->arena, &p->homes) = (home){p->places[m].home[r], m, r};
    for (uint32_t i = 1; i < p->homes.count; i++) // insertion sort: few items
        for (uint32_t k = i; k > 0; k--) {
            home *a = &p->homes.items[k - 1], *b = &p->homes.items[k];
            const tfr_node *x = node_at(p, a->ast), *y = node_at(p, b->ast);
            if (x->start < y->start || (x->start == y->start && x->end >= y->end)) break;
            home t = *a;
            *a = *b;
            *b = t;
        }
}

// ---- names ----------------------------------------------------------------------------------

static uint32_t version_bound_by(const plan *p, uint32_t statement) {
    uint32_t found = 0;
    for (uint32_t v = 1; v < p->flow->versions.count; v++) {
        const tfr_version *x = &p->flow->versions.items[v];
        if (x->statement != statement || x->kind != TFR_VER_ASSIGN || !x->target) continue;
        if (found) return 0;
        found = v;
    }
    return found;
}

// The right side of `name = <right>`; 0: another form.
static uint32_t assigned_expression(const plan *p, uint32_t statement) {
    if (!is_assignment(p, statement) || !version_bound_by(p, statement)) return 0;
    uint32_t inner = tfr_tree_first(p->tree, p->flow->statements.items[statement].ast);
    if (tfr_tree_kind(p->tree, tfr_tree_field(p->tree, inner, TFR_F_LEFT)) != TFR_N_IDENTIFIER)
        return 0;
    return tfr_tree_unparen(p->tree, tfr_tree_field(p->tree, inner, TFR_F_RIGHT));
}

static bool in_leaf_of(const plan *p, uint32_t match, uint32_t ast) {
    for (uint32_t l = 0; l < p->matches[match].leaf_count; l++) {
        uint32_t leaf = p->matches[match].leaves[l].ast;
        if (leaf && covers(p, leaf, ast)) return true;
    }
    return false;
}

// Whether `name` may be bound at `from` already: nothing that stays reads or binds it before `to`.
static bool name_free(const plan *p, uint32_t match, tfr_name name, uint32_t from, uint32_t to,
                      const bool *absorbed) {
    if (is_captured(p, name)) return false;
    const tfr_flow *f = p->flow;
    for (uint32_t i = 0; i < f->reads.count; i++) {
        const tfr_read *r = &f->reads.items[i];
        uint32_t at = node_at(p, r->ast)->start;
        if (f->versions.items[r->version].name != name || at < from || at >= to) continue;
        if (in_leaf_of(p, match, r->ast)) continue; // read by the new statement itself
        if (absorbed[r->statement]) continue;
        if (survives(p, r->ast)) return false;
    }
    for (uint32_t v = 1; v < f->versions.count; v++) {
        const tfr_version *x = &f->versions.items[v];
        if (x->name != name || !x->target || x->kind != TFR_VER_ASSIGN) continue;
        uint32_t at = node_at(p, x->target)->start;
        if (at >= from && at < to && !absorbed[x->statement] && !p->removed[x->statement])
            return false;
    }
    return true;
}

static bool name_taken(const plan *p, tfr_str text) {
    tfr_name name = tfr_names_find(p->flow->module->names, text);
    if (!name) return false;
    for (uint32_t v = 1; v < p->flow->versions.count; v++)
        if (p->flow->versions.items[v].name == name) return true;
    if (tfr_scope_lookup(p->flow->module->scope, name) || is_captured(p, name)) return true;
    for (uint32_t i = 1; i < p->flow->nodes.count; i++)
        if (p->flow->nodes.items[i].op == TFR_V_GLOBAL && p->flow->nodes.items[i].name == name)
            return true;
    return false;
}

static bool output_named(const output *o, tfr_str text) {
    for (uint32_t r = 0; r < TFR_MAX_ROOTS; r++)
        if (o->names[r].len && tfr_str_eq(o->names[r], text)) return true;
    return false;
}

static bool name_used_by_outputs(const plan *p, tfr_str text) {
    for (uint32_t m = 0; m < p->count; m++)
        if (output_named(&p->outputs[m], text)) return true;
    return false;
}

// self.gate_proj gives "gate"; anything else the op's result number.
static tfr_str fresh_name(plan *p, uint32_t match, uint32_t root) {
    tfr_str base = TFR_STR("fused");
    const tfr_match *m = &p->matches[match];
    const tfr_vnode *n = tfr_flow_node(p->flow, m->roots[root]);
    if (n->op == TFR_V_MODULE) {
        tfr_value callee = tfr_flow_arg(p->flow, m->roots[root], 0).value;
        base = tfr_names_text(p->flow->module->names, tfr_flow_node(p->flow, callee)->name);
        if (base.len > 5 && memcmp(base.data + base.len - 5, "_proj", 5) == 0) base.len -= 5;
    }
    tfr_str text = base;
    for (int i = 1; name_taken(p, text) || name_used_by_outputs(p, text); i++)
        text = i == 1 ? tfr_str_format(p->arena, "%.*s_out", (int)base.len, base.data)
                      : tfr_str_format(p->arena, "%.*s_out%d", (int)base.len, base.data, i);
    return text;
}

// Results inside a statement that will be handed to it by name.
static uint32_t named_homes_in(const plan *p, uint32_t statement) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->homes.count; i++)
        if (p->places[p->homes.items[i].match].home_count > 1 &&
            covers(p, p->flow->statements.items[statement].ast, p->homes.items[i].ast))
            n++;
    return n;
}

// A later `copy = name` of the same value in the same block, when the name itself is read nowhere else.
static uint32_t copy_that_takes_over(const plan *p, uint32_t match, uint32_t version) {
    const tfr_flow *f = p->flow;
    uint32_t copy = 0;
    for (uint32_t i = 0; i < f->reads.count; i++) {
        const tfr_read *r = &f->reads.items[i];
        if (r->version != version || !survives(p, r->ast) || in_leaf_of(p, match, r->ast)) continue;
        if (copy || assigned_expression(p, r->statement) != r->ast ||
            f->statements.items[r->statement].block != f->versions.items[version].block)
            return 0;
        copy = r->statement;
    }
    return copy;
}

static tfr_str text_of_name(const plan *p, tfr_name name) {
    return tfr_names_text(p->flow->module->names, name);
}

// How one result of an inserted statement is bound.
typedef struct binding_choice {
    bool nested;        // inside another result's expression: nobody else needs it
    uint32_t statement; // where it is computed now
    uint32_t direct;    // version that a plain assignment binds it to; 0: it is part of more
    uint32_t copy;      // statement that hands it on under the name that is really used
} binding_choice;

static binding_choice look_at_result(const plan *p, uint32_t match, uint32_t root) {
    const tfr_match *m = &p->matches[match];
    uint32_t ast = p->places[match].home[root];
    binding_choice c = {.statement = tfr_flow_node(p->flow, m->roots[root])->statement};
    for (uint32_t r = 0; r < m->root_count; r++)
        c.nested |= r != root && covers(p, p->places[match].home[r], ast);
    if (!c.nested && assigned_expression(p, c.statement) == ast) {
        c.direct = version_bound_by(p, c.statement);
        c.copy = copy_that_takes_over(p, match, c.direct);
    }
    return c;
}

static bool usable(const plan *p, uint32_t match, tfr_name name, uint32_t from, uint32_t to,
                   const bool *absorbed) {
    return name_free(p, match, name, from, to, absorbed) &&
           !output_named(&p->outputs[match], text_of_name(p, name));
}

static uint32_t start_of(const plan *p, uint32_t statement) {
    return node_at(p, p->flow->statements.items[statement].ast)->start;
}

static tfr_str choose_name(plan *p, uint32_t match, uint32_t root, binding_choice c, uint32_t from,
                           bool *absorbed) {
    const tfr_flow *f = p->flow;
    if (c.nested) return TFR_STR("_");
    if (c.direct) {
        if (c.copy) {
            tfr_name name = f->versions.items[version_bound_by(p, c.copy)].name;
            if (usable(p, match, name, from, start_of(p, c.copy), absorbed))
                return text_of_name(p, name);
            absorbed[c.copy] = false;
        }
        tfr_name name = f->versions.items[c.direct].name;
        if (!p->live[c.direct] && !c.copy) return TFR_STR("_");
        if (usable(p, match, name, from, start_of(p, c.statement), absorbed))
            return text_of_name(p, name);
        absorbed[c.statement] = false;
        return fresh_name(p, match, root);
    }
    uint32_t version = assigned_expression(p, c.statement) ? version_bound_by(p, c.statement) : 0;
    if (version && named_homes_in(p, c.statement) == 1) {
        tfr_name name = f->versions.items[version].name;
        uint32_t end = node_at(p, f->statements.items[c.statement].ast)->end;
        uint32_t target = node_at(p, f->versions.items[version].target)->end;
        if (usable(p, match, name, from, start_of(p, c.statement), absorbed) &&
            name_free(p, match, name, target, end, absorbed))
            return text_of_name(p, name);
    }
    return fresh_name(p, match, root);
}

static void choose_names(plan *p, uint32_t match, bool *absorbed) {
    output *o = &p->outputs[match];
    binding_choice choices[TFR_MAX_ROOTS];
    for (uint32_t r = 0; r < p->matches[match].root_count; r++) {
        choices[r] = look_at_result(p, match, r);
        if (choices[r].direct) absorbed[choices[r].statement] = true;
        if (choices[r].copy) absorbed[choices[r].copy] = true;
    }
    for (uint32_t r = 0; r < p->matches[match].root_count; r++)
        o->names[r] =
            choose_name(p, match, r, choices[r], start_of(p, o->statement), absorbed);
}

static bool plan_output(plan *p, uint32_t match, bool *absorbed) {
    const tfr_match *m = &p->matches[match];
    const tfr_place *place = &p->places[match];
    output *o = &p->outputs[match];
    *o = (output){.only_root = -1};
    if (place->home_count == 1) return true;
    uint32_t first = UINT32_MAX, needed = 0, last_needed = 0;
    for (uint32_t r = 0; r < m->root_count; r++) {
        uint32_t s = tfr_flow_node(p->flow, m->roots[r])->statement;
        if (s < first) first = s;
        bool nested = false;
        for (uint32_t q = 0; q < m->root_count; q++)
            nested |= q != r && covers(p, place->home[q], place->home[r]);
        uint32_t version = assigned_expression(p, s) == place->home[r] ? version_bound_by(p, s) : 0;
        if (!nested && (!version || p->live[version])) needed++, last_needed = r;
    }
    bool holds_all = needed == 1;
    for (uint32_t r = 0; r < m->root_count; r++)
        holds_all &= covers(p, place->home[last_needed], place->home[r]);
    if (holds_all) {
        o->only_root = (int)last_needed;
        return true;
    }
    o->insert = true;
    o->statement = first;
    choose_names(p, match, absorbed);
    return true;
}

// ---- text -----------------------------------------------------------------------------------

static void render_span(plan *p, tfr_buf *out, uint32_t start, uint32_t end, uint32_t but);

static bool word_char(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// `self.eps` that only a method seen through mentions.
static bool render_own_attribute(plan *p, tfr_buf *out, tfr_value value) {
    const tfr_vnode *n = tfr_flow_node(p->flow, value);
    const tfr_version *self = &p->flow->versions.items[1]; // the first parameter
    tfr_value object = n->op == TFR_V_ATTR ? tfr_flow_arg(p->flow, value, 0).value : 0;
    if (!object || p->flow->class_index == TFR_NO_CLASS || self->kind != TFR_VER_PARAM ||
        !tfr_flow_same(p->flow, object, self->value))
        return false;
    tfr_str text = text_of_name(p, self->name), name = text_of_name(p, n->name);
    tfr_buf_format(out, "%.*s.%.*s", (int)text.len, text.data, (int)name.len, name.data);
    return true;
}

static void render_leaf(plan *p, tfr_buf *out, uint32_t match, uint32_t leaf) {
    tfr_arg arg = p->matches[match].leaves[leaf];
    const tfr_vnode *n = tfr_flow_node(p->flow, arg.value);
    if (!arg.ast) {
        if (n->op == TFR_V_CONST)
            tfr_buf_add_str(out, text_of_name(p, n->name));
        else if (!render_own_attribute(p, out, arg.value))
            fail(p, match, "an input has no expression of its own in this function");
        return;
    }
    switch (tfr_tree_kind(p->tree, arg.ast)) {
    case TFR_N_YIELD:
    case TFR_N_NAMED:
    case TFR_N_GENERATOR:
    case TFR_N_EXPRESSION_LIST:
    case TFR_N_LIST_SPLAT:
    case TFR_N_DICT_SPLAT:
        fail(p, match, "an input is an expression that cannot be an argument");
        return;
    default:
        render_span(p, out, node_at(p, arg.ast)->start, node_at(p, arg.ast)->end, 0);
    }
}

static void render_modules(plan *p, tfr_buf *out, uint32_t match) {
    for (uint32_t l = 1; l < p->matches[match].leaf_count; l++) {
        if (l > 1) tfr_buf_add(out, ", ", 2);
        render_leaf(p, out, match, l);
    }
}

// The rule's CALL with its parameters replaced: "x" at its places, never in `x=` or 'x'.
static void render_arguments(plan *p, tfr_buf *out, uint32_t match, tfr_str call) {
    const tfr_rule *rule = p->matches[match].rule;
    bool quoted = false;
    for (size_t i = 0; i < call.len;) {
        char c = call.data[i];
        if (c == '\'') quoted = !quoted;
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
        while (n < call.len && word_char(call.data[n])) n++;
        tfr_str word = {call.data + i, n - i};
        bool keyword = n < call.len && call.data[n] == '=';
        uint32_t l = 0;
        while (l < rule->param_count && !tfr_str_eq(text_of_name(p, rule->params[l].name), word)) l++;
        if (!keyword && l < rule->param_count)
            render_leaf(p, out, match, l);
        else
            tfr_buf_add_str(out, word);
        i = n;
    }
}

static void indent_at(const plan *p, uint32_t offset, tfr_str *out) {
    tfr_str text = p->tree->src->text;
    uint32_t start = offset;
    while (start > 0 && text.data[start - 1] != '\n' && text.data[start - 1] != '\r') start--;
    uint32_t end = start;
    while (end < text.len && (text.data[end] == ' ' || text.data[end] == '\t' || text.data[end] == '\f')) end++;
    *out = (tfr_str){text.data + start, end - start};
}

static tfr_str indent_unit(const plan *p, tfr_str indent) {
    uint32_t function = p->flow->module->scope->functions.items[p->flow->function].node;
    tfr_str outer;
    indent_at(p, node_at(p, function)->start, &outer);
    uint32_t body = tfr_tree_first(p->tree, tfr_tree_field(p->tree, function, TFR_F_BODY));
    tfr_str inner;
    indent_at(p, node_at(p, body)->start, &inner);
    if (inner.len > outer.len) return (tfr_str){inner.data + outer.len, inner.len - outer.len};
    return indent.len && indent.data[0] == '\t' ? TFR_STR("\t") : TFR_STR("    ");
}

// On one line of their own, one level in; when they are too long for that, one line each.
static void break_arguments(plan *p, tfr_buf *out, tfr_str arguments, uint32_t at) {
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
            if (c == quote) quote = 0;
            if (c == '\\') i++;
            if (i < arguments.len) continue;
        }
        if (c == '"' || c == '\'') quote = c;
        depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (i < arguments.len && (!each || c != ',' || depth)) continue;
        tfr_buf_add_str(out, newline);
        tfr_buf_add_str(out, indent);
        tfr_buf_add_str(out, unit);
        tfr_buf_add(out, arguments.data + start, i - start);
        if (each) tfr_buf_add(out, ",", 1);
        start = i + 2;
    }
    tfr_buf_add_str(out, newline);
    tfr_buf_add_str(out, indent);
}

// `before` and `after`: characters that share the line with the call.
static void render_call(plan *p, tfr_buf *out, uint32_t match, size_t before, size_t after,
                        uint32_t at) {
    const tfr_match *m = &p->matches[match];
    tfr_str call = m->rule->call;
    size_t open = (size_t)((const char *)memchr(call.data, '(', call.len) - call.data);
    tfr_buf arguments = {.arena = p->arena};
    render_arguments(p, &arguments, match, (tfr_str){call.data + open + 1, call.len - open - 2});
    if (p->places[match].via != UINT32_MAX) {
        const tfr_function *f = &p->flow->module->scope->functions.items[p->places[match].via];
        tfr_str name = text_of_name(p, f->name);
        tfr_buf_format(&arguments, ", via=%.*s", (int)name.len, name.data);
    }
    tfr_buf_format(out, "%.*s.%.*s(", (int)p->alias.len, p->alias.data, (int)open, call.data);
    size_t width = before + p->alias.len + open + arguments.len + after + 3;
    if (width > MAX_COLUMN && arguments.len && !memchr(arguments.data, '\n', arguments.len))
        break_arguments(p, out, tfr_buf_str(&arguments), at);
    else
        tfr_buf_add_str(out, tfr_buf_str(&arguments));
    tfr_buf_add(out, ")", 1);
}

static size_t to_line_start(const plan *p, uint32_t offset) {
    tfr_str text = p->tree->src->text;
    uint32_t n = 0;
    while (offset > n && text.data[offset - n - 1] != '\n' && text.data[offset - n - 1] != '\r') n++;
    return n;
}

static size_t to_line_end(const plan *p, uint32_t offset) {
    tfr_str text = p->tree->src->text;
    size_t n = 0;
    while (offset + n < text.len && text.data[offset + n] != '\n' && text.data[offset + n] != '\r') n++;
    return n;
}

static void render_home(plan *p, tfr_buf *out, const home *h) {
    const output *o = &p->outputs[h->match];
    if (o->insert) {
        tfr_buf_add_str(out, o->names[h->root]);
        return;
    }
    const tfr_node *n = node_at(p, h->ast);
    render_call(p, out, h->match, to_line_start(p, n->start), to_line_end(p, n->end), n->start);
    if (o->only_root >= 0) tfr_buf_format(out, "[%d]", o->only_root);
}

// A home that is replaced where it stands: not one inside another, nor of an inserted statement's
// sibling result.
static bool is_rendered(const plan *p, const home *h) {
    const output *o = &p->outputs[h->match];
    return o->only_root < 0 || (uint32_t)o->only_root == h->root;
}

static void render_span(plan *p, tfr_buf *out, uint32_t start, uint32_t end, uint32_t but) {
    uint32_t at = start;
    for (uint32_t i = 0; i < p->homes.count; i++) {
        const home *h = &p->homes.items[i];
        const tfr_node *n = node_at(p, h->ast);
        if (n->start < at || n->end > end || h->ast == but || !is_rendered(p, h)) continue;
        tfr_buf_add(out, p->tree->src->bytes.data + at, n->start - at);
        render_home(p, out, h);
        at = n->end;
    }
    tfr_buf_add(out, p->tree->src->bytes.data + at, end - at);
}

// Comments of a replaced or removed piece that no argument carries along, as lines of their own.
static void keep_comments(plan *p, tfr_buf *out, uint32_t root, tfr_str indent) {
    for (uint32_t n = root; n; n = tfr_tree_walk(p->tree, root, n, false)) {
        if (tfr_tree_kind(p->tree, n) != TFR_N_COMMENT) continue;
        bool carried = false;
        for (uint32_t a = n; a != root; a = node_at(p, a)->parent) carried |= is_leaf(p, a);
        if (carried) continue;
        const tfr_node *c = node_at(p, n);
        tfr_buf_add_str(out, indent);
        tfr_buf_add(out, p->tree->src->bytes.data + c->start, c->end - c->start);
        tfr_buf_add_str(out, p->tree->src->newline);
    }
}

static void add_edit(plan *p, tfr_edits *edits, uint32_t start, uint32_t end, tfr_buf *text) {
    *TFR_PUSH(p->arena, edits) = (tfr_edit){start, end, tfr_buf_str(text)};
}

// Whether a statement has its lines to itself; then *start and *end are those lines.
static bool own_lines(const plan *p, uint32_t ast, uint32_t *start, uint32_t *end,
                      tfr_str *trailing) {
    tfr_str text = p->tree->src->text;
    const tfr_node *n = node_at(p, ast);
    uint32_t s = n->start, e = n->end;
    while (s > 0 && (text.data[s - 1] == ' ' || text.data[s - 1] == '\t' || text.data[s - 1] == '\f')) s--;
    if (s > 0 && text.data[s - 1] != '\n' && text.data[s - 1] != '\r') return false;
    while (e < text.len && (text.data[e] == ' ' || text.data[e] == '\t')) e++;
    *trailing = (tfr_str){"", 0};
    if (e < text.len && text.data[e] == '#') {
        size_t n_comment = to_line_end(p, e);
        *trailing = (tfr_str){text.data + e, n_comment};
        e += (uint32_t)n_comment;
    }
    if (e < text.len && text.data[e] != '\n' && text.data[e] != '\r') return false;
    if (e < text.len && text.data[e] == '\r') e++;
    if (e < text.len && text.data[e] == '\n' && (e == 0 || text.data[e - 1] == '\r' || e == n->end ||
                                                 text.data[e - 1] != '\n'))
        e++;
    *start = s;
    *end = e;
    return true;
}

static bool edit_insertion(plan *p, tfr_edits *edits, uint32_t match) {
    const output *o = &p->outputs[match];
    if (!o->insert) return true;
    uint32_t ast = p->flow->statements.items[o->statement].ast, start, end;
    tfr_str indent, trailing;
    if (!own_lines(p, ast, &start, &end, &trailing) &&
        to_line_start(p, node_at(p, ast)->start) != 0) {
        indent_at(p, node_at(p, ast)->start, &indent);
        if (to_line_start(p, node_at(p, ast)->start) != indent.len)
            return fail(p, match, "its statement shares a line with another one");
    }
    indent_at(p, node_at(p, ast)->start, &indent);
    start = node_at(p, ast)->start - (uint32_t)indent.len;
    tfr_buf out = {.arena = p->arena};
    for (uint32_t r = 0; r < p->places[match].home_count; r++)
        keep_comments(p, &out, p->places[match].home[r], indent);
    tfr_buf names = {.arena = p->arena};
    for (uint32_t r = 0; r < p->matches[match].root_count; r++)
        tfr_buf_format(&names, "%s%.*s", r ? ", " : "", (int)o->names[r].len, o->names[r].data);
    tfr_buf_format(&out, "%.*s%.*s = ", (int)indent.len, indent.data, (int)names.len, names.data);
    render_call(p, &out, match, indent.len + names.len + 3, 0, node_at(p, ast)->start);
    tfr_buf_add_str(&out, p->tree->src->newline);
    add_edit(p, edits, start, start, &out);
    return true;
}

static bool needs_first(const plan *p, uint32_t match, uint32_t other) {
    if (match == other || !p->outputs[other].insert) return false;
    for (uint32_t r = 0; r < p->places[other].home_count; r++)
        if (in_leaf_of(p, match, p->places[other].home[r])) return true;
    return false;
}

// At one place in the text, what an argument needs comes before the call that has it.
static bool edit_insertions(plan *p, tfr_edits *edits) {
    bool *done = TFR_NEW_ARRAY(p->arena, bool, p->count);
    for (uint32_t left = p->count, before = left + 1; left && left < before;) {
        before = left;
        for (uint32_t m = 0; m < p->count; m++) {
            bool ready = !done[m];
            for (uint32_t k = 0; k < p->count && ready; k++)
                ready = done[k] || !needs_first(p, m, k);
            if (!ready) continue;
            if (!edit_insertion(p, edits, m)) return false;
            done[m] = true;
            left--;
        }
    }
    return true;
}

static bool edit_removal(plan *p, tfr_edits *edits, uint32_t statement) {
    uint32_t parent = p->flow->statements.items[statement].parent;
    if (!p->removed[statement] || (parent && p->removed[parent])) return true;
    uint32_t ast = p->flow->statements.items[statement].ast, start, end;
    tfr_str trailing, indent;
    if (!own_lines(p, ast, &start, &end, &trailing))
        return fail(p, p->count - 1, "a statement that it takes in shares a line with another one");
    indent_at(p, node_at(p, ast)->start, &indent);
    tfr_buf out = {.arena = p->arena};
    keep_comments(p, &out, ast, indent);
    if (trailing.len) {
        tfr_buf_add_str(&out, indent);
        tfr_buf_add_str(&out, trailing);
        tfr_buf_add_str(&out, p->tree->src->newline);
    }
    add_edit(p, edits, start, end, &out);
    return true;
}

static bool in_removed(const plan *p, uint32_t ast) {
    for (uint32_t s = 1; s < p->flow->statements.count; s++)
        if (p->removed[s] && covers(p, p->flow->statements.items[s].ast, ast)) return true;
    return false;
}

static void edit_home(plan *p, tfr_edits *edits, uint32_t index) {
    const home *h = &p->homes.items[index];
    if (!is_rendered(p, h) || in_removed(p, h->ast)) return;
    for (uint32_t i = 0; i < index; i++) // inside another home: rendered there, or gone with it
        if (is_rendered(p, &p->homes.items[i]) && p->homes.items[i].ast != h->ast &&
            covers(p, p->homes.items[i].ast, h->ast))
            return;
    tfr_buf out = {.arena = p->arena};
    render_home(p, &out, h);
    add_edit(p, edits, node_at(p, h->ast)->start, node_at(p, h->ast)->end, &out);
    if (p->outputs[h->match].insert) return;
    tfr_buf comments = {.arena = p->arena};
    uint32_t s = tfr_flow_node(p->flow, p->matches[h->match].roots[0])->statement;
    uint32_t at = node_at(p, p->flow->statements.items[s].ast)->start;
    tfr_str indent;
    indent_at(p, at, &indent);
    keep_comments(p, &comments, h->ast, indent);
    if (!comments.len) return;
    at -= (uint32_t)indent.len;
    if (at > 0 && to_line_start(p, at) != 0) {
        fail(p, h->match, "a comment inside it has no place to go");
        return;
    }
    add_edit(p, edits, at, at, &comments);
}

// ---- the whole ------------------------------------------------------------------------------

// Compute that is still needed besides would run twice.
static bool check_members(plan *p) {
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t i = 0; i < p->matches[m].member_count; i++) {
            tfr_value value = p->matches[m].members[i];
            const tfr_vnode *n = tfr_flow_node(p->flow, value);
            bool root = false;
            for (uint32_t r = 0; r < p->matches[m].root_count; r++)
                root |= p->matches[m].roots[r] == value;
            tfr_str name = text_of_name(p, n->name);
            bool view = tfr_str_eq(name, TFR_STR("unsqueeze")) || tfr_str_eq(name, TFR_STR("transpose")) ||
                        tfr_str_eq(name, TFR_STR("chunk"));
            if (root || !n->ast || n->in_call || view ||
                (n->op != TFR_V_ATEN && n->op != TFR_V_MODULE))
                continue;
            if (survives(p, n->ast))
                return fail(p, m, "a value from its middle is used elsewhere too");
        }
    return true;
}

static void sort_edits(tfr_edits *edits, uint32_t first) {
    for (uint32_t i = first + 1; i < edits->count; i++)
        for (uint32_t k = i; k > first; k--) {
            tfr_edit *a = &edits->items[k - 1], *b = &edits->items[k];
            if (a->start < b->start || (a->start == b->start && a->end <= b->end)) break;
            tfr_edit t = *a;
            *a = *b;
            *b = t;
        }
}

bool tfr_emit_function(tfr_edits *edits, tfr_flow *flow, const tfr_match *matches,
                       const tfr_place *places, uint32_t count, tfr_str alias, tfr_arena *arena,
                       uint32_t *bad, const char **reason) {
    plan p = {.flow = flow, .tree = flow->module->scope->tree, .matches = matches,
              .places = places, .count = count, .alias = alias, .arena = arena};
    p.removed = TFR_NEW_ARRAY(arena, bool, flow->statements.count);
    p.live = TFR_NEW_ARRAY(arena, bool, flow->versions.count);
    p.outputs = TFR_NEW_ARRAY(arena, output, count);
    bool *absorbed = TFR_NEW_ARRAY(arena, bool, flow->statements.count);
    uint32_t first = edits->count;
    collect_homes(&p);
    find_removed(&p, absorbed);
    for (uint32_t m = 0; m < count; m++) plan_output(&p, m, absorbed);
    find_removed(&p, absorbed);
    bool ok = check_members(&p);
    ok = ok && edit_insertions(&p, edits);
    for (uint32_t s = 1; s < flow->statements.count && ok; s++) ok = edit_removal(&p, edits, s);
    for (uint32_t i = 0; i < p.homes.count && ok; i++) edit_home(&p, edits, i);
    if (p.reason) {
        edits->count = first;
        *bad = p.bad;
        *reason = p.reason;
        return false;
    }
    sort_edits(edits, first);
    return true;
}
