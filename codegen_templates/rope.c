// rope: rotary position embedding of q and k, or of one of them: every variant of rules/rope.py but
// the one that looks its tables up.
//
// in: q, k (or x alone), cos, sin; out: one for each of q and k. Rows are runs of the last
// dimension, anywhere in memory; cos and sin broadcast over them, after a size-1 dimension at
// `dim`, the number, unless GIVEN (FOUR: and x has four dimensions). A row has `width` columns that
// turn, in pairs, and behind them (PARTIAL=YES) or before them (LAST) columns that are copied.
// LAYOUT says where the two of pair i lie in x, in the result, and their angles in cos:
//     HALF                 i, i + w/2      the same        the same
//     HALF_BACK            the same, turned the other way
//     HALF_WIDTH           i, i + w/2      the same        i for both; cos has w/2 columns
//     PAIRS, PAIRS_VIEW    2i, 2i + 1      the same        the same
//     PAIRS_WIDTH          2i, 2i + 1      the same        i for both; cos has w/2 columns
//     PAIRS_REPEAT         2i, 2i + 1      the same        i for both
//     PAIRS_TO_HALF        2i, 2i + 1      i, i + w/2      i for both
//     PAIRS_TO_HALF_WIDTH  2i, 2i + 1      i, i + w/2      i for both; cos has w/2 columns
//     REGROUPED            2i, 2i + 1      i, i + w/2      i, i + w/2
// Must move: q and k in, as much out, and cos and sin once.
// Work: one unit is one row, q's before k's, in the order of q's and k's memory; the rows of one
// position follow each other there, so that its cos and sin stay in the first cache.
// Rounding: each product and the sum to torch's promotion of their dtypes, so nothing is rounded in
// between unless x and cos are bf16 (ROUND=EACH). RESULT: the sum, to x's dtype. FLOAT32: products
// and sum in f32, the sum rounded to x's dtype; FLOAT32_AS_Q: to q's.
#include "codegen_templates/rope.h"
#include "codegen_templates/lay.h"
#include "codegen_templates/rope_layouts.h"

#if defined LAYOUT && defined ROUND && defined COS_DTYPE && defined Q_DTYPE
#define COMPILED_IN // one kind of rows, or two where q and k differ, instead of all
#endif
#ifndef LAYOUT
#define LAYOUT (c->option[0])
#endif
#ifndef ROUND
#define ROUND (c->option[1])
#endif
#ifndef PARTIAL
#define PARTIAL (c->option[2])
#endif
#ifndef GIVEN
#define GIVEN (c->option[3])
#endif
#ifndef Q_DTYPE
#define Q_DTYPE (c->in[0].dtype)
#define K_DTYPE (c->in[1].dtype)
#endif
#ifndef COS_DTYPE
#define COS_DTYPE (c->in[c->input_count - 2].dtype)
#endif
#ifndef SIN_DTYPE
#define SIN_DTYPE (c->in[c->input_count - 1].dtype)
#endif
// ------------------------------------------------------------------ one row
// The layout, and the dtypes of x, of cos and sin, of the result and of the products.
typedef struct kind {
    int layout, x, cos, out, product;
} kind;

typedef struct rope {
    tfr_walk walk;         // x, cos, sin, out
    int64_t width, copied; // columns that turn, and those behind or before them
    int64_t first;         // columns before those that turn: 0 or `copied`
    int64_t angle_step;    // 0: cos and sin have one column for all
    kind kind;
    int sin_dtype, sin_product; // where they are not those of cos
} rope;
enum { X, COS, SIN, OUT };

#ifdef COS_LAST
#define WIDTH(layout) turning(COS_LAST, layout) // q and k share cos, so they have the same
#else
#define WIDTH(layout) (r->width)
#endif

