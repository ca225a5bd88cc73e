// Statements to SSA. Branches join as phi nodes that carry their condition; names that loops, try,
// with and match assign are opaque where these begin and end: nothing is matched across.
#include "rewriter/flow_build.h"

#define MAX_EARLY_RETURNS 16
#define MAX_ELIF 150 // longer chains are unfit: each elif is one level of nesting here

static const tfr_tree *tree_of(const tfr_builder *b) { return b->frame->module->scope->tree; }
static bool outer(const tfr_builder *b) { return b->frame->depth == 0; }

// ---- blocks, events, versions ---------------------------------------------------------------

uint32_t tfr_build_block(tfr_builder *b, uint32_t parent, uint32_t condition, uint32_t way) {
    tfr_flow *f = b->flow;
    uint32_t key[3] = {parent ? f->blocks.items[parent].key : 0, condition, way};
    *TFR_PUSH(b->arena, &f->blocks) = (tfr_block){.parent = parent,
                                                  .key = tfr_numbers_get(f->numbers, key, 3),
                                                  .guarded = way >= TFR_WAY_WITH};
    return f->blocks.count - 1;
}

uint32_t tfr_build_branch(tfr_builder *b, uint32_t parent, tfr_value test, uint32_t ast,
                          uint32_t way) {
    uint32_t block = tfr_build_block(b, parent, tfr_flow_node(b->flow, test)->number, way);
    if (way == TFR_WAY_TRUE || way == TFR_WAY_FALSE) {
        tfr_block *made = &b->flow->blocks.items[block];
        made->test = test;
        made->when = way == TFR_WAY_TRUE;
        made->test_ast = outer(b) ? tfr_tree_unparen(tree_of(b), ast) : 0;
    }
    return block;
}

bool tfr_flow_asks_for(const tfr_flow *flow, uint32_t block, tfr_value module) {
    const tfr_block *b = &flow->blocks.items[block];
    const tfr_vnode *n = tfr_flow_node(flow, b->test);
    const tfr_words *w = flow->module->words;
    if (!b->test || n->op != TFR_V_COMPARE || n->name != (b->when ? w->is_not : w->is))
        return false;
    const tfr_vnode *right = tfr_flow_node(flow, tfr_flow_arg(flow, b->test, 1).value);
    return right->op == TFR_V_CONST && right->name == w->none &&
           tfr_flow_same(flow, tfr_flow_arg(flow, b->test, 0).value, module);
}

bool tfr_flow_within(const tfr_flow *flow, uint32_t block, uint32_t outer_block) {
    for (; block; block = flow->blocks.items[block].parent)
        if (block == outer_block)
            return true;
    return false;
}

void tfr_build_event(tfr_builder *b, tfr_event_kind kind, uint32_t ast, tfr_value value) {
    *TFR_PUSH(b->arena, &b->flow->events) = (tfr_event){.kind = (uint8_t)kind,
                                                        .seq = b->seq++,
                                                        .block = b->block,
                                                        .ast = b->call_ast ? b->call_ast : ast,
                                                        .statement = b->statement,
                                                        .value = value};
}

void tfr_build_unfit(tfr_builder *b, uint32_t ast, const char *why) {
    if (b->flow->unfit)
        return;
    b->flow->unfit = why;
    b->flow->unfit_ast = outer(b) ? ast : b->call_ast;
}

// The place of a name in the hash table; *place is 0 when it is not there.
static uint32_t *local_slot(const tfr_locals *l, tfr_name name) {
    uint32_t mask = l->slot_count - 1;
    for (uint32_t i = name & mask;; i = (i + 1) & mask)
        if (!l->slots[i] || l->names[l->slots[i] - 1] == name)
            return &l->slots[i];
}

static uint32_t local_number(tfr_builder *b, tfr_name name) {
    tfr_locals *l = &b->frame->locals;
    uint32_t *slot = l->slot_count ? local_slot(l, name) : NULL;
    if (slot && *slot)
        return *slot - 1;
    if (2 * (l->count + 1) > l->slot_count) {
        l->slot_count = l->slot_count ? 2 * l->slot_count : 16;
        l->slots = TFR_NEW_ARRAY(b->arena, uint32_t, l->slot_count);
        for (uint32_t i = 0; i < l->count; i++)
            *local_slot(l, l->names[i]) = i + 1;
    }
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        l->names =
            tfr_arena_grow(b->arena, l->names, l->cap * sizeof(tfr_name), cap * sizeof(tfr_name));
        l->cap = cap;
    }
    l->names[l->count++] = name;
    *local_slot(l, name) = l->count;
    return l->count - 1;
}

static uint32_t env_at(const tfr_env *env, uint32_t local) {
    return local < env->count ? env->versions[local] : 0;
}

