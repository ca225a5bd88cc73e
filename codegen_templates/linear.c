// linear, linears: y_i = x @ w_i^T (+ b_i) for one to eight weights and one x.
//
// Pointers: in = x, w0, b0, w1, b1, ...; x [..., K] with rows anywhere; w_i [N_i, K] with rows at
// any distance; b_i [N_i] or absent; out i is contiguous [..., N_i]. All have one dtype.
// Bytes that must move: every weight once, N * K; beside them x and the results are small until
// there are hundreds of rows of x. So a few rows of x are bound by memory, many by the FMAs.
// Split: the weights' rows, all modules' one after another, are columns 0 .. N-1 of one result. A
// unit is BLOCK_N of them for up to `block_m` rows of x. It finds its weight rows by their
// addresses, so that modules which lie apart in memory cost no more than those which are adjacent.
//   up to DOT_ROWS rows of x, or fewer than THIN columns ("dots"): R weight rows by T rows of x
//       at a time, vectors along K, their lanes added up at the end. A weight is loaded and upcast
//       once for T rows of x.
//   else ("tiles"): x is packed transposed, so that vectors lie along its rows. A panel of weight
//       rows is upcast to f32, and each element broadcast. No weight is transposed.
// Rounding points: products and sums in f32, fused where the target can; sums of at most CHAIN or
// TILE_K products are added up, so that their errors do not grow with K; the bias is added in f32;
// one rounding at the end. The order depends on the sizes, not on threads.

#include "codegen_templates/vec.h"

#ifndef X_DTYPE
#define X_DTYPE (c->in[0].dtype)
#endif

// Registers are what the tiles are cut for: vectors of the target's own width, and R * T, or
// 2 * TILE_N, of them as sums, with some left for operands.
#if defined(__AVX512F__)
#define LANES 16
#define TILE_N 12
#elif defined(__AVX__)
#define LANES 8
#define TILE_N 6
#else
#define LANES 4
#define TILE_N 6
#endif

enum {
    BLOCK_N = 48,         // columns of a unit; a multiple of every R and of 2 * TILE_N
    DOT_ROWS = 16,        // up to so many rows of x: dots,
    DOT_ROWS_F32 = 12,    // and for f32, which gains nothing from upcasting once
    THIN = 16,            // and for fewer columns: torch's own sums are as short as those of dots
    GROUP = 4,            // rows of x at a time in dots
    GROUP_X = 24 << 10,   // bytes of a group in one block of K: it stays in the L1 cache
    ONLY_X = 64 << 10,    // the same of an only group, which is better long: weights pass once
    CHAIN = 128 * LANES,  // products of K in one vector of sums of dots
    TILE_M = 2 * LANES,   // rows of x in a tile
    TILE_K = 128,         // products in one sum of a tile
    PACKED_X = 2 << 20,   // bytes of packed x aimed at in tiles,
    LEAST_M = 4 * TILE_M, // but at least so many rows of x for each time a weight is upcast
    MOST_M = 16 * TILE_M,
};

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__has_builtin)
#define HAS(builtin) __has_builtin(builtin)
#else
#define HAS(builtin) 0
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

// ------------------------------------------------------------------ vectors
TFR_INLINE vec load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

TFR_INLINE void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

// a * b + sum, in one rounding where the target can. By the compilers' own names, as the header of
// the intrinsics would add a third to the time to compile.
TFR_INLINE vec madd(vec a, vec b, vec sum) {
#if HAS(__builtin_elementwise_fma) && (defined(__FMA__) || defined(__aarch64__))
    return __builtin_elementwise_fma(a, b, sum);
#elif LANES == 16 && HAS(__builtin_ia32_vfmaddps512_mask)
    return __builtin_ia32_vfmaddps512_mask(a, b, sum, -1, 4);
#elif LANES == 8 && defined(__FMA__) && HAS(__builtin_ia32_vfmaddps256)
    return __builtin_ia32_vfmaddps256(a, b, sum);
#elif defined(__FMA__) || defined(__aarch64__)
    UNROLL for (int i = 0; i < LANES; i++) sum[i] = __builtin_fmaf(a[i], b[i], sum[i]);
    return sum;
#else
    return a * b + sum;
#endif
}

