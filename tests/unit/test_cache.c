// The cache on disk: what was put is found; nothing cut, altered, planted or foreign ever is; other
// processes, full disks and missing homes do no harm.
#include "jit/cache.h"

#include "tests/unit/folders.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

static tfr_arena *arena;

// In place of the C library's: file systems that fail late, or for a moment.
static int fsync_error, open_error;
int fsync(int fd) {
    (void)fd;
    errno = fsync_error;
    return fsync_error ? -1 : 0;
}
int openat(int folder, const char *name, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (open_error && strstr(name, ".tfr")) {
        errno = open_error;
        return -1;
    }
    return (int)syscall(SYS_openat, folder, name, flags, mode);
}

static tfr_key key_of(const char *source, const char *compiler) {
    return (tfr_key){.kind = TFR_STR("host"),
                     .abi = TFR_STR("1"),
                     .source = tfr_str_from(source),
                     .options = TFR_STR("-O3"),
                     .target = TFR_STR("x86_64:"),
                     .compiler = tfr_str_from(compiler)};
}

static bool put(const char *source, const char *compiler, const char *binary) {
    tfr_key key = key_of(source, compiler);
    tfr_entry entry = {.label = TFR_STR("op.variant X=1"),
                       .target = key.target,
                       .key = tfr_key_text(arena, &key),
                       .binary = tfr_str_from(binary)};
    return tfr_cache_put(&key, &entry, NULL, 0);
}

// The binary that is found; {NULL, 0}: none.
static tfr_str get(const char *source, const char *compiler) {
    tfr_key key = key_of(source, compiler);
    tfr_entry entry;
    bool found =
        tfr_cache_get(arena, &key, tfr_key_text(arena, &key), TFR_CACHE_ALL, !*compiler, &entry);
    return found ? entry.binary : (tfr_str){NULL, 0};
}

static const char *path_of(const char *source, const char *compiler) {
    char name[TFR_KEY_NAME_SIZE];
    tfr_key key = key_of(source, compiler);
    tfr_key_name(&key, name);
    return tfr_str_format(arena, "%s/kernels/%s", base, name).data;
}

static unsigned mode_of(const char *path) {
    struct stat s = {0};
    CHECK(lstat(path, &s) == 0);
    return s.st_mode & 07777u;
}

static void what_was_put_is_found(void) {
    (void)umask(0);
    CHECK(get("a", "gcc").data == NULL);
    CHECK_INT(count_files(".", "kernels"), 0); // looking makes nothing
    CHECK(put("a", "gcc", "binary"));
    CHECK_STR(get("a", "gcc"), "binary");
    CHECK(get("b", "gcc").data == NULL && get("a", "clang").data == NULL);
    CHECK_INT(mode_of(in_base("kernels")), 0700);
    CHECK_INT(mode_of(path_of("a", "gcc")), 0600);
    CHECK(put("a", "gcc", "another")); // the first stays
    CHECK_STR(get("a", "gcc"), "binary");
    CHECK_INT(count_files("kernels", ""), 1);
    check_no_warning();
}

static void without_compiler_any_entry_serves(void) {
    CHECK(get("a", "").data == NULL);
    CHECK(put("a", "gcc", "by gcc") && put("a", "clang", "by clang") && put("b", "gcc", "b"));
    tfr_str found = get("a", "");
    CHECK(found.len > 3 && memcmp(found.data, "by ", 3) == 0);
    write_text(path_of("a", "gcc"), "x", 1);
    CHECK_STR(get("a", ""), "by clang");
    CHECK_STR(get("b", ""), "b");
}

static void bad_entries_are_moved_aside(void) {
    CHECK(put("a", "gcc", "binary"));
    const char *path = path_of("a", "gcc");
    int fd = open(path, O_RDONLY);
    static char whole[4096];
    ssize_t len = read(fd, whole, sizeof whole);
    (void)close(fd);
    CHECK(len > 100);
    for (ssize_t cut = 0; cut < len; cut += 7) {
        write_text(path, whole, (size_t)cut);
        CHECK(get("a", "gcc").data == NULL);
        CHECK(access(path, F_OK) != 0);
    }
    for (ssize_t at = 0; at < len; at += 5) {
        whole[at] ^= 0x10;
        write_text(path, whole, (size_t)len);
        CHECK(get("a", "gcc").data == NULL);
        whole[at] ^= 0x10;
    }
    check_warning("moved aside"); // one, however many
    CHECK_INT(count_files("kernels", ".bad"), 1);
    // A sound entry at another's name.
    write_text(path_of("b", "gcc"), whole, (size_t)len);
    CHECK(get("b", "gcc").data == NULL);
    CHECK(put("a", "gcc", "again"));
    CHECK_STR(get("a", "gcc"), "again");
}

