// One pass over the module's statements, one over each class body. Names bound twice or under a
// condition are kept as TFR_BIND_MANY: whoever asks must then not rely on them.
#include "parser/scope.h"

#include "runtime/arena.h"

static tfr_str text_of(const tfr_scope *s, uint32_t node) { return tfr_tree_text(s->tree, node); }

static tfr_name name_of(tfr_scope *s, uint32_t node) {
    return tfr_names_add(s->names, text_of(s, node));
}

static void bind(tfr_scope *s, tfr_arena *arena, tfr_binding binding, bool conditional) {
    tfr_name name = binding.name;
    if (name >= s->binding_of_name_cap) {
        uint32_t cap = name * 2 + 64;
        s->binding_of_name =
            tfr_arena_grow(arena, s->binding_of_name, s->binding_of_name_cap * sizeof(uint32_t),
                           cap * sizeof(uint32_t));
        s->binding_of_name_cap = cap;
    }
    uint32_t known = s->binding_of_name[name];
    if (known) {
        tfr_binding *old = &s->bindings.items[known - 1];
        bool same = old->kind == TFR_BIND_IMPORT && binding.kind == TFR_BIND_IMPORT &&
                    old->path == binding.path;
        if (!same)
            old->kind = TFR_BIND_MANY;
        return;
    }
    // An import under `if is_x_available():` still means that import where it is used at all.
    if (conditional && binding.kind != TFR_BIND_IMPORT)
        binding.kind = TFR_BIND_MANY;
    *TFR_PUSH(arena, &s->bindings) = binding;
    s->binding_of_name[name] = s->bindings.count;
}

static tfr_name join_path(tfr_scope *s, tfr_arena *arena, tfr_str module, tfr_str name) {
    bool dot = module.len && module.data[module.len - 1] != '.';
    tfr_str text = tfr_str_format(arena, "%.*s%s%.*s", (int)module.len, module.data, dot ? "." : "",
                                  (int)name.len, name.data);
    return tfr_names_add(s->names, text);
}

