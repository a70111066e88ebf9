// jit/translator.hpp: makes code for a place and for all places that direct jumps reach from there.
//
// A block begins at a place and goes on past branches that are not taken, up to a jump, an
// instruction that has to be interpreted, a place that has code already, or kMaxBlockCycles. Where
// in an instruction something turns out to need the interpreter, the code leaves with that
// instruction not begun. Facts and rules: NOTES.md.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cart/cartridge.hpp"
#include "cpu/micro_ops.hpp"
#include "jit/translation.hpp"
#include "jit/x86.hpp"

namespace cule::jit {

// Who lives where while translated code runs. rax and rcx are scratch.
constexpr Reg kContext = kRbx, kRam = kRbp, kImage = kRdx, kTable = kR11, kLog = kR13,
              kQuietEnd = kR10, kTime = kR12, kA = kR14, kX = kR15, kY = kRsi, kSp = kR9,
              kNz = kRdi, kCarry = kR8;

constexpr u32 kVsync = 0, kWsync = 2;  // registers of the TIA

inline Mem in_context(size_t offset) { return {kContext, i32(offset)}; }

inline Reg register_of(Source s) {
  return s == Source::kFromA ? kA : s == Source::kFromX ? kX : s == Source::kFromY ? kY : kSp;
}

class Translator {
 public:
  // Addresses that code is made with; see Translation.
  struct Entries {
    u64 unknown, interpret, read, write;
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
  // Addresses by place; `interpret` where there is nothing to translate.
  const std::map<u32, u64>& blocks() const { return blocks_; }

 private:
  // What has been executed but not yet added to the registers, and where N and Z are.
  struct Pending {
    u32 cycles = 0;
    u32 instructions = 0;
    u32 entries = 0;
    Reg nz = kNz;
  };
  // Where code leaves, or jumps to another block, out of the main line.
  struct Exit {
    std::vector<size_t> jumps;
    Pending pending;
    u32 pc;
    bool leaves;
  };
  struct JumpTo {
    size_t at;
    u32 pc;
  };
  enum class Outcome { kGoesOn, kEnds, kCannot };

  // The operand of an instruction, once its address is known. For kZeroPage the address, with
  // bit 7 as in the 6507's, is in rax.
  struct Operand {
    enum Kind { kConstant, kRegister, kMemory, kTia, kDevice, kZeroPage, kForInterpreter } kind;
    u32 value = 0;  // constant, register of the TIA, or address of a device
    Reg reg = kNoReg;
    Mem mem{kRax};
  };

  bool is_known(u32 pc) const { return blocks_.count(pc) || code_at_(pc) != entries_.unknown; }
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

  void translate_block(u32 pc);
  void leave_to_interpreter(u32 pc);
  Outcome translate_instruction(u32 pc);
  Outcome translate_function(u32 pc, u32 opcode, u32 op);
  Outcome branch(u32 pc, u32 opcode);
  Outcome jump(u32 pc);
  Outcome jump_indirect(u32 pc);
  Outcome call(u32 pc);
  Outcome come_back();
  Outcome push(Function function);
  void make_status();
  Outcome pull_a();
  Outcome store(u32 pc, u32 op);
  bool modify(u32 pc, u32 op);
  bool calculate(u32 pc, u32 op);
  void set_flag(u32 opcode);

  Operand find(u32 pc, u32 op, bool stores);
  Operand find_absolute(u32 address, u32 noise, bool stores);
  Operand find_indexed(u32 base, Reg index, bool pays, bool stores);
  Operand find_zero_page(u32 base, u32 noise, Reg index, bool stores);
  Operand find_indirect_x(u32 base);
  Operand find_indirect_y(u32 pointer);
  Operand find_in_ram(u32 pc, u32 op);
  Operand load_at_rcx();
  Operand find_in_slice(u32 o, Reg index);
  void read_paddle(u32 noise);
  void call_device(u64 access);
  bool polls_timer(u32 pc, u32 op) const;
  void pay_crossing(u32 low, Reg index);
  void to_register(Reg to, const Operand& from);
  void alu8(Alu op, Reg to, const Operand& from);
  void shift(Function function, Reg reg);
  void write_tia(u32 reg, Reg value);
  void write_tia_at_rax(Reg value);
  void wait_for_line();

  // Leaves before the running instruction if the condition holds.
  void leave_if(Condition c);
  void flush(Pending& p);
  void flush_entries();
  void jump_to(u32 pc);
  void emit_exits();

  const Cart cart_;
  const FastRegion fast_;
  const u32 piece_bytes_;
  const u32 piece_size_;
  const u32 window_;
  const Entries entries_;
  const std::function<u64(u32)> code_at_;
  Assembler as_;
  std::map<u32, u64> blocks_;
  std::vector<u32> wanted_;
  std::vector<JumpTo> jumps_;
  std::vector<Exit> exits_;
  // Of the running block and instruction:
  Pending now_;
  Pending before_;
  u32 pc_ = 0;
  u32 block_cycles_ = 0;
  bool has_exit_ = false;   // the last of exits_ belongs to the running instruction
  bool is_binary_ = false;  // decimal mode is known to be off
};

}  // namespace cule::jit
