// control.cpp: branches, calls, barriers, and what lanes of a warp say to each other.
#include "warp.hpp"

namespace sass {
namespace {

u32 place(const Warp& w, const Operand& o) {
  if (o.kind != OperandKind::kPlace) throw Unknown("label");
  if (o.value >= w.code->size) throw std::runtime_error("jump out of the kernel");
  return u32(o.value);
}

u32 place_at(const Warp& w, u32 offset) {
  if (offset % 16 != 0 || offset / 16 >= w.code->size) {
    throw std::runtime_error("jump out of the kernel");
  }
  return w.code->index_of[offset / 16];
}

// Each lane continues at its own offset.
void scatter(Warp& w, const u32* offsets) {
  w.take(w.code->delays.indirect);
  for (u32 rest = w.mask; rest != 0;) {
    const u32 target = offsets[__builtin_ctz(rest)];
    u32 members = 0;
    for (u32 l = 0; l < kLanes; ++l) members |= u32(rest >> l & 1 && offsets[l] == target) << l;
    w.mask = members;
    w.jump(place_at(w, target));
    rest &= ~members;
  }
}

void branch(Warp& w, const Instruction& i) {
  const u32 last = i.count - 1u;
  if (i.is(kDIV) || i.is(kCONV)) {
    // Taken by all if those with the predicate are not, or are, the lanes that are expected. A vote
    // over a mask of a register takes the short way only if the mask is the same in all lanes here:
    // R2UR sets the predicate of the others, and the masks of all are expected.
    Row t;
    const u32 expected = w.words(i.operands[0], t)[__builtin_ctz(w.mask)];
    const bool is_taken = (expected == w.mask) == i.is(kCONV);
    w.mask = w.group().mask;
    if (is_taken) w.jump(place(w, i.operands[last]));
    return;
  }
  if (i.count == 2) w.mask &= w.lanes_of(i.operands[0]);
  if (w.mask != 0) w.jump(place(w, i.operands[last]));
}

// BRX: relative to the next instruction.
void branch_indexed(Warp& w, const Instruction& i) {
  const Operand& o = i.operands[0];
  Row offsets;
  for (u32 l = 0; l < kLanes; ++l) {
    offsets.lane[l] = w.registers[o.index].lane[l] + u32(o.value) + i.offset + 16;
  }
  scatter(w, offsets.lane);
}

void call(Warp& w, const Instruction& i) { w.jump(place(w, i.operands[0])); }

void return_(Warp& w, const Instruction& i) { scatter(w, w.registers[i.operands[0].index].lane); }

void leave(Warp& w, const Instruction& i) {
  if (i.count == 1) w.mask &= w.lanes_of(i.operands[0]);
  if (w.mask != 0) w.leave();
}

// BSSY: the lanes of a barrier.
void begin(Warp& w, const Instruction& i) { w.store_all(i.operands[0], w.mask); }

// BSYNC and WARPSYNC. A group that is whole passes.
template <Wait::Kind kind>
void meet(Warp& w, const Instruction& i) {
  Row masks;
  if (i.is(kALL)) {
    std::fill_n(masks.lane, kLanes, kEveryone);
  } else {
    std::copy_n(w.words(i.operands[0], masks), kLanes, masks.lane);
  }
  bool is_complete = w.mask == w.group().mask;
  for (u32 l = 0; l < kLanes; ++l) {
    is_complete = is_complete && (!(w.mask >> l & 1) || masks.lane[l] == w.mask);
  }
  if (is_complete) return;
  w.take(w.code->delays.branch);
  w.wait(kind, masks.lane, kind == Wait::kBarrier ? i.operands[0].index : 0);
}

// BREAK: the lanes leave the barrier.
void leave_barrier(Warp& w, const Instruction& i) {
  if (i.count == 2) w.mask &= w.lanes_of(i.operands[0]);
  if (w.mask == 0) return;
  const u32 index = i.operands[i.count - 1].index;
  u32* barrier = w.registers[index].lane;
  const u32 before = barrier[__builtin_ctz(w.mask)];
  for (u32 l = 0; l < kLanes; ++l) {
    if (before >> l & 1) barrier[l] &= ~w.mask;
  }
  for (Group& g : w.groups) {
    if (g.wait == Wait{Wait::kBarrier, before, index}) g.wait.mask &= ~w.mask;
  }
  // `release` reorders the groups: the one that runs is found again.
  const u32 mask = w.group().mask;
  w.release();
  for (size_t k = 0; k < w.groups.size(); ++k) {
    if (w.groups[k].mask == mask) w.running = k;
  }
}

// BMOV. With CLEAR, too, the register that is read keeps its value: the compiler saves a barrier
// twice in a row and restores it only from the second copy.
void move_barrier(Warp& w, const Instruction& i) {
  Row t;
  w.store(i.operands[0], w.words(i.operands[1], t));
}

void vote(Warp& w, const Instruction& i) {
  const u32 first = i.operands[0].kind == OperandKind::kPredicate ? 0 : 1;
  const u32 votes = w.lanes_of(i.operands[first + 1]) & w.mask;
  const bool result = i.is(kALL)   ? votes == w.mask
                      : i.is(kEQ)  ? votes == 0 || votes == w.mask
                      : i.is(kANY) ? votes != 0
                                   : throw Unknown("vote");
  if (first == 1) w.store_all(i.operands[0], votes);
  w.set_lanes(i.operands[first], result ? kEveryone : 0);
}

// SHFL, as PTX defines it.
void shuffle(Warp& w, const Instruction& i) {
  Row t[3], out;
  const u32* a = w.words(i.operands[2], t[0]);
  const u32* b = w.words(i.operands[3], t[1]);
  const u32* c = w.words(i.operands[4], t[2]);
  u32 valid = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const u32 segment = c[l] >> 8 & 31, clamp = c[l] & 31, amount = b[l] & 31;
    const u32 last = (l & segment) | (clamp & ~segment), first = l & segment;
    const u32 from = i.is(kUP)     ? l - amount
                     : i.is(kDOWN) ? l + amount
                     : i.is(kBFLY) ? l ^ amount
                     : i.is(kIDX)  ? first | (amount & ~segment)
                                   : throw Unknown("shuffle");
    const bool is_valid = i.is(kUP) ? i32(from) >= i32(last) : from <= last;
    const u32 source = is_valid ? from : l;
    out.lane[l] = w.mask >> source & 1 ? a[source] : kGarbage * 0x01010101u;
    valid |= u32(is_valid) << l;
  }
  w.store(i.operands[1], out.lane);
  w.set_lanes(i.operands[0], valid);
}

// MATCH.ANY: the lanes with the same value; MATCH.ALL: all lanes, if they have one value.
void match(Warp& w, const Instruction& i) {
  const u32 first = i.operands[0].kind == OperandKind::kPredicate ? 1 : 0;
  u64 values[kLanes];
  w.numbers(i.operands[first + 1], i.is(kU64), values);
  Row out = {};
  bool all = true;
  for (u32 l = 0; l < kLanes; ++l) {
    for (u32 k = 0; k < kLanes; ++k) {
      const bool is_same = values[k] == values[l];
      if (w.mask >> l & w.mask >> k & 1) {
        out.lane[l] |= u32(is_same) << k;
        all = all && is_same;
      }
    }
  }
  if (i.is(kALL)) std::fill_n(out.lane, kLanes, all ? w.mask : 0);
  w.store(i.operands[first], out.lane);
  if (first == 1) w.set_lanes(i.operands[0], all ? kEveryone : 0);
}

void reduce(Warp& w, const Instruction& i) {
  Row t;
  const u32* a = w.words(i.operands[1], t);
  const bool is_signed = i.is(kS32);
  const auto less = [&](u32 x, u32 y) { return is_signed ? i32(x) < i32(y) : x < y; };
  u32 total = a[__builtin_ctz(w.mask)];
  for (u32 rest = w.mask & (w.mask - 1); rest != 0; rest &= rest - 1) {
    const u32 x = a[__builtin_ctz(rest)];
    total = i.is(kOR)    ? total | x
            : i.is(kAND) ? total & x
            : i.is(kXOR) ? total ^ x
            : i.is(kMIN) ? (less(x, total) ? x : total)
            : i.is(kMAX) ? (less(total, x) ? x : total)
                         : total + x;
  }
  w.store_all(i.operands[0], total);
}

// R2UR: the word of the first lane. A predicate tells which lanes have another one.
void to_uniform(Warp& w, const Instruction& i) {
  const u32 first = i.operands[0].kind == OperandKind::kPredicate ? 1 : 0;
  Row t;
  const u32* const words = w.words(i.operands[first + 1], t);
  const u32 word = words[__builtin_ctz(w.mask)];
  u32 others = 0;
  for (u32 l = 0; l < kLanes; ++l) others |= u32(words[l] != word) << l;
  if (first != 0) w.set_lanes(i.operands[0], others);
  w.store_all(i.operands[first], word);
}

u32 special_of(const Warp& w, Special which, u32 l) {
  const Block& block = *w.block;
  const u32 thread = w.number * kLanes + l;
  switch (which) {
    case kSRZ:
    case kSR_CgaCtaId:  // a cluster has one block
      return 0;
    case kSR_TID_X:
      return thread % block.size[0];
    case kSR_TID_Y:
      return thread / block.size[0] % block.size[1];
    case kSR_TID_Z:
      return thread / block.size[0] / block.size[1];
    case kSR_CTAID_X:
      return block.index[0];
    case kSR_CTAID_Y:
      return block.index[1];
    case kSR_CTAID_Z:
      return block.index[2];
    case kSR_LANEID:
      return l;
    case kSR_EQMASK:
      return 1u << l;
    case kSR_LTMASK:
      return (1u << l) - 1;
    case kSR_LEMASK:
      return (2u << l) - 1;
    case kSR_GTMASK:
      return ~((2u << l) - 1);
    case kSR_GEMASK:
      return ~((1u << l) - 1);
    case kSR_SWINHI:
      return u32(kSharedBase >> 32);
    case kSR_CLOCKLO:
      return u32(w.issued);
    default:
      throw Unknown("special register");
  }
}

// S2R, S2UR and CS2R, which has 64 bits.
void read_special(Warp& w, const Instruction& i, bool is_pair) {
  if (i.operands[1].kind != OperandKind::kSpecial) throw Unknown("special register");
  Row out, zero = {};
  for (u32 l = 0; l < kLanes; ++l) out.lane[l] = special_of(w, Special(i.operands[1].value), l);
  w.store(i.operands[0], out.lane);
  if (is_pair) w.store_row(w.row_of(i.operands[0]) + 1, zero.lane);
}

// BAR of the block. Wait::mask: number, and threads that it waits for in the upper half (0: all).
void block_barrier(Warp& w, const Instruction& i) {
  if (i.is(kSYNC) + i.is(kRED) + i.is(kARV) != 1) throw Unknown("BAR");
  Row t;
  const auto number = [&](u32 k) { return w.words(i.operands[k], t)[__builtin_ctz(w.mask)]; };
  const bool has_count = i.count > 1 && i.operands[1].kind != OperandKind::kPredicate;
  const u32 id = number(0) & 15, count = has_count ? number(1) : 0;
  if (i.is(kRED)) {
    const u32 votes = w.lanes_of(i.operands[i.count - 1]) & w.mask;
    Reduction& r = w.block->reductions[id];
    r.votes += u32(__builtin_popcount(votes));
    r.others += u32(__builtin_popcount(w.mask & ~votes));
    r.needs_all = i.is(kAND);
  }
  if (i.is(kARV)) {  // arrives and does not wait
    w.block->arrived[id | count << 16] += u32(__builtin_popcount(w.mask));
    return;
  }
  Row masks;
  std::fill_n(masks.lane, kLanes, id | count << 16);
  w.wait(Wait::kBlock, masks.lane);
}

// B2R.RESULT: what the last reduction of a barrier found, a number or a predicate.
void barrier_result(Warp& w, const Instruction& i) {
  if (!i.is(kRESULT)) throw Unknown("B2R");
  const Reduction& r = w.block->result;
  for (u32 k = 0; k < i.count; ++k) {
    if (i.operands[k].kind == OperandKind::kWord) {
      w.store_all(i.operands[k], r.votes);
    } else {
      w.set_lanes(i.operands[k], (r.needs_all ? r.others == 0 : r.votes != 0) ? kEveryone : 0);
    }
  }
}

void nothing(Warp&, const Instruction&) {}

// YIELD and NANOSLEEP: another group of lanes continues, if there is one.
void yield(Warp& w, const Instruction&) {
  if (w.groups.size() < 2) return;
  std::rotate(w.groups.begin(), w.groups.begin() + i64(w.running),
              w.groups.begin() + i64(w.running) + 1);
  w.has_moved = true;
}

}  // namespace

