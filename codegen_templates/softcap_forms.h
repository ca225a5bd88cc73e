// What the host and the CUDA template of softcap must agree on.
#ifndef TFR_SOFTCAP_FORMS_H
#define TFR_SOFTCAP_FORMS_H

#include "codegen_templates/device.h"

#define VALUES(X)                                                                                  \
    X(PLAIN)                                                                                       \
    X(SCALED)                                                                                      \
    X(IN_FLOAT32)
enum { VALUES(TFR_VALUE_ENUM) };

// A unit of the CUDA kernel: that many threads with a pack of elements each.
#define TFR_SOFTCAP_THREADS 256

// What every operation rounds to, and the dtype of the result.
TFR_CONSTANT int softcap_dtype(int form, int x) { return form == IN_FLOAT32 ? TFR_F32 : x; }

#endif
