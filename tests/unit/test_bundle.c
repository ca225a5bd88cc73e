// Bundles: what is written is read; anything else is refused before a byte of it is believed.
#include "jit/bundle.h"
#include "jit/key.h"
#include "jit/sha256.h"
#include "tests/unit/folders.h"

static tfr_arena *arena;

// A whole file of the cache. Host entries are not looked into: only loading does that.
static tfr_str entry_of(const char *kind, const char *target, const char *source) {
    tfr_key key = {tfr_str_from(kind), TFR_STR("1"),         tfr_str_from(source),
                   TFR_STR("-O3"),     tfr_str_from(target), TFR_STR("gcc 12")};
    tfr_entry entry = {.label = TFR_STR("op.variant"),
                       .target = key.target,
                       .key = tfr_key_text(arena, &key),
                       .binary = TFR_STR("\177ELF")};
    return tfr_entry_write(arena, &entry);
}

static const char *name_of(tfr_str bytes) {
    tfr_entry entry;
    tfr_key key;
    char *name = tfr_arena_alloc(arena, TFR_KEY_NAME_SIZE);
    CHECK(!tfr_entry_read(bytes, &entry) && tfr_key_parse(entry.key, &key));
    tfr_key_name(&key, name);
    return name;
}

// Two entries in the order of their names.
static void two_entries(tfr_str out[2]) {
    out[0] = entry_of("host", "x86_64:", "int a;\n");
    out[1] = entry_of("host", "x86_64:", "int b;\n");
    if (strcmp(name_of(out[0]), name_of(out[1])) > 0) {
        tfr_str first = out[0];
        out[0] = out[1];
        out[1] = first;
    }
}

static const char *fault_of(tfr_str bytes) {
    tfr_bundle bundle;
    const char *fault = tfr_bundle_read(arena, bytes, &bundle);
    return fault ? fault : "none";
}

static void written_and_read(void) {
    tfr_str entries[2];
    tfr_bundle bundle;
    two_entries(entries);
    for (size_t count = 0; count <= 2; count++) {
        tfr_str bytes = tfr_bundle_write(arena, entries, count);
        CHECK(!tfr_bundle_read(arena, bytes, &bundle));
        CHECK_INT(bundle.count, count);
        for (size_t i = 0; i < count; i++) {
            CHECK(tfr_str_eq(bundle.entries[i], entries[i]));
        }
        CHECK(tfr_str_eq(tfr_bundle_write(arena, bundle.entries, bundle.count), bytes));
    }
}

static tfr_str with_right_sum(tfr_str bytes) {
    uint8_t *copy = tfr_arena_alloc(arena, bytes.len);
    memcpy(copy, bytes.data, bytes.len);
    tfr_sha256_of(copy, bytes.len - 32, copy + bytes.len - 32);
    return (tfr_str){(const char *)copy, bytes.len};
}

static void refused(void) {
    tfr_str entries[2], swapped[2], twice[2];
    two_entries(entries);
    swapped[0] = entries[1];
    swapped[1] = entries[0];
    twice[0] = twice[1] = entries[0];
    tfr_str good = tfr_bundle_write(arena, entries, 2);
    CHECK_HAS(fault_of(TFR_STR("")), "no bundle");
    CHECK_HAS(fault_of(entries[0]), "no bundle");
    CHECK_HAS(fault_of((tfr_str){good.data, 40}), "cut off");
    CHECK_HAS(fault_of((tfr_str){good.data, good.len - 1}), "checksum");
    CHECK_HAS(fault_of(tfr_bundle_write(arena, swapped, 2)), "not in order");
    CHECK_HAS(fault_of(tfr_bundle_write(arena, twice, 2)), "not in order");
    tfr_str other = entry_of("other", "x", "s");
    CHECK_HAS(fault_of(tfr_bundle_write(arena, &other, 1)), "unknown kind");
    tfr_str no_cubin = entry_of("cuda", "sm_90a", "s");
    CHECK_HAS(fault_of(tfr_bundle_write(arena, &no_cubin, 1)), "no ELF file");
    tfr_str later = entry_of("cuda", "sm_200", "s"); // of a later version: kept as it is
    CHECK_HAS(fault_of(tfr_bundle_write(arena, &later, 1)), "none");
    char *changed = tfr_arena_alloc(arena, good.len);
    for (size_t i = 0; i + 32 < good.len; i++) { // even where the sum of the whole is put right
        memcpy(changed, good.data, good.len);
        changed[i] ^= 1;
        CHECK(strcmp(fault_of((tfr_str){changed, good.len}), "none") != 0);
        CHECK(strcmp(fault_of(with_right_sum((tfr_str){changed, good.len})), "none") != 0);
    }
    memcpy(changed, good.data, good.len);
    memset(changed + 12, 0xff, 4);
    CHECK_HAS(fault_of(with_right_sum((tfr_str){changed, good.len})), "do not add up");
}

static void stored_once(void) {
    tfr_str entries[2];
    size_t stored, kept;
    tfr_error err = {0};
    two_entries(entries);
    tfr_str bytes = tfr_bundle_write(arena, entries, 2);
    const char *file = tfr_str_dup(arena, tfr_str_from(in_base("bundle")));
    const char *to = tfr_str_dup(arena, tfr_str_from(in_base("to")));
    write_text(file, bytes.data, bytes.len);
    CHECK(tfr_bundle_unpack(file, to, &stored, &kept, &err) == TFR_OK);
    CHECK(stored == 2 && kept == 0);
    CHECK(tfr_bundle_unpack(file, to, &stored, &kept, &err) == TFR_OK);
    CHECK(stored == 0 && kept == 2);
    // A damaged one makes room.
    write_text(tfr_str_format(arena, "%s/kernels/%s", to, name_of(entries[1])).data, "x", 1);
    CHECK(tfr_bundle_unpack(file, to, &stored, &kept, &err) == TFR_OK);
    CHECK(stored == 1 && kept == 1);
    write_text(file, bytes.data, bytes.len - 1);
    CHECK(tfr_bundle_unpack(file, in_base("none"), &stored, &kept, &err) != TFR_OK);
    CHECK_HAS(err.message, "not unpacked: its checksum is wrong");
    CHECK(access(in_base("none"), F_OK) != 0);
}

int main(void) {
    arena = tfr_arena_new();
    RUN(written_and_read);
    RUN(refused);
    RUN(stored_once);
    tfr_arena_free(arena);
    return check_failures != 0;
}
