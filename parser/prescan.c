// A hand-written tokenizer without tokens. The stack of open brackets holds f-strings and their
// replacement fields too (`f"{a:{b}}"`), so that nested quotes of Python 3.12 are read right and
// nothing recurses. Names here follow CPython's tokenizer, whose verdicts are the measure.
#include "parser/prescan.h"

#include <stdio.h>
#include <string.h>

#include "parser/encoding.h"

#define MAX_FSTRINGS 150 // CPython's limit
#define STACK_SIZE (TFR_MAX_BRACKETS + MAX_FSTRINGS)
#define TAB_SIZE 8

// Messages below spell the limits out.
_Static_assert(TFR_MAX_BRACKETS == 200 && TFR_MAX_INDENTS == 100, "limits named in messages");

typedef enum verdict { GO_ON, GIVE_UP, REFUSED } verdict;

typedef enum opener_kind { BRACKET, FSTRING, FIELD, FORMAT_SPEC } opener_kind;

typedef struct opener {
    opener_kind kind;
    char open;  // '(' '[' '{' of a BRACKET
    char quote; // of an FSTRING, and of the one that a FIELD or FORMAT_SPEC belongs to
    bool triple;
    bool raw;
    uint32_t at;
} opener;

// An indentation by three measures. Python compares the first two, which differ in the width of a
// tab and must agree; the grammar counts the third, so it must agree as well.
typedef struct indent {
    uint32_t column;     // tabs go to the next multiple of 8
    uint32_t alternate;  // a tab is one column
    uint32_t as_grammar; // a tab is eight columns, wherever it stands
} indent;

typedef struct scan {
    const tfr_source *src;
    tfr_error *err;
    char *mask;
    char *splats; // NULL, or the text whose splats become '~'
    bool found;   // one of those
    const char *text;
    uint32_t pos, end;
    opener stack[STACK_SIZE];
    uint32_t depth, brackets, fstrings;
    indent indents[TFR_MAX_INDENTS];
    uint32_t indent_count;
    bool line_start;  // of a logical line: indentation counts
    char last;        // last significant byte of this logical line, 0: none yet; 'a': of the name
    uint32_t name;    // that starts here
    bool wants_block; // the last logical line ended in ':'
} scan;

static verdict refuse(scan *s, uint32_t at, const char *message) {
    (void)tfr_source_fail(s->err, TFR_E_REFUSED, s->src, at, "%s", message);
    return REFUSED;
}

static char peek(const scan *s, uint32_t ahead) {
    return s->end - s->pos > ahead ? s->text[s->pos + ahead] : 0;
}

static bool is_newline(char c) { return c == '\n' || c == '\r'; }

static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static void skip_newline(scan *s) {
    s->pos += s->text[s->pos] == '\r' && peek(s, 1) == '\n' ? 2 : 1;
}

// After a backslash: the byte behind it, or the whole line end.
static void skip_escaped(scan *s) {
    s->pos++;
    if (s->pos < s->end) {
        skip_newline(s);
    }
}

static void mask_range(scan *s, uint32_t from, uint32_t to) {
    for (uint32_t i = from; s->mask && i < to; i++) {
        if ((unsigned char)s->mask[i] >= 0x80) {
            s->mask[i] = '?';
        }
    }
}

static void skip_comment(scan *s) {
    uint32_t start = s->pos;
    while (s->pos < s->end && !is_newline(s->text[s->pos])) {
        s->pos++;
    }
    mask_range(s, start, s->pos);
}

// --- brackets ---

static opener *top(scan *s) { return s->depth ? &s->stack[s->depth - 1] : NULL; }

static verdict push(scan *s, opener item) {
    if (item.kind == FSTRING) {
        if (s->fstrings == MAX_FSTRINGS) {
            return GIVE_UP;
        }
        s->fstrings++;
    } else {
        if (s->brackets == TFR_MAX_BRACKETS) {
            return s->fstrings ? GIVE_UP
                               : refuse(s, item.at,
                                        "brackets are nested more than 200 deep, which is more "
                                        "than Python accepts");
        }
        s->brackets++;
    }
    s->stack[s->depth++] = item;
    return GO_ON;
}

static void pop(scan *s) {
    if (top(s)->kind == FSTRING) {
        s->fstrings--;
    } else {
        s->brackets--;
    }
    s->depth--;
}

