// Any bytes as a cubin and as PTX text. Held: they are refused, or there is a kernel with a name
// that lies in them; no read goes beyond them.
#include "jit/cubin.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *fault, const tfr_cubin *read, tfr_str bytes) {
    if (fault) {
        return;
    }
    const char *name = read->entry.data;
    bool inside = name >= bytes.data && name + read->entry.len <= bytes.data + bytes.len;
    if (!inside || !read->entry.len || memchr(name, 0, read->entry.len) || read->sm <= 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tfr_str bytes = {(const char *)data, size};
    tfr_cubin read;
    check(tfr_cubin_read(bytes, &read), &read, bytes);
    check(tfr_ptx_read(bytes, &read), &read, bytes);
    size_t count;
    const tfr_cuda_target *targets = tfr_cuda_targets(&count);
    for (size_t i = 0; i < count; i++) {
        if (!tfr_cubin_check(bytes, &targets[i], &read) && !read.max_threads) {
            abort();
        }
    }
    return 0;
}
