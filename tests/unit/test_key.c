// Keys and entries as bytes: every field counts, none can pass for another, and no altered or cut
// text or file is taken.
#include "jit/choice.h"
#include "jit/cpu.h"
#include "jit/entry.h"
#include "jit/key.h"
#include "jit/sha256.h"

#include "tests/unit/check.h"

static const tfr_key key = {
    .kind = {"host", 4},
    .abi = {"1", 1},
    .source = {"int x;\nint y;\n", 14},
    .options = {"-O3 -w", 6},
    .target = {"x86_64:avx2", 11},
    .compiler = {"gcc 12", 6},
};

static void a_key_reads_back(tfr_arena *arena) {
    tfr_key out;
    tfr_str text = tfr_key_text(arena, &key);
    CHECK(tfr_key_parse(text, &out));
    CHECK(tfr_str_eq(out.kind, key.kind) && tfr_str_eq(out.abi, key.abi));
    CHECK(tfr_str_eq(out.source, key.source) && tfr_str_eq(out.options, key.options));
    CHECK(tfr_str_eq(out.target, key.target) && tfr_str_eq(out.compiler, key.compiler));
    for (size_t len = 0; len < text.len; len++) {
        CHECK(!tfr_key_parse((tfr_str){text.data, len}, &out));
    }
    CHECK(!tfr_key_parse(tfr_str_format(arena, "%.*sx", (int)text.len, text.data), &out));
    const char *bad[] = {"tfrewrite key 1\nkind 04\nhost\n", "tfrewrite key 1\nkind -4\nhost\n",
                         "tfrewrite key 1\nkind 99999999999999999999999\nhost\n",
                         "tfrewrite key 1\nkind \nhost\n", "tfrewrite key 2\nkind 4\nhost\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!tfr_key_parse(tfr_str_from(bad[i]), &out));
    }
}

static void each_field_changes_the_name(void) {
    char name[TFR_KEY_NAME_SIZE], other[TFR_KEY_NAME_SIZE];
    tfr_key_name(&key, name);
    CHECK_INT(strlen(name), TFR_KEY_NAME_SIZE - 1);
    CHECK_HAS(name, ".tfrk");
    tfr_key changed[6] = {key, key, key, key, key, key};
    changed[0].kind = TFR_STR("cuda");
    changed[1].abi = TFR_STR("2");
    changed[2].source = TFR_STR("int x;\nint z;\n");
    changed[3].options = TFR_STR("-O2 -w");
    changed[4].target = TFR_STR("x86_64:");
    changed[5].compiler = TFR_STR("gcc 13");
    for (size_t i = 0; i < 6; i++) {
        tfr_key_name(&changed[i], other);
        CHECK(strcmp(name, other) != 0);
        // All but the compiler make the part before the dash.
        CHECK_INT(strncmp(name, other, TFR_KEY_BASE_LEN) == 0, i == 5);
    }
}

// ("a|b", "c") is not ("a", "b|c"), whatever stands between.
static void fields_do_not_run_together(tfr_arena *arena) {
    char name[TFR_KEY_NAME_SIZE], other[TFR_KEY_NAME_SIZE];
    tfr_key a = key, b = key;
    const char *split[][4] = {{"a|b", "c", "a", "b|c"},
                              {"a\noptions 1\nb", "c", "a", "b\noptions 1\nc"},
                              {"ab", "", "a", "b"},
                              {"", "ab", "ab", ""}};
    for (size_t i = 0; i < sizeof split / sizeof *split; i++) {
        a.source = tfr_str_from(split[i][0]);
        a.options = tfr_str_from(split[i][1]);
        b.source = tfr_str_from(split[i][2]);
        b.options = tfr_str_from(split[i][3]);
        tfr_key_name(&a, name);
        tfr_key_name(&b, other);
        CHECK(strcmp(name, other) != 0);
        CHECK(!tfr_str_eq(tfr_key_text(arena, &a), tfr_key_text(arena, &b)));
    }
}

// The name does not depend on what tfr_key_text writes in another way.
static void the_name_hashes_the_text(tfr_arena *arena) {
    char name[TFR_KEY_NAME_SIZE], hex[TFR_SHA256_HEX];
    uint8_t digest[TFR_SHA256_SIZE];
    tfr_str text = tfr_key_text(arena, &key);
    tfr_key_name(&key, name);
    tfr_sha256_of(text.data, text.len - strlen("compiler 6\ngcc 12\n"), digest);
    tfr_sha256_hex(digest, hex);
    CHECK(strncmp(name, hex, 64) == 0);
    tfr_sha256_of("gcc 12", 6, digest);
    tfr_sha256_hex(digest, hex);
    CHECK(strncmp(name + 65, hex, 16) == 0 && strcmp(name + 81, ".tfrk") == 0);
}