static uint32_t env_get(const tfr_builder *b, const tfr_env *env, tfr_name name) {
    const tfr_locals *l = &b->frame->locals;
    uint32_t number = l->slot_count ? *local_slot(l, name) : 0;
    return number ? env_at(env, number - 1) : 0;
}

uint32_t tfr_build_lookup(const tfr_builder *b, tfr_name name) {
    return env_get(b, &b->frame->env, name);
}

static void env_set(tfr_builder *b, tfr_env *env, uint32_t version) {
    uint32_t local = local_number(b, b->flow->versions.items[version].name);
    if (local >= env->count) {
        uint32_t count = b->frame->locals.cap;
        env->versions = tfr_arena_grow(b->arena, env->versions, env->count * sizeof(uint32_t),
                                       count * sizeof(uint32_t));
        env->count = count;
    }
    env->versions[local] = version;
}

static tfr_env env_copy(tfr_builder *b, const tfr_env *env) {
    tfr_env copy = {.count = env->count};
    copy.versions = TFR_NEW_ARRAY(b->arena, uint32_t, env->count);
    if (env->count)
        memcpy(copy.versions, env->versions, env->count * sizeof(uint32_t));
    return copy;
}

static uint32_t version_new(tfr_builder *b, tfr_version version) {
    version.statement = b->statement;
    version.block = b->block;
    *TFR_PUSH(b->arena, &b->flow->versions) = version;
    return b->flow->versions.count - 1;
}

uint32_t tfr_build_bind(tfr_builder *b, tfr_name name, tfr_value value, uint32_t target) {
    uint32_t v = version_new(b, (tfr_version){.name = name,
                                              .value = value,
                                              .kind = TFR_VER_ASSIGN,
                                              .before = tfr_build_lookup(b, name),
                                              .target = outer(b) ? target : 0});
    env_set(b, &b->frame->env, v);
    return v;
}

void tfr_build_maybe_bound(tfr_builder *b, uint32_t first, tfr_value condition) {
    uint32_t end = b->flow->versions.count;
    for (uint32_t v = first; v < end; v++) {
        tfr_version now = b->flow->versions.items[v];
        if (tfr_build_lookup(b, now.name) != v) // bound again, or in a helper
            continue;
        uint32_t before = now.before;
        while (before >= first)
            before = b->flow->versions.items[before].before;
        tfr_value value =
            tfr_build_border_value(b, now.name, tfr_flow_node(b->flow, condition)->number);
        env_set(b, &b->frame->env,
                version_new(b, (tfr_version){.name = now.name,
                                             .value = value,
                                             .kind = TFR_VER_PHI,
                                             .before = before,
                                             .merges = {v, before}}));
    }
}

// ---- joins and regions ----------------------------------------------------------------------

static void join_name(tfr_builder *b, tfr_value condition, tfr_env *into, tfr_name name,
                      uint32_t left, uint32_t right, tfr_ways ways) {
    const tfr_version *versions = b->flow->versions.items;
    tfr_value value =
        left && right
            ? tfr_build_join(b, condition, versions[left].value, versions[right].value, ways)
            : tfr_build_border_value(b, name, tfr_flow_node(b->flow, condition)->number);
    uint32_t v = version_new(
        b,
        (tfr_version){.name = name, .value = value, .kind = TFR_VER_PHI, .merges = {left, right}});
    env_set(b, into, v);
}

static tfr_env join(tfr_builder *b, tfr_value condition, const tfr_env *left, const tfr_env *right,
                    tfr_ways ways) {
    tfr_env result = env_copy(b, left);
    for (uint32_t i = 0; i < left->count || i < right->count; i++) {
        uint32_t x = env_at(left, i), y = env_at(right, i);
        if (x != y)
            join_name(b, condition, &result, b->frame->locals.names[i], x, y, ways);
    }
    return result;
}

// Whether an identifier node is bound (not read) where it stands.
static bool is_target(const tfr_tree *t, uint32_t node) {
    for (uint32_t n = node;;) {
        uint32_t p = t->nodes[n].parent;
        uint8_t field = t->nodes[n].field;
        switch (tfr_tree_kind(t, p)) {
        case TFR_N_ASSIGNMENT:
        case TFR_N_AUGMENTED:
        case TFR_N_FOR:
            return field == TFR_F_LEFT;
        case TFR_N_NAMED:
            return field == TFR_F_NAME;
        case TFR_N_AS_PATTERN_TARGET:
        case TFR_N_DELETE:
        case TFR_N_CASE_PATTERN: // or a class, or a key: taken for bound too
            return true;
        case TFR_N_ALIASED_IMPORT:
            return field == TFR_F_ALIAS;
        case TFR_N_FUNCTION:
        case TFR_N_CLASS:
            return field == TFR_F_NAME;
        case TFR_N_DOTTED_NAME:
        case TFR_N_PATTERN_LIST:
        case TFR_N_TUPLE_PATTERN:
        case TFR_N_LIST_PATTERN:
        case TFR_N_LIST_SPLAT_PATTERN:
        case TFR_N_TUPLE:
        case TFR_N_LIST:
        case TFR_N_EXPRESSION_LIST:
        case TFR_N_PARENTHESIZED:
        case TFR_N_IMPORT:
        case TFR_N_IMPORT_FROM:
        case TFR_N_AS_PATTERN:
        case TFR_N_OTHER: // patterns of a match statement
            if (tfr_tree_kind(t, p) == TFR_N_IMPORT || tfr_tree_kind(t, p) == TFR_N_IMPORT_FROM)
                return true;
            n = p;
            continue;
        default:
            return false;
        }
    }
}