static char closer_of(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

static verdict close_bracket(scan *s, char c) {
    opener *open = top(s);
    bool fits = open && (open->kind == FIELD ? c == '}' : c == closer_of(open->open));
    if (fits) {
        pop(s);
        s->pos++;
        return GO_ON;
    }
    if (s->fstrings) {
        return GIVE_UP;
    }
    char message[80] = "this ')' closes nothing";
    message[6] = c;
    if (open) {
        uint32_t line = 0;
        uint32_t column = 0;
        tfr_source_position(s->src, open->at, &line, &column);
        (void)snprintf(message, sizeof message, "this '%c' does not close the '%c' of line %u", c,
                       open->open, line);
    }
    return refuse(s, s->pos, message);
}

// --- strings ---

typedef struct prefix {
    bool formatted, raw;
} prefix;

// Reads a run of name bytes as a string prefix. What is none ("print" in Python 2's `print"x"`)
// is a name before a plain string.
static prefix read_prefix(const char *text, uint32_t len) {
    prefix p = {false, false};
    bool bytes = false;
    for (uint32_t i = 0; i < len; i++) {
        char c = (char)(text[i] | 0x20);
        p.formatted |= c == 'f' || c == 't';
        p.raw |= c == 'r';
        bytes |= c == 'b' || c == 'u';
        if (len > 2 || !(c == 'f' || c == 't' || c == 'r' || c == 'b' || c == 'u')) {
            return (prefix){false, false};
        }
    }
    bool twice = len == 2 && (text[0] | 0x20) == (text[1] | 0x20);
    bool tf = len == 2 && p.formatted && !p.raw;
    return bytes || twice || tf ? (prefix){false, p.raw} : p;
}

static bool at_quotes(const scan *s, char quote, bool triple) {
    return peek(s, 0) == quote && (!triple || (peek(s, 1) == quote && peek(s, 2) == quote));
}

static verdict skip_plain_string(scan *s, char quote, bool triple, uint32_t start) {
    while (s->pos < s->end && !at_quotes(s, quote, triple)) {
        char c = s->text[s->pos];
        if (c == '\\') {
            skip_escaped(s);
        } else if (is_newline(c) && !triple) {
            break;
        } else {
            s->pos++;
        }
    }
    if (!at_quotes(s, quote, triple)) {
        if (s->fstrings) {
            return GIVE_UP;
        }
        return refuse(s, start,
                      triple ? "this triple-quoted string is never closed"
                             : "this string is not closed on its line");
    }
    s->pos += triple ? 3 : 1;
    mask_range(s, start, s->pos);
    return GO_ON;
}

// `pos` is at the first quote; a prefix lies before it.
static verdict open_string(scan *s, prefix p) {
    uint32_t start = s->pos;
    char quote = s->text[s->pos];
    bool triple = peek(s, 1) == quote && peek(s, 2) == quote;
    s->pos += triple ? 3 : 1;
    s->last = quote;
    if (!p.formatted) {
        return skip_plain_string(s, quote, triple, start);
    }
    return push(
        s, (opener){.kind = FSTRING, .quote = quote, .triple = triple, .raw = p.raw, .at = start});
}

// `\N{DASH}` holds no replacement field, `\{` starts one, any other backslash hides a byte.
static void skip_fstring_escape(scan *s, bool raw) {
    char next = peek(s, 1);
    if (next == '{' || next == '}') {
        s->pos++;
    } else if (next == 'N' && !raw && peek(s, 2) == '{') {
        s->pos += 3;
        while (is_name_byte(peek(s, 0)) || peek(s, 0) == ' ' || peek(s, 0) == '-') {
            s->pos++;
        }
        s->pos += peek(s, 0) == '}';
    } else {
        skip_escaped(s);
    }
}

// The text part of an f-string, or of a format specification, up to what ends it.
static verdict scan_fstring_text(scan *s) {
    opener in = *top(s);
    bool spec = in.kind == FORMAT_SPEC;
    uint32_t start = s->pos;
    while (s->pos < s->end) {
        char c = s->text[s->pos];
        if (c == '\\') {
            skip_fstring_escape(s, in.raw);
        } else if (at_quotes(s, in.quote, in.triple)) {
            mask_range(s, start, s->pos);
            s->pos += in.triple ? 3 : 1;
            s->last = in.quote;
            pop(s);
            return spec ? GIVE_UP : GO_ON;
        } else if (c == '{' && (spec || peek(s, 1) != '{')) {
            mask_range(s, start, s->pos);
            opener field = in;
            field.kind = FIELD;
            field.at = s->pos++;
            return push(s, field);
        } else if (c == '}' && spec) {
            mask_range(s, start, s->pos++);
            pop(s);
            return GO_ON;
        } else if ((c == '{' || c == '}') && !spec) {
            if (peek(s, 1) != c) {
                return GIVE_UP;
            }
            s->pos += 2;
        } else if (is_newline(c) && !in.triple) {
            return GIVE_UP;
        } else {
            s->pos++;
        }
    }
    return GIVE_UP;
}

// --- indentation ---

// Measures the white space at `pos`. A backslash joins lines here too, and then the first
// indentation that is not zero is the one that counts for Python.
static indent measure_indent(scan *s) {
    indent in = {0, 0, 0};
    uint32_t joined = 0;
    for (; s->pos < s->end; s->pos++) {
        char c = s->text[s->pos];
        if (c == ' ') {
            in = (indent){in.column + 1, in.alternate + 1, in.as_grammar + 1};
        } else if (c == '\t') {
            in = (indent){(in.column / TAB_SIZE + 1) * TAB_SIZE, in.alternate + 1,
                          in.as_grammar + TAB_SIZE};
        } else if (c == '\f') {
            in = (indent){0, 0, 0};
        } else if (c == '\\' && is_newline(peek(s, 1))) {
            joined = joined ? joined : in.column;
            in.column = in.alternate = 0;
            s->pos += peek(s, 1) == '\r' && peek(s, 2) == '\n' ? 2 : 1;
        } else {
            break;
        }
    }
    return joined ? (indent){joined, joined, in.as_grammar} : in;
}

static verdict refuse_tabs(scan *s) {
    return refuse(s, s->pos,
                  "tabs and spaces (or a backslash) are mixed in this indentation so "
                  "that its depth is unclear; indent it as the lines around it");
}

static verdict check_indent(scan *s, indent in) {
    indent above = s->indents[s->indent_count - 1];
    if (in.column > above.column) {
        if (!s->wants_block) {
            return refuse(s, s->pos, "unexpected indentation");
        }
        if (s->indent_count == TFR_MAX_INDENTS) {
            return refuse(s, s->pos,
                          "blocks are nested more than 100 deep, which is more than "
                          "Python accepts");
        }
        s->indents[s->indent_count++] = in;
        bool agree = in.alternate > above.alternate && in.as_grammar > above.as_grammar;
        return agree ? GO_ON : refuse_tabs(s);
    }
    if (s->wants_block) {
        return refuse(s, s->pos, "an indented block is missing here, after the ':' above");
    }
    while (in.column < above.column) {
        if (in.alternate >= above.alternate || in.as_grammar >= above.as_grammar) {
            return refuse_tabs(s);
        }
        above = s->indents[--s->indent_count - 1];
    }
    if (in.column != above.column) {
        return refuse(s, s->pos, "this indentation matches no block around it");
    }
    bool agree = in.alternate == above.alternate && in.as_grammar == above.as_grammar;
    return agree ? GO_ON : refuse_tabs(s);
}

static verdict start_line(scan *s) {
    indent in = measure_indent(s);
    char c = peek(s, 0);
    if (s->pos >= s->end || c == '#' || is_newline(c)) {
        return GO_ON; // a blank line or a comment alone has no indentation
    }
    s->line_start = false;
    verdict v = check_indent(s, in);
    s->wants_block = false;
    return v;
}

static void end_line(scan *s) {
    skip_newline(s);
    if (s->depth) {
        return;
    }
    if (s->last) {
        s->wants_block = s->last == ':';
    }
    s->last = 0;
    s->line_start = true;
}

// --- code ---

static verdict scan_name(scan *s) {
    uint32_t start = s->pos;
    while (s->pos < s->end && is_name_byte(s->text[s->pos])) {
        if (s->mask && (unsigned char)s->text[s->pos] >= 0x80) {
            return refuse(s, s->pos,
                          "a character beyond ASCII outside of strings and comments is "
                          "supported in UTF-8 files alone; save the file as UTF-8");
        }
        s->pos++;
    }
    s->last = 'a';
    s->name = start;
    char next = peek(s, 0);
    if (next != '"' && next != '\'') {
        return GO_ON;
    }
    return open_string(s, read_prefix(s->text + start, s->pos - start));
}

// A backslash outside of strings.
static verdict join_lines(scan *s) {
    if (!is_newline(peek(s, 1))) {
        return s->fstrings ? GIVE_UP
                           : refuse(s, s->pos, "only a line end may follow this backslash");
    }
    skip_escaped(s);
    return GO_ON;
}

// Whether a star that follows what was last read begins a splat, where it can also be a product.
static bool begins_splat(const scan *s) {
    static const char *const words[] = {"return", "yield", "in"};
    if (s->last == ',' || s->last == '=' || s->last == '[') {
        return true;
    }
    for (size_t i = 0; s->last == 'a' && i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i]);
        if (s->name + len <= s->pos && memcmp(s->text + s->name, words[i], len) == 0 &&
            !is_name_byte(s->text[s->name + len])) {
            return true;
        }
    }
    return false;
}

