// Integer, bit, comparison and choice instructions against values worked out by hand or in plain C.
#include "sim_test.h"
#include "tests/unit/check.h"

#define M UINT64_C(0xffffffff)
#define ALL UINT64_MAX
#define TOP UINT64_C(0x8000000000000000)

static void add_and_multiply(void) {
    CHECK(SIM_CASES("add.s32 %r0, %r1, %r2;", 'r', {1, 2, 0, 3}, {M, 1, 0, 0},
                    {0x7fffffff, 1, 0, 0x80000000}));
    CHECK(SIM_CASES("add.sat.s32 %r0, %r1, %r2;", 'r', {0x7fffffff, 1, 0, 0x7fffffff},
                    {0x80000000, M, 0, 0x80000000}, {5, M, 0, 4}));
    CHECK(SIM_CASES("sub.sat.s32 %r0, %r1, %r2;", 'r', {0x80000000, 1, 0, 0x80000000}));
    CHECK(SIM_CASES("add.s64 %d0, %d1, %d2;", 'd', {M, 1, 0, M + 1}, {ALL, 1, 0, 0}));
    CHECK(SIM_CASES("sub.s16 %h0, %h1, %h2;", 'h', {0, 1, 0, 0xffff}));
    CHECK(SIM_CASES("mul.lo.s32 %r0, %r1, %r2;", 'r', {M, M, 0, 1}, {0x10000, 0x10000, 0, 0}));
    CHECK(SIM_CASES("mul.hi.u32 %r0, %r1, %r2;", 'r', {M, M, 0, 0xfffffffe}));
    CHECK(SIM_CASES("mul.hi.s32 %r0, %r1, %r2;", 'r', {M, M, 0, 0}, {M, 1, 0, M},
                    {0x80000000, 0x80000000, 0, 0x40000000}));
    CHECK(SIM_CASES("mul.hi.u64 %d0, %d1, %d2;", 'd', {ALL, ALL, 0, ALL - 1}));
    CHECK(SIM_CASES("mul.hi.s64 %d0, %d1, %d2;", 'd', {ALL, ALL, 0, 0}, {TOP, 2, 0, ALL}));
    CHECK(SIM_CASES("mul.wide.u32 %d0, %r1, %r2;", 'd', {M, M, 0, UINT64_C(0xfffffffe00000001)}));
    CHECK(SIM_CASES("mul.wide.s32 %d0, %r1, %r2;", 'd', {M, 2, 0, ALL - 1}));
    CHECK(SIM_CASES("mul.wide.s16 %r0, %h1, %h2;", 'r', {0xffff, 3, 0, 0xfffffffd}));
    CHECK(SIM_CASES("mad.lo.s32 %r0, %r1, %r2, %r3;", 'r', {3, 4, 5, 17}, {M, 1, 2, 1}));
    CHECK(SIM_CASES("mad.wide.u32 %d0, %r1, %r2, %d3;", 'd', {M, 2, 3, 2 * M + 3}));
    CHECK(SIM_CASES("mad.wide.s32 %d0, %r1, %r2, %d3;", 'd', {M, 5, 3, ALL - 1}));
    CHECK(SIM_CASES("mad.hi.u32 %r0, %r1, %r2, %r3;", 'r', {M, M, 3, 1}));
    CHECK(SIM_CASES("mul24.lo.s32 %r0, %r1, %r2;", 'r', {0xffffff, 5, 0, 0xfffffffb}));
    CHECK(SIM_CASES("sad.s32 %r0, %r1, %r2, %r3;", 'r', {3, M, 10, 14}, {M, 3, 0, 4}));
    CHECK(SIM_CASES("sad.u32 %r0, %r1, %r2, %r3;", 'r', {0, M, 1, 0}));
    CHECK(SIM_CASES("dp4a.s32.u32 %r0, %r1, %r2, %r3;", 'r', {0xff020304, 0x01010180, 5, 521}));
    CHECK(SIM_CASES("add.u16x2 %r0, %r1, %r2;", 'r', {0xffff0001, 0x00010002, 0, 0x00000003}));
    CHECK(SIM_CASES("min.s16x2 %r0, %r1, %r2;", 'r', {0xffff0001, 0x00010002, 0, 0xffff0001}));
}