// Pairs of bf16 come apart by a shift, in the order in which they stand. Those of f32 do within
// half vectors, in one instruction each; their lanes then hold pairs 0 1 4 5 2 3 6 7, which this
// changes from and to.
TFR_INLINE tfr_v8 reorder(tfr_v8 v) { return TFR_LANES(v, v, 0, 1, 4, 5, 2, 3, 6, 7); }

// Whether lanes hold pairs in the order in which they stand.
TFR_INLINE int in_order(kind k) {
    return k.x == TFR_BF16 || k.cos == TFR_BF16 || k.out == TFR_BF16 || !reads_pairs(k.layout);
}

TFR_INLINE void get_pairs(const void *p, int64_t i, int64_t n, int dtype, kind k, tfr_v8 *a,
                          tfr_v8 *b) {
    if (dtype == TFR_BF16) {
        const char *from = (const char *)p + 4 * i;
        char bytes[32] = {0};
        if (n < 8)
            from = memcpy(bytes, from, (size_t)(4 * n));
        tfr_load_pair(from, 0, a, b);
        return;
    }
    tfr_v8 low = tfr_get(p, 2 * i, 2 * n, dtype), high = tfr_get(p, 2 * i + 8, 2 * n - 8, dtype);
    *a = TFR_LANES(low, high, 0, 2, 8, 10, 4, 6, 12, 14);
    *b = TFR_LANES(low, high, 1, 3, 9, 11, 5, 7, 13, 15);
    if (in_order(k)) {
        *a = reorder(*a);
        *b = reorder(*b);
    }
}

TFR_INLINE void put_pairs(void *p, int64_t i, int64_t n, tfr_v8 a, tfr_v8 b, kind k) {
    if (k.out == TFR_BF16) {
        char bytes[32];
        char *to = (char *)p + 4 * i;
        tfr_store_pair(n < 8 ? bytes : to, 0, tfr_bf16_upper(a), tfr_bf16_upper(b));
        if (n < 8)
            memcpy(to, bytes, (size_t)(4 * n));
        return;
    }
    if (in_order(k)) {
        a = reorder(a);
        b = reorder(b);
    }
    tfr_put(p, 2 * i, 2 * n, TFR_LANES(a, b, 0, 8, 1, 9, 4, 12, 5, 13), k.out);
    tfr_put(p, 2 * i + 8, 2 * n - 8, TFR_LANES(a, b, 2, 10, 3, 11, 6, 14, 7, 15), k.out);
}

// The angles of pairs i .. i + n - 1, in the lanes in which the pairs of x are.
TFR_INLINE void get_angles(const void *p, int64_t i, int64_t n, int64_t half, kind k, tfr_v8 *a,
                           tfr_v8 *b) {
    if (plain_pairs(k.layout)) {
        get_pairs(p, i, n, k.cos, k, a, b);
        return;
    }
    *a = tfr_get(p, i, n, k.cos);
    *b = one_angle(k.layout) ? *a : tfr_get(p, half + i, n, k.cos);
    if (!in_order(k)) {
        *a = reorder(*a);
        *b = reorder(*b);
    }
}

// Turns pairs i .. i + n - 1, n <= 8, of one row.
TFR_INLINE void turn(char *const *at, int64_t i, int64_t n, int64_t half, kind k) {
    tfr_v8 a, b, cos[2], sin[2];
    if (reads_pairs(k.layout)) {
        get_pairs(at[X], i, n, k.x, k, &a, &b);
    } else {
        a = tfr_get(at[X], i, n, k.x);
        b = tfr_get(at[X], half + i, n, k.x);
    }
    get_angles(at[COS], i, n, half, k, &cos[0], &cos[1]);
    get_angles(at[SIN], i, n, half, k, &sin[0], &sin[1]);
    if (k.layout == HALF_BACK) {
        sin[0] = -sin[0];
        sin[1] = -sin[1];
    }
    tfr_rotate(&a, &b, cos[0], sin[0], cos[1], sin[1], k.product);
    if (writes_pairs(k.layout)) {
        put_pairs(at[OUT], i, n, a, b, k);
        return;
    }
    if (!in_order(k)) {
        a = reorder(a);
        b = reorder(b);
    }
    tfr_put(at[OUT], i, n, a, k.out);
    tfr_put(at[OUT], half + i, n, b, k.out);
}

