// Where a match may stand: its results' expressions, the helper it was seen through, and whether
// everything it takes in happens at one point of the program.
#include "rewriter/sink.h"

static const tfr_tree *tree_of(const tfr_flow *flow) { return flow->module->scope->tree; }

static const tfr_inline *inline_of(const tfr_flow *flow, tfr_value value) {
    uint32_t seq = tfr_flow_node(flow, value)->seq;
    for (uint32_t i = 0; i < flow->inlines.count; i++) {
        const tfr_inline *in = &flow->inlines.items[i];
        if (in->first_seq <= seq && seq < in->end_seq)
            return in;
    }
    return NULL;
}

uint32_t tfr_emit_call(const tfr_flow *flow, tfr_value value) {
    const tfr_inline *in = tfr_flow_node(flow, value)->in_call ? inline_of(flow, value) : NULL;
    return in ? in->call_ast : 0;
}

uint32_t tfr_emit_helper(const tfr_flow *flow, tfr_value value) {
    const tfr_inline *in = tfr_flow_node(flow, value)->in_call ? inline_of(flow, value) : NULL;
    return in && !in->op ? in->function : UINT32_MAX;
}

static bool inside(const tfr_flow *flow, uint32_t ast, uint32_t outer) {
    return ast && outer && tfr_tree_covers(tree_of(flow), outer, ast);
}

static void refuse(tfr_place *p, uint32_t ast, const char *reason) {
    if (p->reason)
        return;
    p->reason = reason;
    p->reason_ast = ast;
}

// The value that a call's text stands for.
static tfr_value value_at(const tfr_flow *flow, uint32_t ast) {
    for (uint32_t i = flow->nodes.count; i-- > 1;)
        if (flow->nodes.items[i].ast == ast)
            return i;
    return 0;
}

// What an expression evaluates to, a name included.
static tfr_value value_of(const tfr_flow *flow, uint32_t ast) {
    for (uint32_t i = 0; i < flow->reads.count; i++)
        if (flow->reads.items[i].ast == ast)
            return flow->versions.items[flow->reads.items[i].version].value;
    return value_at(flow, ast);
}

static bool call_gives_roots(const tfr_flow *flow, const tfr_inline *in, const tfr_match *m) {
    tfr_value value = value_at(flow, in->call_ast);
    if (!value)
        return false;
    if (m->root_count == 1)
        return tfr_flow_same(flow, value, m->roots[0]);
    const tfr_vnode *n = tfr_flow_node(flow, value);
    if (n->op != TFR_V_TUPLE || n->arg_count != m->root_count)
        return false;
    for (uint32_t i = 0; i < m->root_count; i++)
        if (tfr_flow_arg(flow, value, i).value != m->roots[i])
            return false;
    return true;
}

static void find_homes(tfr_place *p, const tfr_flow *flow, const tfr_match *m) {
    const tfr_inline *first =
        tfr_flow_node(flow, m->roots[0])->in_call ? inline_of(flow, m->roots[0]) : NULL;
    if (first) {
        p->home[0] = first->call_ast;
        p->home_count = 1;
        for (uint32_t i = 1; i < m->root_count; i++)
            if (inline_of(flow, m->roots[i]) != first)
                p->home[0] = 0;
        if (!p->home[0] || !call_gives_roots(flow, first, m))
            refuse(p, first->call_ast,
                   "this call returns more than the results, or they come from several calls: it "
                   "would have to be one call that returns them and nothing else");
        return;
    }
    p->home_count = m->root_count;
    for (uint32_t i = 0; i < m->root_count; i++) {
        const tfr_vnode *n = tfr_flow_node(flow, m->roots[i]);
        p->home[i] = n->ast;
        if (n->in_call || !n->ast)
            refuse(p, n->ast,
                   "one of its results is made inside a call, with more around it: it would have "
                   "to be "
                   "an expression of this function");
    }
}

// Which parameter of the helper an argument of its call is; -1: cannot be told.
static int helper_parameter(const tfr_flow *flow, const tfr_place *place, uint32_t argument,
                            int index) {
    const tfr_tree *t = tree_of(flow);
    if (tfr_tree_kind(t, argument) != TFR_N_KEYWORD_ARGUMENT)
        return index;
    tfr_str key = tfr_tree_text(t, tfr_tree_field(t, argument, TFR_F_NAME));
    t = place->via_module->scope->tree;
    uint32_t node = place->via_module->scope->functions.items[place->via].node;
    uint32_t p = tfr_tree_first(t, tfr_tree_field(t, node, TFR_F_PARAMETERS));
    for (int i = 0; p; p = tfr_tree_next(t, p), i++) {
        if (tfr_str_eq(tfr_tree_text(t, tfr_tree_parameter_name(t, p)), key))
            return i;
    }
    return -1;
}

