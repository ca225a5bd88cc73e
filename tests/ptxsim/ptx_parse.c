// Reads PTX text: the module, its directives, declarations and functions, into the form of
// ptx_program.h. Names are scoped by braces. Nothing here runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_decode.h"
#include "ptx_parser.h"

enum { MOST_BYTES = 1 << 28, MOST_REGISTERS = 1 << 20 };

// The start of bytes that are put behind what is used of a space.
static int32_t place(parser *p, int32_t *used, int64_t bytes, int align) {
    int64_t start = (int64_t)parse_align((uint64_t)*used, (uint64_t)align);
    if (align > MOST_BYTES || start + bytes > MOST_BYTES) {
        parse_fail(p, parse_peek(p)->line, "more than %d bytes", MOST_BYTES);
    }
    *used = (int32_t)(start + bytes);
    return (int32_t)start;
}

// Declarations

static void declare_registers(parser *p) {
    ptx_token type_word = parse_take(p);
    int type = type_word.length ? ptx_type_find(type_word.text + 1, type_word.length - 1) : 0;
    if (!type) {
        parse_fail(p, type_word.line, "register type %.*s is not modelled", (int)type_word.length,
                   type_word.text);
    }
    do {
        char text[PTX_NAME];
        parse_take_name(p, text);
        name *n = parse_name_add(p, text, IS_REGISTER);
        n->bits = type == PTX_pred ? 1 : (uint8_t)(ptx_type_bytes[type] * 8);
        if (n->bits == 8) {
            n->bits = 16;
        }
        n->count = 1;
        if (parse_accept(p, "<")) {
            n->count = (int32_t)parse_take_integer(p);
            n->numbered = true;
            parse_expect(p, ">");
        }
        int32_t *used = type == PTX_pred ? &p->predicates : &p->registers;
        if (n->count < 0 || n->count > MOST_REGISTERS - *used) {
            parse_fail(p, type_word.line, "more than %d registers", MOST_REGISTERS);
        }
        n->first = *used;
        *used += n->count;
    } while (parse_accept(p, ","));
    parse_expect(p, ";");
}

static void initialise(parser *p, uint8_t *data, int64_t bytes, int element) {
    int64_t done = 0;
    bool list = parse_accept(p, "{");
    do {
        if (parse_at(p, "}")) {
            break;
        }
        if (parse_at(p, "{")) {
            parse_fail(p, parse_peek(p)->line, "nested initialisers are not modelled");
        }
        uint64_t value = (uint64_t)parse_take_integer(p);
        if (done + element > bytes) {
            parse_fail(p, parse_peek(p)->line, "more initial values than elements");
        }
        memcpy(data + done, &value, (size_t)element);
        done += element;
    } while (list && parse_accept(p, ","));
    if (list) {
        parse_expect(p, "}");
    }
}

static uint8_t *module_variable(parser *p, int64_t bytes, bool constant) {
    ptx_program *program = p->program;
    program->variables = realloc(program->variables, (size_t)(program->variable_count + 1) *
                                                         sizeof *program->variables);
    if (!program->variables) {
        abort();
    }
    uint8_t *data = ptx_program_alloc(program, (size_t)bytes + 1);
    program->variables[program->variable_count++] =
        (struct ptx_variable){data, (size_t)bytes, constant};
    return data;
}

// Reads `.align 8 .b8 name[16]`; leaves what follows the brackets.
static void declarator(parser *p, char text[PTX_NAME], int *element, int64_t *bytes, int *align,
                       bool *empty) {
    *align = 0;
    *element = 0;
    int vector = 1;
    while (parse_peek(p)->kind == PTX_WORD && parse_peek(p)->text[0] == '.') {
        ptx_token token = parse_take(p);
        if (ptx_token_is(&token, ".align")) {
            *align = (int)parse_take_integer(p);
        } else if (ptx_token_is(&token, ".v2") || ptx_token_is(&token, ".v4")) {
            vector = token.text[2] - '0';
        } else if (ptx_token_is(&token, ".ptr")) { // .param .u64 .ptr .global .align 16 name
            while (ptx_space_find(parse_peek(p)->text + 1, parse_peek(p)->length - 1) !=
                   PTX_GENERIC) {
                parse_take(p);
            }
            if (parse_accept(p, ".align")) {
                parse_take_integer(p);
            }
        } else if (*element || !ptx_type_find(token.text + 1, token.length - 1)) {
            parse_fail(p, token.line, "%.*s is not modelled here", (int)token.length, token.text);
        } else {
            *element = ptx_type_bytes[ptx_type_find(token.text + 1, token.length - 1)];
        }
    }
    *element *= vector;
    if (!*align) {
        *align = *element ? *element : 1;
    }
    parse_take_name(p, text);
    *bytes = *element;
    *empty = false;
    while (parse_accept(p, "[")) {
        if (parse_accept(p, "]")) {
            *empty = true;
            *bytes = 0;
        } else {
            int64_t elements = parse_take_integer(p);
            if (elements < 0 || elements > MOST_BYTES || *bytes > MOST_BYTES) {
                parse_fail(p, parse_peek(p)->line, "bad size of %s", text);
            }
            *bytes *= elements;
            parse_expect(p, "]");
        }
    }
    if (!*element || *align <= 0 || *bytes < 0 || *bytes > MOST_BYTES) {
        parse_fail(p, parse_peek(p)->line, "bad declaration of %s", text);
    }
}