// Turns pairs i .. i + 15 of a row whose halves are apart.
enum { BLOCK = 16 };
TFR_INLINE void turn_block(char *const *at, int64_t i, int64_t half, kind k) {
    int in_turns = k.x == TFR_BF16 && k.cos == TFR_BF16 && k.out == TFR_BF16;
    int64_t second = one_angle(k.layout) ? i : half + i;
    tfr_v8 a[2], b[2], c1[2], s1[2], c2[2], s2[2];
    tfr_load_16(at[X], i, k.x, in_turns, a);
    tfr_load_16(at[X], half + i, k.x, in_turns, b);
    tfr_load_16(at[COS], i, k.cos, in_turns, c1);
    tfr_load_16(at[SIN], i, k.cos, in_turns, s1);
    tfr_load_16(at[COS], second, k.cos, in_turns, c2);
    tfr_load_16(at[SIN], second, k.cos, in_turns, s2);
    int back = k.layout == HALF_BACK;
    for (int n = 0; n < 2; n++)
        tfr_rotate(&a[n], &b[n], c1[n], back ? -s1[n] : s1[n], c2[n], back ? -s2[n] : s2[n],
                   k.product);
    tfr_store_16(at[OUT], i, a, k.out, in_turns);
    tfr_store_16(at[OUT], half + i, b, k.out, in_turns);
}

TFR_INLINE void copy_columns(char *out, const char *x, int64_t from, int64_t n, int out_dtype,
                             int x_dtype) {
    if (out_dtype == x_dtype) { // whatever the bits of a NaN are
        int64_t size = tfr_size_of(x_dtype);
        memcpy(out + from * size, x + from * size, (size_t)(n * size));
        return;
    }
    for (int64_t i = 0; i < n; i += 8)
        tfr_put(out, from + i, n - i, tfr_get(x, from + i, n - i, x_dtype), out_dtype);
}

// The first row, from the first column on that turns.
TFR_INLINE void start_rows(char **at, const rope *r) {
    for (int n = 0; n < TFR_WALK_ARRAYS; n++)
        at[n] = r->walk.here[n];
    at[X] += r->first * tfr_size_of(r->kind.x);
    at[OUT] += r->first * tfr_size_of(r->kind.out);
}

// The last step of a row goes back as far as it must: some columns are then made twice.
TFR_INLINE void turn_rows(const rope *r, int64_t rows, int64_t width, kind k) {
    char *at[TFR_WALK_ARRAYS];
    start_rows(at, r);
    int64_t half = width / 2, i;
    for (; rows > 0; rows--, tfr_walk_step(&r->walk, at)) {
        if (!reads_pairs(k.layout) && half >= BLOCK) {
            for (i = 0; i + BLOCK <= half; i += BLOCK)
                turn_block(at, i, half, k);
            if (i < half)
                turn_block(at, half - BLOCK, half, k);
        } else {
            for (i = 0; i + 8 <= half; i += 8)
                turn(at, i, 8, half, k);
            if (i < half && half >= 8)
                turn(at, half - 8, 8, half, k);
            else if (i < half)
                turn(at, i, half - i, half, k);
        }
        if (r->copied > 0)
            copy_columns(at[OUT], at[X], r->first ? -r->first : width, r->copied, k.out, k.x);
    }
}

