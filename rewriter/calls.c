// What a call does: a pure tensor computation, a submodule, a helper of the file that is seen
// through, or unknown code, which is an ordered effect.
#include "rewriter/flow_build.h"

#define MAX_ARGS 64

typedef struct call {
    uint32_t ast, count, keyword_count;
    tfr_arg args[MAX_ARGS], keyword_values[MAX_ARGS];
    tfr_name keywords[MAX_ARGS];
    bool splat; // *args or **kwargs among them
} call;

static const tfr_tree *tree_of(const tfr_builder *b) { return b->frame->module->scope->tree; }
static bool outer(const tfr_builder *b) { return b->frame->depth == 0; }
static const tfr_words *words(const tfr_builder *b) { return b->frame->module->words; }
static tfr_str text_of(const tfr_builder *b, tfr_name name) {
    return tfr_names_text(b->flow->module->names, name);
}

// ---- what modules are -----------------------------------------------------------------------

static const struct {
    const char *path;
    tfr_module_kind kind;
} module_table[] = {
#define MODULE(path, suffix) {path, TFR_M_##suffix},
#include "rewriter/modules.def"
#undef MODULE
};

tfr_name tfr_module_path(const tfr_module *module, tfr_names *names, uint32_t ast) {
    const tfr_tree *t = module->scope->tree;
    ast = tfr_tree_unparen(t, ast);
    if (tfr_tree_kind(t, ast) == TFR_N_IDENTIFIER) {
        tfr_name name = tfr_names_add(names, tfr_tree_text(t, ast));
        const tfr_binding *binding = tfr_scope_lookup(module->scope, name);
        return binding && binding->kind == TFR_BIND_IMPORT ? binding->path : name;
    }
    if (tfr_tree_kind(t, ast) != TFR_N_ATTRIBUTE)
        return 0;
    tfr_name object = tfr_module_path(module, names, tfr_tree_field(t, ast, TFR_F_OBJECT));
    if (!object)
        return 0;
    tfr_str left = tfr_names_text(names, object);
    tfr_str right = tfr_tree_text(t, tfr_tree_field(t, ast, TFR_F_ATTRIBUTE));
    return tfr_names_add(names, tfr_str_format(names->arena, "%.*s.%.*s", (int)left.len, left.data,
                                               (int)right.len, right.data));
}

static bool ends_with(tfr_str text, const char *tail) {
    size_t n = strlen(tail);
    return text.len >= n && memcmp(text.data + text.len - n, tail, n) == 0;
}

static tfr_module_kind kind_of_path(const tfr_module *module, tfr_name path) {
    tfr_str text = tfr_names_text(module->names, path);
    for (size_t i = 0; i < sizeof module_table / sizeof *module_table; i++)
        if (tfr_str_eq(text, tfr_str_from(module_table[i].path)))
            return module_table[i].kind;
    return TFR_M_UNKNOWN;
}

static bool has_inplace(const tfr_tree *t, uint32_t arguments) {
    for (uint32_t n = arguments; n; n = tfr_tree_walk(t, arguments, n, false))
        if (tfr_tree_kind(t, n) == TFR_N_KEYWORD_ARGUMENT &&
            tfr_tree_is(t, tfr_tree_field(t, n, TFR_F_NAME), "inplace"))
            return true;
    return false;
}

static tfr_module_kind kind_of_value(const tfr_module *module, uint32_t ast, uint32_t *of_class) {
    const tfr_tree *t = module->scope->tree;
    ast = tfr_tree_unparen(t, ast);
    switch (tfr_tree_kind(t, ast)) {
    case TFR_N_CALL: {
        uint32_t function = tfr_tree_field(t, ast, TFR_F_FUNCTION);
        uint32_t arguments = tfr_tree_field(t, ast, TFR_F_ARGUMENTS);
        tfr_name path = tfr_module_path(module, module->names, function);
        if (!path)
            return TFR_M_UNKNOWN;
        *of_class = tfr_scope_class(module->scope, path);
        if (*of_class != TFR_NO_CLASS)
            return TFR_M_CLASS;
        if (ends_with(tfr_names_text(module->names, path), "activations.get_activation"))
            return TFR_M_ACT;
        tfr_module_kind kind = kind_of_path(module, path);
        return kind == TFR_M_ACT && has_inplace(t, arguments) ? TFR_M_UNKNOWN : kind;
    }
    case TFR_N_SUBSCRIPT: {
        tfr_name path = tfr_module_path(module, module->names, tfr_tree_field(t, ast, TFR_F_VALUE));
        bool table = path && ends_with(tfr_names_text(module->names, path), "activations.ACT2FN");
        return table ? TFR_M_ACT : TFR_M_UNKNOWN;
    }
    case TFR_N_IDENTIFIER:
    case TFR_N_ATTRIBUTE: {
        tfr_name path = tfr_module_path(module, module->names, ast);
        tfr_module_kind kind = path ? kind_of_path(module, path) : TFR_M_UNKNOWN;
        return kind == TFR_M_ACT ? kind : TFR_M_UNKNOWN; // self.act = F.silu
    }
    case TFR_N_CONDITIONAL: {
        uint32_t yes = tfr_tree_first(t, ast), condition = tfr_tree_next(t, yes);
        uint32_t no = tfr_tree_next(t, condition), other = TFR_NO_CLASS;
        if (tfr_tree_kind(t, no) == TFR_N_NONE)
            return kind_of_value(module, yes, of_class);
        if (tfr_tree_kind(t, yes) == TFR_N_NONE)
            return kind_of_value(module, no, of_class);
        tfr_module_kind kind = kind_of_value(module, yes, of_class);
        bool same = kind == kind_of_value(module, no, &other) && other == *of_class;
        return same ? kind : TFR_M_UNKNOWN;
    }
    default:
        return TFR_M_UNKNOWN;
    }
}

