// act(gate) * up, and its forms.
//
// Form. PLAIN: act(gate) * up. With limit = number[0] and [up] = clamp(up, -limit, limit): CLAMPED:
// act(min(gate, limit)) * [up]; CLAMPED_AFTER: min(act(gate), limit) * [up]; SLOPED_CLAMPED:
// g * sigmoid(g * slope) * ([up] + 1), g = min(gate, limit), slope = number[1]. SLOPED: gate *
// sigmoid(gate * slope) * up, slope = number[0]; SWISH: the same with a slope of 1. IN_FLOAT32:
// act(gate) * up in f32, rounded to the gate's dtype at the end.
// Layout. TWO_INPUTS: in[0] = gate, in[1] = up, of one shape [..., I]. GATE_UP, UP_GATE: in[0] =
// [..., 2 I] holds one beside the other, in that order; the last number is the axis, which must be
// the last. INTERLEAVED: in[0] = [..., 2 I] holds them in turns. out[0] = [..., I], dense, in the
// order of the gate's strides. Every input f32 or bf16, the result in the dtype that torch promotes
// to. TWO_INPUTS PLAIN broadcasts: a gate for each row, say. Bytes moved: each input read once, the
// result written once; nothing stays in between. Split: where all three arrays run through memory
// alike, over pieces of all elements; else over pieces of rows. Rounding: after each of torch's
// operations, to the gate's or up's dtype, the product to the result's. (A clamp rounds nothing but
// its bound.)
#include "codegen_templates/act.h"
#include "codegen_templates/act_layouts.h"
#include "codegen_templates/lay.h"

#ifndef ACT
#define ACT (c->option[0])
#endif
#ifndef LAYOUT
#define LAYOUT (c->option[1])
#endif
#ifndef FORM
#define FORM (c->option[2])
#endif
#ifndef GATE_DTYPE
#define GATE_DTYPE (c->in[0].dtype)
#define UP_DTYPE (c->in[LAYOUT == TWO_INPUTS].dtype)
#endif

// Elements in one piece of work, and in one step through interleaved rows (a multiple of 16).
enum { PIECE = 4096, STEP = 512, GRAIN = 8 * PIECE };

// The gate and the up half of the call's inputs.
static void halves(const tfr_call *c, tfr_array *gate, tfr_array *up) {
    *gate = c->in[0];
    *up = c->in[LAYOUT == TWO_INPUTS];
    if (LAYOUT == TWO_INPUTS)
        return;
    int last = gate->ndim - 1;
    int64_t width = gate->size[last] / 2, other = LAYOUT == INTERLEAVED ? 1 : width;
    char *data = gate->data;
    char *behind = data ? data + other * tfr_size_of(gate->dtype) : data;
    gate->size[last] = up->size[last] = width;
    if (LAYOUT == INTERLEAVED)
        gate->stride[last] = up->stride[last] = 2;
    gate->data = LAYOUT == UP_GATE ? behind : data;
    up->data = LAYOUT == UP_GATE ? data : behind;
}

// Views a with the sizes of `out`, which it fits: stride 0 where it repeats.
static void spread(tfr_array *a, const tfr_array *out) {
    tfr_broadcast_rows(a, out);
    int last = out->ndim - 1;
    a->stride[last] = a->size[last] == out->size[last] ? a->stride[last] : 0;
    a->size[last] = out->size[last];
}

// Whether a row is one element, again and again.
static int repeats(const tfr_array *a) {
    return a->size[a->ndim - 1] > 1 && a->stride[a->ndim - 1] == 0;
}

// Whether element i of all three arrays lies i elements behind their first.
static int is_flat(const tfr_array *gate, const tfr_array *up, const tfr_array *out) {
    int flat = tfr_is_dense(out); // which it is unless a size is 0
    for (int i = 0; i < out->ndim; i++)
        flat &= out->size[i] == 1 ||
                (gate->stride[i] == out->stride[i] && up->stride[i] == out->stride[i]);
    return flat;
}

// How the work is cut: `rows` runs of `width` elements, each in pieces of PIECE.
static void shape_of(const tfr_array *gate, const tfr_array *up, const tfr_array *out,
                     int64_t *rows, int64_t *width) {
    *rows = tfr_rows(out);
    *width = tfr_last(out);
    if (is_flat(gate, up, out)) {
        *width *= *rows;
        *rows = 1;
    }
}

