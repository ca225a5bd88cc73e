// Myers' O(ND) algorithm in its linear-space form, over lines, with an explicit stack of ranges. A
// range that needs more than MAX_EDITS is shown as replaced whole: longer, but still right, and
// the cost stays linear in the size of the file.
#include "cli/diff.h"

#include <stdio.h>

#define CONTEXT 3
#define MAX_EDITS 1500
#define HEADING_LEN 80

typedef struct side {
    tfr_str *lines; // each with its "\n"; a last line may have none
    uint64_t *hashes;
    size_t count;
    bool *changed; // removed (before) or added (after)
} side;

typedef struct range {
    size_t a0, a1, b0, b1; // [a0, a1) of `before` against [b0, b1) of `after`
} range;

typedef struct ranges {
    range *items;
    size_t count, cap;
} ranges;

static uint64_t hash_line(tfr_str line) {
    uint64_t h = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (size_t i = 0; i < line.len; i++) {
        h = (h ^ (unsigned char)line.data[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

static side split(tfr_arena *arena, tfr_str text) {
    size_t count = text.len && text.data[text.len - 1] != '\n';
    for (size_t i = 0; i < text.len; i++) {
        count += text.data[i] == '\n';
    }
    side s = {.lines = TFR_NEW_ARRAY(arena, tfr_str, count),
              .hashes = TFR_NEW_ARRAY(arena, uint64_t, count),
              .count = count,
              .changed = TFR_NEW_ARRAY(arena, bool, count)};
    size_t start = 0;
    for (size_t i = 0; i < count; i++) {
        const char *end = memchr(text.data + start, '\n', text.len - start);
        size_t len = end ? (size_t)(end - text.data) + 1 - start : text.len - start;
        s.lines[i] = (tfr_str){text.data + start, len};
        s.hashes[i] = hash_line(s.lines[i]);
        start += len;
    }
    return s;
}

typedef struct work {
    side a, b;
    ptrdiff_t *forward, *backward; // furthest x on each diagonal, index shifted by `middle`
    ptrdiff_t middle;
} work;

static bool same(const work *w, size_t i, size_t j) {
    return w->a.hashes[i] == w->b.hashes[j] && tfr_str_eq(w->a.lines[i], w->b.lines[j]);
}

// One step of one search: the furthest points after `d` edits, from those after `d - 1`. The
// backward search is the same on the reversed range. True: a point meets the other search's, which
// has done `d - odd` edits; `x` and `y` are then that point, counted from this search's corner.
// Points outside of the range occur at its rim; they lead nowhere and meet nothing.
static bool step(const work *w, range r, bool backward, ptrdiff_t d, ptrdiff_t *x_out,
                 ptrdiff_t *y_out) {
    ptrdiff_t n = (ptrdiff_t)(r.a1 - r.a0);
    ptrdiff_t m = (ptrdiff_t)(r.b1 - r.b0);
    ptrdiff_t *mine = (backward ? w->backward : w->forward) + w->middle;
    const ptrdiff_t *other = (backward ? w->forward : w->backward) + w->middle;
    bool odd = (n - m) % 2 != 0;
    ptrdiff_t reach = odd ? d - 1 : d; // of the other search
    for (ptrdiff_t k = -d; k <= d; k += 2) {
        bool down = k == -d || (k != d && mine[k - 1] < mine[k + 1]);
        ptrdiff_t x = down ? mine[k + 1] : mine[k - 1] + 1;
        ptrdiff_t y = x - k;
        while (x < n && y < m &&
               (backward ? same(w, r.a1 - 1 - (size_t)x, r.b1 - 1 - (size_t)y)
                         : same(w, r.a0 + (size_t)x, r.b0 + (size_t)y))) {
            x++;
            y++;
        }
        mine[k] = x;
        ptrdiff_t c = n - m - k; // the same diagonal, counted from the other corner
        if (odd == backward || c < -reach || c > reach || x + other[c] < n) {
            continue;
        }
        if (x <= n && y <= m && other[c] <= n && other[c] - c <= m) {
            *x_out = x;
            *y_out = y;
            return true;
        }
    }
    return false;
}

// A point on a shortest path through `r`, where the two searches meet. False: it is more than
// MAX_EDITS away from both ends.
static bool find_middle(work *w, range r, size_t *x_out, size_t *y_out) {
    w->forward[w->middle + 1] = 0;
    w->backward[w->middle + 1] = 0;
    ptrdiff_t most = (ptrdiff_t)(r.a1 - r.a0 + r.b1 - r.b0 + 1) / 2;
    most = most < MAX_EDITS ? most : MAX_EDITS;
    for (ptrdiff_t d = 0; d <= most; d++) {
        ptrdiff_t x = 0;
        ptrdiff_t y = 0;
        if (step(w, r, false, d, &x, &y)) {
            *x_out = r.a0 + (size_t)x;
            *y_out = r.b0 + (size_t)y;
            return true;
        }
        if (step(w, r, true, d, &x, &y)) {
            *x_out = r.a1 - (size_t)x;
            *y_out = r.b1 - (size_t)y;
            return true;
        }
    }
    return false;
}

static void mark(side *s, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        s->changed[i] = true;
    }
}

static void compare(work *w, tfr_arena *arena) {
    size_t most = (w->a.count + w->b.count + 1) / 2; // edits of one search
    most = most < MAX_EDITS ? most : MAX_EDITS;
    w->forward = TFR_NEW_ARRAY(arena, ptrdiff_t, 2 * most + 3);
    w->backward = TFR_NEW_ARRAY(arena, ptrdiff_t, 2 * most + 3);
    w->middle = (ptrdiff_t)most + 1;
    ranges todo = {0};
    *TFR_PUSH(arena, &todo) = (range){0, w->a.count, 0, w->b.count};
    while (todo.count) {
        range r = todo.items[--todo.count];
        while (r.a0 < r.a1 && r.b0 < r.b1 && same(w, r.a0, r.b0)) {
            r.a0++;
            r.b0++;
        }
        while (r.a0 < r.a1 && r.b0 < r.b1 && same(w, r.a1 - 1, r.b1 - 1)) {
            r.a1--;
            r.b1--;
        }
        size_t x = 0;
        size_t y = 0;
        bool split_up = r.a0 < r.a1 && r.b0 < r.b1 && find_middle(w, r, &x, &y);
        // A middle in a corner would give back the same range for ever.
        split_up = split_up && !(x == r.a0 && y == r.b0) && !(x == r.a1 && y == r.b1);
        if (split_up) {
            *TFR_PUSH(arena, &todo) = (range){x, r.a1, y, r.b1};
            *TFR_PUSH(arena, &todo) = (range){r.a0, x, r.b0, y};
        } else {
            mark(&w->a, r.a0, r.a1);
            mark(&w->b, r.b0, r.b1);
        }
    }
}

// --- printing ---

static void add_line(tfr_buf *out, char sign, tfr_str line, const char *code, bool color) {
    bool ends = line.len && line.data[line.len - 1] == '\n';
    if (color && *code) {
        tfr_buf_add_str(out, tfr_str_from(code));
    }
    tfr_buf_add(out, &sign, 1);
    tfr_buf_add(out, line.data, line.len - ends);
    if (color && *code) {
        tfr_buf_add_str(out, TFR_STR("\033[m"));
    }
    tfr_buf_add_str(out, ends ? TFR_STR("\n") : TFR_STR("\n\\ No newline at end of file\n"));
}

static void add_span(tfr_buf *out, char sign, size_t start, size_t count) {
    // An empty span names the line before it.
    tfr_buf_format(out, "%c%zu", sign, count ? start + 1 : start);
    if (count != 1) {
        tfr_buf_format(out, ",%zu", count);
    }
}

// As git does: the last line above that starts in the first column with a name.
static tfr_str heading(const side *a, size_t before) {
    for (size_t i = before; i-- > 0;) {
        tfr_str line = a->lines[i];
        char c = line.data[0];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') {
            size_t len = 0;
            while (len < line.len && len < HEADING_LEN && line.data[len] != '\n' &&
                   line.data[len] != '\r') {
                len++;
            }
            while (len < line.len && ((unsigned char)line.data[len] & 0xc0) == 0x80) {
                len--;
            }
            return (tfr_str){line.data, len};
        }
    }
    return (tfr_str){NULL, 0};
}

static void add_hunk(tfr_buf *out, const work *w, range h, bool color) {
    tfr_buf_add_str(out, color ? TFR_STR("\033[36m@@ ") : TFR_STR("@@ "));
    add_span(out, '-', h.a0, h.a1 - h.a0);
    tfr_buf_add(out, " ", 1);
    add_span(out, '+', h.b0, h.b1 - h.b0);
    tfr_buf_add_str(out, color ? TFR_STR(" @@\033[m") : TFR_STR(" @@"));
    tfr_str title = heading(&w->a, h.a0);
    if (title.len) {
        tfr_buf_add(out, " ", 1);
        tfr_buf_add_str(out, title);
    }
    tfr_buf_add(out, "\n", 1);
    size_t i = h.a0;
    size_t j = h.b0;
    while (i < h.a1 || j < h.b1) {
        if (i < h.a1 && w->a.changed[i]) {
            add_line(out, '-', w->a.lines[i++], "\033[31m", color);
        } else if (j < h.b1 && w->b.changed[j]) {
            add_line(out, '+', w->b.lines[j++], "\033[32m", color);
        } else {
            add_line(out, ' ', w->a.lines[i++], "", color);
            j++;
        }
    }
}

// Groups changes that lie at most 2 * CONTEXT equal lines apart.
static void add_hunks(tfr_buf *out, const work *w, bool color) {
    const side *a = &w->a;
    const side *b = &w->b;
    size_t i = 0;
    size_t j = 0;
    while (i < a->count || j < b->count) {
        bool differs = (i < a->count && a->changed[i]) || (j < b->count && b->changed[j]);
        if (!differs) {
            i++;
            j++;
            continue;
        }
        size_t lead = i < CONTEXT ? i : CONTEXT;
        range h = {i - lead, i, j - lead, j};
        size_t equal = 0;
        while ((i < a->count || j < b->count) && equal <= 2 * (size_t)CONTEXT) {
            if (i < a->count && a->changed[i]) {
                i++;
                equal = 0;
            } else if (j < b->count && b->changed[j]) {
                j++;
                equal = 0;
            } else {
                i++;
                j++;
                equal++;
            }
        }
        size_t trail = equal < CONTEXT ? equal : CONTEXT;
        h.a1 = i - equal + trail;
        h.b1 = j - equal + trail;
        add_hunk(out, w, h, color);
    }
}

// A name that would break the header line is quoted as git quotes it; one with a space gets the
// tab after it that tells `patch` where the name ends.
static void add_name(tfr_buf *out, const char *prefix, const char *path) {
    while (path[0] == '.' && path[1] == '/') {
        path += 2;
    }
    path += strspn(path, "/");
    bool quoted = false;
    for (const char *c = path; *c; c++) {
        quoted |= (unsigned char)*c < 0x20 || *c == 0x7f || *c == '"' || *c == '\\';
    }
    tfr_buf_format(out, quoted ? "\"%s" : "%s", prefix);
    for (const char *c = path; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            tfr_buf_format(out, "\\%03o", (unsigned)(unsigned char)*c);
        } else {
            tfr_buf_format(out, quoted && (*c == '"' || *c == '\\') ? "\\%c" : "%c", *c);
        }
    }
    if (quoted) {
        tfr_buf_add(out, "\"", 1);
    } else if (strchr(path, ' ')) {
        tfr_buf_add(out, "\t", 1);
    }
}

static void add_header(tfr_buf *out, const char *sign, const char *prefix, const char *path,
                       bool color) {
    tfr_buf_add_str(out, color ? TFR_STR("\033[1m") : TFR_STR(""));
    tfr_buf_add_str(out, tfr_str_from(sign));
    add_name(out, prefix, path);
    tfr_buf_add_str(out, color ? TFR_STR("\033[m\n") : TFR_STR("\n"));
}

void tfr_diff(tfr_buf *out, const char *path, tfr_str before, tfr_str after, bool color) {
    if (tfr_str_eq(before, after)) {
        return;
    }
    work w = {.a = split(out->arena, before), .b = split(out->arena, after)};
    compare(&w, out->arena);
    add_header(out, "--- ", "a/", path, color);
    add_header(out, "+++ ", "b/", path, color);
    add_hunks(out, &w, color);
}
