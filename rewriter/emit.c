// Plans the edits of a function. Results that a plain assignment already names keep that name;
// statements that only fed a match go when nothing that stays reads what they bind. What is
// planned here is proved afterwards by lowering the new text and comparing (check.c).
#include "rewriter/emit_plan.h"

#define TFR_UNREAD "nothing reads what it makes: the code would have to use it"

bool tfr_plan_fail(tfr_plan *p, uint32_t match, uint32_t ast, const char *reason) {
    if (!p->misfit.reason)
        p->misfit = (tfr_misfit){match, ast, reason};
    return false;
}

static const tfr_plan_mark *mark_of(const tfr_plan *p, uint32_t ast) {
    static const tfr_plan_mark none;
    return p->first_ast <= ast && ast < p->end_ast ? &p->marks[ast - p->first_ast] : &none;
}

bool tfr_plan_is_leaf(const tfr_plan *p, uint32_t ast) { return mark_of(p, ast)->leaf; }

// What is asked for again and again, by syntax node and by statement.
static void make_indexes(tfr_plan *p) {
    const tfr_flow *f = p->flow;
    p->first_ast = f->module->scope->functions.items[f->function].node;
    p->end_ast = tfr_tree_walk(p->tree, 1, p->first_ast, true);
    if (!p->end_ast)
        p->end_ast = p->tree->count;
    p->marks = TFR_NEW_ARRAY(p->arena, tfr_plan_mark, p->end_ast - p->first_ast);
    for (uint32_t s = 1; s < f->statements.count; s++)
        p->marks[f->statements.items[s].ast - p->first_ast].statement = s;
    for (uint32_t m = 0; m < p->count; m++) {
        for (uint32_t r = 0; r < p->places[m].home_count; r++)
            p->marks[p->places[m].home[r] - p->first_ast].home = true;
        for (uint32_t l = 0; l < p->matches[m].leaf_count; l++)
            if (p->matches[m].leaves[l].ast)
                p->marks[p->matches[m].leaves[l].ast - p->first_ast].leaf = true;
    }
    p->first_version = TFR_NEW_ARRAY(p->arena, uint32_t, f->statements.count);
    p->next_version = TFR_NEW_ARRAY(p->arena, uint32_t, f->versions.count);
    for (uint32_t v = f->versions.count; v-- > 1;) {
        uint32_t *first = &p->first_version[f->versions.items[v].statement];
        p->next_version[v] = *first;
        *first = v;
    }
}

// ---- what stays -----------------------------------------------------------------------------

// Whether the text at `ast` is still there, itself or as an argument of a new call.
static bool survives(const tfr_plan *p, uint32_t ast) {
    for (uint32_t n = ast; n; n = tfr_plan_node(p, n)->parent) {
        const tfr_plan_mark *mark = mark_of(p, n);
        if (mark->home)
            return false; // also where it is an argument: its replacement is written
        if (mark->leaf || tfr_tree_kind(p->tree, n) == TFR_N_FUNCTION)
            return true;
        if (mark->statement && p->removed[mark->statement])
            return false;
    }
    return true;
}

// Whether the call that replaces the text at `home` is.
static bool is_written(const tfr_plan *p, uint32_t home) {
    return tfr_plan_is_leaf(p, home) || survives(p, tfr_plan_node(p, home)->parent);
}

static bool spread(tfr_plan *p) {
    bool changed = false;
    tfr_flow *f = p->flow;
    for (uint32_t v = f->versions.count; v-- > 1;) {
        const tfr_version *x = &f->versions.items[v];
        if (!p->live[v])
            continue;
        uint32_t from[3] = {x->merges[0], x->merges[1], x->kind == TFR_VER_REGION ? x->before : 0};
        for (int i = 0; i < 3; i++)
            if (from[i] && !p->live[from[i]])
                p->live[from[i]] = changed = true;
        for (uint32_t k = x->region_first; x->kind == TFR_VER_REGION && k < x->region_end; k++)
            if (f->versions.items[k].name == x->name && !p->live[k])
                p->live[k] = changed = true;
    }
    return changed;
}

