// What rewriter/manifest.h says is needed, compiled by jit/, and the report of it.
#include "cli/warmup.h"

#include "jit/cache.h"
#include "jit/target.h"
#include "runtime/requests.h"

#define UNMET_ROWS 12

static const struct {
    const char *word, *name; // of --dtype, of a configuration
    tfr_need_dtype dtype;
} DTYPES[] = {
    {"bf16", "bfloat16", TFR_NEED_BF16},
    {"f16", "float16", TFR_NEED_F16},
    {"f32", "float32", TFR_NEED_F32},
};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

// What the configuration says its weights are; false: nothing, or a dtype without kernels.
static bool dtype_of_config(const tfr_json *config, tfr_need_dtype *out) {
    static const char *const KEYS[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const tfr_json *value = tfr_config_get(config, tfr_str_from(KEYS[i]));
        for (int k = 0; value && value->kind == TFR_JSON_TEXT && k < DTYPE_COUNT; k++) {
            if (tfr_str_eq(value->text, tfr_str_from(DTYPES[k].name))) {
                *out = DTYPES[k].dtype;
                return true;
            }
        }
    }
    return false;
}

static bool is_for_host(const tfr_warmup *w) {
    for (size_t i = 0; i < w->targets.count; i++) {
        if (!w->targets.items[i].len) {
            return true;
        }
    }
    return false;
}

static void set_targets(tfr_warmup *w, const tfr_args *args) {
    for (size_t i = 0; i < args->archs.count; i++) {
        tfr_str arch = args->archs.items[i];
        *TFR_PUSH(w->arena, &w->targets) = tfr_str_eq(arch, TFR_STR("host")) ? TFR_STR("") : arch;
    }
    if (!args->archs.count) {
        *TFR_PUSH(w->arena, &w->targets) = TFR_STR("");
    }
}

// Those of --dtype, else the configuration's. Where it says none that all targets have kernels for,
// bfloat16 and float32.
static void set_dtypes(tfr_warmup *w, const tfr_args *args) {
    bool wanted[DTYPE_COUNT] = {false};
    tfr_need_dtype own = TFR_NEED_ABSENT;
    bool said = args->dtypes.count || dtype_of_config(w->options.config, &own);
    bool usual = !said || (own == TFR_NEED_F16 && is_for_host(w));
    for (int k = 0; k < DTYPE_COUNT; k++) {
        for (size_t i = 0; i < args->dtypes.count; i++) {
            wanted[k] |= tfr_str_eq(args->dtypes.items[i], tfr_str_from(DTYPES[k].word));
        }
        wanted[k] |= own == DTYPES[k].dtype || (usual && DTYPES[k].dtype != TFR_NEED_F16);
        if (wanted[k]) {
            w->dtypes[w->options.dtype_count++] = DTYPES[k].dtype;
        }
    }
    w->options.dtypes = w->dtypes;
}

tfr_status tfr_warmup_open(tfr_warmup *out, const tfr_args *args, const tfr_rules *rules,
                           tfr_arena *arena, tfr_error *err) {
    *out = (tfr_warmup){.arena = arena, .verbose = args->verbose};
    const char *slash = strrchr(args->config, '/');
    out->options = (tfr_manifest_options){
        .rewrite = {.rules = rules,
                    .target = TFR_TARGET_HOST,
                    .only = args->only.count ? args->only.items : NULL,
                    .only_count = args->only.count,
                    .skip = args->skip.count ? args->skip.items : NULL,
                    .skip_count = args->skip.count},
        .kernels = &out->kernels,
        .config_name = slash ? slash + 1 : args->config,
    };
    tfr_status status = tfr_config_read(&out->options.config, args->config, arena, err);
    if (status) {
        return status;
    }
    tfr_kernels_list(&out->kernels, rules, arena);
    set_targets(out, args);
    set_dtypes(out, args);
    return TFR_OK;
}

tfr_status tfr_warmup_add(tfr_warmup *w, const char *path, tfr_error *err) {
    tfr_arena *arena = tfr_arena_new();
    tfr_source source;
    tfr_status status = tfr_source_read(&source, path, arena, err);
    if (!status) {
        status = tfr_manifest_add(&w->manifest, &source, &w->options, w->arena, err);
    }
    tfr_arena_free(arena);
    return status;
}

tfr_status tfr_warmup_run(tfr_warmup *w, int jobs, tfr_warmup_progress progress, void *context,
                          tfr_jit_counts *counts, tfr_error *err) {
    *counts = (tfr_jit_counts){0};
    tfr_jit_request *requests;
    tfr_status status = tfr_requests_make(&requests, &w->kernel_count, &w->manifest,
                                          w->targets.items, w->targets.count, w->arena, err);
    if (status) {
        return status;
    }
    if (!w->kernel_count) {
        return TFR_OK;
    }
    if (progress) {
        progress(context, 0, w->kernel_count, requests[0].label);
    }
    return tfr_jit_warm(requests, w->kernel_count, jobs, progress, context, counts, err);
}

// --- the report ---

// A reason may hold what stands in the configuration: no control characters.
static void add_unmet(tfr_buf *out, const tfr_unmet *u) {
    size_t start = out->len;
    tfr_buf_format(out, "not warmed: %.*s in %.*s%s%.*s line %u: %.*s", (int)u->op.len, u->op.data,
                   (int)u->class_name.len, u->class_name.data, u->class_name.len ? "." : "",
                   (int)u->function.len, u->function.data, u->line, (int)u->reason.len,
                   u->reason.data);
    for (size_t i = start; i < out->len; i++) {
        unsigned char c = (unsigned char)out->data[i];
        out->data[i] = c < ' ' || c == 0x7f ? '?' : out->data[i];
    }
    tfr_buf_add(out, "\n", 1);
}

// One line for a target that lacks bfloat16, where a kernel is left out for that.
static void add_left_out(tfr_buf *out, const tfr_warmup *w, const tfr_cuda_target *target) {
    size_t count = 0;
    for (uint32_t i = 0; i < w->manifest.needs.count; i++) {
        const tfr_need *need = &w->manifest.needs.items[i];
        count += need->op->cuda_template && !tfr_request_fits(need, tfr_str_from(target->name));
    }
    if (count) {
        tfr_buf_format(out, "not warmed: %zu kernel%s for %s, which has no bfloat16\n", count,
                       count == 1 ? "" : "s", target->name);
    }
}

void tfr_warmup_report(tfr_buf *out, const tfr_warmup *w, const tfr_jit_counts *counts) {
    for (size_t i = 0; i < w->targets.count; i++) {
        tfr_str name = w->targets.items[i];
        const tfr_cuda_target *target = name.len ? tfr_cuda_target_find(name) : NULL;
        if (target && !target->bf16) {
            add_left_out(out, w, target);
        }
    }
    size_t unmet = w->manifest.unmet.count;
    for (uint32_t i = 0; i < unmet && (w->verbose || i < UNMET_ROWS); i++) {
        add_unmet(out, &w->manifest.unmet.items[i]);
    }
    if (unmet > UNMET_ROWS && !w->verbose) {
        tfr_buf_format(out, "not warmed: %zu more; --verbose lists them\n", unmet - UNMET_ROWS);
    }
    size_t kernels = w->kernel_count;
    char path[4096];
    bool has_path = tfr_cache_path(path, sizeof path, NULL) == TFR_OK;
    tfr_buf_format(out, "%zu kernel%s: %zu compiled, %zu in the cache, %zu failed (cache: %s)\n",
                   kernels, kernels == 1 ? "" : "s", counts->compiled, counts->found,
                   counts->failed, has_path ? path : "none");
}
