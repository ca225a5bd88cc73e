// The test driver as a program sees it: order of calls, contexts, handles, captures, faults,
// images.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"
#include "tests/unit/check.h"

#define MODULE(version, target, body)                                                              \
    ".version " version "\n.target " target "\n.address_size 64\n"                                 \
    ".visible .entry k(.param .u64 out) { .reg .b32 %r<4>; .reg .b64 %d<4>; " body " ret; }\n"
#define COUNT                                                                                      \
    "ld.param.u64 %d1, [out]; ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1;"                      \
    "st.global.u32 [%d1], %r1;"
static const char count[] = MODULE("8.0", "sm_80", COUNT);

static CUresult launch(CUfunction f, CUstream stream, uint32_t *value) {
    void *params[] = {&value};
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult load(const char *text) {
    CUlibrary library;
    return cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0);
}

static void before_init(void) {
    CUcontext context;
    int number;
    CHECK(ptxsim_configure("reset=1 devices=2 capability=8.6 driver=12040") == NULL);
    CHECK_INT(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuDriverGetVersion(&number) == CUDA_SUCCESS && number == 12040);
    CHECK_INT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    CHECK_INT(cuInit(0), CUDA_SUCCESS);
    CHECK(cuDeviceGetCount(&number) == CUDA_SUCCESS && number == 2);
    CHECK(cuDeviceGetAttribute(&number, 75, 0) == CUDA_SUCCESS && number == 8);
    CHECK(cuDeviceGetAttribute(&number, 76, 1) == CUDA_SUCCESS && number == 6);
    CHECK_INT(cuDeviceGet(&number, 2), CUDA_ERROR_INVALID_DEVICE);
    CHECK(ptxsim_configure("reset=1 devices=0") == NULL);
    CHECK_INT(cuInit(0), CUDA_ERROR_NO_DEVICE);
    CHECK(ptxsim_configure("devices=x=1") != NULL && ptxsim_configure("colour=3") != NULL);
    CHECK(ptxsim_configure("strict") != NULL);
}

