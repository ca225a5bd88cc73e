// Loads, stores, atomics, cp.async, the address spaces and calls.
#include <string.h>

#include "sim_test.h"
#include "tests/unit/check.h"

#define IN_OUT ".param .u64 in, .param .u64 out"
#define POINTERS "ld.param.u64 %d20, [in]; ld.param.u64 %d21, [out]; mov.u32 %r20, %tid.x;\n"

// One launch of a body over in and out; true if it ran without a finding.
static bool runs(const char *body, unsigned threads, const void *in, size_t in_bytes, void *out,
                 size_t out_bytes) {
    CUfunction f = sim_body(IN_OUT, body);
    ptxsim_memory(in, in_bytes, 5);
    ptxsim_memory(out, out_bytes, 7);
    bool ok = sim_launch(f, 1, threads, in, out, NULL) == CUDA_SUCCESS;
    if (sim_findings()) {
        static char text[4096];
        ptxsim_report(text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    return ok && !sim_findings();
}

static void widths(void) {
    _Alignas(16) const uint8_t in[32] = {0x80, 0xff, 1,  2,  3,  4,  5,  6,  7,  8,  9,
                                         10,   11,   12, 13, 14, 15, 16, 17, 18, 19, 20};
    _Alignas(32) uint64_t out[8] = {0};
    CHECK(runs(POINTERS "ld.global.s8 %r1, [%d20]; ld.global.u8 %r2, [%d20];"
                        "ld.global.s16 %r3, [%d20]; ld.global.nc.L1::no_allocate.u64 %d1, [%d20+8];"
                        "ld.volatile.global.s32 %d2, [%d20];"
                        "st.global.u32 [%d21], %r1; st.global.u32 [%d21+4], %r2;"
                        "st.global.u32 [%d21+8], %r3; st.global.u8 [%d21+12], %r2;"
                        "st.global.u64 [%d21+16], %d1; st.global.u64 [%d21+24], %d2;",
               1, in, sizeof in, out, sizeof out));
    CHECK(out[0] == UINT64_C(0x80ffffff80) && out[1] == UINT64_C(0x80ffffff80));
    CHECK_INT(out[2], INT64_C(0x0e0d0c0b0a090807));
    CHECK_INT(out[3], 0x0201ff80);
}

static void vectors(void) {
    _Alignas(32) uint32_t in[64], out[64] = {0};
    for (uint32_t i = 0; i < 64; i++) {
        in[i] = i * 7;
    }
    CHECK(runs(POINTERS
               "mul.wide.u32 %d1, %r20, 16; add.s64 %d2, %d20, %d1; add.s64 %d3, %d21, %d1;"
               "ld.global.v4.u32 {%r1, %r2, _, %r4}, [%d2];"
               "st.global.v2.u32 [%d3], {%r4, %r1}; st.global.v2.b32 [%d3+8], {%r2, 9};",
               16, in, sizeof in, out, sizeof out));
    for (uint32_t i = 0; i < 16; i++) {
        CHECK(out[4 * i] == in[4 * i + 3] && out[4 * i + 1] == in[4 * i] &&
              out[4 * i + 2] == in[4 * i + 1] && out[4 * i + 3] == 9);
    }
    CHECK(runs(POINTERS "ld.global.v4.b64 {%d1, %d2, %d3, %d4}, [%d20];"
                        "st.global.v4.b64 [%d21], {%d4, %d3, %d2, %d1};",
               1, in, sizeof in, out, sizeof out));
    CHECK(!memcmp(out, in + 6, 8) && !memcmp(out + 6, in, 8));
}

static void guards_and_branches(void) {
    uint32_t in[32], out[32];
    for (uint32_t i = 0; i < 32; i++) {
        in[i] = i;
    }
    // out = in odd ? 3 in : the number of steps of a loop of in turns
    CHECK(runs(POINTERS "mul.wide.u32 %d1, %r20, 4; add.s64 %d2, %d20, %d1; add.s64 %d3, %d21, %d1;"
                        "ld.global.u32 %r1, [%d2]; and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0;\n"
                        "mov.u32 %r3, 0; @%p1 bra ODD;\n"
                        "LOOP: setp.ge.u32 %p2, %r3, %r1; @%p2 bra DONE; add.u32 %r3, %r3, 1;"
                        "bra.uni LOOP;\n"
                        "ODD: mul.lo.u32 %r3, %r1, 3;\n"
                        "DONE: @!%p1 add.u32 %r3, %r3, 100; st.global.u32 [%d3], %r3; ret;",
               32, in, sizeof in, out, sizeof out));
    for (uint32_t i = 0; i < 32; i++) {
        CHECK_INT(out[i], i % 2 ? 3 * i : i + 100);
    }
    CHECK(runs(POINTERS "mul.wide.u32 %d1, %r20, 4; add.s64 %d3, %d21, %d1;"
                        "rem.u32 %r1, %r20, 3;\n"
                        "T: .branchtargets A, B, C;\n brx.idx %r1, T;\n"
                        "A: mov.u32 %r2, 10; bra D;\nB: mov.u32 %r2, 20; bra D;\n"
                        "C: mov.u32 %r2, 30;\nD: st.global.u32 [%d3], %r2;",
               32, in, sizeof in, out, sizeof out));
    for (uint32_t i = 0; i < 32; i++) {
        CHECK_INT(out[i], 10 * (i % 3 + 1));
    }
}

static void spaces(void) {
    uint64_t in[4] = {1, 2, 3, 4}, out[4];
    CHECK(runs(".shared .align 8 .b8 s[64]; .local .align 8 .b8 l[16];\n" POINTERS
               "mov.u64 %d1, s; cvta.shared.u64 %d2, %d1; mov.u64 %d3, l; cvta.local.u64 %d4, %d3;"
               "ld.global.u64 %d5, [%d20]; st.u64 [%d2+8], %d5; st.u64 [%d4+8], 77;"
               "ld.shared.u64 %d6, [s+8]; ld.local.u64 %d7, [%d3+8]; cvta.to.shared.u64 %d8, %d2;"
               "isspacep.shared %p1, %d2; isspacep.global %p2, %d2; isspacep.local %p3, %d4;"
               "and.pred %p4, %p1, %p3; and.pred %p5, %p4, !%p2; selp.u64 %d9, 1, 0, %p5;"
               "st.global.u64 [%d21], %d6; st.global.u64 [%d21+8], %d7; st.u64 [%d21+16], %d8;"
               "st.global.u64 [%d21+24], %d9;",
               1, in, sizeof in, out, sizeof out));
    CHECK_INT(out[0], 1);
    CHECK_INT(out[1], 77);
    CHECK_INT(out[2], 0);
    CHECK_INT(out[3], 1);
}

static void parameters(void) {
    struct {
        uint32_t n;
        float f;
        uint64_t out;
    } p = {5, 1.5f, 0};
    uint64_t out[2];
    CUfunction f = sim_body(".param .align 8 .b8 p[16]",
                            "ld.param.u64 %d1, [p+8]; ld.param.v2.u32 {%r1, %r2}, [p];"
                            "mov.u64 %d2, p; add.s64 %d3, %d2, 4; ld.param.u32 %r3, [%d3];"
                            "cvta.param.u64 %d4, %d2; ld.u32 %r4, [%d4]; add.u32 %r5, %r1, %r4;"
                            "st.global.u32 [%d1], %r5; st.global.u32 [%d1+4], %r2;"
                            "st.global.u32 [%d1+8], %r3; st.global.u32 [%d1+12], 0;");
    p.out = (uint64_t)(uintptr_t)out;
    ptxsim_memory(out, sizeof out, 2);
    void *params[] = {&p};
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_SUCCESS);
    CHECK(out[0] == UINT64_C(0x3fc000000000000a) && out[1] == 0x3fc00000);
    size_t bytes = sizeof p;
    void *extra[] = {(void *)1, &p, (void *)2, &bytes, NULL};
    p.n = 9;
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra) == CUDA_SUCCESS);
    CHECK((uint32_t)out[0] == 18);
}

