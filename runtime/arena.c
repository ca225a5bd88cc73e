// Chunks are taken from calloc, so that fresh memory is zero without being touched: a small file
// costs the pages it uses and no more. Under AddressSanitizer what is not handed out is poisoned,
// or an overrun of one block would silently land in the next.
#include "runtime/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TFR_POISON 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TFR_POISON 1
#endif

#ifdef TFR_POISON
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#define RED_ZONE 16u
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define RED_ZONE 0u
#endif

#define ALIGN 16u
#define FIRST_CHUNK ((size_t)64 << 10)
#define LARGEST_CHUNK ((size_t)1 << 20)

typedef struct chunk {
    struct chunk *next;
    size_t used, size; // of `data`
    _Alignas(ALIGN) char data[];
} chunk;

struct tfr_arena {
    chunk *current; // head of the list; blocks are cut from it
    size_t next_size;
};

static _Noreturn void out_of_memory(void) {
    (void)fputs("tfrewrite: out of memory\n", stderr);
    abort();
}

void *tfr_alloc(size_t size) { return tfr_resize(NULL, size); }

void *tfr_resize(void *block, size_t size) {
    void *moved = realloc(block, size ? size : 1);
    if (!moved) {
        out_of_memory();
    }
    return moved;
}

void *tfr_alloc_aligned(size_t alignment, size_t size) {
    void *block = NULL;
    if (posix_memalign(&block, alignment, size ? size : 1) != 0) {
        out_of_memory();
    }
    return block;
}

void tfr_release(void *block) { free(block); }

static chunk *chunk_new(size_t size) {
    chunk *c = size > SIZE_MAX - sizeof(chunk) ? NULL : calloc(1, sizeof(chunk) + size);
    if (!c) {
        out_of_memory();
    }
    c->size = size;
    POISON(c->data, size);
    return c;
}

tfr_arena *tfr_arena_new(void) {
    tfr_arena *arena = calloc(1, sizeof *arena);
    if (!arena) {
        out_of_memory();
    }
    arena->current = chunk_new(FIRST_CHUNK);
    arena->next_size = FIRST_CHUNK * 2;
    return arena;
}

void tfr_arena_free(tfr_arena *arena) {
    if (!arena) {
        return;
    }
    for (chunk *c = arena->current; c;) {
        chunk *next = c->next;
        UNPOISON(c->data, c->size);
        free(c);
        c = next;
    }
    free(arena);
}

// What a block of `size` bytes takes from its chunk; never 0, so that blocks differ.
static size_t block_size(size_t size) {
    if (size > SIZE_MAX / 2) {
        out_of_memory();
    }
    size = size ? size : 1;
    return (size + ALIGN - 1) / ALIGN * ALIGN + RED_ZONE;
}

static void *cut(chunk *c, size_t need, size_t size) {
    char *block = c->data + c->used;
    c->used += need;
    UNPOISON(block, size ? size : 1);
    return block;
}

void *tfr_arena_alloc(tfr_arena *arena, size_t size) {
    size_t need = block_size(size);
    chunk *c = arena->current;
    if (need <= c->size - c->used) {
        return cut(c, need, size);
    }
    if (need > arena->next_size / 4) {
        // A chunk of its own, behind the current one, whose rest stays in use.
        chunk *own = chunk_new(need);
        own->next = c->next;
        c->next = own;
        return cut(own, need, size);
    }
    chunk *fresh = chunk_new(arena->next_size);
    arena->next_size = fresh->size < LARGEST_CHUNK ? fresh->size * 2 : LARGEST_CHUNK;
    fresh->next = c;
    arena->current = fresh;
    return cut(fresh, need, size);
}

void *tfr_arena_grow(tfr_arena *arena, void *old, size_t old_size, size_t new_size) {
    if (new_size <= old_size && old) {
        return old;
    }
    if (old && old_size) {
        // The block cut last grows where it is: most growing lists and buffers are that block.
        chunk *c = arena->current;
        size_t had = block_size(old_size);
        size_t need = block_size(new_size);
        bool is_last = c->used >= had && (char *)old == c->data + (c->used - had);
        if (is_last && need - had <= c->size - c->used) {
            c->used += need - had;
            UNPOISON(old, new_size);
            return old;
        }
    }
    void *block = tfr_arena_alloc(arena, new_size);
    if (old_size) {
        memcpy(block, old, old_size);
    }
    return block;
}

// Inlined, GCC with sanitizers would warn of a NULL format that cannot be.
__attribute__((noinline)) static int formatted_length(const char *format, va_list args) {
    return vsnprintf(NULL, 0, format, args);
}

static tfr_str format_str(tfr_arena *arena, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = formatted_length(format, args);
    size_t size = len < 0 ? 0 : (size_t)len;
    char *data = tfr_arena_alloc(arena, size + 1);
    if (len > 0) {
        (void)vsnprintf(data, size + 1, format, again);
    }
    va_end(again);
    return (tfr_str){data, size};
}

tfr_str tfr_str_format(tfr_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tfr_str text = format_str(arena, format, args);
    va_end(args);
    return text;
}

const char *tfr_str_dup(tfr_arena *arena, tfr_str text) {
    char *copy = tfr_arena_alloc(arena, text.len + 1);
    if (text.len) {
        memcpy(copy, text.data, text.len);
    }
    return copy;
}

static void buf_reserve(tfr_buf *buf, size_t more) {
    if (more <= buf->cap - buf->len) {
        return;
    }
    if (more > SIZE_MAX / 4 - buf->len) {
        out_of_memory();
    }
    size_t cap = buf->cap ? buf->cap * 2 : 256;
    while (cap - buf->len < more) {
        cap *= 2;
    }
    buf->data = tfr_arena_grow(buf->arena, buf->data, buf->cap, cap);
    buf->cap = cap;
}

void tfr_buf_add(tfr_buf *buf, const char *data, size_t len) {
    if (len) {
        buf_reserve(buf, len);
        memcpy(buf->data + buf->len, data, len);
        buf->len += len;
    }
}

void tfr_buf_format(tfr_buf *buf, const char *format, ...) {
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    int len = formatted_length(format, args);
    va_end(args);
    if (len > 0) {
        buf_reserve(buf, (size_t)len + 1); // vsnprintf also writes a NUL, which is not counted
        (void)vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}
