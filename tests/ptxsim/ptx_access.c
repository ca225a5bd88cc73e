// Every access of a kernel to memory passes here: bounds, alignment, values, races, and the counts
// of sectors and banks.
#include <string.h>

#include "ptx_machine.h"

enum { FAULT_ILLEGAL_ADDRESS = 700 };

// The different sectors one instruction touches, with the bytes touched of each.
typedef struct sectors {
    uint32_t count;
    uint64_t number[2 * PTX_LANES + 1];
    uint32_t bytes[2 * PTX_LANES + 1];
    int8_t table[128]; // by hash, index + 1
    bool overlap;      // some byte twice
} sectors;

static void sector_add(sectors *s, uint64_t number, uint32_t bytes) {
    uint32_t index = s->count - 1; // often the one before
    if (!s->count || s->number[index] != number) {
        size_t at = (size_t)(number ^ number >> 7) & 127;
        while (s->table[at] && s->number[s->table[at] - 1] != number) {
            at = (at + 1) & 127;
        }
        if (!s->table[at]) {
            s->number[s->count] = number;
            s->bytes[s->count++] = 0;
            s->table[at] = (int8_t)s->count;
        }
        index = (uint32_t)s->table[at] - 1;
    }
    s->overlap |= (s->bytes[index] & bytes) != 0;
    s->bytes[index] |= bytes;
}

static void sectors_of(sectors *s, uint32_t mask, const uint64_t *address, uint32_t bytes) {
    s->count = 0;
    s->overlap = false;
    memset(s->table, 0, sizeof s->table);
    uint64_t run = (UINT64_C(1) << bytes) - 1;
    EACH_LANE(lane, mask) {
        uint64_t bits = run << address[lane] % PTX_SECTOR;
        sector_add(s, address[lane] / PTX_SECTOR, (uint32_t)bits);
        if (bits >> 32) {
            sector_add(s, address[lane] / PTX_SECTOR + 1, (uint32_t)(bits >> 32));
        }
    }
}

// The lanes whose bytes meet those of one sector.
static uint32_t lanes_in(uint32_t mask, const uint64_t *address, uint32_t bytes, uint64_t sector,
                         uint32_t sector_bytes) {
    uint32_t lanes = 0;
    for (uint32_t byte = 0; byte < PTX_SECTOR; byte++) {
        uint64_t at = sector * PTX_SECTOR + byte;
        if (!(sector_bytes >> byte & 1)) {
            continue;
        }
        EACH_LANE(lane, mask) { lanes |= (uint32_t)(at - address[lane] < bytes) << lane; }
    }
    return lanes;
}

static uint32_t first_lane(uint32_t mask) { return (uint32_t)__builtin_ctz(mask); }

static void check_alignment(ptx_warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes) {
    uint64_t odd = 0;
    if (bytes & (bytes - 1)) { // part of a cp.async
        return;
    }
    EACH_LANE(lane, mask) { odd |= address[lane]; }
    if (!(odd & (bytes - 1))) {
        return;
    }
    EACH_LANE(lane, mask) {
        if (address[lane] & (bytes - 1)) {
            ptx_report(w, PTX_FOUND_MISALIGNED, "lane %u: %u bytes at 0x%llx", lane, bytes,
                       (unsigned long long)address[lane]);
            return;
        }
    }
}

static void count_global(ptx_warp *w, const sectors *s, uint32_t mask, uint32_t bytes, int how) {
    ptx_counters *c = &w->launch->counters;
    uint32_t lanes = (uint32_t)__builtin_popcount(mask);
    c->requests++;
    c->requests_128 += bytes >= 16;
    c->sectors += s->count;
    for (uint32_t i = 0; i < s->count; i++) {
        c->sector_bytes_used += (uint32_t)__builtin_popcount(s->bytes[i]);
    }
    if (how & PTX_ACCESS_READ) {
        c->requested_read_bytes += (uint64_t)lanes * bytes;
        c->read_sectors += s->count;
    }
    if (how & PTX_ACCESS_WRITE) {
        c->requested_write_bytes += (uint64_t)lanes * bytes;
        c->write_sectors += s->count;
    }
}

// One sector against what is registered. Returns the bytes of it that must not be touched.
static uint32_t check_sector(ptx_warp *w, ptx_page *page, size_t at, uint32_t bytes, int how,
                             uint64_t address) {
    uint32_t known = page ? page->readable[at] | page->writable[at] : 0;
    uint32_t outside = bytes & ~known;
    unsigned long long shown = (unsigned long long)address;
    if (outside) {
        return outside;
    }
    if (how & PTX_ACCESS_READ && bytes & ~page->readable[at]) {
        ptx_report(w, PTX_FOUND_NOT_READABLE, "sector 0x%llx", shown);
    } else if (how & PTX_ACCESS_READ && bytes & ~page->written[at]) {
        ptx_report(w, PTX_FOUND_UNINITIALISED, "global memory, byte 0x%llx",
                   shown + (unsigned)__builtin_ctz(bytes & ~page->written[at]));
        page->written[at] |= bytes; // told once
    }
    if (how & PTX_ACCESS_WRITE) {
        if (bytes & ~page->writable[at]) {
            ptx_report(w, PTX_FOUND_NOT_WRITABLE, "sector 0x%llx", shown);
        }
        page->written[at] |= bytes;
    }
    return 0;
}

