// What the names of a module mean, and when they mean nothing certain.
#include "tests/unit/lowered.h"

static const char TEXT[] =
    "import os\nimport os\nimport torch.nn as nn, a.b.c\nfrom x import y, z as w\n"
    "if os:\n    import late\n    once = 1\ntry:\n    from p import q\nexcept ImportError:\n"
    "    q = None\n"
    "value = 3\ntwice = 1\ntwice = 2\nm, n = 1, 2\nfor i in m:\n    pass\n"
    "with m as handle:\n    pass\n"
    "class Base(nn.Module):\n"
    "    def __init__(self, c):\n"
    "        self.a, self.b = nn.Linear(1, 2), c\n"
    "        self.p = self.r = 1\n"
    "        if c:\n            self.d = 1\n"
    "        self.e = 1\n        self.e = 2\n"
    "        self.u, self.v = c\n"
    "        with c as self.w:\n            pass\n        [self.l, *self.m] = c\n"
    "        def hook():\n            self.h = 1\n"
    "    def forward(self, x):\n        self.late = x\n        return x\n"
    "    @staticmethod\n    def s(self):\n        self.never = 1\n"
    "class Derived(Base, metaclass=M):\n    def forward(self, x):\n        return x\n"
    "class Own(Own):\n    pass\n"
    "class Dup:\n    pass\nclass Dup:\n    pass\n"
    "def function():\n    global changed\n    changed = 1\n"
    "changed = 0\n"
    "def function2():\n    pass\n";

static tfr_binding_kind kind_of(const lowered *l, const char *name) {
    tfr_name n = tfr_names_find(l->module.names, tfr_str_from(name));
    const tfr_binding *b = n ? tfr_scope_lookup(&l->scope, n) : NULL;
    return b ? b->kind : (tfr_binding_kind)-1;
}

