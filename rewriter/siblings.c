// Calls of nn.Linear modules on one value, which become one call. Those under further conditions
// join with the condition written out, `self.k_proj if test else None`, where it can be evaluated
// at the first of them.
#include "rewriter/match.h"

// What a projection's result is used for: adapters (their result goes straight into another
// nn.Linear) stay apart, and so do the two halves of an MLP from the projections of attention.
typedef enum sibling_role { ROLE_PLAIN, ROLE_MLP, ROLE_ADAPTER } sibling_role;

static bool is_act(const tfr_flow *f, tfr_value v) {
    if (tfr_flow_node(f, v)->op == TFR_V_MODULE)
        return tfr_flow_node(f, tfr_flow_arg(f, v, 0).value)->module == TFR_M_ACT;
    return tfr_match_is_activation(f, v);
}

static sibling_role role_as_argument(const tfr_flow *f, tfr_value user, uint32_t a) {
    const tfr_vnode *n = tfr_flow_node(f, user);
    if (n->op == TFR_V_MODULE && a > 0 &&
        tfr_flow_node(f, tfr_flow_arg(f, user, 0).value)->module == TFR_M_LINEAR)
        return ROLE_ADAPTER;
    bool gates = n->op == TFR_V_ATEN && n->name == f->module->words->mul &&
                 is_act(f, tfr_flow_arg(f, user, 1 - (a & 1u)).value);
    return gates || is_act(f, user) ? ROLE_MLP : ROLE_PLAIN;
}

// By value: the role that its first use with one gives it.
static uint8_t *find_roles(const tfr_flow *f, tfr_arena *arena) {
    uint8_t *roles = TFR_NEW_ARRAY(arena, uint8_t, f->nodes.count);
    for (uint32_t i = 1; i < f->nodes.count; i++)
        for (uint32_t a = 0; a < f->nodes.items[i].arg_count; a++) {
            tfr_value v = tfr_flow_arg(f, i, a).value;
            if (roles[v] == ROLE_PLAIN)
                roles[v] = (uint8_t)role_as_argument(f, i, a);
        }
    return roles;
}

static bool is_linear_call(const tfr_flow *f, tfr_value v) {
    const tfr_vnode *n = tfr_flow_node(f, v);
    if (n->op != TFR_V_MODULE || n->arg_count != 2 || n->in_call || !n->ast)
        return false;
    if (tfr_flow_node(f, tfr_flow_arg(f, v, 0).value)->module != TFR_M_LINEAR)
        return false;
    return tfr_flow_node(f, tfr_flow_arg(f, v, 1).value)->op != TFR_V_KEYWORD;
}

// A call of a module of the file that is more than an nn.Linear.
static bool is_wrapped_call(tfr_flow *f, tfr_value v) {
    const tfr_vnode *n = tfr_flow_node(f, v);
    if ((n->op != TFR_V_MODULE && n->op != TFR_V_OPAQUE) || n->arg_count < 2 || n->in_call ||
        !n->ast)
        return false;
    tfr_arg given = tfr_flow_arg(f, v, 0); // of a method's call, what it is a method of
    if (given.ast != tfr_tree_field(f->module->scope->tree, n->ast, TFR_F_FUNCTION))
        return false;
    const tfr_vnode *callee = tfr_flow_node(f, given.value);
    return callee->op == TFR_V_ATTR && callee->module == TFR_M_CLASS &&
           tfr_module_wraps_linear(f->module, callee->class_index);
}

static void tell_wrapped(tfr_siblings *s) {
    tfr_flow *f = s->flow;
    tfr_value last = 0;
    for (uint32_t i = 1; i < f->nodes.count; i++) {
        if (!is_wrapped_call(f, i))
            continue;
        uint32_t ast = f->nodes.items[i].ast;
        if (last && tfr_flow_same(f, tfr_flow_arg(f, last, 1).value, tfr_flow_arg(f, i, 1).value))
            *TFR_PUSH(s->arena, &s->apart) = (tfr_apart){
                ast, i,
                "these projections of one input are modules of a class that has an nn.Linear "
                "inside, derives from it or calls F.linear: they would have to be exactly "
                "nn.Linear to be merged"};
        last = i;
    }
}

void tfr_siblings_find(tfr_siblings *s, tfr_flow *flow, const tfr_rule *rule, const bool *used,
                       tfr_arena *arena) {
    *s = (tfr_siblings){
        .flow = flow, .rule = rule, .arena = arena, .roles = find_roles(flow, arena)};
    for (uint32_t i = 1; i < flow->nodes.count; i++)
        if (!used[i] && is_linear_call(flow, i) && s->roles[i] != ROLE_ADAPTER)
            *TFR_PUSH(arena, &s->calls) = i;
    s->seen = TFR_NEW_ARRAY(arena, bool, s->calls.count);
    s->told = TFR_NEW_ARRAY(arena, bool, s->calls.count);
    s->alone = TFR_NEW_ARRAY(arena, bool, s->calls.count);
    tell_wrapped(s);
}

