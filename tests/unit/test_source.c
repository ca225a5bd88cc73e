// Encodings, lines and positions of one source file. The verdicts are CPython's, except where a
// comment says otherwise.
#include "parser/source.h"

#include "tests/unit/check.h"

#define BYTES(literal) TFR_STR(literal)

static tfr_status load(tfr_source *src, tfr_str bytes, tfr_arena *arena, tfr_error *err) {
    *err = (tfr_error){0};
    return tfr_source_from_bytes(src, "x.py", bytes, arena, err);
}

typedef struct refusal {
    tfr_str bytes;
    uint32_t line, column;
    const char *message;
} refusal;

static const refusal REFUSED[] = {
    {BYTES("x = 1\0"), 0, 0, "binary file (NUL byte at offset 5)"},
    {BYTES("\xff\xfex\0"), 0, 0, "UTF-16"},
    {BYTES("\xfe\xff\0x"), 0, 0, "UTF-16"},
    {BYTES("x = 1\ny = '\xff'\n"), 2, 6, "byte 0xff is not valid UTF-8; save the file"},
    {BYTES("s = '\xc3\xa4\xed\xa0\x80'\n"), 1, 7, "byte 0xed"}, // a surrogate
    {BYTES("s = '\xc0\xaf'\n"), 1, 6, "byte 0xc0"},             // overlong
    {BYTES("s = '\xe0\x80\xaf'\n"), 1, 6, "byte 0xe0"},         // overlong
    {BYTES("s = '\xf0\x8f\xbf\xbf'\n"), 1, 6, "byte 0xf0"},     // overlong
    {BYTES("s = '\xf4\x90\x80\x80'\n"), 1, 6, "byte 0xf4"},     // above U+10FFFF
    {BYTES("s = '\xe2\x82"), 1, 6, "byte 0xe2"},                // cut at the end
    {BYTES("\xef\xbb\xbf# \xff\n"), 1, 3, "which the file says it is"},
    {BYTES("# coding: utf8\n# \xff\n"), 2, 3, "which the file says it is"},
    {BYTES("# coding: ascii\n\n# \xc3\xa4\n"), 3, 3, "byte 0xc3 is not ASCII"},
    {BYTES("\xef\xbb\xbf# coding: latin-1\n"), 1, 11, "signature (BOM) but declares latin-1"},
    {BYTES("\xef\xbb\xbf#\n# coding: utf8\n"), 2, 11, "signature (BOM) but declares utf8"},
    {BYTES("# coding: shift_jis\n"), 1, 11, "encoding shift_jis is not supported"},
    {BYTES("# coding: cp1252\n# \xe4\x81\n"), 2, 4, "byte 0x81 stands for no character in cp1252"},
    {BYTES("# coding: iso8859-7\n# \xff\n"), 2, 3, "byte 0xff stands for no character"},
    // Python allows this; the grammar, which reads UTF-8, cannot be shown it.
    {BYTES("# coding: latin-1\n'\xe4'; \xe4 = 1\n"), 2, 6, "supported in UTF-8 files alone"},
    // A coding line counts in the first two lines, and in the second only below a comment.
    {BYTES("#\n#\n# coding: latin-1\n# \xe4\n"), 4, 3, "is not valid UTF-8"},
    {BYTES("x = 1\n# coding: latin-1\n# \xe4\n"), 3, 3, "is not valid UTF-8"},
    {BYTES("x = 1 # coding: latin-1\n# \xe4\n"), 2, 3, "is not valid UTF-8"},
    {BYTES("# encoding latin-1\n# \xe4\n"), 2, 3, "is not valid UTF-8"},
};

static const tfr_str ACCEPTED[] = {
    BYTES(""),
    BYTES("\n"),
    BYTES("\xef\xbb\xbf"),
    BYTES("# coding: utf-8\ns = '\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa4\xf4\x8f\xbf\xbf'\n"),
    BYTES("\xef\xbb\xbf# coding: UTF_8\n"),
    BYTES("\xef\xbb\xbf# coding: utf-8-sig\n"),
    BYTES("# -*- coding: utf8 -*-\n# \xc3\xa4\n"),
    BYTES("\xc3\xa4 = 1\n"),
    BYTES("# -*- coding: latin-1 -*-\n# \xe4\n"),
    BYTES("\t\f # vim: set fileencoding=ISO_8859_15 :\n# \xa4\n"),
    BYTES("\r\n# coding=cp1252\r\n# \x80\r\n"),
    BYTES("#!/usr/bin/env python\r# coding:koi8-r\r'\xc1'\r"),
    BYTES("# coding: latin1 coding: utf-8\n# \xe4\n"), // the first mark counts
    BYTES("# coding: us-ascii\n"),
};

static void encodings(void) {
    tfr_arena *arena = tfr_arena_new();
    tfr_source src;
    tfr_error err;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const refusal *r = &REFUSED[i];
        tfr_status status = load(&src, r->bytes, arena, &err);
        if (status != TFR_E_REFUSED || err.line != r->line || err.column != r->column) {
            fprintf(stderr, "REFUSED[%zu]: status %d at %" PRIu32 ":%" PRIu32 ": %s\n", i, status,
                    err.line, err.column, err.message);
            check_failures++;
        }
        CHECK_HAS(err.message, r->message);
        CHECK(strcmp(err.path, "x.py") == 0);
    }
    for (size_t i = 0; i < sizeof ACCEPTED / sizeof *ACCEPTED; i++) {
        if (load(&src, ACCEPTED[i], arena, &err) != TFR_OK) {
            fprintf(stderr, "ACCEPTED[%zu]: %s\n", i, err.message);
            check_failures++;
        }
        CHECK(tfr_str_eq(src.bytes, ACCEPTED[i]));
        CHECK_INT(src.text.len, src.bytes.len);
    }
    tfr_arena_free(arena);
}

