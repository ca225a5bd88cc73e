// The checkers: for each kind of finding a program that has it and one nearly the same that has
// not.
#include "sim_test.h"
#include "tests/unit/check.h"

static _Alignas(256) uint32_t in[1024], out[1024];

#define POINTERS                                                                                   \
    ".shared .align 16 .b8 s[256];\n"                                                              \
    "ld.param.u64 %d20, [in]; ld.param.u64 %d21, [out]; mov.u32 %r20, %tid.x;"                     \
    "mul.wide.u32 %d22, %r20, 4; add.s64 %d23, %d20, %d22; add.s64 %d24, %d21, %d22;"              \
    "mov.u64 %d25, s; add.s64 %d26, %d25, %d22; and.b32 %r21, %r20, 31;"                           \
    "shr.u32 %r22, %r20, 5;\n"

static CUresult run(const char *body, unsigned threads) {
    CUfunction f = sim_body(".param .u64 in, .param .u64 out", body);
    ptxsim_memory(in, sizeof in, 5);
    ptxsim_memory(out, sizeof out, 3);
    return sim_launch(f, 1, threads, in, out, NULL);
}

// Whether the body has the finding of that kind and no other, or none where kind is NULL.
static bool gives(const char *body, unsigned threads, const char *kind) {
    CUresult error = run(body, threads);
    bool right = kind ? sim_found(kind) && sim_findings() == 1 : sim_findings() == 0;
    if (!right || error) {
        static char text[8192];
        ptxsim_report(text, sizeof text);
        fprintf(stderr, "%s\nerror %d, %s\n", body, error, text);
    }
    return right && !error;
}

