// jit/translation.hpp: a ROM as machine code of the host.
//
// In: a cartridge, and places that its program has reached. Out: code that runs the program from
// such a place to the first instruction that only the interpreter can execute; then the code exits
// before that instruction. Shared by all consoles of a game; any thread may request more code at
// any time. How blocks are made: NOTES.md.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "cart/cartridge.hpp"
#include "console/state.hpp"
#include "jit/code_memory.hpp"
#include "tia/log.hpp"
#include "tia/registers.hpp"

namespace cule::jit {

// What translated code works on. Times are cycles of the frame step, where a log entry has them.
constexpr u32 kTimeShift = 14;

struct Context {
  u32 a, x, y, sp;
  u32 nz, c, v, d;  // as in Execution
  u32 pushed;       // I and the bits that are always set, as in a pushed status byte
  u32 pc;           // out
  u32 time;
  u32 quiet_end;        // code leaves at this time or a little later
  u32 instructions;     // of the frame step
  u32 phase;            // time into a line at time 0
  u32 phase_rounding;   // the same plus 75 cycles
  u32 window_bytes[4];  // E0: as in CartState
  const Inputs* inputs;
  LogEntry* next;
  u8* ram;
  const u8* image;
  u32 charge_ends[4];  // as in Machine
  // An access to a device at `time`; both may add to the log. What is read is returned. In one
  // word: the address, and open_bus or value from bit kValueShift on.
  u32 (*read)(Context*, u32 access);
  u32 (*write)(Context*, u32 access);
  // Returns how many iterations can be skipped of a loop at `time` that polls the timer. In one
  // word: the lowest and the highest value that repeat it, and its cycles.
  u32 (*count_polls)(Context*, u32 poll);
  void* machine;
  void* table;  // of the running code
};
constexpr u32 kValueShift = 16;

// State published atomically.
CULE_HD constexpr u32 piece_size(Bankswitch type) {
  return type == Bankswitch::kE0 ? kSliceBytes : kBankBytes;
}

// Longest stretch of code that is emitted without a look at the time, and the longest time since
// the last look with which one may be entered.
constexpr u32 kMaxStretchCycles = 256;
constexpr u32 kMaxEntryCycles = 256;
// Code looks at the time again before so many cycles have passed.
constexpr u32 kUnwatchedCycles = kMaxStretchCycles + kMaxEntryCycles;

// Of a piece of the image, as seen through one 4 KiB window of the address space.
struct CodeTable {
  // One address of code per place. A slice of E0 has a quarter of the places for each window it can
  // show in.
  std::atomic<u64> code[kBankBytes];
  // The time that an access takes longer whose address is the sum of a low byte and an index.
  u32 crossing[2 * 256];
  u32 kept[kNumRegisters];  // of a value written to a register of the TIA, the bits it keeps
};

constexpr size_t kCodeBytes = 16u << 20;  // addresses; memory is taken as code is made

class Translation {
 public:
  // With room for `bytes` of code. Null where machine code cannot be made or run.
  static std::unique_ptr<Translation> make(const Cart& cart, size_t bytes = kCodeBytes);
  ~Translation();

  // Whether nothing is known of a place yet.
  bool is_unknown(u32 piece_bytes, u32 pc) const {
    const CodeTable* t = tables_[slot(piece_bytes, pc)].load(std::memory_order_acquire);
    return t == nullptr || t->code[pc & 0xFFF].load(std::memory_order_relaxed) == unknown_;
  }
  // Code at a place, made if there can be any; 0: interpret.
  u64 find(u32 piece_bytes, u32 pc, void*& table) {
    const u32 at = slot(piece_bytes, pc);
    CodeTable* t = tables_[at].load(std::memory_order_acquire);
    u64 code = t == nullptr ? unknown_ : t->code[pc & 0xFFF].load(std::memory_order_acquire);
    if (code == unknown_) {
      translate(piece_bytes, pc);
      t = tables_[at].load(std::memory_order_acquire);
      code = t->code[pc & 0xFFF].load(std::memory_order_acquire);
    }
    table = t;
    return code == interpret_ ? 0 : code;
  }
  // Runs until the interpreter is needed.
  void run(Context& context, u64 code) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address of code that was written as bytes
    CULE_RUN_CODE(enter_, &context, code);
  }

  size_t code_bytes() const;

 private:
  static constexpr u32 kWindows = 16;
  static constexpr u32 kPieces = 8;

  Translation(const Cart& cart, size_t bytes);
  bool make_entry();
  void translate(u32 piece_bytes, u32 pc);
  u32 slot(u32 piece_bytes, u32 pc) const {
    return ((piece_bytes >> piece_bits_) % kPieces) * kWindows + (pc >> 12 & 15);
  }

  const Cart cart_;
  const u32 piece_bits_;  // of an address in a piece
  // Below, what is not atomic is changed under TranslationLock.
  std::unique_ptr<CodeMemory> memory_;
  std::atomic<CodeTable*> tables_[kPieces * kWindows] = {};
  std::vector<std::unique_ptr<CodeTable>> owned_;
  u64 enter_ = 0;        // enters code
  u64 read_ = 0;         // reads a device, for translated code;
  u64 write_ = 0;        // or writes to it,
  u64 count_polls_ = 0;  // or calls Context::count_polls
  u64 unknown_ = 0;      // leaves code where nothing has been translated yet;
  u64 interpret_ = 0;    // or where nothing can be
  bool is_full_ = false;
};

}  // namespace cule::jit
