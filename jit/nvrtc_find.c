// A Python environment is found by its prefix, the folder above `bin` and `lib`. Which one this
// process belongs to shows in the variables of an active one, in where this library itself lies, in
// the path by which the interpreter was started (its file is another's in a venv), and in PATH.
#define _GNU_SOURCE // secure_getenv, dladdr, dlinfo
#include "jit/nvrtc_find.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char *const NAMES[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
enum { NAME_COUNT = sizeof NAMES / sizeof *NAMES };

// Longer ones are cut, and then name nothing.
static void join(char *out, const char *folder, const char *inside, const char *name) {
    if (snprintf(out, TFR_PATH_SIZE, "%s/%s%s%s", folder, inside, *inside ? "/" : "", name) >=
        (int)TFR_PATH_SIZE) {
        out[0] = 0;
    }
}

static bool is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static bool in_folder(const char *folder, const char *inside, char *out) {
    for (int i = 0; i < NAME_COUNT; i++) {
        join(out, folder, inside, NAMES[i]);
        if (is_file(out)) {
            return true;
        }
    }
    return false;
}

// ------------------------------------------------------------------ Python environments
// The folders of NVIDIA's packages: of CUDA 13, of CUDA 12.
static bool in_packages(const char *packages, char *out) {
    return in_folder(packages, "nvidia/cu13/lib", out) ||
           in_folder(packages, "nvidia/cuda_nvrtc/lib", out);
}

static bool in_prefix(const char *prefix, char *out) {
    static const char *const libs[] = {"lib", "lib64"};
    char lib[TFR_PATH_SIZE], packages[TFR_PATH_SIZE];
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        join(lib, prefix, "", libs[i]);
        DIR *listing = opendir(lib);
        for (struct dirent *d; listing && !found && (d = readdir(listing));) {
            if (strncmp(d->d_name, "python3", 7) == 0) {
                join(packages, lib, d->d_name, "site-packages");
                found = in_packages(packages, out);
                join(packages, lib, d->d_name, "dist-packages"); // Debian's
                found = found || in_packages(packages, out);
            }
        }
        if (listing) {
            (void)closedir(listing);
        }
    }
    return found || in_folder(prefix, "lib", out); // conda's own package
}

// Cuts the last `parts` parts of a path off; false: it has not so many.
static bool cut(char *path, int parts) {
    for (; parts > 0; parts--) {
        char *slash = strrchr(path, '/');
        if (!slash) {
            return false;
        }
        *slash = 0;
    }
    return *path != 0;
}

static bool beside_this_library(char *out) {
    Dl_info info;
    char path[TFR_PATH_SIZE];
    if (!dladdr((void *)(uintptr_t)&NAMES, &info) || !info.dli_fname || *info.dli_fname != '/') {
        return false;
    }
    join(path, info.dli_fname, "", ""); // site-packages/tfrewrite/bin/libtfrewrite.so/
    return cut(path, 4) && in_packages(path, out);
}

