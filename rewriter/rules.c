// Loads rule files: parses them like any module, lowers each reference to its graph, and reads the
// call that it stands for. docs/ADD_AN_OP.md describes the format.
#include "rewriter/rules.h"

#include <dirent.h>
#include <stdlib.h>

#include "rewriter/builtin_rules.h"

typedef struct loader {
    tfr_rules *rules;
    tfr_module *module;
    const tfr_source *source;
    tfr_name op; // declared by op(...)
    tfr_error *err;
} loader;

static tfr_status fail(loader *l, uint32_t ast, const char *what) {
    uint32_t at = ast ? l->module->scope->tree->nodes[ast].start : 0;
    return tfr_source_fail(l->err, TFR_E_USAGE, l->source, at, "rule file: %s", what);
}

// The text of a plain string literal; false: it is something else.
static bool string_text(const tfr_tree *t, uint32_t ast, tfr_str *out) {
    if (!ast || tfr_tree_kind(t, ast) != TFR_N_STRING)
        return false;
    tfr_str text = tfr_tree_text(t, ast);
    size_t quotes = text.len >= 6 && text.data[0] == text.data[1] ? 3 : 1;
    if (text.len < 2 * quotes || (text.data[0] != '"' && text.data[0] != '\''))
        return false;
    *out = (tfr_str){text.data + quotes, text.len - 2 * quotes};
    return true;
}

static tfr_str trim(tfr_str s) {
    while (s.len && (*s.data == ' ' || *s.data == '\n'))
        s.data++, s.len--;
    while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\n'))
        s.len--;
    return s;
}

static bool is_name(tfr_str s) {
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return s.len > 0;
}

static int param_index(const tfr_rule *rule, const tfr_names *names, tfr_str text) {
    for (uint32_t i = 0; i < rule->param_count; i++)
        if (tfr_str_eq(tfr_names_text(names, rule->params[i].name), text))
            return (int)i;
    return -1;
}

// One argument of a CALL: `x`, `dim=dim`, `order='cast_weight'`, `*modules`.
static tfr_status read_call_argument(loader *l, tfr_rule *rule, tfr_str arg, uint32_t ast) {
    tfr_names *names = &l->rules->names;
    const char *equals = memchr(arg.data, '=', arg.len);
    if (!equals) {
        int param = param_index(rule, names, arg);
        bool other = (arg.len && arg.data[0] == '*') || tfr_str_eq(arg, TFR_STR("None"));
        if (param < 0 && !other)
            return fail(l, ast, "an argument of the call is not a parameter of the function");
        if (rule->positional_count == TFR_MAX_PARAMS)
            return fail(l, ast, "a call with more than 16 arguments");
        rule->positional[rule->positional_count++] = param < 0 ? 0 : rule->params[param].name;
        return TFR_OK;
    }
    if (rule->keyword_count == 8)
        return fail(l, ast, "a call with more than 8 keywords");
    tfr_str key = trim((tfr_str){arg.data, (size_t)(equals - arg.data)});
    tfr_str value = trim((tfr_str){equals + 1, (size_t)(arg.data + arg.len - equals - 1)});
    if (!is_name(key) || !value.len)
        return fail(l, ast, "a keyword of the call cannot be read");
    tfr_name literal = 0;
    int param = param_index(rule, names, value);
    if (param >= 0) {
        rule->keyword_params[rule->keyword_count] = rule->params[param].name;
    } else {
        char first = value.data[0];
        bool constant = first == '\'' || first == '-' || (first >= '0' && first <= '9') ||
                        tfr_str_eq(value, TFR_STR("True")) || tfr_str_eq(value, TFR_STR("False")) ||
                        tfr_str_eq(value, TFR_STR("None"));
        if (!constant)
            return fail(l, ast, "a keyword's value is neither a parameter nor a literal");
        literal = tfr_names_add(names, value);
    }
    rule->keywords[rule->keyword_count] = tfr_names_add(names, key);
    rule->literals[rule->keyword_count++] = literal;
    return TFR_OK;
}

