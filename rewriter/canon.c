// Loads canon.py: signatures and equivalent spellings of tensor computations. The table is parsed
// by the same parser as the user's file and used by calls.c.
#include "rewriter/builtin_rules.h"
#include "rewriter/flow_build.h"

struct tfr_canon {
    tfr_source source;
    tfr_tree tree;
    tfr_scope scope;
    tfr_module module;
    tfr_words words;
    tfr_canon_row *rows;   // by function of the table
    uint32_t *row_of_name; // by name; 0: none, else row + 1
    uint32_t row_of_name_count;
};

const tfr_words *tfr_canon_words(const tfr_canon *canon) { return &canon->words; }
const tfr_module *tfr_canon_module(const tfr_canon *canon) { return &canon->module; }

const tfr_canon_row *tfr_canon_find(const tfr_canon *canon, tfr_name name) {
    if (name >= canon->row_of_name_count || !canon->row_of_name[name])
        return NULL;
    return &canon->rows[canon->row_of_name[name] - 1];
}

static void read_row(tfr_canon *canon, uint32_t function) {
    const tfr_tree *t = &canon->tree;
    const tfr_function *f = &canon->scope.functions.items[function];
    tfr_canon_row *row = &canon->rows[function];
    *row = (tfr_canon_row){.name = f->name, .function = function, .type = TFR_T_TENSOR};
    tfr_str on = tfr_tree_text(t, f->decorated);
    const char *end = memchr(on.data, '\n', on.len);
    for (const char *p = on.data; p < end; p++) { // @on("x torch F linalg")
        if (p[-1] != '"' && p[-1] != ' ')
            continue;
        row->method |= *p == 'x';
        row->torch |= *p == 't';
        row->functional |= *p == 'F';
        row->linalg |= *p == 'l';
    }
    uint32_t type = tfr_tree_field(t, f->node, TFR_F_RETURN_TYPE);
    if (type)
        row->type = tfr_tree_is(t, type, "tuple") ? TFR_T_TUPLE : TFR_T_NUMBER;
    uint32_t body = tfr_tree_first(t, tfr_tree_field(t, f->node, TFR_F_BODY));
    row->alias = tfr_tree_kind(t, body) == TFR_N_RETURN;
}

tfr_status tfr_canon_new(tfr_canon **out, tfr_names *names, tfr_arena *arena, tfr_error *err) {
    tfr_canon *canon = TFR_NEW(arena, tfr_canon);
#define WORD(suffix, text) canon->words.suffix = tfr_names_lit(names, text);
#include "rewriter/words.def"
#undef WORD
    tfr_str text = {tfr_builtin_canon.text, tfr_builtin_canon.length};
    tfr_status status = tfr_source_from_bytes(&canon->source, "canon.py", text, arena, err);
    if (status != TFR_OK)
        return status;
    canon->tree =
        tfr_tree_from_data(&canon->source, tfr_builtin_canon.nodes, tfr_builtin_canon.node_count);
    tfr_scope_build(&canon->scope, &canon->tree, names, arena);
    canon->module = (tfr_module){.arena = arena,
                                 .scope = &canon->scope,
                                 .canon = canon,
                                 .words = &canon->words,
                                 .names = names};
    uint32_t count = canon->scope.functions.count;
    canon->rows = TFR_NEW_ARRAY(arena, tfr_canon_row, count);
    canon->row_of_name_count = names->first + names->count;
    canon->row_of_name = TFR_NEW_ARRAY(arena, uint32_t, canon->row_of_name_count);
    for (uint32_t f = 0; f < count; f++) {
        read_row(canon, f);
        canon->row_of_name[canon->rows[f].name] = f + 1;
    }
    *out = canon;
    return TFR_OK;
}
