// Instructions of PTX: guard, opcode, operands, calls, labels. What an opcode means is
// ptx_decode.c's.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ptx_parser.h"

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

// Operands

static ptx_value constant(parser *p, uint64_t value) {
    return (ptx_value){PTX_CONST, 64, false, ptx_program_constant(p->program, value)};
}

static int64_t name_address(parser *p, const name *n) {
    return n->address < 0 && n->space == PTX_SHARED ? (int64_t)parse_align((uint64_t)p->shared, 16)
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
    const name *n = parse_name_find(p, token->text, token->length, &index);
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
    bool negate = parse_accept(p, "!"), minus = !negate && parse_accept(p, "-");
    ptx_token token = parse_take(p);
    ptx_value value;
    if (minus) {
        uint64_t number;
        if (!ptx_token_number(&token, &number)) {
            parse_fail(p, token.line, "a number expected after -");
        }
        return constant(p, ptx_token_negated(&token, number));
    }
    if (!value_of_word(p, &token, &value)) {
        parse_fail(p, token.line, "unknown name %.*s", (int)token.length, token.text);
    }
    value.negate = negate;
    return value;
}

static void take_address(parser *p, ptx_operand *operand) {
    operand->is = PTX_IS_ADDRESS;
    operand->count = 1;
    operand->value[0].kind = PTX_NONE;
    ptx_token token = *parse_peek(p);
    int32_t index;
    const name *n = parse_name_find(p, token.text, token.length, &index);
    ptx_value value = take_value(p);
    if (value.kind == PTX_CONST) {
        operand->offset = (int64_t)p->program->constants[(size_t)value.slot * PTX_LANES];
        operand->space = n ? (n->is == IS_PARAM ? PTX_PARAM : n->space) : PTX_GENERIC;
    } else {
        operand->value[0] = value;
    }
    if (parse_accept(p, "+")) {
        operand->offset += parse_take_integer(p);
    } else if (parse_at(p, "-")) {
        operand->offset += parse_take_integer(p);
    }
    parse_expect(p, "]");
}

static void label_use(parser *p, const ptx_token *token, int32_t *where) {
    if (p->label_count == p->label_capacity) {
        p->labels = parse_grow(p->labels, &p->label_capacity, sizeof *p->labels);
    }
    label *l = &p->labels[p->label_count++];
    *l = (label){.at = -1, .insn = p->program->count, .line = token->line, .place = where};
    snprintf(l->text, sizeof l->text, "%.*s", (int)token->length, token->text);
}

static void take_operand(parser *p, ptx_insn *insn, ptx_operand *operand, bool target) {
    operand->second = -1;
    if (target) {
        ptx_token token = parse_take(p);
        int32_t index;
        const name *n = parse_name_find(p, token.text, token.length, &index);
        operand->is = PTX_IS_TARGET;
        if (n && n->is == IS_TABLE) {
            insn->table = (const int32_t *)(uintptr_t)n->address;
            insn->table_count = n->count;
        } else {
            label_use(p, &token, NULL);
        }
    } else if (parse_accept(p, "[")) {
        take_address(p, operand);
    } else if (parse_accept(p, "{")) {
        operand->is = PTX_IS_VECTOR;
        do {
            if (operand->count == PTX_VECTOR) {
                parse_fail(p, parse_peek(p)->line, "more than %d elements", PTX_VECTOR);
            }
            operand->value[operand->count++] = take_value(p);
        } while (parse_accept(p, ","));
        parse_expect(p, "}");
    } else {
        operand->is = PTX_IS_VALUE;
        operand->count = 1;
        operand->value[0] = take_value(p);
        if (parse_accept(p, "|")) {
            ptx_value second = take_value(p);
            if (second.kind == PTX_PRED) {
                operand->second = second.slot;
            } else if (second.kind != PTX_REG || second.slot != PTX_DISCARD) {
                parse_fail(p, parse_peek(p)->line, "a predicate expected after |");
            }
        }
    }
}

// Instructions