static void carries(void) {
    CHECK(SIM_CASES("add.cc.u32 %r4, %r1, %r2; addc.u32 %r0, %r3, 0;", 'r', {M, 1, 7, 8},
                    {M, 0, 7, 7}));
    CHECK(SIM_CASES("sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, %r3, 0;", 'r', {0, 1, 7, 6},
                    {1, 1, 7, 7}));
    CHECK(SIM_CASES("mad.lo.cc.u32 %r4, %r1, %r2, 1; madc.hi.u32 %r0, %r1, %r2, %r3;", 'r',
                    {M, M, 0, 0xfffffffe}, {0x55555555, 3, 0, 1}));
    CHECK(SIM_CASES("add.cc.u64 %d4, %d1, %d2; addc.u64 %d0, %d3, 0;", 'd', {ALL, 1, 7, 8}));
}

static void divide(void) {
    CHECK(SIM_CASES("div.s32 %r0, %r1, %r2;", 'r', {7, 2, 0, 3}, {0xfffffff9, 2, 0, 0xfffffffd},
                    {0x80000000, M, 0, 0x80000000}, {5, 0, 0, M}));
    CHECK(SIM_CASES("rem.s32 %r0, %r1, %r2;", 'r', {7, 2, 0, 1}, {0xfffffff9, 2, 0, M},
                    {0x80000000, M, 0, 0}));
    CHECK(SIM_CASES("div.u32 %r0, %r1, %r2;", 'r', {M, 2, 0, 0x7fffffff}));
    CHECK(SIM_CASES("div.s64 %d0, %d1, %d2;", 'd', {TOP, ALL, 0, TOP}, {ALL - 6, 2, 0, ALL - 2}));
    CHECK(SIM_CASES("rem.u64 %d0, %d1, %d2;", 'd', {ALL, 10, 0, 5}));
    CHECK(SIM_CASES("div.u16 %h0, %h1, %h2;", 'h', {0xffff, 16, 0, 0xfff}));
    CHECK(SIM_CASES("rem.s16 %h0, %h1, %h2;", 'h', {0xfff9, 4, 0, 0xfffd}));
}

static void extremes(void) {
    CHECK(SIM_CASES("min.s32 %r0, %r1, %r2;", 'r', {M, 1, 0, M}));
    CHECK(SIM_CASES("min.u32 %r0, %r1, %r2;", 'r', {M, 1, 0, 1}));
    CHECK(SIM_CASES("max.s64 %d0, %d1, %d2;", 'd', {ALL, 1, 0, 1}));
    CHECK(SIM_CASES("max.u64 %d0, %d1, %d2;", 'd', {ALL, 1, 0, ALL}));
    CHECK(SIM_CASES("max.s32 %r0, %r1, %r2, %r3;", 'r', {1, M, 3, 3}, {9, M, 3, 9}));
    CHECK(SIM_CASES("abs.s32 %r0, %r1;", 'r', {M, 0, 0, 1}, {0x80000000, 0, 0, 0x80000000}));
    CHECK(SIM_CASES("neg.s64 %d0, %d1;", 'd', {1, 0, 0, ALL}));
    CHECK(SIM_CASES("neg.s16 %h0, %h1;", 'h', {1, 0, 0, 0xffff}));
}

