// SHA-256 against the vectors of NIST (FIPS 180-4 examples, CAVP), by the CPU's instructions and
// without them, whole and in pieces.
#include "jit/sha256.h"

#include "tests/unit/check.h"

static void check_digest(const void *data, size_t len, const char *expected) {
    uint8_t digest[TFR_SHA256_SIZE];
    char hex[TFR_SHA256_HEX];
    tfr_sha256_of(data, len, digest);
    tfr_sha256_hex(digest, hex);
    CHECK_STR(tfr_str_from(hex), expected);
}

static void vectors(void) {
    static char many[1000000];
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    const char *four = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                       "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
    check_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest(two, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_digest(four, 112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    check_digest("\xd3", 1, "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
    check_digest("\x11\xaf", 2, "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98");
    memset(many, 'a', sizeof many);
    check_digest(many, sizeof many,
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces_are_as_the_whole(void) {
    uint8_t data[400], whole[TFR_SHA256_SIZE], parts[TFR_SHA256_SIZE];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 31 + 7);
    }
    for (size_t len = 0; len <= sizeof data; len += 3) {
        tfr_sha256_of(data, len, whole);
        for (size_t step = 1; step < 130; step += 9) {
            tfr_sha256 sha;
            tfr_sha256_start(&sha);
            for (size_t at = 0; at < len; at += step) {
                tfr_sha256_add(&sha, data + at, len - at < step ? len - at : step);
            }
            tfr_sha256_end(&sha, parts);
            CHECK(memcmp(whole, parts, sizeof whole) == 0);
        }
    }
}

int main(void) {
    for (int instructions = 0; instructions < 2; instructions++) {
        (void)tfr_sha256_use_instructions(instructions);
        vectors();
        pieces_are_as_the_whole();
    }
    return CHECK_DONE();
}
