// What a call does: a pure tensor computation, a submodule, a helper of the file that is seen
// through, or unknown code, which is an ordered effect.
#include "rewriter/flow_build.h"

#define MAX_ARGS 64

typedef struct call {
    uint32_t ast, count, keyword_count;
    const tfr_arg *args, *keyword_values;
    const tfr_name *keywords;
    bool splat; // *args or **kwargs among them
    bool lost;  // more arguments than fit: nothing is known of the call
} call;

static const tfr_tree *tree_of(const tfr_builder *b) { return b->frame->module->scope->tree; }
static bool outer(const tfr_builder *b) { return b->frame->depth == 0; }
static const tfr_words *words(const tfr_builder *b) { return b->frame->module->words; }
static tfr_str text_of(const tfr_builder *b, tfr_name name) {
    return tfr_names_text(b->flow->module->names, name);
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
        if (!tfr_ends_with(text, "use_kernel_func_from_hub") &&
            !tfr_ends_with(text, "use_kernel_forward_from_hub") &&
            !tfr_ends_with(text, "staticmethod"))
            return false;
    }
    return true;
}

static bool is_active(const tfr_builder *b, const tfr_module *module, uint32_t function) {
    for (const tfr_frame *f = b->frame; f; f = f->caller)
        if ((f->module == module || f->module->before == module) && f->function == function)
            return true;
    return false;
}

