// Value numbering: a hash table from keys (sequences of integers) to small numbers, and how long
// two values with one number stay equal.
#include "rewriter/flow.h"

void tfr_numbers_init(tfr_numbers *numbers, tfr_arena *arena) {
    *numbers = (tfr_numbers){.arena = arena, .slot_count = 128};
    numbers->slots = TFR_NEW_ARRAY(arena, uint32_t, numbers->slot_count);
}

static uint32_t hash_key(const uint32_t *key, uint32_t length) {
    uint32_t h = length * 0x9e3779b9u;
    for (uint32_t i = 0; i < length; i++) {
        h = (h ^ key[i]) * 0x85ebca6bu;
        h ^= h >> 15;
    }
    return h;
}

static void rehash(tfr_numbers *numbers) {
    numbers->slot_count *= 2;
    numbers->slots = TFR_NEW_ARRAY(numbers->arena, uint32_t, numbers->slot_count);
    for (uint32_t id = 1; id <= numbers->count; id++) {
        uint32_t i = numbers->hashes[id - 1] & (numbers->slot_count - 1);
        while (numbers->slots[i])
            i = (i + 1) & (numbers->slot_count - 1);
        numbers->slots[i] = id;
    }
}

uint32_t tfr_numbers_get(tfr_numbers *numbers, const uint32_t *key, uint32_t length) {
    uint32_t hash = hash_key(key, length), mask = numbers->slot_count - 1, i = hash & mask;
    for (; numbers->slots[i]; i = (i + 1) & mask) {
        uint32_t id = numbers->slots[i];
        const uint32_t *known = numbers->keys[id - 1];
        if (numbers->hashes[id - 1] == hash && known[0] == length &&
            memcmp(known + 1, key, length * sizeof *key) == 0)
            return id;
    }
    if (numbers->count == numbers->key_cap) {
        uint32_t cap = numbers->key_cap ? numbers->key_cap * 2 : 64, old = numbers->key_cap;
        numbers->keys = tfr_arena_grow(numbers->arena, numbers->keys, old * sizeof(uint32_t *),
                                       cap * sizeof(uint32_t *));
        numbers->hashes = tfr_arena_grow(numbers->arena, numbers->hashes, old * sizeof(uint32_t),
                                         cap * sizeof(uint32_t));
        numbers->key_cap = cap;
    }
    uint32_t *copy = TFR_NEW_ARRAY(numbers->arena, uint32_t, length + 1);
    copy[0] = length;
    if (length)
        memcpy(copy + 1, key, length * sizeof *key);
    numbers->keys[numbers->count] = copy;
    numbers->hashes[numbers->count++] = hash;
    numbers->slots[i] = numbers->count;
    if (numbers->count * 2 > numbers->slot_count)
        rehash(numbers);
    return numbers->count;
}

const tfr_event *tfr_flow_event_between(const tfr_flow *flow, uint32_t from, uint32_t to) {
    uint32_t low = 0, high = flow->events.count; // events are in order of seq
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (flow->events.items[middle].seq <= from)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < flow->events.count && flow->events.items[low].seq < to;
    return found ? &flow->events.items[low] : NULL;
}

static bool all_numbers(const tfr_flow *flow, tfr_value value) {
    for (uint32_t i = 0; i < tfr_flow_node(flow, value)->arg_count; i++)
        if (tfr_flow_node(flow, tfr_flow_arg(flow, value, i).value)->type != TFR_T_NUMBER)
            return false;
    return true;
}

bool tfr_flow_same_object(const tfr_flow *flow, tfr_value a, tfr_value b) {
    while (a != b) {
        const tfr_vnode *n = tfr_flow_node(flow, a);
        if (!tfr_flow_same(flow, a, b) || n->op != tfr_flow_node(flow, b)->op)
            return false;
        bool number = n->type == TFR_T_NUMBER;
        if (n->op == TFR_V_PARAM || n->op == TFR_V_CONST || n->op == TFR_V_GLOBAL)
            return true;
        if (n->op == TFR_V_ATEN && number)
            return all_numbers(flow, a) && all_numbers(flow, b);
        // An attribute's number holds when it was read; x.shape[0] never changes.
        if (n->op != TFR_V_ATTR && n->op != TFR_V_ITEM && !(n->op == TFR_V_INDEX && number))
            return false;
        a = tfr_flow_arg(flow, a, 0).value;
        b = tfr_flow_arg(flow, b, 0).value;
    }
    return true;
}

static bool same_at(const tfr_flow *flow, tfr_value a, tfr_value b, uint32_t seq, uint32_t depth,
                    uint32_t *steps) {
    if (tfr_flow_same_object(flow, a, b))
        return true;
    const tfr_vnode *x = tfr_flow_node(flow, a), *y = tfr_flow_node(flow, b);
    if (x->number != y->number || x->arg_count != y->arg_count || depth == 0 || (*steps)-- == 0)
        return false;
    uint32_t first = x->seq < y->seq ? x->seq : y->seq, last = x->seq + y->seq - first;
    if (tfr_flow_event_between(flow, first, x->type == TFR_T_NUMBER ? last : seq))
        return false;
    for (uint32_t i = 0; i < x->arg_count; i++) {
        tfr_value p = tfr_flow_arg(flow, a, i).value, q = tfr_flow_arg(flow, b, i).value;
        if (x->arg_count == 2 && !tfr_flow_same(flow, p, q)) // a + b and b + a
            q = tfr_flow_arg(flow, b, 1 - i).value;
        if (!same_at(flow, p, q, last, depth - 1, steps))
            return false;
    }
    return true;
}

bool tfr_flow_same_at(const tfr_flow *flow, tfr_value a, tfr_value b, uint32_t seq) {
    uint32_t steps = 500;
    return same_at(flow, a, b, seq, 50, &steps);
}