static tfr_status read_call(loader *l, tfr_rule *rule, uint32_t ast) {
    tfr_str call = rule->call;
    const char *open = memchr(call.data, '(', call.len);
    if (!open || call.data[call.len - 1] != ')')
        return fail(l, ast, "the call must read like \"op(x, weight)\"");
    tfr_str name = {call.data, (size_t)(open - call.data)};
    if (!is_name(name))
        return fail(l, ast, "the call must start with the op's name");
    rule->op = tfr_names_add(&l->rules->names, name);
    if (rule->op != l->op)
        return fail(l, ast, "the call names another op than op(...) declares");
    const char *start = open + 1, *end = call.data + call.len - 1;
    for (const char *p = start; p <= end; p++) {
        if (p != end && *p != ',')
            continue;
        tfr_str arg = trim((tfr_str){start, (size_t)(p - start)});
        start = p + 1;
        if (!arg.len)
            continue;
        tfr_status status = read_call_argument(l, rule, arg, ast);
        if (status != TFR_OK)
            return status;
    }
    return TFR_OK;
}

static tfr_status read_params(loader *l, tfr_rule *rule) {
    static const struct {
        const char *text;
        tfr_param_kind kind;
    } kinds[] = {
        {"Tensor", TFR_P_TENSOR}, {"Param", TFR_P_PARAM},   {"Scalar", TFR_P_SCALAR},
        {"Const", TFR_P_CONST},   {"Linear", TFR_P_LINEAR}, {"LayerNorm", TFR_P_LAYER_NORM},
        {"Norm", TFR_P_NORM},     {"Act", TFR_P_ACT},       {"Int", TFR_P_INT},
    };
    const tfr_tree *t = l->module->scope->tree;
    uint32_t function = l->module->scope->functions.items[rule->function].node;
    uint32_t parameters = tfr_tree_field(t, function, TFR_F_PARAMETERS);
    for (uint32_t p = tfr_tree_first(t, parameters); p; p = tfr_tree_next(t, p)) {
        if (rule->param_count == TFR_MAX_PARAMS)
            return fail(l, p, "more than 16 parameters");
        uint32_t type = tfr_tree_field(t, p, TFR_F_TYPE);
        uint32_t name = tfr_tree_first(t, p);
        if (rule->siblings && tfr_tree_kind(t, name) == TFR_N_LIST_SPLAT_PATTERN)
            name = tfr_tree_first(t, name);
        if (!type || tfr_tree_kind(t, name) != TFR_N_IDENTIFIER)
            return fail(l, p,
                        "every parameter of a reference needs an annotation: Tensor, Param, "
                        "Scalar, Int, Const, Linear, LayerNorm, Norm or Act");
        size_t k = 0, n = sizeof kinds / sizeof *kinds;
        while (k < n && !tfr_tree_is(t, type, kinds[k].text))
            k++;
        if (k == n)
            return fail(l, type,
                        "unknown annotation; use Tensor, Param, Scalar, Int, Const, "
                        "Linear, LayerNorm, Norm or Act");
        rule->params[rule->param_count].name =
            tfr_names_add(&l->rules->names, tfr_tree_text(t, name));
        rule->params[rule->param_count++].kind = kinds[k].kind;
    }
    if (!rule->param_count)
        return fail(l, function, "a reference needs parameters");
    return TFR_OK;
}

