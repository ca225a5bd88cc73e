// What `tfrewrite cache` does with the folders: list and verify every file, move bad ones aside,
// remove what is old. Readers of other processes are safe at any time: they hold what they opened.
#define _GNU_SOURCE // O_CLOEXEC, DIR on a descriptor
#include "jit/choice.h"
#include "jit/folder.h"
#include "jit/layers.h"
#include "jit/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static bool ends_with(const char *name, const char *end) {
    size_t a = strlen(name), b = strlen(end);
    return a >= b && strcmp(name + a - b, end) == 0;
}

static void read_kernel(tfr_cache_item *item, tfr_str bytes) {
    tfr_entry entry;
    tfr_key key;
    char name[TFR_KEY_NAME_SIZE];
    item->fault = tfr_entry_read(bytes, &entry);
    if (item->fault) {
        return;
    }
    if (!tfr_key_parse(entry.key, &key)) {
        item->fault = "its key does not fit it";
        return;
    }
    item->label = entry.label;
    item->target = entry.target;
    item->compiler = key.compiler;
    item->registers = entry.registers;
    item->shared_bytes = entry.shared_bytes;
    item->block = entry.block;
    tfr_key_name(&key, name);
    if (strcmp(name, item->name) != 0) {
        item->fault = "it holds another kernel than its name says";
    }
}

static void read_choice(tfr_cache_item *item, tfr_str bytes) {
    char name[TFR_CHOICE_FILE_SIZE];
    item->fault = tfr_choice_read(bytes, &item->label, &item->value);
    if (item->fault) {
        return;
    }
    tfr_choice_file(item->label, name);
    if (strcmp(name, item->name) != 0) {
        item->fault = "it holds another choice than its name says";
    }
    size_t prefix = sizeof TFR_CHOICE_COMPILER - 1;
    if (item->label.len > prefix && memcmp(item->label.data, TFR_CHOICE_COMPILER, prefix) == 0) {
        const char *path = item->label.data + prefix;
        const char *space = memchr(path, ' ', item->label.len - prefix);
        item->kind = TFR_CACHE_COMPILER;
        item->label = (tfr_str){path, space ? (size_t)(space - path) : item->label.len - prefix};
    }
}

static tfr_str copy(tfr_arena *arena, tfr_str text) {
    return (tfr_str){tfr_str_dup(arena, text), text.len};
}

// A cache may hold more than memory does: of each file only the small texts are kept.
static void read_file(tfr_arena *arena, int folder, tfr_cache_item *item, bool kernel) {
    struct stat status;
    tfr_str bytes;
    tfr_arena *own = tfr_arena_new();
    size_t max = kernel ? TFR_ENTRY_MAX_BYTES : TFR_CHOICE_MAX_BYTES;
    tfr_file_result result = tfr_file_read(own, folder, item->name, item->read_only, false, max,
                                           &bytes, &status, &item->fault);
    item->bytes = (uint64_t)status.st_size;
    item->used = status.st_mtime;
    if (result == TFR_FILE_MISSING) {
        item->fault = "it was removed just now";
    } else if (result == TFR_FILE_READ && kernel) {
        read_kernel(item, bytes);
    } else if (result == TFR_FILE_READ) {
        read_choice(item, bytes);
    }
    item->label = copy(arena, item->label);
    item->target = copy(arena, item->target);
    item->compiler = copy(arena, item->compiler);
    item->value = copy(arena, item->value);
    tfr_arena_free(own);
}

