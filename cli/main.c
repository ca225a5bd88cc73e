// The command `tfrewrite`. The only file that prints or exits: it reads the command line, sends
// every file through tfr_rewrite, and turns statuses into the exit status.
#define _GNU_SOURCE // memmem
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cache_command.h"
#include "cli/diff.h"
#include "cli/files.h"
#include "cli/progress.h"
#include "cli/verify_symbolic.h"
#include "cli/warmup.h"
#include "rewriter/imports.h"

extern char **environ;

#ifndef TFR_VERSION
#error "define TFR_VERSION, as CMakeLists.txt does"
#endif

// The exit statuses of docs/CLI.md. There are no others.
enum { EXIT_DONE = 0, EXIT_CHANGES = 1, EXIT_USAGE = 2, EXIT_REFUSED = 3 };

static const char HELP[] =
    "tfrewrite: rewrite Transformers modeling files to call fused ops\n"
    "\n"
    "  tfrewrite FILE              rewritten source to standard output, a report to standard "
    "error\n"
    "  tfrewrite why FILE[:LINE]   why blocks were not fused, place by place; of a folder: the "
    "reasons\n"
    "  tfrewrite rules [OP]        list the ops, or show one\n"
    "  tfrewrite verify FILE [--config config.json] | --symbolic FILE [--against ORIGINAL]\n"
    "                              run both modules (needs torch) or prove their texts equal\n"
    "  tfrewrite warmup FILE --config config.json\n"
    "                              compile the kernels that the model needs, into the cache\n"
    "  tfrewrite cache ls|verify|why KEY|gc|path|pack FILE|unpack FILE\n"
    "                              look after the cache of kernels, or copy it\n"
    "\n"
    "FILE is a file, a folder (every modeling_*.py below it), or - for standard input.\n"
    "\n"
    "  -o, --output OUT     write to OUT (for a folder: the same tree under OUT)\n"
    "  -w, --write          rewrite in place\n"
    "  -d, --diff           print a unified diff instead of the source\n"
    "      --check          write nothing; exit 1 if something would change\n"
    "      --json           print the report as JSON instead of the source\n"
    "      --rules DIR      add the rule files of DIR (may be repeated)\n"
    "      --transformers DIR   that package, where a file imports from it and is not in it\n"
    "      --only OP,..     fuse these ops only\n"
    "      --skip OP,..     do not fuse these ops\n"
    "      --target T       auto (default), host (adds linear) or cuda\n"
    "  -q, --quiet          no report, errors only\n"
    "      --arch A,..      warmup, cache pack: host (default), sm_90a and other GPUs\n"
    "      --dtype D,..     warmup: bf16, f32, of GPUs f16 too (default: the configuration's)\n"
    "  -j, --jobs N         warmup: so many compilers at once (without it as many as CPUs)\n"
    "  -v, --verbose        warmup: every kernel, every reason\n"
    "      --max-size S, --max-age D   cache gc: what may stay (500M, 2G; 12h, 30d)\n"
    "  -h, --help; -V, --version   this text; the version\n"
    "\n"
    "Exit status: 0 done, 1 --check or (cache) verify found something, 2 usage or file error, 3 "
    "refused\n";

static int exit_status(tfr_status status) {
    return status == TFR_OK ? EXIT_DONE : status == TFR_E_USAGE ? EXIT_USAGE : EXIT_REFUSED;
}

// --- printing ---

static bool wants_color(int fd) {
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0) && isatty(fd);
}

// What cannot be said on standard error is lost; the exit status still tells.
static void say(tfr_str text) { (void)tfr_files_put(STDERR_FILENO, "", text, NULL); }

static int complain(tfr_arena *arena, tfr_status status, const tfr_error *err) {
    tfr_buf text = {.arena = arena};
    tfr_report_error(&text, err, status, wants_color(STDERR_FILENO));
    say(tfr_buf_str(&text));
    return exit_status(status);
}

