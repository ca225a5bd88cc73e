// Expressions to values, in Python's order of evaluation. Every evaluation is a node of its own,
// so that it can be found in the text; equal values share a value number.
#include "rewriter/flow_build.h"

#include <stdio.h>
#include <stdlib.h>

static const tfr_tree *tree_of(const tfr_builder *b) { return b->frame->module->scope->tree; }
static bool outer(const tfr_builder *b) { return b->frame->depth == 0; }
static const tfr_words *words(const tfr_builder *b) { return b->frame->module->words; }

static tfr_name intern(tfr_builder *b, uint32_t node) {
    return tfr_names_add(b->flow->module->names, tfr_tree_text(tree_of(b), node));
}

static tfr_str text_of(const tfr_builder *b, tfr_name name) {
    return tfr_names_text(b->flow->module->names, name);
}

// ---- nodes ----------------------------------------------------------------------------------

static bool epoch_matters(tfr_op op) { return op == TFR_V_ATTR || op == TFR_V_MODULE; }

static uint32_t number_of(tfr_builder *b, tfr_op op, tfr_name name, const tfr_arg *args,
                          uint32_t count, uint32_t unique) {
    uint32_t key[20], n = 0;
    const tfr_words *w = b->flow->module->words;
    if (op == TFR_V_ATEN && count == 2 && (name == w->add || name == w->mul)) {
        // a + b and b + a are one value when they are tensors or numbers.
        const tfr_vnode *x = &b->flow->nodes.items[args[0].value];
        const tfr_vnode *y = &b->flow->nodes.items[args[1].value];
        if (tfr_commutes(x, y)) {
            uint32_t low = x->number < y->number ? x->number : y->number;
            uint32_t both[5] = {op, name, unique, low, x->number + y->number - low};
            return tfr_numbers_get(b->flow->numbers, both, 5);
        }
    }
    key[n++] = op;
    key[n++] = name;
    key[n++] = unique;
    for (uint32_t i = 0; i < count; i++) {
        key[n++] = args[i].value ? b->flow->nodes.items[args[i].value].number : 0;
        if (n == 20) { // fold long argument lists
            key[1] = tfr_numbers_get(b->flow->numbers, key, n);
            key[0] = UINT32_MAX - 2;
            n = 2;
        }
    }
    return tfr_numbers_get(b->flow->numbers, key, n);
}

static tfr_value add_node(tfr_builder *b, tfr_op op, tfr_name name, const tfr_arg *args,
                          uint32_t count, uint32_t ast, uint32_t unique) {
    tfr_flow *f = b->flow;
    if (f->nodes.count >= TFR_MAX_NODES) { // what follows is not looked at
        tfr_build_unfit(b, ast,
                        "the function is too large (60000 values): it would have to be split");
        return f->nodes.count - 1;
    }
    tfr_vnode n = {.op = (uint8_t)op,
                   .name = name,
                   .arg_count = count,
                   .block = b->block,
                   .statement = b->statement,
                   .seq = b->seq++,
                   .in_call = b->call_ast != 0,
                   .class_index = TFR_NO_CLASS};
    n.ast = outer(b) ? tfr_tree_unparen(tree_of(b), ast) : 0;
    n.number = number_of(b, op, name, args, count, unique);
    n.first_arg = f->args.count;
    for (uint32_t i = 0; i < count; i++)
        *TFR_PUSH(b->arena, &f->args) = args[i];
    *TFR_PUSH(b->arena, &f->nodes) = n;
    return f->nodes.count - 1;
}

tfr_value tfr_build_node(tfr_builder *b, tfr_op op, tfr_name name, const tfr_arg *args,
                         uint32_t count, uint32_t ast) {
    return add_node(b, op, name, args, count, ast,
                    epoch_matters(op) ? b->flow->events.count + 1 : 0);
}

tfr_value tfr_build_unique(tfr_builder *b, tfr_name name, const tfr_arg *args, uint32_t count,
                           uint32_t ast) {
    // Numbered by the effects before it and its place after them, so that the same place in an
    // edited text gets the same number again.
    uint32_t key[3] = {UINT32_MAX, b->flow->events.count, 0};
    if (b->unique_events != b->flow->events.count)
        b->unique_count = 0;
    b->unique_events = b->flow->events.count;
    key[2] = b->unique_count++;
    uint32_t ordinal = tfr_numbers_get(b->flow->numbers, key, 3);
    return add_node(b, TFR_V_OPAQUE, name, args, count, ast, ordinal);
}

tfr_value tfr_build_border_value(tfr_builder *b, tfr_name name, uint32_t border) {
    // By name, not by count: an edited text may bind more names inside.
    uint32_t key[4] = {UINT32_MAX - 1, b->flow->events.count, name, border};
    return add_node(b, TFR_V_OPAQUE, name, NULL, 0, 0, tfr_numbers_get(b->flow->numbers, key, 4));
}

tfr_value tfr_build_const(tfr_builder *b, tfr_name name, tfr_type type, uint32_t ast) {
    tfr_value v = add_node(b, TFR_V_CONST, name, NULL, 0, ast, 0);
    b->flow->nodes.items[v].type = (uint8_t)type;
    return v;
}

