// The rewritten text is read like any file: a kernel is needed where a call `tfr.<op>(...)` stands,
// once for each way in which its class is made. So a file rewritten before gives the same answer.
#define _GNU_SOURCE // memmem
#include "rewriter/manifest.h"

#include "rewriter/widths.h"

#define MAX_CALL_ARGS 16u
#define MAX_CALL_KEYWORDS 8u

typedef struct op_call {
    uint32_t ast, function;
    tfr_str op;
    uint32_t line; // of the source as given
    const tfr_rule *rule;
    const tfr_kernel_op *kernel;
    tfr_op_reference reference;
    uint32_t positional[MAX_CALL_ARGS], count; // nodes
    uint32_t keywords[MAX_CALL_KEYWORDS], keyword_count;
} op_call;

typedef struct reader {
    tfr_manifest *out;
    const tfr_manifest_options *options;
    const tfr_rules *rules;
    tfr_arena *keep;    // of the result
    tfr_arena *arena;   // of this file
    tfr_arena *scratch; // of one function of one instance
    tfr_source source;  // rewritten
    tfr_tree tree;
    tfr_names names;
    tfr_scope scope;
    tfr_module module;
    tfr_facts facts;
    tfr_value *value_of; // by syntax node
    TFR_LIST(op_call) calls;
    bool float32_tables; // the file makes cosines and sines, in float32 whatever the model is
} reader;

// ---- what cannot be told ----------------------------------------------------------------------

static tfr_str kept(reader *r, tfr_str text) {
    return (tfr_str){tfr_str_dup(r->keep, text), text.len};
}

static void add_unmet(reader *r, const op_call *c, tfr_str reason) {
    const tfr_function *f = &r->scope.functions.items[c->function];
    tfr_str cls = TFR_STR("");
    if (f->class_index != TFR_NO_CLASS)
        cls = tfr_names_text(&r->names, r->scope.classes.items[f->class_index].name);
    for (uint32_t i = 0; i < r->out->unmet.count; i++) {
        const tfr_unmet *u = &r->out->unmet.items[i];
        if (u->line == c->line && tfr_str_eq(u->op, c->op) && tfr_str_eq(u->reason, reason) &&
            tfr_str_eq(u->class_name, cls))
            return;
    }
    *TFR_PUSH(r->keep, &r->out->unmet) =
        (tfr_unmet){.op = kept(r, c->op),
                    .class_name = kept(r, cls),
                    .function = kept(r, tfr_names_text(&r->names, f->name)),
                    .line = c->line,
                    .reason = kept(r, reason)};
}

static bool unmet(reader *r, const op_call *c, const char *what, tfr_str why) {
    tfr_str reason = why.len ? tfr_str_format(r->arena, "%s: %.*s", what, (int)why.len, why.data)
                             : tfr_str_from(what);
    add_unmet(r, c, reason);
    return false;
}

// ---- calls ------------------------------------------------------------------------------------

static tfr_value value_at(const reader *r, uint32_t ast) {
    return ast ? r->value_of[tfr_tree_unparen(&r->tree, ast)] : 0;
}

// Notes which value each expression of a function has.
static void note_values(reader *r, const tfr_flow *flow) {
    for (tfr_value v = 1; v < flow->nodes.count; v++)
        if (flow->nodes.items[v].ast)
            r->value_of[flow->nodes.items[v].ast] = v;
    for (uint32_t i = 0; i < flow->reads.count; i++)
        r->value_of[flow->reads.items[i].ast] =
            flow->versions.items[flow->reads.items[i].version].value;
}

static const tfr_rule *rule_of(const reader *r, tfr_name op, const tfr_op_reference *ref) {
    for (uint32_t i = 0; i < r->rules->rules.count; i++) {
        const tfr_rule *rule = r->rules->rules.items[i];
        if (rule->refusal.len || rule->op != op)
            continue;
        if (ref->siblings ? rule->siblings
                          : rule->module == ref->module && rule->function == ref->function)
            return rule;
    }
    return NULL;
}

