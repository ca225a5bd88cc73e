// Functions are looked up under the names that every driver since CUDA 11 exports (`_v2` where a
// function changed); those of CUDA 12 are used where they are. Torch has made the primary context
// current where it ran before on this thread; where not, it is pushed for the length of one call.
#include "runtime/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int result; // CUresult; 0: success
typedef void *handle;

// X(name, arguments, whether the driver must have it)
#define FUNCTIONS(X)                                                                               \
    X(cuInit, (unsigned), true)                                                                    \
    X(cuDriverGetVersion, (int *), true)                                                           \
    X(cuGetErrorName, (result, const char **), true)                                               \
    X(cuGetErrorString, (result, const char **), true)                                             \
    X(cuDeviceGet, (int *, int), true)                                                             \
    X(cuDeviceGetCount, (int *), true)                                                             \
    X(cuDeviceGetAttribute, (int *, int, int), true)                                               \
    X(cuDevicePrimaryCtxRetain, (handle *, int), true)                                             \
    X(cuCtxGetCurrent, (handle *), true)                                                           \
    X(cuCtxPushCurrent_v2, (handle), true)                                                         \
    X(cuCtxPopCurrent_v2, (handle *), true)                                                        \
    X(cuModuleLoadData, (handle *, const void *), true)                                            \
    X(cuModuleGetFunction, (handle *, handle, const char *), true)                                 \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, handle, int, size_t), true)             \
    X(cuStreamIsCapturing, (handle, int *), true)                                                  \
    X(cuLaunchKernel,                                                                              \
      (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,       \
       void **, void **),                                                                          \
      true)                                                                                        \
    X(cuLibraryLoadData,                                                                           \
      (handle *, const void *, void *, void **, unsigned, void *, void **, unsigned), false)       \
    X(cuLibraryGetKernel, (handle *, handle, const char *), false)                                 \
    X(cuKernelGetFunction, (handle *, handle), false)

static struct {
#define X(name, arguments, needed) result(*name) arguments;
    FUNCTIONS(X)
#undef X
} cu;

enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 }; // CU_DEVICE_ATTRIBUTE_...
enum { OLDEST_DRIVER = 11020 };
enum { CAPTURE_IMPLICIT = 906 }; // the default stream, beside a stream in capture that waits for it

typedef struct device {
    pthread_mutex_t lock; // of loading, and of everything here but `context`
    _Atomic(handle) context;
    int multiprocessors;
    const tfr_cuda_target *target;
} device;

// A CUDA 12 library holds a kernel for all devices; older drivers load one module each.
typedef struct library {
    struct library *next;
    const tfr_device_code *code;
    handle kernel;
} library;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char fault[TFR_DRIVER_MESSAGE];
static pid_t opened_by;
static device devices[TFR_MAX_DEVICES];
static int device_count;
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER; // of `libraries`
static library *libraries;

// ------------------------------------------------------------------ words
static const char *name_of(result r) {
    const char *name = NULL;
    return cu.cuGetErrorName && cu.cuGetErrorName(r, &name) == 0 && name ? name : "unknown error";
}

static void explain(char *why, const char *what, result r) {
    const char *text = NULL;
    if (!cu.cuGetErrorString || cu.cuGetErrorString(r, &text) != 0 || !text)
        text = "the driver has no words for it";
    (void)snprintf(why, TFR_DRIVER_MESSAGE, "%s: %s (%d, %s)", what, name_of(r), r, text);
}

// ------------------------------------------------------------------ opening
static void open_driver(void) {
    int version = 0;
    opened_by = getpid();
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        (void)snprintf(fault, sizeof fault, "there is no CUDA driver: libcuda.so.1 was not found");
        return;
    }
