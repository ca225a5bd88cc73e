// Evaluates expressions the way Python would, over syntax trees and within bounds. What an
// assignment leaves behind is found by going back over those before it, with the conditions they
// stand under evaluated as well.
#include "rewriter/facts.h"

#include <stdlib.h>

#define MAX_EVAL_DEPTH 120
#define MAX_EVAL_STEPS 4000000u // of all expressions of a file

static const tfr_tree *tree_of(const tfr_facts *f) { return f->module->scope->tree; }
static tfr_str text_at(const tfr_facts *f, uint32_t ast) { return tfr_tree_text(tree_of(f), ast); }

static tfr_fact fact_code(const tfr_fact_scope *scope, uint32_t ast) {
    return (tfr_fact){.kind = TFR_FACT_CODE, .ast = ast, .instance = scope->instance};
}

// ---- literals ---------------------------------------------------------------------------------

static tfr_fact eval_number(tfr_facts *f, uint32_t ast) {
    char digits[64];
    size_t n = 0;
    tfr_str text = text_at(f, ast);
    for (size_t i = 0; i < text.len && n + 1 < sizeof digits; i++)
        if (text.data[i] != '_')
            digits[n++] = text.data[i];
    digits[n] = 0;
    char *end;
    if (tfr_tree_kind(tree_of(f), ast) == TFR_N_FLOAT) {
        double value = strtod(digits, &end);
        return *end ? tfr_fact_unclear(f, ast, "is no plain number") : tfr_fact_float(value);
    }
    int base = n > 1 && digits[0] == '0' && (digits[1] | 32) == 'x' ? 16 : 10;
    long long value = strtoll(digits, &end, base);
    return *end || n > 18 ? tfr_fact_unclear(f, ast, "is no plain number") : tfr_fact_int(value);
}

static tfr_fact eval_string(tfr_facts *f, uint32_t ast) {
    tfr_str text = text_at(f, ast);
    bool quoted = text.len >= 2 && (text.data[0] == '"' || text.data[0] == '\'') &&
                  !(text.len >= 6 && text.data[0] == text.data[1] && text.data[2] == text.data[1]);
    if (!quoted || memchr(text.data, '\\', text.len))
        return tfr_fact_unclear(f, ast, "is no plain string");
    return tfr_fact_text((tfr_str){text.data + 1, text.len - 2});
}

// ---- assignments ------------------------------------------------------------------------------

uint32_t tfr_fact_function(const tfr_facts *f, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    for (uint32_t n = ast; n; n = t->nodes[n].parent) {
        if (tfr_tree_kind(t, n) != TFR_N_FUNCTION)
            continue;
        for (uint32_t i = 0; i < f->module->scope->functions.count; i++)
            if (f->module->scope->functions.items[i].node == n)
                return i;
    }
    return UINT32_MAX;
}

static tfr_fact condition_of(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast, int *truth) {
    const tfr_tree *t = tree_of(f);
    ast = tfr_tree_unparen(t, ast);
    tfr_fact value = tfr_fact_eval(f, scope, ast);
    *truth = tfr_fact_truth(&value);
    if (*truth < 0 && tfr_tree_kind(t, ast) == TFR_N_BOOLEAN && f->depth < MAX_EVAL_DEPTH) {
        // One side alone may decide.
        int sides[2];
        f->depth++;
        (void)condition_of(f, scope, tfr_tree_field(t, ast, TFR_F_LEFT), &sides[0]);
        (void)condition_of(f, scope, tfr_tree_field(t, ast, TFR_F_RIGHT), &sides[1]);
        f->depth--;
        int deciding = tfr_tree_is(t, tfr_tree_field(t, ast, TFR_F_OPERATOR), "or");
        if (sides[0] == deciding || sides[1] == deciding)
            *truth = deciding;
    }
    if (*truth < 0 && value.kind != TFR_FACT_UNKNOWN)
        value = tfr_fact_unclear(f, ast, "is not known to be true or false");
    return value;
}

// `if x: ...; return` without an else.
static bool leaves_when_true(const tfr_tree *t, uint32_t statement) {
    if (tfr_tree_kind(t, statement) != TFR_N_IF || tfr_tree_field(t, statement, TFR_F_ALTERNATIVE))
        return false;
    uint32_t last = 0;
    uint32_t body = tfr_tree_field(t, statement, TFR_F_CONSEQUENCE);
    for (uint32_t c = tfr_tree_first(t, body); c; c = tfr_tree_next(t, c))
        last = c;
    return last && tfr_tree_kind(t, last) == TFR_N_RETURN;
}

