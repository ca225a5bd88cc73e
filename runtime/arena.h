// Memory of one processed file: everything is freed at once. malloc is called only in arena.c.
// Running out of memory prints one line and aborts: no caller could go on from it.
#ifndef TFR_ARENA_H
#define TFR_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tfr_arena tfr_arena;

tfr_arena *tfr_arena_new(void);
void tfr_arena_free(tfr_arena *arena); // NULL is allowed

// Zeroed memory, aligned to 16 bytes. `size` 0 gives a valid pointer.
void *tfr_arena_alloc(tfr_arena *arena, size_t size);
// As realloc: the first `old_size` bytes are kept. The old block stays until the arena goes.
void *tfr_arena_grow(tfr_arena *arena, void *old, size_t old_size, size_t new_size);

#define TFR_NEW(arena, type) ((type *)tfr_arena_alloc((arena), sizeof(type)))
#define TFR_NEW_ARRAY(arena, type, n) ((type *)tfr_arena_alloc((arena), sizeof(type) * (n)))

// Memory that outlives every arena: caches, threads' scratch. As malloc, realloc and free, but
// never NULL; `tfr_resize(NULL, n)` allocates.
void *tfr_alloc(size_t size);
void *tfr_resize(void *block, size_t size);
void *tfr_alloc_aligned(size_t alignment, size_t size); // alignment: a power of two
void tfr_release(void *block);                          // NULL is allowed

// A view of text that somebody else owns; not NUL-terminated.
typedef struct tfr_str {
    const char *data;
    size_t len;
} tfr_str;

#define TFR_STR(literal) ((tfr_str){(literal), sizeof(literal) - 1})

static inline bool tfr_str_eq(tfr_str a, tfr_str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}
static inline tfr_str tfr_str_from(const char *text) { return (tfr_str){text, strlen(text)}; }

// printf into the arena; the result is also NUL-terminated.
tfr_str tfr_str_format(tfr_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *tfr_str_dup(tfr_arena *arena, tfr_str text); // NUL-terminated copy

// A growing text buffer in an arena.
typedef struct tfr_buf {
    tfr_arena *arena;
    char *data;
    size_t len, cap;
} tfr_buf;

void tfr_buf_add(tfr_buf *buf, const char *data, size_t len);
static inline void tfr_buf_add_str(tfr_buf *buf, tfr_str text) {
    tfr_buf_add(buf, text.data, text.len);
}
void tfr_buf_format(tfr_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline tfr_str tfr_buf_str(const tfr_buf *buf) { return (tfr_str){buf->data, buf->len}; }

// Grows a typed array `items` (fields: items, count, cap) by one and gives the new last slot.
#define TFR_PUSH(arena, list)                                                                      \
    (((list)->count == (list)->cap                                                                 \
          ? (void)((list)->items = tfr_arena_grow(                                                 \
                       (arena), (list)->items, sizeof(*(list)->items) * (list)->cap,               \
                       sizeof(*(list)->items) * ((list)->cap ? (list)->cap * 2 : 8)),              \
                   (list)->cap = (list)->cap ? (list)->cap * 2 : 8)                                \
          : (void)0),                                                                              \
     &(list)->items[(list)->count++])

#endif
