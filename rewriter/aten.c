// Lowers a reference's graph to an aten program, one step for each value that is needed. Values
// that torch never sees (shapes, subscripts, tuples) are read by the step that uses them.
#include "rewriter/aten.h"

#include <stdlib.h>

#include "rewriter/builtin_rules.h"

typedef struct row {
    tfr_aten_how how;
    const char *key, *schema;
} row;

static const row rows[] = {
#define ATEN(how, key, schema) {TFR_ATEN_##how, key, schema},
#include "rewriter/aten.def"
#undef ATEN
};

static const char *const dtypes[] = {
#define PATH(path, name) path,
    TFR_ATEN_DTYPES(PATH)
#undef PATH
};

// A parameter of the reference: its node, and the first of the inputs that it stands for.
typedef struct binding {
    tfr_value node;
    tfr_param_kind kind;
    uint32_t tensor, number;
} binding;

typedef struct lowering {
    const tfr_flow *flow;
    const tfr_words *words;
    tfr_arena *arena;
    const char *why; // NULL: all is well
    TFR_LIST(binding) bindings;
    TFR_LIST(const char *) tensors, numbers;
    TFR_LIST(tfr_aten_step) steps;
    TFR_LIST(tfr_aten_value) values;
    tfr_aten_value *made; // by value number
    bool *is_made;
} lowering;

static const tfr_vnode *node(const lowering *l, tfr_value v) { return tfr_flow_node(l->flow, v); }
static tfr_value operand(const lowering *l, tfr_value v, uint32_t i) {
    return tfr_flow_arg(l->flow, v, i).value;
}
static tfr_str text_of(const lowering *l, tfr_name name) {
    return tfr_names_text(l->flow->module->names, name);
}

static tfr_aten_value fail(lowering *l, const char *what, tfr_str detail) {
    if (!l->why)
        l->why = tfr_str_format(l->arena, "%s %.*s", what, (int)detail.len, detail.data).data;
    return (tfr_aten_value){0};
}

// ---- schemas --------------------------------------------------------------------------------

static tfr_aten_parameter read_parameter(tfr_str text) {
    static const struct {
        const char *name;
        tfr_aten_type type;
    } types[] = {{"Tensor", TFR_AT_TENSOR}, {"int", TFR_AT_INT},          {"SymInt", TFR_AT_INT},
                 {"float", TFR_AT_FLOAT},   {"bool", TFR_AT_BOOL},        {"str", TFR_AT_TEXT},
                 {"Scalar", TFR_AT_SCALAR}, {"ScalarType", TFR_AT_DTYPE}, {"", TFR_AT_OTHER}};
    const char *space = memchr(text.data, ' ', text.len);
    size_t type = (size_t)(space - text.data), base = strcspn(text.data, "([? ");
    const char *equals = memchr(text.data, '=', text.len);
    size_t i = 0;
    while (*types[i].name && !tfr_str_eq(tfr_str_from(types[i].name), (tfr_str){text.data, base}))
        i++;
    return (tfr_aten_parameter){
        .type = types[i].type,
        .list = memchr(text.data, '[', type) != NULL,
        .optional = text.data[type - 1] == '?',
        .fallback = equals ? (tfr_str){equals + 1, (size_t)(text.data + text.len - equals - 1)}
                           : (tfr_str){0}};
}

static const tfr_aten_op *read_schema(tfr_arena *arena, const row *r) {
    tfr_aten_op *op = TFR_NEW(arena, tfr_aten_op);
    const char *open = strchr(r->schema, '('), *end = strstr(r->schema, ") ->");
    size_t name = strcspn(r->schema, ".(");
    const char *overload = r->schema + name + (r->schema[name] == '.');
    op->how = r->how;
    op->name = tfr_str_format(arena, "aten::%.*s", (int)name, r->schema).data;
    op->overload = tfr_str_dup(arena, (tfr_str){overload, (size_t)(open - overload)});
    for (const char *p = open + 1; p < end;) {
        const char *comma = strstr(p, ", ");
        const char *stop = comma && comma < end ? comma : end;
        if (*p != '*') // "*": what follows is by keyword only
            op->parameters[op->count++] = read_parameter((tfr_str){p, (size_t)(stop - p)});
        p = stop + (stop == end ? 0 : 2);
    }
    return op;
}

// The row for a call of `name`, and whether its last argument is in the row's key.
static const row *find_row(const lowering *l, tfr_str name, const tfr_vnode *n, bool *literal) {
    tfr_str last = {0};
    if (n->arg_count == 2) {
        const tfr_vnode *second = node(l, l->flow->args.items[n->first_arg + 1].value);
        last = second->op == TFR_V_CONST ? text_of(l, second->name) : last;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *key = rows[i].key;
        size_t length = strcspn(key, " ");
        if (!tfr_str_eq((tfr_str){key, length}, name))
            continue;
        *literal = key[length] == ' ';
        if (!*literal || (last.len && tfr_str_eq(tfr_str_from(key + length + 1), last)))
            return &rows[i];
    }
    return NULL;
}