static tfr_status read_graph(loader *l, tfr_rule *rule) {
    uint32_t node = l->module->scope->functions.items[rule->function].node;
    tfr_numbers *numbers = TFR_NEW(l->rules->arena, tfr_numbers);
    tfr_numbers_init(numbers, l->rules->arena);
    tfr_flow *f = rule->flow = tfr_flow_build(l->module, rule->function, numbers);
    if (f->unfit)
        return fail(l, node, f->unfit);
    if (!f->result)
        return fail(l, node, "a reference must return one value on every path");
    for (uint32_t i = 0; i < f->events.count; i++)
        if (f->events.items[i].kind != TFR_EV_RETURN)
            return fail(l,
                        f->events.items[i].ast < l->module->scope->tree->count
                            ? f->events.items[i].ast
                            : node,
                        "a reference may call only what canon.py lists, its own helpers and its "
                        "parameters");
    const tfr_vnode *result = tfr_flow_node(f, f->result);
    bool tuple = result->op == TFR_V_TUPLE;
    rule->root_count = tuple ? result->arg_count : 1;
    if (rule->root_count == 0 || rule->root_count > TFR_MAX_ROOTS)
        return fail(l, node, "a reference returns one to eight values");
    for (uint32_t i = 0; i < rule->root_count; i++) {
        rule->roots[i] = tuple ? tfr_flow_arg(f, f->result, i).value : f->result;
        if (tfr_flow_node(f, rule->roots[i])->op == TFR_V_PARAM)
            return fail(l, node, "a reference returns one of its arguments unchanged");
    }
    for (uint32_t v = 1; v < f->versions.count; v++)
        for (uint32_t i = 0; i < rule->param_count; i++)
            if (f->versions.items[v].kind == TFR_VER_PARAM &&
                f->versions.items[v].name == rule->params[i].name)
                rule->params[i].value = f->versions.items[v].value;
    rule->features = tfr_match_features(f);
    for (uint32_t i = 1; i < f->nodes.count; i++)
        if (f->nodes.items[i].op != TFR_V_PARAM && f->nodes.items[i].op != TFR_V_CONST)
            rule->size++;
    return TFR_OK;
}

// Larger patterns first; siblings after graphs, single modules last.
static bool goes_before(const tfr_rule *a, const tfr_rule *b) {
    uint32_t x = a->siblings ? 2 : a->size, y = b->siblings ? 2 : b->size;
    return x > y;
}

static void insert_rule(tfr_rules *rules, tfr_rule *rule) {
    (void)TFR_PUSH(rules->arena, &rules->rules);
    uint32_t i = rules->rules.count - 1;
    for (; i > 0 && goes_before(rule, rules->rules.items[i - 1]); i--)
        rules->rules.items[i] = rules->rules.items[i - 1];
    rules->rules.items[i] = rule;
}

static tfr_status read_reference(loader *l, uint32_t function, uint32_t decorator_call,
                                 uint32_t what) {
    const tfr_tree *t = l->module->scope->tree;
    tfr_rule *rule = TFR_NEW(l->rules->arena, tfr_rule);
    rule->module = l->module;
    rule->function = function;
    rule->siblings = tfr_tree_is(t, what, "siblings");
    bool refuses = tfr_tree_is(t, what, "refuse");
    rule->at_least = 2;
    uint32_t arguments = tfr_tree_field(t, decorator_call, TFR_F_ARGUMENTS);
    uint32_t first = tfr_tree_first(t, arguments);
    if (!string_text(t, first, refuses ? &rule->refusal : &rule->call))
        return fail(l, decorator_call,
                    "the decorator needs a plain string: the call, or the reason");
    for (uint32_t a = tfr_tree_next(t, first); a; a = tfr_tree_next(t, a)) {
        uint32_t key = tfr_tree_field(t, a, TFR_F_NAME), value = tfr_tree_field(t, a, TFR_F_VALUE);
        tfr_str text;
        if (key && tfr_tree_is(t, key, "target") && string_text(t, value, &text))
            rule->host_only = tfr_str_eq(text, TFR_STR("host"));
        if (key && tfr_tree_is(t, key, "kernel") && !rule->has_kernel)
            rule->has_kernel = string_text(t, value, &rule->kernel);
        if (key && tfr_tree_is(t, key, "fallback"))
            rule->has_fallback = true;
        if (key && tfr_tree_is(t, key, "inner"))
            string_text(t, value, &rule->inner);
        if (key && tfr_tree_is(t, key, "at_least"))
            rule->at_least = (uint32_t)strtoul(tfr_tree_text(t, value).data, NULL, 10);
    }
    tfr_status status = read_params(l, rule);
    if (status == TFR_OK && !refuses)
        status = read_call(l, rule, first);
    if (status == TFR_OK && !rule->siblings)
        status = read_graph(l, rule);
    rule->op = l->op;
    if (status != TFR_OK)
        return status;
    tfr_str op = tfr_names_text(&l->rules->names, rule->op);
    tfr_str name =
        tfr_names_text(&l->rules->names, l->module->scope->functions.items[function].name);
    for (uint32_t i = 0; i < l->rules->rules.count; i++)
        rule->order +=
            l->rules->rules.items[i]->op == rule->op && !l->rules->rules.items[i]->refusal.len;
    rule->label = tfr_str_format(l->rules->arena, "%.*s/%.*s", (int)op.len, op.data, (int)name.len,
                                 name.data);
    insert_rule(l->rules, rule);
    return TFR_OK;
}