static void find_live(tfr_plan *p) {
    tfr_flow *f = p->flow;
    memset(p->live, 0, f->versions.count);
    for (uint32_t i = 0; i < f->reads.count; i++)
        if (survives(p, f->reads.items[i].ast))
            p->live[f->reads.items[i].version] = true;
    for (uint32_t v = 1; v < f->versions.count; v++)
        if (tfr_flow_captures(p->flow, f->versions.items[v].name))
            p->live[v] = true;
    while (spread(p)) {
    }
}

static bool is_assignment(const tfr_plan *p, uint32_t statement) {
    const tfr_statement *s = &p->flow->statements.items[statement];
    if (tfr_tree_kind(p->tree, s->ast) != TFR_N_EXPR_STATEMENT || s->impure)
        return false;
    uint32_t inner = tfr_tree_first(p->tree, s->ast);
    return tfr_tree_kind(p->tree, inner) == TFR_N_ASSIGNMENT && !tfr_tree_next(p->tree, inner);
}

// `name = expression` without effects: the only statements that may go, beside pure ifs.
static bool is_plain_assignment(const tfr_plan *p, uint32_t statement) {
    const tfr_statement *s = &p->flow->statements.items[statement];
    return is_assignment(p, statement) && s->first_event == s->end_event;
}

static bool is_pure_if(const tfr_plan *p, uint32_t statement) {
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

static bool binds_live(const tfr_plan *p, uint32_t statement) {
    for (uint32_t v = p->first_version[statement]; v; v = p->next_version[v])
        if (p->live[v])
            return true;
    return false;
}

static uint32_t version_bound_by(const tfr_plan *p, uint32_t statement) {
    uint32_t found = 0;
    for (uint32_t v = p->first_version[statement]; v; v = p->next_version[v]) {
        const tfr_version *x = &p->flow->versions.items[v];
        if (x->kind != TFR_VER_ASSIGN || !x->target)
            continue;
        if (found)
            return 0;
        found = v;
    }
    return found;
}

// The right side of `name = <right>`; 0: another form.
static uint32_t assigned_expression(const tfr_plan *p, uint32_t statement) {
    if (!is_assignment(p, statement) || !version_bound_by(p, statement))
        return 0;
    uint32_t inner = tfr_tree_first(p->tree, p->flow->statements.items[statement].ast);
    if (tfr_tree_kind(p->tree, tfr_tree_field(p->tree, inner, TFR_F_LEFT)) != TFR_N_IDENTIFIER)
        return 0;
    return tfr_tree_unparen(p->tree, tfr_tree_field(p->tree, inner, TFR_F_RIGHT));
}

static bool is_member(const tfr_plan *p, tfr_value value) {
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t i = 0; i < p->matches[m].member_count; i++)
            if (p->matches[m].members[i] == value)
                return true;
    return false;
}

static bool is_root(const tfr_match *m, tfr_value value) {
    for (uint32_t r = 0; r < m->root_count; r++)
        if (m->roots[r] == value)
            return true;
    return false;
}

// `b = a` where a is a value from the middle of a match.
static bool copies_member(const tfr_plan *p, uint32_t statement) {
    uint32_t right = assigned_expression(p, statement);
    if (!right || tfr_tree_kind(p->tree, right) != TFR_N_IDENTIFIER)
        return false;
    tfr_value value = p->flow->versions.items[version_bound_by(p, statement)].value;
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t i = 0; i < p->matches[m].member_count; i++)
            if (p->matches[m].members[i] == value && !is_root(&p->matches[m], value))
                return true;
    return false;
}

