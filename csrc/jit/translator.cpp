// jit/translator.cpp: blocks: where they begin and end, and how code leaves them.
#include "jit/translator.hpp"

#include <cstddef>

#include "cpu/micro_ops.generated.hpp"

namespace cule::jit {

namespace {

constexpr MicroOps kMicroOps = make_micro_ops();
constexpr u32 kLongestInstruction = 8 + 2 + 75;  // cycles: with crossing, branch or WSYNC
constexpr u32 kIntim = 0x0284;
constexpr u32 kInstat = 0x0285;
constexpr u32 kBpl = 0x10;
constexpr u32 kBackToPoll = 0xFB;  // branch offset

}  // namespace

void Translator::translate(u32 pc) {
  wanted_.push_back(pc);
  while (!wanted_.empty()) {
    const u32 next = wanted_.back();
    wanted_.pop_back();
    if (in_window(next) && !is_known(next)) translate_block(next);
  }
  // Jumps to places without code leave.
  std::map<u32, u64> leaves;
  for (const JumpTo& j : jumps_) {
    const auto block = blocks_.find(j.pc);
    u64 target = block != blocks_.end() ? block->second
                 : in_window(j.pc)      ? code_at_(j.pc)
                                        : entries_.unknown;
    if (target == entries_.interpret || target == entries_.unknown) {
      u64& leave = leaves[j.pc];
      if (leave == 0) {
        leave = as_.here();
        as_.set(kRcx, j.pc);
        as_.jump(entries_.interpret);
      }
      target = leave;
    }
    as_.patch(j.at, target);
  }
}

void Translator::translate_block(u32 pc) {
  now_ = {};
  block_cycles_ = 0;
  is_binary_ = false;
  const size_t start = as_.size();
  blocks_[pc] = as_.here();
  as_.alu(kCmp, kTime, kQuietEnd);
  exits_.push_back({{as_.jump_later(kIfNotBelow)}, now_, pc, true});
  for (u32 at = pc;;) {
    const bool is_first = at == pc;
    if (!is_first &&
        (!in_window(at) || is_known(at) || block_cycles_ + kLongestInstruction > kMaxBlockCycles)) {
      jump_to(at);
      break;
    }
    const Outcome outcome = translate_instruction(at);
    if (outcome == Outcome::kEnds) break;
    if (outcome == Outcome::kCannot) {
      if (is_first) {
        as_.rewind(start);
        exits_.clear();
        leave_to_interpreter(pc);
        return;
      }
      jump_to(at);
      break;
    }
    at = pc_;
  }
  emit_exits();
}

// The instruction at pc is interpreted; translation goes on after it.
void Translator::leave_to_interpreter(u32 pc) {
  blocks_[pc] = entries_.interpret;
  if (!is_fast(pc)) return;
  const u32 op = kMicroOps.op[byte(pc, 0)];
  const Function f = micro_function(op);
  if (f == Function::kJam || (is_transfer(f) && f != Function::kBranch)) return;
  u32 next = pc + instruction_bytes(op);
  if (polls_timer(pc, op) && !is_known(next)) {
    blocks_[next] = entries_.interpret;
    next += 2;
  }
  wanted_.push_back(next);
}

// A read of INTIM or INSTAT and a branch back to it: the interpreter skips such a loop as a whole.
bool Translator::polls_timer(u32 pc, u32 op) const {
  const u32 branch = pc + 3;
  const bool is_load = micro_function(op) == Function::kPass;
  if (micro_mode(op) != Mode::kAbsolute || !(is_load || micro_function(op) == Function::kBit) ||
      !in_window(branch) || !is_fast(branch) || byte(branch, 1) != kBackToPoll) {
    return false;
  }
  if (operand_word(pc) == kInstat) return byte(branch, 0) == kBpl;
  return operand_word(pc) == kIntim && is_load &&
         micro_function(kMicroOps.op[byte(branch, 0)]) == Function::kBranch;
}

Translator::Outcome Translator::translate_instruction(u32 pc) {
  if (!is_fast(pc)) return Outcome::kCannot;
  const u32 opcode = byte(pc, 0);
  const u32 op = kMicroOps.op[opcode];
  if (polls_timer(pc, op)) return Outcome::kCannot;
  before_ = now_;
  has_exit_ = false;
  pc_ = pc;
  const bool was_binary = is_binary_;
  const size_t code = as_.size();
  const size_t exits = exits_.size();
  const u32 length = micro_mode(op) == Mode::kOwn ? 0 : instruction_bytes(op);
  now_.cycles += micro_cycles(op);
  now_.instructions += 1;
  block_cycles_ += micro_cycles(op);
  const Outcome outcome = translate_function(pc, opcode, op);
  if (outcome == Outcome::kCannot) {
    now_ = before_;
    is_binary_ = was_binary;
    as_.rewind(code);
    exits_.resize(exits);
    return outcome;
  }
  pc_ = length != 0 ? pc + length : pc_;
  return outcome;
}

Translator::Outcome Translator::translate_function(u32 pc, u32 opcode, u32 op) {
  const auto done = [](bool is_done) { return is_done ? Outcome::kGoesOn : Outcome::kCannot; };
  switch (micro_function(op)) {
    case Function::kPass:
    case Function::kOr:
    case Function::kAnd:
    case Function::kEor:
    case Function::kAdc:
    case Function::kSbc:
    case Function::kCompareA:
    case Function::kCompareX:
    case Function::kCompareY:
    case Function::kBit:
      return done(calculate(pc, op));
    case Function::kKeep:
      if (micro_target(op) == Target::kToMemory) return store(pc, op);
      if (micro_target(op) == Target::kToSp) {
        as_.move(kSp, register_of(micro_source(op)));
        return Outcome::kGoesOn;
      }
      return done(!loads_byte(op) || find(pc, op, false).kind != Operand::kForInterpreter);
    case Function::kInc:
    case Function::kDec:
    case Function::kAsl:
    case Function::kLsr:
    case Function::kRol:
    case Function::kRor:
      return done(modify(pc, op));
    case Function::kFlag:
      set_flag(opcode);
      return Outcome::kGoesOn;
    case Function::kBranch:
      return branch(pc, opcode);
    case Function::kJump:
      return jump(pc);
    case Function::kJumpIndirect:
      return jump_indirect(pc);
    case Function::kJsr:
      return call(pc);
    case Function::kRts:
      return come_back();
    case Function::kPha:
    case Function::kPhp:
      return push(micro_function(op));
    case Function::kPla:
      return pull_a();
    default:
      return Outcome::kCannot;
  }
}

// --- leaving ---

void Translator::leave_if(Condition c) {
  if (!has_exit_) exits_.push_back({{}, before_, pc_, true});
  has_exit_ = true;
  exits_.back().jumps.push_back(as_.jump_later(c));
}

void Translator::flush(Pending& p) {
  if (p.cycles != 0) as_.alu(kAdd, kTime, p.cycles << kTimeShift);
  if (p.instructions != 0) {
    as_.alu(kAdd, in_context(offsetof(Context, instructions)), p.instructions);
  }
  if (p.entries != 0) as_.alu64(kAdd, kLog, p.entries * u32(sizeof(LogEntry)));
  if (p.nz != kNz) as_.move(kNz, p.nz);
  p = {};
}

void Translator::flush_entries() {
  if (now_.entries != 0) as_.alu64(kAdd, kLog, now_.entries * u32(sizeof(LogEntry)));
  now_.entries = 0;
}

void Translator::jump_to(u32 pc) {
  flush(now_);
  jumps_.push_back({as_.jump_later(), pc});
  wanted_.push_back(pc);
}

void Translator::emit_exits() {
  for (Exit& exit : exits_) {
    for (const size_t jump : exit.jumps) as_.patch_here(jump);
    flush(exit.pending);
    if (exit.leaves) {
      as_.set(kRcx, exit.pc);
      as_.jump(entries_.interpret);
    } else {
      jumps_.push_back({as_.jump_later(), exit.pc});
    }
  }
  exits_.clear();
}

}  // namespace cule::jit
