// A JSON reader of its own, without recursion: Python's grammar would take trailing commas, single
// quotes and comments, and say nothing of where the JSON is wrong.
#include "rewriter/config.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_NESTING 64

typedef struct reader {
    const tfr_source *source;
    tfr_str text;
    uint32_t at;
    tfr_arena *arena;
    tfr_error *err;
} reader;

static tfr_status fail(const reader *r, uint32_t at, const char *what) {
    return tfr_source_fail(r->err, TFR_E_USAGE, r->source, at, "no valid JSON: %s", what);
}

static char peek(const reader *r) { return r->at < r->text.len ? r->text.data[r->at] : 0; }

static void skip_space(reader *r) {
    while (peek(r) == ' ' || peek(r) == '\n' || peek(r) == '\r' || peek(r) == '\t')
        r->at++;
}

// ---- strings ----------------------------------------------------------------------------------

static void add_utf8(tfr_buf *out, uint32_t code) {
    char bytes[4];
    size_t n = 0;
    if (code < 0x80) {
        bytes[n++] = (char)code;
    } else if (code < 0x800) {
        bytes[n++] = (char)(0xC0u | code >> 6);
        bytes[n++] = (char)(0x80u | (code & 0x3Fu));
    } else if (code < 0x10000) {
        bytes[n++] = (char)(0xE0u | code >> 12);
        bytes[n++] = (char)(0x80u | (code >> 6 & 0x3Fu));
        bytes[n++] = (char)(0x80u | (code & 0x3Fu));
    } else {
        bytes[n++] = (char)(0xF0u | code >> 18);
        bytes[n++] = (char)(0x80u | (code >> 12 & 0x3Fu));
        bytes[n++] = (char)(0x80u | (code >> 6 & 0x3Fu));
        bytes[n++] = (char)(0x80u | (code & 0x3Fu));
    }
    tfr_buf_add(out, bytes, n);
}

static bool read_hex(reader *r, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = peek(r);
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return false;
        *code = *code << 4 | digit;
    }
    return true;
}

// Behind a backslash. A half of a surrogate pair without the other becomes U+FFFD.
static bool read_escape(reader *r, tfr_buf *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = peek(r);
    r->at++;
    const char *known = c ? strchr(names, c) : NULL;
    if (known) {
        tfr_buf_add(out, &values[known - names], 1);
        return true;
    }
    uint32_t code, low;
    if (c != 'u' || !read_hex(r, &code))
        return false;
    if (code >= 0xD800 && code < 0xDC00 && r->at + 1 < r->text.len && peek(r) == '\\' &&
        r->text.data[r->at + 1] == 'u') {
        uint32_t back = r->at;
        r->at += 2;
        if (!read_hex(r, &low))
            return false;
        if (low >= 0xDC00 && low < 0xE000)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        else
            r->at = back;
    }
    add_utf8(out, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    return true;
}

static tfr_status read_string(reader *r, tfr_str *out) {
    uint32_t start = r->at++;
    tfr_buf text = {.arena = r->arena};
    while (r->at < r->text.len && peek(r) != '"') {
        uint32_t at = r->at;
        if ((unsigned char)peek(r) < 0x20)
            return fail(r, at, "a control character in a string");
        if (peek(r) != '\\') {
            tfr_buf_add(&text, &r->text.data[r->at++], 1);
            continue;
        }
        r->at++;
        if (!read_escape(r, &text))
            return fail(r, at, "an unknown escape in a string");
    }
    if (r->at >= r->text.len)
        return fail(r, start, "a string that is never closed");
    r->at++;
    *out = text.data ? tfr_buf_str(&text) : TFR_STR("");
    return TFR_OK;
}

// ---- numbers and words ------------------------------------------------------------------------

static bool digits(reader *r) {
    uint32_t from = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at > from;
}

static tfr_status read_number(reader *r, tfr_json *out) {
    uint32_t start = r->at;
    bool whole = true;
    r->at += peek(r) == '-';
    uint32_t first = r->at;
    if (!digits(r) || (r->text.data[first] == '0' && r->at > first + 1))
        return fail(r, start, "a number is expected here");
    if (peek(r) == '.') {
        r->at++;
        whole = false;
        if (!digits(r))
            return fail(r, start, "a number with nothing behind its point");
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        whole = false;
        r->at += peek(r) == '+' || peek(r) == '-';
        if (!digits(r))
            return fail(r, start, "a number without its exponent");
    }
    const char *text = tfr_str_dup(r->arena, (tfr_str){r->text.data + start, r->at - start});
    out->kind = whole ? TFR_JSON_INT : TFR_JSON_FLOAT;
    out->number = strtod(text, NULL);
    errno = 0;
    out->integer = whole ? strtoll(text, NULL, 10) : 0;
    if (whole && errno)
        out->kind = TFR_JSON_FLOAT;
    return TFR_OK;
}

static tfr_status read_word(reader *r, tfr_json *out) {
    static const struct {
        const char *text;
        tfr_json_kind kind;
        int64_t integer;
        double number;
    } words[] = {
        {"true", TFR_JSON_BOOL, 1, 1},
        {"false", TFR_JSON_BOOL, 0, 0},
        {"null", TFR_JSON_NULL, 0, 0},
        // Not JSON, but what Python's json writes and reads.
        {"NaN", TFR_JSON_FLOAT, 0, (double)__builtin_nanf("")},
        {"Infinity", TFR_JSON_FLOAT, 0, (double)__builtin_inff()},
        {"-Infinity", TFR_JSON_FLOAT, 0, -(double)__builtin_inff()},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].text);
        if (r->text.len - r->at < n || memcmp(r->text.data + r->at, words[i].text, n) != 0)
            continue;
        out->kind = words[i].kind;
        out->integer = words[i].integer;
        out->number = words[i].number;
        r->at += (uint32_t)n;
        return TFR_OK;
    }
    char c = peek(r);
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r, out);
    return fail(r, r->at, c == '\'' ? "strings have double quotes" : "a value is expected here");
}

