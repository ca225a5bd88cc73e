// Writes the seeds of fuzz_cache: an entry, a bundle of it, a choice and a key, each behind its
// first byte. Usage: make_cache_seeds FOLDER
#include "jit/bundle.h"
#include "jit/choice.h"
#include "jit/entry.h"
#include "jit/key.h"

#include <stdio.h>

static int write_seed(const char *folder, const char *name, char first, tfr_str bytes) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fputc(first, file) == EOF || fwrite(bytes.data, 1, bytes.len, file) != bytes.len ||
        fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    tfr_arena *arena = tfr_arena_new();
    tfr_key key = {TFR_STR("host"), TFR_STR("1"),       TFR_STR("int x;\n"),
                   TFR_STR("-O3"),  TFR_STR("x86_64:"), TFR_STR("gcc 12")};
    tfr_str text = tfr_key_text(arena, &key);
    tfr_entry entry = {.label = TFR_STR("op.variant X=1"),
                       .target = key.target,
                       .key = text,
                       .binary = TFR_STR("\177ELF\2\1\1")};
    tfr_str file = tfr_entry_write(arena, &entry);
    tfr_str choice = tfr_choice_write(arena, TFR_STR("linear m1"), TFR_STR("torch"));
    tfr_str open_choice = {choice.data, choice.len - strlen("sha256 64\n") - 65};
    int failed = argc != 2;
    failed = failed || write_seed(argv[1], "entry", 1, file);
    failed = failed || write_seed(argv[1], "bundle", 1, tfr_bundle_write(arena, &file, 1));
    failed = failed || write_seed(argv[1], "choice", 2, open_choice);
    failed = failed || write_seed(argv[1], "whole_choice", 0, choice);
    failed = failed || write_seed(argv[1], "key", 0, text);
    tfr_arena_free(arena);
    return failed;
}