tfr_module_kind tfr_module_attribute(const tfr_module *module, uint32_t class_index,
                                     tfr_name attribute, uint32_t *of_class) {
    *of_class = TFR_NO_CLASS;
    if (class_index == TFR_NO_CLASS)
        return TFR_M_UNKNOWN;
    const tfr_attribute *a = tfr_scope_attribute(module->scope, class_index, attribute, NULL);
    if (!a || a->outside_init || a->times > 4)
        return TFR_M_UNKNOWN;
    tfr_module_kind kind = TFR_M_UNKNOWN;
    bool any = false;
    for (uint32_t i = 0; i < a->times; i++) {
        if (!a->values[i])
            return TFR_M_UNKNOWN;
        if (tfr_tree_kind(module->scope->tree, a->values[i]) == TFR_N_NONE)
            continue;
        uint32_t of = TFR_NO_CLASS;
        tfr_module_kind k = kind_of_value(module, a->values[i], &of);
        if (any && (k != kind || of != *of_class))
            return TFR_M_UNKNOWN;
        kind = k, *of_class = of, any = true;
    }
    return kind;
}

tfr_flow *tfr_module_flow(tfr_module *module, uint32_t function) {
    if (!module->flows[function]) {
        tfr_numbers *numbers = TFR_NEW(module->arena, tfr_numbers);
        tfr_numbers_init(numbers, module->arena);
        module->flows[function] = tfr_flow_build(module, function, numbers);
    }
    return module->flows[function];
}

bool tfr_module_pure(tfr_module *module, uint32_t class_index) {
    uint8_t *state = &module->purity[class_index];
    if (*state == TFR_PURITY_ASKING)
        return false; // a class that calls itself
    if (*state == TFR_PURITY_UNASKED) {
        *state = TFR_PURITY_ASKING;
        const tfr_function *forward =
            tfr_scope_method(module->scope, class_index, module->words->forward);
        bool pure = forward && !forward->decorated;
        if (pure) {
            uint32_t index = (uint32_t)(forward - module->scope->functions.items);
            const tfr_flow *flow = tfr_module_flow(module, index);
            pure = !flow->unfit && !flow->is_generator;
            for (uint32_t i = 0; i < flow->events.count; i++)
                pure &= flow->events.items[i].kind == TFR_EV_RETURN ||
                        flow->events.items[i].kind == TFR_EV_RAISE;
        }
        *state = pure ? TFR_PURE : TFR_IMPURE;
    }
    return *state == TFR_PURE;
}

// ---- seeing through -------------------------------------------------------------------------

static bool is_transparent(const tfr_module *module, tfr_names *names, const tfr_function *f) {
    const tfr_tree *t = module->scope->tree;
    if (!f->decorated || module->is_rule)
        return true;
    for (uint32_t c = tfr_tree_first(t, f->decorated); c; c = tfr_tree_next(t, c)) {
        if (tfr_tree_kind(t, c) != TFR_N_DECORATOR)
            continue;
        uint32_t what = tfr_tree_first(t, c);
        if (tfr_tree_kind(t, what) == TFR_N_CALL)
            what = tfr_tree_field(t, what, TFR_F_FUNCTION);
        tfr_name path = tfr_module_path(module, names, what);
        tfr_str text = tfr_names_text(names, path);
        // These give the function itself, or another object: `via=` notices that at run time.
        if (!ends_with(text, "use_kernel_func_from_hub") &&
            !ends_with(text, "use_kernel_forward_from_hub") && !ends_with(text, "staticmethod"))
            return false;
    }
    return true;
}