// ---- values and steps -----------------------------------------------------------------------

static tfr_aten_value number(double value) {
    return (tfr_aten_value){.kind = TFR_AV_NUMBER, .number = value};
}

static tfr_aten_value constant(lowering *l, tfr_str text) {
    bool yes = tfr_str_eq(text, TFR_STR("True"));
    if (tfr_str_eq(text, TFR_STR("None")))
        return (tfr_aten_value){0};
    if (yes || tfr_str_eq(text, TFR_STR("False")))
        return (tfr_aten_value){.kind = TFR_AV_BOOL, .number = yes};
    if (text.data[0] == '\'')
        return (tfr_aten_value){.kind = TFR_AV_TEXT,
                                .text =
                                    tfr_str_dup(l->arena, (tfr_str){text.data + 1, text.len - 2})};
    char *end;
    const char *digits = tfr_str_dup(l->arena, text);
    double value = strtod(digits, &end);
    return *end ? fail(l, "the constant", text) : number(value);
}

// The value of a node that came before.
static tfr_aten_value value_of(lowering *l, tfr_value v) {
    uint32_t known = node(l, v)->number;
    tfr_str name = text_of(l, node(l, v)->name); // a choice has none
    return l->is_made[known]
               ? l->made[known]
               : fail(l, "this use of", name.len ? name : tfr_flow_describe(l->flow, v, l->arena));
}

static bool is_step_of(const lowering *l, tfr_aten_value value, bool tensor) {
    return value.kind == TFR_AV_STEP &&
           (l->steps.items[value.index].kind <= TFR_AS_SELECT) == tensor;
}
static bool is_tensor(const lowering *l, tfr_aten_value value) {
    return value.kind == TFR_AV_TENSOR || is_step_of(l, value, true);
}
static bool is_number(tfr_aten_value value) {
    return value.kind == TFR_AV_NUMBER || value.kind == TFR_AV_ARGUMENT;
}

static bool fits(const lowering *l, const tfr_aten_parameter *p, tfr_aten_value value) {
    if (value.kind == TFR_AV_NONE)
        return p->optional;
    switch (p->type) {
    case TFR_AT_TENSOR:
        return is_tensor(l, value) || is_number(value);
    case TFR_AT_INT:
        return is_number(value) || is_step_of(l, value, false);
    case TFR_AT_BOOL:
        return value.kind == TFR_AV_BOOL;
    case TFR_AT_DTYPE:
        return value.kind == TFR_AV_DTYPE || is_step_of(l, value, false);
    case TFR_AT_TEXT:
        return value.kind == TFR_AV_TEXT;
    case TFR_AT_FLOAT:
    case TFR_AT_SCALAR:
        return is_number(value);
    case TFR_AT_OTHER:
        break;
    }
    return false;
}

static uint32_t keep(lowering *l, const tfr_aten_value *values, uint32_t count) {
    uint32_t first = l->values.count;
    for (uint32_t i = 0; i < count; i++)
        *TFR_PUSH(l->arena, &l->values) = values[i];
    return first;
}

static bool same_values(const lowering *l, uint32_t first, const tfr_aten_value *values,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const tfr_aten_value *a = &l->values.items[first + i], *b = &values[i];
        if (a->kind != b->kind || a->index != b->index || a->number != b->number)
            return false;
    }
    return true;
}

// Integers that are there already are not computed twice.
static tfr_aten_value add_step(lowering *l, tfr_aten_step_kind kind, const tfr_aten_op *op,
                               const tfr_aten_value *args, uint32_t count) {
    if (l->steps.count == TFR_ATEN_MAX_STEPS)
        return fail(l, "more steps than", TFR_STR("128"));
    for (uint32_t s = 0; s < l->steps.count && kind >= TFR_AS_SIZE && kind != TFR_AS_IN; s++)
        if (l->steps.items[s].kind == kind && same_values(l, l->steps.items[s].first, args, count))
            return (tfr_aten_value){.kind = TFR_AV_STEP, .index = s};
    tfr_aten_step step = {.kind = kind, .op = op, .count = count};
    step.first = keep(l, args, count);
    *TFR_PUSH(l->arena, &l->steps) = step;
    return (tfr_aten_value){.kind = TFR_AV_STEP, .index = l->steps.count - 1};
}

static bool is_shape(const lowering *l, tfr_value v) {
    return node(l, v)->op == TFR_V_ATTR && node(l, v)->name == l->words->shape;
}