#define X(function, arguments, needed)                                                             \
    *(void **)&cu.function = dlsym(lib, #function);                                                \
    if (needed && !cu.function) {                                                                  \
        (void)snprintf(fault, sizeof fault, "the CUDA driver has no %s: it is too old",            \
                       #function);                                                                 \
        return;                                                                                    \
    }
    FUNCTIONS(X)
#undef X
    result r = cu.cuInit(0);
    if (r == 0)
        r = cu.cuDriverGetVersion(&version);
    if (r == 0)
        r = cu.cuDeviceGetCount(&device_count);
    if (r != 0) {
        explain(fault, "the CUDA driver cannot be used", r);
    } else if (version < OLDEST_DRIVER) {
        (void)snprintf(fault, sizeof fault,
                       "the CUDA driver is for CUDA %d.%d: 11.2 or newer is needed", version / 1000,
                       version % 1000 / 10);
    } else if (device_count == 0) {
        (void)snprintf(fault, sizeof fault, "the CUDA driver sees no device");
    }
    device_count = device_count > TFR_MAX_DEVICES ? TFR_MAX_DEVICES : device_count;
    for (int i = 0; i < TFR_MAX_DEVICES; i++)
        (void)pthread_mutex_init(&devices[i].lock, NULL);
}

const char *tfr_driver_open(void) {
    (void)pthread_once(&once, open_driver);
    if (!*fault && getpid() != opened_by)
        return "a forked process cannot use the CUDA of its parent: start it with spawn";
    return *fault ? fault : NULL;
}

// The device, with its primary context retained, which is never given back: torch's lives as long.
static device *get_device(int32_t number, char *why) {
    const char *broken = tfr_driver_open();
    if (broken || number < 0 || number >= device_count) {
        (void)snprintf(why, TFR_DRIVER_MESSAGE, "%s", broken ? broken : "there is no such device");
        return NULL;
    }
    device *d = &devices[number];
    if (atomic_load_explicit(&d->context, memory_order_acquire))
        return d;
    (void)pthread_mutex_lock(&d->lock);
    handle context = atomic_load_explicit(&d->context, memory_order_relaxed);
    if (!context) {
        int ordinal = 0;
        result r = cu.cuDeviceGet(&ordinal, number);
        if (r == 0)
            r = cu.cuDeviceGetAttribute(&d->multiprocessors, MULTIPROCESSORS, ordinal);
        if (r == 0)
            r = cu.cuDevicePrimaryCtxRetain(&context, ordinal);
        if (r != 0) {
            context = NULL;
            explain(why, "the device's context cannot be used", r);
        }
        atomic_store_explicit(&d->context, context, memory_order_release);
    }
    (void)pthread_mutex_unlock(&d->lock);
    return context ? d : NULL;
}

const tfr_cuda_target *tfr_driver_target(int32_t number, char *why) {
    const char *forced = getenv("TFR_CUDA_TARGET");
    device *d = get_device(number, why);
    if (!d)
        return NULL;
    if (forced && *forced) {
        const tfr_cuda_target *row = tfr_cuda_target_find(tfr_str_from(forced));
        if (!row)
            (void)snprintf(why, TFR_DRIVER_MESSAGE, "TFR_CUDA_TARGET=%s: there is no such target",
                           forced);
        return row;
    }
    (void)pthread_mutex_lock(&d->lock);
    if (!d->target) {
        int ordinal = 0, major = 0, minor = 0;
        result r = cu.cuDeviceGet(&ordinal, number);
        if (r == 0)
            r = cu.cuDeviceGetAttribute(&major, MAJOR, ordinal);
        if (r == 0)
            r = cu.cuDeviceGetAttribute(&minor, MINOR, ordinal);
        d->target = r == 0 ? tfr_cuda_target_for(major, minor) : NULL;
        if (r != 0)
            explain(why, "the device does not tell what it is", r);
        else if (!d->target)
            (void)snprintf(why, TFR_DRIVER_MESSAGE,
                           "compute capability %d.%d is older than every target (7.5 is the first)",
                           major, minor);
    }
    (void)pthread_mutex_unlock(&d->lock);
    return d->target;
}

// ------------------------------------------------------------------ contexts
// Makes the device's context current. `*pushed`: leave() has to undo it.
static result enter(const device *d, bool *pushed) {
    handle context = atomic_load_explicit(&d->context, memory_order_acquire), current = NULL;
    *pushed = false;
    result r = cu.cuCtxGetCurrent(&current);
    if (r != 0 || current == context)
        return r;
    r = cu.cuCtxPushCurrent_v2(context);
    *pushed = r == 0;
    return r;
}

static void leave(bool pushed) {
    handle ignored;
    if (pushed)
        (void)cu.cuCtxPopCurrent_v2(&ignored);
}

// ------------------------------------------------------------------ loading
// The kernel of CUDA 12's libraries, loaded once for all devices.
static result library_kernel(handle *out, const tfr_device_code *code) {
    (void)pthread_mutex_lock(&library_lock);
    library *l = libraries;
    while (l && l->code != code)
        l = l->next;
    result r = 0;
    if (!l) {
        handle loaded = NULL, kernel = NULL;
        r = cu.cuLibraryLoadData(&loaded, code->binary.data, NULL, NULL, 0, NULL, NULL, 0);
        if (r == 0)
            r = cu.cuLibraryGetKernel(&kernel, loaded, code->entry);
        if (r == 0) {
            l = tfr_alloc(sizeof *l);
            *l = (library){libraries, code, kernel};
            libraries = l;
        }
    }
    *out = l ? l->kernel : NULL;
    (void)pthread_mutex_unlock(&library_lock);
    return r;
}

// Asking for the function of this context loads it there, whatever CUDA_MODULE_LOADING says.
static result load_function(handle *function, const tfr_device_code *code) {
    handle kernel = NULL, module = NULL;
    if (cu.cuLibraryLoadData && cu.cuLibraryGetKernel && cu.cuKernelGetFunction) {
        result r = library_kernel(&kernel, code);
        return r == 0 ? cu.cuKernelGetFunction(function, kernel) : r;
    }
    result r = cu.cuModuleLoadData(&module, code->binary.data);
    return r == 0 ? cu.cuModuleGetFunction(function, module, code->entry) : r;
}

const tfr_driver_kernel *tfr_driver_load(int32_t number, const tfr_device_code *code, char *why) {
    device *d = get_device(number, why);
    tfr_driver_kernel made = {.block = code->block};
    bool pushed = false;
    int each = 0;
    if (!d)
        return NULL;
    (void)pthread_mutex_lock(&d->lock);
    result r = enter(d, &pushed);
    if (r == 0)
        r = load_function(&made.function, code);
    if (r == 0)
        r = cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, made.function, (int)code->block,
                                                           0);
    leave(pushed);
    (void)pthread_mutex_unlock(&d->lock);
    if (r != 0 || each <= 0) {
        if (r != 0)
            explain(why, "the driver does not load it", r);
        else
            (void)snprintf(why, TFR_DRIVER_MESSAGE, "a block of it does not fit on the device");
        return NULL;
    }
    made.resident = (uint32_t)each * (uint32_t)d->multiprocessors;
    tfr_driver_kernel *kernel = tfr_alloc(sizeof *kernel);
    *kernel = made;
    return kernel;
}

