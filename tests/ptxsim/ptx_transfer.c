// Moves: between registers and memory, addresses, atomics, cp.async.
#include <math.h>
#include <stdlib.h>

#include "ptx_handlers.h"
#include "ptx_round.h"

static uint64_t load_bits(const uint8_t *from, uint32_t bytes) {
    uint64_t value = 0;
    memcpy(&value, from, bytes);
    return value;
}

static uint64_t sign_extend(uint64_t value, int type) {
    switch (type) {
    case PTX_s8:
        return (uint64_t)(int64_t)(int8_t)value;
    case PTX_s16:
        return (uint64_t)(int64_t)(int16_t)value;
    case PTX_s32:
        return (uint64_t)(int64_t)(int32_t)value;
    default:
        return value;
    }
}

static uint64_t register_mask(uint32_t bits) {
    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static void ld_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t bytes = ptx_type_bytes[insn->type[0]];
    uint8_t *place[PTX_LANES];
    uint32_t good = ptx_access(w, insn, 1, mask, bytes * insn->vector, PTX_ACCESS_READ, place);
    for (uint32_t i = 0; i < insn->vector; i++) {
        const ptx_value *value = &insn->operand[0].value[i];
        uint64_t *out = ptx_value_lanes(w, value), kept = register_mask(value->bits);
        EACH_LANE(lane, mask & ~good) { out[lane] = 0; }
        EACH_LANE(lane, good) {
            out[lane] =
                sign_extend(load_bits(place[lane] + i * bytes, bytes), insn->type[0]) & kept;
        }
    }
}

static bool moves_memory(int type) { return ptx_type_bytes[type] && type <= PTX_f64; }
static bool vector_fits(const ptx_insn *insn, int which) {
    return insn->operand[which].count == insn->vector &&
           ptx_type_bytes[insn->type[0]] * insn->vector <= 32 && moves_memory(insn->type[0]) &&
           insn->operand[which].value[0].kind != PTX_PRED;
}

ptx_handler ptx_select_ld(ptx_insn *insn) { return vector_fits(insn, 0) ? ld_run : NULL; }

// Lanes that write different values to one byte: whose value stays is undefined.
static void check_lanes(ptx_warp *w, uint32_t mask, uint8_t *const *place, uint8_t (*data)[32],
                        uint32_t bytes, bool shared) {
    uint32_t seen = 0;
    EACH_LANE(lane, mask) {
        EACH_LANE(other, seen) {
            uint8_t *a = place[lane], *b = place[other];
            if (a < b + bytes && b < a + bytes) {
                uint8_t *from = a > b ? a : b;
                size_t run = bytes - (size_t)(a > b ? a - b : b - a);
                if (memcmp(data[lane] + (from - a), data[other] + (from - b), run) != 0) {
                    ptx_report(w, shared ? PTX_FOUND_SHARED_RACE : PTX_FOUND_LANE_RACE,
                               "lanes %u and %u write different values to one place", other, lane);
                    return;
                }
            }
        }
        seen |= UINT32_C(1) << lane;
    }
}

// Places that rise by at least bytes from lane to lane cannot meet.
static bool rising(uint32_t mask, uint8_t *const *place, uint32_t bytes) {
    uint8_t *next = NULL;
    EACH_LANE(lane, mask) {
        if (place[lane] < next) {
            return false;
        }
        next = place[lane] + bytes;
    }
    return true;
}

static void st_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t bytes = ptx_type_bytes[insn->type[0]], all = bytes * insn->vector;
    uint8_t *place[PTX_LANES], data[PTX_LANES][32];
    uint32_t good = ptx_access(w, insn, 0, mask, all, PTX_ACCESS_WRITE, place);
    for (uint32_t i = 0; i < insn->vector; i++) {
        const uint64_t *from = ptx_value_lanes(w, &insn->operand[1].value[i]);
        EACH_LANE(lane, good) { memcpy(data[lane] + i * bytes, &from[lane], bytes); }
    }
    if (!rising(good, place, all)) {
        uint8_t *low = w->launch->shared.data;
        uint8_t *first = place[__builtin_ctz(good)];
        check_lanes(w, good, place, data, all,
                    first >= low && first < low + w->launch->shared.bytes);
    }
    EACH_LANE(lane, good) { memcpy(place[lane], data[lane], all); }
}

ptx_handler ptx_select_st(ptx_insn *insn) { return vector_fits(insn, 1) ? st_run : NULL; }

// Atomics, lane after lane

