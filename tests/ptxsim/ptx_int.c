// Integer arithmetic, bits and comparisons. Types that are floats go to ptx_float.c.
#include "ptx_handlers.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

// Not formatted: macros that define functions would become stairs.
// clang-format off
// One handler per type of an operation that only looks at the width.
#define BY_WIDTH(N, name, expr)                                                                    \
    HANDLER##N(name##_16, uint16_t, uint16_t, expr)                                                \
    HANDLER##N(name##_32, uint32_t, uint32_t, expr)                                                \
    HANDLER##N(name##_64, uint64_t, uint64_t, expr)                                                \
    static ptx_handler name##_pick(int type) {                                                     \
        static const ptx_handler by_bytes[9] = {                                                   \
            [2] = name##_16, [4] = name##_32, [8] = name##_64};                                    \
        return by_bytes[ptx_type_bytes[type]];                                                     \
    }
// One per type where the sign matters: `expr` for unsigned types, `signed_expr` for signed ones.
#define BY_SIGN_2(N, name, expr, signed_expr)                                                      \
    HANDLER##N(name##_u16, uint16_t, uint16_t, expr)                                               \
    HANDLER##N(name##_u32, uint32_t, uint32_t, expr)                                               \
    HANDLER##N(name##_u64, uint64_t, uint64_t, expr)                                               \
    HANDLER##N(name##_s16, int16_t, uint16_t, signed_expr)                                         \
    HANDLER##N(name##_s32, int32_t, uint32_t, signed_expr)                                         \
    HANDLER##N(name##_s64, int64_t, uint64_t, signed_expr)                                         \
    static ptx_handler name##_pick(int type) {                                                     \
        static const ptx_handler by_type[PTX_TYPE_COUNT] = {                                       \
            [PTX_u16] = name##_u16, [PTX_u32] = name##_u32, [PTX_u64] = name##_u64,                \
            [PTX_s16] = name##_s16, [PTX_s32] = name##_s32, [PTX_s64] = name##_s64,                \
            [PTX_b16] = name##_u16, [PTX_b32] = name##_u32, [PTX_b64] = name##_u64};               \
        return by_type[type];                                                                      \
    }
#define BY_SIGN(N, name, expr) BY_SIGN_2(N, name, expr, expr)
// clang-format on

static bool is_signed(int type) { return type >= PTX_s8 && type <= PTX_s64; }
static bool is_integer(int type) { return type >= PTX_b16 && type <= PTX_s64; }
static bool plain_integer(int type) {
    return (type >= PTX_u16 && type <= PTX_u64) || (type >= PTX_s16 && type <= PTX_s64);
}

BY_WIDTH(2, add, a + b)
BY_WIDTH(2, sub, a - b)
BY_WIDTH(2, mul_lo, (uint64_t)a *b)
BY_WIDTH(3, mad_lo, (uint64_t)a *b + c)
BY_WIDTH(1, neg, 0 - (uint64_t)a)
BY_WIDTH(1, cnot, a ? UINT64_C(0) : UINT64_C(1))
BY_WIDTH(1, not, ~(uint64_t)a)
BY_WIDTH(2, and, a &b)
BY_WIDTH(2, or, a | b)
BY_WIDTH(2, xor, a ^ b)
BY_SIGN(2, min, a < b ? a : b)
BY_SIGN(2, max, a > b ? a : b)
BY_SIGN(3, min3, (a < b ? a : b) < c ? (a < b ? a : b) : c)
BY_SIGN(3, max3, (a > b ? a : b) > c ? (a > b ? a : b) : c)
// By zero: all ones and a, as the hardware does; the most negative by -1 wraps.
BY_SIGN_2(2, div, b ? a / b : UINT64_MAX,
          b == 0    ? UINT64_MAX
          : b == -1 ? 0 - (uint64_t)a
                    : (uint64_t)(a / b))
BY_SIGN_2(2, rem, b ? a % b : a, b == 0 ? a : b == -1 ? 0 : a % b)
BY_SIGN_2(1, abs, a, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)
BY_SIGN(3, sad, (a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a) + (uint64_t)c)
BY_SIGN(2, mul_hi, (s128)a *(s128)b >> (sizeof a * 8))
BY_SIGN(3, mad_hi, ((s128)a * (s128)b >> (sizeof a * 8)) + (s128)c)
HANDLER2(mul_hi_wide_u64, uint64_t, uint64_t, (u128)a *(u128)b >> 64)
HANDLER3(mad_hi_wide_u64, uint64_t, uint64_t, ((u128)a * (u128)b >> 64) + c)

