// One table of options and one of commands; everything said about a wrong argument is made from
// them, so that a suggestion never names what does not exist.
#include "cli/args.h"

#include "jit/target.h"

#include <stdarg.h>
#include <stdio.h>

typedef enum option_id {
    OPT_OUT,
    OPT_WRITE,
    OPT_DIFF,
    OPT_CHECK,
    OPT_JSON,
    OPT_QUIET,
    OPT_RULES,
    OPT_TRANSFORMERS,
    OPT_ONLY,
    OPT_SKIP,
    OPT_TARGET,
    OPT_SYMBOLIC,
    OPT_AGAINST,
    OPT_CONFIG,
    OPT_ARCH,
    OPT_DTYPE,
    OPT_JOBS,
    OPT_VERBOSE,
    OPT_MAX_SIZE,
    OPT_MAX_AGE,
    OPT_HELP,
    OPT_VERSION,
    OPT_COUNT
} option_id;

typedef struct option {
    const char *name, *letter;
    bool takes_value;
    unsigned commands; // bit set of tfr_command that accept it
} option;

#define REWRITE (1u << TFR_CMD_REWRITE)
#define WHY (1u << TFR_CMD_WHY)
#define RULES (1u << TFR_CMD_RULES)
#define VERIFY (1u << TFR_CMD_VERIFY)
#define WARMUP (1u << TFR_CMD_WARMUP)
#define CACHE (1u << TFR_CMD_CACHE)
#define EVERY (~0u)

static const option OPTIONS[OPT_COUNT] = {
    [OPT_OUT] = {"--output", "-o", true, REWRITE | CACHE},
    [OPT_WRITE] = {"--write", "-w", false, REWRITE},
    [OPT_DIFF] = {"--diff", "-d", false, REWRITE},
    [OPT_CHECK] = {"--check", NULL, false, REWRITE},
    [OPT_JSON] = {"--json", NULL, false, REWRITE | WHY | VERIFY | CACHE},
    [OPT_QUIET] = {"--quiet", "-q", false, REWRITE | VERIFY | WARMUP},
    [OPT_RULES] = {"--rules", NULL, true, REWRITE | WHY | RULES | VERIFY | WARMUP},
    [OPT_TRANSFORMERS] = {"--transformers", NULL, true, REWRITE | WHY | VERIFY | WARMUP},
    [OPT_ONLY] = {"--only", NULL, true, REWRITE | WHY | VERIFY | WARMUP},
    [OPT_SKIP] = {"--skip", NULL, true, REWRITE | WHY | VERIFY | WARMUP},
    [OPT_TARGET] = {"--target", NULL, true, REWRITE | WHY | VERIFY},
    [OPT_SYMBOLIC] = {"--symbolic", NULL, false, VERIFY},
    [OPT_AGAINST] = {"--against", NULL, true, VERIFY},
    [OPT_CONFIG] = {"--config", NULL, true, WARMUP},
    [OPT_ARCH] = {"--arch", NULL, true, WARMUP | CACHE},
    [OPT_DTYPE] = {"--dtype", NULL, true, WARMUP},
    [OPT_JOBS] = {"--jobs", "-j", true, WARMUP},
    [OPT_VERBOSE] = {"--verbose", "-v", false, WARMUP},
    [OPT_MAX_SIZE] = {"--max-size", NULL, true, CACHE},
    [OPT_MAX_AGE] = {"--max-age", NULL, true, CACHE},
    [OPT_HELP] = {"--help", "-h", false, EVERY},
    [OPT_VERSION] = {"--version", "-V", false, EVERY},
};

typedef struct command {
    const char *name;
    tfr_command id;
    bool available;
} command;

static const command COMMANDS[] = {
    {"why", TFR_CMD_WHY, true},       {"rules", TFR_CMD_RULES, true},
    {"verify", TFR_CMD_VERIFY, true}, {"plan", TFR_CMD_REWRITE, false},
    {"warmup", TFR_CMD_WARMUP, true}, {"cache", TFR_CMD_CACHE, true},
};

