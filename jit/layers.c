// secure_getenv: a program that runs with more rights than its caller must not load code from where
// the caller says. It then has no layers at all, and no compiler.
#define _GNU_SOURCE // secure_getenv
#include "jit/layers.h"

#include "jit/folder.h"
#include "jit/warn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

bool tfr_layer_user(tfr_layer *out, const char **why) {
    const char *folder = variable("TFR_CACHE_DIR"), *inside = "";
    out->read_only = false;
    if (!folder) {
        folder = variable("XDG_CACHE_HOME");
        inside = "/tfrewrite";
        if (folder && *folder != '/') {
            folder = NULL; // the XDG specification: relative paths are to be ignored
        }
    }
    if (!folder) {
        folder = variable("HOME");
        inside = "/.cache/tfrewrite";
    }
    bool fits = folder && snprintf(out->base, sizeof out->base, "%s%s", folder, inside) <
                              (int)sizeof out->base;
    if (!fits && why) {
        *why = folder ? "its path is too long" : "HOME is not set; set it or TFR_CACHE_DIR";
    }
    return fits;
}

bool tfr_layer_at(size_t index, tfr_layer *out) {
    const char *list = variable("TFR_CACHE_RO");
    while (list && *list) {
        size_t len = strcspn(list, ":");
        if (len > 0 && len < sizeof out->base && index-- == 0) {
            memcpy(out->base, list, len);
            out->base[len] = 0;
            out->read_only = true;
            return true;
        }
        list += len + (list[len] == ':' ? 1 : 0);
    }
    return index == 0 && tfr_layer_user(out, NULL);
}

int tfr_layer_open(const tfr_layer *layer, bool create) {
    char why[TFR_PATH_SIZE + 128];
    int folder = tfr_folder_open(layer->base, layer->read_only, create, why, sizeof why);
    if (folder < 0 && *why) {
        if (layer->read_only) {
            tfr_warn(TFR_WARN_READ_ONLY, "TFR_CACHE_RO: %s; this folder is not used", why);
        } else {
            tfr_warn(TFR_WARN_FOLDER, "kernel cache: %s; compiled kernels are kept in memory only",
                     why);
        }
    }
    return folder;
}
