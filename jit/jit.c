// What this process has: one slot for each source and target, found by its text. A slot is worked
// on by one thread at a time, outside the lock; the others wait for it or go on without. The
// background thread lives as long as there is work for it.
#define _GNU_SOURCE // pthread_atfork, pthread_sigmask
#include "jit/jit.h"

#include "jit/cache.h"
#include "jit/cubin.h"
#include "jit/load.h"
#include "jit/obtain.h"
#include "jit/warn.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum slot_state { SLOT_NEW, SLOT_WORKING, SLOT_QUEUED, SLOT_READY, SLOT_FAILED } slot_state;

typedef struct slot {
    struct slot *next;        // of its bucket
    struct slot *next_queued; // of the queue
    uint64_t hash;
    tfr_str source, label, target; // its own copies
    slot_state state;
    const void *made; // a tfr_kernel; with a CUDA target a tfr_device_code
} slot;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; // some slot's state, or the queue
    slot **buckets;
    size_t count, bucket_count; // a power of two
    slot *first, *last;         // the queue
    bool thread;                // the background thread lives
    bool prepared;              // handlers of fork are registered
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// ------------------------------------------------------------------ fork
static void before_fork(void) { (void)pthread_mutex_lock(&table.lock); }
static void after_fork_parent(void) { (void)pthread_mutex_unlock(&table.lock); }

// The other threads are gone: what they worked on is nobody's now.
static void after_fork_child(void) {
    pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    table.changed = fresh;
    for (size_t i = 0; i < table.bucket_count; i++) {
        for (slot *s = table.buckets[i]; s; s = s->next) {
            if (s->state == SLOT_WORKING || s->state == SLOT_QUEUED) {
                s->state = SLOT_NEW;
            }
        }
    }
    table.first = table.last = NULL;
    table.thread = false;
    (void)pthread_mutex_unlock(&table.lock);
}

