// Everything hangs on one open directory: once it is known to be this user's and writable by nobody
// else, what openat finds in it cannot be swapped from outside, whatever happens to the path.
#define _GNU_SOURCE // renameat2, O_CLOEXEC
#include "jit/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TEMP_PREFIX "tmp."
#define DAY 86400

static int refuse(char *why, size_t size, const char *what, const char *path) {
    (void)snprintf(why, size, "%s %s", path, what);
    return -1;
}

static int failed(char *why, size_t size, const char *path) {
    if (errno == ENOENT) {
        (void)snprintf(why, size, "%s", "");
    } else {
        (void)snprintf(why, size, "%s cannot be opened: %s", path, strerror(errno));
    }
    return -1;
}

// mkdir -p with mode 0700. Errors show when the folder is opened.
static void make_folders(const char *path) {
    char part[TFR_PATH_SIZE];
    size_t len = strlen(path);
    if (len >= sizeof part) {
        return;
    }
    for (size_t i = 1; i <= len; i++) {
        if ((path[i] == '/' || path[i] == 0) && path[i - 1] != '/') {
            memcpy(part, path, i);
            part[i] = 0;
            if (mkdir(part, 0700) == 0) {
                (void)chmod(part, 0700); // a umask may have taken the user's own bits
            }
        }
    }
}

static bool others_may_write(const struct stat *s) { return (s->st_mode & 022) != 0; }

int tfr_folder_open(const char *base, bool read_only, bool create, char *why, size_t why_size) {
    char path[TFR_PATH_SIZE];
    struct stat s;
    if (snprintf(path, sizeof path, "%s/kernels", base) >= (int)sizeof path) {
        return refuse(why, why_size, "is too long a path", "it");
    }
    int outer = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (outer < 0 && errno == ENOENT && create) {
        make_folders(base);
        outer = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (outer < 0) {
        failed(why, why_size, base);
        if (create && !*why) {
            (void)refuse(why, why_size, "cannot be made", base);
        }
        return -1;
    }
    int fd = openat(outer, "kernels", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && create) {
        if (mkdirat(outer, "kernels", 0700) == 0) {
            (void)fchmodat(outer, "kernels", 0700, 0);
        } else if (errno != EEXIST) {
            (void)snprintf(why, why_size, "%s cannot be made: %s", path, strerror(errno));
            (void)close(outer);
            return -1;
        }
        fd = openat(outer, "kernels", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        int error = errno;
        if ((error == ELOOP || error == ENOTDIR) &&
            fstatat(outer, "kernels", &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode)) {
            (void)refuse(why, why_size, "is a symbolic link", path);
        } else {
            errno = error;
            failed(why, why_size, path);
        }
        (void)close(outer);
        return -1;
    }
    const char *fault = NULL;
    bool inside = false;
    uid_t me = geteuid();
    if (fstat(outer, &s) != 0 || (s.st_uid != me && s.st_uid != 0)) {
        fault = "belongs to another user";
    } else if (others_may_write(&s) && !(s.st_mode & S_ISVTX)) {
        fault = "can be written by others; chmod go-w it";
    } else {
        inside = true;
        if (fstat(fd, &s) != 0 || (s.st_uid != me && !(read_only && s.st_uid == 0))) {
            fault = "belongs to another user";
        } else if (others_may_write(&s)) {
            fault = "can be written by others; chmod go-w it";
        }
    }
    (void)close(outer);
    if (fault) {
        (void)close(fd);
        return refuse(why, why_size, fault, inside ? path : base);
    }
    return fd;
}

bool tfr_read_all(tfr_arena *arena, int fd, size_t size, tfr_str *bytes) {
    char *data = tfr_arena_alloc(arena, size + 1);
    size_t have = 0;
    while (have < size) {
        ssize_t n = read(fd, data + have, size - have);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        if (n == 0) {
            break; // cut off meanwhile: the reader of the format will say so
        }
        have += (size_t)n;
    }
    *bytes = (tfr_str){data, have};
    return true;
}

tfr_file_result tfr_file_read(tfr_arena *arena, int folder, const char *name, bool read_only,
                              bool touch, size_t max, tfr_str *bytes, struct stat *status,
                              const char **why) {
    memset(status, 0, sizeof *status);
    *why = NULL;
    // O_NONBLOCK: opening a planted FIFO would wait for a writer.
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        int error = errno;
        if (error == ENOENT) {
            return TFR_FILE_MISSING;
        }
        if (fstatat(folder, name, status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status->st_mode)) {
            *why = S_ISLNK(status->st_mode) ? "it is a symbolic link" : "it is no regular file";
            return TFR_FILE_SUSPECT;
        }
        *why = strerror(error); // EBUSY, ESTALE, EACCES: perhaps another time
        return TFR_FILE_UNREADABLE;
    }
    tfr_file_result result = TFR_FILE_SUSPECT;
    if (fstat(fd, status) != 0) {
        *why = strerror(errno);
        result = TFR_FILE_UNREADABLE;
    } else if (!S_ISREG(status->st_mode)) {
        *why = "it is no regular file";
    } else if (status->st_uid != geteuid() && !(read_only && status->st_uid == 0)) {
        *why = "it belongs to another user";
    } else if (others_may_write(status)) {
        *why = "others may write to it";
    } else if (status->st_size < 0 || (uint64_t)status->st_size > max) {
        *why = "it is too large";
    } else if (!tfr_read_all(arena, fd, (size_t)status->st_size, bytes)) {
        *why = strerror(errno);
        result = TFR_FILE_UNREADABLE;
    } else {
        result = TFR_FILE_READ;
        if (touch && !read_only && time(NULL) - status->st_mtime > DAY) {
            (void)futimens(fd, NULL);
        }
    }
    (void)close(fd);
    return result;
}

int tfr_write_all(int fd, tfr_str bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        bytes.len > limit.rlim_cur) {
        return EFBIG; // writing would raise SIGXFSZ, which ends the program
    }
    while (bytes.len) {
        ssize_t n = write(fd, bytes.data, bytes.len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? errno : EIO;
        }
        bytes.data += n;
        bytes.len -= (size_t)n;
    }
    return 0;
}

