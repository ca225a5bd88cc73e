// Which classes of a file are made for a configuration, and with which arguments. Starts at classes
// that nothing in the file makes and follows calls in `__init__`; what differs only in arguments of
// no consequence is kept apart all the same, so the number is bounded.
#include "rewriter/facts.h"

#define MAX_INSTANCES 4096
#define MAX_ROUNDS 1024   // of the loops around one call
#define MAX_BASE_CHAIN 8u // of super().__init__

static const tfr_tree *tree_of(const tfr_facts *f) { return f->module->scope->tree; }

// A call of a class of the file, in an `__init__`.
typedef struct site {
    uint32_t call, class_index, function;
} site;

typedef struct finder {
    tfr_facts *facts;
    TFR_LIST(site) sites;
    bool *made; // by class: some site makes it
} finder;

// ---- arguments --------------------------------------------------------------------------------

static uint32_t init_of(const tfr_facts *f, uint32_t class_index) {
    const tfr_scope *s = f->module->scope;
    const tfr_function *init = tfr_scope_method(s, class_index, f->module->words->init);
    return init ? (uint32_t)(init - s->functions.items) : TFR_NO_INIT;
}

typedef struct arguments {
    uint32_t positional[32], count;
    uint32_t keywords; // node of the argument list; 0: none
    bool splat;        // *args or **kwargs may give more
} arguments;

static void read_arguments(const tfr_facts *f, uint32_t call, arguments *out) {
    const tfr_tree *t = tree_of(f);
    *out = (arguments){.keywords = tfr_tree_field(t, call, TFR_F_ARGUMENTS)};
    for (uint32_t a = tfr_tree_first(t, out->keywords); a; a = tfr_tree_next(t, a)) {
        tfr_kind kind = tfr_tree_kind(t, a);
        if (kind == TFR_N_LIST_SPLAT || kind == TFR_N_DICT_SPLAT)
            out->splat = true;
        else if (kind != TFR_N_KEYWORD_ARGUMENT && !out->splat && out->count < 32)
            out->positional[out->count++] = a;
    }
}

static uint32_t keyword_node(const tfr_facts *f, const arguments *given, tfr_str name) {
    const tfr_tree *t = tree_of(f);
    for (uint32_t a = tfr_tree_first(t, given->keywords); a; a = tfr_tree_next(t, a))
        if (tfr_tree_kind(t, a) == TFR_N_KEYWORD_ARGUMENT &&
            tfr_str_eq(tfr_tree_text(t, tfr_tree_field(t, a, TFR_F_NAME)), name))
            return tfr_tree_field(t, a, TFR_F_VALUE);
    return 0;
}

static tfr_str class_text(const tfr_facts *f, uint32_t class_index) {
    return tfr_names_text(f->module->names, f->module->scope->classes.items[class_index].name);
}

typedef tfr_fact (*argument_source)(tfr_facts *f, uint32_t parameter, tfr_str name, uint32_t index,
                                    const void *context);

typedef struct call_context {
    const tfr_fact_scope *scope;
    arguments given;
} call_context;

static tfr_fact argument_of_call(tfr_facts *f, uint32_t parameter, tfr_str name, uint32_t index,
                                 const void *context) {
    const call_context *c = context;
    uint32_t node = index < c->given.count ? c->given.positional[index] : 0;
    node = node ? node : keyword_node(f, &c->given, name);
    if (node)
        return tfr_fact_eval(f, c->scope, node);
    uint32_t fallback = tfr_tree_field(tree_of(f), parameter, TFR_F_VALUE);
    tfr_fact_scope nowhere = {0};
    if (fallback && !c->given.splat)
        return tfr_fact_eval(f, &nowhere, fallback);
    return tfr_fact_unknown(f, "the argument `%.*s`", (int)name.len, name.data);
}

static const tfr_instance *make_instance(tfr_facts *f, uint32_t class_index, uint32_t init,
                                         argument_source source, const void *context,
                                         uint32_t chain);