// Reads the arguments and finds the reference that they select; false: this call has no kernel.
static bool read_call(reader *r, op_call *c) {
    const tfr_tree *t = &r->tree;
    tfr_flow *flow = tfr_module_flow(&r->module, c->function);
    tfr_name names[MAX_CALL_KEYWORDS], literals[MAX_CALL_KEYWORDS];
    note_values(r, flow);
    uint32_t arguments = tfr_tree_field(t, c->ast, TFR_F_ARGUMENTS);
    for (uint32_t a = tfr_tree_first(t, arguments); a; a = tfr_tree_next(t, a)) {
        tfr_kind kind = tfr_tree_kind(t, a);
        if (kind == TFR_N_LIST_SPLAT || kind == TFR_N_DICT_SPLAT || c->count == MAX_CALL_ARGS ||
            c->keyword_count == MAX_CALL_KEYWORDS)
            return unmet(r, c, "its arguments cannot be read", TFR_STR(""));
        if (kind != TFR_N_KEYWORD_ARGUMENT) {
            c->positional[c->count++] = a;
            continue;
        }
        uint32_t value = tfr_tree_field(t, a, TFR_F_VALUE);
        tfr_name name =
            tfr_names_add(&r->names, tfr_tree_text(t, tfr_tree_field(t, a, TFR_F_NAME)));
        if (name == r->module.words->via || name == r->module.words->inner)
            continue;
        names[c->keyword_count] = name;
        literals[c->keyword_count] = tfr_flow_node(flow, value_at(r, value))->name;
        c->keywords[c->keyword_count++] = value;
    }
    tfr_name op = tfr_names_find(&r->names, c->op);
    c->reference = tfr_rules_reference(tfr_rules_as_ops(r->rules), op, c->count, names, literals,
                                       c->keyword_count);
    c->rule = rule_of(r, op, &c->reference);
    if (!c->rule || (!c->reference.module && !c->reference.siblings))
        return unmet(r, c, "no reference of the op takes these arguments", TFR_STR(""));
    tfr_str variant = tfr_names_text(
        &r->rules->names, c->rule->module->scope->functions.items[c->rule->function].name);
    c->kernel = tfr_kernels_find(r->options->kernels, c->op, variant, c->count - 1);
    return c->kernel != NULL;
}

static void find_calls(reader *r) {
    static const char prefix[] = "tfrewrite.ops.";
    const size_t n = sizeof prefix - 1;
    for (uint32_t ast = 1; ast < r->tree.count; ast++) {
        if (tfr_tree_kind(&r->tree, ast) != TFR_N_CALL)
            continue;
        uint32_t callee = tfr_tree_field(&r->tree, ast, TFR_F_FUNCTION);
        tfr_kind kind = tfr_tree_kind(&r->tree, callee);
        if (kind != TFR_N_ATTRIBUTE && kind != TFR_N_IDENTIFIER)
            continue;
        tfr_name path = tfr_module_path(&r->module, &r->names, callee);
        tfr_str text = path ? tfr_names_text(&r->names, path) : TFR_STR("");
        uint32_t function = tfr_fact_function(&r->facts, ast);
        if (text.len <= n || memcmp(text.data, prefix, n) != 0 || function == UINT32_MAX)
            continue;
        op_call c = {.ast = ast, .function = function, .op = {text.data + n, text.len - n}};
        uint32_t column;
        tfr_source_position(&r->source, r->tree.nodes[ast].start, &c.line, &column);
        if (tfr_rules_has_op(r->rules, c.op))
            *TFR_PUSH(r->arena, &r->calls) = c;
    }
}

// The lines of the source as given: the report has one for each call that was put in.
static void restore_lines(reader *r, const tfr_report *report) {
    for (uint32_t i = 0; i < r->calls.count; i++) {
        op_call *c = &r->calls.items[i];
        const tfr_function *f = &r->scope.functions.items[c->function];
        tfr_str cls = TFR_STR("");
        if (f->class_index != TFR_NO_CLASS)
            cls = tfr_names_text(&r->names, r->scope.classes.items[f->class_index].name);
        tfr_str function = tfr_names_text(&r->names, f->name);
        uint32_t order = 0;
        for (uint32_t k = 0; k < i; k++)
            order += r->calls.items[k].function == c->function &&
                     tfr_str_eq(r->calls.items[k].op, c->op);
        for (size_t k = 0; k < report->fused.count; k++) {
            const tfr_fused *fused = &report->fused.items[k];
            if (!tfr_str_eq(fused->op, c->op) || !tfr_str_eq(fused->class_name, cls) ||
                !tfr_str_eq(fused->function, function))
                continue;
            if (order < fused->count) {
                c->line = fused->line;
                break;
            }
            order -= fused->count;
        }
    }
}

