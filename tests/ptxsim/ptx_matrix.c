// Tensor core instructions of sm_75 to sm_90 on registers: mma.m16n8k8 and k16, ldmatrix, stmatrix.
// mma sums in double and rounds once; the hardware's order and width of sums are not documented.
#include "ptx_handlers.h"
#include "ptx_round.h"

// Lane l holds row l / 4 and columns l % 4 * 2 and + 1 of each 8 x 8 piece.
static double fragment(const ptx_warp *w, const ptx_operand *operand, const ptx_format *f,
                       uint32_t piece, uint32_t row, uint32_t column) {
    uint64_t bits = ptx_value_lanes(w, &operand->value[piece])[row * 4 + column / 2];
    return ptx_widen((uint32_t)(bits >> column % 2 * 16 & 0xffff), f);
}

static double accumulator(const ptx_warp *w, const ptx_insn *insn, uint32_t row, uint32_t column) {
    const ptx_operand *c = &insn->operand[3];
    uint32_t lane = row % 8 * 4 + column / 2;
    if (insn->type[3] == PTX_f32) {
        return ptx_f32(ptx_value_lanes(w, &c->value[row / 8 * 2 + column % 2])[lane]);
    }
    return fragment(w, c, ptx_format_of(PTX_f16), row / 8, row % 8, column);
}

static void mma_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    const ptx_format *f = ptx_format_of(insn->type[1]);
    uint32_t depth = insn->operand[2].count * 8u;
    double result[16][8];
    for (uint32_t row = 0; row < 16; row++) {
        for (uint32_t column = 0; column < 8; column++) {
            double sum = accumulator(w, insn, row, column);
            for (uint32_t k = 0; k < depth; k++) {
                double a = fragment(w, &insn->operand[1], f, row / 8 + k / 8 * 2, row % 8, k % 8);
                sum += a * fragment(w, &insn->operand[2], f, k / 8, column, k % 8);
            }
            result[row][column] = sum;
        }
    }
    const ptx_format *out = ptx_format_of(insn->type[0]);
    EACH_LANE(lane, mask) {
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t bits =
                ptx_round(result[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2], out, PTX_W_rn, false);
            if (insn->type[0] == PTX_f32) {
                ptx_value_lanes(w, &insn->operand[0].value[i])[lane] = bits;
                continue;
            }
            uint64_t *to = &ptx_value_lanes(w, &insn->operand[0].value[i / 2])[lane];
            *to = i % 2 ? (*to & 0xffff) | bits << 16 : bits;
        }
    }
}

ptx_handler ptx_select_mma(ptx_insn *insn) {
    uint8_t pieces = strstr(insn->row->name, "k16") ? 2 : 1;
    int in = insn->type[1];
    bool wide = insn->type[0] == PTX_f32;
    bool types = (in == PTX_f16 || in == PTX_bf16) && insn->type[2] == in &&
                 insn->type[3] == insn->type[0] &&
                 (wide || (insn->type[0] == PTX_f16 && in == PTX_f16));
    uint8_t sums = wide ? 4 : 2;
    bool counts = insn->operand[0].count == sums && insn->operand[1].count == pieces * 2 &&
                  insn->operand[2].count == pieces && insn->operand[3].count == sums;
    return types && counts ? mma_run : NULL;
}

static uint32_t matrices(const ptx_insn *insn) {
    return HAS(insn, x4) ? 4 : HAS(insn, x2) ? 2 : HAS(insn, x1) ? 1 : 0;
}

// Lane 8 m + r addresses row r of matrix m.
static void ldmatrix_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t count = matrices(insn);
    uint32_t lanes = count == 4 ? UINT32_MAX : (UINT32_C(1) << count * 8) - 1;
    uint8_t *place[PTX_LANES];
    uint32_t good = ptx_access(w, insn, 1, mask & lanes, 16, PTX_ACCESS_READ, place);
    for (uint32_t m = 0; m < count; m++) {
        uint64_t *out = ptx_value_lanes(w, &insn->operand[0].value[m]);
        EACH_LANE(lane, mask) {
            uint32_t pair = 0;
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t row = lane / 4, column = lane % 4 * 2 + i;
                uint32_t from = m * 8 + (HAS(insn, trans) ? column : row);
                uint16_t element = 0;
                if (good >> from & 1) {
                    memcpy(&element, place[from] + 2 * (HAS(insn, trans) ? row : column), 2);
                }
                pair |= (uint32_t)element << 16 * i;
            }
            out[lane] = pair;
        }
    }
}

ptx_handler ptx_select_ldmatrix(ptx_insn *insn) {
    uint32_t count = matrices(insn);
    return count && insn->type[0] == PTX_b16 && insn->operand[0].count == count ? ldmatrix_run
                                                                                : NULL;
}

static void stmatrix_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint32_t count = matrices(insn);
    uint32_t lanes = count == 4 ? UINT32_MAX : (UINT32_C(1) << count * 8) - 1;
    uint8_t *place[PTX_LANES];
    uint32_t good = ptx_access(w, insn, 0, mask & lanes, 16, PTX_ACCESS_WRITE, place);
    for (uint32_t m = 0; m < count; m++) {
        const uint64_t *from = ptx_value_lanes(w, &insn->operand[1].value[m]);
        EACH_LANE(lane, mask) {
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t row = lane / 4, column = lane % 4 * 2 + i;
                uint32_t to = m * 8 + (HAS(insn, trans) ? column : row);
                uint16_t element = (uint16_t)(from[lane] >> 16 * i);
                if (good >> to & 1) {
                    memcpy(place[to] + 2 * (HAS(insn, trans) ? row : column), &element, 2);
                }
            }
        }
    }
}

ptx_handler ptx_select_stmatrix(ptx_insn *insn) {
    uint32_t count = matrices(insn);
    return count && insn->type[0] == PTX_b16 && insn->operand[1].count == count ? stmatrix_run
                                                                                : NULL;
}

static void movmatrix_run(ptx_warp *w, const ptx_insn *insn, uint32_t mask) {
    uint64_t from[PTX_LANES];
    memcpy(from, ptx_lanes(w, insn, 1), sizeof from);
    EACH_LANE(lane, mask) {
        uint32_t pair = 0;
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t row = lane % 4 * 2 + i, column = lane / 4;
            pair |= (uint32_t)(from[row * 4 + column / 2] >> column % 2 * 16 & 0xffff) << 16 * i;
        }
        ptx_lanes(w, insn, 0)[lane] = pair;
    }
}

ptx_handler ptx_select_movmatrix(ptx_insn *insn) {
    return insn->type[0] == PTX_b16 ? movmatrix_run : NULL;
}
