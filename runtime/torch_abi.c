// Finds torch's shim and smooths over what differs between 2.9 and later versions.
#define _GNU_SOURCE // RTLD_NOLOAD, dl_iterate_phdr
#include "runtime/torch_abi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

tfr_torch_api tfr_torch;

// Our conventions are those of 2.9; later versions convert for a library that says it was built
// for it. Versions are numbered as torch does: major, minor, patch and tag, a byte each at the top.
#define BUILT_FOR ((UINT64_C(2) << 56) | (UINT64_C(10) << 48))
#define OLDEST 0x0209u

static char resolve_error[256];
// C++'s operator new and delete: what holds an optional is made by one side and freed by the other.
static void *(*cxx_new)(size_t);
static void (*cxx_delete)(void *);
// GNU OpenMP as torch loaded it, for 2.9, which has no torch_parallel_for.
static void (*gomp_parallel)(void (*)(void *), void *, unsigned, unsigned);
static int (*omp_threads)(void), (*omp_thread)(void), (*omp_count)(void);

static void *symbol(void *library, const char *name) { return dlsym(library, name); }

static int find_openmp(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash, "/libgomp", 8) != 0)
        return 0;
    void *library = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return 0;
    *(void **)&gomp_parallel = symbol(library, "GOMP_parallel");
    *(void **)&omp_threads = symbol(library, "omp_get_max_threads");
    *(void **)&omp_thread = symbol(library, "omp_get_thread_num");
    *(void **)&omp_count = symbol(library, "omp_get_num_threads");
    return 1;
}