static bool is_simple_body(const tfr_tree *t, uint32_t function) {
    uint32_t parameters = tfr_tree_field(t, function, TFR_F_PARAMETERS);
    for (uint32_t c = tfr_tree_first(t, parameters); c; c = tfr_tree_next(t, c)) {
        tfr_kind kind = tfr_tree_kind(t, c);
        if (kind == TFR_N_LIST_SPLAT_PATTERN || kind == TFR_N_DICT_SPLAT_PATTERN)
            return false;
        if (kind == TFR_N_TYPED_PARAMETER &&
            tfr_tree_kind(t, tfr_tree_first(t, c)) != TFR_N_IDENTIFIER)
            return false;
    }
    uint32_t body = tfr_tree_field(t, function, TFR_F_BODY);
    for (uint32_t n = body; n; n = tfr_tree_walk(t, body, n, false)) {
        switch (tfr_tree_kind(t, n)) {
        case TFR_N_FOR:
        case TFR_N_WHILE:
        case TFR_N_TRY:
        case TFR_N_WITH:
        case TFR_N_MATCH:
        case TFR_N_FUNCTION:
        case TFR_N_CLASS:
        case TFR_N_LAMBDA:
        case TFR_N_YIELD:
        case TFR_N_AWAIT:
        case TFR_N_GLOBAL:
        case TFR_N_NONLOCAL:
        case TFR_N_IMPORT:
        case TFR_N_IMPORT_FROM:
            return false;
        default:
            break;
        }
    }
    return true;
}

static bool is_active(const tfr_builder *b, const tfr_module *module, uint32_t function) {
    for (const tfr_frame *f = b->frame; f; f = f->caller)
        if (f->module == module && f->function == function)
            return true;
    return false;
}

// Lowers the body of `function` with parameters bound to the arguments. 0: it cannot be seen
// through (then nothing has happened).
static tfr_value see_through(tfr_builder *b, const tfr_module *module, uint32_t function,
                             tfr_value self, uint32_t class_index, const call *c, tfr_name op) {
    const tfr_function *f = &module->scope->functions.items[function];
    const tfr_tree *t = module->scope->tree;
    if (b->frame->depth >= TFR_MAX_INLINE_DEPTH || c->splat ||
        !is_transparent(module, b->flow->module->names, f) || !is_simple_body(t, f->node) ||
        is_active(b, module, function))
        return 0;
    tfr_frame frame = {.caller = b->frame,
                       .module = module,
                       .depth = b->frame->depth + 1,
                       .function = function,
                       .class_index = class_index};
    uint32_t nodes_before = b->flow->nodes.count, first_seq = b->seq;
    bool outermost = b->call_ast == 0;
    if (outermost)
        b->call_ast = c->ast ? c->ast : UINT32_MAX;
    frame.self = self;
    bool bound = tfr_build_bind_arguments(b, &frame, tfr_tree_field(t, f->node, TFR_F_PARAMETERS),
                                          c->args, c->count, c->keywords, c->keyword_values,
                                          c->keyword_count, self != 0 && !f->is_static);
    tfr_value result = 0;
    if (bound) {
        uint32_t block = b->block;
        b->frame = &frame;
        tfr_suite_end end =
            tfr_build_suite(b, tfr_tree_first(t, tfr_tree_field(t, f->node, TFR_F_BODY)));
        b->frame = frame.caller;
        b->block = block;
        result = end.value;
        if (!result)
            result = tfr_build_unique(b, f->name, c->args, c->count, 0);
    }
    if (outermost) {
        b->call_ast = 0;
        if (bound && outer(b)) {
            // A result made inside is what the call's text evaluates to.
            if (result >= nodes_before)
                b->flow->nodes.items[result].ast = c->ast;
            *TFR_PUSH(b->arena, &b->flow->inlines) =
                (tfr_inline){.call_ast = c->ast,
                             .function = op ? UINT32_MAX : function,
                             .op = op,
                             .first_seq = first_seq,
                             .end_seq = b->seq};
        }
    }
    return result;
}

// ---- canon ----------------------------------------------------------------------------------

static bool is_default(const tfr_builder *b, const tfr_module *table, tfr_arg arg, uint32_t node) {
    const tfr_vnode *n = tfr_flow_node(b->flow, arg.value);
    if (!node || n->op != TFR_V_CONST)
        return false;
    tfr_str text = tfr_tree_text(table->scope->tree, node), given = text_of(b, n->name);
    if (tfr_str_eq(text, given))
        return true;
    return text.len >= 2 && text.data[0] == '"' && given.len == text.len && // 'none' and "none"
           memcmp(text.data + 1, given.data + 1, text.len - 2) == 0;
}

static void unwrap_dim(tfr_builder *b, const tfr_module *table, uint32_t parameter, tfr_arg *arg) {
    const tfr_tree *t = table->scope->tree;
    uint32_t name = tfr_tree_field(t, parameter, TFR_F_NAME);
    if (!tfr_tree_is(t, name ? name : parameter, "dim"))
        return;
    const tfr_vnode *n = tfr_flow_node(b->flow, arg->value);
    if (n->op == TFR_V_TUPLE && n->arg_count == 1)
        *arg = tfr_flow_arg(b->flow, arg->value, 0);
}

