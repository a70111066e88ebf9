// jit/translator.hpp: makes code for a place and for all places that direct jumps reach from there.
//
// A block begins at a place and continues past branches that are not taken, up to a jump, an
// instruction that has to be interpreted, or a place where another block begins. Where an
// instruction turns out to need the interpreter, the code exits before that instruction. Code that
// is rarely executed is placed behind all blocks. Facts and rules: NOTES.md.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cart/cartridge.hpp"
#include "cpu/opcodes.hpp"
#include "jit/assembler.hpp"
#include "jit/translation.hpp"
#include "tia/registers.hpp"

namespace cule::jit {

inline Mem in_context(size_t offset) { return {kContext, i32(offset)}; }

inline Reg register_of(Source s) {
  return s == Source::kFromA ? kA : s == Source::kFromX ? kX : s == Source::kFromY ? kY : kSp;
}

class Translator {
 public:
  // Addresses that code is made with; see Translation.
  struct Entries {
    u64 unknown, interpret, read, write, count_polls;
  };

  // For code in one piece of the image (piece_size(), at `piece_bytes`) that shows at `window`.
  // `code_at`: what is known of a place there: an address, `unknown` or `interpret`.
  Translator(const Cart& cart, u32 piece_bytes, u32 window, u64 address, const Entries& entries,
             std::function<u64(u32)> code_at)
      : cart_(cart),
        fast_(fast_region(cart.type)),
        piece_bytes_(piece_bytes),
        piece_size_(piece_size(cart.type)),
        window_(window),
        entries_(entries),
        code_at_(std::move(code_at)),
        as_(address) {}

  void translate(u32 pc);
  const std::vector<u8>& code() const { return as_.bytes(); }
  bool is_valid() const { return as_.is_valid(); }
  // Addresses by place; `interpret` where there is nothing to translate.
  struct Block {
    u64 address;
    u32 stretch;
    u32 cycles;  // the most since the stretch began
  };
  const std::map<u32, Block>& blocks() const { return blocks_; }

 private:
  static constexpr u32 kInRegister = 2;
  static constexpr u32 kNowhere = ~0u;
  static constexpr size_t kNoJump = ~size_t(0);

  // What has been executed but not yet added to the registers, and where the flags are.
  struct Pending {
    u32 cycles = 0;
    u32 instructions = 0;
    u32 entries = 0;
    Reg nz = kNz;
    bool is_wide = true;      // bit 8 of nz may be set
    u32 carry = kInRegister;  // or what it is known to be
  };
  // Where code leaves out of the main line.
  struct Leave {
    std::vector<size_t> jumps;
    Pending pending;
    u32 pc;
  };
  // A place that wants code, and the branch that leads there.
  struct Task {
    u32 pc;
    u32 from = 0;
    size_t jump = kNoJump;
    Pending pending{};
    u32 stretch = 0;
    u32 cycles = 0;
  };
  // A jump to a place, with everything added.
  struct Edge {
    size_t at;
    u32 pc;
    u32 stretch;
    u32 cycles;
    bool leaves;
    bool looks = false;  // at the time
  };
  enum class Outcome { kGoesOn, kEnds, kCannot };

  // The operand of an instruction, once its address is known. For kZeroPage the address less 0x80,
  // of which the lowest 8 bits count, is in kTemp0.
  struct Operand {
    enum Kind { kConstant, kRegister, kMemory, kTia, kDevice, kZeroPage, kForInterpreter } kind;
    u32 value = 0;  // constant, register of the TIA, or address of a device
    Reg reg = kNoReg;
    Mem mem{kTemp0};
  };

  u64 address_of(u32 pc) const {
    const auto block = blocks_.find(pc);
    return block != blocks_.end() ? block->second.address
           : in_window(pc)        ? code_at_(pc)
                                  : entries_.unknown;
  }
  bool is_known(u32 pc) const { return address_of(pc) != entries_.unknown; }
  bool has_code(u32 pc) const { return is_known(pc) && address_of(pc) != entries_.interpret; }
  bool wants_code(u32 pc) const { return in_window(pc) && !is_known(pc); }
  bool is_fast(u32 pc) const { return is_fast_opcode(cart_.type, image_offset(pc)); }
  // Whether what the cartridge shows at an address is known: of E0, the running slice and the last
  // window.
  bool is_fixed(u32 address) const {
    if (cart_.type != Bankswitch::kE0) return true;
    return ((address ^ window_) & 0xC00) == 0 || (address & 0xC00) == 0xC00;
  }
  // Of such an address.
  u32 image_offset(u32 address) const {
    u32 piece = piece_bytes_;
    if (cart_.type == Bankswitch::kFE) piece = address & 0x2000 ? 0 : kBankBytes;
    if (cart_.type == Bankswitch::kE0 && (address ^ window_) & 0xC00) piece = 7 * kSliceBytes;
    return piece + (address & (piece_size_ - 1));
  }
  // Where the piece begins in its bank, and so in the table of code.
  u32 begin_in_bank() const { return window_ & (kBankBytes - 1); }
  u32 byte(u32 pc, u32 n) const { return cart_.image[image_offset(pc) + n]; }
  u32 operand_word(u32 pc) const { return byte(pc, 1) | byte(pc, 2) << 8; }
  bool in_window(u32 pc) const { return (pc & 0xFFFF & ~(piece_size_ - 1)) == window_; }

