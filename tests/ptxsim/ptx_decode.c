// Opcodes by table: ptx_isa.def says which modifiers and operands each takes, and what it does not
// list does not load. Knows nothing of how instructions run, only which function to ask.
#include "ptx_decode.h"

#include <stdio.h>
#include <string.h>

#include "ptx_program.h"
#include "ptx_select.h"

const uint8_t ptx_type_bytes[PTX_TYPE_COUNT] = {0,
#define X(name, bytes) bytes,
                                                PTX_TYPE_LIST(X)
#undef X
};
const char *const ptx_type_names[PTX_TYPE_COUNT] = {"",
#define X(name, bytes) #name,
                                                    PTX_TYPE_LIST(X)
#undef X
};
static const char *const word_names[PTX_WORD_COUNT] = {
#define X(word) #word,
    PTX_WORDS(X)
#undef X
};

static const ptx_row rows[] = {
#define OP(family, name, modifiers, types, operands)                                               \
    {name, modifiers, types, operands, ptx_select_##family, PTX_STEP, -1},
#define SYNC(family, name, modifiers, types, operands, mask)                                       \
    {name, modifiers, types, operands, ptx_select_##family, PTX_CONVERGE, mask},
#define CONTROL(family, name, modifiers, types, operands, control)                                 \
    {name, modifiers, types, operands, ptx_select_##family, control, -1},
#include "ptx_isa.def"
#undef OP
#undef SYNC
#undef CONTROL
};

static const struct {
    const char *name, *words;
} groups[] = {
    {"@round", "rn rz rm rp"},
    {"@integral", "rni rzi rmi rpi"},
    {"@space", "global shared local param const shared::cta shared::cluster param::entry "
               "param::func"},
    {"@cache", "ca cg cs lu cv wb wt nc"}, // and every L1:: and L2:: word
    {"@order", "weak relaxed acquire release acq_rel volatile sc mmio"},
    {"@scope", "cta cluster gpu sys"},
    {"@vector", "v2 v4 v8"},
    {"@cmp", "eq ne lt le gt ge equ neu ltu leu gtu geu num nan lo ls hi hs"},
    {"@bool", "and or xor"},
    {"@atomic", "add min max and or xor exch cas inc dec"},
};

static bool listed(const char *list, const char *word, size_t length) {
    while (*list) {
        size_t here = strcspn(list, " ");
        if (here == length && !memcmp(list, word, length)) {
            return true;
        }
        list += here + (list[here] == ' ');
    }
    return false;
}

static bool row_takes(const ptx_row *row, const char *word, size_t length) {
    if (listed(row->modifiers, word, length)) {
        return true;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (listed(row->modifiers, groups[i].name, strlen(groups[i].name))) {
            bool hint = length > 4 && (!memcmp(word, "L1::", 4) || !memcmp(word, "L2::", 4));
            if (listed(groups[i].words, word, length) ||
                (hint && !strcmp(groups[i].name, "@cache"))) {
                return true;
            }
        }
    }
    return false;
}

static const ptx_row *row_find(const char *opcode, size_t length) {
    const ptx_row *best = NULL;
    size_t best_length = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t name = strlen(rows[i].name);
        if (name <= length && name > best_length && !memcmp(opcode, rows[i].name, name) &&
            (name == length || opcode[name] == '.')) {
            best = &rows[i];
            best_length = name;
        }
    }
    return best;
}

int ptx_type_find(const char *word, size_t length) {
    for (int type = 1; type < PTX_TYPE_COUNT; type++) {
        if (strlen(ptx_type_names[type]) == length && !memcmp(ptx_type_names[type], word, length)) {
            return type;
        }
    }
    return PTX_NO_TYPE;
}

static bool is_word(const char *word, size_t length, const char *is) {
    return strlen(is) == length && !memcmp(word, is, length);
}

int ptx_space_find(const char *word, size_t length) {
    if (is_word(word, length, "global") || is_word(word, length, "const")) {
        return PTX_GLOBAL;
    }
    if (length >= 6 && !memcmp(word, "shared", 6)) {
        return PTX_SHARED;
    }
    if (length >= 5 && !memcmp(word, "param", 5)) {
        return PTX_PARAM;
    }
    return is_word(word, length, "local") ? PTX_LOCAL : PTX_GENERIC;
}

static void modifier_note(ptx_insn *insn, const char *word, size_t length) {
    if (is_word(word, length, "L2::cache_hint")) { // the one hint with an operand
        word += 4;
        length -= 4;
    }
    for (int i = 0; i < PTX_WORD_COUNT; i++) {
        if (is_word(word, length, word_names[i])) {
            insn->words.bits[i >> 6] |= UINT64_C(1) << (i & 63);
        }
    }
    int space = ptx_space_find(word, length);
    if (space != PTX_GENERIC) {
        insn->space = (uint8_t)space;
    }
}

const char *ptx_decode_opcode(ptx_insn *insn, const char *opcode, size_t length) {
    static _Thread_local char message[160];
    const ptx_row *row = row_find(opcode, length);
    if (!row) {
        return "unknown instruction";
    }
    insn->row = row;
    insn->control = row->control;
    insn->member_mask = row->member_mask;
    insn->vector = 1;
    const char *end = opcode + length, *at = opcode + strlen(row->name);
    while (at < end) {
        const char *word = ++at;
        while (at < end && *at != '.') {
            at++;
        }
        size_t word_length = (size_t)(at - word);
        int type = ptx_type_find(word, word_length);
        if (type && insn->types < row->types) {
            insn->type[insn->types++] = (uint8_t)type;
        } else if (row_takes(row, word, word_length)) {
            modifier_note(insn, word, word_length);
        } else {
            snprintf(message, sizeof message, "unknown modifier .%.*s of %s", (int)word_length,
                     word, row->name);
            return message;
        }
    }
    if (insn->types != row->types && !(row->types == 3 && insn->types == 2)) { // cvt.pack: 2 or 3
        return "missing type";
    }
    insn->ftz = HAS(insn, ftz);
    insn->sat = HAS(insn, sat);
    insn->vector = HAS(insn, v8) ? 8 : HAS(insn, v4) ? 4 : HAS(insn, v2) ? 2 : 1;
    insn->round = HAS(insn, rz)   ? PTX_W_rz
                  : HAS(insn, rm) ? PTX_W_rm
                  : HAS(insn, rp) ? PTX_W_rp
                                  : PTX_W_rn;
    return NULL;
}

static void note_read(ptx_insn *insn, const ptx_value *value) {
    if (value->kind == PTX_REG && value->slot >= PTX_FIXED_SLOTS && insn->read_count < PTX_READS) {
        insn->reads[insn->read_count++] = value->slot;
    } else if (value->kind == PTX_PRED && insn->pred_read_count < 3) {
        insn->pred_reads[insn->pred_read_count++] = value->slot;
    }
}

static bool note_write(ptx_insn *insn, const ptx_value *value) {
    if (value->kind == PTX_REG) {
        if (value->slot >= PTX_FIXED_SLOTS && insn->write_count < PTX_WRITES) {
            insn->writes[insn->write_count++] = value->slot;
        }
        return value->slot >= PTX_DISCARD;
    }
    if (value->kind == PTX_PRED && insn->pred_write_count < 2) {
        insn->pred_writes[insn->pred_write_count++] = value->slot;
    }
    return value->kind == PTX_PRED;
}

// Whether operand fits the letter of a pattern; notes what it reads and writes.
static bool operand_fits(ptx_insn *insn, ptx_operand *operand, char letter) {
    bool scalar = operand->is == PTX_IS_VALUE;
    uint8_t kind = operand->value[0].kind;
    if (letter == 'a') {
        if (operand->is == PTX_IS_ADDRESS) {
            note_read(insn, &operand->value[0]);
        }
        return operand->is == PTX_IS_ADDRESS;
    }
    if (letter == 't') {
        return operand->is == PTX_IS_TARGET;
    }
    bool vector = letter == 'v' || letter == 'V' || letter == 'w' || letter == 'W';
    if (!scalar && !(vector && operand->is == PTX_IS_VECTOR)) {
        return false;
    }
    bool writes = strchr("dpxvw", letter) != NULL;
    bool discard = kind == PTX_REG && operand->value[0].slot == PTX_DISCARD;
    if (kind == PTX_PRED ? !strchr("pqxywW", letter)
                         : (letter == 'q' && kind != PTX_CONST) || (letter == 'p' && !discard)) {
        return false;
    }
    if (operand->second >= 0) {
        if (!writes || insn->pred_write_count >= 2) {
            return false;
        }
        insn->pred_writes[insn->pred_write_count++] = operand->second;
    }
    for (int i = 0; i < operand->count; i++) {
        if (writes && !note_write(insn, &operand->value[i])) {
            return false;
        }
        if (!writes) {
            if (operand->value[i].kind == PTX_REG && operand->value[i].slot == PTX_DISCARD) {
                return false;
            }
            note_read(insn, &operand->value[i]);
        }
    }
    return true;
}

const char *ptx_decode_operands(ptx_insn *insn) {
    const char *pattern = insn->row->operands;
    bool optional = false;
    int at = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '?') {
            optional = true;
            continue;
        }
        if (at == insn->operands) {
            if (optional) {
                break;
            }
            return "too few operands";
        }
        if (!operand_fits(insn, &insn->operand[at++], *pattern)) {
            return "an operand of the wrong kind";
        }
    }
    if (at < insn->operands) {
        return "too many operands";
    }
    if (insn->guard >= 0 && insn->pred_read_count < 3) {
        insn->pred_reads[insn->pred_read_count++] = insn->guard;
    }
    insn->run = insn->row->select(insn);
    return insn->run ? NULL : "this combination of types, modifiers and operands is not modelled";
}