static void shadow_texts(void) {
    tfr_arena *arena = tfr_arena_new();
    tfr_source src;
    tfr_error err;
    CHECK_INT(load(&src, BYTES("x = '\xc3\xa4'\r\n"), arena, &err), TFR_OK);
    CHECK(src.text.data == src.bytes.data); // nothing to hide: no copy
    CHECK_INT(load(&src, BYTES("\xef\xbb\xbfx = 1\n"), arena, &err), TFR_OK);
    CHECK_STR(src.text, "   x = 1\n");
    CHECK_INT(load(&src, BYTES("# coding: latin-1 \xe4\nx = f'\xe4{y:\xe4}\xe4', '''\n\xe4'''\n"),
                   arena, &err),
              TFR_OK);
    CHECK_STR(src.text, "# coding: latin-1 ?\nx = f'?{y:?}?', '''\n?'''\n");
    CHECK_INT(load(&src, BYTES("x = 1\r# c\r\ny = 2\r"), arena, &err), TFR_OK);
    CHECK_STR(src.text, "x = 1\n# c\r\ny = 2\n");
    CHECK_STR(src.newline, "\r");
    tfr_arena_free(arena);
}

static void check_position(const tfr_source *src, uint32_t offset, uint32_t line, uint32_t column) {
    uint32_t l = 0;
    uint32_t c = 0;
    tfr_source_position(src, offset, &l, &c);
    CHECK_INT(l, line);
    CHECK_INT(c, column);
}

static void positions(void) {
    tfr_arena *arena = tfr_arena_new();
    tfr_source src;
    tfr_error err;
    CHECK_INT(load(&src, BYTES("ab\r\n\xc3\xa4x\n\nlast"), arena, &err), TFR_OK);
    CHECK_INT(src.line_count, 4);
    check_position(&src, 0, 1, 1);
    check_position(&src, 3, 1, 4); // the "\n" of "\r\n" is still line 1
    check_position(&src, 4, 2, 1);
    check_position(&src, 6, 2, 2); // after a character of two bytes
    check_position(&src, 8, 3, 1);
    check_position(&src, 9, 4, 1);
    check_position(&src, 13, 4, 5);
    CHECK_STR(src.newline, "\n");
    CHECK_INT(load(&src, BYTES("\xef\xbb\xbfxy\n"), arena, &err), TFR_OK);
    check_position(&src, 3, 1, 1); // the signature is no character
    check_position(&src, 4, 1, 2);
    CHECK_INT(load(&src, BYTES("# coding: latin-1\n# \xe4\xe4x\n"), arena, &err), TFR_OK);
    check_position(&src, 22, 2, 5);
    CHECK_INT(load(&src, BYTES("a\r\nb\r\nc\n"), arena, &err), TFR_OK);
    CHECK_STR(src.newline, "\r\n");
    CHECK_INT(load(&src, BYTES(""), arena, &err), TFR_OK);
    CHECK_STR(src.newline, "\n");
    CHECK_INT(src.line_count, 1);
    check_position(&src, 0, 1, 1);
    CHECK_INT(tfr_source_fail(&err, TFR_E_REFUSED, &src, 0, "%s", "why"), TFR_E_REFUSED);
    CHECK(err.line == 1 && err.column == 1 && strcmp(err.message, "why") == 0);
    tfr_arena_free(arena);
}

static void files(void) {
    tfr_arena *arena = tfr_arena_new();
    tfr_source src;
    tfr_error err = {0};
    CHECK_INT(tfr_source_read(&src, "no/such/file.py", arena, &err), TFR_E_USAGE);
    CHECK_HAS(err.message, "No such file");
    CHECK_INT(tfr_source_read(&src, "/", arena, &err), TFR_E_USAGE);
    CHECK_HAS(err.message, "is a directory");
    CHECK_INT(tfr_source_read(&src, "/dev/zero", arena, &err), TFR_E_REFUSED); // endless
    CHECK_HAS(err.message, "larger than 8 MiB");
    CHECK_INT(tfr_source_read(&src, "/dev/null", arena, &err), TFR_OK);
    CHECK_INT(src.bytes.len, 0);
    char *large = tfr_arena_alloc(arena, TFR_MAX_SOURCE_BYTES + 1);
    memset(large, '\n', TFR_MAX_SOURCE_BYTES + 1);
    CHECK_INT(load(&src, (tfr_str){large, TFR_MAX_SOURCE_BYTES}, arena, &err), TFR_OK);
    CHECK_INT(load(&src, (tfr_str){large, TFR_MAX_SOURCE_BYTES + 1}, arena, &err), TFR_E_REFUSED);
    CHECK_HAS(err.message, "larger than 8 MiB");
    tfr_arena_free(arena);
}

int main(void) {
    encodings();
    shadow_texts();
    positions();
    files();
    return CHECK_DONE();
}
