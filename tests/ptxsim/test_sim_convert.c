// cvt: every pair of kinds, rounding, saturation, NaN.
#include "sim_test.h"
#include "tests/unit/check.h"

#define M UINT64_C(0xffffffff)
#define ALL UINT64_MAX

static void integers(void) {
    CHECK(SIM_CASES("cvt.s32.s8 %r0, %r1;", 'r', {0x180, 0, 0, 0xffffff80}, {0x7f, 0, 0, 0x7f}));
    CHECK(SIM_CASES("cvt.u32.u8 %r0, %r1;", 'r', {0x1ff, 0, 0, 0xff}));
    CHECK(
        SIM_CASES("cvt.s64.s32 %d0, %r1;", 'd', {0x80000000, 0, 0, UINT64_C(0xffffffff80000000)}));
    CHECK(SIM_CASES("cvt.u64.u32 %d0, %r1;", 'd', {M, 0, 0, M}));
    CHECK(SIM_CASES("cvt.s8.s32 %r0, %r1;", 'r', {0x1234ff80, 0, 0, 0xffffff80}));
    CHECK(SIM_CASES("cvt.u16.s32 %h0, %r1;", 'h', {0x12345, 0, 0, 0x2345}));
    CHECK(SIM_CASES("cvt.sat.u8.s32 %r0, %r1;", 'r', {M, 0, 0, 0}, {300, 0, 0, 255}, {7, 0, 0, 7}));
    CHECK(SIM_CASES("cvt.sat.s16.u32 %h0, %r1;", 'h', {M, 0, 0, 0x7fff}));
    CHECK(SIM_CASES("cvt.sat.s8.s64 %r0, %d1;", 'r', {ALL - 999, 0, 0, 0xffffff80}));
    CHECK(SIM_CASES("cvt.sat.u32.s64 %r0, %d1;", 'r', {ALL, 0, 0, 0}, {M + 5, 0, 0, M}));
    CHECK(SIM_CASES("cvt.pack.sat.s16.s32 %r0, %r1, %r2;", 'r', {70000, 5, 0, 0x7fff0005}));
    CHECK(SIM_CASES("cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;", 'r',
                    {300, M, 0x12345678, 0x5678ff00}));
}

static void to_integers(void) {
    // 2.5, -2.5, 3.5, NaN, 3e9, -3e9, infinity
    CHECK(SIM_CASES("cvt.rni.s32.f32 %r0, %r1;", 'r', {0x40200000, 0, 0, 2},
                    {0xc0200000, 0, 0, M - 1}, {0x40600000, 0, 0, 4}, {0x7fc00000, 0, 0, 0},
                    {0x4f32d05e, 0, 0, 0x7fffffff}, {0xcf32d05e, 0, 0, 0x80000000},
                    {0x7f800000, 0, 0, 0x7fffffff}));
    CHECK(SIM_CASES("cvt.rzi.s32.f32 %r0, %r1;", 'r', {0xc0200000, 0, 0, M - 1}));
    CHECK(SIM_CASES("cvt.rmi.s32.f32 %r0, %r1;", 'r', {0xc0200000, 0, 0, M - 2}));
    CHECK(SIM_CASES("cvt.rpi.s32.f32 %r0, %r1;", 'r', {0x40200000, 0, 0, 3}));
    CHECK(SIM_CASES("cvt.rzi.u32.f32 %r0, %r1;", 'r', {0xbf800000, 0, 0, 0}, {0x4f800000, 0, 0, M},
                    {0x4f000000, 0, 0, 0x80000000}));
    CHECK(SIM_CASES("cvt.rzi.ftz.s32.f32 %r0, %r1;", 'r', {1, 0, 0, 0}));
    CHECK(SIM_CASES("cvt.rpi.ftz.s32.f32 %r0, %r1;", 'r', {1, 0, 0, 0}));
    CHECK(SIM_CASES("cvt.rpi.s32.f32 %r0, %r1;", 'r', {1, 0, 0, 1}));
    CHECK(SIM_CASES("cvt.rzi.u8.f32 %r0, %r1;", 'r', {0x43960000, 0, 0, 255}));
    CHECK(SIM_CASES("cvt.rzi.s64.f32 %d0, %r1;", 'd', {0x7fc00000, 0, 0, UINT64_C(1) << 63},
                    {0x5f000000, 0, 0, ALL >> 1}, {0xdf000000, 0, 0, UINT64_C(1) << 63}));
    CHECK(SIM_CASES("cvt.rzi.u64.f32 %d0, %r1;", 'd', {0x5f000000, 0, 0, UINT64_C(1) << 63},
                    {0x5f800000, 0, 0, ALL}, {0xbf800000, 0, 0, 0}));
    CHECK(SIM_CASES("cvt.rzi.s32.f64 %r0, %d1;", 'r',
                    {UINT64_C(0x7ff8000000000000), 0, 0, 0x80000000}));
    CHECK(SIM_CASES("cvt.rni.s32.f16 %r0, %h1;", 'r', {0x4100, 0, 0, 2}));
}