static int64_t pieces_of(int64_t width) { return (width + PIECE - 1) / PIECE; }

// Where torch raises, or gives a zero whose sign depends on how it was computed.
static int bad_limit(double limit, int gate_dtype, int up_dtype) {
    int narrow = gate_dtype == TFR_F16 || up_dtype == TFR_F16;
    double size = limit < 0 ? -limit : limit, most = narrow ? 65504.0 : 3.38e38;
    return !(size > 0) || (size > most && size <= 1.7976931348623157e308);
}

// The result as torch's operations, one after another, would lay it out. Not 0: they do not fit.
static int out_as_torch(tfr_call *c, const tfr_array *gate, const tfr_array *up) {
    tfr_array acted = *gate, other = *up, made;
    if (FORM == IN_FLOAT32 && gate->dtype != TFR_F32)
        tfr_out_copy(&acted, gate, TFR_F32);
    if (FORM == IN_FLOAT32 && up->dtype != TFR_F32)
        tfr_out_copy(&other, up, TFR_F32);
    if (has_limit(FORM)) {
        tfr_out_like(&acted, gate, gate->dtype);
        tfr_out_like(&other, up, up->dtype);
    }
    const tfr_array *glu[] = {&acted, &made};
    const tfr_array *of[] = {FORM == SLOPED_CLAMPED ? &other : &acted,
                             FORM == SLOPED_CLAMPED ? &acted : &other};
    tfr_out_like(&made, &acted, acted.dtype);
    if (is_sloped(FORM))
        tfr_out_of(&acted, glu, 2);
    else if (ACT != IDENTITY)
        acted = made;
    if (tfr_out_of(&c->out[0], of, 2))
        return 1;
    if (FORM == IN_FLOAT32 && gate->dtype != TFR_F32)
        tfr_out_copy(&c->out[0], &c->out[0], gate->dtype);
    return 0;
}

static int tfr_plan(tfr_call *c) {
    tfr_array gate, up;
    const tfr_array *in = &c->in[0];
    int64_t rows, width;
    if (in->ndim == 0)
        return tfr_refuse(c, "act_mul: a tensor without dimensions");
    if (LAYOUT != TWO_INPUTS && tfr_last(in) % 2)
        return tfr_refuse(c, "act_mul: the packed width is odd");
    double axis = c->number[has_limit(FORM) + has_slope(FORM)];
    if ((LAYOUT == GATE_UP || LAYOUT == UP_GATE) && axis != -1 && axis != in->ndim - 1)
        return tfr_refuse(c, "act_mul: the halves lie along another axis than the last");
    halves(c, &gate, &up);
    int equal = gate.ndim == up.ndim;
    for (int i = 0; equal && i < gate.ndim; i++)
        equal = gate.size[i] == up.size[i];
    if (!equal && (LAYOUT != TWO_INPUTS || FORM != PLAIN || up.ndim == 0))
        return tfr_refuse(c, "act_mul: gate and up differ in shape");
    if (has_limit(FORM) && bad_limit(c->number[0], gate.dtype, up.dtype))
        return tfr_refuse(c, "act_mul: a limit that is 0, no number or too large for the dtype");
    if (out_as_torch(c, &gate, &up))
        return tfr_refuse(c, "act_mul: gate and up do not fit in shape");
    spread(&gate, &c->out[0]);
    spread(&up, &c->out[0]);
    shape_of(&gate, &up, &c->out[0], &rows, &width);
    c->units = rows * pieces_of(width);
    c->grain = width >= PIECE ? GRAIN / PIECE : GRAIN / (width ? width : 1);
    return 0;
}

TFR_INLINE void span(const void *gate, const void *up, void *out, int64_t n, int act,
                     int gate_dtype, int up_dtype) {
    int to = tfr_promote(gate_dtype, up_dtype);
    for (int64_t i = 0; to == TFR_F32 && i < n; i += 8) {
        tfr_v8 acted = tfr_act(tfr_load(gate, i, gate_dtype), act, gate_dtype);
        tfr_store(out, i, acted * tfr_load(up, i, up_dtype), to);
    }
    for (int64_t i = 0; to == TFR_BF16 && i < n; i += 16) {
        tfr_v8 g[2], u[2];
        tfr_load_pair(gate, i, &g[0], &g[1]);
        tfr_load_pair(up, i, &u[0], &u[1]);
        tfr_store_pair(out, i, tfr_bf16_upper_own(tfr_act(g[0], act, to) * u[0]),
                       tfr_bf16_upper_own(tfr_act(g[1], act, to) * u[1]));
    }
}

