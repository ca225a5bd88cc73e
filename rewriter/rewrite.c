// One file from source to source: every function is lowered and matched, the edits are applied
// together, and the result is checked before anybody sees it.
#include "rewriter/rewrite_file.h"

#include <stdlib.h>
#include <string.h>

#include "rewriter/check.h"
#include "rewriter/rules.h"
#include "rewriter/sink.h"

// ---- report ---------------------------------------------------------------------------------

static tfr_str class_name(const rewriter *r, const tfr_flow *flow) {
    if (flow->class_index == TFR_NO_CLASS)
        return (tfr_str){"", 0};
    return tfr_names_text(&r->names, r->scope.classes.items[flow->class_index].name);
}

static tfr_str function_name(const rewriter *r, const tfr_flow *flow) {
    return tfr_names_text(&r->names, r->scope.functions.items[flow->function].name);
}

static void line_range(const rewriter *r, const tfr_flow *flow, const tfr_match *m,
                       const tfr_place *p, uint32_t *line, uint32_t *end_line) {
    uint32_t start = UINT32_MAX, end = 0, column;
    for (uint32_t i = 0; i < m->member_count + p->home_count; i++) {
        uint32_t ast = i < m->member_count ? tfr_flow_node(flow, m->members[i])->ast
                                           : p->home[i - m->member_count];
        if (!ast)
            continue;
        if (r->tree.nodes[ast].start < start)
            start = r->tree.nodes[ast].start;
        if (r->tree.nodes[ast].end > end)
            end = r->tree.nodes[ast].end;
    }
    if (start == UINT32_MAX)
        start = end = r->tree.nodes[r->scope.functions.items[flow->function].node].start;
    tfr_source_position(r->src, start, line, &column);
    tfr_source_position(r->src, end, end_line, &column);
}

// `made`: a value of the block; 0: none.
static void add_refused(rewriter *r, const tfr_flow *flow, const tfr_rule *rule, uint32_t ast,
                        uint32_t block_ast, tfr_str reason, tfr_value made) {
    if (!ast && made)
        ast = tfr_emit_call(flow, made);
    if (!ast)
        ast = r->scope.functions.items[flow->function].node;
    tfr_refused item = {.op = tfr_names_text(&r->names, rule->op),
                        .rule = rule->label,
                        .class_name = class_name(r, flow),
                        .function = function_name(r, flow),
                        .helper = made ? tfr_emit_helper(flow, made) : UINT32_MAX,
                        .reason = reason,
                        .found = tfr_tree_quote(&r->tree, ast, r->arena)};
    uint32_t column;
    tfr_source_position(r->src, r->tree.nodes[ast].start, &item.line, &item.column);
    if (!block_ast)
        block_ast = ast;
    tfr_source_position(r->src, r->tree.nodes[block_ast].start, &item.block_line, &column);
    tfr_source_position(r->src, r->tree.nodes[block_ast].end, &item.block_end_line, &column);
    uint32_t key[2] = {rule->op, block_ast}, known = r->blocks.count; // a block once per op
    if (tfr_numbers_get(&r->blocks, key, 2) <= known)
        return;
    *TFR_PUSH(r->arena, &r->report->refused) = item;
}

static void add_fused(rewriter *r, const tfr_flow *flow, const tfr_match *m, const tfr_place *p) {
    tfr_fused item = {.op = tfr_names_text(&r->names, m->rule->op),
                      .class_name = class_name(r, flow),
                      .function = function_name(r, flow),
                      .count = 1};
    line_range(r, flow, m, p, &item.line, &item.end_line);
    *TFR_PUSH(r->arena, &r->report->fused) = item;
}

static void report_near(rewriter *r, const tfr_flow *flow, const tfr_near *near) {
    uint32_t ast = tfr_flow_node(flow, near->at)->ast;
    uint32_t block = tfr_flow_node(flow, near->root)->ast;
    block = block ? block : tfr_emit_call(flow, near->root);
    add_refused(r, flow, near->rule, ast ? ast : block, block,
                tfr_match_near_reason(near, flow, r->arena), near->root);
}

// ---- choosing -------------------------------------------------------------------------------