HANDLER2(mul_wide_u16, uint16_t, uint32_t, (uint32_t)a *b)
HANDLER2(mul_wide_s16, int16_t, uint32_t, (int32_t)a *b)
HANDLER2(mul_wide_u32, uint32_t, uint64_t, (uint64_t)a *b)
HANDLER2(mul_wide_s32, int32_t, uint64_t, (int64_t)a *b)

#define MAD_WIDE(name, T, W, U)                                                                    \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2),                   \
                       *cs = ptx_lanes(w, insn, 3);                                                \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            out[lane] = (U)((U)((W)(T)as[lane] * (W)(T)bs[lane]) + (U)cs[lane]);                   \
        }                                                                                          \
    }
MAD_WIDE(mad_wide_u16, uint16_t, uint32_t, uint32_t)
MAD_WIDE(mad_wide_s16, int16_t, int32_t, uint32_t)
MAD_WIDE(mad_wide_u32, uint32_t, uint64_t, uint64_t)
MAD_WIDE(mad_wide_s32, int32_t, int64_t, uint64_t)

#define WIDE_PICK(name)                                                                            \
    static ptx_handler name##_pick(int type) {                                                     \
        static const ptx_handler by_type[PTX_TYPE_COUNT] = {[PTX_u16] = name##_u16,                \
                                                            [PTX_s16] = name##_s16,                \
                                                            [PTX_u32] = name##_u32,                \
                                                            [PTX_s32] = name##_s32};               \
        return by_type[type];                                                                      \
    }
WIDE_PICK(mul_wide)
WIDE_PICK(mad_wide)

static int32_t clamp32(int64_t value) {
    return (int32_t)(value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value);
}
HANDLER2(add_sat, int32_t, uint32_t, clamp32((int64_t)a + b))
HANDLER2(sub_sat, int32_t, uint32_t, clamp32((int64_t)a - b))
HANDLER3(mad_hi_sat, int32_t, uint32_t, clamp32(((int64_t)a * b >> 32) + c))