static int print(tfr_arena *arena, tfr_str text) {
    tfr_error err;
    tfr_status status = tfr_files_put(STDOUT_FILENO, "<stdout>", text, &err);
    return status ? complain(arena, status, &err) : EXIT_DONE;
}

// --- ops named by the user ---

// The names of all ops, read off the printed list: what the rules call an op is one.
static void list_ops(tfr_word_list *ops, const tfr_rules *rules, tfr_arena *arena) {
    tfr_buf text = {.arena = arena};
    if (tfr_rules_print(&text, rules, NULL, NULL) != TFR_OK) {
        return;
    }
    for (size_t i = 0; i < text.len;) {
        size_t start = i;
        while (i < text.len &&
               (text.data[i] == '_' || (text.data[i] >= 'a' && text.data[i] <= 'z') ||
                (text.data[i] >= '0' && text.data[i] <= '9'))) {
            i++;
        }
        tfr_str word = {text.data + start, i - start};
        bool is_new = word.len && tfr_rules_has_op(rules, word);
        for (size_t j = 0; j < ops->count && is_new; j++) {
            is_new = !tfr_str_eq(ops->items[j], word);
        }
        if (is_new) {
            *TFR_PUSH(arena, ops) = word;
        }
        i += i == start;
    }
}

static tfr_status check_ops(const char *option, const tfr_word_list *named, const tfr_rules *rules,
                            tfr_arena *arena, tfr_error *err) {
    for (size_t i = 0; i < named->count; i++) {
        tfr_str word = named->items[i];
        if (tfr_rules_has_op(rules, word)) {
            continue;
        }
        tfr_word_list known = {0};
        list_ops(&known, rules, arena);
        tfr_buf list = {.arena = arena};
        for (size_t j = 0; j < known.count; j++) {
            tfr_buf_add_str(&list, j ? TFR_STR(", ") : TFR_STR(""));
            tfr_buf_add_str(&list, known.items[j]);
        }
        tfr_str meant = tfr_args_nearest(word, known.items, known.count);
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0,
                        "%s names no known op: %.*s%s%.*s%s the ops are %.*s", option,
                        (int)(word.len < 100 ? word.len : 100), word.data,
                        meant.len ? "; did you mean " : "", (int)meant.len, meant.data,
                        meant.len ? "?" : ";", (int)list.len, list.data);
    }
    return TFR_OK;
}

static tfr_status load_rules(tfr_rules **out, const tfr_args *args, tfr_arena *arena,
                             tfr_error *err) {
    size_t count = args->rule_dirs.count;
    const char **dirs = TFR_NEW_ARRAY(arena, const char *, count);
    for (size_t i = 0; i < count; i++) {
        dirs[i] = args->rule_dirs.items[i].data;
        if (!tfr_files_is_dir(dirs[i])) {
            return tfr_fail(err, TFR_E_USAGE, dirs[i], 0, 0,
                            "--rules needs a folder that exists, with rule files in it");
        }
    }
    tfr_status status = tfr_rules_new(out, dirs, count, err);
    if (!status) {
        status = check_ops("--only", &args->only, *out, arena, err);
    }
    if (!status) {
        status = check_ops("--skip", &args->skip, *out, arena, err);
    }
    return status;
}

static tfr_options options_of(const tfr_args *args, const tfr_rules *rules, tfr_project *project) {
    return (tfr_options){.rules = rules,
                         .project = project,
                         .target = args->target,
                         .only = args->only.count ? args->only.items : NULL,
                         .only_count = args->only.count,
                         .skip = args->skip.count ? args->skip.items : NULL,
                         .skip_count = args->skip.count};
}

// --- rewriting ---

typedef struct job {
    const char *path;
    const char *out; // of -o; NULL: not given
} job;

typedef struct run {
    const tfr_args *args;
    tfr_options options;
    tfr_arena *arena; // what outlives a file
    struct {
        job *items;
        size_t count, cap;
    } jobs;
    struct {
        tfr_report *items;
        size_t count, cap;
    } reports;
    bool many; // a folder or several files: no source on standard output
    size_t changed;
    int status; // the worst so far
} run;

