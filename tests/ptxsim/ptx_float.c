// Float arithmetic. IEEE operations round exactly once in the mode asked; the approximate ones are
// the exact result rounded to the type, which is one of the values the hardware may give.
// NaN results are the hardware's canonical ones.
#include <float.h>
#include <math.h>

#include "ptx_handlers.h"
#include "ptx_round.h"

// f32

static float flush(float value) { return fabsf(value) < FLT_MIN ? copysignf(0, value) : value; }
static inline float in32(const ptx_insn *insn, uint64_t bits) {
    float value = ptx_f32(bits);
    return insn->ftz ? flush(value) : value;
}
static inline uint32_t out32(const ptx_insn *insn, float value) {
    if (insn->ftz) {
        value = flush(value);
    }
    if (insn->sat) {
        return value > 0 ? ptx_f32_bits(value < 1 ? value : 1) : 0; // NaN gives 0
    }
    return isnan(value) ? 0x7fffffff : ptx_f32_bits(value);
}
static float round32(double value, int how) {
    return ptx_f32(ptx_round(value, ptx_format_of(PTX_f32), how, false));
}
// An exact zero sum of two values is -0 only when rounding down, or of two -0.
static double sum_odd(double a, double b, int how) {
    double sum = ptx_add_odd(a, b);
    return sum == 0 && how == PTX_W_rm && !(a == 0 && b == 0 && !signbit(a) && !signbit(b)) ? -0.0
                                                                                            : sum;
}
static float add32(float a, float b, int how) {
    return how == PTX_W_rn ? a + b : round32(sum_odd(a, b, how), how);
}
static float mul32(float a, float b, int how) {
    return how == PTX_W_rn ? a * b : round32((double)a * b, how);
}
static float fma32(float a, float b, float c, int how) {
    return how == PTX_W_rn ? fmaf(a, b, c) : round32(sum_odd((double)a * b, c, how), how);
}
static float div32(float a, float b, int how) {
    return how == PTX_W_rn ? a / b : round32(ptx_div_odd(a, b), how);
}
static float sqrt32(float a, int how) {
    return how == PTX_W_rn ? sqrtf(a) : round32(ptx_sqrt_odd(a), how);
}
// min and max take a number over NaN, and -0 is below +0.
static double smaller(double a, double b, bool keep_nan) {
    if (isnan(a) || isnan(b)) {
        return keep_nan || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
    }
    return a < b || (a == b && signbit(a)) ? a : b;
}
static double larger(double a, double b, bool keep_nan) {
    if (isnan(a) || isnan(b)) {
        return keep_nan || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
    }
    return a > b || (a == b && signbit(b)) ? a : b;
}

#define FLOAT32_1(name, expr)                                                                      \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1);                                                \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            float a = in32(insn, as[lane]);                                                        \
            out[lane] = out32(insn, (float)(expr));                                                \
        }                                                                                          \
    }
#define FLOAT32_2(name, expr)                                                                      \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2);                   \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            float a = in32(insn, as[lane]), b = in32(insn, bs[lane]);                              \
            out[lane] = out32(insn, (float)(expr));                                                \
        }                                                                                          \
    }
#define FLOAT32_3(name, expr)                                                                      \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2),                   \
                       *cs = ptx_lanes(w, insn, 3);                                                \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            float a = in32(insn, as[lane]), b = in32(insn, bs[lane]), c = in32(insn, cs[lane]);    \
            out[lane] = out32(insn, (float)(expr));                                                \
        }                                                                                          \
    }
FLOAT32_2(add_f32, add32(a, b, insn->round))
FLOAT32_2(sub_f32, add32(a, -b, insn->round))
FLOAT32_2(mul_f32, mul32(a, b, insn->round))
FLOAT32_3(fma_f32, fma32(a, b, c, insn->round))
FLOAT32_2(div_f32, div32(a, b, insn->round))
FLOAT32_1(rcp_f32, div32(1, a, insn->round))
FLOAT32_1(sqrt_f32, sqrt32(a, insn->round))
FLOAT32_2(min_f32, smaller(a, b, HAS(insn, NaN)))
FLOAT32_2(max_f32, larger(a, b, HAS(insn, NaN)))
FLOAT32_3(min3_f32, smaller(smaller(a, b, HAS(insn, NaN)), c, HAS(insn, NaN)))
FLOAT32_3(max3_f32, larger(larger(a, b, HAS(insn, NaN)), c, HAS(insn, NaN)))
FLOAT32_1(rsqrt_f32, 1 / sqrt((double)a))
FLOAT32_1(ex2_f32, exp2((double)a))
FLOAT32_1(lg2_f32, log2((double)a))
FLOAT32_1(sin_f32, sin((double)a))
FLOAT32_1(cos_f32, cos((double)a))
FLOAT32_1(tanh_f32, tanh((double)a))

