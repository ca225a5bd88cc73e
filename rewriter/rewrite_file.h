// One file on its way through rewrite.c and remarks.c; nobody else includes it.
#ifndef TFR_REWRITE_FILE_H
#define TFR_REWRITE_FILE_H

#include "rewriter/emit.h"
#include "rewriter/imports.h"
#include "rewriter/rewrite.h"

typedef struct span {
    uint32_t start, end;
} span;

typedef struct rewriter {
    const tfr_source *src;
    const tfr_options *options;
    tfr_arena *arena;
    tfr_names names;
    tfr_tree tree;
    tfr_scope scope;
    tfr_module module;
    tfr_imports *imports;
    tfr_report *report;
    tfr_numbers blocks; // that were refused, so that it is said once
    tfr_str alias;
    bool has_import;
    TFR_LIST(span) off; // switched off by comments
    bool *untouched;    // functions left alone: every call of them is fused, or they are scripted
    uint32_t *guarded;  // by function: its calls that this run fuses, named as `via=`
    // Functions that change, with their edits apart so that one can be taken back.
    struct changed {
        uint32_t function;
        tfr_flow *flow;
        tfr_match *matches;
        tfr_place *places;
        uint32_t count;
        tfr_edits edits;
    } * changed;
    uint32_t changed_count, changed_cap;
    TFR_LIST(struct sum {
        uint32_t function;
        tfr_value value;
        tfr_edits edits;
    })
    sums; // that a match needs made at another place
} rewriter;

// remarks.c: comments that switch a part off, the name of tfrewrite's ops, scripted functions,
// what the report says of the whole file.
void tfr_remarks_off(rewriter *r);
void tfr_remarks_alias(rewriter *r);
void tfr_remarks_scripted(rewriter *r);
void tfr_remarks_wildcard(rewriter *r);
// The edit that imports the ops.
tfr_edit tfr_remarks_import(rewriter *r);

#endif