static void module_variables(void) {
    uint32_t out[4];
    CUfunction f =
        sim_load(".version 8.0\n.target sm_80\n.address_size 64\n"
                 ".const .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
                 ".global .align 4 .u32 count = 40;\n.visible .global .f32 g[2];\n"
                 ".visible .entry k(.param .u64 out) { .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
                 "ld.param.u64 %d1, [out]; ld.const.u32 %r1, [table+4];"
                 "atom.global.add.u32 %r2, [count], 2; ld.global.u32 %r3, [count];"
                 "st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2;"
                 "st.global.u32 [%d1+8], %r3; mov.u64 %d2, g; ld.global.u32 %r1, [%d2+4];"
                 "st.global.u32 [%d1+12], %r1; ret; }");
    ptxsim_memory(out, sizeof out, 2);
    CHECK(sim_launch(f, 1, 1, out, NULL, NULL) == CUDA_SUCCESS && sim_findings() == 0);
    CHECK(out[0] == 0x08070605 && out[1] == 40 && out[2] == 42 && out[3] == 0);
}

static void calls(void) {
    uint32_t out[32];
    // sum(n) = 0 + 1 + ... + n, and twice(n) calls it; lanes return at different times
    CUfunction f = sim_load(
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".func (.param .b32 r) sum(.param .b32 n) { .reg .b32 %r<4>; .reg .pred %p<2>;\n"
        "ld.param.b32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, 0;\n"
        "L: setp.ge.u32 %p1, %r3, %r1; @%p1 bra E; add.u32 %r3, %r3, 1; add.u32 %r2, %r2, %r3;"
        "bra L;\nE: st.param.b32 [r], %r2; ret; }\n"
        ".func (.param .b32 r) twice(.param .b32 n) { .reg .b32 %r<4>;\n"
        "ld.param.b32 %r1, [n]; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;"
        "call.uni (b), sum, (a); ld.param.b32 %r2, [b]; }\n"
        "shl.b32 %r3, %r2, 1; st.param.b32 [r], %r3; ret; }\n"
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
        "ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;"
        "add.s64 %d3, %d1, %d2; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;"
        "call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }\n st.global.u32 [%d3], %r2; ret; }");
    ptxsim_memory(out, sizeof out, 2);
    CHECK(sim_launch(f, 1, 32, out, NULL, NULL) == CUDA_SUCCESS && sim_findings() == 0);
    for (uint32_t i = 0; i < 32; i++) {
        CHECK_INT(out[i], i * (i + 1));
    }
}