// Whether control gets from `parent` to its child `n`.
static int step_runs(tfr_facts *f, const tfr_fact_scope *scope, uint32_t parent, uint32_t n,
                     bool in_loops, tfr_fact *why) {
    const tfr_tree *t = tree_of(f);
    tfr_kind kind = tfr_tree_kind(t, parent), own = tfr_tree_kind(t, n);
    uint8_t field = t->nodes[n].field;
    int truth = 1;
    if ((kind == TFR_N_IF || kind == TFR_N_ELIF) && field == TFR_F_CONSEQUENCE) {
        *why = condition_of(f, scope, tfr_tree_field(t, parent, TFR_F_CONDITION), &truth);
        return truth;
    }
    if (kind == TFR_N_IF && (own == TFR_N_ELIF || own == TFR_N_ELSE)) {
        *why = condition_of(f, scope, tfr_tree_field(t, parent, TFR_F_CONDITION), &truth);
        for (uint32_t c = tfr_tree_first(t, parent); c && c != n && truth == 0;
             c = tfr_tree_next(t, c))
            if (tfr_tree_kind(t, c) == TFR_N_ELIF)
                *why = condition_of(f, scope, tfr_tree_field(t, c, TFR_F_CONDITION), &truth);
        return truth < 0 ? truth : !truth;
    }
    if (kind == TFR_N_BLOCK) {
        for (uint32_t c = tfr_tree_first(t, parent); c && c != n; c = tfr_tree_next(t, c)) {
            if (!leaves_when_true(t, c))
                continue;
            (void)condition_of(f, scope, tfr_tree_field(t, c, TFR_F_CONDITION), &truth);
            if (truth == 1)
                return 0;
        }
        return 1;
    }
    if (kind == TFR_N_CONDITIONAL) {
        uint32_t yes = tfr_tree_first(t, parent), condition = tfr_tree_next(t, yes);
        if (n == condition)
            return 1;
        *why = condition_of(f, scope, condition, &truth);
        return truth < 0 || n == yes ? truth : !truth;
    }
    bool loop = kind == TFR_N_FOR || kind == TFR_N_WHILE;
    bool unsure = (loop && !in_loops && field != TFR_F_RIGHT) || kind == TFR_N_TRY ||
                  kind == TFR_N_MATCH || kind == TFR_N_LAMBDA;
    if (unsure) {
        *why = tfr_fact_unknown(f, "code in a loop, try, match or lambda");
        return -1;
    }
    return 1;
}

int tfr_fact_runs(tfr_facts *f, const tfr_fact_scope *scope, uint32_t node, bool in_loops,
                  tfr_fact *why) {
    const tfr_tree *t = tree_of(f);
    int result = 1;
    for (uint32_t n = node; n; n = t->nodes[n].parent) {
        uint32_t parent = t->nodes[n].parent;
        if (tfr_tree_kind(t, n) == TFR_N_FUNCTION || !parent)
            break;
        tfr_fact reason;
        int step = step_runs(f, scope, parent, n, in_loops, &reason);
        if (step == 0)
            return 0;
        if (step < 0 && result > 0) {
            *why = reason;
            result = -1;
        }
    }
    return result;
}

// The value that an assignment gives to one of its targets; 0: not to be told.
static uint32_t assigned_value(const tfr_tree *t, uint32_t target, uint32_t *statement) {
    uint32_t holder = t->nodes[target].parent;
    tfr_kind kind = tfr_tree_kind(t, holder);
    *statement = holder;
    if (kind == TFR_N_ASSIGNMENT)
        return tfr_tree_field(t, holder, TFR_F_RIGHT);
    if (kind != TFR_N_PATTERN_LIST && kind != TFR_N_TUPLE_PATTERN)
        return 0;
    *statement = t->nodes[holder].parent;
    if (tfr_tree_kind(t, *statement) != TFR_N_ASSIGNMENT)
        return 0;
    uint32_t right = tfr_tree_field(t, *statement, TFR_F_RIGHT), found = 0;
    tfr_kind list = right ? tfr_tree_kind(t, right) : TFR_N_OTHER;
    if (list != TFR_N_EXPRESSION_LIST && list != TFR_N_TUPLE)
        return 0;
    uint32_t value = tfr_tree_first(t, right);
    for (uint32_t c = tfr_tree_first(t, holder); c; c = tfr_tree_next(t, c)) {
        if (c == target)
            found = value;
        if (!value || tfr_tree_kind(t, value) == TFR_N_LIST_SPLAT)
            return 0;
        value = tfr_tree_next(t, value);
    }
    return value ? 0 : found;
}

static bool binds(const tfr_tree *t, uint32_t n) {
    tfr_kind parent = tfr_tree_kind(t, t->nodes[n].parent);
    uint8_t field = t->nodes[n].field;
    switch (parent) {
    case TFR_N_ASSIGNMENT: // `x: int` alone binds nothing
        return field == TFR_F_LEFT && tfr_tree_field(t, t->nodes[n].parent, TFR_F_RIGHT);
    case TFR_N_AUGMENTED:
    case TFR_N_FOR:
        return field == TFR_F_LEFT;
    case TFR_N_NAMED:
    case TFR_N_FUNCTION:
    case TFR_N_CLASS:
        return field == TFR_F_NAME;
    case TFR_N_PATTERN_LIST:
    case TFR_N_TUPLE_PATTERN:
    case TFR_N_LIST_PATTERN:
    case TFR_N_LIST_SPLAT_PATTERN:
    case TFR_N_AS_PATTERN_TARGET:
    case TFR_N_DELETE:
        return true;
    default:
        return false;
    }
}

