// The bytes of one kernel: from the cache, else from the compiler and into the cache. Knows nothing
// of loading, threads or what is asked for next.
#ifndef TFR_OBTAIN_H
#define TFR_OBTAIN_H

#include "jit/cache.h"
#include "jit/entry.h"
#include "jit/hostcc.h"
#include "jit/jit.h"
#include "jit/key.h"

typedef struct tfr_wanted {
    tfr_key key;
    tfr_str text, label;
    const tfr_hostcc *compiler; // NULL: there is none, and an entry of any compiler will do
} tfr_wanted;

// Makes the key. False: the compiler would have to be run for its version, which `may_run` forbids.
bool tfr_wanted_make(tfr_arena *arena, const tfr_jit_request *request, bool may_run,
                     tfr_wanted *out);

// From the cache alone.
bool tfr_obtain_stored(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                       tfr_entry *out);

// From these layers of the cache, else compiled. NOWHERE: `why` says why; warned of once. Whether
// what was compiled could be stored is `stored`.
tfr_jit_origin tfr_obtain(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                          tfr_entry *out, bool *stored, char *why, size_t why_size);

#endif