static tfr_status usage(tfr_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static tfr_status usage(tfr_error *err, const char *format, ...) {
    char message[2 * sizeof err->message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "%s", message);
}

// --- spelling ---

#define LONGEST_WORD 40

// Edits (insert, drop, replace) between two words; LONGEST_WORD if either is longer than that.
static size_t distance(tfr_str a, tfr_str b) {
    if (a.len >= LONGEST_WORD || b.len >= LONGEST_WORD) {
        return LONGEST_WORD;
    }
    size_t row[LONGEST_WORD];
    for (size_t j = 0; j <= b.len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a.data[i - 1] != b.data[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b.len];
}

tfr_str tfr_args_nearest(tfr_str word, const tfr_str *known, size_t count) {
    tfr_str best = {"", 0};
    size_t least = 1 + word.len / 3; // so many edits make another word
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, known[i]);
        if (d < least) {
            least = d;
            best = known[i];
        }
    }
    return best;
}

static tfr_status unknown(tfr_error *err, const char *what, tfr_str word, const tfr_str *known,
                          size_t count) {
    tfr_str meant = tfr_args_nearest(word, known, count);
    return usage(err, "unknown %s %.*s%s%.*s%s `tfrewrite --help` lists them", what,
                 (int)(word.len < 200 ? word.len : 200), word.data,
                 meant.len ? "; did you mean " : "", (int)meant.len, meant.data,
                 meant.len ? "?" : ";");
}

static tfr_status unknown_option(tfr_error *err, tfr_str word) {
    tfr_str names[OPT_COUNT];
    for (size_t i = 0; i < OPT_COUNT; i++) {
        names[i] = tfr_str_from(OPTIONS[i].name);
    }
    return unknown(err, "option", word, names, OPT_COUNT);
}

// --- values ---

static void add_word(tfr_word_list *words, tfr_str word, tfr_arena *arena) {
    *TFR_PUSH(arena, words) = word;
}

static tfr_status add_list(tfr_word_list *words, const char *name, const char *what, tfr_str list,
                           tfr_arena *arena, tfr_error *err) {
    size_t start = 0;
    for (size_t i = 0; i <= list.len; i++) {
        if (i < list.len && list.data[i] != ',') {
            continue;
        }
        if (i == start) {
            return usage(err, "%s needs %s separated by commas, got \"%.*s\"", name, what,
                         (int)(list.len < 200 ? list.len : 200), list.data);
        }
        add_word(words, (tfr_str){list.data + start, i - start}, arena);
        start = i + 1;
    }
    return TFR_OK;
}

static tfr_status set_target(tfr_args *out, tfr_str value, tfr_error *err) {
    static const char *const NAMES[] = {
        [TFR_TARGET_AUTO] = "auto", [TFR_TARGET_HOST] = "host", [TFR_TARGET_CUDA] = "cuda"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (tfr_str_eq(value, tfr_str_from(NAMES[i]))) {
            out->target = (tfr_target)i;
            return TFR_OK;
        }
    }
    return usage(err, "--target takes auto, host or cuda, not \"%.*s\"",
                 (int)(value.len < 200 ? value.len : 200), value.data);
}

static tfr_status set_archs(tfr_args *out, tfr_str value, tfr_arena *arena, tfr_error *err) {
    size_t first = out->archs.count;
    tfr_status status = add_list(&out->archs, "--arch", "architectures", value, arena, err);
    for (size_t i = first; i < out->archs.count && !status; i++) {
        tfr_str word = out->archs.items[i], known = tfr_cuda_target_list(arena);
        if (!tfr_str_eq(word, TFR_STR("host")) && !tfr_cuda_target_find(word)) {
            status = usage(err, "--arch takes host, %.*s, not \"%.*s\"", (int)known.len, known.data,
                           (int)(word.len < 200 ? word.len : 200), word.data);
        }
    }
    return status;
}

