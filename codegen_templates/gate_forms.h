// Where the gate of gated_rms_norm comes, and the dtypes that follow: for its host and its CUDA
// template alone.
#ifndef TFR_GATE_FORMS_H
#define TFR_GATE_FORMS_H

#include "codegen_templates/acts.h"
#include "codegen_templates/norm_orders.h"

#define VALUES(X)                                                                                  \
    TFR_NORM_VALUES(X)                                                                             \
    TFR_ACT_VALUES(X) X(NORM_GATE) X(GATE_NORM) X(GATE_GROUPS) X(EITHER_GROUPS)
enum { VALUES(TFR_VALUE_ENUM) };
// The activation by its number in acts.h: both lists cannot start at 0.
#define GATE_ACT (ACT - SILU)

// Whether the gate comes before the norm. `norm_first` counts where the form leaves it open.
TFR_CONSTANT int tfr_gate_first(int form, int norm_first) {
    return form == EITHER_GROUPS ? !norm_first : form != NORM_GATE;
}

TFR_CONSTANT int tfr_gate_result(int order, int form, int x, int weight) {
    return tfr_gate_first(form, 1) && order == CAST_WEIGHT ? tfr_promote(x, weight) : x;
}

#endif
