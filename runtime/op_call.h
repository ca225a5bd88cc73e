// One call of a torch op: its arguments off torch's stack, and the two ways to run it. Shared by
// ops.c, host_call.c and device_call.c.
#ifndef TFR_OP_CALL_H
#define TFR_OP_CALL_H

#include "runtime/op_kernels.h"
#include "runtime/torch_abi.h"

typedef struct tfr_op_call {
    tfr_call c;
    tfr_tensor in[TFR_MAX_INPUTS]; // ours to release; NULL: absent
    tfr_tensor out[TFR_MAX_OUTPUTS];
    int64_t norm, act;           // 0 where the op takes none
    int32_t device_type, device; // of the inputs, torch's numbers; device 0 where torch says -1
    bool on_device;              // called under the dispatch key CUDA
    bool fatal;                  // of a call that failed: nothing may run in its place
} tfr_op_call;

// torch's numbers of dtypes, by ours (TFR_F32, ...), and of the CPU; set before the first op is
// registered.
typedef struct tfr_torch_numbers {
    int32_t dtype[3], cpu;
} tfr_torch_numbers;
extern tfr_torch_numbers tfr_numbers_of_torch;

// Makes the outputs that the plan describes, on the device of the inputs. NULL, or why not.
const char *tfr_op_call_allocate(tfr_op_call *s);
// Gives back those made so far.
void tfr_op_call_release_outputs(tfr_op_call *s);

// Runs the call and sets its outputs. NULL, or why not, and then outputs made so far stay for the
// caller to release. `*path`: which way it went, for last_path.
const char *tfr_op_call_host(tfr_op_kernels *op, tfr_op_call *s, const char **path);
const char *tfr_op_call_device(tfr_op_kernels *op, tfr_op_call *s, const char **path);
// Without a kernel, on any device: the torch operations of the op's rule.
const char *tfr_op_call_aten(tfr_op_kernels *op, tfr_op_call *s, const char **path);

// For tests and measurements: called before each launch on a device, on the launching thread, with
// the arrays of the call, inputs first: where they start, their extent in bytes, and whether the
// kernel writes them. NULL: nobody is told.
typedef void tfr_launch_observer(const char *op, int32_t count, void *const *data,
                                 const int64_t *bytes, const int32_t *written);
void tfr_device_observe(tfr_launch_observer *observer);

#endif