static tfr_status read_references(loader *l) {
    const tfr_tree *t = l->module->scope->tree;
    uint32_t found = 0;
    for (uint32_t i = 0; i < l->module->scope->functions.count; i++) {
        const tfr_function *f = &l->module->scope->functions.items[i];
        if (f->class_index != TFR_NO_CLASS)
            continue;
        for (uint32_t c = f->decorated ? tfr_tree_first(t, f->decorated) : 0; c;
             c = tfr_tree_next(t, c)) {
            if (tfr_tree_kind(t, c) != TFR_N_DECORATOR)
                continue;
            uint32_t call = tfr_tree_first(t, c);
            uint32_t what = tfr_tree_field(t, call, TFR_F_FUNCTION);
            bool known = what && (tfr_tree_is(t, what, "siblings") || tfr_tree_is(t, what, "ref") ||
                                  tfr_tree_is(t, what, "refuse"));
            if (!known)
                continue;
            tfr_status status = read_reference(l, i, call, what);
            if (status != TFR_OK)
                return status;
            found += !tfr_tree_is(t, what, "refuse");
        }
    }
    return found ? TFR_OK : fail(l, 1, "no function is decorated with @ref(\"op(...)\")");
}

// The declaration `op("name(schema) -> ...")`.
static tfr_status read_op(loader *l, bool builtin) {
    const tfr_tree *t = l->module->scope->tree;
    tfr_op_info info = {.path = l->source->path, .builtin = builtin};
    for (uint32_t s = tfr_tree_first(t, 1); s; s = tfr_tree_next(t, s)) {
        if (tfr_tree_kind(t, s) != TFR_N_EXPR_STATEMENT)
            continue;
        uint32_t e = tfr_tree_first(t, s);
        if (!info.doc.len)
            string_text(t, e, &info.doc);
        uint32_t what =
            tfr_tree_kind(t, e) == TFR_N_CALL ? tfr_tree_field(t, e, TFR_F_FUNCTION) : 0;
        if (!what || !tfr_tree_is(t, what, "op"))
            continue;
        uint32_t schema = tfr_tree_first(t, tfr_tree_field(t, e, TFR_F_ARGUMENTS));
        for (uint32_t a = tfr_tree_next(t, schema); a; a = tfr_tree_next(t, a)) {
            uint32_t key = tfr_tree_field(t, a, TFR_F_NAME);
            uint32_t value = tfr_tree_field(t, a, TFR_F_VALUE);
            if (key && tfr_tree_is(t, key, "cpu"))
                string_text(t, value, &info.cpu);
            else if (key && tfr_tree_is(t, key, "cuda"))
                string_text(t, value, &info.cuda);
            if (key && tfr_tree_is(t, key, "specialize"))
                string_text(t, value, &info.specialize);
        }
        if (!string_text(t, schema, &info.schema))
            return fail(l, e, "op(...) needs a plain string");
        const char *open = memchr(info.schema.data, '(', info.schema.len);
        tfr_str name = {info.schema.data, open ? (size_t)(open - info.schema.data) : 0};
        if (!is_name(name))
            return fail(l, schema, "the schema must start with the op's name and (");
        info.name = l->op = tfr_names_add(&l->rules->names, name);
    }
    if (!l->op)
        return fail(l, 1, "no op(\"name(...) -> ...\") is declared");
    for (uint32_t i = 0; i < l->rules->ops.count; i++)
        if (l->rules->ops.items[i].name == l->op)
            return fail(l, 1, "an op of that name exists already");
    *TFR_PUSH(l->rules->arena, &l->rules->ops) = info;
    return TFR_OK;
}