// *x.shape, *x.shape[:-1], or what `*rest, last = x.shape` calls rest: sizes of a tensor, of as
// many dimensions as it has.
static bool sizes_of(lowering *l, tfr_value v, tfr_aten_value *out) {
    if (node(l, v)->op == TFR_V_OPAQUE && node(l, v)->name == l->words->splat)
        v = operand(l, v, 0);
    const tfr_vnode *n = node(l, v);
    tfr_str left = TFR_STR("");
    if (n->op == TFR_V_OPAQUE && n->arg_count == 1) {
        left = text_of(l, n->name);
        if (left.len < 4 || memcmp(left.data, "*0-", 3) != 0)
            return false;
        left = (tfr_str){left.data + 2, left.len - 2};
    } else if (n->op == TFR_V_INDEX && node(l, operand(l, v, 1))->op == TFR_V_SLICE) {
        tfr_value slice = operand(l, v, 1), stop = operand(l, slice, 1);
        left = text_of(l, node(l, stop)->name);
        if (node(l, operand(l, slice, 0))->name != l->words->none || left.len < 2 ||
            node(l, operand(l, slice, 2))->name != l->words->none || left.data[0] != '-' ||
            node(l, stop)->op != TFR_V_CONST)
            return false;
    }
    v = left.len ? operand(l, v, 0) : v;
    if (!is_shape(l, v))
        return false;
    tfr_aten_value tensor = value_of(l, operand(l, v, 0));
    long dropped = left.len ? -strtol(tfr_str_dup(l->arena, left), NULL, 10) : 0;
    *out = (tfr_aten_value){
        .kind = TFR_AV_SIZES, .index = keep(l, &tensor, 1), .count = (uint32_t)dropped};
    return true;
}

// Several arguments for one parameter: the items of a tuple, or those that are left.
static tfr_aten_value make_list(lowering *l, const tfr_aten_parameter *p, const tfr_arg *args,
                                uint32_t count) {
    if (count == 1 && node(l, args->value)->op == TFR_V_TUPLE) {
        count = node(l, args->value)->arg_count;
        args = l->flow->args.items + node(l, args->value)->first_arg;
    }
    tfr_aten_value *items = TFR_NEW_ARRAY(l->arena, tfr_aten_value, count);
    for (uint32_t i = 0; i < count; i++) {
        if (p->type == TFR_AT_INT && sizes_of(l, args[i].value, &items[i]))
            continue;
        items[i] = value_of(l, args[i].value);
        if (!fits(l, p, items[i]))
            fail(l, "this list with", text_of(l, node(l, args[i].value)->name));
    }
    return (tfr_aten_value){.kind = TFR_AV_LIST, .index = keep(l, items, count), .count = count};
}

static tfr_aten_value call(lowering *l, const row *r, const tfr_arg *args, uint32_t count) {
    const tfr_aten_op *op = read_schema(l->arena, r);
    tfr_str name = tfr_str_from(r->key);
    tfr_aten_value values[TFR_ATEN_MAX_PARAMETERS];
    uint32_t used = 0;
    for (uint32_t i = 0; i < op->count; i++) {
        const tfr_aten_parameter *p = &op->parameters[i];
        bool given = used < count && node(l, args[used].value)->name != l->words->ellipsis;
        if (p->list && given) {
            uint32_t taken = i + 1 == op->count ? count - used : 1; // view(x, *shape)
            values[i] = make_list(l, p, args + used, taken);
            used += taken;
            continue;
        }
        if (given)
            values[i] = value_of(l, args[used].value);
        else if (p->fallback.len)
            values[i] = constant(l, p->fallback);
        else
            values[i] = (tfr_aten_value){0};
        used += used < count;
        if (!fits(l, p, values[i]))
            return fail(l, "these arguments of", name);
    }
    return used < count ? fail(l, "these arguments of", name)
                        : add_step(l, TFR_AS_CALL, op, values, op->count);
}

static tfr_aten_value call_of_values(lowering *l, const char *key, const tfr_aten_value *given,
                                     uint32_t count) {
    const row *r = rows;
    while (strcmp(r->key, key) != 0)
        r++;
    const tfr_aten_op *op = read_schema(l->arena, r);
    tfr_aten_value values[TFR_ATEN_MAX_PARAMETERS];
    for (uint32_t i = 0; i < op->count; i++)
        values[i] = i < count ? given[i] : constant(l, op->parameters[i].fallback);
    return add_step(l, TFR_AS_CALL, op, values, op->count);
}

// ---- nodes ----------------------------------------------------------------------------------

static const binding *find_binding(const lowering *l, tfr_value v) {
    for (uint32_t i = 0; i < l->bindings.count; i++)
        if (tfr_flow_same(l->flow, l->bindings.items[i].node, v))
            return &l->bindings.items[i];
    return NULL;
}

static tfr_aten_value lower_parameter(lowering *l, tfr_value v) {
    const binding *b = find_binding(l, v);
    if (!b)
        return fail(l, "the parameter", text_of(l, node(l, v)->name));
    bool is_tensor = b->kind == TFR_P_TENSOR || b->kind == TFR_P_PARAM;
    return (tfr_aten_value){.kind = is_tensor ? TFR_AV_TENSOR : TFR_AV_ARGUMENT,
                            .index = is_tensor ? b->tensor : b->number};
}

