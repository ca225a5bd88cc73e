// Kernels of the cache as one file, to be copied to other machines (docs/CACHE.md): `tfrewrite
// cache pack` and `unpack`. The same kernels give the same bytes, whenever and wherever they are
// packed.
#ifndef TFR_BUNDLE_H
#define TFR_BUNDLE_H

#include "jit/entry.h"
#include "runtime/error.h"

#define TFR_BUNDLE_MAX_BYTES ((size_t)1 << 30)

// The bundle of these entries (whole files of the cache), which must be sorted by the names of
// their files, each once.
tfr_str tfr_bundle_write(tfr_arena *arena, const tfr_str *entries, size_t count);

typedef struct tfr_bundle {
    tfr_str *entries; // views into the bytes, each one sound
    size_t count;
} tfr_bundle;

// NULL: `bytes` are a bundle that tfr_bundle_write would write. Else what is wrong.
const char *tfr_bundle_read(tfr_arena *arena, tfr_str bytes, tfr_bundle *out);

// The sound kernels of all layers of the cache for these targets ("host", "sm_90a"; count 0: all)
// as a bundle. Fails where there is none. `left_out`: unsound ones.
tfr_status tfr_bundle_pack(tfr_arena *arena, const tfr_str *targets, size_t target_count,
                           tfr_str *out, size_t *kernels, size_t *left_out, tfr_error *err);

// Stores the kernels of the bundle `path` in the cache below `base` (NULL: the user's own), which
// is made where it is missing. Sound ones that are there stay as they are.
tfr_status tfr_bundle_unpack(const char *path, const char *base, size_t *stored, size_t *kept,
                             tfr_error *err);

#endif
