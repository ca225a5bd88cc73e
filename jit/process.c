// posix_spawn, as a fork would copy the page tables of a large Python process. No signal handler is
// installed and none relied on: another part of the program may take our child's exit status (a
// handler of SIGCHLD, os.wait()), so that is no error here.
#define _GNU_SOURCE // pipe2, POSIX_SPAWN_*, nftw
#include "jit/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 20

typedef struct running {
    struct running *next;
    pid_t pid;
} running;

// What to kill and remove at exit. The nodes are on the stacks of the threads that wait for them.
static struct {
    pthread_mutex_t lock;
    bool handlers, exiting; // of exit and fork, registered
    running *processes;
    tfr_scratch *folders;
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

// A child owns none of its parent's processes and folders, and a lock that another thread held
// would never be released in it.
static void after_fork(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    live.lock = fresh;
    live.processes = NULL;
    live.folders = NULL;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *place) {
    (void)s;
    (void)kind;
    (void)place;
    (void)remove(path);
    return 0; // what stays keeps its folder, no more
}

// With folders in it: a compiler's wrapper may make some in its TMPDIR.
static void remove_folder(const char *path) {
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void at_exit(void) {
    struct timespec limit;
    (void)clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 1;
    if (pthread_mutex_timedlock(&live.lock, &limit) != 0) {
        return;
    }
    live.exiting = true;
    for (running *r = live.processes; r; r = r->next) {
        (void)kill(-r->pid, SIGKILL);
    }
    for (tfr_scratch *f = live.folders; f; f = f->next) {
        // The killed may be about to write a last file.
        for (int i = 0; i < 20 && access(f->path, F_OK) == 0; i++) {
            if (i) {
                (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
            }
            remove_folder(f->path);
        }
    }
    (void)pthread_mutex_unlock(&live.lock);
}

static void lock_live(void) {
    (void)pthread_mutex_lock(&live.lock);
    if (!live.handlers) {
        live.handlers = true;
        (void)atexit(at_exit);
        (void)pthread_atfork(NULL, NULL, after_fork);
    }
}

enum { PLACES = 4 };
static const char *scratch_place(int index) {
    static const char *const usual[PLACES] = {NULL, "/tmp", "/dev/shm", "/var/tmp"};
    return index == 0 ? secure_getenv("TMPDIR") : usual[index];
}

bool tfr_scratch_make(tfr_scratch *scratch, int *attempt) {
    while (*attempt < PLACES) {
        const char *place = scratch_place((*attempt)++);
        if (!place || *place != '/' ||
            snprintf(scratch->path, sizeof scratch->path, "%s/" TFR_SCRATCH_PREFIX "XXXXXX",
                     place) >= (int)sizeof scratch->path) {
            continue;
        }
        lock_live();
        bool made = !live.exiting && mkdtemp(scratch->path);
        if (made) {
            scratch->next = live.folders;
            live.folders = scratch;
        }
        (void)pthread_mutex_unlock(&live.lock);
        if (made) {
            (void)chmod(scratch->path, 0700); // a umask such as 0777
            return true;
        }
    }
    return false;
}

void tfr_scratch_remove(tfr_scratch *scratch) {
    remove_folder(scratch->path);
    (void)pthread_mutex_lock(&live.lock);
    for (tfr_scratch **at = &live.folders; *at; at = &(*at)->next) {
        if (*at == scratch) {
            *at = scratch->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&live.lock);
}

void tfr_scratch_sweep(int seconds) {
    for (int i = 0; i < PLACES; i++) {
        DIR *listing = scratch_place(i) ? opendir(scratch_place(i)) : NULL;
        for (struct dirent *file; listing && (file = readdir(listing));) {
            char path[TFR_PATH_SIZE];
            struct stat s;
            if (strncmp(file->d_name, TFR_SCRATCH_PREFIX, sizeof TFR_SCRATCH_PREFIX - 1) == 0 &&
                snprintf(path, sizeof path, "%s/%s", scratch_place(i), file->d_name) <
                    (int)sizeof path &&
                lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
                time(NULL) - s.st_mtime > seconds) {
                remove_folder(path);
            }
        }
        if (listing) {
            (void)closedir(listing);
        }
    }
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Only what a compiler needs to run: CPATH, LIBRARY_PATH, GCC_EXEC_PREFIX, LD_PRELOAD and the like
// would change its result, which the key knows nothing of.
enum { VARIABLES = 6 };
static void make_environment(tfr_arena *arena, const char *temp, char *out[VARIABLES]) {
    static const char *const kept[] = {"PATH", "HOME", "LD_LIBRARY_PATH"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const char *value = secure_getenv(kept[i]);
        if (value) {
            out[count++] = (char *)(uintptr_t)tfr_str_format(arena, "%s=%s", kept[i], value).data;
        }
    }
    out[count++] = (char *)(uintptr_t) "LC_ALL=C";
    if (temp) {
        out[count++] = (char *)(uintptr_t)tfr_str_format(arena, "TMPDIR=%s", temp).data;
    }
    out[count] = NULL;
}

static int spawn(const char *const *argv, const char *temp, int output, bool errors, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    char *environment[VARIABLES];
    tfr_arena *arena = tfr_arena_new();
    make_environment(arena, temp, environment);
    (void)sigemptyset(&none);
    (void)sigfillset(&defaults); // SIGPIPE, ignored by Python, stays ignored across exec
    (void)sigdelset(&defaults, SIGKILL);
    (void)sigdelset(&defaults, SIGSTOP);
    int error = posix_spawn_file_actions_init(&files);
    if (!error && (error = posix_spawnattr_init(&attributes)) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
    }
    if (error) {
        tfr_arena_free(arena);
        return error;
    }
    if ((error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&files, output, 1)) == 0 &&
        (error = errors ? posix_spawn_file_actions_adddup2(&files, output, 2)
                        : posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0)) ==
            0 &&
        (error = posix_spawnattr_setpgroup(&attributes, 0)) == 0 &&
        (error = posix_spawnattr_setsigmask(&attributes, &none)) == 0 &&
        (error = posix_spawnattr_setsigdefault(&attributes, &defaults)) == 0 &&
        (error =
             posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                       POSIX_SPAWN_SETSIGDEF)) == 0) {
        error = posix_spawn(pid, argv[0], &files, &attributes, (char *const *)(uintptr_t)argv,
                            environment);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    tfr_arena_free(arena);
    return error;
}

// Takes what is in the pipe. False: its end.
static bool drain(int fd, char *output, size_t size, size_t *len) {
    char rest[1024];
    for (;;) {
        bool full = *len + 1 >= size;
        ssize_t n = read(fd, full ? rest : output + *len, full ? sizeof rest : size - 1 - *len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 && errno == EAGAIN;
        }
        *len += full ? 0 : (size_t)n;
        output[*len] = 0;
    }
}

// Has it ended?
static bool reap(pid_t pid, int *status) {
    int raw;
    pid_t got = waitpid(pid, &raw, WNOHANG);
    if (got == pid) {
        *status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    } else if (got < 0 && errno == ECHILD) {
        *status = -1;
    }
    return got == pid || (got < 0 && errno == ECHILD);
}

// Until it ends or its time is up. The pipe's end is no sign of either: a server that a wrapper
// such as ccache started may hold it open for ever.
static void wait_for(pid_t pid, int pipe_end, double deadline, tfr_process_result *out) {
    size_t len = 0;
    bool open_end = true;
    int pause_ms = 1; // after the pipe's end the process itself is about to end
    while (!reap(pid, &out->status)) {
        if (now() >= deadline) {
            out->end = TFR_PROCESS_TIMEOUT;
            (void)kill(-pid, SIGKILL);
            for (int i = 0; i < 200 && !reap(pid, &out->status); i++) {
                (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
            }
            return;
        }
        struct pollfd wait = {.fd = open_end ? pipe_end : -1, .events = POLLIN};
        (void)poll(&wait, 1, open_end ? POLL_MS : pause_ms);
        if (open_end) {
            open_end = drain(pipe_end, out->output, sizeof out->output, &len);
        } else if (pause_ms < POLL_MS) {
            pause_ms++;
        }
    }
    out->end = TFR_PROCESS_EXITED;
    (void)drain(pipe_end, out->output, sizeof out->output, &len);
}

void tfr_process_run(const char *const *argv, const char *temp, bool errors, double seconds,
                     tfr_process_result *out) {
    int ends[2];
    running node = {0};
    double deadline = now() + seconds;
    out->end = TFR_PROCESS_NOT_STARTED;
    out->status = 0;
    out->output[0] = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        out->status = errno;
        return;
    }
    if (ends[1] < 3) { // the program closed its standard streams, whose places the child needs
        int above = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
        (void)close(ends[1]);
        ends[1] = above;
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    // Under the lock, so that no process starts unseen by the handler.
    lock_live();
    if (live.exiting) {
        out->end = TFR_PROCESS_STOPPED;
    } else {
        out->status = spawn(argv, temp, ends[1], errors, &node.pid);
    }
    bool started = out->end != TFR_PROCESS_STOPPED && out->status == 0;
    if (started) {
        node.next = live.processes;
        live.processes = &node;
    }
    (void)pthread_mutex_unlock(&live.lock);
    (void)close(ends[1]);
    if (started) {
        wait_for(node.pid, ends[0], deadline, out);
        (void)pthread_mutex_lock(&live.lock);
        for (running **at = &live.processes; *at; at = &(*at)->next) {
            if (*at == &node) {
                *at = node.next;
                break;
            }
        }
        if (live.exiting) {
            out->end = TFR_PROCESS_STOPPED;
        }
        (void)pthread_mutex_unlock(&live.lock);
    }
    (void)close(ends[0]);
}