static uint32_t halves(uint32_t low, uint32_t high) { return (low & 0xffff) | high << 16; }
#define BOTH(op, T) halves(op(T, a, b), op(T, a >> 16, b >> 16))
// clang-format off
#define PACKED(name, op)                                                                           \
    HANDLER2(name##_u16x2, uint32_t, uint32_t, BOTH(op, uint16_t))                                 \
    HANDLER2(name##_s16x2, uint32_t, uint32_t, BOTH(op, int16_t))
// clang-format on
#define PACKED_ADD(T, x, y) (uint32_t)((T)(x) + (T)(y))
#define PACKED_MIN(T, x, y) (uint32_t)((T)(x) < (T)(y) ? (T)(x) : (T)(y))
#define PACKED_MAX(T, x, y) (uint32_t)((T)(x) > (T)(y) ? (T)(x) : (T)(y))
PACKED(add, PACKED_ADD)
PACKED(min, PACKED_MIN)
PACKED(max, PACKED_MAX)

// add.cc, addc, sub.cc, subc, mad.cc, madc: 32 and 64 bits, the carry a bit per lane.
enum { CARRY_IN = 1, CARRY_OUT = 2, CARRY_SUB = 4, CARRY_MAD = 8 };
static u128 full_product(int type, uint64_t a, uint64_t b) {
    switch (type) {
    case PTX_s32:
        return (u128)((int64_t)(int32_t)a * (int32_t)b);
    case PTX_u32:
        return (u128)((uint64_t)(uint32_t)a * (uint32_t)b);
    case PTX_s64:
        return (u128)((s128)(int64_t)a * (int64_t)b);
    default:
        return (u128)a * b;
    }
}

static void carry_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    int how = insn->operation;
    bool narrow = ptx_type_bytes[insn->type[0]] == 4, high = HAS(insn, hi);
    uint64_t *out = ptx_lanes(w, insn, 0);
    EACH_LANE(lane, mask) {
        uint64_t a = ptx_lanes(w, insn, 1)[lane], b = ptx_lanes(w, insn, 2)[lane];
        if (how & CARRY_MAD) {
            u128 product = full_product(insn->type[0], a, b);
            a = (uint64_t)(high ? product >> (narrow ? 32 : 64) : product);
            b = ptx_lanes(w, insn, 3)[lane];
        }
        if (narrow) {
            a = (uint32_t)a;
            b = (uint32_t)b;
        }
        u128 carry = how & CARRY_IN ? w->carry >> lane & 1 : 0;
        u128 sum = how & CARRY_SUB ? (u128)a - b - carry : (u128)a + b + carry;
        out[lane] = narrow ? (uint32_t)sum : (uint64_t)sum;
        if (how & CARRY_OUT) {
            uint32_t bit = (uint32_t)(sum >> (narrow ? 32 : 64)) & 1;
            w->carry = (w->carry & ~(UINT32_C(1) << lane)) | bit << lane;
        }
    }
}

static ptx_handler carry_pick(ptx_insn *insn, int how) {
    insn->operation = (uint8_t)(how | (HAS(insn, cc) ? CARRY_OUT : 0));
    int bytes = ptx_type_bytes[insn->type[0]];
    return plain_integer(insn->type[0]) && bytes >= 4 && !insn->sat ? carry_run : NULL;
}

static bool has_rounding(const ptx_insn *insn) {
    return HAS(insn, rn) || HAS(insn, rz) || HAS(insn, rm) || HAS(insn, rp) || insn->ftz;
}

ptx_handler ptx_select_add(ptx_insn *insn) {
    int type = insn->type[0];
    if (ptx_is_float(type)) {
        return ptx_float_arithmetic(insn);
    }
    if (has_rounding(insn)) {
        return NULL;
    }
    if (HAS(insn, cc)) {
        return carry_pick(insn, 0);
    }
    if (insn->sat) {
        return type == PTX_s32 ? add_sat : NULL;
    }
    return type == PTX_u16x2     ? add_u16x2
           : type == PTX_s16x2   ? add_s16x2
           : plain_integer(type) ? add_pick(type)
                                 : NULL;
}

ptx_handler ptx_select_sub(ptx_insn *insn) {
    int type = insn->type[0];
    if (ptx_is_float(type)) {
        return ptx_float_arithmetic(insn);
    }
    if (has_rounding(insn)) {
        return NULL;
    }
    if (HAS(insn, cc)) {
        return carry_pick(insn, CARRY_SUB);
    }
    if (insn->sat) {
        return type == PTX_s32 ? sub_sat : NULL;
    }
    return plain_integer(type) ? sub_pick(type) : NULL;
}

ptx_handler ptx_select_addc(ptx_insn *insn) { return carry_pick(insn, CARRY_IN); }
ptx_handler ptx_select_subc(ptx_insn *insn) { return carry_pick(insn, CARRY_IN | CARRY_SUB); }

ptx_handler ptx_select_madc(ptx_insn *insn) {
    return HAS(insn, lo) != HAS(insn, hi) ? carry_pick(insn, CARRY_IN | CARRY_MAD) : NULL;
}

ptx_handler ptx_select_mul(ptx_insn *insn) {
    int type = insn->type[0];
    if (ptx_is_float(type)) {
        return ptx_float_arithmetic(insn);
    }
    if (!plain_integer(type) || has_rounding(insn) || insn->sat) {
        return NULL;
    }
    if (HAS(insn, wide)) {
        return mul_wide_pick(type);
    }
    if (HAS(insn, hi)) {
        return type == PTX_u64 ? mul_hi_wide_u64 : mul_hi_pick(type);
    }
    return HAS(insn, lo) ? mul_lo_pick(type) : NULL;
}

ptx_handler ptx_select_mad(ptx_insn *insn) {
    int type = insn->type[0];
    if (ptx_is_float(type)) {
        return ptx_float_arithmetic(insn);
    }
    if (!plain_integer(type) || has_rounding(insn)) {
        return NULL;
    }
    if (HAS(insn, cc)) {
        return carry_pick(insn, CARRY_MAD);
    }
    if (insn->sat) {
        return HAS(insn, hi) && type == PTX_s32 ? mad_hi_sat : NULL;
    }
    if (HAS(insn, wide)) {
        return mad_wide_pick(type);
    }
    if (HAS(insn, hi)) {
        return type == PTX_u64 ? mad_hi_wide_u64 : mad_hi_pick(type);
    }
    return HAS(insn, lo) ? mad_lo_pick(type) : NULL;
}

static uint64_t product24(uint32_t a, uint32_t b) { // unsigned 24 bits each
    return (uint64_t)(a & 0xffffff) * (b & 0xffffff);
}
static int64_t product24s(int32_t a, int32_t b) {
    return (int64_t)((int32_t)((uint32_t)a << 8) >> 8) * ((int32_t)((uint32_t)b << 8) >> 8);
}
HANDLER2(mul24_lo_u32, uint32_t, uint32_t, product24(a, b))
HANDLER2(mul24_hi_u32, uint32_t, uint32_t, product24(a, b) >> 16)
HANDLER2(mul24_lo_s32, int32_t, uint32_t, product24s(a, b))
HANDLER2(mul24_hi_s32, int32_t, uint32_t, product24s(a, b) >> 16)

ptx_handler ptx_select_mul24(ptx_insn *insn) {
    bool high = HAS(insn, hi);
    return insn->type[0] == PTX_u32   ? (high ? mul24_hi_u32 : mul24_lo_u32)
           : insn->type[0] == PTX_s32 ? (high ? mul24_hi_s32 : mul24_lo_s32)
                                      : NULL;
}

ptx_handler ptx_select_div(ptx_insn *insn) {
    return ptx_is_float(insn->type[0]) ? ptx_float_arithmetic(insn)
           : plain_integer(insn->type[0]) && !has_rounding(insn) && !HAS(insn, approx) &&
                   !HAS(insn, full)
               ? div_pick(insn->type[0])
               : NULL;
}

ptx_handler ptx_select_rem(ptx_insn *insn) {
    return plain_integer(insn->type[0]) ? rem_pick(insn->type[0]) : NULL;
}

static ptx_handler pick_extreme(ptx_insn *insn, ptx_handler packed_u, ptx_handler packed_s,
                                ptx_handler two, ptx_handler three) {
    int type = insn->type[0];
    if (ptx_is_float(type)) {
        return ptx_float_arithmetic(insn);
    }
    if (insn->ftz || HAS(insn, NaN) || HAS(insn, relu)) {
        return NULL;
    }
    bool is_two = insn->operands == 3;
    if (type == PTX_u16x2 || type == PTX_s16x2) {
        return !is_two ? NULL : type == PTX_u16x2 ? packed_u : packed_s;
    }
    return !plain_integer(type) ? NULL : is_two ? two : three;
}

ptx_handler ptx_select_min(ptx_insn *insn) {
    return pick_extreme(insn, min_u16x2, min_s16x2, min_pick(insn->type[0]),
                        min3_pick(insn->type[0]));
}

ptx_handler ptx_select_max(ptx_insn *insn) {
    return pick_extreme(insn, max_u16x2, max_s16x2, max_pick(insn->type[0]),
                        max3_pick(insn->type[0]));
}

ptx_handler ptx_select_abs(ptx_insn *insn) {
    return ptx_is_float(insn->type[0]) ? ptx_float_arithmetic(insn)
           : is_signed(insn->type[0])  ? abs_pick(insn->type[0])
                                       : NULL;
}

ptx_handler ptx_select_neg(ptx_insn *insn) {
    return ptx_is_float(insn->type[0]) ? ptx_float_arithmetic(insn)
           : is_signed(insn->type[0])  ? neg_pick(insn->type[0])
                                       : NULL;
}

ptx_handler ptx_select_sad(ptx_insn *insn) {
    return plain_integer(insn->type[0]) ? sad_pick(insn->type[0]) : NULL;
}

// Logic, of registers or of predicates

static bool is_bits(int type) { return type >= PTX_b16 && type <= PTX_b64; }

#define PREDICATE_LOGIC(name, expr)                                                                \
    static void name##_pred(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                    \
        uint32_t a = ptx_predicate(w, &insn->operand[1].value[0]);                                 \
        uint32_t b = insn->operands > 2 ? ptx_predicate(w, &insn->operand[2].value[0]) : 0;        \
        (void)b;                                                                                   \
        ptx_set_predicate(w, insn->operand[0].value[0].slot, mask, expr);                          \
    }                                                                                              \
    ptx_handler ptx_select_##name(ptx_insn *insn) {                                                \
        bool predicates = insn->type[0] == PTX_pred;                                               \
        for (int i = 0; i < insn->operands; i++) {                                                 \
            uint8_t kind = insn->operand[i].value[0].kind;                                         \
            if (kind != (predicates ? PTX_PRED : PTX_REG) && (i == 0 || kind != PTX_CONST)) {      \
                return NULL;                                                                       \
            }                                                                                      \
        }                                                                                          \
        return predicates               ? name##_pred                                              \
               : is_bits(insn->type[0]) ? name##_pick(insn->type[0])                               \
                                        : NULL;                                                    \
    }