static void worsen(run *r, int status) { r->status = status > r->status ? status : r->status; }

static void add_folder(run *r, const char *root) {
    const char *out = r->args->out;
    tfr_found found = {0};
    tfr_files_find(&found, root, out, r->arena);
    for (size_t i = 0; i < found.errors.count; i++) {
        worsen(r, complain(r->arena, TFR_E_USAGE, &found.errors.items[i]));
    }
    size_t root_len = strlen(root);
    for (size_t i = 0; i < found.files.count; i++) {
        job j = {.path = found.files.items[i]};
        if (out) {
            const char *tail = strcmp(root, ".") == 0 ? j.path : j.path + root_len;
            tail += *tail == '/';
            j.out = tfr_str_format(r->arena, "%s/%s", out, tail).data;
        }
        *TFR_PUSH(r->arena, &r->jobs) = j;
    }
    if (!found.files.count && !r->args->quiet) {
        tfr_buf text = {.arena = r->arena};
        tfr_buf_format(&text, "%s: NOTHING TO DO: no modeling_*.py below this folder\n", root);
        say(tfr_buf_str(&text));
    }
}

static tfr_status collect_jobs(run *r, tfr_error *err) {
    const tfr_args *args = r->args;
    r->many = args->operands.count > 1;
    for (size_t i = 0; i < args->operands.count; i++) {
        const char *path = args->operands.items[i].data;
        bool is_stdin = strcmp(path, "-") == 0;
        if (is_stdin && args->write) {
            return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0,
                            "-w has no file to write to when the source is standard input");
        }
        if (is_stdin || !tfr_files_is_dir(path)) {
            *TFR_PUSH(r->arena, &r->jobs) = (job){path, args->out};
            continue;
        }
        r->many = true;
        if (args->out && tfr_files_same(path, args->out)) {
            return tfr_fail(err, TFR_E_USAGE, path, 0, 0,
                            "-o names the same folder; use -w to rewrite in place");
        }
        if (args->out && tfr_files_exists(args->out) && !tfr_files_is_dir(args->out)) {
            return tfr_fail(err, TFR_E_USAGE, args->out, 0, 0,
                            "-o needs a folder when a folder is rewritten, and this is a file");
        }
        add_folder(r, path);
    }
    return TFR_OK;
}

static tfr_status rewrite_file(tfr_result *out, tfr_source *src, const char *path,
                               const tfr_options *options, tfr_arena *arena, tfr_error *err) {
    tfr_status status = tfr_source_read(src, path, arena, err);
    if (!status) {
        status = tfr_rewrite(out, src, options, arena, err);
    }
    if (!status && !out->report.fused.count) {
        static const char IMPORT[] = "from tfrewrite import ops";
        if (memmem(src->bytes.data, src->bytes.len, IMPORT, sizeof IMPORT - 1)) {
            out->report.note = TFR_STR("it has been rewritten before");
        }
    }
    return status;
}

// Puts the result where the command line says. The report comes later.
static tfr_status deliver(run *r, const job *j, const tfr_source *src, const tfr_result *result,
                          tfr_arena *arena, tfr_error *err) {
    const tfr_args *args = r->args;
    bool is_stdin = strcmp(j->path, "-") == 0;
    if (args->diff) {
        tfr_buf text = {.arena = arena};
        tfr_diff(&text, is_stdin ? "stdin" : j->path, src->bytes, result->text,
                 wants_color(STDOUT_FILENO));
        return tfr_files_put(STDOUT_FILENO, "<stdout>", tfr_buf_str(&text), err);
    }
    if (j->out) {
        tfr_status status = r->many ? tfr_files_make_parents(j->out, err) : TFR_OK;
        return status ? status
                      : tfr_files_write(j->out, result->text, is_stdin ? NULL : j->path, err);
    }
    if (args->write && result->report.changed) {
        return tfr_files_write(j->path, result->text, NULL, err);
    }
    if (!args->write && !args->check && !args->json && !r->many) {
        return tfr_files_put(STDOUT_FILENO, "<stdout>", result->text, err);
    }
    return TFR_OK;
}

