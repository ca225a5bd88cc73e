// Nothing here knows what is in a file. Folders are walked with explicit lists, real ones before
// links, so that the result does not depend on the order in which a file system lists them.
#include "cli/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool tfr_files_is_dir(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool tfr_files_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool tfr_files_same(const char *a, const char *b) {
    struct stat x;
    struct stat y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// --- finding ---

typedef struct file_id {
    dev_t dev;
    ino_t ino;
    bool used;
} file_id;

typedef struct id_set {
    file_id *slots;
    size_t count, cap; // cap: a power of two
} id_set;

typedef struct path_list {
    const char **items;
    size_t count, cap;
} path_list;

typedef struct walk {
    tfr_arena *arena;
    tfr_found *out;
    id_set seen;       // folders entered and files taken
    path_list folders; // to enter
    path_list links;   // to resolve once no real folder is left
} walk;

static file_id *find_slot(file_id *slots, size_t cap, dev_t dev, ino_t ino) {
    uint64_t hash = ((uint64_t)ino * UINT64_C(0x9e3779b97f4a7c15)) ^ (uint64_t)dev;
    size_t at = (size_t)(hash >> 20) & (cap - 1);
    while (slots[at].used && (slots[at].dev != dev || slots[at].ino != ino)) {
        at = (at + 1) & (cap - 1);
    }
    return &slots[at];
}

// False: it was there already.
static bool add_id(id_set *set, const struct stat *info, tfr_arena *arena) {
    if (2 * set->count >= set->cap) {
        size_t cap = set->cap ? set->cap * 2 : 64;
        file_id *slots = TFR_NEW_ARRAY(arena, file_id, cap);
        for (size_t i = 0; i < set->cap; i++) {
            if (set->slots[i].used) {
                *find_slot(slots, cap, set->slots[i].dev, set->slots[i].ino) = set->slots[i];
            }
        }
        set->slots = slots;
        set->cap = cap;
    }
    file_id *slot = find_slot(set->slots, set->cap, info->st_dev, info->st_ino);
    if (slot->used) {
        return false;
    }
    *slot = (file_id){info->st_dev, info->st_ino, true};
    set->count++;
    return true;
}

static bool is_modeling(const char *name) {
    size_t len = strlen(name);
    return len > 12 && memcmp(name, "modeling_", 9) == 0 && strcmp(name + len - 3, ".py") == 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void walk_error(walk *w, const char *path, int code) {
    tfr_error *err = TFR_PUSH(w->arena, &w->out->errors);
    (void)tfr_fail(err, TFR_E_USAGE, path, 0, 0, "cannot read this folder: %s", strerror(code));
}

static void take_entry(walk *w, const char *folder, const char *name) {
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return;
    }
    size_t len = strlen(folder);
    const char *slash = len && folder[len - 1] == '/' ? "" : "/";
    const char *path = strcmp(folder, ".") == 0
                           ? tfr_str_dup(w->arena, tfr_str_from(name))
                           : tfr_str_format(w->arena, "%s%s%s", folder, slash, name).data;
    struct stat info;
    if (lstat(path, &info) != 0) {
        return; // gone since the folder was listed
    }
    if (S_ISLNK(info.st_mode)) {
        *TFR_PUSH(w->arena, &w->links) = path;
    } else if (S_ISDIR(info.st_mode)) {
        *TFR_PUSH(w->arena, &w->folders) = path;
    } else if (S_ISREG(info.st_mode) && is_modeling(name)) {
        (void)add_id(&w->seen, &info, w->arena); // hard links are files of their own: take each
        *TFR_PUSH(w->arena, &w->out->files) = path;
    }
}

static void enter_folder(walk *w, const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        walk_error(w, path, errno);
        return;
    }
    if (!add_id(&w->seen, &info, w->arena)) {
        return;
    }
    DIR *dir = opendir(path);
    if (!dir) {
        walk_error(w, path, errno);
        return;
    }
    errno = 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        // Most entries are neither folders nor wanted: no further call for those.
        bool may_matter = is_modeling(entry->d_name);