// Arguments in the order of the signature, defaults dropped from the end; false: they do not fit.
static bool arrange(tfr_builder *b, const tfr_module *table, const tfr_canon_row *row,
                    const tfr_arg *args, uint32_t count, const tfr_name *keywords,
                    const tfr_arg *keyword_values, uint32_t keyword_count, tfr_arg *out,
                    uint32_t *out_count, bool *writes) {
    const tfr_tree *t = table->scope->tree;
    uint32_t parameters =
        tfr_tree_field(t, table->scope->functions.items[row->function].node, TFR_F_PARAMETERS);
    uint32_t n = 0, used = 0, last = 0, taken = 0;
    for (uint32_t p = tfr_tree_first(t, parameters); p && n < MAX_ARGS; p = tfr_tree_next(t, p)) {
        if (tfr_tree_kind(t, p) == TFR_N_LIST_SPLAT_PATTERN) { // *shape: all that remain
            if (count - used == 1) {
                const tfr_vnode *only = tfr_flow_node(b->flow, args[used].value);
                if (only->op == TFR_V_TUPLE && only->arg_count < MAX_ARGS - n) {
                    for (uint32_t i = 0; i < only->arg_count; i++)
                        out[n++] = b->flow->args.items[only->first_arg + i];
                    used++;
                }
            }
            while (used < count && n < MAX_ARGS)
                out[n++] = args[used++];
            last = n;
            continue;
        }
        uint32_t name = tfr_tree_field(t, p, TFR_F_NAME);
        uint32_t fallback = tfr_tree_field(t, p, TFR_F_VALUE);
        tfr_name key = tfr_names_find(b->flow->module->names, tfr_tree_text(t, name ? name : p));
        out[n] = (tfr_arg){0, 0};
        if (used < count) {
            out[n] = args[used++];
        } else {
            for (uint32_t k = 0; k < keyword_count; k++) {
                bool first = n == 0 && (tfr_str_eq(text_of(b, keywords[k]), TFR_STR("input")) ||
                                        tfr_str_eq(text_of(b, keywords[k]), TFR_STR("self")));
                if (keywords[k] == key || first)
                    out[n] = keyword_values[k], taken++;
            }
        }
        if (out[n].value) {
            unwrap_dim(b, table, p, &out[n]);
            if (tfr_tree_is(t, name ? name : p, "inplace") &&
                tfr_flow_node(b->flow, out[n].value)->name != words(b)->false_)
                *writes = true;
            if (!is_default(b, table, out[n], fallback))
                last = n + 1;
        } else if (!fallback) {
            return false;
        }
        n++;
    }
    for (uint32_t i = 0; i < last; i++)
        if (!out[i].value) { // a default in the middle
            out[i].value = tfr_build_const(b, words(b)->ellipsis, TFR_T_OTHER, 0);
        }
    *out_count = last;
    return used == count && taken == keyword_count;
}

tfr_value tfr_build_aten(tfr_builder *b, tfr_name op, const tfr_arg *args, uint32_t count,
                         const tfr_name *keywords, const tfr_arg *keyword_values,
                         uint32_t keyword_count, char place, uint32_t ast) {
    const tfr_canon *canon = b->flow->module->canon;
    const tfr_canon_row *row = canon ? tfr_canon_find(canon, op) : NULL;
    if (!row || (place == 'x' && !row->method) || (place == 't' && !row->torch) ||
        (place == 'F' && !row->functional))
        return 0;
    const tfr_module *table = tfr_canon_module(canon);
    if (row->alias) {
        call c = {.ast = ast, .count = count, .keyword_count = keyword_count};
        if (count)
            memcpy(c.args, args, count * sizeof *args);
        if (keyword_count) {
            memcpy(c.keywords, keywords, keyword_count * sizeof *keywords);
            memcpy(c.keyword_values, keyword_values, keyword_count * sizeof *keyword_values);
        }
        tfr_frame frame = {.caller = b->frame,
                           .module = table,
                           .depth = b->frame->depth + 1,
                           .function = row->function,
                           .class_index = TFR_NO_CLASS};
        const tfr_tree *t = table->scope->tree;
        uint32_t node = table->scope->functions.items[row->function].node;
        if (!tfr_build_bind_arguments(b, &frame, tfr_tree_field(t, node, TFR_F_PARAMETERS), c.args,
                                      count, c.keywords, c.keyword_values, keyword_count, false))
            return 0;
        uint32_t nodes_before = b->flow->nodes.count;
        b->frame = &frame;
        tfr_suite_end end =
            tfr_build_suite(b, tfr_tree_first(t, tfr_tree_field(t, node, TFR_F_BODY)));
        b->frame = frame.caller;
        if (outer(b) && end.value >= nodes_before)
            b->flow->nodes.items[end.value].ast = ast;
        // What stands in the user's text keeps its place there.
        for (uint32_t i = 0; end.value && i < b->flow->nodes.items[end.value].arg_count; i++) {
            tfr_arg *a = &b->flow->args.items[b->flow->nodes.items[end.value].first_arg + i];
            for (uint32_t k = 0; k < count; k++)
                if (a->value == args[k].value && !a->ast)
                    a->ast = args[k].ast;
        }
        return end.value;
    }
    tfr_arg arranged[MAX_ARGS];
    uint32_t arranged_count = 0;
    bool writes = false;
    if (!arrange(b, table, row, args, count, keywords, keyword_values, keyword_count, arranged,
                 &arranged_count, &writes))
        return 0;
    tfr_value v = tfr_build_node(b, TFR_V_ATEN, op, arranged, arranged_count, ast);
    b->flow->nodes.items[v].type = row->type;
    if (writes)
        tfr_build_event(b, TFR_EV_WRITE, ast, v);
    return v;
}

