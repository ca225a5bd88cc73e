// Which kernels a modeling file needs with a configuration: sizes, dtypes and options that follow,
// and reasons where they do not. The text is rewritten first, or has been already.
#include "rewriter/manifest.h"

#include "tests/unit/check.h"

#define HEAD                                                                                       \
    "import torch\nfrom torch import nn\nfrom transformers.activations import ACT2FN\n"            \
    "class Norm(nn.Module):\n"                                                                     \
    "    def __init__(self, size, eps=1e-6):\n"                                                    \
    "        super().__init__()\n"                                                                 \
    "        self.weight = nn.Parameter(torch.ones(size))\n"                                       \
    "        self.eps = eps\n"                                                                     \
    "    def forward(self, x):\n"                                                                  \
    "        h = x.to(torch.float32)\n"                                                            \
    "        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)\n"                    \
    "        return self.weight * h.to(x.dtype)\n"

#define CLASS(name, init, forward)                                                                 \
    "class " name "(nn.Module):\n    def __init__(self, config, layer_idx=None):\n"                \
    "        super().__init__()\n" init "    def forward(self, x):\n" forward

#define LINEAR "        return self.p(x)\n"

static tfr_rules *rules;

// What `text` needs with `config` in `dtypes`, one line each, then what is not warmed.
static const char *needs_in(tfr_arena *arena, const char *text, const char *config,
                            const tfr_need_dtype *dtypes, size_t dtype_count) {
    tfr_error err = {0};
    tfr_source source;
    tfr_kernel_ops kernels;
    tfr_manifest manifest = {0};
    tfr_manifest_options options = {.rewrite = {.rules = rules, .target = TFR_TARGET_HOST},
                                    .kernels = &kernels,
                                    .config_name = "config.json",
                                    .dtypes = dtypes,
                                    .dtype_count = dtype_count};
    tfr_kernels_list(&kernels, rules, arena);
    bool ok = tfr_config_from_bytes(&options.config, "config.json", tfr_str_from(config), arena,
                                    &err) == TFR_OK &&
              tfr_source_from_bytes(&source, "x.py", tfr_str_from(text), arena, &err) == TFR_OK &&
              tfr_manifest_add(&manifest, &source, &options, arena, &err) == TFR_OK;
    if (!ok)
        fprintf(stderr, "%s\n%s\n", err.message, text);
    CHECK(ok);
    tfr_buf out = {.arena = arena};
    for (uint32_t i = 0; i < manifest.needs.count; i++) {
        tfr_need_print(&out, &manifest.needs.items[i]);
        tfr_buf_format(&out, "\n");
    }
    for (uint32_t i = 0; i < manifest.unmet.count; i++) {
        const tfr_unmet *u = &manifest.unmet.items[i];
        tfr_buf_format(&out, "not warmed: %.*s in %.*s.%.*s line %u: %.*s\n", (int)u->op.len,
                       u->op.data, (int)u->class_name.len, u->class_name.data, (int)u->function.len,
                       u->function.data, u->line, (int)u->reason.len, u->reason.data);
    }
    return tfr_str_dup(arena, tfr_buf_str(&out));
}

static const char *needs(tfr_arena *arena, const char *text, const char *config) {
    static const tfr_need_dtype BF16 = TFR_NEED_BF16;
    return needs_in(arena, text, config, &BF16, 1);
}

#define CHECK_NEEDS(text, config, expected)                                                        \
    CHECK_STR(tfr_str_from(needs(arena, (text), (config))), (expected))

// ---- a whole model ----------------------------------------------------------------------------