// One column of one row, for what is too rare to have a function of its own: one angle for all
// columns, cos and sin or x and the result of unlike dtypes.
TFR_INLINE float turn_one(const rope *r, char *const *at, int64_t i) {
    int64_t half = r->width / 2, other, angle = i, own = i;
    int second =
        reads_pairs(r->kind.layout) && writes_pairs(r->kind.layout) ? (int)(i & 1) : i >= half;
    if (writes_pairs(r->kind.layout)) {
        other = i ^ 1;
        angle = one_angle(r->kind.layout) ? i / 2 : i;
    } else {
        other = second ? i - half : half + i;
        angle = one_angle(r->kind.layout) && second ? i - half : i;
        if (reads_pairs(r->kind.layout)) {
            own = second ? 2 * (i - half) + 1 : 2 * i;
            other = own ^ 1;
        }
    }
    float x = tfr_load_one(at[X], own, r->kind.x), y = tfr_load_one(at[X], other, r->kind.x);
    float cos = tfr_load_one(at[COS], angle * r->angle_step, r->kind.cos);
    float sin = tfr_load_one(at[SIN], angle * r->angle_step, r->sin_dtype);
    int minus = second == (r->kind.layout == HALF_BACK);
    return tfr_round_one(x * cos, r->kind.product) +
           tfr_round_one((minus ? -y : y) * sin, r->sin_product);
}

static __attribute__((noinline)) void turn_any_rows(const rope *r, int64_t rows) {
    char *at[TFR_WALK_ARRAYS];
    int64_t from = r->first ? -r->first : r->width;
    start_rows(at, r);
    for (; rows > 0; rows--, tfr_walk_step(&r->walk, at)) {
        for (int64_t i = 0; i < r->width; i++)
            tfr_store_part(at[OUT], i, 1, tfr_all(turn_one(r, at, i)), r->kind.out);
        copy_columns(at[OUT], at[X], from, r->copied, r->kind.out, r->kind.x);
    }
}

// ------------------------------------------------------------------ one function for each kind
// The kind of q's rows (part 0) or k's (part 1).
TFR_INLINE kind kind_of(const tfr_call *c, int part) {
    int x = part ? K_DTYPE : Q_DTYPE;
    kind k = {.layout = plain_pairs(LAYOUT) ? PAIRS : LAYOUT, .x = x, .cos = COS_DTYPE};
    k.product = product_dtype(ROUND, x, COS_DTYPE);
    k.out = result_dtype(ROUND, x, Q_DTYPE, COS_DTYPE, SIN_DTYPE);
    (void)c;
    return k;
}

typedef void turn_function(const rope *r, int64_t rows);

#ifdef COMPILED_IN
static __attribute__((noinline)) void turn_q(const rope *r, int64_t rows) {
    turn_rows(r, rows, WIDTH(LAYOUT), kind_of(0, 0));
}

static __attribute__((noinline)) void turn_k(const rope *r, int64_t rows) {
    turn_rows(r, rows, WIDTH(LAYOUT), kind_of(0, 1));
}

TFR_INLINE turn_function *pick_kind(int part, kind k) {
    (void)k;
    return part && K_DTYPE != Q_DTYPE ? turn_k : turn_q;
}
#else
// KIND(layout, x, cos and sin, the result, the products)
#define KINDS(KIND, layout)                                                                        \
    KIND(layout, F32, F32, F32, F32)                                                               \
    KIND(layout, F32, BF16, F32, F32)                                                              \
    KIND(layout, BF16, BF16, BF16, BF16)                                                           \
    KIND(layout, BF16, BF16, BF16, F32)                                                            \
    KIND(layout, BF16, F32, F32, F32)                                                              \
    KIND(layout, BF16, F32, BF16, F32)
#define LAYOUTS(KIND)                                                                              \
    KINDS(KIND, HALF)                                                                              \
    KINDS(KIND, HALF_WIDTH)                                                                        \
    KINDS(KIND, PAIRS)                                                                             \
    KINDS(KIND, PAIRS_WIDTH)                                                                       \
    KINDS(KIND, PAIRS_REPEAT)                                                                      \
    KINDS(KIND, PAIRS_TO_HALF)                                                                     \
    KINDS(KIND, REGROUPED)
#define NAME(layout, x, cos, out, product) turn_##layout##_##x##_##cos##_##out##_##product

