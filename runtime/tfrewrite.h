// The C interface of tfrewrite: rewrite a modeling file in memory, list the kernels that its model
// needs, compile them into the cache, load and call them. No Python and no torch are needed.
// samples/c_api is a program that does all of it.
//
//     cc main.c -ltfrewrite
//
// Objects are made by *_new and freed by *_free; strings belong to the object that gave them. A
// call that can fail takes `error` (TFR_ERROR_SIZE bytes, or NULL), which gets one sentence for the
// user, with file:line:col where a place is concerned. An engine and everything made from it may be
// used by several threads; one object by one thread at a time.
#ifndef TFREWRITE_H
#define TFREWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "codegen_templates/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TFR_API __attribute__((visibility("default")))
#define TFR_ERROR_SIZE 2048

typedef struct tfr_engine tfr_engine;
typedef struct tfr_rewritten tfr_rewritten;
typedef struct tfr_kernel_set tfr_kernel_set;

TFR_API const char *tfr_library_version(void); // "0.1.0"

// The rules: the built-in ones, and those in the folders `rule_dirs` (NULL: none). NULL: a rule
// file has a fault.
TFR_API tfr_engine *tfr_engine_new(const char *const *rule_dirs, size_t count, char *error);
TFR_API void tfr_engine_free(tfr_engine *engine); // after everything made from it

// Rewrites `length` bytes of Python. `path` is for messages. `target`: "auto", "host" or "cuda".
// NULL: the input does not parse, or a gate failed; nothing is half done.
TFR_API tfr_rewritten *tfr_rewritten_new(const tfr_engine *engine, const char *path,
                                         const char *text, size_t length, const char *target,
                                         char *error);
TFR_API const char *tfr_rewritten_text(const tfr_rewritten *r, size_t *length);
TFR_API bool tfr_rewritten_changed(const tfr_rewritten *r);
// What was fused and what was not and why: the document of `tfrewrite --json` (docs/CLI.md).
TFR_API const char *tfr_rewritten_json(const tfr_rewritten *r);
TFR_API void tfr_rewritten_free(tfr_rewritten *r); // NULL is allowed

// The host kernels of the model that this modeling file and configuration (the text of config.json)
// describe, in each of the dtypes ("bf16,f32"). NULL: one of the inputs is at fault.
TFR_API tfr_kernel_set *tfr_kernel_set_new(const tfr_engine *engine, const char *path,
                                           const char *text, size_t length, const char *config,
                                           size_t config_length, const char *dtypes, char *error);
TFR_API size_t tfr_kernel_set_count(const tfr_kernel_set *set);
// "rms_norm.cast_then_weight ORDER=CAST_WEIGHT X_DTYPE=TFR_BF16 X_LAST=1024"
TFR_API const char *tfr_kernel_set_label(const tfr_kernel_set *set, size_t i);
TFR_API const char *tfr_kernel_set_source(const tfr_kernel_set *set, size_t i); // its C source
// Ops whose kernels are left to run time, since the configuration does not say their sizes.
TFR_API size_t tfr_kernel_set_unknown_count(const tfr_kernel_set *set);
TFR_API const char *tfr_kernel_set_unknown(const tfr_kernel_set *set, size_t i); // with the reason

// Compiles what the cache (docs/CACHE.md) lacks, `jobs` at a time (0: as many as there are CPUs).
// False: one failed, or there is no compiler.
TFR_API bool tfr_kernel_set_compile(const tfr_kernel_set *set, int jobs, char *error);
// The kernel, from memory, the cache or the compiler; it stays loaded. NULL: none to be had.
// Call `plan`, give every output memory of the sizes and strides that it set, then `run` over 0 ..
// units with `scratch` bytes aligned to 64.
TFR_API const tfr_kernel *tfr_kernel_set_load(const tfr_kernel_set *set, size_t i, char *error);
TFR_API void tfr_kernel_set_free(tfr_kernel_set *set); // NULL is allowed

#ifdef __cplusplus
}
#endif

#endif