static bool rule_wanted(const rewriter *r, const tfr_rule *rule) {
    const tfr_options *o = r->options;
    tfr_str op = tfr_names_text(&r->names, rule->op);
    if (rule->host_only && o->target != TFR_TARGET_HOST)
        return false;
    for (size_t i = 0; i < o->skip_count; i++)
        if (tfr_str_eq(o->skip[i], op))
            return false;
    if (!o->only)
        return true;
    for (size_t i = 0; i < o->only_count; i++)
        if (tfr_str_eq(o->only[i], op))
            return true;
    return false;
}

static bool is_off(const rewriter *r, uint32_t ast) {
    const tfr_node *n = &r->tree.nodes[ast];
    for (uint32_t i = 0; i < r->off.count; i++)
        if (n->start < r->off.items[i].end && r->off.items[i].start < n->end)
            return true;
    return false;
}

typedef struct chooser {
    rewriter *r;
    tfr_flow *flow;
    bool *used; // nodes that a chosen match takes in
    struct {
        tfr_match *items;
        uint32_t count, cap;
    } matches;
    struct {
        tfr_place *items;
        uint32_t count, cap;
    } places;
    TFR_LIST(struct no_place {
        tfr_match match;
        tfr_place place;
    })
    no_place; // matches that cannot stand: said unless the op takes their values otherwise
} chooser;

static bool overlaps(const chooser *c, const tfr_match *m) {
    for (uint32_t i = 0; i < m->member_count; i++) {
        tfr_op op = (tfr_op)tfr_flow_node(c->flow, m->members[i])->op;
        if (op != TFR_V_ATTR && op != TFR_V_SLICE && c->used[m->members[i]])
            return true;
    }
    return false;
}

// The same code by the op's reference that gives the first result alone, where it has one. Whether
// the others are read is seen when the edits are planned: then the wide match comes back.
static void narrow(chooser *c, tfr_match *m, tfr_place *place) {
    const tfr_rules *rules = c->r->options->rules;
    for (uint32_t i = 0; i < rules->rules.count && m->root_count > 1; i++) {
        tfr_match one;
        tfr_place at;
        if (!tfr_match_narrow(&one, rules->rules.items[i], c->flow, m, c->r->arena))
            continue;
        tfr_emit_place(&at, c->flow, &one);
        if (!at.reason)
            *m = one, *place = at;
    }
}

static bool edits_off(const rewriter *r, const tfr_edits *edits) {
    for (uint32_t i = 0; i < edits->count; i++)
        for (uint32_t k = 0; k < r->off.count; k++)
            if (edits->items[i].start < r->off.items[k].end &&
                r->off.items[k].start <= edits->items[i].end)
                return true;
    return false;
}

static void note_sums(rewriter *r, tfr_flow *flow, const tfr_match *m) {
    for (uint32_t i = 0; i < m->member_count; i++) {
        uint32_t block = tfr_flow_node(flow, m->members[i])->block;
        bool outside = block != tfr_flow_node(flow, m->roots[0])->block;
        bool known = !outside && !tfr_sink_is_joined(flow, m->members[i]);
        for (uint32_t k = 0; k < r->sums.count; k++)
            known |= r->sums.items[k].function == flow->function &&
                     r->sums.items[k].value == m->members[i];
        struct sum s = {flow->function, m->members[i], {0}};
        if (!known && tfr_sink_sum(&s.edits, flow, s.value, r->arena) && !edits_off(r, &s.edits))
            *TFR_PUSH(r->arena, &r->sums) = s;
    }
}

// True when the match was taken.
static bool consider(chooser *c, const tfr_match *m) {
    tfr_place place;
    if (overlaps(c, m))
        return false;
    tfr_emit_place(&place, c->flow, m);
    if (place.reason && !*place.reason)
        return false;
    for (uint32_t i = 0; i < place.home_count; i++)
        if (is_off(c->r, place.home[i]))
            return false;
    if (place.reason) {
        note_sums(c->r, c->flow, m);
        *TFR_PUSH(c->r->arena, &c->no_place) = (struct no_place){*m, place};
        return false;
    }
    for (uint32_t i = 0; i < m->member_count; i++)
        c->used[m->members[i]] = true;
    tfr_match chosen = *m;
    narrow(c, &chosen, &place);
    *TFR_PUSH(c->r->arena, &c->matches) = chosen;
    *TFR_PUSH(c->r->arena, &c->places) = place;
    return true;
}

