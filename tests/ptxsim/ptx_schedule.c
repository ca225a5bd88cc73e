// Which lanes run. The lanes of a warp that are at one place form a part; the part deepest in
// calls, then furthest back in the code, runs first, so that parts meet again where paths join.
// Lanes wait at .sync instructions for those their mask names, and at barriers for the whole block:
// a program that needs lanes which never come is reported and then let go on.
#include "ptx_schedule.h"

enum { FAULT_TIMEOUT = 702 };

static bool earlier(const ptx_part *a, const ptx_part *b) {
    return a->depth != b->depth ? a->depth > b->depth : a->pc < b->pc;
}

static bool same_place(const ptx_part *a, const ptx_part *b) {
    return a->depth == b->depth && a->pc == b->pc && a->state == b->state;
}

static void part_remove(ptx_warp *w, ptx_part *part) { *part = w->parts[--w->part_count]; }

// Joins the parts that are at one place; returns the ready one to run, or NULL.
static ptx_part *parts_join(ptx_warp *w) {
    for (int32_t i = 0; i < w->part_count; i++) {
        for (int32_t j = i + 1; j < w->part_count;) {
            if (same_place(&w->parts[i], &w->parts[j])) {
                w->parts[i].mask |= w->parts[j].mask;
                part_remove(w, &w->parts[j]);
            } else {
                j++;
            }
        }
    }
    ptx_part *best = NULL;
    for (int32_t i = 0; i < w->part_count; i++) {
        ptx_part *part = &w->parts[i];
        if (part->state == PTX_READY && (!best || earlier(part, best))) {
            best = part;
        }
    }
    return best;
}

static void part_split(ptx_warp *w, ptx_part *part, uint32_t mask, int32_t pc) {
    part->mask &= ~mask;
    w->parts[w->part_count++] = (ptx_part){.mask = mask, .pc = pc, .depth = part->depth};
}

static void check_defined(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    for (uint32_t i = 0; i < insn->read_count; i++) {
        uint32_t missing = mask & ~w->defined[insn->reads[i]];
        if (missing) {
            ptx_report(w, PTX_FOUND_UNINITIALISED, "a register, lane %d", __builtin_ctz(missing));
            w->defined[insn->reads[i]] |= mask;
        }
    }
    for (uint32_t i = 0; i < insn->pred_read_count; i++) {
        uint32_t missing = mask & ~w->predicate_defined[insn->pred_reads[i]];
        if (missing) {
            ptx_report(w, PTX_FOUND_UNINITIALISED, "a predicate, lane %d", __builtin_ctz(missing));
            w->predicate_defined[insn->pred_reads[i]] |= mask;
        }
    }
}

static void execute(ptx_warp *w, ptx_insn *insn, uint32_t mask) {
    insn->executed++;
    insn->lanes += (uint32_t)__builtin_popcount(mask);
    check_defined(w, insn, mask);
    insn->run(w, insn, mask);
    for (uint32_t i = 0; i < insn->write_count; i++) {
        w->defined[insn->writes[i]] |= mask;
    }
    for (uint32_t i = 0; i < insn->pred_write_count; i++) {
        w->predicate_defined[insn->pred_writes[i]] |= mask;
    }
}

// Lanes of part that the guard lets through.
static uint32_t guarded(const ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    if (insn->guard < 0) {
        return mask;
    }
    uint32_t bits = w->predicates[insn->guard];
    return mask & (insn->guard_not ? ~bits : bits);
}

// .sync instructions

// The lanes that lane's mask names, of those that exist and have not exited.
static uint32_t members(const ptx_warp *w, const ptx_insn *insn, uint32_t lane) {
    return insn->member_mask < 0 ? w->live
                                 : (uint32_t)ptx_lanes(w, insn, insn->member_mask)[lane] & w->live;
}

static bool all_here(const ptx_warp *w, const ptx_insn *insn, uint32_t here) {
    if (here == w->live) {
        return true;
    }
    EACH_LANE(lane, here) {
        if (members(w, insn, lane) & ~here) {
            return false;
        }
    }
    return true;
}

