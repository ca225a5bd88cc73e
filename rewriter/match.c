// Backtracking subgraph match. Only `+` and `*` of proven tensors are tried both ways, so the
// number of attempts is bounded by two to the number of those in a pattern; a step limit guards it.
#include "rewriter/match.h"

#define MAX_STEPS 20000
#define FEW_NODES 256 // of a rule; most attempts fail, and need no memory that stays

typedef struct matcher {
    const tfr_rule *rule;
    tfr_flow *flow;
    tfr_arg *map;     // by pattern node
    tfr_value *trail; // pattern nodes bound, in order
    uint32_t trail_count, steps, matched;
    tfr_value root;
    tfr_near *near;
} matcher;

static uint32_t feature_hash(const tfr_vnode *n) { return (n->op * 7u + n->name * 31u) & 63u; }

uint64_t tfr_match_features(const tfr_flow *flow) {
    uint64_t bits = 0;
    for (uint32_t i = 1; i < flow->nodes.count; i++)
        if (flow->nodes.items[i].op == TFR_V_ATEN)
            bits |= 1ull << feature_hash(&flow->nodes.items[i]);
    return bits;
}

bool tfr_match_is_activation(const tfr_flow *flow, tfr_value value) {
    static const char *const names[] = {
#define ACTIVATION(name) name,
#include "rewriter/activations.def"
#undef ACTIVATION
    };
    const tfr_vnode *n = tfr_flow_node(flow, value);
    tfr_str text = tfr_names_text(flow->module->names, n->name);
    for (size_t i = 0; n->op == TFR_V_ATEN && i < sizeof names / sizeof *names; i++)
        if (tfr_str_eq(text, tfr_str_from(names[i])))
            return true;
    return false;
}

bool tfr_match_fits(tfr_flow *flow, tfr_arg arg, tfr_param_kind kind, const char **why) {
    const tfr_vnode *n = tfr_flow_node(flow, arg.value);
    bool is_module = n->module != TFR_M_UNKNOWN && n->module != TFR_M_PARAM;
    switch (kind) {
    case TFR_P_TENSOR:
        *why = "the op takes a tensor here: this would have to be one";
        if (n->op == TFR_V_ATTR && n->module != TFR_M_PARAM && n->type != TFR_T_TENSOR) {
            *why = "the op takes a tensor here: __init__ would have to make this attribute a "
                   "parameter or "
                   "buffer";
            return false;
        }
        return n->op != TFR_V_CONST && !is_module && n->type != TFR_T_NUMBER &&
               n->type != TFR_T_TUPLE && n->type != TFR_T_OTHER;
    case TFR_P_PARAM:
        *why = "this must be a parameter of the module, such as self.weight";
        return (n->op == TFR_V_ATTR || n->op == TFR_V_PARAM) && !is_module &&
               n->type != TFR_T_NUMBER && n->type != TFR_T_OTHER && n->type != TFR_T_TUPLE;
    case TFR_P_SCALAR:
    case TFR_P_INT:
        *why = "this must be a number: a literal, an argument or an attribute of self";
        return (n->op == TFR_V_ATTR || n->op == TFR_V_PARAM || n->op == TFR_V_CONST) &&
               !is_module && n->type != TFR_T_TENSOR && n->type != TFR_T_TUPLE &&
               n->type != TFR_T_OTHER;
    case TFR_P_CONST:
        *why = "this must be a literal";
        return n->op == TFR_V_CONST;
    case TFR_P_LINEAR:
        *why = "this must be an attribute that __init__ makes an nn.Linear";
        return n->op == TFR_V_ATTR && n->module == TFR_M_LINEAR;
    case TFR_P_LAYER_NORM:
        *why = "this must be an attribute that __init__ makes an nn.LayerNorm";
        return n->op == TFR_V_ATTR && n->module == TFR_M_LAYER_NORM;
    case TFR_P_NORM:
        *why = "this must be a module of this file whose forward is one rms_norm";
        return n->op == TFR_V_ATTR && n->module == TFR_M_CLASS && flow->module->ops &&
               tfr_rules_is_norm(flow->module->ops, flow->module, n->class_index);
    case TFR_P_ACT:
        *why = "this must be an activation: ACT2FN[...], an nn activation or a function of F";
        return n->module == TFR_M_ACT;
    }
    return false;
}