// ---- one need ---------------------------------------------------------------------------------

typedef struct maker {
    reader *r;
    const op_call *call;
    tfr_widths *widths;
    const tfr_instance *instance;
    tfr_need_dtype dtype; // of the model
    tfr_need need;
    tfr_need_tensor tensors[TFR_MAX_PARAMS + 2 * TFR_MAX_SIBLINGS];
    uint32_t argument; // next of the kernel's
    int32_t norm;      // number of the norm's reference; -1: none yet
    tfr_str act;
    // A bias that depends on what is not known is tried both ways, if it is one condition.
    tfr_str open_bias;
    bool has_open_bias, assume_bias;
} maker;

static bool give_up(maker *m, const char *what, tfr_str why) {
    return unmet(m->r, m->call, what, why);
}

static uint32_t argument_ast(const op_call *c, tfr_name parameter) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->reference.positional[i] == parameter)
            return c->positional[i];
    for (uint32_t i = 0; i < c->keyword_count; i++)
        if (c->reference.keywords[i] == parameter)
            return c->keywords[i];
    return 0;
}

// Adds the next tensor of the kernel. `last` unknown is a reason to give up where it is compiled
// in.
static bool add_tensor(maker *m, tfr_need_dtype dtype, int64_t last, tfr_str why) {
    const tfr_kernel_argument *a = &m->call->kernel->arguments[m->argument++];
    tfr_need_tensor *t = &m->tensors[m->need.tensor_count++];
    bool wide = a->specialize && dtype != TFR_NEED_ABSENT;
    *t = (tfr_need_tensor){a->name, dtype, wide ? last : -1};
    if (wide && last < 0)
        return give_up(
            m, tfr_str_format(m->r->arena, "the last size of %s is not known", a->name).data,
            why.len ? why : TFR_STR("it does not follow from the modules of its class"));
    return true;
}

static bool add_value(maker *m, uint32_t ast, tfr_str parameter) {
    tfr_value value = value_at(m->r, ast);
    tfr_str why;
    int64_t last = tfr_widths_last(m->widths, value, &why);
    bool wide = m->dtype == TFR_NEED_F32 || (value && m->widths->is_float32[value]);
    // Tables come from a module that the caller runs: from the one of this file, most likely.
    if (tfr_str_eq(parameter, TFR_STR("cos")) || tfr_str_eq(parameter, TFR_STR("sin")))
        wide |= value && m->r->float32_tables && tfr_widths_is_argument(m->widths, value);
    return add_tensor(m, wide ? TFR_NEED_F32 : m->dtype, last, why);
}

static int64_t known_size(const tfr_fact *fact, tfr_str *why) {
    *why = fact->kind == TFR_FACT_UNKNOWN ? fact->text : TFR_STR("");
    return fact->kind == TFR_FACT_INT && fact->integer >= 0 ? fact->integer : -1;
}

static bool add_linear(maker *m, uint32_t ast) {
    tfr_facts *f = &m->r->facts;
    tfr_fact module = tfr_widths_fact(m->widths, value_at(m->r, ast)), in = {0}, out = {0}, bias;
    if (!tfr_str_eq(tfr_fact_path(f, &module), TFR_STR("torch.nn.Linear")))
        return give_up(m, "a projection is not known",
                       module.kind == TFR_FACT_UNKNOWN ? module.text
                                                       : TFR_STR("it is no nn.Linear"));
    (void)tfr_fact_argument(f, &module, 0, "in_features", &in);
    (void)tfr_fact_argument(f, &module, 1, "out_features", &out);
    int truth = 1; // the default
    if (tfr_fact_argument(f, &module, 2, "bias", &bias)) {
        truth = tfr_fact_truth(&bias);
        tfr_str reason = bias.kind == TFR_FACT_UNKNOWN ? bias.text : TFR_STR("its value");
        if (truth < 0 && m->has_open_bias && !tfr_str_eq(m->open_bias, reason))
            return give_up(m, "the biases are not known", reason);
        if (truth < 0) {
            m->has_open_bias = true;
            m->open_bias = reason;
            truth = m->assume_bias;
        }
    }
    tfr_str why;
    int64_t last = known_size(&in, &why);
    if (!add_tensor(m, m->dtype, last, why))
        return false;
    last = known_size(&out, &why);
    return add_tensor(m, truth ? m->dtype : TFR_NEED_ABSENT, last, why);
}

