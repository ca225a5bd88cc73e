// Sizes spread over a function's graph: values that an elementwise computation ties together share
// one, and modules, views and cuts say what it is. It is taken for granted that two tensors of a
// sum or product have the same width unless one of them is seen to have 1; a mistake there would
// compile a kernel that nothing calls.
#include "rewriter/widths.h"

#include <stdlib.h>

#define TFR_MIXED_WIDTH (-2) // two sizes meet
#define MAX_PASSES 8

typedef enum effect { NOTHING, KEEPS, REDUCES, SIZES, SWAPS, ADDS, CUTS, JOINS } effect;

static effect effect_of(tfr_str name) {
    static const struct {
        const char *name;
        effect what;
    } table[] = {
#define WIDTH(name, what) {name, what},
#include "rewriter/widths.def"
#undef WIDTH
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (tfr_str_eq(name, tfr_str_from(table[i].name)))
            return table[i].what;
    return NOTHING;
}

static const tfr_vnode *node_at(const tfr_widths *w, tfr_value v) {
    return tfr_flow_node(w->flow, v);
}

static tfr_value arg_at(const tfr_widths *w, tfr_value v, uint32_t i) {
    return tfr_flow_arg(w->flow, v, i).value;
}

static tfr_str name_at(const tfr_widths *w, tfr_value v) {
    return tfr_names_text(w->flow->module->names, node_at(w, v)->name);
}

static bool is_named(const tfr_widths *w, tfr_value v, const char *name) {
    return tfr_str_eq(name_at(w, v), tfr_str_from(name));
}

static effect effect_at(const tfr_widths *w, tfr_value v) {
    const tfr_vnode *n = node_at(w, v);
    if (n->op == TFR_V_ATEN)
        return effect_of(name_at(w, v));
    // x.view(*shape, -1) is opaque, but no call of unknown code
    return n->op == TFR_V_OPAQUE && n->name && n->arg_count > 1 && effect_of(name_at(w, v)) == SIZES
               ? SIZES
               : NOTHING;
}

// ---- sizes ------------------------------------------------------------------------------------

static tfr_value root_of(const tfr_widths *w, tfr_value v) {
    while (w->root[v] != v) {
        w->root[v] = w->root[w->root[v]];
        v = w->root[v];
    }
    return v;
}

static void set_size(tfr_widths *w, tfr_value v, int64_t size) {
    tfr_value root = root_of(w, v);
    if (!v || w->size[root] == size || w->size[root] == TFR_MIXED_WIDTH)
        return;
    w->size[root] = w->size[root] == TFR_NO_WIDTH ? size : TFR_MIXED_WIDTH;
    w->changed = true;
}

// Reasons that say nothing of the model.
static const char NO_REASON[] = "the last size of a tensor", NO_FACT[] = "a value of forward";

static void set_fact(tfr_widths *w, tfr_value v, const tfr_fact *fact) {
    if (fact->kind == TFR_FACT_INT && fact->integer > 0)
        set_size(w, v, fact->integer);
    else if (fact->kind == TFR_FACT_UNKNOWN && v && !w->why[root_of(w, v)].len &&
             fact->text.data != NO_REASON && fact->text.data != NO_FACT)
        w->why[root_of(w, v)] = fact->text;
}

static void join(tfr_widths *w, tfr_value a, tfr_value b) {
    if (!a || !b || w->is_one[a] != w->is_one[b])
        return;
    tfr_value x = root_of(w, a), y = root_of(w, b);
    if (x == y)
        return;
    int64_t size = w->size[y];
    w->root[y] = x;
    if (!w->why[x].len)
        w->why[x] = w->why[y];
    if (size != TFR_NO_WIDTH)
        set_size(w, x, size);
}

static int64_t size_of(const tfr_widths *w, tfr_value v) {
    if (!v)
        return TFR_NO_WIDTH;
    if (w->is_one[v])
        return 1;
    int64_t size = w->size[root_of(w, v)];
    return size == TFR_MIXED_WIDTH ? TFR_NO_WIDTH : size;
}

int64_t tfr_widths_last(const tfr_widths *w, tfr_value v, tfr_str *why) {
    *why = TFR_STR("");
    if (!v)
        return TFR_NO_WIDTH;
    if (w->size[root_of(w, v)] == TFR_MIXED_WIDTH)
        *why = TFR_STR("two different sizes that meet in it");
    else
        *why = w->why[root_of(w, v)];
    return size_of(w, v);
}

// ---- values as facts --------------------------------------------------------------------------

static tfr_fact constant(tfr_widths *w, tfr_value v) {
    tfr_str text = name_at(w, v);
    const char *copy = tfr_str_dup(w->facts->arena, text);
    char *end;
    if (tfr_str_eq(text, TFR_STR("None")))
        return (tfr_fact){.kind = TFR_FACT_NONE};
    if (tfr_str_eq(text, TFR_STR("True")) || tfr_str_eq(text, TFR_STR("False")))
        return (tfr_fact){
            .kind = TFR_FACT_BOOL, .integer = text.data[0] == 'T', .number = text.data[0] == 'T'};
    long long value = strtoll(copy, &end, 10);
    if (text.len && !*end)
        return tfr_fact_int(value);
    return tfr_fact_unknown(w->facts, "the literal %.*s", (int)text.len, text.data);
}

static tfr_fact width_fact(tfr_widths *w, tfr_value v) {
    int64_t size = size_of(w, v);
    if (size >= 0)
        return tfr_fact_int(size);
    tfr_str why = v ? w->why[root_of(w, v)] : TFR_STR("");
    return (tfr_fact){.kind = TFR_FACT_UNKNOWN, .text = why.len ? why : tfr_str_from(NO_REASON)};
}

static tfr_fact arithmetic(tfr_widths *w, tfr_value v, uint32_t depth);

static tfr_fact value_fact(tfr_widths *w, tfr_value v, uint32_t depth) {
    const tfr_vnode *n = node_at(w, v);
    tfr_fact unknown = {.kind = TFR_FACT_UNKNOWN, .text = tfr_str_from(NO_FACT)};
    if (!v || depth > 40)
        return unknown;
    switch ((tfr_op)n->op) {
    case TFR_V_CONST:
        return constant(w, v);
    case TFR_V_ATTR: {
        tfr_value object = arg_at(w, v, 0);
        if (w->self && tfr_flow_same(w->flow, object, w->self))
            return tfr_fact_attribute(w->facts, w->instance, n->name);
        tfr_fact inner = value_fact(w, object, depth + 1);
        return tfr_fact_member(w->facts, &inner, name_at(w, v));
    }
    case TFR_V_INDEX: { // x.shape[-1]
        tfr_value shape = arg_at(w, v, 0), key = arg_at(w, v, 1);
        bool last = node_at(w, shape)->op == TFR_V_ATTR && is_named(w, shape, "shape") &&
                    node_at(w, key)->op == TFR_V_CONST && is_named(w, key, "-1");
        return last ? width_fact(w, arg_at(w, shape, 0)) : unknown;
    }
    case TFR_V_ATEN:
        if (is_named(w, v, "size") && n->arg_count == 2 && is_named(w, arg_at(w, v, 1), "-1"))
            return width_fact(w, arg_at(w, v, 0));
        return n->type == TFR_T_TENSOR ? unknown : arithmetic(w, v, depth);
    case TFR_V_COMPARE:
    case TFR_V_BOOL:
    case TFR_V_NOT:
        if (!n->ast || n->in_call)
            return unknown;
        return tfr_fact_eval(w->facts, &(tfr_fact_scope){.instance = w->instance}, n->ast);
    default:
        return unknown;
    }
}

static tfr_fact arithmetic(tfr_widths *w, tfr_value v, uint32_t depth) {
    static const char *const ops[][2] = {{"add", "+"},       {"sub", "-"}, {"mul", "*"},
                                         {"div", "/"},       {"mod", "%"}, {"pow", "**"},
                                         {"floordiv", "//"}, {"neg", "-"}};
    tfr_fact zero = tfr_fact_int(0);
    tfr_fact a = value_fact(w, arg_at(w, v, 0), depth + 1);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!is_named(w, v, ops[i][0]))
            continue;
        if (node_at(w, v)->arg_count != 2)
            return tfr_fact_binary(w->facts, tfr_str_from(ops[i][1]), &zero, &a);
        tfr_fact b = value_fact(w, arg_at(w, v, 1), depth + 1);
        return tfr_fact_binary(w->facts, tfr_str_from(ops[i][1]), &a, &b);
    }
    return (tfr_fact){.kind = TFR_FACT_UNKNOWN, .text = tfr_str_from(NO_FACT)};
}

