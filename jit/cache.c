// Entries by key over the layers. What is wrong with an entry never matters to the caller: it is
// moved aside, warned of, and a miss.
#define _GNU_SOURCE // F_OFD_SETLK
#include "jit/cache.h"

#include "jit/folder.h"
#include "jit/layers.h"
#include "jit/warn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOCK_FILE "locks"
#define LOCK_WAIT_MS 5000
#define LOCK_POLL_MS 10

static bool serves(const tfr_entry *entry, const tfr_key *key, tfr_str text, bool any_compiler) {
    tfr_key found;
    if (!any_compiler) {
        return tfr_str_eq(entry->key, text);
    }
    return tfr_key_parse(entry->key, &found) && tfr_str_eq(found.kind, key->kind) &&
           tfr_str_eq(found.abi, key->abi) && tfr_str_eq(found.source, key->source) &&
           tfr_str_eq(found.options, key->options) && tfr_str_eq(found.target, key->target);
}

static bool get_file(tfr_arena *arena, int folder, const tfr_layer *layer, const char *name,
                     const tfr_key *key, tfr_str text, bool any_compiler, tfr_entry *out) {
    tfr_str bytes;
    struct stat status;
    const char *why;
    tfr_file_result result = tfr_file_read(arena, folder, name, layer->read_only, true,
                                           TFR_ENTRY_MAX_BYTES, &bytes, &status, &why);
    if (result == TFR_FILE_MISSING) {
        return false;
    }
    if (result == TFR_FILE_READ) {
        why = tfr_entry_read(bytes, out);
        if (!why && serves(out, key, text, any_compiler)) {
            return true;
        }
        why = why ? why : "it holds another kernel than its name says";
    }
    if (result == TFR_FILE_UNREADABLE) {
        tfr_warn(TFR_WARN_ENTRY, "kernel cache: %s/kernels/%s cannot be read: %s", layer->base,
                 name, why);
        return false;
    }
    if (!layer->read_only) {
        tfr_file_quarantine(folder, name, &status);
    }
    tfr_warn(TFR_WARN_ENTRY, "kernel cache: %s/kernels/%s is not used: %s%s", layer->base, name,
             why, layer->read_only ? "" : "; moved aside as .bad");
    return false;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

// The entry of whatever compiler: the first by name that is sound, so that each process takes the
// same.
static bool get_any(tfr_arena *arena, int folder, const tfr_layer *layer, const char *name,
                    const tfr_key *key, tfr_str text, tfr_entry *out) {
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    struct {
        char (*items)[TFR_KEY_NAME_SIZE];
        size_t count, cap;
    } names = {0};
    if (!listing) {
        if (copy >= 0) {
            (void)close(copy);
        }
        return false;
    }
    for (struct dirent *file; (file = readdir(listing));) {
        if (strncmp(file->d_name, name, TFR_KEY_BASE_LEN + 1) == 0 &&
            strlen(file->d_name) == strlen(name) &&
            strcmp(file->d_name + strlen(name) - 5, ".tfrk") == 0) {
            memcpy(TFR_PUSH(arena, &names), file->d_name, strlen(name) + 1);
        }
    }
    (void)closedir(listing);
    if (names.count) {
        qsort(names.items, names.count, sizeof *names.items, by_name);
    }
    for (size_t i = 0; i < names.count; i++) {
        if (get_file(arena, folder, layer, names.items[i], key, text, true, out)) {
            return true;
        }
    }
    return false;
}

bool tfr_cache_get(tfr_arena *arena, const tfr_key *key, tfr_str text, tfr_cache_layers layers,
                   bool any_compiler, tfr_entry *out) {
    char name[TFR_KEY_NAME_SIZE];
    tfr_layer layer;
    tfr_key_name(key, name);
    for (size_t i = 0; layers != TFR_CACHE_NONE && tfr_layer_at(i, &layer); i++) {
        if (layers == TFR_CACHE_OWN && layer.read_only) {
            continue;
        }
        int folder = tfr_layer_open(&layer, false);
        if (folder < 0) {
            continue;
        }
        bool found = any_compiler ? get_any(arena, folder, &layer, name, key, text, out)
                                  : get_file(arena, folder, &layer, name, key, text, false, out);
        (void)close(folder);
        if (found) {
            return true;
        }
    }
    return false;
}

// Once a process, what killed ones left behind.
static void remove_leftovers(int folder) {
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done)) {
        return;
    }
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    if (!listing) {
        if (copy >= 0) {
            (void)close(copy);
        }
        return;
    }
    for (struct dirent *file; (file = readdir(listing));) {
        struct stat s;
        if (tfr_file_is_leftover(file->d_name) &&
            fstatat(folder, file->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - s.st_mtime > TFR_LEFTOVER_AGE) {
            (void)unlinkat(folder, file->d_name, 0);
        }
    }
    (void)closedir(listing);
}