static void check_members(ptx_warp *w, const ptx_insn *insn, uint32_t here) {
    if (insn->member_mask < 0) {
        return;
    }
    const uint64_t *masks = ptx_lanes(w, insn, insn->member_mask);
    uint32_t first = (uint32_t)masks[__builtin_ctz(here)], differ = 0;
    EACH_LANE(lane, here) { differ |= (uint32_t)masks[lane] ^ first; }
    if (!differ && !(here & ~first)) { // nearly always
        return;
    }
    EACH_LANE(lane, here) {
        uint32_t mask = members(w, insn, lane);
        if (!(mask >> lane & 1)) {
            ptx_report(w, PTX_FOUND_MEMBER_MASK, "lane %u is not in its own mask 0x%x", lane,
                       (uint32_t)ptx_lanes(w, insn, insn->member_mask)[lane]);
        }
        EACH_LANE(other, mask & here) {
            if (members(w, insn, other) != mask) {
                ptx_report(w, PTX_FOUND_MEMBER_MASK, "lanes %u and %u name different lanes", lane,
                           other);
            }
        }
    }
}

static void converge_run(ptx_warp *w, ptx_part *part) {
    ptx_insn *insn = &w->launch->program->code[part->pc];
    w->at = insn;
    check_members(w, insn, part->mask);
    execute(w, insn, part->mask);
    part->pc++;
    part->state = PTX_READY;
}

// Runs the first .sync instruction whose lanes are all there; false: none.
static bool converge_any(ptx_warp *w) {
    for (int32_t i = 0; i < w->part_count; i++) {
        ptx_part *part = &w->parts[i];
        if (part->state == PTX_AT_CONVERGE &&
            all_here(w, &w->launch->program->code[part->pc], part->mask)) {
            converge_run(w, part);
            return true;
        }
    }
    return false;
}

// All lanes wait and some at a .sync instruction that can never run: report it and run it.
static bool converge_force(ptx_warp *w) {
    ptx_part *first = NULL;
    for (int32_t i = 0; i < w->part_count; i++) {
        if (w->parts[i].state == PTX_AT_CONVERGE && (!first || earlier(&w->parts[i], first))) {
            first = &w->parts[i];
        }
    }
    if (!first) {
        return false;
    }
    ptx_insn *insn = &w->launch->program->code[first->pc];
    w->at = insn;
    uint32_t lane = (uint32_t)__builtin_ctz(first->mask);
    ptx_report(w, PTX_FOUND_MEMBER_MASK, "lanes 0x%x wait for lanes 0x%x, which do not come",
               first->mask, members(w, insn, lane) & ~first->mask);
    converge_run(w, first);
    return true;
}

// Barriers

static void barrier_arrive(ptx_warp *w) {
    ptx_part *part = &w->parts[0];
    ptx_insn *insn = &w->launch->program->code[part->pc];
    w->at = insn;
    bool aligned = insn->row->name[3] == '.' || HAS(insn, aligned); // bar.sync is
    if (aligned && (w->part_count > 1 || w->live != w->born)) {
        ptx_report(w, PTX_FOUND_DIVERGENT_BARRIER, "lanes 0x%x of 0x%x", part->mask, w->born);
    }
    bool reduces = insn->row->operands[0] == 'x';
    const uint64_t *id = ptx_lanes(w, insn, reduces);
    uint32_t lane = (uint32_t)__builtin_ctz(part->mask);
    w->waits = true;
    w->barrier = (int32_t)(id[lane] & (PTX_BARRIERS - 1));
    w->barrier_threads = insn->operands == 2 && !reduces ? (int32_t)ptx_lanes(w, insn, 1)[lane] : 0;
    w->barrier_pc = part->pc;
}

// A barrier of all threads: every warp must be at the same one.
static void barrier_check(ptx_launch *launch, int32_t id) {
    ptx_warp *first = NULL;
    int32_t exited = -1;
    for (int32_t i = 0; i < launch->warp_count; i++) {
        ptx_warp *w = &launch->warps[i];
        exited = w->live ? exited : i;
        if (!w->waits || w->barrier != id) {
            continue;
        }
        first = first ? first : w;
        if (first->barrier_pc != w->barrier_pc) {
            ptx_report(w, PTX_FOUND_DIVERGENT_BARRIER, "other warps wait at line %d",
                       launch->program->code[first->barrier_pc].line);
        }
    }
    if (exited >= 0) {
        ptx_report(first, PTX_FOUND_DIVERGENT_BARRIER, "warp %d has exited", exited);
    }
}

static void barrier_reduce(ptx_launch *launch, const ptx_warp *w) {
    for (int32_t i = 0; i < w->part_count; i++) {
        const ptx_insn *insn = &launch->program->code[w->parts[i].pc];
        if (insn->row->operands[0] == 'x') {
            uint32_t mask = w->parts[i].mask;
            uint32_t bits = ptx_predicate(w, &insn->operand[2].value[0]) & mask;
            launch->reduced_count += (uint32_t)__builtin_popcount(bits);
            launch->reduced_all &= bits == mask;
        }
    }
}

