// warp.hpp: a warp: registers, memory, groups of lanes, and the clock of a warp that runs alone.
//
// Instructions come decoded (encoding.py); executor.cpp runs them. A word of 32 lanes is a row of
// `Warp::registers`, a predicate is a bit for each lane. Lanes at the same place are a group; of
// groups that can run, the one left last continues. Addresses are those of the process, except in
// the windows of local and shared memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "names.hpp"

namespace sass {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

constexpr u32 kLanes = 32;
constexpr u32 kEveryone = ~0u;
// Rows of registers: R0 ... R254 and RZ, UR0 ... UR62 and URZ, B0 ... B15. A row of zeros follows
// each of the first two, so that a pair of zero registers is 0; the last row takes what is dropped.
constexpr u32 kZero = 255, kUniform = 257, kUniformZero = kUniform + 63, kBarriers = kUniform + 65;
constexpr u32 kDropped = kBarriers + 16, kRows = kDropped + 2;
// P0 ... P6 and PT, then UP0 ... UP6 and UPT.
constexpr u32 kPredicates = 16, kTrue = 7;
constexpr u64 kLocalBase = 0x900000000000, kSharedBase = 0xA00000000000;
constexpr u32 kLocalBytes = 8192, kSharedBytes = 228 * 1024;
// What was never written: shared memory, and a lane that a shuffle reads though it takes no part.
constexpr u8 kGarbage = 0xCD;

enum class OperandKind : u8 {
  kNone,
  kWord,       // register
  kNumber,     // value
  kConstant,   // bank `extra` at `value`, plus register `index` if it is not RZ
  kPredicate,  // index
  kAddress,    // register `index`, scaled, plus register `extra` plus value
  kPlace,      // index of an instruction, or RZ's offset, in `value`; register `index`
  kSpecial     // value
};
enum OperandFlags : u8 {
  kNegative = 1,
  kComplement = 2,  // of a predicate: not
  kAbsolute = 4,
  kByte = 8,  // byte `extra` of a register
  kWide = 16  // an address: the register is a pair
};

struct Operand {
  OperandKind kind;
  u8 flags;
  u8 scale;  // shift of an address's register
  u8 padding;
  u16 index;
  u16 extra;
  u64 value;
};

struct Instruction {
  u64 kinds[2];
  u32 operation;
  u32 offset;   // bytes from the kernel's start
  u32 place;    // of `Totals`
  u16 guard;    // predicate; + 32: not
  u16 latency;  // cycles until the write scoreboard is released
  u16 read_latency;
  u8 stall;
  u8 write_scoreboard, read_scoreboard;  // 7: none
  u8 waits;                              // mask of scoreboards
  u8 count;                              // operands
  u8 padding;
  Operand operands[8];

  bool is(Kind kind) const { return kinds[kind / 64] >> kind % 64 & 1; }
};

// What the instructions of one place of the source have taken.
struct Totals {
  u64 instructions;  // of warps
  u64 lanes;         // active, summed over these
  u64 cycles;        // from the issue of the instruction before
};

// Cycles that are not in the machine code.
struct Delays {
  u32 branch;    // taken, to the next instruction
  u32 indirect;  // the same with a target from a register
  u32 barrier;   // of a block, after the last arrival
};

struct Code {
  const Instruction* instructions;
  u32 size;
  const u8* const* banks;  // 5; bank 0 ends with the parameters
  const u32* index_of;     // by offset / 16
  Delays delays;
};

struct Unknown : std::runtime_error {
  using runtime_error::runtime_error;
};

struct Wait {
  enum Kind : u8 { kNothing, kBarrier, kWarp, kBlock } kind = kNothing;
  u32 mask = 0;   // of lanes, or number and count of a barrier of the block
  u32 index = 0;  // register of a convergence barrier
  bool operator==(const Wait& o) const {
    return kind == o.kind && mask == o.mask && index == o.index;
  }
};

// Lanes that are at the same place.
struct Group {
  u32 mask;
  u32 at;
  Wait wait;
};

struct alignas(64) Row {
  u32 lane[kLanes];
};

struct Block;

struct Warp {
  Row registers[kRows] = {};
  std::array<u32, kPredicates> predicates = {};
  const Code* code = nullptr;
  Block* block = nullptr;
  u32 number = 0;
  u32 mask = 0;  // lanes that execute the present instruction
  std::vector<Group> groups;
  size_t running = 0;  // of groups
  bool has_moved = false;
  std::vector<u8> local = std::vector<u8>(size_t(kLocalBytes) * kLanes);
  u64 now = 0;        // cycle of the next instruction at the earliest
  u64 issued = 0;     // of the present one
  u64 accounted = 0;  // in Totals
  u64 scoreboards[8] = {};