// `parsed` is the file's embedded tree, NULL for a user's file.
static tfr_status add_file(tfr_rules *rules, const char *path, tfr_str text,
                           const tfr_builtin_rule *parsed, tfr_error *err) {
    tfr_arena *arena = rules->arena;
    tfr_source *source = TFR_NEW(arena, tfr_source);
    tfr_tree *tree = TFR_NEW(arena, tfr_tree);
    tfr_scope *scope = TFR_NEW(arena, tfr_scope);
    tfr_module *module = TFR_NEW(arena, tfr_module);
    tfr_status status = tfr_source_from_bytes(source, path, text, arena, err);
    if (status == TFR_OK && parsed)
        *tree = tfr_tree_from_data(source, parsed->nodes, parsed->node_count);
    else if (status == TFR_OK)
        status = tfr_tree_parse(tree, source, arena, err);
    if (status != TFR_OK)
        return TFR_E_USAGE; // a rule file is an argument, not the input
    tfr_tree_free(tree);
    tfr_scope_build(scope, tree, &rules->names, arena);
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
    tfr_str name = tfr_str_format(arena, "tfrewrite.rules.%.*s", (int)strcspn(stem, "."), stem);
    *module = (tfr_module){.arena = arena,
                           .scope = scope,
                           .canon = rules->canon,
                           .words = tfr_canon_words(rules->canon),
                           .names = &rules->names,
                           .is_rule = true,
                           .import_name = tfr_names_add(&rules->names, name)};
    module->purity = TFR_NEW_ARRAY(arena, uint8_t, scope->classes.count + 1);
    module->flows = TFR_NEW_ARRAY(arena, tfr_flow *, scope->functions.count + 1);
    module->imports = (const tfr_module *const *)rules->modules.items;
    module->import_count = rules->modules.count;
    loader l = {.rules = rules, .module = module, .source = source, .err = err};
    status = read_op(&l, parsed != NULL);
    if (status == TFR_OK)
        status = read_references(&l);
    *TFR_PUSH(arena, &rules->modules) = module;
    return status;
}

tfr_status tfr_rules_add(tfr_rules *rules, const char *path, tfr_str text, tfr_error *err) {
    const char *own_path = tfr_str_dup(rules->arena, tfr_str_from(path));
    const char *own_text = tfr_str_dup(rules->arena, text);
    return add_file(rules, own_path, (tfr_str){own_text, text.len}, NULL, err);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tfr_status add_directory(tfr_rules *rules, const char *path, tfr_error *err) {
    DIR *dir = opendir(path);
    if (!dir)
        return tfr_fail(err, TFR_E_USAGE, path, 0, 0, "--rules: this folder cannot be read");
    TFR_LIST(const char *) names = {0};
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name);
        if (n > 3 && strcmp(entry->d_name + n - 3, ".py") == 0 && entry->d_name[0] != '_' &&
            entry->d_name[0] != '.')
            *TFR_PUSH(rules->arena, &names) =
                tfr_str_format(rules->arena, "%s/%s", path, entry->d_name).data;
    }
    closedir(dir);
    if (!names.count)
        return tfr_fail(err, TFR_E_USAGE, path, 0, 0,
                        "--rules: no rule file (*.py) in this folder");
    qsort(names.items, names.count, sizeof *names.items, by_name);
    for (uint32_t i = 0; i < names.count; i++) {
        tfr_source *source = TFR_NEW(rules->arena, tfr_source);
        tfr_status status = tfr_source_read(source, names.items[i], rules->arena, err);
        if (status == TFR_OK)
            status = add_file(rules, names.items[i], source->bytes, NULL, err);
        if (status != TFR_OK)
            return TFR_E_USAGE;
    }
    return TFR_OK;
}

