// A model's config.json as values: what the sizes in a modeling file are computed from. Knows JSON;
// knows no key of any model.
#ifndef TFR_CONFIG_H
#define TFR_CONFIG_H

#include "parser/source.h"

typedef enum tfr_json_kind {
    TFR_JSON_NULL,
    TFR_JSON_BOOL,
    TFR_JSON_INT,
    TFR_JSON_FLOAT, // also integers beyond 64 bits
    TFR_JSON_TEXT,
    TFR_JSON_LIST,
    TFR_JSON_OBJECT,
} tfr_json_kind;

typedef struct tfr_json {
    tfr_json_kind kind;
    tfr_str key;     // of a member of an object, escapes resolved
    int64_t integer; // INT; of BOOL 0 or 1; of LIST and OBJECT the number of items
    double number;   // INT and FLOAT
    tfr_str text;
    const struct tfr_json *first, *next; // items; the next one beside this
} tfr_json;

// The whole document, an object. TFR_E_USAGE: not readable, or no JSON (with its place), or no
// object. `bytes` must outlive `out`.
tfr_status tfr_config_from_bytes(const tfr_json **out, const char *path, tfr_str bytes,
                                 tfr_arena *arena, tfr_error *err);
tfr_status tfr_config_read(const tfr_json **out, const char *path, tfr_arena *arena,
                           tfr_error *err);
tfr_status tfr_config_parse(const tfr_json **out, const tfr_source *source, tfr_arena *arena,
                            tfr_error *err); // of `source`, lines and text count

// A member of an object, the last of that name; NULL: there is none.
const tfr_json *tfr_json_get(const tfr_json *object, tfr_str key);

// An attribute of the configuration object that `config` becomes: a member, or else one of its
// "text_config", as a composite model gives its text model's sizes there. NULL: not in the file.
const tfr_json *tfr_config_get(const tfr_json *config, tfr_str key);

#endif
