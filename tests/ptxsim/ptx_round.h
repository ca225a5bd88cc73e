// Rounding of exact values to the float formats of PTX.
#ifndef PTXSIM_PTX_ROUND_H
#define PTXSIM_PTX_ROUND_H

#include <stdbool.h>
#include <stdint.h>

// How to round: PTX_W_rn, rz, rm, rp, rna (half away from zero).
typedef struct ptx_format {
    int mantissa, exponent; // bits
    bool infinite;          // has infinities; e4m3 has none
    uint32_t nan, largest;  // canonical NaN; largest finite value
} ptx_format;
// By type: f16, bf16, f32, tf32, and e4m3x2, e5m2x2 for one element.
const ptx_format *ptx_format_of(int type);

// The double nearest to or next to an exact value, its last bit set if it is not exact: rounding it
// once more to 50 bits or fewer gives what rounding the exact value would have.
double ptx_add_odd(double a, double b);
double ptx_fma_odd(double a, double b, double c); // a * b must be exact
double ptx_div_odd(double a, double b);
double ptx_sqrt_odd(double a);
double ptx_u64_odd(uint64_t value);

uint32_t ptx_round(double value, const ptx_format *format, int how, bool saturate_finite);
double ptx_widen(uint32_t bits, const ptx_format *format);

#endif
