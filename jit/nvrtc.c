// The library's identity is taken from its file: the build ids of it and of its built-in functions,
// or the digest of the whole where a file has none, which is remembered as a C compiler's answer
// is. nvrtcVersion would not do: it says 13.0 of 13.0.48 and 13.0.88.
//
// A compilation cannot be stopped. So fork and exit wait for those that run, a few seconds: a child
// would find NVRTC's locks held for ever, and the library's data would be destroyed under it.
#define _GNU_SOURCE // secure_getenv
#include "jit/nvrtc.h"

#include "jit/choice.h"
#include "jit/nvrtc_find.h"
#include "jit/nvrtc_log.h"
#include "jit/sha256.h"
#include "jit/warn.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WAIT_SECONDS 5
#define MAX_BINARY ((size_t)16 << 20)
#define OLDEST_MAJOR 12

typedef struct program *nvrtc_program; // NVRTC's nvrtcProgram
typedef int nvrtc_result;              // 0: success

// What is used of the library.
#define FUNCTIONS(X)                                                                               \
    X(nvrtcVersion, (int *, int *))                                                                \
    X(nvrtcGetNumSupportedArchs, (int *))                                                          \
    X(nvrtcGetSupportedArchs, (int *))                                                             \
    X(nvrtcCreateProgram, (nvrtc_program *, const char *, const char *, int, const char *const *,  \
                           const char *const *))                                                   \
    X(nvrtcCompileProgram, (nvrtc_program, int, const char *const *))                              \
    X(nvrtcGetProgramLogSize, (nvrtc_program, size_t *))                                           \
    X(nvrtcGetProgramLog, (nvrtc_program, char *))                                                 \
    X(nvrtcGetCUBINSize, (nvrtc_program, size_t *))                                                \
    X(nvrtcGetCUBIN, (nvrtc_program, char *))                                                      \
    X(nvrtcGetPTXSize, (nvrtc_program, size_t *))                                                  \
    X(nvrtcGetPTX, (nvrtc_program, char *))                                                        \
    X(nvrtcDestroyProgram, (nvrtc_program *))
#define MEMBER(name, arguments) nvrtc_result(*name) arguments;
typedef struct functions {
    FUNCTIONS(MEMBER)
} functions;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle; // `running` is 0
    bool handlers;       // of fork and exit, registered
    bool asked, good;    // what find() came to
    char path[TFR_PATH_SIZE];
    char identity[256];
    tfr_nvrtc found;
    bool loaded;
    const char *stopped; // why nothing can be compiled any more
    functions call;
    int major, minor;
    int running;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static atomic_bool given_up; // the library cannot be used

// ------------------------------------------------------------------ fork and exit
// With the lock held.
static void wait_until_idle(void) {
    struct timespec limit;
    (void)clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += WAIT_SECONDS;
    while (state.running && pthread_cond_timedwait(&state.idle, &state.lock, &limit) != ETIMEDOUT) {
    }
}

static void before_fork(void) {
    (void)pthread_mutex_lock(&state.lock);
    wait_until_idle();
}

static void after_fork_parent(void) { (void)pthread_mutex_unlock(&state.lock); }

static void after_fork_child(void) {
    pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t fresh_idle = PTHREAD_COND_INITIALIZER;
    if (state.running) {
        state.stopped = "this process was forked while NVRTC was compiling, and cannot use it";
    }
    state.running = 0;
    state.idle = fresh_idle;
    state.lock = fresh_lock;
}

static void at_exit(void) {
    (void)pthread_mutex_lock(&state.lock);
    state.stopped = "the program is ending";
    wait_until_idle();
    (void)pthread_mutex_unlock(&state.lock);
}

