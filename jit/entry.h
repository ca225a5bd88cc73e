// The bytes of one cache entry (docs/CACHE.md). Pure functions on memory: no files, no keys'
// meaning.
#ifndef TFR_ENTRY_H
#define TFR_ENTRY_H

#include "runtime/arena.h"

#define TFR_ENTRY_VERSION 1u
#define TFR_ENTRY_MAX_BYTES ((size_t)64 << 20)

typedef struct tfr_entry {
    tfr_str label;                           // for people; not part of the key
    tfr_str target;                          // as in the key
    tfr_str key;                             // its full text
    tfr_str binary;                          // a shared object, or a cubin
    uint32_t registers, shared_bytes, block; // launch metadata; 0 for the host
} tfr_entry;

tfr_str tfr_entry_write(tfr_arena *arena, const tfr_entry *entry);

// NULL: sound, and `out` has views into `bytes`. Else what is wrong, in words.
const char *tfr_entry_read(tfr_str bytes, tfr_entry *out);

#endif
