// Value numbers make the comparison of graphs a comparison of integers: equal effects in equal
// order with equal values, each computed under the same conditions between the same effects.
#include "rewriter/check.h"

static uint32_t next_leaf(const tfr_tree *t, uint32_t node) {
    do {
        node = tfr_tree_walk(t, 1, node, false);
    } while (node && (t->nodes[node].child || t->nodes[node].start == t->nodes[node].end));
    return node;
}

// Moves over the leaves that lie inside [start, end).
static uint32_t skip_until(const tfr_tree *t, uint32_t leaf, uint32_t end) {
    while (leaf && t->nodes[leaf].start < end)
        leaf = next_leaf(t, leaf);
    return leaf;
}

bool tfr_check_tokens(const tfr_tree *a, const tfr_tree *b, const tfr_edits *edits) {
    uint32_t x = next_leaf(a, 1), y = next_leaf(b, 1), e = 0;
    int64_t shift = 0;
    for (;;) {
        const tfr_edit *edit = e < edits->count ? &edits->items[e] : NULL;
        while (edit && (!x || a->nodes[x].start >= edit->start)) {
            x = skip_until(a, x, edit->end);
            int64_t new_end = (int64_t)edit->start + shift + (int64_t)edit->text.len;
            y = skip_until(b, y, (uint32_t)new_end);
            shift += (int64_t)edit->text.len - (int64_t)(edit->end - edit->start);
            edit = ++e < edits->count ? &edits->items[e] : NULL;
        }
        if (!x || !y)
            return x == y;
        const tfr_node *m = &a->nodes[x], *n = &b->nodes[y];
        if (m->symbol != n->symbol || (int64_t)m->start + shift != (int64_t)n->start ||
            m->end - m->start != n->end - n->start)
            return false;
        x = next_leaf(a, x);
        y = next_leaf(b, y);
    }
}

// ---- graphs ---------------------------------------------------------------------------------

// A value number says what is computed. The exact number says when as well: after how many effects
// and under which condition, for the value and for all that it is computed from.
typedef struct graph {
    const tfr_flow *flow;
    uint32_t *exact, *version; // by value; the version whose border value it is, or 0
    bool *reached;             // by value: something that the function does depends on it
    TFR_LIST(tfr_value) todo;
} graph;

// The same wherever it is evaluated, or numbered by the effects before it already.
static bool timeless(const tfr_vnode *n) {
    return n->type == TFR_T_NUMBER || !n->arg_count || n->op == TFR_V_ATTR || n->op == TFR_V_ITEM ||
           n->op == TFR_V_TUPLE || n->op == TFR_V_SLICE || n->op == TFR_V_KEYWORD ||
           n->op == TFR_V_PHI;
}

// Called where it is not None: `tfr.linears` passes over a module that is None by itself.
static bool is_guarded(const tfr_flow *f, const tfr_vnode *n) {
    return n->op == TFR_V_MODULE &&
           tfr_flow_asks_for(f, n->block, f->args.items[n->first_arg].value);
}

// A sum may be made later, under more conditions: see check_sums.
static bool is_sum(const graph *g, tfr_value v) {
    const tfr_vnode *n = tfr_flow_node(g->flow, v);
    return n->op == TFR_V_ATEN && n->name == g->flow->module->words->add && !timeless(n);
}

static uint32_t exact_number(const graph *g, tfr_value v, uint32_t epoch, tfr_numbers *numbers) {
    const tfr_vnode *n = tfr_flow_node(g->flow, v);
    const tfr_words *w = g->flow->module->words;
    bool when = !timeless(n);
    uint32_t block = is_guarded(g->flow, n) ? g->flow->blocks.items[n->block].parent : n->block;
    bool where = when && !is_sum(g, v);
    uint32_t key[20] = {n->number, when ? epoch : 0, where ? g->flow->blocks.items[block].key : 0};
    uint32_t count = 3;
    if (g->version[v]) { // what flows into a one-sided branch's end; into a region's: check_border
        const tfr_version *border = &g->flow->versions.items[g->version[v]];
        for (int i = 0; i < 2; i++)
            key[count++] = g->exact[g->flow->versions.items[border->merges[i]].value];
    }
    for (uint32_t i = 0; i < n->arg_count; i++) {
        if (count == 20) { // fold long argument lists
            key[0] = tfr_numbers_get(numbers, key, count);
            count = 1;
        }
        key[count++] = g->exact[tfr_flow_arg(g->flow, v, i).value];
    }
    bool swaps =
        n->op == TFR_V_ATEN && n->arg_count == 2 && (n->name == w->add || n->name == w->mul);
    if (swaps && key[3] > key[4] && // the number knows that a + b is b + a
        tfr_commutes(tfr_flow_node(g->flow, tfr_flow_arg(g->flow, v, 0).value),
                     tfr_flow_node(g->flow, tfr_flow_arg(g->flow, v, 1).value))) {
        uint32_t low = key[4];
        key[4] = key[3], key[3] = low;
    }
    return tfr_numbers_get(numbers, key, count);
}

