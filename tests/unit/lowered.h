// For the unit tests: a text parsed and lowered as the program does it.
#ifndef TFR_LOWERED_H
#define TFR_LOWERED_H

#include <stdlib.h>

#include "rewriter/rules.h"
#include "tests/unit/check.h"

typedef struct lowered {
    tfr_source source;
    tfr_tree tree;
    tfr_scope scope;
    tfr_module module;
} lowered;

// `names` stands on the rules' table; texts that are compared share it.
__attribute__((unused)) static lowered *lower(const tfr_rules *rules, tfr_names *names,
                                              tfr_arena *arena, const char *text) {
    lowered *l = TFR_NEW(arena, lowered);
    tfr_error err = {0};
    if (tfr_source_from_bytes(&l->source, "x.py", tfr_str_from(text), arena, &err) != TFR_OK ||
        tfr_tree_parse(&l->tree, &l->source, arena, &err) != TFR_OK) {
        fprintf(stderr, "%s\n%s\n", err.message, text);
        abort();
    }
    tfr_tree_free(&l->tree);
    tfr_scope_build(&l->scope, &l->tree, names, arena);
    tfr_rules_module(&l->module, rules, &l->scope, names, arena);
    return l;
}

// The last function of that name, lowered with `numbers`.
__attribute__((unused)) static tfr_flow *flow_of(lowered *l, const char *function,
                                                 tfr_numbers *numbers) {
    for (uint32_t i = l->scope.functions.count; i-- > 0;)
        if (tfr_str_eq(tfr_names_text(l->module.names, l->scope.functions.items[i].name),
                       tfr_str_from(function)))
            return tfr_flow_build(&l->module, i, numbers);
    fprintf(stderr, "no function %s\n", function);
    abort();
}

#endif