  Group& group() { return groups[running]; }

  // ---- operands --------------------------------------------------------------------------------

  const u32* words(const Operand& o, Row& scratch) const {
    const u32* from = scratch.lane;
    switch (o.kind) {
      case OperandKind::kWord:
        from = registers[o.index].lane;
        if (o.flags == 0) return from;
        break;
      case OperandKind::kNumber:
        std::fill_n(scratch.lane, kLanes, u32(o.value));
        break;
      case OperandKind::kConstant:
        for (u32 l = 0; l < kLanes; ++l) scratch.lane[l] = constant<u32>(o, l);
        break;
      default:
        throw Unknown("operand");
    }
    if (o.flags & kByte) {
      for (u32 l = 0; l < kLanes; ++l) scratch.lane[l] = from[l] >> 8 * o.extra & 0xFF;
      from = scratch.lane;
    }
    const u32 flip = o.flags & (kNegative | kComplement) ? ~0u : 0;
    const u32 one = o.flags & kNegative ? 1 : 0;
    for (u32 l = 0; l < kLanes; ++l) scratch.lane[l] = (from[l] ^ flip) + one;
    return scratch.lane;
  }
  // 64 bits of each lane.
  void pairs(const Operand& o, u64* out) const {
    if (o.flags & ~kWide) throw Unknown("sign of a pair");
    if (o.kind == OperandKind::kWord) {
      const u32* low = registers[o.index].lane;
      const u32* high = registers[o.index + 1].lane;
      for (u32 l = 0; l < kLanes; ++l) out[l] = low[l] | u64(high[l]) << 32;
    } else {
      for (u32 l = 0; l < kLanes; ++l) {
        out[l] = o.kind == OperandKind::kConstant ? constant<u64>(o, l) : o.value;
      }
    }
  }
  // Numbers of 64 bits, or words.
  void numbers(const Operand& o, bool are_pairs, u64* out) const {
    if (are_pairs) return pairs(o, out);
    Row t;
    std::copy_n(words(o, t), kLanes, out);
  }
  template <class T>
  T constant(const Operand& o, u32 lane) const {
    T value = 0;
    const bool is_indexed = o.index != kZero;
    if (is_indexed && !(mask >> lane & 1)) return value;  // any register, or no constant
    const u32 at = is_indexed ? registers[o.index].lane[lane] : 0;
    std::memcpy(&value, code->banks[o.extra] + u32(o.value + at), sizeof value);
    return value;
  }
  u32 lanes_of(const Operand& o) const {
    const u32 value = predicates[o.index];
    return o.flags & kComplement ? ~value : value;
  }
  u32 row_of(const Operand& o) const {
    return o.kind != OperandKind::kWord || o.index == kZero || o.index == kUniformZero ? kDropped
                                                                                       : o.index;
  }
  // Uniform registers are those of the warp, not of a lane.
  static bool is_uniform(u32 row) { return row >= kUniform && row < kBarriers; }
  void store(const Operand& o, const u32* values) { store_row(row_of(o), values); }
  void store_row(u32 row, const u32* values) {
    u32* to = registers[row].lane;
    if (is_uniform(row)) {
      std::fill_n(to, kLanes, values[__builtin_ctz(mask)]);
      return;
    }
    for (u32 l = 0; l < kLanes; ++l) to[l] = mask >> l & 1 ? values[l] : to[l];
  }
  void store_pair(const Operand& o, const u64* values) {
    Row low, high;
    for (u32 l = 0; l < kLanes; ++l) {
      low.lane[l] = u32(values[l]);
      high.lane[l] = u32(values[l] >> 32);
    }
    store_row(row_of(o), low.lane);
    store_row(row_of(o) + 1, high.lane);
  }
  void store_all(const Operand& o, u32 value) {
    Row row;
    std::fill_n(row.lane, kLanes, value);
    store(o, row.lane);
  }
  void set_lanes(const Operand& o, u32 value) {
    if (o.kind != OperandKind::kPredicate || o.index % 8 == kTrue) return;
    u32& to = predicates[o.index];
    if (o.index >= 8) {
      to = value & mask ? kEveryone : 0;
    } else {
      to = (to & ~mask) | (value & mask);
    }
  }