static void process(run *r, const job *j) {
    tfr_arena *arena = tfr_arena_new();
    tfr_error err = {0};
    tfr_source src;
    tfr_result result = {0};
    tfr_status status = rewrite_file(&result, &src, j->path, &r->options, arena, &err);
    if (!status) {
        status = deliver(r, j, &src, &result, arena, &err);
    }
    tfr_report report = result.report;
    if (status) {
        worsen(r, complain(r->arena, status, &err));
        bool is_stdin = strcmp(j->path, "-") == 0;
        report =
            (tfr_report){.path = is_stdin ? "<stdin>" : j->path, .error = &err, .status = status};
    }
    r->changed += report.changed;
    *TFR_PUSH(r->arena, &r->reports) = tfr_report_copy(&report, r->arena);
    tfr_arena_free(arena);
}

// What became of the files, where the report alone would not tell.
static void add_outcome(tfr_buf *text, const run *r) {
    const tfr_args *args = r->args;
    size_t done = 0;
    for (size_t i = 0; i < r->reports.count; i++) {
        done += !r->reports.items[i].error;
    }
    const char *s = done == 1 ? "" : "s";
    if (!done) {
        return;
    }
    if (args->check) {
        tfr_buf_format(text, "%zu of %zu file%s would change\n", r->changed, done, s);
    } else if (args->write) {
        tfr_buf_format(text, "%zu of %zu file%s rewritten in place\n", r->changed, done, s);
    } else if (args->out) {
        tfr_buf_format(text, "%zu file%s written to %s, %zu of them changed\n", done, s, args->out,
                       r->changed);
    } else if (r->many && !args->diff) {
        tfr_buf_add_str(text, TFR_STR("nothing was written: use -w to rewrite in place, -d to see "
                                      "the changes, or -o OUT to write a copy\n"));
    }
}

static void report(run *r) {
    if (r->args->json) {
        tfr_buf json = {.arena = r->arena};
        tfr_report_json(&json, r->reports.items, r->reports.count);
        worsen(r, print(r->arena, tfr_buf_str(&json)));
    } else if (!r->args->quiet) {
        tfr_buf text = {.arena = r->arena};
        tfr_report_text(&text, r->reports.items, r->reports.count, wants_color(STDERR_FILENO));
        add_outcome(&text, r);
        say(tfr_buf_str(&text));
    }
}

// Finds the files that the arguments name; false: it cannot, and r->status is what to exit with.
static bool begin(run *r, const tfr_args *args, const tfr_rules *rules, tfr_project *project,
                  tfr_arena *arena) {
    *r = (run){.args = args, .options = options_of(args, rules, project), .arena = arena};
    tfr_error err = {0};
    tfr_status status = collect_jobs(r, &err);
    if (status) {
        r->status = complain(arena, status, &err);
    }
    return status == TFR_OK;
}

static void process_all(run *r) {
    for (size_t i = 0; i < r->jobs.count; i++) {
        process(r, &r->jobs.items[i]);
    }
}

static int run_rewrite(const tfr_args *args, const tfr_rules *rules, tfr_project *project,
                       tfr_arena *arena) {
    run r;
    if (!begin(&r, args, rules, project, arena)) {
        return r.status;
    }
    process_all(&r);
    report(&r);
    if (args->check && r.changed) {
        worsen(&r, EXIT_CHANGES);
    }
    return r.status;
}

// --- the other commands ---

// Of a folder, or as JSON: the reasons, each with what it costs.
static int run_why_reasons(const tfr_args *args, const tfr_rules *rules, tfr_project *project,
                           tfr_arena *arena) {
    run r;
    if (!begin(&r, args, rules, project, arena)) {
        return r.status;
    }
    process_all(&r);
    tfr_buf text = {.arena = arena};
    if (args->json) {
        tfr_report_reasons_json(&text, r.reports.items, r.reports.count);
    } else {
        bool color = wants_color(STDOUT_FILENO);
        tfr_report_reasons(&text, r.reports.items, r.reports.count, color);
    }
    worsen(&r, print(arena, tfr_buf_str(&text)));
    return r.status;
}

