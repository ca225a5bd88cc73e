// Any bytes as a source file, through the parser and every rule. Held: the call succeeds or refuses
// with a message; an unchanged file is the same bytes; what was rewritten is accepted again and
// does not change a second time.
#include "rewriter/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tfr_rules *rules;

static void fail(const char *what, const tfr_error *err) {
    fprintf(stderr, "fuzz_rewrite: %s: %s\n", what, err->message);
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    tfr_error err = {0};
    if (tfr_rules_new(&rules, NULL, 0, &err) != TFR_OK)
        fail("the built-in rules", &err);
    return 0;
}

// False: refused. Any other failure is a finding.
static bool rewrite(tfr_result *out, tfr_str bytes, tfr_target target, tfr_arena *arena,
                    tfr_error *err) {
    tfr_options options = {.rules = rules, .target = target};
    tfr_source *src = TFR_NEW(arena, tfr_source);
    tfr_status status = tfr_source_from_bytes(src, "fuzz.py", bytes, arena, err);
    if (status == TFR_OK)
        status = tfr_rewrite(out, src, &options, arena, err);
    if (status == TFR_OK)
        return true;
    if (status != TFR_E_REFUSED || err->message[0] == '\0')
        fail("refused without a reason", err);
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tfr_arena *arena = tfr_arena_new();
    tfr_str bytes = {(const char *)data, size};
    tfr_target target = size % 2 ? TFR_TARGET_HOST : TFR_TARGET_AUTO;
    tfr_error err = {0};
    tfr_result first, second;
    if (rewrite(&first, bytes, target, arena, &err)) {
        if (first.report.changed == tfr_str_eq(first.text, bytes))
            fail("the report does not say whether the text changed", &err);
        if (!rewrite(&second, first.text, target, arena, &err))
            fail("its output is refused", &err);
        if (!tfr_str_eq(first.text, second.text))
            fail("a second run changes the output", &err);
    }
    tfr_arena_free(arena);
    return 0;
}
