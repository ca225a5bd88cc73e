// The file of one choice, for choice.c, tend.c and the fuzzer. Callers use jit/cache.h.
#ifndef TFR_CHOICE_H
#define TFR_CHOICE_H

#include "jit/cache.h"

#include <sys/stat.h>

#define TFR_CHOICE_FILE_SIZE (32u + sizeof ".tfrc")
#define TFR_CHOICE_MAX_BYTES 4096u // of a file

// The name under which what a compiler says of itself is remembered: path, and number, size and
// time of its file.
#define TFR_CHOICE_COMPILER "compiler " // its start
tfr_str tfr_choice_compiler(const char *path, const struct stat *status, char *out, size_t size);

void tfr_choice_file(tfr_str name, char *out); // TFR_CHOICE_FILE_SIZE bytes
tfr_str tfr_choice_write(tfr_arena *arena, tfr_str name, tfr_str value);
// NULL: sound; else what is wrong. Views into `bytes`.
const char *tfr_choice_read(tfr_str bytes, tfr_str *name, tfr_str *value);

#endif
