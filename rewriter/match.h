// Finds a rule's reference graph inside a function's graph. Knows graphs and what a rule's
// parameter may stand for; knows nothing of text or editing.
#ifndef TFR_MATCH_H
#define TFR_MATCH_H

#include "rewriter/flow.h"

#define TFR_MAX_PARAMS 16
#define TFR_MAX_ROOTS 8

typedef enum tfr_param_kind {
    TFR_P_TENSOR,
    TFR_P_PARAM,
    TFR_P_SCALAR,
    TFR_P_CONST,
    TFR_P_INT,
    TFR_P_LINEAR,
    TFR_P_LAYER_NORM,
    TFR_P_NORM,
    TFR_P_ACT,
} tfr_param_kind;

typedef struct tfr_rule {
    tfr_name op;
    tfr_str label; // "rms_norm/cast_weight": op and reference function
    tfr_str call;  // what is written: "rms_norm(x, weight, eps, order='cast_weight')"
    const tfr_module *module;
    uint32_t function;
    tfr_flow *flow; // NULL for siblings
    bool siblings, host_only;
    bool has_fallback; // the rule file says what to compute with a replaced helper
    tfr_str inner;     // the reference's helper that the user's may replace; "": none
    tfr_str kernel;    // what its kernel is specialised for: "ORDER=CAST_WEIGHT"
    bool has_kernel;   // kernel= is given, perhaps empty
    uint32_t order;    // among the op's references, as they stand in the file
    tfr_str refusal;   // recognised but not supported: this is said; there is no `call` then
    uint32_t at_least;
    struct {
        tfr_name name;
        tfr_param_kind kind;
        tfr_value value; // in `flow`
    } params[TFR_MAX_PARAMS];
    uint32_t param_count;
    tfr_value roots[TFR_MAX_ROOTS];
    uint32_t root_count;
    uint32_t size;     // pattern nodes to match, parameters left out
    uint64_t features; // of tfr_match_features: all must be in the function
    // Arguments of `call`: parameters by position (0: None), and keywords with their literal, or
    // with literal 0 and the parameter that they take.
    tfr_name positional[TFR_MAX_PARAMS], keywords[8], literals[8], keyword_params[8];
    uint32_t keyword_count, positional_count;
} tfr_rule;

typedef struct tfr_match {
    const tfr_rule *rule;
    tfr_value roots[TFR_MAX_ROOTS]; // of siblings: one per module
    uint32_t root_count;
    tfr_arg leaves[TFR_MAX_PARAMS + TFR_MAX_ROOTS]; // by parameter; siblings: x, then the modules
    uint32_t leaf_count;
    tfr_value *members; // user nodes that the pattern's inner nodes stand for, roots included
    uint32_t member_count;
    const tfr_arg *map;           // by the rule's node: the user's; NULL for siblings
    const struct tfr_match *wide; // takes its place where more than its one result is read
    uint32_t block; // of siblings under several conditions: the one that holds all; 0: one
} tfr_match;

// How far a failed attempt came, for the report.
typedef struct tfr_near {
    const tfr_rule *rule;
    uint32_t matched;
    bool complete;      // every operation of the rule is somewhere in the function
    tfr_value at;       // user's node where it failed; 0: none
    tfr_value root;     // user's node that was tried as the root
    tfr_value expected; // the rule's node there
    tfr_value before;   // user's node that it stands for in another place; 0: none
    const char *why;    // in words, when the nodes alone do not say it
    bool sure;          // it is the rule's computation but for this: worth a reason by itself
} tfr_near;

// What the code would need for `near`, found in `flow`, in a sentence.
tfr_str tfr_match_near_reason(const tfr_near *near, const tfr_flow *flow, tfr_arena *arena);

// Bits for the operations that a graph holds.
uint64_t tfr_match_features(const tfr_flow *flow);

// Tries `root` as the rule's first root. The match and its lists live in `arena`. `near` (may be
// NULL) is replaced when this attempt came further than the one it holds.
bool tfr_match_try(tfr_match *out, const tfr_rule *rule, tfr_flow *flow, tfr_value root,
                   tfr_arena *arena, tfr_near *near);

// Tries `rule`, a reference of the same op, for the first result of `wide` alone: the others must
// be values on its way.
bool tfr_match_narrow(tfr_match *out, const tfr_rule *rule, tfr_flow *flow, const tfr_match *wide,
                      tfr_arena *arena);

// lookalike.c: whether `root` only looks like the norm of a sum that the rule describes, and why it
// is none. `used`: values that calls of ops take in.
bool tfr_match_lookalike(tfr_near *out, const tfr_rule *rule, tfr_flow *flow, tfr_value root,
                         const bool *used);

// siblings.c: the matches of a rule on siblings, one after another.
typedef struct tfr_apart { // a call that joined no other: where the cause stands, and the call
    uint32_t ast;
    tfr_value call;
    const char *reason;
} tfr_apart;
typedef struct tfr_siblings {
    tfr_flow *flow;
    const tfr_rule *rule;
    tfr_arena *arena;
    TFR_LIST(tfr_value) calls;
    TFR_LIST(tfr_apart) apart;
    bool *seen, *told; // by call: looked at already; said to be apart from another
    bool *alone;       // nothing joined it
    uint8_t *roles;    // by value
    uint32_t next;
    bool wide;
} tfr_siblings;
void tfr_siblings_find(tfr_siblings *s, tfr_flow *flow, const tfr_rule *rule, const bool *used,
                       tfr_arena *arena);
bool tfr_siblings_next(tfr_siblings *s, tfr_match *out);
// The same again with those alone that run under the conditions of the first.
bool tfr_siblings_narrow(tfr_siblings *s, tfr_match *m);
// The statement in `block` that holds a call; 0: none.
uint32_t tfr_siblings_statement(const tfr_flow *flow, tfr_value call, uint32_t block);
// The text of a block's condition as it may be written before `statement`; 0: it may not.
#define TFR_NO_TEST UINT32_MAX // it need not: the module is None where it does not hold
uint32_t tfr_siblings_test(const tfr_flow *flow, uint32_t block, tfr_value module,
                           uint32_t statement);

// What an effect between the parts of a match is, and what the code would need: for the report.
const char *tfr_match_obstacle(const tfr_event *event);

// Whether `value` may be what `kind` asks for; `why` says what is missing.
bool tfr_match_fits(tfr_flow *flow, tfr_arg value, tfr_param_kind kind, const char **why);

// Whether the value is an activation function of torch (activations.def) applied to something.
bool tfr_match_is_activation(const tfr_flow *flow, tfr_value value);

// The class of the file whose forward is one `rms_norm` of its first argument (asked of rules.c).
bool tfr_rules_is_norm(const struct tfr_ops *ops, tfr_module *module, uint32_t class_index);

#endif