static const char MODEL[] =
    HEAD "class MLP(nn.Module):\n"
         "    def __init__(self, config):\n"
         "        super().__init__()\n"
         "        self.gate = nn.Linear(config.hidden_size, config.inner, bias=False)\n"
         "        self.up = nn.Linear(config.hidden_size, config.inner, bias=False)\n"
         "        self.down = nn.Linear(config.inner, config.hidden_size, bias=False)\n"
         "        self.act = ACT2FN[config.hidden_act]\n"
         "    def forward(self, x):\n"
         "        return self.down(self.act(self.gate(x)) * self.up(x))\n"
         "class Layer(nn.Module):\n"
         "    def __init__(self, config, layer_idx):\n"
         "        super().__init__()\n"
         "        self.head_dim = getattr(config, 'head_dim', config.hidden_size // config.heads)\n"
         "        self.q = nn.Linear(config.hidden_size, config.heads * self.head_dim)\n"
         "        self.q_norm = Norm(self.head_dim, eps=1e-5)\n"
         "        self.norm = Norm(config.hidden_size)\n"
         "        self.mlp = MLP(config)\n"
         "    def forward(self, x):\n"
         "        h = self.q_norm(self.q(x).view(*x.shape[:-1], -1, self.head_dim))\n"
         "        x = x + h.flatten(-2)\n"
         "        return x + self.mlp(self.norm(x))\n"
         "class Model(nn.Module):\n"
         "    def __init__(self, config):\n"
         "        super().__init__()\n"
         "        self.layers = nn.ModuleList([Layer(config, i) for i in range(config.layers)])\n"
         "        self.norm = Norm(config.hidden_size)\n"
         "    def forward(self, x):\n"
         "        for layer in self.layers:\n"
         "            x = layer(x)\n"
         "        return self.norm(x)\n";
static const char CONFIG[] = "{\"hidden_size\": 64, \"inner\": 96, \"heads\": 4, \"head_dim\": 8, "
                             "\"layers\": 3, \"hidden_act\": \"gelu_pytorch_tanh\"}";

static void whole_model(tfr_arena *arena) {
    const char *found = needs(arena, MODEL, CONFIG);
    CHECK_HAS(found, "rms_norm.cast_then_weight ORDER=CAST_WEIGHT x:bf16[64] weight:bf16\n");
    CHECK_HAS(found, "rms_norm.cast_then_weight ORDER=CAST_WEIGHT x:bf16[8] weight:bf16\n");
    CHECK_HAS(found, "linears.m2 x:bf16[64] w0:bf16 b0:none w1:bf16 b1:none\n");
    CHECK_HAS(found, "linear.m1 x:bf16[96] module:bf16 module_bias:none\n");
    CHECK_HAS(found, "linear.m1 x:bf16[64] module:bf16 module_bias:bf16\n");
    CHECK_HAS(found, "ACT=GELU_TANH gate:bf16");
    CHECK_HAS(found, "add_rms_norm.add_then_norm ORDER=CAST_WEIGHT x:bf16[64] residual:bf16 "
                     "norm_weight:bf16\n");
    CHECK(!strstr(found, "not warmed"));
    // Two dtypes: each need in both.
    static const tfr_need_dtype BOTH[] = {TFR_NEED_BF16, TFR_NEED_F32};
    const char *twice = needs_in(arena, MODEL, CONFIG, BOTH, 2);
    CHECK_HAS(twice, "x:bf16[8] weight:bf16\n");
    CHECK_HAS(twice, "x:f32[8] weight:f32\n");
    // Rewritten before: the same answer.
    tfr_source source;
    tfr_result result;
    tfr_options options = {.rules = rules, .target = TFR_TARGET_HOST};
    CHECK_INT(tfr_source_from_bytes(&source, "x.py", tfr_str_from(MODEL), arena, NULL), TFR_OK);
    CHECK_INT(tfr_rewrite(&result, &source, &options, arena, NULL), TFR_OK);
    CHECK(result.report.fused.count > 4);
    CHECK_NEEDS(tfr_str_dup(arena, result.text), CONFIG, found);
}

