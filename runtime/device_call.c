// A call on a CUDA device: the op's kernel where there is one, else the aten calls of its rule, on
// torch's stream and in torch's memory. Nothing here waits for the device.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "jit/warn.h"
#include "runtime/device_kernels.h"
#include "runtime/device_layout.h"
#include "runtime/device_linear.h"
#include "runtime/op_call.h"

static _Atomic(tfr_launch_observer *) observer;

void tfr_device_observe(tfr_launch_observer *wanted) { atomic_store(&observer, wanted); }

// ------------------------------------------------------------------ the stream
typedef struct place {
    int32_t device;
    tfr_stream stream;
} place;

// CPU tensors get here in tests, through the dispatch key; they have no stream of their own.
static const char *find_place(place *out, const tfr_op_call *s) {
    *out = (place){s->device, NULL};
    if (s->device_type == tfr_numbers_of_torch.cpu ||
        tfr_torch_cuda_stream(s->device, &out->stream))
        return NULL;
    return "torch does not give its CUDA stream";
}

static bool is_capturing(void *context) {
    const place *p = context;
    return tfr_driver_is_capturing(p->device, p->stream);
}

// ------------------------------------------------------------------ without a kernel
static bool may_capture_fallback(void) {
    const char *text = getenv("TFR_CAPTURE");
    return text && strcmp(text, "fallback") == 0;
}

// No kernel, but there could be one: a graph captured now would keep the slow way for ever.
static const char *fall_back_for_now(tfr_op_kernels *op, tfr_op_call *s, place *at,
                                     const char **path) {
    if (tfr_op_kernels_mode(op) == TFR_JIT_OFF || may_capture_fallback() || !is_capturing(at))
        return tfr_op_call_aten(op, s, path);
    s->fatal = true;
    return "its kernel is not loaded while a CUDA graph is being captured. Call it once with these "
           "shapes before the capture (with TFR_JIT=sync, or after `tfrewrite warmup`), or set "
           "TFR_CAPTURE=fallback to capture its torch operations instead";
}

// ------------------------------------------------------------------ with one
static int64_t extent(const tfr_array *a) {
    int64_t last = 0;
    for (int i = 0; i < a->ndim; i++) {
        if (a->size[i] == 0)
            return 0;
        last += (a->size[i] - 1) * a->stride[i];
    }
    return (last + 1) * tfr_size_of(a->dtype);
}

static void tell(tfr_launch_observer *told, const char *op, const tfr_call *c) {
    void *data[TFR_MAX_INPUTS + TFR_MAX_OUTPUTS];
    int64_t bytes[TFR_MAX_INPUTS + TFR_MAX_OUTPUTS];
    int32_t written[TFR_MAX_INPUTS + TFR_MAX_OUTPUTS], count = 0;
    for (int32_t i = 0; i < c->input_count + c->output_count; i++) {
        bool out = i >= c->input_count;
        const tfr_array *a = out ? &c->out[i - c->input_count] : &c->in[i];
        if (a->dtype == TFR_NONE)
            continue;
        data[count] = a->data;
        bytes[count] = extent(a);
        written[count++] = out;
    }
    told(op, count, data, bytes, written);
}

// The shapes of a call, for the one message about a lost context.
static void describe(char *out, size_t size, const tfr_call *c) {
    size_t n = 0;
    for (int32_t i = 0; i < c->input_count && n < size; i++) {
        const tfr_array *a = &c->in[i];
        if (a->dtype == TFR_NONE)
            continue;
        n += (size_t)snprintf(out + n, size - n, "%s[", n ? ", " : "");
        for (int d = 0; d < a->ndim && n < size; d++)
            n +=
                (size_t)snprintf(out + n, size - n, "%s%lld", d ? ", " : "", (long long)a->size[d]);
        if (n < size)
            n += (size_t)snprintf(out + n, size - n, "]");
    }
}

static const char *lost(const tfr_kernel_op *def, tfr_op_call *s, const char *why) {
    static _Thread_local char message[TFR_DRIVER_MESSAGE + 256];
    char shapes[200] = "";
    describe(shapes, sizeof shapes, &s->c);
    (void)snprintf(message, sizeof message,
                   "%s. A kernel launched before, by anybody, has failed, and this process can use "
                   "the device no more; it was noticed at %s with inputs %s",
                   why, def->op, shapes);
    s->fatal = true;
    return message;
}

static const char *launch(const tfr_kernel_op *def, tfr_op_call *s, const tfr_device_args *args,
                          const tfr_driver_kernel *kernel, const place *at, bool *refused) {
    char why[TFR_DRIVER_MESSAGE];
    tfr_launch_observer *told = atomic_load_explicit(&observer, memory_order_relaxed);
    if (told)
        tell(told, def->op, &s->c);
    switch (tfr_driver_launch(kernel, at->device, at->stream, args->units, args, why)) {
    case TFR_LAUNCHED:
        return NULL;
    case TFR_LAUNCH_LOST:
        return lost(def, s, why);
    case TFR_LAUNCH_REFUSED:
        break;
    }
    tfr_warn(TFR_WARN_DEVICE, "CUDA kernel of %s: %s; its torch operations run", def->op, why);
    *refused = true;
    return NULL;
}

const char *tfr_op_call_device(tfr_op_kernels *op, tfr_op_call *s, const char **path) {
    const tfr_kernel_op *def = tfr_op_kernels_def(op);
    place at;
    const char *why = find_place(&at, s);
    if (why)
        return why;
    if (def->is_linear)
        return tfr_linear_on_device(s, path);
    tfr_path forced;
    const tfr_kernel *generic = tfr_op_kernels_generic(op, &s->c, s->norm, s->act);
    if (!generic)
        return s->c.error;
    if (!generic->lay || (tfr_op_kernels_forced(op, &forced) && forced == TFR_PATH_ATEN))
        return tfr_op_call_aten(op, s, path);
    why = tfr_op_kernels_plan(generic, &s->c);
    if (!why)
        why = tfr_op_call_allocate(s);
    *path = "cuda";
    if (why || s->c.units == 0)
        return why;

    tfr_layout layout = {.part_count = 0};
    tfr_device_args args;
    if (generic->lay(&s->c, &layout) || !tfr_device_arrange(&args, &layout, &s->c)) {
        tfr_op_call_release_outputs(s);
        return tfr_op_call_aten(op, s, path); // whatever is compiled: this is not for the kernel
    }
    const tfr_driver_kernel *kernel =
        tfr_device_kernels_get(op, &s->c, s->norm, s->act, at.device, is_capturing, &at);
    if (!kernel) {
        tfr_op_call_release_outputs(s);
        return fall_back_for_now(op, s, &at, path);
    }
    bool refused = false;
    why = launch(def, s, &args, kernel, &at, &refused);
    if (refused)
        tfr_op_call_release_outputs(s);
    return refused ? tfr_op_call_aten(op, s, path) : why;
}
