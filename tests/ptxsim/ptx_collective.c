// What lanes of a warp do together, and instructions that do nothing here.
#include "ptx_handlers.h"
#include "ptx_round.h"

static void nothing_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    (void)w;
    (void)insn;
    (void)mask;
}

ptx_handler ptx_select_nothing(ptx_insn *insn) {
    (void)insn;
    return nothing_run;
}

// A cache policy: any value, it only goes to hints.
static void policy_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    EACH_LANE(lane, mask) { ptx_lanes(w, insn, 0)[lane] = 0; }
}

ptx_handler ptx_select_policy(ptx_insn *insn) {
    return insn->type[0] == PTX_b64 ? policy_run : NULL;
}

static void trap_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    (void)insn;
    ptx_report(w, PTX_FOUND_TRAP, "lane %d", __builtin_ctz(mask));
    w->launch->fault = 719; // CUDA_ERROR_LAUNCH_FAILED
    w->launch->stop = true;
}

ptx_handler ptx_select_trap(ptx_insn *insn) {
    (void)insn;
    return trap_run;
}

// The lane that lane reads from, as PTX defines it; *inside: no clamping happened.
static uint32_t shuffle_source(const ptx_insn *insn, uint32_t lane, uint32_t b, uint32_t c,
                               bool *inside) {
    uint32_t segment = c >> 8 & 0x1f, clamp = c & 0x1f;
    uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int32_t from;
    b &= 0x1f;
    if (HAS(insn, up)) {
        from = (int32_t)lane - (int32_t)b;
        *inside = from >= (int32_t)most;
    } else {
        from = HAS(insn, down)   ? (int32_t)(lane + b)
               : HAS(insn, bfly) ? (int32_t)(lane ^ b)
                                 : (int32_t)(least | (b & ~segment));
        *inside = from <= (int32_t)most;
    }
    return *inside ? (uint32_t)from : lane;
}

static void shfl_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2),
                   *cs = ptx_lanes(w, insn, 3);
    uint64_t *out = ptx_lanes(w, insn, 0), values[PTX_LANES];
    uint32_t valid = 0;
    memcpy(values, as, sizeof values);
    EACH_LANE(lane, mask) {
        bool inside;
        uint32_t from = shuffle_source(insn, lane, (uint32_t)bs[lane], (uint32_t)cs[lane], &inside);
        if (!(mask >> from & 1)) {
            ptx_report(w, PTX_FOUND_INACTIVE_SOURCE, "lane %u reads lane %u", lane, from);
        }
        valid |= (uint32_t)inside << lane;
        out[lane] = (uint32_t)values[from];
    }
    if (insn->operand[0].second >= 0) {
        ptx_set_predicate(w, insn->operand[0].second, mask, valid);
    }
}

ptx_handler ptx_select_shfl(ptx_insn *insn) {
    int modes = HAS(insn, up) + HAS(insn, down) + HAS(insn, bfly) + HAS(insn, idx);
    return modes == 1 && insn->type[0] == PTX_b32 ? shfl_run : NULL;
}

// The lanes that take part with lane: those its mask names, of those here.
static uint32_t group_of(const ptx_warp *w, const ptx_insn *insn, uint32_t lane, uint32_t here) {
    return (uint32_t)ptx_lanes(w, insn, insn->member_mask)[lane] & here;
}

static void vote_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t yes = ptx_predicate(w, &insn->operand[1].value[0]), result = 0;
    bool ballot = HAS(insn, ballot);
    EACH_LANE(lane, mask) {
        uint32_t group = group_of(w, insn, lane, mask), votes = yes & group;
        bool answer = HAS(insn, all)   ? votes == group
                      : HAS(insn, any) ? votes != 0
                                       : votes == group || votes == 0;
        result |= (uint32_t)answer << lane;
        if (ballot) {
            ptx_lanes(w, insn, 0)[lane] = votes;
        }
    }
    if (!ballot) {
        ptx_set_predicate(w, insn->operand[0].value[0].slot, mask, result);
    }
}

ptx_handler ptx_select_vote(ptx_insn *insn) {
    int modes = HAS(insn, all) + HAS(insn, any) + HAS(insn, uni) + HAS(insn, ballot);
    bool ballot = HAS(insn, ballot), predicate = insn->operand[0].value[0].kind == PTX_PRED;
    return modes == 1 && ballot != predicate && insn->type[0] == (ballot ? PTX_b32 : PTX_pred)
               ? vote_run
               : NULL;
}

static uint32_t equal_lanes(const ptx_warp *w, const ptx_insn *insn, uint32_t lane,
                            uint32_t group) {
    const uint64_t *as = ptx_lanes(w, insn, 1);
    uint64_t kept = insn->type[0] == PTX_b64 ? UINT64_MAX : UINT32_MAX;
    uint32_t equal = 0;
    EACH_LANE(other, group) { equal |= (uint32_t)(((as[other] ^ as[lane]) & kept) == 0) << other; }
    return equal;
}

