// One function per family of ptx_isa.def: the handler for an instruction whose types, modifiers and
// operands are known, or NULL if that combination is not modelled. May fill insn's decoded fields.
#ifndef PTXSIM_PTX_SELECT_H
#define PTXSIM_PTX_SELECT_H

#include "ptx_program.h"

#define OP(family, ...) ptx_handler ptx_select_##family(ptx_insn *insn);
#define SYNC OP
#define CONTROL OP
#include "ptx_isa.def"
#undef OP
#undef SYNC
#undef CONTROL

// Stores a comparison of setp or set, combined with their predicate operand.
void ptx_setp_result(ptx_warp *warp, const ptx_insn *insn, uint32_t mask, uint32_t bits);
// Floats of a family that has integers too.
ptx_handler ptx_float_arithmetic(ptx_insn *insn);
ptx_handler ptx_float_setp(ptx_insn *insn);

#endif
