// Launching PTX snippets through the test driver, as a program that uses the real one would.
#include "sim_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What no test can go on without.
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char header[] = ".version 9.0\n.target sm_90\n.address_size 64\n";
static const char registers[] = ".reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<32>; "
                                ".reg .pred %p<8>;\n";

void sim_start(const char *settings) {
    const char *wrong = ptxsim_configure("reset=1 devices=1 capability=9.0 sms=4 strict=1 "
                                         "warp_order=0 driver=13000 steps=1000000");
    REQUIRE(wrong == NULL);
    REQUIRE(ptxsim_configure(settings) == NULL);
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    CUcontext context;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

CUfunction sim_load(const char *ptx) {
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUresult error = cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0);
    if (error) {
        fprintf(stderr, "%s\n", ptxsim_last_error());
    }
    REQUIRE(error == CUDA_SUCCESS);
    REQUIRE(cuLibraryGetKernel(&kernel, library, "k") == CUDA_SUCCESS);
    REQUIRE(cuKernelGetFunction(&function, kernel) == CUDA_SUCCESS);
    return function;
}

static char *body_text(const char *params, const char *body) {
    static char text[1 << 16];
    int length = snprintf(text, sizeof text, "%s.visible .entry k(%s) {\n%s%s\n}\n", header, params,
                          registers, body);
    REQUIRE(length > 0 && (size_t)length < sizeof text);
    return text;
}

CUfunction sim_body(const char *params, const char *body) {
    return sim_load(body_text(params, body));
}

const char *sim_refusal(const char *params, const char *body) {
    CUlibrary library;
    CUresult error =
        cuLibraryLoadData(&library, body_text(params, body), NULL, NULL, 0, NULL, NULL, 0);
    REQUIRE(error == CUDA_SUCCESS || error == CUDA_ERROR_INVALID_PTX);
    return error ? ptxsim_last_error() : NULL;
}

CUresult sim_launch(CUfunction function, unsigned grid, unsigned block, const void *a,
                    const void *b, const void *c) {
    void *params[] = {&a, &b, &c};
    return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL);
}

bool sim_cases(const char *statement, char result, const sim_case *cases, int count) {
    static const char template[] =
        "ld.param.u64 %%d20, [in]; ld.param.u64 %%d21, [out];\n"
        "mov.u32 %%r20, %%laneid; mul.wide.u32 %%d22, %%r20, 32; add.s64 %%d23, %%d20, %%d22;\n"
        "ld.global.u64 %%d1, [%%d23]; ld.global.u64 %%d2, [%%d23+8]; ld.global.u64 %%d3, "
        "[%%d23+16];\n"
        "cvt.u32.u64 %%r1, %%d1; cvt.u32.u64 %%r2, %%d2; cvt.u32.u64 %%r3, %%d3;\n"
        "cvt.u16.u64 %%h1, %%d1; cvt.u16.u64 %%h2, %%d2; cvt.u16.u64 %%h3, %%d3;\n"
        "%s\n%s\n"
        "mul.wide.u32 %%d24, %%r20, 8; add.s64 %%d25, %%d21, %%d24; st.global.u64 [%%d25], %%d0;";
    const char *move = result == 'd'   ? ""
                       : result == 'r' ? "cvt.u64.u32 %d0, %r0;"
                       : result == 'h' ? "cvt.u64.u16 %d0, %h0;"
                                       : "selp.u64 %d0, 1, 0, %p0;";
    char body[4096];
    uint64_t out[32];
    REQUIRE(count <= 32);
    int length = snprintf(body, sizeof body, template, statement, move);
    REQUIRE(length > 0 && (size_t)length < sizeof body);
    CUfunction function = sim_body(".param .u64 in, .param .u64 out", body);
    ptxsim_memory(cases, (size_t)count * sizeof *cases, 5);
    ptxsim_memory(out, (size_t)count * sizeof *out, 2);
    REQUIRE(sim_launch(function, 1, (unsigned)count, cases, out, NULL) == CUDA_SUCCESS);
    bool same = true;
    for (int i = 0; i < count; i++) {
        if (out[i] != cases[i].expected) {
            fprintf(stderr, "%s\n  case %d: %llx %llx %llx gives %llx, not %llx\n", statement, i,
                    (unsigned long long)cases[i].a, (unsigned long long)cases[i].b,
                    (unsigned long long)cases[i].c, (unsigned long long)out[i],
                    (unsigned long long)cases[i].expected);
            same = false;
        }
    }
    return same;
}

static const char *report(void) {
    static char text[1 << 16];
    REQUIRE(ptxsim_report(text, sizeof text) <= sizeof text);
    return text;
}

bool sim_found(const char *kind) {
    char key[64];
    snprintf(key, sizeof key, "{\"kind\": \"%s\"", kind);
    return strstr(report(), key) != NULL;
}

int sim_findings(void) {
    int count = 0;
    for (const char *at = report(); (at = strstr(at, "{\"kind\"")); at++) {
        count++;
    }
    return count;
}

uint64_t sim_counter(const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(report(), key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}
