// Messages are one line of valid UTF-8 within their bounds, whatever goes in.
#include "runtime/error.h"

#include "tests/unit/check.h"

static void plain(void) {
    tfr_error err;
    CHECK_INT(tfr_fail(&err, TFR_E_USAGE, "a.py", 3, 5, "needs %d", 7), TFR_E_USAGE);
    CHECK(strcmp(err.path, "a.py") == 0 && err.line == 3 && err.column == 5);
    CHECK(strcmp(err.message, "needs 7") == 0);
    CHECK_INT(tfr_fail(NULL, TFR_E_REFUSED, NULL, 0, 0, "x"), TFR_E_REFUSED);
    CHECK_INT(tfr_fail(&err, TFR_E_REFUSED, NULL, 0, 0, "a\nb\033[31m"), TFR_E_REFUSED);
    CHECK(strcmp(err.path, "") == 0);
    CHECK(strcmp(err.message, "a b [31m") == 0);
}

static void cut(void) {
    tfr_error err;
    char path[2000];
    char text[2000];
    // "\xc3\xa4" two bytes each: whatever the parity, no half of one may stay.
    for (size_t shift = 0; shift < 2; shift++) {
        size_t n = shift;
        memset(path, 'p', sizeof path);
        memset(text, 't', sizeof text);
        for (; n + 2 < sizeof text; n += 2) {
            memcpy(path + n, "\xc3\xa4", 2);
            memcpy(text + n, "\xc3\xa4", 2);
        }
        path[n] = text[n] = 0;
        (void)tfr_fail(&err, TFR_E_USAGE, path, 0, 0, "%s", text);
        size_t len = strlen(err.message);
        CHECK(len < sizeof err.message && len > sizeof err.message - 8);
        CHECK(strcmp(err.message + len - 3, "...") == 0);
        CHECK(memcmp(err.message + len - 5, "\xc3\xa4", 2) == 0);
        CHECK(memcmp(err.path, "...\xc3\xa4", 5) == 0);
        CHECK(strlen(err.path) < sizeof err.path);
        CHECK(strcmp(err.path + strlen(err.path) - 4, path + n - 4) == 0);
    }
}

int main(void) {
    plain();
    cut();
    return CHECK_DONE();
}