// Files that other rule files import their helpers from come first.
static tfr_status add_builtins(tfr_rules *rules, tfr_error *err) {
    static const char *const first[] = {"rms_norm.py", "rope.py"};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < tfr_builtin_rule_count; i++) {
            const tfr_builtin_rule *r = &tfr_builtin_rules[i];
            bool early = strcmp(r->name, first[0]) == 0 || strcmp(r->name, first[1]) == 0;
            if (early != (pass == 0))
                continue;
            tfr_status status = add_file(rules, r->name, (tfr_str){r->text, r->length}, r, err);
            if (status != TFR_OK)
                return status;
        }
    return TFR_OK;
}

tfr_status tfr_rules_new(tfr_rules **out, const char *const *user_dirs, size_t user_dir_count,
                         tfr_error *err) {
    tfr_arena *arena = tfr_arena_new();
    tfr_rules *rules = TFR_NEW(arena, tfr_rules);
    rules->arena = arena;
    tfr_names_init(&rules->names, NULL, arena);
    tfr_status status = tfr_canon_new(&rules->canon, &rules->names, arena, err);
    rules->norm_op = tfr_names_lit(&rules->names, "rms_norm");
    if (status == TFR_OK)
        status = add_builtins(rules, err);
    for (size_t i = 0; i < user_dir_count && status == TFR_OK; i++)
        status = add_directory(rules, user_dirs[i], err);
    if (status != TFR_OK) {
        tfr_arena_free(arena);
        return status;
    }
    *out = rules;
    return TFR_OK;
}

void tfr_rules_free(tfr_rules *rules) {
    if (rules)
        tfr_arena_free(rules->arena);
}

bool tfr_rules_has_op(const tfr_rules *rules, tfr_str op) {
    for (uint32_t i = 0; i < rules->ops.count; i++)
        if (tfr_str_eq(tfr_names_text(&rules->names, rules->ops.items[i].name), op))
            return true;
    return false;
}

tfr_op_reference tfr_rules_reference(const struct tfr_ops *ops, tfr_name op, uint32_t positional,
                                     const tfr_name *keywords, const tfr_name *literals,
                                     uint32_t keyword_count) {
    const tfr_rules *rules = (const tfr_rules *)ops;
    for (uint32_t i = 0; i < rules->rules.count; i++) {
        const tfr_rule *r = rules->rules.items[i];
        if (r->op != op || r->refusal.len)
            continue;
        if (r->siblings)
            return (tfr_op_reference){.siblings = true};
        if (r->positional_count != positional || r->keyword_count != keyword_count)
            continue;
        tfr_op_reference ref = {.module = r->module, .function = r->function};
        memcpy(ref.positional, r->positional, sizeof r->positional);
        for (uint32_t p = 0; p < positional; p++)
            for (uint32_t k = 0; k < r->param_count; k++)
                if (r->params[k].name == r->positional[p] && r->params[k].kind == TFR_P_TENSOR)
                    ref.tensors |= 1u << p;
        uint32_t same = 0;
        for (uint32_t k = 0; k < keyword_count; k++)
            for (uint32_t j = 0; j < keyword_count; j++) {
                if (r->keywords[k] != keywords[j])
                    continue;
                if (r->literals[k] != 0 && r->literals[k] != literals[j])
                    continue;
                ref.keywords[j] = r->keyword_params[k];
                same++;
            }
        if (same == keyword_count)
            return ref;
    }
    return (tfr_op_reference){0};
}