// Sign operations keep a NaN's bits.
static uint32_t sign_in(const ptx_insn *insn, uint64_t bits) {
    return insn->ftz && !(bits & 0x7f800000) ? (uint32_t)bits & 0x80000000 : (uint32_t)bits;
}
HANDLER1(neg_f32, uint32_t, uint32_t, sign_in(insn, a) ^ 0x80000000)
HANDLER1(abs_f32, uint32_t, uint32_t, sign_in(insn, a) & 0x7fffffff)
HANDLER2(copysign_f32, uint32_t, uint32_t, (b & 0x7fffffff) | (a & 0x80000000))
HANDLER2(copysign_f64, uint64_t, uint64_t, (b & ~(UINT64_C(1) << 63)) | (a & UINT64_C(1) << 63))

// f64: to nearest only

static uint64_t out64(double value) {
    return isnan(value) ? UINT64_C(0xfff8000000000000) : ptx_f64_bits(value);
}
HANDLER2(add_f64, uint64_t, uint64_t, out64(ptx_f64(a) + ptx_f64(b)))
HANDLER2(sub_f64, uint64_t, uint64_t, out64(ptx_f64(a) - ptx_f64(b)))
HANDLER2(mul_f64, uint64_t, uint64_t, out64(ptx_f64(a) * ptx_f64(b)))
HANDLER3(fma_f64, uint64_t, uint64_t, out64(fma(ptx_f64(a), ptx_f64(b), ptx_f64(c))))
HANDLER2(div_f64, uint64_t, uint64_t, out64(ptx_f64(a) / ptx_f64(b)))
HANDLER1(rcp_f64, uint64_t, uint64_t, out64(1 / ptx_f64(a)))
HANDLER1(sqrt_f64, uint64_t, uint64_t, out64(sqrt(ptx_f64(a))))
HANDLER1(rsqrt_f64, uint64_t, uint64_t, out64(1 / sqrt(ptx_f64(a))))
HANDLER2(min_f64, uint64_t, uint64_t, out64(smaller(ptx_f64(a), ptx_f64(b), false)))
HANDLER2(max_f64, uint64_t, uint64_t, out64(larger(ptx_f64(a), ptx_f64(b), false)))
HANDLER1(neg_f64, uint64_t, uint64_t, a ^ UINT64_C(1) << 63)
HANDLER1(abs_f64, uint64_t, uint64_t, a & ~(UINT64_C(1) << 63))

// f16, bf16 and pairs of them and of f32; one element at a time

enum {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_FMA,
    OP_MIN,
    OP_MAX,
    OP_NEG,
    OP_ABS,
    OP_EX2,
    OP_TANH,
    OP_DIV,
    OP_RCP,
    OP_SQRT,
    OP_RSQRT,
    OP_LG2,
    OP_SIN,
    OP_COS
};

static double operate(const ptx_insn *insn, double a, double b, double c) {
    switch (insn->operation) {
    case OP_ADD:
        return sum_odd(a, b, insn->round);
    case OP_SUB:
        return sum_odd(a, -b, insn->round);
    case OP_MUL:
        return a * b;
    case OP_FMA:
        return sum_odd(a * b, c, insn->round);
    case OP_MIN:
        return smaller(a, b, HAS(insn, NaN));
    case OP_MAX:
        return larger(a, b, HAS(insn, NaN));
    case OP_EX2:
        return exp2(a);
    default:
        return tanh(a);
    }
}

static double flush_to(double value, const ptx_format *format, bool ftz) {
    int lowest = 2 - (1 << (format->exponent - 1));
    return ftz && fabs(value) < ldexp(1, lowest) ? copysign(0, value) : value;
}

static uint32_t element(const ptx_insn *insn, const ptx_format *f, uint32_t a, uint32_t b,
                        uint32_t c) {
    uint32_t sign = UINT32_C(1) << (f->mantissa + f->exponent);
    if (insn->operation == OP_NEG || insn->operation == OP_ABS) {
        bool tiny = insn->ftz && !(a & ~sign & ~((UINT32_C(1) << f->mantissa) - 1));
        a = tiny ? a & sign : a;
        return insn->operation == OP_NEG ? a ^ sign : a & ~sign;
    }
    double result =
        operate(insn, flush_to(ptx_widen(a, f), f, insn->ftz),
                flush_to(ptx_widen(b, f), f, insn->ftz), flush_to(ptx_widen(c, f), f, insn->ftz));
    if (insn->sat) {
        result = result > 0 ? (result < 1 ? result : 1) : 0;
    }
    if (HAS(insn, relu) && !isnan(result)) {
        result = result > 0 ? result : 0;
    }
    uint32_t bits = ptx_round(result, f, insn->round, false);
    bool subnormal = !(bits & ~sign & ~((UINT32_C(1) << f->mantissa) - 1));
    return insn->ftz && subnormal ? bits & sign : bits;
}

