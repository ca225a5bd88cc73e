// The part of the CUDA driver API that the test library exports, declared as cuda.h does. Version
// suffixes are written out: cuMemAlloc_v2 is what a program that includes cuda.h calls cuMemAlloc.
#ifndef PTXSIM_FAKE_CUDA_H
#define PTXSIM_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct fake_object *CUcontext, *CUmodule, *CUfunction, *CUlibrary, *CUkernel, *CUstream,
    *CUgraph, *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_UNKNOWN = 999
};

enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED }; // CUstreamCaptureStatus
enum { CAPTURE_MODE_GLOBAL, CAPTURE_MODE_THREAD_LOCAL, CAPTURE_MODE_RELAXED };

typedef struct CUlaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int value;
        struct {
            unsigned x, y, z;
        } cluster;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

// name, parameters
#define FAKE_FUNCTIONS(X)                                                                          \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuDriverGetVersion, (int *version))                                                          \
    X(cuDeviceGetCount, (int *count))                                                              \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                               \
    X(cuDeviceGetName, (char *name, int length, CUdevice device))                                  \
    X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                          \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                            \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                             \
    X(cuCtxGetCurrent, (CUcontext * context))                                                      \
    X(cuCtxSetCurrent, (CUcontext context))                                                        \
    X(cuCtxPushCurrent_v2, (CUcontext context))                                                    \
    X(cuCtxPopCurrent_v2, (CUcontext * context))                                                   \
    X(cuCtxGetDevice, (CUdevice * device))                                                         \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuLibraryLoadData,                                                                           \
      (CUlibrary * library, const void *code, int *jit_options, void **jit_values,                 \
       unsigned jit_count, int *options, void **values, unsigned count))                           \
    X(cuLibraryUnload, (CUlibrary library))                                                        \
    X(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name))                \
    X(cuKernelGetFunction, (CUfunction * function, CUkernel kernel))                               \
    X(cuModuleLoadData, (CUmodule * module, const void *code))                                     \
    X(cuModuleLoadDataEx,                                                                          \
      (CUmodule * module, const void *code, unsigned count, int *options, void **values))          \
    X(cuModuleUnload, (CUmodule module))                                                           \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))             \
    X(cuFuncGetAttribute, (int *value, int attribute, CUfunction function))                        \
    X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                         \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      (int *blocks, CUfunction function, int block, size_t shared))                                \
    X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,      \
                       CUstream stream, void **params, void **extra))                              \
    X(cuLaunchKernelEx,                                                                            \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))            \
    X(cuStreamIsCapturing, (CUstream stream, int *status))                                         \
    X(cuStreamGetCtx, (CUstream stream, CUcontext * context))                                      \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                         \
    X(cuStreamDestroy_v2, (CUstream stream))                                                       \
    X(cuStreamSynchronize, (CUstream stream))                                                      \
    X(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                        \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                      \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))  \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                          \
    X(cuGraphDestroy, (CUgraph graph))                                                             \
    X(cuGraphExecDestroy, (CUgraphExec exec))                                                      \
    X(cuGetErrorName, (CUresult error, const char **name))                                         \
    X(cuGetErrorString, (CUresult error, const char **text))                                       \
    X(cuGetProcAddress_v2,                                                                         \
      (const char *name, void **function, int version, uint64_t flags, int *status))               \
    X(cuGetExportTable, (const void **table, const void *uuid))                                    \
    X(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                         \
    X(cuMemFree_v2, (CUdeviceptr memory))                                                          \
    X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                           \
    X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))

#define X(name, parameters) FAKE_API CUresult name parameters;
FAKE_FUNCTIONS(X)
#undef X

#endif
