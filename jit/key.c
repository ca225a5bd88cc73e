// Both the writer and the strict parser of key texts stand here, so that they cannot drift apart.
#include "jit/key.h"

#include "jit/sha256.h"

#include <stdio.h>

#define FIRST_LINE "tfrewrite key 1\n"

void tfr_field_add(tfr_buf *out, const char *name, tfr_str value) {
    tfr_buf_format(out, "%s %zu\n", name, value.len);
    tfr_buf_add_str(out, value);
    tfr_buf_add(out, "\n", 1);
}

static bool take(tfr_str *rest, const char *text) {
    size_t len = strlen(text);
    if (rest->len < len || memcmp(rest->data, text, len) != 0) {
        return false;
    }
    rest->data += len;
    rest->len -= len;
    return true;
}

bool tfr_field_take(tfr_str *rest, const char *name, tfr_str *value) {
    tfr_str at = *rest;
    if (!take(&at, name) || !take(&at, " ")) {
        return false;
    }
    size_t len = 0, digits = 0;
    for (; digits < at.len && at.data[digits] >= '0' && at.data[digits] <= '9'; digits++) {
        len = len * 10 + (size_t)(at.data[digits] - '0');
        if (len > at.len || (digits > 0 && at.data[0] == '0')) {
            return false; // longer than what follows, or a second spelling of the same number
        }
    }
    at.data += digits;
    at.len -= digits;
    if (digits == 0 || !take(&at, "\n") || at.len <= len || at.data[len] != '\n') {
        return false;
    }
    *value = (tfr_str){at.data, len};
    *rest = (tfr_str){at.data + len + 1, at.len - len - 1};
    return true;
}

static void add_all_but_compiler(tfr_buf *out, const tfr_key *key) {
    tfr_buf_add(out, FIRST_LINE, sizeof FIRST_LINE - 1);
    tfr_field_add(out, "kind", key->kind);
    tfr_field_add(out, "abi", key->abi);
    tfr_field_add(out, "source", key->source);
    tfr_field_add(out, "options", key->options);
    tfr_field_add(out, "target", key->target);
}

tfr_str tfr_key_text(tfr_arena *arena, const tfr_key *key) {
    tfr_buf out = {.arena = arena};
    add_all_but_compiler(&out, key);
    tfr_field_add(&out, "compiler", key->compiler);
    return tfr_buf_str(&out);
}

bool tfr_key_parse(tfr_str text, tfr_key *out) {
    return take(&text, FIRST_LINE) && tfr_field_take(&text, "kind", &out->kind) &&
           tfr_field_take(&text, "abi", &out->abi) &&
           tfr_field_take(&text, "source", &out->source) &&
           tfr_field_take(&text, "options", &out->options) &&
           tfr_field_take(&text, "target", &out->target) &&
           tfr_field_take(&text, "compiler", &out->compiler) && text.len == 0;
}

// The hash of what add_all_but_compiler writes, without making the text.
static void hash_field(tfr_sha256 *sha, const char *name, tfr_str value) {
    char head[64];
    int len = snprintf(head, sizeof head, "%s %zu\n", name, value.len);
    tfr_sha256_add(sha, head, (size_t)len);
    if (value.len) {
        tfr_sha256_add(sha, value.data, value.len);
    }
    tfr_sha256_add(sha, "\n", 1);
}

void tfr_key_name(const tfr_key *key, char *out) {
    tfr_sha256 sha;
    uint8_t digest[TFR_SHA256_SIZE];
    char hex[TFR_SHA256_HEX];
    tfr_sha256_start(&sha);
    tfr_sha256_add(&sha, FIRST_LINE, sizeof FIRST_LINE - 1);
    hash_field(&sha, "kind", key->kind);
    hash_field(&sha, "abi", key->abi);
    hash_field(&sha, "source", key->source);
    hash_field(&sha, "options", key->options);
    hash_field(&sha, "target", key->target);
    tfr_sha256_end(&sha, digest);
    tfr_sha256_hex(digest, hex);
    memcpy(out, hex, 64);
    tfr_sha256_of(key->compiler.data, key->compiler.len, digest);
    tfr_sha256_hex(digest, hex);
    (void)snprintf(out + 64, TFR_KEY_NAME_SIZE - 64, "-%.16s.tfrk", hex);
}

// The first line in which two texts part, for fields too long to be shown.
static void add_first_difference(tfr_str a, tfr_str b, tfr_buf *out) {
    size_t line = 1, start = 0, i = 0;
    for (; i < a.len && i < b.len && a.data[i] == b.data[i]; i++) {
        if (a.data[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    tfr_str part[2] = {{a.data + start, a.len - start}, {b.data + start, b.len - start}};
    for (int n = 0; n < 2; n++) {
        const char *end = part[n].len ? memchr(part[n].data, '\n', part[n].len) : NULL;
        part[n].len = end ? (size_t)(end - part[n].data) : part[n].len;
        part[n].len = part[n].len > 80 ? 80 : part[n].len;
    }
    tfr_buf_format(out, "line %zu of this one is \"%.*s\", of the other \"%.*s\"", line,
                   (int)part[0].len, part[0].len ? part[0].data : "", (int)part[1].len,
                   part[1].len ? part[1].data : "");
}

void tfr_key_differences(const tfr_key *this_one, const tfr_key *other, tfr_buf *out) {
    const struct {
        const char *name;
        tfr_str a, b;
    } fields[] = {
        {"kind", this_one->kind, other->kind},
        {"abi", this_one->abi, other->abi},
        {"source", this_one->source, other->source},
        {"options", this_one->options, other->options},
        {"target", this_one->target, other->target},
        {"compiler", this_one->compiler, other->compiler},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        tfr_str a = fields[i].a, b = fields[i].b;
        if (tfr_str_eq(a, b)) {
            continue;
        }
        tfr_buf_format(out, "%s: ", fields[i].name);
        if (a.len > 300 || b.len > 300) {
            add_first_difference(a, b, out);
        } else {
            tfr_buf_format(out, "this one has \"%.*s\", the other \"%.*s\"", (int)a.len,
                           a.len ? a.data : "", (int)b.len, b.len ? b.data : "");
        }
        tfr_buf_add(out, "\n", 1);
    }
}
