// An open-addressing hash table over the texts; the parent is asked first.
#include "parser/names.h"

static uint32_t hash_text(tfr_str text) {
    uint32_t h = 2166136261u; // FNV-1a
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (uint8_t)text.data[i]) * 16777619u;
    return h;
}

void tfr_names_init(tfr_names *names, const tfr_names *parent, tfr_arena *arena) {
    *names = (tfr_names){.parent = parent, .arena = arena};
    names->first = parent ? parent->first + parent->count : 1;
    names->slot_count = 1024;
    names->slots = TFR_NEW_ARRAY(arena, uint32_t, names->slot_count);
}

static uint32_t *slot_of(const tfr_names *names, tfr_str text, uint32_t hash) {
    uint32_t mask = names->slot_count - 1;
    for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
        uint32_t id = names->slots[i];
        if (!id || tfr_str_eq(names->texts[id - names->first], text))
            return &names->slots[i];
    }
}

static tfr_name find_hashed(const tfr_names *names, tfr_str text, uint32_t hash) {
    for (; names; names = names->parent) {
        uint32_t id = *slot_of(names, text, hash);
        if (id)
            return id;
    }
    return 0;
}

tfr_name tfr_names_find(const tfr_names *names, tfr_str text) {
    return find_hashed(names, text, hash_text(text));
}

tfr_name tfr_names_add(tfr_names *names, tfr_str text) {
    uint32_t hash = hash_text(text);
    tfr_name found = find_hashed(names, text, hash);
    if (found)
        return found;
    if ((names->count + 1) * 2 > names->slot_count) {
        names->slot_count *= 2;
        names->slots = TFR_NEW_ARRAY(names->arena, uint32_t, names->slot_count);
        for (uint32_t i = 0; i < names->count; i++)
            *slot_of(names, names->texts[i], hash_text(names->texts[i])) = names->first + i;
    }
    if (names->count == names->cap) {
        uint32_t cap = names->cap ? names->cap * 2 : 256;
        names->texts = tfr_arena_grow(names->arena, names->texts, names->cap * sizeof(tfr_str),
                                      cap * sizeof(tfr_str));
        names->cap = cap;
    }
    names->texts[names->count] = text;
    uint32_t id = names->first + names->count++;
    *slot_of(names, text, hash) = id;
    return id;
}

tfr_str tfr_names_text(const tfr_names *names, tfr_name name) {
    for (; names; names = names->parent)
        if (name >= names->first && name < names->first + names->count)
            return names->texts[name - names->first];
    return (tfr_str){"", 0};
}