const std::vector<OperationEntry> kControl = {
    {"BRA", branch, "DIV CONV"},
    {"BRX", branch_indexed, ""},
    {"CALL", call, "REL ABS NOINC"},
    {"RET", return_, "REL ABS NODEC"},
    {"EXIT", leave, ""},
    {"NOP", nothing, ""},
    {"ENDCOLLECTIVE", nothing, ""},
    {"DEPBAR", nothing, "LE"},
    {"YIELD", yield, ""},
    {"NANOSLEEP", yield, ""},
    {"BSSY", begin, ""},
    {"BSYNC", meet<Wait::kBarrier>, ""},
    {"WARPSYNC", meet<Wait::kWarp>, "ALL COLLECTIVE EXCLUSIVE"},
    {"BREAK", leave_barrier, ""},
    {"BMOV", move_barrier, "32 CLEAR"},
    {"BAR", block_barrier, "SYNC ARV RED AND OR POPC DEFER_BLOCKING"},
    {"B2R", barrier_result, "RESULT"},
    {"VOTE", vote, "ALL ANY EQ"},
    {"SHFL", shuffle, "IDX UP DOWN BFLY"},
    {"MATCH", match, "ANY ALL U64"},
    {"REDUX", reduce, "OR AND XOR MIN MAX SUM S32"},
    {"R2UR", to_uniform, ""},
    {"S2R", [](Warp& w, const Instruction& i) { read_special(w, i, false); }, ""},
    {"CS2R", [](Warp& w, const Instruction& i) { read_special(w, i, !i.is(k32)); }, "32"},
};

}  // namespace sass
