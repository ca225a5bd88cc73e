// qk_norm_rope: q and k, each row through its RMS norm and then through the rotary position
// embedding of layout "half"; the heads may move before the positions on the way.
//
// in: q, k: [..., head], anywhere in memory; the weights of their norms, [head] or absent; cos,
// sin, which get a size-1 dimension at `dim` and then broadcast over the rows. number: the norms'
// eps, dim. out: as torch has (x * cos) + (rotate_half(x) * sin) of the normalised x.
// OUT=TRANSPOSED: of x.transpose(1, 2), a change of the strides alone, since the sum keeps x's
// order in memory. Must move: q and k in, as much out, and cos, sin and the weights once; a row is
// read twice, the second time out of the first cache. Work: one unit is one row, q's before k's, in
// the order of q's and k's memory, so that the heads of one position share its cos and sin. The
// weights' factors are made in f32 once per call of run. Rounding: the norm's points (norm.h), then
// each product and the sum to torch's promotion of the norm's result with cos and sin.
#include "codegen_templates/lay.h"
#include "codegen_templates/norm.h"
#include "codegen_templates/qk_rows.h"
#include "codegen_templates/rope.h"

#if defined ORDER && defined Q_DTYPE && defined K_DTYPE && defined COS_DTYPE &&                    \
    defined Q_NORM_WEIGHT_DTYPE && defined K_NORM_WEIGHT_DTYPE
#define COMPILED_IN // one kind of rows, or two where q and k differ, instead of all
#endif
#ifndef ORDER
#define ORDER (c->option[0])
#endif
#ifndef OUT
#define OUT (c->option[1])
#endif
#ifndef Q_DTYPE
#define Q_DTYPE (c->in[0].dtype)
#endif
#ifndef K_DTYPE
#define K_DTYPE (c->in[1].dtype)
#endif
#ifndef Q_NORM_WEIGHT_DTYPE
#define Q_NORM_WEIGHT_DTYPE (c->in[2].dtype)
#endif
#ifndef K_NORM_WEIGHT_DTYPE
#define K_NORM_WEIGHT_DTYPE (c->in[3].dtype)
#endif
#ifndef COS_DTYPE
#define COS_DTYPE (c->in[4].dtype)
#endif
#ifndef SIN_DTYPE
#define SIN_DTYPE (c->in[5].dtype)
#endif
#ifdef COS_LAST
#define HEAD COS_LAST // also q's and k's head size, or `any` runs
#else
#define HEAD (r->head)
#endif

// ------------------------------------------------------------------ rows
// The dtypes of x, of x * root, of the norm's result, of cos and sin, and of the result.
typedef struct kind {
    int x, inner, normed, cos, out;
} kind;

typedef struct rows {
    tfr_walk walk; // x, cos, sin, out
    // What each normalised column is multiplied with: one after the other, or, for rows in blocks,
    // 16 of the first half and 16 of the second in the order in which tfr_load_16 has them.
    const float *factor;
    float *normed; // one row, for `any`
    int64_t head, angles;
    float eps;
    int order, sin_dtype;
    kind kind;
} rows;
enum { AT_X, AT_COS, AT_SIN, AT_OUT };
// Columns of each half at a time; rows whose roots are made at a time: nobody waits for one of
// them, which is a long chain of operations; and rows that share what is loaded of cos, sin and
// factors.
enum { BLOCK = 16, ROWS = 8, TOGETHER = 2 };

// All bf16: then two vectors take every other column each.
TFR_INLINE int is_in_turns(kind k) {
    return k.x == TFR_BF16 && k.cos == TFR_BF16 && k.out == TFR_BF16;
}

TFR_INLINE tfr_v8 rounded(tfr_v8 v, int dtype, kind k) {
    return k.x == TFR_BF16 ? tfr_round_own(v, dtype) : tfr_round(v, dtype);
}

// (a, b), the lanes of both halves, through the norm and turned.
TFR_INLINE void turn(tfr_v8 *a, tfr_v8 *b, tfr_v8 root, tfr_v8 f1, tfr_v8 f2, tfr_v8 c1, tfr_v8 s1,
                     tfr_v8 c2, tfr_v8 s2, kind k) {
    tfr_v8 x = rounded(rounded(*a * root, k.inner, k) * f1, k.normed, k);
    tfr_v8 y = rounded(rounded(*b * root, k.inner, k) * f2, k.normed, k);
    tfr_rotate(&x, &y, c1, s1, c2, s2, k.out); // f32, or everything is bf16
    *a = x;
    *b = y;
}