// Rebinds every name that `root` assigns to a version that says "some value".
static void region_names(tfr_builder *b, uint32_t root, uint32_t first_version, bool leaving,
                         const tfr_env *before) {
    const tfr_tree *t = tree_of(b);
    // By count: no effect need lie between two borders, as where a loop stands first in a try.
    uint32_t key[3] = {leaving ? TFR_BORDER_LEAVE : TFR_BORDER_ENTER, b->borders++, 0};
    uint32_t border = tfr_numbers_get(b->flow->numbers, key, 3);
    for (uint32_t n = root, skip = 0; n; n = tfr_tree_walk(t, root, n, skip)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        bool definition = n != root && (kind == TFR_N_FUNCTION || kind == TFR_N_CLASS);
        skip = kind == TFR_N_LAMBDA || definition || kind == TFR_N_ATTRIBUTE ||
               kind == TFR_N_KEYWORD_ARGUMENT;
        if (kind == TFR_N_KEYWORD_ARGUMENT)
            skip = 0;
        uint32_t identifier = definition ? tfr_tree_field(t, n, TFR_F_NAME) : n;
        if (tfr_tree_kind(t, identifier) != TFR_N_IDENTIFIER || !is_target(t, identifier))
            continue;
        tfr_name name = tfr_names_add(b->flow->module->names, tfr_tree_text(t, identifier));
        uint32_t current = tfr_build_lookup(b, name);
        // Once per border: a name met again here already has this border's version.
        if (current && b->flow->versions.items[current].kind == TFR_VER_REGION &&
            b->flow->versions.items[current].region_first == first_version &&
            b->flow->versions.items[current].target == (leaving ? 1u : 0u))
            continue;
        uint32_t old = env_get(b, before, name);
        tfr_value value = tfr_build_border_value(b, name, border);
        uint32_t v = version_new(b, (tfr_version){.name = name,
                                                  .value = value,
                                                  .kind = TFR_VER_REGION,
                                                  .before = old,
                                                  .region_first = first_version,
                                                  .target = leaving ? 1u : 0u,
                                                  .region_end = UINT32_MAX});
        env_set(b, &b->frame->env, v);
    }
}

static void region_close(tfr_builder *b, uint32_t first_version) {
    for (uint32_t v = first_version; v < b->flow->versions.count; v++) {
        tfr_version *version = &b->flow->versions.items[v];
        if (version->kind == TFR_VER_REGION && version->region_first == first_version &&
            version->region_end == UINT32_MAX)
            version->region_end = b->flow->versions.count;
    }
}

// ---- assignment -----------------------------------------------------------------------------

static void assign_pattern(tfr_builder *b, uint32_t pattern, tfr_value value) {
    const tfr_tree *t = tree_of(b);
    uint32_t count = 0, stars = 0;
    bool after = false; // behind the star
    for (uint32_t c = tfr_tree_first(t, pattern); c; c = tfr_tree_next(t, c), count++)
        stars += tfr_tree_kind(t, c) == TFR_N_LIST_SPLAT_PATTERN;
    bool starred = stars > 0;
    const tfr_vnode *n = tfr_flow_node(b->flow, value);
    bool display = tfr_build_is_display(b, value) && n->arg_count == count && !starred;
    uint32_t i = 0;
    for (uint32_t c = tfr_tree_first(t, pattern); c; c = tfr_tree_next(t, c), i++) {
        if (display) {
            tfr_arg element = tfr_flow_arg(b->flow, value, i);
            tfr_build_assign(b, c, element.value, element.ast);
        } else if (starred) {
            bool star = tfr_tree_kind(t, c) == TFR_N_LIST_SPLAT_PATTERN;
            after |= star;
            tfr_arg arg = {value, 0};
            tfr_value item = stars == 1 && n->op == TFR_V_ATTR && n->type == TFR_T_TUPLE
                                 ? tfr_build_star_item(b, value, i, count, star, after)
                                 : tfr_build_unique(b, 0, &arg, 1, 0);
            n = tfr_flow_node(b->flow, value);
            tfr_build_assign(b, star ? tfr_tree_first(t, c) : c, item, 0);
        } else {
            tfr_build_assign(b, c, tfr_build_item(b, value, i, 0), 0);
        }
    }
}

