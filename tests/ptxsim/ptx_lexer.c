// Tokens of PTX. An opcode with its modifiers is one word: `ld.global.L1::no_allocate.v4.f32`.
#include "ptx_lexer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static const char *skip_blank(ptx_lexer *lexer) {
    const char *at = lexer->next;
    for (;;) {
        if (*at == '\n') {
            lexer->line++;
            at++;
        } else if (isspace((unsigned char)*at)) {
            at++;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            end = end ? end + 2 : at + strlen(at);
            for (; at < end; at++) {
                lexer->line += *at == '\n';
            }
        } else {
            return at;
        }
    }
}

void ptx_lexer_next(ptx_lexer *lexer) {
    const char *at = skip_blank(lexer), *end = at;
    ptx_token *token = &lexer->token;
    token->line = lexer->line;
    token->text = at;
    if (!*at) {
        token->kind = PTX_END;
    } else if (is_word(*at)) {
        token->kind = PTX_WORD;
        while (is_word(*end) || (end[0] == ':' && end[1] == ':') ||
               (end[0] == ':' && end > at && end[-1] == ':')) {
            end++;
        }
    } else if (*at == '"') {
        token->kind = PTX_STRING;
        end++;
        while (*end && *end != '"' && *end != '\n') {
            end++;
        }
        end += *end == '"';
    } else {
        token->kind = PTX_MARK;
        end++;
    }
    token->length = (size_t)(end - at);
    lexer->next = end;
}

void ptx_lexer_start(ptx_lexer *lexer, const char *text) {
    *lexer = (ptx_lexer){.next = text, .line = 1};
    ptx_lexer_next(lexer);
}

bool ptx_token_is(const ptx_token *token, const char *text) {
    return strlen(text) == token->length && !memcmp(token->text, text, token->length);
}

static bool is_float(const ptx_token *token) {
    return token->text[0] != '0' || token->length < 2 || !strchr("xXfFdD", token->text[1])
               ? memchr(token->text, '.', token->length) != NULL
               : false;
}

bool ptx_token_number(const ptx_token *token, uint64_t *value) {
    const char *text = token->text;
    char *end;
    if (token->kind != PTX_WORD || !isdigit((unsigned char)text[0])) {
        return false;
    }
    if (is_float(token)) {
        float number = strtof(text, &end);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        *value = bits;
    } else if (token->length > 2 && text[0] == '0' && strchr("fFdD", text[1])) {
        *value = strtoull(text + 2, &end, 16);
    } else {
        *value = strtoull(text, &end, 0);
        end += *end == 'U';
    }
    return end == text + token->length;
}

uint64_t ptx_token_negated(const ptx_token *token, uint64_t value) {
    bool bits32 = is_float(token) || (token->length > 2 && strchr("fF", token->text[1]));
    bool bits64 = token->length > 2 && strchr("dD", token->text[1]);
    return bits64 ? value ^ UINT64_C(1) << 63 : bits32 ? value ^ UINT64_C(1) << 31 : 0 - value;
}
