// One boxed function serves every op. Torch gives such a function nothing that says which op it
// is, so there is a row of small functions, one per place in the table, for each of two devices.
#define _GNU_SOURCE // dl_iterate_phdr, dladdr
#include "runtime/ops.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/aten_calls.h"
#include "runtime/device_kernels.h"
#include "runtime/linear_choice.h"
#include "runtime/op_call.h"
#include "runtime/torch_abi.h"

#define MAX_OPS 256
#define MESSAGE 512

static struct {
    pthread_mutex_t lock; // of everything here but `ops`, whose filled rows never change
    tfr_op_kernels *ops[MAX_OPS];
    uint32_t count;
    // Kept: deleting them would undo the registration.
    tfr_library definitions, implementations, device_implementations;
    tfr_arena *arena;
    tfr_buf names;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

tfr_torch_numbers tfr_numbers_of_torch;
static _Thread_local const char *last_path = "";

// ------------------------------------------------------------------ one call
static int32_t dtype_of(int32_t torch) {
    for (int32_t dtype = TFR_F32; dtype <= TFR_F16; dtype++)
        if (torch == tfr_numbers_of_torch.dtype[dtype])
            return dtype;
    return TFR_NONE;
}

// The first tensor says which device the call is on.
static const char *read_device(tfr_op_call *s, tfr_tensor t) {
    int32_t type, index;
    if (tfr_torch.aoti_torch_get_device_type(t, &type) ||
        tfr_torch.aoti_torch_get_device_index(t, &index))
        return "a tensor does not say where it is";
    index = index < 0 ? 0 : index;
    if (s->device_type < 0) {
        s->device_type = type;
        s->device = index;
    }
    return type == s->device_type && index == s->device ? NULL
                                                        : "its tensors are on different devices";
}

static const char *read_tensor(tfr_op_call *s, tfr_tensor t) {
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
    a->dtype = dtype_of(dtype);
    if (a->dtype == TFR_NONE)
        return "tensors must be float32, bfloat16 or float16";
    a->ndim = (int32_t)ndim;
    for (int i = 0; i < a->ndim; i++) {
        a->size[i] = sizes[i];
        a->stride[i] = strides[i];
    }
    return s->on_device ? read_device(s, t) : NULL;
}

// Takes the arguments off the stack. All of them, also after a fault: their handles are ours.
static const char *read_arguments(tfr_op_call *s, const tfr_kernel_op *def,
                                  const tfr_value_bits *stack) {
    const char *why = NULL;
    int numbers = 0;
    s->c.input_count = 0;
    s->c.output_count = (int32_t)def->output_count;
    s->device_type = s->on_device ? -1 : tfr_numbers_of_torch.cpu;
    s->device = 0;
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
    return why;
}

const char *tfr_op_call_allocate(tfr_op_call *s) {
    for (int32_t i = 0; i < s->c.output_count; i++) {
        tfr_array *a = &s->c.out[i];
        if (tfr_torch.aoti_torch_empty_strided(a->ndim, a->size, a->stride,
                                               tfr_numbers_of_torch.dtype[a->dtype], s->device_type,
                                               s->device, &s->out[i]) ||
            tfr_torch.aoti_torch_get_data_ptr(s->out[i], &a->data))
            return "no memory for the result";
    }
    return NULL;
}

void tfr_op_call_release_outputs(tfr_op_call *s) {
    for (int32_t i = 0; i < s->c.output_count; i++) {
        if (s->out[i])
            tfr_torch.aoti_torch_delete_tensor_object(s->out[i]);
        s->out[i] = NULL;
    }
}

const char *tfr_op_call_aten(tfr_op_kernels *op, tfr_op_call *s, const char **path) {
    const tfr_kernel_op *def = tfr_op_kernels_def(op);
    tfr_aten_inputs in = {.tensors = s->in, .numbers = s->c.number, .norm = s->norm, .act = s->act};
    *path = "aten";
    return def->aten ? tfr_aten_run(def->aten, &in, s->out) : def->no_aten;
}

// ------------------------------------------------------------------ entry
static void pass_warnings_on(void) {
    char text[MESSAGE];
    while (tfr_jit_take_warning(text, sizeof text))
        tfr_torch.aoti_torch_warn("tfrewrite", "runtime/ops.c", 0, text);
}

static void op_call(tfr_op_kernels *op, tfr_value_bits *stack, bool on_device) {
    tfr_op_call s;
    const tfr_kernel_op *def = tfr_op_kernels_def(op);
    s.on_device = on_device;
    s.fatal = false;
    memset(s.out, 0, sizeof s.out);
    const char *why = read_arguments(&s, def, stack), *path = last_path;
    if (!why)
        why = on_device ? tfr_op_call_device(op, &s, &path) : tfr_op_call_host(op, &s, &path);
    for (int32_t i = 0; i < s.c.input_count; i++)
        if (s.in[i])
            tfr_torch.aoti_torch_delete_tensor_object(s.in[i]);
    if (why) {
        tfr_op_call_release_outputs(&s);
        // Python runs the reference after an error that starts with the op's name, and no other.
        char message[MESSAGE];
        (void)snprintf(message, sizeof message, "%stfr::%s.%s: %s", s.fatal ? "tfrewrite: " : "",
                       def->op, def->variant, why);
        tfr_torch_raise(message);
    }
    last_path = path;
    for (uint32_t i = 0; i < def->output_count; i++)
        stack[i] = tfr_torch_from_tensor(s.out[i]);
    pass_warnings_on();
}

#define ENTRY(n)                                                                                   \
    static void entry_##n(tfr_value_bits *stack, uint64_t arguments, uint64_t results) {           \
        (void)arguments, (void)results;                                                            \
        op_call(registry.ops[0x##n], stack, false);                                                \
    }                                                                                              \
    static void device_entry_##n(tfr_value_bits *stack, uint64_t arguments, uint64_t results) {    \
        (void)arguments, (void)results;                                                            \
        op_call(registry.ops[0x##n], stack, true);                                                 \
    }
#define NAME(n) entry_##n,
#define DEVICE_NAME(n) device_entry_##n,
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
static const tfr_boxed device_entries[MAX_OPS] = {TABLE(DEVICE_NAME)};

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
    tfr_numbers_of_torch =
        (tfr_torch_numbers){.dtype = {[TFR_F32] = tfr_torch.aoti_torch_dtype_float32(),
                                      [TFR_BF16] = tfr_torch.aoti_torch_dtype_bfloat16(),
                                      [TFR_F16] = tfr_torch.aoti_torch_dtype_float16()},
                            .cpu = tfr_torch.aoti_torch_device_type_cpu()};
    if (tfr_torch.aoti_torch_library_init_def("tfr", "runtime/ops.c", 1, &registry.definitions) ||
        tfr_torch.aoti_torch_library_init_impl("tfr", "CPU", "runtime/ops.c", 1,
                                               &registry.implementations) ||
        tfr_torch.aoti_torch_library_init_impl("tfr", "CUDA", "runtime/ops.c", 1,
                                               &registry.device_implementations)) {
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
        !tfr_torch_implement(registry.implementations, name, entries[registry.count]) ||
        !tfr_torch_implement(registry.device_implementations, name, device_entries[registry.count]))
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
void tfr_torch_adopt(void) { tfr_device_adopt(); }
void tfr_torch_observe_launches(tfr_launch_observer *observer) { tfr_device_observe(observer); }

const char *tfr_torch_device_fault(int32_t device, char *target) {
    static _Thread_local char why[TFR_DRIVER_MESSAGE];
    const tfr_cuda_target *row = tfr_driver_target(device, why);
    if (row && target)
        (void)snprintf(target, 32, "%s", row->name);
    return row ? NULL : why;
}

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
