// What the attributes of a class are, as far as its __init__ proves it: nn.Linear, an activation, a
// class of the file; and whether calling it has effects.
#include "rewriter/flow_build.h"

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

static tfr_module_kind kind_of_path(const tfr_module *module, tfr_name path) {
    tfr_str text = tfr_names_text(module->names, path);
    for (size_t i = 0; i < sizeof module_table / sizeof *module_table; i++)
        if (tfr_str_eq(text, tfr_str_from(module_table[i].path)))
            return module_table[i].kind;
    return TFR_M_UNKNOWN;
}

// nn.SiLU(inplace=True), nn.ELU(1.0, True): anything but numbers and strings by position.
static bool has_inplace(const tfr_tree *t, uint32_t arguments) {
    for (uint32_t a = tfr_tree_first(t, arguments); a; a = tfr_tree_next(t, a)) {
        tfr_kind kind = tfr_tree_kind(t, a);
        bool keyword = kind == TFR_N_KEYWORD_ARGUMENT &&
                       !tfr_tree_is(t, tfr_tree_field(t, a, TFR_F_NAME), "inplace");
        if (!keyword && kind != TFR_N_INTEGER && kind != TFR_N_FLOAT && kind != TFR_N_STRING)
            return true;
    }
    return false;
}

static uint32_t class_of_path(const tfr_module *module, tfr_name path) {
    tfr_module *other;
    const tfr_binding *b = tfr_module_import(module, path, &other);
    return b && b->kind == TFR_BIND_CLASS ? other->first_class + b->index : TFR_NO_CLASS;
}

// Of `Module(...).to(...)`, which gives the module, the call that makes it; 0: another call.
static uint32_t gives_itself(const tfr_tree *t, uint32_t function) {
    static const char *const names[] = {"to",       "float",    "half", "double",
                                        "bfloat16", "to_empty", "eval", "requires_grad_"};
    if (tfr_tree_kind(t, function) != TFR_N_ATTRIBUTE)
        return 0;
    uint32_t object = tfr_tree_unparen(t, tfr_tree_field(t, function, TFR_F_OBJECT));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tfr_tree_is(t, tfr_tree_field(t, function, TFR_F_ATTRIBUTE), names[i]))
            return tfr_tree_kind(t, object) == TFR_N_CALL ? object : 0;
    return 0;
}

static bool is_identity(const tfr_module *module, uint32_t ast) {
    const tfr_tree *t = module->scope->tree;
    ast = tfr_tree_unparen(t, ast);
    uint32_t function =
        tfr_tree_kind(t, ast) == TFR_N_CALL ? tfr_tree_field(t, ast, TFR_F_FUNCTION) : 0;
    tfr_name path = function ? tfr_module_path(module, module->names, function) : 0;
    return path && tfr_str_eq(tfr_names_text(module->names, path), TFR_STR("torch.nn.Identity"));
}

