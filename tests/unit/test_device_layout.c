// runtime/device_layout.c: which dimensions are joined, in which order rows are read, and what is
// no longer laid out for a kernel.
#include "runtime/device_layout.h"

#include "tests/unit/check.h"

static char memory[4096] __attribute__((aligned(16)));

static tfr_array array(int32_t dtype, int32_t ndim, const int64_t *size, const int64_t *stride) {
    tfr_array a = {.data = memory, .dtype = dtype, .ndim = ndim};
    memcpy(a.size, size, (size_t)ndim * sizeof *size);
    memcpy(a.stride, stride, (size_t)ndim * sizeof *stride);
    return a;
}
#define ARRAY(dtype, ndim, size, ...) array(dtype, ndim, size, (const int64_t[]){__VA_ARGS__})

static bool arrange(tfr_device_args *out, int32_t arrays, const tfr_array *rows) {
    tfr_layout layout = {.part_count = 1, .array_count = arrays, .units = 1};
    tfr_call call = {.number = {1e-6, 2}};
    memcpy(layout.rows[0], rows, (size_t)arrays * sizeof *rows);
    return tfr_device_arrange(out, &layout, &call);
}

static void contiguous_rows_are_one_dimension(void) {
    tfr_device_args a;
    const int64_t size[] = {2, 3, 8};
    tfr_array rows[] = {ARRAY(TFR_BF16, 3, size, 24, 8, 1), ARRAY(TFR_F32, 3, size, 24, 8, 1)};
    CHECK(arrange(&a, 2, rows));
    CHECK_INT(a.part[0].count, 6);
    CHECK_INT(a.part[0].ndim, 1);
    CHECK_INT(a.part[0].size[0], 6);
    CHECK_INT(a.part[0].stride[0][0], 16);
    CHECK_INT(a.part[0].stride[1][0], 32);
    CHECK_INT(a.width[0], 8);
    CHECK(a.part[0].aligned);
    CHECK(a.number[0] == 1e-6F && a.number[1] == 2.0F);
}

// q as [batch, heads, positions, head size], a view of [batch, positions, heads, ...]; cos has one
// row for each position and none of its own for heads.
static void rows_come_in_the_order_of_memory(void) {
    tfr_device_args a;
    const int64_t size[] = {2, 4, 5, 8};
    tfr_array rows[] = {ARRAY(TFR_BF16, 4, size, 160, 8, 32, 1),
                        ARRAY(TFR_BF16, 4, size, 40, 0, 8, 1)};
    CHECK(arrange(&a, 2, rows));
    CHECK_INT(a.part[0].ndim, 2); // (batch, positions), heads
    CHECK_INT(a.part[0].size[0], 10);
    CHECK_INT(a.part[0].size[1], 4);
    CHECK_INT(a.part[0].stride[0][0], 64);
    CHECK_INT(a.part[0].stride[0][1], 16);
    CHECK_INT(a.part[0].stride[1][0], 16);
    CHECK_INT(a.part[0].stride[1][1], 0);
}

static void one_row_is_a_dimension_of_one(void) {
    tfr_device_args a;
    const int64_t size[] = {1, 1, 8};
    tfr_array rows[] = {ARRAY(TFR_F32, 3, size, 77, 3, 1)};
    CHECK(arrange(&a, 1, rows));
    CHECK_INT(a.part[0].ndim, 1);
    CHECK_INT(a.part[0].size[0], 1);
    CHECK_INT(a.part[0].count, 1);
    CHECK(a.part[0].aligned); // strides of one row do not count
}

static void no_rows_count_none(void) {
    tfr_device_args a;
    const int64_t size[] = {0, 3, 8};
    tfr_array rows[] = {ARRAY(TFR_F32, 3, size, 24, 8, 1)};
    CHECK(arrange(&a, 1, rows));
    CHECK_INT(a.part[0].count, 0);
}

static void alignment_is_of_every_row(void) {
    tfr_device_args a;
    const int64_t size[] = {3, 8};
    tfr_array odd[] = {ARRAY(TFR_BF16, 2, size, 9, 1)};
    CHECK(arrange(&a, 1, odd));
    CHECK(!a.part[0].aligned);
    tfr_array shifted[] = {ARRAY(TFR_BF16, 2, size, 8, 1)};
    shifted[0].data = memory + 2;
    CHECK(arrange(&a, 1, shifted));
    CHECK(!a.part[0].aligned);
}

static void what_kernels_cannot_walk_is_refused(void) {
    tfr_device_args a;
    const int64_t gaps[] = {3, 8}, many[] = {2, 2, 2, 2, 2, 8};
    tfr_array with_gaps[] = {ARRAY(TFR_BF16, 2, gaps, 32, 2)};
    CHECK(!arrange(&a, 1, with_gaps));
    tfr_array five[] = {ARRAY(TFR_BF16, 6, many, 1000, 300, 100, 40, 15, 1)};
    CHECK(!arrange(&a, 1, five));
    tfr_array four[] = {ARRAY(TFR_BF16, 5, many, 300, 100, 40, 15, 1)};
    four[0].size[4] = 8;
    CHECK(arrange(&a, 1, four));
    CHECK_INT(a.part[0].ndim, 4);
}

static void weights_are_flat(void) {
    tfr_device_args a;
    const int64_t size[] = {2, 8}, one[] = {8};
    tfr_layout layout = {.part_count = 1, .array_count = 1, .units = 2};
    tfr_call call = {.input_count = 1};
    tfr_array weight = ARRAY(TFR_BF16, 1, one, 1), absent = {.dtype = TFR_NONE};
    layout.rows[0][0] = ARRAY(TFR_BF16, 2, size, 8, 1);
    layout.flat[0] = &weight;
    layout.flat[1] = &absent;
    CHECK(tfr_device_arrange(&a, &layout, &call));
    CHECK(a.flat[0] == memory && !a.flat[1] && a.flat_aligned);
    CHECK_INT(a.units, 2);
    weight.data = memory + 8;
    CHECK(tfr_device_arrange(&a, &layout, &call));
    CHECK(!a.flat_aligned);
    weight.stride[0] = 2;
    CHECK(!tfr_device_arrange(&a, &layout, &call));
}

int main(void) {
    contiguous_rows_are_one_dimension();
    rows_come_in_the_order_of_memory();
    one_row_is_a_dimension_of_one();
    no_rows_count_none();
    alignment_is_of_every_row();
    what_kernels_cannot_walk_is_refused();
    weights_are_flat();
    return CHECK_DONE();
}
