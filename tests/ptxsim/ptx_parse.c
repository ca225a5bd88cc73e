// Reads PTX text: directives, declarations, labels and operands, into the form of ptx_program.h.
// Names are scoped by braces. What an opcode means is ptx_decode.c's; nothing here runs.
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_decode.h"
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

static const struct {
    const char *text;
    int slot, bits;
} special_names[] = {
    {"%tid.x", PTX_TID_X, 32},
    {"%tid.y", PTX_TID_Y, 32},
    {"%tid.z", PTX_TID_Z, 32},
    {"%ntid.x", PTX_NTID_X, 32},
    {"%ntid.y", PTX_NTID_Y, 32},
    {"%ntid.z", PTX_NTID_Z, 32},
    {"%ctaid.x", PTX_CTAID_X, 32},
    {"%ctaid.y", PTX_CTAID_Y, 32},
    {"%ctaid.z", PTX_CTAID_Z, 32},
    {"%nctaid.x", PTX_NCTAID_X, 32},
    {"%nctaid.y", PTX_NCTAID_Y, 32},
    {"%nctaid.z", PTX_NCTAID_Z, 32},
    {"%laneid", PTX_LANEID, 32},
    {"%warpid", PTX_WARPID, 32},
    {"%nwarpid", PTX_NWARPID, 32},
    {"%smid", PTX_SMID, 32},
    {"%nsmid", PTX_NSMID, 32},
    {"%gridid", PTX_GRIDID, 64},
    {"%lanemask_eq", PTX_LANEMASK_EQ, 32},
    {"%lanemask_lt", PTX_LANEMASK_LT, 32},
    {"%lanemask_le", PTX_LANEMASK_LE, 32},
    {"%lanemask_gt", PTX_LANEMASK_GT, 32},
    {"%lanemask_ge", PTX_LANEMASK_GE, 32},
    {"%clock", PTX_CLOCK, 32},
    {"%clock_hi", PTX_CLOCK_HI, 32},
    {"%clock64", PTX_CLOCK64, 64},
    {"%globaltimer", PTX_GLOBALTIMER, 64},
    {"%dynamic_smem_size", PTX_DYNAMIC_SMEM_SIZE, 32},
    {"%total_smem_size", PTX_TOTAL_SMEM_SIZE, 32},
    {"%cluster_nctarank", PTX_CLUSTER_ONE, 32},
    {"%cluster_nctaid.x", PTX_CLUSTER_ONE, 32},
    {"%cluster_ctarank", PTX_CLUSTER_ZERO, 32},
    {"%cluster_ctaid.x", PTX_CLUSTER_ZERO, 32},
    {"_", PTX_DISCARD, 64},
};

