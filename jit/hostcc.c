// Options are spelled out so that the same source gives the same bytes wherever the same compiler
// runs: no -march=native, no build id, no random names, no path of the temporary folder, and none
// of the hardening that distributions turn on by default. -ffast-math never: linking with it turns
// on flush-to-zero for the whole process when the kernel is loaded.
#define _GNU_SOURCE // secure_getenv, O_CLOEXEC
#include "jit/hostcc.h"

#include "jit/choice.h"
#include "jit/cpu.h"
#include "jit/folder.h"
#include "jit/load.h"
#include "jit/process.h"
#include "jit/warn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPTIONS                                                                                    \
    "-std=gnu11 -O3 -shared -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno "          \
    "-fno-trapping-math -fno-stack-protector -U_FORTIFY_SOURCE -fno-ident "                        \
    "-frandom-seed=tfrewrite "                                                                     \
    "-nostdlib -w -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-z,noseparate-code"

#define MAX_FAILURES 3 // and none good before: the compiler is broken, not the kernels
#define MAX_BINARY ((size_t)16 << 20)

static struct {
    pthread_mutex_t lock;
    bool handler; // of fork, registered
    bool good;
    char path[TFR_PATH_SIZE];
    char identity[640];
    tfr_hostcc found;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool asked; // what is in `state` will not change any more
static atomic_int failures;
static atomic_bool once_good, given_up, warned; // of a compiler that does not answer

// The lock may have been another thread's, which waited for a compiler.
static void after_fork(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    state.lock = fresh;
}

// False: not without waiting.
static bool lock_state(bool may_wait) {
    if ((may_wait ? pthread_mutex_lock(&state.lock) : pthread_mutex_trylock(&state.lock)) != 0) {
        return false;
    }
    if (!state.handler) {
        state.handler = true;
        (void)pthread_atfork(NULL, NULL, after_fork);
    }
    return true;
}

static const char *options_for(const tfr_cpu *cpu) {
    static char text[sizeof OPTIONS + 128];
    (void)snprintf(text, sizeof text, "%s%s%.*s", OPTIONS, cpu->flags.len ? " " : "",
                   (int)cpu->flags.len, cpu->flags.data);
    return text;
}

tfr_str tfr_hostcc_options(void) {
    static _Atomic(const char *) options;
    const char *text = atomic_load(&options);
    if (!text) {
        (void)lock_state(true);
        text = atomic_load(&options);
        text = text ? text : options_for(tfr_cpu_choose());
        atomic_store(&options, text);
        (void)pthread_mutex_unlock(&state.lock);
    }
    return tfr_str_from(text);
}

static double timeout(void) {
    const char *text = secure_getenv("TFR_CC_TIMEOUT");
    if (!text || !*text) {
        return 60;
    }
    char *end;
    double seconds = strtod(text, &end);
    if (*end || !(seconds > 0) || seconds > 86400) {
        tfr_warn(TFR_WARN_VARIABLE, "TFR_CC_TIMEOUT is a number of seconds, not %s; 60 is used",
                 text);
        return 60;
    }
    return seconds;
}

static bool is_program(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

// Relative folders of PATH are left out: what they hold depends on where the program stands.
static bool search_path(const char *name, char *out, size_t size) {
    const char *list = secure_getenv("PATH");
    while (list && *list) {
        size_t len = strcspn(list, ":");
        if (*list == '/' && snprintf(out, size, "%.*s/%s", (int)len, list, name) < (int)size &&
            is_program(out)) {
            return true;
        }
        list += len + (list[len] == ':' ? 1 : 0);
    }
    return false;
}

// The first line that `path option` prints; "" where it fails, false where it did not end by
// itself. Not what is on standard error: a shell's complaint about its folder is no part of an
// identity.
static bool ask(const char *path, const char *option, char *out, size_t size) {
    tfr_process_result result;
    const char *argv[] = {path, option, NULL};
    tfr_process_run(argv, NULL, false, timeout(), &result);
    bool good = result.end == TFR_PROCESS_EXITED && result.status <= 0;
    result.output[strcspn(result.output, "\n")] = 0;
    (void)snprintf(out, size, "%.150s", good ? result.output : "");
    return result.end == TFR_PROCESS_EXITED && result.status < 128; // 128 + a signal
}

// gcc begins with the name it was called by; "cc" and "gcc" are one compiler.
static void add_first_line(const char *path, const char *line, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = strlen(name);
    bool named = strncmp(line, name, len) == 0 && strncmp(line + len, " (", 2) == 0;
    (void)snprintf(out, size, "%s%s", named ? "gcc" : "", named ? line + len : line);
}

// Asks `state.path` what it is, or remembers the answer by the file's number, size and time.
static tfr_hostcc_found identify(bool may_run) {
    struct stat s;
    char name[TFR_PATH_SIZE + 128], line[160], full[160], machine[160];
    if (stat(state.path, &s) != 0) {
        return TFR_HOSTCC_NONE;
    }
    tfr_str key = tfr_choice_compiler(state.path, &s, name, sizeof name);
    if (tfr_choice_get(key, state.identity, sizeof state.identity)) {
        return TFR_HOSTCC_FOUND;
    }
    if (!may_run) {
        return TFR_HOSTCC_UNASKED;
    }
    if (!ask(state.path, "--version", line, sizeof line) || !*line) {
        return TFR_HOSTCC_NONE;
    }
    if (!ask(state.path, "-dumpfullversion", full, sizeof full) ||
        (!*full && !ask(state.path, "-dumpversion", full, sizeof full)) ||
        !ask(state.path, "-dumpmachine", machine, sizeof machine)) {
        return TFR_HOSTCC_NONE;
    }
    char first[200];
    add_first_line(state.path, line, first, sizeof first);
    (void)snprintf(state.identity, sizeof state.identity, "%s; %s; %s", first, full, machine);
    tfr_choice_put(key, tfr_str_from(state.identity), NULL, 0);
    return TFR_HOSTCC_FOUND;
}

static tfr_hostcc_found find(bool may_run) {
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *wanted = secure_getenv("TFR_CC");
    bool named = wanted && *wanted;
    for (size_t i = 0; i < (named ? 1 : sizeof usual / sizeof *usual); i++) {
        const char *name = named ? wanted : usual[i];
        bool there = strchr(name, '/') ? snprintf(state.path, sizeof state.path, "%s", name) <
                                                 (int)sizeof state.path &&
                                             is_program(state.path)
                                       : search_path(name, state.path, sizeof state.path);
        if (!there) {
            continue;
        }
        tfr_hostcc_found found = identify(may_run);
        if (found != TFR_HOSTCC_NONE) {
            return found;
        }
        atomic_store(&warned, true);
        tfr_warn(TFR_WARN_COMPILER, "the C compiler %s does not say its version; it is not used",
                 state.path);
    }
    return TFR_HOSTCC_NONE;
}

tfr_hostcc_found tfr_hostcc_find(bool may_run, const tfr_hostcc **out) {
    if (!atomic_load(&asked)) {
        // Who may not run a compiler does not wait either for a thread that is asking one, and
        // which may wait for TFR_CC_TIMEOUT.
        if (!lock_state(may_run)) {
            return TFR_HOSTCC_UNASKED;
        }
        tfr_hostcc_found now;
        if (!atomic_load(&asked) && (now = find(may_run)) != TFR_HOSTCC_UNASKED) {
            state.good = now == TFR_HOSTCC_FOUND;
            state.found = (tfr_hostcc){state.path, tfr_str_from(state.identity)};
            atomic_store(&asked, true);
        }
        (void)pthread_mutex_unlock(&state.lock);
        if (!atomic_load(&asked)) {
            return TFR_HOSTCC_UNASKED;
        }
    }
    *out = &state.found;
    tfr_hostcc_found found = state.good ? TFR_HOSTCC_FOUND : TFR_HOSTCC_NONE;
    return found == TFR_HOSTCC_FOUND && atomic_load(&given_up) ? TFR_HOSTCC_NONE : found;
}

void tfr_hostcc_warn_none(void) {
    const char *wanted = secure_getenv("TFR_CC");
    if (atomic_load(&given_up) || atomic_load(&warned)) {
        return; // said when it failed
    }
    if (wanted && *wanted) {
        tfr_warn(TFR_WARN_NO_COMPILER,
                 "TFR_CC=%s is no compiler that can be run; the generic kernels are used", wanted);
    } else {
        tfr_warn(TFR_WARN_NO_COMPILER,
                 "no C compiler (cc, gcc, clang) is in PATH; the generic kernels are used. Install "
                 "one, or name it in TFR_CC");
    }
}

static int write_source(const char *path, tfr_str source) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    int error = tfr_write_all(fd, source);
    return close(fd) != 0 && !error ? errno : error;
}

static bool read_binary(tfr_arena *arena, const char *path, tfr_str *binary) {
    struct stat s;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); // it may be a FIFO
    bool good = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0 &&
                (size_t)s.st_size <= MAX_BINARY &&
                tfr_read_all(arena, fd, (size_t)s.st_size, binary);
    if (fd >= 0) {
        (void)close(fd);
    }
    return good;
}

