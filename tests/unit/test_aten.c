// The aten programs of all built-in references, held against tests/unit/aten_programs.txt. With an
// argument: writes them there.
#include "rewriter/kernels.h"

#include "codegen_templates/acts.h"
#include "tests/unit/check.h"

static const char GOLDEN[] = "tests/unit/aten_programs.txt";

static void print_all(tfr_buf *out, const tfr_kernel_ops *ops) {
    const tfr_aten_parts *parts = ops->ops.items[0].aten->parts;
    for (uint32_t i = 0; i < ops->ops.count; i++) {
        const tfr_kernel_op *op = &ops->ops.items[i];
        if (!op->aten) {
            fprintf(stderr, "%s.%s has no program: %s\n", op->op, op->variant, op->no_aten);
            check_failures++;
            continue;
        }
        tfr_buf_format(out, "tfr::%s\n", op->schema);
        tfr_aten_print(out, op->aten);
        tfr_buf_format(out, "\n");
        CHECK_INT(op->aten->result_count, op->output_count);
    }
    for (uint32_t i = 0; i < parts->act_count; i++) {
        tfr_buf_format(out, "act %u, %s(x)\n", i, parts->act_names[i]);
        CHECK(parts->acts[i]);
        if (parts->acts[i])
            tfr_aten_print(out, parts->acts[i]);
        tfr_buf_format(out, "\n");
    }
}

int main(int argc, char **argv) {
    (void)argv;
    tfr_arena *arena = tfr_arena_new();
    tfr_rules *rules;
    tfr_error err;
    tfr_kernel_ops ops;
    tfr_buf out = {.arena = arena};
    CHECK_INT(tfr_rules_new(&rules, NULL, 0, &err), TFR_OK);
    tfr_kernels_list(&ops, rules, arena);
    print_all(&out, &ops);
    if (argc > 1) {
        FILE *file = fopen(GOLDEN, "w");
        fwrite(out.data, 1, out.len, file);
        fclose(file);
    }
    return CHECK_DONE();
}