static void elements_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    int type = insn->type[0];
    const ptx_format *f = ptx_format_of(type);
    uint32_t width = (uint32_t)(1 + f->mantissa + f->exponent);
    uint32_t total = ptx_type_bytes[type] * 8u;
    uint64_t low = (UINT64_C(1) << width) - 1, *out = ptx_lanes(w, insn, 0);
    const uint64_t *as = ptx_lanes(w, insn, 1);
    const uint64_t *bs = insn->operands > 2 ? ptx_lanes(w, insn, 2) : as;
    const uint64_t *cs = insn->operands > 3 ? ptx_lanes(w, insn, 3) : as;
    EACH_LANE(lane, mask) {
        uint64_t result = 0;
        for (uint32_t at = 0; at < total; at += width) {
            result |= (uint64_t)element(insn, f, (uint32_t)(as[lane] >> at & low),
                                        (uint32_t)(bs[lane] >> at & low),
                                        (uint32_t)(cs[lane] >> at & low))
                      << at;
        }
        out[lane] = result;
    }
}

// Which handler

typedef struct family {
    const char *name;
    int operation;
    ptx_handler f32, f64, three; // three: min and max of three
} family;

static const family families[] = {
    {"add", OP_ADD, add_f32, add_f64, NULL},
    {"sub", OP_SUB, sub_f32, sub_f64, NULL},
    {"mul", OP_MUL, mul_f32, mul_f64, NULL},
    {"fma", OP_FMA, fma_f32, fma_f64, NULL},
    {"mad", OP_FMA, fma_f32, fma_f64, NULL},
    {"div", OP_DIV, div_f32, div_f64, NULL},
    {"min", OP_MIN, min_f32, min_f64, min3_f32},
    {"max", OP_MAX, max_f32, max_f64, max3_f32},
    {"neg", OP_NEG, neg_f32, neg_f64, NULL},
    {"abs", OP_ABS, abs_f32, abs_f64, NULL},
    {"ex2", OP_EX2, ex2_f32, NULL, NULL},
    {"tanh", OP_TANH, tanh_f32, NULL, NULL},
    {"rcp", OP_RCP, rcp_f32, rcp_f64, NULL},
    {"sqrt", OP_SQRT, sqrt_f32, sqrt_f64, NULL},
    {"rsqrt", OP_RSQRT, rsqrt_f32, rsqrt_f64, NULL},
    {"lg2", OP_LG2, lg2_f32, NULL, NULL},
    {"sin", OP_SIN, sin_f32, NULL, NULL},
    {"cos", OP_COS, cos_f32, NULL, NULL},
};

static bool is_packed(int type) {
    return type == PTX_f16 || type == PTX_f16x2 || type == PTX_bf16 || type == PTX_bf16x2;
}

ptx_handler ptx_float_arithmetic(ptx_insn *insn) {
    int type = insn->type[0];
    const family *f = families;
    while (strcmp(f->name, insn->row->name) != 0) {
        f++;
    }
    insn->operation = (uint8_t)f->operation;
    if (HAS(insn, lo) || HAS(insn, hi) || HAS(insn, wide) || HAS(insn, cc)) {
        return NULL;
    }
    if (type == PTX_f32) {
        return HAS(insn, relu) ? NULL : f->three && insn->operands == 4 ? f->three : f->f32;
    }
    if (insn->operands == 4 && f->operation != OP_FMA) {
        return NULL;
    }
    if (type == PTX_f64) {
        bool plain = insn->round == PTX_W_rn && !insn->sat && !HAS(insn, NaN) && !HAS(insn, relu) &&
                     (!insn->ftz || HAS(insn, approx));
        return plain ? f->f64 : NULL;
    }
    if (type == PTX_f32x2) {
        return f->operation <= OP_FMA && !insn->sat ? elements_run : NULL;
    }
    return is_packed(type) && f->operation <= OP_TANH && insn->round == PTX_W_rn ? elements_run
                                                                                 : NULL;
}

static ptx_handler exact_or_approximate(ptx_insn *insn) {
    bool exact = HAS(insn, rn) || HAS(insn, rz) || HAS(insn, rm) || HAS(insn, rp);
    return exact != HAS(insn, approx) ? ptx_float_arithmetic(insn) : NULL;
}
static ptx_handler approximate(ptx_insn *insn) {
    return HAS(insn, approx) ? ptx_float_arithmetic(insn) : NULL;
}

