// From a source to a loaded kernel: each origin, each mode, threads and forks, and compilers that
// are missing, broken or slow. TFR_CC is a script around cc that notes each of its runs.
#define _GNU_SOURCE // memfd_create
#include "jit/jit.h"

#include "jit/cache.h"
#include "jit/cpu.h"
#include "jit/generate.h"
#include "jit/obtain.h"
#include "tests/unit/folders.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

// In place of the C library's.
static bool no_memory_files;
int memfd_create(const char *name, unsigned flags) {
    if (no_memory_files) {
        errno = ENOSYS;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

static const char *head; // codegen_templates/kernel.h, with what it includes
static tfr_arena *arena;

// A kernel whose plan answers `number`.
static tfr_jit_request request_of(int number) {
    return (tfr_jit_request){
        tfr_str_format(arena, "op.variant NUMBER=%d", number),
        tfr_str_format(arena,
                       "#define NUMBER %d\n%s\n"
                       "static int tfr_plan(tfr_call *c) { c->units = NUMBER; return 0; }\n"
                       "static void tfr_run(const tfr_call *c, int64_t i, int64_t n, void *s) {}\n"
                       "#define VALUES(X)\n"
                       "TFR_KERNEL(\"\", VALUES)\n",
                       number, head),
        TFR_STR("")};
}

static const tfr_kernel *kernel_of(int number, tfr_jit_mode mode, tfr_jit_origin *origin) {
    tfr_jit_request request = request_of(number);
    return tfr_jit_kernel(&request, mode, origin);
}

static int64_t answer(const tfr_kernel *kernel) {
    static tfr_call call;
    return kernel && kernel->plan(&call) == 0 ? call.units : -1;
}

// The compiler of the case: `before` is run for each compilation.
static void use_compiler(const char *before) {
    const char *path = tfr_str_dup(arena, tfr_str_from(in_base("compiler")));
    tfr_str text = tfr_str_format(arena,
                                  "#!/bin/sh\ncase \"$1\" in\n-std=*) echo run >> '%s/runs'\n%s\n"
                                  ";;\n*) echo ask >> '%s/asked' ;;\nesac\nexec cc \"$@\"\n",
                                  base, before, base);
    write_text(path, text.data, text.len);
    CHECK(chmod(path, 0700) == 0 && setenv("TFR_CC", path, 1) == 0);
}

static int lines_of(const char *name) {
    FILE *file = fopen(in_base(name), "r");
    int lines = 0;
    for (int c; file && (c = fgetc(file)) != EOF;) {
        lines += c == '\n';
    }
    if (file) {
        (void)fclose(file);
    }
    return lines;
}

// Runs `test` in another process, which must succeed.
static void elsewhere(void (*test)(void)) {
    pid_t child = fork();
    if (child == 0) {
        check_failures = 0;
        test();
        exit(check_failures ? 1 : 0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void expect(int number, tfr_jit_mode mode, tfr_jit_origin from) {
    tfr_jit_origin origin = TFR_JIT_FROM_NOWHERE;
    const tfr_kernel *kernel = kernel_of(number, mode, &origin);
    CHECK_INT(origin, from);
    CHECK_INT(answer(kernel), from == TFR_JIT_FROM_NOWHERE ? -1 : number);
}

static void compile_7(void) { expect(7, TFR_JIT_SYNC, TFR_JIT_COMPILED); }
static void find_7(void) { expect(7, TFR_JIT_SYNC, TFR_JIT_FROM_DISK); }

static void each_origin(void) {
    use_compiler("");
    expect(7, TFR_JIT_OFF, TFR_JIT_FROM_NOWHERE);
    elsewhere(compile_7);
    CHECK_INT(lines_of("runs"), 1);
    int asked = lines_of("asked");
    elsewhere(find_7);
    expect(7, TFR_JIT_ASYNC, TFR_JIT_FROM_DISK); // at once, as nothing has to be run
    expect(7, TFR_JIT_ASYNC, TFR_JIT_FROM_MEMORY);
    expect(7, TFR_JIT_SYNC, TFR_JIT_FROM_MEMORY);
    CHECK(lines_of("runs") == 1 && lines_of("asked") == asked);
    expect(8, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    expect(8, TFR_JIT_SYNC, TFR_JIT_FROM_MEMORY);
    CHECK(kernel_of(7, TFR_JIT_SYNC, NULL) != kernel_of(8, TFR_JIT_SYNC, NULL));
    check_no_warning();
}

static void background(void) {
    use_compiler("sleep 0.2");
    for (int i = 0; i < 3; i++) {
        expect(i, TFR_JIT_ASYNC, TFR_JIT_FROM_NOWHERE);
        expect(i, TFR_JIT_ASYNC, TFR_JIT_FROM_NOWHERE);
    }
    tfr_jit_origin origin;
    CHECK_INT(answer(kernel_of(2, TFR_JIT_SYNC, &origin)), 2); // out of its turn
    tfr_jit_wait();
    for (int i = 0; i < 3; i++) {
        expect(i, TFR_JIT_ASYNC, TFR_JIT_FROM_MEMORY);
    }
    CHECK_INT(lines_of("runs"), 3);
    check_no_warning();
}

static tfr_jit_request shared_requests[3];

static void *thread_of_many(void *failures) {
    for (int i = 0; i < 3; i++) {
        tfr_call call = {0};
        const tfr_kernel *kernel = tfr_jit_kernel(&shared_requests[i], TFR_JIT_SYNC, NULL);
        if (!kernel || kernel->plan(&call) != 0 || call.units != i) {
            *(int *)failures += 1;
        }
    }
    return NULL;
}

static void threads_compile_once(void) {
    pthread_t threads[16];
    int failures[16] = {0};
    use_compiler("");
    for (int i = 0; i < 3; i++) {
        shared_requests[i] = request_of(i);
    }
    for (size_t i = 0; i < 16; i++) {
        CHECK(pthread_create(&threads[i], NULL, thread_of_many, &failures[i]) == 0);
    }
    for (size_t i = 0; i < 16; i++) {
        (void)pthread_join(threads[i], NULL);
        CHECK_INT(failures[i], 0);
    }
    CHECK_INT(lines_of("runs"), 3);
}

static void processes_compile_once(void) {
    use_compiler("sleep 0.3");
    pid_t children[6];
    for (size_t i = 0; i < 6; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            exit(answer(kernel_of(7, TFR_JIT_SYNC, NULL)) != 7);
        }
    }
    for (size_t i = 0; i < 6; i++) {
        int status = 1;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    CHECK_INT(lines_of("runs"), 1);
}

static void find_1_in_memory(void) { expect(1, TFR_JIT_SYNC, TFR_JIT_FROM_MEMORY); }
static void compile_in_background(void) {
    expect(3, TFR_JIT_ASYNC, TFR_JIT_FROM_NOWHERE);
    tfr_jit_wait();
    expect(3, TFR_JIT_ASYNC, TFR_JIT_FROM_MEMORY);
}
static void wait_for_2(void) { CHECK_INT(answer(kernel_of(2, TFR_JIT_SYNC, NULL)), 2); }

static void forks(void) {
    use_compiler("sleep 0.3");
    expect(1, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    elsewhere(find_1_in_memory);
    expect(2, TFR_JIT_ASYNC, TFR_JIT_FROM_NOWHERE);
    elsewhere(wait_for_2); // its thread is not in the child
    elsewhere(compile_in_background);
    tfr_jit_wait();
    expect(2, TFR_JIT_ASYNC, TFR_JIT_FROM_MEMORY);
}

static void without_a_compiler(void) {
    use_compiler("");
    elsewhere(compile_7);
    (void)setenv("TFR_CC", in_base("nothing"), 1);
    expect(8, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    expect(8, TFR_JIT_ASYNC, TFR_JIT_FROM_NOWHERE);
    expect(9, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    check_warning("no compiler that can be run");
    find_7(); // by the compiler of the other process
    (void)unsetenv("TFR_CC");
}

static void a_compiler_that_fails(void) {
    use_compiler("echo 'kernel.c:1: error: out of ideas' >&2; exit 3");
    for (int i = 0; i < 6; i++) {
        expect(i, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    }
    check_warning("status 3: kernel.c:1: error: out of ideas");
    CHECK_INT(lines_of("runs"), 3); // then it was given up
    CHECK_INT(count_files("kernels", ".tfrk"), 0);
}

static void a_compiler_that_says_nothing(void) {
    (void)setenv("TFR_CC", "false", 1);
    expect(1, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    expect(2, TFR_JIT_ASYNC, TFR_JIT_FROM_NOWHERE);
    tfr_jit_wait();
    check_warning("does not say its version");
}

static void a_compiler_that_lies(void) {
    use_compiler("exit 0");
    expect(1, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    check_warning("is no kernel");
}

static void a_compiler_that_writes_nonsense(void) {
    use_compiler("for last; do true; done; echo nonsense > \"${last%.c}.so\"; exit 0");
    expect(1, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    check_warning("it is no ELF file");
}

static void one_bad_kernel_is_no_bad_compiler(void) {
    use_compiler("");
    expect(1, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    for (int i = 0; i < 5; i++) {
        tfr_jit_request bad = {TFR_STR("bad"), tfr_str_format(arena, "#error %d\n", i),
                               TFR_STR("")};
        CHECK(tfr_jit_kernel(&bad, TFR_JIT_SYNC, NULL) == NULL);
    }
    expect(2, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    check_warning("#error 0");
}

static bool is_running(const char *pid_file) {
    FILE *file = fopen(in_base(pid_file), "r");
    int pid = 0;
    bool read = file && fscanf(file, "%d", &pid) == 1;
    if (file) {
        (void)fclose(file);
    }
    CHECK(read);
    for (int i = 0; i < 200 && kill(pid, 0) == 0; i++) { // a zombie until init takes it
        char path[64], text[256] = "";
        (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *stat = fopen(path, "r");
        bool zombie = !stat || !fgets(text, sizeof text, stat) || strstr(text, ") Z");
        if (stat) {
            (void)fclose(stat);
        }
        if (zombie) {
            return false;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return pid > 0 && kill(pid, 0) == 0;
}

static char sleeper[200]; // a compiler that hangs, in a process of its own

static void use_sleeper(void) {
    (void)snprintf(sleeper, sizeof sleeper, "sleep 100 & echo $! > '%s/pid'; wait", base);
    use_compiler(sleeper);
    (void)mkdir(in_base("tmp"), 0700);
    (void)setenv("TMPDIR", in_base("tmp"), 1);
}

static void a_compiler_that_hangs(void) {
    use_sleeper();
    (void)setenv("TFR_CC_TIMEOUT", "0.5", 1);
    expect(1, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    expect(2, TFR_JIT_SYNC, TFR_JIT_FROM_NOWHERE);
    check_warning("TFR_CC_TIMEOUT");
    CHECK(!is_running("pid"));
    CHECK_INT(lines_of("runs"), 1); // not run again
    CHECK_INT(count_files("tmp", ""), 0);
}

static void exit_while_compiling(void) {
    expect(1, TFR_JIT_ASYNC, TFR_JIT_FROM_NOWHERE);
    for (int i = 0; i < 500 && access(in_base("pid"), F_OK) != 0; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    CHECK_INT(count_files("tmp", "tfrewrite-cc-"), 1);
}

static void nothing_outlives_the_process(void) {
    use_sleeper();
    elsewhere(exit_while_compiling);
    CHECK(!is_running("pid"));
    CHECK_INT(count_files("tmp", ""), 0);
}

static void compile_8(void) { expect(8, TFR_JIT_SYNC, TFR_JIT_COMPILED); }

static void compile_7_with_a_warning(void) {
    compile_7();
    check_warning("moved aside");
}

static void bad_entries_are_compiled_again(void) {
    use_compiler("");
    elsewhere(compile_7);
    tfr_cache_listing listing = {0};
    CHECK(tfr_cache_list(arena, &listing, NULL) == TFR_OK && listing.count > 0);
    tfr_str path = tfr_str_format(arena, "%s/%s", listing.items[0].folder, listing.items[0].name);
    CHECK(truncate(path.data, (off_t)listing.items[0].bytes - 1) == 0);
    elsewhere(compile_7_with_a_warning);
    elsewhere(find_7);
}

// Sound by its checksum, made by somebody who may write here: but it is no kernel.
static void a_sound_entry_that_is_no_kernel(void) {
    use_compiler("");
    compile_8(); // the compiler's identity is known from here on
    tfr_jit_request request = request_of(9);
    tfr_wanted wanted;
    CHECK(tfr_wanted_make(arena, &request, false, &wanted));
    tfr_entry entry = {.label = request.label,
                       .target = wanted.key.target,
                       .key = wanted.text,
                       .binary = TFR_STR("#!/bin/sh\necho no kernel\n")};
    CHECK(tfr_cache_put(&wanted.key, &entry, NULL, 0));
    expect(9, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    check_warning("no ELF file");
}

static void compile_7_in_a_strange_place(void) {
    (void)setenv("CPATH", in_base("include"), 1);
    (void)setenv("C_INCLUDE_PATH", in_base("include"), 1);
    (void)setenv("GCC_EXEC_PREFIX", in_base("include"), 1);
    (void)setenv("LANG", "de_DE.UTF-8", 1);
    (void)signal(SIGCHLD, SIG_IGN); // exit statuses are lost
    (void)umask(0);
    (void)close(0);
    (void)close(1);
    compile_7();
    check_no_warning();
}

static void the_environment_changes_nothing(void) {
    use_compiler("");
    (void)mkdir(in_base("include"), 0700);
    write_text(in_base("include/stdint.h"), "#error planted\n", 15);
    elsewhere(compile_7_in_a_strange_place);
    elsewhere(find_7);
}

static void the_same_source_gives_the_same_bytes(void) {
    tfr_str before = {NULL, 0};
    (void)unsetenv("TFR_CC");
    for (int i = 0; i < 2; i++) {
        (void)setenv("TFR_CACHE_DIR", in_base(i ? "second" : "first"), 1);
        (void)mkdir(in_base(i ? "tmp2" : "t"), 0700);
        (void)setenv("TMPDIR", in_base(i ? "tmp2" : "t"), 1);
        elsewhere(compile_7);
        tfr_cache_listing listing = {0};
        CHECK(tfr_cache_list(arena, &listing, NULL) == TFR_OK && listing.count == 2);
        tfr_str path =
            tfr_str_format(arena, "%s/%s", listing.items[0].folder, listing.items[0].name);
        char *bytes = tfr_arena_alloc(arena, listing.items[0].bytes);
        FILE *file = fopen(path.data, "r");
        CHECK(file && fread(bytes, 1, listing.items[0].bytes, file) == listing.items[0].bytes);
        tfr_str now = {bytes, listing.items[0].bytes};
        CHECK(i == 0 || tfr_str_eq(before, now));
        before = now;
        (void)fclose(file);
    }
}

static void without_memory_files(void) {
    use_compiler("");
    (void)mkdir(in_base("tmp"), 0700);
    (void)setenv("TMPDIR", in_base("tmp"), 1);
    no_memory_files = true;
    for (int i = 0; i < 3; i++) {
        expect(i, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_INT(answer(kernel_of(i, TFR_JIT_SYNC, NULL)), i);
    }
    CHECK_INT(count_files("tmp", ""), 0);
    check_no_warning();
}

static void no_place_to_write(void) {
    use_compiler("");
    (void)setenv("TFR_CACHE_DIR", "/proc/nowhere", 1);
    (void)setenv("TMPDIR", "/proc/nowhere", 1);
    expect(7, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    expect(7, TFR_JIT_SYNC, TFR_JIT_FROM_MEMORY);
    check_warning("in memory only");
}

#if defined(__x86_64__)
static void instruction_sets(void) {
    use_compiler("");
    (void)setenv("TFR_HOST_ISA", "baseline", 1);
    elsewhere(compile_7);
    elsewhere(find_7);
    (void)unsetenv("TFR_HOST_ISA");
    if (tfr_cpu_runs(TFR_STR("x86_64:avx2,fma,f16c,bmi2"))) {
        elsewhere(compile_7);
        CHECK_INT(count_files("kernels", ".tfrk"), 2);
    }
}

static void the_control_word_stays(void) {
    use_compiler("");
    unsigned before = __builtin_ia32_stmxcsr() & ~0x3fu;
    // As -ffast-math would have it at loading.
    tfr_jit_request request = request_of(1);
    request.source =
        tfr_str_format(arena,
                       "%.*s__attribute__((constructor)) static void fast(void) {\n"
                       "    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);\n}\n",
                       (int)request.source.len, request.source.data);
    CHECK_INT(answer(tfr_jit_kernel(&request, TFR_JIT_SYNC, NULL)), 1);
    CHECK_INT(__builtin_ia32_stmxcsr() & ~0x3fu, before);
}
#endif

static void many_kernels_leave_no_descriptors(void) {
    (void)unsetenv("TFR_CC");
    expect(0, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    int next = dup(0);
    (void)close(next);
    for (int i = 1; i < 8; i++) {
        expect(i, TFR_JIT_SYNC, TFR_JIT_COMPILED);
    }
    for (int i = 0; i < 8; i++) {
        CHECK_INT(answer(kernel_of(i, TFR_JIT_SYNC, NULL)), i); // each its own library
    }
    int now = dup(0);
    (void)close(now);
    CHECK_INT(now, next);
}

static void count_progress(void *context, size_t done, size_t count, tfr_str label) {
    CHECK(count == 5 && label.len > 0);
    CHECK_INT(done, ++*(size_t *)context);
}

static void warming(void) {
    tfr_jit_request requests[5];
    tfr_jit_counts counts;
    tfr_error err = {0};
    size_t done = 0;
    use_compiler("");
    elsewhere(compile_7);
    for (int i = 0; i < 4; i++) {
        requests[i] = request_of(6 + i);
    }
    requests[4] = request_of(6); // twice
    CHECK(tfr_jit_warm(requests, 5, 3, count_progress, &done, &counts, &err) == TFR_OK);
    CHECK(counts.compiled == 3 && counts.found == 2 && counts.failed == 0);
    CHECK_INT(done, 5);
    CHECK_INT(lines_of("runs"), 4);
    find_7();
    requests[1].source = TFR_STR("#error no\n");
    CHECK(tfr_jit_warm(requests, 5, 0, NULL, NULL, &counts, &err) != TFR_OK);
    CHECK(counts.compiled == 0 && counts.found == 4 && counts.failed == 1);
    CHECK_HAS(err.message, "#error no");
    CHECK(tfr_jit_warm(requests, 0, 0, NULL, NULL, &counts, &err) == TFR_OK);
}

static void modes(void) {
    tfr_error err = {0};
    (void)unsetenv("TFR_JIT");
    CHECK_INT(tfr_jit_mode_from_environment(&err), TFR_JIT_ASYNC);
    (void)setenv("TFR_JIT", "sync", 1);
    CHECK_INT(tfr_jit_mode_from_environment(&err), TFR_JIT_SYNC);
    (void)setenv("TFR_JIT", "off", 1);
    CHECK_INT(tfr_jit_mode_from_environment(&err), TFR_JIT_OFF);
    CHECK(err.message[0] == 0);
    (void)setenv("TFR_JIT", "maybe", 1);
    CHECK_INT(tfr_jit_mode_from_environment(&err), TFR_JIT_ASYNC);
    CHECK_HAS(err.message, "maybe");
    check_warning("maybe");
}

int main(void) {
    tfr_generated made;
    tfr_spec spec = {.label = "head",
                     .template_text = TFR_STR("#include \"codegen_templates/kernel.h\"\n"),
                     .template_name = "test.c",
                     .generic = true};
    arena = tfr_arena_new();
    tfr_generate(&made, &spec, arena);
    head = tfr_str_dup(arena, made.source);
    RUN(each_origin);
    RUN(background);
    RUN(threads_compile_once);
    RUN(processes_compile_once);
    RUN(forks);
    RUN(without_a_compiler);
    RUN(a_compiler_that_fails);
    RUN(a_compiler_that_says_nothing);
    RUN(a_compiler_that_lies);
    RUN(a_compiler_that_writes_nonsense);
    RUN(one_bad_kernel_is_no_bad_compiler);
    RUN(a_compiler_that_hangs);
    RUN(nothing_outlives_the_process);
    RUN(bad_entries_are_compiled_again);
    RUN(a_sound_entry_that_is_no_kernel);
    RUN(the_environment_changes_nothing);
    RUN(the_same_source_gives_the_same_bytes);
    RUN(without_memory_files);
    RUN(no_place_to_write);
#if defined(__x86_64__)
    RUN(instruction_sets);
    RUN(the_control_word_stays);
#endif
    RUN(many_kernels_leave_no_descriptors);
    RUN(warming);
    RUN(modes);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
