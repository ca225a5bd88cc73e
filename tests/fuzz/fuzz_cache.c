// Any bytes as a file of the kernel cache: as an entry, as a choice, as the text of a key, and as a
// bundle of entries. Held: it
// is refused, or it is exactly what our own writer makes of what was read. The first byte says
// whether the checksum is put right first, as no mutation would ever hit it.
#include "jit/bundle.h"
#include "jit/choice.h"
#include "jit/entry.h"
#include "jit/key.h"
#include "jit/load.h"
#include "jit/sha256.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_key(tfr_arena *arena, tfr_str text) {
    tfr_key key, again;
    char name[TFR_KEY_NAME_SIZE];
    if (!tfr_key_parse(text, &key)) {
        return;
    }
    tfr_buf differences = {.arena = arena};
    tfr_key_name(&key, name);
    if (strlen(name) + 1 != sizeof name || !tfr_str_eq(tfr_key_text(arena, &key), text) ||
        !tfr_key_parse(tfr_key_text(arena, &key), &again)) {
        abort();
    }
    tfr_key_differences(&key, &again, &differences);
    if (differences.len) {
        abort();
    }
    again.source = again.compiler;
    tfr_key_differences(&key, &again, &differences);
}

static void check_entry(tfr_arena *arena, tfr_str bytes) {
    tfr_entry entry;
    if (!tfr_entry_read(bytes, &entry)) {
        if (!tfr_str_eq(tfr_entry_write(arena, &entry), bytes)) {
            abort();
        }
        check_key(arena, entry.key);
        (void)tfr_load_fault(entry.binary);
    }
}

static void check_choice(tfr_arena *arena, tfr_str bytes) {
    tfr_str name, value;
    if (!tfr_choice_read(bytes, &name, &value) &&
        !tfr_str_eq(tfr_choice_write(arena, name, value), bytes)) {
        abort();
    }
}

static void check_bundle(tfr_arena *arena, tfr_str bytes) {
    tfr_bundle bundle;
    if (!tfr_bundle_read(arena, bytes, &bundle) &&
        !tfr_str_eq(tfr_bundle_write(arena, bundle.entries, bundle.count), bytes)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tfr_arena *arena = tfr_arena_new();
    tfr_str bytes = {(const char *)data + (size > 0), size - (size > 0)};
    check_entry(arena, bytes);
    check_choice(arena, bytes);
    check_key(arena, bytes);
    check_bundle(arena, bytes);
    (void)tfr_load_fault(bytes);
    if (size > 0 && data[0] % 2 == 1 && bytes.len >= TFR_SHA256_SIZE) {
        uint8_t *right = tfr_arena_alloc(arena, bytes.len);
        memcpy(right, bytes.data, bytes.len);
        tfr_sha256_of(right, bytes.len - TFR_SHA256_SIZE, right + bytes.len - TFR_SHA256_SIZE);
        check_entry(arena, (tfr_str){(const char *)right, bytes.len});
        check_bundle(arena, (tfr_str){(const char *)right, bytes.len});
    }
    if (size > 0 && data[0] % 4 == 2) {
        // The same for a choice: its last field is the digest of what stands before.
        tfr_buf choice = {.arena = arena};
        char hex[TFR_SHA256_HEX];
        uint8_t digest[TFR_SHA256_SIZE];
        tfr_buf_add_str(&choice, bytes);
        tfr_sha256_of(bytes.data, bytes.len, digest);
        tfr_sha256_hex(digest, hex);
        tfr_field_add(&choice, "sha256", tfr_str_from(hex));
        check_choice(arena, tfr_buf_str(&choice));
    }
    tfr_arena_free(arena);
    return 0;
}
