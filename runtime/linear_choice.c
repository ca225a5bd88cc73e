// Measurements are made by tfrewrite.prepare, never in the middle of a call: they would cost more
// than they save, and ranks could come to different kernels.
#include "runtime/linear_choice.h"

#include <stdatomic.h>
#include <stdio.h>

#include "jit/cache.h"
#include "jit/cpu.h"

#define FEW_ROWS 8

typedef struct choice {
    struct choice *next;
    tfr_linear_shape shape;
    _Atomic bool known, torch; // known: stored, not the default
} choice;

static _Atomic(choice *) choices; // only ever added to
static _Thread_local bool is_forced, forced_torch;

// Few rows are bound by memory, which our kernel reads better. Many rows are a matrix library's own
// field: torch's makes use of AVX-512 and AMX, ours is made for AVX2, where torch's bfloat16 is
// slow and its float32 no faster (bench/ops.py).
bool tfr_linear_default(const tfr_linear_shape *shape) {
    return shape->rows == TFR_ROWS_MANY &&
           (!tfr_cpu_chose_avx2() || tfr_cpu_runs(TFR_STR("x86_64:avx512f")));
}

static bool same(const tfr_linear_shape *a, const tfr_linear_shape *b) {
    return a->dtype == b->dtype && a->rows == b->rows && a->columns == b->columns &&
           a->width == b->width;
}

static choice *find(choice *first, const tfr_linear_shape *shape) {
    for (choice *c = first; c; c = c->next)
        if (same(&c->shape, shape))
            return c;
    return NULL;
}

static tfr_str name_of(const tfr_linear_shape *shape, char *out, size_t size) {
    static const char *const rows[] = {"1 row", "2-8 rows", "more rows"};
    char cpu[256];
    tfr_cpu_model(cpu, sizeof cpu);
    int n =
        snprintf(out, size, "linear %s %lldx%lld, %s, %s", shape->dtype == TFR_F32 ? "f32" : "bf16",
                 (long long)shape->columns, (long long)shape->width, rows[shape->rows], cpu);
    return (tfr_str){out, n > 0 && (size_t)n < size ? (size_t)n : 0};
}

// Without a lock, which another thread's fork would leave taken.
static choice *look_up(const tfr_linear_shape *shape) {
    choice *first = atomic_load_explicit(&choices, memory_order_acquire);
    choice *other = find(first, shape);
    if (other)
        return other;
    char name[TFR_CHOICE_MAX], value[16];
    bool known = tfr_choice_get(name_of(shape, name, sizeof name), value, sizeof value);
    choice *c = tfr_alloc(sizeof *c);
    c->shape = *shape;
    atomic_init(&c->known, known);
    atomic_init(&c->torch, known ? strcmp(value, "torch") == 0 : tfr_linear_default(shape));
    c->next = first;
    while (!atomic_compare_exchange_weak_explicit(&choices, &c->next, c, memory_order_acq_rel,
                                                  memory_order_acquire)) {
        other = find(c->next, shape); // another thread's, made meanwhile
        if (other) {
            tfr_release(c);
            return other;
        }
    }
    return c;
}

static tfr_linear_shape shape_of(const tfr_call *c) {
    int64_t rows = tfr_rows(&c->in[0]), columns = 0;
    for (int32_t i = 1; i < c->input_count; i += 2)
        columns += c->in[i].size[0];
    return (tfr_linear_shape){.dtype = c->in[0].dtype,
                              .rows = rows <= 1          ? TFR_ROWS_ONE
                                      : rows <= FEW_ROWS ? TFR_ROWS_FEW
                                                         : TFR_ROWS_MANY,
                              .columns = columns,
                              .width = tfr_last(&c->in[0])};
}

bool tfr_linear_prefers_torch(const tfr_op_kernels *op, const tfr_call *c) {
    tfr_path forced;
    if (is_forced)
        return forced_torch;
    if (tfr_op_kernels_forced(op, &forced))
        return forced == TFR_PATH_TORCH;
    tfr_linear_shape shape = shape_of(c);
    return atomic_load_explicit(&look_up(&shape)->torch, memory_order_relaxed);
}

bool tfr_linear_is_known(const tfr_linear_shape *shape) {
    return atomic_load_explicit(&look_up(shape)->known, memory_order_relaxed);
}

bool tfr_linear_remember(const tfr_linear_shape *shape, bool torch) {
    char name[TFR_CHOICE_MAX], value[16] = "";
    tfr_str word = torch ? TFR_STR("torch") : TFR_STR("kernel");
    tfr_choice_put(name_of(shape, name, sizeof name), word, value, sizeof value);
    bool holds = *value ? strcmp(value, "torch") == 0 : torch;
    choice *c = look_up(shape);
    atomic_store_explicit(&c->torch, holds, memory_order_relaxed);
    atomic_store_explicit(&c->known, true, memory_order_relaxed);
    return holds;
}

void tfr_linear_force(bool on, bool torch) {
    is_forced = on;
    forced_torch = torch;
}

tfr_tensor tfr_linear_one(tfr_tensor x, tfr_tensor weight, tfr_tensor bias) {
    tfr_tensor own[3] = {NULL, NULL, NULL}, given[] = {x, weight, bias};
    for (int i = 0; i < 3; i++)
        if (given[i])
            tfr_torch.aoti_torch_new_tensor_handle(given[i], &own[i]);
    tfr_value_bits stack[3] = {tfr_torch_from_tensor(own[0]), tfr_torch_from_tensor(own[1]),
                               tfr_torch_give_optional(own[2])};
    return tfr_torch_call("aten::linear", "", stack) ? tfr_torch_to_tensor(stack[0]) : NULL;
}

bool tfr_linear_by_torch(tfr_tensor *out, uint32_t modules, const tfr_tensor *in) {
    for (uint32_t i = 0; i < modules; i++) {
        out[i] = tfr_linear_one(in[0], in[1 + 2 * i], in[2 + 2 * i]);
        if (!out[i]) {
            while (i-- > 0) {
                tfr_torch.aoti_torch_delete_tensor_object(out[i]);
                out[i] = NULL;
            }
            return false;
        }
    }
    return true;
}
