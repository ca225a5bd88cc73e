// From the views that a template lists (tfr_lay) to what its CUDA kernel is given: dimensions
// joined, strides in bytes. Knows no driver and no torch.
#ifndef TFR_DEVICE_LAYOUT_H
#define TFR_DEVICE_LAYOUT_H

#include <stdbool.h>

#include "codegen_templates/kernel.h"

// False: the rows lie in more than TFR_DEVICE_DIMS dimensions, or a view has gaps in its last one.
bool tfr_device_arrange(tfr_device_args *out, const tfr_layout *layout, const tfr_call *c);

#endif
