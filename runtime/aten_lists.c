// See aten_lists.h. Nothing here runs with torch 2.10 or newer.
#include "runtime/aten_lists.h"

#include <string.h>

static void release(tfr_tensor t) {
    if (t)
        tfr_torch.aoti_torch_delete_tensor_object(t);
}

// A new handle for the stack of a call, which takes it.
static tfr_value_bits lend(tfr_tensor t) {
    tfr_tensor copy = NULL;
    tfr_torch.aoti_torch_new_tensor_handle(t, &copy);
    return tfr_torch_from_tensor(copy);
}

static bool call(const char *op, const char *overload, tfr_value_bits *stack, tfr_tensor *out) {
    bool done = tfr_torch_call(op, overload, stack);
    *out = done ? tfr_torch_to_tensor(stack[0]) : NULL;
    return done;
}

static bool unsqueeze(tfr_tensor x, int64_t dim, tfr_tensor *out) {
    tfr_value_bits stack[2] = {lend(x), (tfr_value_bits)dim};
    return call("aten::unsqueeze", "", stack, out);
}

// What stands for -1 in a view's sizes: as many as there are elements left for it.
static bool fill_in(tfr_tensor x, int64_t *wanted, uint32_t count) {
    int64_t ndim, *sizes, elements = 1, known = 1, *open = NULL;
    if (tfr_torch.aoti_torch_get_dim(x, &ndim) || tfr_torch.aoti_torch_get_sizes(x, &sizes))
        return false;
    for (int64_t i = 0; i < ndim; i++)
        elements *= sizes[i];
    for (uint32_t i = 0; i < count; i++)
        if (wanted[i] == -1)
            open = &wanted[i];
        else
            known *= wanted[i];
    if (open && known)
        *open = elements / known;
    return !open || known;
}

// view(x, sizes) is view_as a tensor of those sizes, which needs no memory but one element.
static bool view(const char *op, const tfr_flat_call *c, tfr_tensor *out) {
    int64_t strides[TFR_FLAT_MAX] = {0}, sizes[TFR_FLAT_MAX];
    tfr_tensor shape;
    memcpy(sizes, c->integers, sizeof sizes);
    if (!fill_in(c->tensors[0], sizes, c->integer_count) ||
        tfr_torch.aoti_torch_empty_strided(c->integer_count, sizes, strides,
                                           tfr_torch.aoti_torch_dtype_float32(),
                                           tfr_torch.aoti_torch_device_type_cpu(), 0, &shape))
        return false;
    tfr_value_bits stack[2] = {lend(c->tensors[0]), tfr_torch_from_tensor(shape)};
    return call(op, "", stack, out);
}
static bool view_as(const tfr_flat_call *c, tfr_tensor *out) {
    return view("aten::view_as", c, out);
}
static bool reshape_as(const tfr_flat_call *c, tfr_tensor *out) {
    return view("aten::reshape_as", c, out);
}

static bool cat(const tfr_flat_call *c, tfr_tensor *out) {
    return tfr_torch_cat(c->tensors, c->tensor_count, c->integers[0], out);
}

static bool stack(const tfr_flat_call *c, tfr_tensor *out) {
    tfr_flat_call apart = {.tensor_count = c->tensor_count, .integers = {c->integers[0]}};
    bool done = true;
    for (uint32_t i = 0; i < c->tensor_count && done; i++)
        done = unsqueeze(c->tensors[i], c->integers[0], &apart.tensors[i]);
    done = done && cat(&apart, out);
    for (uint32_t i = 0; i < c->tensor_count; i++)
        release(apart.tensors[i]);
    return done;
}

// sum(x, dim) as the dot product with ones, which torch computes as a product and that sum.
static bool sum(tfr_tensor x, int64_t dim, tfr_tensor *out) {
    tfr_value_bits like[6] = {lend(x)};
    tfr_tensor ones;
    if (!call("aten::ones_like", "", like, &ones))
        return false;
    tfr_value_bits both[3] = {lend(x), tfr_torch_from_tensor(ones), (tfr_value_bits)dim};
    return call("aten::linalg_vecdot", "", both, out);
}

// As torch's kernels: the CPU's divides by the count, the GPU's multiplies by its inverse.
static bool divide(tfr_tensor x, int64_t count, tfr_tensor *out) {
    bool cpu = tfr_torch_is_cpu(x);
    tfr_tensor by = NULL;
    tfr_torch.aoti_torch_scalar_to_tensor_float64(
        cpu ? (double)count : (double)(1.0F / (float)count), &by);
    tfr_value_bits both[2] = {lend(x), tfr_torch_from_tensor(by)};
    return call(cpu ? "aten::div" : "aten::mul", "Tensor", both, out);
}

static bool mean(const tfr_flat_call *c, tfr_tensor *out) {
    int64_t ndim, *sizes, dim = c->integers[0];
    bool keep = c->integers[1];
    tfr_tensor x = c->tensors[0], wide = NULL, total = NULL, result = NULL;
    if (tfr_torch.aoti_torch_get_dim(x, &ndim) || tfr_torch.aoti_torch_get_sizes(x, &sizes))
        return false;
    int64_t count = ndim ? sizes[dim < 0 ? dim + ndim : dim] : 1;
    // Of a single row the dot product would be computed in another order.
    bool done = ndim > 1 || unsqueeze(x, 0, &wide);
    done = done && sum(wide ? wide : x, wide ? -1 : dim, &total) && divide(total, count, &result);
    if (done && keep != (wide != NULL)) {
        tfr_value_bits back[3] = {lend(result), (tfr_value_bits)(wide ? 0 : dim), 0};
        release(result);
        done = call(wide ? "aten::select" : "aten::unsqueeze", wide ? "int" : "", back, &result);
    }
    release(wide);
    release(total);
    *out = result;
    return done;
}

bool tfr_aten_call_without_lists(const tfr_aten_op *op, const tfr_flat_call *call_of,
                                 tfr_tensor *out, bool *needs_newer) {
    static const struct {
        const char *name;
        bool (*run)(const tfr_flat_call *, tfr_tensor *);
        uint32_t integers; // that it knows; 0: any
    } ways[] = {{"aten::mean", mean, 2},
                {"aten::cat", cat, 1},
                {"aten::stack", stack, 1},
                {"aten::view", view_as, 0},
                {"aten::reshape", reshape_as, 0}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, op->name) == 0 &&
            (!ways[i].integers || ways[i].integers == call_of->integer_count))
            return ways[i].run(call_of, out);
    *needs_newer = true;
    return false;
}