// Starts from every statement that fed a match and gives back those that something still needs.
static void find_removed(tfr_plan *p, const bool *absorbed) {
    tfr_flow *f = p->flow;
    memset(p->removed, 0, f->statements.count);
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t i = 0; i < p->matches[m].member_count; i++) {
            uint32_t s = tfr_flow_node(f, p->matches[m].members[i])->statement;
            for (; s; s = f->statements.items[s].parent)
                p->removed[s] = true;
        }
    for (uint32_t v = 1; v < f->versions.count; v++) { // `length = 1` in one of two branches
        const tfr_version *x = &f->versions.items[v];
        if (x->kind == TFR_VER_PHI && is_member(p, x->value))
            for (int i = 0; i < 2; i++)
                p->removed[f->versions.items[x->merges[i]].statement] = true;
    }
    for (uint32_t s = 1; s < f->statements.count; s++)
        p->removed[s] |= absorbed[s] || copies_member(p, s);
    for (uint32_t s = f->statements.count; s-- > 1;)
        if (p->removed[s] && !absorbed[s] && !is_plain_assignment(p, s) && !is_pure_if(p, s))
            p->removed[s] = false;
    for (bool changed = true; changed;) {
        changed = false;
        find_live(p);
        for (uint32_t s = 1; s < f->statements.count; s++) {
            if (!p->removed[s] || absorbed[s])
                continue;
            if (!binds_live(p, s) && (is_plain_assignment(p, s) || is_pure_if(p, s)))
                continue;
            p->removed[s] = false;
            changed = true;
        }
    }
}

// ---- homes ----------------------------------------------------------------------------------

static void collect_homes(tfr_plan *p) {
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t r = 0; r < p->places[m].home_count; r++)
            *TFR_PUSH(p->arena, &p->homes) = (tfr_home){p->places[m].home[r], m, r};
    for (uint32_t i = 1; i < p->homes.count; i++) // insertion sort: few items
        for (uint32_t k = i; k > 0; k--) {
            tfr_home *a = &p->homes.items[k - 1], *b = &p->homes.items[k];
            const tfr_node *x = tfr_plan_node(p, a->ast), *y = tfr_plan_node(p, b->ast);
            if (x->start < y->start || (x->start == y->start && x->end >= y->end))
                break;
            tfr_home t = *a;
            *a = *b;
            *b = t;
        }
}

// ---- names ----------------------------------------------------------------------------------

bool tfr_plan_in_leaf_of(const tfr_plan *p, uint32_t match, uint32_t ast) {
    for (uint32_t l = 0; l < p->matches[match].leaf_count; l++) {
        uint32_t leaf = p->matches[match].leaves[l].ast;
        if (leaf && tfr_tree_covers(p->tree, leaf, ast))
            return true;
    }
    return false;
}

// Whether `name` may be bound at `from` already: nothing that stays reads or binds it before `to`.
static bool name_free(const tfr_plan *p, uint32_t match, tfr_name name, uint32_t from, uint32_t to,
                      const bool *absorbed) {
    if (tfr_flow_captures(p->flow, name))
        return false;
    const tfr_flow *f = p->flow;
    for (uint32_t i = 0; i < f->reads.count; i++) {
        const tfr_read *r = &f->reads.items[i];
        uint32_t at = tfr_plan_node(p, r->ast)->start;
        if (f->versions.items[r->version].name != name || at < from || at >= to)
            continue;
        if (tfr_plan_in_leaf_of(p, match, r->ast))
            continue; // read by the new statement itself
        if (absorbed[r->statement])
            continue;
        if (survives(p, r->ast))
            return false;
    }
    for (uint32_t v = 1; v < f->versions.count; v++) {
        const tfr_version *x = &f->versions.items[v];
        if (x->name != name || !x->target || x->kind != TFR_VER_ASSIGN)
            continue;
        uint32_t at = tfr_plan_node(p, x->target)->start;
        if (at >= from && at < to && !absorbed[x->statement] && !p->removed[x->statement])
            return false;
    }
    return true;
}

static bool name_taken(const tfr_plan *p, tfr_str text) {
    tfr_name name = tfr_names_find(p->flow->module->names, text);
    if (!name)
        return false;
    for (uint32_t v = 1; v < p->flow->versions.count; v++)
        if (p->flow->versions.items[v].name == name)
            return true;
    if (tfr_scope_lookup(p->flow->module->scope, name) || tfr_flow_captures(p->flow, name))
        return true;
    for (uint32_t i = 1; i < p->flow->nodes.count; i++)
        if (p->flow->nodes.items[i].op == TFR_V_GLOBAL && p->flow->nodes.items[i].name == name)
            return true;
    return false;
}

