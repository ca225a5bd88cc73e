// An aten program as text, one line for each step: for tests, and for who asks what an op runs.
#include <string.h>

#include "rewriter/aten.h"

static const char *const dtypes[] = {
#define PATH(path, name) path,
    TFR_ATEN_DTYPES(PATH)
#undef PATH
};

static void print_value(tfr_buf *out, const tfr_aten_program *p, tfr_aten_value value) {
    switch (value.kind) {
    case TFR_AV_NONE:
    case TFR_AV_LIST: // printed by print_argument: lists do not nest
        tfr_buf_format(out, "None");
        break;
    case TFR_AV_SIZES:
        tfr_buf_format(out, "*");
        print_value(out, p, p->values[value.index]);
        tfr_buf_format(out, value.count ? ".shape[:-%u]" : ".shape", value.count);
        break;
    case TFR_AV_STEP:
        tfr_buf_format(out, "%%%u", value.index + 1);
        break;
    case TFR_AV_TENSOR:
        tfr_buf_format(out, "%s", p->tensors[value.index]);
        break;
    case TFR_AV_ARGUMENT:
        tfr_buf_format(out, "%s", p->numbers[value.index]);
        break;
    case TFR_AV_NUMBER:
        tfr_buf_format(out, "%.17g", value.number);
        break;
    case TFR_AV_BOOL:
        tfr_buf_format(out, "%s", value.number != 0 ? "True" : "False");
        break;
    case TFR_AV_DTYPE:
        tfr_buf_format(out, "%s", dtypes[value.index]);
        break;
    case TFR_AV_TEXT:
        tfr_buf_format(out, "'%s'", value.text);
        break;
    }
}

static void print_argument(tfr_buf *out, const tfr_aten_program *p, tfr_aten_value value) {
    if (value.kind != TFR_AV_LIST) {
        print_value(out, p, value);
        return;
    }
    tfr_buf_format(out, "[");
    for (uint32_t i = 0; i < value.count; i++) {
        tfr_buf_format(out, "%s", i ? ", " : "");
        print_value(out, p, p->values[value.index + i]);
    }
    tfr_buf_format(out, "]");
}

static void print_step(tfr_buf *out, const tfr_aten_program *p, const tfr_aten_step *step) {
    static const char *const words[] = {
        [TFR_AS_CALL] = "",   [TFR_AS_ACT] = "act",      [TFR_AS_NORM] = "norm",
        [TFR_AS_SELECT] = "", [TFR_AS_SIZE] = "size",    [TFR_AS_DTYPE] = "dtype",
        [TFR_AS_IN] = " in ", [TFR_AS_ADD] = " + ",      [TFR_AS_SUB] = " - ",
        [TFR_AS_MUL] = " * ", [TFR_AS_FLOORDIV] = " // "};
    const tfr_aten_value *args = p->values + step->first;
    const tfr_aten_op *op = step->op;
    if (step->kind == TFR_AS_SELECT) {
        print_value(out, p, args[1]);
        tfr_buf_format(out, " if ");
        print_value(out, p, args[0]);
        tfr_buf_format(out, " else ");
        print_value(out, p, args[2]);
        return;
    }
    bool infix = step->kind >= TFR_AS_IN;
    if (op)
        tfr_buf_format(out, "%s%s%s", op->name + strlen("aten::"), *op->overload ? "." : "",
                       op->overload);
    tfr_buf_format(out, "%s%s", infix ? "" : words[step->kind], infix ? "" : "(");
    for (uint32_t i = 0; i < step->count; i++) {
        tfr_buf_format(out, "%s", !i ? "" : infix ? words[step->kind] : ", ");
        print_argument(out, p, args[i]);
    }
    tfr_buf_format(out, "%s", infix ? "" : ")");
}

void tfr_aten_print(tfr_buf *out, const tfr_aten_program *p) {
    for (uint32_t s = 0; s < p->step_count; s++) {
        tfr_buf_format(out, "%%%u = ", s + 1);
        print_step(out, p, &p->steps[s]);
        tfr_buf_format(out, "\n");
    }
    tfr_buf_format(out, "return");
    for (uint32_t i = 0; i < p->result_count; i++) {
        tfr_buf_format(out, "%s", i ? ", " : " ");
        print_value(out, p, p->results[i]);
    }
    tfr_buf_format(out, "\n");
}
