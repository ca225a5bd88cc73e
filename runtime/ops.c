// One boxed function serves every op. Torch gives such a function nothing that says which op it
// is, so there is a row of small functions, one per place in the table.
#define _GNU_SOURCE // dl_iterate_phdr, dladdr
#include "runtime/ops.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/linear_choice.h"
#include "runtime/op_kernels.h"
#include "runtime/torch_abi.h"

#define MAX_OPS 256
#define MESSAGE 512

static struct {
    pthread_mutex_t lock; // of everything here but `ops`, whose filled rows never change
    tfr_op_kernels *ops[MAX_OPS];
    uint32_t count;
    tfr_library definitions, implementations; // kept: deleting them would undo the registration
    tfr_arena *arena;
    tfr_buf names;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int32_t float32, bfloat16, cpu; // torch's numbers, set before the first op is registered
static _Thread_local const char *last_path = "";

// ------------------------------------------------------------------ one call
typedef struct call_state {
    tfr_call c;
    tfr_tensor in[TFR_MAX_INPUTS], out[TFR_MAX_OUTPUTS];
    void *copies[TFR_MAX_INPUTS];
    int32_t copy_count;
    int64_t norm, act;
    const tfr_kernel *kernel;
} call_state;

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

// Kernels take inputs with neighbours in the last dimension side by side; others are copied.
static void make_dense(call_state *s, tfr_array *a) {
    int64_t count = 1;
    if (a->size[a->ndim - 1] <= 1)
        a->stride[a->ndim - 1] = 1;
    if (a->stride[a->ndim - 1] == 1)
        return;
    for (int i = 0; i < a->ndim; i++)
        count *= a->size[i];
    size_t width = a->dtype == TFR_BF16 ? 2 : 4;
    char *copy = tfr_alloc((size_t)count * width);
    if (count)
        copy_strided(copy, a->data, a, width);
    tfr_array dense;
    tfr_out_dense(&dense, a, a->size[a->ndim - 1], a->dtype);
    dense.data = s->copies[s->copy_count++] = copy;
    *a = dense;
}

static const char *read_tensor(call_state *s, tfr_tensor t) {
    int64_t ndim, *sizes, *strides;
    int32_t dtype;
    tfr_array *a = &s->c.in[s->c.input_count];
    s->in[s->c.input_count++] = t;
    if (!t) {
        *a = (tfr_array){.dtype = TFR_NONE};
        return NULL;
    }
    if (tfr_torch.aoti_torch_get_dim(t, &ndim) || tfr_torch.aoti_torch_get_dtype(t, &dtype) ||
        tfr_torch.aoti_torch_get_sizes(t, &sizes) ||
        tfr_torch.aoti_torch_get_strides(t, &strides) ||
        tfr_torch.aoti_torch_get_data_ptr(t, &a->data))
        return "a tensor cannot be read: it has no memory of its own";
    if (ndim < 1 || ndim > TFR_MAX_DIMS)
        return "tensors must have 1 to 8 dimensions";
    if (dtype != float32 && dtype != bfloat16)
        return "tensors must be float32 or bfloat16";
    a->dtype = dtype == float32 ? TFR_F32 : TFR_BF16;
    a->ndim = (int32_t)ndim;
    for (int i = 0; i < a->ndim; i++) {
        a->size[i] = sizes[i];
        a->stride[i] = strides[i];
    }
    return NULL;
}

// Takes the arguments off the stack. All of them, also after a fault: their handles are ours.
static const char *read_arguments(call_state *s, const tfr_kernel_op *def,
                                  const tfr_value_bits *stack) {
    const char *why = NULL;
    int numbers = 0;
    s->c.input_count = 0;
    s->c.output_count = (int32_t)def->output_count;
    s->copy_count = 0;
    s->norm = -1;
    s->act = 0;
    for (uint32_t i = 0; i < def->argument_count; i++) {
        const char *fault = NULL;
        int64_t integer = (int64_t)stack[i];
        switch (def->arguments[i].kind) {
        case TFR_A_TENSOR:
            fault = read_tensor(s, tfr_torch_to_tensor(stack[i]));
            break;
        case TFR_A_OPTIONAL:
            fault = read_tensor(s, tfr_torch_take_optional(stack[i]));
            break;
        case TFR_A_FLOAT:
            memcpy(&s->c.number[numbers++], &stack[i], sizeof(double));
            break;
        case TFR_A_INT:
            s->c.number[numbers++] = (double)integer;
            break;
        case TFR_A_NORM: // two norms of one op have one variant: the wrapper sees to it
            if (s->norm >= 0 && s->norm != integer)
                fault = "the norms of one call must be of one kind";
            s->norm = integer;
            break;
        case TFR_A_ACT:
            s->act = integer;
            break;
        }
        why = why ? why : fault;
    }
    s->norm = s->norm < 0 ? 0 : s->norm;
    for (int32_t i = 0; i < s->c.input_count && !why; i++)
        if (s->c.in[i].dtype != TFR_NONE)
            make_dense(s, &s->c.in[i]);
    return why;
}

static const char *allocate(call_state *s) {
    for (int32_t i = 0; i < s->c.output_count; i++) {
        tfr_array *a = &s->c.out[i];
        int32_t dtype = a->dtype == TFR_F32 ? float32 : bfloat16;
        if (tfr_torch.aoti_torch_empty_strided(a->ndim, a->size, a->stride, dtype, cpu, 0,
                                               &s->out[i]) ||
            tfr_torch.aoti_torch_get_data_ptr(s->out[i], &a->data))
            return "no memory for the result";
    }
    return NULL;
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

static void run_share(int64_t begin, int64_t end, void *context) {
    const call_state *s = context;
    s->kernel->run(&s->c, begin, end, scratch_get((size_t)s->c.scratch));
}

static const char *run(tfr_op_kernels *op, call_state *s) {
    tfr_path path;
    s->kernel = tfr_op_kernels_choose(op, &s->c, s->norm, s->act, &path);
    if (!s->kernel)
        return s->c.error;
    s->c.units = 0;
    s->c.grain = 1;
    s->c.scratch = 0;
    s->c.error = "its arguments do not fit together";
    if (s->kernel->plan(&s->c))
        return s->c.error;
    const char *why = allocate(s);
    if (!why && s->c.units > 0)
        tfr_torch_parallel(0, s->c.units, s->c.grain, run_share, s);
    last_path = path == TFR_PATH_JIT ? "jit" : "generic";
    return why;
}

// ------------------------------------------------------------------ entry
static void pass_warnings_on(void) {
    char text[MESSAGE];
    while (tfr_jit_take_warning(text, sizeof text))
        tfr_torch.aoti_torch_warn("tfrewrite", "runtime/ops.c", 0, text);
}

static void op_call(tfr_op_kernels *op, tfr_value_bits *stack) {
    call_state s;
    const tfr_kernel_op *def = tfr_op_kernels_def(op);
    memset(s.out, 0, sizeof s.out);
    const char *why = read_arguments(&s, def, stack);
    if (!why && def->is_linear && tfr_linear_prefers_torch(op, &s.c)) {
        if (tfr_linear_by_torch(s.out, def->output_count, s.in))
            last_path = "torch";
        else
            why = "torch's linear failed; it printed why";
    } else if (!why) {
        why = run(op, &s);
    }
    for (int32_t i = 0; i < s.copy_count; i++)
        tfr_release(s.copies[i]);
    for (int32_t i = 0; i < s.c.input_count; i++)
        if (s.in[i])
            tfr_torch.aoti_torch_delete_tensor_object(s.in[i]);
    if (why) {
        for (uint32_t i = 0; i < def->output_count; i++)
            if (s.out[i])
                tfr_torch.aoti_torch_delete_tensor_object(s.out[i]);
        char message[MESSAGE];
        (void)snprintf(message, sizeof message, "tfr::%s.%s: %s", def->op, def->variant, why);
        tfr_torch_raise(message);
    }
    for (uint32_t i = 0; i < def->output_count; i++)
        stack[i] = tfr_torch_from_tensor(s.out[i]);
    pass_warnings_on();
}

#define ENTRY(n)                                                                                   \
    static void entry_##n(tfr_value_bits *stack, uint64_t arguments, uint64_t results) {           \
        (void)arguments, (void)results;                                                            \
        op_call(registry.ops[0x##n], stack);                                                       \
    }
#define NAME(n) entry_##n,
// It does not settle on one form of these two.
// clang-format off
#define ROW(X, h)                                                                                  \
    X(h##0) X(h##1) X(h##2) X(h##3) X(h##4) X(h##5) X(h##6) X(h##7)                                \
    X(h##8) X(h##9) X(h##a) X(h##b) X(h##c) X(h##d) X(h##e) X(h##f)
#define TABLE(X)                                                                                   \
    ROW(X, 0) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6) ROW(X, 7)                \
    ROW(X, 8) ROW(X, 9) ROW(X, a) ROW(X, b) ROW(X, c) ROW(X, d) ROW(X, e) ROW(X, f)
// clang-format on
TABLE(ENTRY)
static const tfr_boxed entries[MAX_OPS] = {TABLE(NAME)};

// ------------------------------------------------------------------ registration
static int find_other_copy(struct dl_phdr_info *info, size_t size, void *out) {
    (void)size;
    Dl_info own;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash, "/libtfrewrite", 13) != 0 ||
        !dladdr((const void *)tfr_torch_register, &own) ||
        (uintptr_t)own.dli_fbase == (uintptr_t)info->dlpi_addr)
        return 0;
    *(const char **)out = info->dlpi_name;
    return 1;
}

static const char *fail(const char *what, const char *detail) {
    return tfr_str_format(registry.arena, "%s%s%s", what, detail ? ": " : "", detail ? detail : "")
        .data;
}

static const char *open_libraries(void) {
    const char *why = tfr_torch_resolve();
    if (why)
        return fail(why, NULL);
    const char *other = NULL;
    dl_iterate_phdr(find_other_copy, &other);
    if (other)
        return fail("another copy of tfrewrite's library is loaded, and torch takes the ops of "
                    "one only",
                    other);
    float32 = tfr_torch.aoti_torch_dtype_float32();
    bfloat16 = tfr_torch.aoti_torch_dtype_bfloat16();
    cpu = tfr_torch.aoti_torch_device_type_cpu();
    if (tfr_torch.aoti_torch_library_init_def("tfr", "runtime/ops.c", 1, &registry.definitions) ||
        tfr_torch.aoti_torch_library_init_impl("tfr", "CPU", "runtime/ops.c", 1,
                                               &registry.implementations)) {
        registry.definitions = NULL;
        return fail("torch refused the library `tfr`", tfr_torch_last_error());
    }
    return NULL;
}

static bool is_registered(const tfr_kernel_op *def) {
    for (uint32_t i = 0; i < registry.count; i++) {
        const tfr_kernel_op *other = tfr_op_kernels_def(registry.ops[i]);
        if (strcmp(other->op, def->op) == 0 && strcmp(other->variant, def->variant) == 0)
            return true;
    }
    return false;
}

static const char *register_op(const tfr_kernel_op *def, const tfr_kernel_ops *all) {
    tfr_error err = {0};
    if (registry.count == MAX_OPS)
        return fail("more than 256 kernels", NULL);
    tfr_op_kernels *op = tfr_op_kernels_new(def, all, &err);
    if (!op)
        return *err.message ? fail(err.message, NULL) : NULL;
    const char *name = tfr_str_format(registry.arena, "tfr::%s.%s", def->op, def->variant).data;
    registry.ops[registry.count] = op;
    if (!tfr_torch_define(registry.definitions, def->schema) ||
        !tfr_torch_implement(registry.implementations, name, entries[registry.count]))
        return fail(name, tfr_torch_last_error());
    registry.count++;
    tfr_buf_format(&registry.names, "%s\t%s\n", def->op, def->variant);
    return NULL;
}

// The rules stay loaded: the ops point into them.
static const char *register_all(const char *directories) {
    const char *dirs[64];
    size_t count = 0;
    tfr_arena *arena = registry.arena;
    for (const char *p = directories ? directories : ""; *p && count < 64;) {
        size_t n = strcspn(p, ":");
        if (n)
            dirs[count++] = tfr_str_dup(arena, (tfr_str){p, n});
        p += n + (p[n] == ':');
    }
    tfr_rules *rules;
    tfr_error err;
    if (tfr_rules_new(&rules, dirs, count, &err) != TFR_OK)
        return fail(err.path, err.message);
    tfr_kernel_ops *all = TFR_NEW(arena, tfr_kernel_ops);
    tfr_kernels_list(all, rules, arena);
    const char *first = NULL; // what is wrong with one op does not stop the others
    for (uint32_t i = 0; i < all->ops.count; i++) {
        const char *why =
            is_registered(&all->ops.items[i]) ? NULL : register_op(&all->ops.items[i], all);
        first = first ? first : why;
    }
    return first;
}

const char *tfr_torch_register(const char *directories) {
    pthread_mutex_lock(&registry.lock);
    if (!registry.arena)
        registry.names.arena = registry.arena = tfr_arena_new();
    const char *why = registry.definitions ? NULL : open_libraries();
    if (!why)
        why = register_all(directories);
    pthread_mutex_unlock(&registry.lock);
    return why;
}

const char *tfr_torch_registered(void) {
    pthread_mutex_lock(&registry.lock);
    const char *names =
        registry.arena ? tfr_str_dup(registry.arena, tfr_buf_str(&registry.names)) : "";
    pthread_mutex_unlock(&registry.lock);
    return names;
}

const char *tfr_torch_last_path(void) { return last_path; }
bool tfr_torch_take_warning(char *out, size_t size) { return tfr_jit_take_warning(out, size); }
void tfr_torch_wait(void) { tfr_jit_wait(); }

static tfr_linear_shape linear_shape(int dtype, int rows, int64_t columns, int64_t width) {
    return (tfr_linear_shape){dtype, (tfr_row_class)rows, columns, width};
}
void tfr_torch_force_linear(int path) { tfr_linear_force(path >= 0, path == 1); }
bool tfr_torch_linear_known(int dtype, int rows, int64_t columns, int64_t width) {
    tfr_linear_shape shape = linear_shape(dtype, rows, columns, width);
    return tfr_linear_is_known(&shape);
}
bool tfr_torch_linear_default(int dtype, int rows, int64_t columns, int64_t width) {
    tfr_linear_shape shape = linear_shape(dtype, rows, columns, width);
    return tfr_linear_default(&shape);
}
void tfr_torch_linear_remember(int dtype, int rows, int64_t columns, int64_t width, bool torch) {
    tfr_linear_shape shape = linear_shape(dtype, rows, columns, width);
    (void)tfr_linear_remember(&shape, torch);
}