static bool output_named(const tfr_output *o, tfr_str text) {
    for (uint32_t r = 0; r < TFR_MAX_ROOTS; r++)
        if (o->names[r].len && tfr_str_eq(o->names[r], text))
            return true;
    return false;
}

static bool name_used_by_outputs(const tfr_plan *p, tfr_str text) {
    for (uint32_t m = 0; m < p->count; m++)
        if (output_named(&p->outputs[m], text))
            return true;
    return false;
}

// Words that are no names, or not everywhere: self.in_proj must not give `in`.
static bool is_keyword(tfr_str text) {
    static const char *const words[] = {
        "False",  "None",  "True",    "and",      "as",       "assert", "async", "await",
        "break",  "case",  "class",   "continue", "def",      "del",    "elif",  "else",
        "except", "exec",  "finally", "for",      "from",     "global", "if",    "import",
        "in",     "is",    "lambda",  "match",    "nonlocal", "not",    "or",    "pass",
        "print",  "raise", "return",  "try",      "type",     "while",  "with",  "yield",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (tfr_str_eq(text, tfr_str_from(words[i])))
            return true;
    return false;
}

// self.gate_proj gives "gate"; anything else the op's result number.
static tfr_str fresh_name(tfr_plan *p, uint32_t match, uint32_t root) {
    tfr_str base = TFR_STR("fused");
    const tfr_match *m = &p->matches[match];
    const tfr_vnode *n = tfr_flow_node(p->flow, m->roots[root]);
    if (n->op == TFR_V_MODULE) {
        tfr_value callee = tfr_flow_arg(p->flow, m->roots[root], 0).value;
        base = tfr_names_text(p->flow->module->names, tfr_flow_node(p->flow, callee)->name);
        if (base.len > 5 && memcmp(base.data + base.len - 5, "_proj", 5) == 0)
            base.len -= 5;
    }
    tfr_str text = base;
    for (int i = 1; is_keyword(text) || name_taken(p, text) || name_used_by_outputs(p, text); i++)
        text = i == 1 ? tfr_str_format(p->arena, "%.*s_out", (int)base.len, base.data)
                      : tfr_str_format(p->arena, "%.*s_out%d", (int)base.len, base.data, i);
    return text;
}

// Results inside a statement that will be handed to it by name.
static uint32_t named_homes_in(const tfr_plan *p, uint32_t statement) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->homes.count; i++)
        if (p->places[p->homes.items[i].match].home_count > 1 &&
            tfr_tree_covers(p->tree, p->flow->statements.items[statement].ast,
                            p->homes.items[i].ast))
            n++;
    return n;
}

// A later `copy = name` of the same value in the same block, when the name itself is read nowhere
// else.
static uint32_t copy_that_takes_over(const tfr_plan *p, uint32_t match, uint32_t version) {
    const tfr_flow *f = p->flow;
    uint32_t copy = 0;
    for (uint32_t i = 0; i < f->reads.count; i++) {
        const tfr_read *r = &f->reads.items[i];
        if (r->version != version || !survives(p, r->ast) || tfr_plan_in_leaf_of(p, match, r->ast))
            continue;
        if (copy || assigned_expression(p, r->statement) != r->ast ||
            f->statements.items[r->statement].block != f->versions.items[version].block)
            return 0;
        copy = r->statement;
    }
    return copy;
}

// How one result of an inserted statement is bound.
typedef struct binding_choice {
    bool nested;        // inside another result's expression: nobody else needs it
    bool conditional;   // under a condition: the name is bound before, whether or not it holds
    uint32_t statement; // where it is computed now
    uint32_t direct;    // version that a plain assignment binds it to; 0: it is part of more
    uint32_t copy;      // statement that hands it on under the name that is really used
} binding_choice;

