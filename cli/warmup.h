// `tfrewrite warmup`: from modeling files and a configuration to compiled kernels in the cache.
// Gives text and statuses; main.c prints and exits.
#ifndef TFR_WARMUP_H
#define TFR_WARMUP_H

#include "cli/args.h"
#include "jit/jit.h"
#include "rewriter/manifest.h"

typedef struct tfr_warmup {
    tfr_arena *arena;
    bool verbose;
    tfr_kernel_ops kernels;
    tfr_need_dtype dtypes[3];
    struct {
        tfr_str *items; // as in tfr_jit_request
        size_t count, cap;
    } targets;
    tfr_manifest_options options;
    tfr_manifest manifest;
    size_t kernel_count; // of tfr_warmup_run: different ones
} tfr_warmup;

// Reads the configuration. `args`, `rules` and `arena` must outlive `out`.
tfr_status tfr_warmup_open(tfr_warmup *out, const tfr_args *args, const tfr_rules *rules,
                           tfr_arena *arena, tfr_error *err);

// Adds what one file needs. TFR_E_REFUSED: as for rewriting.
tfr_status tfr_warmup_add(tfr_warmup *warmup, const char *path, tfr_error *err);

// Compiles what the cache lacks. TFR_E_USAGE: some could not be compiled or kept; `err` has the
// first reason. `progress` (may be NULL) is called before the first and after each.
typedef void (*tfr_warmup_progress)(void *context, size_t done, size_t count, tfr_str label);
tfr_status tfr_warmup_run(tfr_warmup *warmup, int jobs, tfr_warmup_progress progress, void *context,
                          tfr_jit_counts *counts, tfr_error *err);

// A line per target without kernels for bfloat16, a line per call whose kernel is left to run time,
// and "12 kernels: 9 compiled, ...".
void tfr_warmup_report(tfr_buf *out, const tfr_warmup *warmup, const tfr_jit_counts *counts);

#endif
