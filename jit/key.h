// What a cached kernel depends on, as text, and the file name that follows from it. Contents only:
// no paths, times or device numbers, so that a key is the same wherever it is computed.
//
//     tfrewrite key 1
//     kind 4
//     host
//     abi 1
//     ...
//
// Each field is its name, the length of its value, the value: ("a|b", "c") never reads as ("a",
// "b|c"). The compiler comes last, so that the text before it is a prefix with a hash of its own.
#ifndef TFR_KEY_H
#define TFR_KEY_H

#include "runtime/arena.h"

typedef struct tfr_key {
    tfr_str kind; // "host"
    tfr_str abi;  // decimal
    tfr_str source;
    tfr_str options;  // of the compiler, as given to it
    tfr_str target;   // with every CPU feature: "x86_64:avx2,fma,f16c,bmi2"
    tfr_str compiler; // its identity, not its path
} tfr_key;

// "<sha256 of all but the compiler>-<sha256 of the compiler, 16 digits>.tfrk"
#define TFR_KEY_BASE_LEN 64u
#define TFR_KEY_NAME_SIZE (64u + 1u + 16u + sizeof ".tfrk")

tfr_str tfr_key_text(tfr_arena *arena, const tfr_key *key);
// Strict: false for any text that tfr_key_text would not write. The fields are views into `text`.
bool tfr_key_parse(tfr_str text, tfr_key *out);
// `out` holds TFR_KEY_NAME_SIZE bytes.
void tfr_key_name(const tfr_key *key, char *out);

// One line for each field that differs, "target: this one has ..., the other ...".
void tfr_key_differences(const tfr_key *this_one, const tfr_key *other, tfr_buf *out);

// Fields, also used by the records of choice.h. Taking one moves `rest` behind it.
void tfr_field_add(tfr_buf *out, const char *name, tfr_str value);
bool tfr_field_take(tfr_str *rest, const char *name, tfr_str *value);

#endif
