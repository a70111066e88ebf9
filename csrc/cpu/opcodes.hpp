// cpu/opcodes.hpp: the opcode table, from which every back end executes.
//
// An opcode is stages: how its address is made, what byte it starts from, what is done with it, and
// where the result is written. Source: NOTES.md 10.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

// How the address of the operand is made; kOwn: the function reads its operand bytes itself.
enum class Mode : u8 {
  kImplied,
  kImmediate,
  kZeroPage,
  kZeroPageX,
  kZeroPageY,
  kAbsolute,
  kAbsoluteX,
  kAbsoluteY,
  kIndirectX,
  kIndirectY,
  kOwn,
};

enum class Source : u8 { kLoaded, kFromA, kFromX, kFromY, kFromSp, kFromAX };
enum class Target : u8 { kNowhere, kToA, kToX, kToY, kToSp, kToAX, kToMemory };

// In order of how often they are executed, roughly. Lanes of a warp have no fast form from
// kFirstSlow on.
enum class Function : u8 {
  kPass,  // N and Z follow
  kKeep,  // no flag changes
  kInc,
  kDec,
  kOr,
  kAnd,
  kEor,
  kAdc,
  kSbc,
  kCompareA,
  kCompareX,
  kCompareY,
  kBit,
  kAsl,
  kLsr,
  kRol,
  kRor,
  kFlag,
  kBranch,
  kJump,
  kJsr,
  kRts,
  kPha,
  kPla,
  kPhp,
  kPlp,
  kRti,
  kBrk,
  kJumpIndirect,
  kSlo,
  kRla,
  kSre,
  kRra,
  kDcp,
  kIsc,
  kAnc,
  kAlr,
  kArr,
  kAne,
  kLxa,
  kSbx,
  kLas,
  kStoreHigh,
  kTas,
  kJam,
  kFirstSlow = kRti,
};

struct Operation {
  Function function;
  Source source = Source::kLoaded;
  Target target = Target::kNowhere;
};

struct Opcode {
  Mode mode;
  Function function;
  Source source;
  Target target;
  u32 cycles;  // without what branches and page crossings add

  CULE_HD constexpr bool stores() const { return target == Target::kToMemory; }
  // Whether a byte of memory is loaded.
  CULE_HD constexpr bool loads() const {
    return source == Source::kLoaded && mode != Mode::kImmediate;
  }
  CULE_HD constexpr bool in_zero_page() const {
    return mode == Mode::kZeroPage || mode == Mode::kZeroPageX || mode == Mode::kZeroPageY;
  }
  CULE_HD constexpr bool may_cross() const {
    return mode == Mode::kAbsoluteX || mode == Mode::kAbsoluteY || mode == Mode::kIndirectY;
  }
  CULE_HD constexpr bool pays_crossing() const { return may_cross() && !stores(); }
  // Whether the next instruction may be elsewhere than behind this one.
  CULE_HD constexpr bool transfers() const {
    return mode == Mode::kOwn && function != Function::kJam;
  }
  CULE_HD constexpr u32 size_bytes() const {
    switch (mode) {
      case Mode::kImplied:
        return 1;
      case Mode::kAbsolute:
      case Mode::kAbsoluteX:
      case Mode::kAbsoluteY:
        return 3;
      case Mode::kOwn:
        if (function == Function::kBranch) return 2;
        return function == Function::kJump || function == Function::kJsr ||
                       function == Function::kJumpIndirect
                   ? 3
                   : 1;
      default:
        return 2;
    }
  }
};