const char *tfr_torch_resolve(void) {
    void *library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return "libtorch_cpu.so is not loaded: import torch before tfrewrite's library";
    uint64_t (*version)(void);
    *(void **)&version = symbol(library, "aoti_torch_abi_version");
    if (!version)
        return "this torch has no stable C interface: torch 2.9 or newer is needed";
    unsigned number = (unsigned)(version() >> 48);
    if (number < OLDEST) {
        (void)snprintf(resolve_error, sizeof resolve_error,
                       "torch %u.%u is too old: 2.9 or newer is needed", number >> 8, number & 255);
        return resolve_error;
    }
#define X(result, name, arguments, first)                                                          \
    *(void **)&tfr_torch.name = symbol(library, #name);                                            \
    if (!tfr_torch.name && number >= (first)) {                                                    \
        (void)snprintf(resolve_error, sizeof resolve_error,                                        \
                       "torch %u.%u has no %s, which its version should have", number >> 8,        \
                       number & 255, #name);                                                       \
        return resolve_error;                                                                      \
    }
    TFR_TORCH_SYMBOLS(X)
#undef X
    *(void **)&cxx_new = symbol(library, "_Znwm");
    *(void **)&cxx_delete = symbol(library, "_ZdlPv");
    if (!tfr_torch.torch_parallel_for)
        dl_iterate_phdr(find_openmp, NULL);
    return cxx_new && cxx_delete ? NULL : "torch's C++ runtime has no operator new";
}

_Noreturn void tfr_torch_raise(const char *message) {
    tfr_torch.aoti_torch_check(false, "tfrewrite", "runtime/ops.c", 0, message);
    __builtin_unreachable();
}

bool tfr_torch_define(tfr_library library, const char *schema) {
    if (!tfr_torch.torch_library_def_with_tags)
        return tfr_torch.aoti_torch_library_def(library, schema) == 0;
    int32_t tag = tfr_torch.torch_tag_pt2_compliant_tag();
    return tfr_torch.torch_library_def_with_tags(library, schema, &tag, 1) == 0;
}

bool tfr_torch_implement(tfr_library library, const char *name, tfr_boxed function) {
    if (tfr_torch.torch_library_impl)
        return tfr_torch.torch_library_impl(library, name, function, BUILT_FOR) == 0;
    return tfr_torch.aoti_torch_library_impl(library, name, function) == 0;
}

const char *tfr_torch_last_error(void) {
    const char *what = tfr_torch.torch_exception_get_what_without_backtrace
                           ? tfr_torch.torch_exception_get_what_without_backtrace()
                           : NULL;
    return what && *what ? what : "torch printed why on standard error";
}

tfr_tensor tfr_torch_take_optional(tfr_value_bits value) {
    tfr_value_bits *held = (tfr_value_bits *)(uintptr_t)value;
    if (!held)
        return NULL;
    tfr_tensor tensor = tfr_torch_to_tensor(*held);
    if (tfr_torch.torch_delete_stable_ivalue)
        tfr_torch.torch_delete_stable_ivalue(held);
    else
        cxx_delete(held);
    return tensor;
}

tfr_value_bits tfr_torch_give_some(tfr_value_bits value) {
    tfr_value_bits *held = NULL;
    if (tfr_torch.torch_new_stable_ivalue)
        tfr_torch.torch_new_stable_ivalue(&held);
    else
        held = cxx_new(sizeof *held);
    *held = value;
    return (tfr_value_bits)(uintptr_t)held;
}

tfr_value_bits tfr_torch_give_optional(tfr_tensor tensor) {
    return tensor ? tfr_torch_give_some(tfr_torch_from_tensor(tensor)) : 0;
}

bool tfr_torch_call(const char *op, const char *overload, tfr_value_bits *stack) {
    if (tfr_torch.torch_call_dispatcher)
        return tfr_torch.torch_call_dispatcher(op, overload, stack, BUILT_FOR) == 0;
    return tfr_torch.aoti_torch_call_dispatcher(op, overload, stack) == 0;
}

bool tfr_torch_is_cpu(tfr_tensor t) {
    int32_t type;
    return tfr_torch.aoti_torch_get_device_type(t, &type) == 0 &&
           type == tfr_torch.aoti_torch_device_type_cpu();
}

// For 2.9: what later versions reach through the dispatcher.
static void *cuda_symbol(const char *name) {
    void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    return library ? symbol(library, name) : NULL;
}

bool tfr_torch_add(tfr_tensor a, tfr_tensor b, double alpha, tfr_tensor *out) {
    tfr_torch_error (*add)(tfr_tensor, tfr_tensor, double, tfr_tensor *);
    if (tfr_torch.aoti_torch_aten_subtract_Tensor)
        return tfr_torch.aoti_torch_aten_subtract_Tensor(a, b, -alpha, out) == 0;
    if (tfr_torch_is_cpu(a))
        return tfr_torch.aoti_torch_cpu_add_Tensor(a, b, alpha, out) == 0;
    *(void **)&add = cuda_symbol("aoti_torch_cuda_add_Tensor");
    return add && add(a, b, alpha, out) == 0;
}

bool tfr_torch_cat(const tfr_tensor *tensors, int64_t count, int64_t dim, tfr_tensor *out) {
    tfr_torch_error (*cat)(const tfr_tensor *, int64_t, int64_t, tfr_tensor *);
    if (tfr_torch_is_cpu(tensors[0]))
        return tfr_torch.aoti_torch_cpu_cat(tensors, count, dim, out) == 0;
    *(void **)&cat = cuda_symbol("aoti_torch_cuda_cat");
    return cat && cat(tensors, count, dim, out) == 0;
}

bool tfr_torch_cuda_stream(int32_t device, void **stream) {
    // libtorch_cuda.so is loaded with torch or never, so what dlsym finds stays as it is.
    static _Atomic(tfr_torch_error(*)(int32_t, void **)) current;
    tfr_torch_error (*function)(int32_t, void **) = current;
    if (!function) {
        void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
        *(void **)&function =
            library ? symbol(library, "aoti_torch_get_current_cuda_stream") : NULL;
        current = function;
    }
    return function && function(device, stream) == 0;
}

typedef struct openmp_loop {
    int64_t begin, end;
    void (*f)(int64_t, int64_t, void *);
    void *context;
} openmp_loop;

static void openmp_share(void *data) {
    const openmp_loop *loop = data;
    int64_t count = omp_count(), i = omp_thread(), all = loop->end - loop->begin;
    int64_t from = loop->begin + all * i / count, to = loop->begin + all * (i + 1) / count;
    if (from < to)
        loop->f(from, to, loop->context);
}

void tfr_torch_parallel(int64_t begin, int64_t end, int64_t grain,
                        void (*f)(int64_t, int64_t, void *), void *context) {
    grain = grain > 0 ? grain : 1;
    if (end - begin <= grain) {
        f(begin, end, context);
    } else if (tfr_torch.torch_parallel_for) {
        tfr_torch.torch_parallel_for(begin, end, grain, f, context);
    } else if (gomp_parallel && omp_threads && omp_thread && omp_count) {
        int64_t most = (end - begin + grain - 1) / grain, threads = omp_threads();
        openmp_loop loop = {begin, end, f, context};
        gomp_parallel(openmp_share, &loop, (unsigned)(most < threads ? most : threads), 0);
    } else {
        f(begin, end, context);
    }
}