static int run_why(const tfr_args *args, const tfr_rules *rules, tfr_project *project,
                   tfr_arena *arena) {
    if (args->json || tfr_files_is_dir(args->operands.items[0].data)) {
        return run_why_reasons(args, rules, project, arena);
    }
    tfr_buf name = {.arena = arena};
    tfr_buf_add(&name, args->operands.items[0].data, args->operands.items[0].len + 1);
    char *path = name.data; // a copy, NUL included, that may be cut at the colon
    uint32_t line = 0;
    bool has_line = !tfr_files_exists(path) && tfr_args_split_line(path, &line);
    tfr_error err = {0};
    tfr_source src;
    tfr_result result = {0};
    tfr_options options = options_of(args, rules, project);
    tfr_status status = rewrite_file(&result, &src, path, &options, arena, &err);
    if (!status && has_line) {
        uint32_t count = src.line_count; // the last one is empty when the file ends in a line end
        count -= count > 1 && src.lines[count - 1] == src.bytes.len;
        if (!line || line > count) {
            status = tfr_fail(&err, TFR_E_USAGE, path, 0, 0,
                              "there is no line %" PRIu32 ": the file has %" PRIu32 " lines", line,
                              count);
        }
    }
    if (status) {
        return complain(arena, status, &err);
    }
    tfr_buf text = {.arena = arena};
    tfr_report_why(&text, &result.report, line, wants_color(STDOUT_FILENO));
    return print(arena, tfr_buf_str(&text));
}

// Both texts from bytes; the second one is what rewriting gives unless a file holds it.
static tfr_status verify_file(tfr_verified *out, const tfr_args *args, const char *path,
                              const tfr_options *options, tfr_arena *arena, tfr_error *err) {
    tfr_source *original = TFR_NEW(arena, tfr_source), *other = TFR_NEW(arena, tfr_source);
    tfr_result result;
    *out = (tfr_verified){.path = args->against ? args->against : path, .other_path = path};
    tfr_status status;
    if (args->against) {
        status = tfr_source_read(original, args->against, arena, err);
        if (!status) {
            status = tfr_source_read(other, path, arena, err);
        }
    } else {
        out->other_path = "rewritten";
        status = rewrite_file(&result, original, path, options, arena, err);
        if (!status) {
            status = tfr_source_from_bytes(other, path, result.text, arena, err);
        }
    }
    return status ? status
                  : tfr_symbolic_compare(&out->comparison, original, other, options, arena, err);
}

static int run_symbolic(const tfr_args *args, const tfr_rules *rules, tfr_project *project,
                        tfr_arena *arena) {
    run r;
    if (!begin(&r, args, rules, project, arena)) {
        return r.status;
    }
    tfr_verified *files = TFR_NEW_ARRAY(arena, tfr_verified, r.jobs.count);
    for (size_t i = 0; i < r.jobs.count; i++) {
        tfr_error *failure = TFR_NEW(arena, tfr_error);
        tfr_arena *own = tfr_arena_new();
        tfr_status status =
            verify_file(&files[i], args, r.jobs.items[i].path, &r.options, own, failure);
        files[i].comparison = tfr_symbolic_copy(&files[i].comparison, arena);
        tfr_arena_free(own);
        if (status) {
            worsen(&r, complain(arena, status, failure));
            files[i].error = failure;
        } else if (files[i].comparison.different) {
            worsen(&r, EXIT_CHANGES);
        }
    }
    tfr_buf text = {.arena = arena};
    if (args->json) {
        tfr_verify_json(&text, files, r.jobs.count);
    } else {
        tfr_verify_text(&text, files, r.jobs.count, args->quiet);
    }
    worsen(&r, print(arena, tfr_buf_str(&text)));
    return r.status;
}

