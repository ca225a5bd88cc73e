// The check of an edit must notice what a wrong rewrite would change: each case is an original and
// a text that differs from it in one way.
#include "rewriter/check.h"

#include "tests/unit/lowered.h"

#define HEAD                                                                                       \
    "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"                        \
    "from tfrewrite import ops as tfr\n"                                                           \
    "def h(a, b): return F.silu(a) * b\n"                                                          \
    "class M(nn.Module):\n    def __init__(self):\n"                                               \
    "        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)\n"                                  \
    "    def forward(self, x: torch.Tensor, y, c, d):\n        "

static tfr_rules *rules;
static tfr_names names;
static tfr_arena *arena;

// NULL: the check takes `after` for equal to `before`; else what it says.
static const char *verdict(const char *before, const char *after) {
    tfr_numbers *numbers = TFR_NEW(arena, tfr_numbers);
    tfr_numbers_init(numbers, arena);
    tfr_flow *flows[2];
    for (int i = 0; i < 2; i++) {
        tfr_str text = tfr_str_format(arena, HEAD "%s\n", i ? after : before);
        flows[i] = flow_of(lower(rules, &names, arena, text.data), "forward", numbers);
    }
    tfr_difference found;
    return tfr_check_flows(flows[0], flows[1], &found) ? NULL : found.what;
}

