// Any bytes as a modeling file with a configuration, and as a configuration. Held: what a file
// needs is told or it is refused with a message; a size is positive; JSON is read or has a place
// where it is wrong.
#include "rewriter/manifest.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config_text[] =
    "{\"model_type\": \"x\", \"hidden_size\": 64, \"intermediate_size\": 96, \"head_dim\": 16, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"num_hidden_layers\": 3, "
    "\"rms_norm_eps\": 1e-6, \"hidden_act\": \"silu\", \"attention_bias\": false, "
    "\"text_config\": {\"vocab_size\": 100}, \"layer_types\": [\"a\", \"b\", \"a\"]}";

static void fail(const char *what) {
    fprintf(stderr, "fuzz_manifest: %s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tfr_rules *rules;
    static const tfr_need_dtype dtypes[] = {TFR_NEED_BF16};
    tfr_error err = {0};
    if (!rules && tfr_rules_new(&rules, NULL, 0, &err) != TFR_OK)
        fail(err.message);
    tfr_arena *arena = tfr_arena_new();
    tfr_str bytes = {(const char *)data, size};
    const tfr_json *any = NULL;
    if (tfr_config_from_bytes(&any, "config.json", bytes, arena, &err) != TFR_OK && !err.line)
        fail("wrong JSON has no place");
    tfr_kernel_ops kernels;
    tfr_kernels_list(&kernels, rules, arena);
    tfr_manifest manifest = {0};
    tfr_manifest_options options = {.rewrite = {.rules = rules, .target = TFR_TARGET_HOST},
                                    .kernels = &kernels,
                                    .config_name = "config.json",
                                    .dtypes = dtypes,
                                    .dtype_count = 1};
    if (tfr_config_from_bytes(&options.config, "config.json", TFR_STR(config_text), arena, &err) !=
        TFR_OK)
        fail(err.message);
    tfr_source source;
    err = (tfr_error){0};
    tfr_status status = tfr_source_from_bytes(&source, "fuzz.py", bytes, arena, &err);
    if (status == TFR_OK)
        status = tfr_manifest_add(&manifest, &source, &options, arena, &err);
    if (status != TFR_OK && !err.message[0])
        fail("refused without a message");
    for (uint32_t i = 0; i < manifest.needs.count; i++)
        for (uint32_t k = 0; k < manifest.needs.items[i].tensor_count; k++)
            if (manifest.needs.items[i].tensors[k].last < -1)
                fail("a size is negative");
    tfr_arena_free(arena);
    return 0;
}
