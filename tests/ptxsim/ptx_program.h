// A PTX program in the form the interpreter runs, and the errors of reading it. Knows no driver.
#ifndef PTXSIM_PTX_PROGRAM_H
#define PTXSIM_PTX_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx_words.h"

enum { PTX_LANES = 32, PTX_OPERANDS = 6, PTX_VECTOR = 8, PTX_TYPES = 4, PTX_NAME = 192 };

typedef struct ptx_warp ptx_warp;
typedef struct ptx_insn ptx_insn;
// Runs one instruction for the lanes of mask, which is never 0.
typedef void (*ptx_handler)(ptx_warp *warp, const ptx_insn *insn, uint32_t mask);

// Slots every function's register file starts with: special registers, then one that `_` names.
// The order is that of special_names in ptx_operands.c.
enum {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_NTID_X,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_LANEID,
    PTX_WARPID,
    PTX_NWARPID,
    PTX_SMID,
    PTX_NSMID,
    PTX_GRIDID,
    PTX_LANEMASK_EQ,
    PTX_LANEMASK_LT,
    PTX_LANEMASK_LE,
    PTX_LANEMASK_GT,
    PTX_LANEMASK_GE,
    PTX_CLOCK, // counts executed instructions of the warp, not time
    PTX_CLOCK_HI,
    PTX_CLOCK64,
    PTX_GLOBALTIMER,
    PTX_DYNAMIC_SMEM_SIZE,
    PTX_TOTAL_SMEM_SIZE,
    PTX_CLUSTER_ONE,  // extents of the one-block clusters that are modelled
    PTX_CLUSTER_ZERO, // ranks in them
    PTX_DISCARD,
    PTX_FIXED_SLOTS
};

// PTX_REG and PTX_CONST index ptx_warp.bases.
enum { PTX_REG, PTX_CONST, PTX_PRED, PTX_NONE };

typedef struct ptx_value {
    uint8_t kind;
    uint8_t bits; // of the register: 16, 32, 64; predicates 1
    bool negate;  // !%p
    int32_t slot; // register, predicate or constant
} ptx_value;

enum { PTX_IS_NOTHING, PTX_IS_VALUE, PTX_IS_VECTOR, PTX_IS_ADDRESS, PTX_IS_TARGET };

typedef struct ptx_operand {
    uint8_t is;
    uint8_t count;  // values of a vector, 1 otherwise
    uint8_t space;  // address of a variable: where the variable lives
    int32_t second; // predicate after |, or -1
    int64_t offset; // address: added to the value, or alone where value[0] is PTX_NONE
    ptx_value value[PTX_VECTOR];
} ptx_operand;

enum {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM, // of the kernel; a function's are PTX_LOCAL
    PTX_SPACES
};

// What the warp's scheduler must do besides calling the handler.
enum {
    PTX_STEP,
    PTX_BRANCH,
    PTX_BRANCH_INDEXED,
    PTX_CALL,
    PTX_RETURN,
    PTX_EXIT,
    PTX_BARRIER, // of the block
    PTX_CONVERGE // waits for the lanes of a member mask
};

enum { PTX_READS = 20, PTX_WRITES = 10 };

typedef struct ptx_call ptx_call;
typedef struct ptx_row ptx_row;

struct ptx_insn {
    ptx_handler run;
    const ptx_row *row;
    ptx_words words; // its modifiers
    uint8_t control;
    uint8_t type[PTX_TYPES], types;
    uint8_t space, vector; // vector: elements a lane moves
    uint8_t round, compare, operation;
    bool ftz, sat, guard_not;
    int8_t member_mask; // operand that holds it, or -1: every live lane
    uint8_t operands;
    int32_t guard;  // predicate, or -1
    int32_t target; // of a branch
    int32_t line;
    uint32_t read_count, write_count, pred_read_count, pred_write_count;
    int32_t reads[PTX_READS], writes[PTX_WRITES], pred_reads[3], pred_writes[2];
    ptx_operand operand[PTX_OPERANDS];
    const ptx_call *call; // of a call
    const int32_t *table; // of brx.idx
    int32_t table_count;
    const char *text;         // as written, one line
    uint64_t executed, lanes; // in the last launch
    uint32_t *found;          // finding of each kind + 1, or 0; see ptx_check.h
};

// One copy of `bytes` between two places of a lane's local memory.
typedef struct ptx_copy {
    int32_t from, to, bytes;
} ptx_copy;

struct ptx_call {
    char name[PTX_NAME];
    int32_t inputs, outputs;
    ptx_copy input[16], output[1]; // arguments before the call, the result after it
};

typedef struct ptx_function {
    char name[PTX_NAME];
    bool entry;
    int32_t first, end;            // instructions
    int32_t params;                // bytes of the kernel's parameters
    int32_t registers, predicates; // slots it and what it calls need
    int32_t shared, local;         // bytes
    int32_t max_threads, min_blocks;
    int32_t param_count;
    struct {
        int32_t offset, bytes; // kernel: in the parameter buffer; function: in local memory
    } param[64], result;
} ptx_function;

typedef struct ptx_program {
    char *text;       // owned copy; instruction texts are separate
    int32_t version;  // 90 for .version 9.0
    int32_t target;   // 90 for sm_90
    char target_kind; // 'a', 'f' or 0
    ptx_insn *code;
    int32_t count, capacity;
    ptx_function *functions;
    int32_t function_count;
    uint64_t *constants; // PTX_LANES copies of each
    int32_t constant_count, constant_capacity;
    struct ptx_block {
        struct ptx_block *next;
        size_t bytes;
    } * blocks; // texts, tables and module variables
    struct ptx_variable {
        uint8_t *data;
        size_t bytes;
        bool constant;
    } * variables;
    int32_t variable_count;
} ptx_program;

// Reads PTX text. NULL if it does not parse or uses what is not modelled: error says where and why.
ptx_program *ptx_parse(const char *text, char *error, size_t error_size);
void ptx_program_free(ptx_program *program);
// Memory that lives as long as the program, zeroed.
void *ptx_program_alloc(ptx_program *program, size_t bytes);
const ptx_function *ptx_program_find(const ptx_program *program, const char *name);
// The slot of a constant that all lanes read.
int32_t ptx_program_constant(ptx_program *program, uint64_t value);

// One opcode of ptx_isa.def.
struct ptx_row {
    const char *name;
    const char *modifiers;                 // words and @groups it takes
    uint8_t types;                         // how many type words
    const char *operands;                  // pattern, see ptx_decode.c
    ptx_handler (*select)(ptx_insn *insn); // NULL result: the combination is not modelled
    uint8_t control;
    int8_t member_mask;
};
// Splits a dotted opcode into row, types and modifiers. NULL, or what is wrong (static text or
// buffer).
const char *ptx_decode_opcode(ptx_insn *insn, const char *opcode, size_t length);
// After the operands are there: checks them against the row and picks the handler.
const char *ptx_decode_operands(ptx_insn *insn);

#endif
