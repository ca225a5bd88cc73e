// One way to round for all formats: an exact (or odd-rounded) double to mantissa and exponent bits.
#include "ptx_round.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ptx_words.h"

static const ptx_format formats[] = {
    {10, 5, true, 0x7fff, 0x7bff},         // f16
    {7, 8, true, 0x7fff, 0x7f7f},          // bf16
    {23, 8, true, 0x7fffffff, 0x7f7fffff}, // f32
    {3, 4, false, 0x7f, 0x7e},             // e4m3
    {2, 5, true, 0x7f, 0x7b},              // e5m2
};

const ptx_format *ptx_format_of(int type) {
    switch (type) {
    case PTX_f16:
    case PTX_f16x2:
        return &formats[0];
    case PTX_bf16:
    case PTX_bf16x2:
        return &formats[1];
    case PTX_f32:
    case PTX_f32x2:
        return &formats[2];
    case PTX_e4m3x2:
        return &formats[3];
    case PTX_e5m2x2:
        return &formats[4];
    default:
        return NULL;
    }
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// value is a rounded result, rest the sign of what is missing to the exact one.
static double odd(double value, double rest) {
    uint64_t bits = bits_of(value);
    if (rest == 0 || isnan(rest) || isinf(value) || bits & 1) {
        return value;
    }
    if (value == 0) {
        return rest < 0 ? -double_of(1) : double_of(1);
    }
    bool towards_zero = (value > 0) != (rest > 0);
    return double_of(towards_zero ? bits - 1 : bits + 1);
}

double ptx_add_odd(double a, double b) {
    double sum = a + b, part = sum - a;
    return odd(sum, (a - (sum - part)) + (b - part)); // Knuth's two-sum
}

double ptx_fma_odd(double a, double b, double c) { return ptx_add_odd(a * b, c); }

double ptx_div_odd(double a, double b) {
    double quotient = a / b;
    double rest = fma(-quotient, b, a);
    return isfinite(quotient) && b != 0 ? odd(quotient, b < 0 ? -rest : rest) : quotient;
}

double ptx_sqrt_odd(double a) {
    double root = sqrt(a);
    return a > 0 && isfinite(a) ? odd(root, fma(-root, root, a)) : root;
}

double ptx_u64_odd(uint64_t value) {
    int drop = value >> 53 ? 11 - __builtin_clzll(value) : 0;
    uint64_t kept = value >> drop, lost = value & ((UINT64_C(1) << drop) - 1);
    return ldexp((double)(kept | (lost != 0)), drop);
}

static uint32_t overflow(const ptx_format *f, int how, bool negative, bool finite) {
    bool keep = finite || how == PTX_W_rz || (how == PTX_W_rm && !negative) ||
                (how == PTX_W_rp && negative);
    return keep          ? f->largest
           : f->infinite ? ((UINT32_C(1) << f->exponent) - 1) << f->mantissa
                         : f->nan;
}

uint32_t ptx_round(double value, const ptx_format *f, int how, bool finite) {
    if (isnan(value)) {
        return f->nan;
    }
    bool negative = signbit(value);
    uint32_t sign = (uint32_t)negative << (f->mantissa + f->exponent);
    if (value == 0) {
        return sign;
    }
    if (isinf(value)) {
        return sign | (finite || !f->infinite ? (finite ? f->largest : f->nan)
                                              : ((UINT32_C(1) << f->exponent) - 1) << f->mantissa);
    }
    int exponent;
    double fraction = frexp(fabs(value), &exponent); // in [0.5, 1)
    uint64_t mantissa = (uint64_t)ldexp(fraction, 53);
    exponent--; // value = 1.x * 2^exponent
    int lowest = 2 - (1 << (f->exponent - 1));
    int drop = 52 - f->mantissa + (exponent < lowest ? lowest - exponent : 0);
    drop = drop > 60 ? 60 : drop;
    uint64_t kept = mantissa >> drop, lost = mantissa & ((UINT64_C(1) << drop) - 1);
    uint64_t half = UINT64_C(1) << (drop - 1);
    bool up = how == PTX_W_rn    ? lost > half || (lost == half && kept & 1)
              : how == PTX_W_rna ? lost >= half
              : how == PTX_W_rm  ? lost && negative
              : how == PTX_W_rp  ? lost && !negative
                                 : false;
    kept += up;
    if (exponent >= lowest) { // the hidden bit carries into the exponent
        kept += (uint64_t)(exponent - lowest) << f->mantissa;
    }
    return sign | (kept > f->largest ? overflow(f, how, negative, finite) : (uint32_t)kept);
}

double ptx_widen(uint32_t bits, const ptx_format *f) {
    uint32_t sign = bits >> (f->mantissa + f->exponent) & 1;
    uint32_t exponent = bits >> f->mantissa & ((UINT32_C(1) << f->exponent) - 1);
    uint32_t mantissa = bits & ((UINT32_C(1) << f->mantissa) - 1);
    uint32_t magnitude = bits & ((UINT32_C(1) << (f->mantissa + f->exponent)) - 1);
    int lowest = 2 - (1 << (f->exponent - 1));
    double value;
    if (magnitude > f->largest) {
        value = mantissa || !f->infinite ? NAN : INFINITY;
    } else if (!exponent) {
        value = ldexp(mantissa, lowest - f->mantissa);
    } else {
        value =
            ldexp(mantissa | UINT32_C(1) << f->mantissa, lowest + (int)exponent - 1 - f->mantissa);
    }
    return sign ? -value : value;
}
