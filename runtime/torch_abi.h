// PyTorch's stable C shim as this program sees it: our own declarations, and one function pointer
// per symbol, found with dlsym in the libtorch_cpu.so that the process has loaded. Nothing of torch
// is needed to build. tests/python/test_torch_abi.py holds the table against torch's headers.
#ifndef TFR_TORCH_ABI_H
#define TFR_TORCH_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tfr_at_tensor *tfr_tensor;   // AtenTensorHandle
typedef struct tfr_at_library *tfr_library; // TorchLibraryHandle
typedef struct tfr_at_list *tfr_list;       // StableListHandle
typedef struct tfr_at_text *tfr_text;       // StringHandle
typedef uint64_t tfr_value_bits;            // StableIValue
typedef int32_t tfr_torch_error;            // AOTITorchError: 0 is success
typedef void (*tfr_boxed)(tfr_value_bits *stack, uint64_t arguments, uint64_t results);

// X(result, name, arguments, first version that has it: 0x0209 is 2.9, the oldest supported)
#define TFR_TORCH_SYMBOLS(X)                                                                       \
    X(uint64_t, aoti_torch_abi_version, (void), 0x0209)                                            \
    X(tfr_torch_error, aoti_torch_library_init_def,                                                \
      (const char *, const char *, uint32_t, tfr_library *), 0x0209)                               \
    X(tfr_torch_error, aoti_torch_library_init_impl,                                               \
      (const char *, const char *, const char *, uint32_t, tfr_library *), 0x0209)                 \
    X(tfr_torch_error, aoti_torch_library_def, (tfr_library, const char *), 0x0209)                \
    X(tfr_torch_error, aoti_torch_library_impl, (tfr_library, const char *, tfr_boxed), 0x0209)    \
    X(tfr_torch_error, aoti_torch_get_data_ptr, (tfr_tensor, void **), 0x0209)                     \
    X(tfr_torch_error, aoti_torch_get_dim, (tfr_tensor, int64_t *), 0x0209)                        \
    X(tfr_torch_error, aoti_torch_get_sizes, (tfr_tensor, int64_t **), 0x0209)                     \
    X(tfr_torch_error, aoti_torch_get_strides, (tfr_tensor, int64_t **), 0x0209)                   \
    X(tfr_torch_error, aoti_torch_get_dtype, (tfr_tensor, int32_t *), 0x0209)                      \
    X(tfr_torch_error, aoti_torch_empty_strided,                                                   \
      (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tfr_tensor *),        \
      0x0209)                                                                                      \
    X(tfr_torch_error, aoti_torch_create_tensor_from_blob,                                         \
      (void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t, int32_t, int32_t,      \
       tfr_tensor *),                                                                              \
      0x0209)                                                                                      \
    X(tfr_torch_error, aoti_torch__reinterpret_tensor,                                             \
      (tfr_tensor, int64_t, const int64_t *, const int64_t *, int64_t, tfr_tensor *), 0x0209)      \
    X(tfr_torch_error, aoti_torch_new_tensor_handle, (tfr_tensor, tfr_tensor *), 0x0209)           \
    X(tfr_torch_error, aoti_torch_delete_tensor_object, (tfr_tensor), 0x0209)                      \
    X(tfr_torch_error, aoti_torch_call_dispatcher, (const char *, const char *, tfr_value_bits *), \
      0x0209)                                                                                      \
    X(int32_t, aoti_torch_dtype_float32, (void), 0x0209)                                           \
    X(int32_t, aoti_torch_dtype_bfloat16, (void), 0x0209)                                          \
    X(int32_t, aoti_torch_dtype_float16, (void), 0x0209)                                           \
    X(int32_t, aoti_torch_dtype_float64, (void), 0x0209)                                           \
    X(tfr_torch_error, aoti_torch_scalar_to_tensor_float64, (double, tfr_tensor *), 0x0209)        \
    X(tfr_torch_error, aoti_torch_cpu_add_Tensor, (tfr_tensor, tfr_tensor, double, tfr_tensor *),  \
      0x0209)                                                                                      \
    X(tfr_torch_error, aoti_torch_cpu_pow_Tensor_Scalar, (tfr_tensor, double, tfr_tensor *),       \
      0x0209)                                                                                      \
    X(tfr_torch_error, aoti_torch_cpu_cat, (const tfr_tensor *, int64_t, int64_t, tfr_tensor *),   \
      0x0209)                                                                                      \
    X(int32_t, aoti_torch_device_type_cpu, (void), 0x0209)                                         \
    X(tfr_torch_error, aoti_torch_get_device_type, (tfr_tensor, int32_t *), 0x0209)                \
    X(tfr_torch_error, aoti_torch_get_device_index, (tfr_tensor, int32_t *), 0x0209)               \
    X(void, aoti_torch_check, (bool, const char *, const char *, uint32_t, const char *), 0x0209)  \
    X(void, aoti_torch_warn, (const char *, const char *, uint32_t, const char *), 0x0209)         \
    X(tfr_torch_error, torch_library_impl, (tfr_library, const char *, tfr_boxed, uint64_t),       \
      0x020a)                                                                                      \
    X(tfr_torch_error, torch_call_dispatcher,                                                      \
      (const char *, const char *, tfr_value_bits *, uint64_t), 0x020a)                            \
    X(tfr_torch_error, torch_parallel_for,                                                         \
      (int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void *), void *), 0x020a)             \
    X(tfr_torch_error, torch_get_num_threads, (uint32_t *), 0x020a)                                \
    X(tfr_torch_error, aoti_torch_aten_subtract_Tensor,                                            \
      (tfr_tensor, tfr_tensor, double, tfr_tensor *), 0x020a)                                      \
    X(tfr_torch_error, torch_new_list_reserve_size, (size_t, tfr_list *), 0x020a)                  \
    X(tfr_torch_error, torch_list_push_back, (tfr_list, tfr_value_bits), 0x020a)                   \
    X(tfr_torch_error, torch_list_size, (tfr_list, size_t *), 0x020a)                              \
    X(tfr_torch_error, torch_list_get_item, (tfr_list, size_t, tfr_value_bits *), 0x020a)          \
    X(tfr_torch_error, torch_delete_list, (tfr_list), 0x020a)                                      \
    X(tfr_torch_error, torch_new_string_handle, (const char *, size_t, tfr_text *), 0x020a)        \
    X(tfr_torch_error, torch_delete_string, (tfr_text), 0x020a)                                    \
    X(tfr_torch_error, torch_library_def_with_tags,                                                \
      (tfr_library, const char *, const int32_t *, int32_t), 0x020c)                               \
    X(int32_t, torch_tag_pt2_compliant_tag, (void), 0x020c)                                        \
    X(const char *, torch_exception_get_what_without_backtrace, (void), 0x020d)                    \
    X(tfr_torch_error, torch_new_stable_ivalue, (tfr_value_bits **), 0x020d)                       \
    X(tfr_torch_error, torch_delete_stable_ivalue, (tfr_value_bits *), 0x020d)

