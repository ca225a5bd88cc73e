// How a call fails: a status, and one message in the caller's tfr_error. Only cli/main.c prints it.
#ifndef TFR_ERROR_H
#define TFR_ERROR_H

#include <stddef.h>
#include <stdint.h>

typedef enum tfr_status {
    TFR_OK = 0,
    TFR_E_USAGE,   // wrong arguments, unreadable or unwritable files: exit status 2
    TFR_E_REFUSED, // the input does not parse, is over a limit, or a gate failed: exit status 3
} tfr_status;

typedef struct tfr_error {
    char path[512];     // "" when no file is concerned; "<stdin>" for "-"
    uint32_t line;      // from 1; 0: unknown
    uint32_t column;    // from 1, in characters; 0: unknown
    char message[1280]; // what is wrong and what to do, one sentence or two, no final newline
} tfr_error;

// Fills `err` (which may be NULL) and gives back `status`, so that callers can `return
// tfr_fail(...)`.
tfr_status tfr_fail(tfr_error *err, tfr_status status, const char *path, uint32_t line,
                    uint32_t column, const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