static void files_add_up(tfr_arena *arena) {
    static const tfr_need_dtype F32 = TFR_NEED_F32;
    const char *text = HEAD CLASS("A", "        self.p = nn.Linear(config.n, 3)\n", LINEAR);
    tfr_error err = {0};
    tfr_source source;
    tfr_kernel_ops kernels;
    tfr_manifest manifest = {0};
    tfr_manifest_options options = {.rewrite = {.rules = rules, .target = TFR_TARGET_HOST},
                                    .kernels = &kernels,
                                    .config_name = "c.json",
                                    .dtypes = &F32,
                                    .dtype_count = 1};
    tfr_kernels_list(&kernels, rules, arena);
    CHECK(!tfr_config_from_bytes(&options.config, "c.json", TFR_STR("{\"n\": 5}"), arena, &err));
    CHECK(!tfr_source_from_bytes(&source, "x.py", tfr_str_from(text), arena, &err));
    CHECK_INT(tfr_manifest_add(&manifest, &source, &options, arena, &err), TFR_OK);
    CHECK_INT(tfr_manifest_add(&manifest, &source, &options, arena, &err), TFR_OK);
    CHECK_INT(manifest.needs.count, 1);
    CHECK(!tfr_source_from_bytes(&source, "y.py", TFR_STR("def ("), arena, &err) || err.message[0]);
    CHECK_INT(tfr_manifest_add(&manifest, &source, &options, arena, &err), TFR_E_REFUSED);
    CHECK_INT(manifest.needs.count, 1);
}

// ---- what __init__ says -----------------------------------------------------------------------

#define IN(expression) "        self.p = nn.Linear(" expression ", 2, bias=False)\n"
#define SIZE(size) "linear.m1 x:bf16[" size "] module:bf16 module_bias:none\n"
#define UNKNOWN(line, why)                                                                         \
    "not warmed: linear in A.forward line " line ": the last size of x is not known: " why "\n"