// By block: it ends by leaving the function.
static bool *find_leaving(const tfr_flow *f, tfr_arena *arena) {
    bool *leaves = TFR_NEW_ARRAY(arena, bool, f->blocks.count);
    for (uint32_t i = 0; i < f->events.count; i++)
        if (f->events.items[i].kind == TFR_EV_RETURN || f->events.items[i].kind == TFR_EV_RAISE)
            leaves[f->events.items[i].block] = true;
    return leaves;
}

// Whether nothing comes to `block` from `past`: that leaves the function, unless a try or with
// around it could stop that.
static bool never_comes(const tfr_flow *f, const bool *leaves, uint32_t past, uint32_t block) {
    bool left = false;
    for (; past && !tfr_flow_within(f, block, past); past = f->blocks.items[past].parent)
        left = (left || leaves[past]) && !f->blocks.items[past].guarded;
    return left;
}

static graph *graph_new(const tfr_flow *f, tfr_numbers *numbers) {
    tfr_arena *arena = numbers->arena;
    graph *g = TFR_NEW(arena, graph);
    g->flow = f;
    g->exact = TFR_NEW_ARRAY(arena, uint32_t, f->nodes.count);
    g->version = TFR_NEW_ARRAY(arena, uint32_t, f->nodes.count);
    g->reached = TFR_NEW_ARRAY(arena, bool, f->nodes.count);
    for (uint32_t i = 1; i < f->versions.count; i++) {
        const tfr_version *v = &f->versions.items[i];
        const tfr_vnode *n = tfr_flow_node(f, v->value);
        if (v->kind == TFR_VER_REGION ||
            (v->kind == TFR_VER_PHI && n->op == TFR_V_OPAQUE && !n->arg_count))
            g->version[v->value] = i;
    }
    const bool *leaves = find_leaving(f, arena);
    for (uint32_t v = 1, events = 0; v < f->nodes.count; v++) {
        while (events < f->events.count && f->events.items[events].seq < f->nodes.items[v].seq)
            events++;
        uint32_t epoch = events; // the last one that is on the way here
        while (epoch &&
               never_comes(f, leaves, f->events.items[epoch - 1].block, f->nodes.items[v].block))
            epoch--;
        g->exact[v] = exact_number(g, v, epoch, numbers);
    }
    return g;
}

static void reach(graph *g, tfr_value value) {
    if (!value || g->reached[value])
        return;
    g->reached[value] = true;
    *TFR_PUSH(g->flow->module->arena, &g->todo) = value;
}

// A difference at a pair of values: at the operands where they begin to differ.
static bool differ(tfr_difference *d, const graph *a, const graph *b, tfr_value x, tfr_value y,
                   const char *what) {
    d->what = what;
    while (x && y && a->exact[x] != b->exact[y]) {
        const tfr_vnode *m = tfr_flow_node(a->flow, x), *n = tfr_flow_node(b->flow, y);
        d->old_value = x, d->new_value = y;
        d->old_ast = m->ast ? m->ast : d->old_ast;
        d->new_ast = n->ast ? n->ast : d->new_ast;
        if (m->number == n->number)
            d->what =
                "a value is computed under another condition, or on the other side of an effect";
        if (m->op != n->op || m->name != n->name || m->arg_count != n->arg_count)
            return false;
        uint32_t i = 0;
        while (i < m->arg_count && a->exact[tfr_flow_arg(a->flow, x, i).value] ==
                                       b->exact[tfr_flow_arg(b->flow, y, i).value])
            i++;
        if (i == m->arg_count)
            return false;
        x = tfr_flow_arg(a->flow, x, i).value, y = tfr_flow_arg(b->flow, y, i).value;
    }
    return false;
}