// The other forms. The generic build has one loop for all of them.
static void multiply_form(const void *gate, const void *up, void *out, int64_t n, int act,
                          int gate_dtype, int up_dtype, int form, const double *number) {
    int to = result_dtype(form, gate_dtype, up_dtype);
    int in = form == IN_FLOAT32 ? TFR_F32 : gate_dtype;
    float slope = form == SWISH ? 1.0f : (float)number[has_limit(form)];
    tfr_v8 limit = tfr_all((float)number[0]);
    float gate_limit = tfr_round(limit, gate_dtype)[0], up_limit = tfr_round(limit, up_dtype)[0];
    for (int64_t i = 0; i < n; i += 8) {
        tfr_v8 g = tfr_load(gate, i, gate_dtype), u = tfr_load(up, i, up_dtype);
        if (has_limit(form))
            u = tfr_at_most(tfr_at_least(u, -up_limit), up_limit);
        if (has_limit(form) && form != CLAMPED_AFTER)
            g = tfr_at_most(g, gate_limit);
        if (is_sloped(form))
            g = tfr_round(g * tfr_round(tfr_sigmoid(tfr_round(g * slope, in)), in), in);
        else
            g = tfr_act(g, act, in);
        if (form == CLAMPED_AFTER)
            g = tfr_at_most(g, gate_limit);
        if (form == SLOPED_CLAMPED)
            u = tfr_round(u + 1.0f, up_dtype);
        tfr_store(out, i, g * u, to);
    }
}

// n elements, a multiple of 16, that lie one behind another in each array. One loop for each
// activation and pair of dtypes; with macros only one of them is compiled.
static void multiply(const void *gate, const void *up, void *out, int64_t n, int act,
                     int gate_dtype, int up_dtype, int form, const double *number) {
    if (form != PLAIN) {
        multiply_form(gate, up, out, n, act, gate_dtype, up_dtype, form, number);
        return;
    }
#define DTYPES(name, g, u)                                                                         \
    if (gate_dtype == (g) && up_dtype == (u)) {                                                    \
        span(gate, up, out, n, name, g, u);                                                        \
        return;                                                                                    \
    }
#define CASE(name)                                                                                 \
    case name:                                                                                     \
        DTYPES(name, TFR_F32, TFR_F32)                                                             \
        DTYPES(name, TFR_BF16, TFR_BF16)                                                           \
        DTYPES(name, TFR_F32, TFR_BF16)                                                            \
        DTYPES(name, TFR_BF16, TFR_F32)                                                            \
        break;
    switch (act) { TFR_ACT_VALUES(CASE) }
}

// Takes every other element of 2 n: from 0 on into `even`, from 1 on into `odd`.
static void part(const void *packed, int64_t n, void *even, void *odd, int dtype) {
    if (dtype == TFR_BF16) {
        const uint16_t *from = packed;
        uint16_t *a = even, *b = odd;
        for (int64_t i = 0; i < n; i++) {
            a[i] = from[2 * i];
            b[i] = from[2 * i + 1];
        }
        return;
    }
    const uint32_t *from = packed;
    uint32_t *a = even, *b = odd;
    for (int64_t i = 0; i < n; i++) {
        a[i] = from[2 * i];
        b[i] = from[2 * i + 1];
    }
}

static const char *at(const tfr_array *a, int64_t elements) {
    return (const char *)a->data + elements * tfr_size_of(a->dtype);
}

// Any n. The last few elements go through buffers of 16, so that there is no second copy of the
// loops.
static void multiply_all(const char *gate, const char *up, char *out, int64_t n, int act,
                         int gate_dtype, int up_dtype, int form, const double *number) {
    int64_t whole = n & ~INT64_C(15), rest = n - whole;
    float g[16] = {0}, u[16] = {0}, o[16]; // of either dtype
    multiply(gate, up, out, whole, act, gate_dtype, up_dtype, form, number);
    if (rest == 0)
        return;
    int64_t gate_size = tfr_size_of(gate_dtype), up_size = tfr_size_of(up_dtype);
    int64_t out_size = tfr_size_of(result_dtype(form, gate_dtype, up_dtype));
    memcpy(g, gate + whole * gate_size, (size_t)(rest * gate_size));
    memcpy(u, up + whole * up_size, (size_t)(rest * up_size));
    multiply(g, u, o, 16, act, gate_dtype, up_dtype, form, number);
    memcpy(out + whole * out_size, o, (size_t)(rest * out_size));
}