static tfr_status set_dtypes(tfr_args *out, tfr_str value, tfr_arena *arena, tfr_error *err) {
    size_t first = out->dtypes.count;
    tfr_status status = add_list(&out->dtypes, "--dtype", "dtypes", value, arena, err);
    for (size_t i = first; i < out->dtypes.count && !status; i++) {
        tfr_str word = out->dtypes.items[i];
        if (!tfr_str_eq(word, TFR_STR("bf16")) && !tfr_str_eq(word, TFR_STR("f16")) &&
            !tfr_str_eq(word, TFR_STR("f32"))) {
            status = usage(err, "--dtype takes bf16, f16 and f32, not \"%.*s\"",
                           (int)(word.len < 200 ? word.len : 200), word.data);
        }
    }
    return status;
}

// Digits and a unit of `units`; its place there is put into `*unit`. -1: something else.
static int64_t number_with_unit(tfr_str value, const char *units, size_t *unit) {
    int64_t number = 0;
    size_t i = 0;
    while (i < value.len && value.data[i] >= '0' && value.data[i] <= '9' && number < 1000000000) {
        number = number * 10 + (value.data[i++] - '0');
    }
    const char *found = i + 1 == value.len ? strchr(units, value.data[i]) : NULL;
    *unit = found ? (size_t)(found - units) : 0;
    return i && (found || i == value.len) ? number : -1;
}

static tfr_status set_jobs(tfr_args *out, tfr_str value, tfr_error *err) {
    size_t unit;
    int64_t jobs = number_with_unit(value, "", &unit);
    if (jobs < 1 || jobs > 1024) {
        return usage(err, "-j takes a number from 1 to 1024, not \"%.*s\"",
                     (int)(value.len < 200 ? value.len : 200), value.data);
    }
    out->jobs = (int)jobs;
    return TFR_OK;
}

static tfr_status set_limit(tfr_args *out, option_id id, tfr_str value, tfr_error *err) {
    static const int64_t AGES[] = {3600, 86400, 604800};
    size_t unit;
    bool size = id == OPT_MAX_SIZE;
    int64_t number = number_with_unit(value, size ? "BKMGT" : "hdw", &unit);
    bool has_unit =
        value.len && (value.data[value.len - 1] < '0' || value.data[value.len - 1] > '9');
    if (number < 0 || (!size && !has_unit)) {
        return usage(err,
                     size ? "--max-size takes a size such as 500M or 2G, not \"%.*s\""
                          : "--max-age takes an age such as 12h, 30d or 4w, not \"%.*s\"",
                     (int)(value.len < 200 ? value.len : 200), value.data);
    }
    if (size) {
        bool over = unit == 4 && number > 1000000;
        out->size_limit = over ? INT64_MAX : number << (10 * unit);
    } else {
        out->age_limit = number * AGES[unit];
    }
    return TFR_OK;
}