  // ---- memory ----------------------------------------------------------------------------------

  inline u8* memory(u32 lane, u64 address);

  // ---- places ----------------------------------------------------------------------------------

  void take(u32 delay) { now = std::max(now, issued + delay); }
  // The lanes in `mask` jump; the others, if any, continue.
  void jump(u32 target) {
    take(code->delays.branch);
    Group& g = group();
    if (mask == g.mask) {
      g.at = target;
      return;
    }
    g.mask &= ~mask;
    groups.push_back({mask, target, {}});
    has_moved = true;
  }
  void leave() {
    for (u32 b = 0; b < 16; ++b) {
      for (u32& lanes : registers[kBarriers + b].lane) lanes &= ~mask;
    }
    group().mask &= ~mask;
    if (group().mask == 0) groups.erase(groups.begin() + i64(running));
    has_moved = true;
    release();
  }
  // The group waits, each lane for those in its mask.
  void wait(Wait::Kind kind, const u32* masks, u32 index = 0) {
    const Group g = group();
    if (mask != g.mask) throw Unknown("barrier of some lanes of a group");
    groups.erase(groups.begin() + i64(running));
    for (u32 rest = g.mask; rest != 0;) {
      const u32 wanted = masks[__builtin_ctz(rest)];
      u32 members = 0;
      for (u32 l = 0; l < kLanes; ++l) members |= u32(rest >> l & 1 && masks[l] == wanted) << l;
      groups.push_back({members, g.at, {kind, wanted, index}});
      rest &= ~members;
    }
    has_moved = true;
    release();
  }
  // Groups whose lanes have all arrived continue, together.
  void release() {
    u32 alive = 0;
    for (const Group& g : groups) alive |= g.mask;
    for (size_t k = 0; k < groups.size();) {
      const Group first = groups[k];
      ++k;
      if (first.wait.kind != Wait::kBarrier && first.wait.kind != Wait::kWarp) continue;
      u32 arrived = 0;
      const auto is_here = [&](const Group& g) { return g.wait == first.wait && g.at == first.at; };
      for (const Group& g : groups) arrived |= is_here(g) ? g.mask : 0;
      if (first.wait.mask & alive & ~arrived) continue;
      groups.erase(std::remove_if(groups.begin(), groups.end(), is_here), groups.end());
      groups.push_back({arrived, first.at, {}});
      k = 0;
    }
  }
};

// Of a predicate, over the threads that come to a barrier of the block.
struct Reduction {
  u32 votes, others;  // threads
  bool needs_all;
};

struct Block {
  u32 index[3];
  u32 size[3];
  std::vector<Warp> warps;
  std::vector<u8> shared = std::vector<u8>(kSharedBytes, kGarbage);
  std::map<u32, u32> arrived;     // threads that do not wait, by Wait::mask
  Reduction reductions[16] = {};  // by barrier, under way
  Reduction result = {};          // the last that is complete
};

inline u8* Warp::memory(u32 lane, u64 address) {
  if (address >= kSharedBase) {
    if (address - kSharedBase >= kSharedBytes) throw std::runtime_error("shared address");
    return block->shared.data() + (address - kSharedBase);
  }
  if (address >= kLocalBase) {
    if (address - kLocalBase >= kLocalBytes) throw std::runtime_error("local address");
    return local.data() + size_t(lane) * kLocalBytes + (address - kLocalBase);
  }
  if (address < 4096) throw std::runtime_error("null address");
  return reinterpret_cast<u8*>(address);
}

// Combines a comparison and its opposite with another predicate, for SETP of all types.
inline void set_comparison(Warp& w, const Instruction& i, u32 value) {
  const u32 other = w.lanes_of(i.operands[4]);
  const auto combine = [&](u32 v) {
    return i.is(kOR) ? v | other : i.is(kXOR) ? v ^ other : v & other;
  };
  w.set_lanes(i.operands[0], combine(value));
  w.set_lanes(i.operands[1], combine(~value));
}

using Operation = void (*)(Warp&, const Instruction&);

// An operation and the suffixes that it understands.
struct OperationEntry {
  const char* name;
  Operation run;
  const char* kinds;
};

extern const std::vector<OperationEntry> kIntegers, kFloats, kMemories, kControl;

}  // namespace sass