static tfr_aten_value lower_global(lowering *l, tfr_value v) {
    tfr_str path = text_of(l, node(l, v)->name);
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (tfr_str_eq(tfr_str_from(dtypes[i]), path))
            return (tfr_aten_value){.kind = TFR_AV_DTYPE, .index = i};
    return fail(l, "the name", path);
}

// Of the numbers with a LayerNorm its eps comes first, then the size of what it normalises.
static tfr_aten_value lower_layer_norm(lowering *l, tfr_aten_value x, const binding *b) {
    tfr_aten_value size = {.kind = TFR_AV_ARGUMENT, .index = b->number + 1};
    tfr_aten_value args[5] = {x,
                              {.kind = TFR_AV_LIST, .index = keep(l, &size, 1), .count = 1},
                              {.kind = TFR_AV_TENSOR, .index = b->tensor},
                              {.kind = TFR_AV_TENSOR, .index = b->tensor + 1},
                              {.kind = TFR_AV_ARGUMENT, .index = b->number}};
    return call_of_values(l, "layer_norm", args, 5);
}

static tfr_aten_value lower_module(lowering *l, tfr_value v) {
    const tfr_vnode *n = node(l, v);
    const binding *b = find_binding(l, operand(l, v, 0));
    if (!b || n->arg_count != 2)
        return fail(l, "this call of", text_of(l, node(l, operand(l, v, 0))->name));
    tfr_aten_value args[3] = {value_of(l, operand(l, v, 1)),
                              {.kind = TFR_AV_TENSOR, .index = b->tensor}};
    if (!is_tensor(l, args[0]))
        return fail(l, "a module's argument other than a", TFR_STR("tensor"));
    switch (b->kind) {
    case TFR_P_LINEAR:
        args[2] = (tfr_aten_value){.kind = TFR_AV_TENSOR, .index = b->tensor + 1};
        return call_of_values(l, "linear", args, 3);
    case TFR_P_LAYER_NORM:
        return lower_layer_norm(l, args[0], b);
    case TFR_P_NORM:
        args[2] = (tfr_aten_value){.kind = TFR_AV_ARGUMENT, .index = b->number};
        return add_step(l, TFR_AS_NORM, NULL, args, 3);
    case TFR_P_ACT:
        return add_step(l, TFR_AS_ACT, NULL, args, 1);
    default:
        return fail(l, "a call of", text_of(l, node(l, operand(l, v, 0))->name));
    }
}

static tfr_aten_value lower_size(lowering *l, tfr_value shape, tfr_aten_value dim) {
    tfr_aten_value args[] = {value_of(l, operand(l, shape, 0)), dim};
    return is_number(dim) ? add_step(l, TFR_AS_SIZE, NULL, args, 2)
                          : fail(l, "this use of", TFR_STR("shape"));
}

// One part of x.chunk(n, dim). An uneven division is torch's error here: narrow goes beyond.
static tfr_aten_value lower_chunk(lowering *l, tfr_value chunk, double item) {
    const tfr_vnode *n = node(l, chunk);
    tfr_aten_value x = value_of(l, operand(l, chunk, 0)), count = value_of(l, operand(l, chunk, 1));
    tfr_aten_value dim = n->arg_count > 2 ? value_of(l, operand(l, chunk, 2)) : number(0);
    if (count.kind != TFR_AV_NUMBER || !is_number(dim) || item >= count.number)
        return fail(l, "this use of", TFR_STR("chunk"));
    tfr_aten_value of_size[] = {x, dim};
    tfr_aten_value size = add_step(l, TFR_AS_SIZE, NULL, of_size, 2);
    tfr_aten_value up[] = {size, number(count.number - 1)};
    tfr_aten_value width[] = {add_step(l, TFR_AS_ADD, NULL, up, 2), count};
    tfr_aten_value length = add_step(l, TFR_AS_FLOORDIV, NULL, width, 2);
    tfr_aten_value product[] = {length, number(item)};
    tfr_aten_value start = item == 0   ? number(0)
                           : item == 1 ? length
                                       : add_step(l, TFR_AS_MUL, NULL, product, 2);
    tfr_aten_value args[] = {x, dim, start, length};
    return call_of_values(l, "narrow", args, 4);
}

static tfr_aten_value lower_item(lowering *l, tfr_value v) {
    tfr_value of = operand(l, v, 0);
    double item = strtod(tfr_str_dup(l->arena, text_of(l, node(l, v)->name)), NULL);
    if (is_shape(l, of))
        return lower_size(l, of, number(item));
    if (node(l, of)->op == TFR_V_ATEN &&
        tfr_str_eq(text_of(l, node(l, of)->name), TFR_STR("chunk")))
        return lower_chunk(l, of, item);
    if (node(l, of)->op == TFR_V_ATEN &&
        tfr_str_eq(text_of(l, node(l, of)->name), TFR_STR("unbind"))) {
        tfr_aten_value dim =
            node(l, of)->arg_count > 1 ? value_of(l, operand(l, of, 1)) : number(0);
        tfr_aten_value args[] = {value_of(l, operand(l, of, 0)), dim, number(item)};
        return call_of_values(l, "select", args, 3);
    }
    return fail(l, "an item of", text_of(l, node(l, of)->name));
}

