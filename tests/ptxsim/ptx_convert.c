// cvt: between integers, floats, and packed pairs.
#include <float.h>
#include <math.h>

#include "ptx_handlers.h"
#include "ptx_round.h"

static bool is_integer(int type) { return type >= PTX_u8 && type <= PTX_s64; }
static bool is_signed(int type) { return type >= PTX_s8 && type <= PTX_s64; }
static bool is_scalar_float(int type) {
    return type == PTX_f16 || type == PTX_bf16 || type == PTX_f32 || type == PTX_f64;
}

static int64_t as_signed(uint64_t bits, int type) {
    switch (ptx_type_bytes[type]) {
    case 1:
        return (int8_t)bits;
    case 2:
        return (int16_t)bits;
    case 4:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}
static uint64_t as_unsigned(uint64_t bits, int type) {
    uint32_t width = ptx_type_bytes[type] * 8u;
    return width == 64 ? bits : bits & ((UINT64_C(1) << width) - 1);
}
static int64_t lowest(int type) {
    return is_signed(type) ? INT64_MIN >> (64 - ptx_type_bytes[type] * 8) : 0;
}
static uint64_t highest(int type) {
    return UINT64_MAX >> (64 - ptx_type_bytes[type] * 8 + (is_signed(type) ? 1 : 0));
}

// A narrow signed result fills its register with its sign.
static uint64_t to_register(const ptx_insn *insn, uint64_t value) {
    uint32_t width = insn->operand[0].value[0].bits;
    return width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}
static uint64_t fit(const ptx_insn *insn, uint64_t value, int type) {
    return to_register(insn, is_signed(type) ? (uint64_t)as_signed(value, type)
                                             : as_unsigned(value, type));
}

static uint64_t integer_to_integer(const ptx_insn *insn, uint64_t bits) {
    int to = insn->type[0], from = insn->type[1];
    uint64_t value = is_signed(from) ? (uint64_t)as_signed(bits, from) : as_unsigned(bits, from);
    if (insn->sat) {
        bool negative = is_signed(from) && (int64_t)value < 0;
        if (negative && (int64_t)value < lowest(to)) {
            value = (uint64_t)lowest(to);
        } else if (!negative && value > highest(to)) {
            value = highest(to);
        }
    }
    return fit(insn, value, to);
}

static double read_float(const ptx_insn *insn, uint64_t bits, int type) {
    if (type == PTX_f64) {
        return ptx_f64(bits);
    }
    if (type == PTX_f32) {
        float value = ptx_f32(bits);
        return insn->ftz && fabsf(value) < FLT_MIN ? copysignf(0, value) : value;
    }
    return ptx_widen((uint32_t)(bits & 0xffff), ptx_format_of(type));
}

static double to_integral(double value, int how) {
    switch (how) {
    case PTX_W_rni:
        return nearbyint(value); // the mode is to nearest even
    case PTX_W_rmi:
        return floor(value);
    case PTX_W_rpi:
        return ceil(value);
    default:
        return trunc(value);
    }
}

// Out of range saturates. NaN is 0, or the top bit where source or result has 64 bits.
static uint64_t float_to_integer(const ptx_insn *insn, uint64_t bits) {
    int to = insn->type[0];
    double value = read_float(insn, bits, insn->type[1]);
    if (isnan(value)) {
        bool wide = insn->type[1] == PTX_f64 || ptx_type_bytes[to] == 8;
        return wide ? fit(insn, UINT64_C(1) << (ptx_type_bytes[to] * 8 - 1), to) : 0;
    }
    value = to_integral(value, insn->round);
    if (value <= (double)lowest(to)) {
        return fit(insn, (uint64_t)lowest(to), to);
    }
    if (value >= (double)highest(to)) { // 2^63 and 2^64 as doubles for 64 bits
        return fit(insn, highest(to), to);
    }
    return fit(insn, value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value, to);
}

static uint64_t write_float(const ptx_insn *insn, double value, int type) {
    if (insn->sat) {
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    }
    if (HAS(insn, relu) && !isnan(value)) {
        value = value > 0 ? value : 0;
    }
    if (type == PTX_f64) {
        return isnan(value) ? UINT64_C(0xfff8000000000000) : ptx_f64_bits(value);
    }
    uint32_t bits = ptx_round(value, ptx_format_of(type), insn->round, HAS(insn, satfinite));
    return insn->ftz && type == PTX_f32 && !(bits & 0x7f800000) ? bits & 0x80000000 : bits;
}

static uint64_t integer_to_float(const ptx_insn *insn, uint64_t bits) {
    int from = insn->type[1];
    int64_t value = as_signed(bits, from);
    bool negative = is_signed(from) && value < 0;
    uint64_t size = negative ? 0 - (uint64_t)value
                             : (is_signed(from) ? (uint64_t)value : as_unsigned(bits, from));
    if (insn->type[0] == PTX_f64) { // to nearest; the select function refuses other modes
        return ptx_f64_bits(negative ? -(double)size : (double)size);
    }
    double exact = ptx_u64_odd(size);
    return write_float(insn, negative ? -exact : exact, insn->type[0]);
}

static uint64_t float_to_float(const ptx_insn *insn, uint64_t bits) {
    double value = read_float(insn, bits, insn->type[1]);
    if (insn->round >= PTX_W_rni) {
        value = to_integral(value, insn->round);
    }
    return write_float(insn, value, insn->type[0]);
}

#define CONVERT(name)                                                                              \
    static void name##_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                     \
        const uint64_t *as = ptx_lanes(w, insn, 1);                                                \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) { out[lane] = name(insn, as[lane]); }                                \
    }
