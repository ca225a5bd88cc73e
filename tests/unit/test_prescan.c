// Brackets, strings, line joins and indentation before parsing. All verdicts are CPython's 3.12
// (nested quotes in f-strings included), except where a comment says otherwise.
#include "parser/source.h"

#include "tests/unit/check.h"

typedef struct refusal {
    const char *text;
    uint32_t line, column;
    const char *message;
} refusal;

static const refusal REFUSED[] = {
    {"x = (1,\n", 1, 5, "this '(' is never closed"},
    {"x = [(1]\n", 1, 8, "this ']' does not close the '(' of line 1"},
    {"x = 1\n}\n", 2, 1, "this '}' closes nothing"},
    {"x = 'a\ny = 'b'\n", 1, 5, "this string is not closed on its line"},
    {"x = r'a\\'\n", 1, 6, "this string is not closed on its line"},
    {"x = '''a\n\n'\n", 1, 5, "this triple-quoted string is never closed"},
    {"x = 1 \\ \ny\n", 1, 7, "only a line end may follow this backslash"},
    {"x = 1 \\", 1, 7, "only a line end may follow this backslash"},
    {"  x = 1\n", 1, 3, "unexpected indentation"},
    {"x = 1\n  y = 2\n", 2, 3, "unexpected indentation"},
    {"if x:\ny = 2\n", 2, 1, "an indented block is missing"},
    {"if x: # c\n\n  # c\n", 4, 1, "the file ends where an indented block is missing"},
    {"if x:", 1, 6, "the file ends where an indented block is missing"},
    {"if x:\n    y\n  z\n", 3, 3, "matches no block around it"},
    {"if x:\n        y\n\tz\n", 3, 2, "tabs and spaces"},
    {"if x:\n\ty\n        z\n", 3, 9, "tabs and spaces"},
    // Python takes these; the grammar counts such an indentation otherwise and would misread it.
    {"if x:\n  \\\n y\n  z\n", 4, 3, "tabs and spaces (or a backslash)"},
    {"if x:\n       \ty\n       \tif z:\n          w\n", 4, 11, "tabs and spaces"},
    {"f(f'{x}')\n)\n", 2, 1, "closes nothing"},
    {"f'{x!r:>{w}}' + f'{{(' + f\"{a['(']}\"\n)\n", 2, 1, "closes nothing"},
    {"f\"{f\"{f'{1}'}\"}\"\n)\n", 2, 1, "closes nothing"}, // 3.12 nests the same quotes
    {"f'\\N{LEFT PARENTHESIS}(' rf'\\{x}('\n)\n", 2, 1, "closes nothing"},
    {"f'''{\nx # }\n:{y}\n}'''\n)\n", 5, 1, "closes nothing"},
    {"f'{(lambda: 1)}{x:=^9}{(y:=2)}{ {1:2}[1] }'\n)\n", 2, 1, "closes nothing"},
    {"t'{x}' Rb'\\'(' bR\"(\" U'('\n)\n", 2, 1, "closes nothing"},
    {"rbf'(' 1if'('else 2\n)\n", 2, 1, "closes nothing"}, // "rbf" and "1if" are no prefixes
};

static const char *const ACCEPTED[] = {
    "x = 1 # ) ' \"\n",
    "x = '#' # '\n",
    "if x:\n    y = (1,\n2,\n  3)\n    z\n",
    "if x:\n\ty\n\tif z:\n\t\tw\nv\n",
    "if x:\r\n    y\r\n\r\nz\r\n",
    "if x:\r    y\rz\r",
    "if x:\n  \f  y\n  \f  z\n", // a form feed starts the count again
    "if x: \\\n  y\nz\n",
    "x = 1 + \\\r\n    2\n",
    "if x:\n    '''\na\n  b'''\n    y\n",
    "if x:\n    y\n        \n  # c\n    z\n   ",
    "def f(a: int = lambda: 1, *b): return {1: 2}[a:b]\n",
    "x = 'a\\\nb' \"\\\"\" r'\\''\n",
    "x = f\"{d[\"a\"]}\" + f'{x:{'{'}>{10}}'\n",
    "class A: pass\n\n\n",
    "x = f'{y:d}'\nz\n", // this ':' opens no block
    // Inside an f-string a scan that may be wrong gives no verdict; the parser then decides.
    "f'{(]}'\n",
    "f'abc\n((((\n",
    "f'{x:'\n",
    "f'{x}}'\n",
    "f'''{\n",
};

