// A PTX text being read: its tokens, the names in scope, the program so far. Between ptx_parser.c
// (tokens and names), ptx_operands.c (instructions) and ptx_parse.c (the rest).
#ifndef PTXSIM_PTX_PARSER_H
#define PTXSIM_PTX_PARSER_H

#include <setjmp.h>

#include "ptx_lexer.h"
#include "ptx_program.h"

enum { IS_REGISTER, IS_ADDRESS, IS_PARAM, IS_TABLE };

// A name a declaration made: a run of registers name0..name<count-1>, or a variable.
typedef struct name {
    char text[PTX_NAME];
    uint8_t is, bits, space; // bits 1: predicates
    bool numbered;
    int32_t first, count; // slots; IS_TABLE: into labels
    int64_t address;      // in its space
    int32_t bytes;
} name;

typedef struct label {
    char text[PTX_NAME];
    int32_t at; // instruction, or -1: a use of it in `insn`
    int32_t insn, line;
    int32_t *place;
} label;

typedef struct parser {
    ptx_lexer lexer;
    ptx_program *program;
    name *names;
    int32_t name_count, name_capacity;
    label *labels;
    int32_t label_count, label_capacity, function_labels;
    ptx_function *function;                       // being read
    int32_t registers, predicates, local, shared; // used so far
    char *error;
    size_t error_size;
    jmp_buf fail;
} parser;

// Ends the parse: p->error says the line and the rest.
_Noreturn void parse_fail(parser *p, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *parse_grow(void *array, int32_t *capacity, size_t item);

static inline ptx_token *parse_peek(parser *p) { return &p->lexer.token; }
ptx_token parse_take(parser *p);
bool parse_at(parser *p, const char *text);
bool parse_accept(parser *p, const char *text);
void parse_expect(parser *p, const char *text);
void parse_take_name(parser *p, char out[PTX_NAME]);
int64_t parse_take_integer(parser *p);

name *parse_name_add(parser *p, const char *text, uint8_t is);
// The innermost name text means; *index: which register of a numbered run. NULL: none.
const name *parse_name_find(parser *p, const char *text, size_t length, int32_t *index);

static inline uint64_t parse_align(uint64_t value, uint64_t align) {
    return (value + align - 1) / align * align;
}

ptx_insn *parse_insn_add(parser *p);
void parse_instruction(parser *p);
// What follows a label and its colon.
void parse_label(parser *p, const ptx_token *token);
// Binds the uses of the function's labels.
void parse_resolve_labels(parser *p);

#endif
