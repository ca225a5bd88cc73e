// gated_rms_norm: an RMS norm of rows, or of groups of each row, and a gate before or after it.
//
// in: x, gate: one shape [..., D], anywhere in memory; weight [D]. number: eps; GATE_GROUPS: the
// elements of a group; EITHER_GROUPS: how many groups there are, and whether the gate comes after
// the norm. out: as torch lays it out, in x's dtype, or with the gate first and ORDER=CAST_WEIGHT
// in torch's promotion of x and weight. Must move: x and gate in, as much as x out, and the weight
// once. Work: one unit is one group of a row (or the row), which stays in scratch as f32. Rounding:
// act(gate) is f32; what the norm reads is f32, as the sum of squares and the root are (norm.h); x
// * root is rounded to x's dtype for CAST_WEIGHT, and so is its product with the weight to torch's
// promotion of both; then the gate's product, if it comes after, and the result.
#include "codegen_templates/act.h"
#include "codegen_templates/gate_forms.h"
#include "codegen_templates/lay.h"
#include "codegen_templates/norm.h"

#ifndef ORDER
#define ORDER (c->option[0])
#endif
#ifndef FORM
#define FORM (c->option[1])
#endif
#ifndef ACT
#define ACT (c->option[2])
#endif
#ifndef X_DTYPE
#define X_DTYPE (c->in[0].dtype)
#endif
#ifndef GATE_DTYPE
#define GATE_DTYPE (c->in[1].dtype)
#endif
#ifndef WEIGHT_DTYPE
#define WEIGHT_DTYPE (c->in[2].dtype)
#endif

enum { GRAIN = 1 << 14 }; // elements

// How many groups a row has; 0: the numbers do not say.
static int64_t groups_of(const tfr_call *c) {
    int64_t width = tfr_last(&c->in[0]), n = (int64_t)c->number[1];
    if (FORM == NORM_GATE || FORM == GATE_NORM)
        return 1;
    if (n <= 0 || width % n)
        return 0;
    return FORM == GATE_GROUPS ? width / n : n;
}

static int tfr_plan(tfr_call *c) {
    const tfr_array *x = &c->in[0], *gate = &c->in[1], *weight = &c->in[2];
    const int64_t width = tfr_last(x), groups = groups_of(c);
    if (x->ndim == 0 || x->ndim != gate->ndim)
        return tfr_refuse(c, "gated_rms_norm: x and gate differ in shape");
    for (int i = 0; i < x->ndim; i++)
        if (x->size[i] != gate->size[i])
            return tfr_refuse(c, "gated_rms_norm: x and gate differ in shape");
    if (weight->ndim != 1 || weight->size[0] != width)
        return tfr_refuse(c, "gated_rms_norm: the weight is not [D] for x [..., D]");
    if (groups == 0 || width == 0)
        return tfr_refuse(c, "gated_rms_norm: the row has no such groups");
    if (FORM == EITHER_GROUPS && x->ndim != 2 && x->ndim != 3)
        return tfr_refuse(c, "gated_rms_norm: x has neither two nor three dimensions");
    tfr_array acted; // what torch would have between its operations
    const tfr_array *of[] = {x, &acted};
    tfr_out_copy(&acted, gate, TFR_F32);
    if (gate->dtype == TFR_F32)
        tfr_out_like(&acted, gate, TFR_F32);
    tfr_out_of(&c->out[0], of, 2);
    if (groups > 1 && !(tfr_is_contiguous(x) && tfr_is_contiguous(&c->out[0])))
        return tfr_refuse(c, "gated_rms_norm: torch's views of groups depend on the strides");
    c->out[0].dtype = tfr_gate_result(ORDER, FORM, X_DTYPE, WEIGHT_DTYPE);
    c->units = tfr_rows(x) * groups;
    c->grain = 1 + GRAIN / (width / groups + 1);
    c->scratch = (width / groups + 8) * 4;
    return 0;
}

// Eight elements from i on, of n; what lies behind the last is 0.
TFR_INLINE tfr_v8 load_8(const char *p, int64_t i, int64_t n, int dtype) {
    return n - i < 8 ? tfr_load_part(p, i, n - i, dtype) : tfr_load(p, i, dtype);
}

TFR_INLINE void norm_row(const char *x, const char *gate, const char *weight, char *out, int64_t n,
                         float eps, float *h, int first, int act, int order, int form, int x_dtype,
                         int gate_dtype, int weight_dtype) {
    const int inner = tfr_norm_inner(order, x_dtype, weight_dtype);
    const int weighted = order == CAST_WEIGHT ? tfr_promote(x_dtype, weight_dtype) : TFR_F32;
    const int result = tfr_gate_result(order, form, x_dtype, weight_dtype);
    for (int64_t i = 0; i < n; i += 8) {
        tfr_v8 v = load_8(x, i, n, x_dtype);
        if (first)
            v = v * tfr_act(load_8(gate, i, n, gate_dtype), act, TFR_F32);
        tfr_store(h, i, v, TFR_F32);
    }
    const float root = tfr_norm_root(tfr_norm_squares(h, n, TFR_F32), n, eps, order, x_dtype);
    for (int64_t i = 0; i < n; i += 8) {
        tfr_v8 y = tfr_round(tfr_load(h, i, TFR_F32) * root, inner);
        y = tfr_round(y * load_8(weight, i, n, weight_dtype), weighted);
        if (!first)
            y = y * tfr_act(load_8(gate, i, n, gate_dtype), act, TFR_F32);
        if (n - i < 8)
            tfr_store_part(out, i, n - i, y, result);
        else
            tfr_store(out, i, y, result);
    }
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    const tfr_array *x = &c->in[0], *gate = &c->in[1], *out = &c->out[0];
    const int64_t groups = groups_of(c), n = tfr_last(x) / groups;
    const int first = tfr_gate_first(FORM, c->number[2] != 0);
    const char *weight = c->in[2].data;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / groups, from = (unit - row * groups) * n;
        const char *px = (const char *)x->data + (tfr_row(x, row) + from) * tfr_size_of(X_DTYPE);
        const char *pg =
            (const char *)gate->data + (tfr_row(gate, row) + from) * tfr_size_of(GATE_DTYPE);
        char *to = (char *)out->data + (tfr_row(out, row) + from) * tfr_size_of(out->dtype);
        norm_row(px, pg, weight + from * tfr_size_of(WEIGHT_DTYPE), to, n, (float)c->number[0],
                 scratch, first, GATE_ACT, ORDER, FORM, X_DTYPE, GATE_DTYPE, WEIGHT_DTYPE);
    }
}

// `a` with its last dimension cut into groups.
static tfr_array cut(tfr_array a, int64_t groups) {
    const int last = a.ndim - 1;
    a.size[last] /= groups;
    if (groups > 1) {
        a.size[last + 1] = a.size[last];
        a.stride[last + 1] = a.stride[last];
        a.stride[last] *= a.size[last];
        a.size[last] = groups;
        a.ndim++;
    }
    return a;
}

// x, gate, weight, out, by groups; the weight repeats along the rows. A unit is a group here too.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    const int64_t groups = groups_of(c);
    const tfr_array parts[] = {cut(c->in[0], groups), cut(c->in[1], groups), cut(c->in[2], groups),
                               cut(c->out[0], groups)};
    const tfr_array *of[] = {&parts[0], &parts[1], &parts[2], &parts[3]};
    l->units = c->units;
    return c->in[0].ndim == TFR_MAX_DIMS || tfr_lay_part(l, of, 4);
}

TFR_DEVICE_KERNEL("ORDER FORM ACT", VALUES)
