// Asks jit/ for CUDA kernels as the runtime does, in ways that Python cannot: for test_nvrtc.py.
// Usage: device_code sync|async|fork|threads|exit TARGET FILE...
// Prints a line for each request, then warnings, then whether libnvrtc is mapped.
#include "jit/cubin.h"
#include "jit/jit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static tfr_jit_request read_request(tfr_arena *arena, const char *target, const char *path) {
    char text[65536];
    FILE *file = fopen(path, "rb");
    size_t len = file ? fread(text, 1, sizeof text, file) : 0;
    if (!file || fclose(file) != 0 || len == sizeof text) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    const char *name = strrchr(path, '/');
    return (tfr_jit_request){tfr_str_format(arena, "%s %s", name ? name + 1 : path, target),
                             {tfr_str_dup(arena, (tfr_str){text, len}), len},
                             tfr_str_from(target)};
}

static void get(const tfr_jit_request *request, tfr_jit_mode mode) {
    static const char *const origins[] = {"nowhere", "memory", "disk", "compiled"};
    tfr_jit_origin origin;
    tfr_cubin read;
    const tfr_device_code *code = tfr_jit_device_code(request, mode, &origin);
    printf("%s", origins[origin]);
    if (code && !tfr_cubin_check(code->binary, tfr_cuda_target_find(request->target), &read)) {
        printf(" %s registers=%u shared=%u local=%u block=%u bytes=%zu end=%d", code->entry,
               code->registers, code->shared_bytes, read.local_bytes, code->block, code->binary.len,
               code->binary.data[code->binary.len]);
    }
    printf("\n");
}

static void finish(void) {
    char line[4096];
    while (tfr_jit_take_warning(line, sizeof line)) {
        printf("warning: %s\n", line);
    }
    bool mapped = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        mapped |= strstr(line, "libnvrtc") != NULL;
    }
    if (maps) {
        (void)fclose(maps);
    }
    printf("nvrtc %s\n", mapped ? "mapped" : "absent");
    (void)fflush(stdout);
}

static void *get_in_thread(void *request) {
    return (void *)(uintptr_t)tfr_jit_device_code(request, TFR_JIT_SYNC, NULL);
}

// Every request from two threads at once: both get the same code.
static void get_in_threads(tfr_jit_request *requests, int count) {
    enum { MOST = 16 };
    pthread_t threads[MOST][2];
    for (int i = 0; i < count && i < MOST; i++) {
        (void)pthread_create(&threads[i][0], NULL, get_in_thread, &requests[i]);
        (void)pthread_create(&threads[i][1], NULL, get_in_thread, &requests[i]);
    }
    for (int i = 0; i < count && i < MOST; i++) {
        void *one, *other;
        (void)pthread_join(threads[i][0], &one);
        (void)pthread_join(threads[i][1], &other);
        printf("%s\n", one && one == other ? "same" : "different");
    }
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Forks while the first request is being compiled; the child asks for all, the parent then too.
static void get_in_child(tfr_jit_request *requests, int count) {
    get(&requests[0], TFR_JIT_ASYNC);
    (void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    (void)fflush(stdout);
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        printf("child, forked %s\n", now() - start < 5 ? "soon" : "late");
        for (int i = 0; i < count; i++) {
            get(&requests[i], TFR_JIT_SYNC);
        }
        finish();
        exit(0); // with its handlers
    }
    int status = -1;
    (void)waitpid(child, &status, 0);
    printf("child ended with %d\n", status);
    for (int i = 0; i < count; i++) {
        get(&requests[i], TFR_JIT_SYNC);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) {
        return 2;
    }
    tfr_arena *arena = tfr_arena_new();
    int count = argc - 3;
    tfr_jit_request *requests = TFR_NEW_ARRAY(arena, tfr_jit_request, (size_t)count);
    for (int i = 0; i < count; i++) {
        requests[i] = read_request(arena, argv[2], argv[3 + i]);
    }
    if (strcmp(argv[1], "threads") == 0) {
        get_in_threads(requests, count);
    } else if (strcmp(argv[1], "fork") == 0) {
        get_in_child(requests, count);
    } else {
        bool wait = strcmp(argv[1], "sync") == 0;
        for (int i = 0; i < count; i++) {
            get(&requests[i], wait ? TFR_JIT_SYNC : TFR_JIT_ASYNC);
        }
        if (strcmp(argv[1], "exit") == 0) {
            return 0; // while it is being compiled
        }
        if (!wait) {
            tfr_jit_wait();
            printf("busy %d\n", tfr_jit_busy());
            for (int i = 0; i < count; i++) {
                get(&requests[i], TFR_JIT_ASYNC);
            }
        }
    }
    finish();
    tfr_arena_free(arena);
    return 0;
}
