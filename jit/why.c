// `tfrewrite cache why`: an entry's key beside the one that this process would ask for the same
// source, and beside the entries of the same label.
#include "jit/choice.h"
#include "jit/folder.h"
#include "jit/layers.h"
#include "jit/obtain.h"

#include <stdio.h>
#include <unistd.h>

// The entry of a listed item, read again: a listing keeps no keys.
static bool read_again(tfr_arena *arena, const tfr_cache_item *item, tfr_entry *entry,
                       tfr_key *key) {
    tfr_layer layer;
    struct stat status;
    tfr_str bytes;
    const char *why;
    bool good = false;
    for (size_t i = 0; !good && tfr_layer_at(i, &layer); i++) {
        size_t len = strlen(layer.base);
        if (strncmp(item->folder, layer.base, len) != 0 ||
            strcmp(item->folder + len, "/kernels") != 0) {
            continue;
        }
        int folder = tfr_layer_open(&layer, false);
        good = folder >= 0 &&
               tfr_file_read(arena, folder, item->name, layer.read_only, false, TFR_ENTRY_MAX_BYTES,
                             &bytes, &status, &why) == TFR_FILE_READ &&
               !tfr_entry_read(bytes, entry) && tfr_key_parse(entry->key, key);
        if (folder >= 0) {
            (void)close(folder);
        }
    }
    return good;
}

static bool contains(tfr_str text, const char *part) {
    size_t len = strlen(part);
    for (size_t i = 0; i + len <= text.len; i++) {
        if (memcmp(text.data + i, part, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_named(const tfr_cache_item *item, const char *what) {
    return item->kind == TFR_CACHE_KERNEL &&
           (strncmp(item->name, what, strlen(what)) == 0 || contains(item->label, what));
}

static void compare(const char *name, tfr_str stored, tfr_str asked, tfr_buf *out) {
    if (tfr_str_eq(stored, asked)) {
        tfr_buf_format(out, "  %s: the same, %.*s\n", name,
                       stored.len > 300 ? 300 : (int)stored.len, stored.len ? stored.data : "");
    } else {
        tfr_buf_format(out,
                       "  %s: DIFFERS: the entry has \"%.*s\", this process asks for \"%.*s\"\n",
                       name, (int)stored.len, stored.len ? stored.data : "", (int)asked.len,
                       asked.len ? asked.data : "");
    }
}

static void explain(tfr_arena *arena, const tfr_entry *entry, const tfr_key *key, tfr_buf *out) {
    tfr_wanted wanted;
    tfr_jit_request request;
    if (!tfr_request_of(key, entry->label, &request)) {
        tfr_buf_format(out, "  not used: its target %.*s is none that this version compiles for\n",
                       (int)key->target.len, key->target.data);
        return;
    }
    (void)tfr_wanted_make(arena, &request, true, &wanted);
    tfr_buf_format(out, "  source: %zu bytes\n", key->source.len);
    compare("kind", key->kind, wanted.key.kind, out);
    compare("abi", key->abi, wanted.key.abi, out);
    compare("options", key->options, wanted.key.options, out);
    compare("target", key->target, wanted.key.target, out);
    bool same = tfr_str_eq(key->kind, wanted.key.kind) && tfr_str_eq(key->abi, wanted.key.abi) &&
                tfr_str_eq(key->options, wanted.key.options) &&
                tfr_str_eq(key->target, wanted.key.target);
    if (wanted.has_compiler) {
        compare("compiler", key->compiler, wanted.key.compiler, out);
        same = same && tfr_str_eq(key->compiler, wanted.key.compiler);
    } else {
        tfr_buf_format(out, "  compiler: %.*s; there is none here, so an entry of any will do\n",
                       (int)key->compiler.len, key->compiler.len ? key->compiler.data : "");
    }
    if (wanted.cuda) {
        tfr_buf_format(out, "  NVRTC: %s\n",
                       wanted.has_compiler ? wanted.nvrtc->path : "not found");
    }
    tfr_buf_format(out, "  %s\n",
                   same ? "this process uses it when it needs this source"
                        : "this process does not use it, and compiles its own");
}

// Other entries of the same label: what parts them from this one.
static void explain_siblings(tfr_arena *arena, const tfr_cache_listing *listing,
                             const tfr_cache_item *item, const tfr_key *key, tfr_buf *out) {
    for (size_t i = 0; i < listing->count; i++) {
        const tfr_cache_item *other = &listing->items[i];
        tfr_entry entry;
        tfr_key other_key;
        if (other != item && other->kind == TFR_CACHE_KERNEL && !other->fault &&
            tfr_str_eq(other->label, item->label) && read_again(arena, other, &entry, &other_key)) {
            tfr_buf_format(out, "  beside %s/%.16s...:\n", other->folder, other->name);
            tfr_buf differences = {.arena = arena};
            tfr_key_differences(key, &other_key, &differences);
            if (!differences.len) {
                tfr_buf_add_str(&differences, TFR_STR("no difference\n"));
            }
            for (size_t at = 0; at < differences.len;) {
                const char *end = memchr(differences.data + at, '\n', differences.len - at);
                size_t len = (size_t)(end - (differences.data + at));
                tfr_buf_format(out, "    %.*s\n", (int)len, differences.data + at);
                at += len + 1;
            }
        }
    }
}

tfr_status tfr_cache_why(tfr_arena *arena, const char *what, tfr_buf *out, tfr_error *err) {
    tfr_cache_listing listing = {0};
    size_t shown = 0;
    tfr_status status = tfr_cache_list(arena, &listing, err);
    for (size_t i = 0; status == TFR_OK && i < listing.count; i++) {
        const tfr_cache_item *item = &listing.items[i];
        tfr_entry entry;
        tfr_key key;
        if (!is_named(item, what)) {
            continue;
        }
        shown++;
        tfr_buf_format(out, "%s/%s\n  %.*s\n", item->folder, item->name, (int)item->label.len,
                       item->label.len ? item->label.data : "");
        if (item->fault || !read_again(arena, item, &entry, &key)) {
            tfr_buf_format(out, "  not used: %s\n", item->fault ? item->fault : "it has changed");
        } else {
            explain(arena, &entry, &key, out);
            explain_siblings(arena, &listing, item, &key, out);
        }
    }
    if (status == TFR_OK && shown == 0) {
        return tfr_fail(err, TFR_E_USAGE, NULL, 0, 0,
                        "no kernel of the cache has a name that starts with \"%s\", or a label "
                        "with it; see `tfrewrite cache ls`",
                        what);
    }
    return status;
}