static tfr_aten_value lower_slice(lowering *l, tfr_aten_value x, double dim, tfr_value slice) {
    tfr_aten_value args[5] = {x, number(dim)};
    for (uint32_t i = 0; i < 3; i++)
        args[2 + i] = value_of(l, operand(l, slice, i));
    if (args[2].kind == TFR_AV_NONE && args[3].kind == TFR_AV_NONE && args[4].kind == TFR_AV_NONE)
        return x;
    if (args[4].kind == TFR_AV_NONE)
        args[4] = number(1);
    return call_of_values(l, "[...,:]", args, 5);
}

// x.shape[i], x[..., start:stop:step] or x[:, start:stop:step].
static tfr_aten_value lower_index(lowering *l, tfr_value v) {
    tfr_value object = operand(l, v, 0), key = operand(l, v, 1);
    if (is_shape(l, object))
        return lower_size(l, object, value_of(l, key));
    tfr_aten_value x = value_of(l, object);
    double count = node(l, key)->op == TFR_V_TUPLE ? node(l, key)->arg_count : 0, from = 0;
    for (uint32_t i = 0; i < count; i++) {
        tfr_value item = operand(l, key, i);
        if (node(l, item)->name == l->words->ellipsis && node(l, item)->op == TFR_V_CONST)
            from = -count; // dimensions from the last on
        else if (node(l, item)->op == TFR_V_SLICE)
            x = lower_slice(l, x, from + i, item);
        else
            count = 0;
    }
    return count > 0 ? x : fail(l, "a subscript other than", TFR_STR("[..., a:b:c]"));
}

// Whether a value is a whole number at run time.
static bool is_whole(lowering *l, tfr_value v) {
    tfr_aten_value value = value_of(l, v);
    const binding *b = value.kind == TFR_AV_ARGUMENT ? find_binding(l, v) : NULL;
    return is_step_of(l, value, false) || (b && b->kind == TFR_P_INT) ||
           (value.kind == TFR_AV_NUMBER && value.number == (double)(int64_t)value.number);
}

static bool integer_kind(lowering *l, tfr_value v, tfr_aten_step_kind *kind) {
    const tfr_vnode *n = node(l, v);
    const tfr_words *w = l->words;
    const struct {
        tfr_name name;
        tfr_aten_step_kind kind;
    } table[] = {{w->add, TFR_AS_ADD},
                 {w->sub, TFR_AS_SUB},
                 {w->mul, TFR_AS_MUL},
                 {w->floordiv, TFR_AS_FLOORDIV}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].name == n->name && n->arg_count == 2 &&
            (n->type == TFR_T_NUMBER ||
             (is_whole(l, operand(l, v, 0)) && is_whole(l, operand(l, v, 1))))) {
            *kind = table[i].kind;
            return true;
        }
    return false;
}

// clamp(x, min, max). Its bounds are Scalars, which the dispatcher cannot be given: numbers without
// dimensions give the same bits here.
static tfr_aten_value lower_clamp(lowering *l, tfr_value v) {
    static const char *const keys[] = {"maximum", "minimum"};
    tfr_aten_value pair[2] = {value_of(l, operand(l, v, 0))};
    for (uint32_t i = 1; i < node(l, v)->arg_count; i++) {
        if (node(l, operand(l, v, i))->name == l->words->ellipsis) // clamp(x, max=m)
            continue;
        pair[1] = value_of(l, operand(l, v, i));
        pair[0] = call_of_values(l, keys[i - 1], pair, 2);
    }
    return pair[0];
}

// x.unflatten(-1, sizes) is x.view(*x.shape[:-1], *sizes).
static tfr_aten_value lower_unflatten(lowering *l, tfr_value v) {
    static const tfr_aten_parameter whole = {.type = TFR_AT_INT};
    const tfr_arg *args = l->flow->args.items + node(l, v)->first_arg;
    tfr_aten_value x = value_of(l, args[0].value), dim = value_of(l, args[1].value);
    tfr_aten_value sizes = make_list(l, &whole, args + 2, 1);
    if (dim.kind != TFR_AV_NUMBER || dim.number != -1)
        return fail(l, "this use of", TFR_STR("unflatten"));
    tfr_aten_value *items = TFR_NEW_ARRAY(l->arena, tfr_aten_value, sizes.count + 1);
    items[0] = (tfr_aten_value){.kind = TFR_AV_SIZES, .index = keep(l, &x, 1), .count = 1};
    for (uint32_t i = 0; i < sizes.count; i++)
        items[i + 1] = l->values.items[sizes.index + i];
    sizes.index = keep(l, items, ++sizes.count);
    tfr_aten_value pair[] = {x, sizes};
    return call_of_values(l, "view", pair, 2);
}