static int rename_if_free(int folder, const char *from, const char *to) {
#if defined(SYS_renameat2)
#define NO_REPLACE 1u
    if (syscall(SYS_renameat2, folder, from, folder, to, NO_REPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EPERM) {
        return errno;
    }
#endif
    // NFS and old kernels. Two winners at once are harmless: their bytes are the same.
    if (faccessat(folder, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return EEXIST;
    }
    return renameat(folder, from, folder, to) == 0 ? 0 : errno;
}

int tfr_file_write(int folder, const char *name, tfr_str bytes) {
    static atomic_uint count; // two threads of one process
    char temp[96];
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(temp, sizeof temp, TEMP_PREFIX "%ld.%u.%lx%lx", (long)getpid(),
                   atomic_fetch_add(&count, 1), (unsigned long)now.tv_sec,
                   (unsigned long)now.tv_nsec);
    int fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno == EEXIST ? EBUSY : errno; // EEXIST would mean that NAME is there
    }
    int error = fchmod(fd, 0600) == 0 ? 0 : errno; // whatever the umask
    error = error ? error : tfr_write_all(fd, bytes);
    if (!error && fsync(fd) != 0 && errno != EINVAL && errno != EINTR) {
        error = errno;
    }
    if (close(fd) != 0 && !error && errno != EINTR) {
        error = errno; // a quota of NFS shows here
    }
    error = error ? error : rename_if_free(folder, temp, name);
    if (error) {
        (void)unlinkat(folder, temp, 0);
    }
    return error;
}

void tfr_file_quarantine(int folder, const char *name, const struct stat *status) {
    struct stat now;
    char bad[256]; // the longest name
    if (fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) != 0 ||
        (status && (now.st_ino != status->st_ino || now.st_dev != status->st_dev))) {
        return; // gone, or another process has put a good one there
    }
    if (snprintf(bad, sizeof bad, "%s.bad", name) < (int)sizeof bad) {
        if (renameat(folder, name, folder, bad) == 0) {
            return;
        }
        // An earlier one may be of another kind: a directory does not replace a file.
        (void)unlinkat(folder, bad, 0);
        (void)unlinkat(folder, bad, AT_REMOVEDIR);
        if (renameat(folder, name, folder, bad) == 0) {
            return;
        }
    }
    (void)unlinkat(folder, name, 0);
}

bool tfr_file_is_leftover(const char *name) {
    return strncmp(name, TEMP_PREFIX, sizeof TEMP_PREFIX - 1) == 0;
}