void tfr_build_assign(tfr_builder *b, uint32_t target, tfr_value value, uint32_t value_ast) {
    const tfr_tree *t = tree_of(b);
    switch (tfr_tree_kind(t, target)) {
    case TFR_N_IDENTIFIER: {
        tfr_name name = tfr_names_add(b->flow->module->names, tfr_tree_text(t, target));
        uint32_t v = tfr_build_bind(b, name, value, target);
        if (!outer(b))
            b->flow->versions.items[v].outer_ast = value_ast;
        return;
    }
    case TFR_N_PATTERN_LIST:
    case TFR_N_TUPLE_PATTERN:
    case TFR_N_LIST_PATTERN:
    case TFR_N_TUPLE:
    case TFR_N_LIST:
    case TFR_N_EXPRESSION_LIST:
        assign_pattern(b, target, value);
        return;
    case TFR_N_PARENTHESIZED:
        tfr_build_assign(b, tfr_tree_first(t, target), value, value_ast);
        return;
    default: { // an attribute or item
        tfr_arg args[2] = {tfr_build_operand(b, target), {value, 0}};
        tfr_value store = tfr_build_unique(b, b->frame->module->words->store, args, 2, 0);
        tfr_build_event(b, TFR_EV_WRITE, target, store);
    }
    }
}

static void build_assignment(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    uint32_t right = tfr_tree_field(t, node, TFR_F_RIGHT);
    if (!right)
        return; // an annotation alone
    uint32_t targets[16], count = 0;
    uint32_t n = node;
    for (;;) { // a = b = value
        if (count == 16) {
            tfr_build_unfit(b, node,
                            "an assignment with more than 16 targets: it would have to be several");
            return;
        }
        targets[count++] = tfr_tree_field(t, n, TFR_F_LEFT);
        right = tfr_tree_field(t, n, TFR_F_RIGHT);
        if (tfr_tree_kind(t, right) != TFR_N_ASSIGNMENT)
            break;
        n = right;
    }
    tfr_arg value = tfr_build_operand(b, right);
    for (uint32_t i = 0; i < count; i++)
        tfr_build_assign(b, targets[i], value.value, value.ast);
}

static void build_augmented(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    uint32_t left = tfr_tree_field(t, node, TFR_F_LEFT);
    tfr_arg args[2] = {tfr_build_operand(b, left), {0, 0}};
    args[1] = tfr_build_operand(b, tfr_tree_field(t, node, TFR_F_RIGHT));
    tfr_name op = tfr_names_add(b->flow->module->names,
                                tfr_tree_text(t, tfr_tree_field(t, node, TFR_F_OPERATOR)));
    tfr_value value = tfr_build_node(b, TFR_V_OPAQUE, op, args, 2, 0);
    uint8_t type = tfr_flow_node(b->flow, args[0].value)->type;
    b->flow->nodes.items[value].type = type;
    if (type != TFR_T_NUMBER)
        tfr_build_event(b, TFR_EV_WRITE, node, value);
    if (tfr_tree_kind(t, left) == TFR_N_IDENTIFIER)
        tfr_build_assign(b, left, value, 0);
}

// Text that is not looked into, with the values that it reads.
static tfr_value text_value(tfr_builder *b, uint32_t first, uint32_t last, const tfr_arg *args,
                            uint32_t count) {
    const tfr_tree *t = tree_of(b);
    tfr_str text = {t->src->text.data + t->nodes[first].start,
                    t->nodes[last].end - t->nodes[first].start};
    return tfr_build_node(b, TFR_V_OPAQUE, tfr_names_add(b->flow->module->names, text), args, count,
                          0);
}

// `except ValueError:`, `case 1 if a:`, `match x:`: what stands before the block.
static tfr_value head_value(tfr_builder *b, uint32_t node, const tfr_arg *args, uint32_t count) {
    const tfr_tree *t = tree_of(b);
    uint32_t last = t->nodes[node].child;
    for (uint32_t c = last; c && tfr_tree_kind(t, c) != TFR_N_BLOCK; c = t->nodes[c].next)
        if (tfr_tree_kind(t, c) != TFR_N_COMMENT)
            last = c;
    return text_value(b, node, last, args, count);
}

static tfr_value build_operands(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    TFR_LIST(tfr_arg) list = {0};
    for (uint32_t c = tfr_tree_first(t, node); c; c = tfr_tree_next(t, c))
        *TFR_PUSH(b->arena, &list) = tfr_build_operand(b, c);
    return tfr_build_node(b, TFR_V_TUPLE, 0, list.items, list.count, 0);
}

