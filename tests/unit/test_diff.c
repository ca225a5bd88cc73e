// Unified diffs: exact texts, and random pairs whose diff, applied, gives the second text back.
// The command line's sources are no library, so the one under test is compiled in here.
#include "cli/diff.c"

#include "tests/unit/check.h"

static void check_diff(tfr_arena *arena, const char *before, const char *after,
                       const char *expected) {
    tfr_buf out = {.arena = arena};
    tfr_diff(&out, "x.py", tfr_str_from(before), tfr_str_from(after), false);
    CHECK_STR(tfr_buf_str(&out), expected);
}

static void exact(tfr_arena *arena) {
    check_diff(arena, "a\n", "a\n", "");
    check_diff(arena, "", "", "");
    check_diff(arena, "", "a\n", "--- a/x.py\n+++ b/x.py\n@@ -0,0 +1 @@\n+a\n");
    check_diff(arena, "a\nb\n", "", "--- a/x.py\n+++ b/x.py\n@@ -1,2 +0,0 @@\n-a\n-b\n");
    check_diff(arena, "a\nb\n", "a\nb",
               "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n"
               "\\ No newline at end of file\n");
    // Six equal lines between two changes join their hunks, seven do not.
    check_diff(arena, "1\na\nb\nc\nd\ne\nf\n2\n", "x\na\nb\nc\nd\ne\nf\ny\n",
               "--- a/x.py\n+++ b/x.py\n@@ -1,8 +1,8 @@\n-1\n+x\n a\n b\n c\n d\n e\n f\n-2\n+y\n");
    check_diff(arena, "1\na\nb\nc\nd\ne\nf\ng\n2\n", "x\na\nb\nc\nd\ne\nf\ng\ny\n",
               "--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,4 @@\n-1\n+x\n a\n b\n c\n"
               "@@ -6,4 +6,4 @@ d\n e\n f\n g\n-2\n+y\n");
    // The heading is the last line above with a name in its first column.
    check_diff(arena, "class A:\n  1\n  2\n  3\n  4\n  5\n", "class A:\n  1\n  2\n  3\n  4\n  6\n",
               "--- a/x.py\n+++ b/x.py\n@@ -3,4 +3,4 @@ class A:\n   2\n   3\n   4\n-  5\n+  6\n");
    // Line ends are content, shown as they are.
    check_diff(arena, "a\r\n", "b\r\n", "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\r\n+b\r\n");
}

static void names(tfr_arena *arena) {
    static const char *const CASES[][2] = {
        {"./d/x.py", "--- a/d/x.py\n"},
        {"/d/x.py", "--- a/d/x.py\n"},
        {"a b.py", "--- a/a b.py\t\n"},
        {"a\n\"b.py", "--- \"a/a\\012\\\"b.py\"\n"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        tfr_buf out = {.arena = arena};
        tfr_diff(&out, CASES[i][0], TFR_STR("a\n"), TFR_STR("b\n"), false);
        size_t len = strlen(CASES[i][1]);
        CHECK(out.len > len);
        CHECK_STR(((tfr_str){out.data, len}), CASES[i][1]);
    }
    tfr_buf out = {.arena = arena};
    tfr_diff(&out, "x.py", TFR_STR("a\n"), TFR_STR("b\n"), true);
    CHECK_STR(tfr_buf_str(&out), "\033[1m--- a/x.py\033[m\n\033[1m+++ b/x.py\033[m\n"
                                 "\033[36m@@ -1 +1 @@\033[m\n\033[31m-a\033[m\n\033[32m+b\033[m\n");
}

// Applies a diff strictly: every context and removed line must stand where the hunk says.
static bool apply(tfr_buf *out, tfr_str before, tfr_str patch) {
    side a = split(out->arena, before);
    side p = split(out->arena, patch);
    size_t at = 0;
    for (size_t i = 2; i < p.count; i++) {
        const char *line = p.lines[i].data;
        tfr_str rest = {line + 1, p.lines[i].len - 1};
        if (line[0] == '@') {
            size_t start = 0;
            size_t count = 1;
            if (sscanf(line, "@@ -%zu,%zu", &start, &count) < 1) {
                return false;
            }
            start -= count != 0;
            for (; at < start && at < a.count; at++) {
                tfr_buf_add_str(out, a.lines[at]);
            }
            if (at != start) {
                return false;
            }
            continue;
        }
        bool no_newline = i + 1 < p.count && p.lines[i + 1].data[0] == '\\';
        rest.len -= no_newline;
        i += no_newline;
        if (line[0] != '+' && (at >= a.count || !tfr_str_eq(a.lines[at++], rest))) {
            return false;
        }
        if (line[0] != '-') {
            tfr_buf_add_str(out, rest);
        }
    }
    for (; at < a.count; at++) {
        tfr_buf_add_str(out, a.lines[at]);
    }
    return true;
}

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void random_line(tfr_buf *out, uint32_t *state, uint32_t kinds) {
    tfr_buf_format(out, "line %" PRIu32 "\n", next(state) % kinds);
}

static void random_pairs(void) {
    uint32_t state = 7;
    for (int round = 0; round < 3000; round++) {
        tfr_arena *arena = tfr_arena_new();
        tfr_buf before = {.arena = arena};
        tfr_buf after = {.arena = arena};
        uint32_t lines = next(&state) % 60;
        uint32_t kinds = 1 + next(&state) % 20;
        uint32_t noise = next(&state) % 50;
        for (uint32_t i = 0; i < lines; i++) {
            size_t start = before.len;
            random_line(&before, &state, kinds);
            uint32_t what = next(&state) % 100;
            if (what >= noise) {
                tfr_buf_add(&after, before.data + start, before.len - start);
            } else if (what % 3 > 0) {
                random_line(&after, &state, kinds + 2);
            }
        }
        before.len -= before.len && next(&state) % 2; // the last line end
        after.len -= after.len && next(&state) % 2;
        tfr_buf patch = {.arena = arena};
        tfr_diff(&patch, "x.py", tfr_buf_str(&before), tfr_buf_str(&after), false);
        tfr_buf again = {.arena = arena};
        CHECK(apply(&again, tfr_buf_str(&before), tfr_buf_str(&patch)));
        CHECK(tfr_str_eq(tfr_buf_str(&again), tfr_buf_str(&after)));
        tfr_arena_free(arena);
    }
}

// Two large texts with nothing in common: over the limit of edits, and still quick and right.
static void hopeless(tfr_arena *arena) {
    tfr_buf before = {.arena = arena};
    tfr_buf after = {.arena = arena};
    for (int i = 0; i < 50000; i++) {
        tfr_buf_format(&before, "%d\n", i);
        tfr_buf_format(&after, "-%d\n", i);
    }
    tfr_buf patch = {.arena = arena};
    tfr_diff(&patch, "x.py", tfr_buf_str(&before), tfr_buf_str(&after), false);
    tfr_buf again = {.arena = arena};
    CHECK(apply(&again, tfr_buf_str(&before), tfr_buf_str(&patch)));
    CHECK(tfr_str_eq(tfr_buf_str(&again), tfr_buf_str(&after)));
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    exact(arena);
    names(arena);
    random_pairs();
    hopeless(arena);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