static void global_bounds(void) {
    static uint32_t small[16]; // its first half is what the kernels may read
    CUfunction f = sim_body(".param .u64 in, .param .u64 out",
                            POINTERS "ld.global.u32 %r1, [%d23]; st.global.u32 [%d24], %r1;");
    ptxsim_memory(out, sizeof out, 2);
    ptxsim_memory(small, sizeof small / 2, 5);
    CHECK_INT(sim_launch(f, 1, 8, small, out, NULL), CUDA_SUCCESS);
    CHECK_INT(sim_findings(), 0);
    CHECK_INT(sim_launch(f, 1, 9, small, out, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(sim_found("out_of_bounds"));
    CHECK_INT(sim_launch(f, 1, 8, small, out, NULL), CUDA_ERROR_ILLEGAL_ADDRESS); // sticky
    sim_start("");
    f = sim_body(".param .u64 in, .param .u64 out", "ld.global.u32 %r1, [8];");
    CHECK(ptxsim_configure("strict=0") == NULL);
    CHECK_INT(sim_launch(f, 1, 1, in, out, NULL), CUDA_ERROR_ILLEGAL_ADDRESS); // near NULL
    sim_start("strict=0");
    f = sim_body(".param .u64 in, .param .u64 out", POINTERS "ld.global.u32 %r1, [%d23];");
    CHECK_INT(sim_launch(f, 1, 9, small, out, NULL), CUDA_SUCCESS); // anything goes
    sim_start("");
}

static void permissions(void) {
    CHECK(gives(POINTERS "st.global.u32 [%d24], 1; ld.global.u32 %r1, [%d24];", 4, NULL));
    CHECK(gives(POINTERS "st.global.u32 [%d23], 1;", 4, "not_writable"));
    CUfunction f = sim_body(".param .u64 in, .param .u64 out",
                            POINTERS "st.global.u32 [%d24], 1; ld.global.u32 %r1, [%d24];");
    ptxsim_memory(out, sizeof out, 2);
    CHECK_INT(sim_launch(f, 1, 4, in, out, NULL), CUDA_SUCCESS);
    CHECK(sim_found("not_readable"));
}

static void other_bounds(void) {
    CHECK(gives(POINTERS "st.shared.u32 [%d26], 1;", 64, NULL));
    CHECK(gives(POINTERS "st.shared.u32 [%d26], 1;", 65, "out_of_bounds"));
    CHECK(gives(POINTERS "cvta.shared.u64 %d1, %d25; st.u32 [%d1+252], 1;", 1, NULL));
    CHECK(gives(POINTERS "cvta.shared.u64 %d1, %d25; st.u32 [%d1+256], 1;", 1, "out_of_bounds"));
    CHECK(gives(".local .align 4 .b8 l[16]; mov.u64 %d1, l; st.local.u32 [%d1+12], 1;", 1, NULL));
    CHECK(gives(".local .align 4 .b8 l[16]; mov.u64 %d1, l; st.local.u32 [%d1+16], 1;", 1,
                "out_of_bounds"));
    CHECK(gives("ld.param.u64 %d1, [in+16];", 1, "out_of_bounds"));
}

static void alignment(void) {
    CHECK(gives(POINTERS "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d20+16];", 1, NULL));
    CHECK(gives(POINTERS "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d20+8];", 1, "misaligned"));
    CHECK(gives(POINTERS "st.global.u16 [%d24+2], 1;", 8, NULL));
    CHECK(gives(POINTERS "st.global.u16 [%d24+1], 1;", 8, "misaligned"));
    CHECK(gives(POINTERS "st.shared.v2.u32 [%d25+8], {%r20, %r20};", 1, NULL));
    CHECK(gives(POINTERS "st.shared.v2.u32 [%d25+4], {%r20, %r20};", 1, "misaligned"));
}

static void uninitialised(void) {
    CHECK(gives(POINTERS "st.global.u32 [%d24+512], 1; ld.global.u32 %r1, [%d24+512];", 8, NULL));
    CHECK(gives(POINTERS "st.global.u16 [%d24+640], 1; ld.global.u32 %r1, [%d24+640];", 8,
                "uninitialised"));
    CHECK(gives(POINTERS "st.shared.u32 [%d26], 1; ld.shared.u32 %r1, [%d26];", 8, NULL));
    CHECK(
        gives(POINTERS "st.shared.u16 [%d26], 1; ld.shared.u32 %r1, [%d26];", 8, "uninitialised"));
    CHECK(gives(".local .align 4 .b8 l[16]; mov.u64 %d1, l; ld.local.u32 %r1, [%d1];", 1,
                "uninitialised"));
    CHECK(gives("add.u32 %r1, %r2, 1;", 1, "uninitialised"));
    CHECK(gives("mov.u32 %r2, 0; add.u32 %r1, %r2, 1;", 1, NULL));
    // written by other lanes only
    CHECK(gives(POINTERS "setp.lt.u32 %p1, %r20, 4; @%p1 mov.u32 %r1, 1; @%p1 add.u32 %r2, %r1, 1;",
                8, NULL));
    CHECK(gives(POINTERS "setp.lt.u32 %p1, %r20, 4; @%p1 mov.u32 %r1, 1; add.u32 %r2, %r1, 1;", 8,
                "uninitialised"));
    CHECK(gives("@%p1 mov.u32 %r1, 1;", 1, "uninitialised"));
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r20, 9; @%p1 mov.u32 %r1, 1;", 1, NULL));
}

static void shared_races(void) {
    // warp 0 writes, the others read
    CHECK(gives(POINTERS
                "setp.eq.u32 %p1, %r22, 0; @%p1 st.shared.u32 [%d26], 1; bar.sync 0;"
                "mul.wide.u32 %d1, %r21, 4; add.s64 %d2, %d25, %d1; ld.shared.u32 %r1, [%d2];",
                64, NULL));
    CHECK(gives(POINTERS
                "setp.eq.u32 %p1, %r22, 0; @%p1 st.shared.u32 [%d26], 1;"
                "mul.wide.u32 %d1, %r21, 4; add.s64 %d2, %d25, %d1; ld.shared.u32 %r1, [%d2];",
                64, "shared_race"));
    // read, then written for the next round: the second barrier is missing
    CHECK(gives(POINTERS "st.shared.u32 [%d26], 1; bar.sync 0; ld.shared.u32 %r1, [%d25];"
                         "bar.sync 0; st.shared.u32 [%d26], 2;",
                64, NULL));
    CHECK(gives(POINTERS "st.shared.u32 [%d26], 1; bar.sync 0; ld.shared.u32 %r1, [%d25];"
                         "st.shared.u32 [%d26], 2;",
                64, "shared_race"));
    // two warps write one place
    CHECK(gives(POINTERS "mul.wide.u32 %d1, %r22, 4; add.s64 %d2, %d25, %d1;"
                         "st.shared.u32 [%d2], 7;",
                64, NULL));
    CHECK(gives(POINTERS "st.shared.u32 [%d25], 7;", 64, "shared_race"));
    CHECK(gives(POINTERS "st.shared.u32 [%d25], 7;", 32, NULL)); // one warp, one value
    CHECK(gives(POINTERS "st.shared.u32 [%d25], %r20;", 32, "shared_race"));
    CHECK(gives(POINTERS "st.global.u32 [%d21], %r20;", 32, "lane_race"));
    CHECK(gives(POINTERS "st.global.u32 [%d21], 5;", 32, NULL));
    // atomics do not race with each other, but with plain reads
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r20, 0; @%p1 st.shared.u32 [%d25], 0; bar.sync 0;"
                         "red.shared.add.u32 [%d25], 1;",
                64, NULL));
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r20, 0; @%p1 st.shared.u32 [%d25], 0; bar.sync 0;"
                         "red.shared.add.u32 [%d25], 1; ld.shared.u32 %r1, [%d25];",
                64, "shared_race"));
}