ptx_insn *parse_insn_add(parser *p) {
    ptx_program *program = p->program;
    if (program->count == program->capacity) {
        program->code = parse_grow(program->code, &program->capacity, sizeof *program->code);
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
    ptx_token token = parse_take(p);
    int32_t index;
    const name *n = parse_name_find(p, token.text, token.length, &index);
    if (!n || n->is != IS_ADDRESS || n->space != PTX_LOCAL || n->bytes != bytes) {
        parse_fail(p, token.line, "argument %.*s does not fit", (int)token.length, token.text);
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
    bool result = parse_accept(p, "(");
    if (result) {
        parse_take(p);
        parse_expect(p, ")");
        parse_expect(p, ",");
    }
    parse_take_name(p, text);
    const ptx_function *callee = function_find(p, text);
    if (!callee || callee->entry || callee->first < 0) {
        parse_fail(p, insn->line, "call of %s, which has no body before this: not modelled", text);
    }
    snprintf(call->name, sizeof call->name, "%s", text);
    insn->target = callee->first;
    ptx_lexer after = p->lexer;
    if (result) {
        p->lexer = before;
        parse_take(p);
        call->output[call->outputs++] =
            call_argument(p, callee->result.offset, callee->result.bytes, true);
        p->lexer = after;
    }
    if (parse_accept(p, ",") && parse_accept(p, "(")) {
        while (!parse_at(p, ")")) {
            if (call->inputs == callee->param_count || call->inputs == 16) {
                parse_fail(p, insn->line, "too many arguments");
            }
            call->input[call->inputs] = call_argument(p, callee->param[call->inputs].offset,
                                                      callee->param[call->inputs].bytes, false);
            call->inputs++;
            parse_accept(p, ",");
        }
        parse_expect(p, ")");
    }
    if (call->inputs != callee->param_count) {
        parse_fail(p, insn->line, "too few arguments");
    }
}

void parse_instruction(parser *p) {
    ptx_insn *insn = parse_insn_add(p);
    const char *start = parse_peek(p)->text;
    insn->line = parse_peek(p)->line;
    if (parse_accept(p, "@")) {
        ptx_value guard = take_value(p);
        if (guard.kind != PTX_PRED) {
            parse_fail(p, insn->line, "the guard is no predicate");
        }
        insn->guard = guard.slot;
        insn->guard_not = guard.negate;
    }
    ptx_token opcode = parse_take(p);
    const char *rest = opcode.text + opcode.length;
    const char *end = rest + strcspn(rest, ";");
    copy_text(p, insn, start, end);
    const char *wrong = opcode.kind == PTX_WORD
                            ? ptx_decode_opcode(insn, opcode.text, opcode.length)
                            : "an instruction expected";
    if (wrong) {
        parse_fail(p, insn->line, "%s: %s", wrong, insn->text);
    }
    if (insn->control == PTX_CALL) {
        take_call(p, insn);
    } else {
        bool branch = insn->control == PTX_BRANCH || insn->control == PTX_BRANCH_INDEXED;
        while (!parse_at(p, ";")) {
            if (insn->operands == PTX_OPERANDS) {
                parse_fail(p, insn->line, "too many operands: %s", insn->text);
            }
            int32_t which = insn->operands++;
            take_operand(p, insn, &insn->operand[which],
                         branch && which == (insn->control == PTX_BRANCH_INDEXED));
            if (!parse_accept(p, ",")) {
                break;
            }
        }
    }
    parse_expect(p, ";");
    if ((wrong = ptx_decode_operands(insn))) {
        parse_fail(p, insn->line, "%s: %s", wrong, insn->text);
    }
    p->program->count++;
}

static void take_branch_targets(parser *p, const char *text) {
    ptx_lexer start = p->lexer;
    int32_t count = 0;
    while (!parse_at(p, ";")) {
        parse_take(p);
        count += !parse_at(p, ",");
    }
    p->lexer = start;
    int32_t *table = ptx_program_alloc(p->program, (size_t)(count + 1) * sizeof *table);
    name *n = parse_name_add(p, text, IS_TABLE);
    n->address = (int64_t)(uintptr_t)table;
    for (n->count = 0; !parse_at(p, ";"); parse_accept(p, ",")) {
        ptx_token token = parse_take(p);
        label_use(p, &token, &table[n->count++]);
    }
    parse_expect(p, ";");
}

void parse_label(parser *p, const ptx_token *token) {
    if (parse_accept(p, ".branchtargets")) {
        char text[PTX_NAME];
        snprintf(text, sizeof text, "%.*s", (int)token->length, token->text);
        take_branch_targets(p, text);
        return;
    }
    label_use(p, token, NULL);
    p->labels[p->label_count - 1].at = p->program->count;
}

void parse_resolve_labels(parser *p) {
    for (int32_t i = p->function_labels; i < p->label_count; i++) {
        const label *use = &p->labels[i];
        int32_t found = use->at;
        for (int32_t j = p->function_labels; found < 0 && j < p->label_count; j++) {
            if (p->labels[j].at >= 0 && !strcmp(p->labels[j].text, use->text)) {
                found = p->labels[j].at;
            }
        }
        if (found < 0) {
            parse_fail(p, use->line, "no label %s", use->text);
        }
        if (use->at < 0 && use->place) {
            *use->place = found;
        } else if (use->at < 0) {
            p->program->code[use->insn].target = found;
        }
    }
    p->label_count = p->function_labels;
}
