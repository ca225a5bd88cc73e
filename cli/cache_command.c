// Lists and looks after what jit/cache.h keeps; knows neither the format nor the folders.
#include "cli/cache_command.h"

#include <time.h>

#include "cli/files.h"
#include "jit/bundle.h"
#include "jit/cache.h"
#include "rewriter/report.h"

// As many characters of a file's name as tell it apart, for `why`.
#define SHORT_NAME 12

static const char *const KINDS[] = {
    [TFR_CACHE_KERNEL] = "kernel",     [TFR_CACHE_CHOICE] = "choice",
    [TFR_CACHE_COMPILER] = "compiler", [TFR_CACHE_BAD] = "quarantined",
    [TFR_CACHE_LEFTOVER] = "leftover",
};

// "2.1 MiB", of bytes as a person reads them.
static const char *size_text(uint64_t bytes, tfr_arena *arena) {
    static const char *const UNITS[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = -1;
    while (value >= 1000 && unit < 3) {
        value /= 1024;
        unit++;
    }
    return unit < 0 ? tfr_str_format(arena, "%u B", (unsigned)bytes).data
                    : tfr_str_format(arena, "%.*f %s", value < 10 ? 1 : 0, value, UNITS[unit]).data;
}

static const char *date_text(int64_t seconds, tfr_arena *arena) {
    time_t when = (time_t)seconds;
    struct tm date;
    if (!gmtime_r(&when, &date)) {
        return "-";
    }
    return tfr_str_format(arena, "%04d-%02d-%02d", date.tm_year + 1900, date.tm_mon + 1,
                          date.tm_mday)
        .data;
}

// What is in a file came from a disk: one line, no control characters.
static void add_clean(tfr_buf *out, tfr_str text) {
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        tfr_buf_add(out, c < ' ' || c == 0x7f ? "?" : &text.data[i], 1);
    }
}

// --- ls ---

static void add_item(tfr_buf *out, const tfr_cache_item *item, tfr_arena *arena) {
    if (item->kind != TFR_CACHE_KERNEL) {
        tfr_buf_add_str(out, TFR_STR("  "));
    } else {
        tfr_buf_format(out, "  %-*.*s  %8s  %s  ", SHORT_NAME, SHORT_NAME, item->name,
                       size_text(item->bytes, arena), date_text(item->used, arena));
    }
    if (item->fault) {
        tfr_buf_format(out, "DAMAGED %s (%s)", item->name, item->fault);
    } else {
        add_clean(out, item->label.len ? item->label : tfr_str_from(item->name));
    }
    if (item->value.len && !item->fault) {
        tfr_buf_add_str(out, item->kind == TFR_CACHE_CHOICE ? TFR_STR(" -> ") : TFR_STR(": "));
        add_clean(out, item->value);
    }
    tfr_buf_add(out, "\n", 1);
}

static void list_folder(tfr_buf *out, const tfr_cache_listing *listing, const char *folder,
                        tfr_arena *arena) {
    static const char *const HEADS[] = {"", "choices between a kernel and torch", "compilers asked",
                                        "quarantined", "left by a killed process"};
    uint64_t bytes = 0;
    size_t kernels = 0;
    int last = TFR_CACHE_KERNEL;
    bool read_only = false;
    tfr_buf lines = {.arena = arena};
    for (size_t i = 0; i < listing->count; i++) {
        const tfr_cache_item *item = &listing->items[i];
        if (strcmp(item->folder, folder) != 0) {
            continue;
        }
        read_only = item->read_only;
        bytes += item->bytes;
        kernels += item->kind == TFR_CACHE_KERNEL;
        if ((int)item->kind != last) {
            tfr_buf_format(&lines, "%s:\n", HEADS[item->kind]);
            last = (int)item->kind;
        }
        add_item(&lines, item, arena);
    }
    tfr_buf_format(out, "%s%s: %zu kernel%s, %s\n", folder, read_only ? " (read-only)" : "",
                   kernels, kernels == 1 ? "" : "s", size_text(bytes, arena));
    tfr_buf_add_str(out, tfr_buf_str(&lines));
}

