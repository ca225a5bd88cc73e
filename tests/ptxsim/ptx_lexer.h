// Splits PTX text into tokens; comments vanish.
#ifndef PTXSIM_PTX_LEXER_H
#define PTXSIM_PTX_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// PTX_WORD: names, opcodes with their dots, directives, numbers.
enum { PTX_END, PTX_WORD, PTX_MARK, PTX_STRING };

typedef struct ptx_token {
    int kind, line;
    const char *text; // in the lexed text
    size_t length;
} ptx_token;

// Copy it to come back to a place.
typedef struct ptx_lexer {
    const char *next;
    int line;
    ptx_token token; // the current one
} ptx_lexer;

void ptx_lexer_start(ptx_lexer *lexer, const char *text);
void ptx_lexer_next(ptx_lexer *lexer);
bool ptx_token_is(const ptx_token *token, const char *text);
// 12, 0x1fU, 0f3F800000 (its bits), 0d..., 1.5 (bits of a float).
bool ptx_token_number(const ptx_token *token, uint64_t *value);
// What a minus before that number gives.
uint64_t ptx_token_negated(const ptx_token *token, uint64_t value);

#endif
