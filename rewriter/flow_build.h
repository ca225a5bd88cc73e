// Shared by the files that build a tfr_flow (function.c: the frame of a function, flow.c:
// statements, lower.c: expressions, calls.c: calls, modules.c: submodules); nobody else includes
// it.
#ifndef TFR_FLOW_BUILD_H
#define TFR_FLOW_BUILD_H

#include "rewriter/flow.h"

static inline bool tfr_ends_with(tfr_str text, const char *tail) {
    size_t n = strlen(tail);
    return text.len >= n && memcmp(text.data + text.len - n, tail, n) == 0;
}

#define TFR_MAX_INLINE_DEPTH 5
#define TFR_MAX_NODES 60000u // of one function; beyond, the function is unfit

// The local names of a function, numbered in order of first binding.
typedef struct tfr_locals {
    tfr_name *names;
    uint32_t count, cap;
    uint32_t *slots, slot_count; // a hash table of numbers + 1
} tfr_locals;

typedef struct tfr_env {
    uint32_t *versions; // by local number: the current version; 0: unbound
    uint32_t count;
} tfr_env;

// A function being lowered: the outer one, or a helper that is seen through.
typedef struct tfr_frame {
    struct tfr_frame *caller;
    const tfr_module *module;
    uint32_t function;    // index in the module's scope
    uint32_t class_index; // of self
    tfr_value self;
    uint32_t depth;
    tfr_locals locals;
    tfr_env env;
} tfr_frame;

typedef struct tfr_builder {
    tfr_flow *flow;
    tfr_arena *arena;
    tfr_frame *frame;
    uint32_t block, statement, seq;
    uint32_t call_ast; // text of the outermost call being seen through; 0: none
    bool walrus;
    uint32_t unique_events, unique_count; // numbers tfr_build_unique
    uint32_t borders;                     // of regions so far
} tfr_builder;

// How a suite ends.
typedef struct tfr_suite_end {
    bool falls;          // control may reach what follows
    bool exits;          // some path leaves the function, or the loop
    bool partial;        // the value returned is not one expression of conditions
    tfr_value value;     // returned by every path that returns
    tfr_value condition; // falls and value: value is returned when this is `when_true`
    bool when_true;
} tfr_suite_end;

// flow.c
tfr_suite_end tfr_build_suite(tfr_builder *b, uint32_t first_statement);
typedef enum tfr_way { // how control gets into a block
    TFR_WAY_START,
    TFR_WAY_TRUE,
    TFR_WAY_FALSE,
    TFR_WAY_LOOP,
    TFR_WAY_LOOP_ELSE,
    TFR_WAY_AFTER_EXIT, // what follows a conditional return, raise, break or assert
    TFR_WAY_SHORT_CIRCUIT,
    TFR_WAY_WITH,
    TFR_WAY_PART, // and above: the parts of a try or match, in order
} tfr_way;
uint32_t tfr_build_block(tfr_builder *b, uint32_t parent, uint32_t condition, uint32_t way);
// What runs when `test`, whose text is at `ast`, holds (TFR_WAY_TRUE) or not, or another way.
uint32_t tfr_build_branch(tfr_builder *b, uint32_t parent, tfr_value test, uint32_t ast,
                          uint32_t way);
void tfr_build_event(tfr_builder *b, tfr_event_kind kind, uint32_t ast, tfr_value value);
void tfr_build_unfit(tfr_builder *b, uint32_t ast, const char *why);
uint32_t tfr_build_lookup(const tfr_builder *b, tfr_name name); // version; 0: not local
uint32_t tfr_build_bind(tfr_builder *b, tfr_name name, tfr_value value, uint32_t target);
// Names that versions from `first` on bound in this frame, by `:=`, may hold what they held before.
void tfr_build_maybe_bound(tfr_builder *b, uint32_t first, tfr_value condition);
void tfr_build_assign(tfr_builder *b, uint32_t target, tfr_value value, uint32_t value_ast);
// Binds parameters to arguments and lowers the body; the value returned, or 0.
bool tfr_build_bind_arguments(tfr_builder *b, tfr_frame *frame, uint32_t parameters,
                              const tfr_arg *positional, uint32_t positional_count,
                              const tfr_name *keywords, const tfr_arg *keyword_values,
                              uint32_t keyword_count, bool skip_self);

// lower.c
tfr_arg tfr_build_operand(tfr_builder *b, uint32_t ast);
tfr_value tfr_build_expr(tfr_builder *b, uint32_t ast);
tfr_value tfr_build_node(tfr_builder *b, tfr_op op, tfr_name name, const tfr_arg *args,
                         uint32_t count, uint32_t ast);
tfr_value tfr_build_const(tfr_builder *b, tfr_name name, tfr_type type, uint32_t ast);
typedef struct tfr_ways {
    uint32_t start, middle; // seq where a branch's ways begin, and where the second one does
    uint32_t blocks[2];
} tfr_ways;
// What is `yes` or `no` where the ways of a branch join, which is now.
tfr_value tfr_build_join(tfr_builder *b, tfr_value condition, tfr_value yes, tfr_value no,
                         tfr_ways ways);
tfr_value tfr_build_unique(tfr_builder *b, tfr_name name, const tfr_arg *args, uint32_t count,
                           uint32_t ast); // opaque, equal to nothing else
// What a name holds where a loop, try, with, match or one-sided branch begins or ends.
// `border`: the number of the branch's condition, or one of these.
#define TFR_BORDER_ENTER UINT32_MAX
#define TFR_BORDER_LEAVE (UINT32_MAX - 1)
tfr_value tfr_build_border_value(tfr_builder *b, tfr_name name, uint32_t border);
// A tuple or list display whose elements are still those written there.
bool tfr_build_is_display(const tfr_builder *b, tfr_value value);
// Whether a test says the same always: a parameter of a helper that got a literal, or its default.
bool tfr_build_decided(const tfr_builder *b, tfr_value test, bool *truth);
tfr_value tfr_build_item(tfr_builder *b, tfr_value tuple, uint32_t index, uint32_t ast);
// What target `index` of `count` gets in `a, *b, c = tuple`, with the one star among them.
tfr_value tfr_build_star_item(tfr_builder *b, tfr_value tuple, uint32_t index, uint32_t count,
                              bool star, bool after);
void tfr_build_capture(tfr_builder *b, uint32_t ast); // names read by a closure

// function.c: what a generator reads later, all but what its first `for` goes over, evaluated at
// once
void tfr_build_capture_generator(tfr_builder *b, uint32_t ast);
// function.c: a function that a call may be seen through to: plain parameters, branches at most
bool tfr_build_is_simple(const tfr_tree *t, uint32_t function);

// calls.c
tfr_value tfr_build_call(tfr_builder *b, uint32_t ast);
tfr_value tfr_build_aten(tfr_builder *b, tfr_name op, const tfr_arg *args, uint32_t count,
                         const tfr_name *keywords, const tfr_arg *keyword_values,
                         uint32_t keyword_count, char place, uint32_t ast); // 0: not in canon.py

// modules.c: whether `super().forward(...)` in a class is that of a torch module without effect.
bool tfr_module_super_is_pure(tfr_module *module, uint32_t class_index);

// canon.c
typedef struct tfr_canon_row {
    tfr_name name;
    uint32_t function; // in the table's scope
    bool method, torch, functional, linalg;
    bool alias;   // its body is another spelling
    uint8_t type; // of the result
} tfr_canon_row;
const tfr_canon_row *tfr_canon_find(const tfr_canon *canon, tfr_name name);
const tfr_module *tfr_canon_module(const tfr_canon *canon);

#endif
