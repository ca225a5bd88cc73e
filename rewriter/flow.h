// The dataflow graph of one function: values in SSA form, the versions of its local names with
// their reads, its statements and blocks, and its effects in order. Knows Python's evaluation
// order and torch's pure functions (canon.py); knows no rule and no kernel.
#ifndef TFR_FLOW_H
#define TFR_FLOW_H

#include "parser/scope.h"

// Numbers of the names in words.def, the same in every table that stands on the rules' table.
typedef struct tfr_words {
#define WORD(suffix, text) tfr_name suffix;
#include "rewriter/words.def"
#undef WORD
} tfr_words;

typedef struct tfr_canon tfr_canon;

tfr_status tfr_canon_new(tfr_canon **out, tfr_names *names, tfr_arena *arena, tfr_error *err);
const tfr_words *tfr_canon_words(const tfr_canon *canon);

typedef enum tfr_op {
    TFR_V_NONE,
    TFR_V_PARAM,   // name
    TFR_V_CONST,   // name: the literal, numbers by value ("2" for 2 and 2.0)
    TFR_V_GLOBAL,  // name: dotted path ("torch.float32"), or the plain name of a module variable
    TFR_V_ATTR,    // (object) name
    TFR_V_ATEN,    // name: aten op; arguments by the order of canon.py
    TFR_V_CALL,    // (callee, arguments...)
    TFR_V_MODULE,  // (self.x, arguments...): the call of a pure submodule
    TFR_V_KEYWORD, // (value) name: a keyword argument
    TFR_V_TUPLE,   // tuple or list display
    TFR_V_INDEX,   // (object, key)
    TFR_V_SLICE,   // (start, stop, step)
    TFR_V_ITEM,    // (tuple) number: one of several results
    TFR_V_PHI,     // (condition, if true, if false)
    TFR_V_COMPARE, // (a, b) name: "<", "in", ...
    TFR_V_BOOL,    // (a, b) name: "and", "or"
    TFR_V_NOT,     // (a)
    TFR_V_OPAQUE,  // anything else
} tfr_op;

typedef enum tfr_type {
    TFR_T_UNKNOWN,
    TFR_T_TENSOR,
    TFR_T_NUMBER, // int, float, bool
    TFR_T_TUPLE,  // tuple, list, torch.Size
    TFR_T_OTHER,  // str, None, dtype, module: no tensor
} tfr_type;

// What an attribute of self is, as far as __init__ proves it.
typedef enum tfr_module_kind {
    TFR_M_UNKNOWN,
    TFR_M_LINEAR,     // exactly torch.nn.Linear
    TFR_M_LAYER_NORM, // exactly torch.nn.LayerNorm
    TFR_M_ACT,        // an activation without in-place effect
    TFR_M_CLASS,      // a class of this file, or of one that it imports from
    TFR_M_PURE,       // another torch.nn module without effect
    TFR_M_RANDOM,     // dropout: reads no memory that others write, but draws random numbers
    TFR_M_PARAM,      // a parameter or buffer
} tfr_module_kind;

typedef uint32_t tfr_value; // index of a node; 0: none

typedef struct tfr_arg {
    tfr_value value;
    uint32_t ast; // where the outer function's text gives this operand; 0: nowhere
} tfr_arg;

typedef struct tfr_vnode {
    uint8_t op, type, module; // tfr_op, tfr_type, tfr_module_kind
    bool in_call;             // made while a helper or tfr op was seen through
    bool list;                // of TFR_V_TUPLE: a list display, whose items may be set later
    uint8_t home; // of TFR_V_GLOBAL: 1 + the number of the file that binds it; 0: the same anywhere
    tfr_name name;
    uint32_t first_arg, arg_count;
    uint32_t number; // value number: equal numbers, equal values when made; see tfr_flow_same_at
    uint32_t ast;    // expression of the outer function that evaluates to it
    uint32_t statement, block, seq;
    uint32_t class_index; // of TFR_M_CLASS: see tfr_module_of_class
} tfr_vnode;

typedef enum tfr_version_kind {
    TFR_VER_PARAM,
    TFR_VER_ASSIGN,
    TFR_VER_PHI,    // joins branches
    TFR_VER_REGION, // changed by a loop, try, with, ...: joins all its assignments
} tfr_version_kind;

typedef struct tfr_version {
    tfr_name name;
    tfr_value value;
    uint32_t statement, block;
    uint32_t target;                   // identifier node that binds it; 0: none
    uint32_t merges[2];                // versions joined (TFR_VER_PHI)
    uint32_t outer_ast;                // in a helper: the argument's text in the outer function
    uint32_t region_first, region_end; // TFR_VER_REGION: versions first..end of the same name
    uint32_t before;                   // the version of the name before it; 0: none
    uint8_t kind;
} tfr_version;

typedef struct tfr_read {
    uint32_t ast, version, statement;
} tfr_read;

