// Shared by emit.c (what goes where, what stays, under which names) and edit.c (the text of it);
// nobody else includes it.
#ifndef TFR_EMIT_PLAN_H
#define TFR_EMIT_PLAN_H

#include "rewriter/emit.h"

typedef struct tfr_home {
    uint32_t ast, match, root;
} tfr_home;

// What the plan knows of one syntax node of the function.
typedef struct tfr_plan_mark {
    bool home, leaf;    // of some match
    uint32_t statement; // that this node is; 0: none
} tfr_plan_mark;

// How the results of one match reach the code that uses them.
typedef struct tfr_output {
    bool insert; // a statement of its own, before `statement`
    uint32_t statement;
    int only_root;  // in place, one of several results: `call(...)[only_root]`; -1: all
    uint32_t whole; // in place of this list of all results, which names unpack; 0: none
    tfr_str names[TFR_MAX_ROOTS];
} tfr_output;

typedef struct tfr_plan {
    tfr_flow *flow;
    const tfr_tree *tree;
    const tfr_match *matches;
    const tfr_place *places;
    uint32_t count;
    tfr_str alias;
    tfr_arena *arena;
    TFR_LIST(tfr_home) homes; // by position, outer before inner
    tfr_plan_mark *marks;     // by syntax node, from that of the function on
    uint32_t first_ast, end_ast;
    bool *removed;           // by statement
    bool *live;              // by version
    uint32_t *first_version; // by statement: the first version bound in it; 0: none
    uint32_t *next_version;  // by version: the next one bound in the same statement
    tfr_output *outputs;     // by match
    tfr_misfit misfit;       // reason NULL: none
} tfr_plan;

// emit.c
bool tfr_plan_fail(tfr_plan *p, uint32_t match, uint32_t ast, const char *reason);
bool tfr_plan_is_leaf(const tfr_plan *p, uint32_t ast); // of any match
bool tfr_plan_in_leaf_of(const tfr_plan *p, uint32_t match, uint32_t ast);
static inline const tfr_node *tfr_plan_node(const tfr_plan *p, uint32_t ast) {
    return &p->tree->nodes[ast];
}
static inline tfr_str tfr_plan_text(const tfr_plan *p, tfr_name name) {
    return tfr_names_text(p->flow->module->names, name);
}

// edit.c: appends the edits of a finished plan; false: p->reason says why they cannot be made.
bool tfr_plan_edit(tfr_plan *p, tfr_edits *edits);

#endif