static bool near_enough(const tfr_near *near) {
    uint32_t least = near->complete ? 3 : 5;
    return near->sure || (near->rule && near->rule->size >= least && near->matched >= least &&
                          near->matched * 8 >= near->rule->size);
}

static void choose_graph_rule(chooser *c, const tfr_rule *rule, tfr_near *near) {
    const tfr_vnode *p = tfr_flow_node(rule->flow, rule->roots[0]);
    for (uint32_t i = 1; i < c->flow->nodes.count; i++) {
        const tfr_vnode *u = &c->flow->nodes.items[i];
        bool call = p->op == TFR_V_MODULE && (u->op == TFR_V_ATEN || u->op == TFR_V_OPAQUE);
        if (c->used[i] || (!call && (u->op != p->op || u->name != p->name)))
            continue;
        tfr_match match;
        if (!tfr_match_try(&match, rule, c->flow, i, c->r->arena,
                           rule->refusal.len ? NULL : near)) {
            if (!near->sure)
                tfr_match_lookalike(near, rule, c->flow, i, c->used);
            continue;
        }
        if (rule->refusal.len && c->used[i])
            continue; // what it would be refused as is part of something larger
        if (rule->refusal.len)
            add_refused(c->r, c->flow, rule, u->ast, u->ast, rule->refusal, i);
        else
            consider(c, &match);
    }
}

static void choose_siblings(chooser *c, const tfr_rule *rule) {
    tfr_siblings s;
    tfr_match m;
    tfr_siblings_find(&s, c->flow, rule, c->used, c->r->arena);
    while (tfr_siblings_next(&s, &m))
        if (!consider(c, &m) && tfr_siblings_narrow(&s, &m))
            consider(c, &m);
    for (uint32_t i = 0; i < s.apart.count; i++)
        if (!c->used[s.apart.items[i].call]) // else it joined others
            add_refused(c->r, c->flow, rule, s.apart.items[i].ast,
                        tfr_flow_node(c->flow, s.apart.items[i].call)->ast,
                        tfr_str_from(s.apart.items[i].reason), 0);
}

// ---- one function ---------------------------------------------------------------------------

static bool plan_function(rewriter *r, struct changed *f, tfr_misfit *misfit) {
    f->edits.count = 0;
    return tfr_emit_function(&f->edits, f->flow, f->matches, f->places, f->count, r->alias,
                             r->arena, misfit);
}

static void drop_match(rewriter *r, struct changed *f, const tfr_misfit *misfit) {
    uint32_t bad = misfit->match;
    if (f->matches[bad].wide) {
        f->matches[bad] = *f->matches[bad].wide;
        tfr_emit_place(&f->places[bad], f->flow, &f->matches[bad]);
        return;
    }
    uint32_t home = f->places[bad].home[0];
    add_refused(r, f->flow, f->matches[bad].rule, misfit->ast ? misfit->ast : home, home,
                tfr_str_from(misfit->reason), 0);
    for (uint32_t i = bad; i + 1 < f->count; i++) {
        f->matches[i] = f->matches[i + 1];
        f->places[i] = f->places[i + 1];
    }
    f->count--;
}

// Whether a chosen match of the same op makes one of the values.
static bool taken_by_op(const chooser *c, const tfr_match *m) {
    for (uint32_t i = 0; i < c->matches.count; i++)
        for (uint32_t k = 0; k < m->member_count; k++)
            if (c->matches.items[i].rule->op == m->rule->op &&
                c->matches.items[i].roots[0] == m->members[k])
                return true;
    return false;
}

// Whether another op's match took the place of a near miss, and is as large.
static bool takes_in(const tfr_match *m, const tfr_near *near) {
    bool member = false;
    for (uint32_t i = 0; i < m->member_count; i++)
        member |= m->members[i] == near->root;
    return member && m->member_count >= near->matched;
}

// Whether another op came further in the same block: one reason is enough.
static bool is_behind(const tfr_near *near, uint32_t count, uint32_t op) {
    for (uint32_t i = 0; i < count; i++)
        if (near_enough(&near[i]) && near[i].root == near[op].root &&
            (near[i].matched > near[op].matched || (near[i].matched == near[op].matched && i < op)))
            return true;
    return false;
}