typedef struct definition {
    uint32_t target, value, statement;
} definition;

#define MAX_DEFINITIONS 16

typedef struct definitions {
    definition items[MAX_DEFINITIONS];
    uint32_t count;
    bool too_many;
    uint32_t leaves; // start of the first `return` of the function; UINT32_MAX: none
} definitions;

// Every place of the function that may bind the local name `local`, or with 0 the attribute
// `attribute` of `self`, before byte `before`.
static void find_definitions(const tfr_facts *f, uint32_t function, tfr_str local, tfr_str self,
                             tfr_str attribute, uint32_t before, definitions *out) {
    const tfr_tree *t = tree_of(f);
    uint32_t body = tfr_tree_field(t, function, TFR_F_BODY);
    *out = (definitions){.leaves = UINT32_MAX};
    for (uint32_t n = body, skip = 0; n; n = tfr_tree_walk(t, body, n, skip)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        skip = kind == TFR_N_LAMBDA || kind == TFR_N_CLASS || kind == TFR_N_FUNCTION;
        if (t->nodes[n].start >= before)
            break;
        if (kind == TFR_N_RETURN && out->leaves == UINT32_MAX)
            out->leaves = t->nodes[n].start;
        bool found = false;
        if (local.len) {
            found = kind == TFR_N_IDENTIFIER && tfr_str_eq(text_at(f, n), local);
        } else if (kind == TFR_N_ATTRIBUTE) {
            uint32_t object = tfr_tree_field(t, n, TFR_F_OBJECT);
            found = tfr_tree_kind(t, object) == TFR_N_IDENTIFIER &&
                    tfr_str_eq(text_at(f, object), self) &&
                    tfr_str_eq(text_at(f, tfr_tree_field(t, n, TFR_F_ATTRIBUTE)), attribute);
        }
        if (!found || !binds(t, n))
            continue;
        definition d = {.target = n};
        d.value = assigned_value(t, n, &d.statement);
        if (t->nodes[d.statement].end > before) // `x = x + 1`: not yet
            continue;
        if (out->count == MAX_DEFINITIONS)
            out->too_many = true;
        else
            out->items[out->count++] = d;
    }
}

// What the definitions leave behind; false: none of them ran.
static bool last_definition(tfr_facts *f, const tfr_fact_scope *scope, const definitions *d,
                            tfr_str name, tfr_fact *out) {
    const tfr_tree *t = tree_of(f);
    if (d->too_many) {
        *out = tfr_fact_unknown(f, "`%.*s` is assigned too often", (int)name.len, name.data);
        return true;
    }
    for (uint32_t i = d->count; i-- > 0;) {
        const definition *at = &d->items[i];
        int runs = tfr_fact_runs(f, scope, at->statement, false, out);
        if (runs == 0)
            continue;
        if (t->nodes[at->statement].start > d->leaves && runs > 0) {
            *out = tfr_fact_unknown(f, "__init__ may return before `%.*s` is assigned",
                                    (int)name.len, name.data);
            return true;
        }
        if (runs > 0)
            *out = at->value ? tfr_fact_eval(f, scope, at->value)
                             : tfr_fact_unclear(f, at->target,
                                                "is assigned in a way that is not followed");
        return true;
    }
    return false;
}

static tfr_str self_name(const tfr_facts *f, uint32_t function) {
    const tfr_tree *t = tree_of(f);
    uint32_t node = f->module->scope->functions.items[function].node;
    uint32_t first = tfr_tree_first(t, tfr_tree_field(t, node, TFR_F_PARAMETERS));
    return first ? text_at(f, tfr_tree_parameter_name(t, first)) : TFR_STR("");
}

// ---- names ------------------------------------------------------------------------------------

static bool parameter_of(const tfr_instance *instance, tfr_name name, tfr_fact *out) {
    for (uint32_t i = 0; i < instance->parameter_count; i++) {
        if (instance->parameters[i].name != name)
            continue;
        *out = instance->parameters[i].value;
        return true;
    }
    return false;
}

static tfr_fact module_name(tfr_facts *f, uint32_t ast) {
    tfr_name name = tfr_names_add(f->module->names, text_at(f, ast));
    const tfr_binding *binding = tfr_scope_lookup(f->module->scope, name);
    tfr_fact_scope nowhere = {0};
    if (binding && binding->kind == TFR_BIND_VALUE && binding->node)
        return tfr_fact_eval(f, &nowhere, binding->node);
    if (binding && (binding->kind == TFR_BIND_MANY || binding->kind == TFR_BIND_VALUE))
        return tfr_fact_unclear(f, ast, "has no one value in this file");
    return fact_code(&nowhere, ast); // an import, a class, a function, a builtin
}