static tfr_status set_option(tfr_args *out, option_id id, tfr_str value, tfr_arena *arena,
                             tfr_error *err) {
    if (OPTIONS[id].takes_value && !value.len) {
        return usage(err, "%s needs a value", OPTIONS[id].name);
    }
    switch (id) {
    case OPT_OUT:
        if (out->out) {
            return usage(err, "-o is given twice");
        }
        out->out = value.data;
        return TFR_OK;
    case OPT_WRITE:
        out->write = true;
        return TFR_OK;
    case OPT_DIFF:
        out->diff = true;
        return TFR_OK;
    case OPT_CHECK:
        out->check = true;
        return TFR_OK;
    case OPT_JSON:
        out->json = true;
        return TFR_OK;
    case OPT_QUIET:
        out->quiet = true;
        return TFR_OK;
    case OPT_RULES:
        add_word(&out->rule_dirs, value, arena);
        return TFR_OK;
    case OPT_TRANSFORMERS:
        out->transformers = value.data;
        return TFR_OK;
    case OPT_ONLY:
        return add_list(&out->only, "--only", "op names", value, arena, err);
    case OPT_SKIP:
        return add_list(&out->skip, "--skip", "op names", value, arena, err);
    case OPT_TARGET:
        return set_target(out, value, err);
    case OPT_SYMBOLIC:
        out->symbolic = true;
        return TFR_OK;
    case OPT_AGAINST:
        if (out->against) {
            return usage(err, "--against is given twice");
        }
        out->against = value.data;
        return TFR_OK;
    case OPT_CONFIG:
        if (out->config) {
            return usage(err, "--config is given twice");
        }
        out->config = value.data;
        return TFR_OK;
    case OPT_ARCH:
        return set_archs(out, value, arena, err);
    case OPT_DTYPE:
        return set_dtypes(out, value, arena, err);
    case OPT_JOBS:
        return set_jobs(out, value, err);
    case OPT_VERBOSE:
        out->verbose = true;
        return TFR_OK;
    case OPT_MAX_SIZE:
    case OPT_MAX_AGE:
        return set_limit(out, id, value, err);
    case OPT_HELP:
        out->command = TFR_CMD_HELP;
        return TFR_OK;
    case OPT_VERSION:
        out->command = TFR_CMD_VERSION;
        return TFR_OK;
    case OPT_COUNT:
        break;
    }
    return TFR_OK;
}

// --- words ---

// "--name", "--name=value", "-o". `value` is what was glued on; data NULL: nothing. "-oOUT" is not
// read: a mistyped "-only" would write to a file.
static option_id find_option(tfr_str word, tfr_str *value) {
    *value = (tfr_str){NULL, 0};
    for (size_t i = 0; i < OPT_COUNT; i++) {
        tfr_str name = tfr_str_from(OPTIONS[i].name);
        if (word.len >= name.len && memcmp(word.data, name.data, name.len) == 0 &&
            (word.len == name.len || word.data[name.len] == '=')) {
            if (word.len > name.len) {
                *value = (tfr_str){word.data + name.len + 1, word.len - name.len - 1};
            }
            return (option_id)i;
        }
        if (OPTIONS[i].letter && tfr_str_eq(word, tfr_str_from(OPTIONS[i].letter))) {
            return (option_id)i;
        }
        if (i == OPT_JOBS && word.len > 2 && word.data[1] == 'j' && word.data[2] >= '0' &&
            word.data[2] <= '9') { // -j4, as make reads it
            *value = (tfr_str){word.data + 2, word.len - 2};
            return OPT_JOBS;
        }
    }
    return OPT_COUNT;
}

static tfr_status set_command(tfr_args *out, tfr_str word, bool *is_command, tfr_error *err) {
    *is_command = false;
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        if (!tfr_str_eq(word, tfr_str_from(COMMANDS[i].name))) {
            continue;
        }
        if (!COMMANDS[i].available) {
            return usage(err,
                         "the command %s is not available in this version (a file of that name is "
                         "./%s)",
                         COMMANDS[i].name, COMMANDS[i].name);
        }
        out->command = COMMANDS[i].id;
        *is_command = true;
    }
    return TFR_OK;
}

static bool has_argument(int argc, char **argv, const char *word) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], word) == 0) {
            return true;
        }
    }
    return false;
}

// Everything but its name goes on to the Python program behind `verify`.
static bool take_verify(tfr_args *out, int argc, char **argv, tfr_arena *arena) {
    int at = 1;
    while (at < argc && argv[at][0] == '-' && argv[at][1] && strcmp(argv[at], "--") != 0) {
        tfr_str value;
        option_id id = find_option(tfr_str_from(argv[at]), &value);
        at += id != OPT_COUNT && OPTIONS[id].takes_value && !value.data ? 2 : 1;
    }
    if (at >= argc || strcmp(argv[at], "verify") != 0 || has_argument(argc, argv, "--symbolic")) {
        return false;
    }
    out->command = TFR_CMD_VERIFY;
    for (int i = 1; i < argc; i++) {
        if (i != at) {
            add_word(&out->operands, tfr_str_from(argv[i]), arena);
        }
    }
    return true;
}

