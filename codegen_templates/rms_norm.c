// rms_norm: every variant of rules/rms_norm.py, chosen by ORDER.
//
// in: x [..., D], anywhere in memory; weight [D], but for the orders CAST, ROOT_CAST and UNROUNDED,
// which have none. number: eps. out: as x, in the dtype that torch gives: with CAST_WEIGHT and
// CAST_ONE_PLUS torch's promotion of x and weight, with CAST_BY_WEIGHT the weight's, with NO_CAST
// and UNROUNDED f32, else x's.
// Must move: x in, as much out, and the weight once; a row is read twice, the second time from the
// first cache where it fits there.
// Work: one unit is one row. The weight's factors are made once per call of run.
// Rounding: the sum of squares and the root are f32 (sums of 8 * 4 lanes, then of blocks of 2048:
// norm.h); then x * root and the product with the weight as norm.h says.
#include "codegen_templates/lay.h"
#include "codegen_templates/norm_rows.h"

enum { TFR_NORM_VALUES(TFR_VALUE_ENUM) };

#ifndef ORDER
#define ORDER (c->option[0])
#endif
#ifndef X_DTYPE
#define X_DTYPE (c->in[0].dtype)
#endif
#ifndef WEIGHT_DTYPE
#define WEIGHT_DTYPE (tfr_norm_has_weight(ORDER) ? c->in[1].dtype : TFR_NONE)
#endif
#ifndef X_LAST
#define X_LAST tfr_last(&c->in[0])
#endif

enum { GRAIN = 1 << 15 }; // elements

static int tfr_plan(tfr_call *c) {
    const tfr_array *x = &c->in[0], *weight = &c->in[1];
    if (x->ndim == 0)
        return tfr_refuse(c, "rms_norm: x has no dimensions");
    int64_t width = tfr_last(x);
    if (tfr_norm_has_weight(ORDER) && (weight->ndim != 1 || weight->size[0] != width))
        return tfr_refuse(c, "rms_norm: the weight is not [D] for x [..., D]");
    tfr_out_like(&c->out[0], x, tfr_norm_result(ORDER, X_DTYPE, WEIGHT_DTYPE));
    c->units = width ? tfr_rows(x) : 0;
    c->grain = 1 + GRAIN / (width + 1);
    c->scratch = tfr_norm_factor_bytes(width);
    return 0;
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    const tfr_array *x = &c->in[0], *out = &c->out[0];
    const int64_t width = X_LAST, x_size = tfr_size_of(X_DTYPE), out_size = tfr_size_of(out->dtype);
    const tfr_norm_dtypes t = tfr_norm_dtypes_of(ORDER, X_DTYPE, WEIGHT_DTYPE);
    const float *factor = tfr_norm_factors(scratch, &c->in[1], WEIGHT_DTYPE, width, ORDER, t);
    const float eps = (float)c->number[0];
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x->data + tfr_row(x, row) * x_size;
        char *to = (char *)out->data + tfr_row(out, row) * out_size;
        float squares = tfr_norm_squares_of(from, width, t.x);
        float root = tfr_norm_root(squares, width, eps, ORDER, X_DTYPE);
        tfr_norm_scale(from, root, factor, width, to, t);
    }
}

// x, out; the weight. A unit is a row here as there.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    const tfr_array *of[] = {&c->in[0], &c->out[0]};
    l->units = c->units;
    return tfr_lay_part(l, of, 2) ||
           (tfr_norm_has_weight(ORDER) && tfr_lay_flat(l, 0, &c->in[1], tfr_last(&c->in[0])));
}

TFR_DEVICE_KERNEL("ORDER", TFR_NORM_VALUES)
