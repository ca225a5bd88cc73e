// The lock around compiling saves double work and nothing more: whoever does not get it in time
// compiles too, and the cache keeps the first result.
#include "jit/obtain.h"

#include "jit/cache.h"
#include "jit/cpu.h"
#include "jit/warn.h"

#include <stdio.h>

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)

bool tfr_wanted_make(tfr_arena *arena, const tfr_jit_request *request, bool may_run,
                     tfr_wanted *out) {
    const tfr_hostcc *compiler = NULL;
    tfr_hostcc_found found = tfr_hostcc_find(may_run, &compiler);
    if (found == TFR_HOSTCC_UNASKED) {
        return false;
    }
    out->label = request->label;
    out->compiler = found == TFR_HOSTCC_FOUND ? compiler : NULL;
    out->key = (tfr_key){.kind = TFR_STR("host"),
                         .abi = TFR_STR(TEXT_OF(TFR_KERNEL_ABI)),
                         .source = request->source,
                         .options = tfr_hostcc_options(),
                         .target = tfr_cpu_choose()->target,
                         .compiler = out->compiler ? compiler->identity : TFR_STR("")};
    out->text = tfr_key_text(arena, &out->key);
    return true;
}

bool tfr_obtain_stored(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                       tfr_entry *out) {
    return tfr_cache_get(arena, &wanted->key, wanted->text, layers, !wanted->compiler, out) &&
           tfr_cpu_runs(out->target); // a home may be shared by different machines
}

static bool compile(tfr_arena *arena, const tfr_wanted *wanted, tfr_entry *out, bool *stored,
                    char *why, size_t why_size) {
    char fault[900];
    tfr_str binary;
    if (!tfr_hostcc_compile(arena, wanted->compiler, wanted->key.source, &binary, fault,
                            sizeof fault)) {
        (void)snprintf(why, why_size, "%s", fault);
        tfr_warn(TFR_WARN_COMPILER, "kernel %.*s: %s; what stands in for it runs",
                 wanted->label.len > 200 ? 200 : (int)wanted->label.len, wanted->label.data, fault);
        return false;
    }
    *out = (tfr_entry){.label = wanted->label,
                       .target = wanted->key.target,
                       .key = wanted->text,
                       .binary = binary};
    *stored = tfr_cache_put(&wanted->key, out, why, why_size);
    return true;
}

tfr_jit_origin tfr_obtain(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                          tfr_entry *out, bool *stored, char *why, size_t why_size) {
    *stored = true;
    if (tfr_obtain_stored(arena, wanted, layers, out)) {
        return TFR_JIT_FROM_DISK;
    }
    if (!wanted->compiler) {
        tfr_hostcc_warn_none();
        (void)snprintf(why, why_size, "there is no C compiler");
        return TFR_JIT_FROM_NOWHERE;
    }
    int token = tfr_cache_lock(&wanted->key);
    tfr_jit_origin origin = TFR_JIT_FROM_NOWHERE;
    if (tfr_obtain_stored(arena, wanted, layers, out)) {
        origin = TFR_JIT_FROM_DISK; // others compiled it meanwhile
    } else if (compile(arena, wanted, out, stored, why, why_size)) {
        origin = TFR_JIT_COMPILED;
    } else if (tfr_cache_get(arena, &wanted->key, wanted->text, layers, true, out)) {
        origin = TFR_JIT_FROM_DISK; // by another compiler, while this one fails
    }
    tfr_cache_unlock(token);
    return origin;
}