static binding_choice look_at_result(const tfr_plan *p, uint32_t match, uint32_t root) {
    const tfr_match *m = &p->matches[match];
    uint32_t ast = p->places[match].home[root];
    binding_choice c = {.statement = tfr_flow_node(p->flow, m->roots[root])->statement};
    for (uint32_t r = 0; r < m->root_count; r++)
        c.nested |= r != root && tfr_tree_covers(p->tree, p->places[match].home[r], ast);
    c.conditional = m->block && tfr_flow_node(p->flow, m->roots[root])->block != m->block;
    if (!c.nested && !c.conditional && assigned_expression(p, c.statement) == ast) {
        c.direct = version_bound_by(p, c.statement);
        c.copy = copy_that_takes_over(p, match, c.direct);
    }
    return c;
}

static bool usable(const tfr_plan *p, uint32_t match, tfr_name name, uint32_t from, uint32_t to,
                   const bool *absorbed) {
    return name_free(p, match, name, from, to, absorbed) &&
           !output_named(&p->outputs[match], tfr_plan_text(p, name));
}

static uint32_t start_of(const tfr_plan *p, uint32_t statement) {
    return tfr_plan_node(p, p->flow->statements.items[statement].ast)->start;
}

// Whether a result is part of another one of its match, as a sum is of its norm.
static bool feeds_another(const tfr_plan *p, uint32_t match, uint32_t root) {
    const tfr_match *m = &p->matches[match];
    for (uint32_t i = 0; i < m->member_count; i++)
        for (uint32_t a = 0; a < tfr_flow_node(p->flow, m->members[i])->arg_count; a++)
            if (tfr_flow_arg(p->flow, m->members[i], a).value == m->roots[root])
                return true;
    return false;
}

static tfr_str choose_name(tfr_plan *p, uint32_t match, uint32_t root, binding_choice c,
                           uint32_t from, bool *absorbed) {
    const tfr_flow *f = p->flow;
    if (c.nested)
        return TFR_STR("_");
    if (c.conditional)
        return fresh_name(p, match, root);
    if (c.direct) {
        if (c.copy) {
            tfr_name name = f->versions.items[version_bound_by(p, c.copy)].name;
            if (usable(p, match, name, from, start_of(p, c.copy), absorbed))
                return tfr_plan_text(p, name);
            absorbed[c.copy] = false;
        }
        tfr_name name = f->versions.items[c.direct].name;
        if (!p->live[c.direct] && !c.copy) {
            if (!feeds_another(p, match, root)) // nothing would prove its inputs
                tfr_plan_fail(p, match, 0, TFR_UNREAD);
            return TFR_STR("_");
        }
        if (usable(p, match, name, from, start_of(p, c.statement), absorbed))
            return tfr_plan_text(p, name);
        absorbed[c.statement] = false;
        return fresh_name(p, match, root);
    }
    uint32_t version = assigned_expression(p, c.statement) ? version_bound_by(p, c.statement) : 0;
    if (version && named_homes_in(p, c.statement) == 1) {
        tfr_name name = f->versions.items[version].name;
        uint32_t end = tfr_plan_node(p, f->statements.items[c.statement].ast)->end;
        uint32_t target = tfr_plan_node(p, f->versions.items[version].target)->end;
        if (usable(p, match, name, from, start_of(p, c.statement), absorbed) &&
            name_free(p, match, name, target, end, absorbed))
            return tfr_plan_text(p, name);
    }
    return fresh_name(p, match, root);
}

static void choose_names(tfr_plan *p, uint32_t match, bool *absorbed) {
    tfr_output *o = &p->outputs[match];
    binding_choice choices[TFR_MAX_ROOTS];
    for (uint32_t r = 0; r < p->matches[match].root_count; r++) {
        choices[r] = look_at_result(p, match, r);
        if (choices[r].direct)
            absorbed[choices[r].statement] = true;
        if (choices[r].copy)
            absorbed[choices[r].copy] = true;
    }
    for (uint32_t r = 0; r < p->matches[match].root_count; r++)
        o->names[r] = choose_name(p, match, r, choices[r], start_of(p, o->statement), absorbed);
}

