// The words of a dotted opcode: modifiers and types.
#ifndef PTXSIM_PTX_WORDS_H
#define PTXSIM_PTX_WORDS_H

#include <stdbool.h>
#include <stdint.h>

// Words whose presence something asks for. Hints (.L1::evict_first) have no entry: they change
// nothing. Not formatted: lists of macros would become stairs.
// clang-format off
#define PTX_WORDS(X) \
    X(rn) X(rz) X(rm) X(rp) X(rna) X(rni) X(rzi) X(rmi) X(rpi) X(ftz) X(sat) X(satfinite) \
    X(relu) X(approx) X(full) X(noftz) X(NaN) X(wide) X(lo) X(hi) X(cc) X(to) X(uni) X(sync) \
    X(aligned) X(trans) X(global) X(shared) X(local) X(param) X(v2) X(v4) X(v8) X(x1) X(x2) \
    X(x4) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(equ) X(neu) X(ltu) X(leu) X(gtu) X(geu) X(num) \
    X(nan) X(ls) X(hs) X(l) X(r) X(clamp) X(wrap) X(add) X(min) X(max) X(and) X(or) X(xor) \
    X(exch) X(cas) X(inc) X(dec) X(popc) X(all) X(any) X(ballot) X(up) X(down) X(bfly) X(idx) \
    X(shiftamt) X(f4e) X(b4e) X(rc8) X(ecl) X(ecr) X(rc16) X(finite) X(infinite) X(number) \
    X(notanumber) X(normal) X(subnormal) X(cache_hint)
// clang-format on

enum {
#define X(word) PTX_W_##word,
    PTX_WORDS(X)
#undef X
        PTX_WORD_COUNT
};

typedef struct ptx_words {
    uint64_t bits[2];
} ptx_words;

static inline bool ptx_has(const ptx_words *words, int word) {
    return words->bits[word >> 6] >> (word & 63) & 1;
}
#define HAS(insn, word) ptx_has(&(insn)->words, PTX_W_##word)

// name, bytes
// clang-format off
#define PTX_TYPE_LIST(X) \
    X(b8, 1) X(b16, 2) X(b32, 4) X(b64, 8) X(u8, 1) X(u16, 2) X(u32, 4) X(u64, 8) X(s8, 1) \
    X(s16, 2) X(s32, 4) X(s64, 8) X(f16, 2) X(bf16, 2) X(f32, 4) X(f64, 8) X(f16x2, 4) \
    X(bf16x2, 4) X(f32x2, 8) X(u16x2, 4) X(s16x2, 4) X(tf32, 4) X(e4m3x2, 2) X(e5m2x2, 2) \
    X(pred, 0)
// clang-format on

enum {
    PTX_NO_TYPE,
#define X(name, bytes) PTX_##name,
    PTX_TYPE_LIST(X)
#undef X
        PTX_TYPE_COUNT
};

extern const uint8_t ptx_type_bytes[PTX_TYPE_COUNT];
extern const char *const ptx_type_names[PTX_TYPE_COUNT];

#endif