// What an opcode does, whatever its mode.
CULE_HD constexpr Operation find_operation(u32 opcode) {
  // clang-format off
  using F = Function;
  using S = Source;
  using T = Target;
  constexpr Operation ADC{F::kAdc}, SBC{F::kSbc}, CMP{F::kCompareA}, CPX{F::kCompareX};
  constexpr Operation CPY{F::kCompareY}, BIT{F::kBit}, NOP{F::kKeep};
  constexpr Operation ANC{F::kAnc}, ALR{F::kAlr}, ARR{F::kArr}, ANE{F::kAne}, LXA{F::kLxa};
  constexpr Operation SBX{F::kSbx}, LAS{F::kLas};
  constexpr Operation LDA{F::kPass, S::kLoaded, T::kToA}, LDX{F::kPass, S::kLoaded, T::kToX};
  constexpr Operation LDY{F::kPass, S::kLoaded, T::kToY}, LAX{F::kPass, S::kLoaded, T::kToAX};
  constexpr Operation ORA{F::kOr, S::kLoaded, T::kToA}, AND{F::kAnd, S::kLoaded, T::kToA};
  constexpr Operation EOR{F::kEor, S::kLoaded, T::kToA};
  constexpr Operation ASL{F::kAsl, S::kLoaded, T::kToMemory}, LSR{F::kLsr, S::kLoaded, T::kToMemory};
  constexpr Operation ROL{F::kRol, S::kLoaded, T::kToMemory}, ROR{F::kRor, S::kLoaded, T::kToMemory};
  constexpr Operation INC{F::kInc, S::kLoaded, T::kToMemory}, DEC{F::kDec, S::kLoaded, T::kToMemory};
  constexpr Operation SLO{F::kSlo, S::kLoaded, T::kToMemory}, RLA{F::kRla, S::kLoaded, T::kToMemory};
  constexpr Operation SRE{F::kSre, S::kLoaded, T::kToMemory}, RRA{F::kRra, S::kLoaded, T::kToMemory};
  constexpr Operation DCP{F::kDcp, S::kLoaded, T::kToMemory}, ISC{F::kIsc, S::kLoaded, T::kToMemory};
  constexpr Operation STA{F::kKeep, S::kFromA, T::kToMemory}, STX{F::kKeep, S::kFromX, T::kToMemory};
  constexpr Operation STY{F::kKeep, S::kFromY, T::kToMemory}, SAX{F::kKeep, S::kFromAX, T::kToMemory};
  constexpr Operation SHA{F::kStoreHigh, S::kFromAX, T::kToMemory};
  constexpr Operation SHX{F::kStoreHigh, S::kFromX, T::kToMemory};
  constexpr Operation SHY{F::kStoreHigh, S::kFromY, T::kToMemory};
  constexpr Operation TAS{F::kTas, S::kFromAX, T::kToMemory};
  constexpr Operation TAX{F::kPass, S::kFromA, T::kToX}, TXA{F::kPass, S::kFromX, T::kToA};
  constexpr Operation TAY{F::kPass, S::kFromA, T::kToY}, TYA{F::kPass, S::kFromY, T::kToA};
  constexpr Operation TSX{F::kPass, S::kFromSp, T::kToX}, TXS{F::kKeep, S::kFromX, T::kToSp};
  constexpr Operation INX{F::kInc, S::kFromX, T::kToX}, DEX{F::kDec, S::kFromX, T::kToX};
  constexpr Operation INY{F::kInc, S::kFromY, T::kToY}, DEY{F::kDec, S::kFromY, T::kToY};
  constexpr Operation PHA{F::kPha, S::kFromA}, PHP{F::kPhp, S::kFromA};
  constexpr Operation PLA{F::kPla, S::kFromA}, PLP{F::kPlp, S::kFromA};
  constexpr Operation FLG{F::kFlag, S::kFromA};    // CLC SEC CLI SEI CLV CLD SED
  constexpr Operation BRA{F::kBranch, S::kFromA};  // BPL BMI BVC BVS BCC BCS BNE BEQ
  constexpr Operation JMP{F::kJump, S::kFromA}, JPI{F::kJumpIndirect, S::kFromA};  // JMP ()
  constexpr Operation JSR{F::kJsr, S::kFromA}, RTS{F::kRts, S::kFromA};
  constexpr Operation RTI{F::kRti, S::kFromA}, BRK{F::kBrk, S::kFromA}, JAM{F::kJam, S::kFromA};
  constexpr Operation kMatrix[256] = {
      BRK, ORA, JAM, SLO, NOP, ORA, ASL, SLO, PHP, ORA, ASL, ANC, NOP, ORA, ASL, SLO,
      BRA, ORA, JAM, SLO, NOP, ORA, ASL, SLO, FLG, ORA, NOP, SLO, NOP, ORA, ASL, SLO,
      JSR, AND, JAM, RLA, BIT, AND, ROL, RLA, PLP, AND, ROL, ANC, BIT, AND, ROL, RLA,
      BRA, AND, JAM, RLA, NOP, AND, ROL, RLA, FLG, AND, NOP, RLA, NOP, AND, ROL, RLA,
      RTI, EOR, JAM, SRE, NOP, EOR, LSR, SRE, PHA, EOR, LSR, ALR, JMP, EOR, LSR, SRE,
      BRA, EOR, JAM, SRE, NOP, EOR, LSR, SRE, FLG, EOR, NOP, SRE, NOP, EOR, LSR, SRE,
      RTS, ADC, JAM, RRA, NOP, ADC, ROR, RRA, PLA, ADC, ROR, ARR, JPI, ADC, ROR, RRA,
      BRA, ADC, JAM, RRA, NOP, ADC, ROR, RRA, FLG, ADC, NOP, RRA, NOP, ADC, ROR, RRA,
      NOP, STA, NOP, SAX, STY, STA, STX, SAX, DEY, NOP, TXA, ANE, STY, STA, STX, SAX,
      BRA, STA, JAM, SHA, STY, STA, STX, SAX, TYA, STA, TXS, TAS, SHY, STA, SHX, SHA,
      LDY, LDA, LDX, LAX, LDY, LDA, LDX, LAX, TAY, LDA, TAX, LXA, LDY, LDA, LDX, LAX,
      BRA, LDA, JAM, LAX, LDY, LDA, LDX, LAX, FLG, LDA, TSX, LAS, LDY, LDA, LDX, LAX,
      CPY, CMP, NOP, DCP, CPY, CMP, DEC, DCP, INY, CMP, DEX, SBX, CPY, CMP, DEC, DCP,
      BRA, CMP, JAM, DCP, NOP, CMP, DEC, DCP, FLG, CMP, NOP, DCP, NOP, CMP, DEC, DCP,
      CPX, SBC, NOP, ISC, CPX, SBC, INC, ISC, INX, SBC, NOP, SBC, CPX, SBC, INC, ISC,
      BRA, SBC, JAM, ISC, NOP, SBC, INC, ISC, FLG, SBC, NOP, ISC, NOP, SBC, INC, ISC,
  };
  // clang-format on
  return kMatrix[opcode];
}