static void touch(ptx_counters *c, ptx_page *page, size_t at, uint32_t bytes, int how) {
    page->touched = true;
    if (how & PTX_ACCESS_READ) {
        c->unique_read_bytes += (uint32_t)__builtin_popcount(bytes & ~page->was_read[at]);
        page->was_read[at] |= bytes;
    }
    if (how & PTX_ACCESS_WRITE) {
        c->unique_write_bytes += (uint32_t)__builtin_popcount(bytes & ~page->was_written[at]);
        page->was_written[at] |= bytes;
    }
}

static uint32_t access_global(ptx_warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes,
                              int how, uint8_t **place) {
    check_alignment(w, mask, address, bytes);
    sectors s;
    sectors_of(&s, mask, address, bytes);
    count_global(w, &s, mask, bytes, how);
    ptx_memory *memory = w->launch->memory;
    uint32_t bad = 0;
    for (uint32_t i = 0; i < s.count; i++) {
        uint64_t start = s.number[i] * PTX_SECTOR;
        size_t at = start % PTX_PAGE / PTX_SECTOR;
        ptx_page *page = ptx_memory_page(memory, start, !memory->strict && start >= PTX_PAGE);
        uint32_t outside = memory->strict ? check_sector(w, page, at, s.bytes[i], how, start)
                           : page         ? 0
                                          : s.bytes[i];
        if (outside) {
            uint32_t lanes = lanes_in(mask, address, bytes, s.number[i], outside);
            ptx_report(w, PTX_FOUND_OUT_OF_BOUNDS, "lane %u: %u bytes at 0x%llx", first_lane(lanes),
                       bytes, (unsigned long long)address[first_lane(lanes)]);
            bad |= lanes;
            continue;
        }
        touch(&w->launch->counters, page, at, s.bytes[i], how);
    }
    if (bad) {
        w->launch->fault = FAULT_ILLEGAL_ADDRESS;
        w->launch->stop = true;
    }
    EACH_LANE(lane, mask & ~bad) { place[lane] = (uint8_t *)(uintptr_t)address[lane]; }
    return mask & ~bad;
}

// What one lane's access does to the bytes' history.
static void shared_bytes(ptx_warp *w, uint32_t lane, uint32_t start, uint32_t bytes, int how) {
    ptx_shared *shared = &w->launch->shared;
    uint8_t me = (uint8_t)w->id;
    bool atomic = how & PTX_ACCESS_ATOMIC;
    uint32_t epoch = shared->epoch;
    for (uint32_t i = start; i < start + bytes; i++) {
        ptx_cell *cell = &shared->cells[i];
        bool other_wrote =
            cell->write_epoch == epoch && cell->writer != me && !(atomic && cell->atomic);
        bool other_read = cell->read_epoch == epoch && cell->reader != me;
        if (how & PTX_ACCESS_READ && !atomic) {
            if (cell->written_in != shared->serial) {
                ptx_report(w, PTX_FOUND_UNINITIALISED, "shared memory, lane %u, byte %u", lane, i);
                cell->written_in = shared->serial;
            }
            if (other_wrote) {
                ptx_report(w, PTX_FOUND_SHARED_RACE,
                           "warp %d reads byte %u that warp %d wrote before the same barrier",
                           w->id, i, cell->writer);
            }
            cell->reader = cell->read_epoch == epoch && cell->reader != me ? PTX_MANY : me;
            cell->read_epoch = epoch;
            continue;
        }
        if (other_wrote || other_read) {
            ptx_report(w, PTX_FOUND_SHARED_RACE,
                       "warp %d writes byte %u that another warp %s before the same barrier", w->id,
                       i, other_wrote ? "wrote" : "read");
        }
        if (atomic && cell->written_in != shared->serial) {
            ptx_report(w, PTX_FOUND_UNINITIALISED, "shared memory, lane %u, byte %u", lane, i);
        }
        cell->written_in = how & PTX_ACCESS_DEFER ? 0 : shared->serial;
        cell->write_epoch = epoch;
        cell->writer = me;
        cell->atomic = atomic;
    }
}