static void right_rewrites(void) {
    static const char *const cases[][2] = {
        {"return self.q(x), self.k(x)", "q, k = tfr.linears(x, self.q, self.k); return q, k"},
        {"q = self.q(x)\n        if c: y = self.k(x)\n        return q, y",
         "q, k = tfr.linears(x, self.q, self.k if c else None)\n        if c: y = k\n"
         "        return q, y"},
        {"return self.q(x), self.k(x) if c is not None else y",
         "q, k = tfr.linears(x, self.q, self.k if c is not None else None)\n"
         "        return q, k if c is not None else y"},
        {"return self.q(x), self.k(x) if self.k is not None else y",
         "q, k = tfr.linears(x, self.q, self.k)\n"
         "        return q, k if self.k is not None else y"},
        {"t = x * 2; return t + 1", "return x * 2 + 1"},
        {"return F.silu(x) * y", "return tfr.act_mul(F.silu, x, y)"},
        {"return h(x, y)", "return tfr.act_mul(F.silu, x, y, via=h)"},
        {"foo(x); return self.q(x)", "foo(x); q = self.q(x); return q"},
        {"if c: return x\n        return y", "if c:\n            return x\n        return y"},
        {"for i in y: foo(i)\n        return x",
         "for i in y:\n            foo(i)\n        return x"},
        {"s = x + y\n        if c: foo(s)\n        return x", "if c: foo(x + y)\n        return x"},
        {"z = x + y\n        if c: y = foo(z); z = x + y\n        return z",
         "if c: y = foo(x + y)\n        return x + y"},
        {"s = x + y\n        if c: foo(x); raise d\n        return s",
         "if c: foo(x); raise d\n        return x + y"},
        {"if c: z = x + y; foo(z)\n        else: z = x + d\n        foo(z)",
         "if c: z = x + y; foo(z)\n        else: z = x + d\n        foo(z)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = verdict(cases[i][0], cases[i][1]);
        if (why)
            fprintf(stderr, "%s: %s\n", cases[i][0], why), check_failures++;
    }
}

static void wrong_rewrites(void) {
    static const char *const cases[][2] = {
        {"return self.q(x), self.k(x)", "q, k = tfr.linears(y, self.q, self.k); return q, k"},
        {"return self.q(x), self.k(x)", "q, k = tfr.linears(x, self.k, self.q); return q, k"},
        {"return self.q(x), self.k(x)", "q, k = tfr.linears(x, self.q, self.k); return k, q"},
        {"return self.q(x), self.k(x) if c else y",
         "q, k = tfr.linears(x, self.q, None if c else self.k)\n"
         "        return q, k if c else y"},
        {"return self.q(x), self.k(x) if c else y",
         "q, k = tfr.linears(x, self.q, self.k if d else None)\n"
         "        return q, k if c else y"},
        {"return self.q(x), self.k(x)",
         "q, k = tfr.linears(x, self.q, self.k if c else None)\n        return q, k"},
        {"return self.k(x) if self.k is not None else y",
         "k = self.k(x)\n        return k if self.k is not None else y"},
        {"q = self.q(x); foo(c); return q, self.k(x) if c else y",
         "q, k = tfr.linears(x, self.q, self.k if c else None); foo(c)\n"
         "        return q, k if c else y"},
        {"return F.silu(x) * y", "return tfr.act_mul(F.silu, y, x)"},
        {"return F.silu(x) * y", "return tfr.act_mul(F.gelu, x, y)"},
        {"foo(x); return x", "return x"},
        {"foo(x); bar(x); return x", "bar(x); foo(x); return x"},
        {"foo(x); return x", "foo(y); return x"},
        {"x.add_(1); return x", "x.add(1); return x"},
        {"q = self.q(x); foo(); return q", "foo(); q = self.q(x); return q"},
        {"if c: foo(x)\n        return x", "if d: foo(x)\n        return x"},
        {"if c: foo(x)\n        return x", "foo(x); return x"},
        {"if c: y = x\n        return y", "if not c: y = x\n        return y"},
        {"if c: return x\n        return y", "if c: return y\n        return x"},
        {"for i in y: foo(i)\n        return x", "for i in d: foo(i)\n        return x"},
        {"with c: foo(x)\n        return x", "with d: foo(x)\n        return x"},
        {"if c: foo(x + y)\n        return x", "s = x + y\n        if c: foo(s)\n        return x"},
        {"if c: foo(x + y)\n        return x",
         "if d: s = x + y\n        if c: foo(s)\n        return x"},
        {"s = x + y\n        if c: bar(y); foo(s)\n        return x",
         "if c: bar(y); foo(x + y)\n        return x"},
        {"s = x + y\n        if c: foo(x)\n        return s", "if c: foo(x)\n        return x + y"},
        {"s = x + y\n        try:\n            if c: foo(x); raise d\n        except d: pass\n     "
         "   return s",
         "try:\n            if c: foo(x); raise d\n        except d: pass\n        return x + y"},
        {"s = x + y\n        try:\n            if c: return foo(x)\n        finally: bar(s)",
         "try:\n            if c: return foo(x)\n        finally: bar(x + y)"},
        {"s = x + y\n        with c:\n            foo(x); raise d\n        return s",
         "with c:\n            foo(x); raise d\n        return x + y"},
        {"s = x + y\n        for i in y:\n            if i: foo(x); continue\n        return s",
         "for i in y:\n            if i: foo(x); continue\n        return x + y"},
        {"z = x + y\n        if c: z = x + d; foo(x)\n        return z",
         "z = y\n        if c: z = d; foo(x)\n        return x + z"},
        {"z = x + y; foo(x)\n        if c: z = x + d\n        return z",
         "z = y; foo(x)\n        if c: z = d\n        return x + z"},
        {"z = x + y\n        if c: z = x + d\n        else: foo(x)\n        return z",
         "z = y\n        if c: z = d\n        else: foo(x)\n        return x + z"},
        {"z = x + y\n        if c: z = x + d\n        return z",
         "z = d\n        if c: z = y\n        return x + z"},
        {"z = x + y\n        if c: z = x + d\n        return z",
         "z = y\n        if d: z = d\n        return x + z"},
        {"self.a = x; return x", "self.a = y; return x"},
        {"self.a = x; return x", "self.b = x; return x"},
        {"return x - y", "return y - x"},
        {"return x * 2", "return x * 3"},
        {"raise ValueError(c)", "return None"},
        {"return y[c]", "return y[d]"},
        {"return f'{y}a'", "return f'{y}b'"},
        {"return y < c <= d", "return y > c <= d"},
        {"return c and (y := x), y", "return (y := x) if c else c, x"},
        {"return x", "return locals()"},
        {"z = x * 2; x.mul_(2); return z", "x.mul_(2); z = x * 2; return z"},
        {"for i in y: x = x * 2\n        return x", "for i in y: x = x * 3\n        return x"},
        {"for i in y: x = x * 2\n        return x",
         "for i in y:\n"
         "            if i: x = x * 2\n        return x"},
        {"try:\n            for i in y: x = x * 2\n        finally: pass\n        return x",
         "try:\n            for i in y: x = x * 3\n        finally: pass\n        return x"},
        {"if c: z = x\n        if c: return z", "if c: z = y\n        if c: return z"},
        {"z = x\n        while c: z = d\n        return z",
         "z = y\n        while c: z = d\n        return z"},
        {"while c: foo()\n        return x", "while d: foo()\n        return x"},
        {"for i in y:\n            if i: break\n        return x",
         "for i in y:\n            if i: continue\n        return x"},
        {"try: foo()\n        except ValueError: pass\n        return x",
         "try: foo()\n        except KeyError: pass\n        return x"},
        {"match x:\n            case 1: foo()\n        return x",
         "match x:\n            case 2: foo()\n        return x"},
        {"match x:\n            case 1: foo()\n        return x",
         "match y:\n            case 1: foo()\n        return x"},
        {"match x:\n            case 1 if c: foo()\n        return x",
         "c = d\n        match x:\n            case 1 if c: foo()\n        return x"},
        {"assert c; return x", "assert d; return x"},
        {"raise c", "raise d"},
        {"raise c from d", "raise c"},
        {"import a; return a", "import b as a; return a"},
        {"g = lambda t: t * c; return g(x)", "c = d; g = lambda t: t * c; return g(x)"},
        {"c = 1; g = lambda t: t * c; return g(x)", "c = 2; g = lambda t: t * c; return g(x)"},
        {"g = lambda t=c: t; return g(x)", "g = lambda t=d: t; return g(x)"},
        {"def g(t): return t * 2\n        return g(x)",
         "def g(t): return t * 3\n        return g(x)"},
        {"return x if c else self.q(x)", "q = self.q(x); return x if c else q"},
        {"return x", "q = self.q(x); return x"},
        {"self.q(x); return x", "return x"},
        {"return h(x, y)", "return tfr.act_mul(F.silu, x, y)"},
        {"return h(x, y)", "return tfr.act_mul(F.silu, x, y, via=g)"},
        {"return F.silu(x) * y", "return tfr.act_mul(F.silu, x, y, via=h)"},
        {"return F.silu(x) * foo(x)", "return tfr.act_mul(F.silu, x, foo(x))"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (verdict(cases[i][0], cases[i][0]) != NULL)
            fprintf(stderr, "not equal to itself: %s\n", cases[i][0]), check_failures++;
        if (!verdict(cases[i][0], cases[i][1]))
            fprintf(stderr, "taken for equal:\n%s\n%s\n", cases[i][0], cases[i][1]),
                check_failures++;
    }
}

static bool tokens(const char *before, const char *after, const tfr_edits *edits) {
    return tfr_check_tokens(&lower(rules, &names, arena, before)->tree,
                            &lower(rules, &names, arena, after)->tree, edits);
}

// `before` became `after` by one edit: bytes [start, end) are now `text`.
static bool edited(const char *before, const char *after, uint32_t start, uint32_t end,
                   const char *text) {
    tfr_edit edit = {start, end, tfr_str_from(text)};
    tfr_edits edits = {.items = &edit, .count = 1, .cap = 1};
    return tokens(before, after, &edits);
}

static void token_check(void) {
    tfr_edits none = {0};
    CHECK(tokens("x = f(a)\n", "x = f(a)\n", &none));
    CHECK(!tokens("x = f(a)\n", "x = f(a, b)\n", &none));
    CHECK(!tokens("x = f(a)\n", "x = f(ab)\n", &none));
    CHECK(!tokens("x = f(a)\n", "x = f(1)\n", &none));
    CHECK(!tokens("x = 1\ny = 2\n", "x = 1\n", &none));
    CHECK(!tokens("x = 1\n", "x = 1\ny = 2\n", &none));
    CHECK(edited("x = f(a)\ny = 2\n", "x = ggg\ny = 2\n", 4, 8, "ggg"));
    CHECK(edited("y = 2\n", "x = 1\ny = 2\n", 0, 0, "x = 1\n"));
    CHECK(edited("x = 1\ny = 2\n", "y = 2\n", 0, 6, ""));
    CHECK(!edited("x = f(a)\ny = 2\n", "x = ggg\ny = 3.0\n", 4, 8, "ggg"));
    CHECK(!edited("x = f(a)\ny = 2\n", "x = ggg\n\ny = 2\n", 4, 8, "ggg"));
}

int main(void) {
    arena = tfr_arena_new();
    tfr_error err = {0};
    CHECK_INT(tfr_rules_new(&rules, NULL, 0, &err), TFR_OK);
    tfr_names_init(&names, &rules->names, arena);
    right_rewrites();
    wrong_rewrites();
    token_check();
    tfr_rules_free(rules);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