tfr_fact tfr_widths_fact(tfr_widths *w, tfr_value value) { return value_fact(w, value, 0); }

static bool is_constant(const tfr_widths *w, tfr_value v, const char *text) {
    return v && node_at(w, v)->op == TFR_V_CONST && is_named(w, v, text);
}

// ---- parameters and norms ---------------------------------------------------------------------

static bool is_holder(tfr_str path) {
    return tfr_str_eq(path, TFR_STR("torch.nn.Parameter")) ||
           tfr_str_eq(path, TFR_STR("torch.nn.parameter.Parameter")) ||
           tfr_str_eq(path, TFR_STR("torch.nn.Buffer"));
}

// The call that makes the data: torch.ones(...).
static bool parameter_data(tfr_facts *f, const tfr_fact *parameter, tfr_fact *data) {
    *data = *parameter;
    return !is_holder(tfr_fact_path(f, parameter)) ||
           tfr_fact_argument(f, parameter, 0, "data", data);
}

tfr_fact tfr_parameter_size(tfr_facts *f, const tfr_fact *parameter, uint32_t from_end) {
    static const char *const makers[] = {"torch.ones",  "torch.zeros", "torch.empty",
                                         "torch.randn", "torch.rand",  "torch.full"};
    tfr_fact data, sizes[8], item;
    uint32_t count = 0;
    bool known = false;
    if (parameter->kind == TFR_FACT_UNKNOWN)
        return *parameter;
    if (parameter_data(f, parameter, &data)) {
        tfr_str path = tfr_fact_path(f, &data);
        for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
            known |= tfr_str_eq(path, tfr_str_from(makers[i]));
        bool full = tfr_str_eq(path, TFR_STR("torch.full"));
        for (uint32_t i = 0; known && i < (full ? 1 : 8); i++)
            if (tfr_fact_argument(f, &data, i, i ? NULL : "size", &item))
                sizes[count++] = item;
    }
    const tfr_tree *t = f->module->scope->tree;
    if (count == 1 && sizes[0].kind == TFR_FACT_CODE) { // torch.ones((n, m))
        tfr_kind kind = tfr_tree_kind(t, sizes[0].ast);
        tfr_fact_scope scope = {.instance = sizes[0].instance};
        uint32_t c =
            kind == TFR_N_TUPLE || kind == TFR_N_LIST ? tfr_tree_first(t, sizes[0].ast) : 0;
        for (count = 0; c && count < 8; c = tfr_tree_next(t, c))
            sizes[count++] = tfr_fact_eval(f, &scope, c);
    }
    return count > from_end ? sizes[count - 1 - from_end]
                            : tfr_fact_unknown(f, "how the parameter is made");
}

