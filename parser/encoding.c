// CPython's reading of PEP 263, spelled out because the details decide what a file means: a coding
// line counts in line 1, or in line 2 if line 1 holds nothing but a comment or white space.
#include "parser/encoding.h"

#include "runtime/utf8.h"

typedef struct single_byte_encoding {
    const char *names;           // all spellings, each between spaces, '_' written as '-'
    uint64_t undefined_80_to_bf; // bit n: byte 0x80 + n stands for no character
    uint64_t undefined_c0_to_ff;
} single_byte_encoding;

static const single_byte_encoding SINGLE_BYTE[] = {
    {" latin-1 latin1 latin l1 iso8859-1 iso-8859-1 iso-latin-1 8859 cp819 ", 0, 0},
    {" iso8859-2 iso-8859-2 latin2 latin-2 l2 ", 0, 0},
    {" iso8859-3 iso-8859-3 latin3 latin-3 l3 ", 0x4000402000000000, 0x1000800010008},
    {" iso8859-4 iso-8859-4 latin4 latin-4 l4 ", 0, 0},
    {" iso8859-5 iso-8859-5 cyrillic ", 0, 0},
    {" iso8859-6 iso-8859-6 arabic ", 0x77ffcfee00000000, 0xfff80000f8000001},
    {" iso8859-7 iso-8859-7 greek greek8 ", 0x400000000000, 0x8000000000040000},
    {" iso8859-8 iso-8859-8 hebrew ", 0x8000000200000000, 0x980000007fffffff},
    {" iso8859-9 iso-8859-9 latin5 latin-5 l5 ", 0, 0},
    {" iso8859-10 iso-8859-10 latin6 latin-6 l6 ", 0, 0},
    {" iso8859-11 iso-8859-11 thai ", 0, 0xf000000078000000},
    {" iso8859-13 iso-8859-13 latin7 latin-7 l7 ", 0, 0},
    {" iso8859-14 iso-8859-14 latin8 latin-8 l8 ", 0, 0},
    {" iso8859-15 iso-8859-15 latin9 latin-9 l9 ", 0, 0},
    {" iso8859-16 iso-8859-16 latin10 latin-10 l10 ", 0, 0},
    {" cp1250 1250 windows-1250 ", 0x101010a, 0},
    {" cp1251 1251 windows-1251 ", 0x1000000, 0},
    {" cp1252 1252 windows-1252 ", 0x2001a002, 0},
    {" cp1253 1253 windows-1253 ", 0x400f501f502, 0x8000000000040000},
    {" cp1254 1254 windows-1254 ", 0x6001e002, 0},
    {" cp1255 1255 windows-1255 ", 0xf401f402, 0x98000000fe000400},
    {" cp1256 1256 windows-1256 ", 0, 0},
    {" cp1257 1257 windows-1257 ", 0x229501150a, 0},
    {" cp1258 1258 windows-1258 ", 0x6401e402, 0},
    {" koi8-r cskoi8r ", 0, 0},
    {" koi8-u ", 0, 0},
    {" cp437 437 ibm437 ", 0, 0},
    {" cp850 850 ibm850 ", 0, 0},
    {" cp866 866 ibm866 ", 0, 0},
    {" mac-roman macroman macintosh ", 0, 0},
};

static const char UTF8_NAMES[] = " utf-8 utf8 u8 utf utf-8-sig utf8-ucs2 utf8-ucs4 cp65001 ";
static const char ASCII_NAMES[] = " ascii us-ascii us 646 ansi-x3.4-1968 iso646-us cp367 ";

bool tfr_encoding_has_bom(tfr_str bytes) {
    return bytes.len >= TFR_BOM_LEN && memcmp(bytes.data, "\xef\xbb\xbf", TFR_BOM_LEN) == 0;
}