// Every rule in order of priority; then, per op of which nothing was found, the nearest miss.
static void choose(chooser *c, uint64_t features) {
    const tfr_rules *rules = c->r->options->rules;
    tfr_near *near = TFR_NEW_ARRAY(c->r->arena, tfr_near, rules->ops.count);
    for (uint32_t i = 0; i < rules->rules.count; i++) {
        const tfr_rule *rule = rules->rules.items[i];
        if (!rule_wanted(c->r, rule))
            continue;
        uint32_t op = 0;
        while (rules->ops.items[op].name != rule->op)
            op++;
        if (rule->siblings)
            choose_siblings(c, rule);
        else if (__builtin_popcountll(rule->features & ~features) <= 1) // one off: worth a reason
            choose_graph_rule(c, rule, &near[op]);
        if (near[op].rule == rule)
            near[op].complete = (rule->features & ~features) == 0;
    }
    for (uint32_t i = 0; i < c->no_place.count; i++) {
        const struct no_place *n = &c->no_place.items[i];
        if (n->match.rule->siblings || !taken_by_op(c, &n->match))
            add_refused(c->r, c->flow, n->match.rule, n->place.reason_ast, n->place.home[0],
                        tfr_str_from(n->place.reason), n->match.roots[0]);
    }
    for (uint32_t op = 0; op < rules->ops.count; op++) {
        if (!near_enough(&near[op]) || is_behind(near, rules->ops.count, op))
            continue;
        bool found = false;
        for (uint32_t i = 0; i < c->matches.count; i++)
            found |= c->matches.items[i].rule->op == rules->ops.items[op].name ||
                     takes_in(&c->matches.items[i], &near[op]);
        if (!found)
            report_near(c->r, c->flow, &near[op]);
    }
}

static uint32_t guarded_methods(const rewriter *r, tfr_str name) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->changed_count; i++)
        for (uint32_t m = 0; m < r->changed[i].count; m++) {
            uint32_t via = r->changed[i].places[m].via_method;
            count += via && tfr_str_eq(tfr_tree_text(&r->tree, via), name);
        }
    return count;
}

// Whether fused calls name the function as `via=`, of this run or of one before, and no other call
// of it is left: what it computes then needs no call of its own inside. Methods of one name are
// told apart by nothing in the text, and count as one.
static bool fused_everywhere(const rewriter *r, uint32_t function) {
    const tfr_tree *t = &r->tree;
    tfr_str name = tfr_names_text(&r->names, r->scope.functions.items[function].name);
    uint32_t calls = 0, guarded = r->guarded[function];
    bool before = false;
    if (r->scope.functions.items[function].class_index != TFR_NO_CLASS) {
        name = tfr_str_format(r->arena, "self.%.*s", (int)name.len, name.data);
        guarded = guarded_methods(r, name);
    }
    if (!guarded && !r->has_import)
        return false;
    for (uint32_t n = 1; n < t->count; n++) {
        if (t->nodes[n].kind == TFR_N_CALL) {
            calls += tfr_str_eq(tfr_tree_text(t, tfr_tree_field(t, n, TFR_F_FUNCTION)), name);
        } else if (t->nodes[n].kind == TFR_N_KEYWORD_ARGUMENT &&
                   tfr_tree_is(t, tfr_tree_field(t, n, TFR_F_NAME), "via")) {
            uint32_t value = tfr_tree_field(t, n, TFR_F_VALUE);
            bool tuple = tfr_tree_kind(t, value) == TFR_N_TUPLE;
            value = tuple ? tfr_tree_first(t, value) : value;
            before |= tfr_str_eq(tfr_tree_text(t, value), name);
        }
    }
    return (guarded || before) && calls <= guarded;
}

static void rewrite_function(rewriter *r, uint32_t function) {
    const tfr_function *f = &r->scope.functions.items[function];
    bool left = r->untouched[function] || f->name == r->module.words->init;
    if (left || (f->class_index == TFR_NO_CLASS && fused_everywhere(r, function)))
        return;
    chooser c = {.r = r, .flow = tfr_module_flow(&r->module, function)};
    c.used = TFR_NEW_ARRAY(r->arena, bool, c.flow->nodes.count);
    uint64_t features = tfr_match_features(c.flow);
    choose(&c, features);
    if (!c.matches.count)
        return;
    struct changed changed = {.function = function,
                              .flow = c.flow,
                              .matches = c.matches.items,
                              .places = c.places.items,
                              .count = c.matches.count};
    tfr_misfit misfit;
    while (changed.count && !plan_function(r, &changed, &misfit))
        drop_match(r, &changed, &misfit);
    if (!changed.count)
        return;
    for (uint32_t i = 0; i < changed.count; i++)
        if (changed.places[i].via != UINT32_MAX && changed.places[i].via_module == &r->module)
            r->guarded[changed.places[i].via]++;
    if (r->changed_count == r->changed_cap) {
        uint32_t cap = r->changed_cap ? r->changed_cap * 2 : 16;
        r->changed = tfr_arena_grow(r->arena, r->changed, r->changed_cap * sizeof *r->changed,
                                    cap * sizeof *r->changed);
        r->changed_cap = cap;
    }
    r->changed[r->changed_count++] = changed;
}

