// exp, erf and tanh of codegen_templates/act.h against libm's in double: at most 2 ulp from the
// right float, over every 4099th float and the neighbourhoods where the formulas change; the
// argument `1` (a step) makes it all of them, which takes minutes:
//
//     build/tests/test_act 1
#include "codegen_templates/kernel.h"

#include "codegen_templates/vec.h"

#include "codegen_templates/acts.h"

#include "codegen_templates/act.h"

#include "tests/unit/check.h"

#include <math.h>
#include <stdlib.h>

// Floats in the order of their values, as integers; -0 and 0 are one.
static int64_t place(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? -(int64_t)(u & 0x7fffffffu) : (int64_t)u;
}

static float from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static tfr_v8 run(tfr_v8 x, int function) {
    return function == 0 ? tfr_exp(x) : function == 1 ? tfr_erf(x) : tfr_tanh(x);
}

static double right(double x, int function) {
    return function == 0 ? exp(x) : function == 1 ? erf(x) : tanh(x);
}

static const char *const names[] = {"exp", "erf", "tanh"};

// The largest distance over 8 floats, in ulp. A NaN must give a NaN, and the sign of 0 must stay.
static int64_t distance(const float *x, int function) {
    tfr_v8 in, out;
    int64_t worst = 0;
    memcpy(&in, x, sizeof in);
    out = run(in, function);
    for (int i = 0; i < 8; i++) {
        float want = (float)right((double)x[i], function), got = out[i];
        int64_t off = isnan(want) || isnan(got) ? (isnan(want) && isnan(got) ? 0 : INT32_MAX)
                                                : llabs(place(want) - place(got));
        if (want == 0 && signbit(want) != signbit(got))
            off = INT32_MAX;
        worst = off > worst ? off : worst;
    }
    return worst;
}

static void over_all_floats(uint64_t step) {
    for (int f = 0; f < 3; f++) {
        int64_t worst = 0;
        float at = 0, x[8];
        int n = 0;
        for (uint64_t u = 0; u < (UINT64_C(1) << 32); u += step) {
            x[n++] = from_bits((uint32_t)u);
            if (n < 8)
                continue;
            int64_t off = distance(x, f);
            if (off > worst) {
                worst = off;
                at = x[0];
            }
            n = 0;
        }
        printf("%s: at most %lld ulp, near %a\n", names[f], (long long)worst, (double)at);
        CHECK(worst <= 2);
    }
}

// 2000 floats on each side of points where something changes, of both signs.
static void around_the_joints(void) {
    static const float joints[] = {0,        0.625f,   1,       4,       10,  88.3762f, 88.7228f,
                                   87.3365f, 103.279f, 103.97f, 103.99f, 104, 89,       3.4e38f};
    for (size_t j = 0; j < sizeof joints / sizeof *joints; j++)
        for (int f = 0; f < 3; f++) {
            int64_t worst = 0, middle = place(joints[j]);
            for (int64_t p = middle > 2000 ? middle - 2000 : 0; p < middle + 2000; p += 4) {
                float x[8];
                for (int i = 0; i < 8; i++)
                    x[i] = from_bits((uint32_t)(p + i % 4) | (i > 3 ? 0x80000000u : 0));
                int64_t off = distance(x, f);
                worst = off > worst ? off : worst;
            }
            CHECK(worst <= 2);
        }
}

static void special_values(void) {
    float inf = (float)INFINITY;
    float x[8] = {inf,
                  -inf,
                  (float)NAN,
                  -(float)NAN,
                  0,
                  -0.0f,
                  from_bits(0x7f800001u),
                  from_bits(0xffffffffu)};
    for (int f = 0; f < 3; f++)
        CHECK(distance(x, f) == 0);
}

// What torch's kernels give; its f32 sigmoid of -88 is a denormal, its silu of -inf a NaN.
static void edges_of_activations(void) {
    float inf = (float)INFINITY;
    tfr_v8 x = {-inf, inf, (float)NAN, -0.0f, -88, -88.8f, 1e30f, 1e-40f};
    tfr_v8 silu = tfr_act(x, TFR_ACT_SILU, TFR_F32), relu = tfr_act(x, TFR_ACT_RELU, TFR_F32);
    tfr_v8 sigmoid = tfr_act(x, TFR_ACT_SIGMOID, TFR_F32);
    CHECK(isnan(silu[0]) && isinf(silu[1]) && isnan(silu[2]) && signbit(silu[3]));
    CHECK(silu[4] < 0 && silu[5] == 0 && signbit(silu[5]) && silu[6] == x[6]);
    CHECK(relu[0] == 0 && isinf(relu[1]) && isnan(relu[2]) && signbit(relu[3]) && relu[7] == x[7]);
    CHECK(sigmoid[0] == 0 && sigmoid[1] == 1 && isnan(sigmoid[2]) && sigmoid[4] > 0);
    CHECK(sigmoid[4] < 1e-38f && sigmoid[5] == 0);
}

int main(int argc, char **argv) {
    uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : 4099;
    special_values();
    edges_of_activations();
    around_the_joints();
    over_all_floats(step ? step : 1);
    return check_failures != 0;
}
