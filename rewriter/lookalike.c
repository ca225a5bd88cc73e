// What only looks like a rule's norm of a sum: the norm is of a class that no rule takes, or what
// it reads is a sum on some way, or of another function. Looks at graphs alone.
#include "rewriter/match.h"

#define MAX_WALK 4096 // values of a class's forward looked at

typedef struct walk {
    const tfr_flow *flow;
    tfr_value stack[64];
    uint32_t depth, steps;
} walk;

static bool is_aten(const tfr_flow *flow, tfr_value value, tfr_name name) {
    const tfr_vnode *n = tfr_flow_node(flow, value);
    return n->op == TFR_V_ATEN && n->name == name;
}

// The next value that the first one is computed from, by tensor computations and branches alone.
static tfr_value next_value(walk *w) {
    if (!w->depth || w->steps++ == MAX_WALK)
        return 0;
    tfr_value v = w->stack[--w->depth];
    const tfr_vnode *n = tfr_flow_node(w->flow, v);
    uint32_t from = n->op == TFR_V_PHI ? 1 : 0;
    bool through = n->op == TFR_V_ATEN || n->op == TFR_V_PHI;
    for (uint32_t i = n->arg_count; through && i-- > from;)
        if (tfr_flow_arg(w->flow, v, i).value && w->depth < 64)
            w->stack[w->depth++] = tfr_flow_arg(w->flow, v, i).value;
    return v;
}

static bool is_made_of(const tfr_flow *flow, tfr_value value, tfr_value part) {
    walk w = {.flow = flow, .stack = {value}, .depth = 1};
    for (tfr_value v = next_value(&w); v; v = next_value(&w))
        if (v == part)
            return true;
    return false;
}

// The parameter of a norm rule that such a value of a forward is the heart of.
static bool is_norm_of(const tfr_flow *flow, tfr_value v, tfr_value x, tfr_param_kind *kind) {
    const tfr_vnode *n = tfr_flow_node(flow, v);
    const tfr_words *w = flow->module->words;
    tfr_value first = tfr_flow_arg(flow, v, 0).value;
    *kind = TFR_P_LAYER_NORM;
    if (n->op == TFR_V_MODULE && tfr_flow_node(flow, first)->module == TFR_M_LAYER_NORM)
        return is_made_of(flow, tfr_flow_arg(flow, v, 1).value, x);
    if (n->op == TFR_V_ATEN && n->name == w->layer_norm)
        return is_made_of(flow, first, x);
    if (!is_aten(flow, v, w->mean) || !is_aten(flow, first, w->pow))
        return false;
    walk inner = {.flow = flow, .stack = {tfr_flow_arg(flow, first, 0).value}, .depth = 1};
    *kind = TFR_P_NORM;
    for (tfr_value i = next_value(&inner); i; i = next_value(&inner))
        if (is_aten(flow, i, w->mean)) // of what the mean is taken off: a variance
            *kind = TFR_P_LAYER_NORM;
    return is_made_of(flow, first, x);
}

// Whether a class is a norm of its first argument, with more or less around it.
static bool is_norm_class(tfr_module *module, uint32_t class_index, tfr_param_kind *kind) {
    tfr_module *owner;
    uint32_t forward;
    *kind = TFR_P_LAYER_NORM;
    if (tfr_module_extends(module, class_index, TFR_M_LAYER_NORM))
        return true;
    if (!tfr_module_forward(module, class_index, &owner, &forward))
        return false;
    const tfr_flow *f = tfr_module_flow(owner, forward);
    if (f->unfit || !f->result || f->versions.count < 3 ||
        f->versions.items[2].kind != TFR_VER_PARAM)
        return false;
    walk w = {.flow = f, .stack = {f->result}, .depth = 1};
    for (tfr_value v = next_value(&w); v; v = next_value(&w))
        if (is_norm_of(f, v, f->versions.items[2].value, kind))
            return true;
    return false;
}