// A piece of a row of which gate, or else up, is one element again and again. PLAIN alone.
static void multiply_one(const char *gate, const char *up, char *out, int64_t n, int act,
                         int gate_dtype, int up_dtype, int gate_repeats) {
    char same[4 * STEP];
    int dtype = gate_repeats ? gate_dtype : up_dtype;
    tfr_v8 one = tfr_all(tfr_load_part(gate_repeats ? gate : up, 0, 1, dtype)[0]);
    if (gate_repeats)
        one = tfr_act(one, act, dtype);
    for (int64_t i = 0; i < STEP; i += 8)
        tfr_store(same, i, one, dtype);
    int64_t gate_size = tfr_size_of(gate_dtype), up_size = tfr_size_of(up_dtype);
    int64_t out_size = tfr_size_of(tfr_promote(gate_dtype, up_dtype));
    for (int64_t i = 0; i < n; i += STEP)
        multiply_all(gate_repeats ? same : gate + i * gate_size,
                     gate_repeats ? up + i * up_size : same, out + i * out_size,
                     n - i < STEP ? n - i : STEP, gate_repeats ? IDENTITY : act, gate_dtype,
                     up_dtype, PLAIN, 0);
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    tfr_array gate, up;
    int64_t rows, width;
    (void)scratch;
    halves(c, &gate, &up);
    spread(&gate, &c->out[0]);
    spread(&up, &c->out[0]);
    shape_of(&gate, &up, &c->out[0], &rows, &width);
    const int64_t pieces = pieces_of(width), size = tfr_size_of(GATE_DTYPE);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit / pieces, from = (unit - row * pieces) * PIECE;
        int64_t n = width - from < PIECE ? width - from : PIECE;
        const char *g = at(&gate, rows == 1 ? 0 : tfr_row(&gate, row));
        const char *u = at(&up, rows == 1 ? 0 : tfr_row(&up, row));
        char *o = (char *)at(&c->out[0], (rows == 1 ? 0 : tfr_row(&c->out[0], row)) + from);
        if (repeats(&gate) || repeats(&up)) {
            g += repeats(&gate) ? 0 : from * size;
            u += repeats(&up) ? 0 : from * tfr_size_of(UP_DTYPE);
            multiply_one(g, u, o, n, ACT, GATE_DTYPE, UP_DTYPE, repeats(&gate));
            continue;
        }
        if (LAYOUT != INTERLEAVED) {
            multiply_all(g + from * size, u + from * tfr_size_of(UP_DTYPE), o, n, ACT, GATE_DTYPE,
                         UP_DTYPE, FORM, c->number);
            continue;
        }
        for (int64_t i = 0; i < n; i += STEP) {
            char gates[4 * STEP], ups[4 * STEP];
            int64_t m = n - i < STEP ? n - i : STEP;
            part(g + 2 * (from + i) * size, m, gates, ups, GATE_DTYPE);
            multiply_all(gates, ups, o + i * size, m, ACT, GATE_DTYPE, GATE_DTYPE, FORM, c->number);
        }
    }
}

// gate, up, out, or the interleaved tensor and out; as one row where they are flat.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    tfr_array gate, up, out = c->out[0];
    int64_t rows, width;
    halves(c, &gate, &up);
    spread(&gate, &out);
    spread(&up, &out);
    shape_of(&gate, &up, &out, &rows, &width);
    if (rows == 1 && tfr_last(&out) != width) {
        gate.ndim = up.ndim = out.ndim = 1;
        gate.size[0] = up.size[0] = out.size[0] = width;
        gate.stride[0] = up.stride[0] = out.stride[0] = 1;
    }
    const tfr_array *packed[] = {&c->in[0], &out}, *apart[] = {&gate, &up, &out};
    int vector = tfr_act_vector(LAYOUT, GATE_DTYPE, UP_DTYPE);
    l->units = tfr_units(rows * tfr_units(width, vector), TFR_ACT_THREADS);
    return LAYOUT == INTERLEAVED ? tfr_lay_part(l, packed, 2) : tfr_lay_part(l, apart, 3);
}

TFR_DEVICE_KERNEL("ACT LAYOUT FORM", VALUES)