// ---- compound statements --------------------------------------------------------------------

static tfr_suite_end build_body(tfr_builder *b, uint32_t block_node, uint32_t block) {
    uint32_t was = b->block;
    b->block = block;
    tfr_suite_end end = tfr_build_suite(b, tfr_tree_first(tree_of(b), block_node));
    b->block = was;
    return end;
}

static tfr_suite_end build_if(tfr_builder *b, uint32_t node, uint32_t clause, int depth);

static tfr_suite_end build_alternative(tfr_builder *b, uint32_t node, uint32_t clause, int depth) {
    const tfr_tree *t = tree_of(b);
    while (clause && t->nodes[clause].field != TFR_F_ALTERNATIVE)
        clause = tfr_tree_next(t, clause);
    if (!clause)
        return (tfr_suite_end){.falls = true};
    if (tfr_tree_kind(t, clause) == TFR_N_ELIF)
        return build_if(b, node, clause, depth + 1);
    return tfr_build_suite(b, tfr_tree_first(t, tfr_tree_field(t, clause, TFR_F_BODY)));
}

static tfr_value returned(tfr_builder *b, tfr_value condition, tfr_suite_end yes,
                          tfr_suite_end no) {
    if (!yes.value || !no.value)
        return yes.value ? yes.value : no.value;
    tfr_arg args[3] = {{condition, 0}, {yes.value, 0}, {no.value, 0}};
    return tfr_build_node(b, TFR_V_PHI, 0, args, 3, 0);
}

// `clause` is the if_statement itself or one of its elif_clauses. When one way returns and the
// other falls through, `value` is what that way returns: tfr_build_suite completes it.
static tfr_suite_end build_if(tfr_builder *b, uint32_t node, uint32_t clause, int depth) {
    const tfr_tree *t = tree_of(b);
    if (depth > MAX_ELIF) {
        tfr_build_unfit(
            b, clause,
            "an if statement with more than 150 elif branches: it would have to be split");
        return (tfr_suite_end){.falls = true, .partial = true};
    }
    uint32_t test = tfr_tree_field(t, clause, TFR_F_CONDITION);
    uint32_t next = clause == node ? tfr_tree_first(t, node) : tfr_tree_next(t, clause);
    tfr_value condition = tfr_build_expr(b, test);
    bool truth;
    if (!outer(b) && tfr_build_decided(b, condition, &truth))
        return truth ? build_body(b, tfr_tree_field(t, clause, TFR_F_CONSEQUENCE), b->block)
                     : build_alternative(b, node, next, depth);
    tfr_env before = env_copy(b, &b->frame->env);
    uint32_t block = tfr_build_branch(b, b->block, condition, test, TFR_WAY_TRUE);
    tfr_ways ways = {.start = b->seq, .blocks = {block, 0}};
    tfr_suite_end yes = build_body(b, tfr_tree_field(t, clause, TFR_F_CONSEQUENCE), block);
    tfr_env yes_env = b->frame->env;
    ways.middle = b->seq;
    b->frame->env = before;
    uint32_t was = b->block;
    b->block = ways.blocks[1] = tfr_build_branch(b, was, condition, test, TFR_WAY_FALSE);
    tfr_suite_end no = build_alternative(b, node, next, depth);
    b->block = was;
    if (yes.falls && no.falls)
        b->frame->env = join(b, condition, &yes_env, &b->frame->env, ways);
    else if (yes.falls)
        b->frame->env = yes_env;
    tfr_suite_end end = {.falls = yes.falls || no.falls, .exits = yes.exits || no.exits};
    end.partial = yes.partial || no.partial || (yes.falls && yes.value) || (no.falls && no.value);
    if (!end.partial)
        end.value = returned(b, condition, yes, no);
    if (!end.partial && end.falls && end.value) {
        end.condition = condition;
        end.when_true = !yes.falls;
    }
    return end;
}

static void leave_region(tfr_builder *b, uint32_t root, uint32_t first, const tfr_env *before) {
    region_names(b, root, first, true, before);
    region_close(b, first);
}

static tfr_suite_end region_end(tfr_suite_end body) {
    return (tfr_suite_end){.falls = true, .exits = body.exits, .partial = body.exits};
}