static void contexts(void) {
    CUcontext first, second, now;
    CUmodule module;
    CUfunction f, of_kernel;
    CUlibrary library;
    CUkernel kernel;
    uint32_t value = 0;
    sim_start("devices=2 strict=0");
    CHECK(cuCtxGetCurrent(&first) == CUDA_SUCCESS && first != NULL);
    CHECK(cuDevicePrimaryCtxRetain(&now, 0) == CUDA_SUCCESS && now == first); // one per device
    CHECK(cuDevicePrimaryCtxRetain(&second, 1) == CUDA_SUCCESS && second != first);
    CHECK(cuModuleLoadData(&module, count) == CUDA_SUCCESS);
    CHECK(cuModuleGetFunction(&f, module, "k") == CUDA_SUCCESS);
    CHECK_INT(cuModuleGetFunction(&f, module, "none"), CUDA_ERROR_NOT_FOUND);
    CHECK_INT(cuModuleGetFunction(&f, (CUmodule)first, "k"), CUDA_ERROR_INVALID_HANDLE);
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 1);
    // the other context knows neither the module nor the function; a library's kernel works in both
    CHECK(cuCtxPushCurrent_v2(second) == CUDA_SUCCESS);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_INVALID_HANDLE);
    CHECK_INT(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuLibraryLoadData(&library, count, NULL, NULL, 0, NULL, NULL, 0) == CUDA_SUCCESS);
    CHECK(cuLibraryGetKernel(&kernel, library, "k") == CUDA_SUCCESS);
    CHECK(cuKernelGetFunction(&of_kernel, kernel) == CUDA_SUCCESS);
    CHECK(launch(of_kernel, NULL, &value) == CUDA_SUCCESS && value == 2);
    CHECK(cuCtxPopCurrent_v2(&now) == CUDA_SUCCESS && now == second);
    CHECK_INT(launch(of_kernel, NULL, &value), CUDA_ERROR_INVALID_HANDLE);
    CHECK(launch((CUfunction)kernel, NULL, &value) == CUDA_SUCCESS && value == 3);
    CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
    CHECK_INT(launch((CUfunction)kernel, NULL, &value), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuCtxSetCurrent(NULL) == CUDA_SUCCESS);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_INT(cuCtxPopCurrent_v2(&now), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_INT(cuCtxSetCurrent((CUcontext)module), CUDA_ERROR_INVALID_CONTEXT);
    // the last release ends the context
    CHECK(cuCtxSetCurrent(first) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 4);
    CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

static void *current_elsewhere(void *out) {
    cuCtxGetCurrent(out);
    return NULL;
}

static void contexts_are_per_thread(void) {
    pthread_t thread;
    CUcontext context = (CUcontext)&thread;
    sim_start("");
    pthread_create(&thread, NULL, current_elsewhere, &context);
    pthread_join(thread, NULL);
    CHECK(context == NULL);
}

// The exit status of a child that calls cuInit and counts devices.
static int in_a_child(void) {
    int status = 0, number;
    pid_t child = fork();
    if (!child) {
        CUresult error = cuInit(0);
        _exit(error ? error : cuDeviceGetCount(&number));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WEXITSTATUS(status);
}

static void forks(void) {
    CHECK(ptxsim_configure("reset=1 devices=1") == NULL);
    CHECK_INT(in_a_child(), CUDA_SUCCESS);
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK_INT(in_a_child(), CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuInit(0) == CUDA_SUCCESS);
}

static void sticky_errors(void) {
    CUcontext other;
    CUfunction f, g;
    uint32_t value = 0;
    sim_start("devices=2");
    f = sim_load(count);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_ILLEGAL_ADDRESS); // not registered
    ptxsim_memory(&value, sizeof value, 7);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_INT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_INT(value, 0);
    CHECK(cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS); // another context is well
    CHECK(cuCtxSetCurrent(other) == CUDA_SUCCESS);
    g = sim_load(count);
    CHECK(launch(g, NULL, &value) == CUDA_SUCCESS && value == 1);
}

static void capture(void) {
    CUstream stream, other;
    CUgraph graph;
    CUgraphExec exec;
    CUmodule module;
    CUcontext context;
    uint32_t value = 0;
    int status;
    sim_start("strict=0");
    CUfunction f = sim_load(count);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&other, 0) == CUDA_SUCCESS);
    CHECK(cuStreamGetCtx(stream, &context) == CUDA_SUCCESS && context != NULL);
    CHECK(cuStreamBeginCapture_v2(stream, CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK_INT(cuStreamBeginCapture_v2(stream, CAPTURE_MODE_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CAPTURE_ACTIVE);
    CHECK(cuStreamIsCapturing(other, &status) == CUDA_SUCCESS && status == CAPTURE_NONE);
    CHECK(launch(f, stream, &value) == CUDA_SUCCESS && launch(f, stream, &value) == CUDA_SUCCESS);
    CHECK(value == 0 && ptxsim_launch_count() == 0);
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 1); // stream does not block this one
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    CHECK(cuGraphLaunch(exec, stream) == CUDA_SUCCESS && value == 3);
    CHECK(cuGraphLaunch(exec, other) == CUDA_SUCCESS && value == 5 && ptxsim_launch_count() == 5);
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    CHECK_INT(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);

    // a load during a global capture fails and spoils the capture
    CHECK(cuStreamBeginCapture_v2(stream, CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK_INT(cuModuleLoadData(&module, count), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CAPTURE_INVALIDATED);
    CHECK_INT(launch(f, stream, &value), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cuStreamBeginCapture_v2(stream, CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK_INT(load(count), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cuStreamBeginCapture_v2(stream, CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK_INT(load(count), CUDA_SUCCESS);
    CHECK_INT(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    // the default stream may not be used while a blocking stream captures
    CHECK(cuStreamBeginCapture_v2(other, CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK_INT(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_INT(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cuStreamDestroy_v2(other) == CUDA_SUCCESS);
    CHECK_INT(launch(f, other, &value), CUDA_ERROR_INVALID_HANDLE);
    CHECK_INT(cuStreamBeginCapture_v2(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

// The default stream stands for another one where a test says so.
static void null_stream(void) {
    CUstream stream;
    CUgraph graph;
    uint32_t value = 0;
    int status;
    sim_start("strict=0");
    CUfunction f = sim_load(count);
    CHECK(cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
    ptxsim_null_stream(stream);
    CHECK(cuStreamBeginCapture_v2(stream, CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(cuStreamIsCapturing(NULL, &status) == CUDA_SUCCESS && status == CAPTURE_ACTIVE);
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 0);
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    ptxsim_null_stream(NULL);
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 1);
}

static void executed_lines(void) {
    int32_t lines[8] = {0};
    uint32_t value = 0;
    sim_start("strict=0");
    CUfunction f = sim_load(".version 8.0\n.target sm_80\n.address_size 64\n"
                            ".entry k(.param .u64 out) {\n.reg .b32 %r<2>;\nmov.u32 %r1, 1;\n"
                            "bra L;\nmov.u32 %r1, 2;\nL: ret;\n}\n");
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS);
    CHECK_INT(ptxsim_executed_lines(lines, 2), 3);
    CHECK(lines[0] == 6 && lines[1] == 7 && lines[2] == 0);
    CHECK_INT(ptxsim_executed_lines(lines, 8), 3);
    CHECK_INT(lines[2], 9);
}

// Every function can be made to fail, after some calls and for some.
static void injected_faults(void) {
    CUcontext context;
    int number;
    uint32_t value = 0;
    sim_start("strict=0");
    CUfunction f = sim_load(count);
    ptxsim_fault("cuLaunchKernel", CUDA_ERROR_LAUNCH_FAILED, 1, 2);
    CHECK_INT(launch(f, NULL, &value), CUDA_SUCCESS);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_LAUNCH_FAILED);
    CHECK_INT(launch(f, NULL, &value), CUDA_ERROR_LAUNCH_FAILED);
    CHECK_INT(launch(f, NULL, &value), CUDA_SUCCESS); // not sticky: only the call failed
    CHECK(value == 2 && ptxsim_calls("cuLaunchKernel") == 4 && ptxsim_calls("cuNothing") == 0);
    static const char *const names[] = {
#define X(name, parameters) #name,
        FAKE_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ptxsim_fault(names[i], CUDA_ERROR_UNKNOWN, 0, -1);
    }
    CHECK(cuInit(0) == CUDA_ERROR_UNKNOWN && cuDeviceGetCount(&number) == CUDA_ERROR_UNKNOWN);
    CHECK(cuCtxGetCurrent(&context) == CUDA_ERROR_UNKNOWN && load(count) == CUDA_ERROR_UNKNOWN);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_UNKNOWN &&
          launch(f, NULL, &value) == CUDA_ERROR_UNKNOWN);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ptxsim_fault(names[i], 0, 0, 0);
    }
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 3);
}

static void images(void) {
    static const unsigned char cubin[64] = {0x7f, 'E', 'L', 'F'};
    static const unsigned char fatbin[64] = {0x50, 0xed, 0x55, 0xba};
    sim_start("capability=9.0 driver=12040");
    CHECK_INT(load((const char *)cubin), CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK_INT(load((const char *)fatbin), CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK_INT(load(NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_INT(load("no PTX"), CUDA_ERROR_INVALID_PTX);
    CHECK_INT(load(MODULE("8.4", "sm_90", "")), CUDA_SUCCESS);
    CHECK_INT(load(MODULE("8.4", "sm_90a", "")), CUDA_SUCCESS);
    CHECK_INT(load(MODULE("8.5", "sm_90", "")), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    CHECK_INT(load(MODULE("8.4", "sm_100", "")), CUDA_ERROR_INVALID_PTX);
    CHECK_INT(load(MODULE("8.4", "sm_80a", "")), CUDA_ERROR_INVALID_PTX);
    CHECK(ptxsim_configure("capability=10.3 driver=13000") == NULL);
    CHECK_INT(load(MODULE("9.0", "sm_100f", "")), CUDA_SUCCESS);
    CHECK_INT(load(MODULE("9.0", "sm_100a", "")), CUDA_ERROR_INVALID_PTX);
    CHECK_INT(load(MODULE("9.0", "sm_90f", "")), CUDA_ERROR_INVALID_PTX);
}

static void launch_limits(void) {
    uint32_t value = 0, *pointer = &value;
    void *params[] = {&pointer};
    int number;
    sim_start("strict=0 sms=7");
    CUfunction f = sim_load(".version 8.0\n.target sm_80\n.address_size 64\n"
                            ".shared .align 4 .b8 s[1000];\n.visible .entry k(.param .u64 out)\n"
                            ".maxntid 128, 1, 1\n{ ret; }\n");
    CHECK(cuFuncGetAttribute(&number, 0, f) == CUDA_SUCCESS && number == 128);
    CHECK(cuFuncGetAttribute(&number, 1, f) == CUDA_SUCCESS && number == 1000);
    CHECK(cuDeviceGetAttribute(&number, 16, 0) == CUDA_SUCCESS && number == 7);
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, f, 128, 0) == CUDA_SUCCESS);
    CHECK_INT(number, 16);
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, f, 128, 100000) == CUDA_SUCCESS);
    CHECK_INT(number, 2);
    static const struct {
        unsigned grid, block, shared;
        CUresult result;
    } rows[] = {{1, 128, 0, 0}, {1, 129, 0, 1},      {0, 1, 0, 1},
                {1, 0, 0, 1},   {1, 1, 48 << 10, 0}, {1, 1, 49153, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(cuLaunchKernel(f, rows[i].grid, 1, 1, rows[i].block, 1, 1, rows[i].shared, NULL,
                                 params, NULL),
                  rows[i].result);
    }
    CHECK(cuFuncSetAttribute(f, 8, 100000) == CUDA_SUCCESS);
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = 100000};
    CHECK_INT(cuLaunchKernelEx(&config, f, params, NULL), CUDA_SUCCESS);
    CUlaunchAttribute cluster = {.id = 4, .value.cluster = {2, 1, 1}};
    config.attrs = &cluster;
    config.numAttrs = 1;
    CHECK_INT(cuLaunchKernelEx(&config, f, params, NULL), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_INT(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void memory(void) {
    CUdeviceptr at;
    uint32_t value = 41;
    sim_start("");
    CUfunction f = sim_load(count);
    CHECK(cuMemAlloc_v2(&at, 4) == CUDA_SUCCESS);
    CHECK(launch(f, NULL, (uint32_t *)(uintptr_t)at) == CUDA_SUCCESS && sim_found("uninitialised"));
    CHECK(cuMemcpyHtoD_v2(at, &value, 4) == CUDA_SUCCESS);
    CHECK(launch(f, NULL, (uint32_t *)(uintptr_t)at) == CUDA_SUCCESS && !sim_findings());
    CHECK(cuMemcpyDtoH_v2(&value, at, 4) == CUDA_SUCCESS && value == 42);
    CHECK_INT(cuMemcpyDtoH_v2(&value, at + 1, 4), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree_v2(at) == CUDA_SUCCESS);
    CHECK_INT(cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE);
    CHECK_INT(launch(f, NULL, (uint32_t *)(uintptr_t)at), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Mutants: another program behind the handles that are there.
static void replaced_programs(void) {
    uint32_t value = 0;
    sim_start("strict=0");
    CUfunction f = sim_load(count);
    CHECK_INT(ptxsim_program_count(), 1);
    CHECK(!strcmp(ptxsim_program_text(0), count) && !ptxsim_program_text(1));
    CHECK(ptxsim_program_replace(0, MODULE("8.0", "sm_80", COUNT COUNT)) == NULL);
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 2);
    CHECK_HAS(ptxsim_program_replace(0, MODULE("8.0", "sm_80", "nonsense.u32 %r1;")),
              "line 4: unknown instruction: nonsense.u32 %r1");
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 4);
    CHECK(ptxsim_program_replace(0, count) == NULL);
    CHECK(launch(f, NULL, &value) == CUDA_SUCCESS && value == 5);
    CHECK(ptxsim_program_replace(3, count) != NULL);
}

static void addresses_and_texts(void) {
    CUresult (*init)(unsigned) = NULL;
    void *address;
    const char *text;
    int status;
    CHECK(cuGetProcAddress_v2("cuInit", &address, 12000, 0, &status) == CUDA_SUCCESS && !status);
    memcpy(&init, &address, sizeof init);
    CHECK(init(0) == CUDA_SUCCESS);
    CHECK(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, &status) == CUDA_SUCCESS);
    CHECK_INT(cuGetProcAddress_v2("cuMem", &address, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
    CHECK(status == 1 && address == NULL);
    CHECK(cuGetErrorName(700, &text) == CUDA_SUCCESS &&
          !strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    CHECK(cuGetErrorString(700, &text) == CUDA_SUCCESS && strstr(text, "illegal"));
    CHECK_INT(cuGetErrorName(12345, &text), CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    before_init();
    contexts();
    contexts_are_per_thread();
    forks();
    sticky_errors();
    null_stream();
    executed_lines();
    capture();
    injected_faults();
    images();
    launch_limits();
    memory();
    replaced_programs();
    addresses_and_texts();
    return CHECK_DONE();
}