const char *tfr_match_obstacle(const tfr_event *event) {
    switch ((tfr_event_kind)event->kind) {
    case TFR_EV_CALL:
        return "this runs between its parts, and is not known to have no effects: it would have to "
               "come before or after all of them, or be a function or class whose code shows that "
               "it has none";
    case TFR_EV_WRITE:
        return "this writes between its parts, maybe to their inputs: it would have to come before "
               "or after all of them";
    case TFR_EV_RETURN:
        return "the function may return here, between its parts: all would have to be computed "
               "before, or all after";
    case TFR_EV_RAISE:
        return "an exception may be raised here, between its parts: all would have to be computed "
               "before, or all after";
    default:
        return "this stands between its parts and may run code of its own (a loop, try, with, "
               "match, import, ...): all would have to be on one side of it";
    }
}

static void note_failure(matcher *m, tfr_value pattern, tfr_value user, const char *why) {
    if (!m->near || m->near->sure || m->matched < m->near->matched)
        return;
    if (m->near->rule && m->matched == m->near->matched)
        return;
    *m->near = (tfr_near){.rule = m->rule,
                          .matched = m->matched,
                          .at = user,
                          .root = m->root,
                          .expected = pattern,
                          .before = m->map[pattern].value,
                          .why = why};
}

static void bind(matcher *m, tfr_value pattern, tfr_arg user) {
    m->map[pattern] = user;
    m->trail[m->trail_count++] = pattern;
    if (tfr_flow_node(m->rule->flow, pattern)->op != TFR_V_PARAM)
        m->matched++;
}

static void undo(matcher *m, uint32_t to) {
    while (m->trail_count > to) {
        tfr_value p = m->trail[--m->trail_count];
        m->map[p] = (tfr_arg){0, 0};
        if (tfr_flow_node(m->rule->flow, p)->op != TFR_V_PARAM)
            m->matched--;
    }
}

// Whether the rule sums over its parameter: nothing but a tensor gets through that, so an attribute
// that does is one.
static bool is_summed(const tfr_flow *rule, tfr_value param) {
    const tfr_words *w = rule->module->words;
    for (tfr_value v = 1; v < rule->nodes.count; v++) {
        const tfr_vnode *n = tfr_flow_node(rule, v);
        bool sums = n->name == w->sum || n->name == w->mean || n->name == w->norm;
        if (n->op != TFR_V_ATEN || !sums)
            continue;
        tfr_value of = tfr_flow_arg(rule, v, 0).value;
        const tfr_vnode *inner = tfr_flow_node(rule, of);
        if (inner->op == TFR_V_ATEN && inner->name == w->pow)
            of = tfr_flow_arg(rule, of, 0).value;
        if (of == param)
            return true;
    }
    return false;
}

static bool match_param(matcher *m, tfr_value pattern, tfr_arg user) {
    for (uint32_t i = 0; i < m->rule->param_count; i++) {
        if (m->rule->params[i].value != pattern)
            continue;
        const char *why = NULL;
        const tfr_vnode *n = tfr_flow_node(m->flow, user.value);
        bool open = m->rule->params[i].kind == TFR_P_TENSOR && n->op == TFR_V_ATTR &&
                    n->module == TFR_M_UNKNOWN && n->type == TFR_T_UNKNOWN;
        if (tfr_match_fits(m->flow, user, m->rule->params[i].kind, &why) ||
            (open && is_summed(m->rule->flow, pattern))) {
            bind(m, pattern, user);
            return true;
        }
        note_failure(m, pattern, user.value, why);
        return false;
    }
    return false;
}

static bool match_node(matcher *m, tfr_value pattern, tfr_arg user);

static bool match_args(matcher *m, tfr_value pattern, tfr_value user) {
    const tfr_vnode *p = tfr_flow_node(m->rule->flow, pattern);
    for (uint32_t i = 0; i < p->arg_count; i++)
        if (!match_node(m, tfr_flow_arg(m->rule->flow, pattern, i).value,
                        tfr_flow_arg(m->flow, user, i)))
            return false;
    return true;
}

// `act(gate)` of the rule against `F.silu(gate)` of the user.
static bool match_function_as_module(matcher *m, tfr_value pattern, tfr_value user) {
    const tfr_vnode *p = tfr_flow_node(m->rule->flow, pattern);
    const tfr_vnode *u = tfr_flow_node(m->flow, user);
    tfr_value callee = tfr_flow_arg(m->rule->flow, pattern, 0).value;
    const tfr_tree *t = m->flow->module->scope->tree;
    if (p->arg_count != 2 || u->arg_count != 1 || !tfr_match_is_activation(m->flow, user) ||
        !u->ast || u->in_call || tfr_tree_kind(t, u->ast) != TFR_N_CALL)
        return false;
    for (uint32_t i = 0; i < m->rule->param_count; i++)
        if (m->rule->params[i].value == callee && m->rule->params[i].kind != TFR_P_ACT)
            return false;
    uint32_t function = tfr_tree_field(t, u->ast, TFR_F_FUNCTION);
    tfr_name path = tfr_module_path(m->flow->module, m->flow->module->names, function);
    tfr_str text = tfr_names_text(m->flow->module->names, path);
    if (text.len < 6 || memcmp(text.data, "torch.", 6) != 0)
        return false;                        // x.sigmoid()
    tfr_value before = m->map[callee].value; // the pattern may call it more than once
    if (before && (tfr_flow_node(m->flow, before)->op != TFR_V_ATEN ||
                   tfr_flow_node(m->flow, before)->name != u->name))
        return false;
    bind(m, pattern, (tfr_arg){user, u->ast});
    if (!before)
        bind(m, callee, (tfr_arg){user, function});
    return match_node(m, tfr_flow_arg(m->rule->flow, pattern, 1).value,
                      tfr_flow_arg(m->flow, user, 0));
}