// ------------------------------------------------------------------ launching
bool tfr_driver_is_capturing(int32_t number, tfr_stream stream) {
    char why[TFR_DRIVER_MESSAGE];
    device *d = get_device(number, why);
    bool pushed = false;
    int status = 0;
    if (!d || enter(d, &pushed) != 0)
        return false;
    result r = cu.cuStreamIsCapturing(stream, &status);
    leave(pushed);
    return r == CAPTURE_IMPLICIT || (r == 0 && status != 0);
}

// Errors after which nothing more runs in a context, whoever caused them.
static bool is_sticky(result r) {
    switch (r) {
    case 214: // CUDA_ERROR_ECC_UNCORRECTABLE
    case 220: // CUDA_ERROR_NVLINK_UNCORRECTABLE
    case 700: // CUDA_ERROR_ILLEGAL_ADDRESS
    case 702: // CUDA_ERROR_LAUNCH_TIMEOUT
    case 709: // CUDA_ERROR_CONTEXT_IS_DESTROYED
    case 710: // CUDA_ERROR_ASSERT
    case 714: // CUDA_ERROR_HARDWARE_STACK_ERROR
    case 715: // CUDA_ERROR_ILLEGAL_INSTRUCTION
    case 716: // CUDA_ERROR_MISALIGNED_ADDRESS
    case 717: // CUDA_ERROR_INVALID_ADDRESS_SPACE
    case 718: // CUDA_ERROR_INVALID_PC
    case 719: // CUDA_ERROR_LAUNCH_FAILED
        return true;
    default:
        return false;
    }
}

tfr_launch_result tfr_driver_launch(const tfr_driver_kernel *kernel, int32_t number,
                                    tfr_stream stream, int64_t units, const void *argument,
                                    char *why) {
    device *d = get_device(number, why);
    void *arguments[] = {(void *)(uintptr_t)argument};
    bool pushed = false;
    if (!d)
        return TFR_LAUNCH_REFUSED;
    unsigned grid = units < kernel->resident ? (unsigned)units : kernel->resident;
    result r = enter(d, &pushed);
    if (r == 0)
        r = cu.cuLaunchKernel(kernel->function, grid, 1, 1, kernel->block, 1, 1, 0, stream,
                              arguments, NULL);
    leave(pushed);
    if (r == 0)
        return TFR_LAUNCHED;
    explain(why, "the launch failed", r);
    return is_sticky(r) ? TFR_LAUNCH_LOST : TFR_LAUNCH_REFUSED;
}
