// linear and linears on the host: this program's kernel or torch's matmul?
#ifndef TFR_LINEAR_CHOICE_H
#define TFR_LINEAR_CHOICE_H

#include "runtime/op_kernels.h"
#include "runtime/torch_abi.h"

// How many rows of x a call has, as far as the choice goes: one, a few, many.
typedef enum tfr_row_class { TFR_ROWS_ONE, TFR_ROWS_FEW, TFR_ROWS_MANY } tfr_row_class;

// What a choice is made for. `columns`: of all modules together.
typedef struct tfr_linear_shape {
    int32_t dtype; // TFR_F32 or TFR_BF16
    tfr_row_class rows;
    int64_t columns, width;
} tfr_linear_shape;

// Whether torch's own linear should run this call: by TFR_FORCE, by a stored measurement, else by
// tfr_linear_default.
bool tfr_linear_prefers_torch(const tfr_op_kernels *op, const tfr_call *c);

// What runs where nothing was measured.
bool tfr_linear_default(const tfr_linear_shape *shape);

// Stores a measurement, in the cache too; one that is there already stays. Gives what holds.
bool tfr_linear_remember(const tfr_linear_shape *shape, bool torch);
bool tfr_linear_is_known(const tfr_linear_shape *shape);

// Until it is called again, this thread's linears take that path, whatever is stored.
void tfr_linear_force(bool on, bool torch);

// Runs aten::linear for each module of the call: `in` are x, weight, bias, ..., borrowed (NULL: no
// bias). False: torch raised; results made so far have been released.
bool tfr_linear_by_torch(tfr_tensor *out, uint32_t modules, const tfr_tensor *in);
// One of them. NULL: torch raised.
tfr_tensor tfr_linear_one(tfr_tensor x, tfr_tensor weight, tfr_tensor bias);

#endif
