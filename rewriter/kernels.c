// Derives torch schemas and kernel arguments from the loaded rules. What it writes is what
// tfrewrite.ops expects on the Python side: the expansion of parameters is stated in kernels.h.
#include "rewriter/kernels.h"

#include <stdlib.h>

typedef struct lister {
    const tfr_rules *rules;
    tfr_arena *arena;
    const tfr_op_info *info;
    const tfr_aten_parts *parts;
    tfr_kernel_op op;
    uint32_t cap;
} lister;

static const char *text_of(lister *l, tfr_name name) {
    return tfr_str_dup(l->arena, tfr_names_text(&l->rules->names, name));
}

// Whether `word` is one of the space-separated words of `list`.
static bool has_word(tfr_str list, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= list.len; i++) {
        bool starts = i == 0 || list.data[i - 1] == ' ';
        bool ends = i + n == list.len || list.data[i + n] == ' ';
        if (starts && ends && memcmp(list.data + i, word, n) == 0)
            return true;
    }
    return false;
}

static void add_argument(lister *l, const char *name, tfr_argument_kind kind) {
    tfr_kernel_op *op = &l->op;
    if (op->argument_count == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        op->arguments = tfr_arena_grow(l->arena, op->arguments, sizeof *op->arguments * l->cap,
                                       sizeof *op->arguments * cap);
        l->cap = cap;
    }
    bool tensor = kind == TFR_A_TENSOR || kind == TFR_A_OPTIONAL;
    op->arguments[op->argument_count++] =
        (tfr_kernel_argument){name, kind, tensor && has_word(l->info->specialize, name)};
}

static const char *joined(lister *l, const char *name, const char *suffix) {
    return tfr_str_format(l->arena, "%s_%s", name, suffix).data;
}

static void add_parameter(lister *l, tfr_name parameter, tfr_param_kind kind) {
    const char *name = text_of(l, parameter);
    switch (kind) {
    case TFR_P_TENSOR:
    case TFR_P_PARAM:
        add_argument(l, name, TFR_A_TENSOR);
        break;
    case TFR_P_SCALAR:
        add_argument(l, name, TFR_A_FLOAT);
        break;
    case TFR_P_CONST:
    case TFR_P_INT:
        add_argument(l, name, TFR_A_INT);
        break;
    case TFR_P_LINEAR:
        add_argument(l, name, TFR_A_TENSOR);
        add_argument(l, joined(l, name, "bias"), TFR_A_OPTIONAL);
        l->op.is_linear = true;
        break;
    case TFR_P_LAYER_NORM:
        add_argument(l, joined(l, name, "weight"), TFR_A_OPTIONAL);
        add_argument(l, joined(l, name, "bias"), TFR_A_OPTIONAL);
        add_argument(l, joined(l, name, "eps"), TFR_A_FLOAT);
        add_argument(l, joined(l, name, "size"), TFR_A_INT);
        break;
    case TFR_P_NORM:
        add_argument(l, joined(l, name, "weight"), TFR_A_OPTIONAL);
        add_argument(l, joined(l, name, "eps"), TFR_A_FLOAT);
        add_argument(l, joined(l, name, "variant"), TFR_A_NORM);
        break;
    case TFR_P_ACT:
        add_argument(l, name, TFR_A_ACT);
        break;
    }
}

static const char *schema(lister *l) {
    static const char *const types[] = {
        [TFR_A_TENSOR] = "Tensor", [TFR_A_OPTIONAL] = "Tensor?", [TFR_A_FLOAT] = "float",
        [TFR_A_INT] = "int",       [TFR_A_NORM] = "int",         [TFR_A_ACT] = "int"};
    tfr_buf buf = {.arena = l->arena};
    tfr_buf_format(&buf, "%s.%s(", l->op.op, l->op.variant);
    for (uint32_t i = 0; i < l->op.argument_count; i++)
        tfr_buf_format(&buf, "%s%s %s", i ? ", " : "", types[l->op.arguments[i].kind],
                       l->op.arguments[i].name);
    bool several = l->op.output_count > 1;
    tfr_buf_format(&buf, ") -> %s", several ? "(" : "");
    for (uint32_t i = 0; i < l->op.output_count; i++)
        tfr_buf_format(&buf, "%sTensor", i ? ", " : "");
    tfr_buf_format(&buf, "%s", several ? ")" : "");
    return tfr_str_dup(l->arena, tfr_buf_str(&buf));
}