static void logic_and_shifts(void) {
    CHECK(SIM_CASES("and.b32 %r0, %r1, %r2;", 'r', {12, 10, 0, 8}));
    CHECK(SIM_CASES("or.b64 %d0, %d1, %d2;", 'd', {TOP, 1, 0, TOP | 1}));
    CHECK(SIM_CASES("xor.b16 %h0, %h1, -1;", 'h', {0x0ff0, 0, 0, 0xf00f}));
    CHECK(SIM_CASES("not.b32 %r0, %r1;", 'r', {0, 0, 0, M}));
    CHECK(SIM_CASES("cnot.b32 %r0, %r1;", 'r', {0, 0, 0, 1}, {5, 0, 0, 0}));
    CHECK(SIM_CASES("setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r2, 0; and.pred %p3, %p1, %p2;"
                    "not.pred %p4, %p2; xor.pred %p5, %p3, %p4; or.pred %p0, %p5, %p1;",
                    'p', {0, 0, 0, 1}, {0, 1, 0, 0}, {1, 0, 0, 1}, {1, 1, 0, 1}));
    CHECK(SIM_CASES("shl.b32 %r0, %r1, %r2;", 'r', {1, 31, 0, 0x80000000}, {1, 32, 0, 0},
                    {1, M, 0, 0}));
    CHECK(SIM_CASES("shr.s32 %r0, %r1, %r2;", 'r', {0x80000000, 4, 0, 0xf8000000},
                    {0x80000000, 99, 0, M}, {8, 99, 0, 0}));
    CHECK(SIM_CASES("shr.u32 %r0, %r1, %r2;", 'r', {0x80000000, 31, 0, 1}, {M, 32, 0, 0}));
    CHECK(SIM_CASES("shr.s64 %d0, %d1, %r2;", 'd', {TOP, 64, 0, ALL}, {TOP, 63, 0, ALL}));
    CHECK(SIM_CASES("shl.b64 %d0, %d1, %r2;", 'd', {3, 63, 0, TOP}, {3, 64, 0, 0}));
    CHECK(SIM_CASES("shr.s16 %h0, %h1, %r2;", 'h', {0x8000, 3, 0, 0xf000}));
    CHECK(SIM_CASES("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", 'r',
                    {0x12345678, 0x9abcdef0, 8, 0xbcdef012},
                    {0x12345678, 0x9abcdef0, 40, 0xbcdef012}));
    CHECK(SIM_CASES("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 'r', {1, 2, 40, 2},
                    {0x12345678, 0x9abcdef0, 8, 0xf0123456}));
    CHECK(SIM_CASES("lop3.b32 %r0, %r1, %r2, %r3, 0xe8;", 'r', {12, 10, 6, 14})); // majority
    CHECK(SIM_CASES("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", 'r', {12, 10, 7, 1}));  // xor
    CHECK(SIM_CASES("lop3.b32 %r0, %r1, %r2, %r3, 0x40;", 'r', {12, 10, 6, 8}));  // a & b & ~c
}

static void bits(void) {
    CHECK(SIM_CASES("prmt.b32 %r0, %r1, %r2, %r3;", 'r',
                    {0x33221100, 0x77665544, 0x7410, 0x77441100},
                    {0x33221180, 0x77665544, 0x8880, 0xffffff80}));
    CHECK(SIM_CASES("prmt.b32.f4e %r0, %r1, %r2, %r3;", 'r',
                    {0x33221100, 0x77665544, 1, 0x44332211}));
    CHECK(SIM_CASES("prmt.b32.b4e %r0, %r1, %r2, %r3;", 'r',
                    {0x33221100, 0x77665544, 1, 0x66770011}));
    CHECK(SIM_CASES("prmt.b32.rc16 %r0, %r1, %r2, %r3;", 'r',
                    {0x33221100, 0x77665544, 1, 0x33223322}));
    CHECK(SIM_CASES("bfe.u32 %r0, %r1, %r2, %r3;", 'r', {0x12345678, 8, 8, 0x56},
                    {0x12345678, 28, 8, 1}, {M, 0, 0, 0}, {M, 40, 8, 0}));
    CHECK(SIM_CASES("bfe.s32 %r0, %r1, %r2, %r3;", 'r', {0x0000f000, 8, 8, 0xfffffff0},
                    {0x80000000, 28, 8, 0xfffffff8}, {0x80000000, 40, 8, M}));
    CHECK(SIM_CASES("bfe.s64 %d0, %d1, %r2, %r3;", 'd', {0xf0, 4, 4, ALL}, {TOP, 63, 9, ALL}));
    CHECK(SIM_CASES("bfi.b32 %r0, %r1, %r2, %r3, 8;", 'r', {0xab, M, 8, 0xffffabff},
                    {0xab, 0, 28, 0xb0000000}, {0xab, 5, 32, 5}));
    CHECK(SIM_CASES("bfi.b64 %d0, %d1, %d2, %r3, 64;", 'd', {7, ALL, 0, 7}));
    CHECK(SIM_CASES("bfind.u32 %r0, %r1;", 'r', {0x10, 0, 0, 4}, {0, 0, 0, M}));
    CHECK(SIM_CASES("bfind.s32 %r0, %r1;", 'r', {0xffffffef, 0, 0, 4}, {M, 0, 0, M}));
    CHECK(SIM_CASES("bfind.shiftamt.u64 %r0, %d1;", 'r', {1, 0, 0, 63}));
    CHECK(SIM_CASES("brev.b32 %r0, %r1;", 'r', {0x1, 0, 0, 0x80000000}, {0xf0, 0, 0, 0x0f000000}));
    CHECK(SIM_CASES("brev.b64 %d0, %d1;", 'd', {1, 0, 0, TOP}));
    CHECK(SIM_CASES("clz.b32 %r0, %r1;", 'r', {1, 0, 0, 31}, {0, 0, 0, 32}));
    CHECK(SIM_CASES("clz.b64 %r0, %d1;", 'r', {1, 0, 0, 63}, {0, 0, 0, 64}));
    CHECK(SIM_CASES("popc.b64 %r0, %d1;", 'r', {ALL, 0, 0, 64}, {TOP | 5, 0, 0, 3}));
    CHECK(SIM_CASES("szext.wrap.s32 %r0, %r1, %r2;", 'r', {0x80, 8, 0, 0xffffff80}));
    CHECK(SIM_CASES("bmsk.clamp.b32 %r0, %r1, %r2;", 'r', {4, 8, 0, 0xff0}, {4, 40, 0, ~15u}));
}