PREDICATE_LOGIC(and, a &b)
PREDICATE_LOGIC(or, a | b)
PREDICATE_LOGIC(xor, a ^ b)
PREDICATE_LOGIC(not, ~a)

ptx_handler ptx_select_cnot(ptx_insn *insn) {
    return is_bits(insn->type[0]) ? cnot_pick(insn->type[0]) : NULL;
}

// Shifts clamp at the width; the amount is always 32 bits.
#define SHIFT(name, T, U, over, expr)                                                              \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2);                   \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            T a = (T)as[lane];                                                                     \
            uint32_t b = (uint32_t)bs[lane];                                                       \
            out[lane] = (U)(b >= sizeof a * 8 ? (over) : (expr));                                  \
        }                                                                                          \
    }
SHIFT(shl_16, uint16_t, uint16_t, 0, (uint32_t)a << b)
SHIFT(shl_32, uint32_t, uint32_t, 0, a << b)
SHIFT(shl_64, uint64_t, uint64_t, 0, a << b)
SHIFT(shr_u16, uint16_t, uint16_t, 0, a >> b)
SHIFT(shr_u32, uint32_t, uint32_t, 0, a >> b)
SHIFT(shr_u64, uint64_t, uint64_t, 0, a >> b)
SHIFT(shr_s16, int16_t, uint16_t, a < 0 ? -1 : 0, a >> b)
SHIFT(shr_s32, int32_t, uint32_t, a < 0 ? -1 : 0, a >> b)
SHIFT(shr_s64, int64_t, uint64_t, a < 0 ? -1 : 0, a >> b)