// The class of the file by whose name an attribute is made, where the name is also another thing.
static uint32_t doubtful_class(const tfr_flow *flow, tfr_name attribute) {
    const tfr_scope *s = flow->module->scope;
    const tfr_attribute *a = flow->class_index == TFR_NO_CLASS
                                 ? NULL
                                 : tfr_scope_attribute(s, flow->class_index, attribute);
    if (!a || a->times != 1 || tfr_tree_kind(s->tree, a->values[0]) != TFR_N_CALL)
        return TFR_NO_CLASS;
    tfr_str made = tfr_tree_text(s->tree, tfr_tree_field(s->tree, a->values[0], TFR_F_FUNCTION));
    for (uint32_t c = 0; c < s->classes.count; c++)
        if (tfr_str_eq(tfr_names_text(s->names, s->classes.items[c].name), made))
            return flow->module->first_class + c;
    return TFR_NO_CLASS;
}

// Whether a call is of a method or attribute of self that nothing more is known of.
static bool is_on_self(const tfr_flow *flow, tfr_value call) {
    const tfr_vnode *n = tfr_flow_node(flow, tfr_flow_arg(flow, call, 0).value);
    return n->op == TFR_V_PARAM && flow->versions.count > 1 &&
           n->name == flow->versions.items[1].name;
}

static const char *why_no_norm(tfr_flow *flow, tfr_value call, tfr_param_kind wanted) {
    bool doubtful = is_on_self(flow, call);
    const tfr_vnode *n = tfr_flow_node(flow, tfr_flow_arg(flow, call, 0).value);
    uint32_t of = doubtful                   ? doubtful_class(flow, tfr_flow_node(flow, call)->name)
                  : n->module == TFR_M_CLASS ? n->class_index
                                             : TFR_NO_CLASS;
    tfr_param_kind kind;
    if (of == TFR_NO_CLASS || !is_norm_class(flow->module, of, &kind) || kind != wanted)
        return NULL;
    if (doubtful)
        return "the norm is of a class whose name is bound twice or under a condition: it would "
               "have to be one class, whichever way the file is loaded";
    if (kind == TFR_P_NORM)
        return "the norm is of a class whose forward is not one rms_norm alone (a weight or bias "
               "under a condition, another rounding): it would have to be";
    return "the norm is of a class that computes more than nn.LayerNorm does, or less: it would "
           "have to be nn.LayerNorm itself";
}

static bool is_sum(const tfr_flow *flow, tfr_value value) {
    return is_aten(flow, value, flow->module->words->add);
}

// Whether a loop, or another region, was given a sum by the name that it leaves the value in.
static bool is_left_of_sum(const tfr_flow *flow, tfr_value value) {
    for (uint32_t v = 1; v < flow->versions.count; v++) {
        const tfr_version *x = &flow->versions.items[v];
        if (x->kind == TFR_VER_REGION && x->value == value && x->target && x->before &&
            is_sum(flow, flow->versions.items[x->before].value))
            return true;
    }
    return false;
}

// Whether another method of the class gives this one a sum, as the parameter that the value is.
static bool is_sum_of_caller(const tfr_flow *flow, tfr_value value) {
    const tfr_scope *s = flow->module->scope;
    const tfr_function *own = &s->functions.items[flow->function];
    uint32_t p = 2; // behind self
    while (p < flow->versions.count && flow->versions.items[p].value != value)
        p++;
    if (tfr_flow_node(flow, value)->op != TFR_V_PARAM || p == flow->versions.count ||
        flow->class_index == TFR_NO_CLASS || own->name == flow->module->words->forward)
        return false;
    const tfr_class *cls = &s->classes.items[flow->class_index];
    for (uint32_t i = 0; i < cls->function_count; i++) {
        const tfr_flow *g = tfr_module_flow(flow->module, cls->first_function + i);
        for (tfr_value v = 1; v < g->nodes.count; v++) {
            const tfr_vnode *n = tfr_flow_node(g, v);
            bool calls = n->op == TFR_V_OPAQUE && n->name == own->name && is_on_self(g, v);
            for (uint32_t k = 1; calls && k < n->arg_count; k++) {
                tfr_value given = tfr_flow_arg(g, v, k).value;
                const tfr_vnode *keyword = tfr_flow_node(g, given);
                bool named = keyword->op == TFR_V_KEYWORD;
                if (named ? keyword->name == flow->versions.items[p].name &&
                                is_sum(g, tfr_flow_arg(g, given, 0).value)
                          : k == p - 1 && is_sum(g, given))
                    return true;
            }
        }
    }
    return false;
}

