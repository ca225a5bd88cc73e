// l2_norm: every reference of rules/l2_norm.py, chosen by FORM.
//
// in: x [..., D], anywhere in memory. number: eps, where the form has one, then the axis, where it
// is an argument. out: as x, in its dtype. Must move: x in, as much out; a row is read twice, the
// second time from the first cache where it fits there. Work: one unit is one row. Rounding: the
// sum of squares is f32 (norm.h); the squares, the sum, each step to the length and the quotient
// are rounded to x's dtype as norm_orders.h says of the form.
#include "codegen_templates/lay.h"
#include "codegen_templates/norm_rows.h"

#define VALUES(X) TFR_NORM_VALUES(X) TFR_L2_VALUES(X)
enum { VALUES(TFR_VALUE_ENUM) };

#ifndef FORM
#define FORM (c->option[0])
#endif
#ifndef X_DTYPE
#define X_DTYPE (c->in[0].dtype)
#endif
#ifndef X_LAST
#define X_LAST tfr_last(&c->in[0])
#endif

enum { GRAIN = 1 << 15 }; // elements

static int tfr_plan(tfr_call *c) {
    const tfr_array *x = &c->in[0];
    if (x->ndim == 0)
        return tfr_refuse(c, "l2_norm: x has no dimensions");
    if (FORM == L2_RSQRT || FORM == L2_SQRT) {
        if (c->number[1] != -1 && c->number[1] != x->ndim - 1)
            return tfr_refuse(c, "l2_norm: the axis is not the last one");
    }
    if ((FORM == L2_RSQRT || FORM == L2_MEAN_RSQRT) && X_DTYPE != TFR_F32)
        return tfr_refuse(c, "l2_norm: torch's CPU rounds a 16-bit rsqrt in two ways");
    if (FORM == L2_MEAN_RSQRT_IN_FLOAT32) // torch.rms_norm's result is contiguous
        tfr_out_dense(&c->out[0], x, tfr_last(x), X_DTYPE);
    else
        tfr_out_like(&c->out[0], x, X_DTYPE);
    c->units = tfr_last(x) ? tfr_rows(x) : 0;
    c->grain = 1 + GRAIN / (tfr_last(x) + 1);
    return 0;
}

static float rounded(float x, int dtype) { return tfr_round(tfr_all(x), dtype)[0]; }

// What a row is divided by, or multiplied with, from the sum of its squares.
static float length_of(float s, float eps, int form, int dtype) {
    const int each = tfr_l2_squares(form, dtype);
    if (tfr_l2_multiplies(form))
        return 1.0F / tfr_sqrt(s + eps);
    s = rounded(s, each);
    if (form == L2_SQRT || form == L2_MEAN_SQRT)
        s = rounded(s + eps, each);
    s = rounded(tfr_sqrt(s), dtype);
    if (form == L2_NORM_ADD)
        s = rounded(s + eps, dtype);
    if (form == L2_NORMALIZE)
        s = rounded(s < eps ? eps : s, dtype);
    return s;
}

TFR_INLINE tfr_v8 scaled(tfr_v8 x, float length, int multiplies) {
    return multiplies ? x * length : x / length;
}

TFR_INLINE void norm_row(const char *x, char *out, int64_t n, float eps, int form, int dtype) {
    const int each = tfr_l2_squares(form, dtype), multiplies = tfr_l2_multiplies(form);
    const float squares = each == TFR_F32 ? tfr_norm_squares(x, n, dtype)
                                          : tfr_norm_rounded_squares(x, n, dtype, each);
    const float over = tfr_l2_means(form) ? (float)n : 1.0F;
    const float length = length_of(squares / over, eps, form, dtype);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        tfr_store(out, i, scaled(tfr_load(x, i, dtype), length, multiplies), dtype);
    if (i < n) {
        tfr_v8 last = scaled(tfr_load_part(x, i, n - i, dtype), length, multiplies);
        tfr_store_part(out, i, n - i, last, dtype);
    }
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    const tfr_array *x = &c->in[0], *out = &c->out[0];
    const int64_t size = tfr_size_of(X_DTYPE);
    const float eps = (float)c->number[0];
    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x->data + tfr_row(x, row) * size;
        char *to = (char *)out->data + tfr_row(out, row) * size;
        if (X_DTYPE == TFR_BF16) // a loop for each dtype
            norm_row(from, to, X_LAST, eps, FORM, TFR_BF16);
        else
            norm_row(from, to, X_LAST, eps, FORM, TFR_F32);
    }
}

// x, out. A unit is a row here as there.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    const tfr_array *of[] = {&c->in[0], &c->out[0]};
    l->units = c->units;
    return tfr_lay_part(l, of, 2);
}

TFR_DEVICE_KERNEL("FORM", VALUES)