// Lets the warps at barrier id past it.
static void barrier_open(ptx_launch *launch, int32_t id) {
    launch->reduced_count = 0;
    launch->reduced_all = true;
    for (int32_t i = 0; i < launch->warp_count; i++) {
        if (launch->warps[i].waits && launch->warps[i].barrier == id) {
            barrier_reduce(launch, &launch->warps[i]);
        }
    }
    for (int32_t i = 0; i < launch->warp_count; i++) {
        ptx_warp *w = &launch->warps[i];
        if (!w->waits || w->barrier != id) {
            continue;
        }
        for (int32_t j = 0; j < w->part_count; j++) {
            w->at = &launch->program->code[w->parts[j].pc];
            execute(w, w->at, w->parts[j].mask);
            w->parts[j].pc++;
            w->parts[j].state = PTX_READY;
        }
    }
    for (int32_t i = 0; i < launch->warp_count; i++) {
        ptx_warp *w = &launch->warps[i];
        w->waits = w->waits && w->barrier != id;
    }
    launch->shared.epoch++;
}

void ptx_barriers_check(ptx_launch *launch) {
    for (int32_t id = 0; id < PTX_BARRIERS; id++) {
        int32_t waiting = 0, live = 0, needed = 0;
        for (int32_t i = 0; i < launch->warp_count; i++) {
            const ptx_warp *w = &launch->warps[i];
            live += w->live != 0;
            if (w->waits && w->barrier == id) {
                waiting++;
                needed = w->barrier_threads;
            }
        }
        if (waiting && (needed ? waiting * PTX_LANES >= needed : waiting == live)) {
            if (!needed) {
                barrier_check(launch, id);
            }
            barrier_open(launch, id);
        }
    }
}

bool ptx_barriers_release(ptx_launch *launch) {
    for (int32_t i = 0; i < launch->warp_count; i++) {
        ptx_warp *w = &launch->warps[i];
        if (w->waits) {
            w->at = &launch->program->code[w->barrier_pc];
            ptx_report(w, PTX_FOUND_DIVERGENT_BARRIER,
                       "barrier %d never completes: other warps do not come", w->barrier);
            barrier_open(launch, w->barrier);
            return true;
        }
    }
    return false;
}

// Control

static void part_exit(ptx_warp *w, ptx_part *part, uint32_t mask) {
    part->mask &= ~mask;
    w->live &= ~mask;
    part->pc++;
}

static void copy_local(ptx_warp *w, const ptx_copy *copy, uint32_t mask) {
    size_t size = (size_t)w->launch->kernel->local;
    EACH_LANE(lane, mask) {
        for (int32_t i = 0; i < copy->bytes; i++) {
            size_t from = lane * size + (size_t)(copy->from + i);
            size_t to = lane * size + (size_t)(copy->to + i);
            w->local[to] = w->local[from];
            w->local_written[to] = w->local_written[from];
        }
    }
}

static void part_call(ptx_warp *w, ptx_part *part, const ptx_insn *insn, uint32_t mask) {
    if (part->mask != mask) { // the lanes the guard holds back go on behind the call
        part_split(w, part, part->mask & ~mask, part->pc + 1);
    }
    if (part->depth == PTX_CALL_DEPTH) {
        ptx_report(w, PTX_FOUND_UNKNOWN, "calls deeper than %d", PTX_CALL_DEPTH);
        w->launch->stop = true;
        return;
    }
    for (int32_t i = 0; i < insn->call->inputs; i++) {
        copy_local(w, &insn->call->input[i], mask);
    }
    EACH_LANE(lane, mask) { w->returns[lane][part->depth] = part->pc; }
    part->depth++;
    part->pc = insn->target;
}

static void part_return(ptx_warp *w, ptx_part *part, uint32_t mask) {
    if (!part->depth) {
        part_exit(w, part, mask);
        return;
    }
    uint32_t held = part->mask & ~mask;
    int32_t depth = part->depth - 1, next = part->pc + 1;
    if (held) {
        part_split(w, part, held, next);
    }
    while (part->mask) { // lanes may have come from different calls
        int32_t from = w->returns[__builtin_ctz(part->mask)][depth];
        uint32_t lanes = 0;
        EACH_LANE(lane, part->mask) {
            lanes |= (uint32_t)(w->returns[lane][depth] == from) << lane;
        }
        const ptx_call *call = w->launch->program->code[from].call;
        for (int32_t i = 0; i < call->outputs; i++) {
            copy_local(w, &call->output[i], lanes);
        }
        if (lanes == part->mask) {
            part->pc = from + 1;
            part->depth = depth;
            return;
        }
        part_split(w, part, lanes, from + 1);
        w->parts[w->part_count - 1].depth = depth;
    }
}