// ---- conditions -------------------------------------------------------------------------------

uint32_t tfr_siblings_statement(const tfr_flow *f, tfr_value call, uint32_t block) {
    uint32_t s = tfr_flow_node(f, call)->statement;
    while (s && f->statements.items[s].block != block)
        s = f->statements.items[s].parent;
    return s;
}

// Whether the names that an expression reads are bound already before a statement.
static bool bound_before(const tfr_flow *f, uint32_t ast, uint32_t statement) {
    const tfr_tree *t = f->module->scope->tree;
    for (uint32_t i = 0; i < f->reads.count; i++) {
        const tfr_version *v = &f->versions.items[f->reads.items[i].version];
        if (tfr_tree_covers(t, ast, f->reads.items[i].ast) && v->statement >= statement &&
            v->kind != TFR_VER_PARAM)
            return false;
    }
    return true;
}

// Names, attributes and constants, compared and combined: evaluating it twice costs nothing.
static bool is_simple(const tfr_tree *t, uint32_t ast) {
    for (uint32_t n = ast; n; n = tfr_tree_walk(t, ast, n, false))
        switch (tfr_tree_kind(t, n)) {
        case TFR_N_IDENTIFIER:
        case TFR_N_ATTRIBUTE:
        case TFR_N_COMPARISON:
        case TFR_N_BOOLEAN:
        case TFR_N_NOT:
        case TFR_N_NONE:
        case TFR_N_TRUE:
        case TFR_N_FALSE:
        case TFR_N_INTEGER:
        case TFR_N_STRING:
        case TFR_N_OTHER:
        case TFR_N_TOKEN:
            break;
        default:
            return false;
        }
    return true;
}

uint32_t tfr_siblings_test(const tfr_flow *f, uint32_t block, tfr_value module,
                           uint32_t statement) {
    const tfr_tree *t = f->module->scope->tree;
    const tfr_block *b = &f->blocks.items[block];
    if (!b->test || !b->test_ast)
        return 0;
    if (tfr_flow_asks_for(f, block, module))
        return TFR_NO_TEST;
    // A name that is bound too late stands for the expression that it was given.
    uint32_t texts[2] = {b->test_ast, tfr_flow_node(f, b->test)->ast};
    for (uint32_t i = 0; i < 2; i++)
        if (texts[i] && is_simple(t, texts[i]) && bound_before(f, texts[i], statement))
            return texts[i];
    return 0;
}

static bool joins(const tfr_flow *f, tfr_value call, uint32_t block, uint32_t statement) {
    tfr_value module = tfr_flow_arg(f, call, 0).value;
    for (uint32_t b = tfr_flow_node(f, call)->block; b != block; b = f->blocks.items[b].parent)
        if (!b || !tfr_siblings_test(f, b, module, statement))
            return false;
    return true;
}

// ---- gathering --------------------------------------------------------------------------------

static void stay_apart(tfr_siblings *s, uint32_t call, const tfr_event *event, const char *reason) {
    tfr_value value = s->calls.items[call];
    uint32_t ast = event ? event->ast : tfr_flow_node(s->flow, value)->ast;
    if (!s->told[call])
        *TFR_PUSH(s->arena, &s->apart) = (tfr_apart){ast, value, reason};
    s->told[call] = true;
}

// The calls from number `first` on that have its input and role, up to the first effect.
static uint32_t collect(tfr_siblings *s, uint32_t first, uint32_t *out) {
    tfr_flow *f = s->flow;
    tfr_value x = tfr_flow_arg(f, s->calls.items[first], 1).value;
    uint32_t count = 0, last = tfr_flow_node(f, s->calls.items[first])->seq;
    for (uint32_t i = first; i < s->calls.count; i++) {
        tfr_value call = s->calls.items[i];
        if (s->seen[i] || s->roles[call] != s->roles[s->calls.items[first]] ||
            !tfr_flow_same(f, tfr_flow_arg(f, call, 1).value, x))
            continue;
        const tfr_event *e = tfr_flow_event_between(f, last, tfr_flow_node(f, call)->seq);
        if (e) {
            stay_apart(s, i, e, tfr_match_obstacle(e));
            break;
        }
        last = tfr_flow_node(f, call)->seq;
        if (tfr_flow_same_at(f, tfr_flow_arg(f, call, 1).value, x, last))
            out[count++] = i;
    }
    return count;
}

static uint32_t block_of(const tfr_siblings *s, uint32_t call) {
    return tfr_flow_node(s->flow, s->calls.items[call])->block;
}

