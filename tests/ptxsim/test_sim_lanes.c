// What lanes of a warp and warps of a block do together: shuffles, votes, barriers, matrices.
#include <string.h>

#include "sim_test.h"
#include "tests/unit/check.h"

// Every lane puts the number of the lane it read (or its result) in %r0; expected by a function.
static void each_lane(const char *body, uint32_t (*expected)(uint32_t lane)) {
    char text[4096];
    uint32_t out[32];
    snprintf(text, sizeof text,
             "ld.param.u64 %%d20, [out]; mov.u32 %%r20, %%laneid; mul.wide.u32 %%d21, %%r20, 4;"
             "add.s64 %%d22, %%d20, %%d21;\n%s\nst.global.u32 [%%d22], %%r0;",
             body);
    CUfunction f = sim_body(".param .u64 out", text);
    ptxsim_memory(out, sizeof out, 2);
    CHECK(sim_launch(f, 1, 32, out, NULL, NULL) == CUDA_SUCCESS && sim_findings() == 0);
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (out[lane] != expected(lane)) {
            fprintf(stderr, "%s\n", body);
            CHECK_INT(out[lane], expected(lane));
            return;
        }
    }
}

static uint32_t xor5(uint32_t lane) { return lane ^ 5; }
static uint32_t down3(uint32_t lane) { return lane + 3 < 32 ? lane + 3 : lane; }
static uint32_t up3(uint32_t lane) { return lane >= 3 ? lane - 3 : lane; }
static uint32_t up3_of8(uint32_t lane) { return lane % 8 >= 3 ? lane - 3 : lane; }
static uint32_t idx2_of8(uint32_t lane) { return lane / 8 * 8 + 2; }
static uint32_t down_ok(uint32_t lane) { return lane + 3 < 32; }
static uint32_t own_half(uint32_t lane) { return lane < 16 ? (lane ^ 1) : (lane ^ 2); }
static uint32_t ballot(uint32_t lane) { return lane < 16 ? 0x0000aaaa : 0xaaaa0000; }
static uint32_t all_any(uint32_t lane) { return lane < 32 ? 2 : 0; }
static uint32_t same3(uint32_t lane) { return UINT32_C(0x11111111) << lane % 4; }
static uint32_t match_all(uint32_t lane) { return lane < 32 ? UINT32_MAX : 0; }
static uint32_t redux(uint32_t lane) { return lane < 32 ? 496 + 31 : 0; }
static uint32_t leader(uint32_t lane) { return lane == 4 ? 104 : 4; }
static uint32_t active(uint32_t lane) { return lane % 2 ? 0xaaaaaaaa : 0x55555555; }

static void shuffles(void) {
    each_lane("shfl.sync.bfly.b32 %r0, %r20, 5, 31, -1;", xor5);
    each_lane("shfl.sync.down.b32 %r0|%p1, %r20, 3, 31, -1;", down3);
    each_lane("shfl.sync.down.b32 %r1|%p1, %r20, 3, 31, -1; selp.u32 %r0, 1, 0, %p1;", down_ok);
    each_lane("shfl.sync.up.b32 %r0, %r20, 3, 0, -1;", up3);
    each_lane("shfl.sync.up.b32 %r0, %r20, 3, 0x1800, -1;", up3_of8);
    each_lane("shfl.sync.idx.b32 %r0, %r20, 2, 0x181f, -1;", idx2_of8);
    // both halves at one instruction, each with its own mask; then at two
    each_lane("setp.lt.u32 %p1, %r20, 16; selp.u32 %r1, 0xffff, 0xffff0000, %p1;"
              "selp.u32 %r2, 1, 2, %p1; shfl.sync.bfly.b32 %r0, %r20, %r2, 31, %r1;",
              own_half);
    each_lane("setp.lt.u32 %p1, %r20, 16; @%p1 bra A;\n"
              "shfl.sync.bfly.b32 %r0, %r20, 2, 31, 0xffff0000; bra B;\n"
              "A: shfl.sync.bfly.b32 %r0, %r20, 1, 31, 0xffff;\nB:",
              own_half);
    // lanes that come late are waited for
    each_lane("setp.lt.u32 %p1, %r20, 16; mov.u32 %r1, 0; @%p1 bra B;\n"
              "add.u32 %r1, %r1, 1;\nB: shfl.sync.bfly.b32 %r0, %r20, 5, 31, -1;",
              xor5);
}

