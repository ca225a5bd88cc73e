// Reads a file whole and refuses early, with a place, what no parser should see. The order of the
// checks is the order of blame: size, binary, encoding, then brackets, strings and indentation.
#include "parser/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parser/encoding.h"
#include "parser/prescan.h"

static const char STDIN_PATH[] = "<stdin>";

static tfr_status fail_size(tfr_error *err, const char *path) {
    return tfr_fail(err, TFR_E_REFUSED, path, 0, 0,
                    "larger than %u MiB, the limit for one source file",
                    TFR_MAX_SOURCE_BYTES >> 20);
}

static tfr_status fail_errno(tfr_error *err, const char *path, int code) {
    if (code == EISDIR) {
        return tfr_fail(err, TFR_E_USAGE, path, 0, 0, "is a directory, not a file");
    }
    return tfr_fail(err, TFR_E_USAGE, path, 0, 0, "cannot read it: %s", strerror(code));
}

// Pipes and /proc files say nothing of their size: read until the end or the limit.
static tfr_status read_all(tfr_str *out, int fd, const char *path, tfr_arena *arena,
                           tfr_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fail_errno(err, path, errno);
    }
    if (S_ISDIR(info.st_mode)) {
        return fail_errno(err, path, EISDIR);
    }
    bool sized = S_ISREG(info.st_mode) && info.st_size > 0;
    if (sized && info.st_size > (off_t)TFR_MAX_SOURCE_BYTES) {
        return fail_size(err, path);
    }
    size_t cap = sized ? (size_t)info.st_size + 1 : (size_t)64 << 10;
    size_t len = 0;
    char *data = tfr_arena_alloc(arena, cap);
    for (;;) {
        if (len == cap) {
            data = tfr_arena_grow(arena, data, cap, cap * 2);
            cap *= 2;
        }
        ssize_t got = read(fd, data + len, cap - len);
        if (got == 0) {
            *out = (tfr_str){data, len};
            return TFR_OK;
        }
        if (got < 0 && errno != EINTR) {
            return fail_errno(err, path, errno);
        }
        len += got > 0 ? (size_t)got : 0;
        if (len > TFR_MAX_SOURCE_BYTES) {
            return fail_size(err, path);
        }
    }
}

tfr_status tfr_source_bytes(tfr_str *out, const char *path, tfr_arena *arena, tfr_error *err) {
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? STDIN_PATH : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail_errno(err, name, errno);
    }
    tfr_status status = read_all(out, fd, name, arena, err);
    if (!is_stdin) {
        (void)close(fd); // opened for reading: closing it can lose nothing
    }
    return status;
}

tfr_status tfr_source_read(tfr_source *out, const char *path, tfr_arena *arena, tfr_error *err) {
    tfr_str bytes = {NULL, 0};
    const char *name = strcmp(path, "-") == 0 ? STDIN_PATH : path;
    tfr_status status = tfr_source_bytes(&bytes, path, arena, err);
    return status ? status : tfr_source_from_bytes(out, name, bytes, arena, err);
}

// Line starts, the usual line end, and whether a "\r" stands alone anywhere. A file has one line
// more than it has line ends: the last one may be empty.
static void index_lines(tfr_source *src, tfr_arena *arena, bool *lone_cr) {
    const char *data = src->bytes.data;
    size_t len = src->bytes.len;
    struct {
        uint32_t *items;
        size_t count, cap;
    } starts = {0};
    size_t lf = 0;
    size_t crlf = 0;
    size_t cr = 0;
    *TFR_PUSH(arena, &starts) = 0;
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n') {
            lf++;
        } else if (data[i] == '\r' && i + 1 < len && data[i + 1] == '\n') {
            i++;
            crlf++;
        } else if (data[i] == '\r') {
            cr++;
        } else {
            continue;
        }
        *TFR_PUSH(arena, &starts) = (uint32_t)(i + 1);
    }
    src->lines = starts.items;
    src->line_count = (uint32_t)starts.count;
    src->newline = lf >= crlf && lf >= cr ? TFR_STR("\n")
                   : crlf >= cr           ? TFR_STR("\r\n")
                                          : TFR_STR("\r");
    *lone_cr = cr > 0;
}

