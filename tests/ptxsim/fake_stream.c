// Streams, captures, graphs and launches of the test driver. A launch runs before it returns, or is
// recorded while its stream captures.
#include <stdlib.h>
#include <string.h>

#include "fake_state.h"

static CUresult stream_of(CUstream handle, fake_object *context, fake_object **stream) {
    *stream = NULL;
    if ((uintptr_t)handle <= 2 && fake_is(fake.null_stream, FAKE_STREAM)) {
        handle = fake.null_stream;
    }
    if ((uintptr_t)handle <= 2) { // the default streams
        return CUDA_SUCCESS;
    }
    if (!fake_is(handle, FAKE_STREAM)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *stream = handle;
    return handle->context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error) {
        return error;
    }
    if (!stream || flags > CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *stream = fake_object_new(FAKE_STREAM, context);
    (*stream)->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream handle) {
    FAKE_ENTER(false)
    if (!fake_is(handle, FAKE_STREAM)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    handle->live = false;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *out) {
    FAKE_ENTER(false)
    fake_object *context, *stream;
    CUresult error = fake_current(&context);
    if (error) {
        return error;
    }
    error = stream_of(handle, context, &stream);
    if (!stream && error) {
        return error;
    }
    *out = stream ? stream->context : context;
    return CUDA_SUCCESS;
}

// A capture that the default stream of a context would have to wait for.
static fake_object *blocking_capture(const fake_object *context) {
    for (fake_object *o = fake.objects; o; o = o->next) {
        if (fake_alive(o, FAKE_STREAM) && o->context == context && o->capture &&
            !(o->flags & CU_STREAM_NON_BLOCKING)) {
            return o;
        }
    }
    return NULL;
}

CUresult fake_capture_refuses(void) {
    CUresult error = CUDA_SUCCESS;
    for (fake_object *o = fake.objects; o; o = o->next) {
        bool mine = fake_alive(o, FAKE_STREAM) && o->capture &&
                    (o->mode == CAPTURE_MODE_GLOBAL || (o->mode == CAPTURE_MODE_THREAD_LOCAL &&
                                                        pthread_equal(o->thread, pthread_self())));
        if (mine) {
            o->capture = CAPTURE_INVALIDATED;
            error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return error;
}

CUresult cuStreamSynchronize(CUstream handle) {
    FAKE_ENTER(false)
    fake_object *context, *stream;
    CUresult error = fake_current(&context);
    if (error || (error = stream_of(handle, context, &stream))) {
        return error;
    }
    if (stream && stream->capture) {
        stream->capture = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return fake_capture_refuses();
}

CUresult cuStreamIsCapturing(CUstream handle, int *status) {
    FAKE_ENTER(false)
    fake_object *context, *stream;
    CUresult error = fake_current(&context);
    if (error || (error = stream_of(handle, context, &stream))) {
        return error;
    }
    if (!status) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *status = stream ? stream->capture : CAPTURE_NONE;
    return !stream && blocking_capture(context) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, int mode) {
    FAKE_ENTER(false)
    fake_object *context, *stream;
    CUresult error = fake_current(&context);
    if (error || (error = stream_of(handle, context, &stream))) {
        return error;
    }
    if (!stream) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (mode < CAPTURE_MODE_GLOBAL || mode > CAPTURE_MODE_RELAXED || stream->capture) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    stream->capture = CAPTURE_ACTIVE;
    stream->mode = mode;
    stream->thread = pthread_self();
    stream->launches = NULL;
    stream->launch_count = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
    FAKE_ENTER(false)
    fake_object *context, *stream;
    CUresult error = fake_current(&context);
    if (error || (error = stream_of(handle, context, &stream))) {
        return error;
    }
    if (!graph || !stream || !stream->capture) {
        return graph ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_INVALID_VALUE;
    }
    bool valid = stream->capture == CAPTURE_ACTIVE;
    stream->capture = CAPTURE_NONE;
    *graph = NULL;
    if (!valid) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *graph = fake_object_new(FAKE_GRAPH, context);
    (*graph)->launches = stream->launches;
    (*graph)->launch_count = stream->launch_count;
    stream->launches = NULL;
    stream->launch_count = 0;
    return CUDA_SUCCESS;
}

static void record(fake_object *to, const fake_launch *launch) {
    to->launches = realloc(to->launches, (size_t)(to->launch_count + 1) * sizeof *to->launches);
    size_t bytes = (size_t)fake_kernel(launch->function)->params;
    uint8_t *params = malloc(bytes + 1);
    if (!to->launches || !params) {
        abort();
    }
    memcpy(params, launch->params, bytes);
    to->launches[to->launch_count] = *launch;
    to->launches[to->launch_count++].params = params;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    FAKE_ENTER(false)
    (void)flags;
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error) {
        return error;
    }
    if (!exec || !fake_is(graph, FAKE_GRAPH)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *exec = fake_object_new(FAKE_GRAPH_EXEC, context);
    for (int i = 0; i < graph->launch_count; i++) {
        record(*exec, &graph->launches[i]);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    FAKE_ENTER(false)
    fake_object *context, *stream;
    CUresult error = fake_current(&context);
    if (error || (error = stream_of(handle, context, &stream))) {
        return error;
    }
    if (!fake_is(exec, FAKE_GRAPH_EXEC)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < exec->launch_count && !error; i++) {
        if (!exec->launches[i].function->live) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
        if (stream && stream->capture) {
            record(stream, &exec->launches[i]);
        } else {
            error = fake_run(context, &exec->launches[i]);
        }
    }
    return error;
}

static CUresult destroy(fake_object *handle, int kind) {
    if (!fake_is(handle, kind)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    handle->live = false;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    FAKE_ENTER(false)
    return destroy(graph, FAKE_GRAPH);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    FAKE_ENTER(false)
    return destroy(exec, FAKE_GRAPH_EXEC);
}

// Launches

static CUresult check_extents(const fake_launch *launch, const ptx_function *kernel) {
    static const unsigned most_grid[3] = {INT32_MAX, 65535, 65535},
                          most_block[3] = {1024, 1024, 64};
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!launch->grid[i] || !launch->block[i] || launch->grid[i] > most_grid[i] ||
            launch->block[i] > most_block[i]) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        threads *= launch->block[i];
    }
    int most = kernel->max_threads ? kernel->max_threads : 1024;
    if (threads > 1024 || threads > (uint64_t)most ||
        launch->shared > (unsigned)launch->function->max_dynamic ||
        launch->shared + (unsigned)kernel->shared > 232448) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// The parameter buffer from pointers to each, or from the caller's packed buffer. NULL: neither
// fits.
static uint8_t *pack_params(const ptx_function *kernel, void **params, void **extra) {
    uint8_t *buffer = calloc((size_t)kernel->params + 1, 1);
    if (!buffer) {
        abort();
    }
    if (params && !extra) {
        for (int32_t i = 0; i < kernel->param_count; i++) {
            memcpy(buffer + kernel->param[i].offset, params[i], (size_t)kernel->param[i].bytes);
        }
        return buffer;
    }
    const void *packed = NULL;
    size_t bytes = 0;
    for (void **e = extra; e && !params && *e; e += 2) { // CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE
        packed = (uintptr_t)e[0] == 1 ? e[1] : packed;
        bytes = (uintptr_t)e[0] == 2 ? *(size_t *)e[1] : bytes;
    }
    bool fits = packed ? bytes >= (size_t)kernel->params : !kernel->params && !extra;
    if (!fits) {
        free(buffer);
        return NULL;
    }
    if (packed) {
        memcpy(buffer, packed, (size_t)kernel->params);
    }
    return buffer;
}

static CUresult launch_on(fake_launch *launch, CUstream handle, void **params, void **extra) {
    fake_object *context, *stream;
    CUresult error = fake_current(&context);
    if (error || (error = fake_function(launch->function, context)) ||
        (error = stream_of(handle, context, &stream))) {
        return error;
    }
    const ptx_function *kernel = fake_kernel(launch->function);
    if ((error = check_extents(launch, kernel))) {
        return error;
    }
    fake_object *blocked = stream ? NULL : blocking_capture(context);
    if (blocked) {
        blocked->capture = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream && stream->capture == CAPTURE_INVALIDATED) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!(launch->params = pack_params(kernel, params, extra))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream && stream->capture) {
        record(stream, launch);
    } else {
        error = fake_run(context, launch);
    }
    free(launch->params);
    return error;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **params, void **extra) {
    FAKE_ENTER(false)
    fake_launch launch = {.function = function,
                          .grid = {grid_x, grid_y, grid_z},
                          .block = {block_x, block_y, block_z},
                          .shared = shared};
    return launch_on(&launch, stream, params, extra);
}

// Attributes are taken and change nothing, but for clusters of several blocks, which are not
// modelled.
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra) {
    FAKE_ENTER(false)
    enum { CLUSTER_DIMENSION = 4 };
    if (!config || (config->numAttrs && !config->attrs)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        if (a->id == CLUSTER_DIMENSION &&
            a->value.cluster.x * a->value.cluster.y * a->value.cluster.z != 1) {
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    fake_launch launch = {.function = function,
                          .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                          .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                          .shared = config->sharedMemBytes};
    return launch_on(&launch, config->hStream, params, extra);
}
