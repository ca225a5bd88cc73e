// Float instructions: bits of results, with NaN, infinity, denormals, rounding modes, .ftz and
// .sat.
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "sim_test.h"
#include "tests/unit/check.h"

enum {
    ONE = 0x3f800000,
    TWO = 0x40000000,
    HALF = 0x3f000000,
    THREE = 0x40400000,
    INF = 0x7f800000,
    NAN_OUT = 0x7fffffff,
    NAN_IN = 0x7fc00001,
    TINY = 1,           // smallest denormal
    SMALL = 0x00800000, // smallest normal
    MAX = 0x7f7fffff,
    ULP1 = 0x33800000, // 2^-24: half of what separates 1 from the next float
};
#define NEG(x) ((uint32_t)(x) | 0x80000000u)

static uint32_t bits(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static float from(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void add(void) {
    CHECK(SIM_CASES("add.f32 %r0, %r1, %r2;", 'r', {ONE, ONE, 0, TWO}, {ONE, ULP1, 0, ONE},
                    {ONE, ULP1 + 1, 0, ONE + 1}, {INF, NEG(INF), 0, NAN_OUT},
                    {NAN_IN, ONE, 0, NAN_OUT}, {TINY, TINY, 0, 2}, {MAX, MAX, 0, INF},
                    {NEG(0), NEG(0), 0, NEG(0)}, {ONE, NEG(ONE), 0, 0}));
    CHECK(SIM_CASES("add.ftz.f32 %r0, %r1, %r2;", 'r', {TINY, TINY, 0, 0},
                    {NEG(TINY), NEG(TINY), 0, NEG(0)}, {SMALL, NEG(SMALL + 1), 0, NEG(0)},
                    {SMALL, SMALL, 0, 0x01000000}));
    CHECK(SIM_CASES("add.sat.f32 %r0, %r1, %r2;", 'r', {ONE, ONE, 0, ONE},
                    {NEG(ONE), NEG(ONE), 0, 0}, {NAN_IN, ONE, 0, 0}, {HALF, 0, 0, HALF}));
    CHECK(SIM_CASES("add.rz.f32 %r0, %r1, %r2;", 'r', {ONE, ULP1 + 1, 0, ONE},
                    {NEG(ONE), NEG(ULP1 + 1), 0, NEG(ONE)}, {MAX, MAX, 0, MAX}));
    CHECK(SIM_CASES("add.rp.f32 %r0, %r1, %r2;", 'r', {ONE, TINY, 0, ONE + 1},
                    {NEG(ONE), TINY, 0, NEG(ONE - 1)}, {ONE, NEG(ONE), 0, 0}));
    CHECK(SIM_CASES("add.rm.f32 %r0, %r1, %r2;", 'r', {ONE, TINY, 0, ONE},
                    {NEG(ONE), NEG(TINY), 0, NEG(ONE + 1)}, {ONE, NEG(ONE), 0, NEG(0)},
                    {0, 0, 0, 0}, {0, NEG(0), 0, NEG(0)}, {MAX, MAX, 0, MAX},
                    {NEG(MAX), NEG(MAX), 0, NEG(INF)}));
    CHECK(SIM_CASES("sub.f32 %r0, %r1, %r2;", 'r', {ONE, TWO, 0, NEG(ONE)}, {0, 0, 0, 0}));
}

static void multiply(void) {
    CHECK(SIM_CASES("mul.f32 %r0, %r1, %r2;", 'r', {THREE, TWO, 0, 0x40c00000},
                    {INF, 0, 0, NAN_OUT}, {MAX, TWO, 0, INF}, {SMALL, HALF, 0, 0x00400000}));
    CHECK(SIM_CASES("mul.ftz.f32 %r0, %r1, %r2;", 'r', {SMALL, HALF, 0, 0},
                    {NEG(SMALL), HALF, 0, NEG(0)}, {TINY, MAX, 0, 0}));
    CHECK(SIM_CASES("mul.rp.f32 %r0, %r1, %r2;", 'r', {ONE + 1, ONE + 1, 0, ONE + 3},
                    {TINY, TINY, 0, TINY}));
    CHECK(SIM_CASES("mul.rz.f32 %r0, %r1, %r2;", 'r', {ONE + 1, ONE + 1, 0, ONE + 2},
                    {TINY, TINY, 0, 0}));
    // (1 + 2^-23)^2 - (1 + 2^-22) = 2^-46: only one rounding keeps it
    CHECK(SIM_CASES("fma.rn.f32 %r0, %r1, %r2, %r3;", 'r',
                    {ONE + 1, ONE + 1, NEG(ONE + 2), bits(0x1p-46f)}, {INF, ONE, NEG(INF), NAN_OUT},
                    {0, INF, ONE, NAN_OUT}));
    CHECK(SIM_CASES("fma.rz.f32 %r0, %r1, %r2, %r3;", 'r', {MAX, TWO, NEG(TINY), MAX},
                    {ONE, ONE, ULP1 + 1, ONE}));
    CHECK(SIM_CASES("fma.rm.f32 %r0, %r1, %r2, %r3;", 'r', {ONE, ONE, NEG(TINY), ONE - 1},
                    {ONE, ONE, NEG(ONE), NEG(0)}));
    CHECK(SIM_CASES("fma.rp.ftz.sat.f32 %r0, %r1, %r2, %r3;", 'r', {TINY, ONE, HALF, HALF},
                    {TWO, TWO, ONE, ONE}));
}

// All four modes of many values against the host's own.
static void modes_as_the_host(void) {
    static const struct {
        const char *suffix;
        int mode;
    } modes[] = {
        {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
    uint32_t state = 12345;
    for (int m = 0; m < 4; m++) {
        for (int op = 0; op < 5; op++) {
            static const char *const names[] = {"add", "mul", "div", "sqrt", "fma"};
            sim_case cases[32];
            char text[64];
            for (int i = 0; i < 32; i++) {
                uint32_t words[3];
                for (int j = 0; j < 3; j++) {
                    state = state * 1664525 + 1013904223;
                    words[j] = i % 4 ? (state & 0x80ffffff) + 0x3f000000 : state & 0xff7fffff;
                }
                volatile float a = op == 3 ? fabsf(from(words[0])) : from(words[0]);
                volatile float b = from(words[1]), c = from(words[2]), result;
                fesetround(modes[m].mode);
                result = op == 0   ? a + b
                         : op == 1 ? a * b
                         : op == 2 ? a / b
                         : op == 3 ? sqrtf(a)
                                   : fmaf(a, b, c);
                fesetround(FE_TONEAREST);
                cases[i] =
                    (sim_case){bits(a), bits(b), bits(c), isnan(result) ? NAN_OUT : bits(result)};
            }
            snprintf(text, sizeof text, "%s.%s.f32 %%r0, %%r1%s%s;", names[op], modes[m].suffix,
                     op == 3 ? "" : ", %r2", op == 4 ? ", %r3" : "");
            CHECK(sim_cases(text, 'r', cases, 32));
        }
    }
}

static void divide(void) {
    CHECK(SIM_CASES("div.rn.f32 %r0, %r1, %r2;", 'r', {ONE, THREE, 0, 0x3eaaaaab}, {ONE, 0, 0, INF},
                    {0, 0, 0, NAN_OUT}, {NEG(ONE), INF, 0, NEG(0)}));
    CHECK(SIM_CASES("rcp.rn.f32 %r0, %r1;", 'r', {THREE, 0, 0, 0x3eaaaaab},
                    {NEG(0), 0, 0, NEG(INF)}));
    CHECK(SIM_CASES("rcp.rz.f32 %r0, %r1;", 'r', {THREE, 0, 0, 0x3eaaaaaa}));
    CHECK(SIM_CASES("sqrt.rn.f32 %r0, %r1;", 'r', {TWO, 0, 0, 0x3fb504f3}, {NEG(0), 0, 0, NEG(0)},
                    {NEG(ONE), 0, 0, NAN_OUT}));
    CHECK(SIM_CASES("div.full.f32 %r0, %r1, %r2;", 'r', {ONE, TWO, 0, HALF}));
    CHECK(SIM_CASES("rcp.approx.ftz.f32 %r0, %r1;", 'r', {TWO, 0, 0, HALF}, {TINY, 0, 0, INF}));
    CHECK(SIM_CASES("sqrt.approx.f32 %r0, %r1;", 'r', {0x40800000, 0, 0, TWO}));
    CHECK(SIM_CASES("rsqrt.approx.f32 %r0, %r1;", 'r', {0x40800000, 0, 0, HALF},
                    {NEG(ONE), 0, 0, NAN_OUT}, {0, 0, 0, INF}, {INF, 0, 0, 0}));
    CHECK(SIM_CASES("ex2.approx.ftz.f32 %r0, %r1;", 'r', {TWO, 0, 0, 0x40800000},
                    {NEG(INF), 0, 0, 0}, {bits(-130), 0, 0, 0}, {bits(0.5f), 0, 0, 0x3fb504f3}));
    CHECK(SIM_CASES("ex2.approx.f32 %r0, %r1;", 'r', {bits(-149), 0, 0, TINY}));
    CHECK(SIM_CASES("lg2.approx.f32 %r0, %r1;", 'r', {0x40800000, 0, 0, TWO}, {0, 0, 0, NEG(INF)},
                    {NEG(ONE), 0, 0, NAN_OUT}));
    CHECK(SIM_CASES("sin.approx.f32 %r0, %r1;", 'r', {0, 0, 0, 0}, {INF, 0, 0, NAN_OUT}));
    CHECK(SIM_CASES("cos.approx.f32 %r0, %r1;", 'r', {0, 0, 0, ONE}));
    CHECK(SIM_CASES("tanh.approx.f32 %r0, %r1;", 'r', {INF, 0, 0, ONE}, {NEG(0), 0, 0, NEG(0)}));
}

static void extremes_and_signs(void) {
    CHECK(SIM_CASES("min.f32 %r0, %r1, %r2;", 'r', {ONE, TWO, 0, ONE}, {NAN_IN, TWO, 0, TWO},
                    {TWO, NAN_IN, 0, TWO}, {NAN_IN, NAN_IN, 0, NAN_OUT}, {0, NEG(0), 0, NEG(0)},
                    {NEG(0), 0, 0, NEG(0)}));
    CHECK(SIM_CASES("max.f32 %r0, %r1, %r2;", 'r', {0, NEG(0), 0, 0}, {NEG(0), 0, 0, 0},
                    {NEG(INF), NAN_IN, 0, NEG(INF)}));
    CHECK(SIM_CASES("max.NaN.f32 %r0, %r1, %r2;", 'r', {ONE, NAN_IN, 0, NAN_OUT},
                    {ONE, TWO, 0, TWO}));
    CHECK(SIM_CASES("min.ftz.f32 %r0, %r1, %r2;", 'r', {TINY, ONE, 0, 0}));
    CHECK(SIM_CASES("max.f32 %r0, %r1, %r2, %r3;", 'r', {ONE, NAN_IN, TWO, TWO}));
    CHECK(SIM_CASES("neg.f32 %r0, %r1;", 'r', {ONE, 0, 0, NEG(ONE)}, {0, 0, 0, NEG(0)}));
    CHECK(SIM_CASES("neg.ftz.f32 %r0, %r1;", 'r', {TINY, 0, 0, NEG(0)}));
    CHECK(SIM_CASES("abs.f32 %r0, %r1;", 'r', {NEG(INF), 0, 0, INF}, {NEG(TINY), 0, 0, TINY}));
    CHECK(SIM_CASES("copysign.f32 %r0, %r1, %r2;", 'r', {NEG(ONE), TWO, 0, NEG(TWO)}));
    CHECK(SIM_CASES("testp.subnormal.f32 %p0, %r1;", 'p', {TINY, 0, 0, 1}, {SMALL, 0, 0, 0}));
    CHECK(SIM_CASES("testp.finite.f32 %p0, %r1;", 'p', {MAX, 0, 0, 1}, {INF, 0, 0, 0},
                    {NAN_IN, 0, 0, 0}));
    CHECK(SIM_CASES("testp.notanumber.f32 %p0, %r1;", 'p', {NAN_IN, 0, 0, 1}, {INF, 0, 0, 0}));
}

static void compare(void) {
    CHECK(SIM_CASES("setp.lt.f32 %p0, %r1, %r2;", 'p', {ONE, TWO, 0, 1}, {NAN_IN, TWO, 0, 0},
                    {NEG(0), 0, 0, 0}));
    CHECK(SIM_CASES("setp.ltu.f32 %p0, %r1, %r2;", 'p', {TWO, ONE, 0, 0}, {NAN_IN, TWO, 0, 1}));
    CHECK(SIM_CASES("setp.ne.f32 %p0, %r1, %r2;", 'p', {ONE, TWO, 0, 1}, {NAN_IN, NAN_IN, 0, 0}));
    CHECK(SIM_CASES("setp.neu.f32 %p0, %r1, %r2;", 'p', {NAN_IN, NAN_IN, 0, 1}, {0, NEG(0), 0, 0}));
    CHECK(SIM_CASES("setp.equ.f32 %p0, %r1, %r2;", 'p', {NAN_IN, ONE, 0, 1}, {ONE, ONE, 0, 1},
                    {ONE, TWO, 0, 0}));
    CHECK(SIM_CASES("setp.nan.f32 %p0, %r1, %r2;", 'p', {NAN_IN, ONE, 0, 1}, {ONE, ONE, 0, 0}));
    CHECK(SIM_CASES("setp.num.f32 %p0, %r1, %r2;", 'p', {NAN_IN, ONE, 0, 0}, {INF, ONE, 0, 1}));
    CHECK(SIM_CASES("setp.gt.ftz.f32 %p0, %r1, %r2;", 'p', {TINY, 0, 0, 0}, {SMALL, 0, 0, 1}));
    CHECK(SIM_CASES("setp.le.f64 %p0, %d1, %d2;", 'p',
                    {UINT64_C(0x3ff0000000000000), UINT64_C(0x4000000000000000), 0, 1}));
}

static void halves(void) {
    // 1 + 2^-11 ties to even in f16; bf16 likewise with 2^-8
    CHECK(SIM_CASES("add.f16 %h0, %h1, %h2;", 'h', {0x3c00, 0x1000, 0, 0x3c00},
                    {0x3c01, 0x1000, 0, 0x3c02}, {0x7bff, 0x7bff, 0, 0x7c00},
                    {0x7c00, 0xfc00, 0, 0x7fff}, {0x0001, 0x0001, 0, 0x0002}));
    CHECK(SIM_CASES("mul.ftz.f16 %h0, %h1, %h2;", 'h', {0x0400, 0x3800, 0, 0}));
    CHECK(SIM_CASES("fma.rn.f16 %h0, %h1, %h2, %h3;", 'h', {0x3c01, 0x3c01, 0xbc02, 0x0010}));
    CHECK(SIM_CASES("fma.rn.relu.f16 %h0, %h1, %h2, %h3;", 'h', {0x3c00, 0xbc00, 0, 0}));
    CHECK(SIM_CASES("sub.f16x2 %r0, %r1, %r2;", 'r', {0x40003c00, 0x3c003c00, 0, 0x3c000000}));
    CHECK(SIM_CASES("fma.rn.bf16x2 %r0, %r1, %r2, %r3;", 'r',
                    {0x3f804000, 0x40004000, 0x3f803f80, 0x404040a0}));
    CHECK(SIM_CASES("add.bf16 %h0, %h1, %h2;", 'h', {0x3f80, 0x3b80, 0, 0x3f80},
                    {0x3f81, 0x3b80, 0, 0x3f82}, {0x7f7f, 0x7f7f, 0, 0x7f80}));
    // 2^-133 + 2^-8 (1 + 2^-7): the tail decides a tie that double alone would round away
    CHECK(SIM_CASES("fma.rn.bf16 %h0, %h1, %h2, %h3;", 'h', {0x3f80, 0x0001, 0x3f80, 0x3f80}));
    CHECK(SIM_CASES("max.bf16x2 %r0, %r1, %r2;", 'r', {0x7fc03f80, 0x40004000, 0, 0x40004000}));
    CHECK(SIM_CASES("min.NaN.f16x2 %r0, %r1, %r2;", 'r', {0x7e003c00, 0x40004000, 0, 0x7fff3c00}));
    CHECK(SIM_CASES("neg.bf16x2 %r0, %r1;", 'r', {0x3f803f80, 0, 0, 0xbf80bf80}));
    CHECK(SIM_CASES("abs.f16 %h0, %h1;", 'h', {0xbc00, 0, 0, 0x3c00}));
    CHECK(SIM_CASES("ex2.approx.f16 %h0, %h1;", 'h', {0x4000, 0, 0, 0x4400}));
    CHECK(SIM_CASES("tanh.approx.bf16x2 %r0, %r1;", 'r', {0x7f800000, 0, 0, 0x3f800000}));
    CHECK(SIM_CASES("setp.lt.f16 %p0, %h1, %h2;", 'p', {0x3c00, 0x4000, 0, 1}, {0x7e00, 0, 0, 0}));
    CHECK(SIM_CASES("setp.gt.bf16x2 %p1|%p0, %r1, %r2;", 'p', {0x40003f80, 0x3f803f80, 0, 1}));
    CHECK(SIM_CASES("fma.rn.f32x2 %d0, %d1, %d2, %d3;", 'd',
                    {UINT64_C(0x3f80000040000000), UINT64_C(0x4000000040000000),
                     UINT64_C(0x3f8000003f800000), UINT64_C(0x4040000040a00000)}));
}

static void doubles(void) {
    uint64_t one = UINT64_C(0x3ff0000000000000), three = UINT64_C(0x4008000000000000);
    CHECK(SIM_CASES("add.f64 %d0, %d1, %d2;", 'd', {one, one, 0, UINT64_C(0x4000000000000000)}));
    CHECK(
        SIM_CASES("div.rn.f64 %d0, %d1, %d2;", 'd', {one, three, 0, UINT64_C(0x3fd5555555555555)}));
    CHECK(
        SIM_CASES("fma.rn.f64 %d0, %d1, %d2, %d3;", 'd',
                  {one + 1, one + 1, (one + 2) ^ UINT64_C(1) << 63, UINT64_C(0x3970000000000000)}));
    CHECK(SIM_CASES("sqrt.rn.f64 %d0, %d1;", 'd',
                    {UINT64_C(0x4010000000000000), 0, 0, UINT64_C(0x4000000000000000)}));
}

int main(void) {
    sim_start("");
    add();
    multiply();
    modes_as_the_host();
    divide();
    extremes_and_signs();
    compare();
    halves();
    doubles();
    return CHECK_DONE();
}
