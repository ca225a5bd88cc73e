// What a test says to the interpreter behind the test-only libcuda.so.1, and what it asks of it.
// Strings that are returned stay valid until the next call of the same function.
#ifndef PTXSIM_PTXSIM_H
#define PTXSIM_PTXSIM_H

#include <stddef.h>
#include <stdint.h>

#define PTXSIM_API __attribute__((visibility("default")))

// Settings `key=value`, blank between, the rest as it is:
//   devices=1 capability=9.0 sms=4 driver=13000    what the driver says it has
//   strict=0       1: kernels may only touch registered memory
//   warp_order=0   seed of the order in which warps run; 0: one after another, each until it waits
//   steps=100000000  instructions a warp may run in a launch
//   reset=1        forget everything first: contexts, programs, memory, counts, faults
// Returns NULL, or what is wrong.
PTXSIM_API const char *ptxsim_configure(const char *settings);

// flags: 1 readable, 2 writable, 4 holds values; 0 forgets the bytes. Later calls win.
PTXSIM_API void ptxsim_memory(const void *start, size_t bytes, int flags);
PTXSIM_API void ptxsim_memory_clear(void);

// Lets `name` return code, after `after` more calls, for the next `times` calls (-1: for good).
PTXSIM_API void ptxsim_fault(const char *name, int code, int after, int times);
// How often it was called.
PTXSIM_API uint64_t ptxsim_calls(const char *name);
// From now on the default streams stand for this one of cuStreamCreate, so that what is launched on
// them can be captured. NULL: for themselves again.
PTXSIM_API void ptxsim_null_stream(void *stream);

PTXSIM_API uint64_t ptxsim_launch_count(void);
// The last launch as JSON: kernel, grid, block, shared, program, fault, findings, counters. Writes
// at most size bytes with the NUL; returns the bytes it needs.
PTXSIM_API size_t ptxsim_report(char *out, size_t size);
// The lines of its program's text, from 1, whose instructions the last launch ran. Writes at most
// `room` of them; returns how many there are.
PTXSIM_API size_t ptxsim_executed_lines(int32_t *lines, size_t room);
// Why the last load failed, or "".
PTXSIM_API const char *ptxsim_last_error(void);

// Programs in the order they were loaded, unloaded ones too.
PTXSIM_API int ptxsim_program_count(void);
PTXSIM_API const char *ptxsim_program_text(int index); // NULL: no such program
// Puts another text behind the kernels of a program; handles stay. NULL, or why not.
PTXSIM_API const char *ptxsim_program_replace(int index, const char *text);

#endif
