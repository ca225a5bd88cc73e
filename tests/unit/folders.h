// For tests of the cache: each case runs in a process of its own, with an empty cache of its own,
// as warnings come once a process and some cases do harm to themselves.
#ifndef TFR_TEST_FOLDERS_H
#define TFR_TEST_FOLDERS_H

#include "jit/jit.h"
#include "jit/warn.h"

#include "tests/unit/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[64]; // TFR_CACHE_DIR of the case

__attribute__((unused)) static const char *in_base(const char *name) {
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", base, name);
    return path;
}

__attribute__((unused)) static void remove_tree(const char *path) {
    char command[600];
    (void)snprintf(command, sizeof command, "chmod -R u+rwx '%s'; rm -rf '%s'", path, path);
    CHECK_INT(system(command), 0);
}

// The number of files in a folder below the base whose names contain `part`.
__attribute__((unused)) static int count_files(const char *folder, const char *part) {
    DIR *listing = opendir(in_base(folder));
    int count = 0;
    for (struct dirent *file; listing && (file = readdir(listing));) {
        count += file->d_name[0] != '.' && strstr(file->d_name, part);
    }
    if (listing) {
        (void)closedir(listing);
    }
    return count;
}

__attribute__((unused)) static void write_text(const char *path, const char *text, size_t len) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, len) == (ssize_t)len);
    (void)close(fd);
}

// Exactly one warning is there, and it has `part`.
__attribute__((unused)) static void check_warning(const char *part) {
    char text[1024] = "";
    CHECK(tfr_warn_take(text, sizeof text));
    CHECK_HAS(text, part);
    CHECK(!tfr_warn_take(text, sizeof text));
}

__attribute__((unused)) static void check_no_warning(void) {
    char text[1024] = "";
    if (tfr_warn_take(text, sizeof text)) {
        CHECK_STR(tfr_str_from(text), "no warning");
    }
}

__attribute__((unused)) static void run_case(const char *name, void (*test)(void)) {
    (void)snprintf(base, sizeof base, "/tmp/tfrewrite-test-XXXXXX");
    CHECK(mkdtemp(base) != NULL);
    (void)setenv("TFR_CACHE_DIR", base, 1);
    (void)unsetenv("TFR_CACHE_RO");
    pid_t child = fork();
    if (child == 0) {
        check_failures = 0;
        test();
        exit(check_failures ? 1 : 0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0) {
        check_failures++;
        fprintf(stderr, "failed: %s (status %d)\n", name, status);
    }
    remove_tree(base);
}

#define RUN(test) run_case(#test, test)

#endif