static void declare_variable(parser *p, int space, bool constant, bool external) {
    char text[PTX_NAME];
    int element, align;
    int64_t bytes;
    bool empty;
    declarator(p, text, &element, &bytes, &align, &empty);
    name *n = parse_name_add(p, text, IS_ADDRESS);
    n->space = (uint8_t)space;
    n->bytes = (int32_t)bytes;
    if (space == PTX_GLOBAL) {
        if (external) {
            parse_fail(p, parse_peek(p)->line, "%s is external", text);
        }
        uint8_t *data = module_variable(p, bytes, constant);
        n->address = (int64_t)(uintptr_t)data;
        if (parse_accept(p, "=")) {
            initialise(p, data, bytes, element);
        }
    } else if (space == PTX_SHARED && empty) { // starts after the static part
        n->address = -1;
    } else if (space == PTX_SHARED) {
        n->address = place(p, &p->shared, bytes, align);
    } else {
        n->address = place(p, &p->local, bytes, align);
        n->space = PTX_LOCAL; // .param inside a function: arguments of calls
    }
    parse_expect(p, ";");
}

static void skip_statement(parser *p) {
    while (!parse_accept(p, ";")) {
        if (parse_peek(p)->kind == PTX_END) {
            parse_fail(p, parse_peek(p)->line, "; expected");
        }
        parse_take(p);
    }
}

static void skip_line(parser *p) {
    int line = parse_peek(p)->line;
    while (parse_peek(p)->line == line && parse_peek(p)->kind != PTX_END) {
        parse_take(p);
    }
}

// One directive; false: the token is none of them.
static bool take_directive(parser *p, bool external) {
    if (parse_accept(p, ".reg")) {
        declare_registers(p);
    } else if (parse_accept(p, ".shared")) {
        declare_variable(p, PTX_SHARED, false, external);
    } else if (parse_accept(p, ".local")) {
        declare_variable(p, PTX_LOCAL, false, false);
    } else if (p->function && parse_accept(p, ".param")) {
        declare_variable(p, PTX_LOCAL, false, false);
    } else if (parse_at(p, ".global") || parse_at(p, ".const")) {
        bool is_const = parse_at(p, ".const");
        parse_take(p);
        declare_variable(p, PTX_GLOBAL, is_const, external);
    } else if (parse_accept(p, ".pragma")) {
        skip_statement(p);
    } else if (parse_at(p, ".loc") || parse_at(p, ".file")) {
        skip_line(p);
    } else {
        return false;
    }
    return true;
}

static void take_body(parser *p) {
    int32_t marks[64], depth = 0;
    parse_expect(p, "{");
    marks[depth++] = p->name_count;
    while (depth) {
        ptx_token token = *parse_peek(p);
        if (token.kind == PTX_END) {
            parse_fail(p, token.line, "} expected");
        }
        if (parse_accept(p, "{")) {
            if (depth == 64) {
                parse_fail(p, token.line, "braces too deep");
            }
            marks[depth++] = p->name_count;
        } else if (parse_accept(p, "}")) {
            p->name_count = marks[--depth];
        } else if (parse_accept(p, ";") || take_directive(p, false)) {
            continue;
        } else {
            ptx_lexer before = p->lexer;
            parse_take(p);
            if (token.kind == PTX_WORD && parse_accept(p, ":")) {
                parse_label(p, &token);
            } else {
                p->lexer = before;
                parse_instruction(p);
            }
        }
    }
}

// Functions

static void take_parameter(parser *p, ptx_function *f, bool result) {
    parse_expect(p, ".param");
    char text[PTX_NAME];
    int element, align;
    int64_t bytes;
    bool empty;
    declarator(p, text, &element, &bytes, &align, &empty);
    name *n = parse_name_add(p, text, f->entry ? IS_PARAM : IS_ADDRESS);
    n->space = f->entry ? PTX_PARAM : PTX_LOCAL;
    n->bytes = (int32_t)bytes;
    n->address = place(p, f->entry ? &f->params : &p->local, bytes, align);
    if (result) {
        f->result.offset = (int32_t)n->address;
        f->result.bytes = (int32_t)bytes;
        return;
    }
    if (f->param_count == 64) {
        parse_fail(p, parse_peek(p)->line, "more than 64 parameters");
    }
    f->param[f->param_count].offset = (int32_t)n->address;
    f->param[f->param_count++].bytes = (int32_t)bytes;
}