// ---- the document -----------------------------------------------------------------------------

static tfr_status read_key(reader *r, tfr_json *item) {
    if (peek(r) != '"')
        return fail(r, r->at, "a name in double quotes is expected here");
    tfr_status status = read_string(r, &item->key);
    skip_space(r);
    if (status == TFR_OK && peek(r) != ':')
        return fail(r, r->at, "a ':' is expected here");
    r->at++;
    skip_space(r);
    return status;
}

// A value up to its first item; lists and objects are opened.
static tfr_status read_value(reader *r, tfr_json *item) {
    switch (peek(r)) {
    case '"':
        item->kind = TFR_JSON_TEXT;
        return read_string(r, &item->text);
    case '{':
    case '[':
        item->kind = peek(r) == '{' ? TFR_JSON_OBJECT : TFR_JSON_LIST;
        r->at++;
        return TFR_OK;
    default:
        return read_word(r, item);
    }
}

typedef struct level {
    tfr_json *holder, *last; // `last`: its last item so far
} level;

// Ends the lists and objects that end here, and steps over the comma where one goes on.
static tfr_status close_levels(reader *r, level *levels, size_t *depth) {
    for (; *depth; --*depth) {
        const level *l = &levels[*depth - 1];
        skip_space(r);
        if (peek(r) == (l->holder->kind == TFR_JSON_OBJECT ? '}' : ']')) {
            r->at++;
            continue;
        }
        if (!l->last)
            return TFR_OK;
        if (peek(r) != ',')
            return fail(r, r->at, "a ',' or the closing bracket is expected here");
        r->at++;
        skip_space(r);
        if (peek(r) == '}' || peek(r) == ']')
            return fail(r, r->at, "nothing follows the comma before this bracket");
        return TFR_OK;
    }
    return TFR_OK;
}

tfr_status tfr_config_parse(const tfr_json **out, const tfr_source *source, tfr_arena *arena,
                            tfr_error *err) {
    reader r = {.source = source, .text = source->text, .arena = arena, .err = err};
    level levels[MAX_NESTING];
    size_t depth = 0;
    skip_space(&r);
    tfr_json *root = TFR_NEW(arena, tfr_json);
    if (peek(&r) != '{')
        return fail(&r, r.at, "the configuration of a model is one object, { ... }");
    tfr_status status = read_value(&r, root);
    levels[depth++] = (level){root, NULL};
    while (status == TFR_OK && (status = close_levels(&r, levels, &depth)) == TFR_OK && depth) {
        level *l = &levels[depth - 1];
        tfr_json *item = TFR_NEW(arena, tfr_json);
        skip_space(&r);
        if (l->holder->kind == TFR_JSON_OBJECT)
            status = read_key(&r, item);
        uint32_t at = r.at;
        if (status == TFR_OK)
            status = read_value(&r, item);
        if (status != TFR_OK)
            break;
        if (l->last)
            l->last->next = item;
        else
            l->holder->first = item;
        l->last = item;
        l->holder->integer++;
        if (item->kind != TFR_JSON_OBJECT && item->kind != TFR_JSON_LIST)
            continue;
        if (depth == MAX_NESTING)
            return fail(&r, at, "nested deeper than 64 levels");
        levels[depth++] = (level){item, NULL};
    }
    skip_space(&r);
    if (status == TFR_OK && r.at < r.text.len)
        return fail(&r, r.at, "something follows the end of the object");
    *out = root;
    return status;
}

// Python's rules for a text do not hold here: `  {` is no wrong indentation.
tfr_status tfr_config_from_bytes(const tfr_json **out, const char *path, tfr_str bytes,
                                 tfr_arena *arena, tfr_error *err) {
    tfr_source *source = TFR_NEW(arena, tfr_source);
    bool has_bom = bytes.len >= 3 && memcmp(bytes.data, "\xef\xbb\xbf", 3) == 0;
    size_t lines = 1;
    for (size_t i = 0; i < bytes.len; i++)
        lines += bytes.data[i] == '\n';
    *source = (tfr_source){.path = path, .bytes = bytes, .text = bytes};
    source->lines = TFR_NEW_ARRAY(arena, uint32_t, lines);
    source->line_count = 1;
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.data[i] == '\n')
            source->lines[source->line_count++] = (uint32_t)(i + 1);
    if (has_bom) {
        char *text = tfr_arena_alloc(arena, bytes.len);
        memcpy(text, bytes.data, bytes.len);
        memset(text, ' ', 3);
        source->text.data = text;
    }
    return tfr_config_parse(out, source, arena, err);
}

tfr_status tfr_config_read(const tfr_json **out, const char *path, tfr_arena *arena,
                           tfr_error *err) {
    tfr_str bytes = {0};
    if (tfr_source_bytes(&bytes, path, arena, err) != TFR_OK)
        return TFR_E_USAGE; // an argument, not the input
    return tfr_config_from_bytes(out, path, bytes, arena, err);
}

const tfr_json *tfr_json_get(const tfr_json *object, tfr_str key) {
    const tfr_json *found = NULL;
    for (const tfr_json *i = object->kind == TFR_JSON_OBJECT ? object->first : NULL; i; i = i->next)
        if (tfr_str_eq(i->key, key))
            found = i;
    return found;
}

const tfr_json *tfr_config_get(const tfr_json *config, tfr_str key) {
    const tfr_json *found = tfr_json_get(config, key);
    const tfr_json *text = found ? NULL : tfr_json_get(config, TFR_STR("text_config"));
    return text ? tfr_json_get(text, key) : found;
}