static int run_rules(const tfr_args *args, const tfr_rules *rules, tfr_arena *arena) {
    tfr_error err = {0};
    tfr_status status = TFR_OK;
    const char *op = NULL;
    if (args->operands.count) {
        op = args->operands.items[0].data;
        status = check_ops("rules", &args->operands, rules, arena, &err);
    }
    tfr_buf text = {.arena = arena};
    if (!status) {
        status = tfr_rules_print(&text, rules, op, &err);
    }
    return status ? complain(arena, status, &err) : print(arena, tfr_buf_str(&text));
}

// Python exits with 1 when the package is missing, which must not look like "a difference".
static tfr_status find_package(const char *python, tfr_error *err) {
    static const char SCRIPT[] = "import importlib.util, sys\n"
                                 "sys.exit(importlib.util.find_spec('tfrewrite') is None)";
    const char *const argv[] = {python, "-c", SCRIPT, NULL};
    pid_t child = 0;
    int code = posix_spawnp(&child, python, NULL, NULL, (char *const *)(uintptr_t)argv, environ);
    int wait_status = 0;
    while (!code && waitpid(child, &wait_status, 0) < 0) {
        code = errno == EINTR ? 0 : errno;
    }
    if (code) {
        return tfr_fail(err, TFR_E_USAGE, python, 0, 0,
                        "verify cannot run Python: %s; TFR_PYTHON names the one to use",
                        strerror(code));
    }
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0) {
        return tfr_fail(err, TFR_E_USAGE, python, 0, 0,
                        "verify needs the package tfrewrite in this Python: install it there, or "
                        "name another Python in TFR_PYTHON");
    }
    return TFR_OK;
}

static int run_verify(const tfr_args *args, tfr_arena *arena) {
    const char *python = getenv("TFR_PYTHON");
    python = python && *python ? python : "python3";
    (void)signal(SIGPIPE, SIG_DFL); // an ignored signal would stay ignored in the child
    (void)signal(SIGXFSZ, SIG_DFL);
    tfr_error err = {0};
    tfr_status status = find_package(python, &err);
    if (status) {
        return complain(arena, status, &err);
    }
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len > 0) {
        self[len] = 0;
        (void)setenv("TFR_BIN", self, 0); // the package then uses this very program
    }
    const char **argv = TFR_NEW_ARRAY(arena, const char *, args->operands.count + 5);
    size_t n = 0;
    argv[n++] = python;
    argv[n++] = "-m";
    argv[n++] = "tfrewrite";
    argv[n++] = "verify";
    for (size_t i = 0; i < args->operands.count; i++) {
        argv[n++] = args->operands.items[i].data;
    }
    (void)execvp(python, (char *const *)(uintptr_t)argv);
    status = tfr_fail(&err, TFR_E_USAGE, python, 0, 0, "cannot run it: %s", strerror(errno));
    return complain(arena, status, &err);
}

// --- kernels ---

// A bar where somebody looks at it; else lines, if they are asked for.
typedef struct watcher {
    tfr_arena *arena;
    bool bar, verbose;
} watcher;

