// One Python source file as bytes, with what is needed to parse it and to name places in it.
// Knows encodings and lines; knows nothing of syntax beyond brackets, strings and comments.
#ifndef TFR_SOURCE_H
#define TFR_SOURCE_H

#include "runtime/arena.h"
#include "runtime/error.h"

// Limits, each with a message that names it.
#define TFR_MAX_SOURCE_BYTES (8u << 20) // a larger file is refused
#define TFR_MAX_BRACKETS 200            // CPython's own limit ("too many nested parentheses")
#define TFR_MAX_INDENTS 100             // CPython's own limit ("too many levels of indentation")

typedef struct tfr_source {
    const char *path;    // as given; "<stdin>" for "-"
    tfr_str bytes;       // the file, untouched
    tfr_str text;        // what the parser reads: same length and offsets as `bytes`. UTF-8 files:
                         // the bytes themselves with a BOM blanked to spaces. Single-byte encodings
                         // (latin-1, cp1252, iso-8859-*, koi8-r): bytes >= 0x80 inside comments and
                         // string literals are replaced by '?'; elsewhere the file is refused.
                         // A lone "\r" is shown as "\n". Emission copies from `bytes`.
    uint32_t *lines;     // offset of the first byte of each line ("\n", "\r\n", "\r" end a line)
    uint32_t line_count; // a last empty line after a final line end included
    tfr_str newline;     // the file's usual line end: "\n", "\r\n" or "\r"
} tfr_source;

// Reads a file or, for "-", standard input. TFR_E_USAGE: not readable, a directory. TFR_E_REFUSED:
// over a limit, binary (NUL byte), undecodable, unsupported encoding, brackets too deep.
tfr_status tfr_source_read(tfr_source *out, const char *path, tfr_arena *arena, tfr_error *err);

// The bytes of a file alone, whatever they are. TFR_E_USAGE as above; TFR_E_REFUSED: too large.
tfr_status tfr_source_bytes(tfr_str *out, const char *path, tfr_arena *arena, tfr_error *err);

// The same checks over bytes in memory, which must outlive `out`.
tfr_status tfr_source_from_bytes(tfr_source *out, const char *path, tfr_str bytes, tfr_arena *arena,
                                 tfr_error *err);

// Line and column (both from 1; columns count characters, not bytes) of a byte offset.
void tfr_source_position(const tfr_source *src, uint32_t offset, uint32_t *line, uint32_t *column);

// tfr_fail at a byte offset of `src`.
tfr_status tfr_source_fail(tfr_error *err, tfr_status status, const tfr_source *src,
                           uint32_t offset, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