bool tfr_parameter_is_float32(tfr_facts *f, const tfr_fact *parameter) {
    tfr_fact data, dtype;
    if (!parameter_data(f, parameter, &data) ||
        !tfr_fact_argument(f, &data, UINT32_MAX, "dtype", &dtype))
        return false;
    tfr_str path = tfr_fact_path(f, &dtype);
    return tfr_str_eq(path, TFR_STR("torch.float32")) || tfr_str_eq(path, TFR_STR("torch.float"));
}

bool tfr_norm_of(tfr_norm *out, tfr_facts *f, const tfr_rules *rules, const tfr_fact *module) {
    const tfr_instance *made = tfr_fact_made(f, module);
    if (!made)
        return false;
    tfr_module *owner;
    uint32_t forward;
    if (!tfr_module_forward(f->module, made->class_index, &owner, &forward) ||
        !tfr_rules_is_norm(f->module->ops, f->module, made->class_index))
        return false;
    tfr_flow *flow = tfr_module_flow(owner, forward);
    for (uint32_t i = 0; i < rules->rules.count; i++) {
        const tfr_rule *r = rules->rules.items[i];
        tfr_match match;
        if (r->op != rules->norm_op || r->root_count != 1 || r->refusal.len ||
            !tfr_match_try(&match, r, flow, flow->result, f->arena, NULL) ||
            !tfr_flow_same(flow, match.leaves[0].value, flow->versions.items[2].value))
            continue;
        *out = (tfr_norm){.rule = r};
        for (uint32_t p = 0; p < r->param_count; p++) {
            const tfr_vnode *leaf = tfr_flow_node(flow, match.leaves[p].value);
            if (r->params[p].kind != TFR_P_PARAM)
                continue;
            out->has_weight = true;
            out->weight = leaf->op == TFR_V_ATTR
                              ? tfr_fact_attribute(f, made, leaf->name)
                              : tfr_fact_unknown(f, "a weight that is no attribute");
        }
        return true;
    }
    return false;
}

