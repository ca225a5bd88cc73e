// squash: y = tanh(x * slope).
//
// in[0]: x [..., D], f32 or bf16; number[0]: slope; out[0]: as x. Bytes that must move: x and y once.
// Split: rows of the last dimension. Rounding points: the product and tanh are each rounded to x's
// dtype; with CAST=FLOAT32 only the result is.
#include "codegen_templates/act.h"
#include "codegen_templates/lay.h"

#define VALUES(X) X(OWN) X(FLOAT32)
enum { VALUES(TFR_VALUE_ENUM) };

#ifndef CAST
#define CAST (c->option[0])
#endif
#ifndef X_DTYPE
#define X_DTYPE (c->in[0].dtype)
#endif

static int tfr_plan(tfr_call *c) {
    tfr_out_like(&c->out[0], &c->in[0], X_DTYPE);
    c->units = tfr_rows(&c->in[0]);
    c->grain = 1 + 32768 / (1 + tfr_last(&c->in[0]));
    return 0;
}

TFR_INLINE tfr_v8 squash(tfr_v8 x, tfr_v8 slope, int dtype) {
    return tfr_tanh(tfr_round(x * slope, dtype));
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const tfr_array *x = &c->in[0], *y = &c->out[0];
    const int64_t n = tfr_last(x), size = tfr_size_of(X_DTYPE);
    const int dtype = CAST == FLOAT32 ? TFR_F32 : X_DTYPE;
    const tfr_v8 slope = tfr_all((float)c->number[0]);
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x->data + tfr_row(x, row) * size;
        char *to = (char *)y->data + tfr_row(y, row) * size;
        int64_t i = 0;
        for (; i + 8 <= n; i += 8)
            tfr_store(to, i, squash(tfr_load(from, i, X_DTYPE), slope, dtype), X_DTYPE);
        if (i < n)
            tfr_store_part(to, i, n - i,
                           squash(tfr_load_part(from, i, n - i, X_DTYPE), slope, dtype), X_DTYPE);
    }
}

// For squash.cu.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    const tfr_array *of[] = {&c->in[0], &c->out[0]};
    l->units = tfr_last(of[0]) ? tfr_rows(of[0]) : 0;
    return tfr_lay_part(l, of, 2);
}

TFR_DEVICE_KERNEL("CAST", VALUES)
