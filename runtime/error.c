// Messages are bounded: a path or a name from the input may be of any length and hold any bytes,
// and what is reported must still be one line of valid UTF-8 when it is cut.
#include "runtime/error.h"

#include "runtime/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_continuation(char byte) { return ((unsigned char)byte & 0xC0u) == 0x80u; }

// Keeps the tail of a path that does not fit: the file name says more than the root does.
static void copy_path(char *out, size_t size, const char *path) {
    size_t len = strlen(path);
    if (len < size) {
        memcpy(out, path, len + 1);
        return;
    }
    const char *tail = path + len - (size - 4);
    while (is_continuation(*tail)) {
        tail++;
    }
    (void)snprintf(out, size, "...%s", tail);
}

static void cut_message(char *message, size_t size) {
    size_t end = size - 4;
    while (end > 0 && is_continuation(message[end])) {
        end--;
    }
    memcpy(message + end, "...", 4);
}

tfr_status tfr_fail(tfr_error *err, tfr_status status, const char *path, uint32_t line,
                    uint32_t column, const char *format, ...) {
    if (!err) {
        return status;
    }
    copy_path(err->path, sizeof err->path, path ? path : "");
    err->line = line;
    err->column = column;
    va_list args;
    va_start(args, format);
    int len = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (len < 0) {
        memcpy(err->message, "unknown fault", sizeof "unknown fault");
    } else if ((size_t)len >= sizeof err->message) {
        cut_message(err->message, sizeof err->message);
    }
    tfr_one_line(err->message);
    return status;
}