static void planted_files_are_not_followed(void) {
    CHECK(put("a", "gcc", "binary"));
    const char *path = path_of("a", "gcc");
    CHECK(rename(path, in_base("elsewhere")) == 0);
    CHECK(symlink(in_base("elsewhere"), path) == 0);
    CHECK(get("a", "gcc").data == NULL);
    check_warning("symbolic link");
    struct stat s;
    CHECK(lstat(path, &s) != 0 && access(in_base("elsewhere"), F_OK) == 0);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK(get("a", "gcc").data == NULL);
    CHECK(mkdir(path, 0700) == 0);
    CHECK(get("a", "gcc").data == NULL);
    CHECK(put("a", "gcc", "fresh"));
    CHECK(chmod(path, 0620) == 0);
    CHECK(get("a", "gcc").data == NULL);
    CHECK(put("a", "gcc", "fresh"));
    CHECK_STR(get("a", "gcc"), "fresh");
    if (geteuid() == 0) { // only root can give files away
        CHECK(chown(path, 1, (gid_t)-1) == 0);
        CHECK(get("a", "gcc").data == NULL);
    }
}

static void a_group_writable_folder_is_refused(void) {
    CHECK(put("a", "gcc", "binary"));
    CHECK(chmod(in_base("kernels"), 0770) == 0);
    CHECK(get("a", "gcc").data == NULL && !put("b", "gcc", "binary"));
    check_warning("can be written by others");
    CHECK(chmod(in_base("kernels"), 0700) == 0);
    CHECK_STR(get("a", "gcc"), "binary");
    CHECK(chmod(base, 0777) == 0);
    CHECK(get("a", "gcc").data == NULL);
    CHECK(chmod(base, 01777) == 0); // as /tmp: nobody can rename what is ours
    CHECK_STR(get("a", "gcc"), "binary");
}

static void a_foreign_folder_is_refused(void) {
    CHECK(put("a", "gcc", "binary"));
    CHECK(rename(in_base("kernels"), tfr_str_format(arena, "%s/real", base).data) == 0);
    CHECK(symlink("real", in_base("kernels")) == 0);
    CHECK(get("a", "gcc").data == NULL && !put("b", "gcc", "binary"));
    check_warning("symbolic link");
    CHECK(unlink(in_base("kernels")) == 0);
    CHECK(rename(tfr_str_format(arena, "%s/real", base).data, in_base("kernels")) == 0);
    CHECK_STR(get("a", "gcc"), "binary");
    if (geteuid() == 0) {
        CHECK(chown(in_base("kernels"), 1, (gid_t)-1) == 0);
        CHECK(get("a", "gcc").data == NULL && !put("b", "gcc", "binary"));
    }
}

static void read_only_layers_come_first(void) {
    CHECK(put("a", "gcc", "packaged"));
    tfr_str layer = tfr_str_format(arena, "%s/packaged", base);
    CHECK(mkdir(layer.data, 0755) == 0);
    CHECK(rename(in_base("kernels"), tfr_str_format(arena, "%s/kernels", layer.data).data) == 0);
    tfr_str list = tfr_str_format(arena, "%s/none::%s", base, layer.data);
    CHECK(setenv("TFR_CACHE_RO", list.data, 1) == 0);
    CHECK_STR(get("a", "gcc"), "packaged");
    CHECK(put("a", "gcc", "mine") && put("b", "gcc", "mine"));
    CHECK_STR(get("a", "gcc"), "packaged");
    CHECK_STR(get("b", "gcc"), "mine");
    check_no_warning();
    // A bad one there stays where it is, and the user's serves.
    char name[TFR_KEY_NAME_SIZE];
    tfr_key key = key_of("a", "gcc");
    tfr_key_name(&key, name);
    const char *bad = tfr_str_format(arena, "%s/kernels/%s", layer.data, name).data;
    write_text(bad, "x", 1);
    CHECK_STR(get("a", "gcc"), "mine");
    CHECK(access(bad, F_OK) == 0);
    check_warning("is not used");
}