static void list_all(tfr_buf *out, const tfr_cache_listing *listing, const char *path,
                     tfr_arena *arena) {
    bool shown_own = false;
    for (size_t i = 0; i < listing->count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) {
            seen = strcmp(listing->items[k].folder, listing->items[i].folder) == 0;
        }
        if (!seen) {
            list_folder(out, listing, listing->items[i].folder, arena);
            shown_own |= strcmp(listing->items[i].folder, path) == 0;
        }
    }
    if (!shown_own && *path) {
        tfr_buf_format(out, "%s: empty\n", path);
    }
}

// --- JSON ---

static void add_field(tfr_buf *out, const char *name, tfr_str value) {
    tfr_buf_format(out, ", \"%s\": ", name);
    tfr_report_json_string(out, value);
}

static void add_json_item(tfr_buf *out, const tfr_cache_item *item, tfr_arena *arena) {
    tfr_buf_format(out, "\n    {\"kind\": \"%s\"", KINDS[item->kind]);
    add_field(out, "folder", tfr_str_from(item->folder));
    add_field(out, "name", tfr_str_from(item->name));
    tfr_buf_format(out, ", \"read_only\": %s, \"bytes\": %llu", item->read_only ? "true" : "false",
                   (unsigned long long)item->bytes);
    add_field(out, "used", tfr_str_from(date_text(item->used, arena)));
    if (item->fault) {
        add_field(out, "fault", tfr_str_from(item->fault));
    } else if (item->kind == TFR_CACHE_KERNEL) {
        add_field(out, "label", item->label);
        add_field(out, "target", item->target);
        add_field(out, "compiler", item->compiler);
        if (item->block) { // of a CUDA kernel
            tfr_buf_format(out, ", \"registers\": %u, \"shared_bytes\": %u, \"block\": %u",
                           item->registers, item->shared_bytes, item->block);
        }
    } else if (item->kind == TFR_CACHE_CHOICE || item->kind == TFR_CACHE_COMPILER) {
        add_field(out, item->kind == TFR_CACHE_CHOICE ? "choice" : "path", item->label);
        add_field(out, "value", item->value);
    }
    tfr_buf_add(out, "}", 1);
}

static void add_json(tfr_buf *out, const tfr_cache_listing *listing, const char *path,
                     tfr_arena *arena) {
    tfr_buf_add_str(out, TFR_STR("{\"version\": 1"));
    add_field(out, "path", tfr_str_from(path));
    tfr_buf_add_str(out, TFR_STR(",\n \"items\": ["));
    for (size_t i = 0; i < listing->count; i++) {
        tfr_buf_add_str(out, i ? TFR_STR(",") : TFR_STR(""));
        add_json_item(out, &listing->items[i], arena);
    }
    tfr_buf_add_str(out, TFR_STR("]}\n"));
}

// --- verify, gc ---

static void add_verified(tfr_buf *out, const tfr_cache_listing *listing, size_t moved) {
    size_t sound = 0, damaged = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const tfr_cache_item *item = &listing->items[i];
        bool checked = item->kind == TFR_CACHE_KERNEL || item->kind == TFR_CACHE_CHOICE ||
                       item->kind == TFR_CACHE_COMPILER;
        sound += checked && !item->fault;
        damaged += item->fault != NULL;
        if (item->fault) {
            tfr_buf_format(out, "%s/%s: %s\n", item->folder, item->name, item->fault);
        }
    }
    tfr_buf_format(out, "%zu sound, %zu damaged", sound, damaged);
    if (damaged) {
        tfr_buf_format(out, ", %zu moved aside", moved);
    }
    tfr_buf_add(out, "\n", 1);
}