// argv of a compilation in `folder`.
static const char **arguments(tfr_arena *arena, const tfr_hostcc *compiler, const char *folder) {
    struct {
        const char **items;
        size_t count, cap;
    } argv = {0};
    tfr_str options = tfr_hostcc_options();
    *TFR_PUSH(arena, &argv) = compiler->path;
    for (size_t at = 0; at < options.len;) {
        const char *space = memchr(options.data + at, ' ', options.len - at);
        size_t len = space ? (size_t)(space - options.data) - at : options.len - at;
        *TFR_PUSH(arena, &argv) = tfr_str_dup(arena, (tfr_str){options.data + at, len});
        at += len + 1;
    }
    *TFR_PUSH(arena, &argv) = tfr_str_format(arena, "-ffile-prefix-map=%s=.", folder).data;
    *TFR_PUSH(arena, &argv) = "-o";
    *TFR_PUSH(arena, &argv) = tfr_str_format(arena, "%s/kernel.so", folder).data;
    *TFR_PUSH(arena, &argv) = tfr_str_format(arena, "%s/kernel.c", folder).data;
    *TFR_PUSH(arena, &argv) = NULL;
    return argv.items;
}

// What the compiler said, on one line, without the folder's name.
static void first_words(const char *output, const char *folder, char *out, size_t size) {
    size_t len = 0, skip = strlen(folder) + 1;
    for (const char *c = output; *c && len + 1 < size && len < 400; c++) {
        if (strncmp(c, folder, skip - 1) == 0 && c[skip - 1] == '/') {
            c += skip - 1;
            continue;
        }
        out[len++] = *c == '\n' ? ' ' : *c;
    }
    out[len] = 0;
}

