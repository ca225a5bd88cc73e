// Any bytes as a user's rule file. Held: it is taken, or refused with a message; with the rules
// that were taken, a small module can still be rewritten or refused.
#include "rewriter/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char module[] =
    "import torch\n"
    "from torch import nn\n"
    "import torch.nn.functional as F\n"
    "class Norm(nn.Module):\n"
    "    def __init__(self, n):\n"
    "        super().__init__()\n"
    "        self.weight = nn.Parameter(torch.ones(n))\n"
    "        self.eps = 1e-6\n"
    "    def forward(self, x):\n"
    "        h = x.to(torch.float32)\n"
    "        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)\n"
    "        return self.weight * h.to(x.dtype)\n"
    "class MLP(nn.Module):\n"
    "    def __init__(self, n):\n"
    "        super().__init__()\n"
    "        self.gate, self.up, self.down = nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, n)\n"
    "        self.norm = Norm(n)\n"
    "    def forward(self, x):\n"
    "        y = x + self.down(F.silu(self.gate(x)) * self.up(x))\n"
    "        return self.norm(y), y\n";

static void check(const char *what, tfr_status status, const tfr_error *err) {
    if (status == TFR_OK || err->message[0] != '\0')
        return;
    fprintf(stderr, "fuzz_rules: %s failed without a message\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tfr_error err = {0};
    tfr_rules *rules = NULL;
    tfr_status status = tfr_rules_new(&rules, NULL, 0, &err);
    check("loading the built-in rules", status, &err);
    if (status != TFR_OK)
        abort();
    status = tfr_rules_add(rules, "fuzz.py", (tfr_str){(const char *)data, size}, &err);
    check("the rule file", status, &err);
    if (status == TFR_OK) {
        tfr_arena *arena = tfr_arena_new();
        tfr_source src;
        tfr_result out;
        tfr_options options = {.rules = rules};
        status = tfr_source_from_bytes(&src, "module.py", TFR_STR(module), arena, &err);
        if (status == TFR_OK)
            status = tfr_rewrite(&out, &src, &options, arena, &err);
        check("the rewrite", status, &err);
        tfr_arena_free(arena);
    }
    tfr_rules_free(rules);
    return 0;
}
