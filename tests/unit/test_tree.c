// The flat tree: repairs, refusals with their place, and that parsing an edited text again gives
// the very nodes that parsing it afresh gives.
#include "parser/tree.h"

#include "tests/unit/check.h"

static tfr_status parse(tfr_tree *tree, tfr_source *src, const char *text, tfr_arena *arena,
                        tfr_error *err) {
    *err = (tfr_error){0};
    tfr_status status = tfr_source_from_bytes(src, "x.py", tfr_str_from(text), arena, err);
    return status == TFR_OK ? tfr_tree_parse(tree, src, arena, err) : status;
}

// "list_splat(attribute(x.a))" of the first list in the text.
static void shape(const tfr_tree *t, uint32_t node, tfr_buf *out) {
    if (!tfr_tree_first(t, node)) {
        tfr_buf_add_str(out, tfr_tree_text(t, node));
        return;
    }
    tfr_buf_format(out, "%s(", tfr_kind_name(tfr_tree_kind(t, node)));
    for (uint32_t c = tfr_tree_first(t, node); c; c = tfr_tree_next(t, c)) {
        CHECK_INT(t->nodes[c].parent, node);
        shape(t, c, out);
        if (tfr_tree_next(t, c))
            tfr_buf_add(out, " ", 1);
    }
    tfr_buf_add(out, ")", 1);
}

static void repairs(tfr_arena *arena) {
    static const char *const cases[][2] = {
        {"[*a]", "list(list_splat(a))"},
        {"[*a.b]", "list(list_splat(attribute(a b)))"},
        {"[*a.b.c]", "list(list_splat(attribute(attribute(a b) c)))"},
        {"[*f(x)]", "list(list_splat(call(f argument_list(x))))"},
        {"[*a.b(x)[0]]", "list(list_splat(subscript(call(attribute(a b) argument_list(x)) 0)))"},
        {"[1, *a.b, 2]", "list(1 list_splat(attribute(a b)) 2)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_source src;
        tfr_tree tree;
        tfr_error err;
        CHECK_INT(parse(&tree, &src, cases[i][0], arena, &err), TFR_OK);
        uint32_t list = tfr_tree_first(&tree, tfr_tree_first(&tree, 1));
        tfr_buf out = {.arena = arena};
        shape(&tree, list, &out);
        CHECK_STR(tfr_buf_str(&out), cases[i][1]);
        uint32_t splat = tfr_tree_first(&tree, list);
        if (tfr_tree_kind(&tree, splat) == TFR_N_LIST_SPLAT) {
            uint32_t operand = tfr_tree_first(&tree, splat);
            CHECK_INT(tree.nodes[operand].start, tree.nodes[splat].start + 1);
            CHECK_INT(tree.nodes[operand].end, tree.nodes[splat].end);
        }
        tfr_tree_free(&tree);
    }
}

// Splats outside of brackets, of what the grammar has only inside: each line by itself, all in one
// file, and parsed again after an edit before them.
static void splats(tfr_arena *arena) {
    static const char *const cases[][2] = {
        {"x = y, *[t]\n", "assignment(x expression_list(y list_splat(list(t))))"},
        {"x = *[a for a in t], y\n",
         "assignment(x expression_list(list_splat(list_comprehension(a for_in_clause(a t))) y))"},
        {"x = y, *(t)\n",
         "assignment(x expression_list(y list_splat(parenthesized_expression(t))))"},
        {"x = y, * {t}.z(u)\n", "assignment(x expression_list(y "
                                "list_splat(call(attribute(expression(t) z) argument_list(u)))))"},
        {"x = y, *[t] + u * 2 | v, z\n",
         "assignment(x expression_list(y list_splat(binary_operator(binary_operator(list(t) "
         "binary_operator(u 2)) v)) z))"},
        {"a[y, *[t]]\n", "subscript(a y list_splat(list(t)))"},
        {"x = y, *\"ab\", 3 *[t]\n", "assignment(x expression_list(y list_splat(string(\" ab \")) "
                                     "binary_operator(3 list(t))))"},
    };
    tfr_buf all = {.arena = arena};
    tfr_source src;
    tfr_tree tree, again;
    tfr_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT(parse(&tree, &src, cases[i][0], arena, &err), TFR_OK);
        tfr_buf out = {.arena = arena};
        shape(&tree, tfr_tree_first(&tree, tfr_tree_first(&tree, 1)), &out);
        CHECK_STR(tfr_buf_str(&out), cases[i][1]);
        tfr_tree_free(&tree);
        tfr_buf_add_str(&all, tfr_str_from(cases[i][0]));
    }
    tfr_buf_add_str(&all, TFR_STR("def f(y, t):\n    for a in y, *[t]:\n        yield y, *[t]\n"
                                  "    return *[t], y\n"));
    tfr_str text = tfr_buf_str(&all),
            edited = tfr_str_format(arena, "z = *[1], 2\n%.*s", (int)text.len, text.data);
    CHECK_INT(parse(&tree, &src, text.data, arena, &err), TFR_OK);
    tfr_source other;
    CHECK_INT(tfr_source_from_bytes(&other, "x.py", edited, arena, &err), TFR_OK);
    tfr_change change = {0, 0, 12};
    CHECK_INT(tfr_tree_parse_again(&again, &other, &tree, &change, 1, arena, &err), TFR_OK);
    uint32_t count = 0;
    for (uint32_t i = 1; i < again.count; i++)
        count += tfr_tree_kind(&again, i) == TFR_N_LIST_SPLAT;
    CHECK_INT(count, sizeof cases / sizeof *cases + 4);
    tfr_tree_free(&again);
    tfr_tree_free(&tree);
    // No splats, and nothing that Python has.
    static const char *const wrong[] = {
        "x = *[t]\n",     "x = y, *[t] < u\n",         "x = y, *[t] or u\n",
        "x = y, **[t]\n", "x = y, *[t] if u else v\n", "*[t]\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(parse(&tree, &src, wrong[i], arena, &err), TFR_E_REFUSED);
        CHECK_HAS(err.message, "invalid Python");
    }
}

