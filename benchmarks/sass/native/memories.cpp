// memories.cpp: loads, stores and atomic operations of every space, and loads of constants.
#include "warp.hpp"

namespace sass {
namespace {

struct Access {
  const Operand& address;
  u64 base;      // of the window
  bool is_wide;  // addresses have 64 bits
};

constexpr u64 kAnywhere = 0;

u32 bytes_of(const Instruction& i) {
  return i.is(kU8) || i.is(kS8)     ? 1
         : i.is(kU16) || i.is(kS16) ? 2
         : i.is(k64)                ? 8
         : i.is(k128)               ? 16
                                    : 4;
}

// Calls f(lane, memory) for every active lane.
template <class F>
void for_lanes(Warp& w, const Operand& o, u64 base, u32 bytes, F f) {
  if (o.kind != OperandKind::kAddress) throw Unknown("address");
  const u32* low = w.registers[o.index].lane;
  const u32* high = w.registers[o.index + 1].lane;
  const u32* uniform = w.registers[o.extra].lane;
  const u32* uniform_high = w.registers[o.extra + 1].lane;
  const bool has_uniform = o.extra != kUniformZero, is_global = base == kAnywhere;
  // A uniform register of a global address is a pair, to which a register of 32 bits is added.
  if (is_global && has_uniform && o.flags & kWide) throw Unknown("two pairs in an address");
  for (u32 rest = w.mask; rest != 0; rest &= rest - 1) {
    const u32 l = u32(__builtin_ctz(rest));
    u64 address = u64(low[l]) << o.scale;
    if (o.flags & kWide) address += u64(high[l]) << 32;
    address += uniform[l];
    if (is_global && has_uniform) address += u64(uniform_high[l]) << 32;
    address += o.value;
    if (!is_global) address = base + u32(address);
    if (address % bytes != 0) throw std::runtime_error("address is not aligned");
    f(l, w.memory(l, address));
  }
}

template <u64 base>
void load(Warp& w, const Instruction& i) {
  const u32 bytes = bytes_of(i), count = (bytes + 3) / 4, row = w.row_of(i.operands[0]);
  const bool is_signed = i.is(kS8) || i.is(kS16);
  Row values[4] = {};
  for_lanes(w, i.operands[1], base, bytes, [&](u32 l, const u8* from) {
    u32 value[4] = {};
    std::memcpy(value, from, bytes);
    if (is_signed) value[0] = bytes == 1 ? u32(int8_t(value[0])) : u32(int16_t(value[0]));
    for (u32 k = 0; k < count; ++k) values[k].lane[l] = value[k];
  });
  for (u32 k = 0; k < count; ++k) w.store_row(row == kDropped ? row : row + k, values[k].lane);
}

template <u64 base>
void store(Warp& w, const Instruction& i) {
  const u32 bytes = bytes_of(i);
  const Operand& from = i.operands[1];
  if (from.kind != OperandKind::kWord || from.flags != 0) throw Unknown("store");
  for_lanes(w, i.operands[0], base, bytes, [&](u32 l, u8* to) {
    u32 value[4];
    for (u32 k = 0; k < 4; ++k) {
      const bool is_zero = from.index == kZero || k * 4 >= bytes;
      value[k] = is_zero ? 0 : w.registers[from.index + k].lane[l];
    }
    std::memcpy(to, value, bytes);
  });
}

u64 combine(const Instruction& i, u64 old, u64 value, u64 other) {
  const bool is_signed = i.is(kS32) || i.is(kS64);
  const auto less = [&](u64 a, u64 b) {
    return !is_signed ? a < b : i.is(kS64) ? i64(a) < i64(b) : i32(a) < i32(b);
  };
  return i.is(kCAS)    ? (old == value ? other : old)
         : i.is(kEXCH) ? value
         : i.is(kAND)  ? old & value
         : i.is(kOR)   ? old | value
         : i.is(kXOR)  ? old ^ value
         : i.is(kMIN)  ? (less(value, old) ? value : old)
         : i.is(kMAX)  ? (less(old, value) ? value : old)
         : i.is(kINC)  ? (old >= value ? 0 : old + 1)
         : i.is(kDEC)  ? (old == 0 || old > value ? value : old - 1)
         : i.is(kADD)  ? old + value
                       : throw Unknown("atomic operation");
}

// ATOM, ATOMG, ATOMS and RED, one lane after the other. Operands: the old value (not of RED), the
// address, and one or two values; a predicate before them is not known to matter.
template <u64 base, bool returns>
void atomic(Warp& w, const Instruction& i) {
  const u32 skips = i.operands[0].kind == OperandKind::kPredicate ? 1 : 0;
  const u32 address = skips + (returns ? 1 : 0);
  const u32 bytes = i.is(k64) || i.is(kU64) || i.is(kS64) ? 8 : 4;
  const bool counts = i.is(kPOPC);  // ATOMS.POPC.INC: adds 1 for each lane
  u64 values[2][kLanes] = {}, old[kLanes] = {};
  for (u32 k = 0; !counts && k < 2 && address + 1 + k < i.count; ++k) {
    w.numbers(i.operands[address + 1 + k], bytes == 8, values[k]);
  }
  for_lanes(w, i.operands[address], base, bytes, [&](u32 l, u8* at) {
    std::memcpy(&old[l], at, bytes);
    const u64 value = counts ? old[l] + 1 : combine(i, old[l], values[0][l], values[1][l]);
    std::memcpy(at, &value, bytes);
  });
  if (!returns) return;
  if (bytes == 8) {
    w.store_pair(i.operands[skips], old);
  } else {
    Row row;
    for (u32 l = 0; l < kLanes; ++l) row.lane[l] = u32(old[l]);
    w.store(i.operands[skips], row.lane);
  }
}

void load_constant(Warp& w, const Instruction& i) {
  const u32 bytes = bytes_of(i), count = (bytes + 3) / 4, row = w.row_of(i.operands[0]);
  if (bytes == 16 || i.operands[1].kind != OperandKind::kConstant) throw Unknown("LDC");
  Row values[2] = {};
  for (u32 l = 0; l < kLanes; ++l) {
    const u64 value = bytes == 1   ? w.constant<u8>(i.operands[1], l)
                      : bytes == 2 ? w.constant<u16>(i.operands[1], l)
                      : bytes == 4 ? w.constant<u32>(i.operands[1], l)
                                   : w.constant<u64>(i.operands[1], l);
    values[0].lane[l] = i.is(kS8)    ? u32(int8_t(value))
                        : i.is(kS16) ? u32(int16_t(value))
                                     : u32(value);
    values[1].lane[l] = u32(value >> 32);
  }
  for (u32 k = 0; k < count; ++k) w.store_row(row == kDropped ? row : row + k, values[k].lane);
}

void nothing(Warp&, const Instruction&) {}

#define SIZES "U8 S8 U16 S16 64 128"
#define CACHES " E CONSTANT STRONG WEAK GPU SYS CTA SM LU EF EL NA LTC64B LTC128B LTC256B"
#define ATOMICS \
  " E ADD MIN MAX AND OR XOR INC DEC EXCH CAS 32 64 U32 S32 U64 S64 STRONG GPU SYS CTA SM"

}  // namespace

const std::vector<OperationEntry> kMemories = {
    {"LD", load<kAnywhere>, SIZES CACHES},
    {"LDG", load<kAnywhere>, SIZES CACHES},
    {"LDL", load<kLocalBase>, SIZES CACHES},
    {"LDS", load<kSharedBase>, SIZES},
    {"ST", store<kAnywhere>, SIZES CACHES},
    {"STG", store<kAnywhere>, SIZES CACHES},
    {"STL", store<kLocalBase>, SIZES CACHES},
    {"STS", store<kSharedBase>, SIZES},
    {"ATOM", atomic<kAnywhere, true>, ATOMICS},
    {"ATOMG", atomic<kAnywhere, true>, ATOMICS},
    {"ATOMS", atomic<kSharedBase, true>, "POPC" ATOMICS},
    {"RED", atomic<kAnywhere, false>, ATOMICS},
    {"REDG", atomic<kAnywhere, false>, ATOMICS},
    {"LDC", load_constant, SIZES},
    {"MEMBAR", nothing, "SC ALL GPU SYS CTA VC"},
    {"ERRBAR", nothing, ""},
    {"CGAERRBAR", nothing, ""},
    {"CCTL", nothing, "IVALL E"},
    {"FENCE", nothing, "VIEW ASYNC"},
};

}  // namespace sass