// A method that fused calls name as `via=` may have been rewritten before they were.
static void drop_needless(rewriter *r) {
    uint32_t kept = 0, count = r->changed_count;
    bool *needless = TFR_NEW_ARRAY(r->arena, bool, count);
    for (uint32_t i = 0; i < count; i++)
        needless[i] =
            r->scope.functions.items[r->changed[i].function].class_index != TFR_NO_CLASS &&
            fused_everywhere(r, r->changed[i].function);
    for (uint32_t i = 0; i < count; i++)
        if (!needless[i])
            r->changed[kept++] = r->changed[i];
    r->changed_count = kept;
}

// ---- the file -------------------------------------------------------------------------------

static int by_start(const void *a, const void *b) {
    const tfr_edit *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static tfr_str apply(rewriter *r, tfr_edits *all) {
    tfr_str bytes = r->src->bytes;
    tfr_buf out = {.arena = r->arena};
    uint32_t at = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const tfr_edit *e = &all->items[i];
        if (e->start < at)
            return (tfr_str){NULL, 0}; // overlapping: a fault of the planner
        tfr_buf_add(&out, bytes.data + at, e->start - at);
        tfr_buf_add_str(&out, e->text);
        at = e->end;
    }
    tfr_buf_add(&out, bytes.data + at, bytes.len - at);
    return tfr_buf_str(&out);
}

// The edits of the changed functions first .. end - 1, in order.
static void gather(rewriter *r, tfr_edits *all, uint32_t first, uint32_t end) {
    all->count = 0;
    for (uint32_t i = first; i < end; i++)
        for (uint32_t k = 0; k < r->changed[i].edits.count; k++)
            *TFR_PUSH(r->arena, all) = r->changed[i].edits.items[k];
    if (all->count && !r->has_import)
        *TFR_PUSH(r->arena, all) = tfr_remarks_import(r);
    // Several edits at one place keep the order in which they were made.
    for (uint32_t i = 1; i < all->count; i++)
        for (uint32_t k = i; k > 0 && by_start(&all->items[k - 1], &all->items[k]) > 0; k--) {
            tfr_edit e = all->items[k];
            all->items[k] = all->items[k - 1];
            all->items[k - 1] = e;
        }
}

static void module_init(rewriter *r, tfr_module *m, const tfr_scope *scope) {
    tfr_rules_module(m, r->options->rules, scope, &r->names, r->arena);
    tfr_imports_attach(r->imports, m);
}

static tfr_status parse_again(rewriter *r, tfr_tree *out, const tfr_source *source,
                              const tfr_edits *all) {
    tfr_change *changes = TFR_NEW_ARRAY(r->arena, tfr_change, all->count);
    int64_t shift = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const tfr_edit *e = &all->items[i];
        uint32_t start = (uint32_t)(e->start + shift);
        changes[i] = (tfr_change){start, (uint32_t)(e->end + shift), start + (uint32_t)e->text.len};
        shift += (int64_t)e->text.len - (int64_t)(e->end - e->start);
    }
    return tfr_tree_parse_again(out, source, &r->tree, changes, all->count, r->arena, NULL);
}

// The tree of an edited text; false: it does not parse, or tokens around the edits changed.
static bool parse_edited(rewriter *r, tfr_tree *tree, tfr_str text, const tfr_edits *all) {
    tfr_source *source = TFR_NEW(r->arena, tfr_source);
    if (!text.data || tfr_source_from_bytes(source, r->src->path, text, r->arena, NULL) != TFR_OK ||
        parse_again(r, tree, source, all) != TFR_OK)
        return false;
    tfr_tree_free(tree); // the flat nodes stay
    return tfr_check_tokens(&r->tree, tree, all);
}

