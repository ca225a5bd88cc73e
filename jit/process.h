// Other programs, run so that they can neither hang nor litter: a time limit for the whole process
// group, an environment that cannot change their result, private scratch folders. What still runs
// or lies there when this process exits is killed and removed. Knows no compiler.
#ifndef TFR_PROCESS_H
#define TFR_PROCESS_H

#include "jit/folder.h"

// A folder of mode 0700 for temporary files, in TMPDIR or where the system keeps such. Lives on the
// caller's stack from make to remove.
typedef struct tfr_scratch {
    struct tfr_scratch *next;
    char path[TFR_PATH_SIZE];
} tfr_scratch;

#define TFR_SCRATCH_PREFIX "tfrewrite-cc-"

// The `attempt`-th place where one can be made; false: there is no further one.
bool tfr_scratch_make(tfr_scratch *scratch, int *attempt);
void tfr_scratch_remove(tfr_scratch *scratch);
// Removes the folders of killed processes: this user's, and older than that.
void tfr_scratch_sweep(int seconds);

typedef enum tfr_process_end {
    TFR_PROCESS_EXITED, // `status` is its exit status, 128 + a signal, or -1: somebody else took it
    TFR_PROCESS_NOT_STARTED, // `status` is an errno
    TFR_PROCESS_TIMEOUT,
    TFR_PROCESS_STOPPED, // this process is exiting
} tfr_process_end;

typedef struct tfr_process_result {
    tfr_process_end end;
    int status;
    char output[4096]; // the first of what it printed, NUL-terminated
} tfr_process_result;

// Runs argv[0] (a path) and waits. `temp`: its TMPDIR; may be NULL. `errors`: keep what it prints
// on standard error too.
void tfr_process_run(const char *const *argv, const char *temp, bool errors, double seconds,
                     tfr_process_result *out);

#endif