static double atomic_float(int type, uint64_t bits) {
    return type == PTX_f64   ? ptx_f64(bits)
           : type == PTX_f32 ? ptx_f32(bits)
                             : ptx_widen((uint32_t)(bits & 0xffff), ptx_format_of(type));
}

static uint64_t atomic_float_add(int type, uint64_t old, uint64_t b) {
    if (type == PTX_f64) {
        return ptx_f64_bits(ptx_f64(old) + ptx_f64(b));
    }
    if (type == PTX_f16x2 || type == PTX_bf16x2) {
        int half = type == PTX_f16x2 ? PTX_f16 : PTX_bf16;
        return atomic_float_add(half, old & 0xffff, b & 0xffff) |
               atomic_float_add(half, old >> 16 & 0xffff, b >> 16 & 0xffff) << 16;
    }
    double sum = ptx_add_odd(atomic_float(type, old), atomic_float(type, b));
    return ptx_round(sum, ptx_format_of(type), PTX_W_rn, false);
}

static uint64_t atomic_result(const ptx_insn *insn, uint64_t old, uint64_t b, uint64_t c) {
    int type = insn->type[0];
    bool is_signed = type >= PTX_s8 && type <= PTX_s64;
    int64_t x = (int64_t)sign_extend(old, type), y = (int64_t)sign_extend(b, type);
    switch (insn->operation) {
    case PTX_W_add:
        return ptx_is_float(type) ? atomic_float_add(type, old, b) : old + b;
    case PTX_W_min:
        return (is_signed ? x < y : old < b) ? old : b;
    case PTX_W_max:
        return (is_signed ? x > y : old > b) ? old : b;
    case PTX_W_and:
        return old & b;
    case PTX_W_or:
        return old | b;
    case PTX_W_xor:
        return old ^ b;
    case PTX_W_exch:
        return b;
    case PTX_W_cas:
        return old == b ? c : old;
    case PTX_W_inc:
        return old >= b ? 0 : old + 1;
    default: // dec
        return old == 0 || old > b ? b : old - 1;
    }
}

static void atomic_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    bool returns = insn->row->operands[0] == 'd';
    uint32_t bytes = ptx_type_bytes[insn->type[0]];
    uint64_t kept = register_mask(bytes * 8);
    uint8_t *place[PTX_LANES];
    uint32_t good = ptx_access(w, insn, returns, mask, bytes,
                               PTX_ACCESS_READ | PTX_ACCESS_WRITE | PTX_ACCESS_ATOMIC, place);
    const uint64_t *bs = ptx_lanes(w, insn, 1 + returns), *cs = bs;
    if (insn->operation == PTX_W_cas) {
        cs = ptx_lanes(w, insn, 2 + returns);
    }
    EACH_LANE(lane, good) {
        uint64_t old = load_bits(place[lane], bytes);
        uint64_t result = atomic_result(insn, old, bs[lane] & kept, cs[lane] & kept) & kept;
        memcpy(place[lane], &result, bytes);
        if (returns) {
            ptx_lanes(w, insn, 0)[lane] = old;
        }
    }
}

static bool atomic_fits(const ptx_insn *insn) {
    int type = insn->type[0], op = insn->operation;
    bool wide = ptx_type_bytes[type] >= 4;
    if (ptx_is_float(type)) {
        return op == PTX_W_add && type != PTX_f32x2;
    }
    if (type == PTX_b16) {
        return op == PTX_W_cas || op == PTX_W_exch;
    }
    if (op == PTX_W_and || op == PTX_W_or || op == PTX_W_xor || op == PTX_W_exch ||
        op == PTX_W_cas) {
        return type == PTX_b32 || type == PTX_b64;
    }
    if (op == PTX_W_inc || op == PTX_W_dec) {
        return type == PTX_u32;
    }
    return wide && type >= PTX_u32 && type <= PTX_s64 && !(op == PTX_W_add && type == PTX_s64);
}

static ptx_handler select_atomic(ptx_insn *insn) {
    for (int word = PTX_W_add; word <= PTX_W_dec; word++) {
        if (ptx_has(&insn->words, word)) {
            insn->operation = (uint8_t)word;
        }
    }
    int values = insn->operands - (insn->row->operands[0] == 'd') - 1;
    bool cas = insn->operation == PTX_W_cas;
    return insn->operation && (cas ? values >= 2 : values <= 2) && atomic_fits(insn) ? atomic_run
                                                                                     : NULL;
}

