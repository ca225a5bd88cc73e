// softcap: tanh(x / cap) * cap, cap = number[0]. SCALED: tanh(x * scale / cap) * cap, scale =
// number[1]. IN_FLOAT32: of x in f32, and so is the result.
//
// in[0]: x of any shape, f32 or bf16; out[0]: dense, in the order of x's strides. Bytes moved: x
// read once, the result written once. Split: where both run through memory alike, over pieces of
// all elements; else over pieces of rows. Rounding: after each operation, to the result's dtype.
#include "codegen_templates/act.h"
#include "codegen_templates/lay.h"
#include "codegen_templates/softcap_forms.h"

#ifndef FORM
#define FORM (c->option[0])
#endif
#ifndef X_DTYPE
#define X_DTYPE (c->in[0].dtype)
#endif

enum { PIECE = 4096, GRAIN = 8 * PIECE }; // elements

// How the work is cut: `rows` runs of `width` elements, each in pieces of PIECE.
static void shape_of(const tfr_call *c, int64_t *rows, int64_t *width) {
    const tfr_array *x = &c->in[0], *out = &c->out[0];
    int flat = tfr_is_dense(x);
    for (int i = 0; i < x->ndim; i++)
        flat &= x->size[i] == 1 || x->stride[i] == out->stride[i];
    *rows = flat ? 1 : tfr_rows(x);
    *width = flat ? tfr_rows(x) * tfr_last(x) : tfr_last(x);
}

static int tfr_plan(tfr_call *c) {
    int64_t rows, width;
    tfr_array x = c->in[0];
    if (c->number[0] != c->number[0] || (FORM == SCALED && c->number[1] != c->number[1]))
        return tfr_refuse(c, "softcap: cap or scale is NaN"); // tfr_round_own knows x's NaNs only
    if (FORM == IN_FLOAT32 && X_DTYPE != TFR_F32)
        tfr_out_copy(&x, &x, TFR_F32);
    tfr_out_like(&c->out[0], &x, softcap_dtype(FORM, X_DTYPE));
    shape_of(c, &rows, &width);
    c->units = rows * tfr_units(width, PIECE);
    c->grain = width >= PIECE ? GRAIN / PIECE : GRAIN / (width ? width : 1);
    return 0;
}

TFR_INLINE tfr_v8 capped(tfr_v8 x, const float *number, int form, int dtype) {
    if (form == SCALED)
        x = tfr_round_own(x * number[1], dtype);
    return tfr_round_own(tfr_tanh(tfr_round_own(x / number[0], dtype)), dtype) * number[0];
}

// n elements that lie one behind another.
TFR_INLINE void span(const char *x, char *out, int64_t n, const float *number, int form, int from) {
    const int to = softcap_dtype(form, from);
    int64_t i = 0;
    for (; to == TFR_BF16 && i + 16 <= n; i += 16) {
        tfr_v8 v[2];
        tfr_load_pair(x, i, &v[0], &v[1]);
        tfr_store_pair(out, i, tfr_bf16_upper_own(capped(v[0], number, form, to)),
                       tfr_bf16_upper_own(capped(v[1], number, form, to)));
    }
    for (; i + 8 <= n; i += 8)
        tfr_store(out, i, capped(tfr_load(x, i, from), number, form, to), to);
    if (i < n)
        tfr_store_part(out, i, n - i, capped(tfr_load_part(x, i, n - i, from), number, form, to),
                       to);
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    int64_t rows, width;
    const float number[] = {(float)c->number[0], (float)c->number[1]};
    (void)scratch;
    shape_of(c, &rows, &width);
    const int64_t pieces = tfr_units(width, PIECE);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit / pieces, i = (unit - row * pieces) * PIECE;
        int64_t n = width - i < PIECE ? width - i : PIECE;
        int64_t at = (rows == 1 ? 0 : tfr_row(&c->in[0], row)) + i;
        int64_t to = (rows == 1 ? 0 : tfr_row(&c->out[0], row)) + i;
        const char *x = (const char *)c->in[0].data + at * tfr_size_of(X_DTYPE);
        char *out = (char *)c->out[0].data + to * tfr_size_of(softcap_dtype(FORM, X_DTYPE));
        // One loop for each form and dtype; with macros only one of them is compiled.
#define CASE(form)                                                                                 \
    if (FORM == (form) && X_DTYPE == TFR_F32)                                                      \
        span(x, out, n, number, form, TFR_F32);                                                    \
    if (FORM == (form) && X_DTYPE == TFR_BF16)                                                     \
        span(x, out, n, number, form, TFR_BF16);
        VALUES(CASE)
    }
}

// x, out; as one row where they are flat, unless that is too long for one.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    tfr_array x = c->in[0], out = c->out[0];
    const tfr_array *of[] = {&x, &out};
    int64_t rows, width;
    shape_of(c, &rows, &width);
    if (rows == 1 && width <= 1 << 28) {
        x.ndim = out.ndim = 1;
        x.size[0] = out.size[0] = width;
        x.stride[0] = out.stride[0] = 1;
    }
    int vector = tfr_vector(softcap_dtype(FORM, X_DTYPE));
    l->units = tfr_units(tfr_rows(&x) * tfr_units(tfr_last(&x), vector), TFR_SOFTCAP_THREADS);
    return tfr_lay_part(l, of, 2);
}

TFR_DEVICE_KERNEL("FORM", VALUES)
