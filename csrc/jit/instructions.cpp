// jit/instructions.cpp: what an instruction does, as machine code.
#include <algorithm>
#include <cstddef>

#include "jit/translator.hpp"
#include "tia/clocks.hpp"

namespace cule::jit {

namespace {

constexpr u32 kBcc = 0x90, kBcs = 0xB0, kBeq = 0xF0;

}  // namespace

// Whatever takes an operand and leaves its result in registers and flags.
bool Translator::calculate(u32 pc, const Opcode& op) {
  const Function f = op.function;
  const Target target = op.target;
  const bool is_sum = f == Function::kAdc || f == Function::kSbc;
  if (f == Function::kPass && target == Target::kNowhere) return false;
  if (is_sum && !is_binary_) {
    as_.compare(in_context(offsetof(Context, d)), 0);
    leave_if(kIfNotZero);
  }
  const Reg to = target == Target::kToX ? kX : target == Target::kToY ? kY : kA;
  if (f == Function::kPass) into_ = to;
  const Operand from = find(pc, op, false);
  into_ = kTemp0;
  if (from.kind == Operand::kForInterpreter) return false;
  switch (f) {
    case Function::kPass:
      to_register(to, from);
      if (target == Target::kToAX) as_.move(kX, kA);
      set_nz(to, false);
      return true;
    case Function::kOr:
    case Function::kAnd:
    case Function::kEor:
      alu8(f == Function::kOr ? kOrr : f == Function::kAnd ? kAndd : kXor, kA, from);
      set_nz(kA, as_.shows_nz());
      return true;
    case Function::kAdc:
    case Function::kSbc:
      add(f, from);
      return true;
    case Function::kBit:
      to_register(kTemp0, from);
      as_.test8(kTemp0, 0x40);
      as_.set_if(kIfNotZero, in_context(offsetof(Context, v)));
      as_.lea(kNz, {kTemp0, 0, kTemp0});
      as_.alu(kAndd, kNz, 0x100);
      as_.alu(kAndd, kTemp0, kA);
      as_.alu(kOrr, kNz, kTemp0);
      set_nz(kNz, false);
      now_.is_wide = true;
      return true;
    default: {
      const Reg reg = f == Function::kCompareA ? kA : f == Function::kCompareX ? kX : kY;
      if (from.kind == Operand::kConstant && from.value == 0) {
        set_nz(reg, false);
        now_.carry = 1;
        return true;
      }
      as_.move(kNz, reg);
      alu8(kSub, kNz, from);
      set_nz(kNz, as_.shows_nz());
      load_carry(kIfNotBelow);
      return true;
    }
  }
}

// ADC and SBC. The assembler borrows where the 6507 does not carry.
void Translator::add(Function function, const Operand& from) {
  const bool is_sum = function == Function::kAdc;
  if (now_.carry == (is_sum ? 0u : 1u)) {
    alu8(is_sum ? kAdd : kSub, kA, from);
  } else {
    if (now_.carry != kInRegister) {
      as_.set_carry();
    } else if (carry_flags_ == as_.flags()) {
      if (is_borrow_ == is_sum) as_.complement_carry();
    } else if (is_sum) {
      as_.carry_from(kCarry);
    } else {
      as_.alu8(kCmp, kCarry, 1);
    }
    alu8(is_sum ? kAdcc : kSbb, kA, from);
  }
  set_nz(kA, as_.shows_nz());
  load_carry(is_sum ? kIfBelow : kIfNotBelow);
  as_.set_if(kIfOverflow, in_context(offsetof(Context, v)));
  is_binary_ = true;
}

// are_flags_set: those of the host are as the register's lowest byte.
void Translator::set_nz(Reg reg, bool are_flags_set) {
  now_.nz = reg;
  now_.is_wide = false;
  nz_flags_ = are_flags_set ? as_.flags() : 0;
}

// The carry is as a condition that has just come about: kIfBelow or kIfNotBelow.
void Translator::load_carry(Condition c) {
  as_.set_if(c, kCarry);
  now_.carry = kInRegister;
  carry_flags_ = as_.flags();
  is_borrow_ = c == kIfNotBelow;
}

// INC, DEC and shifts, of a register, of RAM, or where the TIA shows nothing but the byte on the
// bus and has no register to write: alien takes its time so 64 times a frame.
bool Translator::modify(u32 pc, const Opcode& op) {
  const Function f = op.function;
  if (op.target != Target::kToMemory) {
    shift(f, register_of(op.source));
    return true;
  }
  const u32 low = byte(pc, 1);
  if (op.mode == Mode::kZeroPage && !(low & 0x80) && (low & 0x3F) > CXCLR && (low & 0xF) >= 0xE) {
    mark_beam(now_);
    as_.set(kNz, low & 0x3F);
    shift(f, kNz);
    write_tia(low & 0x3F, kNz);
    return true;
  }
  const Operand place = find_in_ram(pc, op);
  if (place.kind != Operand::kMemory) return false;
  as_.load8(kNz, place.mem);
  shift(f, kNz);
  as_.store8(place.mem, kNz);
  return true;
}

void Translator::shift(Function function, Reg reg) {
  const u32 carry = now_.carry;
  switch (function) {
    case Function::kInc:
      as_.increment8(reg);
      set_nz(reg, as_.shows_nz());
      return;
    case Function::kDec:
      as_.decrement8(reg);
      set_nz(reg, as_.shows_nz());
      return;
    case Function::kAsl:
      as_.alu8(kAdd, reg, reg);
      break;
    case Function::kLsr:
      as_.shift8_by_one(kShr, reg);
      break;
    default:
      carry == kInRegister ? as_.carry_from(kCarry)
      : carry == 1         ? as_.set_carry()
                           : as_.clear_carry();
      if (function == Function::kRol) {
        as_.alu8(kAdcc, reg, reg);
      } else {
        as_.shift8_by_one(kRcr, reg);
      }
      break;
  }
  set_nz(reg, as_.shows_nz());
  load_carry(kIfBelow);
}

Translator::Outcome Translator::store(u32 pc, const Opcode& op) {
  const Operand to = find(pc, op, true);
  Reg value = register_of(op.source);
  if (to.kind == Operand::kForInterpreter) return Outcome::kCannot;
  if (op.source == Source::kFromAX) {
    value = kTemp1;
    as_.move(kTemp1, kA);
    as_.alu(kAndd, kTemp1, kX);
  }
  if (to.kind == Operand::kMemory) {
    as_.store8(to.mem, value);
  } else if (to.kind == Operand::kTia) {
    write_tia(to.value, value);
    if (to.value == WSYNC) wait_for_line();
  } else if (to.kind == Operand::kDevice) {
    flush_entries();
    if (value != kTemp1) as_.move(kTemp1, value);
    as_.shift(kShl, kTemp1, kValueShift);
    as_.alu(kOrr, kTemp1, to.value);
    call_device(entries_.write, now_);
  } else {
    write_at_temp(value);
  }
  return Outcome::kGoesOn;
}

void Translator::write_tia(u32 reg, Reg value) {
  const u32 kept = register_row(reg).kept;
  const i32 entry = i32(now_.cycles << kTimeShift | reg << 8);
  as_.lea(kTemp0, kept == 0 ? Mem{kTime, entry} : Mem{kTime, entry, value});
  if (kept != 0 && kept != 0xFF) as_.alu(kAndd, kTemp0, ~0xFFu | kept);
  as_.store(log_at(now_), kTemp0);
  now_.entries += 1;
}

// To RAM or to a TIA register: at 0x80 and the lowest byte of kTemp0.
void Translator::write_at_temp(Reg value) {
  as_.alu(kCmp, kTemp0, 0x7F);
  const size_t elsewhere = as_.jump_later(kIfAbove);
  as_.store8({kRam, 0, kTemp0}, value);
  const size_t before = leave();
  set_aside(elsewhere, [this, value, before, now = now_] {
    as_.test8(kTemp0);
    const size_t to_tia = as_.jump_later(kIfSign);
    as_.alu(kAndd, kTemp0, 0x7F);
    as_.store8({kRam, 0, kTemp0}, value);
    const size_t done = as_.jump_later();
    as_.patch_here(to_tia);
    write_tia_at(kTemp0, value, before, now);
    as_.patch_here(done);
  });
}

// To the TIA at an address in a register. That and both temporary registers are lost. The entries
// of `now` stay pending.
void Translator::write_tia_at(Reg address, Reg value, size_t before, const Pending& now) {
  as_.alu(kAndd, address, 0x3F);
  as_.alu(kCmp, address, WSYNC);
  leave_if(kIfNotAbove, before);
  const Reg kept = address == kTemp0 ? kTemp1 : kTemp0;
  if (value != kept) as_.move(kept, value);
  as_.alu(kAndd, kept, {kTable, i32(offsetof(CodeTable, kept)), address, 2});
  as_.shift(kShl, address, 8);
  as_.lea(address, {kTime, i32(now.cycles << kTimeShift), address});
  as_.alu(kOrr, address, kept);
  as_.store(log_at(now), address);
  as_.alu64(kAdd, kLog, sizeof(LogEntry));
}

// The stall of WSYNC: time becomes the next multiple of a line, less the phase.
void Translator::wait_for_line() {
  constexpr u32 kInverse = 56512728;  // 2^32 / 76, rounded up: exact for n < 2^27
  static_assert(kCyclesPerLine == 76);
  as_.lea(kTemp0, {kTime, i32(now_.cycles << kTimeShift)});
  now_.cycles = 0;
  stretch_cycles_ += kCyclesPerLine - 1;
  as_.alu(kAdd, kTemp0, in_context(offsetof(Context, phase_rounding)));
  as_.multiply64(kTemp0, kTemp0, kInverse);
  as_.shift64(kShr, kTemp0, 32 + kTimeShift);
  as_.multiply(kTime, kTemp0, kCyclesPerLine << kTimeShift);
  as_.alu(kSub, kTime, in_context(offsetof(Context, phase)));
}

void Translator::set_flag(u32 opcode) {
  const u32 value = opcode >> 5 & 1;
  switch (opcode >> 6) {
    case 0:
      now_.carry = value;
      break;
    case 1:
      as_.store(in_context(offsetof(Context, pushed)), kPushedBits | value * kI);
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

// The condition of the host that holds where the flag that a branch asks for is set.
Condition Translator::test_flag(u32 opcode) {
  const bool has_nz = nz_flags_ == as_.flags();
  const bool is_wide = now_.is_wide && now_.nz == kNz;
  const auto test_nz = [&] {
    if (has_nz) return;
    as_.test8(now_.nz);
    if (!is_wide) nz_flags_ = as_.flags();
  };
  switch (opcode >> 6) {
    case 0:
      if (is_wide) {
        as_.test(now_.nz, 0x180);
        return kIfNotZero;
      }
      test_nz();
      return kIfSign;
    case 1:
      as_.compare(in_context(offsetof(Context, v)), 0);
      return kIfNotZero;
    case 2:
      if (carry_flags_ == as_.flags()) return is_borrow_ ? kIfNotBelow : kIfBelow;
      as_.test8(kCarry);
      return kIfNotZero;
    default:
      test_nz();
      return kIfZero;
  }
}

Translator::Outcome Translator::branch(u32 pc, u32 opcode) {
  const u32 next = (pc + 2) & 0xFFFF;
  const u32 target = (next + (byte(pc, 1) ^ 0x80) - 0x80) & 0xFFFF;
  if (!in_window(target) || !in_window(next)) return Outcome::kCannot;
  const bool on_set = opcode >> 5 & 1;
  const u32 taken_cycles = ((target ^ next) & 0xFF00) ? 2 : 1;
  pc_ = next;
  stretch_cycles_ += 2;
  const bool is_certain = (opcode == kBcc || opcode == kBcs) && now_.carry != kInRegister;
  if (is_certain && (now_.carry != 0) != on_set) return Outcome::kGoesOn;
  Pending p = now_;
  p.cycles += taken_cycles;
  if (is_certain) {
    flush(p);
    next_ = target;
    return Outcome::kEnds;
  }
  const Condition is_set = test_flag(opcode);
  const Condition taken = Condition(is_set ^ (on_set ? 0 : 1));
  if (target <= pc && has_code(target)) {
    const u32 flags = as_.flags();
    const size_t over = as_.jump_later(Condition(taken ^ 1));
    flush(p);
    jump_back(target);
    as_.patch_here(over, flags);
  } else {
    tasks_.push_back({target, pc, as_.jump_later(taken), p, stretch_, stretch_cycles_});
  }
  return Outcome::kGoesOn;
}

Translator::Outcome Translator::jump(u32 pc) {
  const u32 target = operand_word(pc);
  if (!in_window(target)) return Outcome::kCannot;
  flush(now_);
  next_ = target;
  return Outcome::kEnds;
}

Translator::Outcome Translator::jump_indirect(u32 pc) {
  const u32 pointer = operand_word(pc);
  if ((pointer & 0x1280) != 0x80 || (pointer & 0xFF) == 0xFF) return Outcome::kCannot;
  as_.load16(kTemp1, {kRam, i32(pointer & 0x7F)});
  as_.lea(kTemp0, {kTemp1, -i32(window_)});
  as_.alu(kCmp, kTemp0, piece_size_ - 1);
  leave_if(kIfAbove);
  flush(now_);
  jump_by_table(begin_in_bank());
  return Outcome::kEnds;
}

// To the place in kTemp1, which is kTemp0 behind an offset in the table.
void Translator::jump_by_table(u32 offset) {
  as_.alu(kCmp, kTime, in_context(offsetof(Context, quiet_end)));
  as_.jump(kIfNotBelow, entries_.interpret);
  as_.jump(Mem{kTable, i32(8 * offset + offsetof(CodeTable, code)), kTemp0, 3});
}

Translator::Outcome Translator::call(u32 pc) {
  const u32 target = operand_word(pc);
  if (!in_window(target)) return Outcome::kCannot;
  as_.lea(kTemp0, {kSp, -0x81});
  as_.alu(kCmp, kTemp0, 0x7E);
  leave_if(kIfAbove);
  as_.store16({kRam, -0x81, kSp}, (pc + 2) & 0xFFFF);
  as_.alu(kSub, kSp, 2);
  tasks_.push_back({(pc + 3) & 0xFFFF});
  flush(now_);
  next_ = target;
  return Outcome::kEnds;
}

// RTS. Its last read, of the byte before the next instruction, must be without effect.
Translator::Outcome Translator::come_back() {
  const u32 begin = fast_.begin;
  const u32 end = std::min(begin + fast_.size - begin_in_bank(), piece_size_ - 1);
  as_.lea(kTemp0, {kSp, -0x80});
  as_.alu(kCmp, kTemp0, 0x7D);
  leave_if(kIfAbove);
  as_.load16(kTemp1, {kRam, 1 - 0x80, kSp});
  as_.lea(kTemp0, {kTemp1, -i32(window_ + begin)});
  as_.alu(kCmp, kTemp0, end - begin);
  leave_if(kIfNotBelow);
  as_.alu(kAdd, kSp, 2);
  flush(now_);
  as_.alu(kAdd, kTemp1, 1);
  jump_by_table(begin_in_bank() + begin + 1);
  return Outcome::kEnds;
}

// To RAM, or to the TIA where the stack pointer has been sent there.
Translator::Outcome Translator::push(Function function) {
  const Reg value = function == Function::kPha ? kA : kTemp0;
  if (value == kTemp0) make_status();
  as_.test8(kSp);
  const size_t to_tia = as_.jump_later(kIfNotSign);
  as_.store8({kRam, -0x80, kSp}, value);
  const size_t before = leave();
  set_aside(to_tia, [this, value, before, now = now_] {
    as_.move(kTemp1, kSp);
    write_tia_at(kTemp1, value, before, now);
  });
  as_.decrement8(kSp);
  pc_ += 1;
  return Outcome::kGoesOn;
}

// The status byte as it is pushed, into kTemp0.
void Translator::make_status() {
  const Condition is_zero = test_flag(kBeq);
  as_.set_if(is_zero, kTemp1);
  as_.extend8(kTemp1, kTemp1);
  as_.load(kTemp0, in_context(offsetof(Context, v)));
  as_.shift(kShl, kTemp0, 6);
  as_.alu(kOrr, kTemp0, in_context(offsetof(Context, pushed)));
  as_.lea(kTemp0, {kTemp0, 0, kTemp1, 1});
  if (now_.carry == kInRegister) as_.alu(kOrr, kTemp0, kCarry);
  if (now_.carry == 1) as_.alu(kOrr, kTemp0, 1);
  if (now_.is_wide && now_.nz == kNz) {
    as_.test(now_.nz, 0x180);
    as_.set_if(kIfNotZero, kTemp1);
    as_.extend8(kTemp1, kTemp1);
    as_.shift(kShl, kTemp1, 7);
  } else {
    as_.move(kTemp1, now_.nz);
    as_.alu(kAndd, kTemp1, 0x80);
  }
  as_.alu(kOrr, kTemp0, kTemp1);
  if (is_binary_) return;
  as_.load(kTemp1, in_context(offsetof(Context, d)));
  as_.shift(kShl, kTemp1, 3);
  as_.alu(kOrr, kTemp0, kTemp1);
}

// The byte at the stack pointer is read first, to no effect but on the TIA. A program that pushes
// into ENABL pulls from TIA registers 12 to 15, which show fire buttons or nothing in one bit, and
// the opcode on the bus in the others.
Translator::Outcome Translator::pull_a() {
  constexpr u32 kOpcode = 0x68;
  as_.lea(kTemp0, {kSp, -0x80});
  as_.alu(kCmp, kTemp0, 0x7E);
  const size_t from_tia = as_.jump_later(kIfAbove);
  as_.load8(kA, {kRam, 1 - 0x80, kSp});
  const size_t before = leave();
  set_aside(from_tia, [this, before, now = now_] {
    as_.alu(kCmp, kSp, 0x7E);
    leave_if(kIfAbove, before);  // half in RAM
    as_.move(kTemp1, kSp);
    as_.alu(kAndd, kTemp1, 0x0F);
    as_.lea(kTemp0, {kTemp1, -0x0C});
    as_.alu(kCmp, kTemp0, 0x02);
    const size_t shows_more = as_.jump_later(kIfAbove);
    Pending p = now;
    mark_beam(p);
    mark_beam(p);
    as_.alu64(kAdd, kLog, 2 * sizeof(LogEntry));
    as_.set(kA, kOpcode & 0x3F);
    as_.alu(kCmp, kTemp1, 0x0C);
    const size_t shows_nothing = as_.jump_later(kIfNotZero);
    as_.load64(kTemp0, in_context(offsetof(Context, inputs)));
    as_.load8(kTemp0, {kTemp0, i32(offsetof(Inputs, fire) + 1)});
    as_.alu(kOrr, kA, kTemp0);
    const size_t done = as_.jump_later();
    as_.patch_here(shows_more);
    as_.move(kTemp1, kSp);
    as_.alu(kOrr, kTemp1, kOpcode << kValueShift);
    call_device(entries_.read, now);
    as_.shift(kShl, kTemp0, kValueShift);
    as_.lea(kTemp1, {kTemp0, 1, kSp});
    call_device(entries_.read, now);
    as_.move(kA, kTemp0);
    as_.patch_here(shows_nothing);
    as_.patch_here(done);
  });
  as_.increment8(kSp);
  set_nz(kA, false);
  pc_ += 1;
  return Outcome::kGoesOn;
}

}  // namespace cule::jit