static tfr_suite_end build_loop(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    bool is_for = tfr_tree_kind(t, node) == TFR_N_FOR;
    tfr_value over = is_for ? tfr_build_expr(b, tfr_tree_field(t, node, TFR_F_RIGHT)) : 0;
    tfr_env before = env_copy(b, &b->frame->env);
    uint32_t first = b->flow->versions.count;
    region_names(b, node, first, false, &before);
    uint32_t number = over ? tfr_flow_node(b->flow, over)->number : 0;
    uint32_t block = tfr_build_block(b, b->block, number, TFR_WAY_LOOP), was = b->block;
    tfr_build_event(b, TFR_EV_OTHER, node, over);
    b->block = block;
    if (is_for) {
        tfr_arg arg = {over, 0};
        tfr_value element = tfr_build_unique(b, 0, &arg, 1, 0);
        tfr_build_assign(b, tfr_tree_field(t, node, TFR_F_LEFT), element, 0);
    } else {
        over = tfr_build_expr(b, tfr_tree_field(t, node, TFR_F_CONDITION));
    }
    tfr_suite_end body = build_body(b, tfr_tree_field(t, node, TFR_F_BODY), block);
    uint32_t alternative = tfr_tree_field(t, node, TFR_F_ALTERNATIVE);
    if (alternative) {
        tfr_suite_end other = build_body(b, tfr_tree_field(t, alternative, TFR_F_BODY),
                                         tfr_build_block(b, was, number, TFR_WAY_LOOP_ELSE));
        body.exits |= other.exits;
    }
    b->block = was;
    tfr_build_event(b, TFR_EV_OTHER, node, over);
    leave_region(b, node, first, &before);
    return region_end(body);
}

static tfr_suite_end build_with(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    tfr_env before = env_copy(b, &b->frame->env);
    uint32_t first = b->flow->versions.count, number = 0;
    for (uint32_t c = tfr_tree_first(t, tfr_tree_first(t, node)); c; c = tfr_tree_next(t, c)) {
        uint32_t item = tfr_tree_field(t, c, TFR_F_VALUE);
        if (!item)
            continue;
        uint32_t value = item, target = 0;
        if (tfr_tree_kind(t, item) == TFR_N_AS_PATTERN) {
            value = tfr_tree_first(t, item);
            target = tfr_tree_field(t, item, TFR_F_ALIAS);
        }
        tfr_arg arg = tfr_build_operand(b, value);
        uint32_t key[2] = {number, tfr_flow_node(b->flow, arg.value)->number};
        number = tfr_numbers_get(b->flow->numbers, key, 2);
        tfr_build_event(b, TFR_EV_OTHER, c, arg.value);
        if (target)
            tfr_build_assign(b, tfr_tree_first(t, target), tfr_build_unique(b, 0, &arg, 1, 0), 0);
    }
    tfr_suite_end body = build_body(b, tfr_tree_field(t, node, TFR_F_BODY),
                                    tfr_build_block(b, b->block, number, TFR_WAY_WITH));
    tfr_build_event(b, TFR_EV_OTHER, node, 0);
    leave_region(b, tfr_tree_field(t, node, TFR_F_BODY), first, &before);
    return region_end(body);
}

// try, match and everything with parts of which some run: each part starts from "some value".
static tfr_suite_end build_parts(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    tfr_env before = env_copy(b, &b->frame->env);
    uint32_t first = b->flow->versions.count, way = TFR_WAY_PART, was = b->block;
    tfr_suite_end all = {.falls = true};
    TFR_LIST(tfr_arg) head = {0};
    tfr_build_event(b, TFR_EV_OTHER, node, 0);
    for (uint32_t n = node, skip = 0; n; n = tfr_tree_walk(t, node, n, skip)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        skip = 0;
        if (n == node || kind == TFR_N_TOKEN || kind == TFR_N_COMMENT ||
            kind == TFR_N_LINE_CONTINUATION)
            continue;
        uint32_t holder = t->nodes[n].parent;
        bool statement_block = kind == TFR_N_BLOCK;
        if (statement_block && tfr_tree_kind(t, node) == TFR_N_MATCH && holder == node)
            continue; // the list of cases
        if (statement_block) {
            region_names(b, node, first, false, &before);
            tfr_suite_end part = build_body(b, n, tfr_build_block(b, was, 0, way++));
            all.exits |= part.exits;
            tfr_build_event(b, TFR_EV_OTHER, n, head_value(b, holder, head.items, head.count));
            head.count = 0;
            skip = 1;
        } else if (kind == TFR_N_IDENTIFIER) {
            // a name that a pattern binds too: it may be a class instead
            *TFR_PUSH(b->arena, &head) = tfr_build_operand(b, n);
            skip = 1;
        } else if (kind == TFR_N_CALL || kind == TFR_N_ATTRIBUTE || kind == TFR_N_NAMED) {
            *TFR_PUSH(b->arena, &head) = tfr_build_operand(b, n);
            skip = 1;
        }
    }
    leave_region(b, node, first, &before);
    all.partial = all.exits;
    return all;
}

