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

// What the message of a compiler that fell to pieces may hold.
static void hostile(void) {
    static const struct {
        const char *text, *shown;
    } CASES[] = {
        {"a\x7f"
         "b\tc\r",
         "a b c "},
        {"\xc2\x80\xc2\x9b"
         "31m\xc2\x9f\xc2\xa0",
         "    31m  \xc2\xa0"},                                // C1
        {"\xe2\x80\xa8.\xe2\x80\xa9", "   .   "},             // line ends
        {"\xe2\x80\xae.\xe2\x81\xa6.\xd8\x9c", "   .   .  "}, // direction
        {"\xe2\x80\x8b.\xef\xbb\xbf", "   .   "},             // unseen
        {"\x80.\xc3.\xc0\xaf\xed\xa0\x80\xff", "?.?.??????"}, // no UTF-8
        {"\xf4\x90\x80\x80\xe2\x82", "??????"},               // nor that
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        tfr_error err;
        (void)tfr_fail(&err, TFR_E_USAGE, NULL, 0, 0, "%s", CASES[i].text);
        CHECK(strcmp(err.message, CASES[i].shown) == 0);
    }
}

int main(void) {
    plain();
    hostile();
    cut();
    return CHECK_DONE();
}