// The right side of `a, b = first, second` whose items are the results of a match; 0: it is not so.
static uint32_t unpacked_list(const tfr_plan *p, uint32_t match) {
    const tfr_place *place = &p->places[match];
    uint32_t list = tfr_plan_node(p, place->home[0])->parent, item, count = 0;
    uint32_t assignment = tfr_plan_node(p, list)->parent;
    if ((tfr_tree_kind(p->tree, list) != TFR_N_EXPRESSION_LIST &&
         tfr_tree_kind(p->tree, list) != TFR_N_TUPLE) ||
        tfr_tree_kind(p->tree, assignment) != TFR_N_ASSIGNMENT || p->matches[match].block)
        return 0;
    tfr_kind left = tfr_tree_kind(p->tree, tfr_tree_field(p->tree, assignment, TFR_F_LEFT));
    if (left != TFR_N_PATTERN_LIST && left != TFR_N_TUPLE_PATTERN && left != TFR_N_LIST_PATTERN)
        return 0;
    for (item = tfr_tree_first(p->tree, list); item; item = tfr_tree_next(p->tree, item), count++)
        if (count == place->home_count || place->home[count] != item)
            return 0;
    return count == place->home_count ? list : 0;
}

// Of the homes of a match, `list` alone.
static void keep_home(tfr_plan *p, uint32_t match, uint32_t list) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->homes.count; i++) {
        tfr_home h = p->homes.items[i];
        if (h.match == match && h.root > 0)
            continue;
        p->homes.items[kept++] = h.match == match ? (tfr_home){list, match, 0} : h;
    }
    p->homes.count = kept;
}

static bool plan_output(tfr_plan *p, uint32_t match, bool *absorbed) {
    const tfr_match *m = &p->matches[match];
    const tfr_place *place = &p->places[match];
    tfr_output *o = &p->outputs[match];
    *o = (tfr_output){.only_root = -1};
    if (place->home_count == 1)
        return true;
    o->whole = unpacked_list(p, match);
    if (o->whole) {
        keep_home(p, match, o->whole);
        return true;
    }
    uint32_t first = UINT32_MAX, needed = 0, last_needed = 0;
    for (uint32_t r = 0; r < m->root_count; r++) {
        uint32_t s = tfr_flow_node(p->flow, m->roots[r])->statement;
        uint32_t at = m->block ? tfr_siblings_statement(p->flow, m->roots[r], m->block) : s;
        if (at < first)
            first = at;
        bool nested = false;
        for (uint32_t q = 0; q < m->root_count; q++)
            nested |= q != r && tfr_tree_covers(p->tree, place->home[q], place->home[r]);
        uint32_t version = assigned_expression(p, s) == place->home[r] ? version_bound_by(p, s) : 0;
        if (!nested && (!version || p->live[version]))
            needed++, last_needed = r;
    }
    bool holds_all = needed == 1 && !m->block;
    for (uint32_t r = 0; r < m->root_count; r++)
        holds_all &= tfr_tree_covers(p->tree, place->home[last_needed], place->home[r]);
    if (holds_all) {
        o->only_root = (int)last_needed;
        return true;
    }
    o->insert = true;
    o->statement = first;
    choose_names(p, match, absorbed);
    return true;
}

// ---- the whole ------------------------------------------------------------------------------

// The text that a value of a match is computed by: its own, or the call of the op it is inside of.
static uint32_t text_of_value(const tfr_flow *flow, const tfr_vnode *n) {
    const tfr_inline *op = tfr_flow_op_around(flow, n);
    return op ? op->call_ast : n->in_call ? 0 : n->ast;
}