static size_t terminal_columns(void) {
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static void watch(void *context, size_t done, size_t count, tfr_str label) {
    const watcher *w = context;
    tfr_buf text = {.arena = w->arena};
    if (w->bar) {
        tfr_progress_draw(&text, done, count, label, terminal_columns());
    } else if (w->verbose && done) {
        tfr_buf_format(&text, "%zu/%zu %.*s\n", done, count, (int)label.len, label.data);
    }
    say(tfr_buf_str(&text));
}

static void say_warnings(tfr_arena *arena) {
    char warning[2048];
    while (tfr_jit_take_warning(warning, sizeof warning)) {
        tfr_buf text = {.arena = arena};
        tfr_buf_format(&text, "tfrewrite: warning: %s\n", warning);
        say(tfr_buf_str(&text));
    }
}

static int run_warmup(const tfr_args *args, const tfr_rules *rules, tfr_project *project,
                      tfr_arena *arena) {
    run r = {.args = args, .arena = arena};
    tfr_error err = {0};
    tfr_warmup warmup;
    tfr_status status = tfr_warmup_open(&warmup, args, rules, arena, &err);
    warmup.options.rewrite.project = project;
    if (!status) {
        status = collect_jobs(&r, &err);
    }
    if (status) {
        return complain(arena, status, &err);
    }
    for (size_t i = 0; i < r.jobs.count; i++) {
        status = tfr_warmup_add(&warmup, r.jobs.items[i].path, &err);
        if (status) {
            worsen(&r, complain(arena, status, &err));
        }
    }
    if (r.status && !warmup.manifest.needs.count) {
        return r.status;
    }
    const char *term = getenv("TERM");
    watcher w = {.arena = arena, .verbose = args->verbose};
    w.bar = !args->quiet && isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
    tfr_jit_counts counts;
    status = tfr_warmup_run(&warmup, args->jobs, args->quiet ? NULL : watch, &w, &counts, &err);
    if (w.bar) {
        say(TFR_STR(TFR_PROGRESS_CLEAR));
    }
    say_warnings(arena);
    if (status) {
        worsen(&r, complain(arena, status, &err));
    }
    if (!args->quiet) {
        tfr_buf text = {.arena = arena};
        tfr_warmup_report(&text, &warmup, &counts);
        say(tfr_buf_str(&text));
    }
    return r.status;
}

static int run_cache(const tfr_args *args, tfr_arena *arena) {
    tfr_error err = {0};
    tfr_buf text = {.arena = arena};
    bool damaged = false;
    tfr_status status = tfr_cache_command(&text, &damaged, args, arena, &err);
    say_warnings(arena);
    if (status) {
        return complain(arena, status, &err);
    }
    int code = print(arena, tfr_buf_str(&text));
    return code ? code : damaged ? EXIT_CHANGES : EXIT_DONE;
}

static int run_command(const tfr_args *args, tfr_arena *arena) {
    switch (args->command) {
    case TFR_CMD_HELP:
        return print(arena, tfr_str_from(HELP));
    case TFR_CMD_VERSION:
        return print(arena, TFR_STR("tfrewrite " TFR_VERSION "\n"));
    case TFR_CMD_VERIFY:
        if (!args->symbolic) {
            return run_verify(args, arena);
        }
        break;
    case TFR_CMD_CACHE:
        return run_cache(args, arena);
    case TFR_CMD_REWRITE:
    case TFR_CMD_WHY:
    case TFR_CMD_RULES:
    case TFR_CMD_WARMUP:
        break;
    }
    tfr_error err = {0};
    tfr_rules *rules = NULL;
    tfr_status status = load_rules(&rules, args, arena, &err);
    tfr_project *project = tfr_project_new(args->transformers);
    if (!status && args->transformers && !tfr_files_is_dir(args->transformers)) {
        status = tfr_fail(&err, TFR_E_USAGE, args->transformers, 0, 0,
                          "--transformers needs the folder of that package");
    }
    int code = status                            ? complain(arena, status, &err)
               : args->command == TFR_CMD_WHY    ? run_why(args, rules, project, arena)
               : args->command == TFR_CMD_RULES  ? run_rules(args, rules, arena)
               : args->command == TFR_CMD_WARMUP ? run_warmup(args, rules, project, arena)
               : args->command == TFR_CMD_VERIFY ? run_symbolic(args, rules, project, arena)
                                                 : run_rewrite(args, rules, project, arena);
    tfr_project_free(project);
    tfr_rules_free(rules);
    return code;
}

int main(int argc, char **argv) {
    // A reader that is gone and a file size limit are write errors with a message and a status.
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    tfr_arena *arena = tfr_arena_new();
    tfr_args args;
    tfr_error err = {0};
    tfr_status status = tfr_args_parse(&args, argc, argv, arena, &err);
    int code = status ? complain(arena, status, &err) : run_command(&args, arena);
    tfr_arena_free(arena);
    return code;
}
