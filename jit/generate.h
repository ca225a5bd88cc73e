// Writes the source of one kernel: the template behind the macros that specialise it, its headers
// of codegen_templates/ in place of their #include lines, so that nothing outside the text decides
// what it means.
#ifndef TFR_GENERATE_H
#define TFR_GENERATE_H

#include "codegen_templates/kernel.h"
#include "runtime/arena.h"
#include "runtime/error.h"

typedef struct tfr_spec_tensor {
    const char *name; // as in the torch schema: "norm_weight"
    int32_t dtype;    // TFR_F32, TFR_BF16 or TFR_NONE
    int64_t last;     // its last size, compiled in; < 0: left to run time
} tfr_spec_tensor;

// What one kernel is specialised for.
typedef struct tfr_spec {
    const char *label; // "rms_norm.cast_then_weight", for messages
    tfr_str template_text;
    const char *template_name; // "rms_norm.c"
    const char *options;       // "ORDER=CAST_WEIGHT ROOT=RSQRT"
    const tfr_spec_tensor *tensors;
    uint32_t tensor_count;
    bool generic; // no macros at all: serves every option and dtype
} tfr_spec;

// The text of a built-in template; {NULL, 0}: there is none of that name.
tfr_str tfr_template_builtin(const char *name);
// Reads a template of a user's rule folder.
tfr_status tfr_template_read(tfr_str *out, const char *directory, const char *name,
                             tfr_arena *arena, tfr_error *err);

typedef struct tfr_generated {
    tfr_str source;
    tfr_str label; // "rms_norm.cast_then_weight ORDER=CAST_WEIGHT X_DTYPE=TFR_BF16 X_LAST=1024"
} tfr_generated;

// The same bytes for the same spec, always.
void tfr_generate(tfr_generated *out, const tfr_spec *spec, tfr_arena *arena);

#endif