static tfr_aten_value lower_aten(lowering *l, tfr_value v) {
    const tfr_vnode *n = node(l, v);
    tfr_aten_step_kind kind;
    if (integer_kind(l, v, &kind)) {
        tfr_aten_value pair[] = {value_of(l, operand(l, v, 0)), value_of(l, operand(l, v, 1))};
        return add_step(l, kind, NULL, pair, 2);
    }
    tfr_str name = text_of(l, n->name);
    if (tfr_str_eq(name, TFR_STR("clamp")) && is_tensor(l, value_of(l, operand(l, v, 0))))
        return lower_clamp(l, v);
    if (tfr_str_eq(name, TFR_STR("unflatten")) && n->arg_count == 3)
        return lower_unflatten(l, v);
    if (n->name == l->words->neg && is_step_of(l, value_of(l, operand(l, v, 0)), false)) {
        tfr_aten_value pair[] = {number(0), value_of(l, operand(l, v, 0))};
        return add_step(l, TFR_AS_SUB, NULL, pair, 2);
    }
    bool literal = false;
    const row *r = find_row(l, name, n, &literal);
    if (!r || !n->arg_count)
        return fail(l, "the op", name);
    const tfr_arg *args = l->flow->args.items + n->first_arg;
    tfr_arg swapped[2];
    // 1 + x and 2 * x are torch's x + 1 and x * 2.
    if ((n->name == l->words->add || n->name == l->words->mul) &&
        is_number(value_of(l, args[0].value))) {
        swapped[0] = args[1], swapped[1] = args[0];
        args = swapped;
    }
    bool negated = n->name == l->words->neg && is_number(value_of(l, args[0].value));
    if (!negated && node(l, args[0].value)->op != TFR_V_TUPLE &&
        !is_tensor(l, value_of(l, args[0].value)))
        return fail(l, "a number on the left of", name);
    return call(l, r, args, n->arg_count - literal);
}

static tfr_aten_value lower_membership(lowering *l, tfr_value v) {
    static const tfr_aten_parameter dtype = {.type = TFR_AT_DTYPE};
    const tfr_arg *args = l->flow->args.items + node(l, v)->first_arg;
    if (!tfr_str_eq(text_of(l, node(l, v)->name), TFR_STR("in")) ||
        node(l, args[1].value)->op != TFR_V_TUPLE)
        return fail(l, "the comparison", text_of(l, node(l, v)->name));
    tfr_aten_value pair[] = {value_of(l, args[0].value), make_list(l, &dtype, args + 1, 1)};
    return add_step(l, TFR_AS_IN, NULL, pair, 2);
}

// `gate is not None`: a torch op's tensors are there.
static bool is_given(const lowering *l, tfr_value v) {
    const tfr_vnode *n = node(l, v);
    const binding *b = n->op == TFR_V_COMPARE ? find_binding(l, operand(l, v, 0)) : NULL;
    return b && b->kind <= TFR_P_PARAM && tfr_str_eq(text_of(l, n->name), TFR_STR("is not")) &&
           node(l, operand(l, v, 1))->name == l->words->none;
}

static tfr_aten_value lower_choice(lowering *l, tfr_value v) {
    if (is_given(l, operand(l, v, 0)))
        return value_of(l, operand(l, v, 1));
    tfr_aten_value args[3];
    for (uint32_t i = 0; i < 3; i++)
        args[i] = value_of(l, operand(l, v, i));
    if (!is_step_of(l, args[0], false) || !is_tensor(l, args[1]) || !is_tensor(l, args[2]))
        return fail(l, "a condition other than one of", TFR_STR("dtypes"));
    return add_step(l, TFR_AS_SELECT, NULL, args, 3);
}

// False: the node has no value of its own; who uses it looks at it.
static bool lower_node(lowering *l, tfr_value v, tfr_aten_value *out) {
    const tfr_vnode *n = node(l, v);
    switch (n->op) {
    case TFR_V_PARAM: {
        const binding *b = find_binding(l, v);
        if (b && b->kind >= TFR_P_LINEAR)
            return false; // a module
        *out = lower_parameter(l, v);
        return true;
    }
    case TFR_V_CONST:
        if (n->name == l->words->ellipsis)
            return false;
        *out = constant(l, text_of(l, n->name));
        return true;
    case TFR_V_GLOBAL:
        *out = lower_global(l, v);
        return true;
    case TFR_V_ATTR:
        if (n->name != l->words->dtype)
            return false;
        *out = value_of(l, operand(l, v, 0));
        *out = add_step(l, TFR_AS_DTYPE, NULL, out, 1);
        return true;
    case TFR_V_ATEN:
        if (n->type == TFR_T_TUPLE)
            return false;
        *out = lower_aten(l, v);
        return true;
    case TFR_V_OPAQUE: { // x.view(*shape, -1)
        bool literal;
        const row *r = n->arg_count > 1 ? find_row(l, text_of(l, n->name), n, &literal) : NULL;
        if (r)
            *out = call(l, r, l->flow->args.items + n->first_arg, n->arg_count);
        return r != NULL;
    }
    case TFR_V_ITEM:
        *out = lower_item(l, v);
        return true;
    case TFR_V_INDEX:
        if (node(l, operand(l, v, 1))->op == TFR_V_SLICE && is_shape(l, operand(l, v, 0)))
            return false;
        *out = lower_index(l, v);
        return true;
    case TFR_V_MODULE:
        *out = lower_module(l, v);
        return true;
    case TFR_V_COMPARE:
        if (is_given(l, v))
            return false;
        *out = lower_membership(l, v);
        return true;
    case TFR_V_PHI:
        *out = lower_choice(l, v);
        return true;
    default:
        return false;
    }
}