static void bindings(const lowered *l) {
    static const struct {
        const char *name;
        int kind;
    } cases[] = {
        {"os", TFR_BIND_IMPORT},
        {"nn", TFR_BIND_IMPORT},
        {"a", TFR_BIND_IMPORT},
        {"y", TFR_BIND_IMPORT},
        {"w", TFR_BIND_IMPORT},
        {"z", -1},
        {"late", TFR_BIND_IMPORT},
        {"once", TFR_BIND_MANY},
        {"q", TFR_BIND_MANY},
        {"value", TFR_BIND_VALUE},
        {"twice", TFR_BIND_MANY},
        {"m", TFR_BIND_VALUE},
        {"i", TFR_BIND_MANY},
        {"handle", TFR_BIND_MANY},
        {"Base", TFR_BIND_CLASS},
        {"Dup", TFR_BIND_MANY},
        {"changed", TFR_BIND_MANY},
        {"unknown", -1},
        {"function", TFR_BIND_FUNCTION},
        {"function2", TFR_BIND_FUNCTION},
        {"len", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT((int)kind_of(l, cases[i].name), cases[i].kind);
        if ((int)kind_of(l, cases[i].name) != cases[i].kind)
            fprintf(stderr, "  %s\n", cases[i].name);
    }
    tfr_name w = tfr_names_find(l->module.names, TFR_STR("w"));
    CHECK_STR(tfr_names_text(l->module.names, tfr_scope_lookup(&l->scope, w)->path), "x.z");
    tfr_name nn = tfr_names_find(l->module.names, TFR_STR("nn"));
    CHECK_STR(tfr_names_text(l->module.names, tfr_scope_lookup(&l->scope, nn)->path), "torch.nn");
}

static const tfr_attribute *attribute(const lowered *l, const char *cls, const char *name) {
    uint32_t c = tfr_scope_class(&l->scope, tfr_names_find(l->module.names, tfr_str_from(cls)));
    tfr_name n = tfr_names_find(l->module.names, tfr_str_from(name));
    return c == TFR_NO_CLASS || !n ? NULL : tfr_scope_attribute(&l->scope, c, n);
}

static void attributes(const lowered *l) {
    const tfr_attribute *a = attribute(l, "Base", "a"), *b = attribute(l, "Base", "b");
    CHECK(a && a->times == 1 && !a->outside_init);
    CHECK(a && tfr_tree_is(&l->tree, a->values[0], "nn.Linear(1, 2)"));
    CHECK(b && tfr_tree_is(&l->tree, b->values[0], "c"));
    CHECK(attribute(l, "Base", "d")->times == 1);
    CHECK_INT(attribute(l, "Base", "e")->times, 2);
    CHECK_INT(attribute(l, "Base", "u")->values[0], 0); // unpacked: nobody knows
    CHECK_INT(attribute(l, "Base", "r")->times, 1);
    CHECK(attribute(l, "Base", "late")->outside_init);
    CHECK(attribute(l, "Base", "h")->outside_init);
    CHECK(attribute(l, "Base", "w") && !attribute(l, "Base", "w")->values[0]);
    CHECK(attribute(l, "Base", "l") && attribute(l, "Base", "m"));
    CHECK(!attribute(l, "Base", "never")); // the static method's first parameter is not self
    CHECK(attribute(l, "Derived", "a") == a);
    CHECK(!attribute(l, "Dup", "a")); // no class in particular
}

static void methods(const lowered *l) {
    const tfr_scope *s = &l->scope;
    tfr_names *names = l->module.names;
    uint32_t base = tfr_scope_class(s, tfr_names_lit(names, "Base"));
    uint32_t derived = tfr_scope_class(s, tfr_names_lit(names, "Derived"));
    uint32_t own = tfr_scope_class(s, tfr_names_lit(names, "Own"));
    tfr_name forward = tfr_names_lit(names, "forward"), init = tfr_names_lit(names, "__init__");
    CHECK_INT(tfr_scope_method(s, derived, init)->class_index, base);
    CHECK_INT(tfr_scope_method(s, derived, forward)->class_index, derived);
    CHECK(tfr_scope_overridden(s, base, forward));
    CHECK(!tfr_scope_overridden(s, derived, forward));
    CHECK(!tfr_scope_overridden(s, base, init));
    CHECK(tfr_scope_derives(s, derived, base) && !tfr_scope_derives(s, base, derived));
    CHECK(!tfr_scope_method(s, own, forward)); // its own base: ends all the same
    CHECK(tfr_scope_method(s, base, tfr_names_lit(names, "s"))->is_static);
}

static void stars_and_letters(const tfr_rules *rules, tfr_names *names, tfr_arena *arena) {
    lowered *l = lower(rules, names, arena, "import b4\nfrom x import *\nimport after\n");
    CHECK_INT(kind_of(l, "b4"), TFR_BIND_MANY);
    CHECK_INT(kind_of(l, "after"), TFR_BIND_IMPORT);
    CHECK_INT(l->scope.strange, 0);
    CHECK_INT(
        lower(rules, names, arena, "\xcf\x83 = '\xef\xbd\x98' # \xef\xac\x81\n")->scope.strange, 0);
    CHECK(lower(rules, names, arena, "def f():\n    \xef\xbd\x98 = 1\n")->scope.strange != 0);
    CHECK(lower(rules, names, arena, "\xc2\xb5 = 1\n")->scope.strange != 0); // micro sign: Greek mu
    CHECK(lower(rules, names, arena, "e\xcc\x81 = 1\n")->scope.strange != 0); // combining accent
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    tfr_rules *rules;
    tfr_error err = {0};
    CHECK_INT(tfr_rules_new(&rules, NULL, 0, &err), TFR_OK);
    tfr_names names;
    tfr_names_init(&names, &rules->names, arena);
    lowered *l = lower(rules, &names, arena, TEXT);
    bindings(l);
    attributes(l);
    methods(l);
    stars_and_letters(rules, &names, arena);
    tfr_rules_free(rules);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