static tfr_value typed(tfr_builder *b, tfr_value v, tfr_type type) {
    b->flow->nodes.items[v].type = (uint8_t)type;
    return v;
}

static tfr_name number_name(tfr_builder *b, uint32_t index) {
    return tfr_names_add(b->flow->module->names, tfr_str_format(b->arena, "%u", index));
}

bool tfr_build_is_display(const tfr_builder *b, tfr_value value) {
    const tfr_vnode *n = tfr_flow_node(b->flow, value);
    return n->op == TFR_V_TUPLE &&
           (!n->list || !tfr_flow_event_between(b->flow, n->seq, UINT32_MAX));
}

tfr_value tfr_build_item(tfr_builder *b, tfr_value tuple, uint32_t index, uint32_t ast) {
    const tfr_vnode *n = tfr_flow_node(b->flow, tuple);
    if (tfr_build_is_display(b, tuple) && index < n->arg_count)
        return tfr_flow_arg(b->flow, tuple, index).value;
    bool tensors = n->op == TFR_V_ATEN && n->type == TFR_T_TUPLE;
    bool numbers = n->op == TFR_V_ATTR && n->type == TFR_T_TUPLE;
    tfr_arg arg = {tuple, 0};
    tfr_value v = tfr_build_node(b, TFR_V_ITEM, number_name(b, index), &arg, 1, ast);
    if (tensors)
        return typed(b, v, TFR_T_TENSOR);
    return typed(b, v, numbers || tensors ? TFR_T_NUMBER : TFR_T_UNKNOWN);
}

tfr_value tfr_build_star_item(tfr_builder *b, tfr_value tuple, uint32_t index, uint32_t count,
                              bool star, bool after) {
    tfr_names *names = b->flow->module->names;
    if (!star && !after)
        return tfr_build_item(b, tuple, index, 0);
    tfr_str left = tfr_str_format(b->arena, "-%u", count - index - (star ? 1u : 0u));
    if (!star) { // x.shape[-1], as where it is written so
        tfr_arg args[2] = {{tuple, 0},
                           {tfr_build_const(b, tfr_names_add(names, left), TFR_T_NUMBER, 0), 0}};
        return typed(b, tfr_build_node(b, TFR_V_INDEX, 0, args, 2, 0), TFR_T_NUMBER);
    }
    // A list of its own each time, unlike x.shape[:-1]; the name says which items.
    tfr_str name = tfr_str_format(b->arena, "*%u%.*s", index, (int)left.len, left.data);
    tfr_arg arg = {tuple, 0};
    tfr_value v = tfr_build_node(b, TFR_V_OPAQUE, tfr_names_add(names, name), &arg, 1, 0);
    b->flow->nodes.items[v].list = true;
    return typed(b, v, TFR_T_TUPLE);
}

// ---- literals -------------------------------------------------------------------------------