static void part_branch_indexed(ptx_warp *w, ptx_part *part, const ptx_insn *insn, uint32_t mask) {
    const uint64_t *index = ptx_lanes(w, insn, 0);
    uint32_t held = part->mask & ~mask;
    int32_t next = part->pc + 1;
    if (held) {
        part_split(w, part, held, next);
    }
    for (;;) {
        uint64_t which = index[__builtin_ctz(part->mask)];
        uint32_t lanes = 0;
        EACH_LANE(lane, part->mask) { lanes |= (uint32_t)(index[lane] == which) << lane; }
        if (which >= (uint64_t)insn->table_count) {
            ptx_report(w, PTX_FOUND_UNKNOWN, "branch target %llu of %d", (unsigned long long)which,
                       insn->table_count);
            w->launch->stop = true;
            return;
        }
        if (lanes == part->mask) {
            part->pc = insn->table[which];
            return;
        }
        part_split(w, part, lanes, insn->table[which]);
    }
}

static void part_wait(ptx_warp *w, ptx_part *part, uint32_t mask, uint8_t state) {
    if (part->mask != mask) {
        part_split(w, part, part->mask & ~mask, part->pc + 1);
    }
    part->state = state;
}

// A control instruction for the lanes of mask, which is not 0.
static void part_control(ptx_warp *w, ptx_part *part, ptx_insn *insn, uint32_t mask) {
    if (insn->control == PTX_CONVERGE) {
        part_wait(w, part, mask, PTX_AT_CONVERGE);
        return;
    }
    if (insn->control == PTX_BARRIER) {
        part_wait(w, part, mask, PTX_AT_BARRIER);
        return;
    }
    execute(w, insn, mask);
    switch (insn->control) {
    case PTX_BRANCH:
        if (mask == part->mask) {
            part->pc = insn->target;
        } else {
            part_split(w, part, mask, insn->target);
            part->pc++;
        }
        break;
    case PTX_BRANCH_INDEXED:
        part_branch_indexed(w, part, insn, mask);
        break;
    case PTX_CALL:
        part_call(w, part, insn, mask);
        break;
    case PTX_RETURN:
        part_return(w, part, mask);
        break;
    default:
        part_exit(w, part, mask);
        break;
    }
}

// Runs one part until it meets another or waits, at most *turn instructions.
static void part_run(ptx_warp *w, ptx_part *part, uint64_t *turn) {
    ptx_insn *code = w->launch->program->code;
    int32_t parts = w->part_count, limit = INT32_MAX;
    for (int32_t i = 0; i < parts; i++) {
        const ptx_part *other = &w->parts[i];
        if (other != part && other->state == PTX_READY && other->depth == part->depth &&
            other->pc < limit) {
            limit = other->pc;
        }
    }
    int32_t depth = part->depth;
    while (*turn && part->pc < limit && !w->launch->stop) {
        ptx_insn *insn = &code[part->pc];
        uint32_t mask = guarded(w, insn, part->mask);
        (*turn)--;
        w->at = insn;
        if (++w->steps > w->launch->step_limit) {
            ptx_report(w, PTX_FOUND_RUNAWAY, "more than %llu instructions",
                       (unsigned long long)w->launch->step_limit);
            w->launch->fault = FAULT_TIMEOUT;
            w->launch->stop = true;
            return;
        }
        if (insn->guard >= 0) {
            if (part->mask & ~w->predicate_defined[insn->guard]) {
                ptx_report(w, PTX_FOUND_UNINITIALISED, "the guard");
                w->predicate_defined[insn->guard] |= part->mask;
            }
        }
        if (!mask) {
            part->pc++;
        } else if (insn->control == PTX_STEP) {
            execute(w, insn, mask);
            part->pc++;
        } else if (insn->control == PTX_CONVERGE && mask == part->mask && all_here(w, insn, mask)) {
            converge_run(w, part);
        } else {
            part_control(w, part, insn, mask);
            if (w->part_count != parts || part->depth != depth || part->state != PTX_READY ||
                !part->mask || parts > 1) {
                return;
            }
        }
    }
}

void ptx_warp_run(ptx_warp *w, uint64_t turn) {
    while (turn && w->live && !w->waits && !w->launch->stop) {
        ptx_part *part = parts_join(w);
        if (part) {
            part_run(w, part, &turn);
            if (!part->mask) {
                part_remove(w, part);
            }
        } else if (converge_any(w)) {
            continue;
        } else if (!converge_force(w)) {
            barrier_arrive(w);
        }
    }
}
