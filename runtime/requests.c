#include "runtime/requests.h"

tfr_status tfr_request_template(tfr_str *out, const tfr_kernel_op *op, tfr_arena *arena,
                                tfr_error *err) {
    if (op->directory)
        return tfr_template_read(out, op->directory, op->template_name, arena, err);
    *out = tfr_template_builtin(op->template_name);
    return out->data ? TFR_OK
                     : tfr_fail(err, TFR_E_USAGE, NULL, 0, 0, "%s.%s: there is no template %s",
                                op->op, op->variant, op->template_name);
}

tfr_status tfr_request_make(tfr_jit_request *out, const tfr_kernel_op *op, const char *options,
                            const tfr_spec_tensor *tensors, uint32_t tensor_count, tfr_arena *arena,
                            tfr_error *err) {
    tfr_generated made;
    tfr_spec spec = {
        .label = tfr_str_format(arena, "%s.%s", op->op, op->variant).data,
        .template_name = op->template_name,
        .options = options,
        .tensors = tensors,
        .tensor_count = tensor_count,
    };
    tfr_status status = tfr_request_template(&spec.template_text, op, arena, err);
    if (status != TFR_OK)
        return status;
    tfr_generate(&made, &spec, arena);
    *out = (tfr_jit_request){made.label, made.source};
    return TFR_OK;
}

static bool is_new(const tfr_jit_request *requests, size_t count, const tfr_jit_request *made) {
    for (size_t i = 0; i < count; i++)
        if (tfr_str_eq(requests[i].source, made->source))
            return false;
    return true;
}

tfr_status tfr_requests_make(tfr_jit_request **out, size_t *count, const tfr_manifest *manifest,
                             tfr_arena *arena, tfr_error *err) {
    *count = 0;
    *out = TFR_NEW_ARRAY(arena, tfr_jit_request, manifest->needs.count + 1);
    for (size_t i = 0; i < manifest->needs.count; i++) {
        const tfr_need *need = &manifest->needs.items[i];
        tfr_spec_tensor *tensors = TFR_NEW_ARRAY(arena, tfr_spec_tensor, need->tensor_count + 1);
        for (uint32_t t = 0; t < need->tensor_count; t++)
            tensors[t] = (tfr_spec_tensor){need->tensors[t].name, (int32_t)need->tensors[t].dtype,
                                           need->tensors[t].last};
        tfr_jit_request made;
        tfr_status status = tfr_request_make(&made, need->op, need->options, tensors,
                                             need->tensor_count, arena, err);
        if (status != TFR_OK)
            return status;
        if (is_new(*out, *count, &made))
            (*out)[(*count)++] = made;
    }
    return TFR_OK;
}
