// Choosing is on the path of every call: one scan of a short list without a lock. Entries are only
// ever added, at the head, so readers need no more than an acquire.
#include "runtime/op_kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "codegen_templates/acts.h"
#include "jit/cpu.h"
#include "jit/generate.h"
#include "runtime/generic.h"
#include "runtime/requests.h"

#define ACT_TEXT(name) #name,
static const char *const act_names[] = {TFR_ACT_VALUES(ACT_TEXT)};

#define MAX_NORMS 32

typedef struct entry {
    struct entry *next;
    tfr_op_key key;
    _Atomic(const tfr_kernel *) kernel;
    _Atomic bool settled; // `kernel` will not change any more
    _Atomic int64_t asked;
    tfr_jit_request request;
} entry;

struct tfr_op_kernels {
    const tfr_kernel_op *def;
    const tfr_kernel *generic;
    tfr_str text; // of the template
    int32_t options[MAX_NORMS][TFR_MAX_OPTIONS];
    const char *option_text[MAX_NORMS]; // NULL: this norm has no kernel
    bool takes_act;
    int32_t act_slot, first_act; // the option ACT, and the value of the first activation
    uint32_t norm_count, width_count;
    uint32_t widths[TFR_MAX_WIDTHS]; // which inputs have theirs compiled in
    tfr_jit_mode mode;
    bool is_forced;
    tfr_path forced;
    tfr_arena *arena; // of what is made with it
    _Atomic(entry *) entries;
    tfr_device_kernels on_device;
};

// ------------------------------------------------------------------ options
// The number of `word` in a list of words with spaces between; -1: it is not there.
static int32_t word_number(const char *list, const char *word, size_t length) {
    int32_t number = 0;
    for (const char *p = list; *p; number++) {
        size_t n = strcspn(p, " ");
        if (n == length && memcmp(p, word, n) == 0)
            return number;
        p += n + strspn(p + n, " ");
    }
    return -1;
}

// Reads "ORDER=CAST_WEIGHT ROOT=RSQRT" into numbers.
static bool read_options(const tfr_kernel *kernel, const char *text, int32_t *out) {
    for (const char *p = text; *p;) {
        size_t word = strcspn(p, " "), name = strcspn(p, "= ");
        if (name >= word)
            return false;
        int32_t slot = word_number(kernel->options, p, name);
        int32_t value = word_number(kernel->values, p + name + 1, word - name - 1);
        if (slot < 0 || slot >= TFR_MAX_OPTIONS || value < 0)
            return false;
        out[slot] = value;
        p += word + strspn(p + word, " ");
    }
    return true;
}

static bool set_options(tfr_op_kernels *op, const tfr_kernel_ops *all, tfr_error *err) {
    bool takes_norm = false;
    for (uint32_t i = 0; i < op->def->argument_count; i++)
        takes_norm |= op->def->arguments[i].kind == TFR_A_NORM;
    op->norm_count = takes_norm ? all->norm_count : 1;
    for (uint32_t i = 0; i < op->norm_count; i++) {
        const char *norm = takes_norm ? all->norm_options[i] : "";
        if (!norm)
            continue;
        bool both = *op->def->options && *norm;
        const char *text =
            tfr_str_format(op->arena, "%s%s%s", op->def->options, both ? " " : "", norm).data;
        if (!read_options(op->generic, text, op->options[i])) {
            tfr_fail(err, TFR_E_USAGE, "", 0, 0, "%s.%s: %s does not know the options %s",
                     op->def->op, op->def->variant, op->def->template_name, text);
            return false;
        }
        op->option_text[i] = text;
    }
    return true;
}

// Whether a call decides the activation; then the template's values hold all of them in a row.
static bool set_acts(tfr_op_kernels *op) {
    for (uint32_t i = 0; i < op->def->argument_count; i++)
        op->takes_act |= op->def->arguments[i].kind == TFR_A_ACT;
    if (!op->takes_act)
        return true;
    op->act_slot = word_number(op->generic->options, "ACT", 3);
    op->first_act = word_number(op->generic->values, act_names[0], strlen(act_names[0]));
    return op->act_slot >= 0 && op->first_act >= 0;
}

// TFR_FORCE=op:path,...
static void read_force(tfr_op_kernels *op) {
    static const struct {
        const char *word;
        tfr_path path;
    } words[] = {{"generic", TFR_PATH_GENERIC},
                 {"jit", TFR_PATH_JIT},
                 {"torch", TFR_PATH_TORCH},
                 {"aten", TFR_PATH_ATEN}};
    const char *p = getenv("TFR_FORCE");
    size_t name = strlen(op->def->op);
    while (p && *p) {
        size_t n = strcspn(p, ",");
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            size_t word = strlen(words[i].word);
            if (n == name + 1 + word && memcmp(p, op->def->op, name) == 0 && p[name] == ':' &&
                memcmp(p + name + 1, words[i].word, word) == 0) {
                op->is_forced = true;
                op->forced = words[i].path;
            }
        }
        p += n + (p[n] == ',');
    }
}