static void votes(void) {
    each_lane("setp.lt.u32 %p1, %r20, 16; selp.u32 %r1, 0xffff, 0xffff0000, %p1;"
              "and.b32 %r2, %r20, 1; setp.ne.u32 %p2, %r2, 0;"
              "vote.sync.ballot.b32 %r0, %p2, %r1;",
              ballot);
    each_lane("setp.gt.u32 %p1, %r20, 3; vote.sync.all.pred %p2, %p1, -1;"
              "vote.sync.any.pred %p3, %p1, -1; vote.sync.uni.pred %p4, %p1, -1;"
              "selp.u32 %r1, 1, 0, %p2; selp.u32 %r2, 2, 0, %p3; selp.u32 %r3, 4, 0, %p4;"
              "or.b32 %r4, %r1, %r2; or.b32 %r0, %r4, %r3;",
              all_any);
    each_lane("and.b32 %r1, %r20, 3; match.any.sync.b32 %r0, %r1, -1;", same3);
    each_lane("mov.u64 %d1, 5; match.all.sync.b64 %r0|%p1, %d1, -1;", match_all);
    each_lane("redux.sync.add.u32 %r1, %r20, -1; redux.sync.max.s32 %r2, %r20, -1;"
              "add.u32 %r0, %r1, %r2;",
              redux);
    each_lane("setp.lt.u32 %p2, %r20, 4; mov.u32 %r0, 4; @%p2 bra E;\n"
              "elect.sync %r0|%p1, 0xfffffff0; @%p1 add.u32 %r0, %r0, 100;\nE:",
              leader);
    each_lane("and.b32 %r1, %r20, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra A;\n"
              "activemask.b32 %r0; bra B;\nA: activemask.b32 %r0;\nB:",
              active);
}

// Warps hand values on through shared memory, in five orders of warps.
static void barriers(void) {
    static const char body[] =
        ".shared .align 4 .b8 s[1024];\n"
        "ld.param.u64 %d20, [out]; mov.u32 %r20, %tid.x; mul.wide.u32 %d21, %r20, 4;"
        "add.s64 %d22, %d20, %d21; mov.u64 %d1, s; add.s64 %d2, %d1, %d21;"
        "st.shared.u32 [%d2], %r20; bar.sync 0; sub.u32 %r1, 255, %r20; mul.wide.u32 %d3, %r1, 4;"
        "add.s64 %d4, %d1, %d3; ld.shared.u32 %r2, [%d4];"
        "and.b32 %r3, %r20, 3; setp.eq.u32 %p1, %r3, 0; barrier.red.popc.aligned.u32 %r4, 0, %p1;"
        "bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1; selp.u32 %r5, 1000, 0, %p2;"
        "selp.u32 %r6, 2000, 0, %p3; add.u32 %r7, %r2, %r4; add.u32 %r8, %r7, %r5;"
        "add.u32 %r9, %r8, %r6; st.global.u32 [%d22], %r9;";
    for (int order = 0; order < 5; order++) {
        char setting[32];
        uint32_t out[256];
        snprintf(setting, sizeof setting, "warp_order=%d", order);
        CHECK(ptxsim_configure(setting) == NULL);
        CUfunction f = sim_body(".param .u64 out", body);
        ptxsim_memory(out, sizeof out, 2);
        CHECK(sim_launch(f, 3, 256, out, NULL, NULL) == CUDA_SUCCESS && sim_findings() == 0);
        for (uint32_t i = 0; i < 256; i++) {
            CHECK_INT(out[i], 255 - i + 64 + 2000);
        }
    }
    CHECK(ptxsim_configure("warp_order=0") == NULL);
}

static uint16_t bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