// Where an effect is in the text: 0 where it has no place there, inside a helper of a helper.
static uint32_t place_of(const tfr_event *e) { return e->ast == UINT32_MAX ? 0 : e->ast; }

static uint16_t syntax_of(const graph *g, const tfr_event *e) {
    return g->flow->module->scope->tree->nodes[place_of(e)].symbol;
}

static bool check_events(graph *a, graph *b, tfr_difference *d) {
    uint32_t count = a->flow->events.count, other = b->flow->events.count;
    for (uint32_t i = 0; i < count && i < other; i++) {
        const tfr_event *x = &a->flow->events.items[i], *y = &b->flow->events.items[i];
        d->old_ast = place_of(x), d->new_ast = place_of(y);
        d->what = "an effect is of another kind";
        // `break` and `continue`, a loop and a `with`, enter and leave by the same kind of event.
        if (x->kind != y->kind || (x->kind == TFR_EV_OTHER && syntax_of(a, x) != syntax_of(b, y)))
            return false;
        if ((x->value != 0) != (y->value != 0))
            return false;
        if (x->value && a->exact[x->value] != b->exact[y->value])
            return differ(d, a, b, x->value, y->value,
                          x->kind == TFR_EV_RETURN ? "another value is returned"
                                                   : "an effect gets other values");
        d->what = "an effect happens under other conditions";
        if (a->flow->blocks.items[x->block].key != b->flow->blocks.items[y->block].key)
            return false;
        reach(a, x->value);
        reach(b, y->value);
    }
    d->what = "the number of effects differs";
    d->old_ast = count > other ? place_of(&a->flow->events.items[other]) : 0;
    d->new_ast = other > count ? place_of(&b->flow->events.items[count]) : 0;
    return count == other;
}

static void reach_operands(graph *g) {
    while (g->todo.count) {
        tfr_value v = g->todo.items[--g->todo.count];
        for (uint32_t i = 0; i < tfr_flow_node(g->flow, v)->arg_count; i++)
            reach(g, tfr_flow_arg(g->flow, v, i).value);
    }
}

// The next assignment of the function's own text to `name`, from version `at` on, before `end`.
static uint32_t next_assignment(const tfr_flow *f, tfr_name name, uint32_t at, uint32_t end) {
    while (at < end &&
           (f->versions.items[at].name != name || f->versions.items[at].kind != TFR_VER_ASSIGN ||
            !f->versions.items[at].target))
        at++;
    return at;
}

// The same values are assigned to `name`, in the same order and under the same conditions.
static bool check_assignments(graph *a, graph *b, tfr_name name, uint32_t x, uint32_t x_end,
                              tfr_name other_name, uint32_t y, uint32_t y_end, tfr_difference *d) {
    for (;; x++, y++) {
        x = next_assignment(a->flow, name, x, x_end);
        y = next_assignment(b->flow, other_name, y, y_end);
        if (x == x_end && y == y_end)
            return true;
        const tfr_version *v = &a->flow->versions.items[x], *w = &b->flow->versions.items[y];
        d->old_ast = x < x_end ? v->target : 0, d->new_ast = y < y_end ? w->target : 0;
        d->what = "a name is assigned once more, or once less";
        if (x == x_end || y == y_end)
            return false;
        if (a->exact[v->value] != b->exact[w->value])
            return differ(d, a, b, v->value, w->value, "a name gets another value");
        d->what = "a name gets its value under another condition";
        if (a->flow->blocks.items[v->block].key != b->flow->blocks.items[w->block].key)
            return false;
        reach(a, v->value);
        reach(b, w->value);
    }
}