static void without_a_home_there_is_only_memory(void) {
    (void)unsetenv("TFR_CACHE_DIR");
    (void)unsetenv("XDG_CACHE_HOME");
    (void)unsetenv("HOME");
    CHECK(get("a", "gcc").data == NULL && !put("a", "gcc", "binary"));
    check_warning("HOME is not set");
    (void)setenv("HOME", "/proc/nowhere", 1);
    CHECK(get("a", "gcc").data == NULL && !put("a", "gcc", "binary"));
    tfr_error err = {0};
    char path[512];
    CHECK(tfr_cache_path(path, sizeof path, &err) == TFR_OK);
    CHECK(strcmp(path, "/proc/nowhere/.cache/tfrewrite/kernels") == 0);
    (void)setenv("XDG_CACHE_HOME", base, 1);
    CHECK(put("a", "gcc", "binary"));
    CHECK_INT(count_files("tfrewrite/kernels", ".tfrk"), 1);
}

static void a_full_disk_leaves_no_half_file(void) {
    struct rlimit limit = {100, 100}; // the nearest thing: writing more fails
    (void)signal(SIGXFSZ, SIG_DFL);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(!put("a", "gcc", "binary"));
    check_warning("in memory only");
    CHECK(get("a", "gcc").data == NULL);
    CHECK_INT(count_files("kernels", ""), 0);
}

static void faults_of_network_folders_are_misses(void) {
    const int errors[] = {EBUSY, ESTALE, EIO, EACCES, EINTR};
    CHECK(put("a", "gcc", "binary"));
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        open_error = errors[i];
        CHECK(get("a", "gcc").data == NULL);
        open_error = 0;
        CHECK_STR(get("a", "gcc"), "binary"); // it was not moved aside
    }
    check_warning("cannot be read");
    fsync_error = EDQUOT;
    CHECK(!put("b", "gcc", "binary"));
    check_warning("in memory only");
    CHECK_INT(count_files("kernels", ""), 1);
}

// Eight processes write and read one key; what is read is always whole.
static void processes_race(void) {
    static char large[300000];
    memset(large, 'x', sizeof large - 1);
    pid_t children[8];
    for (size_t i = 0; i < 8; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (int n = 0; n < 20; n++) {
                CHECK(put("a", "gcc", large));
                tfr_str found = get("a", "gcc");
                CHECK(found.len == 0 || found.len == sizeof large - 1);
                if (n % 3 == 0) {
                    (void)unlink(path_of("a", "gcc"));
                }
            }
            check_no_warning();
            exit(check_failures ? 1 : 0);
        }
    }
    for (size_t i = 0; i < 8; i++) {
        int status = 1;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    CHECK_INT(count_files("kernels", "tmp."), 0);
}

// Writers killed at any moment leave a whole entry or none.
static void killed_writers_leave_no_entry(void) {
    static char large[300000];
    memset(large, 'x', sizeof large - 1);
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (;;) {
                (void)put("a", "gcc", large);
                (void)unlink(path_of("a", "gcc"));
            }
        }
        struct timespec pause = {.tv_nsec = 1000000 + 150000 * i};
        (void)nanosleep(&pause, NULL);
        (void)kill(child, SIGKILL);
        int status;
        (void)waitpid(child, &status, 0);
        tfr_str found = get("a", "gcc");
        CHECK(found.len == 0 || found.len == sizeof large - 1);
    }
    check_no_warning();
    CHECK(put("a", "gcc", large));
    CHECK_INT(get("a", "gcc").len, sizeof large - 1);
}

