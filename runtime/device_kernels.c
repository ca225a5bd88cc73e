// As op_kernels.c: one scan of a short list without a lock, entries only ever added. What differs
// is that a kernel belongs to a device, that loading is not allowed during a capture, and that
// without a kernel there is no generic build.
#include "runtime/device_kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "jit/warn.h"
#include "runtime/requests.h"

typedef struct tfr_device_entry {
    struct tfr_device_entry *next;
    tfr_op_key key;
    int32_t device;
    int epoch; // of its making
    _Atomic(const tfr_driver_kernel *) kernel;
    _Atomic bool settled; // `kernel` will not change any more
    _Atomic int64_t asked;
    tfr_jit_request request;
} entry;

static _Atomic int epoch;

void tfr_device_adopt(void) { atomic_fetch_add(&epoch, 1); }

static bool has_ranks(void) {
    static _Atomic int known; // 0: not asked, 1: no, 2: yes
    if (!known) {
        const char *size = getenv("WORLD_SIZE");
        known = size && atoi(size) > 1 ? 2 : 1;
    }
    return known == 2;
}

static entry *find(entry *first, const tfr_op_key *key, int32_t device) {
    for (entry *e = first; e; e = e->next)
        if (e->device == device && tfr_op_key_equal(&e->key, key))
            return e;
    return NULL;
}

static void give_up(entry *e, const char *op, const char *why) {
    tfr_warn(TFR_WARN_DEVICE, "CUDA kernel of %s: %s; its torch operations run", op, why);
    atomic_store_explicit(&e->settled, true, memory_order_release);
}

// Whether the target can compute in the dtypes of the call.
static bool fits(const tfr_cuda_target *target, const tfr_call *c) {
    for (int32_t i = 0; i < c->input_count; i++)
        if (!tfr_target_takes(target, c->in[i].dtype))
            return false;
    return true;
}

// A fresh entry; `request` is empty, and the entry settled, where no kernel is to be had.
static entry *make(tfr_op_kernels *op, const tfr_call *c, const tfr_op_key *key, int64_t norm,
                   int64_t act, int32_t device) {
    char why[TFR_DRIVER_MESSAGE];
    tfr_arena *arena = tfr_arena_new();
    entry *e = TFR_NEW(arena, entry);
    e->key = *key;
    e->device = device;
    e->epoch = atomic_load(&epoch);
    const char *name = tfr_op_kernels_def(op)->op;
    const tfr_cuda_target *target = tfr_driver_target(device, why);
    if (!target) {
        give_up(e, name, why);
    } else if (!fits(target, c)) {
        (void)snprintf(why, sizeof why, "%s has no bfloat16", target->name);
        give_up(e, name, why);
    } else {
        e->request = tfr_op_kernels_request(op, c, norm, act, tfr_str_from(target->name), arena);
        if (!e->request.source.data)
            give_up(e, name, "its template is missing");
    }
    return e;
}

static entry *add(tfr_op_kernels *op, entry *made) {
    _Atomic(entry *) *list = &tfr_op_kernels_on_device(op)->entries;
    made->next = atomic_load_explicit(list, memory_order_acquire);
    do {
        entry *other = find(made->next, &made->key, made->device);
        if (other)
            return other; // another thread's; ours stays unused, a few bytes once
    } while (!atomic_compare_exchange_weak_explicit(list, &made->next, made, memory_order_acq_rel,
                                                    memory_order_acquire));
    return made;
}

// Compiles (in the background, if async) and loads.
static void ask(tfr_op_kernels *op, entry *e) {
    char why[TFR_DRIVER_MESSAGE];
    tfr_jit_mode mode = tfr_op_kernels_mode(op);
    bool waits = mode == TFR_JIT_ASYNC && has_ranks() && e->epoch == atomic_load(&epoch);
    bool busy = tfr_jit_busy(); // before asking: a compiler that ends in between is asked again
    const tfr_device_code *code = tfr_jit_device_code(&e->request, mode, NULL);
    atomic_store_explicit(&e->asked, tfr_now_ns(), memory_order_relaxed);
    if (waits)
        return;
    const tfr_driver_kernel *kernel = code ? tfr_driver_load(e->device, code, why) : NULL;
    if (kernel) {
        atomic_store_explicit(&e->kernel, kernel, memory_order_release);
        atomic_store_explicit(&e->settled, true, memory_order_release);
    } else if (code) {
        give_up(e, tfr_op_kernels_def(op)->op, why);
    } else if (mode != TFR_JIT_ASYNC || !(busy || tfr_jit_busy())) {
        atomic_store_explicit(&e->settled, true, memory_order_release); // jit/ has warned
    }
}

const tfr_driver_kernel *tfr_device_kernels_get(tfr_op_kernels *op, const tfr_call *c, int64_t norm,
                                                int64_t act, int32_t device,
                                                bool (*capturing)(void *context), void *context) {
    if (tfr_op_kernels_mode(op) == TFR_JIT_OFF || !tfr_op_kernels_def(op)->cuda_template)
        return NULL;
    tfr_op_key key = tfr_op_kernels_key(op, c, norm, act);
    _Atomic(entry *) *list = &tfr_op_kernels_on_device(op)->entries;
    entry *e = find(atomic_load_explicit(list, memory_order_acquire), &key, device);
    const tfr_driver_kernel *kernel =
        e ? atomic_load_explicit(&e->kernel, memory_order_acquire) : NULL;
    if (kernel || (e && atomic_load_explicit(&e->settled, memory_order_acquire)))
        return kernel;
    if (capturing(context))
        return NULL;
    bool is_new = !e;
    if (is_new)
        e = add(op, make(op, c, &key, norm, act, device));
    if (!atomic_load_explicit(&e->settled, memory_order_acquire) &&
        (is_new || tfr_op_kernels_mode(op) == TFR_JIT_SYNC || // another thread may be at it: wait
         tfr_now_ns() - atomic_load_explicit(&e->asked, memory_order_relaxed) > TFR_POLL_NS))
        ask(op, e);
    return atomic_load_explicit(&e->kernel, memory_order_acquire);
}