// The rule's keyword that a parameter of the helper is called like; -1: none.
static int rule_keyword(const tfr_flow *flow, const tfr_rule *rule, const tfr_place *place,
                        int parameter) {
    const tfr_tree *t = place->via_module->scope->tree;
    uint32_t node = place->via_module->scope->functions.items[place->via].node;
    uint32_t p = tfr_tree_first(t, tfr_tree_field(t, node, TFR_F_PARAMETERS));
    for (int i = 0; p && i < parameter; i++)
        p = tfr_tree_next(t, p);
    if (!p)
        return -1;
    uint32_t name = tfr_tree_parameter_name(t, p);
    for (uint32_t k = 0; k < rule->keyword_count; k++)
        if (tfr_str_eq(tfr_names_text(flow->module->names, rule->keywords[k]),
                       tfr_tree_text(t, name)))
            return (int)k;
    return -1;
}

// Which of the op's inputs an argument is; -1: a value made by the match itself, as norm(q) is;
// -2: neither.
static int input_of(const tfr_flow *flow, const tfr_match *m, uint32_t value) {
    for (uint32_t l = 0; l < m->leaf_count; l++)
        if (m->leaves[l].ast == value)
            return (int)l;
    tfr_value given = value_of(flow, value);
    for (uint32_t i = 0; i < m->member_count; i++)
        if (given && m->members[i] == given)
            return -1;
    return -2;
}

// The fallback calls the helper with the op's own inputs in their order: the call in the source
// must not have others, or another order.
static void check_helper_call(tfr_place *p, const tfr_flow *flow, const tfr_match *m) {
    const tfr_tree *t = tree_of(flow);
    uint32_t arguments = tfr_tree_field(t, p->home[0], TFR_F_ARGUMENTS);
    int index = 0, leaf_of[TFR_MAX_PARAMS]; // by parameter of the helper; -2: not given here
    for (int i = 0; i < TFR_MAX_PARAMS; i++)
        leaf_of[i] = -2;
    for (uint32_t a = tfr_tree_first(t, arguments); a; a = tfr_tree_next(t, a), index++) {
        bool keyword = tfr_tree_kind(t, a) == TFR_N_KEYWORD_ARGUMENT;
        uint32_t value = tfr_tree_unparen(t, keyword ? tfr_tree_field(t, a, TFR_F_VALUE) : a);
        int parameter = helper_parameter(flow, p, a, index);
        int given = parameter < 0 ? -1 : rule_keyword(flow, m->rule, p, parameter);
        if (given >= 0) {
            p->via_keywords |= 1u << given;
            continue;
        }
        int leaf = input_of(flow, m, value);
        if (leaf == -2 || parameter < 0 || parameter >= TFR_MAX_PARAMS) {
            refuse(
                p, value,
                "the helper gets this argument, which the op does not have: it would have to take "
                "the inputs of the op alone");
            return;
        }
        leaf_of[parameter] = leaf;
    }
    int last = -1;
    bool ended = false;
    for (int i = 0; i < TFR_MAX_PARAMS; i++) {
        if (leaf_of[i] == -2) {
            ended = true;
            continue;
        }
        if (ended || (leaf_of[i] >= 0 && leaf_of[i] < last))
            refuse(p, p->home[0],
                   "this helper takes the inputs in another order than the op: they would have to "
                   "come in its order");
        if (leaf_of[i] >= 0)
            last = leaf_of[i];
    }
}

static uint32_t only_argument(const tfr_tree *t, uint32_t call) {
    uint32_t arguments = tfr_tree_field(t, call, TFR_F_ARGUMENTS);
    uint32_t first = arguments ? tfr_tree_first(t, arguments) : 0;
    bool plain = first && tfr_tree_kind(t, first) != TFR_N_KEYWORD_ARGUMENT;
    return plain && !tfr_tree_next(t, first) ? tfr_tree_unparen(t, first) : 0;
}