static void lock_state(void) {
    (void)pthread_mutex_lock(&state.lock);
    if (!state.handlers) {
        state.handlers = true;
        (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    }
}

// ------------------------------------------------------------------ identity
// The build id of an ELF file: its first 16 digits.
static bool build_id(int fd, char out[17]) {
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    char notes[1024];
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof segment) {
        return false;
    }
    for (size_t i = 0; i < head.e_phnum; i++) {
        off_t at = (off_t)(head.e_phoff + i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment ||
            segment.p_type != PT_NOTE) {
            continue;
        }
        ssize_t got = pread(fd, notes, sizeof notes, (off_t)segment.p_offset);
        size_t len = got > 0 ? (size_t)got : 0;
        len = len > segment.p_filesz ? (size_t)segment.p_filesz : len;
        Elf64_Nhdr note;
        for (size_t n = 0; n + sizeof note + 12 <= len;) {
            memcpy(&note, notes + n, sizeof note);
            const unsigned char *id = (const unsigned char *)notes + n + sizeof note + 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz >= 8) {
                for (int b = 0; b < 8; b++) {
                    (void)snprintf(out + (size_t)(2 * b), 3, "%02x", id[b]);
                }
                return true;
            }
            n += sizeof note + (((size_t)note.n_namesz + 3) & ~(size_t)3) +
                 (((size_t)note.n_descsz + 3) & ~(size_t)3);
        }
    }
    return false;
}

// The same of the whole file's digest.
static bool digest(int fd, char out[17]) {
    enum { STEP = 1 << 16 };
    uint8_t sum[TFR_SHA256_SIZE];
    char hex[TFR_SHA256_HEX];
    tfr_sha256 sha;
    tfr_arena *arena = tfr_arena_new();
    char *bytes = tfr_arena_alloc(arena, STEP);
    ssize_t n;
    tfr_sha256_start(&sha);
    while ((n = read(fd, bytes, STEP)) > 0) {
        tfr_sha256_add(&sha, bytes, (size_t)n);
    }
    tfr_arena_free(arena);
    tfr_sha256_end(&sha, sum);
    tfr_sha256_hex(sum, hex);
    (void)snprintf(out, 17, "%.16s", hex);
    return n == 0;
}

static tfr_nvrtc_found identify_file(const char *path, bool may_read, char out[17]) {
    char name[TFR_CHOICE_MAX], kept[TFR_CHOICE_MAX + 1];
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return TFR_NVRTC_NONE;
    }
    tfr_nvrtc_found found = TFR_NVRTC_FOUND;
    if (!build_id(fd, out)) {
        tfr_str key = tfr_choice_compiler(path, &s, name, sizeof name);
        if (tfr_choice_get(key, kept, sizeof kept)) {
            (void)snprintf(out, 17, "%.16s", kept);
        } else if (!may_read) {
            found = TFR_NVRTC_UNASKED;
        } else if (digest(fd, out)) {
            tfr_choice_put(key, tfr_str_from(out), NULL, 0);
        } else {
            found = TFR_NVRTC_NONE;
        }
    }
    (void)close(fd);
    return found;
}

// The version is for people, from the built-in functions' file name; the builds are what counts.
static tfr_nvrtc_found identify(bool may_read) {
    static const char mark[] = "builtins.so.";
    char builtins[TFR_PATH_SIZE], build[17], built_in[17] = "none";
    tfr_nvrtc_found found = identify_file(state.path, may_read, build);
    const char *version = "";
    if (found == TFR_NVRTC_FOUND && tfr_nvrtc_builtins(state.path, builtins)) {
        found = identify_file(builtins, may_read, built_in);
        version = strstr(strrchr(builtins, '/'), mark);
        version = version ? version + sizeof mark - 1 : "";
    }
    (void)snprintf(state.identity, sizeof state.identity, "nvrtc%s%.20s, build %s, builtins %s",
                   *version ? " " : "", version, build, built_in);
    return found;
}

tfr_nvrtc_found tfr_nvrtc_find(bool may_read, const tfr_nvrtc **out) {
    tfr_nvrtc_found found = TFR_NVRTC_NONE;
    lock_state();
    if (!state.asked) {
        if (tfr_nvrtc_locate(state.path)) {
            found = identify(may_read);
        }
        state.asked = found != TFR_NVRTC_UNASKED;
        state.good = found == TFR_NVRTC_FOUND;
        state.found = (tfr_nvrtc){state.path, tfr_str_from(state.identity)};
    } else if (state.good && !atomic_load(&given_up)) {
        found = TFR_NVRTC_FOUND;
    }
    (void)pthread_mutex_unlock(&state.lock);
    *out = &state.found;
    return found;
}