// The outermost block of one of the calls that holds the first; *x: the input as given there.
static uint32_t outermost(const tfr_siblings *s, const uint32_t *calls, uint32_t count,
                          tfr_arg *x) {
    uint32_t block = block_of(s, calls[0]);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t other = block_of(s, calls[i]);
        if (other == block || !tfr_flow_within(s->flow, block, other))
            continue;
        uint32_t statement = tfr_siblings_statement(s->flow, s->calls.items[calls[0]], other);
        tfr_arg given = tfr_flow_arg(s->flow, s->calls.items[calls[i]], 1);
        if (statement && given.ast && bound_before(s->flow, given.ast, statement) &&
            joins(s->flow, s->calls.items[calls[0]], other, statement))
            block = other, *x = given;
    }
    return block;
}

static void gather(tfr_siblings *s, const uint32_t *calls, uint32_t count, tfr_match *m) {
    tfr_flow *f = s->flow;
    m->leaf_count = m->root_count = m->member_count = m->block = 0;
    tfr_arg x = tfr_flow_arg(f, s->calls.items[calls[0]], 1);
    uint32_t block = s->wide ? outermost(s, calls, count, &x) : block_of(s, calls[0]);
    uint32_t statement = tfr_siblings_statement(f, s->calls.items[calls[0]], block);
    m->leaves[m->leaf_count++] = x;
    for (uint32_t i = 0; i < count; i++) {
        tfr_value call = s->calls.items[calls[i]];
        bool here = block_of(s, calls[i]) == block, twice = false;
        if (!here && !(s->wide && statement && joins(f, call, block, statement))) {
            bool inner = tfr_flow_within(f, block_of(s, calls[i]), block);
            stay_apart(s, calls[i], NULL,
                       inner ? "branch: this projection of the same input runs under a condition "
                               "that is made later than the first one runs, or costs to ask: it "
                               "would have to be names, attributes and constants that are known "
                               "before"
                             : "branch: this projection of the same input runs under another "
                               "condition: all would have to run under the same");
            continue;
        }
        for (uint32_t q = 0; q < m->root_count; q++) // one module called twice on one input
            twice |= tfr_flow_same(f, m->roots[q], call);
        if (twice || m->root_count == TFR_MAX_ROOTS)
            continue;
        if (!here)
            m->block = block;
        s->seen[calls[i]] = true;
        m->roots[m->root_count++] = call;
        m->members[m->member_count++] = call;
        m->leaves[m->leaf_count++] = tfr_flow_arg(f, call, 0);
    }
}

// Calls that joined none although another one has their input: not used for the same.
static void tell_roles(tfr_siblings *s) {
    tfr_flow *f = s->flow;
    for (uint32_t i = 0; i < s->calls.count; i++)
        for (uint32_t k = i + 1; k < s->calls.count && s->alone[i]; k++) {
            tfr_value one = s->calls.items[i], other = s->calls.items[k];
            if (s->alone[k] && s->roles[one] != s->roles[other] &&
                tfr_flow_same(f, tfr_flow_arg(f, one, 1).value, tfr_flow_arg(f, other, 1).value))
                stay_apart(s, k, NULL,
                           "one of these projections of one input goes through an activation and "
                           "the other does not: both would have to, or none and neither straight "
                           "into another nn.Linear, since an MLP, adapters and attention are kept "
                           "apart");
        }
}

bool tfr_siblings_next(tfr_siblings *s, tfr_match *out) {
    uint32_t *calls = TFR_NEW_ARRAY(s->arena, uint32_t, s->calls.count);
    for (; s->next < s->calls.count; s->next++) {
        if (s->seen[s->next])
            continue;
        s->wide = true;
        *out = (tfr_match){.rule = s->rule};
        out->members = TFR_NEW_ARRAY(s->arena, tfr_value, TFR_MAX_ROOTS);
        gather(s, calls, collect(s, s->next, calls), out);
        s->alone[s->next] = out->root_count < s->rule->at_least;
        if (s->alone[s->next])
            continue;
        s->next++;
        return true;
    }
    tell_roles(s);
    return false;
}

bool tfr_siblings_narrow(tfr_siblings *s, tfr_match *m) {
    if (!m->block)
        return false;
    uint32_t *calls = TFR_NEW_ARRAY(s->arena, uint32_t, s->calls.count);
    for (uint32_t i = 0; i < s->calls.count; i++)
        for (uint32_t r = 0; r < m->root_count; r++)
            if (s->calls.items[i] == m->roots[r])
                s->seen[i] = false;
    s->wide = false;
    gather(s, calls, collect(s, --s->next, calls), m);
    s->next++;
    return m->root_count >= s->rule->at_least;
}