// The same race whatever the order of warps.
static void races_in_any_order(void) {
    for (int order = 1; order <= 5; order++) {
        char setting[32];
        snprintf(setting, sizeof setting, "warp_order=%d", order);
        CHECK(ptxsim_configure(setting) == NULL);
        CHECK(gives(POINTERS "st.shared.u32 [%d26], 1; bar.sync 0; ld.shared.u32 %r1, [%d25];"
                             "bar.sync 0; st.shared.u32 [%d26], 2;",
                    64, NULL));
        run(POINTERS "st.shared.u32 [%d26], 1; bar.sync 0; ld.shared.u32 %r1, [%d25];"
                     "st.shared.u32 [%d26], 2;",
            64);
        CHECK(sim_found("shared_race"));
    }
    CHECK(ptxsim_configure("warp_order=0") == NULL);
}

static void barriers(void) {
    CHECK(gives(POINTERS "setp.lt.u32 %p1, %r20, 16; @%p1 bra A;\nadd.u32 %r1, %r20, 1;\n"
                         "A: bar.sync 0;",
                64, NULL));
    // lanes of one warp
    CHECK(gives(POINTERS "setp.lt.u32 %p1, %r20, 16; @!%p1 bra A;\nbar.sync 0;\nA:", 32,
                "divergent_barrier"));
    // whole warps: they leave, or wait elsewhere
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r22, 0; @!%p1 bra A;\nbar.sync 0;\nA:", 64,
                "divergent_barrier"));
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r22, 0; @!%p1 bra A;\nbar.sync 0; bra B;\n"
                         "A: bar.sync 0;\nB:",
                64, "divergent_barrier"));
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r22, 0; @!%p1 bra A;\nbar.sync 1, 64; bra B;\n"
                         "A: bar.sync 1, 64;\nB:",
                64, NULL)); // a barrier with a count of threads may
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r22, 0; @!%p1 bra A;\nbar.sync 1, 32;\nA:", 64, NULL));
    CHECK(gives(POINTERS "setp.eq.u32 %p1, %r22, 0; @!%p1 bra A;\nbar.sync 1, 96;\nA:", 64,
                "divergent_barrier"));
    // trip counts that differ from warp to warp
    CHECK(gives(POINTERS "mov.u32 %r1, 0;\nL: bar.sync 0; add.u32 %r1, %r1, 1;"
                         "setp.le.u32 %p1, %r1, 2; @%p1 bra L;",
                64, NULL));
    CHECK(gives(POINTERS "mov.u32 %r1, 0;\nL: bar.sync 0; add.u32 %r1, %r1, 1;"
                         "setp.le.u32 %p1, %r1, %r22; @%p1 bra L;",
                64, "divergent_barrier"));
}