static int user_folder(tfr_layer *layer, bool create) {
    const char *why;
    if (!tfr_layer_user(layer, &why)) {
        tfr_warn(TFR_WARN_FOLDER, "kernel cache: %s; compiled kernels are kept in memory only",
                 why);
        return -1;
    }
    return tfr_layer_open(layer, create);
}

bool tfr_cache_put(const tfr_key *key, const tfr_entry *entry, char *why, size_t why_size) {
    char name[TFR_KEY_NAME_SIZE];
    tfr_layer layer;
    if (why_size) {
        (void)snprintf(why, why_size, "there is no folder for it");
    }
    if (entry->binary.len + entry->key.len > TFR_ENTRY_MAX_BYTES / 2) {
        return false; // its sizes would not fit the format
    }
    int folder = user_folder(&layer, true);
    if (folder < 0) {
        return false;
    }
    tfr_arena *arena = tfr_arena_new();
    tfr_key_name(key, name);
    int error = tfr_file_write(folder, name, tfr_entry_write(arena, entry));
    tfr_arena_free(arena);
    if (error == EEXIST) {
        error = 0; // another process was first
    }
    if (error) {
        tfr_warn(
            TFR_WARN_NOT_STORED,
            "kernel cache: cannot write to %s/kernels: %s; compiled kernels are kept in memory "
            "only",
            layer.base, strerror(error));
        if (why_size) {
            (void)snprintf(why, why_size, "cannot write to %s/kernels: %s", layer.base,
                           strerror(error));
        }
    } else {
        remove_leftovers(folder);
    }
    (void)close(folder);
    return error == 0;
}

void tfr_cache_reject(const tfr_entry *entry, const char *why) {
    char name[TFR_KEY_NAME_SIZE];
    tfr_layer layer;
    tfr_key key;
    if (!tfr_key_parse(entry->key, &key)) {
        return; // it was found by its key
    }
    tfr_key_name(&key, name);
    tfr_warn(TFR_WARN_ENTRY, "kernel cache: %s is not used: %s", name, why);
    int folder = tfr_layer_user(&layer, NULL) ? tfr_layer_open(&layer, false) : -1;
    if (folder < 0) {
        return;
    }
    // It may be a read-only layer's; then the user's own of that name may be good.
    tfr_arena *arena = tfr_arena_new();
    tfr_entry own;
    tfr_str bytes;
    struct stat status;
    const char *fault;
    if (tfr_file_read(arena, folder, name, false, false, TFR_ENTRY_MAX_BYTES, &bytes, &status,
                      &fault) == TFR_FILE_READ &&
        !tfr_entry_read(bytes, &own) && tfr_str_eq(own.binary, entry->binary)) {
        tfr_file_quarantine(folder, name, &status);
    }
    tfr_arena_free(arena);
    (void)close(folder);
}

// One file for all keys, of which each locks one byte: nothing to clean up. The lock hangs on the
// open file: the system drops it with the process, and threads exclude each other too.
int tfr_cache_lock(const tfr_key *key) {
#if defined(F_OFD_SETLK)
    char name[TFR_KEY_NAME_SIZE], digits[16];
    tfr_layer layer;
    int folder = user_folder(&layer, true);
    if (folder < 0) {
        return -1;
    }
    int fd =
        openat(folder, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    (void)close(folder);
    if (fd < 0) {
        return -1;
    }
    tfr_key_name(key, name);
    memcpy(digits, name, 15);
    digits[15] = 0;
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)strtoull(digits, NULL, 16),
                         .l_len = 1};
    for (int waited = 0; fcntl(fd, F_OFD_SETLK, &lock) != 0; waited += LOCK_POLL_MS) {
        bool held = errno == EAGAIN || errno == EACCES || errno == EINTR;
        if (!held || waited >= LOCK_WAIT_MS) {
            (void)close(fd); // stopped, or a file system without locks: go on without
            return -1;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_MS * 1000000L}, NULL);
    }
    return fd;
#else
    (void)key;
    return -1;
#endif
}

void tfr_cache_unlock(int token) {
    if (token < 0) {
        return;
    }
#if defined(F_OFD_SETLK)
    // By name, as a forked child may hold the open file too.
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    (void)fcntl(token, F_OFD_SETLK, &all);
#endif
    (void)close(token);
}

tfr_status tfr_cache_path(char *out, size_t size, tfr_error *err) {
    tfr_layer layer;
    const char *why;
    if (!tfr_layer_user(&layer, &why)) {
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "there is no kernel cache: %s", why);
    }
    if (snprintf(out, size, "%s/kernels", layer.base) >= (int)size) {
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "the path of the kernel cache is too long");
    }
    return TFR_OK;
}