static void push(lister *l, const tfr_rule *rule, tfr_kernel_ops *out) {
    l->op.schema = schema(l);
    l->op.aten = tfr_aten_program_new(rule, l->op.output_count, l->parts, l->arena, &l->op.no_aten);
    *TFR_PUSH(l->arena, &out->ops) = l->op;
}

static void start(lister *l, const tfr_rule *rule) {
    const char *slash = strrchr(l->info->path, '/');
    size_t folder = slash ? (size_t)(slash - l->info->path) : 0;
    tfr_str path = {l->info->path, folder};
    const tfr_function *f = &rule->module->scope->functions.items[rule->function];
    l->cap = 0;
    l->op = (tfr_kernel_op){
        .op = text_of(l, rule->op),
        .variant = text_of(l, f->name),
        .options = tfr_str_dup(l->arena, rule->kernel),
        .template_name = tfr_str_dup(l->arena, l->info->cpu),
        .cuda_template = l->info->cuda.len ? tfr_str_dup(l->arena, l->info->cuda) : NULL,
        .directory = l->info->builtin ? NULL
                     : folder         ? tfr_str_dup(l->arena, path)
                                      : ".",
        .output_count = rule->root_count,
        .order = rule->order,
        .is_siblings = rule->siblings,
    };
}

static void list_rule(lister *l, const tfr_rule *rule, tfr_kernel_ops *out) {
    if (!rule->siblings) {
        start(l, rule);
        for (uint32_t i = 0; i < rule->param_count; i++)
            add_parameter(l, rule->params[i].name, rule->params[i].kind);
        push(l, rule, out);
        return;
    }
    for (uint32_t n = rule->at_least; n <= TFR_MAX_SIBLINGS; n++) {
        start(l, rule);
        l->op.variant = tfr_str_format(l->arena, "m%u", n).data;
        l->op.output_count = n;
        add_parameter(l, rule->params[0].name, rule->params[0].kind);
        for (uint32_t i = 0; i < n; i++) {
            add_argument(l, tfr_str_format(l->arena, "w%u", i).data, TFR_A_TENSOR);
            add_argument(l, tfr_str_format(l->arena, "b%u", i).data, TFR_A_OPTIONAL);
        }
        l->op.is_linear = rule->params[1].kind == TFR_P_LINEAR;
        push(l, rule, out);
    }
}

static int by_order(const void *a, const void *b) {
    const tfr_rule *x = *(const tfr_rule *const *)a, *y = *(const tfr_rule *const *)b;
    return x->order < y->order ? -1 : x->order > y->order;
}

void tfr_kernels_list(tfr_kernel_ops *out, const tfr_rules *rules, tfr_arena *arena) {
    *out = (tfr_kernel_ops){0};
    tfr_aten_parts *parts = TFR_NEW(arena, tfr_aten_parts);
    tfr_aten_read_acts(parts, rules, arena);
    for (uint32_t i = 0; i < rules->ops.count; i++) {
        lister l = {.rules = rules, .arena = arena, .info = &rules->ops.items[i], .parts = parts};
        const tfr_rule **own = TFR_NEW_ARRAY(arena, const tfr_rule *, rules->rules.count + 1);
        size_t count = 0;
        for (uint32_t r = 0; r < rules->rules.count; r++)
            if (rules->rules.items[r]->op == l.info->name && !rules->rules.items[r]->refusal.len)
                own[count++] = rules->rules.items[r];
        qsort(own, count, sizeof *own, by_order);
        for (size_t r = 0; r < count; r++) {
            bool norm = l.info->name == rules->norm_op && own[r]->order < 32;
            if (norm && out->norm_count <= own[r]->order)
                out->norm_count = own[r]->order + 1;
            if (norm && own[r]->has_kernel)
                out->norm_options[own[r]->order] = tfr_str_dup(arena, own[r]->kernel);
            if (own[r]->has_kernel && l.info->cpu.len)
                list_rule(&l, own[r], out);
            if (norm && own[r]->has_kernel)
                parts->norms[own[r]->order] = out->ops.items[out->ops.count - 1].aten;
        }
    }
}

const tfr_kernel_op *tfr_kernels_find(const tfr_kernel_ops *ops, tfr_str op, tfr_str variant,
                                      uint32_t modules) {
    for (uint32_t i = 0; i < ops->ops.count; i++) {
        const tfr_kernel_op *k = &ops->ops.items[i];
        bool same = k->is_siblings ? k->output_count == modules
                                   : tfr_str_eq(tfr_str_from(k->variant), variant);
        if (same && tfr_str_eq(tfr_str_from(k->op), op))
            return k;
    }
    return NULL;
}
