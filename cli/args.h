// The command line as data. Nothing here touches a file, prints or exits.
#ifndef TFR_ARGS_H
#define TFR_ARGS_H

#include "rewriter/rewrite.h"

typedef enum tfr_command {
    TFR_CMD_REWRITE,
    TFR_CMD_WHY,
    TFR_CMD_RULES,
    TFR_CMD_VERIFY,
    TFR_CMD_HELP,
    TFR_CMD_VERSION,
} tfr_command;

typedef struct tfr_words {
    tfr_str *items; // each also NUL-terminated, except the parts of a comma list
    size_t count, cap;
} tfr_words;

typedef struct tfr_args {
    tfr_command command;
    tfr_words operands; // without the command's name; of `verify`: all other arguments, in order
    const char *out;    // -o; NULL: not given
    bool write, diff, check, json, quiet;
    tfr_words rule_dirs;
    tfr_words only, skip;
    tfr_target target;
} tfr_args;

// TFR_E_USAGE: an unknown option or command, a missing value, options that exclude each other.
tfr_status tfr_args_parse(tfr_args *out, int argc, char **argv, tfr_arena *arena, tfr_error *err);

// "FILE:LINE" into its parts. `path` is shortened in place; `line` 0: none. Only a last colon with
// digits behind it counts, and only if no file of the whole name exists, which the caller tests.
bool tfr_args_split_line(char *path, uint32_t *line);

// The known word that a misspelt one was meant to be, or an empty string if none is near.
tfr_str tfr_args_nearest(tfr_str word, const tfr_str *known, size_t count);

#endif
