// Runs while the program is built: embed_templates OUT.c FILE... writes the kernel templates and
// their headers as C data (jit/templates.h).
#include <stdio.h>

#include "cmake/embed_text.h"

static bool read_file(tfr_str *out, const char *path, tfr_arena *arena) {
    FILE *in = fopen(path, "rb");
    if (!in)
        return false;
    tfr_buf buf = {.arena = arena};
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, in)) > 0;)
        tfr_buf_add(&buf, chunk, n);
    *out = tfr_buf_str(&buf);
    return fclose(in) == 0;
}

int main(int argc, char **argv) {
    FILE *out = argc > 2 ? fopen(argv[1], "w") : NULL;
    if (!out) {
        fprintf(stderr, "usage: embed_templates OUT.c FILE...\n");
        return 2;
    }
    tfr_arena *arena = tfr_arena_new();
    fprintf(out, "// Written by cmake/embed_templates.c.\n#include \"jit/templates.h\"\n\n");
    bool ok = true;
    for (int i = 2; i < argc && ok; i++) {
        tfr_str text;
        ok = read_file(&text, argv[i], arena);
        if (ok)
            write_text(out, i, text);
        else
            perror(argv[i]);
    }
    fprintf(out, "const tfr_template_file tfr_template_files[] = {\n");
    for (int i = 2; i < argc; i++)
        fprintf(out, "{\"%s\", text_%d, sizeof text_%d - 1},\n", strrchr(argv[i], '/') + 1, i, i);
    fprintf(out, "{0, 0, 0}};\n");
    tfr_arena_free(arena);
    ok = fclose(out) == 0 && ok;
    if (!ok)
        remove(argv[1]);
    return ok ? 0 : 1;
}