// What `super().__init__(...)` in `instance->init` runs.
static const tfr_instance *base_of(tfr_facts *f, const tfr_instance *instance, uint32_t chain) {
    const tfr_tree *t = tree_of(f);
    const tfr_scope *s = f->module->scope;
    const tfr_function *init = &s->functions.items[instance->init];
    const tfr_class *cls = &s->classes.items[init->class_index];
    uint32_t base = TFR_NO_INIT;
    for (uint32_t b = 0; b < cls->bases.count && base == TFR_NO_INIT; b++) {
        uint32_t index = tfr_scope_class(s, cls->bases.items[b]);
        base = index == TFR_NO_CLASS ? TFR_NO_INIT : init_of(f, index);
    }
    if (base == TFR_NO_INIT || base == instance->init || chain >= MAX_BASE_CHAIN)
        return NULL;
    for (uint32_t n = init->node; n; n = tfr_tree_walk(t, init->node, n, false)) {
        uint32_t callee =
            tfr_tree_kind(t, n) == TFR_N_CALL ? tfr_tree_field(t, n, TFR_F_FUNCTION) : 0;
        if (!callee || tfr_tree_kind(t, callee) != TFR_N_ATTRIBUTE ||
            !tfr_tree_is(t, tfr_tree_field(t, callee, TFR_F_ATTRIBUTE), "__init__"))
            continue;
        uint32_t object = tfr_tree_field(t, callee, TFR_F_OBJECT);
        if (tfr_tree_kind(t, object) != TFR_N_CALL ||
            !tfr_tree_is(t, tfr_tree_field(t, object, TFR_F_FUNCTION), "super"))
            continue;
        tfr_fact_scope scope = {.instance = instance};
        call_context context = {.scope = &scope};
        read_arguments(f, n, &context.given);
        return make_instance(f, instance->class_index, base, argument_of_call, &context, chain + 1);
    }
    return NULL;
}

static const tfr_instance *make_instance(tfr_facts *f, uint32_t class_index, uint32_t init,
                                         argument_source source, const void *context,
                                         uint32_t chain) {
    const tfr_tree *t = tree_of(f);
    tfr_instance *made = TFR_NEW(f->arena, tfr_instance);
    *made = (tfr_instance){.class_index = class_index, .init = init};
    if (init == TFR_NO_INIT)
        return made;
    uint32_t node = f->module->scope->functions.items[init].node;
    uint32_t list = tfr_tree_field(t, node, TFR_F_PARAMETERS);
    uint32_t count = 0, index = 0;
    bool by_keyword = false;
    for (uint32_t p = tfr_tree_first(t, list); p; p = tfr_tree_next(t, p))
        count++;
    made->parameters = TFR_NEW_ARRAY(f->arena, struct tfr_fact_parameter, count);
    for (uint32_t p = tfr_tree_next(t, tfr_tree_first(t, list)); p; p = tfr_tree_next(t, p)) {
        tfr_kind kind = tfr_tree_kind(t, p);
        by_keyword |= kind == TFR_N_KEYWORD_SEPARATOR || kind == TFR_N_LIST_SPLAT_PATTERN;
        if (kind != TFR_N_IDENTIFIER && kind != TFR_N_TYPED_PARAMETER &&
            kind != TFR_N_DEFAULT_PARAMETER && kind != TFR_N_TYPED_DEFAULT_PARAMETER)
            continue;
        uint32_t name = tfr_tree_parameter_name(t, p);
        if (tfr_tree_kind(t, name) != TFR_N_IDENTIFIER) { // *args: T
            by_keyword = true;
            continue;
        }
        tfr_str text = tfr_tree_text(t, name);
        made->parameters[made->parameter_count++] = (struct tfr_fact_parameter){
            tfr_names_add(f->module->names, text),
            source(f, p, text, by_keyword ? UINT32_MAX : index, context)};
        index++;
    }
    made->base = base_of(f, made, chain);
    return made;
}

static bool same_fact(const tfr_fact *a, const tfr_fact *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TFR_FACT_UNKNOWN:
    case TFR_FACT_TEXT:
        return tfr_str_eq(a->text, b->text);
    case TFR_FACT_NONE:
        return true;
    case TFR_FACT_JSON:
        return a->json == b->json;
    case TFR_FACT_CODE:
        return a->ast == b->ast && a->instance == b->instance;
    default:
        return memcmp(&a->number, &b->number, sizeof a->number) == 0 && a->integer == b->integer;
    }
}

