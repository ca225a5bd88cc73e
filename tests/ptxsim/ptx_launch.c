// Runs a launch: sets up blocks and warps, gives warps their turns, and reports.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_machine.h"
#include "ptx_schedule.h"

const char *const ptx_finding_names[PTX_FOUND_KINDS] = {
    "out_of_bounds", "not_readable", "not_writable",      "misaligned",  "uninitialised",
    "shared_race",   "lane_race",    "divergent_barrier", "member_mask", "inactive_source",
    "trap",          "runaway",      "unknown",
};

void ptx_report(ptx_warp *w, int kind, const char *format, ...) {
    ptx_launch *launch = w->launch;
    ptx_insn *insn = w->at;
    if (!insn->found) {
        insn->found = calloc(PTX_FOUND_KINDS, sizeof *insn->found);
        if (!insn->found) {
            abort();
        }
    }
    uint32_t *found = &insn->found[kind];
    if (*found) {
        launch->findings[*found - 1].count++;
        return;
    }
    if (launch->finding_count == PTX_MAX_FINDINGS) {
        return;
    }
    ptx_finding *f = &launch->findings[launch->finding_count++];
    *found = (uint32_t)launch->finding_count;
    f->kind = kind;
    f->insn = (int32_t)(insn - launch->program->code);
    f->count = 1;
    int used =
        snprintf(f->detail, sizeof f->detail, "block %u,%u,%u warp %d: ", launch->position[0],
                 launch->position[1], launch->position[2], w->id);
    va_list list;
    va_start(list, format);
    vsnprintf(f->detail + used, sizeof f->detail - (size_t)used, format, list);
    va_end(list);
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        abort();
    }
    return memory;
}

static void fill(ptx_warp *w, int slot, uint64_t value) {
    uint64_t *lanes = w->bases[PTX_REG] + (size_t)slot * PTX_LANES;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        lanes[lane] = value;
    }
}

static void fill_special(ptx_warp *w) {
    const ptx_launch *launch = w->launch;
    for (uint32_t i = 0; i < 3; i++) {
        fill(w, PTX_NTID_X + (int)i, launch->block[i]);
        fill(w, PTX_NCTAID_X + (int)i, launch->grid[i]);
    }
    fill(w, PTX_WARPID, (uint64_t)w->id);
    fill(w, PTX_NWARPID, (uint64_t)launch->warp_count);
    fill(w, PTX_NSMID, (uint64_t)launch->processors);
    fill(w, PTX_GRIDID, 0);
    fill(w, PTX_DYNAMIC_SMEM_SIZE, launch->dynamic_shared);
    fill(w, PTX_TOTAL_SMEM_SIZE, launch->shared_bytes);
    fill(w, PTX_CLUSTER_ONE, 1);
    fill(w, PTX_CLUSTER_ZERO, 0);
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        uint32_t thread = (uint32_t)w->id * PTX_LANES + lane, bit = UINT32_C(1) << lane;
        uint64_t *at = w->bases[PTX_REG] + lane;
        at[PTX_TID_X * PTX_LANES] = thread % launch->block[0];
        at[PTX_TID_Y * PTX_LANES] = thread / launch->block[0] % launch->block[1];
        at[PTX_TID_Z * PTX_LANES] = thread / launch->block[0] / launch->block[1];
        at[PTX_LANEID * PTX_LANES] = lane;
        at[PTX_LANEMASK_EQ * PTX_LANES] = bit;
        at[PTX_LANEMASK_LT * PTX_LANES] = bit - 1;
        at[PTX_LANEMASK_LE * PTX_LANES] = bit | (bit - 1);
        at[PTX_LANEMASK_GT * PTX_LANES] = ~(bit | (bit - 1));
        at[PTX_LANEMASK_GE * PTX_LANES] = ~(bit - 1);
    }
}

static void warps_new(ptx_launch *launch) {
    const ptx_function *kernel = launch->kernel;
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    launch->warp_count = (int32_t)((threads + PTX_LANES - 1) / PTX_LANES);
    launch->warps = allocate((size_t)launch->warp_count, sizeof *launch->warps);
    for (int32_t i = 0; i < launch->warp_count; i++) {
        ptx_warp *w = &launch->warps[i];
        uint32_t lanes = threads - (uint32_t)i * PTX_LANES;
        w->launch = launch;
        w->id = i;
        w->born = lanes >= PTX_LANES ? UINT32_MAX : (UINT32_C(1) << lanes) - 1;
        w->bases[PTX_REG] = allocate((size_t)kernel->registers * PTX_LANES, sizeof(uint64_t));
        w->bases[PTX_CONST] = launch->program->constants;
        w->predicates = allocate((size_t)kernel->predicates, sizeof(uint32_t));
        w->predicate_defined = allocate((size_t)kernel->predicates, sizeof(uint32_t));
        w->defined = allocate((size_t)kernel->registers, sizeof(uint32_t));
        w->local = allocate((size_t)kernel->local * PTX_LANES, 1);
        w->local_written = allocate((size_t)kernel->local * PTX_LANES, 1);
        w->returns = allocate(PTX_LANES, sizeof *w->returns);
        fill_special(w);
    }
}