typedef struct tfr_statement {
    uint32_t ast;
    uint32_t block;
    uint32_t parent; // statement that holds it; 0: none
    uint32_t first_seq, end_seq;
    uint32_t first_event, end_event; // events that happen in it
    bool impure;                     // binds by walrus, ... : must stay
} tfr_statement;

typedef enum tfr_event_kind {
    TFR_EV_CALL,  // unknown code runs
    TFR_EV_WRITE, // memory or an attribute is written
    TFR_EV_RETURN,
    TFR_EV_RAISE,
    TFR_EV_OTHER, // enters or leaves a region
} tfr_event_kind;

typedef struct tfr_event {
    uint8_t kind;
    uint32_t seq, block, ast, statement;
    tfr_value value;
} tfr_event;

typedef struct tfr_block {
    uint32_t parent;
    uint32_t key; // equal keys: the same conditions, written anywhere
    bool guarded; // the body of a try or with
    // Of the branches of an if: what is tested, whether it must hold, its text in the outer
    // function.
    tfr_value test;
    bool when;
    uint32_t test_ast;
} tfr_block;

// A helper that was seen through: calls from..to are its nodes.
typedef struct tfr_inline {
    uint32_t call_ast;
    const struct tfr_module *module; // whose function it is
    uint32_t function;               // index in its scope; UINT32_MAX: a tfr op
    tfr_name op;                     // of a tfr op, else 0
    tfr_name helper;                 // the function's name, or that in a tfr op's `via=`; 0: none
    bool loose; // a method of the class, or named in `inner=`: may be there less often than before
    uint32_t first_seq, end_seq;
} tfr_inline;

#define TFR_LIST(type)                                                                             \
    struct {                                                                                       \
        type *items;                                                                               \
        uint32_t count, cap;                                                                       \
    }

// Value numbers, shared by graphs that are to be compared.
typedef struct tfr_numbers {
    tfr_arena *arena;
    uint32_t *slots, *hashes, slot_count, count;
    uint32_t **keys; // length-prefixed
    uint32_t key_cap;
} tfr_numbers;

void tfr_numbers_init(tfr_numbers *numbers, tfr_arena *arena);
uint32_t tfr_numbers_get(tfr_numbers *numbers, const uint32_t *key, uint32_t length);

struct tfr_ops; // ops that calls `tfr.*` are lowered by: the rules

// One class's answer to "does calling an instance have effects?", filled on demand.
typedef enum tfr_purity { TFR_PURITY_UNASKED, TFR_PURITY_ASKING, TFR_PURE, TFR_IMPURE } tfr_purity;

typedef struct tfr_op_reference {
    const struct tfr_module *module;
    uint32_t function;
    bool siblings;
    // The parameters that the call's arguments are: by position, then by keyword in the order
    // given; 0: a literal that only chooses the reference.
    tfr_name positional[16], keywords[16];
    uint32_t tensors; // bits: positions that take a tensor
} tfr_op_reference;

// What is known of a file while its functions are lowered.
typedef struct tfr_module {
    tfr_arena *arena;
    const tfr_scope *scope;
    const tfr_canon *canon;
    const tfr_words *words;
    tfr_names *names;
    uint8_t *purity; // by class index
    // Functions of other files that may be called (rule files); NULL: none.
    const struct tfr_module *const *imports;
    uint32_t import_count;
    tfr_name import_name;      // this module's own dotted path when it is a rule file
    const struct tfr_ops *ops; // NULL while rules are loaded
    // Gives the reference that a call `tfr.<op>` stands for; NULL module: none.
    tfr_op_reference (*op_reference)(const struct tfr_ops *ops, tfr_name op, uint32_t positional,
                                     const tfr_name *keywords, const tfr_name *literals,
                                     uint32_t keyword_count);
    struct tfr_flow **flows;   // by function index, filled on demand
    bool is_rule;              // parameters that are called are modules
    struct tfr_imports *files; // what imports are looked up in (imports.h); NULL: nowhere
    const char *folder, *path; // absolute; the path of a file that another one imports from
    uint32_t first_class;      // added to indices of its classes in graphs
    uint8_t number;            // 0: the file that is rewritten, or one without imports
    struct tfr_module *before; // the text before it was edited: what calls see through; NULL: none
} tfr_module;

typedef struct tfr_flow {
    tfr_module *module;
    uint32_t function; // index in the scope
    uint32_t class_index;
    tfr_numbers *numbers;
    TFR_LIST(tfr_vnode) nodes;
    TFR_LIST(tfr_arg) args;
    TFR_LIST(tfr_version) versions;
    TFR_LIST(tfr_read) reads;
    TFR_LIST(tfr_statement) statements;
    TFR_LIST(tfr_event) events;
    TFR_LIST(tfr_block) blocks;
    TFR_LIST(tfr_inline) inlines;
    TFR_LIST(tfr_name) captured; // names that a closure reads: never renamed or removed
    tfr_value result;            // what the function returns; 0: not one value
    const char *unfit;           // why nothing in this function may be rewritten; NULL: it may
    uint32_t unfit_ast;
    bool is_generator;
} tfr_flow;

