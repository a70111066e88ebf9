// jit/operands.cpp: where an instruction finds what it works on.
//
// In: an addressing mode. Out: code that has the operand at hand, or leaves to the interpreter, and
// the word where it is.
#include <algorithm>
#include <cstddef>

#include "jit/translator.hpp"

namespace cule::jit {

namespace {

// INPT0 to INPT3.
constexpr u32 kPaddleBits = 0x108C, kPaddle = 0x08;
bool shows_paddle(u32 address) { return (address & kPaddleBits) == kPaddle; }
// INPT4 and INPT5.
bool shows_fire(u32 address) { return (address & 0x108E) == 0x0C; }
// SWCHA and SWCHB.
bool shows_switches(u32 address) { return (address & 0x1285) == 0x280; }

}  // namespace

// Operand of a load or store. What a device answers is read at once, into kTemp0 or into_.
Translator::Operand Translator::find(u32 pc, const Opcode& op, bool stores) {
  const u32 low = byte(pc, 1);
  switch (op.mode) {
    case Mode::kImplied:
      return {Operand::kRegister, 0, register_of(op.source)};
    case Mode::kImmediate:
      return {Operand::kConstant, low};
    case Mode::kZeroPage:
      return find_absolute(low, low, stores);
    case Mode::kZeroPageX:
      return find_zero_page(low, low, kX, stores);
    case Mode::kZeroPageY:
      return find_zero_page(low, low, kY, stores);
    case Mode::kAbsolute:
      return find_absolute(operand_word(pc), byte(pc, 2), stores);
    case Mode::kAbsoluteX:
      return find_indexed(operand_word(pc), kX, op.pays_crossing(), stores);
    case Mode::kAbsoluteY:
      return find_indexed(operand_word(pc), kY, op.pays_crossing(), stores);
    case Mode::kIndirectX:
      return stores ? Operand{Operand::kForInterpreter} : find_indirect_x(low);
    case Mode::kIndirectY:
      return stores || !op.pays_crossing() ? Operand{Operand::kForInterpreter}
                                           : find_indirect_y(low);
    default:
      return {Operand::kForInterpreter};
  }
}

Translator::Operand Translator::find_absolute(u32 address, u32 open_bus, bool stores) {
  if (address & 0x1000) {
    const u32 o = address & 0xFFF;
    // Below the fast region are registers and RAM of the cartridge; above it, hotspots.
    if (o >= fast_.begin + fast_.size) return {Operand::kForInterpreter};
    if (o >= fast_.begin) {
      if (stores) return {Operand::kForInterpreter};
      if (!is_fixed(address)) return find_in_slice(o, kNoReg);
      return {Operand::kConstant, cart_.image[image_offset(address)]};
    }
    if (stores) return {Operand::kDevice, address};
  } else if ((address & 0x280) == 0x80) {
    return {Operand::kMemory, 0, kNoReg, {kRam, i32(address & 0x7F)}};
  } else if (stores) {
    if (!(address & 0x80) && (address & 0x3F) == VSYNC) return {Operand::kForInterpreter};
    const bool is_logged = !(address & 0x80) && (address & 0x3F) >= WSYNC;
    return {is_logged ? Operand::kTia : Operand::kDevice, is_logged ? address & 0x3F : address};
  }
  if (shows_paddle(address)) {
    as_.set(kTemp1, address);
    read_paddle(open_bus);
  } else if (shows_fire(address)) {
    mark_beam(now_);
    as_.load64(kTemp0, in_context(offsetof(Context, inputs)));
    as_.load8(kTemp0, {kTemp0, i32(offsetof(Inputs, fire) + (address & 1))});
    if (open_bus & 0x3F) as_.alu(kOrr, kTemp0, open_bus & 0x3F);
  } else if (shows_switches(address)) {
    as_.load64(kTemp0, in_context(offsetof(Context, inputs)));
    as_.load8(kTemp0,
              {kTemp0, i32(address & 2 ? offsetof(Inputs, swchb) : offsetof(Inputs, swcha))});
  } else {
    flush_entries();
    as_.set(kTemp1, address | open_bus << kValueShift);
    call_device(entries_.read, now_);
  }
  return {Operand::kRegister, 0, kTemp0};
}

// As Machine::read_tia records a read.
void Translator::mark_beam(Pending& p) {
  as_.lea(kTemp0, {kTime, i32(p.cycles << kTimeShift | kBeamMark << 8)});
  as_.store(log_at(p), kTemp0);
  p.entries += 1;
}

// INPT0 to INPT3, as Machine::read_tia: a game with paddles reads them in most lines. The address
// is in kTemp1; what is read comes into kTemp0.
void Translator::read_paddle(u32 open_bus) {
  mark_beam(now_);
  as_.shift(kShr, kTemp0, kTimeShift);
  as_.alu(kAndd, kTemp1, 3);
  static_assert(sizeof(u32) == 1u << 2);
  as_.alu(kCmp, kTemp0, {kContext, i32(offsetof(Context, charge_ends)), kTemp1, 2});
  as_.set_if(kIfAbove, kTemp0);
  as_.extend8(kTemp0, kTemp0);
  as_.shift(kShl, kTemp0, 7);
  if (open_bus & 0x3F) as_.alu(kOrr, kTemp0, open_bus & 0x3F);
}

// Address, and open_bus or value, are in kTemp1; what is read comes into kTemp0. The entries of
// `now` stay pending.
void Translator::call_device(u64 access, const Pending& now) {
  const u32 bytes = now.entries * u32(sizeof(LogEntry));
  if (bytes != 0) as_.alu64(kAdd, kLog, bytes);
  as_.lea(kTemp0, {kTime, i32(now.cycles << kTimeShift)});
  as_.call(access);
  if (bytes != 0) as_.alu64(kSub, kLog, bytes);
}

// RAM or TIA at (base + index) & 0xFF.
Translator::Operand Translator::find_zero_page(u32 base, u32 open_bus, Reg index, bool stores) {
  if (!stores && shows_paddle(base)) return find_paddle(base, open_bus, index);
  as_.lea(kTemp0, {index, i32(base) - 0x80});
  if (stores) return {Operand::kZeroPage};
  as_.alu(kCmp, kTemp0, 0x7F);
  const size_t elsewhere = as_.jump_later(kIfAbove);
  as_.load8(into_, {kRam, 0, kTemp0});
  set_aside(elsewhere, [this, open_bus, to = into_, now = now_] {
    as_.extend8(kTemp1, kTemp0);
    as_.alu(kXor, kTemp1, 0x80);
    read_zero_page_at_temp(open_bus, to, now);
  });
  return {Operand::kRegister, 0, into_};
}

// As find_zero_page(); the address is in kTemp1.
void Translator::read_zero_page_at_temp(u32 open_bus, Reg to, const Pending& now) {
  as_.test8(kTemp1);
  const size_t from_device = as_.jump_later(kIfNotSign);
  as_.load8(to, {kRam, -0x80, kTemp1});
  const size_t done = as_.jump_later();
  as_.patch_here(from_device);
  if (open_bus != 0) as_.alu(kOrr, kTemp1, open_bus << kValueShift);
  call_device(entries_.read, now);
  if (to != kTemp0) as_.move(to, kTemp0);
  as_.patch_here(done);
}

// The same where it is likely that one of the paddles' registers is read.
Translator::Operand Translator::find_paddle(u32 base, u32 open_bus, Reg index) {
  as_.lea(kTemp1, {index, i32(base)});
  as_.move(kTemp0, kTemp1);
  as_.alu(kAndd, kTemp0, kPaddleBits & 0xFF);
  as_.alu(kCmp, kTemp0, kPaddle);
  const size_t elsewhere = as_.jump_later(kIfNotZero);
  const Pending before = now_;
  read_paddle(open_bus);
  set_aside(elsewhere, [this, open_bus, before] {
    as_.extend8(kTemp1, kTemp1);
    // One entry is pending behind this place: the next one there counts as that.
    read_zero_page_at_temp(open_bus, kTemp0, before);
    as_.alu64(kSub, kLog, sizeof(LogEntry));
  });
  return {Operand::kRegister, 0, kTemp0};
}

Translator::Operand Translator::find_indexed(u32 base, Reg index, bool pays, bool stores) {
  if (base + 0xFF < 0x200) {
    if (pays) pay_crossing(base & 0xFF, index);
    return find_zero_page(base & 0xFF, base >> 8, index, stores);
  }
  const u32 o = base & 0xFFF;
  if (stores || !(base & 0x1000) || o < fast_.begin || o - fast_.begin >= fast_.size) {
    return {Operand::kForInterpreter};
  }
  u32 room = fast_.begin + fast_.size - o;  // so many values of the index stay inside
  room = std::min(room, piece_size_ - o % piece_size_);
  if (room < 0x100) {
    as_.alu(kCmp, index, room);
    leave_if(kIfNotBelow);
  }
  if (pays) pay_crossing(base & 0xFF, index);
  if (!is_fixed(base)) return find_in_slice(o, index);
  return {Operand::kMemory, 0, kNoReg, {kImage, i32(image_offset(base)), index}};
}

// E0: at offset o and an index, which do not leave a window, of whatever slice is shown there.
Translator::Operand Translator::find_in_slice(u32 o, Reg index) {
  as_.load(kTemp0, in_context(offsetof(Context, window_bytes) + o / kSliceBytes * sizeof(u32)));
  if (index != kNoReg) as_.alu(kAdd, kTemp0, index);
  return {Operand::kMemory, 0, kNoReg, {kImage, i32(o % kSliceBytes), kTemp0}};
}

// What the cartridge or RAM holds at the address in kTemp1, plus an index, if there is one.
Translator::Operand Translator::load_at_temp(Reg index) {
  const Reg to = into_ == kTemp0 ? kTemp1 : into_;
  const u32 begin = 0x1000 + fast_.begin;
  as_.lea(kTemp1, {kTemp1, -i32(begin), index});
  as_.alu(kAndd, kTemp1, 0x1FFF);
  as_.alu(kCmp, kTemp1, fast_.size);
  const size_t elsewhere = as_.jump_later(kIfNotBelow);
  if (cart_.type == Bankswitch::kE0) {
    static_assert(kSliceBytes == 1u << 10 && sizeof(u32) == 1u << 2);
    as_.move(kTemp0, kTemp1);
    as_.shift(kShr, kTemp0, 8);
    as_.alu(kAndd, kTemp0, 0xC);
    as_.load(kTemp0, {kContext, i32(offsetof(Context, window_bytes)), kTemp0});
    as_.alu(kAndd, kTemp1, kSliceBytes - 1);
    as_.alu(kAdd, kTemp1, kTemp0);
    as_.load8(to, {kImage, 0, kTemp1});
  } else {
    as_.load8(to, {kImage, i32(piece_bytes_ + fast_.begin), kTemp1});
  }
  const size_t before = leave();
  set_aside(elsewhere, [this, begin, to, before] {
    as_.alu(kAdd, kTemp1, begin);
    as_.alu(kAndd, kTemp1, 0x12FF);
    as_.alu(kSub, kTemp1, 0x80);
    as_.alu(kCmp, kTemp1, 0x7F);
    leave_if(kIfAbove, before);
    as_.load8(to, {kRam, 0, kTemp1});
  });
  return {Operand::kRegister, 0, to};
}

Translator::Operand Translator::find_indirect_x(u32 base) {
  if (cart_.type == Bankswitch::kFE) return {Operand::kForInterpreter};
  as_.lea(kTemp0, {kX, i32(base)});
  as_.extend8(kTemp0, kTemp0);
  as_.alu(kSub, kTemp0, 0x80);
  as_.alu(kCmp, kTemp0, 0x7F);
  leave_if(kIfNotBelow);  // both bytes of the pointer are in RAM
  as_.load16(kTemp1, {kRam, 0, kTemp0});
  return load_at_temp(kNoReg);
}

Translator::Operand Translator::find_indirect_y(u32 pointer) {
  if (pointer < 0x80 || pointer == 0xFF || cart_.type == Bankswitch::kFE) {
    return {Operand::kForInterpreter};
  }
  const Mem at{kRam, i32(pointer & 0x7F)};
  as_.load16(kTemp1, at);
  const Operand found = load_at_temp(kY);
  as_.load8(kTemp0, at);
  as_.alu(kAdd, kTemp0, kY);
  as_.alu(kAdd, kTime, {kTable, i32(offsetof(CodeTable, crossing)), kTemp0, 2});
  stretch_cycles_ += 1;
  return found;
}

// Where an instruction reads and writes RAM.
Translator::Operand Translator::find_in_ram(u32 pc, const Opcode& op) {
  const u32 low = byte(pc, 1);
  switch (op.mode) {
    case Mode::kZeroPage:
      if (low & 0x80) return {Operand::kMemory, 0, kNoReg, {kRam, i32(low & 0x7F)}};
      return {Operand::kForInterpreter};
    case Mode::kZeroPageX: {
      as_.lea(kTemp0, {kX, i32(low) - 0x80});
      as_.alu(kCmp, kTemp0, 0x7F);
      const size_t elsewhere = as_.jump_later(kIfAbove);
      const size_t before = leave();
      set_aside(elsewhere, [this, before] {
        as_.test8(kTemp0);
        leave_if(kIfSign, before);
        as_.alu(kAndd, kTemp0, 0x7F);
      });
      return {Operand::kMemory, 0, kNoReg, {kRam, 0, kTemp0}};
    }
    case Mode::kAbsolute:
      if ((operand_word(pc) & 0x1280) == 0x80) {
        return {Operand::kMemory, 0, kNoReg, {kRam, i32(low & 0x7F)}};
      }
      return {Operand::kForInterpreter};
    default:
      return {Operand::kForInterpreter};
  }
}

// One cycle if low + index leaves the page.
void Translator::pay_crossing(u32 low, Reg index) {
  if (low == 0) return;
  as_.alu(kAdd, kTime, {kTable, i32(offsetof(CodeTable, crossing) + sizeof(u32) * low), index, 2});
  stretch_cycles_ += 1;
}

void Translator::to_register(Reg to, const Operand& from) {
  if (from.kind == Operand::kConstant) as_.set(to, from.value);
  if (from.kind == Operand::kRegister && from.reg != to) as_.move(to, from.reg);
  if (from.kind == Operand::kMemory) as_.load8(to, from.mem);
}

void Translator::alu8(Alu op, Reg to, const Operand& from) {
  if (from.kind == Operand::kConstant) as_.alu8(op, to, from.value);
  if (from.kind == Operand::kRegister) as_.alu8(op, to, from.reg);
  if (from.kind == Operand::kMemory) as_.alu8(op, to, from.mem);
}

}  // namespace cule::jit