static tfr_module_kind kind_of_value(const tfr_module *module, uint32_t ast, uint32_t *of_class) {
    const tfr_tree *t = module->scope->tree;
    ast = tfr_tree_unparen(t, ast);
    switch (tfr_tree_kind(t, ast)) {
    case TFR_N_CALL: {
        uint32_t function = tfr_tree_field(t, ast, TFR_F_FUNCTION);
        uint32_t made = gives_itself(t, function);
        if (made) {
            tfr_module_kind kind = kind_of_value(module, made, of_class);
            tfr_name name = tfr_names_find(
                module->names, tfr_tree_text(t, tfr_tree_field(t, function, TFR_F_ATTRIBUTE)));
            uint32_t own = *of_class - module->first_class; // or a class of another file
            bool replaced = kind == TFR_M_CLASS && name && own < module->scope->classes.count &&
                            tfr_scope_method(module->scope, own, name);
            return replaced ? TFR_M_UNKNOWN : kind;
        }
        uint32_t arguments = tfr_tree_field(t, ast, TFR_F_ARGUMENTS);
        tfr_name path = tfr_module_path(module, module->names, function);
        if (!path)
            return TFR_M_UNKNOWN;
        *of_class = tfr_scope_class(module->scope, path);
        if (*of_class != TFR_NO_CLASS) {
            *of_class += module->first_class;
            return TFR_M_CLASS;
        }
        if (tfr_ends_with(tfr_names_text(module->names, path), "activations.get_activation"))
            return TFR_M_ACT;
        tfr_module_kind kind = kind_of_path(module, path);
        if (kind != TFR_M_UNKNOWN)
            return kind == TFR_M_ACT && has_inplace(t, arguments) ? TFR_M_UNKNOWN : kind;
        *of_class = class_of_path(module, path);
        return *of_class == TFR_NO_CLASS ? TFR_M_UNKNOWN : TFR_M_CLASS;
    }
    case TFR_N_SUBSCRIPT: {
        tfr_name path = tfr_module_path(module, module->names, tfr_tree_field(t, ast, TFR_F_VALUE));
        bool table =
            path && tfr_ends_with(tfr_names_text(module->names, path), "activations.ACT2FN");
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
        tfr_module_kind otherwise = kind_of_value(module, no, &other);
        if (kind == TFR_M_LINEAR && is_identity(module, no))
            return kind; // the op calls what is no nn.Linear
        if (otherwise == TFR_M_LINEAR && is_identity(module, yes))
            return otherwise;
        return kind == otherwise && other == *of_class ? kind : TFR_M_UNKNOWN;
    }
    default:
        return TFR_M_UNKNOWN;
    }
}