static void differences_are_named(tfr_arena *arena) {
    tfr_buf out = {.arena = arena};
    char large_a[1000], large_b[1000];
    memset(large_a, 'a', sizeof large_a);
    memset(large_b, 'a', sizeof large_b);
    large_a[499] = large_b[499] = '\n';
    large_b[501] = 'b';
    tfr_key other = key, this_one = key;
    tfr_key_differences(&key, &other, &out);
    CHECK_INT(out.len, 0);
    other.compiler = TFR_STR("clang 14");
    this_one.source = (tfr_str){large_a, sizeof large_a};
    other.source = (tfr_str){large_b, sizeof large_b};
    tfr_key_differences(&this_one, &other, &out);
    tfr_buf_add(&out, "", 1);
    CHECK_HAS(out.data, "compiler: this one has \"gcc 12\", the other \"clang 14\"");
    CHECK_HAS(out.data, "source: line 2 ");
    CHECK_HAS(out.data, "\"abaaa");
}

static tfr_entry example(tfr_arena *arena) {
    return (tfr_entry){.label = TFR_STR("rms_norm X=1"),
                       .target = key.target,
                       .key = tfr_key_text(arena, &key),
                       .binary = TFR_STR("\x7f"
                                         "ELF..."),
                       .registers = 40,
                       .shared_bytes = 4096,
                       .block = 256};
}

static void an_entry_reads_back(tfr_arena *arena) {
    tfr_entry in = example(arena), out;
    tfr_str bytes = tfr_entry_write(arena, &in);
    CHECK(tfr_entry_read(bytes, &out) == NULL);
    CHECK(tfr_str_eq(in.label, out.label) && tfr_str_eq(in.target, out.target));
    CHECK(tfr_str_eq(in.key, out.key) && tfr_str_eq(in.binary, out.binary));
    CHECK(out.registers == 40 && out.shared_bytes == 4096 && out.block == 256);
}

static void no_altered_entry_is_taken(tfr_arena *arena) {
    tfr_entry in = example(arena), out;
    tfr_str bytes = tfr_entry_write(arena, &in);
    char *copy = tfr_arena_alloc(arena, bytes.len + 1);
    for (size_t len = 0; len < bytes.len; len++) {
        CHECK(tfr_entry_read((tfr_str){bytes.data, len}, &out) != NULL);
    }
    memcpy(copy, bytes.data, bytes.len);
    copy[bytes.len] = 0;
    CHECK(tfr_entry_read((tfr_str){copy, bytes.len + 1}, &out) != NULL);
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        CHECK(tfr_entry_read((tfr_str){copy, bytes.len}, &out) != NULL);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
    }
    in.target = TFR_STR("x86_64:avx512f"); // sound, but its key says otherwise
    CHECK(tfr_entry_read(tfr_entry_write(arena, &in), &out) != NULL);
    in = example(arena);
    in.key = TFR_STR("tfrewrite key 1\n");
    CHECK(tfr_entry_read(tfr_entry_write(arena, &in), &out) != NULL);
    in = example(arena);
    in.binary.len = 0;
    CHECK(tfr_entry_read(tfr_entry_write(arena, &in), &out) != NULL);
}

static void no_altered_choice_is_taken(tfr_arena *arena) {
    tfr_str name, value;
    tfr_str bytes = tfr_choice_write(arena, TFR_STR("linear\nm1"), TFR_STR("torch"));
    CHECK(tfr_choice_read(bytes, &name, &value) == NULL);
    CHECK_STR(name, "linear\nm1");
    CHECK_STR(value, "torch");
    char *copy = tfr_arena_alloc(arena, bytes.len);
    memcpy(copy, bytes.data, bytes.len);
    for (size_t i = 0; i < bytes.len; i++) {
        CHECK(tfr_choice_read((tfr_str){bytes.data, i}, &name, &value) != NULL);
        copy[i] ^= 1;
        CHECK(tfr_choice_read((tfr_str){copy, bytes.len}, &name, &value) != NULL);
        copy[i] ^= 1;
    }
}

static void targets(void) {
    char model[128];
    const tfr_cpu *cpu = tfr_cpu_choose();
    CHECK(tfr_cpu_runs(cpu->target));
    CHECK(!tfr_cpu_runs(TFR_STR("x86_64:avx2,teleport")));
    CHECK(!tfr_cpu_runs(TFR_STR("z80:")) && !tfr_cpu_runs(TFR_STR("")));
    tfr_cpu_model(model, sizeof model);
    CHECK(model[0] && strlen(model) < sizeof model);
#if defined(__x86_64__)
    CHECK(tfr_cpu_runs(TFR_STR("x86_64:")) && !tfr_cpu_runs(TFR_STR("aarch64:neon")));
#endif
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    a_key_reads_back(arena);
    each_field_changes_the_name();
    fields_do_not_run_together(arena);
    the_name_hashes_the_text(arena);
    differences_are_named(arena);
    an_entry_reads_back(arena);
    no_altered_entry_is_taken(arena);
    no_altered_choice_is_taken(arena);
    targets();
    tfr_arena_free(arena);
    return CHECK_DONE();
}