static void warps_free(ptx_launch *launch) {
    for (int32_t i = 0; i < launch->warp_count; i++) {
        ptx_warp *w = &launch->warps[i];
        free(w->bases[PTX_REG]);
        free(w->predicates);
        free(w->predicate_defined);
        free(w->defined);
        free(w->local);
        free(w->local_written);
        free(w->returns);
        free(w->pending);
    }
    free(launch->warps);
}

static void warp_start(ptx_warp *w) {
    const ptx_launch *launch = w->launch;
    const ptx_function *kernel = launch->kernel;
    for (uint32_t i = 0; i < 3; i++) {
        fill(w, PTX_CTAID_X + (int)i, launch->position[i]);
    }
    uint64_t block = launch->position[0] + (uint64_t)launch->position[1] * launch->grid[0];
    fill(w, PTX_SMID, block % (uint64_t)launch->processors);
    memset(w->defined, 0, (size_t)kernel->registers * sizeof *w->defined);
    memset(w->predicate_defined, 0, (size_t)kernel->predicates * sizeof *w->predicate_defined);
    memset(w->local_written, 0, (size_t)kernel->local * PTX_LANES);
    memset(w->groups, 0, sizeof w->groups);
    w->pending_count = 0;
    w->waits = false;
    w->live = w->born;
    w->part_count = 1;
    w->parts[0] = (ptx_part){.mask = w->born, .pc = kernel->first};
}

static uint64_t draw(ptx_launch *launch) {
    launch->random ^= launch->random << 13;
    launch->random ^= launch->random >> 7;
    launch->random ^= launch->random << 17;
    return launch->random;
}

static void block_run(ptx_launch *launch) {
    launch->shared.epoch++;
    launch->shared.serial++;
    memset(launch->shared.data, 0xa5, launch->shared.bytes); // nobody may rely on what is there
    for (int32_t i = 0; i < launch->warp_count; i++) {
        warp_start(&launch->warps[i]);
    }
    while (!launch->stop) {
        int32_t ready[PTX_LANES], count = 0;
        for (int32_t i = 0; i < launch->warp_count; i++) {
            ptx_warp *w = &launch->warps[i];
            if (w->live && !w->waits) {
                ready[count++] = i;
            }
        }
        if (!count) {
            if (!ptx_barriers_release(launch)) {
                return;
            }
            continue;
        }
        int32_t pick = launch->seed ? (int32_t)(draw(launch) % (uint64_t)count) : 0;
        uint64_t turn =
            launch->seed ? 1 + draw(launch) % 48 : 65536; // a spinning warp ends its turn
        ptx_warp_run(&launch->warps[ready[pick]], turn);
        ptx_barriers_check(launch);
    }
}

static void program_reset(ptx_program *program) {
    for (int32_t i = 0; i < program->count; i++) {
        ptx_insn *insn = &program->code[i];
        insn->executed = insn->lanes = 0;
        free(insn->found);
        insn->found = NULL;
    }
}

void ptx_launch_run(ptx_launch *launch) {
    program_reset(launch->program);
    ptx_memory_untouch(launch->memory);
    launch->random = launch->seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    launch->shared.bytes = launch->shared_bytes;
    launch->shared.data = allocate(launch->shared_bytes + 1, 1);
    launch->shared.cells = allocate(launch->shared_bytes + 1, sizeof(ptx_cell));
    warps_new(launch);
    for (uint32_t z = 0; z < launch->grid[2]; z++) {
        for (uint32_t y = 0; y < launch->grid[1]; y++) {
            for (uint32_t x = 0; x < launch->grid[0] && !launch->stop; x++) {
                launch->position[0] = x;
                launch->position[1] = y;
                launch->position[2] = z;
                block_run(launch);
            }
        }
    }
    for (int32_t i = 0; i < launch->program->count; i++) {
        launch->counters.instructions += launch->program->code[i].executed;
        launch->counters.lane_instructions += launch->program->code[i].lanes;
    }
    warps_free(launch);
    free(launch->shared.data);
    free(launch->shared.cells);
    launch->warps = NULL;
}