static void expressions(tfr_arena *arena) {
    static const struct {
        const char *init, *expected;
    } cases[] = {
        {IN("config.n"), SIZE("12")},
        {IN("in_features=config.n"), SIZE("12")},
        {IN("-(-config.n) + 0x10 - 2 * 3 // 4 % 5"), SIZE("27")},
        {IN("int(config.ratio * config.n)"), SIZE("6")},
        {IN("max(config.n, 40) if config.yes else 1"), SIZE("40")},
        {IN("1 if not config.yes else min(config.n, 40)"), SIZE("12")},
        {IN("config.list[-1] + len(config.list)"), SIZE("12")},
        {IN("config.nested['deep']"), SIZE("5")},
        {IN("config.nested.deep"), SIZE("5")},
        {IN("config.get_text_config().only_text"), SIZE("77")},
        {IN("config.only_text"), SIZE("77")},
        {IN("(config.nothing or config.n) ** 2"), SIZE("144")},
        {IN("config.nothing and 3 or 4"), SIZE("4")},
        {IN("3 if config.name == 'x' and config.n in (1, 12) else 4"), SIZE("3")},
        {IN("3 if config.nothing is None and 8 in config.list else 4"), SIZE("3")},
        {IN("3 if config.n != 12 or config.n <= 11 else 4"), SIZE("4")},
        {IN("WIDTH * 2"), SIZE("42")},
        {IN("getattr(config, 'n', 3)"), SIZE("12")},
        {IN("3 if hasattr(config, 'n') else 4"), SIZE("3")},
        {"        n = 1\n        n = config.n + n\n        n, m = n + 1, n + 2\n" IN("n * m"),
         SIZE("210")},
        {"        self.n = config.n\n        if config.yes:\n            self.n = 9\n"
         "        elif config.n:\n            self.n = 8\n        else:\n            self.n = "
         "7\n" IN("self.n"),
         SIZE("9")},
        {"        if config.n > 20:\n            self.p = nn.Linear(1, 1)\n        else:\n    " IN(
             "2"),
         SIZE("2")},
        {"        self.q = nn.Linear(3, config.n)\n" IN("self.q.out_features"), SIZE("12")},
        {"        self.config = config\n" IN("self.config.n"), SIZE("12")},
        // What is not known, and why.
        {IN("config.missing"), UNKNOWN("17", "config.json has no missing")},
        {IN("getattr(config, 'missing', 3)"), UNKNOWN("17", "config.json has no missing")},
        {IN("3 if hasattr(config, 'missing') else 4"), UNKNOWN("17", "config.json has no missing")},
        {IN("config.nested['no']"), UNKNOWN("17", "config.json has no no")},
        {IN("config.nothing + 1"), UNKNOWN("17", "+ of what is no number")},
        {IN("layer_idx"), UNKNOWN("17", "the argument `layer_idx` of A")},
        {IN("unknown_name(3)"), UNKNOWN("17", "it does not follow from the modules of its class")},
        {IN("TWICE"), UNKNOWN("17", "`TWICE` has no one value in this file")},
        {IN("1 // 0"), UNKNOWN("17", "a division by zero")},
        {IN("2 ** 70"), UNKNOWN("17", "a number beyond 64 bits")},
        {"        for n in range(3):\n            n = 2\n" IN("n"),
         UNKNOWN("19", "code in a loop, try, match or lambda")},
        {"        try:\n            n = 2\n        except E:\n            n = 3\n" IN("n"),
         UNKNOWN("21", "code in a loop, try, match or lambda")},
        {"        if config.missing:\n            return\n        self.n = 3\n" IN("self.n"),
         UNKNOWN("20", "__init__ may return before `p` is assigned")},
    };
    static const char JSON[] =
        "{\"n\": 12, \"ratio\": 0.5, \"yes\": true, \"nothing\": null, \"name\": \"x\", "
        "\"list\": [4, 8, 9], \"nested\": {\"deep\": 5}, \"text_config\": {\"only_text\": 77}}";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_buf text = {.arena = arena};
        tfr_buf_format(&text,
                       "from torch import nn\nimport torch\nWIDTH = 21\nTWICE = 1\nTWICE = 2\n"
                       "class A(nn.Module):\n    def __init__(self, config, layer_idx):\n"
                       "        super().__init__()\n%s"
                       "    def forward(self, x):\n\n\n\n\n\n\n        return self.p(x)\n",
                       cases[i].init);
        CHECK_NEEDS(tfr_str_dup(arena, tfr_buf_str(&text)), JSON, cases[i].expected);
    }
}

static void biases(tfr_arena *arena) {
#define THREE(a, b)                                                                                \
    CLASS("A",                                                                                     \
          "        self.q = nn.Linear(4, 4, " a ")\n        self.k = nn.Linear(4, 4, bias=" b      \
          ")\n",                                                                                   \
          "        return self.q(x), self.k(x)\n")
    const char *text;
    text = "from torch import nn\n" THREE("False", "config.bias");
    CHECK_NEEDS(text, "{\"bias\": true}", "linears.m2 x:bf16[4] w0:bf16 b0:none w1:bf16 b1:bf16\n");
    // One condition that is not known: both ways. Two: neither.
    text = "from torch import nn\n" THREE("config.bias", "config.bias");
    CHECK_NEEDS(text, "{}",
                "linears.m2 x:bf16[4] w0:bf16 b0:none w1:bf16 b1:none\n"
                "linears.m2 x:bf16[4] w0:bf16 b0:bf16 w1:bf16 b1:bf16\n");
    text = "from torch import nn\n" THREE("config.bias", "config.other");
    CHECK_HAS(needs(arena, text, "{}"), "the biases are not known: config.json has no other");
}

