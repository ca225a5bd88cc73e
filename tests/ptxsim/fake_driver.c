// Devices, contexts, modules, kernels and memory of the test driver. It behaves as the real one
// where a caller can tell: errors, handles per context, sticky errors. Streams are in
// fake_stream.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_state.h"

static _Thread_local fake_object *context_stack[16];
static _Thread_local int context_depth;

// Devices

CUresult cuInit(unsigned flags) {
    FAKE_ENTER(true)
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!fake.devices) {
        return CUDA_ERROR_NO_DEVICE;
    }
    fake.initialised = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    FAKE_ENTER(true)
    if (!version) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = fake.driver;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    FAKE_ENTER(false)
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count = fake.devices;
    return CUDA_SUCCESS;
}

static bool is_device(CUdevice device) { return device >= 0 && device < fake.devices; }

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    FAKE_ENTER(false)
    if (!device || !is_device(ordinal)) {
        return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    FAKE_ENTER(false)
    if (!is_device(device) || !name || length <= 0) {
        return is_device(device) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(name, (size_t)length, "PTX interpreter %d.%d", fake.major, fake.minor);
    return CUDA_SUCCESS;
}

static int device_attribute(int attribute) {
    static const struct {
        int attribute, value;
    } known[] = {
        {1, 1024},     {2, 1024},      {3, 1024},  {4, 64},  {5, INT32_MAX},  {6, 65535},
        {7, 65535},    {8, 49152},     {9, 65536}, {10, 32}, {11, INT32_MAX}, {12, 65536},
        {13, 1980000}, {14, 512},      {15, 1},    {19, 1},  {31, 1},         {36, 2619000},
        {37, 5120},    {38, 52428800}, {39, 2048}, {40, 3},  {41, 1},         {78, 1},
        {81, 233472},  {82, 65536},    {83, 1},    {89, 1},  {95, 1},         {97, 232448},
        {106, 32},     {111, 1024},    {115, 1},
    };
    switch (attribute) {
    case 16:
        return fake.processors;
    case 75:
        return fake.major;
    case 76:
        return fake.minor;
    default:
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (known[i].attribute == attribute) {
                return known[i].value;
            }
        }
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    FAKE_ENTER(false)
    if (!is_device(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!value || attribute < 1 || attribute > 160) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value = device_attribute(attribute);
    return CUDA_SUCCESS;
}

// Contexts

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    FAKE_ENTER(false)
    if (!is_device(device) || !context) {
        return is_device(device) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    fake_object *primary = fake.primary[device];
    if (!primary || !primary->live) {
        primary = fake.primary[device] = fake_object_new(FAKE_CONTEXT, NULL);
        primary->device = device;
    }
    primary->references++;
    *context = primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    FAKE_ENTER(false)
    if (!is_device(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    fake_object *primary = fake.primary[device];
    if (!primary || !primary->live) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (--primary->references == 0) { // takes its modules, functions and streams along
        primary->live = false;
        for (fake_object *o = fake.objects; o; o = o->next) {
            o->live = o->live && o->context != primary;
        }
    }
    return CUDA_SUCCESS;
}

static fake_object *top(void) { return context_depth ? context_stack[context_depth - 1] : NULL; }

CUresult fake_current(fake_object **context) {
    *context = top();
    if (!*context) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return (*context)->live ? (*context)->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    FAKE_ENTER(false)
    if (!context) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *context = top();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    FAKE_ENTER(false)
    if (!context) {
        context_depth -= context_depth > 0;
        return CUDA_SUCCESS;
    }
    if (!fake_is(context, FAKE_CONTEXT)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    context_depth += context_depth == 0;
    context_stack[context_depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    FAKE_ENTER(false)
    if (!fake_is(context, FAKE_CONTEXT)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context_depth == 16) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context_stack[context_depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    FAKE_ENTER(false)
    if (!context_depth) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    fake_object *old = context_stack[--context_depth];
    if (context) {
        *context = old;
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    FAKE_ENTER(false)
    fake_object *context = top();
    if (!device || !context) {
        return context ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
    }
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    return error ? error : fake_capture_refuses();
}

// Modules and libraries

// PTX ISA versions by the driver that first takes them.
static int newest_ptx(void) {
    static const int since[][2] = {{12000, 80}, {12010, 81}, {12020, 82}, {12030, 83},
                                   {12040, 84}, {12050, 85}, {12070, 86}, {12080, 87},
                                   {12090, 88}, {13000, 90}, {13010, 91}};
    int newest = 78;
    for (size_t i = 0; i < sizeof since / sizeof *since; i++) {
        newest = fake.driver >= since[i][0] ? since[i][1] : newest;
    }
    return newest;
}

static bool target_runs(const ptx_program *code) {
    int device = fake.major * 10 + fake.minor;
    switch (code->target_kind) {
    case 'a': // features of one architecture
        return code->target == device;
    case 'f': // of a family
        return code->target / 10 == fake.major && code->target <= device;
    default:
        return code->target <= device;
    }
}

void fake_register_variables(const ptx_program *code) {
    for (int32_t i = 0; i < code->variable_count; i++) {
        const struct ptx_variable *v = &code->variables[i];
        ptx_memory_register(&fake.memory, (uintptr_t)v->data, v->bytes,
                            PTX_READABLE | PTX_WRITTEN | (v->constant ? 0 : PTX_WRITABLE));
    }
}

CUresult fake_load(const void *code, int *program) {
    fake.last_error[0] = '\0';
    if (!code) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!strncmp(code, "\177ELF", 4) || !strncmp(code, "\x50\xed\x55\xba", 4)) { // cubin, fatbin
        snprintf(fake.last_error, sizeof fake.last_error,
                 "a binary image: only PTX text runs here");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    ptx_program *parsed = ptx_parse(code, fake.last_error, sizeof fake.last_error);
    if (!parsed) {
        return CUDA_ERROR_INVALID_PTX;
    }
    CUresult wrong = parsed->version > newest_ptx() ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                     : target_runs(parsed)          ? CUDA_SUCCESS
                                                    : CUDA_ERROR_INVALID_PTX;
    if (wrong) {
        snprintf(fake.last_error, sizeof fake.last_error,
                 "PTX %d.%d for sm_%d%c does not run on %d.%d with driver %d", parsed->version / 10,
                 parsed->version % 10, parsed->target,
                 parsed->target_kind ? parsed->target_kind : ' ', fake.major, fake.minor,
                 fake.driver);
        ptx_program_free(parsed);
        return wrong;
    }
    fake.programs =
        realloc(fake.programs, (size_t)(fake.program_count + 1) * sizeof *fake.programs);
    if (!fake.programs) {
        abort();
    }
    fake.programs[fake.program_count] = (fake_program){parsed, strdup(code)};
    fake_register_variables(parsed);
    *program = fake.program_count++;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit_options,
                           void **jit_values, unsigned jit_count, int *options, void **values,
                           unsigned count) {
    FAKE_ENTER(false)
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    int program = 0;
    CUresult error = library ? fake_capture_refuses() : CUDA_ERROR_INVALID_VALUE;
    if (error || (error = fake_load(code, &program))) {
        return error;
    }
    *library = fake_object_new(FAKE_LIBRARY, NULL);
    (*library)->program = program;
    return CUDA_SUCCESS;
}

static void unload(fake_object *image) {
    image->live = false;
    for (fake_object *o = fake.objects; o; o = o->next) {
        bool child = o->parent == image || (o->parent && o->parent->parent == image);
        o->live = o->live && !child;
    }
}

CUresult cuLibraryUnload(CUlibrary library) {
    FAKE_ENTER(false)
    if (!fake_is(library, FAKE_LIBRARY)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    unload(library);
    return CUDA_SUCCESS;
}

// The one handle of a kind for a kernel of an image (or a kernel, in a context).
static CUresult entry_handle(fake_object **handle, int kind, fake_object *parent,
                             fake_object *context, const char *name) {
    if (!handle || !name) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (fake_object *o = fake.objects; o; o = o->next) {
        if (o->live && o->kind == kind && o->parent == parent && o->context == context &&
            !strcmp(o->name, name)) {
            *handle = o;
            return CUDA_SUCCESS;
        }
    }
    if (!ptx_program_find(fake.programs[parent->program].code, name)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    fake_object *made = fake_object_new(kind, context);
    made->parent = parent;
    made->program = parent->program;
    made->max_dynamic = 49152;
    snprintf(made->name, sizeof made->name, "%s", name);
    *handle = made;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    FAKE_ENTER(false)
    return fake_is(library, FAKE_LIBRARY) ? entry_handle(kernel, FAKE_KERNEL, library, NULL, name)
                                          : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error) {
        return error;
    }
    return fake_is(kernel, FAKE_KERNEL)
               ? entry_handle(function, FAKE_FUNCTION, kernel, context, kernel->name)
               : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult module_load(CUmodule *module, const void *code) {
    fake_object *context;
    int program = 0;
    CUresult error = fake_current(&context);
    if (!error) {
        error = module ? fake_capture_refuses() : CUDA_ERROR_INVALID_VALUE;
    }
    if (error || (error = fake_load(code, &program))) {
        return error;
    }
    *module = fake_object_new(FAKE_MODULE, context);
    (*module)->program = program;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *code) {
    FAKE_ENTER(false)
    return module_load(module, code);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *code, unsigned count, int *options,
                            void **values) {
    FAKE_ENTER(false)
    (void)count, (void)options, (void)values;
    return module_load(module, code);
}

// Whether it is a module of the current context.
static CUresult own_module(CUmodule module) {
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error) {
        return error;
    }
    bool own = fake_is(module, FAKE_MODULE) && module->context == context;
    return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleUnload(CUmodule module) {
    FAKE_ENTER(false)
    CUresult error = own_module(module);
    if (error) {
        return error;
    }
    unload(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    FAKE_ENTER(false)
    CUresult error = own_module(module);
    return error ? error : entry_handle(function, FAKE_FUNCTION, module, module->context, name);
}

// Functions

const ptx_function *fake_kernel(const fake_object *function) {
    return ptx_program_find(fake.programs[function->program].code, function->name);
}

CUresult fake_function(fake_object *handle, fake_object *context) {
    bool kernel = fake_is(handle, FAKE_KERNEL); // as cuda.h allows since 12.0
    if (!kernel && (!fake_is(handle, FAKE_FUNCTION) || handle->context != context)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return fake_kernel(handle) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

enum { FAKE_REGISTERS = 32 }; // of every kernel: allocation is not modelled

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error || (error = fake_function(function, context))) {
        return error;
    }
    const ptx_program *code = fake.programs[function->program].code;
    const ptx_function *kernel = fake_kernel(function);
    const int values[] = {kernel->max_threads ? kernel->max_threads : 1024,
                          kernel->shared,
                          0,
                          kernel->local,
                          FAKE_REGISTERS,
                          code->version,
                          fake.major * 10 + fake.minor,
                          0,
                          function->max_dynamic,
                          -1};
    if (!value || attribute < 0 || attribute > 9) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value = values[attribute];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error || (error = fake_function(function, context))) {
        return error;
    }
    if (attribute == 9 && value >= -1 && value <= 100) { // preferred carveout
        return CUDA_SUCCESS;
    }
    if (attribute != 8 || value < 0 ||
        value + fake_kernel(function)->shared > device_attribute(97)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    function->max_dynamic = value;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block,
                                                     size_t shared) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error || (error = fake_function(function, context))) {
        return error;
    }
    if (!blocks || block <= 0 || block > 1024) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int threads = (block + 31) / 32 * 32;
    size_t bytes = shared + (size_t)fake_kernel(function)->shared + 1024; // the system's own KiB
    size_t by_shared = (size_t)device_attribute(81) / bytes;
    int most = 2048 / threads, by_registers = 65536 / (threads * FAKE_REGISTERS);
    most = most < by_registers ? most : by_registers;
    most = most < 32 ? most : 32;
    *blocks = by_shared < (size_t)most ? (int)by_shared : most;
    return CUDA_SUCCESS;
}

CUresult fake_run(fake_object *context, const fake_launch *asked) {
    ptx_launch *launch = &fake.last;
    const ptx_function *kernel = fake_kernel(asked->function);
    if (!kernel) {
        return CUDA_ERROR_NOT_FOUND;
    }
    memset(launch, 0, sizeof *launch);
    launch->program = fake.programs[asked->function->program].code;
    launch->kernel = kernel;
    launch->memory = &fake.memory;
    memcpy(launch->grid, asked->grid, sizeof launch->grid);
    memcpy(launch->block, asked->block, sizeof launch->block);
    launch->dynamic_shared = asked->shared;
    launch->shared_bytes = asked->shared ? ((uint32_t)kernel->shared + 15) / 16 * 16 + asked->shared
                                         : (uint32_t)kernel->shared;
    launch->params = asked->params;
    launch->seed = fake.warp_order;
    launch->step_limit = fake.step_limit;
    launch->processors = fake.processors;
    fake.last_program = asked->function->program;
    snprintf(fake.last_kernel, sizeof fake.last_kernel, "%s", kernel->name);
    ptx_launch_run(launch);
    fake.launch_count++;
    context->error = launch->fault;
    return launch->fault;
}

// Memory: the host's, registered

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error || (error = fake_capture_refuses())) {
        return error;
    }
    if (!memory || !bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > SIZE_MAX / 2) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    void *data = aligned_alloc(256, (bytes + 256 + 255) / 256 * 256); // a gap behind each
    if (!data) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *memory = (uintptr_t)data;
    ptx_memory_register(&fake.memory, *memory, bytes, PTX_READABLE | PTX_WRITABLE);
    fake_object *record = fake_object_new(FAKE_MEMORY, context);
    record->data = data;
    record->bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr memory) {
    FAKE_ENTER(false)
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error || (error = fake_capture_refuses()) || !memory) {
        return error;
    }
    for (fake_object *o = fake.objects; o; o = o->next) {
        if (o->kind == FAKE_MEMORY && o->live && (uintptr_t)o->data == memory) {
            ptx_memory_register(&fake.memory, memory, o->bytes, 0);
            free(o->data);
            o->live = false;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_check(CUdeviceptr memory, size_t bytes) {
    fake_object *context;
    CUresult error = fake_current(&context);
    if (error || (error = fake_capture_refuses())) {
        return error;
    }
    bool known = !fake.memory.strict || ptx_memory_registered(&fake.memory, memory, bytes);
    return known && memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    FAKE_ENTER(false)
    CUresult error = copy_check(to, bytes);
    if (!error) {
        memcpy((void *)(uintptr_t)to, from, bytes);
        ptx_memory_fill(&fake.memory, to, bytes);
    }
    return error;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    FAKE_ENTER(false)
    CUresult error = copy_check(from, bytes);
    if (!error) {
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    }
    return error;
}