// The edited file. Calls see through what its functions were: each is proved by itself, and how a
// helper's new text reads with a caller's arguments says nothing about the caller.
static tfr_module *edited_module(rewriter *r, const tfr_tree *tree) {
    tfr_scope *scope = TFR_NEW(r->arena, tfr_scope);
    tfr_module *module = TFR_NEW(r->arena, tfr_module);
    tfr_scope_build(scope, tree, &r->names, r->arena);
    module_init(r, module, scope);
    if (scope->functions.count != r->scope.functions.count ||
        scope->classes.count != r->scope.classes.count)
        return NULL;
    module->before = &r->module;
    return module;
}

// Of the changed functions first .. end - 1 one whose new graph differs; `end`: none does.
static uint32_t first_wrong(rewriter *r, const tfr_tree *tree, uint32_t first, uint32_t end,
                            tfr_difference *found) {
    tfr_module *module = edited_module(r, tree);
    *found = (tfr_difference){.what = "the file has other functions"};
    if (!module)
        return end - 1;
    for (; first < end; first++) {
        const struct changed *f = &r->changed[first];
        if (!tfr_check_flows(f->flow, tfr_flow_build(module, f->function, f->flow->numbers), found))
            break;
    }
    return first;
}

// A changed function whose edits alone tear the text: by halves, so that others stay.
static uint32_t find_torn(rewriter *r) {
    uint32_t first = 0, end = r->changed_count;
    while (end - first > 1) {
        uint32_t middle = first + (end - first) / 2;
        tfr_edits half = {0};
        tfr_tree *tree = TFR_NEW(r->arena, tfr_tree);
        gather(r, &half, first, middle);
        if (parse_edited(r, tree, apply(r, &half), &half))
            first = middle;
        else
            end = middle;
    }
    return first;
}

static const char *const torn = "the edited text does not keep the tokens around it";

static const char *unproved(rewriter *r, const char *what) {
    return tfr_str_format(r->arena,
                          "the rewritten text could not be proved equal, so it was taken back "
                          "(%s): it would have to be written more plainly",
                          what)
        .data;
}

// Whether a function can be written and proved with the matches that it has; else one must go.
static bool is_accepted(rewriter *r, uint32_t index, tfr_misfit *misfit) {
    if (!plan_function(r, &r->changed[index], misfit))
        return false;
    tfr_difference found = {.what = torn};
    tfr_edits edits = {0};
    tfr_tree *tree = TFR_NEW(r->arena, tfr_tree);
    gather(r, &edits, index, index + 1);
    if (parse_edited(r, tree, apply(r, &edits), &edits) &&
        first_wrong(r, tree, index, index + 1, &found) > index)
        return true;
    *misfit = (tfr_misfit){r->changed[index].count - 1, 0, unproved(r, found.what)};
    return false;
}

// Takes back the matches of a function that the check does not accept, found by trying half as many
// at once, and each with those before it: a difference does not say which of them it comes from.
static void take_back(rewriter *r, uint32_t index) {
    struct changed *f = &r->changed[index], all = *f;
    bool fine = true; // by itself: it tears the text of others
    f->matches = TFR_NEW_ARRAY(r->arena, tfr_match, all.count);
    f->places = TFR_NEW_ARRAY(r->arena, tfr_place, all.count);
    f->count = 0;
    for (uint32_t i = 0, more = all.count; i < all.count;) {
        tfr_misfit misfit;
        more = more < all.count - i ? more : all.count - i;
        memcpy(f->matches + f->count, all.matches + i, more * sizeof *f->matches);
        memcpy(f->places + f->count, all.places + i, more * sizeof *f->places);
        f->count += more;
        bool accepted = is_accepted(r, index, &misfit);
        if (!accepted && more > 1) {
            f->count -= more;
            more /= 2;
            continue;
        }
        for (; f->count && !accepted; accepted = is_accepted(r, index, &misfit), fine = false)
            drop_match(r, f, &misfit);
        i += more;
        more *= 2;
    }
    for (tfr_misfit misfit = {0, 0, unproved(r, torn)}; fine && f->count;)
        drop_match(r, f, &misfit);
    if (!f->count)
        r->changed[index] = r->changed[--r->changed_count];
}

