// A head, the entries one after the other behind their sizes, and the SHA-256 of all before it. The
// order is that of the names that the entries' keys give them, so a bundle has one spelling only.
#define _GNU_SOURCE // O_CLOEXEC
#include "jit/bundle.h"

#include "jit/bytes.h"
#include "jit/cubin.h"
#include "jit/folder.h"
#include "jit/key.h"
#include "jit/layers.h"
#include "jit/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAGIC "TFRBNDL\n"
#define VERSION 1u
#define HEAD_SIZE 16u // magic, version 8, number of entries 12

static void add32(tfr_buf *out, uint32_t value) {
    uint8_t bytes[4];
    tfr_put32(bytes, value);
    tfr_buf_add(out, (const char *)bytes, sizeof bytes);
}

// ------------------------------------------------------------------ the format
tfr_str tfr_bundle_write(tfr_arena *arena, const tfr_str *entries, size_t count) {
    tfr_buf out = {.arena = arena};
    uint8_t digest[TFR_SHA256_SIZE];
    tfr_buf_add(&out, MAGIC, 8);
    add32(&out, VERSION);
    add32(&out, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        add32(&out, (uint32_t)entries[i].len);
        tfr_buf_add_str(&out, entries[i]);
    }
    tfr_sha256_of(out.data, out.len, digest);
    tfr_buf_add(&out, (const char *)digest, sizeof digest);
    return tfr_buf_str(&out);
}

// Reads a whole entry, and the name that its file has. What it is for must be what it says, as far
// as this version knows the target.
static const char *read_entry(tfr_str bytes, tfr_key *key, char name[TFR_KEY_NAME_SIZE]) {
    tfr_entry entry;
    tfr_cubin cubin;
    const char *fault = tfr_entry_read(bytes, &entry);
    if (fault) {
        return fault;
    }
    if (!tfr_key_parse(entry.key, key)) {
        return "its key does not fit it";
    }
    tfr_key_name(key, name);
    bool cuda = tfr_str_eq(key->kind, TFR_STR("cuda"));
    const tfr_cuda_target *target = cuda ? tfr_cuda_target_find(key->target) : NULL;
    if (!cuda && !tfr_str_eq(key->kind, TFR_STR("host"))) {
        return "it is of an unknown kind";
    }
    return target ? tfr_cubin_check(entry.binary, target, &cubin) : NULL;
}

const char *tfr_bundle_read(tfr_arena *arena, tfr_str bytes, tfr_bundle *out) {
    char before[TFR_KEY_NAME_SIZE] = "", name[TFR_KEY_NAME_SIZE];
    uint8_t digest[TFR_SHA256_SIZE];
    tfr_key key;
    *out = (tfr_bundle){0};
    if (bytes.len < 8 || memcmp(bytes.data, MAGIC, 8) != 0) {
        return "it is no bundle of kernels";
    }
    if (bytes.len < HEAD_SIZE + TFR_SHA256_SIZE) {
        return "it is cut off";
    }
    if (tfr_get32(bytes.data + 8) != VERSION) {
        return "it has another format version";
    }
    size_t count = tfr_get32(bytes.data + 12), left = bytes.len - HEAD_SIZE - TFR_SHA256_SIZE;
    const char *at = bytes.data + HEAD_SIZE;
    tfr_sha256_of(bytes.data, bytes.len - TFR_SHA256_SIZE, digest);
    if (memcmp(digest, at + left, TFR_SHA256_SIZE) != 0) {
        return "its checksum is wrong";
    }
    if (count > left / 4) {
        return "its sizes do not add up"; // before memory is taken for so many
    }
    out->entries = TFR_NEW_ARRAY(arena, tfr_str, count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t len = left >= 4 ? tfr_get32(at) : SIZE_MAX;
        if (left < 4 || len > left - 4) {
            return "its sizes do not add up";
        }
        tfr_str entry = {at + 4, len};
        const char *fault = read_entry(entry, &key, name);
        if (fault || strcmp(before, name) >= 0) {
            return fault ? fault : "its kernels are not in order";
        }
        memcpy(before, name, sizeof before);
        out->entries[out->count++] = entry;
        at += 4 + len;
        left -= 4 + len;
    }
    return left ? "its sizes do not add up" : NULL;
}

// ------------------------------------------------------------------ packing
typedef struct found {
    char name[TFR_KEY_NAME_SIZE];
    tfr_str bytes;
} found;

typedef struct found_list {
    found *items;
    size_t count, cap;
} found_list;

static bool is_wanted(const tfr_key *key, const tfr_str *targets, size_t count) {
    bool host = tfr_str_eq(key->kind, TFR_STR("host"));
    for (size_t i = 0; i < count; i++) {
        if (tfr_str_eq(targets[i], host ? TFR_STR("host") : key->target)) {
            return true;
        }
    }
    return count == 0;
}

static bool has(const found_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void collect_layer(tfr_arena *arena, int folder, bool read_only, const tfr_str *targets,
                          size_t target_count, found_list *list, size_t *left_out) {
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *file; listing && (file = readdir(listing));) {
        size_t len = strlen(file->d_name);
        struct stat status;
        const char *why;
        tfr_key key;
        found one;
        if (len < 5 || strcmp(file->d_name + len - 5, ".tfrk") != 0 || has(list, file->d_name)) {
            continue;
        }
        if (tfr_file_read(arena, folder, file->d_name, read_only, false, TFR_ENTRY_MAX_BYTES,
                          &one.bytes, &status, &why) != TFR_FILE_READ ||
            read_entry(one.bytes, &key, one.name) || strcmp(one.name, file->d_name) != 0) {
            (*left_out)++;
        } else if (is_wanted(&key, targets, target_count)) {
            *TFR_PUSH(arena, list) = one;
        }
    }
    if (listing) {
        (void)closedir(listing);
    } else if (copy >= 0) {
        (void)close(copy);
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const found *)a)->name, ((const found *)b)->name);
}