static bool is_name_char(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_' || c == '.';
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\f'; }

// The name in `line`, if it is a comment with a coding mark. `only_comment`: the next line may
// still hold the mark.
static tfr_str coding_name(tfr_str line, bool *only_comment) {
    size_t i = 0;
    while (i < line.len && is_blank(line.data[i])) {
        i++;
    }
    bool is_comment = i < line.len && line.data[i] == '#';
    *only_comment = is_comment || i == line.len || line.data[i] == '\n' || line.data[i] == '\r';
    for (; is_comment && i + 6 < line.len; i++) {
        if (memcmp(line.data + i, "coding", 6) != 0 ||
            (line.data[i + 6] != ':' && line.data[i + 6] != '=')) {
            continue;
        }
        size_t start = i + 7;
        while (start < line.len && (line.data[start] == ' ' || line.data[start] == '\t')) {
            start++;
        }
        size_t end = start;
        while (end < line.len && is_name_char(line.data[end])) {
            end++;
        }
        if (end > start) {
            return (tfr_str){line.data + start, end - start};
        }
    }
    return (tfr_str){NULL, 0};
}

static tfr_str line_text(const tfr_source *src, uint32_t index) {
    size_t start = src->lines[index];
    size_t end = index + 1 < src->line_count ? src->lines[index + 1] : src->bytes.len;
    if (index == 0 && tfr_encoding_has_bom(src->bytes)) {
        start += TFR_BOM_LEN;
    }
    return (tfr_str){src->bytes.data + start, end - start};
}

static tfr_str declared_name(const tfr_source *src) {
    tfr_str name = {NULL, 0};
    bool go_on = true;
    for (uint32_t i = 0; i < 2 && i < src->line_count && go_on && !name.data; i++) {
        name = coding_name(line_text(src, i), &go_on);
    }
    return name;
}

// Codec names are case-blind and take '_' for '-'. A name too long for the buffer is no known one.
static bool name_in(const char *names, tfr_str name) {
    char key[40];
    if (name.len + 3 > sizeof key) {
        return false;
    }
    size_t n = 0;
    key[n++] = ' ';
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        key[n++] = (char)(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    key[n++] = ' ';
    key[n] = 0;
    return strstr(names, key) != NULL;
}

// CPython takes any name that starts with "utf-8-" for UTF-8, but with a signature "utf8" is a
// conflict for it.
static bool is_utf8_prefixed(tfr_str name) {
    return name_in(" utf-8 ", name) ||
           (name.len > 6 && name_in(" utf-8- ", (tfr_str){name.data, 6}));
}

// The offset of the first byte >= 0x80 from `at` on, or the length.
static size_t skip_ascii(tfr_str bytes, size_t at) {
    while (at + 8 <= bytes.len) {
        uint64_t word;
        memcpy(&word, bytes.data + at, 8);
        if (word & UINT64_C(0x8080808080808080)) {
            break;
        }
        at += 8;
    }
    while (at < bytes.len && (unsigned char)bytes.data[at] < 0x80) {
        at++;
    }
    return at;
}

static tfr_status check_utf8(const tfr_source *src, tfr_str declared, tfr_error *err) {
    tfr_str bytes = src->bytes;
    for (size_t at = skip_ascii(bytes, 0); at < bytes.len; at = skip_ascii(bytes, at)) {
        size_t len = tfr_utf8_length(bytes.data + at, bytes.len - at);
        if (!len) {
            return tfr_source_fail(
                err, TFR_E_REFUSED, src, (uint32_t)at,
                declared.data || tfr_encoding_has_bom(bytes)
                    ? "byte 0x%02x is not valid UTF-8, which the file says it is"
                    : "byte 0x%02x is not valid UTF-8; save the file as UTF-8, or"
                      " name its encoding in line 1, as in \"# coding: latin-1\"",
                (unsigned char)bytes.data[at]);
        }
        at += len;
    }
    return TFR_OK;
}

static tfr_status check_ascii(const tfr_source *src, tfr_error *err) {
    size_t at = skip_ascii(src->bytes, 0);
    if (at == src->bytes.len) {
        return TFR_OK;
    }
    return tfr_source_fail(err, TFR_E_REFUSED, src, (uint32_t)at,
                           "byte 0x%02x is not ASCII, which the coding line declares",
                           (unsigned char)src->bytes.data[at]);
}

static tfr_status check_single_byte(const tfr_source *src, const single_byte_encoding *enc,
                                    tfr_str name, tfr_error *err) {
    tfr_str bytes = src->bytes;
    for (size_t at = skip_ascii(bytes, 0); at < bytes.len; at = skip_ascii(bytes, at + 1)) {
        unsigned char byte = (unsigned char)bytes.data[at];
        uint64_t mask = byte < 0xc0 ? enc->undefined_80_to_bf : enc->undefined_c0_to_ff;
        if (mask >> (byte & 0x3f) & 1) {
            // Bytes are characters here, so tfr_source_position would count wrong.
            uint32_t line = 0;
            uint32_t column = 0;
            tfr_source_position(src, (uint32_t)at, &line, &column);
            column = (uint32_t)at - src->lines[line - 1] + 1;
            return tfr_fail(err, TFR_E_REFUSED, src->path, line, column,
                            "byte 0x%02x stands for no character in %.*s", byte, (int)name.len,
                            name.data);
        }
    }
    return TFR_OK;
}

tfr_status tfr_encoding_check(bool *single_byte, const tfr_source *src, tfr_error *err) {
    *single_byte = false;
    tfr_str name = declared_name(src);
    uint32_t at = name.data ? (uint32_t)(name.data - src->bytes.data) : 0;
    if (name.data && tfr_encoding_has_bom(src->bytes) && !is_utf8_prefixed(name)) {
        return tfr_source_fail(err, TFR_E_REFUSED, src, at,
                               "the file starts with a UTF-8 signature (BOM) but declares %.*s; "
                               "Python refuses it too: drop one of the two",
                               (int)(name.len < 40 ? name.len : 40), name.data);
    }
    if (!name.data || is_utf8_prefixed(name) || name_in(UTF8_NAMES, name)) {
        return check_utf8(src, name, err);
    }
    if (name_in(ASCII_NAMES, name)) {
        return check_ascii(src, err);
    }
    for (size_t i = 0; i < sizeof SINGLE_BYTE / sizeof *SINGLE_BYTE; i++) {
        if (name_in(SINGLE_BYTE[i].names, name)) {
            *single_byte = true;
            return check_single_byte(src, &SINGLE_BYTE[i], name, err);
        }
    }
    return tfr_source_fail(err, TFR_E_REFUSED, src, at,
                           "the declared encoding %.*s is not supported (UTF-8, ASCII and the "
                           "single-byte ones are); save the file as UTF-8",
                           (int)(name.len < 40 ? name.len : 40), name.data);
}