static void modules_that_are_none(tfr_arena *arena) {
    const char *text = "from torch import nn\n" CLASS(
        "A",
        "        self.shared = config.shared\n"
        "        self.q = nn.Linear(4, 4, bias=False)\n"
        "        if not self.shared:\n"
        "            self.k = nn.Linear(4, 4, bias=False)\n"
        "            self.v = nn.Linear(4, 4) if config.v else None\n",
        "        q = self.q(x)\n"
        "        if self.shared:\n"
        "            k = v = q\n"
        "        else:\n"
        "            k = self.k(x)\n"
        "            v = self.v(x) if self.v is not None else k\n"
        "        return q, k, v\n");
    CHECK_NEEDS(text, "{\"shared\": false, \"v\": true}",
                "linears.m3 x:bf16[4] w0:bf16 b0:none w1:bf16 b1:none w2:bf16 b2:bf16\n");
    CHECK_NEEDS(text, "{\"shared\": false, \"v\": false}",
                "linears.m2 x:bf16[4] w0:bf16 b0:none w1:bf16 b1:none\n");
    CHECK_NEEDS(text, "{\"shared\": true}", "");
}

// ---- which classes are made, and how ----------------------------------------------------------

static void instances(tfr_arena *arena) {
    // Of a base in the file: its __init__ with the arguments of super().__init__.
    CHECK_NEEDS("from torch import nn\nclass Base(nn.Module):\n    def __init__(self, size):\n"
                "        super().__init__()\n        self.p = nn.Linear(size, 1, bias=False)\n"
                "    def forward(self, x):\n        return self.p(x)\n"
                "class A(Base):\n    def __init__(self, config):\n"
                "        super().__init__(size=config.n * 2)\n"
                "class B(Base):\n    def __init__(self, config):\n        super().__init__(7)\n"
                "    def forward(self, x):\n        return super().forward(x)\n",
                "{\"n\": 4}", SIZE("8") SIZE("7"));
    // A loop, each round with its own sizes; a condition that leaves one out.
    CHECK_NEEDS("from torch import nn\nclass Inner(nn.Module):\n    def __init__(self, size):\n"
                "        super().__init__()\n        self.p = nn.Linear(size, 1, bias=False)\n"
                "    def forward(self, x):\n        return self.p(x)\n"
                "class A(nn.Module):\n    def __init__(self, config):\n"
                "        super().__init__()\n"
                "        self.l = nn.ModuleList([Inner(config.sizes[i]) if i != 1 else Inner(1)\n"
                "                                for i in range(config.n)])\n"
                "        for i in range(2):\n            self.l.append(Inner(100 + i))\n"
                "        if config.n > 5:\n            self.never = Inner(1000)\n",
                "{\"n\": 3, \"sizes\": [20, 30, 40]}",
                SIZE("20") SIZE("40") SIZE("1") SIZE("100") SIZE("101"));
    // A branch of forward that this configuration does not take.
    CHECK_NEEDS("from torch import nn\n" CLASS(
                    "A",
                    "        self.rank = config.rank\n        if self.rank is None:\n"
                    "            self.p = nn.Linear(4, 4, bias=False)\n"
                    "        else:\n            self.q = nn.Linear(8, 4, bias=False)\n",
                    "        if self.rank is None:\n            return self.p(x)\n"
                    "        return self.q(x)\n"),
                "{\"rank\": null}", SIZE("4"));
    // The parts of a composite configuration go to the classes that name them.
    static const char COMPOSITE[] =
        "from torch import nn\n"
        "class Text(nn.Module):\n    def __init__(self, config: MyTextConfig):\n"
        "        super().__init__()\n        self.p = nn.Linear(config.n, 1, bias=False)\n"
        "    def forward(self, x):\n        return self.p(x)\n"
        "class Vision(nn.Module):\n    config_class = MyVisionConfig\n"
        "    def __init__(self, config):\n"
        "        super().__init__()\n        self.p = nn.Linear(config.n, 1, bias=False)\n"
        "    def forward(self, x):\n        return self.p(x)\n";
    CHECK_NEEDS(COMPOSITE,
                "{\"model_type\": \"my\", \"text_config\": {\"n\": 3}, \"vision_config\": "
                "{\"n\": 5}}",
                SIZE("3") SIZE("5"));
    CHECK_NEEDS(COMPOSITE, "{\"model_type\": \"my_text\", \"n\": 3}", SIZE("3"));
}