  // --- translator.cpp ---
  void begin(const Task& task);
  u32 translate_block(u32 pc);
  void find_heads(u32 pc);
  bool begins_block(u32 pc) const;
  void leave_to_interpreter(u32 pc);
  Outcome translate_instruction(u32 pc);
  Outcome translate_function(u32 pc, u32 opcode, const Opcode& op);
  void skip_polls(u32 pc);
  void begin_stretch();
  size_t leave();
  void leave_if(Condition c) { leaves_[leave()].jumps.push_back(as_.jump_later(c)); }
  // Exits, from among the code behind the blocks.
  void leave_if(Condition c, size_t which) { leaves_[which].jumps.push_back(as_.jump_later(c)); }
  // Code that is rarely executed: `emit` is called when all blocks are complete. `to`: a jump
  // there; `emit` ends with a jump back to where the code continues.
  template <class Emit>
  void set_aside(size_t to, Emit emit) {
    const u64 back = as_.here();
    as_.patch_here(to);  // forget the flags
    aside_.push_back([this, to, back, emit] {
      as_.patch_here(to);
      emit();
      as_.jump(back);
    });
  }
  void flush(Pending& p);
  void flush_entries();
  void look_at_time(u32 pc);
  void jump_to(u32 pc);
  void jump_back(u32 pc);
  void emit_leaves();
  void join();
  void find_entry_cycles();

  // --- instructions.cpp ---
  Outcome branch(u32 pc, u32 opcode);
  Condition test_flag(u32 opcode);
  Outcome jump(u32 pc);
  Outcome jump_indirect(u32 pc);
  Outcome call(u32 pc);
  Outcome come_back();
  void jump_by_table(u32 offset);
  Outcome push(Function function);
  void make_status();
  Outcome pull_a();
  Outcome store(u32 pc, const Opcode& op);
  bool modify(u32 pc, const Opcode& op);
  bool calculate(u32 pc, const Opcode& op);
  void add(Function function, const Operand& from);
  void set_flag(u32 opcode);
  void set_nz(Reg reg, bool are_flags_set);
  void load_carry(Condition c);
  void shift(Function function, Reg reg);
  void write_tia(u32 reg, Reg value);
  void write_at_temp(Reg value);
  void write_tia_at(Reg address, Reg value, size_t before, const Pending& now);
  void wait_for_line();

  // --- operands.cpp ---
  Operand find(u32 pc, const Opcode& op, bool stores);
  Operand find_absolute(u32 address, u32 open_bus, bool stores);
  Operand find_indexed(u32 base, Reg index, bool pays, bool stores);
  Operand find_zero_page(u32 base, u32 open_bus, Reg index, bool stores);
  Operand find_indirect_x(u32 base);
  Operand find_indirect_y(u32 pointer);
  Operand find_in_ram(u32 pc, const Opcode& op);
  Operand load_at_temp(Reg index);
  Operand find_in_slice(u32 o, Reg index);
  Operand find_paddle(u32 base, u32 open_bus, Reg index);
  void read_zero_page_at_temp(u32 open_bus, Reg to, const Pending& now);
  void mark_beam(Pending& p);
  void read_paddle(u32 open_bus);
  void call_device(u64 access, const Pending& now);
  void pay_crossing(u32 low, Reg index);
  void to_register(Reg to, const Operand& from);
  void alu8(Alu op, Reg to, const Operand& from);

  static Mem log_at(const Pending& p) { return {kLog, i32(p.entries * sizeof(LogEntry))}; }

  const Cart cart_;
  const FastRegion fast_;
  const u32 piece_bytes_;
  const u32 piece_size_;
  const u32 window_;
  const Entries entries_;
  const std::function<u64(u32)> code_at_;
  Assembler as_;
  std::map<u32, Block> blocks_;
  std::vector<Task> tasks_;
  std::set<u32> heads_;  // targets of branches back that are to begin a block
  std::vector<Edge> edges_;
  std::vector<Leave> leaves_;
  std::vector<std::function<void()>> aside_;
  std::vector<u32> entry_cycles_;  // of a stretch: the most that have passed where it is entered
  // Of the running stretch, block and instruction:
  u32 stretch_ = 0;
  u32 stretch_cycles_ = 0;
  u32 block_pc_ = 0;
  Pending now_;
  Pending before_;
  u32 pc_ = 0;
  u32 next_ = kNowhere;     // where the code continues behind a jump
  Reg into_ = kTemp0;       // preferred for an operand
  u32 nz_flags_ = 0;        // Assembler::flags() while those of the host show nz;
  u32 carry_flags_ = 0;     // and the carry,
  bool is_borrow_ = false;  // or its complement
  bool has_leave_ = false;  // the last of leaves_ belongs to the running instruction
  bool is_binary_ = false;  // decimal mode is known to be off
};

}  // namespace cule::jit
