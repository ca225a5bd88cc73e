// The activations that kernels know, by number: what an argument `Act` of an op carries. act.h
// computes them; runtime/ includes this file too.
#ifndef TFR_ACTS_H
#define TFR_ACTS_H

// In the order of ACTS in python/tfrewrite/activations.py, which says what torch calls them. As in
// norm.h: a template takes them into its own list of values, and here they have names of their own.
#define TFR_ACT_VALUES(X)                                                                          \
    X(SILU)                                                                                        \
    X(GELU)                                                                                        \
    X(GELU_TANH)                                                                                   \
    X(RELU)                                                                                        \
    X(RELU2)                                                                                       \
    X(SIGMOID)                                                                                     \
    X(TANH)                                                                                        \
    X(QUICK_GELU)                                                                                  \
    X(NEW_GELU)                                                                                    \
    X(IDENTITY)
#define TFR_ACT_NAME(name) TFR_ACT_##name,
enum { TFR_ACT_VALUES(TFR_ACT_NAME) TFR_ACT_COUNT };

#endif