typedef enum outcome { GOOD, FAILED, BROKEN, NO_SPACE } outcome;

static outcome compile_in(tfr_arena *arena, const tfr_hostcc *compiler, const char *folder,
                          tfr_str source, tfr_str *binary, char *why, size_t size) {
    const char *input = tfr_str_format(arena, "%s/kernel.c", folder).data;
    const char *output = tfr_str_format(arena, "%s/kernel.so", folder).data;
    int error = write_source(input, source);
    if (error) {
        (void)snprintf(why, size, "cannot write to %s: %s", folder, strerror(error));
        return NO_SPACE;
    }
    tfr_process_result result;
    double seconds = timeout();
    tfr_process_run(arguments(arena, compiler, folder), folder, true, seconds, &result);
    if (result.end == TFR_PROCESS_NOT_STARTED) {
        (void)snprintf(why, size, "cannot run %s: %s", compiler->path, strerror(result.status));
        return result.status == EAGAIN || result.status == ENOMEM ? FAILED : BROKEN;
    }
    if (result.end == TFR_PROCESS_TIMEOUT) {
        (void)snprintf(why, size, "%s was stopped after %g seconds (TFR_CC_TIMEOUT)",
                       compiler->path, seconds);
        return BROKEN;
    }
    if (result.end == TFR_PROCESS_STOPPED) {
        (void)snprintf(why, size, "the program is ending");
        return FAILED;
    }
    // Where the exit status is lost (-1) the result alone tells.
    if (result.status > 0) {
        char words[512];
        first_words(result.output, folder, words, sizeof words);
        (void)snprintf(why, size, "%s failed with status %d: %s", compiler->path, result.status,
                       words);
        return strstr(result.output, "No space left") ? NO_SPACE : FAILED;
    }
    const char *fault = "there is none";
    if (!read_binary(arena, output, binary) || (fault = tfr_load_fault(*binary)) != NULL) {
        (void)snprintf(why, size, "the output of %s is no kernel: %s", compiler->path, fault);
        return FAILED;
    }
    return GOOD;
}

bool tfr_hostcc_compile(tfr_arena *arena, const tfr_hostcc *compiler, tfr_str source,
                        tfr_str *binary, char *why, size_t why_size) {
    static atomic_flag swept = ATOMIC_FLAG_INIT;
    outcome end = NO_SPACE;
    tfr_scratch scratch;
    if (!atomic_flag_test_and_set(&swept)) {
        tfr_scratch_sweep(TFR_LEFTOVER_AGE);
    }
    (void)snprintf(why, why_size, "there is no folder for temporary files");
    for (int attempt = 0; end == NO_SPACE && tfr_scratch_make(&scratch, &attempt);) {
        end = compile_in(arena, compiler, scratch.path, source, binary, why, why_size);
        tfr_scratch_remove(&scratch);
    }
    if (end == GOOD) {
        atomic_store(&once_good, true);
    } else if (end == BROKEN ||
               (atomic_fetch_add(&failures, 1) + 1 >= MAX_FAILURES && !atomic_load(&once_good))) {
        atomic_store(&given_up, true);
    }
    return end == GOOD;
}