// ---- what one node says -----------------------------------------------------------------------

static bool keeps_dim(const tfr_widths *w, tfr_value v) {
    return is_constant(w, arg_at(w, v, 1), "-1") && is_constant(w, arg_at(w, v, 2), "True");
}

static bool is_tensor(const tfr_widths *w, tfr_value v) {
    const tfr_vnode *n = node_at(w, v);
    return v && n->type != TFR_T_NUMBER && n->type != TFR_T_OTHER && n->type != TFR_T_TUPLE &&
           n->op != TFR_V_CONST && n->op != TFR_V_GLOBAL && n->op != TFR_V_TUPLE &&
           (n->op != TFR_V_ATTR || n->module == TFR_M_PARAM);
}

// x[..., None]
static bool adds_last(const tfr_widths *w, tfr_value v) {
    tfr_value key = arg_at(w, v, 1);
    const tfr_vnode *n = node_at(w, key);
    return n->op == TFR_V_TUPLE && n->arg_count &&
           is_constant(w, arg_at(w, key, n->arg_count - 1), "None");
}

static bool last_is_one(tfr_widths *w, tfr_value v) {
    const tfr_vnode *n = node_at(w, v);
    if (n->op == TFR_V_ATTR && n->module == TFR_M_PARAM) {
        tfr_fact parameter = value_fact(w, v, 0);
        tfr_fact last = tfr_parameter_size(w->facts, &parameter, 0);
        return last.kind == TFR_FACT_INT && last.integer == 1;
    }
    if (n->op == TFR_V_INDEX)
        return adds_last(w, v);
    switch (effect_at(w, v)) {
    case REDUCES:
        return keeps_dim(w, v);
    case ADDS:
        return is_constant(w, arg_at(w, v, 1), "-1");
    case SIZES:
        return is_constant(w, arg_at(w, v, n->arg_count - 1), "1");
    case KEEPS: {
        bool any = false, all = true;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            if (!is_tensor(w, arg_at(w, v, i)))
                continue;
            any = true;
            all &= w->is_one[arg_at(w, v, i)];
        }
        return any && all;
    }
    default:
        return false;
    }
}

static bool is_float32_path(const tfr_widths *w, tfr_value v) {
    return v && node_at(w, v)->op == TFR_V_GLOBAL && is_named(w, v, "torch.float32");
}

