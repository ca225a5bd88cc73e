// Folders and files of the cache, opened so that what is read was written by this user and by
// nobody else (docs/CACHE.md, "Security"). Knows no formats. Descriptors are close-on-exec.
#ifndef TFR_FOLDER_H
#define TFR_FOLDER_H

#include "runtime/arena.h"

#include <sys/stat.h>

#define TFR_PATH_SIZE 4096u // with the final NUL; longer paths are refused

// Opens BASE/kernels. The user's is made if it is missing (`create`) and must be the user's own;
// one that is only read may be root's. -1: `why` says what is wrong, or is "" if it does not exist.
int tfr_folder_open(const char *base, bool read_only, bool create, char *why, size_t why_size);

typedef enum tfr_file_result {
    TFR_FILE_READ,
    TFR_FILE_MISSING,
    TFR_FILE_SUSPECT, // a link, a special file, somebody else's, or too large: never to be used
    TFR_FILE_UNREADABLE,
} tfr_file_result;

// Reads a whole file of `folder`. `why` is set where the result is not TFR_FILE_READ or MISSING.
// `touch`: note the use, to a day, in the file's time.
tfr_file_result tfr_file_read(tfr_arena *arena, int folder, const char *name, bool read_only,
                              bool touch, size_t max, tfr_str *bytes, struct stat *status,
                              const char **why);

// Writes a file so that it is there whole or not at all. 0, or an errno; EEXIST: there is one
// already, and it stays.
int tfr_file_write(int folder, const char *name, tfr_str bytes);

// Moves NAME to NAME.bad if it still is the file of `status` (NULL: whatever it is).
void tfr_file_quarantine(int folder, const char *name, const struct stat *status);

// Files that tfr_file_write left when it was killed.
bool tfr_file_is_leftover(const char *name);
#define TFR_LEFTOVER_AGE 3600 // seconds after which no writer can still be at it

// Writes all of it. 0, or an errno.
int tfr_write_all(int fd, tfr_str bytes);

// The bytes of `fd`, which were `size` long a moment ago. False: an error, in errno.
bool tfr_read_all(tfr_arena *arena, int fd, size_t size, tfr_str *bytes);

#endif
