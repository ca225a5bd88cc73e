// The last size of the tensors in a function, as far as it follows from the modules that make and
// take them, and which of them are float32 whatever the model's dtype is. Knows graphs and facts;
// knows no op.
#ifndef TFR_WIDTHS_H
#define TFR_WIDTHS_H

#include "rewriter/facts.h"
#include "rewriter/rules.h"

typedef struct tfr_widths {
    tfr_facts *facts;
    const tfr_rules *rules;
    tfr_flow *flow;
    const tfr_instance *instance; // NULL: the function belongs to no class
    tfr_value self;
    uint32_t *root;            // by node: the node that stands for all of the same width
    int64_t *size;             // by root; TFR_NO_WIDTH
    tfr_str *why;              // by root: what the width depends on, if that is all that is known
    bool *is_one, *is_float32; // by node
    bool changed;
} tfr_widths;

#define TFR_NO_WIDTH (-1)

// Its own lists live in `arena`; facts that it makes, in that of `facts`.
void tfr_widths_build(tfr_widths *out, tfr_facts *facts, const tfr_rules *rules, tfr_flow *flow,
                      const tfr_instance *instance, tfr_arena *arena);

// TFR_NO_WIDTH: not known, `*why` says what it depends on ("" when nothing is known of it at all).
int64_t tfr_widths_last(const tfr_widths *widths, tfr_value value, tfr_str *why);

// A value of the function as a fact: self.head_dim, x.shape[-1] // 2, self.norm.
tfr_fact tfr_widths_fact(tfr_widths *widths, tfr_value value);

// Whether a value is an argument of the function, or a part of one.
bool tfr_widths_is_argument(const tfr_widths *widths, tfr_value value);
// The first of the results of a function that gives cosines and sines; 0: it does not.
tfr_value tfr_widths_tables(const tfr_widths *widths);

// A size of nn.Parameter(torch.ones(...)) and its like, counted from the last one, 0; and whether
// it asks for float32.
tfr_fact tfr_parameter_size(tfr_facts *facts, const tfr_fact *parameter, uint32_t from_end);
bool tfr_parameter_is_float32(tfr_facts *facts, const tfr_fact *parameter);

// The reference that the forward of a norm class is, and its weight. False: the class is no norm.
typedef struct tfr_norm {
    const tfr_rule *rule;
    bool has_weight;
    tfr_fact weight; // a fact of the module given
} tfr_norm;
bool tfr_norm_of(tfr_norm *out, tfr_facts *facts, const tfr_rules *rules, const tfr_fact *module);

#endif