bool tfr_rules_is_norm(const struct tfr_ops *ops, tfr_module *module, uint32_t class_index) {
    const tfr_rules *rules = (const tfr_rules *)ops;
    tfr_module *owner;
    uint32_t forward;
    if (!tfr_module_forward(module, class_index, &owner, &forward))
        return false;
    tfr_flow *flow = tfr_module_flow(owner, forward);
    if (flow->unfit || !flow->result)
        return false;
    // The first parameter after self.
    if (flow->versions.count < 3 || flow->versions.items[2].kind != TFR_VER_PARAM)
        return false;
    tfr_value x = flow->versions.items[2].value;
    for (uint32_t i = 0; i < rules->rules.count; i++) {
        const tfr_rule *r = rules->rules.items[i];
        tfr_match match;
        if (r->op == rules->norm_op && r->root_count == 1 && !r->refusal.len &&
            tfr_match_try(&match, r, flow, flow->result, module->arena, NULL) &&
            tfr_flow_same(flow, match.leaves[0].value, x))
            return true;
    }
    return false;
}

static void print_reference(tfr_buf *out, const tfr_rule *r) {
    const tfr_tree *t = r->module->scope->tree;
    const tfr_function *f = &r->module->scope->functions.items[r->function];
    tfr_str text = tfr_tree_text(t, f->decorated);
    tfr_buf_format(out, "\n%.*s\n", (int)text.len, text.data);
}

static void print_kernels(tfr_buf *out, const tfr_rules *rules, const tfr_op_info *info) {
    uint32_t all = 0, with = 0;
    for (uint32_t i = 0; i < rules->rules.count; i++) {
        const tfr_rule *r = rules->rules.items[i];
        bool own = r->op == info->name && !r->refusal.len;
        all += own;
        with += own && r->has_kernel && info->cpu.len;
    }
    if (!with)
        tfr_buf_format(out, "kernels: none; the references run\n");
    else
        tfr_buf_format(out, "kernels: host: %.*s, float32 and bfloat16, for %u of %u references\n",
                       (int)info->cpu.len, info->cpu.data, with, all);
    if (with && info->cuda.len)
        tfr_buf_format(out,
                       "         cuda: %.*s, float32, bfloat16 (from sm_80) and float16, for the "
                       "same\n",
                       (int)info->cuda.len, info->cuda.data);
}

void tfr_rules_module(tfr_module *out, const tfr_rules *rules, const tfr_scope *scope,
                      tfr_names *names, tfr_arena *arena) {
    *out = (tfr_module){.arena = arena,
                        .scope = scope,
                        .canon = rules->canon,
                        .words = tfr_canon_words(rules->canon),
                        .names = names,
                        .ops = tfr_rules_as_ops(rules),
                        .op_reference = tfr_rules_reference};
    out->purity = TFR_NEW_ARRAY(arena, uint8_t, scope->classes.count + 1);
    out->flows = TFR_NEW_ARRAY(arena, tfr_flow *, scope->functions.count + 1);
}

tfr_status tfr_rules_print(tfr_buf *out, const tfr_rules *rules, const char *op, tfr_error *err) {
    bool found = false;
    for (uint32_t i = 0; i < rules->ops.count; i++) {
        const tfr_op_info *info = &rules->ops.items[i];
        tfr_str name = tfr_names_text(&rules->names, info->name);
        if (op && !tfr_str_eq(name, tfr_str_from(op)))
            continue;
        found = true;
        if (!op) {
            tfr_buf_format(out, "%-16.*s %.*s\n", (int)name.len, name.data, (int)info->schema.len,
                           info->schema.data);
            continue;
        }
        tfr_buf_format(out, "%.*s\n\n%.*s\n", (int)info->schema.len, info->schema.data,
                       (int)info->doc.len, info->doc.data);
        tfr_buf_format(out, "rule file: %s\n", info->path);
        print_kernels(out, rules, info);
        for (uint32_t r = 0; r < rules->rules.count; r++)
            if (rules->rules.items[r]->op == info->name)
                print_reference(out, rules->rules.items[r]);
    }
    if (!found)
        return tfr_fail(err, TFR_E_USAGE, "", 0, 0, "no op is called %s; see `tfrewrite rules`",
                        op);
    return TFR_OK;
}