static bool add_norm(maker *m, uint32_t ast) {
    tfr_facts *f = &m->r->facts;
    tfr_fact module = tfr_widths_fact(m->widths, value_at(m->r, ast));
    tfr_norm norm;
    if (module.kind == TFR_FACT_UNKNOWN)
        return give_up(m, "the norm is not known", module.text);
    if (!tfr_norm_of(&norm, f, m->r->rules, &module))
        return give_up(m, "the norm is not one of this file", TFR_STR(""));
    if (m->norm >= 0 && m->norm != (int32_t)norm.rule->order)
        return give_up(m, "its norms are of two kinds", TFR_STR(""));
    m->norm = (int32_t)norm.rule->order;
    tfr_fact last = {0};
    tfr_need_dtype dtype = TFR_NEED_ABSENT;
    if (norm.has_weight) {
        last = tfr_parameter_size(f, &norm.weight, 0);
        dtype = tfr_parameter_is_float32(f, &norm.weight) ? TFR_NEED_F32 : m->dtype;
    }
    tfr_str why;
    int64_t size = known_size(&last, &why);
    if (!add_tensor(m, dtype, size, why))
        return false;
    m->argument += 2; // eps, variant
    return true;
}

// nn.LayerNorm(size, eps, elementwise_affine=True, bias=True)
static bool add_layer_norm(maker *m, uint32_t ast) {
    tfr_facts *f = &m->r->facts;
    tfr_fact module = tfr_widths_fact(m->widths, value_at(m->r, ast)), given;
    if (!tfr_str_eq(tfr_fact_path(f, &module), TFR_STR("torch.nn.LayerNorm")))
        return give_up(m, "the norm is not known",
                       module.kind == TFR_FACT_UNKNOWN ? module.text
                                                       : TFR_STR("it is no nn.LayerNorm"));
    int affine = 1, bias = 1;
    if (tfr_fact_argument(f, &module, 2, "elementwise_affine", &given))
        affine = tfr_fact_truth(&given);
    if (tfr_fact_argument(f, &module, 3, "bias", &given))
        bias = tfr_fact_truth(&given);
    if (affine < 0 || bias < 0)
        return give_up(m, "whether the norm has a bias is not known", given.text);
    tfr_need_dtype dtype = affine ? m->dtype : TFR_NEED_ABSENT;
    (void)add_tensor(m, dtype, -1, TFR_STR(""));
    (void)add_tensor(m, bias ? dtype : TFR_NEED_ABSENT, -1, TFR_STR(""));
    m->argument += 2; // eps, size
    return true;
}

