// What is known of the modules of a file once a configuration is given: which classes are made,
// with which arguments, and what their attributes are. Expressions of `__init__` are evaluated as
// far as they are numbers, texts and the configuration; knows no op and no kernel. Never guesses:
// what is not certain is a reason.
#ifndef TFR_FACTS_H
#define TFR_FACTS_H

#include "rewriter/config.h"
#include "rewriter/flow.h"

typedef enum tfr_fact_kind {
    TFR_FACT_UNKNOWN, // `text` says why, as the end of a sentence: "config.json has no head_dim"
    TFR_FACT_NONE,
    TFR_FACT_BOOL,
    TFR_FACT_INT,
    TFR_FACT_FLOAT,
    TFR_FACT_TEXT,
    TFR_FACT_JSON, // the configuration, or a list or dict in it
    TFR_FACT_CODE, // an object that the expression `ast` makes, for `instance`
} tfr_fact_kind;

typedef struct tfr_instance tfr_instance;

typedef struct tfr_fact {
    tfr_fact_kind kind;
    int64_t integer; // INT, BOOL
    double number;   // INT, BOOL, FLOAT
    tfr_str text;
    const tfr_json *json;
    uint32_t ast;
    const tfr_instance *instance;
} tfr_fact;

// One way in which a class of the file is made.
struct tfr_instance {
    uint32_t class_index; // of self
    uint32_t init;        // its `__init__`, an index into functions; UINT32_MAX: not in this file
    uint32_t parameter_count;
    struct tfr_fact_parameter {
        tfr_name name;
        tfr_fact value;
    } * parameters;
    const tfr_instance *base; // self within what `super().__init__(...)` runs; NULL: another file
};

#define TFR_NO_INIT UINT32_MAX

typedef struct tfr_facts {
    tfr_module *module;
    const tfr_json *config;
    const char *config_name; // for messages
    tfr_arena *arena;
    TFR_LIST(const tfr_instance *) instances;
    uint32_t depth, steps;   // bounded
    bool all_found;          // false: there are more instances than the limit
    bool names_are_reliable; // classes are annotated with the configuration that they take
} tfr_facts;

// Finds every instance: classes that nothing in the file makes, with the configuration where their
// annotation fits it, and from there whatever their `__init__` makes.
void tfr_facts_find(tfr_facts *facts);

// Where an expression stands: in `__init__` of `instance` (then local names are known), in another
// function of its class, or, NULL, at module level.
typedef struct tfr_fact_loop {
    tfr_name name;
    int64_t value;
} tfr_fact_loop;
typedef struct tfr_fact_scope {
    const tfr_instance *instance;
    tfr_fact_loop loops[2]; // loop variables with their value in this round
    uint32_t loop_count;
} tfr_fact_scope;

tfr_fact tfr_fact_eval(tfr_facts *facts, const tfr_fact_scope *scope, uint32_t ast);
// `self.<name>` after `__init__`.
tfr_fact tfr_fact_attribute(tfr_facts *facts, const tfr_instance *instance, tfr_name name);
// An attribute of something else than self: of a configuration, or in_features of an nn.Linear.
tfr_fact tfr_fact_member(tfr_facts *facts, const tfr_fact *object, tfr_str name);

// fact_values.c: facts by themselves.
tfr_fact tfr_fact_unknown(tfr_facts *facts, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// "`a + b` is not known", of an expression, on one line and cut.
tfr_fact tfr_fact_unclear(tfr_facts *facts, uint32_t ast, const char *what);
tfr_fact tfr_fact_bool(bool value);
tfr_fact tfr_fact_int(int64_t value);
tfr_fact tfr_fact_float(double value);
tfr_fact tfr_fact_text(tfr_str text);
tfr_fact tfr_fact_json(const tfr_json *json);
static inline bool tfr_fact_is_whole(const tfr_fact *f) {
    return f->kind == TFR_FACT_INT || f->kind == TFR_FACT_BOOL;
}
static inline bool tfr_fact_is_number(const tfr_fact *f) {
    return tfr_fact_is_whole(f) || f->kind == TFR_FACT_FLOAT;
}
int tfr_fact_equal(const tfr_fact *a, const tfr_fact *b); // 1, 0, or -1: not known
// a <op> b of numbers, with Python's "+", "//", ...
tfr_fact tfr_fact_binary(tfr_facts *facts, tfr_str op, const tfr_fact *a, const tfr_fact *b);
// 1, 0, or -1: not known.
int tfr_fact_truth(const tfr_fact *fact);

// Of CODE that is a call: the dotted path called ("torch.nn.Linear"; "" otherwise), its arguments,
// and the class of the file with the instance made.
tfr_str tfr_fact_path(tfr_facts *facts, const tfr_fact *code);
bool tfr_fact_argument(tfr_facts *facts, const tfr_fact *code, uint32_t position,
                       const char *keyword, tfr_fact *out);
const tfr_instance *tfr_fact_made(tfr_facts *facts, const tfr_fact *code);

// For facts.c and instances.c: whether the node runs, by the conditions around it up to its
// function. 1 yes, 0 no, -1 unknown. `in_loops`: loops around it run.
int tfr_fact_runs(tfr_facts *facts, const tfr_fact_scope *scope, uint32_t node, bool in_loops,
                  tfr_fact *why);
// The function that holds a node; UINT32_MAX: none.
uint32_t tfr_fact_function(const tfr_facts *facts, uint32_t ast);

#endif