// D = A B + C with small integers, so that every sum is exact.
static void matrices(void) {
    _Alignas(16) uint16_t a[16][16], b[8][16]; // b: column after column
    float c[16][8], d[16][8];
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 16; k++) {
            a[i][k] = bf16((float)((i * 5 + k * 3) % 17 - 8));
            b[i % 8][k] = bf16((float)((i % 8 * 7 + k) % 13 - 6));
        }
        for (int j = 0; j < 8; j++) {
            c[i][j] = (float)(i - j);
        }
    }
    // A through ldmatrix from shared memory, B and C by each lane from global memory
    CUfunction f = sim_body(
        ".param .u64 a, .param .u64 b, .param .u64 c",
        ".shared .align 16 .b8 s[512];\n"
        "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c]; mov.u32 %r20, "
        "%laneid;"
        "mul.wide.u32 %d4, %r20, 16; add.s64 %d5, %d1, %d4; mov.u64 %d6, s; add.s64 %d7, %d6, %d4;"
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d5]; st.shared.v4.u32 [%d7], {%r1, %r2, %r3, "
        "%r4};"
        "bar.warp.sync -1;"
        // lane l: row l % 16 and columns 0 or 8 from l / 16
        "and.b32 %r5, %r20, 15; shr.u32 %r6, %r20, 4; mul.wide.u32 %d8, %r5, 32;"
        "mul.wide.u32 %d9, %r6, 16; add.s64 %d10, %d6, %d8; add.s64 %d11, %d10, %d9;"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%d11];"
        "shr.u32 %r7, %r20, 2; and.b32 %r8, %r20, 3; mul.wide.u32 %d12, %r7, 32;"
        "mul.wide.u32 %d13, %r8, 4; add.s64 %d14, %d2, %d12; add.s64 %d15, %d14, %d13;"
        "ld.global.u32 %r9, [%d15]; ld.global.u32 %r10, [%d15+16];"
        "mul.wide.u32 %d16, %r8, 8; add.s64 %d17, %d3, %d12; add.s64 %d18, %d17, %d16;"
        "ld.global.v2.f32 {%r11, %r12}, [%d18]; ld.global.v2.f32 {%r13, %r14}, [%d18+256];"
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r11, %r12, %r13, %r14},"
        "{%r1, %r2, %r3, %r4}, {%r9, %r10}, {%r11, %r12, %r13, %r14};"
        "st.global.v2.f32 [%d18], {%r11, %r12}; st.global.v2.f32 [%d18+256], {%r13, %r14};");
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 8; j++) {
            int sum = i - j;
            for (int k = 0; k < 16; k++) {
                sum += ((i * 5 + k * 3) % 17 - 8) * ((j * 7 + k) % 13 - 6);
            }
            d[i][j] = (float)sum;
        }
    }
    ptxsim_memory(a, sizeof a, 5);
    ptxsim_memory(b, sizeof b, 5);
    ptxsim_memory(c, sizeof c, 7);
    CHECK(sim_launch(f, 1, 32, a, b, c) == CUDA_SUCCESS && sim_findings() == 0);
    CHECK(!memcmp(c, d, sizeof d));
}

static uint32_t transposed(uint32_t lane) {
    uint32_t column = lane / 4, row = lane % 4 * 2;
    return row * 8 + column + ((row + 1) * 8 + column) * 65536;
}

static void transposes(void) {
    // element (r, c) of an 8 x 8 matrix is 8 r + c; each lane stores its two, then reads columns
    static const char fill[] =
        ".shared .align 16 .b8 s[128];\n"
        "mul.lo.u32 %r1, %r20, 2; add.u32 %r2, %r1, 1; shl.b32 %r3, %r2, 16; or.b32 %r4, %r1, %r3;"
        "mul.wide.u32 %d1, %r20, 4; mov.u64 %d2, s; add.s64 %d3, %d2, %d1;"
        "st.shared.u32 [%d3], %r4; bar.warp.sync -1; and.b32 %r5, %r20, 7; mul.wide.u32 %d4, %r5, "
        "16;"
        "add.s64 %d5, %d2, %d4;";
    char body[2048];
    snprintf(body, sizeof body, "%s%s", fill,
             "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r0}, [%d5];");
    each_lane(body, transposed);
    snprintf(body, sizeof body, "%s%s", fill, "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r4;");
    each_lane(body, transposed);
    snprintf(body, sizeof body, "%s%s", fill,
             "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%d5], {%r4}; bar.warp.sync -1;"
             "ld.shared.u32 %r0, [%d3];");
    each_lane(body, transposed);
}

int main(void) {
    sim_start("");
    shuffles();
    votes();
    barriers();
    matrices();
    transposes();
    return CHECK_DONE();
}