// The flow of a function, built on the first call and kept.
tfr_flow *tfr_module_flow(tfr_module *module, uint32_t function);
// Classes in graphs have numbers of their own: the module of one, and its index there. NULL: none.
tfr_module *tfr_module_of_class(tfr_module *module, uint32_t *class_index);
// What a dotted path of that file is bound to in another one, but for imports; NULL: not known.
const tfr_binding *tfr_module_import(const tfr_module *module, tfr_name path, tfr_module **found);
// A method or attribute of a class or its bases, those of other files included. NULL: not found.
const tfr_function *tfr_module_method(tfr_module *module, uint32_t class_index, tfr_name name,
                                      tfr_module **owner);
// What calling an instance of that class runs; false: nothing that is known.
bool tfr_module_forward(tfr_module *module, uint32_t class_index, tfr_module **owner,
                        uint32_t *function);
// Whether calling an instance of that class has no effect.
bool tfr_module_pure(tfr_module *module, uint32_t class_index);

// Lowers one function. Never fails: what is not understood is opaque, or the function is `unfit`.
tfr_flow *tfr_flow_build(tfr_module *module, uint32_t function, tfr_numbers *numbers);

// Of a dotted path, what stands behind its last dot.
static inline tfr_str tfr_last_part(tfr_str path) {
    size_t at = path.len;
    while (at && path.data[at - 1] != '.')
        at--;
    return (tfr_str){path.data + at, path.len - at};
}

static inline const tfr_vnode *tfr_flow_node(const tfr_flow *flow, tfr_value value) {
    return &flow->nodes.items[value];
}
// The call of an op that a value is made inside of; NULL: none.
static inline const tfr_inline *tfr_flow_op_around(const tfr_flow *flow, const tfr_vnode *n) {
    for (uint32_t i = 0; i < flow->inlines.count && n->in_call; i++) {
        const tfr_inline *in = &flow->inlines.items[i];
        if (in->op && in->first_seq <= n->seq && n->seq < in->end_seq)
            return in;
    }
    return NULL;
}
static inline bool tfr_flow_captures(const tfr_flow *flow, tfr_name name) {
    for (uint32_t i = 0; i < flow->captured.count; i++)
        if (flow->captured.items[i] == name)
            return true;
    return false;
}
static inline tfr_arg tfr_flow_arg(const tfr_flow *flow, tfr_value value, uint32_t i) {
    const tfr_vnode *n = &flow->nodes.items[value];
    return i < n->arg_count ? flow->args.items[n->first_arg + i] : (tfr_arg){0, 0};
}
// Equal when they were made. Two tensors, or lists, made alike may differ later: one of them may
// have been written to.
static inline bool tfr_flow_same(const tfr_flow *flow, tfr_value a, tfr_value b) {
    return flow->nodes.items[a].number == flow->nodes.items[b].number;
}
// One object, or a number: nothing written to one is missing in the other.
bool tfr_flow_same_object(const tfr_flow *flow, tfr_value a, tfr_value b);
// Still equal at `seq`: no effect happened since they were made. In doubt false.
bool tfr_flow_same_at(const tfr_flow *flow, tfr_value a, tfr_value b, uint32_t seq);
// The first event after `from` and before `to` (seq); NULL: none.
const tfr_event *tfr_flow_event_between(const tfr_flow *flow, uint32_t from, uint32_t to);
// Whether a + b and a * b may be written b + a and b * a: tuples and strings may not.
static inline bool tfr_commutes(const tfr_vnode *a, const tfr_vnode *b) {
    bool tensor = a->type == TFR_T_TENSOR || b->type == TFR_T_TENSOR;
    return tensor || (a->type == TFR_T_NUMBER && b->type == TFR_T_NUMBER);
}
// Whether a block is the branch where `module is not None`.
bool tfr_flow_asks_for(const tfr_flow *flow, uint32_t block, tfr_value module);
// Whether `outer` holds `block` (or is it).
bool tfr_flow_within(const tfr_flow *flow, uint32_t block, uint32_t outer);

// What kind of value it is, in words: for messages.
tfr_str tfr_flow_describe(const tfr_flow *flow, tfr_value value, tfr_arena *arena);

// The dotted path of an expression ("torch.nn.Linear"), by the module's bindings alone; 0: none.
tfr_name tfr_module_path(const tfr_module *module, tfr_names *names, uint32_t ast);
// Whether a class names a torch.nn class of that kind among its bases.
bool tfr_module_extends(tfr_module *module, uint32_t class_index, tfr_module_kind kind);
// Whether a class derives from nn.Linear or has exactly one inside.
bool tfr_module_wraps_linear(tfr_module *module, uint32_t class_index);
tfr_module_kind tfr_module_attribute(tfr_module *module, uint32_t class_index, tfr_name attribute,
                                     uint32_t *of_class);

#endif