// Lowers the body of `function` with parameters bound to the arguments. 0: it cannot be seen
// through (then nothing has happened).
static tfr_value see_through(tfr_builder *b, const tfr_module *module, uint32_t function,
                             tfr_value self, uint32_t class_index, const call *c, tfr_name op) {
    module = module->before ? module->before : module;
    const tfr_function *f = &module->scope->functions.items[function];
    const tfr_tree *t = module->scope->tree;
    if (b->frame->depth >= TFR_MAX_INLINE_DEPTH || c->splat ||
        !is_transparent(module, b->flow->module->names, f) || !tfr_build_is_simple(t, f->node) ||
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
                             .module = module,
                             .function = op ? UINT32_MAX : function,
                             .op = op,
                             .helper = op ? 0 : f->name,
                             .loose = !op && class_index != TFR_NO_CLASS,
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
    if (tfr_build_is_display(b, arg->value) && n->arg_count == 1)
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
                if (tfr_build_is_display(b, args[used].value) && only->arg_count < MAX_ARGS - n) {
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
                if (!out[n].value && (keywords[k] == key || first))
                    out[n] = keyword_values[k], taken++;
            }
        }
        if (out[n].value) {
            unwrap_dim(b, table, p, &out[n]);
            if (tfr_tree_is(t, name ? name : p, "inplace") &&
                tfr_flow_node(b->flow, out[n].value)->name != words(b)->false_)
                *writes = true;
            if (is_default(b, table, out[n], fallback))
                out[n].value = 0; // clamp(x, min=None, max=m)
            else
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

// Whether it is the length of vectors along one axis: what torch.norm calls p=2 or "fro" and
// torch.linalg.norm ord=2 or None is one function there, but not over two axes.
static bool is_length(const tfr_builder *b, tfr_name op, const tfr_arg *args, uint32_t count) {
    if ((op != words(b)->norm && op != words(b)->linalg_norm) || count < 3)
        return false;
    const tfr_vnode *order = tfr_flow_node(b->flow, args[1].value);
    const tfr_vnode *dim = tfr_flow_node(b->flow, args[2].value);
    return order->op == TFR_V_CONST &&
           (order->name == words(b)->two || order->name == words(b)->ellipsis) &&
           dim->op == TFR_V_CONST && dim->type == TFR_T_NUMBER;
}

// What is known to be a tensor only by the method that is called: (x * x).sum() is that of x ** 2.
static void square_of_tensor(tfr_builder *b, tfr_arg *arg) {
    const tfr_vnode *n = tfr_flow_node(b->flow, arg->value);
    if (n->op != TFR_V_ATEN || n->name != words(b)->mul || n->arg_count != 2)
        return;
    tfr_arg x[2] = {tfr_flow_arg(b->flow, arg->value, 0), tfr_flow_arg(b->flow, arg->value, 1)};
    if (!tfr_flow_same_at(b->flow, x[0].value, x[1].value, n->seq))
        return;
    uint32_t ast = n->ast;
    x[1] = (tfr_arg){tfr_build_const(b, words(b)->two, TFR_T_NUMBER, 0), 0};
    arg->value = tfr_build_node(b, TFR_V_ATEN, words(b)->pow, x, 2, ast);
    b->flow->nodes.items[arg->value].type = TFR_T_TENSOR;
}

// numpy's names of two arguments, which torch takes too; the Python functions of F do not.
static tfr_name torch_keyword(const tfr_words *w, tfr_name keyword) {
    return keyword == w->axis ? w->dim : keyword == w->keepdims ? w->keepdim : keyword;
}

tfr_value tfr_build_aten(tfr_builder *b, tfr_name op, const tfr_arg *args, uint32_t count,
                         const tfr_name *keywords, const tfr_arg *keyword_values,
                         uint32_t keyword_count, char place, uint32_t ast) {
    const tfr_canon *canon = b->flow->module->canon;
    const tfr_canon_row *row = canon ? tfr_canon_find(canon, op) : NULL;
    if (!row || (place == 'x' && !row->method) || (place == 't' && !row->torch) ||
        (place == 'F' && !row->functional) || (place == 'l' && !row->linalg))
        return 0;
    const tfr_module *table = tfr_canon_module(canon);
    tfr_name renamed[MAX_ARGS];
    for (uint32_t i = 0; i < keyword_count && i < MAX_ARGS; i++)
        renamed[i] = place == 'F' ? keywords[i] : torch_keyword(words(b), keywords[i]);
    keywords = renamed;
    if (row->alias) {
        tfr_frame frame = {.caller = b->frame,
                           .module = table,
                           .depth = b->frame->depth + 1,
                           .function = row->function,
                           .class_index = TFR_NO_CLASS};
        const tfr_tree *t = table->scope->tree;
        uint32_t node = table->scope->functions.items[row->function].node;
        if (!tfr_build_bind_arguments(b, &frame, tfr_tree_field(t, node, TFR_F_PARAMETERS), args,
                                      count, keywords, keyword_values, keyword_count, false))
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
    if (place == 'x' || op == words(b)->sum || op == words(b)->mean)
        square_of_tensor(b, &arranged[0]);
    if (is_length(b, op, arranged, arranged_count)) {
        op = words(b)->norm;
        arranged[1].value = tfr_build_const(b, words(b)->ellipsis, TFR_T_OTHER, 0);
    }
    tfr_value v = tfr_build_node(b, TFR_V_ATEN, op, arranged, arranged_count, ast);
    b->flow->nodes.items[v].type = row->type;
    if (writes)
        tfr_build_event(b, TFR_EV_WRITE, ast, v);
    return v;
}

// ---- calls ----------------------------------------------------------------------------------

static void read_arguments(tfr_builder *b, uint32_t arguments, call *c) {
    const tfr_tree *t = tree_of(b);
    bool generator = tfr_tree_kind(t, arguments) == TFR_N_GENERATOR; // f(x for x in y)
    uint32_t given = generator;
    for (uint32_t a = generator ? 0 : tfr_tree_first(t, arguments); a; a = tfr_tree_next(t, a))
        given++;
    if (given >= MAX_ARGS)
        given = MAX_ARGS, c->splat = c->lost = true;
    // On the arena: arguments are calls again, as deep as the tree.
    tfr_arg *args = TFR_NEW_ARRAY(b->arena, tfr_arg, given);
    tfr_arg *values = TFR_NEW_ARRAY(b->arena, tfr_arg, given);
    tfr_name *keywords = TFR_NEW_ARRAY(b->arena, tfr_name, given);
    c->args = args, c->keyword_values = values, c->keywords = keywords;
    if (generator) {
        args[c->count++] = tfr_build_operand(b, arguments);
        c->splat = true;
        return;
    }
    for (uint32_t a = tfr_tree_first(t, arguments); a; a = tfr_tree_next(t, a)) {
        tfr_kind kind = tfr_tree_kind(t, a);
        if (c->count + c->keyword_count >= MAX_ARGS - 1) {
            tfr_build_expr(b, a);
        } else if (kind == TFR_N_KEYWORD_ARGUMENT) {
            keywords[c->keyword_count] = tfr_names_add(
                b->flow->module->names, tfr_tree_text(t, tfr_tree_field(t, a, TFR_F_NAME)));
            tfr_arg value = tfr_build_operand(b, tfr_tree_field(t, a, TFR_F_VALUE));
            values[c->keyword_count++] = value;
        } else {
            c->splat |= kind == TFR_N_LIST_SPLAT || kind == TFR_N_DICT_SPLAT;
            tfr_arg value = tfr_build_operand(b, a);
            args[c->count++] = value;
        }
    }
}

// Callee first, then the arguments, keywords as nodes of their own.
static tfr_arg *flatten(tfr_builder *b, tfr_arg callee, const call *c, uint32_t *count) {
    tfr_arg *out = TFR_NEW_ARRAY(b->arena, tfr_arg, 1 + c->count + c->keyword_count);
    uint32_t n = 0;
    out[n++] = callee;
    for (uint32_t i = 0; i < c->count; i++)
        out[n++] = c->args[i];
    for (uint32_t i = 0; i < c->keyword_count; i++)
        out[n++] = (tfr_arg){
            tfr_build_node(b, TFR_V_KEYWORD, c->keywords[i], &c->keyword_values[i], 1, 0), 0};
    *count = n;
    return out;
}

static tfr_value unknown_call(tfr_builder *b, tfr_name name, tfr_arg callee, const call *c,
                              tfr_event_kind kind) {
    uint32_t n;
    const tfr_arg *args = flatten(b, callee, c, &n);
    tfr_value v = tfr_build_unique(b, name, args, n, c->ast);
    tfr_build_event(b, kind, c->ast, v);
    return v;
}

static tfr_value pure_call(tfr_builder *b, tfr_arg callee, const call *c, tfr_type type) {
    if (c->lost)
        return unknown_call(b, 0, callee, c, TFR_EV_CALL);
    uint32_t n;
    const tfr_arg *args = flatten(b, callee, c, &n);
    tfr_value v = tfr_build_node(b, TFR_V_CALL, 0, args, n, c->ast);
    b->flow->nodes.items[v].type = (uint8_t)type;
    return v;
}

static tfr_value module_call(tfr_builder *b, tfr_arg callee, const call *c) {
    const tfr_vnode *m = tfr_flow_node(b->flow, callee.value);
    tfr_module_kind kind = (tfr_module_kind)m->module;
    bool plain = c->count == 1 && !c->keyword_count; // self.act(x, True) with self.act = F.silu
    bool tensor = kind == TFR_M_LINEAR || kind == TFR_M_LAYER_NORM;
    bool pure = tensor || (kind == TFR_M_ACT && plain) || kind == TFR_M_PURE ||
                (kind == TFR_M_CLASS && !b->flow->module->is_rule &&
                 tfr_module_pure(b->flow->module, m->class_index));
    if (b->flow->module->is_rule)
        pure = true;
    if (!pure || c->lost)
        return unknown_call(b, m->name, callee, c, TFR_EV_CALL);
    uint32_t n;
    const tfr_arg *args = flatten(b, callee, c, &n);
    tfr_value v = tfr_build_node(b, TFR_V_MODULE, 0, args, n, c->ast);
    if (tensor || kind == TFR_M_ACT)
        b->flow->nodes.items[v].type = TFR_T_TENSOR;
    return v;
}

// int(x) of a tensor waits for it and may raise; of a number it does not.
static bool is_number_path(tfr_str path) {
    return tfr_str_eq(path, TFR_STR("int")) || tfr_str_eq(path, TFR_STR("float")) ||
           tfr_str_eq(path, TFR_STR("bool"));
}

// A number, or a whole number divided by what a configuration gave: `dim // self.n_groups`.
static bool is_number(const tfr_builder *b, tfr_value value) {
    const tfr_vnode *n = tfr_flow_node(b->flow, value);
    if (n->op != TFR_V_ATEN || n->name != words(b)->floordiv || n->arg_count != 2)
        return n->type == TFR_T_NUMBER;
    const tfr_vnode *by = tfr_flow_node(b->flow, tfr_flow_arg(b->flow, value, 1).value);
    bool given = by->module == TFR_M_UNKNOWN && by->type == TFR_T_UNKNOWN &&
                 (by->op == TFR_V_ATTR || (b->flow->module->is_rule && by->op == TFR_V_PARAM));
    bool whole =
        tfr_flow_node(b->flow, tfr_flow_arg(b->flow, value, 0).value)->type == TFR_T_NUMBER;
    return whole && (given || by->type == TFR_T_NUMBER);
}

// An iterator is used up by being read; these are not. One that self holds would serve one call
// of forward alone, so an attribute counts as a list.
static bool can_be_read_again(const tfr_builder *b, const call *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        const tfr_vnode *n = tfr_flow_node(b->flow, c->args[i].value);
        if (n->op != TFR_V_ATTR && n->type != TFR_T_TUPLE && n->type != TFR_T_NUMBER &&
            n->type != TFR_T_TENSOR)
            return false;
    }
    return !c->splat;
}

static bool is_pure(const tfr_builder *b, tfr_str path, const call *c) {
    static const struct {
        const char *text;
        bool below, consumes;
    } table[] = {
#define PURE(path) {path, false, false},
#define PURE_BELOW(path) {path, true, false},
#define CONSUMES(path) {path, false, true},
#include "rewriter/pure.def"
#undef PURE
#undef PURE_BELOW
#undef CONSUMES
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n = strlen(table[i].text);
        if (table[i].below ? path.len > n && memcmp(path.data, table[i].text, n) == 0
                           : tfr_str_eq(path, tfr_str_from(table[i].text)))
            return !table[i].consumes || can_be_read_again(b, c);
    }
    return false;
}

// What a module, or None, of `tfr.linears` gives; `a if c else b` gives the result of one of them.
static tfr_value sibling_result(tfr_builder *b, tfr_arg module, const tfr_arg *x) {
    const tfr_vnode *n = tfr_flow_node(b->flow, module.value);
    if (n->op == TFR_V_CONST && n->name == words(b)->none)
        return module.value;
    call one = {.count = 1, .args = x};
    if (n->op != TFR_V_PHI)
        return module_call(b, module, &one);
    tfr_arg args[3] = {tfr_flow_arg(b->flow, module.value, 0)};
    uint32_t was = b->block;
    for (uint32_t i = 1; i < 3; i++) {
        b->block =
            tfr_build_branch(b, was, args[0].value, 0, i == 1 ? TFR_WAY_TRUE : TFR_WAY_FALSE);
        args[i].value = sibling_result(b, tfr_flow_arg(b->flow, module.value, i), x);
    }
    b->block = was;
    return tfr_build_node(b, TFR_V_PHI, 0, args, 3, 0);
}

static tfr_value siblings_call(tfr_builder *b, const call *c) {
    tfr_arg elements[MAX_ARGS];
    uint32_t n = 0;
    bool outermost = b->call_ast == 0;
    uint32_t first_seq = b->seq;
    if (outermost)
        b->call_ast = c->ast;
    for (uint32_t i = 1; i < c->count; i++)
        elements[n++] = (tfr_arg){sibling_result(b, c->args[i], c->args), 0};
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

#define MAX_OP_KEYWORDS 8

// The arguments of a call `tfr.<op>` under the names of its reference's parameters.
static tfr_value see_through_op(tfr_builder *b, const tfr_op_reference *ref, tfr_name op,
                                const call *c) {
    tfr_arg values[16 + MAX_OP_KEYWORDS];
    tfr_name names[16 + MAX_OP_KEYWORDS];
    call inner = {.ast = c->ast, .keywords = names, .keyword_values = values};
    for (uint32_t i = 0; i < c->count + c->keyword_count; i++) {
        bool keyword = i >= c->count;
        tfr_name name = keyword ? ref->keywords[i - c->count] : ref->positional[i];
        if (!name)
            continue;
        names[inner.keyword_count] = name;
        values[inner.keyword_count++] = keyword ? c->keyword_values[i - c->count] : c->args[i];
    }
    return see_through(b, ref->module, ref->function, 0, TFR_NO_CLASS, &inner, op);
}

// `helper`, `self.helper` or `(helper, "keyword", ...)`, as `via=` names it.
static tfr_name helper_name(const tfr_builder *b, tfr_value via) {
    const tfr_vnode *n = tfr_flow_node(b->flow, via);
    if (n->op == TFR_V_TUPLE)
        n = tfr_flow_node(b->flow, tfr_flow_arg(b->flow, via, 0).value);
    if (n->op != TFR_V_GLOBAL && n->op != TFR_V_ATTR)
        return words(b)->via;
    // Of an imported one: ".file.helper".
    return tfr_names_add(b->flow->module->names, tfr_last_part(text_of(b, n->name)));
}

static tfr_value tfr_op_call(tfr_builder *b, tfr_str op, tfr_arg callee, const call *c) {
    tfr_module *m = b->flow->module;
    tfr_name name = tfr_names_add(m->names, op);
    tfr_name keywords[MAX_OP_KEYWORDS], literals[MAX_OP_KEYWORDS];
    tfr_arg values[MAX_OP_KEYWORDS];
    call given = *c; // `via=` and `inner=` are guards at run time, no arguments of the reference
    given.keywords = keywords, given.keyword_values = values, given.keyword_count = 0;
    bool fits = m->op_reference && !c->splat && c->count <= 16;
    tfr_inline guard = {0};
    for (uint32_t i = 0; i < c->keyword_count && fits; i++) {
        uint32_t n = given.keyword_count;
        bool loose = c->keywords[i] == words(b)->inner; // one op may stand for several calls of it
        if (loose || c->keywords[i] == words(b)->via) {
            guard.helper = helper_name(b, c->keyword_values[i].value);
            guard.loose = loose;
            continue;
        }
        fits = n < MAX_OP_KEYWORDS;
        if (!fits)
            break;
        keywords[n] = c->keywords[i];
        values[n] = c->keyword_values[i];
        literals[n] = tfr_flow_node(b->flow, values[n].value)->name;
        given.keyword_count++;
    }
    tfr_op_reference ref = {0};
    if (fits)
        ref = m->op_reference(m->ops, name, c->count, keywords, literals, given.keyword_count);
    if (ref.siblings)
        return siblings_call(b, c);
    // A helper handed what is no tensor: its methods may do anything, as they do without the op.
    for (uint32_t i = 0; i < c->count; i++) {
        const tfr_vnode *n = tfr_flow_node(b->flow, c->args[i].value);
        if (ref.tensors >> i & 1 && n->type != TFR_T_TENSOR && n->type != TFR_T_UNKNOWN &&
            n->name != words(b)->none)
            return unknown_call(b, name, callee, c, TFR_EV_CALL);
    }
    uint32_t seen = b->flow->inlines.count;
    tfr_value v = ref.module ? see_through_op(b, &ref, name, &given) : 0;
    if (b->flow->inlines.count > seen) {
        tfr_inline *in = &b->flow->inlines.items[b->flow->inlines.count - 1];
        in->helper = guard.helper, in->loose = guard.loose;
    }
    return v ? v : pure_call(b, callee, c, TFR_T_UNKNOWN);
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
    uint8_t home = tfr_flow_node(b->flow, callee.value)->home;
    if (home && home != module->number + 1u) // a helper's argument: a function of another file
        return unknown_call(b, name, callee, c, TFR_EV_CALL);
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
        if (last.len > 7 && memcmp(last.data, "linalg.", 7) == 0) {
            char *row = TFR_NEW_ARRAY(b->arena, char, last.len);
            memcpy(row, last.data, last.len);
            row[6] = '_';
            place = 'l', last.data = row;
        }
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
    if (is_pure(b, path, c))
        return pure_call(b, callee, c, TFR_T_UNKNOWN);
    bool number = c->count == 1 && !c->splat && is_number(b, c->args[0].value);
    if (number && is_number_path(path))
        return pure_call(b, callee, c, TFR_T_NUMBER);
    tfr_module *other;
    binding = tfr_module_import(module, name, &other);
    if (binding && binding->kind == TFR_BIND_FUNCTION)
        return function_call(b, other, binding->index, callee, c);
    return unknown_call(b, name, callee, c, TFR_EV_CALL);
}

static tfr_value method_call(tfr_builder *b, tfr_arg object, tfr_name name, call *c) {
    const tfr_vnode *n = tfr_flow_node(b->flow, object.value);
    tfr_str text = text_of(b, name);
    // self.proj.to(dtype) changes the module.
    bool is_module = n->module != TFR_M_UNKNOWN && n->module != TFR_M_PARAM;
    bool tensor = n->type == TFR_T_TENSOR || (n->type == TFR_T_UNKNOWN && !is_module);
    if (tensor && !c->splat) {
        tfr_arg *args = TFR_NEW_ARRAY(b->arena, tfr_arg, c->count + 1);
        args[0] = object;
        for (uint32_t i = 0; i < c->count; i++)
            args[i + 1] = c->args[i];
        tfr_value v = tfr_build_aten(b, name, args, c->count + 1, c->keywords, c->keyword_values,
                                     c->keyword_count, 'x', c->ast);
        if (v)
            return v;
    }
    const tfr_canon_row *row = tfr_canon_find(b->flow->module->canon, name);
    if (tensor && c->splat && !c->lost && row && row->method && !row->alias) { // x.view(*shape, -1)
        uint32_t count;
        const tfr_arg *args = flatten(b, object, c, &count);
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
    const tfr_frame *frame = b->frame;
    tfr_module *owner;
    const tfr_function *f = tfr_module_method(b->flow->module, frame->class_index, name, &owner);
    tfr_arg self = {frame->self, 0};
    uint32_t of = frame->class_index;
    if (!f || tfr_scope_overridden(tfr_module_of_class(b->flow->module, &of)->scope, of, name))
        return unknown_call(b, name, self, c, TFR_EV_CALL);
    uint32_t function = (uint32_t)(f - owner->scope->functions.items);
    tfr_value v = see_through(b, owner, function, frame->self, frame->class_index, c, 0);
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

// `super().forward(...)` where the only base is a torch module without effect.
static bool is_super_forward(const tfr_builder *b, uint32_t function) {
    const tfr_tree *t = tree_of(b);
    uint32_t object = tfr_tree_field(t, function, TFR_F_OBJECT);
    if (tfr_tree_kind(t, object) != TFR_N_CALL ||
        !tfr_tree_is(t, tfr_tree_field(t, object, TFR_F_FUNCTION), "super") ||
        tfr_tree_first(t, tfr_tree_field(t, object, TFR_F_ARGUMENTS)) ||
        !tfr_tree_is(t, tfr_tree_field(t, function, TFR_F_ATTRIBUTE), "forward"))
        return false;
    tfr_name name = tfr_names_find(b->flow->module->names, TFR_STR("super"));
    bool rebound =
        name && (tfr_build_lookup(b, name) || tfr_scope_lookup(b->frame->module->scope, name));
    return b->frame->self && !rebound &&
           tfr_module_super_is_pure(b->flow->module, b->frame->class_index);
}

static tfr_value called_attribute(tfr_builder *b, uint32_t function, uint32_t arguments, call *c) {
    const tfr_tree *t = tree_of(b);
    tfr_name name = tfr_names_add(b->flow->module->names,
                                  tfr_tree_text(t, tfr_tree_field(t, function, TFR_F_ATTRIBUTE)));
    if (is_super_forward(b, function)) {
        tfr_arg self = {b->frame->self, 0};
        tfr_name super = tfr_names_lit(b->flow->module->names, "super().forward");
        tfr_arg callee = {tfr_build_node(b, TFR_V_ATTR, super, &self, 1, 0), 0};
        read_arguments(b, arguments, c);
        return pure_call(b, callee, c, TFR_T_TENSOR);
    }
    tfr_arg object = tfr_build_operand(b, tfr_tree_field(t, function, TFR_F_OBJECT));
    bool on_self = b->frame->self && tfr_flow_same(b->flow, object.value, b->frame->self);
    uint32_t of = TFR_NO_CLASS;
    if (on_self && tfr_module_attribute(b->flow->module, b->frame->class_index, name, &of)) {
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
        uint32_t name_node = tfr_tree_parameter_name(t, p);
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
