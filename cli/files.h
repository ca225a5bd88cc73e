// Files and folders: finding what to rewrite, and writing so that a fault never damages a file.
#ifndef TFR_FILES_H
#define TFR_FILES_H

#include "runtime/arena.h"
#include "runtime/error.h"

typedef struct tfr_found {
    struct {
        const char **items;
        size_t count, cap;
    } files; // sorted; they start with the root as given, unless that is "."
    struct {
        tfr_error *items;
        size_t count, cap;
    } errors; // folders that could not be read; the others were
} tfr_found;

bool tfr_files_is_dir(const char *path);
bool tfr_files_exists(const char *path);
// Whether both name the same existing file or folder.
bool tfr_files_same(const char *a, const char *b);

// All modeling_*.py under `root`. Links are followed; a folder is visited once, and a linked file
// is taken once, under its real name if that is below `root` too. `skip`: a folder left out, or
// NULL.
void tfr_files_find(tfr_found *out, const char *root, const char *skip, tfr_arena *arena);

// Replaces or makes the file `path`: complete and on disk, or untouched. A link stays and its
// target is replaced. Mode and owner are those of the file replaced; a new one gets the mode of
// `like` (NULL: the default). A pipe or device is written to directly.
tfr_status tfr_files_write(const char *path, tfr_str bytes, const char *like, tfr_error *err);

// Makes the folders above `path` that are missing.
tfr_status tfr_files_make_parents(const char *path, tfr_error *err);

// Writes everything to a descriptor. `name` is what messages call it.
tfr_status tfr_files_put(int fd, const char *name, tfr_str bytes, tfr_error *err);

#endif
