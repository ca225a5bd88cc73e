// What does not load, and what is said about it: line, reason, text.
#include <string.h>

#include "sim_test.h"
#include "tests/unit/check.h"

static void refused(const char *body, const char *why) {
    const char *said = sim_refusal("", body);
    if (!said) {
        fprintf(stderr, "loads: %s\n", body);
        CHECK(said != NULL);
        return;
    }
    CHECK_HAS(said, why);
}

static void instructions(void) {
    refused("frobnicate.u32 %r1;", "line 6: unknown instruction: frobnicate.u32 %r1");
    refused("\n\nadd.u33 %r1, %r2, %r3;", "line 8: unknown modifier .u33 of add");
    refused("add.u32.wide %r1, %r2, %r3;", "unknown modifier .wide of add");
    refused("addx.u32 %r1, %r2, %r3;", "unknown instruction");
    refused("add %r1, %r2, %r3;", "missing type");
    refused("add.u32 %r1, %r2;", "too few operands");
    refused("add.u32 %r1, %r2, %r3, %r4;", "too many operands");
    refused("add.u32 5, %r2, %r3;", "an operand of the wrong kind");
    refused("add.u32 %r1, %p2, %r3;", "an operand of the wrong kind");
    refused("add.u32 %r1, %r99, %r3;", "unknown name %r99");
    refused("add.u32 %r1, _, %r3;", "an operand of the wrong kind");
    refused("ld.global.u32 %r1, %d1;", "an operand of the wrong kind");
    refused("ld.global.v4.u32 {%r1, %r2}, [%d1];", "not modelled");
    refused("bra NOWHERE;", "no label NOWHERE");
    refused("add.u32 %r1, %r2, %r3", "expected");
    refused("@%r1 bra A;\nA:", "the guard is no predicate");
    refused("call.uni nobody;", "call of nobody");
}

static void combinations(void) {
    static const char *const bodies[] = {
        "add.rz.f64 %d1, %d2, %d3;",
        "add.rn.u32 %r1, %r2, %r3;",
        "mul.u32 %r1, %r2, %r3;",
        "cvt.f32.s32 %r1, %r2;",
        "cvt.s32.f32 %r1, %r2;",
        "cvt.rn.f32.f32 %r1, %r2;",
        "cvt.bf16.f32 %h1, %r2;",
        "cvt.rn.f32.bf16 %r1, %h2;",
        "cvt.rni.f32.f16 %r1, %h2;",
        "fma.f32 %r1, %r2, %r3, %r4;",
        "setp.u32 %p1, %r2, %r3;",
        "setp.lt.b32 %p1, %r2, %r3;",
        "setp.lo.s32 %p1, %r2, %r3;",
        "setp.lt.and.s32 %p1, %r2, %r3;",
        "ex2.f32 %r1, %r2;",
        "abs.u32 %r1, %r2;",
        "atom.global.add.b32 %r1, [%d1], 5;",
        "atom.global.min.f32 %r1, [%d1], %r2;",
        "shfl.sync.b32 %r1, %r2, 1, 31, -1;",
        "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
        "mov.pred %p1, %r1;",
        "and.b32 %r1, %p1, %r2;",
        "cvt.rn.e4m3x2.f32 %h1, %r1, %r2;",
        "vote.sync.ballot.b32 %p1, %p2, -1;",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        refused(bodies[i], "is not modelled");
    }
    refused("mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%r1, %r2, %r3, %r4}, "
            "{%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r1, %r2, %r3, %r4};",
            "is not modelled");
    refused("wgmma.fence.sync.aligned;", "unknown instruction");
    refused("cp.async.bulk.commit_group;", "unknown instruction");
    refused("mbarrier.init.shared.b64 [%r1], 1;", "unknown instruction");
}

static void modules(void) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "no .version"},
        {".version 9.0\n", "no .version or no .target"},
        {".version 9.0\n.target sm_90\n.address_size 32\n", "64-bit"},
        {".version 9.0\n.target sm_90\n.texref t;\n", "line 3: '.texref'"},
        {".version 9.0\n.target sm_90\n.extern .global .u32 g;\n", "g is external"},
        {".version 9.0\n.target sm_90\n.entry k() {\n", "} expected"},
        {".version 9.0\n.target sm_90\n.entry k() .cluster { ret; }\n", ".cluster is not modelled"},
        {".version 9.0\n.target sm_90\n.shared .b8 s[-1];\n", "bad size of s"},
        {".version 9.0\n.target sm_90\n.shared .b8 s[268435456];\n.shared .b8 t[16];\n",
         "more than"},
        {".version 9.0\n.target sm_90\n.entry k() { .reg .b32 %r<-5>; ret; }\n", "registers"},
        {".version 9.0\n.target sm_90\n.global .u8 g[2] = {1, 2, 3};\n", "more initial values"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CUlibrary library;
        CHECK_INT(cuLibraryLoadData(&library, rows[i].text, NULL, NULL, 0, NULL, NULL, 0),
                  CUDA_ERROR_INVALID_PTX);
        CHECK_HAS(ptxsim_last_error(), rows[i].why);
    }
}

// Cut anywhere, a program is refused and not more.
static void truncated(void) {
    static const char text[] =
        ".version 9.0 .target sm_90 .address_size 64 .global .align 4 .b8 t[4] = {1, 2, 3, 4};\n"
        ".func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a];"
        "st.param.b32 [r], %r1; ret; }\n"
        ".visible .entry k(.param .align 8 .b8 p[16]) .maxntid 32, 1, 1 { .reg .b32 %r<4>;"
        ".reg .b64 %d<3>; .reg .pred %p<2>; mov.u64 %d1, t; L: { .param .b32 x; .param .b32 y;"
        "st.param.b32 [x+0], -1; call.uni (y), f, (x); ld.param.b32 %r1, [y]; }"
        "setp.ne.u32 %p1, %r1, 0x1fU; @!%p1 bra L; mov.b64 {%r2, _}, %d1; /* end */ ret; } // k";
    char part[sizeof text];
    for (size_t length = 0; length < sizeof text; length++) {
        CUlibrary library;
        memcpy(part, text, length);
        part[length] = '\0';
        CUresult error = cuLibraryLoadData(&library, part, NULL, NULL, 0, NULL, NULL, 0);
        CHECK(error == CUDA_ERROR_INVALID_PTX || error == CUDA_SUCCESS);
        CHECK(error == CUDA_SUCCESS || strncmp(ptxsim_last_error(), "line ", 5) == 0);
        CHECK(error == CUDA_SUCCESS || length < sizeof text - 1);
    }
}

int main(void) {
    sim_start("");
    instructions();
    combinations();
    modules();
    truncated();
    return CHECK_DONE();
}