// ---- calls ----------------------------------------------------------------------------------

static void read_arguments(tfr_builder *b, uint32_t arguments, call *c) {
    const tfr_tree *t = tree_of(b);
    if (tfr_tree_kind(t, arguments) == TFR_N_GENERATOR) { // f(x for x in y)
        c->args[c->count++] = tfr_build_operand(b, arguments);
        c->splat = true;
        return;
    }
    for (uint32_t a = tfr_tree_first(t, arguments); a; a = tfr_tree_next(t, a)) {
        if (c->count + 1 >= MAX_ARGS || c->keyword_count + 1 >= MAX_ARGS) {
            c->splat = true;
            tfr_build_expr(b, a);
            continue;
        }
        tfr_kind kind = tfr_tree_kind(t, a);
        if (kind == TFR_N_KEYWORD_ARGUMENT) {
            c->keywords[c->keyword_count] = tfr_names_add(
                b->flow->module->names, tfr_tree_text(t, tfr_tree_field(t, a, TFR_F_NAME)));
            c->keyword_values[c->keyword_count++] =
                tfr_build_operand(b, tfr_tree_field(t, a, TFR_F_VALUE));
            continue;
        }
        if (kind == TFR_N_LIST_SPLAT || kind == TFR_N_DICT_SPLAT)
            c->splat = true;
        c->args[c->count++] = tfr_build_operand(b, a);
    }
}

// Callee first, then the arguments, keywords as nodes of their own.
static uint32_t flatten(tfr_builder *b, tfr_arg callee, const call *c, tfr_arg *out) {
    uint32_t n = 0;
    out[n++] = callee;
    for (uint32_t i = 0; i < c->count; i++)
        out[n++] = c->args[i];
    for (uint32_t i = 0; i < c->keyword_count; i++)
        out[n++] = (tfr_arg){
            tfr_build_node(b, TFR_V_KEYWORD, c->keywords[i], &c->keyword_values[i], 1, 0), 0};
    return n;
}

static tfr_value unknown_call(tfr_builder *b, tfr_name name, tfr_arg callee, const call *c,
                              tfr_event_kind kind) {
    tfr_arg args[2 * MAX_ARGS + 1];
    uint32_t n = flatten(b, callee, c, args);
    tfr_value v = tfr_build_unique(b, name, args, n, c->ast);
    tfr_build_event(b, kind, c->ast, v);
    return v;
}

static tfr_value pure_call(tfr_builder *b, tfr_arg callee, const call *c, tfr_type type) {
    tfr_arg args[2 * MAX_ARGS + 1];
    uint32_t n = flatten(b, callee, c, args);
    tfr_value v = tfr_build_node(b, TFR_V_CALL, 0, args, n, c->ast);
    b->flow->nodes.items[v].type = (uint8_t)type;
    return v;
}

static tfr_value module_call(tfr_builder *b, tfr_arg callee, const call *c) {
    tfr_arg args[2 * MAX_ARGS + 1];
    const tfr_vnode *m = tfr_flow_node(b->flow, callee.value);
    tfr_module_kind kind = (tfr_module_kind)m->module;
    bool pure = kind == TFR_M_LINEAR || kind == TFR_M_ACT || kind == TFR_M_PURE ||
                (kind == TFR_M_CLASS && !b->flow->module->is_rule &&
                 tfr_module_pure(b->flow->module, m->class_index));
    if (b->flow->module->is_rule)
        pure = true;
    if (!pure)
        return unknown_call(b, m->name, callee, c, TFR_EV_CALL);
    uint32_t n = flatten(b, callee, c, args);
    tfr_value v = tfr_build_node(b, TFR_V_MODULE, 0, args, n, c->ast);
    if (kind == TFR_M_LINEAR || kind == TFR_M_ACT)
        b->flow->nodes.items[v].type = TFR_T_TENSOR;
    return v;
}

