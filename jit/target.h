// The CUDA targets by name: machine code for one GPU ("sm_90a"), or PTX text ("compute_90"), which
// a driver compiles for this GPU or a newer one. The rows are in target.def.
#ifndef TFR_TARGET_H
#define TFR_TARGET_H

#include "runtime/arena.h"

typedef struct tfr_cuda_target {
    const char *name;   // "sm_90a", "compute_90"
    int major, minor;   // compute capability: 9, 0
    const char *suffix; // "a" or ""; of PTX always ""
    bool ptx;
    bool bf16, fp8; // has them in hardware; kernels of a dtype need it
} tfr_cuda_target;

// All of them: those of machine code by compute capability, then those of PTX.
const tfr_cuda_target *tfr_cuda_targets(size_t *count);

// "sm_90a" or "compute_90"; NULL: there is no such row.
const tfr_cuda_target *tfr_cuda_target_find(tfr_str name);

// The best for a device of this compute capability: its machine code, else the newest PTX that is
// not newer than the device. NULL: the device is older than every row.
const tfr_cuda_target *tfr_cuda_target_for(int major, int minor);

// "sm_75, sm_80, ...", for messages.
tfr_str tfr_cuda_target_list(tfr_arena *arena);

#endif
