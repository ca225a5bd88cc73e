// Graphs of functions: equal spellings meet, different ones do not, effects come in order.
#include "tests/unit/lowered.h"

#define HEAD                                                                                       \
    "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"                        \
    "class M(nn.Module):\n    def __init__(self):\n        self.q = nn.Linear(8, 8)\n"             \
    "        self.w = nn.Parameter(torch.ones(8))\n    @property\n    def p(self):\n"              \
    "        return 1\n"                                                                           \
    "    def helper(self, x, n=2):\n        return x.pow(n)\n"                                     \
    "    def forward(self, x: torch.Tensor, y, c, d):\n"

static tfr_rules *rules;
static tfr_names names;
static tfr_arena *arena;

static tfr_flow *flow(const char *body) {
    tfr_str text = tfr_str_format(arena, HEAD "        %s\n", body);
    tfr_numbers *numbers = TFR_NEW(arena, tfr_numbers);
    tfr_numbers_init(numbers, arena);
    return flow_of(lower(rules, &names, arena, text.data), "forward", numbers);
}

// Whether two expressions have one value in one function.
static bool meet(const char *a, const char *b) {
    tfr_flow *f = flow(tfr_str_format(arena, "return %s, %s", a, b).data);
    tfr_value tuple = f->result;
    return tfr_flow_same(f, tfr_flow_arg(f, tuple, 0).value, tfr_flow_arg(f, tuple, 1).value);
}

static void spellings(void) {
    static const char *const same[][2] = {
        {"x * x", "x.pow(2)"},
        {"torch.square(x)", "x ** 2"},
        {"x.float()", "x.to(torch.float32)"},
        {"x.type_as(y)", "x.to(y.dtype)"},
        {"x + y", "y + x"},
        {"x.mean(-1, keepdim=True)", "torch.mean(x, dim=(-1,), keepdim=True)"},
        {"x.view(2, 3)", "x.view((2, 3))"},
        {"y[0:c]", "y[:c]"},
        {"x * 2", "x * 2.0"},
        {"d['a']", "d[\"a\"]"},
        {"self.q(x)", "self.q(x)"},
        {"f'{y}a'", "f'{y}a'"},
        {"self.helper(x)", "x * x"},
        {"torch.half", "torch.float16"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!meet(same[i][0], same[i][1]))
            fprintf(stderr, "%s | %s\n", same[i][0], same[i][1]), check_failures++;
    static const char *const different[][2] = {
        {"y + c", "c + y"}, // tuples do not commute
        {"x - y", "y - x"},   {"f'q{y}'", "f'k{y}'"},       {"'a' 'b'", "'c' 'd'"},
        {"{y, c}", "{y: c}"}, {"y < c <= d", "y > c <= d"}, {"y and c", "y or c"},
        {"(y := c)", "y"},    {"foo(y)", "foo(y)"},         {"x.rsqrt()", "1 / x.sqrt()"},
        {"x * 2", "x * 3"},   {"self.p", "self.p"}, // a property runs code
        {"y[1:c]", "y[:c]"},  {"(*y, c)[1]", "c"},
    };
    for (size_t i = 0; i < sizeof different / sizeof *different; i++)
        if (meet(different[i][0], different[i][1]))
            fprintf(stderr, "equal: %s | %s\n", different[i][0], different[i][1]), check_failures++;
}

static uint32_t events(const char *body) { return flow(body)->events.count - 1; } // but the return

static void effects(void) {
    CHECK_INT(events("return x + self.q(x)"), 0);
    CHECK_INT(events("return x.add_(1)"), 1);
    CHECK_INT(events("x += 1; return x"), 1);
    CHECK_INT(events("self.a = x; return x"), 1);
    CHECK_INT(events("y[0] = x; return x"), 1);
    CHECK_INT(events("foo(x); y.bar(); return x"), 2);
    CHECK_INT(events("return F.relu(x, inplace=True)"), 1);
    CHECK_INT(events("return F.relu(x, inplace=False)"), 0);
    CHECK_INT(events("return self.p"), 1);
    CHECK_INT(events("y.add(x); return x"), 1); // a set, for all we know
    CHECK_INT(events("y = y.add(x); return y"), 0);
    CHECK_INT(events("self.q.to(c); return x"), 1);
    CHECK_INT(events("f = lambda a=x.mul_(2): a; return f"), 1);
    CHECK_INT(events("z = len(y); return z"), 0);
}

static void blocks(void) {
    tfr_flow *f = flow("if c: return x\n        foo(x)\n        return y");
    CHECK_INT(f->events.count, 3);
    CHECK(f->events.items[0].block != f->events.items[1].block);
    CHECK_INT(tfr_flow_node(f, f->result)->op, TFR_V_PHI);
    CHECK(tfr_flow_same(f, tfr_flow_arg(f, f->result, 1).value, f->events.items[0].value));
    f = flow("if c: y = x\n        else: y = d\n        return y");
    CHECK_INT(tfr_flow_node(f, f->result)->op, TFR_V_PHI);
    f = flow("for i in y: x = x + i\n        return x");
    CHECK_INT(tfr_flow_node(f, f->result)->op, TFR_V_OPAQUE);
    f = flow("c and (y := x); return y"); // may be either
    CHECK_INT(tfr_flow_node(f, f->result)->op, TFR_V_OPAQUE);
    CHECK(!flow("while c: return x")->result);
}

static void made_alike(void) {
    static const struct {
        const char *body;
        bool same;
    } cases[] = {
        {"a = x * 2; b = x * 2; return a, b", true},
        {"a = x * 2; b = x * 2; a.add_(1); return a, b", false},
        {"a = x; x.add_(1); return a, x", true}, // one object
        {"a = x.shape[0]; foo(x); b = x.shape[0]; return a, b", true},
        {"a = [x]; b = [x]; a.pop(); return torch.cat(a), torch.cat(b)", false},
        {"a = y[0]; foo(y); b = y[0]; return a, b", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tfr_flow *f = flow(cases[i].body);
        // Until the return, which is an event itself.
        bool same = tfr_flow_same_at(f, tfr_flow_arg(f, f->result, 0).value,
                                     tfr_flow_arg(f, f->result, 1).value,
                                     f->events.items[f->events.count - 1].seq);
        if (same != cases[i].same)
            fprintf(stderr, "%s\n", cases[i].body), check_failures++;
    }
}

static void unfit(void) {
    CHECK_HAS(flow("return locals()")->unfit, "local names");
    CHECK_HAS(flow("global g; return x")->unfit, "global or nonlocal");
    CHECK_HAS(flow("type X = int\n        return x")->unfit, "not supported");
    CHECK_HAS(flow("def f():\n            nonlocal x\n            x = 1\n        return x")->unfit,
              "rebinds");
    CHECK(!flow("return x")->unfit);
}

int main(void) {
    arena = tfr_arena_new();
    tfr_error err = {0};
    CHECK_INT(tfr_rules_new(&rules, NULL, 0, &err), TFR_OK);
    tfr_names_init(&names, &rules->names, arena);
    spellings();
    effects();
    blocks();
    made_alike();
    unfit();
    tfr_rules_free(rules);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