CONVERT(integer_to_integer)
CONVERT(float_to_integer)
CONVERT(integer_to_float)
CONVERT(float_to_float)

// The common ones, without the general path.
HANDLER1(bf16_to_f32, uint16_t, uint32_t, (a & 0x7fff) > 0x7f80 ? 0x7fffffff : (uint32_t)a << 16)
static uint32_t to_bf16(float value) {
    uint32_t bits = ptx_f32_bits(value);
    return isnan(value) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
HANDLER1(f32_to_bf16, uint64_t, uint16_t, to_bf16(ptx_f32(a)))
HANDLER2(f32_to_bf16x2, uint64_t, uint32_t, to_bf16(ptx_f32(a)) << 16 | to_bf16(ptx_f32(b)))

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half. The same for bf16x2 and the fp8 pairs.
static void pack_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2);
    uint64_t *out = ptx_lanes(w, insn, 0);
    int width = ptx_type_bytes[insn->type[0]] * 4;
    EACH_LANE(lane, mask) {
        out[lane] = write_float(insn, read_float(insn, as[lane], PTX_f32), insn->type[0]) << width |
                    write_float(insn, read_float(insn, bs[lane], PTX_f32), insn->type[0]);
    }
}

// Between pairs: f16x2 to and from the fp8 formats.
static void repack_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *as = ptx_lanes(w, insn, 1);
    uint64_t *out = ptx_lanes(w, insn, 0);
    int from = insn->type[1], to = insn->type[0];
    int width_in = ptx_type_bytes[from] * 4, width_out = ptx_type_bytes[to] * 4;
    EACH_LANE(lane, mask) {
        uint32_t low = (uint32_t)as[lane] & ((UINT32_C(1) << width_in) - 1);
        uint32_t high = (uint32_t)(as[lane] >> width_in) & ((UINT32_C(1) << width_in) - 1);
        out[lane] = write_float(insn, ptx_widen(high, ptx_format_of(from)), to) << width_out |
                    write_float(insn, ptx_widen(low, ptx_format_of(from)), to);
    }
}

// tf32 keeps 10 bits of the mantissa in an f32.
static uint32_t to_tf32(uint32_t bits, int how) {
    if ((bits & 0x7f800000) == 0x7f800000) {
        return bits & 0x7fffff ? 0x7fffffff : bits;
    }
    uint32_t add = how == PTX_W_rna ? 0x1000 : how == PTX_W_rn ? 0xfff + (bits >> 13 & 1) : 0;
    return (bits + add) & ~UINT32_C(0x1fff);
}
HANDLER1(tf32_run, uint32_t, uint32_t, to_tf32(a, insn->round))

static bool is_pair(int type) {
    return type == PTX_f16x2 || type == PTX_bf16x2 || type == PTX_e4m3x2 || type == PTX_e5m2x2;
}
static bool is_fp8(int type) { return type == PTX_e4m3x2 || type == PTX_e5m2x2; }