#define DEFINE(layout, x, cos, out, product)                                                       \
    static __attribute__((noinline)) void NAME(layout, x, cos, out, product)(const rope *r,        \
                                                                             int64_t rows) {       \
        turn_rows(r, rows, r->width,                                                               \
                  (kind){layout, TFR_##x, TFR_##cos, TFR_##out, TFR_##product});                   \
    }
LAYOUTS(DEFINE)

static turn_function *pick_kind(int part, kind k) {
#define PICK(layout_, x_, cos_, out_, product_)                                                    \
    if (k.layout == layout_ && k.x == TFR_##x_ && k.cos == TFR_##cos_ && k.out == TFR_##out_ &&    \
        k.product == TFR_##product_)                                                               \
        return NAME(layout_, x_, cos_, out_, product_);
    LAYOUTS(PICK)
    (void)part;
    return turn_any_rows;
}
#endif

// ------------------------------------------------------------------ plan and run
TFR_INLINE void describe(rope *r, const tfr_call *c, int part) {
    int64_t head = tfr_last(&c->in[part]), angles = tfr_last(&c->in[c->input_count - 2]);
    r->kind = kind_of(c, part);
    r->sin_dtype = SIN_DTYPE;
    r->sin_product = product_dtype(ROUND, r->kind.x, SIN_DTYPE);
    r->width = PARTIAL == NO ? head : turning(angles, LAYOUT);
    r->copied = head - r->width;
    r->first = PARTIAL == LAST ? r->copied : 0;
    r->angle_step = r->width == turning(angles, LAYOUT);
}

TFR_INLINE turn_function *pick(const rope *r, const tfr_call *c, int part) {
    (void)c;
    return COS_DTYPE != SIN_DTYPE || r->angle_step == 0 ? turn_any_rows
                                                        : pick_kind(part, kind_of(c, part));
}

// cos and sin as they broadcast against q and k. Not 0: no such dimension.
TFR_INLINE int get_tables(const tfr_call *c, tfr_array *cos, tfr_array *sin) {
    *cos = c->in[c->input_count - 2];
    *sin = c->in[c->input_count - 1];
    if (GIVEN != NO)
        return 0;
    int64_t dim = (int64_t)c->number[0];
    return tfr_unsqueeze(cos, dim) || tfr_unsqueeze(sin, dim);
}

// Whether there are as many angles as the layout needs, or one for all.
static int angles_fit(const rope *r, int64_t angles) {
    int one = r->kind.layout == PAIRS_TO_HALF ? angles / 2 == 1
                                              : r->kind.layout != PAIRS_REPEAT && angles == 1;
    return r->copied >= 0 && r->width % 2 == 0 && (r->first == 0 || r->width > 0) &&
           (r->width == turning(angles, r->kind.layout) || (one && r->width > 0));
}

// The result's sizes and strides: torch.cat makes a contiguous one, a sum keeps x's order.
static int make_out(tfr_array *out, const rope *r, int partial, const tfr_array *x,
                    const tfr_array *cos, const tfr_array *sin) {
    tfr_array rows = *x, c = *cos, s = *sin;
    int is_cat = half_as_wide(r->kind.layout) || r->kind.layout == PAIRS_TO_HALF || partial;
    if (is_cat) {
        rows.size[x->ndim - 1] = c.size[c.ndim - 1] = s.size[s.ndim - 1] = 1;
    } else if (r->kind.layout == PAIRS_REPEAT) { // repeat_interleave copies
        tfr_out_dense(&c, cos, r->width, cos->dtype);
        tfr_out_dense(&s, sin, r->width, sin->dtype);
    } else if (r->kind.layout == REGROUPED && r->width > 2) { // so does its reshape
        tfr_out_dense(&rows, x, r->width, x->dtype);
    }
    if (r->kind.product != tfr_promote(x->dtype, cos->dtype) && rows.dtype != TFR_F32)
        tfr_out_copy(&rows, &rows, TFR_F32);
    if (tfr_rope_out(out, &rows, &c, &s))
        return 1;
    if (is_cat)
        tfr_out_dense(out, out, r->width + r->copied, r->kind.out);
    out->dtype = r->kind.out;
    return 0;
}

static __attribute__((noinline)) int plan_one(tfr_call *c, int part, const tfr_array *cos,
                                              const tfr_array *sin) {
    const tfr_array *x = &c->in[part];
    tfr_array *out = &c->out[part];
    rope r;
    if (x->ndim == 0 || cos->ndim == 0)
        return tfr_refuse(c, "rope: a tensor without dimensions");
    describe(&r, c, part);
    if (!angles_fit(&r, tfr_last(cos)) || tfr_last(sin) != tfr_last(cos))
        return tfr_refuse(c, "rope: the head size and the columns of cos and sin do not fit");
    if ((r.kind.layout == REGROUPED || GIVEN == FOUR) && x->ndim != 4)
        return tfr_refuse(c, "rope: this layout is for four dimensions");
    if (LAYOUT == PAIRS_VIEW && (tfr_rows(x) == 0 || tfr_last(x) == 0))
        return tfr_refuse(c, "rope: torch cannot view no elements as pairs");
    if (make_out(out, &r, PARTIAL != NO, x, cos, sin))
        return tfr_refuse(c, "rope: cos and sin do not broadcast against q or k");
    if (PARTIAL != NO && tfr_rows(out) != tfr_rows(x))
        return tfr_refuse(c, "rope: q or k cannot be repeated where columns are copied");
    c->units += tfr_last(out) ? tfr_rows(out) : 0;
    return 0;
}

static int tfr_plan(tfr_call *c) {
    tfr_array cos, sin;
    c->units = c->scratch = 0;
    if (get_tables(c, &cos, &sin))
        return tfr_refuse(c, "rope: unsqueeze_dim is out of range");
    for (int part = 0; part < c->output_count; part++)
        if (plan_one(c, part, &cos, &sin))
            return 1;
    c->grain = 32768 / (tfr_last(&c->in[0]) + 1) + 1;
    return 0;
}

static __attribute__((noinline)) void run_one(const tfr_call *c, int part, int64_t begin,
                                              int64_t end, void *scratch) {
    (void)scratch;
    rope r;
    tfr_array cos, sin;
    const tfr_array *of[TFR_WALK_ARRAYS] = {&c->in[part], &cos, &sin, &c->out[part]};
    describe(&r, c, part);
    turn_function *function = pick(&r, c, part);
    get_tables(c, &cos, &sin);
    tfr_walk_start(&r.walk, of, of[OUT]);
    tfr_walk_seek(&r.walk, begin);
    for (int64_t left = end - begin, n; left > 0; left -= n) {
        n = tfr_walk_run(&r.walk, left);
        function(&r, n);
        tfr_walk_go(&r.walk, n);
    }
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    tfr_run_parts(c, begin, end, scratch, run_one);
}

// For each of q and k: x, cos, sin, out. One angle for all columns has no kernel.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    tfr_array cos, sin;
    get_tables(c, &cos, &sin);
    for (int part = 0; part < c->output_count; part++) {
        const tfr_array *of[] = {&c->in[part], &cos, &sin, &c->out[part]};
        rope r;
        describe(&r, c, part);
        if (r.angle_step == 0 || tfr_lay_part(l, of, 4))
            return 1;
        kind k = r.kind;
        int64_t turned = r.width / 2 / turned_vector(k.layout, r.width, k.x, k.out);
        int64_t copied = tfr_units(r.copied, copied_vector(r.width, k.x, k.out));
        l->units += tfr_units(tfr_rows(&c->out[part]) * (turned + copied), TFR_ROPE_THREADS);
    }
    return 0;
}

TFR_DEVICE_KERNEL("LAYOUT ROUND PARTIAL GIVEN", VALUES)