// A method or function of one argument that computes what a helper of the reference, of that name
// if one is given, computes of its first one: it can then be called instead.
static bool stands_for_helper(const tfr_flow *flow, const tfr_match *m, const tfr_inline *in,
                              tfr_str name) {
    const tfr_flow *ref = m->rule->flow;
    uint32_t given = only_argument(tree_of(flow), in->call_ast);
    if (!m->map || !given)
        return false;
    tfr_value result = value_at(flow, in->call_ast), argument = value_of(flow, given);
    for (uint32_t i = 0; i < ref->inlines.count; i++) {
        const tfr_tree *t = ref->module->scope->tree;
        uint32_t call = ref->inlines.items[i].call_ast;
        tfr_str callee = tfr_tree_text(t, tfr_tree_field(t, call, TFR_F_FUNCTION));
        if (name.len && !tfr_str_eq(name, callee))
            continue;
        uint32_t first = tfr_tree_first(t, tfr_tree_field(t, call, TFR_F_ARGUMENTS));
        tfr_value their_result = value_at(ref, call);
        tfr_value their_argument = value_of(ref, tfr_tree_unparen(t, first));
        if (their_result && their_argument && m->map[their_result].value == result &&
            tfr_flow_same_at(flow, m->map[their_argument].value, argument, in->first_seq))
            return true;
    }
    return false;
}

static void guard_method(tfr_place *p, const tfr_flow *flow, const tfr_inline *in) {
    uint32_t method = tfr_tree_field(tree_of(flow), in->call_ast, TFR_F_FUNCTION);
    if (p->via_method && p->via_method != method)
        refuse(p, in->call_ast, "its parts are in several methods: they would have to be in one");
    p->via_method = method;
}

static void guard_inner(tfr_place *p, const tfr_inline *in) {
    if (p->inner != UINT32_MAX && p->inner != in->function)
        refuse(p, in->call_ast, "its parts are in several helpers: they would have to be in one");
    p->inner = in->function;
}

// A function that the file imports under its own name from the file beside it that defines it: so
// the guard at run time finds it too. What comes from another package changes on its own.
static bool is_imported(const tfr_flow *flow, const tfr_inline *in) {
    const tfr_names *names = flow->module->names;
    tfr_str callee =
        tfr_tree_text(tree_of(flow), tfr_tree_field(tree_of(flow), in->call_ast, TFR_F_FUNCTION));
    const tfr_binding *b = tfr_scope_lookup(flow->module->scope, tfr_names_find(names, callee));
    if (!b || b->kind != TFR_BIND_IMPORT ||
        in->module->scope->functions.items[in->function].name != b->name)
        return false;
    tfr_str path = tfr_names_text(names, b->path), file = tfr_str_from(in->module->path);
    if (path.data[0] != '.')
        return false;
    path.len -= callee.len + 1; // of ".a.b.callee": ".a.b"
    tfr_str stem = tfr_last_part(path);
    return stem.len && file.len > stem.len + 4 && file.data[file.len - 4 - stem.len] == '/' &&
           memcmp(file.data + file.len - 3 - stem.len, stem.data, stem.len) == 0;
}

static void check_helpers(tfr_place *p, const tfr_flow *flow, const tfr_match *m) {
    const tfr_inline *home = NULL;
    for (uint32_t i = 0; i < flow->inlines.count; i++)
        if (flow->inlines.items[i].call_ast == p->home[0] && p->home_count == 1)
            home = &flow->inlines.items[i];
    bool all_in_op = true;
    const tfr_inline *guarded = NULL;
    for (uint32_t i = 0; i < m->member_count; i++) {
        const tfr_vnode *n = tfr_flow_node(flow, m->members[i]);
        const tfr_inline *in = n->in_call ? inline_of(flow, m->members[i]) : NULL;
        if (!in || !in->op || (home && in != home))
            all_in_op = false;
        if (in && in->op && (in->helper || in->loose))
            guarded = in;
        if (!in || in->op || in == home)
            continue;
        const tfr_function *f = &in->module->scope->functions.items[in->function];
        bool is_function = f->class_index == TFR_NO_CLASS;
        if (in->module != flow->module)
            refuse(p, in->call_ast,
                   "a part of it is inside code of another file: all would have to be in one file");
        else if (is_function && m->rule->inner.len &&
                 stands_for_helper(flow, m, in, m->rule->inner))
            guard_inner(p, in);
        else if (is_function)
            refuse(p, in->call_ast,
                   "a part of it is inside this helper function, which could be replaced at run "
                   "time: the whole of it would have to be there, or none");
        else if (!m->rule->has_fallback || !stands_for_helper(flow, m, in, TFR_STR("")))
            refuse(p, in->call_ast,
                   "a part of it is inside this method, which a subclass could override: the whole "
                   "of it would have to be there, or none");
        else
            guard_method(p, flow, in);
    }
    if (guarded && !all_in_op) // in the larger op nobody would ask whether it was replaced
        refuse(p, guarded->call_ast,
               "a part of it is this call of an op, which names a helper: without the helper it "
               "would be fused");
    if (all_in_op)
        p->reason = ""; // the op's own call
    if (home && !home->op && home->module != flow->module && !is_imported(flow, home))
        refuse(p, home->call_ast, "it is made by code of another file: it would be fused there");
    else if (home && !home->op) {
        const tfr_function *f = &home->module->scope->functions.items[home->function];
        if (f->class_index == TFR_NO_CLASS)
            p->via = home->function, p->via_module = home->module;
        else if (m->rule->has_fallback && stands_for_helper(flow, m, home, TFR_STR("")))
            guard_method(p, flow, home);
        else
            p->reason = ""; // fused in the method, which a subclass elsewhere may override
    }
    if ((p->via != UINT32_MAX) + (p->inner != UINT32_MAX) + (p->via_method != 0) > 1)
        refuse(p, p->home[0],
               "its parts are in a helper and in another one or a method: they would have to be in "
               "one");
    if (p->via != UINT32_MAX)
        check_helper_call(p, flow, m);
}