// int(x) of a tensor waits for it and may raise; of a number it does not.
static bool is_number_path(tfr_str path) {
    return tfr_str_eq(path, TFR_STR("int")) || tfr_str_eq(path, TFR_STR("float")) ||
           tfr_str_eq(path, TFR_STR("bool"));
}

static bool is_pure_path(tfr_str path) {
    static const struct {
        const char *text;
        bool below;
    } table[] = {
#define PURE(path) {path, false},
#define PURE_BELOW(path) {path, true},
#include "rewriter/pure.def"
#undef PURE
#undef PURE_BELOW
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n = strlen(table[i].text);
        if (table[i].below ? path.len > n && memcmp(path.data, table[i].text, n) == 0
                           : tfr_str_eq(path, tfr_str_from(table[i].text)))
            return true;
    }
    return false;
}

static tfr_value siblings_call(tfr_builder *b, const call *c) {
    tfr_arg elements[MAX_ARGS];
    uint32_t n = 0;
    bool outermost = b->call_ast == 0;
    uint32_t first_seq = b->seq;
    if (outermost)
        b->call_ast = c->ast;
    for (uint32_t i = 1; i < c->count; i++) {
        call one = {.count = 1, .args = {c->args[0]}};
        elements[n++] = (tfr_arg){module_call(b, c->args[i], &one), 0};
    }
    tfr_value v = tfr_build_node(b, TFR_V_TUPLE, 0, elements, n, c->ast);
    b->flow->nodes.items[v].type = TFR_T_TUPLE;
    if (outermost) {
        b->call_ast = 0;
        *TFR_PUSH(b->arena, &b->flow->inlines) =
            (tfr_inline){.call_ast = c->ast,
                         .function = UINT32_MAX,
                         .op = tfr_names_lit(b->flow->module->names, "linears"),
                         .first_seq = first_seq,
                         .end_seq = b->seq};
    }
    return v;
}

static tfr_value tfr_op_call(tfr_builder *b, tfr_str op, tfr_arg callee, call *c) {
    tfr_module *m = b->flow->module;
    tfr_name name = tfr_names_add(m->names, op), literals[MAX_ARGS];
    uint32_t kept = 0; // `via=` is the run-time guard, no argument of the reference
    for (uint32_t i = 0; i < c->keyword_count; i++) {
        if (c->keywords[i] == words(b)->via)
            continue;
        c->keywords[kept] = c->keywords[i];
        c->keyword_values[kept] = c->keyword_values[i];
        literals[kept++] = tfr_flow_node(b->flow, c->keyword_values[i].value)->name;
    }
    tfr_op_reference ref = {0};
    if (m->op_reference && !c->splat && c->count <= 16 && kept <= 8)
        ref = m->op_reference(m->ops, name, c->count, c->keywords, literals, kept);
    if (ref.siblings)
        return siblings_call(b, c);
    if (ref.module) {
        call inner = {.ast = c->ast}; // every argument by the reference's own parameter name
        for (uint32_t i = 0; i < c->count; i++) {
            if (!ref.positional[i])
                continue;
            inner.keywords[inner.keyword_count] = ref.positional[i];
            inner.keyword_values[inner.keyword_count++] = c->args[i];
        }
        for (uint32_t i = 0; i < kept; i++) {
            if (!ref.keywords[i])
                continue;
            inner.keywords[inner.keyword_count] = ref.keywords[i];
            inner.keyword_values[inner.keyword_count++] = c->keyword_values[i];
        }
        tfr_value v = see_through(b, ref.module, ref.function, 0, TFR_NO_CLASS, &inner, name);
        if (v)
            return v;
    }
    return pure_call(b, callee, c, TFR_T_UNKNOWN);
}

static tfr_value function_call(tfr_builder *b, const tfr_module *module, uint32_t function,
                               tfr_arg callee, const call *c) {
    tfr_value v = see_through(b, module, function, 0, TFR_NO_CLASS, c, 0);
    if (v)
        return v;
    return unknown_call(b, module->scope->functions.items[function].name, callee, c, TFR_EV_CALL);
}