static tfr_fact eval_identifier(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    tfr_str text = text_at(f, ast);
    tfr_name name = tfr_names_add(f->module->names, text);
    for (uint32_t i = 0; i < scope->loop_count; i++)
        if (scope->loops[i].name == name)
            return tfr_fact_int(scope->loops[i].value);
    uint32_t function = tfr_fact_function(f, ast);
    if (function == UINT32_MAX)
        return module_name(f, ast);
    const tfr_instance *instance = scope->instance;
    uint32_t node = f->module->scope->functions.items[function].node;
    definitions d;
    find_definitions(f, node, text, text, text, t->nodes[ast].start, &d);
    bool in_init = instance && instance->init == function;
    // Comprehensions have names of their own.
    for (uint32_t n = ast; n != node; n = t->nodes[n].parent)
        for (uint32_t c = tfr_tree_first(t, n); c; c = tfr_tree_next(t, c))
            if (tfr_tree_kind(t, c) == TFR_N_FOR_IN_CLAUSE &&
                tfr_str_eq(text_at(f, tfr_tree_field(t, c, TFR_F_LEFT)), text))
                return tfr_fact_unclear(f, ast, "is a loop variable");
    tfr_fact out;
    if (d.count || d.too_many) {
        if (!in_init)
            return tfr_fact_unclear(f, ast, "is a local name");
        if (last_definition(f, scope, &d, text, &out))
            return out;
    }
    if (in_init && parameter_of(instance, name, &out))
        return out;
    uint32_t parameters = tfr_tree_field(t, node, TFR_F_PARAMETERS);
    for (uint32_t p = tfr_tree_first(t, parameters); p; p = tfr_tree_next(t, p))
        if (tfr_str_eq(text_at(f, tfr_tree_parameter_name(t, p)), text))
            return tfr_fact_unclear(f, ast, "is an argument");
    return module_name(f, ast);
}

// ---- attributes -------------------------------------------------------------------------------

// Whether another method of the class, or of a base, assigns it too.
static bool assigned_outside(const tfr_facts *f, const tfr_instance *instance, tfr_name name) {
    const tfr_scope *s = f->module->scope;
    for (uint32_t c = 0; c < s->classes.count; c++) {
        if (c != instance->class_index && !tfr_scope_derives(s, instance->class_index, c))
            continue;
        const tfr_class *cls = &s->classes.items[c];
        for (uint32_t i = 0; i < cls->attributes.count; i++)
            if (cls->attributes.items[i].name == name && cls->attributes.items[i].outside_init)
                return true;
    }
    return false;
}

static tfr_fact attribute_before(tfr_facts *f, const tfr_instance *instance, tfr_name name,
                                 uint32_t before) {
    tfr_str text = tfr_names_text(f->module->names, name);
    if (!instance)
        return tfr_fact_unknown(f, "`self.%.*s` is not known here", (int)text.len, text.data);
    if (assigned_outside(f, instance, name))
        return tfr_fact_unknown(f, "`self.%.*s` is assigned outside of __init__", (int)text.len,
                                text.data);
    tfr_fact out;
    for (const tfr_instance *i = instance; i && i->init != TFR_NO_INIT; i = i->base) {
        uint32_t node = f->module->scope->functions.items[i->init].node;
        tfr_fact_scope scope = {.instance = i};
        definitions d;
        find_definitions(f, node, TFR_STR(""), self_name(f, i->init), text, before, &d);
        if (last_definition(f, &scope, &d, text, &out))
            return out;
        before = UINT32_MAX;
    }
    // PreTrainedModel and its like keep what they are given.
    for (const tfr_instance *i = instance; i && tfr_str_eq(text, TFR_STR("config")); i = i->base)
        if (parameter_of(i, name, &out) && out.kind == TFR_FACT_JSON)
            return out;
    return tfr_fact_unknown(f, "`self.%.*s` is not set in an __init__ of this file", (int)text.len,
                            text.data);
}

tfr_fact tfr_fact_attribute(tfr_facts *f, const tfr_instance *instance, tfr_name name) {
    return attribute_before(f, instance, name, UINT32_MAX);
}

static tfr_fact missing(tfr_facts *f, tfr_str key) {
    return tfr_fact_unknown(f, "%s has no %.*s", f->config_name, (int)key.len, key.data);
}

