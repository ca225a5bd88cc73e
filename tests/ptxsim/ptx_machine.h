// The machine that runs a launch: blocks one after another, their warps in turns, and what it
// notes.
#ifndef PTXSIM_PTX_MACHINE_H
#define PTXSIM_PTX_MACHINE_H

#include "ptx_memory.h"
#include "ptx_program.h"

// Generic addresses of what is not global; host addresses stay below.
#define PTX_WINDOW(space) ((uint64_t)(space) << 60)

enum {
    PTX_FOUND_OUT_OF_BOUNDS,
    PTX_FOUND_NOT_READABLE,
    PTX_FOUND_NOT_WRITABLE,
    PTX_FOUND_MISALIGNED,
    PTX_FOUND_UNINITIALISED,
    PTX_FOUND_SHARED_RACE,
    PTX_FOUND_LANE_RACE, // lanes of one warp write different values to one global byte
    PTX_FOUND_DIVERGENT_BARRIER,
    PTX_FOUND_MEMBER_MASK,     // a .sync instruction without lanes its mask names
    PTX_FOUND_INACTIVE_SOURCE, // shfl reads a lane that does not take part
    PTX_FOUND_TRAP,
    PTX_FOUND_RUNAWAY, // more steps than the limit
    PTX_FOUND_UNKNOWN,
    PTX_FOUND_KINDS
};
extern const char *const ptx_finding_names[PTX_FOUND_KINDS];

enum { PTX_MAX_FINDINGS = 256, PTX_CALL_DEPTH = 8, PTX_BARRIERS = 16 };

typedef struct ptx_finding {
    int kind;
    int32_t insn;
    uint64_t count;
    char detail[160]; // of the first one
} ptx_finding;

typedef struct ptx_counters {
    uint64_t requested_read_bytes, requested_write_bytes; // global memory, summed over lanes
    uint64_t unique_read_bytes, unique_write_bytes;       // of them, different ones
    uint64_t sectors, read_sectors, write_sectors;        // 32-byte sectors, summed over requests
    uint64_t sector_bytes_used;                           // bytes of those that some lane asked for
    uint64_t requests;     // global memory instructions of a warp, each with its active lanes
    uint64_t requests_128; // of them, those whose lanes move 16 bytes or more each
    uint64_t shared_requests, bank_conflicts; // extra passes over shared memory's 32 banks
    uint64_t instructions, lane_instructions; // of warps; of lanes
} ptx_counters;

enum { PTX_READY, PTX_AT_CONVERGE, PTX_AT_BARRIER };

// Lanes of a warp that are at one place.
typedef struct ptx_part {
    uint32_t mask;
    int32_t pc, depth; // depth of calls
    uint8_t state;
} ptx_part;

// A cp.async that has not been waited for.
typedef struct ptx_pending {
    uint8_t lane, bytes;
    uint32_t group, target;
    uint8_t data[16];
} ptx_pending;

typedef struct ptx_launch ptx_launch;

struct ptx_warp {
    uint64_t *bases[2];                    // by PTX_REG, PTX_CONST: PTX_LANES values a slot
    uint32_t *predicates;                  // a bit for each lane
    uint32_t *defined, *predicate_defined; // lanes that have written it
    ptx_launch *launch;
    ptx_insn *at; // being run
    int32_t id;
    uint32_t born, live; // lanes of the block; of them, those that have not exited
    uint32_t carry;      // of add.cc
    int32_t part_count;
    ptx_part parts[PTX_LANES + 1];
    int32_t (*returns)[PTX_CALL_DEPTH]; // of each lane
    uint8_t *local, *local_written;     // each lane's bytes after another
    ptx_pending *pending;
    int32_t pending_count, pending_capacity;
    uint32_t groups[PTX_LANES]; // cp.async groups committed
    bool waits;                 // at a barrier of the block
    int32_t barrier, barrier_threads, barrier_pc;
    uint64_t steps;
};

struct ptx_launch {
    ptx_program *program;
    const ptx_function *kernel;
    ptx_memory *memory;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; // static and dynamic
    uint32_t dynamic_shared;
    const uint8_t *params;
    uint64_t seed;       // of the order of warps; 0: in turn, each until it waits
    uint64_t step_limit; // instructions of warps
    int32_t processors;

    // While it runs
    ptx_shared shared;
    ptx_warp *warps;
    int32_t warp_count;
    uint32_t position[3]; // ctaid
    uint64_t random;
    uint32_t reduced_count; // of the bar.red being passed: lanes with a true predicate
    bool reduced_all;
    bool stop;
    int fault; // a CUresult, or 0

    // What it found
    ptx_counters counters;
    ptx_finding findings[PTX_MAX_FINDINGS];
    int32_t finding_count;
};

// Runs all blocks. Findings and counters are in launch afterwards, fault in launch->fault.
void ptx_launch_run(ptx_launch *launch);

void ptx_report(ptx_warp *warp, int kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Checks an access of `bytes` per lane through operand `which` and counts it. Returns the lanes
// that may go on, with place[lane] where their bytes are; alignment: bytes, but at most 16.
enum { PTX_ACCESS_READ = 1, PTX_ACCESS_WRITE = 2, PTX_ACCESS_ATOMIC = 4, PTX_ACCESS_DEFER = 8 };
uint32_t ptx_access(ptx_warp *warp, const ptx_insn *insn, int which, uint32_t mask, uint32_t bytes,
                    int how, uint8_t *place[PTX_LANES]);
// The same for shared addresses in hand, all lanes of mask with the same number of bytes.
uint32_t ptx_access_shared(ptx_warp *warp, uint32_t mask, const uint64_t *address, uint32_t bytes,
                           int how, uint8_t *place[PTX_LANES]);

// For handlers: `for each lane in mask`, and the values of scalar operands.
#define EACH_LANE(lane, mask)                                                                      \
    for (uint32_t left_##lane = (mask), lane = 0;                                                  \
         left_##lane && ((lane = (uint32_t)__builtin_ctz(left_##lane)), true);                     \
         left_##lane &= left_##lane - 1)

static inline uint64_t *ptx_value_lanes(const ptx_warp *warp, const ptx_value *value) {
    return warp->bases[value->kind] + (size_t)value->slot * PTX_LANES;
}
static inline uint64_t *ptx_lanes(const ptx_warp *warp, const ptx_insn *insn, int which) {
    return ptx_value_lanes(warp, &insn->operand[which].value[0]);
}
static inline uint32_t ptx_predicate(const ptx_warp *warp, const ptx_value *value) {
    uint32_t bits = value->kind == PTX_CONST
                        ? (ptx_value_lanes(warp, value)[0] ? UINT32_MAX : 0) // mov.pred %p1, -1
                        : warp->predicates[value->slot];
    return value->negate ? ~bits : bits;
}
static inline void ptx_set_predicate(ptx_warp *warp, int32_t slot, uint32_t mask, uint32_t bits) {
    warp->predicates[slot] = (warp->predicates[slot] & ~mask) | (bits & mask);
}

#endif