static bool block_allowed(const tfr_flow *flow, const tfr_match *m, uint32_t block,
                          uint32_t member_block) {
    if (member_block == block)
        return true;
    for (uint32_t i = 0; i < m->member_count; i++) // an if that the pattern has too
        if (tfr_flow_node(flow, m->members[i])->op == TFR_V_PHI)
            return tfr_flow_within(flow, member_block, block);
    return false;
}

#define APART                                                                                      \
    "branch: this condition decides about a part of it and not about the rest: all its parts "     \
    "would have to run under the same conditions"

// The condition under which one of two values is computed and the other is not: its text, else
// that of the second value.
static uint32_t condition_between(const tfr_flow *flow, tfr_value first, tfr_value second) {
    uint32_t blocks[2] = {tfr_flow_node(flow, second)->block, tfr_flow_node(flow, first)->block};
    uint32_t found = 0;
    for (int i = 0; i < 2 && !found; i++)
        for (uint32_t b = blocks[i]; !tfr_flow_within(flow, blocks[1 - i], b);
             b = flow->blocks.items[b].parent)
            if (flow->blocks.items[b].test_ast)
                found = flow->blocks.items[b].test_ast;
    return found ? found : tfr_flow_node(flow, second)->ast;
}

static void check_blocks(tfr_place *p, const tfr_flow *flow, const tfr_match *m) {
    p->block = m->block ? m->block : tfr_flow_node(flow, m->roots[0])->block;
    if (m->block) // with the conditions written out
        return;
    for (uint32_t i = 0; i < m->root_count; i++)
        if (tfr_flow_node(flow, m->roots[i])->block != p->block)
            refuse(p, condition_between(flow, m->roots[0], m->roots[i]), APART);
    for (uint32_t i = 0; i < m->member_count; i++) {
        const tfr_vnode *n = tfr_flow_node(flow, m->members[i]);
        bool metadata = n->op == TFR_V_ATTR; // reading an attribute may happen again anywhere
        if (!metadata && !n->in_call && !block_allowed(flow, m, p->block, n->block))
            refuse(p, condition_between(flow, m->roots[0], m->members[i]), APART);
    }
    for (uint32_t i = 0; i < m->leaf_count; i++) { // what is written out is evaluated always
        const tfr_vnode *n = tfr_flow_node(flow, m->leaves[i].value);
        bool written = m->leaves[i].ast && n->ast == m->leaves[i].ast && n->op != TFR_V_PARAM;
        if (written && !n->in_call && !tfr_flow_within(flow, p->block, n->block))
            refuse(p, condition_between(flow, m->roots[0], m->leaves[i].value),
                   "branch: under this condition alone an input is computed: it would have to be "
                   "computed whenever the rest is");
    }
}

static uint32_t first_statement(const tfr_flow *flow, const tfr_match *m) {
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < m->root_count; i++) {
        uint32_t s = m->block ? tfr_siblings_statement(flow, m->roots[i], m->block)
                              : tfr_flow_node(flow, m->roots[i])->statement;
        if (s < first)
            first = s;
    }
    return first;
}