tfr_fact tfr_fact_member(tfr_facts *f, const tfr_fact *object, tfr_str name) {
    if (object->kind == TFR_FACT_UNKNOWN)
        return *object;
    if (object->kind == TFR_FACT_JSON && object->json->kind == TFR_JSON_OBJECT) {
        const tfr_json *found = tfr_config_get(object->json, name);
        return found ? tfr_fact_json(found) : missing(f, name);
    }
    tfr_fact out;
    if (object->kind == TFR_FACT_CODE &&
        tfr_str_eq(tfr_fact_path(f, object), TFR_STR("torch.nn.Linear"))) {
        if (tfr_str_eq(name, TFR_STR("in_features")) &&
            tfr_fact_argument(f, object, 0, "in_features", &out))
            return out;
        if (tfr_str_eq(name, TFR_STR("out_features")) &&
            tfr_fact_argument(f, object, 1, "out_features", &out))
            return out;
    }
    if (object->kind == TFR_FACT_CODE && tfr_fact_made(f, object))
        return tfr_fact_attribute(f, tfr_fact_made(f, object),
                                  tfr_names_add(f->module->names, name));
    if (object->kind == TFR_FACT_CODE)
        return tfr_fact_unclear(f, object->ast, "has attributes that are not followed");
    return tfr_fact_unknown(f, "the attribute %.*s", (int)name.len, name.data);
}

static tfr_fact eval_attribute(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    uint32_t object = tfr_tree_unparen(t, tfr_tree_field(t, ast, TFR_F_OBJECT));
    tfr_str name = text_at(f, tfr_tree_field(t, ast, TFR_F_ATTRIBUTE));
    uint32_t function = tfr_fact_function(f, ast);
    bool method = function != UINT32_MAX && scope->instance &&
                  f->module->scope->functions.items[function].class_index != TFR_NO_CLASS &&
                  !f->module->scope->functions.items[function].is_static;
    if (method && tfr_tree_kind(t, object) == TFR_N_IDENTIFIER &&
        tfr_str_eq(text_at(f, object), self_name(f, function))) {
        bool in_init = scope->instance->init == function;
        return attribute_before(f, scope->instance, tfr_names_add(f->module->names, name),
                                in_init ? t->nodes[ast].start : UINT32_MAX);
    }
    tfr_fact value = tfr_fact_eval(f, scope, object);
    if (value.kind == TFR_FACT_CODE && tfr_module_path(f->module, f->module->names, ast))
        if (tfr_tree_kind(t, value.ast) == TFR_N_IDENTIFIER ||
            tfr_tree_kind(t, value.ast) == TFR_N_ATTRIBUTE)
            return fact_code(scope, ast); // torch.float32
    return tfr_fact_member(f, &value, name);
}

// ---- calls ------------------------------------------------------------------------------------

tfr_str tfr_fact_path(tfr_facts *f, const tfr_fact *code) {
    const tfr_tree *t = tree_of(f);
    if (code->kind != TFR_FACT_CODE)
        return TFR_STR("");
    uint32_t at = code->ast;
    if (tfr_tree_kind(t, at) == TFR_N_CALL)
        at = tfr_tree_field(t, at, TFR_F_FUNCTION);
    else if (tfr_tree_kind(t, at) == TFR_N_SUBSCRIPT)
        at = tfr_tree_field(t, at, TFR_F_VALUE);
    tfr_name path = tfr_module_path(f->module, f->module->names, at);
    return path ? tfr_names_text(f->module->names, path) : TFR_STR("");
}

// The node of an argument; 0: not given, or `*args` may give it.
static uint32_t argument_node(const tfr_facts *f, uint32_t call, uint32_t position,
                              const char *keyword) {
    const tfr_tree *t = tree_of(f);
    uint32_t arguments = tfr_tree_field(t, call, TFR_F_ARGUMENTS), at = 0;
    bool splat = false;
    for (uint32_t a = tfr_tree_first(t, arguments); a; a = tfr_tree_next(t, a)) {
        tfr_kind kind = tfr_tree_kind(t, a);
        if (kind == TFR_N_KEYWORD_ARGUMENT) {
            if (keyword && tfr_tree_is(t, tfr_tree_field(t, a, TFR_F_NAME), keyword))
                return tfr_tree_field(t, a, TFR_F_VALUE);
            continue;
        }
        splat |= kind == TFR_N_LIST_SPLAT || kind == TFR_N_DICT_SPLAT;
        if (!splat && at++ == position)
            return a;
    }
    return 0;
}

bool tfr_fact_argument(tfr_facts *f, const tfr_fact *code, uint32_t position, const char *keyword,
                       tfr_fact *out) {
    if (code->kind != TFR_FACT_CODE || tfr_tree_kind(tree_of(f), code->ast) != TFR_N_CALL)
        return false;
    uint32_t node = argument_node(f, code->ast, position, keyword);
    if (!node)
        return false;
    tfr_fact_scope scope = {.instance = code->instance};
    *out = tfr_fact_eval(f, &scope, node);
    return true;
}

