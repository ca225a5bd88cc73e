// measure_jit sources FOLDER OUT: writes the source of each cache entry in FOLDER as OUT/<i>.c and
// prints one line for it: its label, a tab, the compiler's options.
//
// measure_jit load FOLDER: asks jit/ for the same kernels, one after another in this process, and
// prints for each: where it came from (tfr_jit_origin), wall time, CPU time of this process, CPU
// time of the compiler, wall and CPU time of loading the same bytes once more, label. Times are in
// nanoseconds. TFR_CACHE_DIR names the cache in use: empty for a cold start.
#include "jit/cache.h"
#include "jit/jit.h"
#include "jit/load.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".tfrk"

static long long now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long long children(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return ((long long)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
           ((long long)used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

static int is_entry(const struct dirent *entry) {
    size_t len = strlen(entry->d_name), end = sizeof SUFFIX - 1;
    return len > end && strcmp(entry->d_name + len - end, SUFFIX) == 0;
}

static tfr_str read_file(tfr_arena *arena, const char *path) {
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s) != 0)
        return (tfr_str){0};
    size_t size = (size_t)s.st_size, have = 0;
    char *bytes = tfr_arena_alloc(arena, size);
    for (ssize_t got; have < size && (got = read(fd, bytes + have, size - have)) > 0;)
        have += (size_t)got;
    close(fd);
    return (tfr_str){bytes, have};
}

static bool write_file(const char *path, tfr_str text) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool good = fwrite(text.data, 1, text.len, file) == text.len;
    return fclose(file) == 0 && good;
}

static int load(const tfr_entry *entry, const tfr_key *key) {
    tfr_jit_request request = {entry->label, key->source, {NULL, 0}};
    tfr_jit_origin origin;
    long long child = children(), wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    const tfr_kernel *kernel = tfr_jit_kernel(&request, TFR_JIT_SYNC, &origin);
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = now(CLOCK_MONOTONIC) - wall;
    child = children() - child;
    char why[512] = "no kernel";
    long long load_wall = now(CLOCK_MONOTONIC), load_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    const tfr_kernel *again;
    if (!kernel || tfr_load(entry->binary, entry->label, &again, why, sizeof why) != TFR_LOADED) {
        fprintf(stderr, "measure_jit: %.*s: %s\n", (int)entry->label.len, entry->label.data, why);
        return 1;
    }
    load_cpu = now(CLOCK_PROCESS_CPUTIME_ID) - load_cpu;
    load_wall = now(CLOCK_MONOTONIC) - load_wall;
    printf("%d %lld %lld %lld %lld %lld %.*s\n", (int)origin, wall, cpu, child, load_wall, load_cpu,
           (int)entry->label.len, entry->label.data);
    return 0;
}

int main(int argc, char **argv) {
    bool sources = argc == 4 && strcmp(argv[1], "sources") == 0;
    if (!sources && !(argc == 3 && strcmp(argv[1], "load") == 0)) {
        fputs("usage: measure_jit sources FOLDER OUT | load FOLDER\n", stderr);
        return 2;
    }
    struct dirent **names;
    int count = scandir(argv[2], &names, is_entry, alphasort), failed = 0;
    if (count < 0) {
        perror(argv[2]);
        return 2;
    }
    tfr_arena *arena = tfr_arena_new();
    for (int i = 0; i < count; i++) {
        tfr_entry entry;
        tfr_key key;
        const char *path = tfr_str_format(arena, "%s/%s", argv[2], names[i]->d_name).data;
        const char *fault = tfr_entry_read(read_file(arena, path), &entry);
        if (fault || !tfr_key_parse(entry.key, &key)) {
            fprintf(stderr, "measure_jit: %s: %s\n", path, fault ? fault : "no key");
            failed = 1;
        } else if (sources) {
            const char *out = tfr_str_format(arena, "%s/%d.c", argv[3], i).data;
            failed |= !write_file(out, key.source);
            printf("%.*s\t%.*s\n", (int)entry.label.len, entry.label.data, (int)key.options.len,
                   key.options.data);
        } else {
            failed |= load(&entry, &key);
        }
        free(names[i]);
    }
    free(names);
    tfr_arena_free(arena);
    return failed;
}