static tfr_status scan(const char *text, tfr_error *err) {
    tfr_arena *arena = tfr_arena_new();
    tfr_source src;
    *err = (tfr_error){0};
    tfr_status status = tfr_source_from_bytes(&src, "x.py", tfr_str_from(text), arena, err);
    tfr_arena_free(arena);
    return status;
}

static void verdicts(void) {
    tfr_error err;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const refusal *r = &REFUSED[i];
        tfr_status status = scan(r->text, &err);
        if (status != TFR_E_REFUSED || err.line != r->line || err.column != r->column) {
            fprintf(stderr, "REFUSED[%zu]: status %d at %" PRIu32 ":%" PRIu32 ": %s\n%s\n", i,
                    status, err.line, err.column, err.message, r->text);
            check_failures++;
        }
        CHECK_HAS(err.message, r->message);
    }
    for (size_t i = 0; i < sizeof ACCEPTED / sizeof *ACCEPTED; i++) {
        if (scan(ACCEPTED[i], &err) != TFR_OK) {
            fprintf(stderr, "ACCEPTED[%zu]: %" PRIu32 ":%" PRIu32 ": %s\n%s\n", i, err.line,
                    err.column, err.message, ACCEPTED[i]);
            check_failures++;
        }
    }
}

// "open" n times, then "close" n times.
static tfr_status nested(size_t n, const char *open, const char *close, tfr_error *err) {
    tfr_arena *arena = tfr_arena_new();
    tfr_buf text = {.arena = arena};
    for (size_t i = 0; i < n; i++) {
        tfr_buf_add_str(&text, tfr_str_from(open));
    }
    for (size_t i = 0; i < n; i++) {
        tfr_buf_add_str(&text, tfr_str_from(close));
    }
    tfr_source src;
    *err = (tfr_error){0};
    tfr_status status = tfr_source_from_bytes(&src, "x.py", tfr_buf_str(&text), arena, err);
    tfr_arena_free(arena);
    return status;
}

static tfr_status blocks(size_t n, tfr_error *err) {
    tfr_arena *arena = tfr_arena_new();
    tfr_buf text = {.arena = arena};
    for (size_t i = 0; i <= n; i++) {
        tfr_buf_format(&text, "%*s%s", (int)i, "", i < n ? "if x:\n" : "pass\n");
    }
    tfr_source src;
    *err = (tfr_error){0};
    tfr_status status = tfr_source_from_bytes(&src, "x.py", tfr_buf_str(&text), arena, err);
    tfr_arena_free(arena);
    return status;
}

static void limits(void) {
    tfr_error err;
    CHECK_INT(nested(200, "(", ")", &err), TFR_OK);
    CHECK_INT(nested(201, "(", ")", &err), TFR_E_REFUSED);
    CHECK_HAS(err.message, "nested more than 200 deep");
    CHECK(err.line == 1 && err.column == 201);
    CHECK_INT(nested(100000, "[", "", &err), TFR_E_REFUSED);
    CHECK_INT(nested(100000, "{", "}", &err), TFR_E_REFUSED);
    CHECK_INT(nested(100000, "f'{", "}'", &err), TFR_OK); // no verdict inside f-strings
    CHECK_INT(blocks(99, &err), TFR_OK);
    CHECK_INT(blocks(100, &err), TFR_E_REFUSED);
    CHECK_HAS(err.message, "nested more than 100 deep");
    CHECK_INT(err.line, 101);
}

int main(void) {
    verdicts();
    limits();
    return CHECK_DONE();
}