// getattr(object, "name"), hasattr, config.get("name"): of the configuration. A default stands for
// what the configuration's own class lacks, and that class is in another file: not known.
static bool eval_lookup(tfr_facts *f, const tfr_fact_scope *scope, uint32_t call, tfr_str path,
                        tfr_fact *out) {
    const tfr_tree *t = tree_of(f);
    bool get = tfr_str_eq(path, TFR_STR("getattr")), has = tfr_str_eq(path, TFR_STR("hasattr"));
    uint32_t function = tfr_tree_field(t, call, TFR_F_FUNCTION);
    uint32_t object = get || has ? argument_node(f, call, 0, NULL) : 0;
    uint32_t key = argument_node(f, call, object ? 1 : 0, NULL);
    bool text_config = false;
    if (!get && !has && tfr_tree_kind(t, function) == TFR_N_ATTRIBUTE) {
        uint32_t method = tfr_tree_field(t, function, TFR_F_ATTRIBUTE);
        text_config = tfr_tree_is(t, method, "get_text_config");
        if (text_config || tfr_tree_is(t, method, "get"))
            object = tfr_tree_field(t, function, TFR_F_OBJECT);
    }
    if (!object || (!key && !text_config))
        return false;
    tfr_fact value = tfr_fact_eval(f, scope, object);
    if (value.kind == TFR_FACT_UNKNOWN && !text_config) {
        *out = value;
        return true;
    }
    if (value.kind != TFR_FACT_JSON || value.json->kind != TFR_JSON_OBJECT)
        return false;
    if (text_config) {
        const tfr_json *inner = tfr_json_get(value.json, TFR_STR("text_config"));
        *out = inner ? tfr_fact_json(inner) : value;
        return true;
    }
    tfr_fact name = tfr_fact_eval(f, scope, key);
    if (name.kind != TFR_FACT_TEXT)
        return false;
    const tfr_json *found = tfr_config_get(value.json, name.text);
    *out = !found ? missing(f, name.text) : has ? tfr_fact_bool(true) : tfr_fact_json(found);
    return true;
}

// Towards zero, down or up.
static tfr_fact rounded(const tfr_fact *a, int direction) {
    if (tfr_fact_is_whole(a))
        return tfr_fact_int(a->integer);
    int64_t cut = (int64_t)a->number;
    cut += direction > 0 && (double)cut < a->number;
    cut -= direction < 0 && (double)cut > a->number;
    return tfr_fact_int(cut);
}

// int(x), max(a, b), math.ceil(x), ...
static bool eval_function(tfr_facts *f, const tfr_fact_scope *scope, uint32_t call, tfr_str path,
                          tfr_fact *out) {
    static const char *const names[] = {"int", "float", "bool",       "abs",      "max",
                                        "min", "len",   "math.floor", "math.ceil"};
    enum { INT, FLOAT, BOOL, ABS, MAX, MIN, LEN, FLOOR, CEIL, COUNT };
    int which = 0;
    while (which < COUNT && !tfr_str_eq(path, tfr_str_from(names[which])))
        which++;
    uint32_t first = argument_node(f, call, 0, NULL), second = argument_node(f, call, 1, NULL);
    if (which == COUNT || !first || argument_node(f, call, 2, NULL) ||
        (second && which != MAX && which != MIN) || (!second && (which == MAX || which == MIN)))
        return false;
    tfr_fact a = tfr_fact_eval(f, scope, first);
    tfr_fact b = second ? tfr_fact_eval(f, scope, second) : a;
    *out = a.kind == TFR_FACT_UNKNOWN ? a : b;
    if (a.kind == TFR_FACT_UNKNOWN || b.kind == TFR_FACT_UNKNOWN)
        return true;
    if (which == LEN && a.kind == TFR_FACT_JSON)
        *out = tfr_fact_int(a.json->integer);
    else if (which == BOOL && tfr_fact_truth(&a) >= 0)
        *out = tfr_fact_bool(tfr_fact_truth(&a) != 0);
    else if (!tfr_fact_is_number(&a) || !tfr_fact_is_number(&b) ||
             !(a.number > -9e15 && a.number < 9e15))
        return false;
    else if (which == FLOAT)
        *out = tfr_fact_float(a.number);
    else if (which == MAX || which == MIN)
        *out = (which == MAX) == (b.number > a.number) && b.number != a.number ? b : a;
    else if (which == ABS)
        *out = a.number >= 0           ? a
               : tfr_fact_is_whole(&a) ? tfr_fact_int(-a.integer)
                                       : tfr_fact_float(-a.number);
    else if (which == INT || which == FLOOR || which == CEIL)
        *out = rounded(&a, which == INT ? 0 : which == FLOOR ? -1 : 1);
    else
        return false;
    return true;
}

static tfr_fact eval_call(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    tfr_fact code = fact_code(scope, ast), out;
    tfr_str path = tfr_fact_path(f, &code);
    if (eval_lookup(f, scope, ast, path, &out) || eval_function(f, scope, ast, path, &out))
        return out;
    return code;
}

// ---- operators --------------------------------------------------------------------------------