// How this process was started, `/home/me/venv/bin/python`: unlike /proc/self/exe not resolved.
static bool beside_interpreter(char *out) {
    char path[TFR_PATH_SIZE];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, path, sizeof path - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    path[len > 0 ? len : 0] = 0; // argv[0] ends at the first NUL
    if (strchr(path, '/') && cut(path, 2) && in_prefix(path, out)) {
        return true;
    }
    len = readlink("/proc/self/exe", path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    return cut(path, 2) && in_prefix(path, out);
}

static bool beside_python_in_path(char *out) {
    char path[TFR_PATH_SIZE];
    const char *list = getenv("PATH");
    while (list && *list) {
        size_t len = strcspn(list, ":");
        int size = snprintf(path, sizeof path, "%.*s/python3", (int)len, list);
        if (*list == '/' && size < (int)sizeof path && access(path, X_OK) == 0) {
            return cut(path, 2) && in_prefix(path, out);
        }
        list += len + (list[len] == ':');
    }
    return false;
}

static bool in_python(char *out) {
    const char *venv = getenv("VIRTUAL_ENV"), *conda = getenv("CONDA_PREFIX");
    return (venv && *venv == '/' && in_prefix(venv, out)) ||
           (conda && *conda == '/' && in_prefix(conda, out)) || beside_this_library(out) ||
           beside_interpreter(out) || beside_python_in_path(out);
}

// ------------------------------------------------------------------ toolkit and system
// The highest of /usr/local/cuda-13.0, /usr/local/cuda-12.9.
static bool in_newest_toolkit(char *out) {
    char best[256] = "", folder[TFR_PATH_SIZE];
    DIR *listing = opendir("/usr/local");
    for (struct dirent *d; listing && (d = readdir(listing));) {
        if (strncmp(d->d_name, "cuda-", 5) == 0 && strverscmp(d->d_name, best) > 0) {
            (void)snprintf(best, sizeof best, "%s", d->d_name);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    join(folder, "/usr/local", "", best);
    return *best && in_folder(folder, "lib64", out);
}

static bool in_toolkit(char *out) {
    static const char *const names[] = {"CUDA_HOME", "CUDA_PATH"};
    for (int i = 0; i < 2; i++) {
        const char *home = getenv(names[i]);
        if (home && *home == '/' &&
            (in_folder(home, "lib64", out) || in_folder(home, "lib", out))) {
            return true;
        }
    }
    return in_folder("/usr/local/cuda", "lib64", out) || in_newest_toolkit(out);
}

static bool in_system(char *out) {
    static const char *const folders[] = {"/usr/lib64", "/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu", "/usr/lib",
                                          "/usr/local/lib"};
    const char *list = getenv("LD_LIBRARY_PATH");
    char folder[TFR_PATH_SIZE];
    while (list && *list) {
        size_t len = strcspn(list, ":");
        if (*list == '/' &&
            snprintf(folder, sizeof folder, "%.*s", (int)len, list) < (int)sizeof folder &&
            in_folder(folder, "", out)) {
            return true;
        }
        list += len + (list[len] == ':');
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (in_folder(folders[i], "", out)) {
            return true;
        }
    }
    return false;
}

// ------------------------------------------------------------------ all
// One that somebody else, torch for instance, has loaded: no second copy of it then.
static bool loaded_already(char *out) {
    for (int i = 0; i < NAME_COUNT; i++) {
        void *library = dlopen(NAMES[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
        struct link_map *map = NULL;
        bool known = library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name &&
                     snprintf(out, TFR_PATH_SIZE, "%s", map->l_name) < (int)TFR_PATH_SIZE &&
                     is_file(out);
        if (library) {
            (void)dlclose(library);
        }
        if (known) {
            return true;
        }
    }
    return false;
}

bool tfr_nvrtc_locate(char out[TFR_PATH_SIZE]) {
    if (getauxval(AT_SECURE)) {
        return false; // no code from where the caller says: jit/layers.c
    }
    const char *named = getenv("TFR_NVRTC");
    if (named && *named) {
        return in_folder(named, "", out) ||
               (snprintf(out, TFR_PATH_SIZE, "%s", named) < (int)TFR_PATH_SIZE && is_file(out));
    }
    return loaded_already(out) || in_python(out) || in_toolkit(out) || in_system(out);
}

bool tfr_nvrtc_builtins(const char *library, char out[TFR_PATH_SIZE]) {
    static const char start[] = "libnvrtc-builtins.so.";
    char folder[TFR_PATH_SIZE], best[256] = "";
    (void)snprintf(folder, sizeof folder, "%s", library);
    const char *name = strrchr(library, '/');
    const char *major = name ? strstr(name, ".so.") : NULL; // "13" of libnvrtc.so.13
    size_t digits = major ? strspn(major + 4, "0123456789") : 0;
    if (!cut(folder, 1)) {
        return false;
    }
    DIR *listing = opendir(folder);
    for (struct dirent *d; listing && (d = readdir(listing));) {
        bool fits = strncmp(d->d_name, start, sizeof start - 1) == 0 &&
                    (!digits || strncmp(d->d_name + sizeof start - 1, major + 4, digits) == 0);
        if (fits && strverscmp(d->d_name, best) > 0) {
            (void)snprintf(best, sizeof best, "%s", d->d_name);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    join(out, folder, "", best);
    return *best && is_file(out);
}
