// Messages begin `NAME(LINE): error: `, with names and lines of the source's #line directives; the
// text of such a line is found by following them once more.
#define _GNU_SOURCE // secure_getenv
#include "jit/nvrtc_log.h"

#include "jit/folder.h"
#include "jit/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_MESSAGES 3
#define MAX_MESSAGE 160 // bytes of one that are shown
#define MAX_LINE 100

static tfr_str take_line(tfr_str *rest) {
    const char *end = memchr(rest->data, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    tfr_str line = {rest->data, len};
    rest->data += len + (end != NULL);
    rest->len -= len + (end != NULL);
    return line;
}

static bool starts_with(tfr_str text, const char *start) {
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.data, start, len) == 0;
}

static size_t take_number(tfr_str *text) {
    size_t value = 0;
    while (text->len && *text->data >= '0' && *text->data <= '9' && value < 100000000) {
        value = value * 10 + (size_t)(*text->data - '0');
        text->data++;
        text->len--;
    }
    return value;
}

// Line `number` of the file `name`, of those that the source was put together from.
static tfr_str source_line(tfr_str source, tfr_str name, size_t number) {
    static const char directive[] = "#line ";
    tfr_str file = TFR_STR(TFR_NVRTC_SOURCE_NAME);
    size_t at = 1;
    while (source.len) {
        tfr_str line = take_line(&source);
        if (starts_with(line, directive)) {
            tfr_str rest = {line.data + sizeof directive - 1, line.len - sizeof directive + 1};
            at = take_number(&rest);
            const char *first = rest.len ? memchr(rest.data, '"', rest.len) : NULL;
            size_t left = first ? (size_t)(rest.data + rest.len - first) - 1 : 0;
            const char *last = left ? memchr(first + 1, '"', left) : NULL;
            file = last ? (tfr_str){first + 1, (size_t)(last - first) - 1} : file;
            continue;
        }
        if (at++ == number && tfr_str_eq(file, name)) {
            return line;
        }
    }
    return (tfr_str){0};
}

// "NAME(LINE): error..." False: this line of the log is none.
static bool is_message(tfr_str line, tfr_str *name, size_t *number) {
    const char *open = line.len ? memchr(line.data, '(', line.len) : NULL;
    if (!open) {
        return false;
    }
    *name = (tfr_str){line.data, (size_t)(open - line.data)};
    tfr_str rest = {open + 1, line.len - name->len - 1};
    *number = take_number(&rest);
    return *number && starts_with(rest, "): ") && !starts_with(rest, "): warning");
}

static int limited(tfr_str text, size_t most) { return (int)(text.len < most ? text.len : most); }

static void add_messages(tfr_buf *out, tfr_str log, tfr_str source) {
    tfr_str rest = log, name;
    size_t number, shown = 0, more = 0;
    while (rest.len) {
        tfr_str line = take_line(&rest);
        if (!is_message(line, &name, &number)) {
            continue;
        }
        if (shown == MAX_MESSAGES) {
            more++;
            continue;
        }
        tfr_str text = source_line(source, name, number);
        while (text.len && (*text.data == ' ' || *text.data == '\t')) {
            text.data++;
            text.len--;
        }
        tfr_buf_format(out, "%s%.*s [line %zu: %.*s]", shown++ ? "; " : "",
                       limited(line, MAX_MESSAGE), line.data, number, limited(text, MAX_LINE),
                       text.len ? text.data : "");
    }
    if (more) {
        tfr_buf_format(out, "; %zu more", more);
    }
    if (!shown) {
        tfr_buf_format(out, "%.*s", limited(log, 2 * MAX_MESSAGE),
                       log.len ? log.data : "no reason");
    }
}

static tfr_str repro_text(tfr_arena *arena, const tfr_nvrtc_failure *f) {
    tfr_buf text = {.arena = arena};
    tfr_buf_format(&text, "// NVRTC %d.%d (%s)\n// options: %.*s\n", f->major, f->minor, f->library,
                   (int)f->options.len, f->options.data);
    for (tfr_str rest = f->log; rest.len;) {
        tfr_str line = take_line(&rest);
        tfr_buf_format(&text, "// %.*s\n", (int)line.len, line.data);
    }
    tfr_buf_format(&text, "#line 1 \"%s\"\n", TFR_NVRTC_SOURCE_NAME);
    tfr_buf_add_str(&text, f->source);
    return tfr_buf_str(&text);
}

// Stays, for whoever wants to know why; named by its contents, so that a program that fails each
// time it runs leaves one file. Empty: it cannot be written.
static tfr_str write_repro(tfr_arena *arena, const tfr_nvrtc_failure *failure) {
    const char *folder = secure_getenv("TMPDIR");
    uint8_t digest[TFR_SHA256_SIZE];
    char hex[TFR_SHA256_HEX];
    struct stat s;
    tfr_str text = repro_text(arena, failure);
    tfr_sha256_of(text.data, text.len, digest);
    tfr_sha256_hex(digest, hex);
    tfr_str path = tfr_str_format(arena, "%s/tfrewrite-nvrtc-%.16s.cu",
                                  folder && *folder == '/' ? folder : "/tmp", hex);
    int fd = open(path.data, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        bool mine = errno == EEXIST && lstat(path.data, &s) == 0 && S_ISREG(s.st_mode) &&
                    s.st_uid == geteuid() && (size_t)s.st_size == text.len;
        return mine ? path : (tfr_str){0};
    }
    int error = tfr_write_all(fd, text);
    if (close(fd) != 0 || error) {
        (void)unlink(path.data);
        return (tfr_str){0};
    }
    return path;
}

void tfr_nvrtc_explain(tfr_arena *arena, const tfr_nvrtc_failure *failure, char *out, size_t size) {
    tfr_buf text = {.arena = arena};
    tfr_str repro = write_repro(arena, failure);
    if (failure->fault) {
        tfr_buf_format(&text, "what NVRTC made is no kernel: %s", failure->fault);
    } else {
        add_messages(&text, failure->log, failure->source);
    }
    tfr_buf_format(&text, " (NVRTC %d.%d, %s, %.*s%s%.*s)", failure->major, failure->minor,
                   failure->library, (int)failure->options.len, failure->options.data,
                   repro.len ? "; to repeat it: " : "", (int)repro.len,
                   repro.len ? repro.data : "");
    size_t len = text.len < size ? text.len : size - 1;
    memcpy(out, text.data, len);
    out[len] = 0;
    for (size_t i = 0; i < len; i++) {
        out[i] = out[i] == '\n' || out[i] == '\r' || out[i] == '\t' ? ' ' : out[i];
    }
}
