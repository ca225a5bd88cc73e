// `linears` on a CUDA device: torch's matmul (cuBLAS), once for all modules where that costs
// nothing else. With one row the results are slices of one, each contiguous as the module's own
// would be, and reading the weights is all the time there is. With more rows slices would have
// gaps, which later code (`.view`) may not take; there each module is one matmul.
#include "runtime/device_linear.h"

#include "runtime/linear_choice.h"

// Whether in[first], in[first + 2], ... lie one after another in memory, as `prepare` packs them.
// They may be anybody's neighbours: all of them live as long as the call.
static bool are_adjacent(const tfr_call *c, int32_t first) {
    const char *end = c->in[first].data;
    for (int32_t i = first; i < c->input_count; i += 2) {
        const tfr_array *a = &c->in[i];
        if (a->dtype != c->in[0].dtype || a->ndim != c->in[first].ndim || !tfr_is_contiguous(a) ||
            tfr_last(a) != (a->ndim == 2 ? tfr_last(&c->in[0]) : a->size[0]) || a->data != end)
            return false;
        end += tfr_rows(a) * tfr_last(a) * tfr_size_of(a->dtype);
    }
    return true;
}

static int64_t columns_of(const tfr_call *c) {
    int64_t columns = 0;
    for (int32_t i = 1; i < c->input_count; i += 2)
        columns += c->in[i].size[0];
    return columns;
}

static bool has_any_bias(const tfr_call *c) {
    bool any = false;
    for (int32_t i = 2; i < c->input_count; i += 2)
        any |= c->in[i].dtype != TFR_NONE;
    return any;
}

// A tensor over all weights, or all biases. NULL: torch refused.
static tfr_tensor merged(const tfr_op_call *s, int32_t first) {
    const tfr_array *a = &s->c.in[first];
    int64_t sizes[] = {columns_of(&s->c), tfr_last(a)}, strides[] = {tfr_last(a), 1};
    tfr_tensor all = NULL;
    if (a->ndim == 1)
        strides[0] = 1;
    return tfr_torch.aoti_torch_create_tensor_from_blob(a->data, a->ndim, sizes, strides, 0,
                                                        tfr_numbers_of_torch.dtype[a->dtype],
                                                        s->device_type, s->device, &all)
               ? NULL
               : all;
}

static bool split(tfr_op_call *s, tfr_tensor row) {
    int64_t offset = 0;
    for (int32_t i = 0; i < s->c.output_count; i++) {
        tfr_array like;
        tfr_out_dense(&like, &s->c.in[0], s->c.in[1 + 2 * i].size[0], s->c.in[0].dtype);
        if (tfr_torch.aoti_torch__reinterpret_tensor(row, like.ndim, like.size, like.stride, offset,
                                                     &s->out[i]))
            return false;
        offset += tfr_last(&like);
    }
    return true;
}

static bool once_for_all(tfr_op_call *s, bool has_bias) {
    tfr_tensor weight = merged(s, 1), bias = has_bias ? merged(s, 2) : NULL, row = NULL;
    if (weight && (bias || !has_bias))
        row = tfr_linear_one(s->in[0], weight, bias);
    bool done = row && split(s, row);
    const tfr_tensor made[] = {weight, bias, row};
    for (int i = 0; i < 3; i++)
        if (made[i])
            tfr_torch.aoti_torch_delete_tensor_object(made[i]);
    return done;
}

const char *tfr_linear_on_device(tfr_op_call *s, const char **path) {
    bool has_bias = has_any_bias(&s->c);
    if (s->c.output_count > 1 && tfr_rows(&s->c.in[0]) == 1 && are_adjacent(&s->c, 1) &&
        (!has_bias || are_adjacent(&s->c, 2))) {
        *path = "packed";
        return once_for_all(s, has_bias) ? NULL : "torch's linear failed; it printed why";
    }
    *path = "torch";
    return tfr_linear_by_torch(s->out, (uint32_t)s->c.output_count, s->in)
               ? NULL
               : "torch's linear failed; it printed why";
}
