// names.hpp: the suffixes of mnemonics and the special registers that the executor knows.
//
// The Python side reads both lists (sass_names in executor.cpp), so that each name is here alone.
#pragma once

#include <cstdint>

namespace sass {

// clang-format off
#define SASS_KINDS(DO) \
  DO(E) DO(U8) DO(S8) DO(U16) DO(S16) DO(32) DO(64) DO(128) DO(U32) DO(S32) DO(U64) DO(S64) DO(F32) DO(F64) \
  DO(X) DO(EX) DO(HI) DO(LO) DO(WIDE) DO(IADD) DO(MOV) DO(SHL) DO(L) DO(R) DO(W) DO(SX32) DO(SH) DO(LUT) DO(4A) DO(2A) \
  DO(AND) DO(OR) DO(XOR) DO(EQ) DO(NE) DO(LT) DO(LE) DO(GT) DO(GE) DO(NUM) DO(NAN) \
  DO(EQU) DO(NEU) DO(LTU) DO(LEU) DO(GTU) DO(GEU) DO(RN) DO(RZ) DO(RM) DO(RP) DO(TRUNC) DO(FLOOR) DO(CEIL) \
  DO(FTZ) DO(NTZ) DO(RCP) DO(RCP64H) DO(CLEAR) DO(DIV) DO(CONV) DO(ALL) DO(ANY) DO(IDX) DO(UP) DO(DOWN) DO(BFLY) \
  DO(ADD) DO(SUM) DO(MIN) DO(MAX) DO(INC) DO(DEC) DO(EXCH) DO(CAS) DO(POPC) DO(SYNC) DO(ARV) DO(RED) \
  DO(DEFER_BLOCKING) DO(COLLECTIVE) DO(EXCLUSIVE) DO(NOINC) DO(NODEC) DO(REL) DO(ABS) DO(STRONG) DO(WEAK) DO(GPU) \
  DO(SYS) DO(CTA) DO(SM) DO(SC) DO(VC) DO(CONSTANT) DO(LU) DO(EF) DO(EL) DO(NA) DO(LTC64B) DO(LTC128B) \
  DO(LTC256B) DO(IVALL) DO(MMA) DO(VIEW) DO(ASYNC) DO(U16x2) DO(S16x2) DO(ACC) DO(RESULT) DO(RELU)
#define SASS_SPECIALS(DO) \
  DO(SRZ) DO(SR_TID_X) DO(SR_TID_Y) DO(SR_TID_Z) DO(SR_CTAID_X) DO(SR_CTAID_Y) DO(SR_CTAID_Z) \
  DO(SR_LANEID) DO(SR_EQMASK) DO(SR_LTMASK) DO(SR_LEMASK) DO(SR_GTMASK) DO(SR_GEMASK) DO(SR_SWINHI) \
  DO(SR_CgaCtaId) DO(SR_CLOCKLO)
// clang-format on

#define SASS_ENUMERATOR(name) k##name,
enum Kind : uint32_t { SASS_KINDS(SASS_ENUMERATOR) kKinds };
enum Special : uint32_t { SASS_SPECIALS(SASS_ENUMERATOR) kSpecials };
#undef SASS_ENUMERATOR
static_assert(kKinds <= 128, "Instruction::kinds has 128 bits");

}  // namespace sass
