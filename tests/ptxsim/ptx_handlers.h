// Handlers as loops over lanes: one macro per number of sources, one function per C type.
#ifndef PTXSIM_PTX_HANDLERS_H
#define PTXSIM_PTX_HANDLERS_H

#include <string.h>

#include "ptx_machine.h"
#include "ptx_select.h"

// The result of expr, an expression of a, b and c of type T, as the register's bits.
#define HANDLER1(name, T, R, expr)                                                                 \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1);                                                \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            T a = (T)as[lane];                                                                     \
            out[lane] = (R)(expr);                                                                 \
        }                                                                                          \
    }
#define HANDLER2(name, T, R, expr)                                                                 \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2);                   \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            T a = (T)as[lane], b = (T)bs[lane];                                                    \
            out[lane] = (R)(expr);                                                                 \
        }                                                                                          \
    }
#define HANDLER3(name, T, R, expr)                                                                 \
    static void name(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {                           \
        const uint64_t *as = ptx_lanes(w, insn, 1), *bs = ptx_lanes(w, insn, 2),                   \
                       *cs = ptx_lanes(w, insn, 3);                                                \
        uint64_t *out = ptx_lanes(w, insn, 0);                                                     \
        EACH_LANE(lane, mask) {                                                                    \
            T a = (T)as[lane], b = (T)bs[lane], c = (T)cs[lane];                                   \
            out[lane] = (R)(expr);                                                                 \
        }                                                                                          \
    }

static inline float ptx_f32(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}
static inline uint32_t ptx_f32_bits(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}
static inline double ptx_f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint64_t ptx_f64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline bool ptx_is_float(int type) {
    return type >= PTX_f16 && type <= PTX_f32x2 && type != PTX_NO_TYPE;
}

#endif