static void match_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    bool all = insn->operation;
    uint64_t results[PTX_LANES];
    uint32_t agree = 0;
    EACH_LANE(lane, mask) {
        uint32_t group = group_of(w, insn, lane, mask), equal = equal_lanes(w, insn, lane, group);
        agree |= (uint32_t)(equal == group) << lane;
        results[lane] = all && equal != group ? 0 : equal;
    }
    EACH_LANE(lane, mask) { ptx_lanes(w, insn, 0)[lane] = results[lane]; }
    if (insn->operand[0].second >= 0) {
        ptx_set_predicate(w, insn->operand[0].second, mask, agree);
    }
}

ptx_handler ptx_select_match_any(ptx_insn *insn) {
    bool fits = insn->type[0] == PTX_b32 || insn->type[0] == PTX_b64;
    return fits && insn->operand[0].second < 0 ? match_run : NULL;
}

ptx_handler ptx_select_match_all(ptx_insn *insn) {
    insn->operation = true;
    return insn->type[0] == PTX_b32 || insn->type[0] == PTX_b64 ? match_run : NULL;
}

static uint32_t reduce(const ptx_insn *insn, uint32_t x, uint32_t y) {
    bool is_signed = insn->type[0] == PTX_s32;
    switch (insn->operation) {
    case PTX_W_add:
        return x + y;
    case PTX_W_min:
        return (is_signed ? (int32_t)x < (int32_t)y : x < y) ? x : y;
    case PTX_W_max:
        return (is_signed ? (int32_t)x > (int32_t)y : x > y) ? x : y;
    case PTX_W_and:
        return x & y;
    case PTX_W_or:
        return x | y;
    default:
        return x ^ y;
    }
}

static void redux_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint64_t values[PTX_LANES];
    memcpy(values, ptx_lanes(w, insn, 1), sizeof values);
    EACH_LANE(lane, mask) {
        uint32_t group = group_of(w, insn, lane, mask);
        uint32_t first = group ? (uint32_t)__builtin_ctz(group) : lane;
        uint32_t result = (uint32_t)values[first];
        EACH_LANE(other, group & ~(UINT32_C(1) << first)) {
            result = reduce(insn, result, (uint32_t)values[other]);
        }
        ptx_lanes(w, insn, 0)[lane] = result;
    }
}

ptx_handler ptx_select_redux(ptx_insn *insn) {
    int type = insn->type[0];
    for (int word = PTX_W_add; word <= PTX_W_xor; word++) {
        if (ptx_has(&insn->words, word)) {
            insn->operation = (uint8_t)word;
        }
    }
    bool bits = insn->operation >= PTX_W_and;
    bool fits = bits ? type == PTX_b32 : type == PTX_u32 || type == PTX_s32;
    return insn->operation && fits ? redux_run : NULL;
}

static void elect_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t chosen = 0;
    EACH_LANE(lane, mask) {
        uint32_t group = group_of(w, insn, lane, mask);
        uint32_t leader = group ? (uint32_t)__builtin_ctz(group) : lane;
        ptx_lanes(w, insn, 0)[lane] = leader;
        chosen |= (uint32_t)(leader == lane) << lane;
    }
    if (insn->operand[0].second >= 0) {
        ptx_set_predicate(w, insn->operand[0].second, mask, chosen);
    }
}

ptx_handler ptx_select_elect(ptx_insn *insn) {
    return insn->operand[0].second >= 0 ? elect_run : NULL;
}

static void activemask_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    EACH_LANE(lane, mask) { ptx_lanes(w, insn, 0)[lane] = mask; }
}

ptx_handler ptx_select_activemask(ptx_insn *insn) {
    return insn->type[0] == PTX_b32 ? activemask_run : NULL;
}

// The scheduler has reduced over the block when it lets a warp past.
static void bar_red_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const ptx_launch *launch = w->launch;
    if (HAS(insn, popc)) {
        EACH_LANE(lane, mask) { ptx_lanes(w, insn, 0)[lane] = launch->reduced_count; }
        return;
    }
    bool yes = HAS(insn, and) ? launch->reduced_all : launch->reduced_count != 0;
    ptx_set_predicate(w, insn->operand[0].value[0].slot, mask, yes ? UINT32_MAX : 0);
}

ptx_handler ptx_select_bar_red(ptx_insn *insn) {
    bool predicate = insn->operand[0].value[0].kind == PTX_PRED;
    bool fits = HAS(insn, popc)
                    ? insn->type[0] == PTX_u32 && !predicate
                    : insn->type[0] == PTX_pred && predicate && HAS(insn, and) != HAS(insn, or);
    return fits ? bar_red_run : NULL;
}