static tfr_str act_by_path(tfr_str path) {
    static const struct {
        const char *path, *name;
    } table[] = {
#define ACT_KEY(key, name)
#define ACT_PATH(path, name) {path, name},
#include "rewriter/act_names.def"
#undef ACT_KEY
#undef ACT_PATH
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (tfr_str_eq(path, tfr_str_from(table[i].path)))
            return tfr_str_from(table[i].name);
    return TFR_STR("");
}

static tfr_str act_by_key(tfr_str key) {
    static const struct {
        const char *key, *name;
    } table[] = {
#define ACT_KEY(key, name) {key, name},
#define ACT_PATH(path, name)
#include "rewriter/act_names.def"
#undef ACT_KEY
#undef ACT_PATH
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (tfr_str_eq(key, tfr_str_from(table[i].key)))
            return tfr_str_from(table[i].name);
    return TFR_STR("");
}

static bool is_table(tfr_str path, const char *name) {
    size_t n = strlen(name);
    return path.len >= n && memcmp(path.data + path.len - n, name, n) == 0;
}

static bool add_act(maker *m, uint32_t ast) {
    tfr_facts *f = &m->r->facts;
    m->argument++;
    uint32_t node = tfr_tree_unparen(&m->r->tree, ast);
    tfr_fact act = tfr_widths_fact(m->widths, value_at(m->r, ast)), key = {0};
    tfr_fact_scope scope = {.instance = m->instance};
    if (act.kind != TFR_FACT_CODE) // F.silu itself
        act = tfr_fact_eval(f, &scope, node);
    if (act.kind == TFR_FACT_UNKNOWN)
        return give_up(m, "the activation is not known", act.text);
    tfr_str path = tfr_fact_path(f, &act);
    if (is_table(path, "activations.get_activation")) {
        (void)tfr_fact_argument(f, &act, 0, NULL, &key);
    } else if (act.kind == TFR_FACT_CODE && is_table(path, "activations.ACT2FN")) {
        uint32_t subscript = tfr_tree_field(&m->r->tree, act.ast, TFR_F_SUBSCRIPT);
        scope.instance = act.instance;
        if (subscript)
            key = tfr_fact_eval(f, &scope, subscript);
    } else {
        m->act = act_by_path(path);
        tfr_fact how;
        bool tanh = tfr_fact_argument(f, &act, 0, "approximate", &how) &&
                    how.kind == TFR_FACT_TEXT && tfr_str_eq(how.text, TFR_STR("tanh"));
        if (tanh && tfr_str_eq(path, TFR_STR("torch.nn.GELU")))
            m->act = TFR_STR("GELU_TANH");
        return m->act.len || give_up(m, "the activation has no kernel", path);
    }
    if (key.kind != TFR_FACT_TEXT)
        return give_up(m, "the activation is not known",
                       key.kind == TFR_FACT_UNKNOWN ? key.text : TFR_STR("its name is no string"));
    m->act = act_by_key(key.text);
    return m->act.len || give_up(m, "the activation has no kernel", key.text);
}

static bool add_parameter(maker *m, uint32_t parameter, uint32_t ast) {
    const tfr_rule *rule = m->call->rule;
    switch (rule->params[parameter].kind) {
    case TFR_P_TENSOR:
    case TFR_P_PARAM:
        return add_value(m, ast, tfr_names_text(&m->r->rules->names, rule->params[parameter].name));
    case TFR_P_LINEAR:
        return add_linear(m, ast);
    case TFR_P_LAYER_NORM:
        return add_layer_norm(m, ast);
    case TFR_P_NORM:
        return add_norm(m, ast);
    case TFR_P_ACT:
        return add_act(m, ast);
    case TFR_P_SCALAR:
    case TFR_P_CONST:
    case TFR_P_INT:
        m->argument++;
        return true;
    }
    return false;
}

static bool add_parameters(maker *m) {
    const op_call *c = m->call;
    const tfr_rule *rule = c->rule;
    m->argument = 0;
    m->norm = -1;
    m->need = (tfr_need){.op = c->kernel};
    if (rule->siblings) {
        for (uint32_t i = 0; i < c->count; i++)
            if (!add_parameter(m, i ? 1 : 0, c->positional[i]))
                return false;
        return true;
    }
    for (uint32_t i = 0; i < rule->param_count; i++)
        if (!add_parameter(m, i, argument_ast(c, rule->params[i].name)))
            return false;
    return true;
}

static bool same_need(const tfr_need *a, const tfr_need *b) {
    if (a->op != b->op || a->tensor_count != b->tensor_count || strcmp(a->options, b->options) != 0)
        return false;
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (a->tensors[i].dtype != b->tensors[i].dtype || a->tensors[i].last != b->tensors[i].last)
            return false;
    return true;
}

static void add_need(maker *m) {
    reader *r = m->r;
    const tfr_kernel_ops *kernels = r->options->kernels;
    tfr_buf options = {.arena = r->arena};
    tfr_buf_format(&options, "%s", m->call->kernel->options);
    if (m->norm >= 0) {
        const char *norm =
            (uint32_t)m->norm < kernels->norm_count ? kernels->norm_options[m->norm] : NULL;
        if (!norm) // its reference runs
            return;
        tfr_buf_format(&options, "%s%s", options.len && *norm ? " " : "", norm);
    }
    if (m->act.len)
        tfr_buf_format(&options, "%sACT=%.*s", options.len ? " " : "", (int)m->act.len,
                       m->act.data);
    m->need.options = tfr_str_dup(r->keep, tfr_buf_str(&options));
    m->need.tensors = m->tensors;
    for (uint32_t i = 0; i < r->out->needs.count; i++)
        if (same_need(&r->out->needs.items[i], &m->need))
            return;
    tfr_need *need = TFR_PUSH(r->keep, &r->out->needs);
    *need = m->need;
    need->tensors = TFR_NEW_ARRAY(r->keep, tfr_need_tensor, m->need.tensor_count);
    memcpy(need->tensors, m->tensors, sizeof *need->tensors * m->need.tensor_count);
}

// The module that an argument of `linears` is in this instance; 0: None. Of a condition that the
// instance does not decide, the way with a module.
static uint32_t given_module(reader *r, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = &r->tree;
    ast = tfr_tree_unparen(t, ast);
    while (tfr_tree_kind(t, ast) == TFR_N_CONDITIONAL) {
        uint32_t yes = tfr_tree_first(t, ast), condition = tfr_tree_next(t, yes);
        uint32_t no = tfr_tree_next(t, condition);
        tfr_fact test = tfr_fact_eval(&r->facts, scope, condition);
        int truth = tfr_fact_truth(&test);
        if (truth < 0)
            truth = tfr_tree_kind(t, yes) != TFR_N_NONE;
        ast = tfr_tree_unparen(t, truth ? yes : no);
    }
    return tfr_fact_eval(&r->facts, scope, ast).kind == TFR_FACT_NONE ? 0 : ast;
}

// The call without the modules that this instance does not have; false: it needs no kernel then.
static bool of_instance(reader *r, op_call *c, const tfr_instance *instance) {
    tfr_fact_scope scope = {.instance = instance};
    uint32_t count = 1, all = c->count;
    for (uint32_t i = 1; i < all; i++) {
        uint32_t module = given_module(r, &scope, c->positional[i]);
        if (module)
            c->positional[count++] = module;
    }
    c->count = count;
    if (count < all && count > c->rule->at_least) {
        tfr_str variant = tfr_names_text(
            &r->rules->names, c->rule->module->scope->functions.items[c->rule->function].name);
        c->kernel = tfr_kernels_find(r->options->kernels, c->op, variant, count - 1);
    }
    return c->kernel && count > c->rule->at_least;
}

static void make_needs(reader *r, const op_call *call, tfr_widths *widths,
                       const tfr_instance *instance) {
    op_call own = *call, *c = &own;
    if (c->rule->siblings && !of_instance(r, c, instance))
        return;
    for (size_t d = 0; d < r->options->dtype_count; d++) {
        maker m = {.r = r,
                   .call = c,
                   .widths = widths,
                   .instance = instance,
                   .dtype = r->options->dtypes[d]};
        if (!add_parameters(&m))
            return;
        add_need(&m);
        if (!m.has_open_bias)
            continue;
        m.assume_bias = true;
        m.has_open_bias = false;
        if (add_parameters(&m))
            add_need(&m);
    }
}

// ---- the file ---------------------------------------------------------------------------------

// The calls of one function, for one way in which its class is made. A call under a condition that
// this instance does not meet needs nothing.
static void read_function(reader *r, uint32_t function, const tfr_instance *instance) {
    tfr_widths widths;
    tfr_fact why;
    tfr_fact_scope scope = {.instance = instance};
    r->scratch = tfr_arena_new();
    tfr_widths_build(&widths, &r->facts, r->rules, tfr_module_flow(&r->module, function), instance,
                     r->scratch);
    for (uint32_t i = 0; i < r->calls.count; i++) {
        const op_call *c = &r->calls.items[i];
        if (c->function == function && c->kernel &&
            tfr_fact_runs(&r->facts, &scope, c->ast, true, &why) != 0)
            make_needs(r, c, &widths, instance);
    }
    tfr_arena_free(r->scratch);
}

// Whether the method that an instance has under that name runs `function`, of a base of its class:
// it is that one, or calls `super().<name>(...)`.
static bool runs(const reader *r, const tfr_instance *instance, const tfr_function *function) {
    const tfr_scope *s = &r->scope;
    const tfr_function *own = tfr_scope_method(s, instance->class_index, function->name);
    if (own == function)
        return true;
    if (!own || !tfr_scope_derives(s, instance->class_index, function->class_index))
        return false;
    tfr_str text = tfr_tree_text(&r->tree, own->node), name = tfr_names_text(&r->names, own->name);
    tfr_str call = tfr_str_format(r->arena, "super().%.*s(", (int)name.len, name.data);
    return memmem(text.data, text.len, call.data, call.len) != NULL;
}

// Looks at what makes cosines and sines in the file. Several that differ: the model's dtype.
static void find_tables(reader *r) {
    bool any = false, all = true;
    r->scratch = tfr_arena_new();
    for (uint32_t f = 0; f < r->scope.functions.count; f++) {
        const tfr_function *function = &r->scope.functions.items[f];
        if (function->class_index == TFR_NO_CLASS || function->name != r->module.words->forward)
            continue;
        tfr_widths widths;
        tfr_widths_build(&widths, &r->facts, r->rules, tfr_module_flow(&r->module, f), NULL,
                         r->scratch);
        tfr_value tables = tfr_widths_tables(&widths);
        any |= tables != 0;
        all &= !tables || widths.is_float32[tables];
    }
    tfr_arena_free(r->scratch);
    r->float32_tables = any && all;
}

static void read_functions(reader *r) {
    const tfr_scope *s = &r->scope;
    find_tables(r);
    for (uint32_t f = 0; f < s->functions.count; f++) {
        const tfr_function *function = &s->functions.items[f];
        bool any = false;
        for (uint32_t i = 0; i < r->calls.count; i++)
            any |= r->calls.items[i].function == f && r->calls.items[i].kernel;
        if (!any)
            continue;
        if (function->class_index == TFR_NO_CLASS)
            read_function(r, f, NULL);
        for (uint32_t i = 0; i < r->facts.instances.count; i++)
            if (function->class_index != TFR_NO_CLASS &&
                runs(r, r->facts.instances.items[i], function))
                read_function(r, f, r->facts.instances.items[i]);
    }
    if (!r->facts.all_found && r->calls.count)
        unmet(r, &r->calls.items[0], "the file makes more modules than are looked at", TFR_STR(""));
}

static void module_init(reader *r) {
    tfr_rules_module(&r->module, r->rules, &r->scope, &r->names, r->arena);
    r->facts = (tfr_facts){.module = &r->module,
                           .config = r->options->config,
                           .config_name = r->options->config_name,
                           .arena = r->arena};
}

static tfr_status read_file(reader *r, const tfr_source *src, tfr_error *err) {
    tfr_result result;
    tfr_status status = tfr_rewrite(&result, src, &r->options->rewrite, r->arena, err);
    if (status == TFR_OK)
        status = tfr_source_from_bytes(&r->source, src->path, result.text, r->arena, err);
    if (status == TFR_OK)
        status = tfr_tree_parse(&r->tree, &r->source, r->arena, err);
    if (status != TFR_OK)
        return status;
    tfr_tree_free(&r->tree); // the flat nodes stay
    tfr_names_init(&r->names, &r->rules->names, r->arena);
    tfr_scope_build(&r->scope, &r->tree, &r->names, r->arena);
    module_init(r);
    r->value_of = TFR_NEW_ARRAY(r->arena, tfr_value, r->tree.count);
    find_calls(r);
    restore_lines(r, &result.report);
    uint32_t with_kernel = 0;
    for (uint32_t i = 0; i < r->calls.count; i++)
        with_kernel += read_call(r, &r->calls.items[i]);
    if (!with_kernel)
        return TFR_OK;
    tfr_facts_find(&r->facts);
    read_functions(r);
    return TFR_OK;
}

tfr_status tfr_manifest_add(tfr_manifest *out, const tfr_source *src,
                            const tfr_manifest_options *options, tfr_arena *arena, tfr_error *err) {
    tfr_arena *own = tfr_arena_new();
    reader *r = TFR_NEW(own, reader);
    r->out = out, r->options = options, r->rules = options->rewrite.rules;
    r->keep = arena, r->arena = own;
    tfr_status status = read_file(r, src, err);
    tfr_arena_free(own);
    return status;
}

void tfr_need_print(tfr_buf *out, const tfr_need *need) {
    static const char *const dtypes[] = {"none", "f32", "bf16", "f16"};
    tfr_buf_format(out, "%s.%s%s%s", need->op->op, need->op->variant, *need->options ? " " : "",
                   need->options);
    for (uint32_t i = 0; i < need->tensor_count; i++) {
        const tfr_need_tensor *t = &need->tensors[i];
        tfr_buf_format(out, " %s:%s", t->name, dtypes[t->dtype + 1]);
        if (t->last >= 0)
            tfr_buf_format(out, "[%lld]", (long long)t->last);
    }
}