// Whether the value is float32 in a model of another dtype.
static bool stays_float32(tfr_widths *w, tfr_value v) {
    const tfr_vnode *n = node_at(w, v);
    if (n->op == TFR_V_ATTR) {
        tfr_fact parameter = {0};
        if (n->module == TFR_M_PARAM)
            parameter = value_fact(w, v, 0);
        return n->module == TFR_M_PARAM && tfr_parameter_is_float32(w->facts, &parameter);
    }
    if (n->op == TFR_V_ATEN && is_named(w, v, "to")) {
        tfr_value type = arg_at(w, v, 1);
        const tfr_vnode *t = node_at(w, type);
        if (t->op == TFR_V_ATTR && is_named(w, type, "dtype"))
            return w->is_float32[arg_at(w, type, 0)];
        return is_float32_path(w, type);
    }
    if (n->op == TFR_V_ATEN && is_named(w, v, "softmax") && n->arg_count > 2)
        return is_float32_path(w, arg_at(w, v, 2));
    if (n->op == TFR_V_PHI)
        return w->is_float32[arg_at(w, v, 1)] && w->is_float32[arg_at(w, v, 2)];
    if (n->op != TFR_V_ATEN && n->op != TFR_V_INDEX && n->op != TFR_V_ITEM &&
        effect_at(w, v) != SIZES)
        return false;
    bool any = false, several = effect_at(w, v) == KEEPS;
    if (effect_at(w, v) == JOINS) {
        v = arg_at(w, v, 0);
        n = node_at(w, v);
        several = n->op == TFR_V_TUPLE;
    }
    for (uint32_t i = 0; i < (several ? n->arg_count : 1) && i < n->arg_count; i++)
        any |= is_tensor(w, arg_at(w, v, i)) && w->is_float32[arg_at(w, v, i)];
    return any;
}

static void join_module(tfr_widths *w, tfr_value v) {
    const tfr_vnode *callee = node_at(w, arg_at(w, v, 0));
    tfr_value x = arg_at(w, v, 1);
    if (callee->module == TFR_M_ACT || callee->module == TFR_M_RANDOM ||
        callee->module == TFR_M_LAYER_NORM) {
        join(w, v, x);
        return;
    }
    if (callee->module != TFR_M_CLASS && callee->module != TFR_M_PURE)
        return;
    tfr_fact module = value_fact(w, arg_at(w, v, 0), 0);
    tfr_str path = tfr_fact_path(w->facts, &module);
    tfr_norm norm;
    if (tfr_str_eq(path, TFR_STR("torch.nn.RMSNorm")) ||
        tfr_str_eq(path, TFR_STR("torch.nn.Identity"))) {
        join(w, v, x);
    } else if (tfr_norm_of(&norm, w->facts, w->rules, &module)) {
        join(w, v, x);
        if (norm.has_weight) {
            tfr_fact last = tfr_parameter_size(w->facts, &norm.weight, 0);
            set_fact(w, v, &last);
        }
    }
}

// Whether a tensor surely has four dimensions or more, so that transpose(1, 2) leaves the last one
// alone: it comes from a view of that many sizes, `*shape` counted as two.
static bool has_heads(const tfr_widths *w, tfr_value v) {
    for (int i = 0; i < 8; i++) {
        const tfr_vnode *n = node_at(w, v);
        if (n->op == TFR_V_PHI) { // both ways have as many dimensions
            v = arg_at(w, v, 2);
            continue;
        }
        if (effect_at(w, v) != SIZES) {
            bool module = n->op == TFR_V_MODULE || (n->op == TFR_V_OPAQUE && n->arg_count == 2);
            if (!module && effect_at(w, v) != KEEPS)
                return false;
            v = arg_at(w, v, module ? 1 : 0);
            continue;
        }
        uint32_t sizes = 0;
        for (uint32_t a = 1; a < n->arg_count; a++) {
            tfr_value size = arg_at(w, v, a);
            const tfr_vnode *s = node_at(w, size);
            bool splat = s->op == TFR_V_OPAQUE && is_named(w, size, "*");
            if (s->op == TFR_V_TUPLE || (splat && s->arg_count > 1))
                sizes += s->arg_count + splat;
            else
                sizes += splat ? 2 : 1;
        }
        return sizes >= 4;
    }
    return false;
}