// A helper that a rule file imports from another one: `tfrewrite.rules.rope.rotate_half`.
static const tfr_module *imported(const tfr_builder *b, tfr_str path, uint32_t *function) {
    const tfr_module *m = b->frame->module;
    for (uint32_t i = 0; i < m->import_count; i++) {
        tfr_str prefix = tfr_names_text(m->names, m->imports[i]->import_name);
        if (path.len <= prefix.len + 1 || memcmp(path.data, prefix.data, prefix.len) != 0)
            continue;
        tfr_name name = tfr_names_find(
            m->names, (tfr_str){path.data + prefix.len + 1, path.len - prefix.len - 1});
        const tfr_binding *binding = tfr_scope_lookup(m->imports[i]->scope, name);
        if (!binding || binding->kind != TFR_BIND_FUNCTION)
            continue;
        *function = binding->index;
        return m->imports[i];
    }
    return NULL;
}

static tfr_value global_call(tfr_builder *b, tfr_arg callee, call *c) {
    tfr_name name = tfr_flow_node(b->flow, callee.value)->name;
    tfr_str path = text_of(b, name);
    const tfr_module *module = b->frame->module;
    const tfr_binding *binding = tfr_scope_lookup(module->scope, name);
    bool in_table = module == tfr_canon_module(b->flow->module->canon);
    if (binding && binding->kind == TFR_BIND_FUNCTION && !in_table)
        return function_call(b, module, binding->index, callee, c);
    if (binding && binding->kind != TFR_BIND_IMPORT && !in_table)
        return unknown_call(b, name, callee, c, TFR_EV_CALL);
    char place = in_table ? '*' : 0; // the table calls its own rows by their plain name
    tfr_str last = path;
    if (path.len > 6 && memcmp(path.data, "torch.", 6) == 0) {
        place = 't', last = (tfr_str){path.data + 6, path.len - 6};
        if (last.len > 14 && memcmp(last.data, "nn.functional.", 14) == 0)
            place = 'F', last = (tfr_str){last.data + 14, last.len - 14};
    } else if (path.len > 14 && memcmp(path.data, "tfrewrite.ops.", 14) == 0) {
        return tfr_op_call(b, (tfr_str){path.data + 14, path.len - 14}, callee, c);
    }
    uint32_t function = 0;
    const tfr_module *from = imported(b, path, &function);
    if (from)
        return function_call(b, from, function, callee, c);
    if (place && !c->splat) {
        tfr_value v =
            tfr_build_aten(b, tfr_names_add(b->flow->module->names, last), c->args, c->count,
                           c->keywords, c->keyword_values, c->keyword_count, place, c->ast);
        if (v)
            return v;
    }
    if (is_pure_path(path))
        return pure_call(b, callee, c, TFR_T_UNKNOWN);
    bool number = c->count == 1 && !c->splat &&
                  tfr_flow_node(b->flow, c->args[0].value)->type == TFR_T_NUMBER;
    if (number && is_number_path(path))
        return pure_call(b, callee, c, TFR_T_NUMBER);
    return unknown_call(b, name, callee, c, TFR_EV_CALL);
}

static tfr_value method_call(tfr_builder *b, tfr_arg object, tfr_name name, call *c) {
    const tfr_vnode *n = tfr_flow_node(b->flow, object.value);
    tfr_str text = text_of(b, name);
    bool tensor = n->type == TFR_T_TENSOR || n->type == TFR_T_UNKNOWN;
    if (tensor && !c->splat) {
        tfr_arg args[MAX_ARGS + 1];
        args[0] = object;
        memcpy(args + 1, c->args, c->count * sizeof *args);
        tfr_value v = tfr_build_aten(b, name, args, c->count + 1, c->keywords, c->keyword_values,
                                     c->keyword_count, 'x', c->ast);
        if (v)
            return v;
    }
    const tfr_canon_row *row = tfr_canon_find(b->flow->module->canon, name);
    if (tensor && c->splat && row && row->method && !row->alias) { // x.view(*shape, -1)
        tfr_arg args[2 * MAX_ARGS + 1];
        uint32_t count = flatten(b, object, c, args);
        tfr_value v = tfr_build_node(b, TFR_V_OPAQUE, name, args, count, c->ast);
        b->flow->nodes.items[v].type = row->type;
        return v;
    }
    bool writes = text.len > 1 && text.data[text.len - 1] == '_' && text.data[text.len - 2] != '_';
    if (n->type == TFR_T_OTHER && n->op == TFR_V_CONST)
        return pure_call(b, object, c, TFR_T_OTHER);
    return unknown_call(b, name, object, c, writes ? TFR_EV_WRITE : TFR_EV_CALL);
}

static tfr_value self_call(tfr_builder *b, tfr_name name, call *c) {
    tfr_module *m = b->flow->module;
    const tfr_frame *frame = b->frame;
    const tfr_function *f = frame->class_index == TFR_NO_CLASS || frame->module != m
                                ? NULL
                                : tfr_scope_method(m->scope, frame->class_index, name);
    tfr_arg self = {frame->self, 0};
    if (!f || tfr_scope_overridden(m->scope, frame->class_index, name))
        return unknown_call(b, name, self, c, TFR_EV_CALL);
    uint32_t function = (uint32_t)(f - m->scope->functions.items);
    tfr_value v = see_through(b, m, function, frame->self, frame->class_index, c, 0);
    return v ? v : unknown_call(b, name, self, c, TFR_EV_CALL);
}