static void mark_splat(scan *s) {
    const opener *open = top(s);
    uint32_t next = s->pos + 1;
    while (next < s->end && (s->text[next] == ' ' || s->text[next] == '\t')) {
        next++;
    }
    // Of names and what is made of them the grammar has splats everywhere.
    if ((open && (open->kind != BRACKET || open->open != '[')) || next == s->end ||
        !strchr("[({\"'", s->text[next]) || !begins_splat(s)) {
        return;
    }
    s->splats[s->pos] = '~';
    s->found = true;
}

static verdict scan_code(scan *s) {
    if (s->line_start && !s->depth) {
        verdict v = start_line(s);
        if (v != GO_ON || s->pos >= s->end) {
            return v;
        }
    }
    char c = s->text[s->pos];
    opener *open = top(s);
    if (is_name_byte(c)) {
        return scan_name(s);
    }
    switch (c) {
    case ' ':
    case '\t':
    case '\f':
        s->pos++;
        return GO_ON;
    case '\n':
    case '\r':
        end_line(s);
        return GO_ON;
    case '#':
        skip_comment(s);
        return GO_ON;
    case '\\':
        return join_lines(s);
    case '"':
    case '\'':
        return open_string(s, (prefix){false, false});
    default:
        break;
    }
    if (c == '*' && s->splats) {
        mark_splat(s);
    }
    s->last = c;
    if (c == '(' || c == '[' || c == '{') {
        return push(s, (opener){.kind = BRACKET, .open = c, .at = s->pos++});
    }
    if (c == ')' || c == ']' || c == '}') {
        return close_bracket(s, c);
    }
    if (c == ':' && open && open->kind == FIELD) {
        open->kind = FORMAT_SPEC;
    }
    s->pos++;
    return GO_ON;
}