static void join_node(tfr_widths *w, tfr_value v) {
    const tfr_vnode *n = node_at(w, v);
    bool call = n->op == TFR_V_MODULE || (n->op == TFR_V_OPAQUE && n->arg_count > 1);
    if (call && effect_at(w, v) != SIZES)
        join_module(w, v);
    if (n->op == TFR_V_INDEX) {
        tfr_value key = arg_at(w, v, 1);
        const tfr_vnode *k = node_at(w, key);
        bool whole = is_constant(w, key, "...");
        for (uint32_t i = 0; k->op == TFR_V_TUPLE && i + 1 < k->arg_count && !whole; i++) {
            tfr_value last = arg_at(w, key, k->arg_count - 1);
            whole = is_constant(w, arg_at(w, key, i), "...") &&
                    node_at(w, last)->op == TFR_V_SLICE &&
                    is_constant(w, arg_at(w, last, 0), "None") &&
                    is_constant(w, arg_at(w, last, 1), "None") &&
                    is_constant(w, arg_at(w, last, 2), "None");
        }
        if (whole)
            join(w, v, arg_at(w, v, 0));
    }
    if (n->op == TFR_V_PHI) {
        tfr_fact condition = value_fact(w, arg_at(w, v, 0), 0);
        int truth = tfr_fact_truth(&condition);
        if (truth >= 0 && is_tensor(w, v))
            join(w, v, arg_at(w, v, truth ? 1 : 2));
    }
    effect what = effect_at(w, v);
    if (what == KEEPS && is_tensor(w, v))
        for (uint32_t i = 0; i < n->arg_count; i++)
            if (is_tensor(w, arg_at(w, v, i)))
                join(w, v, arg_at(w, v, i));
    bool heads = what == SWAPS && is_constant(w, arg_at(w, v, 1), "1") &&
                 is_constant(w, arg_at(w, v, 2), "2") && has_heads(w, arg_at(w, v, 0));
    bool last_two_but_one = what == SWAPS && is_constant(w, arg_at(w, v, 1), "-3") &&
                            is_constant(w, arg_at(w, v, 2), "-2");
    tfr_value dim = what == ADDS ? arg_at(w, v, 1) : 0;
    if (heads || last_two_but_one || is_constant(w, dim, "0") || is_constant(w, dim, "1") ||
        is_constant(w, dim, "-2") || is_constant(w, dim, "-3"))
        join(w, v, arg_at(w, v, 0));
}

// ---- sizes that follow from others ------------------------------------------------------------

static void measure_linear(tfr_widths *w, tfr_value v) {
    tfr_fact module = value_fact(w, arg_at(w, v, 0), 0), in, out;
    if (module.kind == TFR_FACT_UNKNOWN) {
        set_fact(w, arg_at(w, v, 1), &module);
        set_fact(w, v, &module);
    }
    if (tfr_fact_argument(w->facts, &module, 0, "in_features", &in))
        set_fact(w, arg_at(w, v, 1), &in);
    if (tfr_fact_argument(w->facts, &module, 1, "out_features", &out))
        set_fact(w, v, &out);
}

// x.view(a, b) has the sizes as arguments, x.view(shape) a tuple, x.view(*shape, a) both.
static void measure_sizes(tfr_widths *w, tfr_value v) {
    tfr_value last = v;
    for (int i = 0; i < 4; i++) {
        const tfr_vnode *n = node_at(w, last);
        bool tuple = last == v || n->op == TFR_V_TUPLE || n->type == TFR_T_TUPLE;
        if (!tuple || !n->arg_count || (last != v && n->op == TFR_V_ATTR))
            break;
        last = arg_at(w, last, n->arg_count - 1);
    }
    const tfr_vnode *n = node_at(w, last);
    if (n->type == TFR_T_TUPLE || (n->op == TFR_V_OPAQUE && is_named(w, last, "*")))
        return;
    tfr_fact size = value_fact(w, last, 0);
    set_fact(w, v, &size);
}