static void member_masks(void) {
    static const char head[] = POINTERS "setp.lt.u32 %p1, %r20, 16; @!%p1 bra A;\n";
    char body[2048];
    static const struct {
        const char *mask, *kind;
    } rows[] = {{"0xffff", NULL}, {"-1", "member_mask"}, {"0xfffe", "member_mask"}};
    for (int i = 0; i < 3; i++) { // the other half goes on to a barrier
        snprintf(body, sizeof body, "%sshfl.sync.bfly.b32 %%r1, %%r20, 1, 31, %s;\nA: bar.sync 0;",
                 head, rows[i].mask);
        CHECK(run(body, 32) == CUDA_SUCCESS);
        CHECK(rows[i].kind ? sim_found(rows[i].kind) : sim_findings() == 0);
    }
    // reads a lane of the other half
    snprintf(body, sizeof body, "%sshfl.sync.bfly.b32 %%r1, %%r20, 16, 31, 0xffff;\nA:", head);
    CHECK(gives(body, 32, "inactive_source"));
    snprintf(body, sizeof body, "%sshfl.sync.bfly.b32 %%r1, %%r20, 8, 31, 0xffff;\nA:", head);
    CHECK(gives(body, 32, NULL));
    // lanes of a block that is no multiple of 32 do not exist
    CHECK(gives(POINTERS "shfl.sync.bfly.b32 %r1, %r20, 1, 31, -1;", 16, NULL));
    CHECK(gives(POINTERS "shfl.sync.bfly.b32 %r1, %r20, 16, 31, -1;", 16, "inactive_source"));
    CHECK(gives(POINTERS "setp.lt.u32 %p1, %r20, 16; selp.b32 %r2, 0xffff, -1, %p1;"
                         "bar.warp.sync %r2;",
                32, "member_mask"));
}

static void faults(void) {
    CHECK_INT(run(POINTERS "setp.eq.u32 %p1, %r20, 3; @%p1 trap;", 32), CUDA_ERROR_LAUNCH_FAILED);
    CHECK(sim_found("trap"));
    sim_start("");
    CHECK_INT(run(POINTERS "setp.eq.u32 %p1, %r20, 33; @%p1 trap;", 32), CUDA_SUCCESS);
    CHECK(ptxsim_configure("steps=1000") == NULL);
    CHECK_INT(run("L: bra L;", 32), CUDA_ERROR_LAUNCH_TIMEOUT);
    CHECK(sim_found("runaway"));
    sim_start("");
}

static void async_copies(void) {
    static const char copy[] =
        POINTERS "mul.wide.u32 %d1, %r20, 16; add.s64 %d2, %d20, %d1; add.s64 %d3, %d25, %d1;"
                 "cp.async.ca.shared.global [%d3], [%d2], 16; cp.async.commit_group;";
    char body[4096];
    static const struct {
        const char *rest, *kind;
    } rows[] = {
        {"cp.async.wait_group 0; ld.shared.u32 %r1, [%d3];", NULL},
        {"ld.shared.u32 %r1, [%d3]; cp.async.wait_group 0;", "uninitialised"},
        {"cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r1, [%d25];", NULL},
    };
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof body, "%s%s", copy, rows[i].rest);
        CHECK(gives(body, 16, rows[i].kind));
    }
    // another warp's copy: a wait alone does not make it visible
    static const char other[] =
        "setp.eq.u32 %%p1, %%r22, 0; @!%%p1 bra A;\n"
        "cp.async.ca.shared.global [%%d26], [%%d23], 4; cp.async.wait_all;\n"
        "A: %s mul.wide.u32 %%d1, %%r21, 4; add.s64 %%d2, %%d25, %%d1;"
        "ld.shared.u32 %%r1, [%%d2];";
    char text[2048];
    snprintf(text, sizeof text, other, "bar.sync 0;");
    snprintf(body, sizeof body, "%s%s", POINTERS, text);
    CHECK(gives(body, 64, NULL));
    snprintf(text, sizeof text, other, "");
    snprintf(body, sizeof body, "%s%s", POINTERS, text);
    CHECK(gives(body, 64, "shared_race"));
}

int main(void) {
    sim_start("");
    global_bounds();
    permissions();
    other_bounds();
    alignment();
    uninitialised();
    shared_races();
    races_in_any_order();
    barriers();
    member_masks();
    faults();
    async_copies();
    return CHECK_DONE();
}
