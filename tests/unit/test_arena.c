// The arena and its buffers: alignment, zeroed memory, growth in place and by moving.
#include "runtime/arena.h"

#include "tests/unit/check.h"

static void blocks_are_zero_aligned_and_apart(void) {
    tfr_arena *arena = tfr_arena_new();
    unsigned char *last = NULL;
    for (size_t size = 0; size < 5000; size += 7) {
        unsigned char *block = tfr_arena_alloc(arena, size);
        CHECK((uintptr_t)block % 16 == 0);
        CHECK(block != last);
        for (size_t i = 0; i < size; i++) {
            CHECK(block[i] == 0);
        }
        memset(block, 0xab, size);
        last = block;
    }
    tfr_arena_free(arena);
    tfr_arena_free(NULL);
}

static void large_blocks_leave_the_chunk_in_use(void) {
    tfr_arena *arena = tfr_arena_new();
    char *before = tfr_arena_alloc(arena, 16);
    char *large = tfr_arena_alloc(arena, (size_t)5 << 20);
    char *after = tfr_arena_alloc(arena, 16);
    large[0] = large[((size_t)5 << 20) - 1] = 'x';
    CHECK(after > before && after - before <= 64);
    tfr_arena_free(arena);
}

static void growth_keeps_what_was_there(void) {
    tfr_arena *arena = tfr_arena_new();
    char *block = tfr_arena_alloc(arena, 3);
    memcpy(block, "abc", 3);
    char *grown = tfr_arena_grow(arena, block, 3, 1000);
    CHECK(grown == block); // the last block of its chunk grows where it is
    CHECK(memcmp(grown, "abc", 4) == 0);
    (void)tfr_arena_alloc(arena, 1);
    char *moved = tfr_arena_grow(arena, grown, 1000, 2000);
    CHECK(moved != grown);
    CHECK(memcmp(moved, "abc", 4) == 0 && memcmp(grown, "abc", 4) == 0);
    CHECK(tfr_arena_grow(arena, moved, 2000, 10) == (void *)moved);
    CHECK(tfr_arena_grow(arena, NULL, 0, 0) != NULL);
    struct {
        uint32_t *items;
        size_t count, cap;
    } list = {0};
    for (uint32_t i = 0; i < 100000; i++) {
        *TFR_PUSH(arena, &list) = i;
    }
    for (uint32_t i = 0; i < 100000; i++) {
        CHECK(list.items[i] == i);
    }
    tfr_arena_free(arena);
}

static void text(void) {
    tfr_arena *arena = tfr_arena_new();
    tfr_str s = tfr_str_format(arena, "%d %s", 42, "ops");
    CHECK_STR(s, "42 ops");
    CHECK(s.data[s.len] == 0);
    CHECK_STR(tfr_str_format(arena, "%s", ""), "");
    CHECK(strcmp(tfr_str_dup(arena, (tfr_str){"abcdef", 3}), "abc") == 0);
    CHECK(strcmp(tfr_str_dup(arena, (tfr_str){NULL, 0}), "") == 0);
    CHECK(tfr_str_eq((tfr_str){NULL, 0}, TFR_STR("")) && !tfr_str_eq(TFR_STR("a"), TFR_STR("b")));

    tfr_buf buf = {.arena = arena};
    tfr_buf_add(&buf, NULL, 0);
    CHECK_INT(buf.len, 0);
    tfr_buf_add_str(&buf, TFR_STR("x"));
    for (int i = 0; i < 12; i++) {
        tfr_buf_add(&buf, buf.data, buf.len); // from itself, while it grows
        tfr_buf_format(&buf, "%s", "");
    }
    CHECK_INT(buf.len, 4096);
    CHECK(buf.data[0] == 'x' && buf.data[4095] == 'x');
    tfr_buf_format(&buf, "-%05d", 7);
    CHECK(buf.len == 4102 && memcmp(buf.data + 4096, "-00007", 6) == 0);
    tfr_arena_free(arena);
}

int main(void) {
    blocks_are_zero_aligned_and_apart();
    large_blocks_leave_the_chunk_in_use();
    growth_keeps_what_was_there();
    text();
    return CHECK_DONE();
}