// ------------------------------------------------------------------ slots
// Sources differ in the macros at their start or in length, so that is all that is hashed; the
// whole text is compared anyway.
static uint64_t hash_of(tfr_str source) {
    uint64_t hash = 0x9e3779b97f4a7c15u ^ source.len;
    size_t len = source.len < 512 ? source.len : 512;
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t word;
        memcpy(&word, source.data + i, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

static void grow_buckets(void) {
    size_t count = table.bucket_count ? table.bucket_count * 2 : 64;
    slot **buckets = tfr_alloc(count * sizeof *buckets);
    memset(buckets, 0, count * sizeof *buckets);
    for (size_t i = 0; i < table.bucket_count; i++) {
        for (slot *s = table.buckets[i], *next; s; s = next) {
            next = s->next;
            s->next = buckets[s->hash & (count - 1)];
            buckets[s->hash & (count - 1)] = s;
        }
    }
    tfr_release(table.buckets);
    table.buckets = buckets;
    table.bucket_count = count;
}

static tfr_str keep(tfr_str text) {
    char *copy = tfr_alloc(text.len + 1);
    if (text.len) {
        memcpy(copy, text.data, text.len);
    }
    copy[text.len] = 0;
    return (tfr_str){copy, text.len};
}

static slot *find_slot(const tfr_jit_request *request) {
    uint64_t hash = hash_of(request->source);
    if (table.bucket_count) {
        slot *s = table.buckets[hash & (table.bucket_count - 1)];
        for (; s; s = s->next) {
            if (s->hash == hash && tfr_str_eq(s->source, request->source) &&
                tfr_str_eq(s->target, request->target)) {
                return s;
            }
        }
    }
    if (table.count >= table.bucket_count) {
        grow_buckets();
    }
    slot *s = tfr_alloc(sizeof *s);
    *s = (slot){.next = table.buckets[hash & (table.bucket_count - 1)],
                .hash = hash,
                .source = keep(request->source),
                .label = keep(request->label),
                .target = keep(request->target)};
    table.buckets[hash & (table.bucket_count - 1)] = s;
    table.count++;
    return s;
}

// With the lock held, until it returns.
static void settle(slot *s, const void *made) {
    s->made = made;
    s->state = made ? SLOT_READY : SLOT_FAILED;
    (void)pthread_cond_broadcast(&table.changed);
}

static void unqueue(slot *s) {
    slot *before = NULL;
    for (slot *at = table.first; at && at != s; at = at->next_queued) {
        before = at;
    }
    *(before ? &before->next_queued : &table.first) = s->next_queued;
    if (table.last == s) {
        table.last = before;
    }
    s->next_queued = NULL;
}

// ------------------------------------------------------------------ work, without the lock
// What an entry says of its launch is not believed: the binary tells.
static tfr_load_result load_cuda(const tfr_wanted *wanted, tfr_str binary, const void **out,
                                 char *why, size_t why_size) {
    tfr_cubin read;
    const char *fault = tfr_cubin_check(binary, wanted->cuda, &read);
    if (fault) {
        (void)snprintf(why, why_size, "%s", fault);
        return TFR_LOAD_BAD;
    }
    tfr_device_code *code = tfr_alloc(sizeof *code);
    *code = (tfr_device_code){.binary = keep(binary),
                              .entry = keep(read.entry).data,
                              .registers = read.registers,
                              .shared_bytes = read.shared_bytes,
                              .block = read.max_threads};
    *out = code;
    return TFR_LOADED;
}

static tfr_load_result load_host(const tfr_wanted *wanted, tfr_str binary, const void **out,
                                 char *why, size_t why_size) {
    const tfr_kernel *kernel = NULL;
    tfr_load_result result = tfr_load(binary, wanted->label, &kernel, why, why_size);
    *out = kernel;
    return result;
}

// NULL: `blame` says whether the bytes are at fault.
static const void *load(const tfr_wanted *wanted, const tfr_entry *entry, bool from_disk,
                        bool *blame) {
    char why[512];
    const void *made = NULL;
    tfr_load_result result =
        (wanted->cuda ? load_cuda : load_host)(wanted, entry->binary, &made, why, sizeof why);
    *blame = result == TFR_LOAD_BAD;
    if (*blame && from_disk) {
        tfr_cache_reject(entry, why);
    } else if (result != TFR_LOADED) {
        tfr_warn(TFR_WARN_LOAD, "kernel %.*s cannot be loaded: %s; what stands in for it runs",
                 tfr_label_len(wanted->label), wanted->label.data, why);
    }
    return made;
}

// From the cache, without running anything. False: the rest of the way has to be gone.
static bool load_stored(const slot *s, const void **made) {
    tfr_arena *arena = tfr_arena_new();
    tfr_wanted wanted;
    tfr_entry entry;
    bool blame, done = false;
    *made = NULL;
    tfr_jit_request request = {s->label, s->source, s->target};
    if (tfr_wanted_make(arena, &request, false, &wanted) &&
        tfr_obtain_stored(arena, &wanted, TFR_CACHE_ALL, &entry)) {
        *made = load(&wanted, &entry, true, &blame);
        done = *made || !blame;
    }
    tfr_arena_free(arena);
    return done;
}

static const void *load_or_compile(const slot *s, tfr_jit_origin *origin) {
    tfr_arena *arena = tfr_arena_new();
    tfr_wanted wanted;
    tfr_entry entry;
    const void *made = NULL;
    char why[2048];
    bool stored, blame = true;
    tfr_jit_request request = {s->label, s->source, s->target};
    (void)tfr_wanted_make(arena, &request, true, &wanted);
    for (int layers = TFR_CACHE_ALL; layers <= TFR_CACHE_NONE && !made && blame; layers++) {
        *origin =
            tfr_obtain(arena, &wanted, (tfr_cache_layers)layers, &entry, &stored, why, sizeof why);
        if (*origin == TFR_JIT_FROM_NOWHERE) {
            break;
        }
        made = load(&wanted, &entry, *origin == TFR_JIT_FROM_DISK, &blame);
        if (*origin == TFR_JIT_COMPILED) {
            break; // compiling it once more would give the same
        }
    }
    tfr_arena_free(arena);
    *origin = made ? *origin : TFR_JIT_FROM_NOWHERE;
    return made;
}

static void *background(void *unused) {
    (void)unused;
    (void)pthread_mutex_lock(&table.lock);
    while (table.first) {
        slot *s = table.first;
        tfr_jit_origin origin;
        unqueue(s);
        s->state = SLOT_WORKING;
        (void)pthread_mutex_unlock(&table.lock);
        const void *made = load_or_compile(s, &origin);
        (void)pthread_mutex_lock(&table.lock);
        settle(s, made);
    }
    table.thread = false;
    (void)pthread_cond_broadcast(&table.changed);
    (void)pthread_mutex_unlock(&table.lock);
    return NULL;
}

// With the lock held. Signals stay with the program's own threads.
static bool start_background(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (table.thread) {
        return true;
    }
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    table.thread = pthread_create(&thread, &attributes, background, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return table.thread;
}

// With the lock held.
static void enqueue(slot *s) {
    s->state = SLOT_QUEUED;
    *(table.last ? &table.last->next_queued : &table.first) = s;
    table.last = s;
    if (!start_background()) {
        unqueue(s);
        s->state = SLOT_NEW; // no thread now; perhaps at the next call
    }
    (void)pthread_cond_broadcast(&table.changed);
}

// ------------------------------------------------------------------ the interface
static const void *get(const tfr_jit_request *request, tfr_jit_mode mode, tfr_jit_origin *origin) {
    tfr_jit_origin from = TFR_JIT_FROM_NOWHERE;
    const void *made = NULL;
    origin = origin ? origin : &from;
    *origin = TFR_JIT_FROM_NOWHERE;
    if (mode == TFR_JIT_OFF) {
        return NULL;
    }
    (void)pthread_mutex_lock(&table.lock);
    if (!table.prepared) {
        table.prepared = true;
        (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    }
    slot *s = find_slot(request);
    while (mode == TFR_JIT_SYNC && s->state == SLOT_WORKING) {
        (void)pthread_cond_wait(&table.changed, &table.lock);
    }
    bool mine = s->state == SLOT_NEW || (mode == TFR_JIT_SYNC && s->state == SLOT_QUEUED);
    if (s->state == SLOT_READY) {
        *origin = TFR_JIT_FROM_MEMORY;
        made = s->made;
    } else if (mine) {
        if (s->state == SLOT_QUEUED) {
            unqueue(s);
        }
        s->state = SLOT_WORKING;
        (void)pthread_mutex_unlock(&table.lock);
        bool done = true;
        if (mode == TFR_JIT_SYNC) {
            made = load_or_compile(s, origin);
        } else {
            done = load_stored(s, &made);
            *origin = made ? TFR_JIT_FROM_DISK : TFR_JIT_FROM_NOWHERE;
        }
        (void)pthread_mutex_lock(&table.lock);
        if (done) {
            settle(s, made);
        } else {
            enqueue(s);
        }
    }
    (void)pthread_mutex_unlock(&table.lock);
    return made;
}

const tfr_kernel *tfr_jit_kernel(const tfr_jit_request *request, tfr_jit_mode mode,
                                 tfr_jit_origin *origin) {
    assert(!request->target.len);
    return get(request, mode, origin);
}

const tfr_device_code *tfr_jit_device_code(const tfr_jit_request *request, tfr_jit_mode mode,
                                           tfr_jit_origin *origin) {
    assert(tfr_cuda_target_find(request->target));
    return get(request, mode, origin);
}

bool tfr_jit_busy(void) {
    (void)pthread_mutex_lock(&table.lock);
    bool busy = table.thread;
    (void)pthread_mutex_unlock(&table.lock);
    return busy;
}

void tfr_jit_wait(void) {
    (void)pthread_mutex_lock(&table.lock);
    while (table.thread) {
        (void)pthread_cond_wait(&table.changed, &table.lock);
    }
    (void)pthread_mutex_unlock(&table.lock);
}

bool tfr_jit_take_warning(char *out, size_t size) { return tfr_warn_take(out, size); }

tfr_jit_mode tfr_jit_mode_from_environment(tfr_error *err) {
    const char *text = getenv("TFR_JIT");
    if (!text || !*text || strcmp(text, "async") == 0) {
        return TFR_JIT_ASYNC;
    }
    if (strcmp(text, "sync") == 0) {
        return TFR_JIT_SYNC;
    }
    if (strcmp(text, "off") == 0) {
        return TFR_JIT_OFF;
    }
    (void)tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "TFR_JIT is async, sync or off, not %s", text);
    tfr_warn(TFR_WARN_VARIABLE, "TFR_JIT is async, sync or off, not %s; async is used", text);
    return TFR_JIT_ASYNC;
}
