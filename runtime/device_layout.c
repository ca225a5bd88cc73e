// Rows are put in the order of the first array's memory, so that it is read from one end to the
// other whatever the order of the dimensions; then neighbours that every array steps through evenly
// become one dimension. Most calls are left with one.
#include "runtime/device_layout.h"

#include <string.h>

typedef struct dim {
    int64_t size, stride[TFR_DEVICE_ARRAYS];
} dim;

// The leading dimensions with more than one row, outermost in the first array's memory first.
static int list_dims(dim *out, const tfr_array *rows, int32_t arrays) {
    int count = 0;
    for (int i = 0; i + 1 < rows[0].ndim; i++) {
        dim d = {.size = rows[0].size[i]};
        if (d.size == 1)
            continue;
        for (int32_t a = 0; a < arrays; a++)
            d.stride[a] = rows[a].stride[i] * tfr_size_of(rows[a].dtype);
        int at = count++;
        for (; at > 0 && out[at - 1].stride[0] < d.stride[0]; at--)
            out[at] = out[at - 1];
        out[at] = d;
    }
    return count;
}

static int join_dims(dim *dims, int count, int32_t arrays) {
    int kept = 0;
    for (int i = 1; i < count; i++) {
        bool even = true;
        for (int32_t a = 0; a < arrays; a++)
            even &= dims[kept].stride[a] == dims[i].stride[a] * dims[i].size;
        if (even) {
            dims[i].size *= dims[kept].size;
            dims[kept] = dims[i];
        } else {
            dims[++kept] = dims[i];
        }
    }
    return count ? kept + 1 : 0;
}

static bool arrange_part(tfr_device_rows *out, const tfr_array *rows, int32_t arrays) {
    dim dims[TFR_MAX_DIMS];
    out->count = tfr_rows(&rows[0]);
    int count = join_dims(dims, list_dims(dims, rows, arrays), arrays);
    if (count > TFR_DEVICE_DIMS)
        return false;
    out->aligned = 1;
    out->ndim = count ? count : 1;
    out->size[0] = 1;
    for (int32_t a = 0; a < arrays; a++) {
        const tfr_array *v = &rows[a];
        if (v->size[v->ndim - 1] > 1 && v->stride[v->ndim - 1] != 1)
            return false;
        out->data[a] = v->data;
        out->aligned &= (uintptr_t)v->data % 16 == 0;
        for (int i = 0; i < count; i++) {
            out->size[i] = dims[i].size;
            out->stride[a][i] = dims[i].stride[a];
            out->aligned &= dims[i].stride[a] % 16 == 0;
        }
    }
    return true;
}

bool tfr_device_arrange(tfr_device_args *out, const tfr_layout *layout, const tfr_call *c) {
    memset(out, 0, sizeof *out);
    for (int32_t p = 0; p < layout->part_count; p++) {
        const tfr_array *first = &layout->rows[p][0];
        out->width[p] = tfr_last(first);
        if (!arrange_part(&out->part[p], layout->rows[p], layout->array_count))
            return false;
    }
    out->flat_aligned = 1;
    for (int i = 0; i < TFR_DEVICE_FLATS; i++) {
        const tfr_array *flat = layout->flat[i];
        if (!flat || flat->dtype == TFR_NONE)
            continue;
        if (flat->size[0] > 1 && flat->stride[0] != 1)
            return false;
        out->flat[i] = flat->data;
        out->flat_aligned &= (uintptr_t)flat->data % 16 == 0;
    }
    for (int i = 0; i < TFR_DEVICE_NUMBERS; i++)
        out->number[i] = (float)c->number[i];
    out->units = layout->units;
    return true;
}