// The mode depends on the lower five bits, with few exceptions.
CULE_HD constexpr Mode find_mode(u32 opcode, Function function) {
  constexpr Mode kIndirect[2] = {Mode::kIndirectX, Mode::kIndirectY};
  constexpr Mode kZeroPages[2] = {Mode::kZeroPage, Mode::kZeroPageX};
  constexpr Mode kAbsolutes[2] = {Mode::kAbsolute, Mode::kAbsoluteX};
  switch (function) {
    case Function::kBranch:
    case Function::kJump:
    case Function::kJumpIndirect:
    case Function::kJsr:
    case Function::kRts:
    case Function::kRti:
    case Function::kBrk:
    case Function::kJam:
      return Mode::kOwn;
    default:
      break;
  }
  const bool is_indexed = opcode & 0x10;
  const bool is_odd = opcode & 1;
  const bool by_y = (opcode & 0xD6) == 0x96;  // STX SAX LDX LAX SHX SHA
  switch (opcode >> 2 & 3) {
    case 0:
      return is_odd ? kIndirect[is_indexed] : Mode::kImmediate;
    case 1:
      return by_y ? Mode::kZeroPageY : kZeroPages[is_indexed];
    case 2:
      if (!is_odd) return Mode::kImplied;
      return is_indexed ? Mode::kAbsoluteY : Mode::kImmediate;
    default:
      return by_y ? Mode::kAbsoluteY : kAbsolutes[is_indexed];
  }
}

CULE_HD constexpr u32 find_cycles(const Opcode& o) {
  constexpr u8 kOfMode[] = {2, 2, 3, 4, 4, 4, 4, 4, 6, 5, 2};
  switch (o.function) {
    case Function::kBrk:
      return 7;
    case Function::kJsr:
    case Function::kRts:
    case Function::kRti:
      return 6;
    case Function::kJumpIndirect:
      return 5;
    case Function::kPla:
    case Function::kPlp:
      return 4;
    case Function::kPha:
    case Function::kPhp:
    case Function::kJump:
      return 3;
    default:
      return kOfMode[u32(o.mode)] + (o.stores() && o.may_cross() ? 1 : 0) +
             (o.stores() && o.loads() ? 2 : 0);
  }
}

CULE_HD constexpr Opcode make_opcode(u32 opcode) {
  const Operation operation = find_operation(opcode);
  Opcode o{find_mode(opcode, operation.function), operation.function, operation.source,
           operation.target, 0};
  if (o.mode == Mode::kImplied && o.source == Source::kLoaded) {  // on the accumulator
    o.source = Source::kFromA;
    if (o.stores()) o.target = Target::kToA;
  }
  o.cycles = opcode == 0xA7 ? 4 : find_cycles(o);  // LAX zp
  return o;
}

struct OpcodeTable {
  Opcode opcode[256];
};

CULE_HD constexpr OpcodeTable make_opcode_table() {
  OpcodeTable table{};
  for (u32 i = 0; i < 256; ++i) table.opcode[i] = make_opcode(i);
  return table;
}

// Of the host; device code, which has no such variable, calls make_opcode().
inline constexpr OpcodeTable kOpcodeTable = make_opcode_table();

}  // namespace cule