static tfr_fact eval_binary(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    tfr_fact a = tfr_fact_eval(f, scope, tfr_tree_field(t, ast, TFR_F_LEFT));
    tfr_fact b = tfr_fact_eval(f, scope, tfr_tree_field(t, ast, TFR_F_RIGHT));
    return tfr_fact_binary(f, text_at(f, tfr_tree_field(t, ast, TFR_F_OPERATOR)), &a, &b);
}

static tfr_fact eval_boolean(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    tfr_fact left = tfr_fact_eval(f, scope, tfr_tree_field(t, ast, TFR_F_LEFT));
    bool is_and = tfr_tree_is(t, tfr_tree_field(t, ast, TFR_F_OPERATOR), "and");
    int truth = tfr_fact_truth(&left);
    if (truth < 0)
        return left.kind == TFR_FACT_UNKNOWN
                   ? left
                   : tfr_fact_unclear(f, ast, "is not known to be true or false");
    return (truth == 1) == is_and ? tfr_fact_eval(f, scope, tfr_tree_field(t, ast, TFR_F_RIGHT))
                                  : left;
}

// 1, 0 or -1: whether a list or tuple of the text, or of the configuration, holds `a`.
static int contains(tfr_facts *f, const tfr_fact_scope *scope, const tfr_fact *list,
                    const tfr_fact *a) {
    const tfr_tree *t = tree_of(f);
    int result = 0;
    if (list->kind == TFR_FACT_JSON && list->json->kind == TFR_JSON_LIST) {
        for (const tfr_json *i = list->json->first; i; i = i->next) {
            tfr_fact item = tfr_fact_json(i);
            int same = tfr_fact_equal(&item, a);
            if (same == 1)
                return 1;
            result = same < 0 ? same : result;
        }
        return result;
    }
    tfr_kind kind = list->kind == TFR_FACT_CODE ? tfr_tree_kind(t, list->ast) : TFR_N_OTHER;
    if (kind != TFR_N_LIST && kind != TFR_N_TUPLE)
        return -1;
    for (uint32_t c = tfr_tree_first(t, list->ast); c; c = tfr_tree_next(t, c)) {
        tfr_fact item = tfr_fact_eval(f, scope, c);
        int same = tfr_fact_equal(&item, a);
        if (same == 1)
            return 1;
        result = same < 0 ? same : result;
    }
    return result;
}

static tfr_fact eval_comparison(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    uint32_t operands[2] = {0, 0}, count = 0;
    tfr_buf op = {.arena = f->arena};
    for (uint32_t c = t->nodes[ast].child; c; c = t->nodes[c].next) {
        if (t->nodes[c].field == TFR_F_OPERATORS) {
            tfr_buf_format(&op, "%s%.*s", op.len ? " " : "", (int)text_at(f, c).len,
                           text_at(f, c).data);
        } else if (tfr_tree_kind(t, c) != TFR_N_COMMENT &&
                   tfr_tree_kind(t, c) != TFR_N_LINE_CONTINUATION &&
                   tfr_tree_kind(t, c) != TFR_N_TOKEN) {
            if (count < 2)
                operands[count] = c;
            count++;
        }
    }
    if (count != 2)
        return tfr_fact_unclear(f, ast, "is not evaluated");
    tfr_fact a = tfr_fact_eval(f, scope, operands[0]), b = tfr_fact_eval(f, scope, operands[1]);
    tfr_str name = tfr_buf_str(&op);
    bool is = tfr_str_eq(name, TFR_STR("is")), is_not = tfr_str_eq(name, TFR_STR("is not"));
    if ((is || is_not) && b.kind == TFR_FACT_NONE && a.kind != TFR_FACT_UNKNOWN)
        return tfr_fact_bool((a.kind == TFR_FACT_NONE) == is);
    if (a.kind == TFR_FACT_UNKNOWN)
        return a;
    if (b.kind == TFR_FACT_UNKNOWN)
        return b;
    int known = -1;
    if (tfr_str_eq(name, TFR_STR("==")) || tfr_str_eq(name, TFR_STR("!="))) {
        known = tfr_fact_equal(&a, &b);
        known = known < 0 ? known : known == (name.data[0] == '=');
    } else if (tfr_str_eq(name, TFR_STR("in")) || tfr_str_eq(name, TFR_STR("not in"))) {
        known = contains(f, scope, &b, &a);
        known = known < 0 ? known : known == (name.len == 2);
    } else if (tfr_fact_is_number(&a) && tfr_fact_is_number(&b) &&
               (name.data[0] == '<' || name.data[0] == '>')) {
        double x = name.data[0] == '<' ? a.number : b.number;
        double y = name.data[0] == '<' ? b.number : a.number;
        known = name.len == 1 ? x < y : x <= y;
    }
    return known < 0 ? tfr_fact_unclear(f, ast, "is not evaluated") : tfr_fact_bool(known != 0);
}