ptx_handler ptx_select_fma(ptx_insn *insn) {
    return HAS(insn, rn) || HAS(insn, rz) || HAS(insn, rm) || HAS(insn, rp)
               ? ptx_float_arithmetic(insn)
               : NULL;
}
ptx_handler ptx_select_rcp(ptx_insn *insn) { return exact_or_approximate(insn); }
ptx_handler ptx_select_sqrt(ptx_insn *insn) { return exact_or_approximate(insn); }
ptx_handler ptx_select_rsqrt(ptx_insn *insn) { return approximate(insn); }
ptx_handler ptx_select_ex2(ptx_insn *insn) { return approximate(insn); }
ptx_handler ptx_select_lg2(ptx_insn *insn) { return approximate(insn); }
ptx_handler ptx_select_sin(ptx_insn *insn) { return approximate(insn); }
ptx_handler ptx_select_cos(ptx_insn *insn) { return approximate(insn); }
ptx_handler ptx_select_tanh(ptx_insn *insn) { return approximate(insn); }

ptx_handler ptx_select_copysign(ptx_insn *insn) {
    return insn->type[0] == PTX_f32 ? copysign_f32 : insn->type[0] == PTX_f64 ? copysign_f64 : NULL;
}

// Comparisons

static double compared(const ptx_insn *insn, int type, uint64_t bits) {
    switch (type) {
    case PTX_f32:
        return in32(insn, bits);
    case PTX_f64:
        return ptx_f64(bits);
    default:
        return flush_to(ptx_widen((uint32_t)(bits & 0xffff), ptx_format_of(type)),
                        ptx_format_of(type), insn->ftz);
    }
}

static bool compare(double a, double b, int how) {
    bool unordered = isnan(a) || isnan(b);
    switch (how) {
    case PTX_W_eq:
        return a == b;
    case PTX_W_ne:
        return !unordered && a != b;
    case PTX_W_lt:
        return a < b;
    case PTX_W_le:
        return a <= b;
    case PTX_W_gt:
        return a > b;
    case PTX_W_ge:
        return a >= b;
    case PTX_W_num:
        return !unordered;
    case PTX_W_nan:
        return unordered;
    default: // equ .. geu
        return unordered || compare(a, b, how - PTX_W_equ + PTX_W_eq);
    }
}

static void setp_float(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    int type = insn->type[insn->types - 1];
    const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2);
    uint32_t bits = 0;
    EACH_LANE(lane, mask) {
        bits |= (uint32_t)compare(compared(insn, type, as[lane]), compared(insn, type, bs[lane]),
                                  insn->compare)
                << lane;
    }
    ptx_setp_result(w, insn, mask, bits);
}

// Pairs: the low element's result in the first predicate, the high one's in the second.
static void setp_pair(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    int type = insn->type[0];
    const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2);
    uint32_t low = 0, high = 0;
    EACH_LANE(lane, mask) {
        low |= (uint32_t)compare(compared(insn, type, as[lane]), compared(insn, type, bs[lane]),
                                 insn->compare)
               << lane;
        high |= (uint32_t)compare(compared(insn, type, as[lane] >> 16),
                                  compared(insn, type, bs[lane] >> 16), insn->compare)
                << lane;
    }
    ptx_set_predicate(w, insn->operand[0].value[0].slot, mask, low);
    ptx_set_predicate(w, insn->operand[0].second, mask, high);
}

ptx_handler ptx_float_setp(ptx_insn *insn) {
    int type = insn->type[insn->types - 1];
    if (insn->compare < PTX_W_eq || insn->compare > PTX_W_nan || (type == PTX_f64 && insn->ftz)) {
        return NULL;
    }
    if (type == PTX_f16x2 || type == PTX_bf16x2) {
        return insn->types == 1 && insn->operand[0].second >= 0 && insn->operands == 3 &&
                       insn->operand[0].value[0].kind == PTX_PRED
                   ? setp_pair
                   : NULL;
    }
    return type == PTX_f32x2 ? NULL : setp_float;
}

static bool tested(const ptx_insn *insn, int kind) {
    switch (kind) {
    case FP_NAN:
        return HAS(insn, notanumber);
    case FP_INFINITE:
        return HAS(insn, infinite) || HAS(insn, number);
    case FP_SUBNORMAL:
        return HAS(insn, subnormal) || HAS(insn, finite) || HAS(insn, number);
    default: // zero counts as normal
        return HAS(insn, normal) || HAS(insn, finite) || HAS(insn, number);
    }
}

static void testp_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *as = ptx_lanes(w, insn, 1);
    uint32_t bits = 0;
    EACH_LANE(lane, mask) {
        int kind = insn->type[0] == PTX_f32 ? fpclassify(ptx_f32(as[lane]))
                                            : fpclassify(ptx_f64(as[lane]));
        bits |= (uint32_t)tested(insn, kind) << lane;
    }
    ptx_set_predicate(w, insn->operand[0].value[0].slot, mask, bits);
}

ptx_handler ptx_select_testp(ptx_insn *insn) {
    return insn->type[0] == PTX_f32 || insn->type[0] == PTX_f64 ? testp_run : NULL;
}