static bool same_instance(const tfr_instance *a, const tfr_instance *b) {
    if (a->class_index != b->class_index || a->parameter_count != b->parameter_count)
        return false;
    for (uint32_t i = 0; i < a->parameter_count; i++)
        if (!same_fact(&a->parameters[i].value, &b->parameters[i].value))
            return false;
    return true;
}

static void add_instance(tfr_facts *f, const tfr_instance *instance) {
    for (uint32_t i = 0; i < f->instances.count; i++)
        if (same_instance(f->instances.items[i], instance))
            return;
    if (f->instances.count == MAX_INSTANCES)
        f->all_found = false;
    else
        *TFR_PUSH(f->arena, &f->instances) = instance;
}

const tfr_instance *tfr_fact_made(tfr_facts *f, const tfr_fact *code) {
    const tfr_tree *t = tree_of(f);
    if (code->kind != TFR_FACT_CODE || tfr_tree_kind(t, code->ast) != TFR_N_CALL)
        return NULL;
    uint32_t callee = tfr_tree_field(t, code->ast, TFR_F_FUNCTION);
    tfr_name path = tfr_module_path(f->module, f->module->names, callee);
    uint32_t class_index = path ? tfr_scope_class(f->module->scope, path) : TFR_NO_CLASS;
    if (class_index == TFR_NO_CLASS)
        return NULL;
    tfr_fact_scope scope = {.instance = code->instance};
    call_context context = {.scope = &scope};
    read_arguments(f, code->ast, &context.given);
    return make_instance(f, class_index, init_of(f, class_index), argument_of_call, &context, 0);
}

// ---- the configuration that a class takes ------------------------------------------------------

// "XTextConfig" and "x_text" + "config" meet: letters and digits alone, lower case.
static tfr_str plain(tfr_facts *f, tfr_str text) {
    char *out = tfr_arena_alloc(f->arena, text.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c >= 'A' && c <= 'Z')
            out[n++] = (char)(c | 32);
        else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
    }
    return (tfr_str){out, n};
}

static bool ends_with(tfr_str text, tfr_str tail) {
    return text.len >= tail.len && tail.len &&
           memcmp(text.data + text.len - tail.len, tail.data, tail.len) == 0;
}

static bool is_model_type(tfr_facts *f, const tfr_json *config, tfr_str annotation) {
    const tfr_json *type = tfr_json_get(config, TFR_STR("model_type"));
    if (!type || type->kind != TFR_JSON_TEXT)
        return false;
    tfr_str name = plain(f, type->text);
    tfr_str full = tfr_str_format(f->arena, "%.*sconfig", (int)name.len, name.data);
    return tfr_str_eq(full, annotation);
}

// The class that a parameter is annotated with, if its name ends in Config.
static tfr_str annotation_of(tfr_facts *f, uint32_t parameter) {
    const tfr_tree *t = tree_of(f);
    uint32_t type = tfr_tree_field(t, parameter, TFR_F_TYPE);
    for (uint32_t n = type; n; n = tfr_tree_walk(t, type, n, false)) {
        bool name = tfr_tree_kind(t, n) == TFR_N_IDENTIFIER ||
                    (tfr_tree_kind(t, n) == TFR_N_STRING && n != type);
        tfr_str text = plain(f, tfr_tree_text(t, n));
        if (name && ends_with(text, TFR_STR("config")))
            return text;
    }
    return TFR_STR("");
}

// Whether some `__init__` of the file names the class that the document is written for; then a
// class that takes another one is not made from it.
static bool names_are_reliable(tfr_facts *f) {
    const tfr_scope *s = f->module->scope;
    for (uint32_t i = 0; i < s->functions.count; i++) {
        const tfr_tree *t = tree_of(f);
        if (s->functions.items[i].name != f->module->words->init)
            continue;
        uint32_t list = tfr_tree_field(t, s->functions.items[i].node, TFR_F_PARAMETERS);
        for (uint32_t p = tfr_tree_first(t, list); p; p = tfr_tree_next(t, p))
            if (is_model_type(f, f->config, annotation_of(f, p)))
                return true;
    }
    return false;
}

