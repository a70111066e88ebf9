// jit/translator.cpp: blocks: where they begin and end, and how code leaves them.
#include "jit/translator.hpp"

#include <cstddef>

#include "console/idle.hpp"
#include "cpu/opcodes.hpp"

namespace cule::jit {

namespace {

constexpr u32 kLongestInstruction = 8 + 2 + 75;  // cycles: with crossing, branch or WSYNC
constexpr u32 kBackToPoll = 0xFB;                // branch offset
constexpr u32 kJmpIndirect = 0x6C;

}  // namespace

void Translator::translate(u32 pc) {
  // Entering code costs more than to interpret this, which often leads to another window.
  if (is_fast(pc) && byte(pc, 0) == kJmpIndirect) return;
  tasks_.push_back({pc});
  while (!tasks_.empty()) {
    const Task task = tasks_.back();
    tasks_.pop_back();
    begin(task);
  }
  for (const auto& emit : aside_) emit();
  emit_leaves();
  join();
}

// Blocks, each where the one before ends, as long as there are places without code.
void Translator::begin(const Task& task) {
  bool is_led_to = task.jump != kNoJump;
  if (is_led_to) {
    as_.patch_here(task.jump);
    now_ = task.pending;
    stretch_ = task.stretch;
    stretch_cycles_ = task.cycles;
    block_pc_ = task.from;
    flush(now_);
  } else {
    begin_stretch();
  }
  for (u32 pc = task.pc; pc != kNowhere;) {
    if (!wants_code(pc)) {
      if (is_led_to) jump_to(pc);
      return;
    }
    if (is_led_to && stretch_cycles_ + kLongestInstruction > kMaxStretchCycles) {
      look_at_time(pc);
      begin_stretch();
    }
    const size_t size = as_.size();
    pc = translate_block(pc);
    is_led_to = is_led_to || as_.size() != size;
  }
}

void Translator::begin_stretch() {
  stretch_ = u32(entry_cycles_.size());
  stretch_cycles_ = 0;
  entry_cycles_.push_back(0);
}

// Returns where the code continues, with everything added.
u32 Translator::translate_block(u32 pc) {
  now_ = {};
  is_binary_ = false;
  nz_flags_ = carry_flags_ = 0;
  block_pc_ = pc;
  find_heads(pc);
  blocks_[pc] = {as_.here(), stretch_, stretch_cycles_};
  for (u32 at = pc;;) {
    const bool is_first = at == pc;
    if (!is_first && (!wants_code(at) || begins_block(at) ||
                      stretch_cycles_ + kLongestInstruction > kMaxStretchCycles)) {
      flush(now_);
      return at;
    }
    const Outcome outcome = translate_instruction(at);
    if (outcome == Outcome::kEnds) return next_;
    if (outcome == Outcome::kCannot) {
      is_first ? leave_to_interpreter(at) : flush(now_);
      return at;
    }
    at = pc_;
  }
}

// A branch from behind leads to the place, or one before it will.
bool Translator::begins_block(u32 pc) const {
  if (heads_.count(pc)) return true;
  for (const Task& task : tasks_) {
    if (task.pc == pc && task.jump != kNoJump) return true;
  }
  return false;
}

// Targets of branches back in the straight stretch that begins at pc.
void Translator::find_heads(u32 pc) {
  const u32 begin = pc;
  while (in_window(pc) && is_fast(pc) && !is_known(pc)) {
    const Opcode& op = kOpcodeTable.opcode[byte(pc, 0)];
    const Function f = op.function;
    const u32 next = pc + op.size_bytes();
    if (f == Function::kJam || (op.transfers() && f != Function::kBranch)) return;
    if (f == Function::kBranch) {
      const u32 target = next + (byte(pc, 1) ^ 0x80) - 0x80;
      if (target > begin && target <= pc) heads_.insert(target);
    }
    pc = next;
  }
}

// The instruction at pc is interpreted; translation continues after it.
void Translator::leave_to_interpreter(u32 pc) {
  blocks_[pc].address = entries_.interpret;
  if (!is_fast(pc)) return;
  const Opcode& op = kOpcodeTable.opcode[byte(pc, 0)];
  const Function f = op.function;
  if (f == Function::kJam || (op.transfers() && f != Function::kBranch)) return;
  tasks_.push_back({pc + op.size_bytes()});
}

// At a read of the timer with a branch back to it: skips iterations that only lead to the next.
void Translator::skip_polls(u32 pc) {
  const u32 branch = pc + 3;
  if (!in_window(branch) || !is_fast(branch) || byte(branch, 1) != kBackToPoll) return;
  const u32 loop = byte(pc, 0) | operand_word(pc) << 8;
  const TimerPoll poll = timer_poll(loop, byte(branch, 0));
  if (!poll.is_one) return;
  const u32 period = loop_period(pc, 5, 4);
  flush(now_);
  as_.set(kTemp1, poll.lowest | poll.highest << 8 | period << 16);
  call_device(entries_.count_polls, now_);
  as_.lea(kInstructions, {kInstructions, 0, kTemp0, 1});
  as_.multiply(kTemp0, kTemp0, period << kTimeShift);
  as_.alu(kAdd, kTime, kTemp0);
  look_at_time(pc);
}

Translator::Outcome Translator::translate_instruction(u32 pc) {
  if (!is_fast(pc)) return Outcome::kCannot;
  const u32 opcode = byte(pc, 0);
  const Opcode& op = kOpcodeTable.opcode[opcode];
  if (op.mode == Mode::kAbsolute) skip_polls(pc);
  before_ = now_;
  has_leave_ = false;
  next_ = kNowhere;
  pc_ = pc;
  const bool was_binary = is_binary_;
  const size_t code = as_.size();
  const size_t leaves = leaves_.size();
  const size_t aside = aside_.size();
  const u32 length = op.mode == Mode::kOwn ? 0 : op.size_bytes();
  now_.cycles += op.cycles;
  now_.instructions += 1;
  const u32 cycles = stretch_cycles_;
  stretch_cycles_ += op.cycles;
  const Outcome outcome = translate_function(pc, opcode, op);
  if (outcome == Outcome::kCannot) {
    now_ = before_;
    is_binary_ = was_binary;
    as_.rewind(code);
    leaves_.resize(leaves);
    aside_.resize(aside);
    stretch_cycles_ = cycles;
    return outcome;
  }
  pc_ = length != 0 ? pc + length : pc_;
  return outcome;
}

Translator::Outcome Translator::translate_function(u32 pc, u32 opcode, const Opcode& op) {
  const auto done = [](bool is_done) { return is_done ? Outcome::kGoesOn : Outcome::kCannot; };
  switch (op.function) {
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
      if (op.target == Target::kToMemory) return store(pc, op);
      if (op.target == Target::kToSp) {
        as_.move(kSp, register_of(op.source));
        return Outcome::kGoesOn;
      }
      return done(!op.loads() || find(pc, op, false).kind != Operand::kForInterpreter);
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
      return push(op.function);
    case Function::kPla:
      return pull_a();
    default:
      return Outcome::kCannot;
  }
}

// --- leaving ---

// Where the code leaves before the running instruction.
size_t Translator::leave() {
  if (!has_leave_) leaves_.push_back({{}, before_, pc_});
  has_leave_ = true;
  return leaves_.size() - 1;
}

void Translator::flush(Pending& p) {
  if (p.cycles != 0) as_.alu(kAdd, kTime, p.cycles << kTimeShift);
  if (p.instructions != 0) as_.alu(kAdd, kInstructions, p.instructions);
  if (p.entries != 0) as_.alu64(kAdd, kLog, p.entries * u32(sizeof(LogEntry)));
  if (p.nz != kNz) as_.move(kNz, p.nz);
  if (p.carry != kInRegister) as_.set(kCarry, p.carry);
  p = {};
}

void Translator::flush_entries() {
  if (now_.entries != 0) as_.alu64(kAdd, kLog, now_.entries * u32(sizeof(LogEntry)));
  now_.entries = 0;
}

// Leaves before the instruction at pc if it is late.
void Translator::look_at_time(u32 pc) {
  as_.alu(kCmp, kTime, in_context(offsetof(Context, quiet_end)));
  edges_.push_back({as_.jump_later(kIfNotBelow), pc, 0, 0, true});
}

// To a place that has code, or needs none.
void Translator::jump_to(u32 pc) {
  const bool is_here = blocks_.count(pc) != 0;
  if (has_code(pc) && (!is_here || pc <= block_pc_)) {
    jump_back(pc);
  } else {
    edges_.push_back({as_.jump_later(), pc, stretch_, stretch_cycles_, false});
  }
}

void Translator::jump_back(u32 pc) {
  as_.alu(kCmp, kTime, in_context(offsetof(Context, quiet_end)));
  as_.jump(kIfBelow, address_of(pc));
  edges_.push_back({as_.jump_later(), pc, 0, 0, true});
}

void Translator::emit_leaves() {
  for (Leave& leave : leaves_) {
    if (leave.jumps.empty()) continue;
    for (const size_t jump : leave.jumps) as_.patch_here(jump);
    flush(leave.pending);
    as_.set(kTemp1, leave.pc);
    as_.jump(entries_.interpret);
  }
}

// Finds the jumps that have to look at the time: with the others alone a stretch is entered before
// kMaxEntryCycles have passed.
void Translator::find_entry_cycles() {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (Edge& e : edges_) {
      if (e.leaves || e.looks || !has_code(e.pc)) continue;
      const Block& to = blocks_.at(e.pc);
      const u32 passed = entry_cycles_[e.stretch] + e.cycles;
      if (passed <= entry_cycles_[to.stretch] + to.cycles) continue;
      has_changed = true;
      if (passed - to.cycles > kMaxEntryCycles) {
        e.looks = true;
      } else {
        entry_cycles_[to.stretch] = passed - to.cycles;
      }
    }
  }
}

// Gives every jump its target.
void Translator::join() {
  find_entry_cycles();
  std::map<u32, u64> looks;
  std::map<u32, u64> leaves;
  for (const Edge& e : edges_) {
    const bool leaves_here = e.leaves || !has_code(e.pc);
    if (!leaves_here && !e.looks) {
      as_.patch(e.at, address_of(e.pc));
      continue;
    }
    u64& target = (leaves_here ? leaves : looks)[e.pc];
    if (target == 0) {
      target = as_.here();
      if (!leaves_here) {
        as_.alu(kCmp, kTime, in_context(offsetof(Context, quiet_end)));
        as_.jump(kIfBelow, address_of(e.pc));
      }
      as_.set(kTemp1, e.pc);
      as_.jump(entries_.interpret);
    }
    as_.patch(e.at, target);
  }
}

}  // namespace cule::jit
