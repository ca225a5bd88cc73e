// Value numbering: a hash table from keys (sequences of integers) to small numbers.
#include "rewriter/flow.h"

void tfr_numbers_init(tfr_numbers *numbers, tfr_arena *arena) {
    *numbers = (tfr_numbers){.arena = arena, .slot_count = 512};
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
        uint32_t cap = numbers->key_cap ? numbers->key_cap * 2 : 256, old = numbers->key_cap;
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
