// Rule files: what is wrong with one is said with its place; a right one is found in a text.
#include "rewriter/rules.h"

#include "tests/unit/check.h"

#define IMPORT "from tfrewrite.rules import Const, Linear, Scalar, Tensor, op, ref, refuse\n"
#define OP "op(\"my_op(Tensor x, Tensor y) -> Tensor\")\n"

static tfr_status add(tfr_rules **rules, const char *text, tfr_error *err) {
    *err = (tfr_error){0};
    CHECK_INT(tfr_rules_new(rules, NULL, 0, err), TFR_OK);
    return tfr_rules_add(*rules, "dir/mine.py", tfr_str_from(text), err);
}

static void faults(void) {
    static const struct {
        const char *text, *message;
        uint32_t line;
    } cases[] = {
        {"x = = 1\n", "invalid Python", 1},
        {IMPORT, "no op(", 1},
        {IMPORT OP, "no function is decorated", 1},
        {IMPORT "op(1)\n", "needs a plain string", 2},
        {IMPORT "op(\"no schema\")\n", "must start with the op's name", 2},
        {IMPORT "op(\"rope(Tensor x) -> Tensor\")\n", "exists already", 1},
        {IMPORT OP "@ref(\"my_op(x, y)\")\ndef f(x: Tensor, y):\n    return x * y\n",
         "needs an annotation", 4},
        {IMPORT OP "@ref(\"my_op(x, y)\")\ndef f(x: Tensor, y: Thing):\n    return x * y\n",
         "unknown annotation", 4},
        {IMPORT OP "@ref(\"my_op()\")\ndef f():\n    return 1\n", "needs parameters", 4},
        {IMPORT OP "@ref(\"other(x, y)\")\ndef f(x: Tensor, y: Tensor):\n    return x * y\n",
         "names another op", 3},
        {IMPORT OP "@ref(\"my_op(x, z)\")\ndef f(x: Tensor, y: Tensor):\n    return x * y\n",
         "not a parameter", 3},
        {IMPORT OP "@ref(\"my_op(x, k=z)\")\ndef f(x: Tensor, y: Tensor):\n    return x * y\n",
         "neither a parameter nor a literal", 3},
        {IMPORT OP "@ref(\"my_op(x, y\")\ndef f(x: Tensor, y: Tensor):\n    return x * y\n",
         "must read like", 3},
        {IMPORT OP "@ref(\"my_op(x, y)\")\ndef f(x: Tensor, y: Tensor):\n    return x\n",
         "unchanged", 4},
        {IMPORT OP "@ref(\"my_op(x, y)\")\ndef f(x: Tensor, y: Tensor):\n    return print(x, y)\n",
         "may call only", 5},
        {IMPORT OP "@ref(\"my_op(x, y)\")\ndef f(x: Tensor, y: Tensor):\n    x * y\n",
         "must return one value", 4},
        {IMPORT OP "@ref(\"my_op(x, y)\")\ndef f(x: Tensor, y: Tensor):\n    x.add_(y)\n"
                   "    return x * y\n",
         "may call only", 5},
        {IMPORT OP "@ref(f)\ndef f(x: Tensor, y: Tensor):\n    return x * y\n",
         "needs a plain string", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_rules *rules;
        tfr_error err;
        CHECK_INT(add(&rules, cases[i].text, &err), TFR_E_USAGE);
        CHECK_HAS(err.message, cases[i].message);
        CHECK_INT(err.line, cases[i].line);
        CHECK(err.column > 0);
        CHECK_HAS(err.path, "dir/mine.py");
        tfr_rules_free(rules);
    }
}

static const char SOURCE[] = "import torch\ndef f(a: torch.Tensor, b: torch.Tensor):\n"
                             "    c = a - b\n    return c * torch.exp(b)\n";

static void rewrite(tfr_rules *rules, const char *expected, size_t fused) {
    tfr_arena *arena = tfr_arena_new();
    tfr_source src;
    tfr_error err = {0};
    tfr_result result;
    tfr_options options = {.rules = rules};
    CHECK_INT(tfr_source_from_bytes(&src, "x.py", TFR_STR(SOURCE), arena, &err), TFR_OK);
    CHECK_INT(tfr_rewrite(&result, &src, &options, arena, &err), TFR_OK);
    CHECK_STR(result.text, expected);
    CHECK_INT(result.report.fused.count, fused);
    tfr_arena_free(arena);
}

static void user_rules(void) {
    tfr_rules *rules;
    tfr_error err;
    CHECK_INT(add(&rules,
                  IMPORT OP "import torch\n@ref(\"my_op(x, y, kind='exp')\")\n"
                            "def f(x: Tensor, y: Tensor):\n    return (x - y) * y.exp()\n",
                  &err),
              TFR_OK);
    CHECK(tfr_rules_has_op(rules, TFR_STR("my_op")) && tfr_rules_has_op(rules, TFR_STR("rope")));
    CHECK(!tfr_rules_has_op(rules, TFR_STR("my")));
    rewrite(rules,
            "import torch\nfrom tfrewrite import ops as tfr\n"
            "def f(a: torch.Tensor, b: torch.Tensor):\n"
            "    return tfr.my_op(a, b, kind=\"exp\")\n",
            1);
    tfr_rules_free(rules);
    CHECK_INT(add(&rules,
                  IMPORT OP "@ref(\"my_op(x, y)\")\ndef f(x: Tensor, y: Tensor):\n"
                            "    return (x + y) * y.exp()\n",
                  &err),
              TFR_OK);
    rewrite(rules, SOURCE, 0);
    tfr_rules_free(rules);
}

int main(void) {
    faults();
    user_rules();
    return CHECK_DONE();
}