// ---- programs -------------------------------------------------------------------------------

static void lower_needed(lowering *l, const tfr_value *roots, uint32_t root_count) {
    const tfr_flow *f = l->flow;
    bool *needed = TFR_NEW_ARRAY(l->arena, bool, f->nodes.count);
    l->made = TFR_NEW_ARRAY(l->arena, tfr_aten_value, f->numbers->count + 1);
    l->is_made = TFR_NEW_ARRAY(l->arena, bool, f->numbers->count + 1);
    for (uint32_t i = 0; i < root_count; i++)
        needed[roots[i]] = true;
    for (tfr_value v = f->nodes.count; v-- > 1;) // operands come before what they are used in
        for (uint32_t i = 0; needed[v] && i < node(l, v)->arg_count; i++)
            needed[operand(l, v, i)] = true;
    for (tfr_value v = 1; v < f->nodes.count && !l->why; v++) {
        uint32_t known = node(l, v)->number;
        tfr_aten_value value;
        if (needed[v] && !l->is_made[known] && lower_node(l, v, &value)) {
            l->made[known] = value;
            l->is_made[known] = true;
        }
    }
}

static void note_last(lowering *l, tfr_aten_value value, uint32_t at) {
    if (value.kind == TFR_AV_STEP)
        l->steps.items[value.index].last = at;
    for (uint32_t i = 0; value.kind == TFR_AV_LIST && i < value.count; i++) {
        tfr_aten_value item = l->values.items[value.index + i];
        if (item.kind == TFR_AV_SIZES)
            item = l->values.items[item.index];
        if (item.kind == TFR_AV_STEP)
            l->steps.items[item.index].last = at;
    }
}

static const tfr_aten_program *finish(lowering *l, const tfr_aten_value *results, uint32_t count,
                                      const tfr_aten_parts *parts) {
    for (uint32_t s = 0; s < l->steps.count; s++) {
        l->steps.items[s].last = s;
        for (uint32_t i = 0; i < l->steps.items[s].count; i++)
            note_last(l, l->values.items[l->steps.items[s].first + i], s);
    }
    for (uint32_t i = 0; i < count; i++) {
        note_last(l, results[i], l->steps.count);
        if (!is_tensor(l, results[i]))
            fail(l, "a result that is no", TFR_STR("tensor"));
    }
    tfr_aten_program *p = TFR_NEW(l->arena, tfr_aten_program);
    *p = (tfr_aten_program){.steps = l->steps.items,
                            .values = l->values.items,
                            .results = results,
                            .step_count = l->steps.count,
                            .result_count = count,
                            .tensors = l->tensors.items,
                            .numbers = l->numbers.items,
                            .tensor_count = l->tensors.count,
                            .number_count = l->numbers.count,
                            .parts = parts};
    return l->why ? NULL : p;
}

static const tfr_aten_program *program_of(lowering *l, const tfr_value *roots, uint32_t count,
                                          const tfr_aten_parts *parts) {
    lower_needed(l, roots, count);
    tfr_aten_value *results = TFR_NEW_ARRAY(l->arena, tfr_aten_value, count);
    for (uint32_t i = 0; i < count && !l->why; i++)
        results[i] = value_of(l, roots[i]);
    return finish(l, results, count, parts);
}

