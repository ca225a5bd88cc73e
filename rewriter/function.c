// One function from its definition to its graph: what forbids to rewrite it at all, its parameters
// with what their annotations prove, then its body.
#define _GNU_SOURCE // memmem
#include "rewriter/flow_build.h"

static const tfr_tree *tree_of(const tfr_builder *b) { return b->frame->module->scope->tree; }

// Code that looks at local names by themselves: locals(), eval("x"), vars().
static void check_introspection(tfr_builder *b, uint32_t function) {
    const tfr_tree *t = tree_of(b);
    if (b->frame->module->scope->strange)
        tfr_build_unfit(
            b, b->frame->module->scope->strange,
            "Python may read this name as another one (Unicode NFKC): it would have to be in "
            "normal form");
    for (uint32_t n = function; n; n = tfr_tree_walk(t, function, n, false)) {
        if (tfr_tree_kind(t, n) != TFR_N_IDENTIFIER || t->nodes[n].field == TFR_F_ATTRIBUTE)
            continue;
        static const char *const names[] = {"locals", "eval", "exec", "vars", "dir"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (tfr_tree_is(t, n, names[i]))
                tfr_build_unfit(
                    b, n,
                    "the function looks at its own local names (locals, eval, ...): it would have "
                    "to do without");
    }
}

// Functions that a compiler reads as source (torch.jit.script, triton.jit) cannot call our ops.
static void check_decorators(tfr_builder *b, const tfr_function *f) {
    const tfr_tree *t = tree_of(b);
    for (uint32_t n = f->decorated; n; n = tfr_tree_walk(t, f->decorated, n, n == f->node)) {
        if (tfr_tree_kind(t, n) == TFR_N_IDENTIFIER && n > f->decorated &&
            t->nodes[n].end < t->nodes[f->node].start && tfr_tree_is(t, n, "jit"))
            tfr_build_unfit(
                b, n,
                "the function is compiled from its own source (jit): without that decorator it "
                "would be fused");
    }
}

bool tfr_build_is_simple(const tfr_tree *t, uint32_t function) {
    if (tfr_tree_is(t, t->nodes[function].child, "async")) // gives a coroutine, not its result
        return false;
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

void tfr_build_capture_generator(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    bool first = true;
    for (uint32_t c = tfr_tree_first(t, ast); c; c = tfr_tree_next(t, c)) {
        uint32_t over =
            tfr_tree_kind(t, c) == TFR_N_FOR_IN_CLAUSE ? tfr_tree_field(t, c, TFR_F_RIGHT) : 0;
        bool later = !over || !first;
        for (uint32_t n = over; n && !later; n = tfr_tree_walk(t, over, n, false))
            later = tfr_tree_kind(t, n) == TFR_N_LAMBDA || tfr_tree_kind(t, n) == TFR_N_GENERATOR;
        if (later)
            tfr_build_capture(b, c);
        first &= !over;
    }
}

// What an annotation proves: `torch.Tensor`, `int`, `float | None`.
static tfr_type annotated_type(const tfr_tree *t, uint32_t parameter) {
    uint32_t type = tfr_tree_field(t, parameter, TFR_F_TYPE);
    if (!type)
        return TFR_T_UNKNOWN;
    tfr_str text = tfr_tree_text(t, type);
    if (tfr_tree_is(t, type, "torch.Tensor") || tfr_tree_is(t, type, "Tensor") ||
        tfr_tree_is(t, type, "torch.FloatTensor"))
        return TFR_T_TENSOR;
    size_t n = 0;
    while (n < text.len && text.data[n] >= 'a' && text.data[n] <= 'z')
        n++;
    tfr_str first = {text.data, n};
    bool number = tfr_str_eq(first, TFR_STR("int")) || tfr_str_eq(first, TFR_STR("float")) ||
                  tfr_str_eq(first, TFR_STR("bool"));
    bool tensor_too = memmem(text.data, text.len, "Tensor", 6) != NULL;
    return number && !tensor_too ? TFR_T_NUMBER : TFR_T_UNKNOWN;
}

static void bind_parameters(tfr_builder *b, const tfr_function *f) {
    const tfr_tree *t = tree_of(b);
    uint32_t parameters = tfr_tree_field(t, f->node, TFR_F_PARAMETERS);
    bool first = f->class_index != TFR_NO_CLASS && !f->is_static;
    for (uint32_t p = tfr_tree_first(t, parameters); p; p = tfr_tree_next(t, p)) {
        tfr_kind kind = tfr_tree_kind(t, p);
        if (kind == TFR_N_KEYWORD_SEPARATOR || kind == TFR_N_POSITIONAL_SEPARATOR)
            continue;
        uint32_t name_node = p;
        while (tfr_tree_kind(t, name_node) != TFR_N_IDENTIFIER && name_node) {
            uint32_t named = tfr_tree_field(t, name_node, TFR_F_NAME);
            name_node = named ? named : tfr_tree_first(t, name_node);
        }
        if (!name_node)
            continue;
        tfr_name name = tfr_names_add(b->flow->module->names, tfr_tree_text(t, name_node));
        tfr_value v = tfr_build_node(b, TFR_V_PARAM, name, NULL, 0, 0);
        b->flow->nodes.items[v].type = (uint8_t)annotated_type(t, p);
        if (tfr_tree_kind(t, tfr_tree_first(t, p)) == TFR_N_DICT_SPLAT_PATTERN ||
            kind == TFR_N_DICT_SPLAT_PATTERN)
            b->flow->nodes.items[v].type = TFR_T_OTHER;
        uint32_t version = tfr_build_bind(b, name, v, 0);
        b->flow->versions.items[version].kind = TFR_VER_PARAM;
        if (first)
            b->frame->self = v;
        first = false;
    }
}

tfr_flow *tfr_flow_build(tfr_module *module, uint32_t function, tfr_numbers *numbers) {
    tfr_flow *flow = TFR_NEW(module->arena, tfr_flow);
    const tfr_function *f = &module->scope->functions.items[function];
    *flow = (tfr_flow){
        .module = module, .function = function, .class_index = f->class_index, .numbers = numbers};
    uint32_t first_class = f->class_index == TFR_NO_CLASS ? 0 : module->first_class;
    tfr_frame frame = {
        .module = module, .class_index = first_class + f->class_index, .function = function};
    tfr_builder b = {.flow = flow, .arena = module->arena, .frame = &frame, .seq = 1};
    // Index 0 means "none" everywhere.
    (void)TFR_PUSH(module->arena, &flow->nodes);
    (void)TFR_PUSH(module->arena, &flow->versions);
    (void)TFR_PUSH(module->arena, &flow->statements);
    (void)TFR_PUSH(module->arena, &flow->blocks);
    b.block = tfr_build_block(&b, 0, 0, TFR_WAY_START);
    check_introspection(&b, f->node);
    check_decorators(&b, f);
    bind_parameters(&b, f);
    const tfr_tree *t = module->scope->tree;
    tfr_suite_end end =
        tfr_build_suite(&b, tfr_tree_first(t, tfr_tree_field(t, f->node, TFR_F_BODY)));
    if (!end.partial && !end.falls)
        flow->result = end.value;
    return flow;
}

tfr_str tfr_flow_describe(const tfr_flow *flow, tfr_value value, tfr_arena *arena) {
    const tfr_vnode *n = tfr_flow_node(flow, value);
    tfr_str name = tfr_names_text(flow->module->names, n->name);
    switch ((tfr_op)n->op) {
    case TFR_V_ATEN:
    case TFR_V_GLOBAL:
    case TFR_V_CONST:
        return tfr_str_format(arena, "`%.*s`", (int)name.len, name.data);
    case TFR_V_ATTR:
        return tfr_str_format(arena, "the attribute `%.*s`", (int)name.len, name.data);
    case TFR_V_PARAM:
        return tfr_str_format(arena, "the argument `%.*s`", (int)name.len, name.data);
    case TFR_V_PHI:
        return TFR_STR("a choice between two values");
    case TFR_V_MODULE:
        return TFR_STR("the call of a submodule");
    case TFR_V_TUPLE:
        return TFR_STR("a tuple");
    case TFR_V_INDEX:
        return TFR_STR("an item or slice");
    case TFR_V_ITEM:
        return tfr_str_format(arena, "result %.*s of several", (int)name.len, name.data);
    case TFR_V_COMPARE:
        return tfr_str_format(arena, "a comparison `%.*s`", (int)name.len, name.data);
    default:
        return TFR_STR("an expression of its own");
    }
}