static void errors(tfr_arena *arena) {
    static const struct {
        const char *text;
        uint32_t line;
    } cases[] = {
        {"x = = 1\n", 1},
        {"x = 1\ndef f(:):\n    pass\n", 2},
        {"class A:\n    def f(self):\n        return 1 +\n", 3},
        {"for in x:\n    pass\n", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_source src;
        tfr_tree tree;
        tfr_error err;
        CHECK_INT(parse(&tree, &src, cases[i].text, arena, &err), TFR_E_REFUSED);
        CHECK_INT(err.line, cases[i].line);
        CHECK(err.column > 0);
        CHECK_HAS(err.message, "invalid Python");
    }
}

static void depth(tfr_arena *arena) {
    for (int n = 1000; n <= 2000; n += 1000) {
        tfr_buf text = {.arena = arena};
        tfr_buf_add(&text, "x", 1);
        for (int i = 0; i < n; i++)
            tfr_buf_add(&text, ".a", 2);
        tfr_buf_add(&text, "\n", 2); // with the NUL
        tfr_source src;
        tfr_tree tree = {0};
        tfr_error err;
        tfr_status status = parse(&tree, &src, text.data, arena, &err);
        CHECK_INT(status, n < TFR_MAX_DEPTH ? TFR_OK : TFR_E_REFUSED);
        if (status != TFR_OK)
            CHECK_HAS(err.message, "nested deeper than 1500 levels");
        tfr_tree_free(&tree);
    }
}

static uint32_t random_state = 1;
static uint32_t random_below(uint32_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

// Edits that keep the text valid: a name or number gets another text, of other length and lines.
static void edit_once(const tfr_tree *tree, const tfr_source *src, uint32_t wanted,
                      tfr_arena *arena) {
    static const char *const texts[] = {"y",   "longer_name",      "(\n  y\n)", "f(a, [b, *c.d])",
                                        "0x1", "(y # comment\n, )"};
    tfr_change *changes = TFR_NEW_ARRAY(arena, tfr_change, wanted);
    uint32_t count = 0, at = 0;
    tfr_buf out = {.arena = arena};
    for (uint32_t n = 1; n < tree->count && count < wanted; n++) {
        const tfr_node *node = &tree->nodes[n];
        tfr_kind above = tfr_tree_kind(tree, node->parent);
        bool value = node->kind == TFR_N_INTEGER ||
                     (node->kind == TFR_N_IDENTIFIER &&
                      (above == TFR_N_ARGUMENTS || above == TFR_N_BINARY || above == TFR_N_LIST));
        if (!value || node->start < at || random_below(3))
            continue;
        tfr_str text = tfr_str_from(texts[random_below(sizeof texts / sizeof *texts)]);
        tfr_buf_add(&out, src->text.data + at, node->start - at);
        uint32_t start = (uint32_t)out.len;
        tfr_buf_add_str(&out, text);
        changes[count++] =
            (tfr_change){start, start + (node->end - node->start), start + (uint32_t)text.len};
        at = node->end;
    }
    tfr_buf_add(&out, src->text.data + at, src->text.len - at);
    tfr_source edited;
    tfr_tree again, fresh;
    tfr_error err = {0};
    CHECK_INT(tfr_source_from_bytes(&edited, "x.py", tfr_buf_str(&out), arena, &err), TFR_OK);
    CHECK_INT(tfr_tree_parse_again(&again, &edited, tree, changes, count, arena, &err), TFR_OK);
    CHECK_INT(tfr_tree_parse(&fresh, &edited, arena, &err), TFR_OK);
    CHECK_INT(again.count, fresh.count);
    bool same = again.count == fresh.count &&
                memcmp(again.nodes, fresh.nodes, fresh.count * sizeof *fresh.nodes) == 0;
    CHECK(same);
    if (!same)
        fprintf(stderr, "%.*s\n", (int)out.len, out.data);
    tfr_tree_free(&again);
    tfr_tree_free(&fresh);
}

static void parsing_again(tfr_arena *arena) {
    static const char classes[] = "class A:\n    def f(self, x=1):\n        # one\n"
                                  "        z = g(x, 2) + h(3)\n        return [x, *z.w, 5]\n\n"
                                  "    def g(self):\r\n        return f(x)\r\n";
    static const char tabs[] = "def f(x):\n\tfor i in range(3):\n\t\tx = x + f(i, 4) \\\n"
                               "\t\t  + 5\n\treturn f(x)  # end";
    static const char signature[] = "\xef\xbb\xbf# \xc3\xa4\ns = f'{x + 1} {f(2)}' '\xe2\x82\xac'\n"
                                    "t = (x + 2,\n  f(3))\n";
    const char *const texts[] = {
        "x = [1, *a.b, f(2, g(x))]\nif x + 1:\n    y = f(x, 3)\nelse:\n    y = 4\n",
        classes,
        tabs,
        signature,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tfr_source src;
        tfr_tree tree;
        tfr_error err;
        CHECK_INT(parse(&tree, &src, texts[i], arena, &err), TFR_OK);
        for (uint32_t round = 0; round < 200; round++)
            edit_once(&tree, &src, 1 + round % 6, arena);
        tfr_tree_free(&tree);
    }
}

// More edits than tree-sitter's own way is worth: the result is the same.
static void many_changes(tfr_arena *arena) {
    tfr_buf text = {.arena = arena};
    for (int i = 0; i < 3000; i++)
        tfr_buf_format(&text, "x%d = f(a, %d)\n", i, i);
    tfr_buf_add(&text, "", 1);
    tfr_source src;
    tfr_tree tree;
    tfr_error err;
    CHECK_INT(parse(&tree, &src, text.data, arena, &err), TFR_OK);
    edit_once(&tree, &src, 2000, arena);
    tfr_tree_free(&tree);
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    repairs(arena);
    splats(arena);
    errors(arena);
    depth(arena);
    parsing_again(arena);
    many_changes(arena);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