typedef struct tfr_torch_api {
#define X(result, name, arguments, version) result(*name) arguments;
    TFR_TORCH_SYMBOLS(X)
#undef X
} tfr_torch_api;

// Filled by tfr_torch_resolve and constant from then on; NULL members: this torch is older.
extern tfr_torch_api tfr_torch;

// NULL, or why torch's shim cannot be used, as a sentence for the user.
const char *tfr_torch_resolve(void);

// Raises RuntimeError in Python: a C++ exception, which unwinds through the frames above (built
// with -fexceptions). Release every handle before. `message` is copied.
_Noreturn void tfr_torch_raise(const char *message);

// Defines or implements an op with the calling conventions of 2.9. False: torch refused.
bool tfr_torch_define(tfr_library library, const char *schema);
bool tfr_torch_implement(tfr_library library, const char *name, tfr_boxed function);
const char *tfr_torch_last_error(void); // what torch said, or a pointer to its output

// The tensor of an argument `Tensor?`, now the caller's; NULL: None was given. Frees what held it.
tfr_tensor tfr_torch_take_optional(tfr_value_bits value);
// The reverse: an argument `Tensor?` for the dispatcher, which takes `tensor` (NULL: None).
tfr_value_bits tfr_torch_give_optional(tfr_tensor tensor);

// Any other optional argument that is given.
tfr_value_bits tfr_torch_give_some(tfr_value_bits value);

// a + alpha * b, alpha 1 or -1, as torch's add and sub give it. The shim carries no Scalar, so they
// cannot be called by name. False: it raised.
bool tfr_torch_add(tfr_tensor a, tfr_tensor b, double alpha, tfr_tensor *out);
// torch.cat where the shim carries no lists.
bool tfr_torch_cat(const tfr_tensor *tensors, int64_t count, int64_t dim, tfr_tensor *out);
bool tfr_torch_is_cpu(tfr_tensor t);

// Calls an aten op. The tensors on `stack` are given away; the result is the caller's. False: it
// raised; torch has printed why.
bool tfr_torch_call(const char *op, const char *overload, tfr_value_bits *stack);

// The stream of this thread on a CUDA device. False: this torch has no CUDA, or it failed.
bool tfr_torch_cuda_stream(int32_t device, void **stream);

// f over [begin, end) in torch's threads, at least `grain` pieces each. f must not raise.
void tfr_torch_parallel(int64_t begin, int64_t end, int64_t grain,
                        void (*f)(int64_t, int64_t, void *), void *context);

static inline tfr_value_bits tfr_torch_from_tensor(tfr_tensor t) {
    return (tfr_value_bits)(uintptr_t)t;
}
static inline tfr_tensor tfr_torch_to_tensor(tfr_value_bits v) { return (tfr_tensor)(uintptr_t)v; }

#endif