// ------------------------------------------------------------------ making
static const tfr_kernel *user_generic(tfr_op_kernels *op) {
    tfr_generated g;
    tfr_spec spec = {.label =
                         tfr_str_format(op->arena, "%s.%s", op->def->op, op->def->variant).data,
                     .template_text = op->text,
                     .template_name = op->def->template_name,
                     .generic = true};
    tfr_generate(&g, &spec, op->arena);
    tfr_jit_request request = {g.label, g.source, {0}};
    bool off = op->mode == TFR_JIT_OFF;
    const tfr_kernel *kernel = tfr_jit_kernel(&request, off ? TFR_JIT_OFF : TFR_JIT_SYNC, NULL);
    return kernel; // NULL: jit/ has warned, or it is off
}

tfr_op_kernels *tfr_op_kernels_new(const tfr_kernel_op *def, const tfr_kernel_ops *all,
                                   tfr_error *err) {
    tfr_arena *arena = tfr_arena_new();
    tfr_op_kernels *op = TFR_NEW(arena, tfr_op_kernels);
    op->def = def;
    op->arena = arena;
    op->mode = tfr_jit_mode_from_environment(NULL);
    if (tfr_request_template(&op->text, def, arena, err) == TFR_OK)
        op->generic = def->directory ? user_generic(op)
                                     : tfr_generic_find(def->template_name, tfr_cpu_chose_avx2());
    if (op->generic && !set_acts(op)) {
        tfr_fail(err, TFR_E_USAGE, "", 0, 0,
                 "%s.%s: %s has no option ACT with the values of acts.h", def->op, def->variant,
                 def->template_name);
        op->generic = NULL;
    }
    if (!op->generic || !set_options(op, all, err)) {
        tfr_arena_free(arena);
        return NULL;
    }
    read_force(op);
    uint32_t input = 0;
    for (uint32_t i = 0; i < def->argument_count; i++) {
        const tfr_kernel_argument *a = &def->arguments[i];
        if (a->specialize && op->width_count == TFR_MAX_WIDTHS) {
            tfr_fail(err, TFR_E_USAGE, "", 0, 0, "%s.%s: specialize= names more than %d tensors",
                     def->op, def->variant, TFR_MAX_WIDTHS);
            tfr_arena_free(arena);
            return NULL;
        }
        if (a->specialize)
            op->widths[op->width_count++] = input;
        input += a->kind == TFR_A_TENSOR || a->kind == TFR_A_OPTIONAL;
    }
    return op;
}

const tfr_kernel_op *tfr_op_kernels_def(const tfr_op_kernels *op) { return op->def; }

bool tfr_op_kernels_forced(const tfr_op_kernels *op, tfr_path *path) {
    *path = op->forced;
    return op->is_forced;
}

// ------------------------------------------------------------------ specialising
tfr_jit_request tfr_op_kernels_request(const tfr_op_kernels *op, const tfr_call *c, int64_t norm,
                                       int64_t act, tfr_str target, tfr_arena *arena) {
    tfr_spec_tensor tensors[TFR_MAX_INPUTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->def->argument_count; i++) {
        const tfr_kernel_argument *a = &op->def->arguments[i];
        if (a->kind != TFR_A_TENSOR && a->kind != TFR_A_OPTIONAL)
            continue;
        const tfr_array *in = &c->in[count];
        bool wide = a->specialize && in->dtype != TFR_NONE;
        tensors[count++] = (tfr_spec_tensor){a->name, in->dtype, wide ? tfr_last(in) : -1};
    }
    const char *options = op->option_text[norm];
    tfr_arena *scratch = tfr_arena_new();
    if (op->takes_act)
        options =
            tfr_str_format(scratch, "%s%sACT=%s", options, *options ? " " : "", act_names[act])
                .data;
    tfr_jit_request made = {{0}, {0}, {0}}; // a host template was there before
    (void)tfr_request_make(&made, op->def, target, options, tensors, count, scratch, NULL);
    tfr_jit_request kept = {
        {tfr_str_dup(arena, made.label), made.label.len},
        {tfr_str_dup(arena, made.source), made.source.len},
        {tfr_str_dup(arena, made.target), made.target.len},
    };
    tfr_arena_free(scratch);
    return kept;
}