static uint64_t quad(const uint32_t *at) { return at[0] | (uint64_t)at[1] << 32; }

static void atomics(void) {
    uint32_t in[1] = {0};
    _Alignas(8)
        uint32_t out[16] = {[1] = 100, [2] = 0xffffffff, [6] = 0xffffffff, [8] = 0x3f800000};
    CHECK(
        runs(POINTERS
             "red.global.add.u32 [%d21], 2; atom.global.min.s32 %r1, [%d21+4], %r20;"
             "atom.global.max.u32 %r1, [%d21+8], 5; atom.global.cas.b32 %r2, [%d21+12], 0, %r20;"
             "atom.global.inc.u32 %r3, [%d21+16], 4; atom.global.dec.u32 %r3, [%d21+20], 4;"
             "mov.u32 %r4, 1; shl.b32 %r5, %r4, %r20; not.b32 %r6, %r5;"
             "atom.global.and.b32 %r7, [%d21+24], %r6; red.global.xor.b32 [%d21+28], %r5;"
             "red.relaxed.gpu.global.add.f32 [%d21+32], 0f3F000000;"
             "atom.global.exch.b32 %r8, [%d21+36], 7; red.global.add.u64 [%d21+40], %d20;"
             "red.global.add.noftz.bf16x2 [%d21+48], 1065369472;" // 0x3f803f80: 1, 1
             "red.global.or.b32 [%d21+52], %r5; red.global.add.f64 [%d21+56], 0d3FF0000000000000;",
             8, in, sizeof in, out, sizeof out));
    CHECK_INT(out[0], 16);
    CHECK_INT(out[1], 0);
    CHECK_INT(out[2], 0xffffffff);
    CHECK_INT(out[3], 1); // lane 0 writes 0, lane 1 finds 0
    CHECK_INT(out[4], 8 % 5);
    CHECK_INT(out[5], 2); // 4 3 2 1 0 4 3 2
    CHECK_INT(out[6], 0xffffff00);
    CHECK_INT(out[7], 0xff);
    CHECK_INT(out[8], 0x40a00000);
    CHECK_INT(out[9], 7);
    CHECK_INT(quad(&out[10]), 8 * (uint64_t)(uintptr_t)in);
    CHECK_INT(out[12], 0x41004100);
    CHECK_INT(out[13], 0xff);
    CHECK_INT(quad(&out[14]), INT64_C(0x4020000000000000));
}