// 2 * LANES elements of a row from the k-th, half of them. Of bf16 the first half holds those at
// even places, for that takes one operation each and no shuffle; x is stored in the same order.
TFR_INLINE vec load_half(const void *row, int64_t k, int half, int dtype) {
    if (dtype == TFR_BF16) {
        uvec both;
        memcpy(&both, (const uint16_t *)row + k, sizeof both);
        return (vec)(half ? both & 0xffff0000u : both << 16);
    }
    return load((const float *)row + k + half * LANES);
}

// Copies the n < 2 * LANES elements that are left of a row, and zeros after them.
TFR_INLINE void load_rest(char *rest, const void *row, int64_t k, int64_t n, int dtype) {
    memset(rest, 0, 2 * sizeof(vec));
    memcpy(rest, (const char *)row + k * tfr_size_of(dtype), (size_t)(n * tfr_size_of(dtype)));
}

// Reads a vector once, into a register; compilers would rather read it from memory at each use.
TFR_INLINE vec keep(vec v) {
#if defined(__AVX512F__)
    __asm__("" : "+v"(v));
#elif defined(__SSE__)
    __asm__("" : "+x"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (tfr_i8){__VA_ARGS__})
#endif

// v[i][j] and v[j][i] change places.
TFR_INLINE void transpose(tfr_v8 v[8]) {
    tfr_v8 t[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        t[i] = SHUFFLE(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = SHUFFLE(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL for (int i = 0; i < 8; i += 4) {
        UNROLL for (int j = 0; j < 2; j++) {
            v[i + 2 * j] = SHUFFLE(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            v[i + 2 * j + 1] = SHUFFLE(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    UNROLL for (int i = 0; i < 4; i++) {
        t[i] = SHUFFLE(v[i], v[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = SHUFFLE(v[i], v[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    UNROLL for (int i = 0; i < 8; i++) v[i] = t[i];
}

// ------------------------------------------------------------------ the shape of a call
typedef struct shape {
    int64_t rows, depth, columns;        // of x; K; of all results together
    int64_t block_m, blocks_m, blocks_n; // rows of x in a unit; units below and beside one another
    int64_t row_floats;                  // of a packed row of x: K and some zeros
    int64_t sums, panel, results; // where they start in the scratch memory, in floats; x: at 0
    int64_t floats;
    int modules, dots;
} shape;

typedef struct unit {
    int64_t first, rows;        // of x
    int64_t column, columns;    // of the result
    const char *w[2 * BLOCK_N]; // the weight rows of its columns, then those of the next unit
} unit;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

TFR_INLINE shape shape_of(const tfr_call *c) {
    shape s = {.modules = (c->input_count - 1) / 2};
    s.rows = tfr_rows(&c->in[0]);
    s.depth = tfr_last(&c->in[0]); // compiled in, it gained nothing that could be measured
    for (int i = 0; i < s.modules; i++)
        s.columns += c->in[1 + 2 * i].size[0];
    s.blocks_n = (s.columns + BLOCK_N - 1) / BLOCK_N;
    s.dots = s.rows <= (X_DTYPE == TFR_BF16 ? DOT_ROWS : DOT_ROWS_F32) || s.columns < THIN;
    s.row_floats = round_up(s.depth, s.dots ? 2 * LANES : 8);
    int64_t most = DOT_ROWS;
    if (!s.dots) {
        most = PACKED_X / 4 / (s.row_floats > 0 ? s.row_floats : 1) / TILE_M * TILE_M;
        most = most < LEAST_M ? LEAST_M : most > MOST_M ? MOST_M : most;
    }
    s.blocks_m = (s.rows + most - 1) / most; // of nearly equal size
    s.block_m = s.blocks_m > 0 ? (s.rows + s.blocks_m - 1) / s.blocks_m : 0;
    if (!s.dots)
        s.block_m = round_up(s.block_m, LANES);
    s.sums = s.block_m * s.row_floats;
    s.panel = s.sums + s.block_m * BLOCK_N * (s.dots ? LANES : 1);
    s.results = s.panel + (s.dots ? 0 : TILE_K * BLOCK_N);
    s.floats = s.results + 8 * BLOCK_N;
    return s;
}

static int tfr_plan(tfr_call *c) {
    const tfr_array *x = &c->in[0];
    int modules = (c->input_count - 1) / 2;
    if (modules < 1 || c->input_count != 1 + 2 * modules || c->output_count != modules)
        return tfr_refuse(c, "linear needs a weight, and a bias or none, for each result");
    if (x->ndim < 1)
        return tfr_refuse(c, "linear: x has no dimension");
    for (int i = 0; i < modules; i++) {
        const tfr_array *w = &c->in[1 + 2 * i], *b = w + 1;
        if (w->ndim != 2 || w->size[1] != tfr_last(x))
            return tfr_refuse(c, "linear: the weight is not [N, K] for x [..., K]");
        if (b->dtype != TFR_NONE && (b->ndim != 1 || b->size[0] != w->size[0]))
            return tfr_refuse(c, "linear: the bias is not [N] for a weight [N, K]");
        if (w->dtype != x->dtype || (b->dtype != TFR_NONE && b->dtype != x->dtype))
            return tfr_refuse(c, "linear: x, weight and bias must have one dtype");
        tfr_out_dense(&c->out[i], x, w->size[0], x->dtype);
    }
    shape s = shape_of(c);
    // At 20 bytes or 40 multiplications a nanosecond, a thread should have 20 microseconds of work.
    int64_t work = BLOCK_N * s.depth * (2 * tfr_size_of(x->dtype) + s.block_m);
    c->units = s.blocks_m * s.blocks_n;
    c->grain = 1 + 40 * 20000 / (work + 1);
    c->scratch = s.floats * 4;
    return 0;
}

// Unit `index`: the units of one block of rows of x follow one another.
static unit unit_of(const tfr_call *c, const shape *s, int64_t index, int dtype) {
    unit u = {.first = index / s->blocks_n * s->block_m, .column = index % s->blocks_n * BLOCK_N};
    u.rows = s->rows - u.first < s->block_m ? s->rows - u.first : s->block_m;
    u.columns = s->columns - u.column < BLOCK_N ? s->columns - u.column : BLOCK_N;
    int64_t column = u.column;
    int filled = 0;
    for (int i = 0; i < s->modules && filled < 2 * BLOCK_N; i++) {
        const tfr_array *w = &c->in[1 + 2 * i];
        for (; column < w->size[0] && filled < 2 * BLOCK_N; column++)
            u.w[filled++] = (const char *)w->data + column * w->stride[0] * tfr_size_of(dtype);
        column -= w->size[0];
    }
    for (; filled < 2 * BLOCK_N; filled++) // no more: the last one again
        u.w[filled] = u.w[filled - 1];
    return u;
}

TFR_INLINE const char *row_of_x(const tfr_call *c, int64_t row, int dtype) {
    return (const char *)c->in[0].data + tfr_row(&c->in[0], row) * tfr_size_of(dtype);
}

// Adds the biases to the sums of row `row` of a unit, and stores them.
TFR_INLINE void emit(const tfr_call *c, const shape *s, const unit *u, int64_t row,
                     const float *sums, int dtype) {
    int64_t column = u->column, left = u->columns;
    for (int i = 0; i < s->modules && left > 0; i++) {
        const tfr_array *bias = &c->in[2 + 2 * i];
        int64_t width = c->out[i].size[c->out[i].ndim - 1], j = 0;
        int64_t here = width - column < left ? width - column : left;
        char *to =
            (char *)c->out[i].data + ((u->first + row) * width + column) * tfr_size_of(dtype);
        for (; j + 8 <= here; j += 8) {
            tfr_v8 y = tfr_load(sums, j, TFR_F32);
            if (bias->dtype != TFR_NONE)
                y += tfr_load(bias->data, column + j, dtype);
            tfr_store(to, j, y, dtype);
        }
        if (j < here) {
            tfr_v8 y = tfr_load_part(sums, j, here - j, TFR_F32);
            if (bias->dtype != TFR_NONE)
                y += tfr_load_part(bias->data, column + j, here - j, dtype);
            tfr_store_part(to, j, here - j, y, dtype);
        }
        if (here > 0) {
            sums += here;
            left -= here;
            column += here;
        }
        column -= width;
    }
}

// ------------------------------------------------------------------ dots
// Where the i-th group of rows of x starts. Groups are of nearly equal size.
TFR_INLINE int64_t group_start(int64_t rows, int64_t i) {
    return rows * i / ((rows + GROUP - 1) / GROUP);
}

// Packs each group of T rows of x as [k / (2 * LANES)][T][2 * LANES], zeros at the end of K.
TFR_INLINE void dots_pack(const tfr_call *c, const shape *s, const unit *u, float *packed,
                          int dtype) {
    for (int64_t m = 0, i = 0; m < u->rows; m++) {
        i += m == group_start(u->rows, i + 1);
        int64_t first = group_start(u->rows, i), group = group_start(u->rows, i + 1) - first;
        const char *from = row_of_x(c, u->first + m, dtype);
        float *to = packed + first * s->row_floats + (m - first) * 2 * LANES;
        for (int64_t k = 0; k < s->depth; k += 2 * LANES) {
            char rest[2 * sizeof(vec)];
            const char *at = from + k * tfr_size_of(dtype);
            if (s->depth - k < 2 * LANES) {
                load_rest(rest, from, k, s->depth - k, dtype);
                at = rest;
            }
            for (int half = 0; half < 2; half++)
                store(to + k * group + half * LANES, load_half(at, 0, half, dtype));
        }
    }
}

// Adds to sum[R][T] the products of R weight rows and T rows of x at 2 * LANES values of k. One row
// of x has two sums, [R][2], as R of them could not hide the latency of the FMAs.
TFR_INLINE void dots_step(const char *const *w, int64_t k, const float *x, vec *sum, int dtype,
                          const int R, const int T) {
    UNROLL for (int half = 0; half < 2; half++) {
        vec row[4];
        UNROLL for (int r = 0; r < R; r++) row[r] = keep(load_half(w[r], k, half, dtype));
        UNROLL for (int t = 0; t < T; t++) {
            vec one = keep(load(x + (2 * t + half) * LANES));
            UNROLL for (int r = 0; r < R; r++) {
                vec *to = T == 1 ? &sum[2 * r + half] : &sum[r * T + t];
                *to = madd(row[r], one, *to);
            }
        }
    }
}

// For R weight rows and T rows of x, adds their products at from <= k < to to a vector of sums
// each. The weight rows are w[r * apart]: as far apart as a unit allows, and next time the ones
// behind each. So the weights arrive as R streams in pages of their own, which the processor
// fetches ahead by itself, at 1.2 to 1.8 times the speed of R rows that lie side by side. With more
// than two rows of x that is not far enough ahead: then `next`, the rows of the next time, if any.
TFR_INLINE void dots_tile(const char *const *w, const char *const *next, int64_t apart,
                          const float *x, int64_t from, int64_t to, float *sums,
                          int64_t sums_stride, int dtype, const int R, const int T) {
    const char *row[4], *ahead[4];
    char rest[4][2 * sizeof(vec)];
    vec sum[9];
    int64_t k = from;
    UNROLL for (int r = 0; r < R; r++) {
        row[r] = w[r * apart];
        ahead[r] = next ? next[r * apart] : NULL;
    }
    do {
        int64_t stop = to - k < CHAIN ? to : k + CHAIN;
        int begin = k == 0;
        UNROLL for (int i = 0; i < 9; i++) sum[i] = (vec){0};
        for (; stop - k >= 2 * LANES; k += 2 * LANES) {
            if (next)
                UNROLL for (int r = 0; r < R; r++)
                    __builtin_prefetch(ahead[r] + k * tfr_size_of(dtype), 0, 3);
            dots_step(row, k, x + (k - from) * T, sum, dtype, R, T);
        }
        if (k < stop) { // the end of K
            for (int r = 0; r < R; r++) {
                load_rest(rest[r], row[r], k, stop - k, dtype);
                row[r] = rest[r];
            }
            dots_step(row, 0, x + (k - from) * T, sum, dtype, R, T);
            k = stop;
        }
        UNROLL for (int r = 0; r < R; r++) {
            UNROLL for (int t = 0; t < T; t++) {
                float *at = sums + r * apart * sums_stride + t * LANES;
                vec one = T == 1 ? sum[2 * r] + sum[2 * r + 1] : sum[r * T + t];
                store(at, begin ? one : load(at) + one);
            }
        }
    } while (k < to);
}

// Functions of their own, so that registers are allocated for nothing but the loop.
typedef void dots_function(const char *const *w, const char *const *next, int64_t apart,
                           const float *x, int64_t from, int64_t to, float *sums,
                           int64_t sums_stride);
#define DOTS(R, T, dtype)                                                                          \
    static __attribute__((noinline)) void dots_##R##x##T##dtype(                                   \
        const char *const *w, const char *const *next, int64_t apart, const float *x,              \
        int64_t from, int64_t to, float *sums, int64_t sums_stride) {                              \
        dots_tile(w, next, apart, x, from, to, sums, sums_stride, dtype, R, T);                    \
    }
#define DOTS_OF(dtype) DOTS(4, 1, dtype) DOTS(4, 2, dtype) DOTS(3, 3, dtype) DOTS(2, 4, dtype)
DOTS_OF(TFR_F32)
DOTS_OF(TFR_BF16)

TFR_INLINE void dots_unit(const shape *s, const unit *u, float *memory, int dtype) {
    static dots_function *const f32[GROUP + 1] = {0, dots_4x1TFR_F32, dots_4x2TFR_F32,
                                                  dots_3x3TFR_F32, dots_2x4TFR_F32};
    static dots_function *const bf16[GROUP + 1] = {0, dots_4x1TFR_BF16, dots_4x2TFR_BF16,
                                                   dots_3x3TFR_BF16, dots_2x4TFR_BF16};
    dots_function *const *kernels = dtype == TFR_BF16 ? bf16 : f32; // compiles only those in use
    static const int weights[GROUP + 1] = {0, 4, 4, 3, 2};
    int64_t rows = u->rows, stride = rows * LANES, k = 0;
    int64_t most = rows <= GROUP ? ONLY_X / 4 / rows : GROUP_X / 4 / GROUP;
    int64_t blocks = (s->depth + most - 1) / most;
    int64_t block = round_up(s->depth / (blocks > 0 ? blocks : 1) + 1, 2 * LANES);
    do {
        int64_t to = s->depth - k < block ? s->depth : k + block;
        for (int64_t i = 0, m = 0, end; m < rows; i++, m = end) {
            end = group_start(rows, i + 1);
            const float *x = memory + m * s->row_floats + k * (end - m);
            float *sums = memory + s->sums + m * LANES;
            int64_t apart = round_up(u->columns, weights[end - m]) / weights[end - m];
            for (int64_t n = 0; n < apart; n++) {
                const char *const *w = u->w + n;
                int fetch = rows > 2 && i == 0 && n + 1 < apart;
                kernels[end - m](w, fetch ? w + 1 : NULL, apart, x, k, to, sums + n * stride,
                                 stride);
            }
        }
        k = to;
    } while (k < s->depth);
}

// Adds up the lanes of eight sums at a time and stores the results.
TFR_INLINE void dots_emit(const tfr_call *c, const shape *s, const unit *u, float *memory,
                          int dtype) {
    float *results = memory + s->results;
    for (int64_t m = 0; m < u->rows; m++) {
        const float *sums = memory + s->sums + m * LANES;
        for (int64_t n = 0; n < u->columns; n += 8) {
            tfr_v8 v[8];
            UNROLL for (int i = 0; i < 8; i++) {
                const float *from = sums + (n + i) * u->rows * LANES;
                v[i] = LANES == 4 ? tfr_load_part(from, 0, 4, TFR_F32) : tfr_load(from, 0, TFR_F32);
                if (LANES == 16)
                    v[i] += tfr_load(from, 8, TFR_F32);
            }
            transpose(v);
            tfr_v8 y = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
            tfr_store(results, n, y, TFR_F32);
        }
        emit(c, s, u, m, results, dtype);
    }
}

// ------------------------------------------------------------------ tiles
// How many rows of x the tiles at row m of a unit have.
TFR_INLINE int64_t tile_rows(const unit *u, int64_t m) {
    return u->rows - m > LANES ? TILE_M : LANES;
}

// Packs the rows of x as [m / TILE_M][k][TILE_M], the last of them [k][LANES] where that is enough,
// with zeros for the rows and elements that are missing.
TFR_INLINE void tiles_pack(const tfr_call *c, const shape *s, const unit *u, float *packed,
                           int dtype) {
    static const char zeros[32];
    for (int64_t m = 0; m < u->rows; m += TILE_M) {
        int64_t wide = tile_rows(u, m);
        for (int64_t lane = 0; lane < wide; lane += 8) {
            float *to = packed + m * s->row_floats + lane;
            const char *row[8];
            for (int64_t i = 0; i < 8; i++) {
                int64_t at = m + lane + i;
                row[i] = at < u->rows ? row_of_x(c, u->first + at, dtype) : NULL;
            }
            for (int64_t k = 0; k < s->depth; k += 8) {
                tfr_v8 v[8];
                int64_t n = s->depth - k < 8 ? s->depth - k : 8;
                UNROLL for (int i = 0; i < 8; i++) {
                    const char *from = row[i] ? row[i] + k * tfr_size_of(dtype) : zeros;
                    v[i] = n == 8 ? tfr_load(from, 0, dtype) : tfr_load_part(from, 0, n, dtype);
                }
                transpose(v);
                UNROLL for (int i = 0; i < 8; i++) tfr_store(to, (k + i) * wide, v[i], TFR_F32);
            }
        }
    }
}

// Upcasts `count` weight rows at from <= k < to as [n / TILE_N][k / 8][TILE_N][8], zeros at the
// end.
TFR_INLINE void tiles_panel(const char *const *w, int64_t count, int64_t from, int64_t to,
                            float *panel, int dtype) {
    for (int64_t n = 0; n < count; n++) {
        float *at = panel + n / TILE_N * TILE_N * round_up(to - from, 8) + n % TILE_N * 8;
        int64_t k = from;
        for (; k + 8 <= to; k += 8, at += 8 * TILE_N)
            tfr_store(at, 0, tfr_load(w[n], k, dtype), TFR_F32);
        if (k < to)
            tfr_store(at, 0, tfr_load_part(w[n], k, to - k, dtype), TFR_F32);
    }
}

// Weights that will be upcast next: of each row, `bytes` for 8 values of k.
typedef struct upcoming {
    const char *const *rows; // NULL: none
    int64_t offset, bytes;
} upcoming;

// Adds to sums[n][m], TILE_N * G columns by LANES * V rows of x, the products at `steps` * 8 values
// of k; `begin`: to 0 instead. G panels of weights are `apart` floats apart. Fetches `next`.
TFR_INLINE void tiles_tile(const float *w, int64_t apart, const float *x, int64_t steps,
                           float *sums, int64_t sums_stride, int begin, const upcoming *next,
                           const int G, const int V) {
    const char *const *ahead = next->rows;
    int64_t offset = next->offset, bytes = next->bytes;
    vec sum[2 * TILE_N];
    UNROLL for (int i = 0; i < 2 * TILE_N; i++) sum[i] = (vec){0};
    for (int64_t k = 0; k < steps; k++, w += 8 * TILE_N, x += 8 * V * LANES, offset += bytes) {
        if (ahead)
            UNROLL for (int n = 0; n < G * TILE_N; n++) __builtin_prefetch(ahead[n] + offset, 0, 2);
        UNROLL for (int i = 0; i < 8; i++) {
            vec rows[2];
            UNROLL for (int v = 0; v < V; v++) rows[v] = keep(load(x + (i * V + v) * LANES));
            UNROLL for (int n = 0; n < G * TILE_N; n++) {
                vec all = w[n / TILE_N * apart + n % TILE_N * 8 + i] - (vec){0};
                UNROLL for (int v = 0; v < V; v++) sum[n * V + v] =
                    madd(all, rows[v], sum[n * V + v]);
            }
        }
    }
    UNROLL for (int n = 0; n < G * TILE_N; n++) {
        UNROLL for (int v = 0; v < V; v++) {
            float *to = sums + n * sums_stride + v * LANES;
            store(to, begin ? sum[n * V + v] : load(to) + sum[n * V + v]);
        }
    }
}

static __attribute__((noinline)) void tiles_wide(const float *w, const float *x, int64_t steps,
                                                 float *sums, int64_t sums_stride, int begin,
                                                 const upcoming *next) {
    tiles_tile(w, 0, x, steps, sums, sums_stride, begin, next, 1, 2);
}

static __attribute__((noinline)) void tiles_narrow(const float *w, const float *x, int64_t steps,
                                                   float *sums, int64_t sums_stride, int begin,
                                                   const upcoming *next) {
    tiles_tile(w, steps * 8 * TILE_N, x, steps, sums, sums_stride, begin, next, 2, 1);
}

TFR_INLINE void tiles_unit(const shape *s, const unit *u, float *memory, int dtype) {
    float *sums = memory + s->sums, *panel = memory + s->panel;
    int64_t count = round_up(u->columns, 2 * TILE_N), k = 0;
    do {
        int64_t to = s->depth - k < TILE_K ? s->depth : k + TILE_K, steps = (to - k + 7) / 8;
        upcoming next = {.bytes = 8 * tfr_size_of(dtype)};
        const char *const *ahead = to < s->depth ? u->w : u->w + BLOCK_N;
        next.offset = to < s->depth ? to / 8 * next.bytes : 0;
        tiles_panel(u->w, count, k, to, panel, dtype);
        for (int64_t m = 0; m < u->rows; m += TILE_M) {
            int64_t wide = tile_rows(u, m), group = wide == TILE_M ? TILE_N : 2 * TILE_N;
            const float *x = memory + m * s->row_floats + k * wide;
            for (int64_t n = 0; n < count; n += group) {
                next.rows = m == 0 ? ahead + n : NULL;
                (wide == TILE_M ? tiles_wide : tiles_narrow)(panel + n * steps * 8, x, steps,
                                                             sums + n * s->block_m + m, s->block_m,
                                                             k == 0, &next);
            }
        }
        k = to;
    } while (k < s->depth);
}

TFR_INLINE void tiles_emit(const tfr_call *c, const shape *s, const unit *u, float *memory,
                           int dtype) {
    const float *sums = memory + s->sums;
    float *results = memory + s->results;
    for (int64_t m = 0; m < u->rows; m += 8) {
        for (int64_t n = 0; n < u->columns; n += 8) {
            tfr_v8 v[8];
            UNROLL for (int i = 0; i < 8; i++) v[i] =
                tfr_load(sums, (n + i) * s->block_m + m, TFR_F32);
            transpose(v);
            UNROLL for (int i = 0; i < 8; i++) tfr_store(results, i * BLOCK_N + n, v[i], TFR_F32);
        }
        for (int64_t i = 0; i < 8 && m + i < u->rows; i++)
            emit(c, s, u, m + i, results + i * BLOCK_N, dtype);
    }
}

// ------------------------------------------------------------------ a range of units
TFR_INLINE void work(const tfr_call *c, int64_t begin, int64_t end, float *memory, int dtype) {
    shape s = shape_of(c);
    int64_t packed = -1; // the row of x from which on it is packed
    for (int64_t index = begin; index < end; index++) {
        unit u = unit_of(c, &s, index, dtype);
        if (s.dots) {
            if (packed != u.first)
                dots_pack(c, &s, &u, memory, dtype);
            dots_unit(&s, &u, memory, dtype);
            dots_emit(c, &s, &u, memory, dtype);
        } else {
            if (packed != u.first)
                tiles_pack(c, &s, &u, memory, dtype);
            tiles_unit(&s, &u, memory, dtype);
            tiles_emit(c, &s, &u, memory, dtype);
        }
        packed = u.first;
    }
}

static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    if (X_DTYPE == TFR_BF16)
        work(c, begin, end, scratch, TFR_BF16);
    else
        work(c, begin, end, scratch, TFR_F32);
}

#define LINEAR_VALUES(value) ""
TFR_KERNEL("", LINEAR_VALUES)