// What the norm reads in place of a sum that is given here; NULL: nothing like one; "": the sum.
static const char *why_no_sum(const tfr_flow *flow, tfr_value value, tfr_value *sum) {
    const tfr_vnode *n = tfr_flow_node(flow, value);
    *sum = value;
    if (is_sum(flow, value))
        return "";
    if (n->op == TFR_V_OPAQUE && n->arg_count == 2 &&
        tfr_str_eq(tfr_names_text(flow->module->names, n->name), TFR_STR("+=")))
        return "the sum is made in place, with +=: whoever else holds the tensor sees it; it would "
               "have to be a new one";
    for (uint32_t way = 1; n->op == TFR_V_PHI && way <= 2; way++) {
        *sum = tfr_flow_arg(flow, value, way).value;
        if (is_sum(flow, *sum))
            return "branch: the sum is made on one way of a branch alone; the norm would have to "
                   "be there too";
    }
    *sum = tfr_flow_arg(flow, value, 0).value;
    if (is_aten(flow, value, flow->module->words->to) && is_sum(flow, *sum))
        return "the sum is cast before the norm reads it: the norm would have to read the sum "
               "itself";
    *sum = value;
    if (is_left_of_sum(flow, value))
        return "what the norm reads comes out of a loop, try, with or match that the sum goes "
               "into: the sum would have to be made behind it";
    if (is_sum_of_caller(flow, value))
        return "the sum is made in another method than its norm: both would have to be in one "
               "function";
    return NULL;
}

bool tfr_match_lookalike(tfr_near *out, const tfr_rule *rule, tfr_flow *flow, tfr_value root,
                         const bool *used) {
    const tfr_vnode *p = tfr_flow_node(rule->flow, rule->roots[0]), *n = tfr_flow_node(flow, root);
    tfr_value norm = tfr_flow_arg(rule->flow, rule->roots[0], 0).value, sum;
    tfr_arg callee = tfr_flow_arg(flow, root, 0), x = tfr_flow_arg(flow, root, 1);
    if (p->op != TFR_V_MODULE || p->arg_count != 2 ||
        !is_sum(rule->flow, tfr_flow_arg(rule->flow, rule->roots[0], 1).value) ||
        (n->op != TFR_V_MODULE && n->op != TFR_V_OPAQUE) || n->arg_count < 2)
        return false;
    uint32_t i = 0;
    while (i < rule->param_count && rule->params[i].value != norm)
        i++;
    const char *why = why_no_sum(flow, x.value, &sum), *unfit;
    if (!why || i == rule->param_count)
        return false;
    tfr_value at = x.value;
    if (n->op != TFR_V_MODULE || n->arg_count != 2 ||
        !tfr_match_fits(flow, callee, rule->params[i].kind, &unfit)) {
        why = why_no_norm(flow, root, rule->params[i].kind);
        at = is_on_self(flow, root) ? root : callee.value;
    } else if (used[sum]) {
        why = "the sum that the norm reads is part of another op's call: there is nothing left to "
              "fuse";
    }
    if (why && *why)
        *out = (tfr_near){
            .rule = rule, .matched = 1, .at = at, .root = root, .why = why, .sure = true};
    return why && *why;
}