#ifdef DT_DIR
        may_matter |= entry->d_type == DT_DIR || entry->d_type == DT_LNK;
        may_matter |= entry->d_type == DT_UNKNOWN;
#else
        may_matter = true;
#endif
        if (may_matter) {
            take_entry(w, path, entry->d_name);
        }
        errno = 0;
    }
    if (errno) {
        walk_error(w, path, errno);
    }
    (void)closedir(dir);
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_paths(const char **items, size_t count) {
    if (count) {
        qsort(items, count, sizeof *items, by_path);
    }
}

static void resolve_link(walk *w, const char *path) {
    struct stat info;
    bool wanted = is_modeling(base_name(path));
    if (stat(path, &info) != 0) {
        if (wanted) {
            *TFR_PUSH(w->arena, &w->out->files) = path; // reading it will say what is wrong
        }
    } else if (S_ISDIR(info.st_mode)) {
        *TFR_PUSH(w->arena, &w->folders) = path;
    } else if (S_ISREG(info.st_mode) && wanted && add_id(&w->seen, &info, w->arena)) {
        *TFR_PUSH(w->arena, &w->out->files) = path;
    }
}

void tfr_files_find(tfr_found *out, const char *root, const char *skip, tfr_arena *arena) {
    walk w = {.arena = arena, .out = out};
    size_t first = out->files.count;
    struct stat info;
    if (skip && stat(skip, &info) == 0) {
        (void)add_id(&w.seen, &info, arena);
    }
    *TFR_PUSH(arena, &w.folders) = root;
    while (w.folders.count || w.links.count) {
        if (w.folders.count) {
            enter_folder(&w, w.folders.items[--w.folders.count]);
            continue;
        }
        path_list links = w.links;
        w.links = (path_list){0};
        sort_paths(links.items, links.count);
        for (size_t i = links.count; i-- > 0;) {
            resolve_link(&w, links.items[i]); // the last pushed is the first entered
        }
    }
    sort_paths(out->files.items + first, out->files.count - first);
}

// --- writing ---

tfr_status tfr_files_put(int fd, const char *name, tfr_str bytes, tfr_error *err) {
    size_t done = 0;
    while (done < bytes.len) {
        ssize_t n = write(fd, bytes.data + done, bytes.len - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return tfr_fail(err, TFR_E_USAGE, name, 0, 0, "cannot write: %s",
                            n ? strerror(errno) : "nothing was taken");
        }
        done += (size_t)n;
    }
    return TFR_OK;
}

static tfr_status fail_write(tfr_error *err, const char *path, const char *what, int code) {
    return tfr_fail(err, TFR_E_USAGE, path, 0, 0, "cannot write: %s%s; nothing was changed", what,
                    strerror(code));
}

static mode_t default_mode(const char *like) {
    mode_t mask = umask(0); // the only way to ask for it; this program has one thread
    (void)umask(mask);
    struct stat info;
    mode_t mode = like && stat(like, &info) == 0 && S_ISREG(info.st_mode) ? info.st_mode : 0666;
    return mode & 0777 & ~mask;
}

// After the contents, and owner first: writing and changing the owner clear the set-id bits. An
// owner that cannot be given is no reason to fail, but set-id bits must not pass to another owner.
static int set_mode(int fd, const struct stat *old, mode_t mode) {
    struct stat now;
    bool other =
        old && fstat(fd, &now) == 0 && (now.st_uid != old->st_uid || now.st_gid != old->st_gid);
    if (other && fchown(fd, old->st_uid, old->st_gid) != 0) {
        mode &= 0777;
    }
    return fchmod(fd, mode);
}

static void sync_folder(const char *folder) {
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); // the file is complete either way; this is for a power cut
        (void)close(fd);
    }
}