static tfr_status check_binary(const tfr_source *src, tfr_error *err) {
    const char *data = src->bytes.data;
    size_t len = src->bytes.len;
    if (len >= 2 && (memcmp(data, "\xff\xfe", 2) == 0 || memcmp(data, "\xfe\xff", 2) == 0)) {
        return tfr_fail(err, TFR_E_REFUSED, src->path, 0, 0,
                        "looks like UTF-16, which Python does not read; save the file as UTF-8");
    }
    const char *nul = len ? memchr(data, 0, len) : NULL;
    if (nul) {
        return tfr_fail(err, TFR_E_REFUSED, src->path, 0, 0,
                        "is a binary file (NUL byte at offset %zu), not Python source",
                        (size_t)(nul - data));
    }
    return TFR_OK;
}

// What the parser reads where it must differ from the bytes. A "\r" that stands alone ends a line
// for Python but not for the grammar, so the parser is shown "\n" in its place.
static char *shadow_text(tfr_source *src, tfr_arena *arena, bool lone_cr) {
    size_t len = src->bytes.len;
    char *text = tfr_arena_alloc(arena, len + 1);
    memcpy(text, src->bytes.data, len);
    if (tfr_encoding_has_bom(src->bytes)) {
        memset(text, ' ', TFR_BOM_LEN);
    }
    for (size_t i = 0; lone_cr && i < len; i++) {
        if (text[i] == '\r' && (i + 1 == len || text[i + 1] != '\n')) {
            text[i] = '\n';
        }
    }
    src->text = (tfr_str){text, len};
    return text;
}

tfr_status tfr_source_from_bytes(tfr_source *out, const char *path, tfr_str bytes, tfr_arena *arena,
                                 tfr_error *err) {
    *out = (tfr_source){.path = path, .bytes = bytes, .text = bytes};
    if (!bytes.data) {
        out->bytes = out->text = TFR_STR("");
    }
    if (bytes.len > TFR_MAX_SOURCE_BYTES) {
        return fail_size(err, path);
    }
    tfr_status status = check_binary(out, err);
    if (status) {
        return status;
    }
    bool lone_cr = false;
    bool single_byte = false;
    index_lines(out, arena, &lone_cr);
    status = tfr_encoding_check(&single_byte, out, err);
    if (status) {
        return status;
    }
    char *shadow = NULL;
    if (single_byte || lone_cr || tfr_encoding_has_bom(out->bytes)) {
        shadow = shadow_text(out, arena, lone_cr);
    }
    return tfr_prescan(out, single_byte ? shadow : NULL, err);
}

void tfr_source_position(const tfr_source *src, uint32_t offset, uint32_t *line, uint32_t *column) {
    uint32_t low = 0; // the last line that starts at or before `offset`
    uint32_t high = src->line_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (src->lines[middle] <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    size_t start = src->lines[low];
    if (low == 0 && tfr_encoding_has_bom(src->bytes)) {
        start += TFR_BOM_LEN;
    }
    size_t end = offset < src->text.len ? offset : src->text.len;
    uint32_t characters = 0;
    for (size_t i = start; i < end; i++) {
        // In a single-byte file `text` is ASCII, so this counts right there too.
        characters += ((unsigned char)src->text.data[i] & 0xc0) != 0x80;
    }
    *line = low + 1;
    *column = characters + 1;
}

tfr_status tfr_source_fail(tfr_error *err, tfr_status status, const tfr_source *src,
                           uint32_t offset, const char *format, ...) {
    char message[2 * sizeof err->message]; // longer than what fits, so that tfr_fail marks the cut
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    uint32_t line = 0;
    uint32_t column = 0;
    tfr_source_position(src, offset, &line, &column);
    return tfr_fail(err, status, src->path, line, column, "%s", message);
}