ptx_handler ptx_select_atom(ptx_insn *insn) { return select_atomic(insn); }
ptx_handler ptx_select_red(ptx_insn *insn) { return select_atomic(insn); }

// mov, with vectors on one side packed or unpacked

static void mov_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *from = ptx_lanes(w, insn, 1);
    uint64_t *out = ptx_lanes(w, insn, 0), kept = register_mask(insn->operand[0].value[0].bits);
    EACH_LANE(lane, mask) { out[lane] = from[lane] & kept; }
}

static void mov_clock(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint64_t *out = ptx_lanes(w, insn, 0), kept = register_mask(insn->operand[0].value[0].bits);
    EACH_LANE(lane, mask) { out[lane] = w->steps & kept; }
}

static void mov_predicate(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    ptx_set_predicate(w, insn->operand[0].value[0].slot, mask,
                      ptx_predicate(w, &insn->operand[1].value[0]));
}

static void mov_pack(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const ptx_operand *from = &insn->operand[1];
    uint32_t width = ptx_type_bytes[insn->type[0]] * 8u / from->count;
    uint64_t *out = ptx_lanes(w, insn, 0);
    EACH_LANE(lane, mask) {
        uint64_t result = 0;
        for (uint32_t i = 0; i < from->count; i++) {
            result |= (ptx_value_lanes(w, &from->value[i])[lane] & register_mask(width))
                      << i * width;
        }
        out[lane] = result;
    }
}

static void mov_unpack(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const ptx_operand *to = &insn->operand[0];
    uint32_t width = ptx_type_bytes[insn->type[0]] * 8u / to->count;
    EACH_LANE(lane, mask) {
        uint64_t value = ptx_lanes(w, insn, 1)[lane];
        for (uint32_t i = 0; i < to->count; i++) {
            ptx_value_lanes(w, &to->value[i])[lane] = value >> i * width & register_mask(width);
        }
    }
}

ptx_handler ptx_select_mov(ptx_insn *insn) {
    const ptx_operand *to = &insn->operand[0], *from = &insn->operand[1];
    bool predicate = insn->type[0] == PTX_pred;
    if (predicate || to->value[0].kind == PTX_PRED || from->value[0].kind == PTX_PRED) {
        return predicate && to->value[0].kind == PTX_PRED && from->value[0].kind != PTX_REG &&
                       from->is == PTX_IS_VALUE
                   ? mov_predicate
                   : NULL;
    }
    if (!moves_memory(insn->type[0])) {
        return NULL;
    }
    if (to->is == PTX_IS_VECTOR) {
        return from->is == PTX_IS_VALUE ? mov_unpack : NULL;
    }
    if (from->is == PTX_IS_VECTOR) {
        return mov_pack;
    }
    int32_t slot = from->value[0].kind == PTX_REG ? from->value[0].slot : -1;
    return slot >= PTX_CLOCK && slot <= PTX_GLOBALTIMER ? mov_clock : mov_run;
}

// Addresses

static void cvta_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint64_t base = insn->space == PTX_GLOBAL ? 0 : PTX_WINDOW(insn->space);
    bool to = HAS(insn, to);
    const uint64_t *from = ptx_lanes(w, insn, 1);
    uint64_t *out = ptx_lanes(w, insn, 0);
    EACH_LANE(lane, mask) { out[lane] = to ? from[lane] - base : from[lane] + base; }
}

ptx_handler ptx_select_cvta(ptx_insn *insn) {
    return insn->space != PTX_GENERIC && insn->type[0] == PTX_u64 ? cvta_run : NULL;
}

static void isspacep_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t bits = 0;
    EACH_LANE(lane, mask) {
        uint64_t window = ptx_lanes(w, insn, 1)[lane] >> 60;
        bool in = insn->space == PTX_GLOBAL ? window == 0 : window == insn->space;
        bits |= (uint32_t)in << lane;
    }
    ptx_set_predicate(w, insn->operand[0].value[0].slot, mask, bits);
}

ptx_handler ptx_select_isspacep(ptx_insn *insn) {
    return insn->space != PTX_GENERIC ? isspacep_run : NULL;
}

// cp.async: read at once, written to shared memory when waited for

static ptx_pending *pending_add(ptx_warp *w) {
    if (w->pending_count == w->pending_capacity) {
        w->pending_capacity = w->pending_capacity * 2 + 64;
        w->pending = realloc(w->pending, (size_t)w->pending_capacity * sizeof *w->pending);
        if (!w->pending) {
            abort();
        }
    }
    return &w->pending[w->pending_count++];
}