// Compute that is still needed besides would run twice.
static bool check_members(tfr_plan *p) {
    for (uint32_t m = 0; m < p->count; m++)
        for (uint32_t i = 0; i < p->matches[m].member_count; i++) {
            tfr_value value = p->matches[m].members[i];
            const tfr_vnode *n = tfr_flow_node(p->flow, value);
            tfr_str name = tfr_plan_text(p, n->name);
            bool view = tfr_str_eq(name, TFR_STR("unsqueeze")) ||
                        tfr_str_eq(name, TFR_STR("transpose")) ||
                        tfr_str_eq(name, TFR_STR("chunk"));
            uint32_t text = text_of_value(p->flow, n);
            if (is_root(&p->matches[m], value) || !text || view ||
                (n->op != TFR_V_ATEN && n->op != TFR_V_MODULE))
                continue;
            if (!survives(p, text))
                continue;
            const tfr_statement *s = &p->flow->statements.items[n->statement];
            if (s->first_event != s->end_event && !binds_live(p, n->statement))
                return tfr_plan_fail(p, m, p->flow->events.items[s->first_event].ast,
                                     "this is not known to have no effects, so its statement "
                                     "stays, and a part of the block with it: both would have to "
                                     "stand in statements of their own");
            return tfr_plan_fail(p, m, text,
                                 "this value from its middle is used elsewhere too: it would have "
                                 "to be used by the block alone");
        }
    return true;
}

// `a, b = home`: whether a name is read; true where it is anything else.
static bool assigns_live(const tfr_plan *p, uint32_t statement, uint32_t home) {
    uint32_t inner = tfr_tree_first(p->tree, p->flow->statements.items[statement].ast);
    if (tfr_tree_kind(p->tree, inner) != TFR_N_ASSIGNMENT ||
        tfr_tree_unparen(p->tree, tfr_tree_field(p->tree, inner, TFR_F_RIGHT)) != home)
        return true;
    uint32_t left = tfr_tree_field(p->tree, inner, TFR_F_LEFT);
    bool several = tfr_tree_kind(p->tree, left) == TFR_N_PATTERN_LIST;
    uint32_t name = several ? tfr_tree_first(p->tree, left) : left;
    for (; name; name = several ? tfr_tree_next(p->tree, name) : 0)
        if (tfr_tree_kind(p->tree, name) != TFR_N_IDENTIFIER)
            return true;
    return binds_live(p, statement);
}

// Code whose result nobody reads is left as it is: what it may raise is all that it does.
static bool check_read(tfr_plan *p) {
    for (uint32_t m = 0; m < p->count; m++) {
        uint32_t s = tfr_flow_node(p->flow, p->matches[m].roots[0])->statement;
        uint32_t home = p->outputs[m].whole ? p->outputs[m].whole : p->places[m].home[0];
        if (!p->outputs[m].insert && (!is_written(p, home) || !assigns_live(p, s, home)))
            return tfr_plan_fail(p, m, 0, TFR_UNREAD);
    }
    return true;
}

bool tfr_emit_function(tfr_edits *edits, tfr_flow *flow, const tfr_match *matches,
                       const tfr_place *places, uint32_t count, tfr_str alias, tfr_arena *arena,
                       tfr_misfit *misfit) {
    tfr_plan p = {.flow = flow,
                  .tree = flow->module->scope->tree,
                  .matches = matches,
                  .places = places,
                  .count = count,
                  .alias = alias,
                  .arena = arena};
    p.removed = TFR_NEW_ARRAY(arena, bool, flow->statements.count);
    p.live = TFR_NEW_ARRAY(arena, bool, flow->versions.count);
    p.outputs = TFR_NEW_ARRAY(arena, tfr_output, count);
    bool *absorbed = TFR_NEW_ARRAY(arena, bool, flow->statements.count);
    uint32_t first = edits->count;
    collect_homes(&p);
    make_indexes(&p);
    find_removed(&p, absorbed);
    for (uint32_t m = 0; m < count; m++)
        plan_output(&p, m, absorbed);
    find_removed(&p, absorbed);
    if (!p.misfit.reason && check_read(&p) && check_members(&p))
        tfr_plan_edit(&p, edits);
    if (!p.misfit.reason)
        return true;
    edits->count = first;
    *misfit = p.misfit;
    return false;
}