static tfr_module_kind kind_of_attribute(const tfr_module *module, const tfr_attribute *a,
                                         uint32_t *of_class) {
    *of_class = TFR_NO_CLASS;
    if (a->outside_init || a->times > 4)
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

static const tfr_attribute *own_attribute(const tfr_class *cls, tfr_name name) {
    for (uint32_t i = 0; i < cls->attributes.count; i++)
        if (cls->attributes.items[i].name == name)
            return &cls->attributes.items[i];
    return NULL;
}

// ---- classes with their bases -----------------------------------------------------------------

// Depth-first over bases, left to right: Python's own order for the plain hierarchies of modeling
// files. A base's file is not opened before everything ahead of it has been looked at.
#define MAX_BASE_STEPS 32

typedef struct base_walk {
    struct {
        tfr_module *module;
        uint32_t index;
    } stack[MAX_BASE_STEPS];
    uint32_t depth, steps;
    tfr_module *module; // the class that it stands at
    uint32_t index;
} base_walk;

static void push_base(base_walk *w, tfr_name base) {
    tfr_module *module = w->module;
    uint32_t index = tfr_scope_class(module->scope, base);
    if (index == TFR_NO_CLASS && module->files) {
        tfr_str text = tfr_names_text(module->names, base);
        const char *dot = text.len ? memchr(text.data, '.', text.len) : NULL;
        size_t n = dot ? (size_t)(dot - text.data) : text.len;
        const tfr_binding *b =
            tfr_scope_lookup(module->scope, tfr_names_find(module->names, (tfr_str){text.data, n}));
        if (!b || b->kind != TFR_BIND_IMPORT)
            return;
        tfr_str path = tfr_names_text(module->names, b->path);
        if (dot)
            path = tfr_str_format(module->names->arena, "%.*s%.*s", (int)path.len, path.data,
                                  (int)(text.len - n), dot);
        b = tfr_module_import(module, tfr_names_add(module->names, path), &module);
        index = b && b->kind == TFR_BIND_CLASS ? b->index : TFR_NO_CLASS;
    }
    if (index == TFR_NO_CLASS || w->depth == MAX_BASE_STEPS)
        return;
    w->stack[w->depth].module = module;
    w->stack[w->depth++].index = index;
}

// The class itself first. NULL: there are no more.
static const tfr_class *next_base(base_walk *w) {
    if (w->steps) {
        const tfr_class *cls = &w->module->scope->classes.items[w->index];
        for (uint32_t b = cls->bases.count; b-- > 0;)
            if (cls->bases.items[b])
                push_base(w, cls->bases.items[b]);
    }
    if (!w->depth || w->steps++ == MAX_BASE_STEPS)
        return NULL;
    w->depth--;
    w->module = w->stack[w->depth].module, w->index = w->stack[w->depth].index;
    return &w->module->scope->classes.items[w->index];
}

static base_walk walk_from(tfr_module *module, uint32_t class_index) {
    base_walk w = {0};
    module = class_index == TFR_NO_CLASS ? NULL : tfr_module_of_class(module, &class_index);
    if (module) {
        w.depth = 1;
        w.stack[0].module = module, w.stack[0].index = class_index;
    }
    return w;
}

const tfr_function *tfr_module_method(tfr_module *module, uint32_t class_index, tfr_name name,
                                      tfr_module **owner) {
    base_walk w = walk_from(module, class_index);
    for (const tfr_class *cls = next_base(&w); cls; cls = next_base(&w)) {
        for (uint32_t i = cls->function_count; i-- > 0;) { // the last definition of a name wins
            const tfr_function *f = &w.module->scope->functions.items[cls->first_function + i];
            if (f->name != name)
                continue;
            *owner = w.module;
            return f;
        }
    }
    return NULL;
}

tfr_module_kind tfr_module_attribute(tfr_module *module, uint32_t class_index, tfr_name attribute,
                                     uint32_t *of_class) {
    *of_class = TFR_NO_CLASS;
    base_walk w = walk_from(module, class_index);
    const tfr_attribute *a = NULL;
    for (const tfr_class *cls = next_base(&w); cls && !a; cls = a ? cls : next_base(&w))
        a = own_attribute(cls, attribute);
    tfr_module_kind kind = a ? kind_of_attribute(w.module, a, of_class) : TFR_M_UNKNOWN;
    if (kind == TFR_M_UNKNOWN)
        return kind;
    module = tfr_module_of_class(module, &class_index);
    const tfr_scope *s = module->scope;
    bool derived_from = s->classes.items[class_index].derived_from;
    for (uint32_t c = 0; c < s->classes.count && kind != TFR_M_UNKNOWN && derived_from; c++) {
        // A class derived from this one may put another module there, and runs this method too.
        const tfr_class *cls = &s->classes.items[c];
        const tfr_attribute *other =
            cls->bases.count && c != class_index ? own_attribute(cls, attribute) : NULL;
        uint32_t of = TFR_NO_CLASS;
        if (other && other != a && tfr_scope_derives(s, c, class_index) &&
            (kind_of_attribute(module, other, &of) != kind || of != *of_class))
            kind = TFR_M_UNKNOWN;
    }
    return kind;
}

// By its index in its own file.
static bool extends(const tfr_module *module, uint32_t class_index, tfr_module_kind kind) {
    const tfr_tree *t = module->scope->tree;
    uint32_t node = module->scope->classes.items[class_index].node;
    uint32_t bases = tfr_tree_field(t, node, TFR_F_SUPERCLASSES);
    for (uint32_t b = bases ? tfr_tree_first(t, bases) : 0; b; b = tfr_tree_next(t, b)) {
        tfr_name path = tfr_module_path(module, module->names, b);
        if (path && kind_of_path(module, path) == kind)
            return true;
    }
    return false;
}

bool tfr_module_extends(tfr_module *module, uint32_t class_index, tfr_module_kind kind) {
    module = tfr_module_of_class(module, &class_index);
    return extends(module, class_index, kind);
}

// Whether a class's forward is F.linear with an attribute of its own, maybe in one case of several.
static bool multiplies_weight(tfr_module *module, uint32_t class_index) {
    tfr_module *owner;
    uint32_t forward;
    if (!tfr_module_forward(module, class_index, &owner, &forward))
        return false;
    const tfr_flow *f = tfr_module_flow(owner, forward);
    for (uint32_t i = 1; i < f->nodes.count; i++) {
        const tfr_vnode *n = &f->nodes.items[i];
        if (n->op == TFR_V_ATEN && n->arg_count > 1 &&
            tfr_str_eq(tfr_names_text(owner->names, n->name), TFR_STR("linear")) &&
            tfr_flow_node(f, tfr_flow_arg(f, i, 0).value)->op == TFR_V_PARAM &&
            tfr_flow_node(f, tfr_flow_arg(f, i, 1).value)->op == TFR_V_ATTR)
            return true;
    }
    return false;
}

bool tfr_module_wraps_linear(tfr_module *from, uint32_t number) {
    uint32_t class_index = number, linears = 0, of;
    tfr_module *module = tfr_module_of_class(from, &class_index);
    const tfr_class *cls = &module->scope->classes.items[class_index];
    if (extends(module, class_index, TFR_M_LINEAR))
        return true;
    for (uint32_t i = 0; i < cls->attributes.count; i++) {
        const tfr_attribute *a = &cls->attributes.items[i];
        bool linear = false;
        for (uint32_t k = 0; k < a->times && k < 4; k++)
            linear |= a->values[k] && kind_of_value(module, a->values[k], &of) == TFR_M_LINEAR;
        linears += linear;
    }
    return linears == 1 || (!linears && multiplies_weight(from, number));
}

bool tfr_module_super_is_pure(tfr_module *module, uint32_t class_index) {
    if (class_index == TFR_NO_CLASS)
        return false;
    module = tfr_module_of_class(module, &class_index);
    const tfr_tree *t = module->scope->tree;
    uint32_t node = module->scope->classes.items[class_index].node;
    uint32_t bases = tfr_tree_field(t, node, TFR_F_SUPERCLASSES);
    uint32_t base = bases ? tfr_tree_first(t, bases) : 0;
    tfr_name path =
        base && !tfr_tree_next(t, base) ? tfr_module_path(module, module->names, base) : 0;
    tfr_module_kind kind = path ? kind_of_path(module, path) : TFR_M_UNKNOWN;
    return kind == TFR_M_PURE || kind == TFR_M_LINEAR || kind == TFR_M_LAYER_NORM;
}

tfr_flow *tfr_module_flow(tfr_module *module, uint32_t function) {
    if (!module->flows[function]) {
        tfr_numbers *numbers = TFR_NEW(module->arena, tfr_numbers);
        tfr_numbers_init(numbers, module->arena);
        module->flows[function] = tfr_flow_build(module, function, numbers);
    }
    return module->flows[function];
}

// A class that takes its forward from another file, and has methods or attributes of its own, may
// run something else in it: the graph of forward was made there.
static bool inherits_all(tfr_module *module, uint32_t class_index, const tfr_module *owner) {
    base_walk w = walk_from(module, class_index);
    for (const tfr_class *cls = next_base(&w); cls && w.module != owner; cls = next_base(&w))
        if (cls->function_count)
            return false;
    return true;
}

bool tfr_module_forward(tfr_module *module, uint32_t class_index, tfr_module **owner,
                        uint32_t *function) {
    const tfr_words *w = module->words;
    const tfr_function *f = tfr_module_method(module, class_index, w->forward, owner);
    tfr_module *other;
    if (!f || f->decorated || tfr_module_method(module, class_index, w->call, &other) ||
        !inherits_all(module, class_index, *owner))
        return false;
    *function = (uint32_t)(f - (*owner)->scope->functions.items);
    return true;
}

bool tfr_module_pure(tfr_module *module, uint32_t class_index) {
    module = module->before ? module->before : module;
    uint32_t index = class_index, function;
    tfr_module *home = tfr_module_of_class(module, &index), *owner;
    uint8_t *state = &home->purity[index];
    if (*state == TFR_PURITY_ASKING)
        return false; // a class that calls itself
    if (*state == TFR_PURITY_UNASKED) {
        *state = TFR_PURITY_ASKING;
        bool pure = tfr_module_forward(module, class_index, &owner, &function);
        if (pure) {
            const tfr_flow *flow = tfr_module_flow(owner, function);
            pure = !flow->unfit && !flow->is_generator;
            for (uint32_t i = 0; i < flow->events.count; i++)
                pure &= flow->events.items[i].kind == TFR_EV_RETURN ||
                        flow->events.items[i].kind == TFR_EV_RAISE;
        }
        *state = pure ? TFR_PURE : TFR_IMPURE;
    }
    return *state == TFR_PURE;
}
