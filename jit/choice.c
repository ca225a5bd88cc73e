// Choices: one small file each, named by the hash of the choice's name. The first writer wins by
// the same rename as an entry's; whoever comes later reads what won. Within a process a choice,
// once read or made, holds in a list that only grows, so no lock is needed and fork is harmless.
#define _GNU_SOURCE // O_CLOEXEC
#include "jit/choice.h"

#include "jit/folder.h"
#include "jit/layers.h"
#include "jit/sha256.h"
#include "jit/warn.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define FIRST_LINE "tfrewrite choice 1\n"

typedef struct remembered {
    struct remembered *next;
    tfr_str name, value;
    char text[];
} remembered;

static _Atomic(remembered *) memory;

static bool recall(tfr_str name, char *out, size_t size) {
    for (remembered *r = atomic_load(&memory); r; r = r->next) {
        if (tfr_str_eq(r->name, name)) {
            (void)snprintf(out, size, "%.*s", (int)r->value.len, r->value.data);
            return true;
        }
    }
    return false;
}

// Two threads at once may both add one: both find the newer from then on.
static void remember(tfr_str name, const char *value) {
    size_t len = strlen(value);
    remembered *r = tfr_alloc(sizeof *r + name.len + len);
    if (name.len) {
        memcpy(r->text, name.data, name.len);
    }
    memcpy(r->text + name.len, value, len);
    r->name = (tfr_str){r->text, name.len};
    r->value = (tfr_str){r->text + name.len, len};
    r->next = atomic_load(&memory);
    while (!atomic_compare_exchange_weak(&memory, &r->next, r)) {
    }
}

tfr_str tfr_choice_compiler(const char *path, const struct stat *s, char *out, size_t size) {
    int len = snprintf(out, size, TFR_CHOICE_COMPILER "%s %llu:%llu %lld %lld.%09ld", path,
                       (unsigned long long)s->st_dev, (unsigned long long)s->st_ino,
                       (long long)s->st_size, (long long)s->st_mtim.tv_sec, s->st_mtim.tv_nsec);
    return (tfr_str){out, len < (int)size ? (size_t)len : size - 1};
}

void tfr_choice_file(tfr_str name, char *out) {
    uint8_t digest[TFR_SHA256_SIZE];
    char hex[TFR_SHA256_HEX];
    tfr_sha256_of(name.data, name.len, digest);
    tfr_sha256_hex(digest, hex);
    (void)snprintf(out, TFR_CHOICE_FILE_SIZE, "%.32s.tfrc", hex);
}

tfr_str tfr_choice_write(tfr_arena *arena, tfr_str name, tfr_str value) {
    tfr_buf out = {.arena = arena};
    uint8_t digest[TFR_SHA256_SIZE];
    char hex[TFR_SHA256_HEX];
    tfr_buf_add(&out, FIRST_LINE, sizeof FIRST_LINE - 1);
    tfr_field_add(&out, "name", name);
    tfr_field_add(&out, "value", value);
    tfr_sha256_of(out.data, out.len, digest);
    tfr_sha256_hex(digest, hex);
    tfr_field_add(&out, "sha256", tfr_str_from(hex));
    return tfr_buf_str(&out);
}

const char *tfr_choice_read(tfr_str bytes, tfr_str *name, tfr_str *value) {
    size_t first = sizeof FIRST_LINE - 1;
    if (bytes.len < first || memcmp(bytes.data, FIRST_LINE, first) != 0) {
        return "it is no choice";
    }
    tfr_str rest = {bytes.data + first, bytes.len - first}, sum;
    if (!tfr_field_take(&rest, "name", name) || !tfr_field_take(&rest, "value", value)) {
        return "it is cut off";
    }
    size_t body = bytes.len - rest.len;
    uint8_t digest[TFR_SHA256_SIZE];
    char hex[TFR_SHA256_HEX];
    tfr_sha256_of(bytes.data, body, digest);
    tfr_sha256_hex(digest, hex);
    if (!tfr_field_take(&rest, "sha256", &sum) || rest.len || !tfr_str_eq(sum, tfr_str_from(hex))) {
        return "its checksum is wrong";
    }
    if (name->len > TFR_CHOICE_MAX || value->len > TFR_CHOICE_MAX ||
        (value->len && memchr(value->data, 0, value->len))) {
        return "it is too long";
    }
    return NULL;
}

static bool read_from(const tfr_layer *layer, int folder, tfr_str name, char *out, size_t size) {
    char file[TFR_CHOICE_FILE_SIZE];
    tfr_str bytes, found, value;
    struct stat status;
    const char *why;
    bool good = false;
    tfr_arena *arena = tfr_arena_new();
    tfr_choice_file(name, file);
    tfr_file_result result = tfr_file_read(arena, folder, file, layer->read_only, true,
                                           TFR_CHOICE_MAX_BYTES, &bytes, &status, &why);
    if (result == TFR_FILE_READ) {
        why = tfr_choice_read(bytes, &found, &value);
        if (!why && !tfr_str_eq(found, name)) {
            why = "it holds another choice than its name says";
        }
        good = !why;
    }
    if (good) {
        (void)snprintf(out, size, "%.*s", (int)value.len, value.data);
    } else if (result == TFR_FILE_READ || result == TFR_FILE_SUSPECT) {
        if (!layer->read_only) {
            tfr_file_quarantine(folder, file, &status);
        }
        tfr_warn(TFR_WARN_ENTRY, "kernel cache: %s/kernels/%s is not used: %s%s", layer->base, file,
                 why, layer->read_only ? "" : "; moved aside as .bad");
    }
    tfr_arena_free(arena);
    return good;
}

bool tfr_choice_get(tfr_str name, char *out, size_t size) {
    char value[TFR_CHOICE_MAX + 1];
    tfr_layer layer;
    if (recall(name, out, size)) {
        return true;
    }
    for (size_t i = 0; tfr_layer_at(i, &layer); i++) {
        int folder = tfr_layer_open(&layer, false);
        if (folder < 0) {
            continue;
        }
        bool found = read_from(&layer, folder, name, value, sizeof value);
        (void)close(folder);
        if (found) {
            remember(name, value);
            return recall(name, out, size);
        }
    }
    return false;
}

void tfr_choice_put(tfr_str name, tfr_str value, char *out, size_t size) {
    char file[TFR_CHOICE_FILE_SIZE], mine[TFR_CHOICE_MAX + 1], now[TFR_CHOICE_MAX + 1];
    tfr_layer layer;
    bool kept = tfr_choice_get(name, now, sizeof now);
    if (!kept) {
        size_t len = value.len > TFR_CHOICE_MAX ? TFR_CHOICE_MAX : value.len;
        (void)snprintf(mine, sizeof mine, "%.*s", (int)len, value.data);
        int folder = tfr_layer_user(&layer, NULL) ? tfr_layer_open(&layer, true) : -1;
        if (folder >= 0 && name.len <= TFR_CHOICE_MAX) {
            tfr_arena *arena = tfr_arena_new();
            tfr_choice_file(name, file);
            int error =
                tfr_file_write(folder, file, tfr_choice_write(arena, name, tfr_str_from(mine)));
            kept = error == EEXIST && read_from(&layer, folder, name, now, sizeof now);
            tfr_arena_free(arena);
        }
        if (folder >= 0) {
            (void)close(folder);
        }
        remember(name, kept ? now : mine);
    }
    if (out && !recall(name, out, size)) {
        (void)snprintf(out, size, "%.*s", (int)value.len, value.data);
    }
}