static const char *command_name(tfr_command id) {
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        if (COMMANDS[i].available && COMMANDS[i].id == id) {
            return COMMANDS[i].name;
        }
    }
    return "";
}

static tfr_command first_command(unsigned commands) {
    tfr_command id = TFR_CMD_REWRITE;
    while (!(commands >> id & 1u)) {
        id = (tfr_command)(id + 1);
    }
    return id;
}

static tfr_status check_cache(const tfr_args *out, unsigned given, tfr_error *err) {
    static const struct {
        const char *name, *operand; // what it takes; NULL: nothing
        unsigned options;
    } ACTIONS[] = {
        {"ls", NULL, 1u << OPT_JSON},
        {"verify", NULL, 1u << OPT_JSON},
        {"why", "the start of an entry's name or a part of its label", 0},
        {"gc", NULL, 1u << OPT_MAX_SIZE | 1u << OPT_MAX_AGE},
        {"path", NULL, 0},
        {"pack", "the file to write", 1u << OPT_ARCH},
        {"unpack", "a file that cache pack wrote", 1u << OPT_OUT},
    };
    tfr_str word = out->operands.count ? out->operands.items[0] : TFR_STR("");
    for (size_t i = 0; i < sizeof ACTIONS / sizeof *ACTIONS; i++) {
        if (!tfr_str_eq(word, tfr_str_from(ACTIONS[i].name))) {
            continue;
        }
        const char *operand = ACTIONS[i].operand;
        if (out->operands.count != 1u + (operand != NULL)) {
            return usage(err,
                         operand ? "cache %s takes one argument, %s" : "cache %s takes no argument",
                         ACTIONS[i].name, operand);
        }
        for (size_t k = 0; k < OPT_COUNT; k++) {
            if (given >> k & 1u && !(ACTIONS[i].options >> k & 1u)) {
                return usage(err, "%s does not go with cache %s", OPTIONS[k].name, ACTIONS[i].name);
            }
        }
        return TFR_OK;
    }
    return usage(err,
                 "cache takes one of ls, verify, why KEY, gc, path, pack FILE, unpack FILE%s%.*s%s",
                 word.len ? ", not \"" : "", (int)(word.len < 200 ? word.len : 200), word.data,
                 word.len ? "\"" : "");
}

static bool has_word(const tfr_word_list *words, const char *word) {
    for (size_t i = 0; i < words->count; i++) {
        if (tfr_str_eq(words->items[i], tfr_str_from(word))) {
            return true;
        }
    }
    return false;
}

static tfr_status check_options(tfr_args *out, unsigned given, tfr_error *err) {
    for (size_t i = 0; i < OPT_COUNT; i++) {
        if (!(given >> i & 1u) || OPTIONS[i].commands >> out->command & 1u) {
            continue;
        }
        if (out->command == TFR_CMD_REWRITE) { // which has no name
            return usage(err, "%s goes with the command %s alone", OPTIONS[i].name,
                         command_name(first_command(OPTIONS[i].commands)));
        }
        return usage(err, "%s does not go with the command %s", OPTIONS[i].name,
                     command_name(out->command));
    }
    if (out->command == TFR_CMD_CACHE) {
        return check_cache(out, given, err);
    }
    if (out->out && strcmp(out->out, "-") == 0) {
        if (out->json) {
            return usage(err, "-o - and --json both want standard output");
        }
        out->out = NULL; // where the source goes anyway
    }
    const char *one = out->write ? "-w" : out->check ? "--check" : NULL;
    if (out->out && one) {
        return usage(err, "-o and %s exclude each other", one);
    }
    if (out->write && out->check) {
        return usage(err, "-w and --check exclude each other: --check writes nothing");
    }
    if (out->diff && (out->write || out->out || out->json)) {
        return usage(err, "-d and %s exclude each other",
                     out->write ? "-w"
                     : out->out ? "-o"
                                : "--json");
    }
    size_t n = out->operands.count;
    if (out->command == TFR_CMD_WHY && n != 1) {
        return usage(err, "why takes one argument, FILE, FILE:LINE or a folder");
    }
    if (out->against && n != 1) {
        return usage(err, "--against takes one rewritten file, got %zu", n);
    }
    if (out->command == TFR_CMD_RULES && n > 1) {
        return usage(err, "rules takes one op at most");
    }
    if (out->command == TFR_CMD_WARMUP && n && !out->config) {
        return usage(err, "warmup needs --config, the model's config.json: the sizes are there");
    }
    if (has_word(&out->dtypes, "f16") && (!out->archs.count || has_word(&out->archs, "host"))) {
        return usage(err, "--dtype f16 goes with CUDA architectures alone, --arch sm_90a or the "
                          "like: the host has no kernels for it");
    }
    bool files = out->command == TFR_CMD_REWRITE || out->command == TFR_CMD_WARMUP ||
                 out->command == TFR_CMD_VERIFY;
    if (files && n == 0) {
        return usage(err, "no file given; `tfrewrite --help` shows the usage");
    }
    if (out->command == TFR_CMD_REWRITE && n > 1 && out->out) {
        return usage(err, "-o takes one file or folder to rewrite, got %zu", n);
    }
    return TFR_OK;
}

