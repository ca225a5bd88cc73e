// Compiling ahead of time: a few threads that each wait for a compiler, so that as many of those
// run at once. The calling thread only counts.
#define _GNU_SOURCE // sched_getaffinity
#include "jit/jit.h"
#include "jit/obtain.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define MAX_JOBS 256

typedef struct warming {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const tfr_jit_request *requests;
    size_t count, next, done;
    size_t *finished; // their numbers, in the order in which they ended
    tfr_jit_counts counts;
    tfr_error *err;
} warming;

static void warm_one(warming *w, size_t i) {
    tfr_arena *arena = tfr_arena_new();
    tfr_wanted wanted;
    tfr_entry entry;
    char why[2048];
    bool stored = false;
    (void)tfr_wanted_make(arena, &w->requests[i], true, &wanted);
    tfr_jit_origin origin =
        tfr_obtain(arena, &wanted, TFR_CACHE_ALL, &entry, &stored, why, sizeof why);
    tfr_arena_free(arena);
    (void)pthread_mutex_lock(&w->lock);
    if (origin == TFR_JIT_FROM_NOWHERE || !stored) {
        tfr_str label = w->requests[i].label;
        if (w->counts.failed++ == 0) {
            (void)tfr_fail(w->err, TFR_E_USAGE, NULL, 0, 0, "kernel %.*s: %s", tfr_label_len(label),
                           label.data, why);
        }
    } else if (origin == TFR_JIT_COMPILED) {
        w->counts.compiled++;
    } else {
        w->counts.found++;
    }
    w->finished[w->done++] = i;
    (void)pthread_cond_signal(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
}

static void *warm_some(void *context) {
    warming *w = context;
    for (;;) {
        (void)pthread_mutex_lock(&w->lock);
        size_t i = w->next < w->count ? w->next++ : w->count;
        (void)pthread_mutex_unlock(&w->lock);
        if (i == w->count) {
            return NULL;
        }
        warm_one(w, i);
    }
}

static int cpu_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

tfr_status tfr_jit_warm(const tfr_jit_request *requests, size_t count, int jobs,
                        void (*progress)(void *context, size_t done, size_t count, tfr_str label),
                        void *context, tfr_jit_counts *out, tfr_error *err) {
    pthread_t threads[MAX_JOBS];
    size_t wanted = (size_t)(jobs > 0 ? jobs : cpu_count()), started = 0;
    wanted = wanted > MAX_JOBS ? MAX_JOBS : wanted;
    wanted = wanted > count ? count : wanted;
    warming w = {.requests = requests, .count = count, .err = err};
    (void)pthread_mutex_init(&w.lock, NULL);
    (void)pthread_cond_init(&w.changed, NULL);
    w.finished = tfr_alloc(count * sizeof *w.finished);
    while (started < wanted && pthread_create(&threads[started], NULL, warm_some, &w) == 0) {
        started++;
    }
    for (size_t shown = 0; shown < count; shown++) {
        if (!started) {
            warm_one(&w, shown); // no threads to be had: one after the other
        }
        (void)pthread_mutex_lock(&w.lock);
        while (w.done <= shown) {
            (void)pthread_cond_wait(&w.changed, &w.lock);
        }
        size_t i = w.finished[shown];
        (void)pthread_mutex_unlock(&w.lock);
        if (progress) {
            progress(context, shown + 1, count, requests[i].label);
        }
    }
    for (size_t i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    tfr_release(w.finished);
    (void)pthread_cond_destroy(&w.changed);
    (void)pthread_mutex_destroy(&w.lock);
    *out = w.counts;
    return w.counts.failed ? TFR_E_USAGE : TFR_OK;
}