// Columns i .. i + 15 of both halves of `together` rows with the same cos and sin.
TFR_INLINE void turn_block(char *const *at, const int64_t *step, int together, int64_t i,
                           int64_t half, const float *root, const float *factor, kind k) {
    tfr_v8 c1[2], s1[2], c2[2], s2[2];
    int in_turns = is_in_turns(k);
    tfr_load_16(at[AT_COS], i, k.cos, in_turns, c1);
    tfr_load_16(at[AT_SIN], i, k.cos, in_turns, s1);
    tfr_load_16(at[AT_COS], half + i, k.cos, in_turns, c2);
    tfr_load_16(at[AT_SIN], half + i, k.cos, in_turns, s2);
    for (int row = 0; row < together; row++) {
        const char *x = at[AT_X] + row * step[AT_X];
        char *out = at[AT_OUT] + row * step[AT_OUT];
        tfr_v8 a[2], b[2];
        tfr_load_16(x, i, k.x, in_turns, a);
        tfr_load_16(x, half + i, k.x, in_turns, b);
        for (int n = 0; n < 2; n++)
            turn(&a[n], &b[n], tfr_all(root[row]), tfr_load(factor, 8 * n, TFR_F32),
                 tfr_load(factor, BLOCK + 8 * n, TFR_F32), c1[n], s1[n], c2[n], s2[n], k);
        tfr_store_16(out, i, a, k.out, in_turns);
        tfr_store_16(out, half + i, b, k.out, in_turns);
    }
}

// Columns i .. i + n - 1 of both halves, n <= 8, of a row too short for a block.
TFR_INLINE void turn_part(char *const *at, int64_t i, int64_t n, int64_t half, float root,
                          const float *factor, kind k) {
    tfr_v8 a = tfr_get(at[AT_X], i, n, k.x), b = tfr_get(at[AT_X], half + i, n, k.x);
    turn(&a, &b, tfr_all(root), tfr_get(factor, i, n, TFR_F32),
         tfr_get(factor, half + i, n, TFR_F32), tfr_get(at[AT_COS], i, n, k.cos),
         tfr_get(at[AT_SIN], i, n, k.cos), tfr_get(at[AT_COS], half + i, n, k.cos),
         tfr_get(at[AT_SIN], half + i, n, k.cos), k);
    tfr_put(at[AT_OUT], i, n, a, k.out);
    tfr_put(at[AT_OUT], half + i, n, b, k.out);
}

TFR_INLINE void turn_rows(char *const *at, const int64_t *step, int together, int64_t half,
                          const float *root, const float *factor, kind k) {
    int64_t i = 0;
    if (half < BLOCK) {
        for (; i < half; i += 8)
            turn_part(at, i, half - i < 8 ? half - i : 8, half, *root, factor, k);
        return;
    }
    for (; i + BLOCK <= half; i += BLOCK, factor += 2 * BLOCK)
        turn_block(at, step, together, i, half, root, factor, k);
    if (i < half) // the last columns, some of them for the second time
        turn_block(at, step, together, half - BLOCK, half, root, factor, k);
}

TFR_INLINE void run_rows(const rows *r, int64_t count, int64_t head, kind k) {
    char *at[TFR_WALK_ARRAYS];
    int64_t step[TFR_WALK_ARRAYS];
    for (int i = 0; i < TFR_WALK_ARRAYS; i++) {
        at[i] = r->walk.here[i];
        step[i] = r->walk.step[i][r->walk.ndim - 1];
    }
    int is_shared = step[AT_COS] == 0 && step[AT_SIN] == 0 && head >= 2 * BLOCK;
    for (int64_t done = 0, n; done < count; done += n) {
        float root[ROWS] = {0};
        n = count - done < ROWS ? count - done : ROWS;
        for (int64_t i = 0; i < n; i++)
            root[i] = tfr_norm_squares(at[AT_X] + i * step[AT_X], head, k.x);
        for (int64_t i = 0; i < ROWS; i++) // all of them, as vectors
            root[i] = tfr_norm_root(root[i], head, r->eps, r->order, k.x);
        for (int64_t i = 0, now; i < n; i += now) {
            now = is_shared && i + TOGETHER <= n ? TOGETHER : 1;
            if (now == TOGETHER)
                turn_rows(at, step, TOGETHER, head / 2, root + i, r->factor, k);
            else
                turn_rows(at, step, 1, head / 2, root + i, r->factor, k);
            for (int a = 0; a < TFR_WALK_ARRAYS; a++)
                at[a] += now * step[a];
        }
    }
}