static void build_definition(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    uint32_t def = node;
    if (tfr_tree_kind(t, node) == TFR_N_DECORATED)
        def = tfr_tree_field(t, node, TFR_F_DEFINITION);
    tfr_build_capture(b, node);
    for (uint32_t n = node; n; n = tfr_tree_walk(t, node, n, false))
        if (tfr_tree_kind(t, n) == TFR_N_NONLOCAL)
            tfr_build_unfit(
                b, n,
                "a function inside it rebinds its local names (nonlocal): it would have to "
                "return them");
    tfr_name text = tfr_names_add(b->flow->module->names, tfr_tree_text(t, node));
    tfr_value value = tfr_build_unique(b, text, NULL, 0, 0);
    tfr_build_event(b, TFR_EV_CALL, node, value); // decorators and defaults run here
    tfr_build_assign(b, tfr_tree_field(t, def, TFR_F_NAME), value, 0);
}

static void build_import(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    tfr_build_event(b, TFR_EV_OTHER, node, text_value(b, node, node, NULL, 0));
    for (uint32_t n = node; n; n = tfr_tree_walk(t, node, n, false)) {
        if (tfr_tree_kind(t, n) == TFR_N_WILDCARD_IMPORT)
            tfr_build_unfit(b, n,
                            "import * inside a function: it would have to name what it imports");
        uint32_t parent = t->nodes[n].parent;
        if (tfr_tree_kind(t, n) != TFR_N_IDENTIFIER || t->nodes[parent].child != n)
            continue;
        if (parent == tfr_tree_field(t, node, TFR_F_MODULE_NAME))
            continue;
        tfr_build_assign(b, n, tfr_build_unique(b, 0, NULL, 0, 0), 0);
    }
    for (uint32_t c = tfr_tree_first(t, node); c; c = tfr_tree_next(t, c))
        if (tfr_tree_kind(t, c) == TFR_N_ALIASED_IMPORT)
            tfr_build_assign(b, tfr_tree_field(t, c, TFR_F_ALIAS),
                             tfr_build_unique(b, 0, NULL, 0, 0), 0);
}

static void build_delete(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    for (uint32_t n = tfr_tree_first(t, node); n; n = tfr_tree_walk(t, node, n, false)) {
        tfr_kind kind = tfr_tree_kind(t, n);
        if (kind != TFR_N_IDENTIFIER) {
            if (kind == TFR_N_ATTRIBUTE || kind == TFR_N_SUBSCRIPT)
                tfr_build_event(b, TFR_EV_WRITE, n, tfr_build_expr(b, n));
            continue;
        }
        if (t->nodes[n].parent != node &&
            tfr_tree_kind(t, t->nodes[n].parent) != TFR_N_EXPRESSION_LIST)
            continue;
        tfr_value old = tfr_build_expr(b, n); // the name must stay bound until here
        tfr_build_event(b, TFR_EV_OTHER, n, old);
        tfr_build_assign(b, n, tfr_build_unique(b, 0, NULL, 0, 0), 0);
    }
}

static tfr_suite_end build_return(tfr_builder *b, uint32_t node) {
    uint32_t expr = tfr_tree_first(tree_of(b), node);
    tfr_value value = expr ? tfr_build_expr(b, expr)
                           : tfr_build_const(b, b->frame->module->words->none, TFR_T_OTHER, 0);
    if (outer(b))
        tfr_build_event(b, TFR_EV_RETURN, node, value);
    return (tfr_suite_end){.exits = true, .value = value};
}

// `seen.add(x)`, `order.sort()`: a method of what may be no tensor, called for its effect.
static void build_discarded(tfr_builder *b, uint32_t expr) {
    uint32_t events = b->flow->events.count;
    tfr_value value = tfr_build_expr(b, expr);
    bool call = tfr_tree_kind(tree_of(b), tfr_tree_unparen(tree_of(b), expr)) == TFR_N_CALL;
    if (call && b->flow->events.count == events && tfr_flow_node(b->flow, value)->op == TFR_V_ATEN)
        tfr_build_event(b, TFR_EV_WRITE, expr, value);
}

