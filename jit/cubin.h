// What a compiled CUDA kernel says of itself: read from the ELF file that a cubin is, or from PTX
// text. Pure functions on memory that believe nothing. Knows no cache, no compiler, no driver.
#ifndef TFR_CUBIN_H
#define TFR_CUBIN_H

#include "jit/target.h"

typedef struct tfr_cubin {
    tfr_str entry;         // the one kernel's name, a C identifier; a view into the bytes
    int sm;                // the architecture it is for: 90; of PTX the least
    tfr_str arch;          // with its suffix, "sm_90a"; empty where the compiler does not note it
    uint32_t registers;    // per thread; 0 of PTX, which does not know
    uint32_t shared_bytes; // static, of a block; without what the system takes for itself
    uint32_t local_bytes;  // stack of a thread: spilled registers and arrays; 0 of PTX
    uint32_t max_threads;  // of a block, from __launch_bounds__; 0: not said
    uint32_t code_bytes;   // 0 of PTX
} tfr_cubin;

// NULL: `bytes` are a cubin with exactly one kernel. Else what is wrong, in words.
const char *tfr_cubin_read(tfr_str bytes, tfr_cubin *out);
// The same of PTX text.
const char *tfr_ptx_read(tfr_str text, tfr_cubin *out);

// Reads what was compiled for `target`, by its kind, and holds it to that target. A kernel that
// does not say its block's size is refused.
const char *tfr_cubin_check(tfr_str binary, const tfr_cuda_target *target, tfr_cubin *out);

#endif
