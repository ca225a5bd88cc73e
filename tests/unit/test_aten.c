// The aten programs of all built-in references, as text: tests/unit/aten_programs.txt is what they
// must be. With an argument, writes that file instead.
#include "codegen_templates/acts.h"
#include "rewriter/kernels.h"
#include "tests/unit/check.h"

static const char GOLDEN[] = "tests/unit/aten_programs.txt";

static void print_ops(tfr_buf *out, const tfr_kernel_ops *ops) {
    for (uint32_t i = 0; i < ops->ops.count; i++) {
        const tfr_kernel_op *op = &ops->ops.items[i];
        tfr_buf_format(out, "tfr::%s\n", op->schema);
        if (!op->aten) { // docs/CUDA.md says what then happens
            tfr_buf_format(out, "%s\n\n", op->no_aten);
            continue;
        }
        CHECK_INT(op->aten->result_count, op->output_count);
        tfr_aten_print(out, op->aten);
        tfr_buf_format(out, "\n");
    }
}

// acts.py has the functions of acts.h, in its order.
static void print_acts(tfr_buf *out, const tfr_aten_parts *parts) {
#define NAME(name) #name,
    static const char *const names[] = {TFR_ACT_VALUES(NAME)};
#undef NAME
    CHECK_INT(parts->act_count, TFR_ACT_COUNT);
    for (uint32_t i = 0; i < parts->act_count; i++) {
        char lower[32] = "";
        for (size_t c = 0; names[i][c] && c + 1 < sizeof lower; c++) // "NEW_GELU": new_gelu
            lower[c] = names[i][c] == '_' ? '_' : (char)(names[i][c] | 32);
        CHECK_STR(tfr_str_from(parts->act_names[i]), lower);
        tfr_buf_format(out, "activation %u, %s(x)\n", i, parts->act_names[i]);
        CHECK(parts->acts[i]);
        if (parts->acts[i])
            tfr_aten_print(out, parts->acts[i]);
        tfr_buf_format(out, "\n");
    }
}

static void compare(tfr_str text, tfr_arena *arena) {
    tfr_source golden;
    tfr_error err;
    CHECK_INT(tfr_source_read(&golden, GOLDEN, arena, &err), TFR_OK);
    size_t same = 0, line = 1;
    while (same < text.len && same < golden.bytes.len && text.data[same] == golden.bytes.data[same])
        line += text.data[same++] == '\n';
    if (same < text.len || same < golden.bytes.len) {
        check_failures++;
        fprintf(stderr,
                "%s:%zu: the programs are others now; if they should be, write it anew:\n"
                "  test_aten write, in the repository's root\n",
                GOLDEN, line);
    }
}

// What the table does not know is said, and leaves the op without a program.
static void refusals(void) {
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"x.cumsum(-1) * y", "the op cumsum"},
        {"1 - x * y", "a number on the left of sub"},
        {"x[:, 1] * y", "a subscript other than [..., a:b:c]"},
        {"x * y.to(torch.int8)", "the name torch.int8"},
        {"x.mean(dtype=y.dtype) * y", NULL},
        {"torch.cat([x, y], x)", "these arguments of cat"},
        {"x.sum('a') * y", "this list"},
        {"x * torch.relu(y, True)", "may call only"},
        {"x.to(torch.float32, copy=True) * y", "these arguments of to"},
        {"x if x.dtype == y.dtype else x * y", "the comparison =="},
        {"x.chunk(2, -1)[2] * y", "this use of chunk"},
        {"x[:, 1:] * x[:, :, None]", "a subscript other than [..., a:b:c]"},
        {"x[:, 1:] * x.unbind(-1)[1]", NULL},
        {"x.reshape(y.shape) * y", NULL},
        {"x.view(*x.shape[:-2], -1) * y", NULL},
        {"x.view(*x.shape[1:], -1) * y", "this use of *"},
        {"x.unflatten(0, (1, -1)) * y", "this use of unflatten"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_arena *arena = tfr_arena_new();
        tfr_rules *rules;
        tfr_error err = {0};
        tfr_kernel_ops ops;
        CHECK_INT(tfr_rules_new(&rules, NULL, 0, &err), TFR_OK);
        tfr_str text = tfr_str_format(
            arena,
            "import torch\nfrom tfrewrite.rules import Tensor, op, ref\n"
            "op(\"mine(Tensor x, Tensor y) -> Tensor\", cpu=\"mine.c\")\n"
            "@ref(\"mine(x, y)\", kernel=\"\")\ndef f(x: Tensor, y: Tensor):\n    return %s\n",
            cases[i].body);
        if (tfr_rules_add(rules, "mine.py", text, &err) != TFR_OK) {
            CHECK_HAS(err.message, cases[i].why);
        } else {
            tfr_kernels_list(&ops, rules, arena);
            const tfr_kernel_op *op = tfr_kernels_find(&ops, TFR_STR("mine"), TFR_STR("f"), 0);
            CHECK_INT(op->aten != NULL, cases[i].why == NULL);
            CHECK_INT(op->no_aten == NULL, cases[i].why == NULL);
            if (cases[i].why && op->no_aten)
                CHECK_HAS(op->no_aten, cases[i].why);
        }
        tfr_rules_free(rules);
        tfr_arena_free(arena);
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
    print_ops(&out, &ops);
    print_acts(&out, ops.ops.items[0].aten->parts);
    FILE *file = argc > 1 ? fopen(GOLDEN, "w") : NULL;
    if (file) {
        fwrite(out.data, 1, out.len, file);
        fclose(file);
    }
    compare(tfr_buf_str(&out), arena);
    refusals();
    tfr_rules_free(rules);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