// A parameter's inputs, in the order of the torch op's arguments (kernels.c).
static void bind(lowering *l, tfr_str name, tfr_param_kind kind, tfr_value value) {
    bool layer_norm = kind == TFR_P_LAYER_NORM, is_linear = kind == TFR_P_LINEAR;
    bool is_norm = layer_norm || kind == TFR_P_NORM;
    binding b = {value, kind, l->tensors.count, l->numbers.count};
    const char *text = tfr_str_dup(l->arena, name);
    *TFR_PUSH(l->arena, &l->bindings) = b;
    if (kind == TFR_P_TENSOR || kind == TFR_P_PARAM || is_linear)
        *TFR_PUSH(l->arena, &l->tensors) = text;
    if (kind == TFR_P_SCALAR || kind == TFR_P_CONST || kind == TFR_P_INT)
        *TFR_PUSH(l->arena, &l->numbers) = text;
    if (is_norm)
        *TFR_PUSH(l->arena, &l->tensors) = tfr_str_format(l->arena, "%s_weight", text).data;
    if (layer_norm || is_linear)
        *TFR_PUSH(l->arena, &l->tensors) = tfr_str_format(l->arena, "%s_bias", text).data;
    if (is_norm)
        *TFR_PUSH(l->arena, &l->numbers) = tfr_str_format(l->arena, "%s_eps", text).data;
    if (layer_norm)
        *TFR_PUSH(l->arena, &l->numbers) = tfr_str_format(l->arena, "%s_size", text).data;
}

static const tfr_aten_program *siblings(lowering *l, const tfr_rule *rule, uint32_t modules,
                                        const tfr_aten_parts *parts) {
    tfr_aten_value *results = TFR_NEW_ARRAY(l->arena, tfr_aten_value, modules);
    tfr_str x = tfr_names_text(rule->module->names, rule->params[0].name);
    bind(l, x, TFR_P_TENSOR, 0);
    for (uint32_t i = 0; i < modules; i++) {
        *TFR_PUSH(l->arena, &l->tensors) = tfr_str_format(l->arena, "w%u", i).data;
        *TFR_PUSH(l->arena, &l->tensors) = tfr_str_format(l->arena, "b%u", i).data;
        tfr_aten_value args[3] = {{.kind = TFR_AV_TENSOR},
                                  {.kind = TFR_AV_TENSOR, .index = 1 + 2 * i},
                                  {.kind = TFR_AV_TENSOR, .index = 2 + 2 * i}};
        results[i] = call_of_values(l, "linear", args, 3);
    }
    return finish(l, results, modules, parts);
}

const tfr_aten_program *tfr_aten_program_new(const tfr_rule *rule, uint32_t modules,
                                             const tfr_aten_parts *parts, tfr_arena *arena,
                                             const char **why) {
    lowering l = {.flow = rule->flow, .words = rule->module->words, .arena = arena};
    const tfr_aten_program *p;
    if (rule->siblings) {
        l.why = rule->params[1].kind == TFR_P_LINEAR ? NULL : "calls of modules other than Linear";
        p = siblings(&l, rule, modules, parts);
    } else {
        for (uint32_t i = 0; i < rule->param_count; i++)
            bind(&l, tfr_names_text(rule->module->names, rule->params[i].name),
                 rule->params[i].kind, rule->params[i].value);
        p = program_of(&l, rule->roots, rule->root_count, parts);
    }
    *why = l.why ? tfr_str_format(arena,
                                  "it has no torch operations: rewriter/aten.def does not "
                                  "have %s",
                                  l.why)
                       .data
                 : NULL;
    return p;
}

void tfr_aten_read_acts(tfr_aten_parts *parts, const tfr_rules *rules, tfr_arena *arena) {
    tfr_source *source = TFR_NEW(arena, tfr_source);
    tfr_tree *tree = TFR_NEW(arena, tfr_tree);
    tfr_scope *scope = TFR_NEW(arena, tfr_scope);
    tfr_module *module = TFR_NEW(arena, tfr_module);
    tfr_names *names = TFR_NEW(arena, tfr_names);
    tfr_str text = {tfr_builtin_acts.text, tfr_builtin_acts.length};
    tfr_error err;
    if (tfr_source_from_bytes(source, tfr_builtin_acts.name, text, arena, &err) != TFR_OK)
        return; // cannot be: it was read when it was embedded
    *tree = tfr_tree_from_data(source, tfr_builtin_acts.nodes, tfr_builtin_acts.node_count);
    tfr_names_init(names, &rules->names, arena);
    tfr_scope_build(scope, tree, names, arena);
    *module = (tfr_module){.arena = arena,
                           .scope = scope,
                           .canon = rules->canon,
                           .words = tfr_canon_words(rules->canon),
                           .names = names};
    module->purity = TFR_NEW_ARRAY(arena, uint8_t, scope->classes.count + 1);
    module->flows = TFR_NEW_ARRAY(arena, tfr_flow *, scope->functions.count + 1);
    for (uint32_t i = 0; i < scope->functions.count && i < TFR_ATEN_MAX_ACTS; i++) {
        tfr_flow *flow = tfr_module_flow(module, i);
        lowering l = {.flow = flow, .words = module->words, .arena = arena};
        bind(&l, TFR_STR("x"), TFR_P_TENSOR, flow->versions.items[1].value);
        parts->acts[i] = program_of(&l, &flow->result, 1, parts);
        parts->act_names[i] =
            tfr_str_dup(arena, tfr_names_text(names, scope->functions.items[i].name));
        parts->act_count = i + 1;
    }
}