// Bytes each lane reads; the rest up to `bytes` becomes zero.
static void cp_sizes(const ptx_warp *w, const ptx_insn *insn, uint32_t mask, uint32_t bytes,
                     uint32_t size[PTX_LANES]) {
    const ptx_value *source = &insn->operand[3].value[0];
    bool given = insn->operands - HAS(insn, cache_hint) == 4;
    EACH_LANE(lane, mask) {
        uint64_t asked = bytes;
        if (given && source->kind == PTX_PRED) { // true: read nothing
            asked = ptx_predicate(w, source) >> lane & 1 ? 0 : bytes;
        } else if (given) {
            asked = (uint32_t)ptx_value_lanes(w, source)[lane];
        }
        size[lane] = asked < bytes ? (uint32_t)asked : bytes;
    }
}

static void cp_async_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t bytes = (uint32_t)ptx_lanes(w, insn, 2)[0], size[PTX_LANES], have = 0;
    uint8_t *to[PTX_LANES], *from[PTX_LANES];
    if (bytes != 4 && bytes != 8 && bytes != 16) {
        ptx_report(w, PTX_FOUND_UNKNOWN, "a copy of %u bytes", bytes);
        return;
    }
    cp_sizes(w, insn, mask, bytes, size);
    uint32_t good = ptx_access(w, insn, 0, mask, bytes, PTX_ACCESS_WRITE | PTX_ACCESS_DEFER, to);
    for (uint32_t read = 1; read <= bytes; read++) { // lanes that read equally much together
        uint32_t lanes = 0;
        EACH_LANE(lane, mask) { lanes |= (uint32_t)(size[lane] == read) << lane; }
        have |= lanes ? ptx_access(w, insn, 1, lanes, read, PTX_ACCESS_READ, from) : 0;
    }
    EACH_LANE(lane, good) {
        ptx_pending *p = pending_add(w);
        *p = (ptx_pending){.lane = (uint8_t)lane,
                           .bytes = (uint8_t)bytes,
                           .group = w->groups[lane],
                           .target = (uint32_t)(to[lane] - w->launch->shared.data)};
        if (have >> lane & 1) {
            memcpy(p->data, from[lane], size[lane]);
        }
    }
}

ptx_handler ptx_select_cp_async(ptx_insn *insn) {
    return insn->operand[2].value[0].kind == PTX_CONST &&
                   insn->operands - HAS(insn, cache_hint) <= 4
               ? cp_async_run
               : NULL;
}

static void cp_commit_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    (void)insn;
    EACH_LANE(lane, mask) { w->groups[lane]++; }
}

ptx_handler ptx_select_cp_commit(ptx_insn *insn) {
    (void)insn;
    return cp_commit_run;
}

static void cp_finish(ptx_warp *w, const ptx_pending *p) {
    uint64_t address[PTX_LANES] = {0};
    uint8_t *place[PTX_LANES];
    address[p->lane] = p->target;
    uint64_t conflicts = w->launch->counters.bank_conflicts;
    uint64_t requests = w->launch->counters.shared_requests;
    ptx_access_shared(w, UINT32_C(1) << p->lane, address, p->bytes, PTX_ACCESS_WRITE, place);
    w->launch->counters.bank_conflicts = conflicts; // counted when it was issued
    w->launch->counters.shared_requests = requests;
    memcpy(place[p->lane], p->data, p->bytes);
}

// Finishes what the lanes of mask issued, but for their newest `keep` groups.
static void cp_wait(ptx_warp *w, uint32_t mask, uint32_t keep, bool uncommitted) {
    int32_t left = 0;
    for (int32_t i = 0; i < w->pending_count; i++) {
        const ptx_pending *p = &w->pending[i];
        bool done = uncommitted || p->group + keep < w->groups[p->lane];
        if (mask >> p->lane & 1 && done) {
            cp_finish(w, p);
        } else {
            w->pending[left++] = *p;
        }
    }
    w->pending_count = left;
}

static void cp_wait_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    cp_wait(w, mask, (uint32_t)ptx_lanes(w, insn, 0)[0], false);
}

ptx_handler ptx_select_cp_wait(ptx_insn *insn) {
    return insn->operand[0].value[0].kind == PTX_CONST ? cp_wait_run : NULL;
}

static void cp_wait_all_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    (void)insn;
    cp_wait(w, mask, 0, true);
}

ptx_handler ptx_select_cp_wait_all(ptx_insn *insn) {
    (void)insn;
    return cp_wait_all_run;
}
