// What a kernel is asked of jit/ by. The text is the cache's key, so whoever asks for a kernel,
// a call at run time, `tfrewrite warmup` or the C interface, has its request made here.
#ifndef TFR_REQUESTS_H
#define TFR_REQUESTS_H

#include "jit/generate.h"
#include "jit/jit.h"
#include "jit/target.h"
#include "rewriter/manifest.h"

// The request for one op with these options ("ORDER=CAST_WEIGHT"), dtypes and sizes. `target`: as
// in tfr_jit_request. Strings live in `arena`. Fails where there is no template.
tfr_status tfr_request_make(tfr_jit_request *out, const tfr_kernel_op *op, tfr_str target,
                            const char *options, const tfr_spec_tensor *tensors,
                            uint32_t tensor_count, tfr_arena *arena, tfr_error *err);

// The host's template of an op.
tfr_status tfr_request_template(tfr_str *out, const tfr_kernel_op *op, tfr_arena *arena,
                                tfr_error *err);

// Whether kernels for this target (NULL: the host) take a dtype, TFR_F32 or the like.
bool tfr_target_takes(const tfr_cuda_target *target, int32_t dtype);
// Whether there are kernels for this target with the dtypes of this need.
bool tfr_request_fits(const tfr_need *need, tfr_str target);

// The requests for all that a model needs, for each of the targets that there are kernels for, each
// once: several needs may come to one kernel, as a template need not use all that it is told.
tfr_status tfr_requests_make(tfr_jit_request **out, size_t *count, const tfr_manifest *manifest,
                             const tfr_str *targets, size_t target_count, tfr_arena *arena,
                             tfr_error *err);

#endif