// One process holds the lock of a key: killed, it holds nothing; stopped, it is waited for a while.
static void locks_never_hang(void) {
    tfr_key a = key_of("a", "gcc"), b = key_of("b", "gcc");
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        byte = tfr_cache_lock(&a) >= 0 ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        for (;;) {
            (void)pause();
        }
    }
    CHECK(read(ready[0], &byte, 1) == 1 && byte == 'y');
    int token = tfr_cache_lock(&b); // of another key: free
    CHECK(token >= 0);
    tfr_cache_unlock(token);
    (void)kill(child, SIGSTOP);
    CHECK_INT(tfr_cache_lock(&a), -1);
    (void)kill(child, SIGKILL);
    int status;
    (void)waitpid(child, &status, 0);
    token = tfr_cache_lock(&a);
    CHECK(token >= 0);
    tfr_cache_unlock(token);
    tfr_cache_unlock(-1);
}

static void choices_are_sticky(void) {
    char value[64];
    tfr_str name = TFR_STR("linear bf16 1024x4096 m1 some CPU");
    CHECK(!tfr_choice_get(name, value, sizeof value));
    pid_t child = fork();
    if (child == 0) {
        tfr_choice_put(name, TFR_STR("torch"), value, sizeof value);
        exit(strcmp(value, "torch") != 0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tfr_choice_put(name, TFR_STR("kernel"), value, sizeof value);
    CHECK_STR(tfr_str_from(value), "torch"); // the other process was first
    CHECK(tfr_choice_get(name, value, sizeof value) && strcmp(value, "torch") == 0);
    CHECK_INT(count_files("kernels", ".tfrc"), 1);
    check_no_warning();
}

static void bad_choices_are_moved_aside(void) {
    char value[64], file[512];
    tfr_cache_listing listing = {0};
    if (fork() == 0) {
        tfr_choice_put(TFR_STR("a"), TFR_STR("torch"), NULL, 0);
        exit(0);
    }
    int status;
    (void)wait(&status);
    CHECK(tfr_cache_list(arena, &listing, NULL) == TFR_OK && listing.count == 1);
    (void)snprintf(file, sizeof file, "%s/kernels/%s", base, listing.items[0].name);
    const char *cut = "tfrewrite choice 1\nname 1\na\nvalue 6\nkernel\n";
    write_text(file, cut, strlen(cut));
    CHECK(!tfr_choice_get(TFR_STR("a"), value, sizeof value));
    check_warning("checksum");
    tfr_choice_put(TFR_STR("a"), TFR_STR("kernel"), value, sizeof value);
    CHECK_STR(tfr_str_from(value), "kernel");
}

static void choices_without_a_folder_hold_in_memory(void) {
    char value[64];
    (void)setenv("TFR_CACHE_DIR", "/proc/nowhere", 1);
    tfr_choice_put(TFR_STR("a"), TFR_STR("torch"), value, sizeof value);
    tfr_choice_put(TFR_STR("a"), TFR_STR("kernel"), value, sizeof value);
    CHECK_STR(tfr_str_from(value), "torch");
}

static void listing_finds_every_fault(void) {
    tfr_cache_listing listing = {0};
    tfr_error err = {0};
    CHECK(tfr_cache_list(arena, &listing, &err) == TFR_OK && listing.count == 0);
    CHECK(put("a", "gcc", "binary") && put("b", "gcc", "binary"));
    tfr_choice_put(TFR_STR("c"), TFR_STR("torch"), NULL, 0);
    tfr_choice_put(TFR_STR("compiler /usr/bin/cc 1:2 3 4"), TFR_STR("gcc 12"), NULL, 0);
    CHECK(truncate(path_of("b", "gcc"), 20) == 0);
    write_text(in_base("kernels/tmp.1.0.0"), "x", 1);
    write_text(in_base("kernels/notes.txt"), "x", 1); // not ours
    CHECK(tfr_cache_list(arena, &listing, &err) == TFR_OK);
    CHECK_INT(listing.count, 5);
    // By kind, then by label: the cut one has none, and so comes first.
    CHECK(listing.items[0].fault && listing.items[0].bytes == 20);
    CHECK(listing.items[1].fault == NULL);
    CHECK_STR(listing.items[1].label, "op.variant X=1");
    CHECK_STR(listing.items[1].compiler, "gcc");
    CHECK_INT(listing.items[2].kind, TFR_CACHE_CHOICE);
    CHECK_STR(listing.items[2].value, "torch");
    CHECK_INT(listing.items[3].kind, TFR_CACHE_COMPILER);
    CHECK_STR(listing.items[3].label, "/usr/bin/cc");
    CHECK_INT(listing.items[4].kind, TFR_CACHE_LEFTOVER);
    CHECK_INT(tfr_cache_quarantine(&listing), 1);
    CHECK_INT(count_files("kernels", ".bad"), 1);
    CHECK(chmod(in_base("kernels"), 0777) == 0);
    listing.count = 0;
    CHECK(tfr_cache_list(arena, &listing, &err) == TFR_E_USAGE);
    CHECK_HAS(err.message, "can be written by others");
}

static void why_names_the_field(void) {
    tfr_buf out = {.arena = arena};
    tfr_error err = {0};
    CHECK(put("a", "gcc", "binary") && put("b", "gcc", "binary"));
    CHECK(tfr_cache_why(arena, "op.variant", &out, &err) == TFR_OK);
    tfr_buf_add(&out, "", 1);
    CHECK_HAS(out.data, "options: DIFFERS: the entry has \"-O3\", this process asks for \"-std=");
    CHECK_HAS(out.data, "does not use it");
    CHECK_HAS(out.data, "source: this one has \"a\", the other \"b\"");
    CHECK(tfr_cache_why(arena, "other", &out, &err) == TFR_E_USAGE);
    CHECK_HAS(err.message, "\"other\"");
}

static void set_age(const char *path, time_t seconds) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    CHECK(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) == 0);
}