// Fills the temporary file and puts it in the place of `target`. Gives back 0 or an errno.
static int fill_and_rename(int fd, const char *temporary, const char *target, tfr_str bytes,
                           const struct stat *old, mode_t mode) {
    tfr_error unused;
    int code = 0;
    errno = 0;
    if (tfr_files_put(fd, "", bytes, &unused) != TFR_OK || set_mode(fd, old, mode) != 0) {
        code = errno ? errno : EIO;
    } else if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) {
        code = errno;
    }
    if (close(fd) != 0 && !code) {
        code = errno;
    }
    if (!code && rename(temporary, target) != 0) {
        code = errno;
    }
    if (code) {
        (void)unlink(temporary);
    }
    return code;
}

// Signals that end the program wait until the temporary file is renamed or gone.
static tfr_status replace(const char *path, const char *target, tfr_str bytes,
                          const struct stat *old, mode_t mode, tfr_error *err) {
    char folder[PATH_MAX];
    char temporary[PATH_MAX];
    const char *slash = strrchr(target, '/');
    size_t len = slash ? (size_t)(slash - target) + (slash == target) : 1;
    if (len >= sizeof folder) {
        return fail_write(err, path, "", ENAMETOOLONG);
    }
    memcpy(folder, slash ? target : ".", len);
    folder[len] = 0;
    int n = snprintf(temporary, sizeof temporary, "%s/.tfrewrite-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof temporary) {
        return fail_write(err, path, "", ENAMETOOLONG);
    }
    sigset_t ending;
    sigset_t before;
    (void)sigemptyset(&ending);
    (void)sigaddset(&ending, SIGHUP);
    (void)sigaddset(&ending, SIGINT);
    (void)sigaddset(&ending, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ending, &before);
    int fd = mkstemp(temporary);
    const char *what = fd < 0 ? "no new file in its folder: " : "";
    int code = fd < 0 ? errno : fill_and_rename(fd, temporary, target, bytes, old, mode);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (code) {
        return fail_write(err, path, what, code);
    }
    sync_folder(folder);
    return TFR_OK;
}

static tfr_status write_device(const char *path, tfr_str bytes, tfr_error *err) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail_write(err, path, "", errno);
    }
    tfr_status status = tfr_files_put(fd, path, bytes, err);
    if (close(fd) != 0 && !status) {
        return fail_write(err, path, "", errno);
    }
    return status;
}

tfr_status tfr_files_write(const char *path, tfr_str bytes, const char *like, tfr_error *err) {
    struct stat old;
    if (stat(path, &old) != 0) {
        if (errno != ENOENT) {
            return fail_write(err, path, "", errno);
        }
        if (lstat(path, &old) == 0) {
            return tfr_fail(err, TFR_E_USAGE, path, 0, 0,
                            "cannot write: it is a link to something that does not exist");
        }
        return replace(path, path, bytes, NULL, default_mode(like), err);
    }
    if (S_ISDIR(old.st_mode)) {
        return fail_write(err, path, "", EISDIR);
    }
    if (!S_ISREG(old.st_mode)) {
        return write_device(path, bytes, err);
    }
    char target[PATH_MAX];
    if (!realpath(path, target)) {
        return fail_write(err, path, "", errno);
    }
    // Replacing needs no permission on the file itself; its mode says all the same what its owner
    // wants.
    if (access(target, W_OK) != 0) {
        return fail_write(err, path, "", errno);
    }
    return replace(path, target, bytes, &old, old.st_mode & 07777, err);
}

tfr_status tfr_files_make_parents(const char *path, tfr_error *err) {
    char folder[PATH_MAX];
    size_t len = strlen(path);
    if (len >= sizeof folder) {
        return fail_write(err, path, "", ENAMETOOLONG);
    }
    memcpy(folder, path, len + 1);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
            return tfr_fail(err, TFR_E_USAGE, folder, 0, 0, "cannot make this folder: %s",
                            strerror(errno));
        }
        *slash = '/';
    }
    return TFR_OK;
}