ptx_handler ptx_select_shl(ptx_insn *insn) {
    int type = insn->type[0];
    return type == PTX_b16 ? shl_16 : type == PTX_b32 ? shl_32 : type == PTX_b64 ? shl_64 : NULL;
}

ptx_handler ptx_select_shr(ptx_insn *insn) {
    switch (insn->type[0]) {
    case PTX_b16:
    case PTX_u16:
        return shr_u16;
    case PTX_b32:
    case PTX_u32:
        return shr_u32;
    case PTX_b64:
    case PTX_u64:
        return shr_u64;
    case PTX_s16:
        return shr_s16;
    case PTX_s32:
        return shr_s32;
    case PTX_s64:
        return shr_s64;
    default:
        return NULL;
    }
}

static uint32_t funnel(uint32_t low, uint32_t high, uint32_t by, bool left, bool clamp) {
    by = clamp ? (by > 32 ? 32 : by) : by & 31;
    uint64_t both = (uint64_t)high << 32 | low;
    return (uint32_t)(left ? both << by >> 32 : both >> by);
}
HANDLER3(shf_l_wrap, uint32_t, uint32_t, funnel(a, b, c, true, false))
HANDLER3(shf_r_wrap, uint32_t, uint32_t, funnel(a, b, c, false, false))
HANDLER3(shf_l_clamp, uint32_t, uint32_t, funnel(a, b, c, true, true))
HANDLER3(shf_r_clamp, uint32_t, uint32_t, funnel(a, b, c, false, true))

ptx_handler ptx_select_shf(ptx_insn *insn) {
    if (insn->type[0] != PTX_b32 || HAS(insn, l) == HAS(insn, r) ||
        HAS(insn, clamp) == HAS(insn, wrap)) {
        return NULL;
    }
    return HAS(insn, l) ? (HAS(insn, wrap) ? shf_l_wrap : shf_l_clamp)
                        : (HAS(insn, wrap) ? shf_r_wrap : shf_r_clamp);
}

static void lop3_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2),
                   *cs = ptx_lanes(w, insn, 3);
    uint64_t *out = ptx_lanes(w, insn, 0), table = ptx_lanes(w, insn, 4)[0];
    EACH_LANE(lane, mask) {
        uint64_t result = 0;
        for (uint32_t row = 0; row < 8; row++) { // bit 2: a, bit 1: b, bit 0: c
            if (table >> row & 1) {
                result |= (row & 4 ? as[lane] : ~as[lane]) & (row & 2 ? bs[lane] : ~bs[lane]) &
                          (row & 1 ? cs[lane] : ~cs[lane]);
            }
        }
        out[lane] = (uint32_t)result;
    }
}

ptx_handler ptx_select_lop3(ptx_insn *insn) {
    return insn->type[0] == PTX_b32 && insn->operand[4].value[0].kind == PTX_CONST ? lop3_run
                                                                                   : NULL;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t select) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t which = select >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(bytes >> (8 * (which & 7))) & 0xff;
        byte = which & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
        result |= byte << (8 * i);
    }
    return result;
}
// The modes of prmt in terms of selectors; `at` is the low two bits of c.
static uint32_t prmt_selector(const ptx_insn *insn, uint32_t at) {
    uint32_t select = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t byte = HAS(insn, f4e)   ? at + i
                        : HAS(insn, b4e) ? (at - i) & 7
                        : HAS(insn, rc8) ? at
                        : HAS(insn, ecl) ? (i > at ? i : at)
                        : HAS(insn, ecr) ? (i < at ? i : at)
                                         : (at & 1) * 2 + (i & 1); // rc16
        select |= byte << (4 * i);
    }
    return select;
}
HANDLER3(prmt_run, uint32_t, uint32_t, permute(a, b, c))
HANDLER3(prmt_mode, uint32_t, uint32_t, permute(a, b, prmt_selector(insn, c & 3)))

