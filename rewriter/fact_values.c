// What a fact may be and what Python's operators make of two of them.
#include "rewriter/facts.h"

#include <stdarg.h>
#include <stdio.h>

// ---- making facts -----------------------------------------------------------------------------

tfr_fact tfr_fact_unknown(tfr_facts *facts, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *kept = tfr_str_dup(facts->arena, tfr_str_from(text));
    return (tfr_fact){.kind = TFR_FACT_UNKNOWN, .text = tfr_str_from(kept)};
}

// "`a + b` is not known", with the expression on one line and cut.
tfr_fact tfr_fact_unclear(tfr_facts *f, uint32_t ast, const char *what) {
    char text[64];
    size_t n = 0;
    tfr_str source = tfr_tree_text(f->module->scope->tree, ast);
    for (size_t i = 0; i < source.len && n + 5 < sizeof text; i++) {
        bool space = source.data[i] == ' ' || source.data[i] == '\n' || source.data[i] == '\r';
        if (!space || (n && text[n - 1] != ' '))
            text[n++] = space ? ' ' : source.data[i];
    }
    bool cut = n + 5 >= sizeof text;
    while (cut && n && (unsigned char)text[n - 1] >= 0x80) // no part of a character
        n--;
    text[n] = 0;
    return tfr_fact_unknown(f, "`%s%s` %s", text, cut ? "..." : "", what);
}

tfr_fact tfr_fact_int(int64_t value) {
    return (tfr_fact){.kind = TFR_FACT_INT, .integer = value, .number = (double)value};
}

tfr_fact tfr_fact_bool(bool value) {
    return (tfr_fact){.kind = TFR_FACT_BOOL, .integer = value, .number = value};
}

tfr_fact tfr_fact_float(double value) {
    return (tfr_fact){.kind = TFR_FACT_FLOAT, .number = value};
}

tfr_fact tfr_fact_text(tfr_str text) { return (tfr_fact){.kind = TFR_FACT_TEXT, .text = text}; }

tfr_fact tfr_fact_json(const tfr_json *json) {
    switch (json->kind) {
    case TFR_JSON_NULL:
        return (tfr_fact){.kind = TFR_FACT_NONE};
    case TFR_JSON_BOOL:
        return tfr_fact_bool(json->integer != 0);
    case TFR_JSON_INT:
        return tfr_fact_int(json->integer);
    case TFR_JSON_FLOAT:
        return tfr_fact_float(json->number);
    case TFR_JSON_TEXT:
        return tfr_fact_text(json->text);
    default:
        return (tfr_fact){.kind = TFR_FACT_JSON, .json = json};
    }
}

int tfr_fact_truth(const tfr_fact *fact) {
    switch (fact->kind) {
    case TFR_FACT_NONE:
        return 0;
    case TFR_FACT_BOOL:
    case TFR_FACT_INT:
    case TFR_FACT_FLOAT:
        return fact->number != 0;
    case TFR_FACT_TEXT:
        return fact->text.len != 0;
    case TFR_FACT_JSON: // an empty dict may have become a configuration object, which is true
        return fact->json->integer ? 1 : fact->json->kind == TFR_JSON_LIST ? 0 : -1;
    default:
        return -1;
    }
}

// ---- arithmetic -------------------------------------------------------------------------------

static tfr_fact whole_binary(tfr_facts *f, tfr_str op, int64_t x, int64_t y) {
    int64_t r = 0;
    bool over = false;
    if (tfr_str_eq(op, TFR_STR("+"))) {
        over = __builtin_add_overflow(x, y, &r);
    } else if (tfr_str_eq(op, TFR_STR("-"))) {
        over = __builtin_sub_overflow(x, y, &r);
    } else if (tfr_str_eq(op, TFR_STR("*"))) {
        over = __builtin_mul_overflow(x, y, &r);
    } else if (tfr_str_eq(op, TFR_STR("//")) || tfr_str_eq(op, TFR_STR("%"))) {
        if (y == 0 || (x == INT64_MIN && y == -1))
            return tfr_fact_unknown(f, "a division by zero");
        int64_t quotient = x / y, rest = x % y;
        if (rest && (rest < 0) != (y < 0))
            quotient--, rest += y;
        r = op.len == 2 ? quotient : rest;
    } else if (tfr_str_eq(op, TFR_STR("**")) && y >= 0) {
        r = 1;
        for (int64_t i = 0; i < y && !over; i++) {
            over = __builtin_mul_overflow(r, x, &r);
            if (r == 0 || (r == 1 && x == 1))
                break;
        }
    } else if (tfr_str_eq(op, TFR_STR("/")) && y) {
        return tfr_fact_float((double)x / (double)y);
    } else {
        return tfr_fact_unknown(f, "the operator %.*s", (int)op.len, op.data);
    }
    return over ? tfr_fact_unknown(f, "a number beyond 64 bits") : tfr_fact_int(r);
}

tfr_fact tfr_fact_binary(tfr_facts *f, tfr_str op, const tfr_fact *a, const tfr_fact *b) {
    if (a->kind == TFR_FACT_UNKNOWN)
        return *a;
    if (b->kind == TFR_FACT_UNKNOWN)
        return *b;
    if (tfr_fact_is_whole(a) && tfr_fact_is_whole(b))
        return whole_binary(f, op, a->integer, b->integer);
    if (!tfr_fact_is_number(a) || !tfr_fact_is_number(b))
        return tfr_fact_unknown(f, "%.*s of what is no number", (int)op.len, op.data);
    double x = a->number, y = b->number;
    if (tfr_str_eq(op, TFR_STR("+")))
        return tfr_fact_float(x + y);
    if (tfr_str_eq(op, TFR_STR("-")))
        return tfr_fact_float(x - y);
    if (tfr_str_eq(op, TFR_STR("*")))
        return tfr_fact_float(x * y);
    if (tfr_str_eq(op, TFR_STR("/")) && y != 0)
        return tfr_fact_float(x / y);
    return tfr_fact_unknown(f, "the operator %.*s", (int)op.len, op.data);
}

// 1 equal, 0 not, -1 unknown.
int tfr_fact_equal(const tfr_fact *a, const tfr_fact *b) {
    if (a->kind == TFR_FACT_UNKNOWN || b->kind == TFR_FACT_UNKNOWN || a->kind == TFR_FACT_CODE ||
        b->kind == TFR_FACT_CODE || a->kind == TFR_FACT_JSON || b->kind == TFR_FACT_JSON)
        return -1;
    if (tfr_fact_is_number(a) && tfr_fact_is_number(b))
        return a->number == b->number;
    if (a->kind != b->kind)
        return 0;
    return a->kind == TFR_FACT_NONE || tfr_str_eq(a->text, b->text);
}
