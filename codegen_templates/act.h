// exp, erf and tanh of eight floats, and the activations made of them, rounded where torch rounds.
//
// tfr_exp, tfr_erf and tfr_tanh are within 2 ulp of the right float everywhere, denormals included
// (tests/unit/test_act.c; 1 ulp each, measured over all floats). Only IEEE additions, products,
// quotients and integer operations are used, in a fixed order, so that every build gives the same
// bits. It must know no single op.
#ifndef TFR_ACT_H
#define TFR_ACT_H

#include "codegen_templates/acts.h"
#include "codegen_templates/vec.h"

TFR_INLINE tfr_v8 tfr_abs(tfr_v8 x) { return (tfr_v8)((tfr_u8)x & 0x7fffffffu); }

// The sign of x on a value that is not negative.
TFR_INLINE tfr_v8 tfr_signed_as(tfr_v8 value, tfr_v8 x) {
    return (tfr_v8)((tfr_u8)value | ((tfr_u8)x & 0x80000000u));
}

// 2^n, -127 <= n <= 127; n = -127 gives 0.
TFR_INLINE tfr_v8 tfr_two_to(tfr_u8 n) { return (tfr_v8)((n + 127u) << 23); }

// exp(sign * x) = p * 2^n with 0.7 < p < 1.42, for |x| < 2^21 and sign 1 or -1. A NaN x makes p NaN
// and n arbitrary.
TFR_INLINE tfr_v8 tfr_exp_parts(tfr_v8 x, float sign, tfr_u8 *n) {
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer in the low bits
    tfr_v8 t = x * (sign * 1.44269504f) + magic;
    tfr_v8 k = t - magic;
    *n = (tfr_u8)t - 0x4b400000u;
    // ln 2 in two parts, the first short enough that k times it is exact. r = x - sign * k * ln 2
    tfr_v8 r = (x - k * (sign * 0.693359375f)) - k * (sign * -2.12194440e-4f);
    tfr_v8 r2 = r * r; // in pairs of terms: half the length of Horner's chain
    tfr_v8 q = 0.00138207339f * r2 + (sign * 0.00836867746f * r + 0.0416682661f);
    q = q * r2 + (sign * 0.166665211f * r + 0.49999994f);
    return (q * r2 + sign * r) + 1.0f;
}

// p * 2^n where that is neither a denormal nor too large. A NaN gets lost.
TFR_INLINE tfr_v8 tfr_scaled(tfr_v8 p, tfr_u8 n) { return (tfr_v8)((tfr_u8)p + (n << 23)); }

TFR_INLINE tfr_v8 tfr_exp(tfr_v8 x) {
    tfr_u8 n;
    tfr_v8 p = tfr_exp_parts(tfr_at_most(tfr_at_least(x, -104.0f), 89.0f), 1.0f, &n);
    tfr_u8 half = (tfr_u8)((tfr_i8)n >> 1); // in two steps: 2^n alone need not be a float
    return p * tfr_two_to(half) * tfr_two_to(n - half);
}

// 1 + exp(-x). What exp is below 2^-110 does not matter here. A NaN gets lost.
TFR_INLINE tfr_v8 tfr_one_plus_exp_minus(tfr_v8 x) {
    tfr_u8 n;
    tfr_v8 p = tfr_exp_parts(tfr_at_most(tfr_at_least(x, -89.0f), 80.0f), -1.0f, &n);
    tfr_v8 half = tfr_scaled(p, n - 1u); // twice which may be infinite
    return half + half + 1.0f;
}

TFR_INLINE tfr_v8 tfr_erf(tfr_v8 x) {
    tfr_v8 a = tfr_abs(x), t = x * x;
    tfr_v8 p = 7.80690389e-05f * t + -0.00079978531f;
    p = ((p * t + 0.0051871622f) * t + -0.0268533472f) * t + 0.112835787f;
    tfr_v8 near = a + a * ((p * t + -0.37612626f) * t + 0.128379166f);
    // Away from 0: 1 - exp(-q(|x|)), which is 1 from 4 on.
    tfr_v8 b = tfr_at_most(a, 4.0f);
    tfr_v8 q = -0.000186382371f * b + 0.00294768461f;
    q = ((q * b + -0.0218381565f) * b + 0.103106923f) * b + 0.638144672f;
    q = (q * b + 1.12708926f) * b + 0.000341512583f;
    tfr_u8 n;
    tfr_v8 e = tfr_exp_parts(q, -1.0f, &n);
    tfr_v8 far = 1.0f - tfr_scaled(e, n);
    return tfr_signed_as(tfr_choose(a >= tfr_all(1.0f), far, near), x);
}

