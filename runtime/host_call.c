// A call on the CPU: inputs with gaps in their last dimension are copied, the kernel runs in
// torch's threads, each with scratch memory that it keeps.
#include <pthread.h>

#include "runtime/linear_choice.h"
#include "runtime/op_call.h"

typedef struct copies {
    void *items[TFR_MAX_INPUTS];
    int32_t count;
} copies;

static void copy_strided(char *to, const char *from, const tfr_array *a, size_t width) {
    int64_t index[TFR_MAX_DIMS] = {0}, last = a->size[a->ndim - 1];
    for (;;) {
        int64_t at = 0;
        for (int i = 0; i + 1 < a->ndim; i++)
            at += index[i] * a->stride[i];
        for (int64_t i = 0; i < last; i++, to += width)
            memcpy(to, from + (size_t)(at + i * a->stride[a->ndim - 1]) * width, width);
        int d = a->ndim - 2;
        while (d >= 0 && ++index[d] == a->size[d])
            index[d--] = 0;
        if (d < 0)
            return;
    }
}

// Kernels take inputs with neighbours in the last dimension side by side.
static void make_dense(tfr_array *a, copies *made) {
    int64_t count = 1;
    if (a->size[a->ndim - 1] <= 1)
        a->stride[a->ndim - 1] = 1;
    if (a->stride[a->ndim - 1] == 1)
        return;
    for (int i = 0; i < a->ndim; i++)
        count *= a->size[i];
    size_t width = a->dtype == TFR_F32 ? 4 : 2;
    char *copy = tfr_alloc((size_t)count * width);
    if (count)
        copy_strided(copy, a->data, a, width);
    tfr_array dense;
    tfr_out_dense(&dense, a, a->size[a->ndim - 1], a->dtype);
    dense.data = made->items[made->count++] = copy;
    *a = dense;
}

// ------------------------------------------------------------------ scratch and threads
typedef struct scratch {
    void *data;
    size_t size;
} scratch;

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void scratch_free(void *p) {
    scratch *s = p;
    tfr_release(s->data);
    tfr_release(s);
}
static void scratch_init(void) { pthread_key_create(&scratch_key, scratch_free); }

// This thread's memory for kernels, kept between calls.
static void *scratch_get(size_t size) {
    if (!size)
        return NULL;
    pthread_once(&scratch_once, scratch_init);
    scratch *s = pthread_getspecific(scratch_key);
    if (!s) {
        s = tfr_alloc(sizeof *s);
        *s = (scratch){0};
        pthread_setspecific(scratch_key, s);
    }
    if (s->size < size) {
        tfr_release(s->data);
        s->data = tfr_alloc_aligned(64, size);
        s->size = size;
    }
    return s->data;
}

typedef struct work {
    const tfr_call *c;
    const tfr_kernel *kernel;
} work;

static void run_share(int64_t begin, int64_t end, void *context) {
    const work *w = context;
    w->kernel->run(w->c, begin, end, scratch_get((size_t)w->c->scratch));
}

static const char *run(tfr_op_kernels *op, tfr_op_call *s, const char **path) {
    tfr_path which;
    work w = {&s->c, tfr_op_kernels_choose(op, &s->c, s->norm, s->act, &which)};
    const char *why = w.kernel ? tfr_op_kernels_plan(w.kernel, &s->c) : s->c.error;
    if (!why)
        why = tfr_op_call_allocate(s);
    if (!why && s->c.units > 0)
        tfr_torch_parallel(0, s->c.units, s->c.grain, run_share, &w);
    *path = which == TFR_PATH_JIT ? "jit" : "generic";
    return why;
}

const char *tfr_op_call_host(tfr_op_kernels *op, tfr_op_call *s, const char **path) {
    const tfr_kernel_op *def = tfr_op_kernels_def(op);
    tfr_path forced;
    if (tfr_op_kernels_forced(op, &forced) && forced == TFR_PATH_ATEN)
        return tfr_op_call_aten(op, s, path);
    for (int32_t i = 0; i < s->c.input_count; i++)
        if (s->c.in[i].dtype == TFR_F16)
            return "on the CPU tensors must be float32 or bfloat16";
    copies made = {.count = 0};
    for (int32_t i = 0; i < s->c.input_count; i++)
        if (s->c.in[i].dtype != TFR_NONE)
            make_dense(&s->c.in[i], &made);
    const char *why = NULL;
    if (def->is_linear && tfr_linear_prefers_torch(op, &s->c)) {
        *path = "torch";
        if (!tfr_linear_by_torch(s->out, def->output_count, s->in))
            why = "torch's linear failed; it printed why";
    } else {
        why = run(op, s, path);
    }
    for (int32_t i = 0; i < made.count; i++)
        tfr_release(made.items[i]);
    return why;
}
