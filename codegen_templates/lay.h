// For tfr_lay of the host templates that have a CUDA kernel.
#ifndef TFR_LAY_H
#define TFR_LAY_H

#include "codegen_templates/kernel.h"

// Adds a part of `count` arrays, views whose leading dimensions are those of the last one, its
// result, or repeat along them. Not 0: a kernel does not take such rows.
TFR_HELPER int tfr_lay_part(tfr_layout *l, const tfr_array *const *of, int count) {
    tfr_array *rows = l->rows[l->part_count++];
    l->array_count = count;
    for (int n = 0; n < count; n++) {
        rows[n] = *of[n];
        if (tfr_broadcast_rows(&rows[n], of[count - 1]))
            return 1;
        int64_t last = tfr_last(&rows[n]);
        // Kernels count bytes of a row in 32 bits.
        if (last > 1 << 28 || (last > 1 && rows[n].stride[rows[n].ndim - 1] != 1))
            return 1;
    }
    return 0;
}

// A one-dimensional array of `size` elements. Not 0: it is another, or not dense.
TFR_HELPER int tfr_lay_flat(tfr_layout *l, int at, const tfr_array *a, int64_t size) {
    l->flat[at] = a;
    return a->ndim != 1 || a->size[0] != size || (size > 1 && a->stride[0] != 1);
}

// How many units of `each` pieces make `pieces`.
TFR_HELPER int64_t tfr_units(int64_t pieces, int64_t each) { return (pieces + each - 1) / each; }

#endif