static void sizes_in_forward(tfr_arena *arena) {
    // Of a norm without weight only a view tells; cut, joined and sliced values have sizes too.
    static const struct {
        const char *forward, *expected;
    } cases[] = {
        {"        x = self.p(x).view(2, 3, -1, 8)\n", "8"},
        {"        x = self.p(x).reshape(*x.shape[:-1], -1, self.d).transpose(1, 2)\n", "6"},
        {"        a, b = self.p(x).chunk(2, dim=-1)\n        x = b\n", "12"},
        {"        a, x = torch.split(self.p(x), [4, self.d], dim=-1)\n", "6"},
        {"        x = torch.cat([self.p(x), x.view(2, 5)], dim=-1)\n", "29"},
        {"        x = self.p(x)[..., : self.d]\n", "6"},
        {"        x = self.p(x)[..., self.d :: 2]\n", "9"},
        {"        x = self.p(x)\n        x = x[..., : x.shape[-1] // 3]\n", "8"},
        {"        x = self.p(x) if self.d else x\n", "24"},
        {"        x = (self.p(x) * x.mean(-1, keepdim=True)).clone()\n", "24"},
        {"        x = self.p(x).unsqueeze(-1)\n", "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_buf text = {.arena = arena};
        tfr_buf_format(
            &text,
            HEAD
            "class A(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
            "        self.p, self.d = nn.Linear(3, 24), config.d\n"
            "    def forward(self, x: torch.Tensor):\n%s"
            "        h = x.to(torch.float32)\n"
            "        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + "
            "1e-6)).to(x.dtype)\n",
            cases[i].forward);
        tfr_str line =
            tfr_str_format(arena, "rms_norm.no_weight ORDER=CAST x:bf16[%s]\n", cases[i].expected);
        CHECK_HAS(needs(arena, tfr_str_dup(arena, tfr_buf_str(&text)), "{\"d\": 6}"), line.data);
    }
    // float32 in a bf16 model, where the text says so.
    CHECK_HAS(needs(arena,
                    HEAD "class A(nn.Module):\n    def __init__(self, config):\n"
                         "        super().__init__()\n"
                         "        self.w = nn.Parameter(torch.ones(2, 9, dtype=torch.float32))\n"
                         "        self.n = Norm(9)\n"
                         "    def forward(self, x: torch.Tensor, y):\n"
                         "        r = y.float() + x\n        return self.n(r), r\n",
                    "{}"),
              "x:bf16[9] residual:f32 norm_weight:bf16");
}

// Cosines and sines have the dtype in which the file's own module gives them.
static void tables(tfr_arena *arena) {
    static const char *const casts[][2] = {{"", "cos:f32[8] sin:f32"},
                                           {".to(x.dtype)", "cos:bf16[8] sin:bf16"}};
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        tfr_buf text = {.arena = arena};
        tfr_buf_format(
            &text,
            "import torch\nfrom torch import nn\n"
            "class Rotary(nn.Module):\n    @torch.no_grad()\n"
            "    def forward(self, x, position_ids):\n"
            "        freqs = position_ids[..., None].float() * self.inv_freq\n"
            "        emb = torch.cat((freqs, freqs), dim=-1)\n"
            "        cos, sin = emb.cos() * self.scale, emb.sin() * self.scale\n"
            "        return cos%s, sin%s\n"
            "def rotate_half(x):\n    x1 = x[..., : x.shape[-1] // 2]\n"
            "    x2 = x[..., x.shape[-1] // 2 :]\n    return torch.cat((-x2, x1), dim=-1)\n"
            "def rotate(q, k, cos, sin):\n"
            "    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)\n"
            "    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)\n"
            "class A(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
            "        self.q, self.k = nn.Linear(32, 32), nn.Linear(32, 32)\n"
            "    def forward(self, x, position_embeddings):\n"
            "        q = self.q(x).view(2, 3, 4, 8).transpose(1, 2)\n"
            "        k = self.k(x).view(2, 3, 4, 8).transpose(1, 2)\n"
            "        cos, sin = position_embeddings\n        return rotate(q, k, cos, sin)\n",
            casts[i][0], casts[i][0]);
        CHECK_HAS(needs(arena, tfr_str_dup(arena, tfr_buf_str(&text)), "{}"), casts[i][1]);
    }
}

