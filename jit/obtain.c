// The lock around compiling saves double work and nothing more: whoever does not get it in time
// compiles too, and the cache keeps the first result.
#include "jit/obtain.h"

#include "jit/cache.h"
#include "jit/cpu.h"
#include "jit/warn.h"

#include <assert.h>
#include <stdio.h>

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
#define KIND_HOST "host"
#define KIND_CUDA "cuda"

static bool make_host(const tfr_jit_request *request, bool may_run, tfr_wanted *out) {
    tfr_hostcc_found found = tfr_hostcc_find(may_run, &out->cc);
    if (found == TFR_HOSTCC_UNASKED) {
        return false;
    }
    out->has_compiler = found == TFR_HOSTCC_FOUND;
    out->key = (tfr_key){.kind = TFR_STR(KIND_HOST),
                         .abi = TFR_STR(TEXT_OF(TFR_KERNEL_ABI)),
                         .source = request->source,
                         .options = tfr_hostcc_options(),
                         .target = tfr_cpu_choose()->target,
                         .compiler = out->has_compiler ? out->cc->identity : TFR_STR("")};
    return true;
}

static bool make_cuda(tfr_arena *arena, const tfr_jit_request *request, bool may_run,
                      tfr_wanted *out) {
    tfr_nvrtc_found found = tfr_nvrtc_find(may_run, &out->nvrtc);
    if (found == TFR_NVRTC_UNASKED) {
        return false;
    }
    out->has_compiler = found == TFR_NVRTC_FOUND;
    out->key = (tfr_key){.kind = TFR_STR(KIND_CUDA),
                         .abi = TFR_STR(TEXT_OF(TFR_KERNEL_ABI)),
                         .source = request->source,
                         .options = tfr_nvrtc_options(arena, out->cuda),
                         .target = tfr_str_from(out->cuda->name),
                         .compiler = out->has_compiler ? out->nvrtc->identity : TFR_STR("")};
    return true;
}

bool tfr_wanted_make(tfr_arena *arena, const tfr_jit_request *request, bool may_run,
                     tfr_wanted *out) {
    *out = (tfr_wanted){.label = request->label};
    if (request->target.len) {
        out->cuda = tfr_cuda_target_find(request->target);
        assert(out->cuda);
    }
    bool made =
        out->cuda ? make_cuda(arena, request, may_run, out) : make_host(request, may_run, out);
    if (made) {
        out->text = tfr_key_text(arena, &out->key);
    }
    return made;
}

bool tfr_request_of(const tfr_key *key, tfr_str label, tfr_jit_request *out) {
    bool cuda = tfr_str_eq(key->kind, TFR_STR(KIND_CUDA));
    *out = (tfr_jit_request){label, key->source, cuda ? key->target : TFR_STR("")};
    return !cuda || tfr_cuda_target_find(key->target);
}

bool tfr_obtain_stored(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                       tfr_entry *out) {
    return tfr_cache_get(arena, &wanted->key, wanted->text, layers, !wanted->has_compiler, out) &&
           (wanted->cuda || tfr_cpu_runs(out->target)); // homes are shared by different machines
}

static bool compile_host(tfr_arena *arena, const tfr_wanted *wanted, tfr_entry *out, char *why,
                         size_t why_size) {
    bool good =
        tfr_hostcc_compile(arena, wanted->cc, wanted->key.source, &out->binary, why, why_size);
    if (!good) {
        tfr_warn(TFR_WARN_COMPILER, "kernel %.*s: %s; what stands in for it runs",
                 tfr_label_len(wanted->label), wanted->label.data, why);
    }
    return good;
}

static bool compile_cuda(tfr_arena *arena, const tfr_wanted *wanted, tfr_entry *out, char *why,
                         size_t why_size) {
    tfr_cubin read = {0};
    bool good = tfr_nvrtc_compile(arena, wanted->nvrtc, wanted->cuda, wanted->key.source,
                                  &out->binary, &read, why, why_size);
    if (!good) {
        tfr_warn(TFR_WARN_COMPILER_CUDA, "kernel %.*s: %s; what stands in for it runs",
                 tfr_label_len(wanted->label), wanted->label.data, why);
    }
    out->registers = read.registers;
    out->shared_bytes = read.shared_bytes;
    out->block = read.max_threads;
    return good;
}

static bool compile(tfr_arena *arena, const tfr_wanted *wanted, tfr_entry *out, bool *stored,
                    char *why, size_t why_size) {
    *out = (tfr_entry){.label = wanted->label, .target = wanted->key.target, .key = wanted->text};
    if (!(wanted->cuda ? compile_cuda(arena, wanted, out, why, why_size)
                       : compile_host(arena, wanted, out, why, why_size))) {
        return false;
    }
    *stored = tfr_cache_put(&wanted->key, out, why, why_size);
    return true;
}

tfr_jit_origin tfr_obtain(tfr_arena *arena, const tfr_wanted *wanted, tfr_cache_layers layers,
                          tfr_entry *out, bool *stored, char *why, size_t why_size) {
    *stored = true;
    if (tfr_obtain_stored(arena, wanted, layers, out)) {
        return TFR_JIT_FROM_DISK;
    }
    if (!wanted->has_compiler) {
        if (wanted->cuda) {
            tfr_nvrtc_warn_none();
        } else {
            tfr_hostcc_warn_none();
        }
        (void)snprintf(why, why_size, "there is no %s",
                       wanted->cuda ? "libnvrtc to compile it with" : "C compiler");
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