static tfr_suite_end build_simple(tfr_builder *b, uint32_t node, tfr_kind kind) {
    const tfr_tree *t = tree_of(b);
    tfr_suite_end end = {.falls = true};
    switch (kind) {
    case TFR_N_EXPR_STATEMENT:
        for (uint32_t c = tfr_tree_first(t, node); c; c = tfr_tree_next(t, c)) {
            if (tfr_tree_kind(t, c) == TFR_N_ASSIGNMENT)
                build_assignment(b, c);
            else if (tfr_tree_kind(t, c) == TFR_N_AUGMENTED)
                build_augmented(b, c);
            else
                build_discarded(b, c);
        }
        return end;
    case TFR_N_RETURN:
        return build_return(b, node);
    case TFR_N_RAISE:
        tfr_build_event(b, TFR_EV_RAISE, node, build_operands(b, node));
        return (tfr_suite_end){.exits = true};
    case TFR_N_ASSERT:
        tfr_build_event(b, TFR_EV_OTHER, node, build_operands(b, node));
        return (tfr_suite_end){.falls = true};
    case TFR_N_BREAK:
    case TFR_N_CONTINUE:
        tfr_build_event(b, TFR_EV_OTHER, node, 0);
        return (tfr_suite_end){.exits = true};
    case TFR_N_DELETE:
        build_delete(b, node);
        return end;
    case TFR_N_GLOBAL:
    case TFR_N_NONLOCAL:
        tfr_build_unfit(
            b, node,
            "the function declares names global or nonlocal: it would have to bind local names "
            "alone");
        return end;
    case TFR_N_IMPORT:
    case TFR_N_IMPORT_FROM:
        build_import(b, node);
        return end;
    case TFR_N_PASS:
    case TFR_N_COMMENT:
        return end;
    default:
        tfr_build_unfit(b, node,
                        "a statement that is not supported: it would have to stand outside of the "
                        "function"); // type X = ...
        return end;
    }
}

static tfr_suite_end build_statement(tfr_builder *b, uint32_t node) {
    tfr_kind kind = tfr_tree_kind(tree_of(b), node);
    switch (kind) {
    case TFR_N_IF:
        return build_if(b, node, node, 0);
    case TFR_N_FOR:
    case TFR_N_WHILE:
        return build_loop(b, node);
    case TFR_N_WITH:
        return build_with(b, node);
    case TFR_N_TRY:
    case TFR_N_MATCH:
        return build_parts(b, node);
    case TFR_N_FUNCTION:
    case TFR_N_CLASS:
    case TFR_N_DECORATED:
        build_definition(b, node);
        return (tfr_suite_end){.falls = true};
    default:
        return build_simple(b, node, kind);
    }
}

static tfr_suite_end build_recorded(tfr_builder *b, uint32_t node) {
    if (!outer(b))
        return build_statement(b, node);
    tfr_flow *f = b->flow;
    uint32_t parent = b->statement;
    *TFR_PUSH(b->arena, &f->statements) = (tfr_statement){.ast = node,
                                                          .block = b->block,
                                                          .parent = parent,
                                                          .first_seq = b->seq,
                                                          .first_event = f->events.count};
    uint32_t me = b->statement = f->statements.count - 1;
    bool walrus = b->walrus;
    b->walrus = false;
    tfr_suite_end end = build_statement(b, node);
    f->statements.items[me].end_seq = b->seq;
    f->statements.items[me].end_event = f->events.count;
    f->statements.items[me].impure = b->walrus;
    b->walrus |= walrus;
    b->statement = parent;
    return end;
}

tfr_suite_end tfr_build_suite(tfr_builder *b, uint32_t node) {
    const tfr_tree *t = tree_of(b);
    tfr_suite_end all = {.falls = true};
    tfr_suite_end pending[MAX_EARLY_RETURNS]; // returned, waiting for what the rest returns
    uint32_t pending_count = 0, was = b->block;
    for (; node && b->flow->nodes.count < TFR_MAX_NODES; node = tfr_tree_next(t, node)) {
        tfr_suite_end end = build_recorded(b, node);
        all.exits |= end.exits;
        all.partial |= end.partial;
        if (!end.falls) {
            all.falls = false;
            all.value = end.value;
            if (tfr_tree_next(t, node)) // or the parser took `return \\ y` apart
                tfr_build_unfit(b, tfr_tree_next(t, node),
                                "statements that never run follow: they would have to be removed");
            break;
        }
        if (end.value && !end.partial && pending_count < MAX_EARLY_RETURNS)
            pending[pending_count++] = end;
        else if (end.value)
            all.partial = true;
        // After a conditional exit the rest runs only under a condition.
        if (end.exits || tfr_tree_kind(t, node) == TFR_N_ASSERT)
            b->block = tfr_build_block(b, b->block, b->flow->events.count, TFR_WAY_AFTER_EXIT);
    }
    if (all.falls && pending_count)
        all.partial = true;
    for (uint32_t i = pending_count; i-- > 0 && all.value && !all.partial;) {
        tfr_value yes = pending[i].when_true ? pending[i].value : all.value;
        tfr_value no = pending[i].when_true ? all.value : pending[i].value;
        tfr_arg args[3] = {{pending[i].condition, 0}, {yes, 0}, {no, 0}};
        all.value = tfr_build_node(b, TFR_V_PHI, 0, args, 3, 0);
    }
    if (all.partial)
        all.value = 0;
    b->block = was;
    return all;
}
