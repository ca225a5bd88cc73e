// runtime/driver.c on several simulated devices, streams and threads. (What it does when functions
// fail: tests/cuda/test_driver.py.)
#include "runtime/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ptxsim/fake_cuda.h"
#include "tests/ptxsim/ptxsim.h"
#include "tests/unit/check.h"

enum { DEVICES = 3, THREADS = 6, LAUNCHES = 40, UNITS = 100, BLOCK = 32 };

// out[unit] = value for every unit, by the first thread of each block.
static const char FILL[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry fill(.param .align 8 .b8 a[24])\n.maxntid 32, 1, 1\n{\n"
    ".reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %d<6>;\n"
    "ld.param.u64 %d1, [a]; ld.param.u32 %r1, [a+8]; ld.param.u64 %d2, [a+16];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %tid.x;\n"
    "setp.ne.u32 %p1, %r4, 0;\n@%p1 bra DONE;\n"
    "cvt.u64.u32 %d3, %r2; cvt.u64.u32 %d4, %r3;\n"
    "LOOP:\nsetp.ge.u64 %p2, %d3, %d2;\n@%p2 bra DONE;\n"
    "shl.b64 %d5, %d3, 2; add.s64 %d5, %d1, %d5; st.global.u32 [%d5], %r1;\n"
    "add.s64 %d3, %d3, %d4; bra LOOP;\nDONE: ret;\n}\n";

typedef struct fill {
    uint32_t *out;
    uint32_t value, padding;
    int64_t units;
} fill;

static const tfr_device_code code = {
    .binary = {FILL, sizeof FILL - 1}, .entry = "fill", .block = BLOCK};

// Kernels live as long as the process; so that leak checkers see them, they are kept.
static const tfr_driver_kernel *load(int32_t device, char *why) {
    static const tfr_driver_kernel *kept[64];
    static atomic_int count;
    const tfr_driver_kernel *kernel = tfr_driver_load(device, &code, why);
    if (!kernel)
        fprintf(stderr, "device %d: %s\n", device, why);
    return kept[atomic_fetch_add(&count, 1)] = kernel;
}

static tfr_launch_result launch(const tfr_driver_kernel *kernel, int32_t device, tfr_stream stream,
                                uint32_t *out, uint32_t value, char *why) {
    fill argument = {out, value, 0, UNITS};
    memset(out, 0, UNITS * sizeof *out);
    return tfr_driver_launch(kernel, device, stream, UNITS, &argument, why);
}

static bool is_filled(const uint32_t *out, uint32_t value) {
    for (int i = 0; i < UNITS; i++)
        if (out[i] != value)
            return false;
    return true;
}

static CUcontext context_of(int device) {
    CUcontext context = NULL;
    CHECK_INT(cuDevicePrimaryCtxRetain(&context, device), 0);
    return context;
}

// A stream of a device, made while its context is current, as torch's are.
static tfr_stream stream_of(int device) {
    CUstream stream = NULL;
    CUcontext ignored;
    CHECK_INT(cuCtxPushCurrent_v2(context_of(device)), 0);
    CHECK_INT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    CHECK_INT(cuCtxPopCurrent_v2(&ignored), 0);
    return stream;
}

// ------------------------------------------------------------------ threads
static pthread_barrier_t start;

// Loads from cold beside the others, then launches on a stream of its own.
static void *work(void *argument) {
    int number = *(int *)argument;
    int32_t device = number % DEVICES;
    char why[TFR_DRIVER_MESSAGE] = "";
    uint32_t out[UNITS];
    intptr_t right = 0;
    (void)pthread_barrier_wait(&start);
    const tfr_driver_kernel *kernel = load(device, why);
    tfr_stream stream = kernel ? stream_of(device) : NULL;
    for (uint32_t i = 1; kernel && i <= LAUNCHES; i++) {
        uint32_t value = i * 100 + (uint32_t)number;
        right += launch(kernel, device, stream, out, value, why) == TFR_LAUNCHED &&
                 is_filled(out, value);
    }
    return (void *)right;
}

static void threads_load_and_launch_at_once(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    (void)pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_INT(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *right;
        (void)pthread_join(threads[i], &right);
        CHECK_INT((intptr_t)right, LAUNCHES);
    }
    CHECK_INT(ptxsim_calls("cuInit"), 1);
    CHECK_INT(ptxsim_calls("cuLibraryLoadData"), 1); // one for all devices
    CHECK_INT(ptxsim_launch_count(), THREADS * LAUNCHES);
}

// ------------------------------------------------------------------ devices
static void each_device_has_a_function_of_its_own(void) {
    char why[TFR_DRIVER_MESSAGE] = "";
    const tfr_driver_kernel *a = load(0, why), *b = load(2, why);
    uint32_t out[UNITS];
    CHECK(a && b && a->function != b->function);
    CHECK_INT(launch(a, 0, NULL, out, 7, why), TFR_LAUNCHED);
    CHECK(is_filled(out, 7));
    CHECK_INT(launch(b, 2, NULL, out, 8, why), TFR_LAUNCHED);
    CHECK(is_filled(out, 8));
    CHECK_INT(launch(a, 2, NULL, out, 9, why), TFR_LAUNCH_REFUSED); // the first device's function
    CHECK_HAS(why, "CUDA_ERROR_INVALID_HANDLE");
    CHECK(!tfr_driver_load(DEVICES, &code, why));
    CHECK_HAS(why, "no such device");
    CHECK(!tfr_driver_load(-1, &code, why));
}

static void the_callers_context_stays_current(void) {
    char why[TFR_DRIVER_MESSAGE] = "";
    const tfr_driver_kernel *kernel = load(1, why);
    CUcontext other = context_of(0), current = NULL;
    uint32_t out[UNITS];
    CHECK_INT(cuCtxGetCurrent(&current), 0);
    CHECK(!current); // loading on this thread has left none behind
    CHECK_INT(cuCtxSetCurrent(other), 0);
    CHECK_INT(launch(kernel, 1, NULL, out, 3, why), TFR_LAUNCHED);
    CHECK(is_filled(out, 3));
    CHECK_INT(cuCtxGetCurrent(&current), 0);
    CHECK(current == other);
    ptxsim_fault("cuLaunchKernel", 2, 0, 1);
    CHECK_INT(launch(kernel, 1, NULL, out, 4, why), TFR_LAUNCH_REFUSED);
    CHECK_INT(cuCtxGetCurrent(&current), 0);
    CHECK(current == other);
    CHECK_INT(cuCtxSetCurrent(NULL), 0);
}

static void a_stream_belongs_to_its_device(void) {
    char why[TFR_DRIVER_MESSAGE] = "";
    const tfr_driver_kernel *kernel = load(1, why);
    tfr_stream own = stream_of(1), other = stream_of(0);
    uint32_t out[UNITS];
    CHECK_INT(launch(kernel, 1, own, out, 5, why), TFR_LAUNCHED);
    CHECK(is_filled(out, 5));
    CHECK_INT(launch(kernel, 1, other, out, 6, why), TFR_LAUNCH_REFUSED);
    CHECK(is_filled(out, 0));
    CHECK_INT(launch(kernel, 1, own, out, 7, why), TFR_LAUNCHED); // nothing was spoilt
}

static void only_the_capturing_stream_is_capturing(void) {
    char why[TFR_DRIVER_MESSAGE] = "";
    const tfr_driver_kernel *kernel = load(1, why);
    tfr_stream busy = stream_of(1), idle = stream_of(1);
    uint32_t out[UNITS];
    CUgraph graph = NULL;
    CUgraphExec ready = NULL;
    CUcontext ignored;
    CHECK_INT(cuCtxPushCurrent_v2(context_of(1)), 0);
    CHECK(!tfr_driver_is_capturing(1, busy));
    CHECK_INT(cuStreamBeginCapture_v2(busy, 0), 0);
    CHECK(tfr_driver_is_capturing(1, busy));
    CHECK(!tfr_driver_is_capturing(1, idle) && !tfr_driver_is_capturing(0, NULL));
    CHECK_INT(launch(kernel, 1, busy, out, 5, why), TFR_LAUNCHED);
    CHECK(is_filled(out, 0)); // recorded: the argument was copied, `launch` has returned
    CHECK_INT(cuStreamEndCapture(busy, &graph), 0);
    CHECK(!tfr_driver_is_capturing(1, busy));
    CHECK_INT(cuGraphInstantiateWithFlags(&ready, graph, 0), 0);
    CHECK_INT(cuGraphLaunch(ready, busy), 0);
    CHECK(is_filled(out, 5));
    CHECK_INT(cuCtxPopCurrent_v2(&ignored), 0);
}

// Loading on the default stream would spoil the capture of a stream that waits for it.
static void the_default_stream_beside_a_capture_counts_as_capturing(void) {
    CUstream waits = NULL;
    CUgraph graph = NULL;
    CUcontext ignored;
    CHECK_INT(cuCtxPushCurrent_v2(context_of(1)), 0);
    CHECK_INT(cuStreamCreate(&waits, 0), 0);
    CHECK(!tfr_driver_is_capturing(1, NULL));
    CHECK_INT(cuStreamBeginCapture_v2(waits, 0), 0);
    CHECK(tfr_driver_is_capturing(1, NULL));
    CHECK_INT(cuStreamEndCapture(waits, &graph), 0);
    CHECK(!tfr_driver_is_capturing(1, NULL));
    CHECK_INT(cuCtxPopCurrent_v2(&ignored), 0);
}

// ------------------------------------------------------------------ grids, faults, forks
static void grids_hold_no_more_blocks_than_run_at_once(void) {
    char why[TFR_DRIVER_MESSAGE] = "", report[1 << 16];
    const tfr_driver_kernel *kernel = load(0, why);
    uint32_t out[UNITS];
    fill few = {out, 1, 0, 3}, many = {out, 2, 0, UNITS};
    CHECK_INT(tfr_driver_launch(kernel, 0, NULL, 3, &few, why), TFR_LAUNCHED);
    (void)ptxsim_report(report, sizeof report);
    CHECK_HAS(report, "\"grid\": [3, 1, 1]");
    CHECK_HAS(report, "\"block\": [32, 1, 1]");
    tfr_driver_kernel small = *kernel; // as on a device with fewer multiprocessors
    small.resident = 7;
    CHECK_INT(tfr_driver_launch(&small, 0, NULL, INT64_C(1) << 40, &many, why), TFR_LAUNCHED);
    (void)ptxsim_report(report, sizeof report);
    CHECK_HAS(report, "\"grid\": [7, 1, 1]");
    CHECK(is_filled(out, 2)); // blocks take several units each
}

static void a_lost_context_is_told_apart(void) {
    char why[TFR_DRIVER_MESSAGE] = "";
    const tfr_driver_kernel *kernel = load(0, why);
    uint32_t out[UNITS];
    ptxsim_fault("cuLaunchKernel", CUDA_ERROR_ILLEGAL_ADDRESS, 0, 1);
    CHECK_INT(launch(kernel, 0, NULL, out, 1, why), TFR_LAUNCH_LOST);
    CHECK_HAS(why, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

static void a_forked_process_is_refused(void) {
    char why[TFR_DRIVER_MESSAGE] = "";
    const tfr_driver_kernel *kernel = load(0, why);
    uint32_t out[UNITS];
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        const char *fault = tfr_driver_open();
        bool refused = fault && strstr(fault, "forked") &&
                       launch(kernel, 0, NULL, out, 1, why) == TFR_LAUNCH_REFUSED &&
                       !tfr_driver_load(0, &code, why) && !tfr_driver_is_capturing(0, NULL);
        _exit(refused ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_INT(launch(kernel, 0, NULL, out, 2, why), TFR_LAUNCHED);
}

int main(void) {
    const char *wrong = ptxsim_configure("devices=3 capability=9.0 sms=4");
    CHECK(!wrong);
    threads_load_and_launch_at_once();
    each_device_has_a_function_of_its_own();
    the_callers_context_stays_current();
    a_stream_belongs_to_its_device();
    only_the_capturing_stream_is_capturing();
    the_default_stream_beside_a_capture_counts_as_capturing();
    grids_hold_no_more_blocks_than_run_at_once();
    a_forked_process_is_refused();
    a_lost_context_is_told_apart();
    return CHECK_DONE();
}
