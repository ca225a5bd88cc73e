// A compiled kernel's bytes into this process. Knows no cache.
#ifndef TFR_LOAD_H
#define TFR_LOAD_H

#include "codegen_templates/kernel.h"
#include "runtime/arena.h"

// NULL: the bytes are a shared object for this architecture, whole. Else what is wrong.
const char *tfr_load_fault(tfr_str binary);

typedef enum tfr_load_result {
    TFR_LOADED,
    TFR_LOAD_BAD,     // these bytes are no kernel of this version
    TFR_LOAD_REFUSED, // the system does not let code be loaded; no fault of the bytes
} tfr_load_result;

// Loads exactly these bytes; the kernel stays until the process ends. `name` shows in debuggers
// and /proc/self/maps. Leaves the floating-point control word (MXCSR) as it is.
tfr_load_result tfr_load(tfr_str binary, tfr_str name, const tfr_kernel **out, char *why,
                         size_t why_size);

#endif
