// One file: a fixed head, label, target, key, binary, and the SHA-256 of all before it. The reader
// believes nothing: sizes must add up to the file exactly, so that a cut or grown file is seen
// before its digest is computed, and the target must be the one its key names.
#include "jit/entry.h"

#include "jit/bytes.h"
#include "jit/key.h"
#include "jit/sha256.h"

#define MAGIC "TFRKRNL\n"
#define HEAD_SIZE 48u
#define MAX_TEXT ((size_t)64 << 10) // label, target

// Offsets in the head: magic 0, version 8, sizes of label 12, target 16, key 20, binary 24,
// registers 28, shared bytes 32, block 36, reserved 40 and 44.
tfr_str tfr_entry_write(tfr_arena *arena, const tfr_entry *entry) {
    tfr_str label = entry->label;
    label.len = label.len > MAX_TEXT ? MAX_TEXT : label.len;
    size_t body = HEAD_SIZE + label.len + entry->target.len + entry->key.len + entry->binary.len;
    uint8_t *data = tfr_arena_alloc(arena, body + TFR_SHA256_SIZE);
    memcpy(data, MAGIC, 8);
    tfr_put32(data + 8, TFR_ENTRY_VERSION);
    tfr_put32(data + 12, (uint32_t)label.len);
    tfr_put32(data + 16, (uint32_t)entry->target.len);
    tfr_put32(data + 20, (uint32_t)entry->key.len);
    tfr_put32(data + 24, (uint32_t)entry->binary.len);
    tfr_put32(data + 28, entry->registers);
    tfr_put32(data + 32, entry->shared_bytes);
    tfr_put32(data + 36, entry->block);
    tfr_str parts[4] = {label, entry->target, entry->key, entry->binary};
    size_t at = HEAD_SIZE;
    for (int i = 0; i < 4; i++) {
        if (parts[i].len) {
            memcpy(data + at, parts[i].data, parts[i].len);
        }
        at += parts[i].len;
    }
    tfr_sha256_of(data, body, data + body);
    return (tfr_str){(const char *)data, body + TFR_SHA256_SIZE};
}

const char *tfr_entry_read(tfr_str bytes, tfr_entry *out) {
    if (bytes.len == 0) {
        return "it is empty";
    }
    if (bytes.len > TFR_ENTRY_MAX_BYTES) {
        return "it is too large";
    }
    if (bytes.len < 8 || memcmp(bytes.data, MAGIC, 8) != 0) {
        return "it is no cache entry";
    }
    if (bytes.len < HEAD_SIZE + TFR_SHA256_SIZE) {
        return "it is cut off";
    }
    if (tfr_get32(bytes.data + 8) != TFR_ENTRY_VERSION) {
        return "it has another format version";
    }
    const char *at = bytes.data + HEAD_SIZE;
    size_t left = bytes.len - HEAD_SIZE - TFR_SHA256_SIZE;
    tfr_str *parts[4] = {&out->label, &out->target, &out->key, &out->binary};
    for (int i = 0; i < 4; i++) {
        size_t len = tfr_get32(bytes.data + 12 + 4 * i);
        if (len > left) {
            return "it is cut off";
        }
        *parts[i] = (tfr_str){at, len};
        at += len;
        left -= len;
    }
    if (left) {
        return "its sizes do not add up";
    }
    uint8_t digest[TFR_SHA256_SIZE];
    tfr_sha256_of(bytes.data, bytes.len - TFR_SHA256_SIZE, digest);
    if (memcmp(digest, at, TFR_SHA256_SIZE) != 0) {
        return "its checksum is wrong";
    }
    out->registers = tfr_get32(bytes.data + 28);
    out->shared_bytes = tfr_get32(bytes.data + 32);
    out->block = tfr_get32(bytes.data + 36);
    if (tfr_get32(bytes.data + 40) || tfr_get32(bytes.data + 44)) {
        return "it has another format version";
    }
    tfr_key key;
    if (out->label.len > MAX_TEXT || out->target.len > MAX_TEXT || !tfr_key_parse(out->key, &key) ||
        !tfr_str_eq(key.target, out->target) || out->binary.len == 0) {
        return "its key does not fit it";
    }
    return NULL;
}
