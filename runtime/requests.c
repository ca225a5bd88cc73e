#include "runtime/requests.h"

static tfr_status read_template(tfr_str *out, const tfr_kernel_op *op, const char *name,
                                tfr_arena *arena, tfr_error *err) {
    if (op->directory)
        return tfr_template_read(out, op->directory, name, arena, err);
    *out = tfr_template_builtin(name);
    return out->data ? TFR_OK
                     : tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "%s.%s: there is no template %s",
                                op->op, op->variant, name);
}

tfr_status tfr_request_template(tfr_str *out, const tfr_kernel_op *op, tfr_arena *arena,
                                tfr_error *err) {
    return read_template(out, op, op->template_name, arena, err);
}

// One CUDA source serves all CUDA targets; only the label says which.
static tfr_jit_request for_target(const tfr_generated *made, tfr_str target, tfr_arena *arena) {
    tfr_str label = made->label;
    if (target.len)
        label = tfr_str_format(arena, "%.*s %.*s", (int)label.len, label.data, (int)target.len,
                               target.data);
    return (tfr_jit_request){label, made->source, target};
}

static tfr_status generate(tfr_generated *out, const tfr_kernel_op *op, bool cuda,
                           const char *options, const tfr_spec_tensor *tensors,
                           uint32_t tensor_count, tfr_arena *arena, tfr_error *err) {
    tfr_spec spec = {
        .label = tfr_str_format(arena, "%s.%s", op->op, op->variant).data,
        .template_name = cuda ? op->cuda_template : op->template_name,
        .options = options,
        .tensors = tensors,
        .tensor_count = tensor_count,
    };
    if (!spec.template_name)
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "%s.%s: there is no CUDA template", op->op,
                        op->variant);
    tfr_status status = read_template(&spec.template_text, op, spec.template_name, arena, err);
    if (status == TFR_OK)
        tfr_generate(out, &spec, arena);
    return status;
}

tfr_status tfr_request_make(tfr_jit_request *out, const tfr_kernel_op *op, tfr_str target,
                            const char *options, const tfr_spec_tensor *tensors,
                            uint32_t tensor_count, tfr_arena *arena, tfr_error *err) {
    tfr_generated made;
    tfr_status status =
        generate(&made, op, target.len > 0, options, tensors, tensor_count, arena, err);
    if (status == TFR_OK)
        *out = for_target(&made, target, arena);
    return status;
}

bool tfr_target_takes(const tfr_cuda_target *target, int32_t dtype) {
    return target ? dtype != TFR_BF16 || target->bf16 : dtype != TFR_F16;
}

bool tfr_request_fits(const tfr_need *need, tfr_str target) {
    const tfr_cuda_target *cuda = target.len ? tfr_cuda_target_find(target) : NULL;
    if (target.len && !need->op->cuda_template)
        return false;
    for (uint32_t i = 0; i < need->tensor_count; i++) {
        if (!tfr_target_takes(cuda, (int32_t)need->tensors[i].dtype))
            return false;
    }
    return true;
}

static bool is_new(const tfr_jit_request *requests, size_t count, const tfr_jit_request *made) {
    for (size_t i = 0; i < count; i++)
        if (tfr_str_eq(requests[i].target, made->target) &&
            tfr_str_eq(requests[i].source, made->source))
            return false;
    return true;
}

static tfr_status generate_for_need(tfr_generated *out, const tfr_need *need, bool cuda,
                                    tfr_arena *arena, tfr_error *err) {
    tfr_spec_tensor *tensors = TFR_NEW_ARRAY(arena, tfr_spec_tensor, need->tensor_count + 1);
    for (uint32_t t = 0; t < need->tensor_count; t++)
        tensors[t] = (tfr_spec_tensor){need->tensors[t].name, (int32_t)need->tensors[t].dtype,
                                       need->tensors[t].last};
    return generate(out, need->op, cuda, need->options, tensors, need->tensor_count, arena, err);
}

tfr_status tfr_requests_make(tfr_jit_request **out, size_t *count, const tfr_manifest *manifest,
                             const tfr_str *targets, size_t target_count, tfr_arena *arena,
                             tfr_error *err) {
    *count = 0;
    *out = TFR_NEW_ARRAY(arena, tfr_jit_request, manifest->needs.count * target_count + 1);
    for (size_t i = 0; i < manifest->needs.count; i++) {
        tfr_generated made[2] = {0}; // for the host, for CUDA
        for (size_t k = 0; k < target_count; k++) {
            bool cuda = targets[k].len > 0;
            if (!tfr_request_fits(&manifest->needs.items[i], targets[k]))
                continue;
            tfr_status status = TFR_OK;
            if (!made[cuda].source.data)
                status =
                    generate_for_need(&made[cuda], &manifest->needs.items[i], cuda, arena, err);
            if (status != TFR_OK)
                return status;
            tfr_jit_request request = for_target(&made[cuda], targets[k], arena);
            if (is_new(*out, *count, &request))
                (*out)[(*count)++] = request;
        }
    }
    return TFR_OK;
}