// What a name holds where a loop, try or the like begins or ends is a value without operands: what
// flows into it is compared here.
static bool check_border(graph *a, graph *b, tfr_value x, tfr_value y, tfr_difference *d) {
    const tfr_version *v = &a->flow->versions.items[a->version[x]];
    const tfr_version *w = &b->flow->versions.items[b->version[y]];
    d->what = "a name may hold another value where a loop, try or the like ends";
    if (v->kind != w->kind)
        return false;
    uint32_t from[3] = {v->merges[0], v->merges[1], v->before};
    uint32_t other[3] = {w->merges[0], w->merges[1], w->before};
    for (int i = 0; i < 3; i++) {
        tfr_value p = a->flow->versions.items[from[i]].value;
        tfr_value q = b->flow->versions.items[other[i]].value;
        if (v->kind == TFR_VER_REGION && a->exact[p] != b->exact[q])
            return differ(d, a, b, p, q, d->what);
        reach(a, p);
        reach(b, q);
    }
    return v->kind != TFR_VER_REGION ||
           check_assignments(a, b, v->name, v->region_first, v->region_end, w->name,
                             w->region_first, w->region_end, d);
}

static bool check_borders(graph *a, graph *b, tfr_difference *d) {
    tfr_arena *arena = a->flow->module->arena;
    bool *done = TFR_NEW_ARRAY(arena, bool, a->flow->nodes.count), again = true;
    while (again) {
        again = false;
        reach_operands(a);
        reach_operands(b);
        for (tfr_value x = 1, y = 0; x < a->flow->nodes.count; x++) {
            if (!a->reached[x] || !a->version[x] || done[x])
                continue;
            // In order of time in both; from the start again where new ones were reached.
            for (y = 1; y < b->flow->nodes.count; y++)
                if (b->version[y] && b->exact[y] == a->exact[x])
                    break;
            if (y == b->flow->nodes.count || !check_border(a, b, x, y, d))
                return false;
            done[x] = again = true;
        }
    }
    return true;
}

static bool check_captured(graph *a, graph *b, tfr_difference *d) {
    for (uint32_t i = 0; i < a->flow->captured.count; i++) {
        tfr_name name = a->flow->captured.items[i];
        if (!check_assignments(a, b, name, 1, a->flow->versions.count, name, 1,
                               b->flow->versions.count, d))
            return false;
    }
    return true;
}

// The first call of a module in `b` that `a` does not make, also one whose result is not used.
static tfr_value extra_call(const graph *a, const graph *b, const tfr_numbers *numbers) {
    bool *made = TFR_NEW_ARRAY(numbers->arena, bool, numbers->count + 1);
    bool *unasked = TFR_NEW_ARRAY(numbers->arena, bool, numbers->count + 1);
    for (tfr_value v = 1; v < a->flow->nodes.count; v++) {
        made[a->exact[v]] = true;
        unasked[a->exact[v]] |= !is_guarded(a->flow, tfr_flow_node(a->flow, v));
    }
    for (tfr_value v = 1; v < b->flow->nodes.count; v++) {
        const tfr_vnode *n = tfr_flow_node(b->flow, v);
        bool bare = !n->in_call && !is_guarded(b->flow, n); // would call None
        if (n->op == TFR_V_MODULE && (!made[b->exact[v]] || (bare && !unasked[b->exact[v]])))
            return v;
    }
    return 0;
}

static bool check_calls(const graph *a, const graph *b, const tfr_numbers *numbers,
                        tfr_difference *d) {
    tfr_value lost = extra_call(b, a, numbers), added = extra_call(a, b, numbers);
    if (!lost && !added)
        return true;
    *d = (tfr_difference){.what = added ? "a module is called here in one and not in the other"
                                        : "a module is not called any more",
                          .old_ast = lost ? tfr_flow_node(a->flow, lost)->ast : 0,
                          .new_ast = added ? tfr_flow_node(b->flow, added)->ast : 0};
    return false;
}

static bool holds(const tfr_flow *f, uint32_t block, uint32_t key) {
    while (block && f->blocks.items[block].key != key)
        block = f->blocks.items[block].parent;
    return block != 0;
}