uint32_t ptx_access_shared(ptx_warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes,
                           int how, uint8_t *place[PTX_LANES]) {
    ptx_shared *shared = &w->launch->shared;
    check_alignment(w, mask, address, bytes);
    uint32_t good = 0;
    EACH_LANE(lane, mask) {
        if (address[lane] > shared->bytes || shared->bytes - address[lane] < bytes) {
            ptx_report(w, PTX_FOUND_OUT_OF_BOUNDS, "shared memory, lane %u: %u bytes at %llu of %u",
                       lane, bytes, (unsigned long long)address[lane], shared->bytes);
            continue;
        }
        shared_bytes(w, lane, (uint32_t)address[lane], bytes, how);
        place[lane] = shared->data + address[lane];
        good |= UINT32_C(1) << lane;
    }
    w->launch->counters.shared_requests++;
    w->launch->counters.bank_conflicts += ptx_bank_conflicts(good, address, bytes);
    return good;
}

static uint32_t access_local(ptx_warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes,
                             int how, uint8_t **place) {
    uint32_t size = (uint32_t)w->launch->kernel->local, good = 0;
    check_alignment(w, mask, address, bytes);
    EACH_LANE(lane, mask) {
        if (address[lane] > size || size - address[lane] < bytes) {
            ptx_report(w, PTX_FOUND_OUT_OF_BOUNDS, "local memory, lane %u: %u bytes at %llu of %u",
                       lane, bytes, (unsigned long long)address[lane], size);
            continue;
        }
        size_t at = (size_t)lane * size + (size_t)address[lane];
        if (how & PTX_ACCESS_READ && memchr(w->local_written + at, 0, bytes)) {
            ptx_report(w, PTX_FOUND_UNINITIALISED, "local memory, lane %u: %u bytes at %llu", lane,
                       bytes, (unsigned long long)address[lane]);
        }
        memset(w->local_written + at, 1, bytes);
        place[lane] = w->local + at;
        good |= UINT32_C(1) << lane;
    }
    return good;
}

static uint32_t access_params(ptx_warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes,
                              int how, uint8_t **place) {
    uint32_t size = (uint32_t)w->launch->kernel->params, good = 0;
    check_alignment(w, mask, address, bytes);
    EACH_LANE(lane, mask) {
        if (how & PTX_ACCESS_WRITE || address[lane] > size || size - address[lane] < bytes) {
            ptx_report(w, PTX_FOUND_OUT_OF_BOUNDS, "parameters, lane %u: %u bytes at %llu of %u",
                       lane, bytes, (unsigned long long)address[lane], size);
            continue;
        }
        place[lane] = (uint8_t *)(uintptr_t)(w->launch->params + address[lane]);
        good |= UINT32_C(1) << lane;
    }
    return good;
}

static uint32_t access_space(ptx_warp *w, int space, uint32_t mask, const uint64_t *address,
                             uint32_t bytes, int how, uint8_t **place) {
    switch (space) {
    case PTX_SHARED:
        return ptx_access_shared(w, mask, address, bytes, how, place);
    case PTX_LOCAL:
        return access_local(w, mask, address, bytes, how, place);
    case PTX_PARAM:
        return access_params(w, mask, address, bytes, how, place);
    default:
        return access_global(w, mask, address, bytes, how, place);
    }
}

uint32_t ptx_access(ptx_warp *w, const ptx_insn *insn, int which, uint32_t mask, uint32_t bytes,
                    int how, uint8_t *place[PTX_LANES]) {
    const ptx_operand *operand = &insn->operand[which];
    uint64_t address[PTX_LANES];
    static const uint64_t zero[PTX_LANES];
    const uint64_t *base =
        operand->value[0].kind == PTX_NONE ? zero : ptx_value_lanes(w, &operand->value[0]);
    EACH_LANE(lane, mask) { address[lane] = base[lane] + (uint64_t)operand->offset; }
    int space = insn->space;
    if (insn->row->operands[0] == 'a' && insn->row->operands[1] == 'a') { // cp.async
        space = which == 0 ? PTX_SHARED : PTX_GLOBAL;
    }
    if (space == PTX_GENERIC || (space == PTX_PARAM && operand->space == PTX_LOCAL)) {
        space = operand->space; // a variable by name: in its own space
    }
    if (space != PTX_GENERIC) {
        return access_space(w, space, mask, address, bytes, how, place);
    }
    uint32_t good = 0;
    for (int window = 0; window < PTX_SPACES && mask; window++) {
        uint32_t lanes = 0;
        EACH_LANE(lane, mask) {
            lanes |= (uint32_t)(address[lane] >> 60 == (uint64_t)window) << lane;
        }
        if (lanes) {
            EACH_LANE(lane, lanes) { address[lane] -= PTX_WINDOW(window); }
            good |= access_space(w, window, lanes, address, bytes, how, place);
            mask &= ~lanes;
        }
    }
    if (mask) { // an address of no window
        good |= access_global(w, mask, address, bytes, how, place);
    }
    return good;
}