#define REPEATED                                                                                   \
    "this is computed twice: it would have to be computed once and given a name, since the op "    \
    "takes "                                                                                       \
    "it once, which changes the order in which its gradient is added up"

static bool is_view(const matcher *m, tfr_name name) {
    static const char *const views[] = {"slice",   "select",    "view",      "reshape", "transpose",
                                        "permute", "unsqueeze", "squeeze",   "chunk",   "split",
                                        "expand",  "flatten",   "unflatten", "unbind",  "narrow"};
    tfr_str text = tfr_names_text(m->flow->module->names, name);
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (tfr_str_eq(text, tfr_str_from(views[i])))
            return true;
    return false;
}

static bool same_shape(const tfr_vnode *p, const tfr_vnode *u) {
    return p->op == u->op && p->name == u->name && p->arg_count == u->arg_count;
}

// Whether one value is computed at two places, by more than cuts and views: computed once, its
// gradient would be added up, and rounded, in another order.
static bool is_repeated(const matcher *m, tfr_value first, tfr_value second) {
    const tfr_vnode *a = tfr_flow_node(m->flow, first), *b = tfr_flow_node(m->flow, second);
    return first != second && a->op == TFR_V_ATEN && b->op == TFR_V_ATEN && a->ast != b->ast &&
           !is_view(m, a->name);
}

static bool match_node(matcher *m, tfr_value pattern, tfr_arg user) {
    if (!user.value || ++m->steps > MAX_STEPS)
        return false;
    if (m->map[pattern].value) {
        uint32_t seq = tfr_flow_node(m->flow, m->root)->seq;
        bool same = tfr_flow_same_at(m->flow, m->map[pattern].value, user.value, seq);
        if (!same)
            note_failure(m, pattern, user.value, NULL);
        if (same && is_repeated(m, m->map[pattern].value, user.value)) {
            note_failure(m, pattern, user.value, REPEATED);
            return false;
        }
        return same;
    }
    const tfr_vnode *p = tfr_flow_node(m->rule->flow, pattern);
    if (p->op == TFR_V_PARAM)
        return match_param(m, pattern, user);
    const tfr_vnode *u = tfr_flow_node(m->flow, user.value);
    uint32_t mark = m->trail_count;
    if (p->op == TFR_V_MODULE && u->op == TFR_V_ATEN) {
        if (match_function_as_module(m, pattern, user.value))
            return true;
        undo(m, mark);
    }
    if (!same_shape(p, u)) {
        note_failure(m, pattern, user.value, NULL);
        return false;
    }
    bind(m, pattern, user);
    if (match_args(m, pattern, user.value))
        return true;
    const tfr_words *w = m->flow->module->words;
    bool both_ways =
        p->op == TFR_V_ATEN && p->arg_count == 2 && (p->name == w->add || p->name == w->mul);
    if (both_ways) {
        undo(m, mark);
        bind(m, pattern, user);
        tfr_arg left = tfr_flow_arg(m->flow, user.value, 0);
        tfr_arg right = tfr_flow_arg(m->flow, user.value, 1);
        if (tfr_commutes(tfr_flow_node(m->flow, left.value), tfr_flow_node(m->flow, right.value)) &&
            match_node(m, tfr_flow_arg(m->rule->flow, pattern, 0).value, right) &&
            match_node(m, tfr_flow_arg(m->rule->flow, pattern, 1).value, left))
            return true;
    }
    undo(m, mark);
    return false;
}

// The text of a value, or its operation where it has none.
static tfr_str text_of(const tfr_flow *f, tfr_value value, tfr_arena *arena) {
    const tfr_tree *t = f->module->scope->tree;
    tfr_str text = tfr_tree_quote(t, tfr_flow_node(f, value)->ast, arena);
    return text.len ? tfr_str_format(arena, "`%.*s`", (int)text.len, text.data)
                    : tfr_flow_describe(f, value, arena);
}