static void choices(void) {
    CHECK(SIM_CASES("setp.lt.s32 %p0, %r1, %r2;", 'p', {M, 0, 0, 1}, {0, M, 0, 0}));
    CHECK(SIM_CASES("setp.lt.u32 %p0, %r1, %r2;", 'p', {M, 0, 0, 0}, {0, M, 0, 1}));
    CHECK(SIM_CASES("setp.hs.u32 %p0, %r1, %r2;", 'p', {M, M, 0, 1}, {0, M, 0, 0}));
    CHECK(SIM_CASES("setp.ge.s64 %p0, %d1, %d2;", 'p', {ALL, 0, 0, 0}, {5, 5, 0, 1}));
    CHECK(SIM_CASES("setp.eq.b16 %p0, %h1, %h2;", 'p', {0x10005, 5, 0, 1}, {4, 5, 0, 0}));
    CHECK(SIM_CASES("setp.ne.u32 %p1, %r3, 0; setp.gt.and.s32 %p0|%p2, %r1, %r2, %p1;", 'p',
                    {2, 1, 1, 1}, {2, 1, 0, 0}, {1, 2, 1, 0}));
    CHECK(SIM_CASES("setp.ne.u32 %p1, %r3, 0; setp.gt.and.s32 %p2|%p0, %r1, %r2, %p1;", 'p',
                    {2, 1, 1, 0}, {1, 2, 0, 0}, {1, 2, 1, 1}));
    CHECK(SIM_CASES("setp.ne.u32 %p1, %r3, 0; setp.eq.xor.s32 %p0, %r1, %r2, !%p1;", 'p',
                    {2, 2, 1, 1}, {2, 2, 0, 0}, {1, 2, 0, 1}));
    CHECK(SIM_CASES("set.lt.u32.s32 %r0, %r1, %r2;", 'r', {M, 0, 0, M}, {1, 0, 0, 0}));
    CHECK(SIM_CASES("set.lt.f32.s32 %r0, %r1, %r2;", 'r', {M, 0, 0, 0x3f800000}));
    CHECK(SIM_CASES("setp.ne.u32 %p1, %r3, 0; selp.b32 %r0, %r1, %r2, %p1;", 'r', {7, 8, 1, 7},
                    {7, 8, 0, 8}));
    CHECK(SIM_CASES("slct.b32.s32 %r0, %r1, %r2, %r3;", 'r', {7, 8, 0, 7}, {7, 8, M, 8}));
    CHECK(SIM_CASES("slct.b64.f32 %d0, %d1, %d2, %r3;", 'd', {7, 8, 0x80000000, 7},
                    {7, 8, 0xbf800000, 8}, {7, 8, 0x7fc00000, 8}));
    CHECK(SIM_CASES("slct.ftz.b32.f32 %r0, %r1, %r2, %r3;", 'r', {7, 8, 0x80000001, 7}));
    CHECK(SIM_CASES("mov.b32 %r0, {%h1, %h2};", 'r', {0x1234, 0x5678, 0, 0x56781234}));
    CHECK(SIM_CASES("mov.b64 {%r4, %r0}, %d1;", 'r', {5 * (M + 1) + 6, 0, 0, 5}));
    CHECK(SIM_CASES("mov.b64 {%h4, %h5, %h0, _}, %d1;", 'h',
                    {UINT64_C(0x4444333322221111), 0, 0, 0x3333}));
    CHECK(SIM_CASES("mov.pred %p1, -1; mov.pred %p0, %p1;", 'p', {0, 0, 0, 1}));
}

int main(void) {
    sim_start("");
    add_and_multiply();
    carries();
    divide();
    extremes();
    logic_and_shifts();
    bits();
    choices();
    return CHECK_DONE();
}