static void from_integers(void) {
    CHECK(SIM_CASES("cvt.rn.f32.s32 %r0, %r1;", 'r', {M, 0, 0, 0xbf800000},
                    {0x01000001, 0, 0, 0x4b800000}, {0x01000003, 0, 0, 0x4b800002}));
    CHECK(SIM_CASES("cvt.rz.f32.u32 %r0, %r1;", 'r', {M, 0, 0, 0x4f7fffff}));
    CHECK(SIM_CASES("cvt.rp.f32.s32 %r0, %r1;", 'r', {0x01000001, 0, 0, 0x4b800001},
                    {0xfeffffff, 0, 0, 0xcb800000}));
    CHECK(SIM_CASES("cvt.rn.f32.u64 %r0, %d1;", 'r', {ALL, 0, 0, 0x5f800000},
                    // just above a tie: a double in between would lose the last bit
                    {UINT64_C(0x8000008000000001), 0, 0, 0x5f000001},
                    {UINT64_C(0x8000008000000000), 0, 0, 0x5f000000}));
    CHECK(SIM_CASES("cvt.rn.f64.s64 %d0, %d1;", 'd', {ALL, 0, 0, UINT64_C(0xbff0000000000000)}));
    CHECK(SIM_CASES("cvt.rn.f16.s32 %h0, %r1;", 'h', {70000, 0, 0, 0x7c00}, {2049, 0, 0, 0x6800}));
    CHECK(SIM_CASES("cvt.rn.f32.u8 %r0, %r1;", 'r', {0x1ff, 0, 0, 0x437f0000}));
    CHECK(SIM_CASES("cvt.rn.bf16.s32 %h0, %r1;", 'h', {257, 0, 0, 0x4380}));
}