// `config: XConfig` or `config_class = XConfig` in the body of the class or of a base.
static tfr_str annotation_of_class(tfr_facts *f, uint32_t class_index) {
    const tfr_tree *t = tree_of(f);
    const tfr_scope *s = f->module->scope;
    for (uint32_t c = 0; c <= s->classes.count; c++) {
        uint32_t at = c ? c - 1 : class_index; // its own first
        if (c && !tfr_scope_derives(s, class_index, at))
            continue;
        uint32_t body = tfr_tree_field(t, s->classes.items[at].node, TFR_F_BODY);
        for (uint32_t n = tfr_tree_first(t, body); n; n = tfr_tree_next(t, n)) {
            uint32_t assignment = tfr_tree_first(t, n);
            uint32_t left = assignment ? tfr_tree_field(t, assignment, TFR_F_LEFT) : 0;
            if (!left || tfr_tree_kind(t, assignment) != TFR_N_ASSIGNMENT)
                continue;
            uint32_t right = tfr_tree_field(t, assignment, TFR_F_RIGHT);
            if (tfr_tree_is(t, left, "config_class") && right)
                return plain(f, tfr_tree_text(t, right));
            if (tfr_tree_is(t, left, "config") && annotation_of(f, assignment).len)
                return annotation_of(f, assignment);
        }
    }
    return TFR_STR("");
}

static const char ANOTHER[] = "the class takes another configuration";

static tfr_fact configuration(tfr_facts *f, tfr_str annotation) {
    tfr_fact out = {.kind = TFR_FACT_JSON, .json = f->config};
    bool generic = tfr_str_eq(annotation, TFR_STR("pretrainedconfig")) || !annotation.len;
    if (generic || is_model_type(f, f->config, annotation))
        return out;
    const tfr_json *best = NULL;
    for (const tfr_json *i = f->config->first; i; i = i->next) { // "text_config": {...}
        tfr_str key = plain(f, i->key);
        if (i->kind != TFR_JSON_OBJECT || !ends_with(key, TFR_STR("config")))
            continue;
        if (is_model_type(f, i, annotation)) {
            best = i;
            break;
        }
        if (!best && ends_with(annotation, key))
            best = i;
    }
    if (best)
        out.json = best;
    else if (f->names_are_reliable)
        return (tfr_fact){.kind = TFR_FACT_UNKNOWN, .text = tfr_str_from(ANOTHER)};
    return out;
}

static tfr_fact argument_of_root(tfr_facts *f, uint32_t parameter, tfr_str name, uint32_t index,
                                 const void *context) {
    const uint32_t *class_index = context;
    tfr_str annotation = annotation_of(f, parameter), cls = class_text(f, *class_index);
    (void)index;
    if (tfr_str_eq(name, TFR_STR("config")) && !annotation.len)
        annotation = annotation_of_class(f, *class_index);
    if (annotation.len || tfr_str_eq(name, TFR_STR("config")))
        return configuration(f, annotation);
    return tfr_fact_unknown(f, "the argument `%.*s` of %.*s", (int)name.len, name.data,
                            (int)cls.len, cls.data);
}

// ---- finding ----------------------------------------------------------------------------------

static void find_sites(finder *d) {
    tfr_facts *f = d->facts;
    const tfr_tree *t = tree_of(f);
    for (uint32_t n = 1; n < t->count; n++) {
        if (tfr_tree_kind(t, n) != TFR_N_CALL)
            continue;
        uint32_t callee = tfr_tree_field(t, n, TFR_F_FUNCTION);
        if (tfr_tree_kind(t, callee) != TFR_N_IDENTIFIER)
            continue;
        tfr_name name = tfr_names_find(f->module->names, tfr_tree_text(t, callee));
        uint32_t index = name ? tfr_scope_class(f->module->scope, name) : TFR_NO_CLASS;
        uint32_t function = index == TFR_NO_CLASS ? UINT32_MAX : tfr_fact_function(f, n);
        if (function == UINT32_MAX ||
            f->module->scope->functions.items[function].class_index == TFR_NO_CLASS ||
            f->module->scope->functions.items[function].name != f->module->words->init)
            continue;
        d->made[index] = true;
        *TFR_PUSH(f->arena, &d->sites) = (site){n, index, function};
    }
}

// `for name in range(n)` around a call.
typedef struct round_of_loop {
    tfr_name name;
    int64_t count; // < 0: not known
} round_of_loop;