#define CP_ASYNC                                                                                   \
    ".shared .align 16 .b8 s[512];\n" POINTERS                                                     \
    "mul.wide.u32 %d1, %r20, 16; add.s64 %d2, %d20, %d1; add.s64 %d3, %d21, %d1;"                  \
    "mov.u64 %d4, s; add.s64 %d5, %d4, %d1;"
#define OUT_OF_SHARED                                                                              \
    "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%d5]; st.global.v4.u32 [%d3], {%r1, %r2, %r3, %r4};"

static void async_copies(void) {
    _Alignas(16) uint32_t in[128], out[128];
    for (uint32_t i = 0; i < 128; i++) {
        in[i] = i + 1;
    }
    CHECK(runs(CP_ASYNC "cp.async.cg.shared.global [%d5], [%d2], 16; cp.async.commit_group;"
                        "cp.async.wait_group 0;" OUT_OF_SHARED,
               32, in, sizeof in, out, sizeof out));
    CHECK(!memcmp(in, out, sizeof in));
    // fewer source bytes: zeros behind them, and nothing read there
    CHECK(runs(CP_ASYNC "cp.async.ca.shared.global.L2::128B [%d5], [%d2], 16, 4;"
                        "cp.async.wait_all;" OUT_OF_SHARED,
               32, in, sizeof in, out, sizeof out));
    CHECK(out[0] == 1 && out[1] == 0 && out[4] == 5 && out[127] == 0);
    // the newest group may still be on its way: its bytes are not there yet
    CUfunction f =
        sim_body(IN_OUT, CP_ASYNC "cp.async.cg.shared.global [%d5], [%d2], 16;"
                                  "cp.async.commit_group; cp.async.wait_group 1;" OUT_OF_SHARED);
    CHECK(sim_launch(f, 1, 32, in, out, NULL) == CUDA_SUCCESS);
    CHECK(sim_found("uninitialised"));
}

static void nothing_happens(void) {
    uint32_t in[8] = {3}, out[8];
    CHECK(runs(POINTERS "prefetch.global.L2 [%d20]; membar.gl; fence.acq_rel.gpu; nanosleep.u32 20;"
                        "createpolicy.fractional.L2::evict_first.b64 %d1, 1.0;"
                        "ld.global.L2::cache_hint.u32 %r1, [%d20], %d1; bar.warp.sync -1;"
                        "griddepcontrol.wait; griddepcontrol.launch_dependents; brkpt;"
                        ".pragma \"nounroll\"; { .reg .b32 %r1; mov.u32 %r1, 5; }\n"
                        "st.global.wt.u32 [%d21], %r1;",
               1, in, sizeof in, out, sizeof out));
    CHECK_INT(out[0], 3);
}

int main(void) {
    sim_start("");
    widths();
    vectors();
    guards_and_branches();
    spaces();
    parameters();
    module_variables();
    calls();
    atomics();
    async_copies();
    nothing_happens();
    return CHECK_DONE();
}