static void read_item(tfr_arena *arena, int folder, tfr_cache_item *item) {
    bool kernel = ends_with(item->name, ".tfrk"), choice = ends_with(item->name, ".tfrc");
    if (kernel || choice) {
        item->kind = kernel ? TFR_CACHE_KERNEL : TFR_CACHE_CHOICE;
        read_file(arena, folder, item, kernel);
        return;
    }
    struct stat status;
    item->kind = tfr_file_is_leftover(item->name) ? TFR_CACHE_LEFTOVER : TFR_CACHE_BAD;
    if (fstatat(folder, item->name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        item->bytes = (uint64_t)status.st_size;
        item->used = status.st_mtime;
    }
}

static int by_kind_and_label(const void *a, const void *b) {
    const tfr_cache_item *x = a, *y = b;
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    size_t len = x->label.len < y->label.len ? x->label.len : y->label.len;
    int order = len ? memcmp(x->label.data, y->label.data, len) : 0;
    if (order == 0 && x->label.len != y->label.len) {
        order = x->label.len < y->label.len ? -1 : 1;
    }
    order = order ? order : strcmp(x->name, y->name);
    return order ? order : strcmp(x->folder, y->folder);
}

// Opens a folder for its listing; `folder` stays the caller's.
static DIR *open_listing(int folder) {
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    if (!listing && copy >= 0) {
        (void)close(copy);
    }
    return listing;
}

static bool is_ours(const char *name) {
    return ends_with(name, ".tfrk") || ends_with(name, ".tfrc") || ends_with(name, ".bad") ||
           tfr_file_is_leftover(name);
}

static tfr_status list_layer(tfr_arena *arena, const tfr_layer *layer, tfr_cache_listing *out,
                             tfr_error *err) {
    char why[TFR_PATH_SIZE + 128];
    int folder = tfr_folder_open(layer->base, layer->read_only, false, why, sizeof why);
    if (folder < 0) {
        return *why ? tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "kernel cache: %s", why) : TFR_OK;
    }
    const char *path = tfr_str_format(arena, "%s/kernels", layer->base).data;
    DIR *listing = open_listing(folder);
    for (struct dirent *file; listing && (file = readdir(listing));) {
        if (is_ours(file->d_name)) {
            tfr_cache_item *item = TFR_PUSH(arena, out);
            *item = (tfr_cache_item){.read_only = layer->read_only,
                                     .folder = path,
                                     .name = tfr_str_dup(arena, tfr_str_from(file->d_name))};
            read_item(arena, folder, item);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    (void)close(folder);
    return TFR_OK;
}

tfr_status tfr_cache_list(tfr_arena *arena, tfr_cache_listing *out, tfr_error *err) {
    tfr_layer layer;
    tfr_status status = TFR_OK;
    for (size_t i = 0; status == TFR_OK && tfr_layer_at(i, &layer); i++) {
        status = list_layer(arena, &layer, out, err);
    }
    if (out->count) {
        qsort(out->items, out->count, sizeof *out->items, by_kind_and_label);
    }
    return status;
}

size_t tfr_cache_quarantine(const tfr_cache_listing *listing) {
    tfr_layer layer;
    size_t moved = 0;
    int folder = tfr_layer_user(&layer, NULL) ? tfr_layer_open(&layer, false) : -1;
    for (size_t i = 0; folder >= 0 && i < listing->count; i++) {
        const tfr_cache_item *item = &listing->items[i];
        if (item->fault && !item->read_only) {
            tfr_file_quarantine(folder, item->name, NULL);
            moved++;
        }
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    return moved;
}

// ------------------------------------------------------------------ gc
typedef struct old_file {
    char *name;
    uint64_t bytes;
    int64_t used;
} old_file;

static int by_use(const void *a, const void *b) {
    const old_file *x = a, *y = b;
    if (x->used != y->used) {
        return x->used < y->used ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static void sweep(int folder, const char *name, uint64_t bytes, tfr_cache_swept *out) {
    if (unlinkat(folder, name, 0) == 0) {
        out->files++;
        out->bytes += bytes;
    } else if (errno != ENOENT) {
        out->left_files++;
        out->left_bytes += bytes;
    }
}

tfr_status tfr_cache_gc(int64_t max_bytes, int64_t max_age, tfr_cache_swept *out, tfr_error *err) {
    struct {
        old_file *items;
        size_t count, cap;
    } files = {0};
    char why[TFR_PATH_SIZE + 128];
    const char *none;
    tfr_layer layer;
    *out = (tfr_cache_swept){0};
    tfr_scratch_sweep(TFR_LEFTOVER_AGE);
    if (!tfr_layer_user(&layer, &none)) {
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "there is no kernel cache: %s", none);
    }
    int folder = tfr_folder_open(layer.base, false, false, why, sizeof why);
    if (folder < 0) {
        return *why ? tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "kernel cache: %s", why) : TFR_OK;
    }
    tfr_arena *arena = tfr_arena_new();
    int64_t now = time(NULL);
    uint64_t total = 0;
    DIR *listing = open_listing(folder);
    for (struct dirent *file; listing && (file = readdir(listing));) {
        struct stat s;
        if (!is_ours(file->d_name) || fstatat(folder, file->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        uint64_t bytes = (uint64_t)s.st_size;
        bool leftover = tfr_file_is_leftover(file->d_name);
        bool bad = ends_with(file->d_name, ".bad");
        if (bad || (leftover && now - s.st_mtime > TFR_LEFTOVER_AGE) ||
            (!leftover && max_age >= 0 && now - s.st_mtime > max_age)) {
            sweep(folder, file->d_name, bytes, out);
        } else if (!leftover) { // a leftover may be another process's, in the making
            *TFR_PUSH(arena, &files) =
                (old_file){(char *)(uintptr_t)tfr_str_dup(arena, tfr_str_from(file->d_name)), bytes,
                           s.st_mtime};
            total += bytes;
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    if (files.count) {
        qsort(files.items, files.count, sizeof *files.items, by_use);
    }
    for (size_t i = 0; i < files.count; i++) {
        if (max_bytes >= 0 && total > (uint64_t)max_bytes) {
            sweep(folder, files.items[i].name, files.items[i].bytes, out);
            total -= files.items[i].bytes;
        } else {
            out->left_files++;
            out->left_bytes += files.items[i].bytes;
        }
    }
    tfr_arena_free(arena);
    (void)close(folder);
    return TFR_OK;
}
