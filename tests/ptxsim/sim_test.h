// For the tests of the interpreter: run a few PTX statements and look at what came out.
#ifndef PTXSIM_SIM_TEST_H
#define PTXSIM_SIM_TEST_H

#include <stdbool.h>
#include <stdint.h>

#include "fake_cuda.h"
#include "ptxsim.h"

// A fresh driver: ptxsim_configure("reset=1 strict=1 ..."), then cuInit and a current context.
void sim_start(const char *settings);

// Loads a module that holds `.entry k` and returns its function. Fails the test if it does not
// load.
CUfunction sim_load(const char *ptx);
// The same for a body: `params` between k's parentheses, and registers to use
//   %h0-15 b16, %r0-31 b32, %d0-31 b64, %p0-7.
CUfunction sim_body(const char *params, const char *body);
// Why a body does not load, or NULL if it does.
const char *sim_refusal(const char *params, const char *body);
// For kernels of up to three parameters, pointers all.
CUresult sim_launch(CUfunction function, unsigned grid, unsigned block, const void *a,
                    const void *b, const void *c);

// One instruction for each of up to 32 cases at once, one lane each: a, b and c are in %d1-3, their
// low halves in %r1-3, %h1-3; the result is what `result` names (0 of d, r, h or p).
typedef struct sim_case {
    uint64_t a, b, c, expected;
} sim_case;
// Compares and prints what differs; false if something did.
bool sim_cases(const char *statement, char result, const sim_case *cases, int count);
#define SIM_CASES(statement, result, ...)                                                          \
    sim_cases(statement, result, (const sim_case[]){__VA_ARGS__},                                  \
              (int)(sizeof((const sim_case[]){__VA_ARGS__}) / sizeof(sim_case)))

// Of the last launch: whether it has a finding of the kind, how many findings, one counter.
bool sim_found(const char *kind);
int sim_findings(void);
uint64_t sim_counter(const char *name);

#endif