static tfr_status sweep(tfr_buf *out, const tfr_args *args, tfr_arena *arena, tfr_error *err) {
    tfr_cache_swept swept;
    tfr_status status = tfr_cache_gc(args->size_limit, args->age_limit, &swept, err);
    if (!status) {
        tfr_buf_format(out, "%zu file%s removed, %s; %zu left, %s\n", swept.files,
                       swept.files == 1 ? "" : "s", size_text(swept.bytes, arena), swept.left_files,
                       size_text(swept.left_bytes, arena));
    }
    return status;
}

// --- pack, unpack ---

static tfr_status pack(tfr_buf *out, const tfr_args *args, tfr_arena *arena, tfr_error *err) {
    const char *path = args->operands.items[1].data;
    size_t kernels, left_out;
    tfr_str bundle;
    tfr_status status = tfr_bundle_pack(arena, args->archs.items, args->archs.count, &bundle,
                                        &kernels, &left_out, err);
    if (!status) {
        status = tfr_files_write(path, bundle, NULL, err);
    }
    if (!status) {
        tfr_buf_format(out, "%zu kernel%s packed into %s, %s", kernels, kernels == 1 ? "" : "s",
                       path, size_text(bundle.len, arena));
        if (left_out) {
            tfr_buf_format(out, "; %zu damaged left out, see `tfrewrite cache verify`", left_out);
        }
        tfr_buf_add(out, "\n", 1);
    }
    return status;
}

static tfr_status unpack(tfr_buf *out, const tfr_args *args, tfr_error *err) {
    char path[4096] = "";
    size_t stored, kept;
    tfr_status status =
        tfr_bundle_unpack(args->operands.items[1].data, args->out, &stored, &kept, err);
    if (status) {
        return status;
    }
    if (!args->out) {
        (void)tfr_cache_path(path, sizeof path, NULL);
    }
    tfr_buf_format(out, "%zu kernel%s: %zu stored, %zu there before (cache: %s%s)\n", stored + kept,
                   stored + kept == 1 ? "" : "s", stored, kept, args->out ? args->out : path,
                   args->out ? "/kernels" : "");
    return TFR_OK;
}

tfr_status tfr_cache_command(tfr_buf *out, bool *damaged, const tfr_args *args, tfr_arena *arena,
                             tfr_error *err) {
    tfr_str action = args->operands.items[0];
    char path[4096] = "";
    *damaged = false;
    if (tfr_str_eq(action, TFR_STR("gc"))) {
        return sweep(out, args, arena, err);
    }
    if (tfr_str_eq(action, TFR_STR("pack"))) {
        return pack(out, args, arena, err);
    }
    if (tfr_str_eq(action, TFR_STR("unpack"))) {
        return unpack(out, args, err);
    }
    if (tfr_str_eq(action, TFR_STR("why"))) {
        return tfr_cache_why(arena, args->operands.items[1].data, out, err);
    }
    if (tfr_str_eq(action, TFR_STR("path"))) {
        tfr_status status = tfr_cache_path(path, sizeof path, err);
        if (!status) {
            tfr_buf_format(out, "%s\n", path);
        }
        return status;
    }
    // Read-only layers may be there without a folder of one's own.
    (void)tfr_cache_path(path, sizeof path, NULL);
    tfr_cache_listing listing = {0};
    tfr_status status = tfr_cache_list(arena, &listing, err);
    if (status) {
        return status;
    }
    bool verify = tfr_str_eq(action, TFR_STR("verify"));
    size_t moved = verify ? tfr_cache_quarantine(&listing) : 0;
    for (size_t i = 0; i < listing.count; i++) {
        *damaged |= verify && listing.items[i].fault;
    }
    if (args->json) {
        add_json(out, &listing, path, arena);
    } else if (verify) {
        add_verified(out, &listing, moved);
    } else {
        list_all(out, &listing, path, arena);
    }
    return TFR_OK;
}