ptx_handler ptx_select_prmt(ptx_insn *insn) {
    bool mode = HAS(insn, f4e) || HAS(insn, b4e) || HAS(insn, rc8) || HAS(insn, ecl) ||
                HAS(insn, ecr) || HAS(insn, rc16);
    return insn->type[0] == PTX_b32 ? (mode ? prmt_mode : prmt_run) : NULL;
}

static uint64_t extract(uint64_t a, uint32_t start, uint32_t length, uint32_t width, bool sign) {
    start &= 0xff;
    length &= 0xff;
    if (!length) {
        return 0;
    }
    uint32_t top = start + length - 1 < width - 1 ? start + length - 1 : width - 1;
    bool fill = sign && (a >> top & 1);
    uint64_t field = start < width ? a >> start : 0;
    uint32_t have = start < width ? width - start : 0, kept = length < have ? length : have;
    uint64_t low = kept >= 64 ? UINT64_MAX : (UINT64_C(1) << kept) - 1;
    return (field & low) | (fill ? ~low : 0);
}
#define EXTRACT(name, T, width, sign)                                                              \
    HANDLER3(name, uint64_t, T, extract((T)a, (uint32_t)b, (uint32_t)c, width, sign))
EXTRACT(bfe_u32, uint32_t, 32, false)
EXTRACT(bfe_s32, uint32_t, 32, true)
EXTRACT(bfe_u64, uint64_t, 64, false)
EXTRACT(bfe_s64, uint64_t, 64, true)

ptx_handler ptx_select_bfe(ptx_insn *insn) {
    int type = insn->type[0];
    return type == PTX_u32   ? bfe_u32
           : type == PTX_s32 ? bfe_s32
           : type == PTX_u64 ? bfe_u64
           : type == PTX_s64 ? bfe_s64
                             : NULL;
}

static void bfi_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t width = ptx_type_bytes[insn->type[0]] * 8u;
    uint64_t whole = width == 64 ? UINT64_MAX : UINT32_MAX, *out = ptx_lanes(w, insn, 0);
    EACH_LANE(lane, mask) {
        uint64_t a = ptx_lanes(w, insn, 1)[lane], b = ptx_lanes(w, insn, 2)[lane];
        uint32_t start = (uint32_t)ptx_lanes(w, insn, 3)[lane] & 0xff;
        uint32_t length = (uint32_t)ptx_lanes(w, insn, 4)[lane] & 0xff;
        uint64_t field = length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
        field = start < width ? field << start : 0;
        out[lane] = ((b & ~field) | (start < width ? a << start & field : 0)) & whole;
    }
}

ptx_handler ptx_select_bfi(ptx_insn *insn) {
    return insn->type[0] == PTX_b32 || insn->type[0] == PTX_b64 ? bfi_run : NULL;
}

static uint32_t top_bit(uint64_t a, uint32_t width, bool shift) {
    if (!a) {
        return UINT32_MAX;
    }
    uint32_t at = 63 - (uint32_t)__builtin_clzll(a);
    return shift ? width - 1 - at : at;
}
HANDLER1(bfind_u32, uint32_t, uint32_t, top_bit(a, 32, HAS(insn, shiftamt)))
HANDLER1(bfind_u64, uint64_t, uint32_t, top_bit(a, 64, HAS(insn, shiftamt)))
HANDLER1(bfind_s32, int32_t, uint32_t, top_bit((uint32_t)(a < 0 ? ~a : a), 32, HAS(insn, shiftamt)))
HANDLER1(bfind_s64, int64_t, uint32_t, top_bit((uint64_t)(a < 0 ? ~a : a), 64, HAS(insn, shiftamt)))

ptx_handler ptx_select_bfind(ptx_insn *insn) {
    int type = insn->type[0];
    return type == PTX_u32   ? bfind_u32
           : type == PTX_s32 ? bfind_s32
           : type == PTX_u64 ? bfind_u64
           : type == PTX_s64 ? bfind_s64
                             : NULL;
}

static uint64_t reversed(uint64_t a, int width) {
    uint64_t result = 0;
    for (int i = 0; i < width; i++) {
        result = result << 1 | (a >> i & 1);
    }
    return result;
}
HANDLER1(brev_32, uint32_t, uint32_t, reversed(a, 32))
HANDLER1(brev_64, uint64_t, uint64_t, reversed(a, 64))
HANDLER1(clz_32, uint32_t, uint8_t, a ? __builtin_clz(a) : 32)
HANDLER1(clz_64, uint64_t, uint8_t, a ? __builtin_clzll(a) : 64)
HANDLER1(popc_32, uint32_t, uint32_t, __builtin_popcount(a))
HANDLER1(popc_64, uint64_t, uint32_t, __builtin_popcountll(a))