void tfr_nvrtc_warn_none(void) {
    const char *named = secure_getenv("TFR_NVRTC");
    if (atomic_load(&given_up)) {
        return; // said when it failed
    }
    if (named && *named) {
        tfr_warn(TFR_WARN_NO_COMPILER_CUDA,
                 "TFR_NVRTC=%s names no libnvrtc; CUDA kernels cannot "
                 "be compiled",
                 named);
    } else {
        tfr_warn(TFR_WARN_NO_COMPILER_CUDA,
                 "libnvrtc was not found, so CUDA kernels cannot be compiled; `pip install "
                 "nvidia-cuda-nvrtc`, or name the library in TFR_NVRTC");
    }
}

// ------------------------------------------------------------------ loading
// NVRTC finds what lies beside it by the loader's search path alone, which need not lead there.
static void load_builtins(const char *library) {
    char path[TFR_PATH_SIZE];
    if (tfr_nvrtc_builtins(library, path)) {
        (void)dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
}

// With the lock held.
static bool load(const tfr_nvrtc *nvrtc, char *why, size_t size) {
    load_builtins(nvrtc->path);
    void *library = dlopen(nvrtc->path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *error = dlerror();
        (void)snprintf(why, size, "%s cannot be loaded: %s", nvrtc->path, error ? error : "?");
        return false;
    }
#define FIND(name, arguments)                                                                      \
    *(void **)&state.call.name = dlsym(library, #name);                                            \
    if (!state.call.name) {                                                                        \
        (void)snprintf(why, size, "%s is no NVRTC of version %d or newer: it has no %s",           \
                       nvrtc->path, OLDEST_MAJOR, #name);                                          \
        return false;                                                                              \
    }
    FUNCTIONS(FIND)
    if (state.call.nvrtcVersion(&state.major, &state.minor) != 0 || state.major < OLDEST_MAJOR) {
        (void)snprintf(why, size, "%s is NVRTC %d.%d; %d.0 or newer is needed", nvrtc->path,
                       state.major, state.minor, OLDEST_MAJOR);
        return false;
    }
    (void)atexit(at_exit); // after its own handlers were registered, so it runs before them
    return true;
}

// Every true needs its end().
static bool begin(const tfr_nvrtc *nvrtc, char *why, size_t size) {
    lock_state();
    bool good = !state.stopped;
    if (!good) {
        (void)snprintf(why, size, "%s", state.stopped);
    } else if (!state.loaded) {
        good = load(nvrtc, why, size);
        state.loaded = good;
        if (!good) {
            atomic_store(&given_up, true);
        }
    }
    state.running += good;
    (void)pthread_mutex_unlock(&state.lock);
    return good;
}

static void end(void) {
    (void)pthread_mutex_lock(&state.lock);
    if (--state.running == 0) {
        (void)pthread_cond_broadcast(&state.idle);
    }
    (void)pthread_mutex_unlock(&state.lock);
}

// ------------------------------------------------------------------ compiling
// --fmad=false: a*b + c rounds twice, as it does in torch; kernels write fmaf where they mean it.
// NVRTC adds what a variable of its own says to the options, so that belongs to the key.
tfr_str tfr_nvrtc_options(tfr_arena *arena, const tfr_cuda_target *target) {
    const char *more = secure_getenv("NVRTC_APPEND_FLAGS");
    return tfr_str_format(arena, "--gpu-architecture=%s --std=c++17 --fmad=false%s%s", target->name,
                          more && *more ? " NVRTC_APPEND_FLAGS=" : "", more ? more : "");
}

// Said before compiling, as NVRTC's own message names no architecture that it has.
static bool supports(tfr_arena *arena, const tfr_nvrtc *nvrtc, const tfr_cuda_target *target,
                     char *why, size_t size) {
    int count = 0;
    if (state.call.nvrtcGetNumSupportedArchs(&count) != 0 || count <= 0) {
        return true; // it will say so itself
    }
    int *archs = TFR_NEW_ARRAY(arena, int, (size_t)count);
    tfr_buf list = {.arena = arena};
    (void)state.call.nvrtcGetSupportedArchs(archs);
    for (int i = 0; i < count; i++) {
        if (archs[i] == target->major * 10 + target->minor) {
            return true;
        }
        tfr_buf_format(&list, "%s%d", i ? ", " : "", archs[i]);
    }
    (void)snprintf(why, size, "NVRTC %d.%d (%s) does not compile for %s, only for %.*s",
                   state.major, state.minor, nvrtc->path, target->name, (int)list.len, list.data);
    return false;
}

static tfr_str log_of(tfr_arena *arena, nvrtc_program program) {
    size_t size = 0;
    if (state.call.nvrtcGetProgramLogSize(program, &size) != 0 || size <= 1) {
        return TFR_STR("");
    }
    char *text = tfr_arena_alloc(arena, size + 1);
    (void)state.call.nvrtcGetProgramLog(program, text);
    return tfr_str_from(text);
}

static bool result_of(tfr_arena *arena, nvrtc_program program, bool ptx, tfr_str *binary) {
    size_t size = 0;
    nvrtc_result result = ptx ? state.call.nvrtcGetPTXSize(program, &size)
                              : state.call.nvrtcGetCUBINSize(program, &size);
    if (result != 0 || size > MAX_BINARY) {
        return false;
    }
    char *bytes = tfr_arena_alloc(arena, size + 1);
    result =
        ptx ? state.call.nvrtcGetPTX(program, bytes) : state.call.nvrtcGetCUBIN(program, bytes);
    *binary = ptx ? tfr_str_from(bytes) : (tfr_str){bytes, size};
    return result == 0;
}

static bool compile(tfr_arena *arena, const tfr_nvrtc *nvrtc, const tfr_cuda_target *target,
                    tfr_str source, tfr_str *binary, tfr_cubin *read, char *why, size_t size) {
    const char *const options[] = {
        tfr_str_format(arena, "--gpu-architecture=%s", target->name).data, "--std=c++17",
        "--fmad=false"};
    nvrtc_program program = NULL;
    tfr_nvrtc_failure failure = {.library = nvrtc->path,
                                 .major = state.major,
                                 .minor = state.minor,
                                 .options = tfr_nvrtc_options(arena, target),
                                 .source = source};
    if (state.call.nvrtcCreateProgram(&program, tfr_str_dup(arena, source), TFR_NVRTC_SOURCE_NAME,
                                      0, NULL, NULL) != 0) {
        (void)snprintf(why, size, "NVRTC %d.%d (%s) cannot start", state.major, state.minor,
                       nvrtc->path);
        return false;
    }
    nvrtc_result result =
        state.call.nvrtcCompileProgram(program, (int)(sizeof options / sizeof *options), options);
    const char *fault = NULL;
    failure.log = log_of(arena, program);
    if (result == 0 && !result_of(arena, program, target->ptx, binary)) {
        fault = "it cannot be had";
    } else if (result == 0) {
        fault = tfr_cubin_check(*binary, target, read);
    }
    (void)state.call.nvrtcDestroyProgram(&program);
    if (result != 0 || fault) {
        failure.fault = fault;
        tfr_nvrtc_explain(arena, &failure, why, size);
    }
    return result == 0 && !fault;
}

bool tfr_nvrtc_compile(tfr_arena *arena, const tfr_nvrtc *nvrtc, const tfr_cuda_target *target,
                       tfr_str source, tfr_str *binary, tfr_cubin *read, char *why,
                       size_t why_size) {
    if (!begin(nvrtc, why, why_size)) {
        return false;
    }
    bool good = supports(arena, nvrtc, target, why, why_size) &&
                compile(arena, nvrtc, target, source, binary, read, why, why_size);
    end();
    return good;
}