// Whether a dotted expression starts at a name of the module, not at a local one.
static bool starts_global(const tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    while (tfr_tree_kind(t, ast) == TFR_N_ATTRIBUTE)
        ast = tfr_tree_field(t, ast, TFR_F_OBJECT);
    if (tfr_tree_kind(t, ast) != TFR_N_IDENTIFIER)
        return false;
    tfr_name name = tfr_names_find(b->flow->module->names, tfr_tree_text(t, ast));
    return !name || !tfr_build_lookup(b, name);
}

static tfr_value called_attribute(tfr_builder *b, uint32_t function, uint32_t arguments, call *c) {
    const tfr_tree *t = tree_of(b);
    tfr_name name = tfr_names_add(b->flow->module->names,
                                  tfr_tree_text(t, tfr_tree_field(t, function, TFR_F_ATTRIBUTE)));
    tfr_arg object = tfr_build_operand(b, tfr_tree_field(t, function, TFR_F_OBJECT));
    bool on_self = b->frame->self && tfr_flow_same(b->flow, object.value, b->frame->self);
    uint32_t of = TFR_NO_CLASS;
    if (on_self && tfr_module_attribute(b->frame->module, b->frame->class_index, name, &of)) {
        tfr_arg callee = tfr_build_operand(b, function);
        read_arguments(b, arguments, c);
        return module_call(b, callee, c);
    }
    read_arguments(b, arguments, c);
    return on_self ? self_call(b, name, c) : method_call(b, object, name, c);
}

tfr_value tfr_build_call(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    uint32_t function = tfr_tree_unparen(t, tfr_tree_field(t, ast, TFR_F_FUNCTION));
    uint32_t arguments = tfr_tree_field(t, ast, TFR_F_ARGUMENTS);
    call *c = TFR_NEW(b->arena, call);
    c->ast = outer(b) ? ast : 0;
    if (tfr_tree_kind(t, function) == TFR_N_ATTRIBUTE && !starts_global(b, function))
        return called_attribute(b, function, arguments, c);
    tfr_arg callee = tfr_build_operand(b, function);
    read_arguments(b, arguments, c);
    const tfr_vnode *n = tfr_flow_node(b->flow, callee.value);
    if (n->op == TFR_V_GLOBAL)
        return global_call(b, callee, c);
    if (n->module != TFR_M_UNKNOWN || (n->op == TFR_V_PARAM && b->flow->module->is_rule))
        return module_call(b, callee, c);
    return unknown_call(b, n->name, callee, c, TFR_EV_CALL);
}

// ---- parameters -----------------------------------------------------------------------------

bool tfr_build_bind_arguments(tfr_builder *b, tfr_frame *frame, uint32_t parameters,
                              const tfr_arg *positional, uint32_t positional_count,
                              const tfr_name *keywords, const tfr_arg *keyword_values,
                              uint32_t keyword_count, bool skip_self) {
    const tfr_tree *t = frame->module->scope->tree;
    uint32_t used = 0, taken = 0;
    for (uint32_t p = tfr_tree_first(t, parameters); p; p = tfr_tree_next(t, p)) {
        tfr_kind kind = tfr_tree_kind(t, p);
        if (kind == TFR_N_KEYWORD_SEPARATOR || kind == TFR_N_POSITIONAL_SEPARATOR)
            continue;
        uint32_t name_node = kind == TFR_N_IDENTIFIER ? p : tfr_tree_field(t, p, TFR_F_NAME);
        if (!name_node)
            name_node = tfr_tree_first(t, p);
        tfr_name name = tfr_names_add(b->flow->module->names, tfr_tree_text(t, name_node));
        tfr_arg arg = {0, 0};
        if (skip_self && p == tfr_tree_first(t, parameters)) {
            arg.value = frame->self;
        } else if (used < positional_count) {
            arg = positional[used++];
        } else {
            for (uint32_t k = 0; k < keyword_count; k++)
                if (keywords[k] == name)
                    arg = keyword_values[k], taken++;
        }
        tfr_frame *was = b->frame;
        b->frame = frame;
        if (!arg.value) {
            uint32_t fallback = tfr_tree_field(t, p, TFR_F_VALUE);
            if (fallback)
                arg.value = tfr_build_expr(b, fallback);
        }
        if (arg.value) {
            uint32_t v = tfr_build_bind(b, name, arg.value, 0);
            b->flow->versions.items[v].outer_ast = arg.ast;
        }
        b->frame = was;
        if (!arg.value)
            return false;
    }
    return used == positional_count && taken == keyword_count;
}