#define BITS_32_64(name)                                                                           \
    ptx_handler ptx_select_##name(ptx_insn *insn) {                                                \
        return insn->type[0] == PTX_b32 ? name##_32 : insn->type[0] == PTX_b64 ? name##_64 : NULL; \
    }
BITS_32_64(brev)
BITS_32_64(clz)
BITS_32_64(popc)

// szext: a from its low b bits; bmsk: b bits from a on.
static uint32_t sign_or_zero_extend(uint32_t a, uint32_t b, bool sign, bool clamp) {
    b = clamp ? (b > 32 ? 32 : b) : b & 31;
    return (uint32_t)extract(a, 0, b, 32, sign);
}
static uint32_t bit_mask(uint32_t a, uint32_t b, bool clamp) {
    a = clamp ? (a > 32 ? 32 : a) : a & 31;
    b = clamp ? (b > 32 ? 32 : b) : b & 31;
    return (uint32_t)(((UINT64_C(1) << b) - 1) << a);
}
HANDLER2(szext_run, uint32_t, uint32_t,
         sign_or_zero_extend(a, b, insn->type[0] == PTX_s32, HAS(insn, clamp)))
HANDLER2(bmsk_run, uint32_t, uint32_t, bit_mask(a, b, HAS(insn, clamp)))

ptx_handler ptx_select_szext(ptx_insn *insn) {
    return insn->type[0] == PTX_u32 || insn->type[0] == PTX_s32 ? szext_run : NULL;
}

ptx_handler ptx_select_bmsk(ptx_insn *insn) { return insn->type[0] == PTX_b32 ? bmsk_run : NULL; }

static uint32_t dot4(const ptx_insn *insn, uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 32; i += 8) {
        int32_t x = insn->type[0] == PTX_s32 ? (int8_t)(a >> i) : (uint8_t)(a >> i);
        int32_t y = insn->type[1] == PTX_s32 ? (int8_t)(b >> i) : (uint8_t)(b >> i);
        c += (uint32_t)(x * y);
    }
    return c;
}
HANDLER3(dp4a_run, uint32_t, uint32_t, dot4(insn, a, b, c))

ptx_handler ptx_select_dp4a(ptx_insn *insn) {
    return plain_integer(insn->type[0]) && plain_integer(insn->type[1]) ? dp4a_run : NULL;
}

// Choices and comparisons

static uint64_t width_mask(int type) {
    return ptx_type_bytes[type] == 8   ? UINT64_MAX
           : ptx_type_bytes[type] == 4 ? UINT32_MAX
                                       : UINT16_MAX;
}

static void selp_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2);
    uint64_t *out = ptx_lanes(w, insn, 0), kept = width_mask(insn->type[0]);
    uint32_t yes = ptx_predicate(w, &insn->operand[3].value[0]);
    EACH_LANE(lane, mask) { out[lane] = (yes >> lane & 1 ? as[lane] : bs[lane]) & kept; }
}

ptx_handler ptx_select_selp(ptx_insn *insn) {
    int type = insn->type[0];
    return is_integer(type) || type == PTX_f32 || type == PTX_f64 ? selp_run : NULL;
}

static void slct_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2),
                   *cs = ptx_lanes(w, insn, 3);
    uint64_t *out = ptx_lanes(w, insn, 0), kept = width_mask(insn->type[0]);
    EACH_LANE(lane, mask) {
        bool first = insn->type[1] == PTX_s32 ? (int32_t)cs[lane] >= 0 : ptx_f32(cs[lane]) >= 0;
        if (insn->ftz && insn->type[1] == PTX_f32 && !(cs[lane] & 0x7f800000)) {
            first = true; // -denormal flushes to -0, which is not below 0
        }
        out[lane] = (first ? as[lane] : bs[lane]) & kept;
    }
}

ptx_handler ptx_select_slct(ptx_insn *insn) {
    return insn->type[1] == PTX_s32 || insn->type[1] == PTX_f32 ? slct_run : NULL;
}

#define COMPARE(name, T)                                                                           \
    static uint32_t name(const uint64_t *as, const uint64_t *bs, uint32_t mask, int how) {         \
        uint32_t less = 0, equal = 0;                                                              \
        EACH_LANE(lane, mask) {                                                                    \
            T a = (T)as[lane], b = (T)bs[lane];                                                    \
            less |= (uint32_t)(a < b) << lane;                                                     \
            equal |= (uint32_t)(a == b) << lane;                                                   \
        }                                                                                          \
        switch (how) {                                                                             \
        case PTX_W_eq:                                                                             \
            return equal;                                                                          \
        case PTX_W_ne:                                                                             \
            return ~equal;                                                                         \
        case PTX_W_lt:                                                                             \
            return less;                                                                           \
        case PTX_W_le:                                                                             \
            return less | equal;                                                                   \
        case PTX_W_gt:                                                                             \
            return ~(less | equal);                                                                \
        default:                                                                                   \
            return ~less;                                                                          \
        }                                                                                          \
    }