static tfr_status take_operand(tfr_args *out, tfr_str word, bool options_end, tfr_arena *arena,
                               tfr_error *err) {
    if (out->command == TFR_CMD_REWRITE && !out->operands.count && !options_end) {
        bool is_command = false;
        tfr_status status = set_command(out, word, &is_command, err);
        if (status || is_command) {
            return status;
        }
    }
    add_word(&out->operands, word, arena);
    return TFR_OK;
}

// Moves `*at` to the option's value where that is a word of its own.
static tfr_status take_option(tfr_args *out, char **argv, int argc, int *at, unsigned *given,
                              tfr_arena *arena, tfr_error *err) {
    tfr_str word = tfr_str_from(argv[*at]);
    tfr_str value;
    option_id id = find_option(word, &value);
    if (id == OPT_COUNT) {
        return unknown_option(err, word);
    }
    if (value.data && !OPTIONS[id].takes_value) {
        return usage(err, "%s takes no value", OPTIONS[id].name);
    }
    if (OPTIONS[id].takes_value && !value.data && ++*at < argc) {
        value = tfr_str_from(argv[*at]);
    }
    *given |= 1u << id;
    return set_option(out, id, value, arena, err);
}

tfr_status tfr_args_parse(tfr_args *out, int argc, char **argv, tfr_arena *arena, tfr_error *err) {
    *out = (tfr_args){.command = TFR_CMD_REWRITE, .size_limit = -1, .age_limit = -1};
    if (take_verify(out, argc, argv, arena)) {
        return TFR_OK;
    }
    unsigned given = 0;
    bool options_end = false;
    for (int i = 1; i < argc; i++) {
        tfr_status status = TFR_OK;
        tfr_str word = tfr_str_from(argv[i]);
        if (!options_end && tfr_str_eq(word, TFR_STR("--"))) {
            options_end = true;
        } else if (options_end || word.len < 2 || word.data[0] != '-') {
            status = take_operand(out, word, options_end, arena, err);
        } else {
            status = take_option(out, argv, argc, &i, &given, arena, err);
        }
        if (status || out->command == TFR_CMD_HELP || out->command == TFR_CMD_VERSION) {
            return status;
        }
    }
    return check_options(out, given, err);
}

bool tfr_args_split_line(char *path, uint32_t *line) {
    *line = 0;
    char *colon = strrchr(path, ':');
    if (!colon || colon == path || !colon[1]) {
        return false;
    }
    uint32_t value = 0;
    for (const char *c = colon + 1; *c; c++) {
        if (*c < '0' || *c > '9' || value > UINT32_MAX / 10 - 1) {
            return false;
        }
        value = value * 10 + (uint32_t)(*c - '0');
    }
    *colon = 0;
    *line = value;
    return true;
}