_Noreturn static void fail(parser *p, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(parser *p, int line, const char *format, ...) {
    int used = snprintf(p->error, p->error_size, "line %d: ", line);
    if (used > 0 && (size_t)used < p->error_size) {
        va_list list;
        va_start(list, format);
        vsnprintf(p->error + used, p->error_size - (size_t)used, format, list);
        va_end(list);
    }
    longjmp(p->fail, 1);
}

static void *grow(void *array, int32_t *capacity, size_t item) {
    *capacity = *capacity ? *capacity * 2 : 64;
    void *bigger = realloc(array, (size_t)*capacity * item);
    if (!bigger) {
        abort();
    }
    return bigger;
}

// Tokens

static ptx_token *peek(parser *p) { return &p->lexer.token; }

static ptx_token take(parser *p) {
    ptx_token token = p->lexer.token;
    ptx_lexer_next(&p->lexer);
    return token;
}

static bool at(parser *p, const char *text) { return ptx_token_is(peek(p), text); }

static bool accept(parser *p, const char *text) {
    bool is = at(p, text);
    if (is) {
        take(p);
    }
    return is;
}

static void expect(parser *p, const char *text) {
    if (!accept(p, text)) {
        fail(p, peek(p)->line, "%s expected before '%.*s'", text, (int)peek(p)->length,
             peek(p)->text);
    }
}

static void take_name(parser *p, char out[PTX_NAME]) {
    ptx_token token = take(p);
    if (token.kind != PTX_WORD || token.length >= PTX_NAME) {
        fail(p, token.line, "a name expected, not '%.*s'", (int)token.length, token.text);
    }
    memcpy(out, token.text, token.length);
    out[token.length] = '\0';
}

static int64_t take_integer(parser *p) {
    bool minus = accept(p, "-");
    ptx_token token = take(p);
    uint64_t value;
    if (!ptx_token_number(&token, &value)) {
        fail(p, token.line, "a number expected, not '%.*s'", (int)token.length, token.text);
    }
    return (int64_t)(minus ? 0 - value : value);
}

// Names

static name *name_add(parser *p, const char *text, uint8_t is) {
    if (p->name_count == p->name_capacity) {
        p->names = grow(p->names, &p->name_capacity, sizeof *p->names);
    }
    name *n = &p->names[p->name_count++];
    memset(n, 0, sizeof *n);
    snprintf(n->text, sizeof n->text, "%s", text);
    n->is = is;
    return n;
}

// The innermost name token means; *index: which register of a numbered run.
static const name *name_find(parser *p, const char *text, size_t length, int32_t *index) {
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

static uint64_t align_to(uint64_t value, uint64_t align) {
    return (value + align - 1) / align * align;
}

static int32_t place(int32_t *used, int64_t bytes, int align) {
    int64_t start = (int64_t)align_to((uint64_t)*used, (uint64_t)align);
    *used = (int32_t)(start + bytes);
    return (int32_t)start;
}

// Declarations

static void declare_registers(parser *p) {
    ptx_token type_word = take(p);
    int type = type_word.length ? ptx_type_find(type_word.text + 1, type_word.length - 1) : 0;
    if (!type) {
        fail(p, type_word.line, "register type %.*s is not modelled", (int)type_word.length,
             type_word.text);
    }
    do {
        char text[PTX_NAME];
        take_name(p, text);
        name *n = name_add(p, text, IS_REGISTER);
        n->bits = type == PTX_pred ? 1 : (uint8_t)(ptx_type_bytes[type] * 8);
        if (n->bits == 8) {
            n->bits = 16;
        }
        n->count = 1;
        if (accept(p, "<")) {
            n->count = (int32_t)take_integer(p);
            n->numbered = true;
            expect(p, ">");
        }
        int32_t *used = type == PTX_pred ? &p->predicates : &p->registers;
        n->first = *used;
        *used += n->count;
    } while (accept(p, ","));
    expect(p, ";");
}

static void initialise(parser *p, uint8_t *data, int64_t bytes, int element) {
    int64_t done = 0;
    bool list = accept(p, "{");
    do {
        if (at(p, "}")) {
            break;
        }
        if (at(p, "{")) {
            fail(p, peek(p)->line, "nested initialisers are not modelled");
        }
        uint64_t value = (uint64_t)take_integer(p);
        if (done + element > bytes) {
            fail(p, peek(p)->line, "more initial values than elements");
        }
        memcpy(data + done, &value, (size_t)element);
        done += element;
    } while (list && accept(p, ","));
    if (list) {
        expect(p, "}");
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
    while (peek(p)->kind == PTX_WORD && peek(p)->text[0] == '.') {
        ptx_token token = take(p);
        if (ptx_token_is(&token, ".align")) {
            *align = (int)take_integer(p);
        } else if (ptx_token_is(&token, ".v2") || ptx_token_is(&token, ".v4")) {
            vector = token.text[2] - '0';
        } else if (ptx_token_is(&token, ".ptr")) { // .param .u64 .ptr .global .align 16 name
            while (ptx_space_find(peek(p)->text + 1, peek(p)->length - 1) != PTX_GENERIC) {
                take(p);
            }
            if (accept(p, ".align")) {
                take_integer(p);
            }
        } else if (*element || !ptx_type_find(token.text + 1, token.length - 1)) {
            fail(p, token.line, "%.*s is not modelled here", (int)token.length, token.text);
        } else {
            *element = ptx_type_bytes[ptx_type_find(token.text + 1, token.length - 1)];
        }
    }
    *element *= vector;
    if (!*align) {
        *align = *element ? *element : 1;
    }
    take_name(p, text);
    *bytes = *element;
    *empty = false;
    while (accept(p, "[")) {
        if (accept(p, "]")) {
            *empty = true;
            *bytes = 0;
        } else {
            *bytes *= take_integer(p);
            expect(p, "]");
        }
    }
    if (!*element || *align <= 0 || *bytes < 0 || *bytes > 1 << 28) {
        fail(p, peek(p)->line, "bad declaration of %s", text);
    }
}

static void declare_variable(parser *p, int space, bool constant, bool external) {
    char text[PTX_NAME];
    int element, align;
    int64_t bytes;
    bool empty;
    declarator(p, text, &element, &bytes, &align, &empty);
    name *n = name_add(p, text, IS_ADDRESS);
    n->space = (uint8_t)space;
    n->bytes = (int32_t)bytes;
    if (space == PTX_GLOBAL) {
        if (external) {
            fail(p, peek(p)->line, "%s is external", text);
        }
        uint8_t *data = module_variable(p, bytes, constant);
        n->address = (int64_t)(uintptr_t)data;
        if (accept(p, "=")) {
            initialise(p, data, bytes, element);
        }
    } else if (space == PTX_SHARED && empty) { // starts after the static part
        n->address = -1;
    } else if (space == PTX_SHARED) {
        n->address = place(&p->shared, bytes, align);
    } else {
        n->address = place(&p->local, bytes, align);
        n->space = PTX_LOCAL; // .param inside a function: arguments of calls
    }
    expect(p, ";");
}

// Operands

static ptx_value constant(parser *p, uint64_t value) {
    return (ptx_value){PTX_CONST, 64, false, ptx_program_constant(p->program, value)};
}

static int64_t name_address(parser *p, const name *n) {
    return n->address < 0 && n->space == PTX_SHARED ? (int64_t)align_to((uint64_t)p->shared, 16)
                                                    : n->address;
}

static bool value_of_word(parser *p, const ptx_token *token, ptx_value *value) {
    for (size_t i = 0; i < sizeof special_names / sizeof *special_names; i++) {
        if (ptx_token_is(token, special_names[i].text)) {
            *value =
                (ptx_value){PTX_REG, (uint8_t)special_names[i].bits, false, special_names[i].slot};
            return true;
        }
    }
    uint64_t number;
    if (ptx_token_number(token, &number)) {
        *value = constant(p, number);
        return true;
    }
    if (ptx_token_is(token, "WARP_SZ")) {
        *value = constant(p, PTX_LANES);
        return true;
    }
    int32_t index;
    const name *n = name_find(p, token->text, token->length, &index);
    if (!n || n->is == IS_TABLE) {
        return false;
    }
    if (n->is == IS_REGISTER) {
        *value = (ptx_value){n->bits == 1 ? PTX_PRED : PTX_REG, n->bits, false, n->first + index};
    } else {
        *value = constant(p, (uint64_t)name_address(p, n));
    }
    return true;
}

static ptx_value take_value(parser *p) {
    bool negate = accept(p, "!"), minus = !negate && accept(p, "-");
    ptx_token token = take(p);
    ptx_value value;
    if (minus) {
        uint64_t number;
        if (!ptx_token_number(&token, &number)) {
            fail(p, token.line, "a number expected after -");
        }
        return constant(p, ptx_token_negated(&token, number));
    }
    if (!value_of_word(p, &token, &value)) {
        fail(p, token.line, "unknown name %.*s", (int)token.length, token.text);
    }
    value.negate = negate;
    return value;
}

static void take_address(parser *p, ptx_operand *operand) {
    operand->is = PTX_IS_ADDRESS;
    operand->count = 1;
    operand->value[0].kind = PTX_NONE;
    ptx_token token = *peek(p);
    int32_t index;
    const name *n = name_find(p, token.text, token.length, &index);
    ptx_value value = take_value(p);
    if (value.kind == PTX_CONST) {
        operand->offset = (int64_t)p->program->constants[(size_t)value.slot * PTX_LANES];
        operand->space = n ? (n->is == IS_PARAM ? PTX_PARAM : n->space) : PTX_GENERIC;
    } else {
        operand->value[0] = value;
    }
    if (accept(p, "+")) {
        operand->offset += take_integer(p);
    } else if (at(p, "-")) {
        operand->offset += take_integer(p);
    }
    expect(p, "]");
}

static void label_use(parser *p, const ptx_token *token, int32_t *where) {
    if (p->label_count == p->label_capacity) {
        p->labels = grow(p->labels, &p->label_capacity, sizeof *p->labels);
    }
    label *l = &p->labels[p->label_count++];
    *l = (label){.at = -1, .insn = p->program->count, .line = token->line, .place = where};
    snprintf(l->text, sizeof l->text, "%.*s", (int)token->length, token->text);
}

static void take_operand(parser *p, ptx_insn *insn, ptx_operand *operand, bool target) {
    operand->second = -1;
    if (target) {
        ptx_token token = take(p);
        int32_t index;
        const name *n = name_find(p, token.text, token.length, &index);
        operand->is = PTX_IS_TARGET;
        if (n && n->is == IS_TABLE) {
            insn->table = (const int32_t *)(uintptr_t)n->address;
            insn->table_count = n->count;
        } else {
            label_use(p, &token, NULL);
        }
    } else if (accept(p, "[")) {
        take_address(p, operand);
    } else if (accept(p, "{")) {
        operand->is = PTX_IS_VECTOR;
        do {
            if (operand->count == PTX_VECTOR) {
                fail(p, peek(p)->line, "more than %d elements", PTX_VECTOR);
            }
            operand->value[operand->count++] = take_value(p);
        } while (accept(p, ","));
        expect(p, "}");
    } else {
        operand->is = PTX_IS_VALUE;
        operand->count = 1;
        operand->value[0] = take_value(p);
        if (accept(p, "|")) {
            ptx_value second = take_value(p);
            if (second.kind == PTX_PRED) {
                operand->second = second.slot;
            } else if (second.kind != PTX_REG || second.slot != PTX_DISCARD) {
                fail(p, peek(p)->line, "a predicate expected after |");
            }
        }
    }
}

// Instructions

static ptx_insn *insn_add(parser *p) {
    ptx_program *program = p->program;
    if (program->count == program->capacity) {
        program->code = grow(program->code, &program->capacity, sizeof *program->code);
    }
    ptx_insn *insn = &program->code[program->count];
    memset(insn, 0, sizeof *insn);
    insn->guard = insn->target = -1;
    return insn;
}

static void copy_text(parser *p, ptx_insn *insn, const char *start, const char *end) {
    size_t length = (size_t)(end - start);
    char *text = ptx_program_alloc(p->program, length + 1);
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        bool blank = isspace((unsigned char)start[i]) != 0;
        if (!blank || (used && text[used - 1] != ' ')) {
            text[used++] = blank ? ' ' : start[i];
        }
    }
    insn->text = text;
}

static const ptx_function *function_find(parser *p, const char *text) {
    for (int32_t i = 0; i < p->program->function_count; i++) {
        if (!strcmp(p->program->functions[i].name, text)) {
            return &p->program->functions[i];
        }
    }
    return NULL;
}

// A variable named in a call's parentheses, copied to or from the callee's parameter.
static ptx_copy call_argument(parser *p, int32_t offset, int32_t bytes, bool result) {
    ptx_token token = take(p);
    int32_t index;
    const name *n = name_find(p, token.text, token.length, &index);
    if (!n || n->is != IS_ADDRESS || n->space != PTX_LOCAL || n->bytes != bytes) {
        fail(p, token.line, "argument %.*s does not fit", (int)token.length, token.text);
    }
    int32_t address = (int32_t)n->address;
    return result ? (ptx_copy){offset, address, bytes} : (ptx_copy){address, offset, bytes};
}

// `(result), callee, (argument, ...)`: each part in parentheses may be missing.
static void take_call(parser *p, ptx_insn *insn) {
    ptx_call *call = ptx_program_alloc(p->program, sizeof *call);
    insn->call = call;
    char text[PTX_NAME];
    ptx_lexer before = p->lexer;
    bool result = accept(p, "(");
    if (result) {
        take(p);
        expect(p, ")");
        expect(p, ",");
    }
    take_name(p, text);
    const ptx_function *callee = function_find(p, text);
    if (!callee || callee->entry || callee->first < 0) {
        fail(p, insn->line, "call of %s, which has no body before this: not modelled", text);
    }
    snprintf(call->name, sizeof call->name, "%s", text);
    insn->target = callee->first;
    ptx_lexer after = p->lexer;
    if (result) {
        p->lexer = before;
        take(p);
        call->output[call->outputs++] =
            call_argument(p, callee->result.offset, callee->result.bytes, true);
        p->lexer = after;
    }
    if (accept(p, ",") && accept(p, "(")) {
        while (!at(p, ")")) {
            if (call->inputs == callee->param_count || call->inputs == 16) {
                fail(p, insn->line, "too many arguments");
            }
            call->input[call->inputs] = call_argument(p, callee->param[call->inputs].offset,
                                                      callee->param[call->inputs].bytes, false);
            call->inputs++;
            accept(p, ",");
        }
        expect(p, ")");
    }
    if (call->inputs != callee->param_count) {
        fail(p, insn->line, "too few arguments");
    }
}

static void take_instruction(parser *p) {
    ptx_insn *insn = insn_add(p);
    const char *start = peek(p)->text;
    insn->line = peek(p)->line;
    if (accept(p, "@")) {
        ptx_value guard = take_value(p);
        if (guard.kind != PTX_PRED) {
            fail(p, insn->line, "the guard is no predicate");
        }
        insn->guard = guard.slot;
        insn->guard_not = guard.negate;
    }
    ptx_token opcode = take(p);
    const char *rest = opcode.text + opcode.length;
    const char *end = rest + strcspn(rest, ";");
    copy_text(p, insn, start, end);
    const char *wrong = opcode.kind == PTX_WORD
                            ? ptx_decode_opcode(insn, opcode.text, opcode.length)
                            : "an instruction expected";
    if (wrong) {
        fail(p, insn->line, "%s: %s", wrong, insn->text);
    }
    if (insn->control == PTX_CALL) {
        take_call(p, insn);
    } else {
        bool branch = insn->control == PTX_BRANCH || insn->control == PTX_BRANCH_INDEXED;
        while (!at(p, ";")) {
            if (insn->operands == PTX_OPERANDS) {
                fail(p, insn->line, "too many operands: %s", insn->text);
            }
            int32_t which = insn->operands++;
            take_operand(p, insn, &insn->operand[which],
                         branch && which == (insn->control == PTX_BRANCH_INDEXED));
            if (!accept(p, ",")) {
                break;
            }
        }
    }
    expect(p, ";");
    if ((wrong = ptx_decode_operands(insn))) {
        fail(p, insn->line, "%s: %s", wrong, insn->text);
    }
    p->program->count++;
}

static void take_branch_targets(parser *p, const char *text) {
    ptx_lexer start = p->lexer;
    int32_t count = 0;
    while (!at(p, ";")) {
        take(p);
        count += !at(p, ",");
    }
    p->lexer = start;
    int32_t *table = ptx_program_alloc(p->program, (size_t)(count + 1) * sizeof *table);
    name *n = name_add(p, text, IS_TABLE);
    n->address = (int64_t)(uintptr_t)table;
    for (n->count = 0; !at(p, ";"); accept(p, ",")) {
        ptx_token token = take(p);
        label_use(p, &token, &table[n->count++]);
    }
    expect(p, ";");
}

static void take_label(parser *p, const ptx_token *token) {
    if (accept(p, ".branchtargets")) {
        char text[PTX_NAME];
        snprintf(text, sizeof text, "%.*s", (int)token->length, token->text);
        take_branch_targets(p, text);
        return;
    }
    label_use(p, token, NULL);
    p->labels[p->label_count - 1].at = p->program->count;
}

static void resolve_labels(parser *p) {
    for (int32_t i = p->function_labels; i < p->label_count; i++) {
        const label *use = &p->labels[i];
        int32_t found = use->at;
        for (int32_t j = p->function_labels; found < 0 && j < p->label_count; j++) {
            if (p->labels[j].at >= 0 && !strcmp(p->labels[j].text, use->text)) {
                found = p->labels[j].at;
            }
        }
        if (found < 0) {
            fail(p, use->line, "no label %s", use->text);
        }
        if (use->at < 0 && use->place) {
            *use->place = found;
        } else if (use->at < 0) {
            p->program->code[use->insn].target = found;
        }
    }
    p->label_count = p->function_labels;
}

static void skip_statement(parser *p) {
    while (!accept(p, ";")) {
        if (peek(p)->kind == PTX_END) {
            fail(p, peek(p)->line, "; expected");
        }
        take(p);
    }
}

static void skip_line(parser *p) {
    int line = peek(p)->line;
    while (peek(p)->line == line && peek(p)->kind != PTX_END) {
        take(p);
    }
}

// One directive; false: the token is none of them.
static bool take_directive(parser *p, bool external) {
    if (accept(p, ".reg")) {
        declare_registers(p);
    } else if (accept(p, ".shared")) {
        declare_variable(p, PTX_SHARED, false, external);
    } else if (accept(p, ".local")) {
        declare_variable(p, PTX_LOCAL, false, false);
    } else if (p->function && accept(p, ".param")) {
        declare_variable(p, PTX_LOCAL, false, false);
    } else if (at(p, ".global") || at(p, ".const")) {
        bool is_const = at(p, ".const");
        take(p);
        declare_variable(p, PTX_GLOBAL, is_const, false);
    } else if (accept(p, ".pragma")) {
        skip_statement(p);
    } else if (at(p, ".loc") || at(p, ".file")) {
        skip_line(p);
    } else {
        return false;
    }
    return true;
}

static void take_body(parser *p) {
    int32_t marks[64], depth = 0;
    expect(p, "{");
    marks[depth++] = p->name_count;
    while (depth) {
        ptx_token token = *peek(p);
        if (token.kind == PTX_END) {
            fail(p, token.line, "} expected");
        }
        if (accept(p, "{")) {
            if (depth == 64) {
                fail(p, token.line, "braces too deep");
            }
            marks[depth++] = p->name_count;
        } else if (accept(p, "}")) {
            p->name_count = marks[--depth];
        } else if (accept(p, ";") || take_directive(p, false)) {
            continue;
        } else {
            ptx_lexer before = p->lexer;
            take(p);
            if (token.kind == PTX_WORD && accept(p, ":")) {
                take_label(p, &token);
            } else {
                p->lexer = before;
                take_instruction(p);
            }
        }
    }
}

// Functions

static void take_parameter(parser *p, ptx_function *f, bool result) {
    expect(p, ".param");
    char text[PTX_NAME];
    int element, align;
    int64_t bytes;
    bool empty;
    declarator(p, text, &element, &bytes, &align, &empty);
    name *n = name_add(p, text, f->entry ? IS_PARAM : IS_ADDRESS);
    n->space = f->entry ? PTX_PARAM : PTX_LOCAL;
    n->bytes = (int32_t)bytes;
    n->address = place(f->entry ? &f->params : &p->local, bytes, align);
    if (result) {
        f->result.offset = (int32_t)n->address;
        f->result.bytes = (int32_t)bytes;
        return;
    }
    if (f->param_count == 64) {
        fail(p, peek(p)->line, "more than 64 parameters");
    }
    f->param[f->param_count].offset = (int32_t)n->address;
    f->param[f->param_count++].bytes = (int32_t)bytes;
}

static void take_attributes(parser *p, ptx_function *f) {
    while (peek(p)->kind == PTX_WORD && peek(p)->text[0] == '.') {
        ptx_token token = take(p);
        if (ptx_token_is(&token, ".maxntid") || ptx_token_is(&token, ".reqntid")) {
            f->max_threads = 1;
            do {
                f->max_threads *= (int32_t)take_integer(p);
            } while (accept(p, ","));
        } else if (ptx_token_is(&token, ".minnctapersm")) {
            f->min_blocks = (int32_t)take_integer(p);
        } else if (ptx_token_is(&token, ".maxnreg")) {
            take_integer(p);
        } else if (!ptx_token_is(&token, ".noreturn")) {
            fail(p, token.line, "%.*s is not modelled", (int)token.length, token.text);
        }
    }
}

static void take_function(parser *p, bool entry) {
    ptx_program *program = p->program;
    int32_t mark = p->name_count, registers = p->registers, predicates = p->predicates;
    int32_t local = p->local, shared = p->shared;
    ptx_function made = {.entry = entry, .first = -1};
    if (accept(p, "(")) {
        take_parameter(p, &made, true);
        expect(p, ")");
    }
    take_name(p, made.name);
    if (accept(p, "(")) {
        while (!at(p, ")")) {
            take_parameter(p, &made, false);
            accept(p, ",");
        }
        expect(p, ")");
    }
    take_attributes(p, &made);
    if (accept(p, ";")) { // declared only; a call before the body does not load
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
    ptx_insn *end = insn_add(p); // falling off the end returns
    end->line = peek(p)->line;
    end->text = "ret";
    ptx_decode_opcode(end, "ret", 3);
    ptx_decode_operands(end);
    program->count++;
    p->function->end = program->count;
    resolve_labels(p);
    p->function->registers = p->registers;
    p->function->predicates = p->predicates;
    p->function->local = (int32_t)align_to((uint64_t)p->local, 16);
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
    ptx_token token = take(p);
    if (token.length < 5 || memcmp(token.text, "sm_", 3) != 0) {
        fail(p, token.line, "a target sm_XX expected");
    }
    p->program->target = atoi(token.text + 3);
    char last = token.text[token.length - 1];
    p->program->target_kind = last == 'a' || last == 'f' ? last : 0;
    while (accept(p, ",")) {
        take(p);
    }
}

static void take_version(parser *p) {
    ptx_token token = take(p);
    char *rest;
    long major = strtol(token.text, &rest, 10);
    p->program->version = (int32_t)(major * 10 + (*rest == '.' ? atoi(rest + 1) : 0));
}

static void take_module(parser *p) {
    bool external = false;
    for (; peek(p)->kind != PTX_END; external = false) {
        ptx_token token = *peek(p);
        while (at(p, ".visible") || at(p, ".weak") || at(p, ".extern")) {
            external |= at(p, ".extern");
            take(p);
        }
        if (accept(p, ".version")) {
            take_version(p);
        } else if (accept(p, ".target")) {
            take_target(p);
        } else if (accept(p, ".address_size")) {
            if (take_integer(p) != 64) {
                fail(p, token.line, "64-bit addresses expected");
            }
        } else if (at(p, ".section")) { // debug information, to its closing brace
            while (peek(p)->kind != PTX_END && !accept(p, "}")) {
                take(p);
            }
        } else if (accept(p, ".entry")) {
            take_function(p, true);
        } else if (accept(p, ".func")) {
            take_function(p, false);
        } else if (!take_directive(p, external)) {
            fail(p, token.line, "'%.*s' is not modelled here", (int)token.length, token.text);
        }
    }
    if (!p->program->version || !p->program->target) {
        fail(p, 1, "no .version or no .target");
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