COMPARE(compare_u16, uint16_t)
COMPARE(compare_u32, uint32_t)
COMPARE(compare_u64, uint64_t)
COMPARE(compare_s16, int16_t)
COMPARE(compare_s32, int32_t)
COMPARE(compare_s64, int64_t)

static uint32_t compare_any(int type, const uint64_t *as, const uint64_t *bs, uint32_t mask,
                            int how) {
    switch (type) {
    case PTX_s16:
        return compare_s16(as, bs, mask, how);
    case PTX_s32:
        return compare_s32(as, bs, mask, how);
    case PTX_s64:
        return compare_s64(as, bs, mask, how);
    default:
        return ptx_type_bytes[type] == 2   ? compare_u16(as, bs, mask, how)
               : ptx_type_bytes[type] == 4 ? compare_u32(as, bs, mask, how)
                                           : compare_u64(as, bs, mask, how);
    }
}

void ptx_setp_result(ptx_warp *w, const ptx_insn *insn, uint32_t mask, uint32_t bits) {
    uint32_t other = ~bits;
    if (insn->operands == 4) {
        uint32_t with = ptx_predicate(w, &insn->operand[3].value[0]);
        int how = insn->operation;
        other = how == PTX_W_and ? ~bits & with : how == PTX_W_or ? ~bits | with : ~bits ^ with;
        bits = how == PTX_W_and ? bits & with : how == PTX_W_or ? bits | with : bits ^ with;
    }
    if (insn->row->name[3] == '\0') { // set: all ones, or 1.0 for floats
        uint64_t *out = ptx_lanes(w, insn, 0);
        uint64_t yes = insn->type[0] == PTX_f32 ? 0x3f800000 : width_mask(insn->type[0]);
        EACH_LANE(lane, mask) { out[lane] = bits >> lane & 1 ? yes : 0; }
        return;
    }
    if (insn->operand[0].value[0].kind == PTX_PRED) {
        ptx_set_predicate(w, insn->operand[0].value[0].slot, mask, bits);
    }
    if (insn->operand[0].second >= 0) {
        ptx_set_predicate(w, insn->operand[0].second, mask, other);
    }
}

static void setp_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    int type = insn->type[insn->types - 1];
    uint32_t bits =
        compare_any(type, ptx_lanes(w, insn, 1), ptx_lanes(w, insn, 2), mask, insn->compare);
    ptx_setp_result(w, insn, mask, bits);
}

static int compare_of(const ptx_insn *insn) {
    for (int word = PTX_W_eq; word <= PTX_W_hs; word++) {
        if (ptx_has(&insn->words, word)) {
            return word;
        }
    }
    return HAS(insn, lo) ? PTX_W_lo : HAS(insn, hi) ? PTX_W_hi : -1;
}

ptx_handler ptx_select_setp(ptx_insn *insn) {
    int how = compare_of(insn), type = insn->type[insn->types - 1];
    insn->operation = HAS(insn, and)   ? PTX_W_and
                      : HAS(insn, or)  ? PTX_W_or
                      : HAS(insn, xor) ? PTX_W_xor
                                       : 0;
    if (how < 0 || (insn->operation != 0) != (insn->operands == 4)) {
        return NULL;
    }
    insn->compare = (uint8_t)how;
    if (ptx_is_float(type)) {
        return ptx_float_setp(insn);
    }
    bool is_unsigned = type >= PTX_u16 && type <= PTX_u64;
    if (how == PTX_W_lo || how == PTX_W_ls || how == PTX_W_hi || how == PTX_W_hs) {
        insn->compare = how == PTX_W_lo   ? PTX_W_lt
                        : how == PTX_W_ls ? PTX_W_le
                        : how == PTX_W_hi ? PTX_W_gt
                                          : PTX_W_ge;
        return is_unsigned ? setp_run : NULL;
    }
    if (how > PTX_W_ge || insn->ftz || (is_bits(type) && how != PTX_W_eq && how != PTX_W_ne)) {
        return NULL;
    }
    return is_integer(type) ? setp_run : NULL;
}

ptx_handler ptx_select_set(ptx_insn *insn) {
    int out = insn->type[0];
    return out == PTX_u32 || out == PTX_s32 || out == PTX_f32 ? ptx_select_setp(insn) : NULL;
}