// act(gate(x)) * up(x): of an op, which gets both as arguments, act comes after up has run.
static bool is_overtaken(const tfr_flow *flow, const tfr_match *m, const tfr_event *e) {
    for (uint32_t i = 0; i < m->member_count; i++) {
        const tfr_vnode *n = tfr_flow_node(flow, m->members[i]);
        if ((n->op == TFR_V_ATEN || n->op == TFR_V_MODULE) && n->seq < e->seq)
            return true;
    }
    return false;
}

static void check_effects(tfr_place *p, const tfr_flow *flow, const tfr_match *m) {
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t i = 0; i < m->member_count + m->leaf_count; i++) {
        bool leaf = i >= m->member_count;
        tfr_arg arg = leaf ? m->leaves[i - m->member_count] : (tfr_arg){m->members[i], 0};
        const tfr_vnode *n = tfr_flow_node(flow, arg.value);
        // A leaf that is written out where it stands moves with the match; a name does not.
        if (leaf && (!arg.ast || n->ast != arg.ast || n->op == TFR_V_PARAM))
            continue;
        if (n->seq < first)
            first = n->seq;
        if (n->seq > last)
            last = n->seq;
    }
    for (uint32_t i = 0; i < flow->events.count; i++) {
        const tfr_event *e = &flow->events.items[i];
        if (e->seq <= first || e->seq >= last)
            continue;
        // An effect inside an argument moves along with it, if at all: to the first statement.
        bool in_leaf = false;
        for (uint32_t k = 0; k < m->leaf_count; k++)
            in_leaf |= inside(flow, e->ast, m->leaves[k].ast);
        if (in_leaf && !is_overtaken(flow, m, e) &&
            (p->home_count == 1 || e->statement == first_statement(flow, m)))
            continue;
        refuse(p, e->ast, tfr_match_obstacle(e));
    }
}

// Nothing may be added before a statement whose home runs more than once, or only sometimes.
static void check_statements(tfr_place *p, const tfr_flow *flow, const tfr_match *m) {
    if (p->home_count == 1)
        return;
    for (uint32_t i = 0; i < m->root_count; i++) {
        const tfr_vnode *n = tfr_flow_node(flow, m->roots[i]);
        if (m->block ? !tfr_siblings_statement(flow, m->roots[i], m->block)
                     : flow->statements.items[n->statement].block != p->block)
            refuse(p, n->ast,
                   "branch: this runs only under a condition inside its statement: it would have "
                   "to run whenever the statement does");
    }
}

static void check_surroundings(tfr_place *p, const tfr_flow *flow) {
    const tfr_tree *t = tree_of(flow);
    for (uint32_t i = 0; i < p->home_count; i++)
        for (uint32_t n = p->home[i]; n; n = t->nodes[n].parent)
            if (tfr_tree_kind(t, n) == TFR_N_STRING)
                refuse(p, p->home[i],
                       "this stands inside an f-string: it would have to be computed before");
    // Results of one call are bound together: a handler would miss the first when the second
    // raises.
    for (uint32_t b = p->block; b && p->home_count > 1; b = flow->blocks.items[b].parent)
        if (flow->blocks.items[b].guarded)
            refuse(p, p->home[0],
                   "an exception between its parts could be seen by the try or with around it: "
                   "they would have to be outside");
}

void tfr_emit_place(tfr_place *out, const tfr_flow *flow, const tfr_match *match) {
    *out = (tfr_place){.via = UINT32_MAX, .inner = UINT32_MAX};
    uint32_t function = flow->module->scope->functions.items[flow->function].node;
    uint32_t cause = inside(flow, flow->unfit_ast, function) // not a decorator, or another's name
                         ? flow->unfit_ast
                         : tfr_flow_node(flow, match->roots[0])->ast;
    if (flow->unfit)
        refuse(out, cause, flow->unfit);
    for (uint32_t i = 0; i < match->member_count; i++)
        if (tfr_sink_is_joined(flow, match->members[i]))
            refuse(out, cause,
                   "branch: the sum is made before a branch and in it, or in both; to be made "
                   "behind it, it would have to be one statement `x = a + b` of the same names on "
                   "both "
                   "ways, and no other code may read it there");
    find_homes(out, flow, match);
    if (out->home[0])
        check_helpers(out, flow, match);
    check_blocks(out, flow, match);
    check_effects(out, flow, match);
    check_statements(out, flow, match);
    check_surroundings(out, flow);
}