static verdict check_end(scan *s) {
    if (s->fstrings) {
        return GIVE_UP;
    }
    if (s->depth) {
        char message[] = "this '(' is never closed";
        message[6] = top(s)->open;
        return refuse(s, top(s)->at, message);
    }
    if (s->wants_block || s->last == ':') {
        return refuse(s, s->end, "the file ends where an indented block is missing");
    }
    return GO_ON;
}

static verdict scan_all(scan *s, const tfr_source *src) {
    s->src = src;
    s->text = src->text.data;
    s->end = (uint32_t)src->text.len;
    s->indent_count = 1;
    s->line_start = true;
    if (tfr_encoding_has_bom(src->bytes)) {
        s->pos = TFR_BOM_LEN; // blanked, but no indentation
    }
    verdict v = GO_ON;
    while (v == GO_ON && s->pos < s->end) {
        bool in_text = s->depth && (top(s)->kind == FSTRING || top(s)->kind == FORMAT_SPEC);
        v = in_text ? scan_fstring_text(s) : scan_code(s);
    }
    return v;
}

bool tfr_prescan_splats(const tfr_source *src, char *text) {
    scan s = {.splats = text};
    return scan_all(&s, src) == GO_ON && s.found;
}

tfr_status tfr_prescan(const tfr_source *src, char *mask, tfr_error *err) {
    scan s = {.err = err, .mask = mask};
    verdict v = scan_all(&s, src);
    if (v == GO_ON) {
        v = check_end(&s);
    }
    if (v == GIVE_UP && mask) {
        v = refuse(&s, s.pos, "this f-string cannot be read in a file that is not UTF-8");
    }
    return v == REFUSED ? TFR_E_REFUSED : TFR_OK;
}