static void between_floats(void) {
    CHECK(SIM_CASES("cvt.rn.bf16.f32 %h0, %r1;", 'h', {0x3f808000, 0, 0, 0x3f80},
                    {0x3f818000, 0, 0, 0x3f82}, {0x3f808001, 0, 0, 0x3f81},
                    {0x7f7fffff, 0, 0, 0x7f80}, {0x7fc00000, 0, 0, 0x7fff},
                    {0xff800001, 0, 0, 0x7fff}, {0x00008000, 0, 0, 0}, {0x00018000, 0, 0, 2},
                    {0xff800000, 0, 0, 0xff80}));
    CHECK(SIM_CASES("cvt.rz.bf16.f32 %h0, %r1;", 'h', {0x3f81ffff, 0, 0, 0x3f81},
                    {0x7f7fffff, 0, 0, 0x7f7f}));
    CHECK(SIM_CASES("cvt.rn.relu.bf16.f32 %h0, %r1;", 'h', {0xbf800000, 0, 0, 0}));
    CHECK(SIM_CASES("cvt.rn.bf16x2.f32 %r0, %r1, %r2;", 'r',
                    {0x3f800000, 0x40000000, 0, 0x3f804000},
                    {0x7fc00000, 0x3f808000, 0, 0x7fff3f80}));
    CHECK(
        SIM_CASES("cvt.rn.f16x2.f32 %r0, %r1, %r2;", 'r', {0x3f800000, 0x477ff000, 0, 0x3c007c00}));
    CHECK(
        SIM_CASES("cvt.rz.f16x2.f32 %r0, %r1, %r2;", 'r', {0x3f800000, 0x477ff000, 0, 0x3c007bff}));
    CHECK(SIM_CASES("cvt.rn.f16.f32 %h0, %r1;", 'h', {0x33000000, 0, 0, 0}, {0x33000001, 0, 0, 1},
                    {0x387fc000, 0, 0, 0x03ff}, {0x387fe000, 0, 0, 0x0400},
                    {0x7f800000, 0, 0, 0x7c00}));
    CHECK(SIM_CASES("cvt.f32.bf16 %r0, %h1;", 'r', {0x3f80, 0, 0, 0x3f800000},
                    {0x0001, 0, 0, 0x00010000}, {0xff80, 0, 0, 0xff800000}));
    CHECK(SIM_CASES("cvt.f32.f16 %r0, %h1;", 'r', {0x0001, 0, 0, 0x33800000},
                    {0xfc00, 0, 0, 0xff800000}, {0x7e00, 0, 0, 0x7fffffff}));
    CHECK(SIM_CASES("cvt.rn.f32.f64 %r0, %d1;", 'r',
                    {UINT64_C(0x3ff0000010000001), 0, 0, 0x3f800001},
                    {UINT64_C(0x3ff0000010000000), 0, 0, 0x3f800000}));
    CHECK(SIM_CASES("cvt.rp.f32.f64 %r0, %d1;", 'r', {1, 0, 0, 1}));
    CHECK(SIM_CASES("cvt.rn.ftz.f32.f64 %r0, %d1;", 'r', {UINT64_C(0x3800000000000000), 0, 0, 0}));
    CHECK(SIM_CASES("cvt.f64.f32 %d0, %r1;", 'd', {1, 0, 0, UINT64_C(0x36a0000000000000)}));
    CHECK(SIM_CASES("cvt.rni.f32.f32 %r0, %r1;", 'r', {0x40200000, 0, 0, 0x40000000},
                    {0xbe800000, 0, 0, 0x80000000}));
    CHECK(SIM_CASES("cvt.rmi.f32.f32 %r0, %r1;", 'r', {0xbe800000, 0, 0, 0xbf800000}));
    CHECK(SIM_CASES("cvt.sat.f32.f32 %r0, %r1;", 'r', {0x40000000, 0, 0, 0x3f800000},
                    {0x7fc00000, 0, 0, 0}));
    CHECK(SIM_CASES("cvt.ftz.f32.f32 %r0, %r1;", 'r', {0x80000001, 0, 0, 0x80000000}));
}

static void small_formats(void) {
    // 1.0, 448 (the largest e4m3), 500 saturates
    CHECK(SIM_CASES("cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;", 'h',
                    {0x3f800000, 0x43e00000, 0, 0x387e}, {0x43fa0000, 0xc3fa0000, 0, 0x7efe},
                    {0x7fc00000, 0x3b000000, 0, 0x7f01}));
    CHECK(SIM_CASES("cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2;", 'h',
                    {0x3f800000, 0x7f800000, 0, 0x3c7b}));
    CHECK(SIM_CASES("cvt.rn.f16x2.e4m3x2 %r0, %h1;", 'r', {0x387f, 0, 0, 0x3c007fff}));
    CHECK(SIM_CASES("cvt.rna.tf32.f32 %r0, %r1;", 'r', {0x3f801000, 0, 0, 0x3f802000},
                    {0x3f800fff, 0, 0, 0x3f800000}));
}

int main(void) {
    sim_start("");
    integers();
    to_integers();
    from_integers();
    between_floats();
    small_formats();
    return CHECK_DONE();
}