TFR_INLINE tfr_v8 tfr_tanh(tfr_v8 x) {
    tfr_v8 a = tfr_abs(x), t = x * x;
    tfr_v8 p = (-0.000358447636f * t + 0.00230135047f) * t + -0.00794608891f;
    p = (p * t + 0.0214866474f) * t + -0.0538797975f;
    p = (p * t + 0.133323446f) * t + -0.333332956f;
    tfr_v8 near = a + a * (t * p);
    // Away from 0: 1 - 2 / (1 + exp(2 |x|)). It becomes 1 where torch's does: up to 9.01 that is
    // 1 ulp too much, but all that 1 + tanh(-8.7) has, and gelu with it.
    tfr_v8 b = tfr_choose(a > tfr_all(8.66433975f), tfr_all(10.0f), a);
    tfr_u8 n;
    tfr_v8 e = tfr_exp_parts(b + b, 1.0f, &n);
    tfr_v8 far = 1.0f - 2.0f / (1.0f + tfr_scaled(e, n));
    return tfr_signed_as(tfr_choose(a >= tfr_all(1.0f), far, near), x);
}

// 1 + erf(x / sqrt(2)), rounded as if erf were a float before: what gelu needs, for half the price.
// erf's error is 1e-8 plus its own rounding, so the sum is as good as with the right erf.
TFR_INLINE tfr_v8 tfr_one_plus_erf(tfr_v8 x) {
    tfr_v8 b = tfr_at_most(tfr_abs(x), 5.6f), b2 = b * b;
    tfr_v8 high = (-5.09230922e-05f + 6.42344094e-06f * b) + -3.39488793e-07f * b2;
    tfr_v8 low =
        (0.0363466740f + -0.00480792159f * b) + (-6.13958946e-06f + 0.000194286476f * b) * b2;
    tfr_v8 q = (0.797884703f + 0.318307698f * b) + b2 * (low + high * (b2 * b2));
    tfr_u8 n;
    tfr_v8 e = tfr_exp_parts(b * q, -1.0f, &n); // erfc
    return 1.0f + tfr_signed_as(1.0f - tfr_scaled(e, n), x);
}

TFR_INLINE tfr_v8 tfr_sigmoid(tfr_v8 x) {
    return tfr_choose(x != x, x, 1.0f / tfr_one_plus_exp_minus(x));
}

// The activation `act` of values that a tensor of `dtype` holds, rounded to it after each of
// torch's operations; those that are one operation there are computed in f32 and rounded once.
TFR_INLINE tfr_v8 tfr_act(tfr_v8 x, int act, int dtype) {
    tfr_v8 y = x;
    if (act == TFR_ACT_SILU) {
        y = x / tfr_one_plus_exp_minus(x);
    } else if (act == TFR_ACT_GELU) {
        y = x * 0.5f * tfr_one_plus_erf(x);
    } else if (act == TFR_ACT_GELU_TANH) {
        tfr_v8 inner = 0.797884561f * (x + 0.044715f * (x * x * x));
        y = 0.5f * x * (1.0f + tfr_tanh(inner));
    } else if (act == TFR_ACT_RELU || act == TFR_ACT_RELU2) {
        y = tfr_at_least(x, 0.0f); // keeps -0, as torch does
        if (act == TFR_ACT_RELU2)
            y = y * y;
    } else if (act == TFR_ACT_SIGMOID) {
        y = tfr_sigmoid(x);
    } else if (act == TFR_ACT_TANH) {
        y = tfr_tanh(x);
    } else if (act == TFR_ACT_QUICK_GELU) {
        y = x * tfr_round_own(tfr_sigmoid(tfr_round_own(1.702f * x, dtype)), dtype);
    } else if (act == TFR_ACT_NEW_GELU) {
        y = tfr_round_own(tfr_round_own(x * x, dtype) * x, dtype); // pow(x, 3)
        y = tfr_round_own(0.044715f * y, dtype);
        y = tfr_round_own(0.797884561f * tfr_round_own(x + y, dtype), dtype);
        y = tfr_round_own(1.0f + tfr_round_own(tfr_tanh(y), dtype), dtype);
        y = tfr_round_own(0.5f * x, dtype) * y;
    }
    return act == TFR_ACT_IDENTITY ? y : tfr_round_own(y, dtype);
}

#endif