static int by_line(const void *a, const void *b) {
    const tfr_fused *x = a, *y = b;
    return x->line < y->line ? -1 : x->line > y->line;
}

static int refused_by_line(const void *a, const void *b) {
    const tfr_refused *x = a, *y = b;
    return x->line < y->line ? -1 : x->line > y->line;
}

// What a function of the file makes is not refused where it is called, if it has that op inside.
static bool is_inside(const rewriter *r, const tfr_refused *refused) {
    for (uint32_t i = 0; i < r->changed_count; i++)
        for (uint32_t m = 0; m < r->changed[i].count; m++)
            if (r->changed[i].function == refused->helper &&
                tfr_str_eq(tfr_names_text(&r->names, r->changed[i].matches[m].rule->op),
                           refused->op))
                return true;
    return false;
}

static void finish_report(rewriter *r) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->report->refused.count; i++)
        if (!is_inside(r, &r->report->refused.items[i]))
            r->report->refused.items[kept++] = r->report->refused.items[i];
    r->report->refused.count = kept;
    for (uint32_t i = 0; i < r->changed_count; i++)
        for (uint32_t m = 0; m < r->changed[i].count; m++)
            add_fused(r, r->changed[i].flow, &r->changed[i].matches[m], &r->changed[i].places[m]);
    if (r->report->fused.count)
        qsort(r->report->fused.items, r->report->fused.count, sizeof *r->report->fused.items,
              by_line);
    if (r->report->refused.count)
        qsort(r->report->refused.items, r->report->refused.count, sizeof *r->report->refused.items,
              refused_by_line);
    r->report->changed = r->changed_count > 0;
    tfr_remarks_wildcard(r);
}

static tfr_str prove(rewriter *r) {
    tfr_edits all = {0};
    while (r->changed_count) {
        tfr_difference found;
        gather(r, &all, 0, r->changed_count);
        tfr_str text = apply(r, &all);
        tfr_tree *tree = TFR_NEW(r->arena, tfr_tree);
        bool whole = parse_edited(r, tree, text, &all);
        uint32_t wrong = whole ? first_wrong(r, tree, 0, r->changed_count, &found) : find_torn(r);
        if (wrong == r->changed_count)
            return text;
        take_back(r, wrong);
    }
    return r->src->bytes;
}

// Parses a file and chooses what to fuse in it.
static tfr_status rewriter_new(rewriter **out, const tfr_source *src, const tfr_options *options,
                               tfr_report *report, tfr_arena *arena, tfr_error *err) {
    rewriter *r = *out = TFR_NEW(arena, rewriter);
    r->src = src, r->options = options, r->arena = arena, r->report = report;
    tfr_status status = tfr_tree_parse(&r->tree, src, arena, err);
    if (status != TFR_OK)
        return status;
    tfr_names_init(&r->names, &options->rules->names, arena);
    tfr_scope_build(&r->scope, &r->tree, &r->names, arena);
    r->imports = tfr_imports_new(options->project, src->path, r->report, arena);
    module_init(r, &r->module, &r->scope);
    r->untouched = TFR_NEW_ARRAY(arena, bool, r->scope.functions.count + 1);
    r->guarded = TFR_NEW_ARRAY(arena, uint32_t, r->scope.functions.count + 1);
    tfr_numbers_init(&r->blocks, arena);
    tfr_remarks_off(r);
    tfr_remarks_alias(r);
    tfr_remarks_scripted(r);
    for (int pass = 0; pass < 2; pass++) { // methods first: a helper may be needed no more
        for (uint32_t f = 0; f < r->scope.functions.count; f++)
            if ((r->scope.functions.items[f].class_index == TFR_NO_CLASS) == (pass == 1))
                rewrite_function(r, f);
        if (pass == 0)
            drop_needless(r);
    }
    return TFR_OK;
}

// ---- moved sums -----------------------------------------------------------------------------

static void gather_sums(rewriter *r, tfr_edits *all) {
    for (uint32_t i = 0; i < r->sums.count; i++)
        for (uint32_t k = 0; k < r->sums.items[i].edits.count; k++)
            *TFR_PUSH(r->arena, all) = r->sums.items[i].edits.items[k];
    if (all->count)
        qsort(all->items, all->count, sizeof *all->items, by_start);
}

