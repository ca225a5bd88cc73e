// The command line as data. Nothing here touches a file, prints or exits.
#ifndef TFR_ARGS_H
#define TFR_ARGS_H

#include "rewriter/rewrite.h"

typedef enum tfr_command {
    TFR_CMD_REWRITE,
    TFR_CMD_WHY,
    TFR_CMD_RULES,
    TFR_CMD_VERIFY,
    TFR_CMD_WARMUP,
    TFR_CMD_CACHE,
    TFR_CMD_HELP,
    TFR_CMD_VERSION,
} tfr_command;

typedef struct tfr_word_list {
    tfr_str *items; // each also NUL-terminated, except the parts of a comma list
    size_t count, cap;
} tfr_word_list;

typedef struct tfr_args {
    tfr_command command;
    tfr_word_list operands; // without the command's name; of `verify` without --symbolic: all other
                            // arguments, in order; of `cache`: "ls", "verify", "why" and its KEY,
                            // "gc", "path", "pack" and "unpack" and their FILE
    const char *out;        // -o; NULL: not given; of `cache unpack` a folder
    bool write, diff, check, json, quiet;
    tfr_word_list rule_dirs;
    const char *transformers; // the folder of that package; NULL: not given
    tfr_word_list only, skip;
    tfr_target target;
    bool symbolic;        // of verify: it is done here, without Python
    const char *against;  // with it: the original of what has been rewritten; NULL: not given
    const char *config;   // of warmup
    tfr_word_list dtypes; // "bf16", "f16", "f32"; none: not given
    tfr_word_list archs;  // "host" or a name of jit/target.h; none: not given
    int jobs;             // 0: not given
    bool verbose;         // of warmup
    int64_t size_limit;   // of cache gc, in bytes; -1: not given
    int64_t age_limit;    // in seconds; -1: not given
} tfr_args;

// TFR_E_USAGE: an unknown option or command, a missing value, options that exclude each other.
tfr_status tfr_args_parse(tfr_args *out, int argc, char **argv, tfr_arena *arena, tfr_error *err);

// "FILE:LINE" into its parts. `path` is shortened in place; `line` 0: none. Only a last colon with
// digits behind it counts, and only if no file of the whole name exists, which the caller tests.
bool tfr_args_split_line(char *path, uint32_t *line);

// The known word that a misspelt one was meant to be, or an empty string if none is near.
tfr_str tfr_args_nearest(tfr_str word, const tfr_str *known, size_t count);

#endif
