// target.def is read twice: once for the machine code of each row, once for its PTX.
#include "jit/target.h"

static const tfr_cuda_target targets[] = {
#define TFR_CUDA_TARGET(major, minor, suffix, bf16, fp8)                                           \
    {"sm_" #major #minor suffix, major, minor, suffix, false, bf16, fp8},
#include "jit/target.def"
#undef TFR_CUDA_TARGET
#define TFR_CUDA_TARGET(major, minor, suffix, bf16, fp8)                                           \
    {"compute_" #major #minor, major, minor, "", true, bf16, fp8},
#include "jit/target.def"
#undef TFR_CUDA_TARGET
};

const tfr_cuda_target *tfr_cuda_targets(size_t *count) {
    *count = sizeof targets / sizeof *targets;
    return targets;
}

const tfr_cuda_target *tfr_cuda_target_find(tfr_str name) {
    size_t count;
    const tfr_cuda_target *all = tfr_cuda_targets(&count);
    for (size_t i = 0; i < count; i++) {
        if (tfr_str_eq(name, tfr_str_from(all[i].name))) {
            return &all[i];
        }
    }
    return NULL;
}

// Machine code of a neighbour (sm_80 on 8.7) is not tried: NVIDIA promises it for some pairs only,
// and PTX runs on all.
const tfr_cuda_target *tfr_cuda_target_for(int major, int minor) {
    const tfr_cuda_target *best = NULL;
    size_t count;
    const tfr_cuda_target *all = tfr_cuda_targets(&count);
    for (size_t i = 0; i < count; i++) {
        const tfr_cuda_target *t = &all[i];
        if (!t->ptx && t->major == major && t->minor == minor) {
            return t;
        }
        if (t->ptx && (t->major < major || (t->major == major && t->minor <= minor))) {
            best = t;
        }
    }
    return best;
}

tfr_str tfr_cuda_target_list(tfr_arena *arena) {
    tfr_buf list = {.arena = arena};
    size_t count;
    const tfr_cuda_target *all = tfr_cuda_targets(&count);
    for (size_t i = 0; i < count; i++) {
        tfr_buf_format(&list, "%s%s", i ? ", " : "", all[i].name);
    }
    return tfr_buf_str(&list);
}