static tfr_fact eval_subscript(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    tfr_fact object = tfr_fact_eval(f, scope, tfr_tree_field(t, ast, TFR_F_VALUE));
    if (object.kind == TFR_FACT_UNKNOWN)
        return object;
    tfr_fact key = tfr_fact_eval(f, scope, tfr_tree_field(t, ast, TFR_F_SUBSCRIPT));
    if (object.kind != TFR_FACT_JSON)
        return fact_code(scope, ast); // ACT2FN[...]
    if (key.kind == TFR_FACT_UNKNOWN)
        return key;
    if (object.json->kind == TFR_JSON_OBJECT && key.kind == TFR_FACT_TEXT) {
        const tfr_json *found = tfr_json_get(object.json, key.text);
        return found ? tfr_fact_json(found) : missing(f, key.text);
    }
    int64_t at = key.integer < 0 ? key.integer + object.json->integer : key.integer;
    if (object.json->kind != TFR_JSON_LIST || key.kind != TFR_FACT_INT || at < 0 ||
        at >= object.json->integer)
        return tfr_fact_unclear(f, ast, "is not in the configuration");
    const tfr_json *item = object.json->first;
    while (at-- > 0)
        item = item->next;
    return tfr_fact_json(item);
}

static tfr_fact eval_unary(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    tfr_fact a = tfr_fact_eval(f, scope, tfr_tree_field(t, ast, TFR_F_ARGUMENT));
    if (a.kind == TFR_FACT_UNKNOWN)
        return a;
    uint32_t op = tfr_tree_field(t, ast, TFR_F_OPERATOR);
    if (!tfr_fact_is_number(&a) || !(tfr_tree_is(t, op, "-") || tfr_tree_is(t, op, "+")))
        return tfr_fact_unclear(f, ast, "is not evaluated");
    tfr_fact zero = tfr_fact_int(0);
    return tfr_fact_binary(f, tfr_tree_is(t, op, "-") ? TFR_STR("-") : TFR_STR("+"), &zero, &a);
}

static tfr_fact eval_not(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    tfr_fact a = tfr_fact_eval(f, scope, tfr_tree_field(tree_of(f), ast, TFR_F_ARGUMENT));
    int truth = tfr_fact_truth(&a);
    if (truth >= 0)
        return tfr_fact_bool(!truth);
    return a.kind == TFR_FACT_UNKNOWN
               ? a
               : tfr_fact_unclear(f, ast, "is not known to be true or false");
}

static tfr_fact eval_conditional(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    const tfr_tree *t = tree_of(f);
    uint32_t yes = tfr_tree_first(t, ast), condition = tfr_tree_next(t, yes);
    int truth;
    tfr_fact why = condition_of(f, scope, condition, &truth);
    return truth < 0 ? why : tfr_fact_eval(f, scope, truth ? yes : tfr_tree_next(t, condition));
}

static tfr_fact eval_by_kind(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    switch (tfr_tree_kind(tree_of(f), ast)) {
    case TFR_N_INTEGER:
    case TFR_N_FLOAT:
        return eval_number(f, ast);
    case TFR_N_STRING:
        return eval_string(f, ast);
    case TFR_N_TRUE:
    case TFR_N_FALSE:
        return tfr_fact_bool(tfr_tree_kind(tree_of(f), ast) == TFR_N_TRUE);
    case TFR_N_NONE:
        return (tfr_fact){.kind = TFR_FACT_NONE};
    case TFR_N_IDENTIFIER:
        return eval_identifier(f, scope, ast);
    case TFR_N_ATTRIBUTE:
        return eval_attribute(f, scope, ast);
    case TFR_N_CALL:
        return eval_call(f, scope, ast);
    case TFR_N_BINARY:
        return eval_binary(f, scope, ast);
    case TFR_N_UNARY:
        return eval_unary(f, scope, ast);
    case TFR_N_NOT:
        return eval_not(f, scope, ast);
    case TFR_N_BOOLEAN:
        return eval_boolean(f, scope, ast);
    case TFR_N_COMPARISON:
        return eval_comparison(f, scope, ast);
    case TFR_N_CONDITIONAL:
        return eval_conditional(f, scope, ast);
    case TFR_N_SUBSCRIPT:
        return eval_subscript(f, scope, ast);
    case TFR_N_TUPLE:
    case TFR_N_LIST:
        return fact_code(scope, ast);
    default:
        return tfr_fact_unclear(f, ast, "is not evaluated");
    }
}

tfr_fact tfr_fact_eval(tfr_facts *f, const tfr_fact_scope *scope, uint32_t ast) {
    ast = tfr_tree_unparen(tree_of(f), ast);
    if (++f->steps > MAX_EVAL_STEPS || f->depth >= MAX_EVAL_DEPTH)
        return tfr_fact_unclear(f, ast, "takes too many steps to evaluate");
    f->depth++;
    tfr_fact out = eval_by_kind(f, scope, ast);
    f->depth--;
    return out;
}
