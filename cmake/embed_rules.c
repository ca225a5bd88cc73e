// Runs while the program is built: embed_rules OUT.c canon.py acts.py RULE.py... writes the texts
// and their syntax trees as C data (rewriter/builtin_rules.h), so that no start of the program
// parses them.
// What follows the line `# Examples` of a rule file is for tests alone and stays out.
#define _GNU_SOURCE // memmem
#include <stdio.h>

#include "cmake/embed_text.h"
#include "parser/tree.h"

static const char EXAMPLES[] = "\n# Examples\n";

static void write_nodes(FILE *out, int index, const tfr_tree *tree) {
    fprintf(out, "static const tfr_node nodes_%d[] = {\n", index);
    for (uint32_t i = 0; i < tree->count; i++) {
        const tfr_node *n = &tree->nodes[i];
        fprintf(out, "{%u,%u,%u,%u,%u,%u,%u,%u},%s", n->start, n->end, n->parent, n->child, n->next,
                n->symbol, n->kind, n->field, i % 6 == 5 ? "\n" : "");
    }
    fprintf(out, "};\n\n");
}

static bool write_file(FILE *out, int index, const char *path, tfr_arena *arena) {
    tfr_source file, source;
    tfr_tree tree;
    tfr_error err;
    if (tfr_source_read(&file, path, arena, &err) != TFR_OK)
        goto failed;
    tfr_str text = file.bytes;
    const char *end = memmem(text.data, text.len, EXAMPLES, sizeof EXAMPLES - 1);
    if (end)
        text.len = (size_t)(end - text.data) + 1;
    if (tfr_source_from_bytes(&source, path, text, arena, &err) != TFR_OK ||
        tfr_tree_parse(&tree, &source, arena, &err) != TFR_OK)
        goto failed;
    write_text(out, index, text);
    write_nodes(out, index, &tree);
    tfr_tree_free(&tree);
    return true;
failed:
    fprintf(stderr, "%s:%u:%u: %s\n", err.path, err.line, err.column, err.message);
    return false;
}

static void write_row(FILE *out, int index, const char *path) {
    const char *slash = strrchr(path, '/');
    fprintf(out,
            "{\"%s\", text_%d, sizeof text_%d - 1, nodes_%d, sizeof nodes_%d / sizeof *nodes_%d}",
            slash ? slash + 1 : path, index, index, index, index, index);
}

int main(int argc, char **argv) {
    FILE *out = argc > 3 ? fopen(argv[1], "w") : NULL;
    if (!out) {
        fprintf(stderr, "usage: embed_rules OUT.c canon.py acts.py RULE.py...\n");
        return 2;
    }
    tfr_arena *arena = tfr_arena_new();
    fprintf(out, "// Written by cmake/embed_rules.c.\n#include \"rewriter/builtin_rules.h\"\n\n");
    bool ok = true;
    for (int i = 2; i < argc && ok; i++)
        ok = write_file(out, i, argv[i], arena);
    fprintf(out, "const tfr_builtin_rule tfr_builtin_canon = ");
    write_row(out, 2, argv[2]);
    fprintf(out, ";\nconst tfr_builtin_rule tfr_builtin_acts = ");
    write_row(out, 3, argv[3]);
    fprintf(out, ";\nconst tfr_builtin_rule tfr_builtin_rules[] = {\n");
    for (int i = 4; i < argc; i++) {
        write_row(out, i, argv[i]);
        fprintf(out, ",\n");
    }
    fprintf(out, "{0, 0, 0, 0, 0}};\nconst uint32_t tfr_builtin_rule_count = %d;\n", argc - 4);
    tfr_arena_free(arena);
    ok = fclose(out) == 0 && ok;
    if (!ok)
        remove(argv[1]);
    return ok ? 0 : 1;
}