// For what is too rare to have a function of its own: odd heads, one angle for all columns, cos and
// sin of unlike dtypes.
static __attribute__((noinline)) void any(const rows *r, int64_t count) {
    char *at[TFR_WALK_ARRAYS] = {r->walk.here[AT_X], r->walk.here[AT_COS], r->walk.here[AT_SIN],
                                 r->walk.here[AT_OUT]};
    int64_t head = r->head, half = head / 2, step = r->angles != 1 || head == 1;
    int cos_product = tfr_promote(r->kind.normed, r->kind.cos);
    int sin_product = tfr_promote(r->kind.normed, r->sin_dtype);
    for (; count > 0; count--, tfr_walk_step(&r->walk, at)) {
        float squares = tfr_norm_squares(at[AT_X], head, r->kind.x);
        tfr_v8 root = tfr_all(tfr_norm_root(squares, head, r->eps, r->order, r->kind.x));
        for (int64_t i = 0; i < head; i += 8) {
            tfr_v8 x = tfr_round(tfr_get(at[AT_X], i, head - i, r->kind.x) * root, r->kind.inner);
            x = tfr_round(x * tfr_get(r->factor, i, head - i, TFR_F32), r->kind.normed);
            tfr_put(r->normed, i, head - i, x, TFR_F32);
        }
        for (int64_t i = 0; i < head; i++) { // an odd head: as torch.cat has it
            float other = i < head - half ? -r->normed[half + i] : r->normed[i - (head - half)];
            float cos = tfr_load_one(at[AT_COS], i * step, r->kind.cos);
            float sin = tfr_load_one(at[AT_SIN], i * step, r->sin_dtype);
            float y = tfr_round_one(r->normed[i] * cos, cos_product) +
                      tfr_round_one(other * sin, sin_product);
            tfr_put(at[AT_OUT], i, 1, tfr_all(y), r->kind.out);
        }
    }
}

// ------------------------------------------------------------------ one function for each kind
// The kind of q's rows (part 0) or k's (part 1).
TFR_INLINE kind kind_of(const tfr_call *c, int part) {
    int x = part ? K_DTYPE : Q_DTYPE, weight = part ? K_NORM_WEIGHT_DTYPE : Q_NORM_WEIGHT_DTYPE;
    kind k = {.x = x, .cos = COS_DTYPE};
    k.inner = tfr_norm_inner(ORDER, x, weight);
    k.normed = tfr_norm_result(ORDER, x, weight);
    k.out = tfr_promote(k.normed, tfr_promote(COS_DTYPE, SIN_DTYPE));
    (void)c;
    return k;
}

typedef void rows_function(const rows *r, int64_t count);

#ifdef COMPILED_IN
static __attribute__((noinline)) void run_q(const rows *r, int64_t count) {
    run_rows(r, count, HEAD, kind_of(0, 0));
}

static __attribute__((noinline)) void run_k(const rows *r, int64_t count) {
    run_rows(r, count, HEAD, kind_of(0, 1));
}

TFR_INLINE rows_function *pick_kind(int part, kind k) {
    (void)k;
    return part && (K_DTYPE != Q_DTYPE || K_NORM_WEIGHT_DTYPE != Q_NORM_WEIGHT_DTYPE) ? run_k
                                                                                      : run_q;
}
#else
// KIND(x, x * root, the norm's result, cos and sin, the result)
#define KINDS(KIND)                                                                                \
    KIND(F32, F32, F32, F32, F32)                                                                  \
    KIND(F32, F32, F32, BF16, F32)                                                                 \
    KIND(F32, BF16, BF16, F32, F32)                                                                \
    KIND(F32, BF16, BF16, BF16, BF16)                                                              \
    KIND(BF16, F32, F32, F32, F32)                                                                 \
    KIND(BF16, F32, F32, BF16, F32)                                                                \
    KIND(BF16, F32, BF16, F32, F32)                                                                \
    KIND(BF16, F32, BF16, BF16, BF16)                                                              \
    KIND(BF16, BF16, F32, F32, F32)                                                                \
    KIND(BF16, BF16, F32, BF16, F32)                                                               \
    KIND(BF16, BF16, BF16, F32, F32)                                                               \
    KIND(BF16, BF16, BF16, BF16, BF16)
#define NAME(x, inner, normed, cos, out) run_##x##_##inner##_##normed##_##cos##_##out

