// Interned names: equal text, equal number, through a read-only parent and while tables grow.
#include "parser/names.h"

#include "tests/unit/check.h"

static void one_table(tfr_arena *arena) {
    tfr_names names;
    tfr_names_init(&names, NULL, arena);
    CHECK_INT(tfr_names_find(&names, TFR_STR("a")), 0);
    tfr_name a = tfr_names_lit(&names, "a");
    CHECK(a != 0);
    CHECK_INT(tfr_names_lit(&names, "a"), a);
    CHECK(tfr_names_lit(&names, "A") != a);
    CHECK_INT(tfr_names_find(&names, TFR_STR("a")), a);
    CHECK_STR(tfr_names_text(&names, a), "a");
    CHECK_STR(tfr_names_text(&names, 0), "");
    CHECK_STR(tfr_names_text(&names, 999), "");
    tfr_name empty = tfr_names_lit(&names, "");
    CHECK(empty != 0);
    CHECK_INT(tfr_names_lit(&names, ""), empty);
}

static void growth(tfr_arena *arena) {
    tfr_names names;
    tfr_names_init(&names, NULL, arena);
    for (int i = 0; i < 20000; i++)
        CHECK_INT(tfr_names_add(&names, tfr_str_format(arena, "name%d", i)), i + 1);
    for (int i = 0; i < 20000; i++) {
        tfr_str text = tfr_str_format(arena, "name%d", i);
        CHECK_INT(tfr_names_find(&names, text), i + 1);
        CHECK(tfr_str_eq(tfr_names_text(&names, (tfr_name)i + 1), text));
    }
}

// A file's table stands on the rules': what the rules know keeps its number.
static void parents(tfr_arena *arena) {
    tfr_names rules, file, other;
    tfr_names_init(&rules, NULL, arena);
    tfr_name x = tfr_names_lit(&rules, "x");
    tfr_names_init(&file, &rules, arena);
    tfr_names_init(&other, &rules, arena);
    CHECK_INT(tfr_names_lit(&file, "x"), x);
    tfr_name y = tfr_names_lit(&file, "y");
    CHECK(y > x);
    CHECK_INT(tfr_names_find(&rules, TFR_STR("y")), 0);
    CHECK_INT(tfr_names_find(&other, TFR_STR("y")), 0);
    CHECK_INT(tfr_names_lit(&other, "z"), y); // tables side by side use the same numbers
    CHECK_STR(tfr_names_text(&file, x), "x");
    CHECK_STR(tfr_names_text(&file, y), "y");
    CHECK_STR(tfr_names_text(&other, y), "z");
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    one_table(arena);
    growth(arena);
    parents(arena);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