static void add_loop(finder *d, const tfr_fact_scope *scope, uint32_t clause, round_of_loop *loops,
                     uint32_t *count) {
    tfr_facts *f = d->facts;
    const tfr_tree *t = tree_of(f);
    uint32_t left = tfr_tree_field(t, clause, TFR_F_LEFT);
    uint32_t right = tfr_tree_field(t, clause, TFR_F_RIGHT);
    if (*count == 2 || !left || tfr_tree_kind(t, left) != TFR_N_IDENTIFIER)
        return;
    round_of_loop loop = {tfr_names_add(f->module->names, tfr_tree_text(t, left)), -1};
    tfr_fact range = tfr_fact_eval(f, scope, right), end, second;
    if (tfr_str_eq(tfr_fact_path(f, &range), TFR_STR("range")) &&
        tfr_fact_argument(f, &range, 0, NULL, &end) && end.kind == TFR_FACT_INT &&
        !tfr_fact_argument(f, &range, 1, NULL, &second))
        loop.count = end.integer;
    if (loop.count >= 0 && loop.count <= MAX_ROUNDS)
        loops[(*count)++] = loop;
}

static void run_site(finder *d, const site *s, const tfr_instance *instance) {
    tfr_facts *f = d->facts;
    const tfr_tree *t = tree_of(f);
    tfr_fact_scope scope = {.instance = instance};
    round_of_loop loops[2] = {{0, 1}, {0, 1}};
    uint32_t count = 0;
    for (uint32_t n = s->call; n && tfr_tree_kind(t, n) != TFR_N_FUNCTION; n = t->nodes[n].parent) {
        tfr_kind kind = tfr_tree_kind(t, n);
        if (kind == TFR_N_FOR)
            add_loop(d, &scope, n, loops, &count);
        for (uint32_t c = kind == TFR_N_LIST_COMPREHENSION || kind == TFR_N_GENERATOR
                              ? tfr_tree_first(t, n)
                              : 0;
             c; c = tfr_tree_next(t, c))
            if (tfr_tree_kind(t, c) == TFR_N_FOR_IN_CLAUSE)
                add_loop(d, &scope, c, loops, &count);
    }
    scope.loop_count = count;
    for (int64_t i = 0; i < loops[0].count; i++)
        for (int64_t k = 0; k < loops[1].count && i * loops[1].count + k < MAX_ROUNDS; k++) {
            scope.loops[0] = (tfr_fact_loop){loops[0].name, i};
            scope.loops[1] = (tfr_fact_loop){loops[1].name, k};
            tfr_fact why;
            if (tfr_fact_runs(f, &scope, s->call, true, &why) == 0)
                continue;
            call_context context = {.scope = &scope};
            read_arguments(f, s->call, &context.given);
            add_instance(f, make_instance(f, s->class_index, init_of(f, s->class_index),
                                          argument_of_call, &context, 0));
        }
}

// Nothing of the file makes the class: the configuration makes it, if it is the right one. A base
// of other classes may be there for them alone.
static void add_root(tfr_facts *f, uint32_t class_index) {
    const tfr_instance *root =
        make_instance(f, class_index, init_of(f, class_index), argument_of_root, &class_index, 0);
    bool is_base = f->module->scope->classes.items[class_index].derived_from;
    for (uint32_t i = 0; i < root->parameter_count; i++) {
        const tfr_fact *value = &root->parameters[i].value;
        if (value->kind == TFR_FACT_UNKNOWN && (is_base || value->text.data == ANOTHER))
            return;
    }
    add_instance(f, root);
}

void tfr_facts_find(tfr_facts *f) {
    const tfr_scope *s = f->module->scope;
    finder d = {.facts = f};
    d.made = TFR_NEW_ARRAY(f->arena, bool, s->classes.count + 1);
    f->all_found = true;
    f->names_are_reliable = names_are_reliable(f);
    find_sites(&d);
    for (uint32_t c = 0; c < s->classes.count; c++)
        if (!d.made[c])
            add_root(f, c);
    for (uint32_t i = 0; i < f->instances.count; i++)
        for (const tfr_instance *at = f->instances.items[i]; at; at = at->base)
            for (uint32_t k = 0; k < d.sites.count; k++)
                if (d.sites.items[k].function == at->init)
                    run_site(&d, &d.sites.items[k], at);
}
