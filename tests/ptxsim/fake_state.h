// What the test driver remembers, between its API (fake_driver.c, fake_stream.c) and the control
// functions (fake_control.c). One lock guards all of it.
#ifndef PTXSIM_FAKE_STATE_H
#define PTXSIM_FAKE_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "fake_cuda.h"
#include "ptx_machine.h"

enum {
    FAKE_CONTEXT,
    FAKE_LIBRARY,
    FAKE_KERNEL,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_STREAM,
    FAKE_GRAPH,
    FAKE_GRAPH_EXEC,
    FAKE_MEMORY
};
enum { FAKE_MAX_DEVICES = 8 };

typedef struct fake_object fake_object;

typedef struct fake_launch {
    fake_object *function;
    unsigned grid[3], block[3], shared;
    uint8_t *params; // owned
} fake_launch;

// Any handle. Dead ones stay, so that their use is seen.
struct fake_object {
    fake_object *next;
    int kind;
    bool live;
    fake_object *context; // modules, functions, streams; NULL: libraries and their kernels
    fake_object *parent;  // of kernels and functions: library or module
    int device;           // context
    int references;       // context
    CUresult error;       // context: sticky
    int program;          // library, module, kernel, function
    char name[PTX_NAME];  // kernel, function
    void *data;           // memory
    size_t bytes;
    int max_dynamic;       // function: bytes of shared memory it may ask for
    unsigned flags;        // stream
    int capture, mode;     // stream
    pthread_t thread;      // that began the capture
    fake_launch *launches; // capturing stream, graph, executable graph
    int launch_count;
};

typedef struct fake_program {
    ptx_program *code;
    char *text;
} fake_program;

typedef struct fake_state {
    pthread_mutex_t lock;
    bool initialised;
    bool forked; // after cuInit: nothing works in the child, as with the real driver
    int devices, major, minor, processors, driver;
    uint64_t warp_order, step_limit;
    fake_object *objects;
    fake_object *primary[FAKE_MAX_DEVICES];
    fake_object *null_stream; // what the default streams stand for; NULL: themselves
    fake_program *programs;
    int program_count;
    ptx_memory memory;
    ptx_launch last; // findings and counters of the last launch
    char last_kernel[PTX_NAME];
    int last_program;
    uint64_t launch_count;
    char last_error[512]; // of loading
} fake_state;

extern fake_state fake;

// Held for the whole of an API function.
void fake_lock(void);
void fake_unlock(int *unused);
// Counts a call; the error to return at once (an injected one), or 0. from_start: allowed before
// cuInit.
CUresult fake_enter(const char *name, bool from_start);
#define FAKE_ENTER(from_start)                                                                     \
    __attribute__((cleanup(fake_unlock))) int locked = 0;                                          \
    (void)locked;                                                                                  \
    fake_lock();                                                                                   \
    CUresult entered = fake_enter(__func__, from_start);                                           \
    if (entered) {                                                                                 \
        return entered;                                                                            \
    }

fake_object *fake_object_new(int kind, fake_object *context);
// Of an object known to be one: whether it is not destroyed, and of that kind.
bool fake_alive(const fake_object *object, int kind);
// Whether handle is such an object; looks through all of them.
bool fake_is(const fake_object *handle, int kind);
// The calling thread's context; its sticky error or INVALID_CONTEXT.
CUresult fake_current(fake_object **context);
// Refuses what may not happen while a stream captures in global mode; invalidates the capture.
CUresult fake_capture_refuses(void);
// Makes a program's variables memory that kernels may touch.
void fake_register_variables(const ptx_program *code);
CUresult fake_load(const void *code, int *program);
// Runs now. The function's context is the current one.
CUresult fake_run(fake_object *context, const fake_launch *launch);
// The program's kernel behind a function or kernel handle; NULL: it is gone.
const ptx_function *fake_kernel(const fake_object *function);
// A function handle in the current context from a CUfunction or CUkernel.
CUresult fake_function(fake_object *handle, fake_object *context);

#endif