#define DEFINE(x, inner, normed, cos, out)                                                         \
    static __attribute__((noinline)) void NAME(x, inner, normed, cos, out)(const rows *r,          \
                                                                           int64_t count) {        \
        run_rows(r, count, r->head,                                                                \
                 (kind){TFR_##x, TFR_##inner, TFR_##normed, TFR_##cos, TFR_##out});                \
    }
KINDS(DEFINE)

static rows_function *pick_kind(int part, kind k) {
#define PICK(x_, inner_, normed_, cos_, out_)                                                      \
    if (k.x == TFR_##x_ && k.inner == TFR_##inner_ && k.normed == TFR_##normed_ &&                 \
        k.cos == TFR_##cos_)                                                                       \
        return NAME(x_, inner_, normed_, cos_, out_);
    KINDS(PICK)
    (void)part;
    return any;
}
#endif

// ------------------------------------------------------------------ plan and run
TFR_INLINE void describe(rows *r, const tfr_call *c, int part) {
    r->head = tfr_last(&c->in[part]);
    r->angles = tfr_last(&c->in[4]);
    r->eps = (float)c->number[part];
    r->order = ORDER;
    r->kind = kind_of(c, part);
    r->sin_dtype = SIN_DTYPE;
}

TFR_INLINE rows_function *pick(const rows *r, const tfr_call *c, int part) {
    (void)c;
    return r->head % 2 != 0 || r->angles != r->head || COS_DTYPE != SIN_DTYPE
               ? any
               : pick_kind(part, kind_of(c, part));
}

// x as the rotation sees its dimensions. Not 0: it has too few.
TFR_INLINE int turn_dimensions(tfr_array *x, int out) {
    if (x->ndim < (out == TRANSPOSED ? 4 : 1))
        return 1;
    if (out == TRANSPOSED) {
        int64_t size = x->size[1], stride = x->stride[1];
        x->size[1] = x->size[2];
        x->stride[1] = x->stride[2];
        x->size[2] = size;
        x->stride[2] = stride;
    }
    return 0;
}

// cos and sin as they broadcast against x. Not 0: no such dimension.
TFR_INLINE int get_tables(const tfr_call *c, tfr_array *cos, tfr_array *sin) {
    *cos = c->in[4];
    *sin = c->in[5];
    return tfr_unsqueeze(cos, (int64_t)c->number[2]) || tfr_unsqueeze(sin, (int64_t)c->number[2]);
}

// The norm's result in torch's memory: x in f32, times one root a row.
static void make_normed(tfr_array *x, int dtype) {
    tfr_array from = *x, root;
    const tfr_array *of[] = {&from, &root};
    if (tfr_decides(x) && tfr_last(x) > 1) { // whatever the root's order is
        tfr_strides_as(x, of, 1, 1);
    } else {
        if (x->dtype != TFR_F32)
            tfr_out_copy(&from, x, TFR_F32);
        tfr_out_like(&root, &from, TFR_F32);
        root.size[root.ndim - 1] = 1;
        tfr_out_like(&root, &root, TFR_F32);
        tfr_out_of(x, of, 2);
    }
    x->dtype = dtype;
}

static __attribute__((noinline)) int plan_one(tfr_call *c, int part) {
    tfr_array x = c->in[part], cos, sin;
    const tfr_array *weight = &c->in[2 + part];
    tfr_array *out = &c->out[part];
    rows r;
    describe(&r, c, part);
    if (x.ndim == 0 || get_tables(c, &cos, &sin))
        return tfr_refuse(c, "qk_norm_rope: unsqueeze_dim is out of range");
    if (r.angles != r.head && (r.angles != 1 || r.head == 0))
        return tfr_refuse(c, "qk_norm_rope: the head size and the columns of cos do not fit");
    if (tfr_last(&sin) != r.angles)
        return tfr_refuse(c, "qk_norm_rope: cos and sin do not fit");
    if (weight->dtype != TFR_NONE &&
        (weight->ndim != 1 || (weight->size[0] != r.head && weight->size[0] != 1)))
        return tfr_refuse(c, "qk_norm_rope: a norm's weight does not have the head size");
    make_normed(&x, r.kind.normed);
    if (turn_dimensions(&x, OUT))
        return tfr_refuse(c, "qk_norm_rope: q and k need four dimensions");
    if (tfr_rope_out(out, &x, &cos, &sin))
        return tfr_refuse(c, "qk_norm_rope: cos and sin do not broadcast against q or k");
    c->units += r.head ? tfr_rows(out) : 0;
    return 0;
}

// Floats for the factors of one row, in either order, or for one row.
TFR_INLINE int64_t scratch_row(int64_t head) { return (head / (2 * BLOCK) + 2) * 2 * BLOCK; }

static int tfr_plan(tfr_call *c) {
    int64_t head = tfr_last(&c->in[0]), other = tfr_last(&c->in[1]);
    c->units = 0;
    if (plan_one(c, 0) || plan_one(c, 1))
        return 1;
    head = head > other ? head : other;
    c->scratch = 2 * scratch_row(head) * (int64_t)sizeof(float);
    c->grain = 32768 / (head + 1) + 1;
    return 0;
}

// The factors, column by column. Every NaN becomes one without bits in its lower half.
TFR_INLINE void make_factors(float *factor, const tfr_array *weight, int64_t head, int order,
                             int dtype) {
    int one = dtype != TFR_NONE && weight->size[0] == 1;
    for (int64_t i = 0; i < head; i += 8) {
        tfr_v8 w = tfr_all(1);
        if (one)
            w = tfr_all(tfr_load_one(weight->data, 0, dtype));
        else if (dtype != TFR_NONE)
            w = tfr_get(weight->data, i, head - i, dtype);
        if (dtype != TFR_NONE)
            w = tfr_norm_factor(w, order, dtype);
        tfr_put(factor, i, 8, tfr_choose(w != w, tfr_all(__builtin_nanf("")), w), TFR_F32);
    }
}

// The same factors as blocks.
TFR_INLINE void make_blocks(float *blocks, const float *factor, int64_t head, int in_turns) {
    int64_t half = head / 2;
    for (int64_t i = 0; i < half; i += BLOCK) {
        int64_t from = i + BLOCK <= half ? i : half - BLOCK;
        for (int n = 0; n < 2; n++, from += half, blocks += BLOCK) {
            tfr_v8 a = tfr_load(factor, from, TFR_F32), b = tfr_load(factor, from + 8, TFR_F32);
            tfr_v8 even = TFR_LANES(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
            tfr_v8 odd = TFR_LANES(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
            tfr_store(blocks, 0, in_turns ? even : a, TFR_F32);
            tfr_store(blocks, 8, in_turns ? odd : b, TFR_F32);
        }
    }
}

static __attribute__((noinline)) void run_one(const tfr_call *c, int part, int64_t begin,
                                              int64_t end, void *memory) {
    float *scratch = memory;
    rows r;
    tfr_array x = c->in[part], cos, sin;
    const tfr_array *of[TFR_WALK_ARRAYS] = {&x, &cos, &sin, &c->out[part]};
    describe(&r, c, part);
    rows_function *function = pick(&r, c, part);
    turn_dimensions(&x, OUT);
    get_tables(c, &cos, &sin);
    r.factor = scratch;
    r.normed = scratch + scratch_row(r.head);
    make_factors(scratch, &c->in[2 + part], r.head, r.order,
                 part ? K_NORM_WEIGHT_DTYPE : Q_NORM_WEIGHT_DTYPE);
    if (function != any && r.head >= 2 * BLOCK) {
        make_blocks(r.normed, scratch, r.head, is_in_turns(r.kind));
        r.factor = r.normed;
    }
    tfr_walk_start(&r.walk, of, of[AT_OUT]);
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

// For each of q and k: x, cos, sin, out; their weights. No kernel for odd heads, very wide ones,
// one angle for all columns, one weight for all columns.
static int tfr_lay(const tfr_call *c, tfr_layout *l) {
    tfr_array x, cos, sin;
    get_tables(c, &cos, &sin);
    for (int part = 0; part < 2; part++) {
        const tfr_array *of[] = {&x, &cos, &sin, &c->out[part]};
        const tfr_array *weight = &c->in[2 + part];
        rows r;
        describe(&r, c, part);
        x = c->in[part];
        if (turn_dimensions(&x, OUT) || r.angles != r.head || r.head % 2 != 0 ||
            r.head > TFR_QK_HEAD || tfr_lay_part(l, of, 4) ||
            (weight->dtype != TFR_NONE && tfr_lay_flat(l, part, weight, r.head)))
            return 1;
        int lanes = tfr_qk_lanes(r.head, tfr_qk_vector(r.head, r.kind.x, r.kind.out));
        if (r.head)
            l->units += tfr_units(tfr_rows(&c->out[part]), TFR_QK_THREADS / lanes);
    }
    return 0;
}

TFR_DEVICE_KERNEL("ORDER OUT", VALUES)
