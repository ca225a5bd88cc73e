// Sectors, banks and bytes of access patterns whose figures are known.
#include "sim_test.h"
#include "tests/unit/check.h"

static _Alignas(4096) uint32_t in[4096], out[1024];

// One load per lane at in + lane * stride + offset, `vector` words wide.
static void load(unsigned stride, unsigned offset, unsigned vector, unsigned threads) {
    static const char *const words[] = {"", ".u32 %r1", ".v2.u32 {%r1, %r2}", "",
                                        ".v4.u32 {%r1, %r2, %r3, %r4}"};
    char body[512];
    snprintf(body, sizeof body,
             "ld.param.u64 %%d1, [in]; mov.u32 %%r20, %%tid.x; mul.wide.u32 %%d2, %%r20, %u;"
             "add.s64 %%d3, %%d1, %%d2; ld.global%s, [%%d3+%u];",
             stride, words[vector], offset);
    CUfunction f = sim_body(".param .u64 in", body);
    ptxsim_memory(in, sizeof in, 5);
    CHECK(sim_launch(f, 1, threads, in, NULL, NULL) == CUDA_SUCCESS);
}

static void sectors(void) {
    static const struct {
        unsigned stride, offset, vector, threads, sectors, used, requests, wide;
    } rows[] = {
        {4, 0, 1, 32, 4, 128, 1, 0},    {16, 0, 4, 32, 16, 512, 1, 1}, // coalesced
        {16, 0, 4, 64, 32, 1024, 2, 2}, {8, 0, 2, 32, 8, 256, 1, 0},
        {4, 4, 1, 32, 5, 128, 1, 0},                               // not from a sector's start
        {32, 0, 1, 32, 32, 128, 1, 0},                             // a sector each
        {64, 0, 4, 32, 32, 512, 1, 1},  {0, 0, 1, 32, 1, 4, 1, 0}, // one word for all
        {16, 0, 1, 5, 3, 20, 1, 0},                                // some lanes only
        {16, 8, 4, 2, 2, 32, 1, 1}, // misaligned: the second lane's bytes in two sectors
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        load(rows[i].stride, rows[i].offset, rows[i].vector, rows[i].threads);
        CHECK_INT(sim_counter("sectors"), rows[i].sectors);
        CHECK_INT(sim_counter("sector_bytes_used"), rows[i].used);
        CHECK_INT(sim_counter("requests"), rows[i].requests);
        CHECK_INT(sim_counter("requests_128"), rows[i].wide);
        CHECK_INT(sim_counter("requested_read_bytes"), rows[i].threads * rows[i].vector * 4);
        CHECK_INT(sim_counter("unique_read_bytes"),
                  rows[i].stride ? rows[i].threads * rows[i].vector * 4 : 4);
        CHECK_INT(sim_found("misaligned"), rows[i].offset == 8);
    }
}

static void bytes(void) {
    // three blocks read the same row twice each and write their own
    CUfunction f =
        sim_body(".param .u64 in, .param .u64 out",
                 "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r20, %tid.x;"
                 "mov.u32 %r21, %ctaid.x; mul.wide.u32 %d3, %r20, 4; add.s64 %d4, %d1, %d3;"
                 "ld.global.u32 %r1, [%d4]; ld.global.u32 %r2, [%d4];"
                 "mul.wide.u32 %d5, %r21, 256; add.s64 %d6, %d2, %d5;"
                 "add.s64 %d7, %d6, %d3; st.global.u32 [%d7], %r1;"
                 "setp.gt.u32 %p1, %r20, 99; @%p1 ld.global.u32 %r1, [%d4];");
    ptxsim_memory(in, sizeof in, 5);
    ptxsim_memory(out, sizeof out, 2);
    for (int launch = 0; launch < 2; launch++) { // counts start anew
        CHECK(sim_launch(f, 3, 64, in, out, NULL) == CUDA_SUCCESS);
        CHECK_INT(sim_counter("requested_read_bytes"), 3 * 64 * 4 * 2);
        CHECK_INT(sim_counter("unique_read_bytes"), 256);
        CHECK_INT(sim_counter("requested_write_bytes"), 3 * 256);
        CHECK_INT(sim_counter("unique_write_bytes"), 3 * 256);
        CHECK_INT(sim_counter("read_sectors"), 3 * 2 * 2 * 4);
        CHECK_INT(sim_counter("write_sectors"), 3 * 2 * 4);
        CHECK_INT(sim_counter("ld.global"), 3 * 2 * 2);
        CHECK_INT(sim_counter("st.global"), 3 * 2);
        CHECK_INT(sim_counter("mul"), 3 * 2 * 2);
    }
    CHECK_INT(ptxsim_launch_count(), 2);
}

static void banks(void) {
    static const struct {
        unsigned stride, bytes, conflicts;
        const char *store;
    } rows[] = {
        {4, 1024, 0, ".u32 [%d4], %r20"},
        {8, 2048, 1, ".u32 [%d4], %r20"},
        {128, 4096, 31, ".u32 [%d4], %r20"},
        {132, 4352, 0, ".u32 [%d4], %r20"},
        {0, 1024, 0, ".u32 [%d4], 1"}, // one word: no conflict
        {16, 1024, 0, ".v4.u32 [%d4], {1, 2, 3, 4}"},
        {32, 1024, 4, ".v4.u32 [%d4], {1, 2, 3, 4}"}, // 2 of 8 lanes on a bank, four times
        {8, 1024, 0, ".v2.u32 [%d4], {1, 2}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 ".shared .align 16 .b8 s[%u]; mov.u32 %%r20, %%tid.x; mov.u64 %%d1, s;"
                 "mul.wide.u32 %%d2, %%r20, %u; add.s64 %%d4, %%d1, %%d2; st.shared%s;",
                 rows[i].bytes, rows[i].stride, rows[i].store);
        CHECK(sim_launch(sim_body("", body), 1, 32, NULL, NULL, NULL) == CUDA_SUCCESS);
        CHECK_INT(sim_findings(), 0);
        CHECK_INT(sim_counter("bank_conflicts"), rows[i].conflicts);
        CHECK_INT(sim_counter("shared_requests"), 1);
    }
}

int main(void) {
    sim_start("");
    bytes();
    sectors();
    banks();
    return CHECK_DONE();
}