// Every sum of `b` is made where `a` makes it too, or in a branch of that.
static bool check_sums(const graph *a, const graph *b, const tfr_numbers *numbers,
                       tfr_difference *d) {
    uint32_t *last = TFR_NEW_ARRAY(numbers->arena, uint32_t, numbers->count + 1);
    uint32_t *before = TFR_NEW_ARRAY(numbers->arena, uint32_t, a->flow->nodes.count);
    for (tfr_value x = 1; x < a->flow->nodes.count; x++)
        if (is_sum(a, x))
            before[x] = last[a->exact[x]], last[a->exact[x]] = x;
    for (tfr_value y = 1; y < b->flow->nodes.count; y++) {
        tfr_value x = is_sum(b, y) && b->reached[y] ? last[b->exact[y]] : 0;
        const tfr_vnode *n = tfr_flow_node(b->flow, y);
        bool made = !x;
        for (; x && !made; x = before[x])
            made = holds(b->flow, n->block,
                         a->flow->blocks.items[tfr_flow_node(a->flow, x)->block].key);
        if (made)
            continue;
        *d = (tfr_difference){.what = "a sum is made under fewer conditions", .new_ast = n->ast};
        return false;
    }
    return true;
}

// Ops give names no value that `a` does not make, read or not: what makes one could raise.
static bool check_unread(const graph *a, const graph *b, const tfr_numbers *numbers,
                         tfr_difference *d) {
    bool *made = TFR_NEW_ARRAY(numbers->arena, bool, numbers->count + 1);
    for (tfr_value v = 1; v < a->flow->nodes.count; v++)
        made[a->exact[v]] = true;
    for (uint32_t i = 1; i < b->flow->versions.count; i++) {
        const tfr_version *v = &b->flow->versions.items[i];
        const tfr_vnode *n = tfr_flow_node(b->flow, v->value);
        bool sometimes = n->op == TFR_V_PHI || is_guarded(b->flow, n); // see check_calls
        if (v->kind != TFR_VER_ASSIGN || !v->target || sometimes || made[b->exact[v->value]] ||
            !tfr_flow_op_around(b->flow, n))
            continue;
        *d = (tfr_difference){.what = "an op gives a name a value that is made nowhere before",
                              .new_ast = v->target};
        return false;
    }
    return true;
}

static uint32_t count_helper(const tfr_flow *f, tfr_name name, bool *loose) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->inlines.count; i++) {
        count += f->inlines.items[i].helper == name;
        *loose |= f->inlines.items[i].helper == name && f->inlines.items[i].loose;
    }
    return count;
}

// A helper function is called as often as before, or named in `via=`, which calls it if somebody
// has replaced it; in `inner=` once for several calls. A method may be left out.
static bool check_helpers(const tfr_flow *a, const tfr_flow *b, tfr_difference *d) {
    for (uint32_t i = 0; i < a->inlines.count + b->inlines.count; i++) {
        bool in_old = i < a->inlines.count, loose = false;
        const tfr_inline *in =
            in_old ? &a->inlines.items[i] : &b->inlines.items[i - a->inlines.count];
        uint32_t before = in->helper ? count_helper(a, in->helper, &loose) : 0;
        uint32_t after = in->helper ? count_helper(b, in->helper, &loose) : 0;
        bool method = in_old && in->loose && !in->op;
        if (before == after || (before > after && loose && (after || method)))
            continue;
        *d = (tfr_difference){.what = after < before
                                          ? "a helper is neither called nor guarded by via="
                                          : "a helper is guarded by via= that was not called",
                              .old_ast = in_old ? in->call_ast : 0,
                              .new_ast = in_old ? 0 : in->call_ast};
        return false;
    }
    return true;
}

bool tfr_check_flows(const tfr_flow *old_flow, const tfr_flow *new_flow, tfr_difference *d) {
    *d = (tfr_difference){.what = "the function is not understood any more",
                          .new_ast = new_flow->unfit ? new_flow->unfit_ast : 0};
    if (old_flow->unfit || new_flow->unfit)
        return false;
    tfr_numbers *numbers = TFR_NEW(new_flow->module->arena, tfr_numbers);
    tfr_numbers_init(numbers, new_flow->module->arena);
    graph *a = graph_new(old_flow, numbers), *b = graph_new(new_flow, numbers);
    return check_events(a, b, d) && check_captured(a, b, d) && check_borders(a, b, d) &&
           check_calls(a, b, numbers, d) && check_sums(a, b, numbers, d) &&
           check_unread(a, b, numbers, d) && check_helpers(old_flow, new_flow, d);
}
