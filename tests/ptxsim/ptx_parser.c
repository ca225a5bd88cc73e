// Tokens and names of a PTX text being read, and its first fault.
#include "ptx_parser.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void parse_fail(parser *p, int line, const char *format, ...) {
    int used = snprintf(p->error, p->error_size, "line %d: ", line);
    if (used > 0 && (size_t)used < p->error_size) {
        va_list list;
        va_start(list, format);
        vsnprintf(p->error + used, p->error_size - (size_t)used, format, list);
        va_end(list);
    }
    longjmp(p->fail, 1);
}

void *parse_grow(void *array, int32_t *capacity, size_t item) {
    *capacity = *capacity ? *capacity * 2 : 64;
    void *bigger = realloc(array, (size_t)*capacity * item);
    if (!bigger) {
        abort();
    }
    return bigger;
}

// Tokens

ptx_token parse_take(parser *p) {
    ptx_token token = p->lexer.token;
    ptx_lexer_next(&p->lexer);
    return token;
}

bool parse_at(parser *p, const char *text) { return ptx_token_is(parse_peek(p), text); }

bool parse_accept(parser *p, const char *text) {
    bool is = parse_at(p, text);
    if (is) {
        parse_take(p);
    }
    return is;
}

void parse_expect(parser *p, const char *text) {
    if (!parse_accept(p, text)) {
        parse_fail(p, parse_peek(p)->line, "%s expected before '%.*s'", text,
                   (int)parse_peek(p)->length, parse_peek(p)->text);
    }
}

void parse_take_name(parser *p, char out[PTX_NAME]) {
    ptx_token token = parse_take(p);
    if (token.kind != PTX_WORD || token.length >= PTX_NAME) {
        parse_fail(p, token.line, "a name expected, not '%.*s'", (int)token.length, token.text);
    }
    memcpy(out, token.text, token.length);
    out[token.length] = '\0';
}

int64_t parse_take_integer(parser *p) {
    bool minus = parse_accept(p, "-");
    ptx_token token = parse_take(p);
    uint64_t value;
    if (!ptx_token_number(&token, &value)) {
        parse_fail(p, token.line, "a number expected, not '%.*s'", (int)token.length, token.text);
    }
    return (int64_t)(minus ? 0 - value : value);
}

// Names

name *parse_name_add(parser *p, const char *text, uint8_t is) {
    if (p->name_count == p->name_capacity) {
        p->names = parse_grow(p->names, &p->name_capacity, sizeof *p->names);
    }
    name *n = &p->names[p->name_count++];
    memset(n, 0, sizeof *n);
    snprintf(n->text, sizeof n->text, "%s", text);
    n->is = is;
    return n;
}

const name *parse_name_find(parser *p, const char *text, size_t length, int32_t *index) {
    size_t stem = length;
    while (stem > 0 && isdigit((unsigned char)text[stem - 1])) {
        stem--;
    }
    int32_t number = stem < length && length - stem < 8 ? (int32_t)atoi(text + stem) : -1;
    for (int32_t i = p->name_count; i-- > 0;) {
        const name *n = &p->names[i];
        size_t have = n->numbered ? stem : length;
        if (strlen(n->text) == have && !memcmp(n->text, text, have) &&
            (!n->numbered || (number >= 0 && number < n->count))) {
            *index = n->numbered ? number : 0;
            return n;
        }
    }
    return NULL;
}
