// The activations of acts.h on CUDA, by torch's formulas there, rounded where torch rounds. It must
// know no single op.
#ifndef TFR_DEVICE_ACT_H
#define TFR_DEVICE_ACT_H

#include "codegen_templates/acts.h"
#include "codegen_templates/device_vec.h"

// One torch operation on one value, in f32.
TFR_INLINE float tfr_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

TFR_INLINE float tfr_act_one(float x, int act) {
    switch (act) {
    case TFR_ACT_SILU:
        return x / (1.0f + expf(-x));
    case TFR_ACT_GELU:
        return x * 0.5f * (1.0f + erff(x * 0.707106781f));
    case TFR_ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * (x * x * x))));
    case TFR_ACT_RELU:
        return x < 0.0f ? 0.0f : x; // keeps NaN and -0
    case TFR_ACT_RELU2:
        return x < 0.0f ? 0.0f : x * x; // relu rounds nothing
    case TFR_ACT_SIGMOID:
        return tfr_sigmoid(x);
    case TFR_ACT_TANH:
        return tanhf(x);
    default:
        return x;
    }
}

// x * sigmoid(1.702 * x), in three operations.
template <int DTYPE, int V> TFR_INLINE void tfr_quick_gelu(float *x) {
    float y[V];
#pragma unroll
    for (int i = 0; i < V; i++)
        y[i] = 1.702f * x[i];
    tfr_round<DTYPE, V>(y);
#pragma unroll
    for (int i = 0; i < V; i++)
        y[i] = tfr_sigmoid(y[i]);
    tfr_round<DTYPE, V>(y);
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] *= y[i];
}

// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3)))), operation by operation.
template <int DTYPE, int V> TFR_INLINE void tfr_new_gelu(float *x) {
    float y[V];
#define TFR_EACH(expression)                                                                       \
    _Pragma("unroll") for (int i = 0; i < V; i++) y[i] = (expression);                             \
    tfr_round<DTYPE, V>(y)
    TFR_EACH(x[i] * x[i]);
    TFR_EACH(y[i] * x[i]);
    TFR_EACH(0.044715f * y[i]);
    TFR_EACH(x[i] + y[i]);
    TFR_EACH(0.797884561f * y[i]);
    TFR_EACH(tanhf(y[i]));
    TFR_EACH(1.0f + y[i]);
#undef TFR_EACH
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] = 0.5f * x[i];
    tfr_round<DTYPE, V>(x);
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] *= y[i];
}

// V values that a tensor of DTYPE holds.
template <int ACT, int DTYPE, int V> TFR_INLINE void tfr_act(float *x) {
    if constexpr (ACT == TFR_ACT_QUICK_GELU) {
        tfr_quick_gelu<DTYPE, V>(x);
    } else if constexpr (ACT == TFR_ACT_NEW_GELU) {
        tfr_new_gelu<DTYPE, V>(x);
    } else {
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] = tfr_act_one(x[i], ACT);
    }
    if constexpr (ACT != TFR_ACT_IDENTITY)
        tfr_round<DTYPE, V>(x);
}

#endif
