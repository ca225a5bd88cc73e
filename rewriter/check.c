// Value numbers make the comparison of graphs a comparison of integers: equal effects in equal
// order with equal values.
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

bool tfr_check_flows(const tfr_flow *a, const tfr_flow *b, const char **why) {
    *why = "the number of effects differs";
    if (a->unfit || b->unfit || a->events.count != b->events.count)
        return false;
    for (uint32_t i = 0; i < a->events.count; i++) {
        const tfr_event *x = &a->events.items[i], *y = &b->events.items[i];
        *why = "an effect is of another kind";
        if (x->kind != y->kind)
            return false;
        *why = "an effect happens under other conditions";
        if (a->blocks.items[x->block].key != b->blocks.items[y->block].key)
            return false;
        *why =
            x->kind == TFR_EV_RETURN ? "another value is returned" : "an effect gets other values";
        if ((x->value != 0) != (y->value != 0))
            return false;
        if (x->value && tfr_flow_node(a, x->value)->number != tfr_flow_node(b, y->value)->number)
            return false;
    }
    return true;
}
