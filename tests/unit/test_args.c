// The command line as data: every option, every exclusion, every suggestion.
// The command line's sources are no library, so the one under test is compiled in here.
#include "cli/args.c"

#include "tests/unit/check.h"

#define MOST 12

// Splits `line` at spaces and parses it.
static tfr_status parse(tfr_args *out, const char *line, tfr_arena *arena, tfr_error *err) {
    char *argv[MOST + 1] = {NULL};
    int argc = 0;
    tfr_buf copy = {.arena = arena};
    tfr_buf_add(&copy, line, strlen(line) + 1);
    for (char *word = strtok(copy.data, " "); word && argc < MOST; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    *err = (tfr_error){0};
    return tfr_args_parse(out, argc, argv, arena, err);
}

static void accepted(tfr_arena *arena) {
    tfr_args a;
    tfr_error err;
    CHECK_INT(parse(&a, "tfrewrite x.py", arena, &err), TFR_OK);
    CHECK(a.command == TFR_CMD_REWRITE && a.operands.count == 1 && !a.out && !a.write);
    CHECK(a.target == TFR_TARGET_AUTO && !a.only.count && !a.skip.count);
    CHECK_INT(parse(&a, "tfrewrite -o out.py - --json -q --target=host", arena, &err), TFR_OK);
    CHECK(strcmp(a.out, "out.py") == 0 && a.json && a.quiet && a.target == TFR_TARGET_HOST);
    CHECK_STR(a.operands.items[0], "-");
    CHECK_INT(parse(&a, "tfrewrite --output=o --rules d --rules=e x.py", arena, &err), TFR_OK);
    CHECK_INT(a.rule_dirs.count, 2);
    CHECK_STR(a.rule_dirs.items[1], "e");
    CHECK_INT(parse(&a, "tfrewrite --only a,b --only c --skip=d x", arena, &err), TFR_OK);
    CHECK_INT(a.only.count, 3);
    CHECK_STR(a.only.items[1], "b");
    CHECK_STR(a.skip.items[0], "d");
    CHECK_INT(parse(&a, "tfrewrite -o - x", arena, &err), TFR_OK);
    CHECK(a.out == NULL);
    CHECK_INT(parse(&a, "tfrewrite -d --check x", arena, &err), TFR_OK);
    CHECK(a.diff && a.check);
    CHECK_INT(parse(&a, "tfrewrite -w a b c", arena, &err), TFR_OK);
    CHECK_INT(a.operands.count, 3);
    CHECK_INT(parse(&a, "tfrewrite -- -x why", arena, &err), TFR_OK);
    CHECK(a.command == TFR_CMD_REWRITE && a.operands.count == 2);
    CHECK_INT(parse(&a, "tfrewrite --rules d why x.py:3", arena, &err), TFR_OK);
    CHECK(a.command == TFR_CMD_WHY && a.operands.count == 1 && a.rule_dirs.count == 1);
    CHECK_INT(parse(&a, "tfrewrite rules", arena, &err), TFR_OK);
    CHECK(a.command == TFR_CMD_RULES && a.operands.count == 0);
    CHECK_INT(parse(&a, "tfrewrite x.py rules", arena, &err), TFR_OK);
    CHECK(a.command == TFR_CMD_REWRITE && a.operands.count == 2);
    CHECK_INT(parse(&a, "tfrewrite --only rope verify x --config c -- -z", arena, &err), TFR_OK);
    CHECK(a.command == TFR_CMD_VERIFY && a.operands.count == 7);
    CHECK_STR(a.operands.items[0], "--only");
    CHECK_STR(a.operands.items[6], "-z");
    CHECK_INT(parse(&a, "tfrewrite warmup x y --config c.json --arch host --dtype f32,bf16 -j4 -v",
                    arena, &err),
              TFR_OK);
    CHECK(a.command == TFR_CMD_WARMUP && a.operands.count == 2 && a.jobs == 4 && a.verbose);
    CHECK(strcmp(a.config, "c.json") == 0 && a.dtypes.count == 2 && a.archs.count == 1);
    CHECK_INT(parse(&a, "tfrewrite warmup x --config c --arch sm_90a,compute_80 --dtype f16,bf16",
                    arena, &err),
              TFR_OK);
    CHECK(a.archs.count == 2 && a.dtypes.count == 2);
    CHECK_INT(parse(&a, "tfrewrite warmup - --config=c --jobs=12 --only a", arena, &err), TFR_OK);
    CHECK(a.jobs == 12 && a.only.count == 1 && !a.dtypes.count);
    CHECK_INT(parse(&a, "tfrewrite cache ls --json", arena, &err), TFR_OK);
    CHECK(a.command == TFR_CMD_CACHE && a.json && a.size_limit == -1 && a.age_limit == -1);
    CHECK_INT(parse(&a, "tfrewrite cache gc --max-size 2G --max-age=36h", arena, &err), TFR_OK);
    CHECK(a.size_limit == INT64_C(2) << 30 && a.age_limit == 36 * 3600);
    CHECK_INT(parse(&a, "tfrewrite cache gc --max-size 0 --max-age 2w", arena, &err), TFR_OK);
    CHECK(a.size_limit == 0 && a.age_limit == 14 * 86400);
    CHECK_INT(parse(&a, "tfrewrite cache why abc", arena, &err), TFR_OK);
    CHECK_STR(a.operands.items[1], "abc");
    CHECK_INT(parse(&a, "tfrewrite cache pack out --arch sm_75 --arch host", arena, &err), TFR_OK);
    CHECK_STR(a.operands.items[1], "out");
    CHECK_INT(a.archs.count, 2);
    CHECK_INT(parse(&a, "tfrewrite cache unpack in -o -", arena, &err), TFR_OK);
    CHECK_STR(tfr_str_from(a.out), "-");
    CHECK_INT(parse(&a, "tfrewrite x --nonsense-after --help", arena, &err), TFR_E_USAGE);
    CHECK_INT(parse(&a, "tfrewrite -w -o x --help", arena, &err), TFR_OK);
    CHECK_INT(a.command, TFR_CMD_HELP);
    CHECK_INT(parse(&a, "tfrewrite -V", arena, &err), TFR_OK);
    CHECK_INT(a.command, TFR_CMD_VERSION);
}

static void refused(tfr_arena *arena) {
    static const char *const CASES[][2] = {
        {"tfrewrite", "no file given"},
        {"tfrewrite -q", "no file given"},
        {"tfrewrite --tagret host x", "unknown option --tagret; did you mean --target?"},
        {"tfrewrite --jsn x", "did you mean --json?"},
        {"tfrewrite --frobnicate x", "unknown option --frobnicate; `tfrewrite --help`"},
        {"tfrewrite -only x", "unknown option -only"}, // not: write to the file "nly"
        {"tfrewrite -x", "unknown option -x"},
        {"tfrewrite x -o", "--output needs a value"},
        {"tfrewrite x --rules=", "--rules needs a value"},
        {"tfrewrite x --json=yes", "--json takes no value"},
        {"tfrewrite x --only a,,b", "--only needs op names separated by commas, got \"a,,b\""},
        {"tfrewrite x --skip a,", "--skip needs op names"},
        {"tfrewrite x --target gpu", "--target takes auto, host or cuda, not \"gpu\""},
        {"tfrewrite x -o a -o b", "-o is given twice"},
        {"tfrewrite x -o a -w", "-o and -w exclude each other"},
        {"tfrewrite x -o a --check", "-o and --check exclude each other"},
        {"tfrewrite x -w --check", "-w and --check exclude each other"},
        {"tfrewrite x -d -w", "-d and -w exclude each other"},
        {"tfrewrite x -d -o a", "-d and -o exclude each other"},
        {"tfrewrite x -d --json", "-d and --json exclude each other"},
        {"tfrewrite x -o - --json", "both want standard output"},
        {"tfrewrite x y -o a", "-o takes one file or folder to rewrite, got 2"},
        {"tfrewrite plan x", "the command plan is not available in this version"},
        {"tfrewrite warmup x", "warmup needs --config"},
        {"tfrewrite warmup --config c", "no file given"},
        {"tfrewrite warmup x --config a --config b", "--config is given twice"},
        {"tfrewrite warmup x --config c --arch host,sm_90", "sm_89, sm_90a, sm_100a"},
        {"tfrewrite warmup x --config c --arch gpu", "compute_120, not \"gpu\""},
        {"tfrewrite warmup x --config c --arch host,", "--arch needs architectures separated"},
        {"tfrewrite warmup x --config c --dtype f64", "takes bf16, f16 and f32, not \"f64\""},
        {"tfrewrite warmup x --config c --dtype f16", "the host has no kernels for it"},
        {"tfrewrite warmup x --config c --dtype f16 --arch sm_75,host", "the host has no kernels"},
        {"tfrewrite warmup x --config c -j 0", "-j takes a number from 1 to 1024, not \"0\""},
        {"tfrewrite warmup x --config c -jx", "unknown option -jx"},
        {"tfrewrite warmup x --config c --json", "--json does not go with the command warmup"},
        {"tfrewrite x --config c", "--config goes with the command warmup alone"},
        {"tfrewrite cache", "cache takes one of ls, verify, why KEY, gc, path"},
        {"tfrewrite cache list", "unpack FILE, not \"list\""},
        {"tfrewrite cache pack", "cache pack takes one argument, the file to write"},
        {"tfrewrite cache pack a b", "cache pack takes one argument"},
        {"tfrewrite cache pack a -o b", "--output does not go with cache pack"},
        {"tfrewrite cache pack a --arch sm_1", "--arch takes host, sm_75"},
        {"tfrewrite cache unpack", "cache unpack takes one argument, a file that cache pack wrote"},
        {"tfrewrite cache unpack a --arch sm_75", "--arch does not go with cache unpack"},
        {"tfrewrite cache why", "cache why takes one argument"},
        {"tfrewrite cache ls x", "cache ls takes no argument"},
        {"tfrewrite cache gc --json", "--json does not go with cache gc"},
        {"tfrewrite cache ls --max-age 3d", "--max-age does not go with cache ls"},
        {"tfrewrite cache gc --max-size 1X", "--max-size takes a size such as 500M or 2G"},
        {"tfrewrite cache gc --max-size -1", "--max-size takes a size"},
        {"tfrewrite cache gc --max-age 30", "--max-age takes an age such as 12h, 30d or 4w"},
        {"tfrewrite -q cache ls", "--quiet does not go with the command cache"},
        {"tfrewrite why", "why takes one argument"},
        {"tfrewrite why a b", "why takes one argument"},
        {"tfrewrite why x -w", "--write does not go with the command why"},
        {"tfrewrite rules --json", "--json does not go with the command rules"},
        {"tfrewrite rules a b", "rules takes one op at most"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        tfr_args a;
        tfr_error err;
        CHECK_INT(parse(&a, CASES[i][0], arena, &err), TFR_E_USAGE);
        CHECK_HAS(err.message, CASES[i][1]);
    }
}

static void lines(void) {
    static const struct {
        const char *given, *path;
        uint32_t line;
    } CASES[] = {
        {"x.py:12", "x.py", 12}, {"a:b.py:1", "a:b.py", 1},           {"x.py", "x.py", 0},
        {"x.py:", "x.py:", 0},   {"x.py:1a", "x.py:1a", 0},           {":5", ":5", 0},
        {"x:0", "x", 0},         {"x:4294967296", "x:4294967296", 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char path[40];
        (void)snprintf(path, sizeof path, "%s", CASES[i].given);
        uint32_t line = 99;
        bool split_off = tfr_args_split_line(path, &line);
        CHECK_INT(line, CASES[i].line);
        CHECK(strcmp(path, CASES[i].path) == 0);
        CHECK(split_off == (strcmp(path, CASES[i].given) != 0));
    }
}

static void nearest(void) {
    static const tfr_str KNOWN[] = {{"rms_norm", 8}, {"add_rms_norm", 12}, {"rope", 4}};
    CHECK_STR(tfr_args_nearest(TFR_STR("rmsnorm"), KNOWN, 3), "rms_norm");
    CHECK_STR(tfr_args_nearest(TFR_STR("add_norm"), KNOWN, 3), "");
    CHECK_STR(tfr_args_nearest(TFR_STR("rop"), KNOWN, 3), "rope");
    CHECK_STR(tfr_args_nearest(TFR_STR("xyz"), KNOWN, 3), "");
    CHECK_STR(tfr_args_nearest(TFR_STR("a_word_of_more_than_forty_letters_is_no_op"), KNOWN, 3),
              "");
    CHECK_STR(tfr_args_nearest(TFR_STR("rope"), KNOWN, 0), "");
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    accepted(arena);
    refused(arena);
    lines();
    nearest();
    tfr_arena_free(arena);
    return CHECK_DONE();
}
