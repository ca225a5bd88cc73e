// The whole test framework of the C unit tests: a failed check says where and goes on.
#ifndef TFR_CHECK_H
#define TFR_CHECK_H

#include "runtime/arena.h"

#include <inttypes.h>
#include <stdio.h>

static int check_failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_failures++;                                                                      \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);               \
        }                                                                                          \
    } while (0)

#define CHECK_INT(actual, expected)                                                                \
    do {                                                                                           \
        long long check_a = (long long)(actual);                                                   \
        long long check_e = (long long)(expected);                                                 \
        if (check_a != check_e) {                                                                  \
            check_failures++;                                                                      \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, check_a, \
                    check_e);                                                                      \
        }                                                                                          \
    } while (0)

// `actual` is a tfr_str, `expected` a C string.
#define CHECK_STR(actual, expected) check_str(__FILE__, __LINE__, (actual), (expected))

// That `text` (a C string) contains `part`.
#define CHECK_HAS(text, part) check_has(__FILE__, __LINE__, (text), (part))

__attribute__((unused)) static void check_str(const char *file, int line, tfr_str actual,
                                              const char *expected) {
    if (!tfr_str_eq(actual, tfr_str_from(expected))) {
        check_failures++;
        fprintf(stderr, "%s:%d: got\n%.*s\nnot\n%s\n", file, line, (int)actual.len,
                actual.len ? actual.data : "", expected);
    }
}

__attribute__((unused)) static void check_has(const char *file, int line, const char *text,
                                              const char *part) {
    if (!strstr(text, part)) {
        check_failures++;
        fprintf(stderr, "%s:%d: \"%s\" is not in\n%s\n", file, line, part, text);
    }
}

#define CHECK_DONE() (check_failures ? 1 : 0)

#endif
