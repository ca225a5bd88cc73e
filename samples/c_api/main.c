// tfrewrite from C, without Python: rewrites a modeling file, lists and compiles the kernels that
// its model needs, and runs one of them.
//
//     c_api modeling_x.py config.json > rewritten.py
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tfrewrite.h"

static char *read_file(const char *path, size_t *length) {
    FILE *in = fopen(path, "rb");
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room);
    for (size_t n; in && text && (n = fread(text + size, 1, room - size, in)) > 0;) {
        size += n;
        if (size == room)
            text = realloc(text, room *= 2);
    }
    if (in)
        fclose(in);
    *length = size;
    return in ? text : NULL;
}

// RMS norm of four rows of 64 floats by a kernel that was made for any such shape.
static int run_rms_norm(const tfr_kernel *kernel, int64_t width) {
    enum { ROWS = 4 };
    float *x = malloc(sizeof *x * (size_t)(ROWS * width)),
          *weight = malloc(sizeof *x * (size_t)width);
    for (int64_t i = 0; i < ROWS * width; i++)
        x[i] = (float)(i % 7) - 3.0f;
    for (int64_t i = 0; i < width; i++)
        weight[i] = 1.0f;
    tfr_call call = {
        .input_count = 2,
        .output_count = 1,
        .number = {1e-6},
        .in =
            {{.data = x, .dtype = TFR_F32, .ndim = 2, .size = {ROWS, width}, .stride = {width, 1}},
             {.data = weight, .dtype = TFR_F32, .ndim = 1, .size = {width}, .stride = {1}}},
    };
    if (kernel->plan(&call) != 0) {
        fprintf(stderr, "rms_norm: %s\n", call.error);
        return 1;
    }
    float *out = call.out[0].data = malloc(sizeof *out * (size_t)(ROWS * width));
    void *scratch = aligned_alloc(64, (size_t)(call.scratch + 63) / 64 * 64 + 64);
    kernel->run(&call, 0, call.units, scratch);
    double squares = 0;
    for (int64_t i = 0; i < width; i++)
        squares += (double)out[i] * out[i];
    fprintf(stderr, "rms_norm: the mean square of a normalised row is %.6f\n",
            squares / (double)width);
    free(scratch), free(out), free(weight), free(x);
    return 0;
}

int main(int argc, char **argv) {
    char error[TFR_ERROR_SIZE] = "";
    size_t length, config_length, rewritten_length;
    if (argc != 3) {
        fprintf(stderr, "usage: c_api modeling_x.py config.json > rewritten.py\n");
        return 2;
    }
    char *text = read_file(argv[1], &length), *config = read_file(argv[2], &config_length);
    if (!text || !config) {
        fprintf(stderr, "%s cannot be read\n", text ? argv[2] : argv[1]);
        return 2;
    }

    tfr_engine *engine = tfr_engine_new(NULL, 0, error);
    tfr_rewritten *r =
        engine ? tfr_rewritten_new(engine, argv[1], text, length, "host", error) : NULL;
    tfr_kernel_set *set =
        r ? tfr_kernel_set_new(engine, argv[1], text, length, config, config_length, "f32", error)
          : NULL;
    int status = 3;
    if (!set || !tfr_kernel_set_compile(set, 0, error)) {
        fprintf(stderr, "%s\n", error);
        goto done;
    }
    const char *rewritten = tfr_rewritten_text(r, &rewritten_length);
    fwrite(rewritten, 1, rewritten_length, stdout);
    fprintf(stderr, "tfrewrite %s: %s, %zu kernels\n", tfr_library_version(),
            tfr_rewritten_changed(r) ? "rewritten" : "nothing to do", tfr_kernel_set_count(set));
    status = 0;
    for (size_t i = 0; i < tfr_kernel_set_count(set); i++) {
        const char *label = tfr_kernel_set_label(set, i), *width = strstr(label, "X_LAST=");
        const tfr_kernel *kernel = tfr_kernel_set_load(set, i, error);
        fprintf(stderr, "  %s\n", label);
        if (!kernel) {
            fprintf(stderr, "%s\n", error);
            status = 1;
        } else if (strncmp(label, "rms_norm.", 9) == 0 && width) {
            status |= run_rms_norm(kernel, strtoll(width + 7, NULL, 10));
        }
    }
    for (size_t i = 0; i < tfr_kernel_set_unknown_count(set); i++)
        fprintf(stderr, "  at run time: %s\n", tfr_kernel_set_unknown(set, i));
done:
    tfr_kernel_set_free(set);
    tfr_rewritten_free(r);
    tfr_engine_free(engine);
    free(text), free(config);
    return status;
}