tfr_str tfr_match_near_reason(const tfr_near *near, const tfr_flow *flow, tfr_arena *arena) {
    if (near->why)
        return tfr_str_from(near->why);
    if (near->before) {
        tfr_str before = text_of(flow, near->before, arena);
        return tfr_str_format(arena,
                              "the op reads one value in several places, and the code has %.*s in "
                              "one of them and this in another: it would have to be the same "
                              "value, and not be written to in between",
                              (int)before.len, before.data);
    }
    tfr_str want = text_of(near->rule->flow, near->expected, arena), rule = near->rule->label;
    return tfr_str_format(arena,
                          "the nearest reference, %.*s, has %.*s in this place: the code "
                          "would have to compute the same there",
                          (int)rule.len, rule.data, (int)want.len, want.data);
}

// Roots after the first: already met inside the first, or searched among the function's nodes.
static bool match_roots(matcher *m, uint32_t from) {
    for (uint32_t r = from; r < m->rule->root_count; r++) {
        tfr_value root = m->rule->roots[r];
        if (m->map[root].value)
            continue;
        const tfr_vnode *p = tfr_flow_node(m->rule->flow, root);
        for (uint32_t i = 1; i < m->flow->nodes.count; i++) {
            const tfr_vnode *u = &m->flow->nodes.items[i];
            if (u->op != p->op || u->name != p->name)
                continue;
            bool taken = false;
            for (uint32_t k = 0; k < r; k++)
                taken |= m->map[m->rule->roots[k]].value == i;
            uint32_t mark = m->trail_count;
            if (!taken && match_node(m, root, (tfr_arg){i, u->ast}) && match_roots(m, r + 1))
                return true;
            undo(m, mark);
        }
        return false;
    }
    return true;
}

bool tfr_match_try(tfr_match *out, const tfr_rule *rule, tfr_flow *flow, tfr_value root,
                   tfr_arena *arena, tfr_near *near) {
    uint32_t count = rule->flow->nodes.count;
    matcher m = {.rule = rule, .flow = flow, .root = root, .near = near};
    tfr_arg map[FEW_NODES];
    tfr_value trail[FEW_NODES];
    if (count <= FEW_NODES)
        memset(map, 0, count * sizeof *map);
    m.map = count <= FEW_NODES ? map : TFR_NEW_ARRAY(arena, tfr_arg, count);
    m.trail = count <= FEW_NODES ? trail : TFR_NEW_ARRAY(arena, tfr_value, count);
    const tfr_vnode *u = tfr_flow_node(flow, root);
    if (!match_node(&m, rule->roots[0], (tfr_arg){root, u->ast}) || !match_roots(&m, 1))
        return false;
    tfr_arg *kept = TFR_NEW_ARRAY(arena, tfr_arg, count);
    memcpy(kept, m.map, count * sizeof *kept);
    *out = (tfr_match){
        .rule = rule, .root_count = rule->root_count, .leaf_count = rule->param_count, .map = kept};
    for (uint32_t i = 0; i < rule->root_count; i++)
        out->roots[i] = m.map[rule->roots[i]].value;
    for (uint32_t i = 0; i < rule->param_count; i++)
        out->leaves[i] = m.map[rule->params[i].value];
    out->members = TFR_NEW_ARRAY(arena, tfr_value, m.trail_count + 1);
    for (uint32_t i = 0; i < m.trail_count; i++) {
        tfr_op op = (tfr_op)tfr_flow_node(rule->flow, m.trail[i])->op;
        if (op != TFR_V_PARAM && op != TFR_V_CONST && op != TFR_V_GLOBAL)
            out->members[out->member_count++] = m.map[m.trail[i]].value;
    }
    return true;
}

static bool has_member(const tfr_match *m, tfr_value value) {
    for (uint32_t i = 0; i < m->member_count; i++)
        if (m->members[i] == value)
            return true;
    return false;
}

bool tfr_match_narrow(tfr_match *out, const tfr_rule *rule, tfr_flow *flow, const tfr_match *wide,
                      tfr_arena *arena) {
    if (rule->op != wide->rule->op || rule->root_count != 1 || rule->refusal.len ||
        rule->siblings || !tfr_match_try(out, rule, flow, wide->roots[0], arena, NULL))
        return false;
    for (uint32_t r = 1; r < wide->root_count; r++)
        if (!has_member(out, wide->roots[r]))
            return false;
    tfr_match *kept = TFR_NEW(arena, tfr_match);
    *kept = *wide;
    out->wide = kept;
    return true;
}