static ptx_handler select_pair(ptx_insn *insn) {
    int to = insn->type[0], from = insn->type[1];
    if (!HAS(insn, rn) && !HAS(insn, rz)) {
        return NULL;
    }
    if (from == PTX_f32 && insn->operands == 3) {
        bool simple = to == PTX_bf16x2 && insn->round == PTX_W_rn && !HAS(insn, relu) &&
                      !HAS(insn, satfinite) && !insn->ftz;
        return is_fp8(to) && !HAS(insn, satfinite) ? NULL : simple ? f32_to_bf16x2 : pack_run;
    }
    bool fp8 = (is_fp8(to) && from == PTX_f16x2 && HAS(insn, satfinite)) ||
               (to == PTX_f16x2 && is_fp8(from));
    return fp8 && insn->operands == 2 ? repack_run : NULL;
}

ptx_handler ptx_select_cvt(ptx_insn *insn) {
    int to = insn->type[0], from = insn->type[1];
    bool plain = !HAS(insn, relu) && !HAS(insn, satfinite);
    insn->round = HAS(insn, rni)   ? PTX_W_rni
                  : HAS(insn, rzi) ? PTX_W_rzi
                  : HAS(insn, rmi) ? PTX_W_rmi
                  : HAS(insn, rpi) ? PTX_W_rpi
                                   : insn->round;
    bool integral = insn->round >= PTX_W_rni && insn->round <= PTX_W_rpi;
    bool rounds = HAS(insn, rn) || HAS(insn, rz) || HAS(insn, rm) || HAS(insn, rp);
    if (to == PTX_tf32) {
        insn->round = HAS(insn, rna) ? PTX_W_rna : insn->round;
        return from == PTX_f32 && (HAS(insn, rna) || rounds) && plain && insn->operands == 2
                   ? tf32_run
                   : NULL;
    }
    if (is_pair(to)) {
        return integral ? NULL : select_pair(insn);
    }
    if (insn->operands != 2 || HAS(insn, rna)) {
        return NULL;
    }
    if (is_integer(to) && is_integer(from)) {
        return integral || rounds || !plain || insn->ftz ? NULL : integer_to_integer_run;
    }
    if (is_integer(to) && is_scalar_float(from)) {
        return integral && plain ? float_to_integer_run : NULL;
    }
    if (is_scalar_float(to) && is_integer(from)) {
        return rounds && plain && (to != PTX_f64 || insn->round == PTX_W_rn) ? integer_to_float_run
                                                                             : NULL;
    }
    if (!is_scalar_float(to) || !is_scalar_float(from)) {
        return NULL;
    }
    bool widens = ptx_type_bytes[to] > ptx_type_bytes[from];
    bool fits = to == from ? !rounds : widens ? !rounds && !integral : rounds && !integral;
    if (!fits) {
        return NULL;
    }
    if (plain && !insn->sat && !insn->ftz) {
        if (to == PTX_f32 && from == PTX_bf16) {
            return bf16_to_f32;
        }
        if (to == PTX_bf16 && from == PTX_f32 && insn->round == PTX_W_rn) {
            return f32_to_bf16;
        }
    }
    return float_to_float_run;
}

// cvt.pack.sat.s16.s32 d, a, b, and .u8/.s8 with the rest of d from c shifted up.
static void cvt_pack_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    int to = insn->type[0], from = insn->type[1];
    int width = ptx_type_bytes[to] * 8;
    uint64_t *out = ptx_lanes(w, insn, 0), field = (UINT64_C(1) << width) - 1;
    EACH_LANE(lane, mask) {
        uint64_t halves[2];
        for (int i = 0; i < 2; i++) {
            int64_t value = as_signed(ptx_lanes(w, insn, 1 + i)[lane], from);
            value = value < lowest(to)             ? lowest(to)
                    : value > (int64_t)highest(to) ? (int64_t)highest(to)
                                                   : value;
            halves[i] = (uint64_t)value & field;
        }
        uint64_t rest = insn->operands == 4 ? ptx_lanes(w, insn, 3)[lane] << 2 * width : 0;
        out[lane] = (uint32_t)(rest | halves[0] << width | halves[1]);
    }
}

ptx_handler ptx_select_cvt_pack(ptx_insn *insn) {
    int to = insn->type[0];
    bool bytes = to == PTX_u8 || to == PTX_s8;
    bool fits = insn->types == (insn->operands == 4 ? 3 : 2) && insn->sat;
    return fits && insn->type[1] == PTX_s32 && (bytes || to == PTX_u16 || to == PTX_s16) &&
                   (bytes || insn->operands == 3)
               ? cvt_pack_run
               : NULL;
}