static void activations(tfr_arena *arena) {
    static const struct {
        const char *act, *expected;
    } cases[] = {
        {"ACT2FN[config.act]", "ACT=SILU"},
        {"ACT2FN['relu2']", "ACT=RELU2"},
        {"nn.GELU()", "ACT=GELU "},
        {"nn.GELU(approximate='tanh')", "ACT=GELU_TANH"},
        {"nn.functional.sigmoid", "ACT=SIGMOID"},
        {"ACT2FN[config.none]", "the activation is not known: config.json has no none"},
        {"ACT2FN['laplace']", "the activation has no kernel: laplace"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_buf text = {.arena = arena};
        tfr_buf_format(&text,
                       HEAD "class A(nn.Module):\n    def __init__(self, config):\n"
                            "        super().__init__()\n"
                            "        self.a, self.b = nn.Linear(2, 3), nn.Linear(2, 3)\n"
                            "        self.act = %s\n"
                            "    def forward(self, x):\n"
                            "        return self.act(self.a(x)) * self.b(x)\n",
                       cases[i].act);
        CHECK_HAS(needs(arena, tfr_str_dup(arena, tfr_buf_str(&text)), "{\"act\": \"silu\"}"),
                  cases[i].expected);
    }
}

// Deep and wide inputs end, with a reason.
static void bounds(tfr_arena *arena) {
    tfr_buf text = {.arena = arena};
    tfr_buf_format(&text, "from torch import nn\nclass A(nn.Module):\n"
                          "    def __init__(self, config):\n        super().__init__()\n"
                          "        self.p = nn.Linear(1");
    for (int i = 0; i < 600; i++)
        tfr_buf_format(&text, " + 1");
    tfr_buf_format(&text, ", 2)\n    def forward(self, x):\n        return self.p(x)\n");
    CHECK_HAS(needs(arena, tfr_str_dup(arena, tfr_buf_str(&text)), "{}"), "too many steps");
    text.len = 0;
    tfr_buf_format(&text, "from torch import nn\nclass A(nn.Module):\n"
                          "    def __init__(self, config, n):\n        super().__init__()\n"
                          "        self.a = A(config, n + 1)\n        self.p = nn.Linear(n, 2)\n"
                          "    def forward(self, x):\n        return self.p(x)\n"
                          "class B(nn.Module):\n    def __init__(self, config):\n"
                          "        super().__init__()\n        self.a = A(config, 1)\n");
    CHECK_HAS(needs(arena, tfr_str_dup(arena, tfr_buf_str(&text)), "{}"),
              "makes more modules than are looked at");
}

// ---- config.json ------------------------------------------------------------------------------

static void json(tfr_arena *arena) {
    static const struct {
        const char *text, *message;
        uint32_t line, column;
    } cases[] = {
        {"", "is one object", 1, 1},
        {"[1]", "is one object", 1, 1},
        {"{\"a\": 1,}", "nothing follows the comma", 1, 9},
        {"{\"a\" 1}", "a ':' is expected", 1, 6},
        {"{\n  'a': 1}", "a name in double quotes", 2, 3},
        {"{\"a\": 'b'}", "strings have double quotes", 1, 7},
        {"{\"a\": tru}", "a value is expected", 1, 7},
        {"{\"a\": True}", "a value is expected", 1, 7},
        {"{\"a\": 01}", "a number is expected", 1, 7},
        {"{\"a\": 1.}", "nothing behind its point", 1, 7},
        {"{\"a\": 1e}", "without its exponent", 1, 7},
        {"{\"a\": \"\\x\"}", "an unknown escape", 1, 8},
        {"{\"a\": 1 \"b\": 2}", "a ',' or the closing bracket", 1, 9},
        {"{\"a\": 1} 2", "something follows", 1, 10},
        {"{\"\xc3\xa9\": ]}", "a value is expected", 1, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_error err = {0};
        const tfr_json *out = NULL;
        CHECK_INT(tfr_config_from_bytes(&out, "c.json", tfr_str_from(cases[i].text), arena, &err),
                  TFR_E_USAGE);
        CHECK_HAS(err.message, cases[i].message);
        CHECK_INT(err.line, cases[i].line);
        CHECK_INT(err.column, cases[i].column);
    }
    tfr_error err = {0};
    const tfr_json *out = NULL;
    static const char GOOD[] =
        " {\"i\": -12, \"f\": 1.5e-3, \"big\": 123456789012345678901, \"t\": true, \"n\": null,\n"
        "\"nan\": NaN, \"inf\": -Infinity, \"s\": \"a\\n\\u00e9\\ud83d\\ude00\\ud800\", \"e\": {}, "
        "\"l\": [[], 1], \"i\": 13} ";
    CHECK_INT(tfr_config_from_bytes(&out, "c.json", tfr_str_from(GOOD), arena, &err), TFR_OK);
    CHECK_INT(out->integer, 11);
    CHECK_INT(tfr_json_get(out, TFR_STR("i"))->integer, 13); // the last one counts, as in Python
    CHECK(tfr_json_get(out, TFR_STR("f"))->number == 1.5e-3);
    CHECK_INT(tfr_json_get(out, TFR_STR("big"))->kind, TFR_JSON_FLOAT);
    CHECK_INT(tfr_json_get(out, TFR_STR("t"))->kind, TFR_JSON_BOOL);
    CHECK_INT(tfr_json_get(out, TFR_STR("n"))->kind, TFR_JSON_NULL);
    CHECK_INT(tfr_json_get(out, TFR_STR("nan"))->kind, TFR_JSON_FLOAT);
    CHECK(tfr_json_get(out, TFR_STR("inf"))->number < 0);
    CHECK_STR(tfr_json_get(out, TFR_STR("s"))->text, "a\n\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd");
    CHECK_INT(tfr_json_get(out, TFR_STR("l"))->integer, 2);
    CHECK(!tfr_json_get(out, TFR_STR("none")));
    tfr_buf deep = {.arena = arena};
    tfr_buf_format(&deep, "{\"a\": ");
    for (int i = 0; i < 100; i++)
        tfr_buf_format(&deep, "[");
    for (int i = 0; i < 100; i++)
        tfr_buf_format(&deep, "]");
    tfr_buf_format(&deep, "}");
    CHECK_INT(tfr_config_from_bytes(&out, "c.json", tfr_buf_str(&deep), arena, &err), TFR_E_USAGE);
    CHECK_HAS(err.message, "deeper than 64");
    CHECK_INT(tfr_config_read(&out, "tests/no-such-file.json", arena, &err), TFR_E_USAGE);
    CHECK_HAS(err.message, "cannot read it");
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    tfr_error err = {0};
    if (tfr_rules_new(&rules, NULL, 0, &err) != TFR_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    whole_model(arena);
    files_add_up(arena);
    expressions(arena);
    biases(arena);
    modules_that_are_none(arena);
    instances(arena);
    sizes_in_forward(arena);
    tables(arena);
    activations(arena);
    bounds(arena);
    json(arena);
    tfr_rules_free(rules);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
