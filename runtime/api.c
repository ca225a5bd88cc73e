// The C interface over rewriter/ and jit/: owns arenas and turns errors into sentences. Everything
// it does, the command line does too by the same calls.
#include "runtime/tfrewrite.h"

#include <stdio.h>

#include "runtime/requests.h"

struct tfr_engine {
    tfr_arena *arena;
    tfr_rules *rules;
    tfr_kernel_ops kernels;
};

struct tfr_rewritten {
    tfr_arena *arena;
    tfr_source source;
    tfr_result result;
    const char *json;
};

struct tfr_kernel_set {
    tfr_arena *arena;
    tfr_jit_request *requests;
    size_t count;
    const char **unknown;
    size_t unknown_count;
};

const char *tfr_library_version(void) { return TFR_VERSION; }

static void say(char *out, const char *text) {
    if (out)
        (void)snprintf(out, TFR_ERROR_SIZE, "%s", text);
}

static void say_error(char *out, const tfr_error *err) {
    if (!out)
        return;
    if (err->line)
        (void)snprintf(out, TFR_ERROR_SIZE, "%s:%u:%u: %s", err->path, err->line, err->column,
                       err->message);
    else
        (void)snprintf(out, TFR_ERROR_SIZE, "%s%s%s", err->path, *err->path ? ": " : "",
                       err->message);
}

tfr_engine *tfr_engine_new(const char *const *rule_dirs, size_t count, char *error) {
    tfr_error err = {0};
    tfr_rules *rules;
    if (tfr_rules_new(&rules, rule_dirs, rule_dirs ? count : 0, &err) != TFR_OK) {
        say_error(error, &err);
        return NULL;
    }
    tfr_arena *arena = tfr_arena_new();
    tfr_engine *engine = TFR_NEW(arena, tfr_engine);
    engine->arena = arena;
    engine->rules = rules;
    tfr_kernels_list(&engine->kernels, rules, arena);
    return engine;
}

void tfr_engine_free(tfr_engine *engine) {
    if (!engine)
        return;
    tfr_rules_free(engine->rules);
    tfr_arena_free(engine->arena);
}

static bool read_target(const char *text, tfr_target *out, char *error) {
    static const char *const names[] = {"auto", "host", "cuda"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (tfr_target)i;
            return true;
        }
    say(error, "the target is auto, host or cuda");
    return false;
}

tfr_rewritten *tfr_rewritten_new(const tfr_engine *engine, const char *path, const char *text,
                                 size_t length, const char *target, char *error) {
    tfr_error err = {0};
    tfr_options options = {.rules = engine->rules};
    if (!read_target(target, &options.target, error))
        return NULL;
    tfr_arena *arena = tfr_arena_new();
    tfr_rewritten *r = TFR_NEW(arena, tfr_rewritten);
    r->arena = arena;
    tfr_str bytes = {tfr_str_dup(arena, (tfr_str){text, length}), length};
    const char *name = tfr_str_dup(arena, tfr_str_from(path));
    if (tfr_source_from_bytes(&r->source, name, bytes, arena, &err) != TFR_OK ||
        tfr_rewrite(&r->result, &r->source, &options, arena, &err) != TFR_OK) {
        say_error(error, &err);
        tfr_arena_free(arena);
        return NULL;
    }
    tfr_buf json = {.arena = arena};
    tfr_report_json(&json, &r->result.report, 1);
    r->json = tfr_str_dup(arena, tfr_buf_str(&json));
    return r;
}

const char *tfr_rewritten_text(const tfr_rewritten *r, size_t *length) {
    *length = r->result.text.len;
    return r->result.text.data;
}
bool tfr_rewritten_changed(const tfr_rewritten *r) { return r->result.report.changed; }
const char *tfr_rewritten_json(const tfr_rewritten *r) { return r->json; }
void tfr_rewritten_free(tfr_rewritten *r) {
    if (r)
        tfr_arena_free(r->arena);
}

// ------------------------------------------------------------------ kernels
// "bf16,f32" in order; 0: a word is unknown.
static size_t read_dtypes(const char *text, tfr_need_dtype *out, size_t room) {
    size_t count = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ",");
        tfr_str word = {p, n};
        bool bf16 = tfr_str_eq(word, TFR_STR("bf16"));
        if ((!bf16 && !tfr_str_eq(word, TFR_STR("f32"))) || count == room)
            return 0;
        out[count++] = bf16 ? TFR_NEED_BF16 : TFR_NEED_F32;
        p += n + (p[n] == ',');
    }
    return count;
}