int64_t tfr_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void ask(tfr_op_kernels *op, entry *e) {
    bool busy = tfr_jit_busy(); // before asking: a compiler that ends in between is asked again
    const tfr_kernel *kernel = tfr_jit_kernel(&e->request, op->mode, NULL);
    atomic_store_explicit(&e->asked, tfr_now_ns(), memory_order_relaxed);
    if (kernel)
        atomic_store_explicit(&e->kernel, kernel, memory_order_release);
    if (kernel || op->mode != TFR_JIT_ASYNC || !(busy || tfr_jit_busy()))
        atomic_store_explicit(&e->settled, true, memory_order_release);
}

static entry *find(entry *first, const tfr_op_key *key) {
    for (entry *e = first; e; e = e->next)
        if (tfr_op_key_equal(&e->key, key))
            return e;
    return NULL;
}

// Without a lock, which another thread's fork would leave taken. Two threads may make the same
// entry at once; the second throws its own away.
static entry *add(tfr_op_kernels *op, const tfr_call *c, const tfr_op_key *key, int64_t norm,
                  int64_t act) {
    tfr_arena *arena = tfr_arena_new();
    entry *e = TFR_NEW(arena, entry);
    e->key = *key;
    e->request = tfr_op_kernels_request(op, c, norm, act, (tfr_str){0}, arena);
    e->next = atomic_load_explicit(&op->entries, memory_order_acquire);
    do {
        entry *other = find(e->next, key);
        if (other) {
            tfr_arena_free(arena);
            return other;
        }
    } while (!atomic_compare_exchange_weak_explicit(&op->entries, &e->next, e, memory_order_acq_rel,
                                                    memory_order_acquire));
    ask(op, e);
    return e;
}

const tfr_kernel *tfr_op_kernels_generic(const tfr_op_kernels *op, tfr_call *c, int64_t norm,
                                         int64_t act) {
    if (norm < 0 || norm >= op->norm_count || !op->option_text[norm]) {
        c->error = "no kernel for this norm";
        return NULL;
    }
    if (act < 0 || act >= TFR_ACT_COUNT) {
        c->error = "no kernel for this activation";
        return NULL;
    }
    memcpy(c->option, op->options[norm], sizeof c->option);
    if (op->takes_act)
        c->option[op->act_slot] = op->first_act + (int32_t)act;
    return op->generic;
}

tfr_op_key tfr_op_kernels_key(const tfr_op_kernels *op, const tfr_call *c, int64_t norm,
                              int64_t act) {
    tfr_op_key key = {.dtypes = (uint64_t)norm << 40 | (uint64_t)act << 48};
    for (int32_t i = 0; i < c->input_count; i++)
        key.dtypes |= (uint64_t)(c->in[i].dtype + 1) << (2 * i);
    for (uint32_t i = 0; i < op->width_count; i++)
        key.widths[i] = tfr_last(&c->in[op->widths[i]]);
    return key;
}

const char *tfr_op_kernels_plan(const tfr_kernel *kernel, tfr_call *c) {
    c->units = 0;
    c->grain = 1;
    c->scratch = 0;
    c->error = "its arguments do not fit together";
    return kernel->plan(c) ? c->error : NULL;
}

tfr_jit_mode tfr_op_kernels_mode(const tfr_op_kernels *op) { return op->mode; }
tfr_device_kernels *tfr_op_kernels_on_device(tfr_op_kernels *op) { return &op->on_device; }

const tfr_kernel *tfr_op_kernels_choose(tfr_op_kernels *op, tfr_call *c, int64_t norm, int64_t act,
                                        tfr_path *path) {
    const tfr_kernel *generic = tfr_op_kernels_generic(op, c, norm, act);
    *path = TFR_PATH_GENERIC;
    if (!generic || op->mode == TFR_JIT_OFF || (op->is_forced && op->forced == TFR_PATH_GENERIC))
        return generic;
    tfr_op_key key = tfr_op_kernels_key(op, c, norm, act);
    entry *e = find(atomic_load_explicit(&op->entries, memory_order_acquire), &key);
    if (!e)
        e = add(op, c, &key, norm, act);
    const tfr_kernel *kernel = atomic_load_explicit(&e->kernel, memory_order_acquire);
    if (!kernel && !atomic_load_explicit(&e->settled, memory_order_acquire) &&
        tfr_now_ns() - atomic_load_explicit(&e->asked, memory_order_relaxed) > TFR_POLL_NS) {
        ask(op, e);
        kernel = atomic_load_explicit(&e->kernel, memory_order_acquire);
    }
    if (!kernel)
        return generic;
    *path = TFR_PATH_JIT;
    return kernel;
}