tfr_status tfr_bundle_pack(tfr_arena *arena, const tfr_str *targets, size_t target_count,
                           tfr_str *out, size_t *kernels, size_t *left_out, tfr_error *err) {
    found_list list = {0};
    tfr_layer layer;
    size_t total = 0;
    *left_out = 0;
    for (size_t i = 0; tfr_layer_at(i, &layer); i++) {
        int folder = tfr_layer_open(&layer, false);
        if (folder >= 0) {
            collect_layer(arena, folder, layer.read_only, targets, target_count, &list, left_out);
            (void)close(folder);
        }
    }
    *kernels = list.count;
    if (!list.count) {
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0,
                        "the kernel cache holds no kernel to pack%s; see `tfrewrite cache ls`",
                        target_count ? " for these architectures" : "");
    }
    qsort(list.items, list.count, sizeof *list.items, by_name);
    tfr_str *entries = TFR_NEW_ARRAY(arena, tfr_str, list.count);
    for (size_t i = 0; i < list.count; i++) {
        entries[i] = list.items[i].bytes;
        total += 4 + entries[i].len;
    }
    if (total > TFR_BUNDLE_MAX_BYTES - HEAD_SIZE - TFR_SHA256_SIZE) {
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0,
                        "the kernels are more than %zu MiB, the limit of a bundle; --arch chooses",
                        TFR_BUNDLE_MAX_BYTES >> 20);
    }
    *out = tfr_bundle_write(arena, entries, list.count);
    return TFR_OK;
}

// ------------------------------------------------------------------ unpacking
static tfr_status read_bundle(tfr_arena *arena, const char *path, tfr_bundle *out, tfr_error *err) {
    struct stat s;
    tfr_str bytes;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &s) != 0) {
        int error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return tfr_fail(err, TFR_E_USAGE, path, 0, 0, "cannot read it: %s", strerror(error));
    }
    const char *fault = NULL;
    if (!S_ISREG(s.st_mode)) {
        fault = "it is no regular file";
    } else if ((uint64_t)s.st_size > TFR_BUNDLE_MAX_BYTES) {
        fault = "it is too large";
    } else if (!tfr_read_all(arena, fd, (size_t)s.st_size, &bytes)) {
        fault = strerror(errno);
    }
    (void)close(fd);
    fault = fault ? fault : tfr_bundle_read(arena, bytes, out);
    return fault ? tfr_fail(err, TFR_E_USAGE, path, 0, 0, "not unpacked: %s", fault) : TFR_OK;
}

static bool is_sound(int folder, const char *name) {
    struct stat status;
    const char *why;
    tfr_str bytes;
    tfr_key key;
    char right[TFR_KEY_NAME_SIZE];
    tfr_arena *arena = tfr_arena_new();
    bool sound = tfr_file_read(arena, folder, name, false, false, TFR_ENTRY_MAX_BYTES, &bytes,
                               &status, &why) == TFR_FILE_READ &&
                 !read_entry(bytes, &key, right) && strcmp(name, right) == 0;
    tfr_arena_free(arena);
    return sound;
}

// 0, or an errno; EEXIST: there is a sound one.
static int store(int folder, tfr_str entry) {
    tfr_key key;
    char name[TFR_KEY_NAME_SIZE];
    (void)read_entry(entry, &key, name); // for the name: it is sound
    int error = tfr_file_write(folder, name, entry);
    if (error == EEXIST && !is_sound(folder, name)) {
        tfr_file_quarantine(folder, name, NULL);
        error = tfr_file_write(folder, name, entry);
    }
    return error;
}

static int open_target(const char *base, char *why, size_t why_size) {
    tfr_layer layer;
    const char *none;
    if (!base && !tfr_layer_user(&layer, &none)) {
        (void)snprintf(why, why_size, "%s", none);
        return -1;
    }
    return tfr_folder_open(base ? base : layer.base, false, true, why, why_size);
}

tfr_status tfr_bundle_unpack(const char *path, const char *base, size_t *stored, size_t *kept,
                             tfr_error *err) {
    char why[TFR_PATH_SIZE + 128];
    tfr_bundle bundle;
    *stored = *kept = 0;
    tfr_arena *arena = tfr_arena_new();
    tfr_status status = read_bundle(arena, path, &bundle, err);
    int folder = status ? -1 : open_target(base, why, sizeof why);
    if (!status && folder < 0) {
        status = tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "kernel cache: %s", why);
    }
    for (size_t i = 0; !status && i < bundle.count; i++) {
        int error = store(folder, bundle.entries[i]);
        *stored += error == 0;
        *kept += error == EEXIST;
        if (error && error != EEXIST) {
            status = tfr_fail(err, TFR_E_USAGE, NULL, 0, 0,
                              "kernel cache: cannot write: %s; %zu of %zu kernels are unpacked",
                              strerror(error), i, bundle.count);
        }
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    tfr_arena_free(arena);
    return status;
}