static void measure_cut(tfr_widths *w, tfr_value v) {
    tfr_value cut = arg_at(w, v, 0);
    if (node_at(w, cut)->op != TFR_V_ATEN || effect_at(w, cut) != CUTS ||
        !is_constant(w, arg_at(w, cut, 2), "-1"))
        return;
    tfr_value sizes = arg_at(w, cut, 1);
    tfr_fact whole = width_fact(w, arg_at(w, cut, 0)), size;
    const tfr_vnode *n = node_at(w, sizes);
    if (n->op == TFR_V_TUPLE) {
        uint32_t index = (uint32_t)strtoul(tfr_str_dup(w->facts->arena, name_at(w, v)), NULL, 10);
        size = value_fact(w, arg_at(w, sizes, index), 0);
    } else {
        size = value_fact(w, sizes, 0);
        if (is_named(w, cut, "chunk"))
            size = tfr_fact_binary(w->facts, TFR_STR("//"), &whole, &size);
    }
    set_fact(w, v, &size);
}

// x[..., start:stop:step]
static void measure_slice(tfr_widths *w, tfr_value v) {
    tfr_value key = arg_at(w, v, 1);
    const tfr_vnode *k = node_at(w, key);
    if (k->op != TFR_V_TUPLE || k->arg_count < 2 || !is_constant(w, arg_at(w, key, 0), "..."))
        return;
    tfr_value slice = arg_at(w, key, k->arg_count - 1);
    if (node_at(w, slice)->op != TFR_V_SLICE)
        return;
    tfr_fact bounds[3];
    for (uint32_t i = 0; i < 3; i++) {
        bounds[i] = value_fact(w, arg_at(w, slice, i), 0);
        if (bounds[i].kind != TFR_FACT_INT && bounds[i].kind != TFR_FACT_NONE) {
            set_fact(w, v, &bounds[i]);
            return;
        }
    }
    int64_t whole = size_of(w, arg_at(w, v, 0));
    int64_t start = bounds[0].integer,
            step = bounds[2].kind == TFR_FACT_INT ? bounds[2].integer : 1;
    bool to_end = bounds[1].kind == TFR_FACT_NONE;
    int64_t stop = to_end ? whole : bounds[1].integer;
    if (whole < 0 && (start < 0 || stop < 0 || to_end || step != 1))
        return;
    start += start < 0 ? whole : 0;
    stop += stop < 0 ? whole : 0;
    stop = whole >= 0 && stop > whole ? whole : stop;
    if (step > 0 && start >= 0 && stop > start)
        set_size(w, v, (stop - start + step - 1) / step);
}

static void measure_join(tfr_widths *w, tfr_value v) {
    tfr_value list = arg_at(w, v, 0), dim = arg_at(w, v, 1);
    const tfr_vnode *n = node_at(w, list);
    if (n->op != TFR_V_TUPLE || !is_constant(w, dim, "-1"))
        return;
    int64_t sum = 0;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        int64_t size = size_of(w, arg_at(w, list, i));
        if (size < 0)
            return;
        sum += size;
    }
    set_size(w, v, sum);
}

static void measure_choice(tfr_widths *w, tfr_value v) {
    int64_t yes = size_of(w, arg_at(w, v, 1)), no = size_of(w, arg_at(w, v, 2));
    if (yes == no && yes > 0)
        set_size(w, v, yes);
}

// F.linear(x, weight), with one matrix of several (experts) as weight too.
static void measure_product(tfr_widths *w, tfr_value v) {
    tfr_value weight = arg_at(w, v, 1);
    if (node_at(w, weight)->op == TFR_V_INDEX)
        weight = arg_at(w, weight, 0);
    const tfr_vnode *n = node_at(w, weight);
    if (n->op != TFR_V_ATTR || n->module != TFR_M_PARAM)
        return;
    tfr_fact parameter = value_fact(w, weight, 0);
    tfr_fact rows = tfr_parameter_size(w->facts, &parameter, 1);
    set_fact(w, v, &rows);
}

