// jit/instructions.cpp: what an instruction does, as machine code.
#include <algorithm>
#include <cstddef>

#include "jit/translator.hpp"
#include "tia/clocks.hpp"

namespace cule::jit {

// Whatever takes an operand and leaves its result in registers and flags.
bool Translator::calculate(u32 pc, u32 op) {
  const Function f = micro_function(op);
  const bool is_sum = f == Function::kAdc || f == Function::kSbc;
  if (is_sum && !is_binary_) {
    as_.alu(kCmp, in_context(offsetof(Context, d)), 0);
    leave_if(kIfNotZero);
  }
  const Operand from = find(pc, op, false);
  if (from.kind == Operand::kForInterpreter) return false;
  switch (f) {
    case Function::kPass: {
      const Target target = micro_target(op);
      if (target == Target::kNowhere) return false;
      const Reg to = target == Target::kToX ? kX : target == Target::kToY ? kY : kA;
      to_register(to, from);
      if (target == Target::kToAX) as_.move(kX, kA);
      now_.nz = to;
      return true;
    }
    case Function::kOr:
    case Function::kAnd:
    case Function::kEor:
      alu8(f == Function::kOr ? kOrr : f == Function::kAnd ? kAndd : kXor, kA, from);
      now_.nz = kA;
      return true;
    case Function::kAdc:
      as_.carry_from_bit0(kCarry);
      alu8(kAdcc, kA, from);
      as_.set_if(kIfBelow, kCarry);
      as_.set_if(kIfOverflow, in_context(offsetof(Context, v)));
      now_.nz = kA;
      is_binary_ = true;
      return true;
    case Function::kSbc:
      as_.alu8(kCmp, kCarry, 1);  // the processor here borrows where the 6507 does not carry
      alu8(kSbb, kA, from);
      as_.set_if(kIfNotBelow, kCarry);
      as_.set_if(kIfOverflow, in_context(offsetof(Context, v)));
      now_.nz = kA;
      is_binary_ = true;
      return true;
    case Function::kBit:
      to_register(kRax, from);
      as_.move(kRcx, kRax);
      as_.shift(kShr, kRcx, 6);
      as_.alu(kAndd, kRcx, 1);
      as_.store(in_context(offsetof(Context, v)), kRcx);
      as_.move(kNz, kRax);
      as_.alu(kAndd, kNz, 0x80);
      as_.alu(kAdd, kNz, kNz);
      as_.alu(kAndd, kRax, kA);
      as_.alu(kOrr, kNz, kRax);
      now_.nz = kNz;
      return true;
    default: {
      const Reg reg = f == Function::kCompareA ? kA : f == Function::kCompareX ? kX : kY;
      as_.move(kNz, reg);
      alu8(kSub, kNz, from);
      as_.set_if(kIfNotBelow, kCarry);
      now_.nz = kNz;
      return true;
    }
  }
}

// INC, DEC and shifts, of a register or of RAM.
bool Translator::modify(u32 pc, u32 op) {
  const Function f = micro_function(op);
  if (micro_target(op) != Target::kToMemory) {
    const Reg reg = register_of(micro_source(op));
    shift(f, reg);
    now_.nz = reg;
    return true;
  }
  const Operand place = find_in_ram(pc, op);
  if (place.kind != Operand::kMemory) return false;
  as_.load8(kNz, place.mem);
  shift(f, kNz);
  as_.store8(place.mem, kNz);
  now_.nz = kNz;
  return true;
}

void Translator::shift(Function function, Reg reg) {
  switch (function) {
    case Function::kInc:
      as_.increment8(reg);
      return;
    case Function::kDec:
      as_.decrement8(reg);
      return;
    case Function::kAsl:
      as_.alu8(kAdd, reg, reg);
      break;
    case Function::kLsr:
      as_.shift8_by_one(kShr, reg);
      break;
    case Function::kRol:
      as_.carry_from_bit0(kCarry);
      as_.alu8(kAdcc, reg, reg);
      break;
    default:
      as_.carry_from_bit0(kCarry);
      as_.shift8_by_one(kRcr, reg);
      break;
  }
  as_.set_if(kIfBelow, kCarry);
}

Translator::Outcome Translator::store(u32 pc, u32 op) {
  const Operand to = find(pc, op, true);
  Reg value = register_of(micro_source(op));
  if (to.kind == Operand::kForInterpreter) return Outcome::kCannot;
  if (micro_source(op) == Source::kFromAX) {
    value = kRcx;
    as_.move(kRcx, kA);
    as_.alu(kAndd, kRcx, kX);
  }
  if (to.kind == Operand::kMemory) {
    as_.store8(to.mem, value);
  } else if (to.kind == Operand::kTia) {
    write_tia(to.value, value);
    if (to.value == kWsync) wait_for_line();
  } else if (to.kind == Operand::kDevice) {
    flush_entries();
    as_.move(kRdx, value);
    as_.set(kRcx, to.value);
    call_device(entries_.write);
  } else {
    write_tia_at_rax(value);
  }
  return Outcome::kGoesOn;
}

void Translator::write_tia(u32 reg, Reg value) {
  as_.lea(kRax, {kTime, i32(now_.cycles << kTimeShift | reg << 8)});
  as_.alu(kOrr, kRax, value);
  as_.store({kLog, i32(now_.entries * sizeof(LogEntry))}, kRax);
  now_.entries += 1;
}

// To RAM or to a TIA register, as bit 7 of the address in rax says.
void Translator::write_tia_at_rax(Reg value) {
  as_.test8(kRax, kRax);
  const size_t to_ram = as_.jump_later(kIfSign);
  as_.alu(kAndd, kRax, 0x3F);
  as_.alu(kCmp, kRax, kWsync);
  leave_if(kIfNotAbove);
  as_.shift(kShl, kRax, 8);
  as_.alu(kOrr, kRax, value);
  as_.alu(kOrr, kRax, kTime);
  if (now_.cycles != 0) as_.alu(kAdd, kRax, now_.cycles << kTimeShift);
  as_.store({kLog, i32(now_.entries * sizeof(LogEntry))}, kRax);
  as_.alu64(kAdd, kLog, sizeof(LogEntry));
  const size_t done = as_.jump_later();
  as_.patch_here(to_ram);
  as_.alu(kAndd, kRax, 0x7F);
  as_.store8({kRam, 0, kRax}, value);
  as_.patch_here(done);
}

// The stall of WSYNC: time becomes the next multiple of a line, less the phase.
void Translator::wait_for_line() {
  constexpr u32 kInverse = 56512728;  // 2^32 / 76, rounded up: exact for n < 2^27
  static_assert(kCyclesPerLine == 76);
  if (now_.cycles != 0) as_.alu(kAdd, kTime, now_.cycles << kTimeShift);
  now_.cycles = 0;
  block_cycles_ += kCyclesPerLine - 1;
  as_.shift(kShr, kTime, kTimeShift);
  as_.alu(kAdd, kTime, in_context(offsetof(Context, phase_rounding)));
  as_.multiply64(kTime, kTime, kInverse);
  as_.shift64(kShr, kTime, 32);
  as_.multiply(kTime, kTime, kCyclesPerLine);
  as_.alu(kSub, kTime, in_context(offsetof(Context, phase)));
  as_.shift(kShl, kTime, kTimeShift);
}

void Translator::set_flag(u32 opcode) {
  const u32 value = opcode >> 5 & 1;
  switch (opcode >> 6) {
    case 0:
      as_.set(kCarry, value);
      break;
    case 1:
      as_.store(in_context(offsetof(Context, i)), value);
      break;
    case 2:
      as_.store(in_context(offsetof(Context, v)), u32(0));
      break;
    default:
      as_.store(in_context(offsetof(Context, d)), value);
      is_binary_ = value == 0;
      break;
  }
}

Translator::Outcome Translator::branch(u32 pc, u32 opcode) {
  const u32 next = (pc + 2) & 0xFFFF;
  const u32 target = (next + (byte(pc, 1) ^ 0x80) - 0x80) & 0xFFFF;
  if (!in_window(target) || !in_window(next)) return Outcome::kCannot;
  const bool on_set = opcode >> 5 & 1;
  Condition taken = on_set ? kIfNotZero : kIfZero;
  switch (opcode >> 6) {
    case 0:
      as_.test(now_.nz, 0x180);
      break;
    case 1:
      as_.alu(kCmp, in_context(offsetof(Context, v)), 0);
      break;
    case 2:
      as_.test8(kCarry, kCarry);
      break;
    default:
      as_.test8(now_.nz, now_.nz);
      taken = on_set ? kIfZero : kIfNotZero;
      break;
  }
  Pending p = now_;
  p.cycles += ((target ^ next) & 0xFF00) ? 2 : 1;
  block_cycles_ += 2;
  exits_.push_back({{as_.jump_later(taken)}, p, target, false});
  wanted_.push_back(target);
  pc_ = next;
  return Outcome::kGoesOn;
}

Translator::Outcome Translator::jump(u32 pc) {
  const u32 target = operand_word(pc);
  if (!in_window(target)) return Outcome::kCannot;
  jump_to(target);
  return Outcome::kEnds;
}

Translator::Outcome Translator::jump_indirect(u32 pc) {
  const u32 pointer = operand_word(pc);
  if ((pointer & 0x1280) != 0x80 || (pointer & 0xFF) == 0xFF) return Outcome::kCannot;
  as_.load16(kRcx, {kRam, i32(pointer & 0x7F)});
  as_.move(kRax, kRcx);
  as_.alu(kXor, kRax, window_);
  as_.alu(kCmp, kRax, piece_size_ - 1);
  leave_if(kIfAbove);
  flush(now_);
  as_.jump(Mem{kTable, i32(8 * begin_in_bank()), kRax, 3});
  return Outcome::kEnds;
}

Translator::Outcome Translator::call(u32 pc) {
  const u32 target = operand_word(pc);
  if (!in_window(target)) return Outcome::kCannot;
  as_.lea(kRax, {kSp, -0x81});
  as_.alu(kCmp, kRax, 0x7E);
  leave_if(kIfAbove);
  as_.store16({kRam, -0x81, kSp}, (pc + 2) & 0xFFFF);
  as_.alu(kSub, kSp, 2);
  wanted_.push_back((pc + 3) & 0xFFFF);
  jump_to(target);
  return Outcome::kEnds;
}

// RTS. Its last read, of the byte before the next instruction, must be without effect.
Translator::Outcome Translator::come_back() {
  const u32 end = fast_.begin + fast_.size - begin_in_bank();
  as_.lea(kRax, {kSp, -0x80});
  as_.alu(kCmp, kRax, 0x7D);
  leave_if(kIfAbove);
  as_.load16(kRcx, {kRam, 1 - 0x80, kSp});
  as_.move(kRax, kRcx);
  as_.alu(kXor, kRax, window_);
  if (fast_.begin != 0) {
    as_.alu(kCmp, kRax, fast_.begin);
    leave_if(kIfBelow);
  }
  as_.alu(kCmp, kRax, std::min(end, piece_size_ - 1));
  leave_if(kIfNotBelow);
  as_.alu(kAdd, kSp, 2);
  flush(now_);
  as_.alu(kAdd, kRcx, 1);
  as_.jump(Mem{kTable, i32(8 * begin_in_bank() + 8), kRax, 3});
  return Outcome::kEnds;
}

// To RAM, or to the TIA where the stack pointer has been sent there.
Translator::Outcome Translator::push(Function function) {
  const Reg value = function == Function::kPha ? kA : kRax;
  as_.test8(kSp, kSp);
  const size_t to_ram = as_.jump_later(kIfSign);
  as_.move(kRcx, kSp);
  as_.alu(kAndd, kRcx, 0x3F);
  as_.alu(kCmp, kRcx, kWsync);
  leave_if(kIfNotAbove);
  if (value == kRax) make_status();
  as_.move(kRcx, kSp);
  as_.alu(kAndd, kRcx, 0x3F);
  as_.shift(kShl, kRcx, 8);
  as_.alu(kOrr, kRcx, value);
  as_.alu(kOrr, kRcx, kTime);
  as_.alu(kAdd, kRcx, now_.cycles << kTimeShift);
  as_.store({kLog, i32(now_.entries * sizeof(LogEntry))}, kRcx);
  as_.alu64(kAdd, kLog, sizeof(LogEntry));
  const size_t done = as_.jump_later();
  as_.patch_here(to_ram);
  if (value == kRax) make_status();
  as_.store8({kRam, -0x80, kSp}, value);
  as_.patch_here(done);
  as_.decrement8(kSp);
  pc_ += 1;
  return Outcome::kGoesOn;
}

// The status byte as it is pushed, into eax.
void Translator::make_status() {
  constexpr u32 kPushed = 0x30;
  as_.lea(kRax, {kCarry, kPushed});
  const auto add = [this](u32 shift) {
    as_.shift(kShl, kRcx, shift);
    as_.alu(kOrr, kRax, kRcx);
  };
  as_.test8(now_.nz, now_.nz);
  as_.set_if(kIfZero, kRcx);
  as_.extend8(kRcx, kRcx);
  add(1);
  as_.test(now_.nz, 0x180);
  as_.set_if(kIfNotZero, kRcx);
  as_.extend8(kRcx, kRcx);
  add(7);
  as_.load(kRcx, in_context(offsetof(Context, i)));
  add(2);
  as_.load(kRcx, in_context(offsetof(Context, d)));
  add(3);
  as_.load(kRcx, in_context(offsetof(Context, v)));
  add(6);
}

// The byte at the stack pointer is read first, to no effect but on the TIA.
Translator::Outcome Translator::pull_a() {
  constexpr u32 kOpcode = 0x68;
  flush_entries();
  as_.lea(kRax, {kSp, -0x80});
  as_.alu(kCmp, kRax, 0x7E);
  const size_t from_tia = as_.jump_later(kIfAbove);
  as_.load8(kA, {kRam, 1 - 0x80, kSp});
  const size_t done = as_.jump_later();
  as_.patch_here(from_tia);
  as_.alu(kCmp, kSp, 0x7E);
  // Half in RAM. The entries are written already: leave with the log as it is.
  const size_t is_inside = as_.jump_later(kIfNotAbove);
  exits_.push_back({{as_.jump_later()}, before_, pc_, true});
  exits_.back().pending.entries = 0;
  as_.patch_here(is_inside);
  as_.move(kRcx, kSp);
  as_.set(kRdx, kOpcode);
  call_device(entries_.read);
  as_.lea(kRcx, {kSp, 1});
  as_.move(kRdx, kRax);
  call_device(entries_.read);
  as_.move(kA, kRax);
  as_.patch_here(done);
  as_.increment8(kSp);
  now_.nz = kA;
  pc_ += 1;
  return Outcome::kGoesOn;
}

}  // namespace cule::jit