// Numbers by value: "2", "2.0" and "2e0" meet. Anything that does not fit a double keeps its text.
static tfr_name literal_number(tfr_builder *b, tfr_str text, bool negative) {
    char digits[64];
    size_t n = 0;
    if (text.len >= sizeof digits)
        return tfr_names_add(
            b->flow->module->names,
            tfr_str_format(b->arena, "%s%.*s", negative ? "-" : "", (int)text.len, text.data));
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] != '_')
            digits[n++] = text.data[i];
    digits[n] = 0;
    char *end = NULL;
    bool based = n > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    double value = strtod(digits, &end);
    if (*end || based || value > 9007199254740992.0)
        return tfr_names_add(b->flow->module->names,
                             tfr_str_format(b->arena, "%s%s", negative ? "-" : "", digits));
    // The fewest digits that give the value back: it may be written into the user's file.
    int fewest = 15;
    for (; fewest < 17; fewest++) {
        snprintf(digits, sizeof digits, "%.*g", fewest, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    return tfr_names_add(b->flow->module->names,
                         tfr_str_format(b->arena, "%.*g", fewest, negative ? -value : value));
}

static tfr_value build_literal(tfr_builder *b, uint32_t ast, tfr_kind kind) {
    const tfr_words *w = words(b);
    switch (kind) {
    case TFR_N_TRUE:
        return tfr_build_const(b, w->true_, TFR_T_NUMBER, ast);
    case TFR_N_FALSE:
        return tfr_build_const(b, w->false_, TFR_T_NUMBER, ast);
    case TFR_N_NONE:
        return tfr_build_const(b, w->none, TFR_T_OTHER, ast);
    case TFR_N_ELLIPSIS:
        return tfr_build_const(b, w->ellipsis, TFR_T_OTHER, ast);
    default:
        return tfr_build_const(b, literal_number(b, tfr_tree_text(tree_of(b), ast), false),
                               TFR_T_NUMBER, ast);
    }
}

// Everything inside is evaluated; what comes out is not looked into. The text between the
// expressions is part of it: f"q{i}" is not f"k{i}", {a, b} not {a: b}.
static tfr_value build_children(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    TFR_LIST(tfr_arg) list = {0};
    tfr_buf frame = {.arena = b->arena};
    const char *source = t->src->text.data;
    uint32_t at = t->nodes[ast].start;
    for (uint32_t n = tfr_tree_first(t, ast), skip; n; n = tfr_tree_walk(t, ast, n, skip)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        bool shell = kind == TFR_N_OTHER || kind == TFR_N_TYPE || kind == TFR_N_STRING ||
                     kind == TFR_N_TOKEN || kind == TFR_N_COMMENT ||
                     kind == TFR_N_LINE_CONTINUATION;
        skip = !shell;
        if (shell)
            continue;
        *TFR_PUSH(b->arena, &list) = tfr_build_operand(b, n);
        tfr_buf_add(&frame, source + at, t->nodes[n].start - at);
        tfr_buf_add(&frame, "", 1);
        at = t->nodes[n].end;
    }
    tfr_buf_add(&frame, source + at, t->nodes[ast].end - at);
    tfr_name name = tfr_names_add(b->flow->module->names, tfr_buf_str(&frame));
    return tfr_build_node(b, TFR_V_OPAQUE, name, list.items, list.count, ast);
}

static tfr_value build_string(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    for (uint32_t n = ast; n; n = tfr_tree_walk(t, ast, n, false))
        if (tfr_tree_kind(t, n) == TFR_N_IDENTIFIER || tfr_tree_kind(t, n) == TFR_N_CALL)
            return typed(b, build_children(b, ast), TFR_T_OTHER); // an f-string
    tfr_str text = tfr_tree_text(t, ast);                         // 'a' and "a" meet
    bool plain = text.len >= 2 && text.data[0] == '"' && !memchr(text.data, '\'', text.len) &&
                 !memchr(text.data, '\\', text.len);
    if (plain)
        text = tfr_str_format(b->arena, "'%.*s'", (int)text.len - 2, text.data + 1);
    return tfr_build_const(b, tfr_names_add(b->flow->module->names, text), TFR_T_OTHER, ast);
}

// ---- names ----------------------------------------------------------------------------------

void tfr_build_capture(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    if (!outer(b))
        return;
    for (uint32_t n = ast; n; n = tfr_tree_walk(t, ast, n, false)) {
        if (tfr_tree_kind(t, n) != TFR_N_IDENTIFIER)
            continue;
        tfr_name name = intern(b, n);
        if (!tfr_flow_captures(b->flow, name))
            *TFR_PUSH(b->arena, &b->flow->captured) = name;
    }
}

// Sets the names of a file that is imported from apart from those of the file itself.
static uint32_t salt_of(uint32_t home) { return home > 1 ? home << 8 : 0; }

// The number of `a is None` for `a is not None`, of `a` for `not a`, and the other way round.
static uint32_t opposite(tfr_builder *b, tfr_value test) {
    const tfr_vnode *n = tfr_flow_node(b->flow, test);
    const tfr_arg *args = b->flow->args.items + n->first_arg;
    if (n->op == TFR_V_NOT)
        return tfr_flow_node(b->flow, args[0].value)->number;
    if (n->op == TFR_V_COMPARE && (n->name == words(b)->is || n->name == words(b)->is_not))
        return number_of(b, TFR_V_COMPARE,
                         n->name == words(b)->is ? words(b)->is_not : words(b)->is, args, 2, 0);
    tfr_arg arg = {test, 0};
    return number_of(b, TFR_V_NOT, 0, &arg, 1, 0);
}

// Whether a test is known to hold (1) or not (0) where the builder is; -1: not known.
static int known_here(tfr_builder *b, tfr_value test) {
    uint32_t same = tfr_flow_node(b->flow, test)->number, other = opposite(b, test);
    for (uint32_t i = b->block; i; i = b->flow->blocks.items[i].parent) {
        const tfr_block *block = &b->flow->blocks.items[i];
        uint32_t number = block->test ? tfr_flow_node(b->flow, block->test)->number : 0;
        if (number && number == same)
            return block->when;
        if (number && number == other)
            return !block->when;
    }
    return -1;
}

static bool is_about_none(const tfr_builder *b, const tfr_vnode *n) {
    if (n->op != TFR_V_COMPARE || (n->name != words(b)->is && n->name != words(b)->is_not))
        return false;
    const tfr_vnode *right = tfr_flow_node(b->flow, b->flow->args.items[n->first_arg + 1].value);
    return right->op == TFR_V_CONST && right->name == words(b)->none;
}

// What a test says stays so: it is about None, or nothing happened since it was made that could
// empty a list or fill a tensor.
static bool holds_on(const tfr_builder *b, tfr_value test) {
    const tfr_vnode *n = tfr_flow_node(b->flow, test);
    return !tfr_flow_event_between(b->flow, n->seq, UINT32_MAX) || is_about_none(b, n);
}

bool tfr_build_decided(const tfr_builder *b, tfr_value test, bool *truth) {
    const tfr_vnode *n = tfr_flow_node(b->flow, test);
    *truth = n->name == words(b)->true_;
    if (n->op == TFR_V_CONST)
        return *truth || n->name == words(b)->false_;
    if (!is_about_none(b, n))
        return false;
    const tfr_vnode *left = tfr_flow_node(b->flow, tfr_flow_arg(b->flow, test, 0).value);
    *truth = (left->name == words(b)->none) == (n->name == words(b)->is);
    return left->op == TFR_V_CONST;
}

// `a if c else b` read under c is a.
static tfr_value chosen(tfr_builder *b, tfr_value value) {
    while (tfr_flow_node(b->flow, value)->op == TFR_V_PHI) {
        tfr_value test = tfr_flow_arg(b->flow, value, 0).value;
        int holds = holds_on(b, test) ? known_here(b, test) : -1;
        if (holds < 0)
            return value;
        value = tfr_flow_arg(b->flow, value, holds ? 1 : 2).value;
    }
    return value;
}

// Whether no effect comes between a value and the end of one way of a branch, which lies from
// `first` to `end`. Both ways begin behind `start`; the value may come from before it.
static bool lasts(const tfr_builder *b, tfr_value value, uint32_t start, uint32_t first,
                  uint32_t end) {
    uint32_t seq = tfr_flow_node(b->flow, value)->seq;
    if (seq >= first)
        return !tfr_flow_event_between(b->flow, seq, end);
    return !tfr_flow_event_between(b->flow, seq, start) &&
           !tfr_flow_event_between(b->flow, first - 1, end);
}

static bool is_sum(const tfr_builder *b, tfr_value value) {
    const tfr_vnode *n = tfr_flow_node(b->flow, value);
    return n->op == TFR_V_ATEN && n->name == words(b)->add && n->arg_count == 2 &&
           n->type != TFR_T_NUMBER;
}

static tfr_value either(tfr_builder *b, tfr_value condition, tfr_value yes, tfr_value no) {
    if (tfr_flow_same_object(b->flow, yes, no))
        return yes;
    tfr_arg args[3] = {{condition, 0}, {yes, 0}, {no, 0}};
    uint8_t type = tfr_flow_node(b->flow, yes)->type;
    bool same = type == tfr_flow_node(b->flow, no)->type;
    return typed(b, tfr_build_node(b, TFR_V_PHI, 0, args, 3, 0),
                 same ? (tfr_type)type : TFR_T_UNKNOWN);
}

// Two sums join as the sum of what their operands join as, if it may be made here as well.
tfr_value tfr_build_join(tfr_builder *b, tfr_value condition, tfr_value yes, tfr_value no,
                         tfr_ways ways) {
    uint32_t was = b->block;
    b->block = ways.blocks[0];
    yes = chosen(b, yes);
    b->block = ways.blocks[1];
    no = chosen(b, no);
    b->block = was;
    if (tfr_flow_same_object(b->flow, yes, no) || !is_sum(b, yes) || !is_sum(b, no) ||
        !lasts(b, yes, ways.start, ways.start, ways.middle) ||
        !lasts(b, no, ways.start, ways.middle, b->seq))
        return either(b, condition, yes, no);
    tfr_arg args[2] = {{0, 0}, {0, 0}};
    for (uint32_t i = 0; i < 2; i++)
        args[i].value = either(b, condition, tfr_flow_arg(b->flow, yes, i).value,
                               tfr_flow_arg(b->flow, no, i).value);
    uint8_t type = tfr_flow_node(b->flow, yes)->type;
    bool same = type == tfr_flow_node(b->flow, no)->type;
    return typed(b, tfr_build_node(b, TFR_V_ATEN, words(b)->add, args, 2, 0),
                 same ? (tfr_type)type : TFR_T_UNKNOWN);
}

static tfr_value build_identifier(tfr_builder *b, uint32_t ast, uint32_t *outer_ast) {
    tfr_name name = intern(b, ast);
    uint32_t version = tfr_build_lookup(b, name);
    if (version) {
        const tfr_version *v = &b->flow->versions.items[version];
        if (outer(b))
            *TFR_PUSH(b->arena, &b->flow->reads) =
                (tfr_read){.ast = ast, .version = version, .statement = b->statement};
        else
            *outer_ast = v->outer_ast;
        return chosen(b, v->value);
    }
    const tfr_binding *binding = tfr_scope_lookup(b->frame->module->scope, name);
    tfr_name path = binding && binding->kind == TFR_BIND_IMPORT ? binding->path : name;
    bool anywhere = !binding || (path != name && text_of(b, path).data[0] != '.');
    uint32_t home = anywhere ? 0 : b->frame->module->number + 1u;
    uint32_t kind = binding ? binding->kind + 1u : 0;
    tfr_value v = add_node(b, TFR_V_GLOBAL, path, NULL, 0, ast, kind + salt_of(home));
    b->flow->nodes.items[v].home = (uint8_t)home;
    return v;
}

// ---- attributes and items -------------------------------------------------------------------

static tfr_type attribute_type(const tfr_builder *b, tfr_name name) {
    const tfr_words *w = words(b);
    if (name == w->shape)
        return TFR_T_TUPLE;
    if (name == w->dtype || name == w->device)
        return TFR_T_OTHER;
    return name == w->ndim ? TFR_T_NUMBER : TFR_T_UNKNOWN;
}

// self.x may run a method: a property of the class, as far as this file shows.
static bool is_property(const tfr_builder *b, tfr_name name) {
    tfr_module *owner;
    const tfr_function *f = tfr_module_method(b->flow->module, b->frame->class_index, name, &owner);
    return f && f->decorated && !f->is_static;
}

// torch.float is torch.float32, and so on.
static tfr_str same_dtype(tfr_str path) {
    static const char *const aliases[][2] = {
        {"torch.float", "torch.float32"},
        {"torch.half", "torch.float16"},
        {"torch.double", "torch.float64"},
    };
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (tfr_str_eq(path, tfr_str_from(aliases[i][0])))
            return tfr_str_from(aliases[i][1]);
    return path;
}

static tfr_value build_attribute(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    tfr_arg object = tfr_build_operand(b, tfr_tree_field(t, ast, TFR_F_OBJECT));
    tfr_name name = intern(b, tfr_tree_field(t, ast, TFR_F_ATTRIBUTE));
    const tfr_vnode *n = tfr_flow_node(b->flow, object.value);
    if (n->op == TFR_V_GLOBAL) {
        tfr_str left = tfr_names_text(b->flow->module->names, n->name);
        tfr_str right = tfr_names_text(b->flow->module->names, name);
        tfr_str path = tfr_str_format(b->arena, "%.*s.%.*s", (int)left.len, left.data,
                                      (int)right.len, right.data);
        tfr_name full = tfr_names_add(b->flow->module->names, same_dtype(path));
        uint8_t home = n->home;
        tfr_value v = add_node(b, TFR_V_GLOBAL, full, NULL, 0, ast, salt_of(home));
        b->flow->nodes.items[v].home = home;
        return v;
    }
    bool on_self = b->frame->self && tfr_flow_same(b->flow, object.value, b->frame->self);
    if (on_self && is_property(b, name)) {
        tfr_value v = tfr_build_unique(b, name, &object, 1, ast);
        tfr_build_event(b, TFR_EV_CALL, ast, v);
        return v;
    }
    tfr_type type = attribute_type(b, name);
    bool metadata = type != TFR_T_UNKNOWN; // no write changes a tensor's dtype or shape here
    tfr_value v =
        add_node(b, TFR_V_ATTR, name, &object, 1, ast, metadata ? 0 : b->flow->events.count + 1);
    tfr_vnode *made = &b->flow->nodes.items[v];
    made->type = (uint8_t)type;
    if (on_self) {
        made->module = (uint8_t)tfr_module_attribute(b->flow->module, b->frame->class_index, name,
                                                     &made->class_index);
        if (made->module == TFR_M_PARAM)
            made->type = TFR_T_TENSOR;
    }
    return v;
}

static tfr_value build_subscript(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    tfr_arg args[2] = {tfr_build_operand(b, tfr_tree_field(t, ast, TFR_F_VALUE)), {0, 0}};
    TFR_LIST(tfr_arg) keys = {0};
    for (uint32_t c = tfr_tree_first(t, ast); c; c = tfr_tree_next(t, c))
        if (t->nodes[c].field == TFR_F_SUBSCRIPT)
            *TFR_PUSH(b->arena, &keys) = tfr_build_operand(b, c);
    if (keys.count == 1)
        args[1] = keys.items[0];
    else
        args[1].value = tfr_build_node(b, TFR_V_TUPLE, 0, keys.items, keys.count, 0);
    const tfr_vnode *object = tfr_flow_node(b->flow, args[0].value);
    const tfr_vnode *key = tfr_flow_node(b->flow, args[1].value);
    if (object->type == TFR_T_TUPLE && object->op != TFR_V_PARAM && key->op == TFR_V_CONST &&
        key->type == TFR_T_NUMBER) {
        tfr_str text = tfr_names_text(b->flow->module->names, key->name);
        if (text.len == 1 && text.data[0] >= '0' && text.data[0] <= '9')
            return tfr_build_item(b, args[0].value, (uint32_t)(text.data[0] - '0'), ast);
    }
    tfr_value v = tfr_build_node(b, TFR_V_INDEX, 0, args, 2, ast);
    object = tfr_flow_node(b->flow, args[0].value);
    if (object->op == TFR_V_GLOBAL &&
        tfr_ends_with(tfr_names_text(b->flow->module->names, object->name), "activations.ACT2FN"))
        b->flow->nodes.items[v].module = TFR_M_ACT;
    if (object->type == TFR_T_TENSOR)
        return typed(b, v, TFR_T_TENSOR);
    if (object->op == TFR_V_ATTR && object->name == words(b)->shape)
        return typed(b, v,
                     tfr_flow_node(b->flow, args[1].value)->op == TFR_V_SLICE ? TFR_T_TUPLE
                                                                              : TFR_T_NUMBER);
    return v;
}

static tfr_value build_slice(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    tfr_arg args[3] = {{0, 0}, {0, 0}, {0, 0}};
    uint32_t at = 0;
    for (uint32_t c = t->nodes[ast].child; c; c = t->nodes[c].next) {
        tfr_kind kind = tfr_tree_kind(t, c);
        if (kind == TFR_N_COMMENT || kind == TFR_N_LINE_CONTINUATION)
            continue;
        if (kind == TFR_N_TOKEN)
            at++;
        else if (at < 3)
            args[at] = tfr_build_operand(b, c);
    }
    for (int i = 0; i < 3; i++)
        if (!args[i].value)
            args[i].value = tfr_build_const(b, words(b)->none, TFR_T_OTHER, 0);
    // x[0:n] and x[:n]
    const tfr_vnode *start = tfr_flow_node(b->flow, args[0].value);
    if (start->op == TFR_V_CONST &&
        tfr_str_eq(tfr_names_text(b->flow->module->names, start->name), TFR_STR("0")))
        args[0].value = tfr_build_const(b, words(b)->none, TFR_T_OTHER, 0);
    return tfr_build_node(b, TFR_V_SLICE, 0, args, 3, ast);
}

// ---- operators ------------------------------------------------------------------------------

static tfr_name operator_name(const tfr_builder *b, uint32_t token) {
    static const struct {
        const char *text;
        size_t word;
    } table[] = {
        {"+", offsetof(tfr_words, add)},       {"-", offsetof(tfr_words, sub)},
        {"*", offsetof(tfr_words, mul)},       {"/", offsetof(tfr_words, div)},
        {"//", offsetof(tfr_words, floordiv)}, {"%", offsetof(tfr_words, mod)},
        {"**", offsetof(tfr_words, pow)},      {"@", offsetof(tfr_words, matmul)},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (tfr_tree_is(tree_of(b), token, table[i].text)) {
            tfr_name name;
            memcpy(&name, (const char *)words(b) + table[i].word, sizeof name);
            return name;
        }
    return 0;
}

static tfr_type binary_type(tfr_type a, tfr_type b) {
    if (a == TFR_T_TENSOR || b == TFR_T_TENSOR)
        return TFR_T_TENSOR;
    if (a == TFR_T_NUMBER && b == TFR_T_NUMBER)
        return TFR_T_NUMBER;
    return a == TFR_T_TUPLE && b == TFR_T_TUPLE ? TFR_T_TUPLE : TFR_T_UNKNOWN;
}

static tfr_value build_binary(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    tfr_arg args[2];
    args[0] = tfr_build_operand(b, tfr_tree_field(t, ast, TFR_F_LEFT));
    args[1] = tfr_build_operand(b, tfr_tree_field(t, ast, TFR_F_RIGHT));
    uint32_t token = tfr_tree_field(t, ast, TFR_F_OPERATOR);
    tfr_name op = operator_name(b, token);
    if (!op)
        return tfr_build_node(b, TFR_V_OPAQUE, intern(b, token), args, 2, ast);
    tfr_type left = (tfr_type)tfr_flow_node(b->flow, args[0].value)->type;
    tfr_type right = (tfr_type)tfr_flow_node(b->flow, args[1].value)->type;
    if (op == words(b)->mul && left == TFR_T_TENSOR &&
        tfr_flow_same_at(b->flow, args[0].value, args[1].value, b->seq)) {
        args[1] = (tfr_arg){tfr_build_const(b, words(b)->two, TFR_T_NUMBER, 0), 0};
        op = words(b)->pow; // x * x is pow(x, 2): torch computes the latter so
    }
    return typed(b, tfr_build_node(b, TFR_V_ATEN, op, args, 2, ast), binary_type(left, right));
}

static tfr_value build_unary(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    uint32_t operand = tfr_tree_field(t, ast, TFR_F_ARGUMENT);
    uint32_t token = tfr_tree_field(t, ast, TFR_F_OPERATOR);
    tfr_kind kind = tfr_tree_kind(t, operand);
    bool minus = tfr_tree_is(t, token, "-");
    if (minus && (kind == TFR_N_INTEGER || kind == TFR_N_FLOAT))
        return tfr_build_const(b, literal_number(b, tfr_tree_text(t, operand), true), TFR_T_NUMBER,
                               ast);
    tfr_arg arg = tfr_build_operand(b, operand);
    uint8_t type = tfr_flow_node(b->flow, arg.value)->type;
    tfr_value v = minus ? tfr_build_node(b, TFR_V_ATEN, words(b)->neg, &arg, 1, ast)
                        : tfr_build_node(b, TFR_V_OPAQUE, intern(b, token), &arg, 1, ast);
    return typed(b, v, (tfr_type)type);
}

// Runs only under a condition: its values belong to a block of their own.
static tfr_arg conditional_operand(tfr_builder *b, uint32_t ast, tfr_arg condition, uint32_t way) {
    uint32_t was = b->block, first = b->flow->versions.count;
    b->block = tfr_build_branch(b, was, condition.value, condition.ast, way);
    tfr_arg arg = tfr_build_operand(b, ast);
    b->block = was;
    tfr_build_maybe_bound(b, first, condition.value);
    return arg;
}

static tfr_value build_boolean(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    tfr_arg args[2] = {tfr_build_operand(b, tfr_tree_field(t, ast, TFR_F_LEFT)), {0, 0}};
    tfr_name op = intern(b, tfr_tree_field(t, ast, TFR_F_OPERATOR));
    args[1] =
        conditional_operand(b, tfr_tree_field(t, ast, TFR_F_RIGHT), args[0], TFR_WAY_SHORT_CIRCUIT);
    return tfr_build_node(b, TFR_V_BOOL, op, args, 2, ast);
}

static tfr_value build_conditional(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    uint32_t yes = tfr_tree_first(t, ast), condition = tfr_tree_next(t, yes);
    uint32_t no = tfr_tree_next(t, condition);
    tfr_arg args[3] = {tfr_build_operand(b, condition), {0, 0}, {0, 0}};
    bool truth;
    if (!outer(b) && tfr_build_decided(b, args[0].value, &truth))
        return tfr_build_expr(b, truth ? yes : no);
    args[1] = conditional_operand(b, yes, args[0], TFR_WAY_TRUE);
    args[2] = conditional_operand(b, no, args[0], TFR_WAY_FALSE);
    tfr_type left = (tfr_type)tfr_flow_node(b->flow, args[1].value)->type;
    bool same = left == (tfr_type)tfr_flow_node(b->flow, args[2].value)->type;
    return typed(b, tfr_build_node(b, TFR_V_PHI, 0, args, 3, ast), same ? left : TFR_T_UNKNOWN);
}

static tfr_value build_comparison(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    TFR_LIST(tfr_arg) list = {0};
    tfr_buf operators = {.arena = b->arena};
    tfr_arg last = {0, 0};
    for (uint32_t c = t->nodes[ast].child; c; c = t->nodes[c].next) {
        tfr_kind kind = tfr_tree_kind(t, c);
        if (kind == TFR_N_COMMENT || kind == TFR_N_LINE_CONTINUATION)
            continue;
        if (t->nodes[c].field == TFR_F_OPERATORS) {
            tfr_str text = tfr_tree_text(t, c);
            tfr_buf_format(&operators, "%s%.*s", operators.len ? " " : "", (int)text.len,
                           text.data);
            continue;
        }
        tfr_arg arg = list.count > 1 // a < b < c: c only when a < b
                          ? conditional_operand(b, c, last, TFR_WAY_SHORT_CIRCUIT)
                          : tfr_build_operand(b, c);
        last = arg;
        *TFR_PUSH(b->arena, &list) = arg;
    }
    tfr_op kind = list.count == 2 ? TFR_V_COMPARE : TFR_V_OPAQUE;
    tfr_name op = tfr_names_add(b->flow->module->names, tfr_buf_str(&operators));
    return tfr_build_node(b, kind, op, list.items, list.count, ast);
}

static tfr_value build_named(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    tfr_arg arg = tfr_build_operand(b, tfr_tree_field(t, ast, TFR_F_VALUE));
    uint32_t name = tfr_tree_field(t, ast, TFR_F_NAME);
    tfr_build_assign(b, name, arg.value, arg.ast);
    b->walrus = true;
    return tfr_build_node(b, TFR_V_OPAQUE, intern(b, name), &arg, 1, ast);
}

// ---- scopes inside expressions --------------------------------------------------------------

static tfr_value build_comprehension(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    bool calls = false;
    TFR_LIST(tfr_arg) list = {0};
    for (uint32_t n = ast; n; n = tfr_tree_walk(t, ast, n, false)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        calls |= kind == TFR_N_CALL || kind == TFR_N_AWAIT;
        if (kind == TFR_N_NAMED)
            tfr_build_unfit(
                b, n, "an assignment inside a comprehension: it would have to be a statement");
        if (kind != TFR_N_IDENTIFIER)
            continue;
        uint32_t p = t->nodes[n].parent;
        bool name_only =
            t->nodes[n].field == TFR_F_ATTRIBUTE ||
            (tfr_tree_kind(t, p) == TFR_N_KEYWORD_ARGUMENT && t->nodes[n].field == TFR_F_NAME);
        if (!name_only && tfr_build_lookup(b, intern(b, n)))
            *TFR_PUSH(b->arena, &list) = tfr_build_operand(b, n);
    }
    if (tfr_tree_kind(t, ast) == TFR_N_GENERATOR)
        tfr_build_capture_generator(b, ast);
    tfr_name text = intern(b, ast);
    tfr_value v = tfr_build_node(b, TFR_V_OPAQUE, text, list.items, list.count, ast);
    if (calls)
        tfr_build_event(b, TFR_EV_CALL, ast, v);
    return v;
}

static tfr_value build_lambda(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    uint32_t parameters = tfr_tree_field(t, ast, TFR_F_PARAMETERS);
    for (uint32_t p = parameters ? tfr_tree_first(t, parameters) : 0; p; p = tfr_tree_next(t, p)) {
        uint32_t fallback = tfr_tree_field(t, p, TFR_F_VALUE);
        if (fallback) // runs here, once
            tfr_build_expr(b, fallback);
    }
    tfr_build_capture(b, ast);
    if (!outer(b))
        return tfr_build_unique(b, words(b)->lambda, NULL, 0, ast);
    return tfr_build_node(b, TFR_V_OPAQUE, intern(b, ast), NULL, 0, ast);
}

static tfr_value build_suspend(tfr_builder *b, uint32_t ast, tfr_kind kind) {
    tfr_value inner = build_children(b, ast);
    tfr_arg arg = {inner, 0};
    tfr_name name = kind == TFR_N_AWAIT ? words(b)->await : words(b)->yield;
    tfr_value v = tfr_build_unique(b, name, &arg, 1, ast);
    if (kind == TFR_N_YIELD)
        b->flow->is_generator = true;
    tfr_build_event(b, TFR_EV_CALL, ast, v);
    return v;
}

static tfr_value build_display(tfr_builder *b, uint32_t ast) {
    const tfr_tree *t = tree_of(b);
    TFR_LIST(tfr_arg) list = {0};
    bool splat = false;
    for (uint32_t c = tfr_tree_first(t, ast); c; c = tfr_tree_next(t, c)) {
        *TFR_PUSH(b->arena, &list) = tfr_build_operand(b, c);
        splat |= tfr_tree_kind(t, c) == TFR_N_LIST_SPLAT;
    }
    // (*a, b)[1] is b only when a has one element.
    tfr_op op = splat ? TFR_V_OPAQUE : TFR_V_TUPLE;
    tfr_value v = tfr_build_node(b, op, splat ? words(b)->splat : 0, list.items, list.count, ast);
    b->flow->nodes.items[v].list = tfr_tree_kind(t, ast) == TFR_N_LIST;
    return typed(b, v, TFR_T_TUPLE);
}

static tfr_value build_by_kind(tfr_builder *b, uint32_t ast, tfr_kind kind, uint32_t *outer_ast) {
    switch (kind) {
    case TFR_N_IDENTIFIER:
        return build_identifier(b, ast, outer_ast);
    case TFR_N_ATTRIBUTE:
        return build_attribute(b, ast);
    case TFR_N_CALL:
        return tfr_build_call(b, ast);
    case TFR_N_SUBSCRIPT:
        return build_subscript(b, ast);
    case TFR_N_SLICE:
        return build_slice(b, ast);
    case TFR_N_BINARY:
        return build_binary(b, ast);
    case TFR_N_UNARY:
        return build_unary(b, ast);
    case TFR_N_BOOLEAN:
        return build_boolean(b, ast);
    case TFR_N_NOT: {
        tfr_arg arg = tfr_build_operand(b, tfr_tree_field(tree_of(b), ast, TFR_F_ARGUMENT));
        return tfr_build_node(b, TFR_V_NOT, 0, &arg, 1, ast);
    }
    case TFR_N_COMPARISON:
        return build_comparison(b, ast);
    case TFR_N_CONDITIONAL:
        return build_conditional(b, ast);
    case TFR_N_NAMED:
        return build_named(b, ast);
    case TFR_N_TUPLE:
    case TFR_N_LIST:
    case TFR_N_EXPRESSION_LIST:
        return build_display(b, ast);
    case TFR_N_LIST_SPLAT:
    case TFR_N_DICT_SPLAT: {
        tfr_arg arg = tfr_build_operand(b, tfr_tree_first(tree_of(b), ast));
        tfr_name name = kind == TFR_N_LIST_SPLAT ? words(b)->splat : words(b)->dict_splat;
        const tfr_vnode *n = tfr_flow_node(b->flow, arg.value);
        if (n->list && tfr_flow_event_between(b->flow, n->seq, UINT32_MAX))
            return tfr_build_unique(b, name, &arg, 1, ast); // it may have been changed
        return tfr_build_node(b, TFR_V_OPAQUE, name, &arg, 1, ast);
    }
    case TFR_N_STRING:
        return build_string(b, ast);
    case TFR_N_INTEGER:
    case TFR_N_FLOAT:
    case TFR_N_TRUE:
    case TFR_N_FALSE:
    case TFR_N_NONE:
    case TFR_N_ELLIPSIS:
        return build_literal(b, ast, kind);
    case TFR_N_LIST_COMPREHENSION:
    case TFR_N_SET_COMPREHENSION:
    case TFR_N_DICT_COMPREHENSION:
    case TFR_N_GENERATOR:
        return build_comprehension(b, ast);
    case TFR_N_LAMBDA:
        return build_lambda(b, ast);
    case TFR_N_AWAIT:
    case TFR_N_YIELD:
        return build_suspend(b, ast, kind);
    default:
        return build_children(b, ast);
    }
}

tfr_arg tfr_build_operand(tfr_builder *b, uint32_t ast) {
    uint32_t inner = tfr_tree_unparen(tree_of(b), ast);
    uint32_t outer_ast = outer(b) ? inner : 0;
    tfr_value value = build_by_kind(b, inner, tfr_tree_kind(tree_of(b), inner), &outer_ast);
    return (tfr_arg){value, outer_ast};
}

tfr_value tfr_build_expr(tfr_builder *b, uint32_t ast) { return tfr_build_operand(b, ast).value; }