static void measure_node(tfr_widths *w, tfr_value v) {
    const tfr_vnode *n = node_at(w, v);
    if (n->op == TFR_V_MODULE && node_at(w, arg_at(w, v, 0))->module == TFR_M_LINEAR)
        measure_linear(w, v);
    else if (n->op == TFR_V_ATTR && n->module == TFR_M_PARAM) {
        tfr_fact parameter = value_fact(w, v, 0);
        tfr_fact last = tfr_parameter_size(w->facts, &parameter, 0);
        set_fact(w, v, &last);
    } else if (n->op == TFR_V_ITEM)
        measure_cut(w, v);
    else if (n->op == TFR_V_INDEX)
        measure_slice(w, v);
    else if (n->op == TFR_V_PHI)
        measure_choice(w, v);
    else if (effect_at(w, v) == SIZES)
        measure_sizes(w, v);
    else if (effect_at(w, v) == JOINS)
        measure_join(w, v);
    else if (n->op == TFR_V_ATEN && is_named(w, v, "linear"))
        measure_product(w, v);
}

void tfr_widths_build(tfr_widths *w, tfr_facts *facts, const tfr_rules *rules, tfr_flow *flow,
                      const tfr_instance *instance, tfr_arena *arena) {
    uint32_t count = flow->nodes.count;
    *w = (tfr_widths){.facts = facts, .rules = rules, .flow = flow, .instance = instance};
    w->root = TFR_NEW_ARRAY(arena, uint32_t, count);
    w->size = TFR_NEW_ARRAY(arena, int64_t, count);
    w->why = TFR_NEW_ARRAY(arena, tfr_str, count);
    w->is_one = TFR_NEW_ARRAY(arena, bool, count);
    w->is_float32 = TFR_NEW_ARRAY(arena, bool, count);
    const tfr_function *f = &flow->module->scope->functions.items[flow->function];
    if (instance && !f->is_static && flow->versions.count > 1 &&
        flow->versions.items[1].kind == TFR_VER_PARAM)
        w->self = flow->versions.items[1].value;
    for (tfr_value v = 0; v < count; v++) {
        w->root[v] = v;
        w->size[v] = TFR_NO_WIDTH;
    }
    for (tfr_value v = 1; v < count; v++) {
        w->is_one[v] = last_is_one(w, v);
        w->is_float32[v] = stays_float32(w, v);
    }
    for (tfr_value v = 1; v < count; v++)
        join_node(w, v);
    w->changed = true;
    for (int pass = 0; pass < MAX_PASSES && w->changed; pass++) {
        w->changed = false;
        for (tfr_value v = 1; v < count; v++)
            measure_node(w, v);
    }
}

bool tfr_widths_is_argument(const tfr_widths *w, tfr_value v) {
    for (;;) {
        const tfr_vnode *n = node_at(w, v);
        bool part = n->op == TFR_V_ITEM || n->op == TFR_V_INDEX || effect_at(w, v) == ADDS;
        if (!part)
            return n->op == TFR_V_PARAM;
        v = arg_at(w, v, 0);
    }
}

// Whether a value is `name` of something, scaled and cast.
static bool is_made_by(const tfr_widths *w, tfr_value v, const char *name) {
    for (int i = 0; i < 8 && effect_at(w, v) == KEEPS; i++) {
        if (is_named(w, v, name))
            return true;
        v = arg_at(w, v, 0);
    }
    return false;
}

tfr_value tfr_widths_tables(const tfr_widths *w) {
    tfr_value result = w->flow->result;
    const tfr_vnode *n = node_at(w, result);
    bool both = n->op == TFR_V_TUPLE && n->arg_count == 2 &&
                is_made_by(w, arg_at(w, result, 0), "cos") &&
                is_made_by(w, arg_at(w, result, 1), "sin");
    return both ? arg_at(w, result, 0) : 0;
}