static void keep_unknown(tfr_kernel_set *set, const tfr_manifest *manifest) {
    tfr_arena *arena = set->arena;
    set->unknown_count = manifest->unmet.count;
    set->unknown = TFR_NEW_ARRAY(arena, const char *, set->unknown_count + 1);
    for (size_t i = 0; i < set->unknown_count; i++) {
        const tfr_unmet *u = &manifest->unmet.items[i];
        set->unknown[i] =
            tfr_str_format(arena, "%.*s in %.*s%s%.*s, line %u: %.*s", (int)u->op.len, u->op.data,
                           (int)u->class_name.len, u->class_name.data, u->class_name.len ? "." : "",
                           (int)u->function.len, u->function.data, u->line, (int)u->reason.len,
                           u->reason.data)
                .data;
    }
}

tfr_kernel_set *tfr_kernel_set_new(const tfr_engine *engine, const char *path, const char *text,
                                   size_t length, const char *config, size_t config_length,
                                   const char *dtypes, char *error) {
    tfr_error err = {0};
    tfr_need_dtype wanted[2];
    size_t dtype_count = read_dtypes(dtypes, wanted, 2);
    if (!dtype_count) {
        say(error, "dtypes are bf16 and f32, with a comma between");
        return NULL;
    }
    tfr_arena *arena = tfr_arena_new();
    tfr_kernel_set *set = TFR_NEW(arena, tfr_kernel_set);
    tfr_manifest *manifest = TFR_NEW(arena, tfr_manifest);
    const tfr_str host = TFR_STR("");
    tfr_source source;
    const tfr_json *parsed;
    tfr_manifest_options options = {
        .rewrite = {.rules = engine->rules, .target = TFR_TARGET_HOST},
        .kernels = &engine->kernels,
        .config_name = "config.json",
        .dtypes = wanted,
        .dtype_count = dtype_count,
    };
    set->arena = arena;
    bool ok =
        tfr_source_from_bytes(&source, path, (tfr_str){text, length}, arena, &err) == TFR_OK &&
        tfr_config_from_bytes(&parsed, "config.json", (tfr_str){config, config_length}, arena,
                              &err) == TFR_OK;
    if (ok) {
        options.config = parsed;
        ok = tfr_manifest_add(manifest, &source, &options, arena, &err) == TFR_OK &&
             tfr_requests_make(&set->requests, &set->count, manifest, &host, 1, arena, &err) ==
                 TFR_OK;
    }
    if (!ok) {
        say_error(error, &err);
        tfr_arena_free(arena);
        return NULL;
    }
    keep_unknown(set, manifest);
    return set;
}

size_t tfr_kernel_set_count(const tfr_kernel_set *set) { return set->count; }
const char *tfr_kernel_set_label(const tfr_kernel_set *set, size_t i) {
    return tfr_str_dup(set->arena, set->requests[i].label);
}
const char *tfr_kernel_set_source(const tfr_kernel_set *set, size_t i) {
    return tfr_str_dup(set->arena, set->requests[i].source);
}
size_t tfr_kernel_set_unknown_count(const tfr_kernel_set *set) { return set->unknown_count; }
const char *tfr_kernel_set_unknown(const tfr_kernel_set *set, size_t i) { return set->unknown[i]; }

bool tfr_kernel_set_compile(const tfr_kernel_set *set, int jobs, char *error) {
    tfr_error err = {0};
    tfr_jit_counts counts;
    tfr_status status = tfr_jit_warm(set->requests, set->count, jobs, NULL, NULL, &counts, &err);
    if (status == TFR_OK && !counts.failed)
        return true;
    say_error(error, &err);
    return false;
}

const tfr_kernel *tfr_kernel_set_load(const tfr_kernel_set *set, size_t i, char *error) {
    const tfr_kernel *kernel = tfr_jit_kernel(&set->requests[i], TFR_JIT_SYNC, NULL);
    char why[TFR_ERROR_SIZE];
    if (!kernel)
        say(error, tfr_jit_take_warning(why, sizeof why) ? why : "this kernel could not be made");
    return kernel;
}

void tfr_kernel_set_free(tfr_kernel_set *set) {
    if (set)
        tfr_arena_free(set->arena);
}