static void take_attributes(parser *p, ptx_function *f) {
    while (parse_peek(p)->kind == PTX_WORD && parse_peek(p)->text[0] == '.') {
        ptx_token token = parse_take(p);
        if (ptx_token_is(&token, ".maxntid") || ptx_token_is(&token, ".reqntid")) {
            f->max_threads = 1;
            do {
                f->max_threads *= (int32_t)parse_take_integer(p);
            } while (parse_accept(p, ","));
        } else if (ptx_token_is(&token, ".minnctapersm")) {
            f->min_blocks = (int32_t)parse_take_integer(p);
        } else if (ptx_token_is(&token, ".maxnreg")) {
            parse_take_integer(p);
        } else if (!ptx_token_is(&token, ".noreturn")) {
            parse_fail(p, token.line, "%.*s is not modelled", (int)token.length, token.text);
        }
    }
}

static void take_function(parser *p, bool entry) {
    ptx_program *program = p->program;
    int32_t mark = p->name_count, registers = p->registers, predicates = p->predicates;
    int32_t local = p->local, shared = p->shared;
    ptx_function made = {.entry = entry, .first = -1};
    if (parse_accept(p, "(")) {
        take_parameter(p, &made, true);
        parse_expect(p, ")");
    }
    parse_take_name(p, made.name);
    if (parse_accept(p, "(")) {
        while (!parse_at(p, ")")) {
            take_parameter(p, &made, false);
            parse_accept(p, ",");
        }
        parse_expect(p, ")");
    }
    take_attributes(p, &made);
    if (parse_accept(p, ";")) { // declared only; a call before the body does not load
        p->name_count = mark;
        return;
    }
    program->functions = realloc(program->functions, (size_t)(program->function_count + 1) *
                                                         sizeof *program->functions);
    if (!program->functions) {
        abort();
    }
    made.first = program->count;
    program->functions[program->function_count] = made;
    p->function = &program->functions[program->function_count++];
    p->function_labels = p->label_count;
    take_body(p);
    ptx_insn *end = parse_insn_add(p); // falling off the end returns
    end->line = parse_peek(p)->line;
    end->text = "ret";
    ptx_decode_opcode(end, "ret", 3);
    ptx_decode_operands(end);
    program->count++;
    p->function->end = program->count;
    parse_resolve_labels(p);
    p->function->registers = p->registers;
    p->function->predicates = p->predicates;
    p->function->local = (int32_t)parse_align((uint64_t)p->local, 16);
    p->function->shared = p->shared;
    if (entry) { // a function's stay taken: kernels behind it may call it
        p->registers = registers;
        p->predicates = predicates;
        p->local = local;
        p->shared = shared;
    }
    p->function = NULL;
    p->name_count = mark;
}

// The module

static void take_target(parser *p) {
    ptx_token token = parse_take(p);
    if (token.length < 5 || memcmp(token.text, "sm_", 3) != 0) {
        parse_fail(p, token.line, "a target sm_XX expected");
    }
    p->program->target = atoi(token.text + 3);
    char last = token.text[token.length - 1];
    p->program->target_kind = last == 'a' || last == 'f' ? last : 0;
    while (parse_accept(p, ",")) {
        parse_take(p);
    }
}

static void take_version(parser *p) {
    ptx_token token = parse_take(p);
    char *rest;
    long major = strtol(token.text, &rest, 10);
    p->program->version = (int32_t)(major * 10 + (*rest == '.' ? atoi(rest + 1) : 0));
}

static void take_module(parser *p) {
    bool external = false;
    for (; parse_peek(p)->kind != PTX_END; external = false) {
        ptx_token token = *parse_peek(p);
        while (parse_at(p, ".visible") || parse_at(p, ".weak") || parse_at(p, ".extern")) {
            external |= parse_at(p, ".extern");
            parse_take(p);
        }
        if (parse_accept(p, ".version")) {
            take_version(p);
        } else if (parse_accept(p, ".target")) {
            take_target(p);
        } else if (parse_accept(p, ".address_size")) {
            if (parse_take_integer(p) != 64) {
                parse_fail(p, token.line, "64-bit addresses expected");
            }
        } else if (parse_at(p, ".section")) { // debug information, to its closing brace
            while (parse_peek(p)->kind != PTX_END && !parse_accept(p, "}")) {
                parse_take(p);
            }
        } else if (parse_accept(p, ".entry")) {
            take_function(p, true);
        } else if (parse_accept(p, ".func")) {
            take_function(p, false);
        } else if (!take_directive(p, external)) {
            parse_fail(p, token.line, "'%.*s' is not modelled here", (int)token.length, token.text);
        }
    }
    if (!p->program->version || !p->program->target) {
        parse_fail(p, 1, "no .version or no .target");
    }
}

ptx_program *ptx_parse(const char *text, char *error, size_t error_size) {
    parser *p = calloc(1, sizeof *p);
    ptx_program *volatile program = calloc(1, sizeof *program);
    if (!p || !program || !(program->text = strdup(text))) {
        abort();
    }
    p->program = program;
    p->error = error;
    p->error_size = error_size;
    p->registers = PTX_FIXED_SLOTS;
    if (!setjmp(p->fail)) {
        ptx_lexer_start(&p->lexer, program->text);
        take_module(p);
    } else {
        ptx_program_free(program);
        program = NULL;
    }
    free(p->names);
    free(p->labels);
    free(p);
    return program;
}