// Whether the functions with moved sums compute what they did; those that do not move none.
static bool moves_well(rewriter *r, const tfr_tree *tree) {
    tfr_module *module = edited_module(r, tree);
    uint32_t kept = 0, count = r->sums.count;
    for (uint32_t i = 0; module && i < count; i++) {
        struct sum s = r->sums.items[i];
        tfr_flow *flow = tfr_module_flow(&r->module, s.function);
        tfr_difference d;
        if (tfr_check_flows(flow, tfr_flow_build(module, s.function, flow->numbers), &d))
            r->sums.items[kept++] = s;
    }
    r->sums.count = kept;
    return kept == count;
}

// Whether a fused call takes in what lies at [start, end).
static bool is_fused(const rewriter *r, uint32_t start, uint32_t end) {
    for (uint32_t i = 0; i < r->changed_count; i++)
        for (uint32_t m = 0; m < r->changed[i].count; m++)
            for (uint32_t k = 0; k < r->changed[i].matches[m].member_count; k++) {
                tfr_value member = r->changed[i].matches[m].members[k];
                const tfr_node *n = &r->tree.nodes[tfr_flow_node(r->changed[i].flow, member)->ast];
                if (n->start >= start && n->end <= end && n->end)
                    return true;
            }
    return false;
}

// Keeps the sums that `moved`, made from the edited text, fuses at one of their new places.
static bool all_fused(rewriter *r, const rewriter *moved, const tfr_edits *all) {
    uint32_t kept = 0, count = r->sums.count;
    for (uint32_t i = 0; i < count; i++) {
        struct sum s = r->sums.items[i];
        bool fused = false;
        for (uint32_t k = 0; k < s.edits.count; k++) {
            const tfr_edit *e = &s.edits.items[k];
            int64_t at = e->start;
            for (uint32_t a = 0; a < all->count && by_start(&all->items[a], e) < 0; a++)
                at += (int64_t)all->items[a].text.len - all->items[a].end + all->items[a].start;
            fused |=
                e->text.len && is_fused(moved, (uint32_t)at, (uint32_t)at + (uint32_t)e->text.len);
        }
        if (fused)
            r->sums.items[kept++] = s;
    }
    r->sums.count = kept;
    return kept == count;
}

static void move_lines_back(const rewriter *r, tfr_report *report, const tfr_edits *all) {
    for (size_t i = 0; i < report->fused.count; i++) {
        tfr_fused *f = &report->fused.items[i];
        f->line = tfr_sink_line(r->src, all, f->line);
        f->end_line = tfr_sink_line(r->src, all, f->end_line);
    }
    for (size_t i = 0; i < report->refused.count; i++) {
        tfr_refused *f = &report->refused.items[i];
        f->line = tfr_sink_line(r->src, all, f->line);
        f->block_line = tfr_sink_line(r->src, all, f->block_line);
        f->block_end_line = tfr_sink_line(r->src, all, f->block_end_line);
    }
}

// The file with sums moved, proved and rewritten in its turn. False: no sum is worth it.
static bool rewrite_moved(rewriter *r, tfr_result *out) {
    while (r->sums.count) {
        tfr_edits all = {0};
        gather_sums(r, &all);
        tfr_str text = apply(r, &all);
        tfr_tree *tree = TFR_NEW(r->arena, tfr_tree);
        if (!parse_edited(r, tree, text, &all))
            return false;
        if (!moves_well(r, tree))
            continue;
        rewriter *moved;
        tfr_report report = {.path = r->src->path};
        if (rewriter_new(&moved, tree->src, r->options, &report, r->arena, NULL) != TFR_OK)
            return false;
        out->text = prove(moved);
        tfr_tree_free(&moved->tree);
        if (!all_fused(r, moved, &all))
            continue;
        finish_report(moved);
        move_lines_back(r, &report, &all);
        out->report = report;
        return true;
    }
    return false;
}

tfr_status tfr_rewrite(tfr_result *out, const tfr_source *src, const tfr_options *options,
                       tfr_arena *arena, tfr_error *err) {
    *out = (tfr_result){.text = src->bytes, .report = {.path = src->path}};
    rewriter *r;
    tfr_status status = rewriter_new(&r, src, options, &out->report, arena, err);
    if (status != TFR_OK)
        return status;
    if (!rewrite_moved(r, out)) {
        out->text = prove(r);
        finish_report(r);
    }
    tfr_tree_free(&r->tree);
    return TFR_OK;
}