static void gc_removes_what_was_not_used(void) {
    tfr_cache_swept swept;
    CHECK(tfr_cache_gc(0, 0, &swept, NULL) == TFR_OK && swept.files == 0); // no folder yet
    CHECK(put("a", "gcc", "binary") && put("b", "gcc", "binary") && put("c", "gcc", "binary"));
    write_text(in_base("kernels/tmp.1.0.0"), "x", 1);
    write_text(in_base("kernels/x.tfrk.bad"), "x", 1);
    write_text(in_base("kernels/notes.txt"), "x", 1);
    set_age(path_of("a", "gcc"), 40 * 86400);
    set_age(path_of("b", "gcc"), 20 * 86400);
    CHECK(tfr_cache_gc(-1, -1, &swept, NULL) == TFR_OK);
    CHECK(swept.files == 1 && swept.left_files == 3); // a fresh leftover may be in the making
    set_age(in_base("kernels/tmp.1.0.0"), 7200);
    CHECK(tfr_cache_gc(-1, 30 * 86400, &swept, NULL) == TFR_OK);
    CHECK(swept.files == 2 && access(path_of("a", "gcc"), F_OK) != 0);
    CHECK_STR(get("b", "gcc"), "binary"); // used now, which the next line sees
    set_age(path_of("c", "gcc"), 86400 / 2);
    CHECK(tfr_cache_gc((int64_t)swept.left_bytes / 2, -1, &swept, NULL) == TFR_OK);
    CHECK(swept.files == 1 && access(path_of("c", "gcc"), F_OK) != 0);
    CHECK_STR(get("b", "gcc"), "binary");
    CHECK(access(in_base("kernels/notes.txt"), F_OK) == 0);
}

int main(void) {
    arena = tfr_arena_new();
    RUN(what_was_put_is_found);
    RUN(without_compiler_any_entry_serves);
    RUN(bad_entries_are_moved_aside);
    RUN(planted_files_are_not_followed);
    RUN(a_group_writable_folder_is_refused);
    RUN(a_foreign_folder_is_refused);
    RUN(read_only_layers_come_first);
    RUN(without_a_home_there_is_only_memory);
    RUN(a_full_disk_leaves_no_half_file);
    RUN(faults_of_network_folders_are_misses);
    RUN(processes_race);
    RUN(killed_writers_leave_no_entry);
    RUN(locks_never_hang);
    RUN(choices_are_sticky);
    RUN(bad_choices_are_moved_aside);
    RUN(choices_without_a_folder_hold_in_memory);
    RUN(listing_finds_every_fault);
    RUN(why_names_the_field);
    RUN(gc_removes_what_was_not_used);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