// What `from typing import *` binds: types, with capitals, and functions, these or with
// underscores.
static bool typing_binds(tfr_str name) {
    static const char *const words[] = {"cast",     "deprecated", "final",   "overload",
                                        "override", "runtime",    "sentinel"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (tfr_str_eq(name, tfr_str_from(words[i])))
            return true;
    bool plain = true;
    for (size_t i = 0; i < name.len; i++)
        plain &= (name.data[i] >= 'a' && name.data[i] <= 'z') ||
                 (name.data[i] >= '0' && name.data[i] <= '9');
    return !plain && name.len > 1;
}

// `from module import *` may have rebound any name that was there before.
static void add_wildcard(tfr_scope *s, tfr_str module, uint32_t node) {
    bool typing =
        tfr_str_eq(module, TFR_STR("typing")) || tfr_str_eq(module, TFR_STR("typing_extensions"));
    for (uint32_t i = 0; i < s->bindings.count; i++) {
        tfr_binding *b = &s->bindings.items[i];
        if (typing && b->kind == TFR_BIND_IMPORT &&
            !typing_binds(tfr_names_text(s->names, b->name)))
            continue;
        if (b->kind == TFR_BIND_IMPORT && !s->wildcard)
            s->wildcard = node;
        b->kind = TFR_BIND_MANY;
    }
}

static void add_import(tfr_scope *s, tfr_arena *arena, uint32_t node, bool conditional) {
    const tfr_tree *t = s->tree;
    tfr_kind kind = tfr_tree_kind(t, node);
    uint32_t module = tfr_tree_field(t, node, TFR_F_MODULE_NAME);
    tfr_str from = module ? text_of(s, module) : (tfr_str){"", 0};
    if (kind == TFR_N_IMPORT_FUTURE)
        return;
    for (uint32_t c = tfr_tree_first(t, node); c; c = tfr_tree_next(t, c)) {
        if (c == module)
            continue;
        tfr_kind k = tfr_tree_kind(t, c);
        if (k == TFR_N_WILDCARD_IMPORT) {
            add_wildcard(s, from, node);
            continue;
        }
        uint32_t what = k == TFR_N_ALIASED_IMPORT ? tfr_tree_field(t, c, TFR_F_NAME) : c;
        uint32_t alias = k == TFR_N_ALIASED_IMPORT ? tfr_tree_field(t, c, TFR_F_ALIAS) : 0;
        tfr_str dotted = text_of(s, what);
        tfr_binding b = {.kind = TFR_BIND_IMPORT, .node = c};
        if (kind == TFR_N_IMPORT_FROM) {
            b.name = alias ? name_of(s, alias) : tfr_names_add(s->names, dotted);
            b.path = join_path(s, arena, from, dotted);
        } else if (alias) {
            b.name = name_of(s, alias);
            b.path = tfr_names_add(s->names, dotted);
        } else { // `import a.b.c` binds a
            const char *dot = memchr(dotted.data, '.', dotted.len);
            tfr_str first = {dotted.data, dot ? (size_t)(dot - dotted.data) : dotted.len};
            b.name = b.path = tfr_names_add(s->names, first);
        }
        bind(s, arena, b, conditional);
    }
}

// The value for one target of `self.a, self.b = x, y`; 0: another form.
static uint32_t element_for(const tfr_tree *t, uint32_t pattern, uint32_t target) {
    uint32_t assignment = t->nodes[pattern].parent;
    if (tfr_tree_kind(t, assignment) != TFR_N_ASSIGNMENT)
        return 0;
    uint32_t right = tfr_tree_field(t, assignment, TFR_F_RIGHT);
    if (!right || (tfr_tree_kind(t, right) != TFR_N_EXPRESSION_LIST &&
                   tfr_tree_kind(t, right) != TFR_N_TUPLE))
        return 0;
    uint32_t value = tfr_tree_first(t, right), found = 0;
    for (uint32_t c = tfr_tree_first(t, pattern); c; c = tfr_tree_next(t, c)) {
        if (c == target)
            found = value;
        if (!value || tfr_tree_kind(t, value) == TFR_N_LIST_SPLAT)
            return 0;
        value = tfr_tree_next(t, value);
    }
    return value ? 0 : found;
}

// `self.x = value` anywhere in a method.
static void collect_attributes(tfr_scope *s, tfr_arena *arena, tfr_class *cls, uint32_t function,
                               bool is_init) {
    const tfr_tree *t = s->tree;
    uint32_t params = tfr_tree_field(t, function, TFR_F_PARAMETERS);
    uint32_t self = tfr_tree_first(t, params);
    if (!self || tfr_tree_kind(t, self) != TFR_N_IDENTIFIER)
        return;
    tfr_str self_name = text_of(s, self);
    uint32_t body = tfr_tree_field(t, function, TFR_F_BODY);
    for (uint32_t n = body, skip = 0; n; n = tfr_tree_walk(t, body, n, skip)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        skip = kind == TFR_N_LAMBDA || kind == TFR_N_CLASS;
        if (kind != TFR_N_ATTRIBUTE)
            continue;
        uint32_t object = tfr_tree_field(t, n, TFR_F_OBJECT);
        if (tfr_tree_kind(t, object) != TFR_N_IDENTIFIER ||
            !tfr_str_eq(text_of(s, object), self_name))
            continue;
        uint32_t holder = t->nodes[n].parent;
        uint8_t field = t->nodes[n].field;
        tfr_kind hk = tfr_tree_kind(t, holder);
        bool plain = hk == TFR_N_ASSIGNMENT && field == TFR_F_LEFT;
        bool target = plain || (hk == TFR_N_AUGMENTED && field == TFR_F_LEFT) ||
                      hk == TFR_N_PATTERN_LIST || hk == TFR_N_TUPLE_PATTERN || hk == TFR_N_DELETE ||
                      hk == TFR_N_LIST_PATTERN || hk == TFR_N_LIST_SPLAT_PATTERN ||
                      hk == TFR_N_AS_PATTERN_TARGET ||
                      (hk == TFR_N_PARENTHESIZED && t->nodes[holder].field == TFR_F_LEFT) ||
                      (hk == TFR_N_FOR && field == TFR_F_LEFT);
        if (!target)
            continue;
        tfr_name name = name_of(s, tfr_tree_field(t, n, TFR_F_ATTRIBUTE));
        tfr_attribute *a = NULL;
        for (uint32_t i = 0; i < cls->attributes.count; i++)
            if (cls->attributes.items[i].name == name)
                a = &cls->attributes.items[i];
        if (!a) {
            a = TFR_PUSH(arena, &cls->attributes);
            *a = (tfr_attribute){.name = name};
        }
        uint32_t inner = holder; // the function that assigns: a closure runs at any time
        while (tfr_tree_kind(t, inner) != TFR_N_FUNCTION)
            inner = t->nodes[inner].parent;
        if (!is_init || inner != function)
            a->outside_init = true;
        if (a->times < 4)
            a->values[a->times] =
                plain ? tfr_tree_field(t, holder, TFR_F_RIGHT) : element_for(t, holder, n);
        a->times++;
    }
}

static void add_class(tfr_scope *s, tfr_arena *arena, uint32_t node);

static void add_function(tfr_scope *s, tfr_arena *arena, uint32_t node, uint32_t decorated,
                         uint32_t class_index) {
    tfr_function f = {.node = node, .decorated = decorated, .class_index = class_index};
    f.name = name_of(s, tfr_tree_field(s->tree, node, TFR_F_NAME));
    for (uint32_t c = decorated ? tfr_tree_first(s->tree, decorated) : 0; c;
         c = tfr_tree_next(s->tree, c)) {
        if (tfr_tree_kind(s->tree, c) != TFR_N_DECORATOR)
            continue;
        uint32_t what = tfr_tree_first(s->tree, c);
        if (tfr_tree_is(s->tree, what, "staticmethod") || tfr_tree_is(s->tree, what, "classmethod"))
            f.is_static = true;
    }
    *TFR_PUSH(arena, &s->functions) = f;
}

static void add_bases(tfr_scope *s, tfr_arena *arena, tfr_class *cls) {
    uint32_t supers = tfr_tree_field(s->tree, cls->node, TFR_F_SUPERCLASSES);
    for (uint32_t c = supers ? tfr_tree_first(s->tree, supers) : 0; c;
         c = tfr_tree_next(s->tree, c)) {
        tfr_kind kind = tfr_tree_kind(s->tree, c);
        if (kind == TFR_N_KEYWORD_ARGUMENT)
            continue;
        bool named = kind == TFR_N_IDENTIFIER || kind == TFR_N_ATTRIBUTE;
        *TFR_PUSH(arena, &cls->bases) = named ? name_of(s, c) : 0;
    }
}

static void add_class(tfr_scope *s, tfr_arena *arena, uint32_t node) {
    const tfr_tree *t = s->tree;
    uint32_t index = s->classes.count;
    tfr_class *cls = TFR_PUSH(arena, &s->classes);
    *cls = (tfr_class){.node = node, .first_function = s->functions.count};
    cls->name = name_of(s, tfr_tree_field(t, node, TFR_F_NAME));
    add_bases(s, arena, cls);
    uint32_t body = tfr_tree_field(t, node, TFR_F_BODY);
    for (uint32_t c = tfr_tree_first(t, body); c; c = tfr_tree_next(t, c)) {
        uint32_t def = c, decorated = 0;
        if (tfr_tree_kind(t, c) == TFR_N_DECORATED) {
            decorated = c;
            def = tfr_tree_field(t, c, TFR_F_DEFINITION);
        }
        if (tfr_tree_kind(t, def) == TFR_N_FUNCTION)
            add_function(s, arena, def, decorated, index);
    }
    cls->function_count = s->functions.count - cls->first_function;
    for (uint32_t i = 0; i < cls->function_count; i++) {
        tfr_function *f = &s->functions.items[cls->first_function + i];
        if (f->is_static)
            continue;
        bool init = tfr_str_eq(tfr_names_text(s->names, f->name), TFR_STR("__init__"));
        collect_attributes(s, arena, cls, f->node, init);
    }
}

static void bind_targets(tfr_scope *s, tfr_arena *arena, uint32_t target, uint32_t value,
                         bool conditional) {
    const tfr_tree *t = s->tree;
    for (uint32_t n = target, skip = 0; n; n = tfr_tree_walk(t, target, n, skip)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        skip = kind == TFR_N_ATTRIBUTE || kind == TFR_N_SUBSCRIPT;
        if (kind != TFR_N_IDENTIFIER)
            continue;
        tfr_binding b = {.name = name_of(s, n), .kind = TFR_BIND_VALUE};
        b.node = n == target ? value : 0;
        bind(s, arena, b, conditional);
    }
}

static bool binds_by_target(tfr_kind parent, uint8_t field) {
    return (field == TFR_F_LEFT &&
            (parent == TFR_N_ASSIGNMENT || parent == TFR_N_AUGMENTED || parent == TFR_N_FOR)) ||
           (parent == TFR_N_NAMED && field == TFR_F_NAME) || parent == TFR_N_AS_PATTERN_TARGET ||
           parent == TFR_N_DELETE;
}

// Whatever a function declares global is not certain either.
static void bind_globals(tfr_scope *s, tfr_arena *arena, uint32_t root) {
    for (uint32_t n = root; n; n = tfr_tree_walk(s->tree, root, n, false))
        if (tfr_tree_kind(s->tree, n) == TFR_N_GLOBAL)
            for (uint32_t c = tfr_tree_first(s->tree, n); c; c = tfr_tree_next(s->tree, c))
                bind(s, arena, (tfr_binding){.name = name_of(s, c), .kind = TFR_BIND_MANY}, true);
}

// Letters outside ASCII that NFKC, which Python applies to names, leaves alone: accented Latin,
// Greek, Cyrillic, kana, Chinese and Korean. A name with others may be another one's twin.
static bool keeps_its_letters(tfr_str name) {
    static const uint32_t ranges[][2] = {
        {0xC0, 0xFF},     {0x386, 0x386},   {0x388, 0x3CE},   {0x410, 0x44F},
        {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3},
    };
    for (size_t i = 0; i < name.len;) {
        const uint8_t *p = (const uint8_t *)name.data + i;
        uint32_t length = *p < 0x80 ? 1 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : 4;
        if (length == 4 || i + length > name.len)
            return false;
        uint32_t letter = length == 2   ? (*p & 0x1Fu) << 6 | (p[1] & 0x3Fu)
                          : length == 3 ? (*p & 0xFu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu)
                                        : *p;
        bool known = length == 1;
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
            known |= ranges[r][0] <= letter && letter <= ranges[r][1];
        if (!known)
            return false;
        i += length;
    }
    return true;
}

static uint32_t find_strange(const tfr_tree *t) {
    bool ascii = true;
    for (size_t i = 0; i < t->src->text.len && ascii; i++)
        ascii = (uint8_t)t->src->text.data[i] < 0x80;
    for (uint32_t n = 1; n < t->count && !ascii; n++)
        if (t->nodes[n].kind == TFR_N_IDENTIFIER && !keeps_its_letters(tfr_tree_text(t, n)))
            return n;
    return 0;
}

static void mark_derived(tfr_scope *s) {
    for (uint32_t c = 0; c < s->classes.count; c++)
        for (uint32_t b = 0; b < s->classes.items[c].bases.count; b++) {
            uint32_t base = tfr_scope_class(s, s->classes.items[c].bases.items[b]);
            if (base != TFR_NO_CLASS)
                s->classes.items[base].derived_from = true;
        }
}

void tfr_scope_build(tfr_scope *s, const tfr_tree *tree, tfr_names *names, tfr_arena *arena) {
    *s = (tfr_scope){.tree = tree, .names = names, .strange = find_strange(tree)};
    const tfr_tree *t = tree;
    bool header = true;
    for (uint32_t n = tfr_tree_first(t, 1), skip; n; n = tfr_tree_walk(t, 1, n, skip)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        bool top = t->nodes[n].parent == 1;
        skip = 0;
        switch (kind) {
        case TFR_N_IMPORT:
        case TFR_N_IMPORT_FROM:
        case TFR_N_IMPORT_FUTURE:
            add_import(s, arena, n, !top);
            if (top && header)
                s->last_import = n;
            skip = 1;
            break;
        case TFR_N_CLASS:
        case TFR_N_FUNCTION: {
            uint32_t parent = t->nodes[n].parent;
            uint32_t decorated = tfr_tree_kind(t, parent) == TFR_N_DECORATED ? parent : 0;
            bool plain = t->nodes[decorated ? decorated : n].parent == 1;
            tfr_binding b = {.name = name_of(s, tfr_tree_field(t, n, TFR_F_NAME)), .node = n};
            b.kind = kind == TFR_N_CLASS ? TFR_BIND_CLASS : TFR_BIND_FUNCTION;
            b.index = kind == TFR_N_CLASS ? s->classes.count : s->functions.count;
            if (kind == TFR_N_CLASS)
                add_class(s, arena, n);
            else
                add_function(s, arena, n, decorated, TFR_NO_CLASS);
            bind(s, arena, b, !plain);
            bind_globals(s, arena, n);
            header = false;
            skip = 1;
            break;
        }
        case TFR_N_LAMBDA:
            skip = 1;
            break;
        default:
            if (binds_by_target(tfr_tree_kind(t, t->nodes[n].parent), t->nodes[n].field)) {
                uint32_t holder = t->nodes[n].parent;
                bool plain = tfr_tree_kind(t, holder) == TFR_N_ASSIGNMENT &&
                             t->nodes[t->nodes[holder].parent].parent == 1;
                bind_targets(s, arena, n, plain ? tfr_tree_field(t, holder, TFR_F_RIGHT) : 0,
                             !plain);
                skip = 1;
            }
        }
    }
    mark_derived(s);
}

const tfr_binding *tfr_scope_lookup(const tfr_scope *scope, tfr_name name) {
    if (name >= scope->binding_of_name_cap || !scope->binding_of_name[name])
        return NULL;
    return &scope->bindings.items[scope->binding_of_name[name] - 1];
}

uint32_t tfr_scope_class(const tfr_scope *scope, tfr_name name) {
    const tfr_binding *b = tfr_scope_lookup(scope, name);
    return b && b->kind == TFR_BIND_CLASS ? b->index : TFR_NO_CLASS;
}

// Depth-first over bases of this file, left to right: Python's own order for the plain hierarchies
// of modeling files. A class that is its own base ends at the step limit.
#define MAX_BASE_STEPS 32

const tfr_function *tfr_scope_method(const tfr_scope *scope, uint32_t class_index, tfr_name name) {
    uint32_t stack[MAX_BASE_STEPS] = {class_index}, depth = 1;
    for (int steps = 0; depth && steps < MAX_BASE_STEPS; steps++) {
        const tfr_class *cls = &scope->classes.items[stack[--depth]];
        const tfr_function *found = NULL; // the last definition of a name wins
        for (uint32_t i = 0; i < cls->function_count; i++) {
            const tfr_function *f = &scope->functions.items[cls->first_function + i];
            if (f->name == name)
                found = f;
        }
        if (found)
            return found;
        for (uint32_t b = cls->bases.count; b-- > 0;) {
            uint32_t base = tfr_scope_class(scope, cls->bases.items[b]);
            if (base != TFR_NO_CLASS && depth < MAX_BASE_STEPS)
                stack[depth++] = base;
        }
    }
    return NULL;
}

const tfr_attribute *tfr_scope_attribute(const tfr_scope *scope, uint32_t class_index,
                                         tfr_name name) {
    uint32_t stack[MAX_BASE_STEPS] = {class_index}, depth = 1;
    for (int steps = 0; depth && steps < MAX_BASE_STEPS; steps++) {
        uint32_t at = stack[--depth];
        const tfr_class *cls = &scope->classes.items[at];
        for (uint32_t i = 0; i < cls->attributes.count; i++)
            if (cls->attributes.items[i].name == name)
                return &cls->attributes.items[i];
        for (uint32_t b = cls->bases.count; b-- > 0;) {
            uint32_t base = tfr_scope_class(scope, cls->bases.items[b]);
            if (base != TFR_NO_CLASS && depth < MAX_BASE_STEPS)
                stack[depth++] = base;
        }
    }
    return NULL;
}

bool tfr_scope_derives(const tfr_scope *scope, uint32_t class_index, uint32_t from) {
    uint32_t stack[MAX_BASE_STEPS] = {class_index}, depth = 1;
    for (int steps = 0; depth && steps < MAX_BASE_STEPS; steps++) {
        uint32_t at = stack[--depth];
        for (uint32_t b = 0; b < scope->classes.items[at].bases.count; b++) {
            uint32_t base = tfr_scope_class(scope, scope->classes.items[at].bases.items[b]);
            if (base == from)
                return true;
            if (base != TFR_NO_CLASS && depth < MAX_BASE_STEPS)
                stack[depth++] = base;
        }
    }
    return false;
}

bool tfr_scope_overridden(const tfr_scope *scope, uint32_t class_index, tfr_name method) {
    bool derived_from = scope->classes.items[class_index].derived_from;
    for (uint32_t i = 0; i < scope->functions.count && derived_from; i++) {
        const tfr_function *f = &scope->functions.items[i];
        if (f->name != method || f->class_index == TFR_NO_CLASS || f->class_index == class_index)
            continue;
        if (tfr_scope_derives(scope, f->class_index, class_index))
            return true;
    }
    return false;
}
