// integers.cpp: operations on integers, bits and predicates.
#include <utility>

#include "warp.hpp"

namespace sass {
namespace {

// Stores f of the words of the `n` operands after the first.
template <class F, size_t... K>
void map_words(Warp& w, const Instruction& i, F f, std::index_sequence<K...>) {
  Row t[sizeof...(K)], out;
  const u32* const in[] = {w.words(i.operands[1 + K], t[K])...};
  for (u32 l = 0; l < kLanes; ++l) out.lane[l] = f(in[K][l]...);
  w.store(i.operands[0], out.lane);
}
template <size_t n, class F>
void map(Warp& w, const Instruction& i, F f) {
  map_words(w, i, f, std::make_index_sequence<n>());
}

bool is_predicate(const Instruction& i, u32 k) {
  return k < i.count && i.operands[k].kind == OperandKind::kPredicate;
}

u32 bit(u32 lanes, u32 lane) { return lanes >> lane & 1; }

void move(Warp& w, const Instruction& i) {
  Row t;
  w.store(i.operands[0], w.words(i.operands[1], t));
}

// IADD3 and IADD3.X, with carries. A negative operand is its complement and 1, except with X,
// where the 1 is the carry.
void add3(Warp& w, const Instruction& i) {
  u32 k = 1;
  while (is_predicate(i, k)) ++k;
  const u32 first = k;
  const bool extends = i.is(kX);
  u64 total[kLanes] = {};
  for (; k < first + 3; ++k) {
    Operand o = i.operands[k];
    const bool is_negative = o.flags & kNegative;
    if (is_negative) o.flags = u8((o.flags & ~kNegative) | kComplement);
    Row t;
    const u32* a = w.words(o, t);
    const u32 one = is_negative && !extends;
    for (u32 l = 0; l < kLanes; ++l) total[l] += u64(a[l]) + one;
  }
  for (; extends && k < i.count; ++k) {
    const u32 carry = w.lanes_of(i.operands[k]);
    for (u32 l = 0; l < kLanes; ++l) total[l] += bit(carry, l);
  }
  Row out;
  u32 carries[2] = {};
  for (u32 l = 0; l < kLanes; ++l) {
    out.lane[l] = u32(total[l]);
    for (u32 n = 0; n < 2; ++n) carries[n] |= u32(total[l] >> 32 > n) << l;
  }
  w.store(i.operands[0], out.lane);
  for (u32 n = 1; n < first; ++n) w.set_lanes(i.operands[n], carries[n - 1]);
}

// IMAD in all its forms.
void multiply_add(Warp& w, const Instruction& i) {
  const bool has_carry_out = is_predicate(i, 1);
  const u32 first = has_carry_out ? 2 : 1;
  const bool is_pair = i.is(kWIDE) || i.is(kHI);
  Row t[3], out;
  const u32* a = w.words(i.operands[first], t[0]);
  const u32* b = w.words(i.operands[first + 1], t[1]);
  const Operand& c_operand = i.operands[first + 2];
  if (!is_pair && !has_carry_out && !i.is(kX)) {
    const u32* c = w.words(c_operand, t[2]);
    for (u32 l = 0; l < kLanes; ++l) out.lane[l] = a[l] * b[l] + c[l];
    w.store(i.operands[0], out.lane);
    return;
  }
  u64 c[kLanes], total[kLanes];
  w.numbers(c_operand, is_pair, c);
  const u32 carry_in = i.is(kX) ? w.lanes_of(i.operands[first + 3]) : 0;
  u32 carry_out = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const u64 product = i.is(kU32) ? u64(a[l]) * b[l] : u64(i64(i32(a[l])) * i32(b[l]));
    const u64 sum = product + c[l];
    total[l] = sum + bit(carry_in, l);
    carry_out |= u32(sum < product || total[l] < sum) << l;
  }
  if (i.is(kWIDE)) {
    w.store_pair(i.operands[0], total);
  } else {
    for (u32 l = 0; l < kLanes; ++l) out.lane[l] = u32(i.is(kHI) ? total[l] >> 32 : total[l]);
    w.store(i.operands[0], out.lane);
  }
  if (has_carry_out) w.set_lanes(i.operands[1], carry_out);
}

template <class F>
u32 compare_words(const u32* a, const u32* b, F f) {
  u32 result = 0;
  for (u32 l = 0; l < kLanes; ++l) result |= u32(f(a[l], b[l])) << l;
  return result;
}

// ISETP. With EX the low words were compared before: predicate 5.
void compare(Warp& w, const Instruction& i) {
  Row t[2];
  const u32* a = w.words(i.operands[2], t[0]);
  const u32* b = w.words(i.operands[3], t[1]);
  const u32 equal = compare_words(a, b, [](u32 x, u32 y) { return x == y; });
  const u32 less = i.is(kU32) ? compare_words(a, b, [](u32 x, u32 y) { return x < y; })
                              : compare_words(a, b, [](u32 x, u32 y) { return i32(x) < i32(y); });
  const u32 greater = ~(less | equal);
  u32 value = 0;
  if (i.is(kEX)) {
    const u32 low = w.lanes_of(i.operands[5]);
    value = i.is(kNE)                ? ~equal | low
            : i.is(kEQ)              ? equal & low
            : i.is(kLT) || i.is(kLE) ? less | (equal & low)
            : i.is(kGT) || i.is(kGE) ? greater | (equal & low)
                                     : throw Unknown("comparison");
  } else {
    value = i.is(kEQ)   ? equal
            : i.is(kNE) ? ~equal
            : i.is(kLT) ? less
            : i.is(kLE) ? less | equal
            : i.is(kGT) ? greater
            : i.is(kGE) ? greater | equal
                        : throw Unknown("comparison");
  }
  set_comparison(w, i, value);
}

// The function of three words with a given truth table.
u32 look_up(u32 table, u32 a, u32 b, u32 c) {
  u32 total = 0;
  for (u32 k = 0; k < 8; ++k) {
    if (table >> k & 1) total |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  }
  return total;
}

// LOP3: any function of three words.
void logic(Warp& w, const Instruction& i) {
  const u32 first = is_predicate(i, 0) ? 1 : 0;
  Row t[3], out = {};
  const u32* a = w.words(i.operands[first + 1], t[0]);
  const u32* b = w.words(i.operands[first + 2], t[1]);
  const u32* c = w.words(i.operands[first + 3], t[2]);
  const u32 table = u32(i.operands[first + 4].value);
  for (u32 l = 0; l < kLanes; ++l) out.lane[l] = look_up(table, a[l], b[l], c[l]);
  u32 nonzero = w.lanes_of(i.operands[first + 5]);
  for (u32 l = 0; l < kLanes; ++l) nonzero |= u32(out.lane[l] != 0) << l;
  w.store(i.operands[first], out.lane);
  if (first == 1) w.set_lanes(i.operands[0], nonzero);
}

// PLOP3: any two functions of three predicates.
void logic_predicates(Warp& w, const Instruction& i) {
  const u32 a = w.lanes_of(i.operands[2]);
  const u32 b = w.lanes_of(i.operands[3]);
  const u32 c = w.lanes_of(i.operands[4]);
  w.set_lanes(i.operands[0], look_up(u32(i.operands[5].value), a, b, c));
  w.set_lanes(i.operands[1], look_up(u32(i.operands[6].value), a, b, c));
}

// PRMT: bytes of two words; bit 3 of a digit of the selector repeats the byte's sign.
void permute(Warp& w, const Instruction& i) {
  map<3>(w, i, [](u32 low, u32 selector, u32 high) {
    const u64 both = low | u64(high) << 32;
    u32 result = 0;
    for (u32 k = 0; k < 4; ++k) {
      const u32 digit = selector >> 4 * k & 0xF;
      const u32 byte = u32(both >> 8 * (digit & 7)) & 0xFF;
      result |= (digit & 8 ? (byte & 0x80 ? 0xFFu : 0u) : byte) << 8 * k;
    }
    return result;
  });
}

// SHF: 64 bits, high and low, shifted; one word of it is kept.
void shift(Warp& w, const Instruction& i) {
  const bool is_left = i.is(kL), is_high = i.is(kHI), wraps = i.is(kW);
  const bool is_signed = i.is(kS32) || i.is(kS64);
  const u32 bits = i.is(kU64) || i.is(kS64) ? 64 : 32;
  map<3>(w, i, [=](u32 low, u32 count, u32 high) {
    count = wraps ? count % bits : std::min(count, bits);
    u64 both = low | u64(high) << 32;
    if (is_left) {
      both = count > 63 ? 0 : both << count;
    } else if (is_signed) {
      both = u64(i64(both) >> std::min(count, 63u));
    } else {
      both = count > 63 ? 0 : both >> count;
    }
    return u32(is_high ? both >> 32 : both);
  });
}

// VIMNMX and VIADDMNMX, of words or of halves; with RELU at least 0.
void minimum(Warp& w, const Instruction& i, bool adds) {
  const u32 is_minimum = w.lanes_of(i.operands[adds ? 4 : 3]);
  const bool is_unsigned = i.is(kU32) || i.is(kU16x2), is_halves = i.is(kU16x2) || i.is(kS16x2);
  const bool relu = i.is(kRELU);
  Row t[3], out;
  const u32* a = w.words(i.operands[1], t[0]);
  const u32* b = w.words(i.operands[2], t[1]);
  const u32* c = adds ? w.words(i.operands[3], t[2]) : nullptr;
  for (u32 l = 0; l < kLanes; ++l) {
    const auto pick = [&](u32 x, u32 y) {
      const bool is_less = is_unsigned ? x < y : i32(x) < i32(y);
      const u32 picked = is_less == bool(bit(is_minimum, l)) ? x : y;
      return relu && i32(picked) < 0 ? 0 : picked;
    };
    const u32 y = adds ? c[l] : b[l];
    if (is_halves) {
      const auto half = [&](u32 x, u32 k) {
        return is_unsigned ? x >> 16 * k & 0xFFFF : u32(i32(x << (16 - 16 * k)) >> 16);
      };
      const auto sum = [&](u32 k) {
        const u32 s = half(a[l], k) + (adds ? half(b[l], k) : 0);
        return half(s, 0);
      };
      out.lane[l] = (pick(sum(0), half(y, 0)) & 0xFFFF) | pick(sum(1), half(y, 1)) << 16;
    } else {
      out.lane[l] = pick(a[l] + (adds ? b[l] : 0), y);
    }
  }
  w.store(i.operands[0], out.lane);
}

// LEA.
void shifted_add(Warp& w, const Instruction& i) {
  const u32 first = is_predicate(i, 1) ? 2 : 1;
  const bool is_high = i.is(kHI), extends = i.is(kX);
  const u32 last = i.count - (extends ? 1 : 0);
  const u32 carry_in = extends ? w.lanes_of(i.operands[last]) : 0;
  const u32 count = u32(i.operands[last - 1].value);
  const bool has_high = last - 1 - first == 3;
  if (is_high && !has_high && !i.is(kSX32)) throw Unknown("LEA");
  Row t[3], out;
  Operand a_operand = i.operands[first];
  const bool is_negative = a_operand.flags & kNegative;
  if (is_negative && (extends || is_high)) throw Unknown("LEA of a negative");
  const u32* a = w.words(a_operand, t[0]);
  const u32* b = w.words(i.operands[first + 1], t[1]);
  const u32* c = has_high ? w.words(i.operands[first + 2], t[2]) : nullptr;
  u32 carry_out = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const u32 high = has_high ? c[l] : u32(i32(a[l]) >> 31);
    const u64 both = a[l] | u64(high) << 32;
    const u64 shifted = is_high ? both >> (32 - count) : both << count;
    const u64 total = u64(u32(shifted)) + b[l] + bit(carry_in, l);
    out.lane[l] = u32(total);
    carry_out |= u32(total >> 32) << l;
  }
  w.store(i.operands[0], out.lane);
  if (first == 2) w.set_lanes(i.operands[1], carry_out);
}

void select(Warp& w, const Instruction& i) {
  const u32 first = w.lanes_of(i.operands[3]);
  Row t[2], out;
  const u32* a = w.words(i.operands[1], t[0]);
  const u32* b = w.words(i.operands[2], t[1]);
  for (u32 l = 0; l < kLanes; ++l) out.lane[l] = bit(first, l) ? a[l] : b[l];
  w.store(i.operands[0], out.lane);
}

// IDP.4A: products of four bytes, summed. IDP.2A: of two halves and the low or high bytes.
void dot_product(Warp& w, const Instruction& i) {
  if (i.is(k2A)) {
    if (!i.is(kU16) || !i.is(kU8) || i.is(kLO) == i.is(kHI)) throw Unknown("IDP.2A");
    const u32 shift = i.is(kHI) ? 16 : 0;
    map<3>(w, i, [=](u32 a, u32 b, u32 c) {
      return c + (a & 0xFFFF) * u8(b >> shift) + (a >> 16) * u8(b >> (shift + 8));
    });
    return;
  }
  if (i.is(kU8) == i.is(kS8)) throw Unknown("IDP of mixed signs");
  const bool is_signed = i.is(kS8);
  map<3>(w, i, [=](u32 a, u32 b, u32 c) {
    for (u32 k = 0; k < 32; k += 8) {
      c += is_signed ? u32(i32(int8_t(a >> k)) * int8_t(b >> k)) : u32(u8(a >> k)) * u8(b >> k);
    }
    return c;
  });
}

// VABSDIFF: a difference, added. VABSDIFF4: differences of four bytes, summed.
void difference(Warp& w, const Instruction& i) {
  const bool is_unsigned = i.is(kU32);
  map<3>(w, i, [=](u32 a, u32 b, u32 c) {
    return (is_unsigned ? a < b : i32(a) < i32(b)) ? b - a + c : a - b + c;
  });
}
void differences(Warp& w, const Instruction& i) {
  if (!i.is(kU8) || !i.is(kACC)) throw Unknown("VABSDIFF4");
  map<3>(w, i, [](u32 a, u32 b, u32 c) {
    for (u32 k = 0; k < 32; k += 8) c += u32(std::abs(int(u8(a >> k)) - int(u8(b >> k))));
    return c;
  });
}

void extend_sign(Warp& w, const Instruction& i) {
  const bool is_unsigned = i.is(kU32), wraps = i.is(kW);
  map<2>(w, i, [=](u32 a, u32 bits) {
    bits = wraps ? bits % 32 : std::min(bits, 32u);
    if (bits == 0) return 0u;
    const u32 up = 32 - bits;
    return is_unsigned ? a << up >> up : u32(i32(a << up) >> up);
  });
}

// BMSK: `count` bits from a position on.
void make_mask(Warp& w, const Instruction& i) {
  const bool wraps = i.is(kW);
  map<2>(w, i, [=](u32 from, u32 count) {
    if (wraps) from %= 32, count %= 32;
    const u64 bits = count >= 32 ? ~0u : (1u << count) - 1;
    return from >= 32 ? 0u : u32(bits << from);
  });
}

// FLO: the highest bit, or with SH the zeros above it; -1 for 0. Signed: the highest bit that
// differs from the sign.
void find_highest(Warp& w, const Instruction& i) {
  const bool counts_zeros = i.is(kSH), is_signed = !i.is(kU32);
  const u32 to = is_predicate(i, 1) ? 2 : 1;
  u32 found = 0;
  Row t, out;
  const u32* a = w.words(i.operands[to], t);
  for (u32 l = 0; l < kLanes; ++l) {
    const u32 x = is_signed && i32(a[l]) < 0 ? ~a[l] : a[l];
    found |= u32(x != 0) << l;
    const u32 zeros = x == 0 ? 0 : u32(__builtin_clz(x));
    out.lane[l] = x == 0 ? ~0u : counts_zeros ? zeros : 31 - zeros;
  }
  w.store(i.operands[0], out.lane);
  if (to == 2) w.set_lanes(i.operands[1], found);
}

void reverse_bits(Warp& w, const Instruction& i) {
  map<1>(w, i, [](u32 x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0F0F0F0F) | (x & 0x0F0F0F0F) << 4;
    return __builtin_bswap32(x);
  });
}

void count_bits(Warp& w, const Instruction& i) {
  map<1>(w, i, [](u32 x) { return u32(__builtin_popcount(x)); });
}

void absolute(Warp& w, const Instruction& i) {
  map<1>(w, i, [](u32 x) { return i32(x) < 0 ? 0 - x : x; });
}

// P2R: predicates to bits of a word; R2P: the reverse. The last operand says which.
void pack(Warp& w, const Instruction& i) {
  Row t, out;
  const u32* base = w.words(i.operands[2], t);
  const u32 which = u32(i.operands[3].value);
  for (u32 l = 0; l < kLanes; ++l) {
    out.lane[l] = base[l] & ~which;
    for (u32 k = 0; k < 7; ++k) out.lane[l] |= (which >> k & bit(w.predicates[k], l)) << k;
  }
  w.store(i.operands[0], out.lane);
}
void unpack(Warp& w, const Instruction& i) {
  Row t;
  const u32* a = w.words(i.operands[1], t);
  const Operand& which = i.operands[2];
  for (u32 k = 0; k < 7; ++k) {
    if (which.kind == OperandKind::kNumber && !(which.value >> k & 1)) continue;
    u32 value = 0;
    for (u32 l = 0; l < kLanes; ++l) value |= bit(a[l], k) << l;
    w.predicates[k] = (w.predicates[k] & ~w.mask) | (value & w.mask);
  }
}

}  // namespace

const std::vector<OperationEntry> kIntegers = {
    {"MOV", move, ""},
    {"IADD3", add3, "X"},
    {"VIADD",
     [](Warp& w, const Instruction& i) { map<2>(w, i, [](u32 a, u32 b) { return a + b; }); }, ""},
    {"IMAD", multiply_add, "U32 X HI WIDE MOV SHL IADD"},
    {"ISETP", compare, "EQ NE LT LE GT GE U32 AND OR XOR EX"},
    {"LOP3", logic, "LUT"},
    {"PLOP3", logic_predicates, "LUT"},
    {"PRMT", permute, ""},
    {"SHF", shift, "L R W HI U32 S32 U64 S64"},
    {"VIMNMX", [](Warp& w, const Instruction& i) { minimum(w, i, false); }, "U32 U16x2 S16x2 RELU"},
    {"VIADDMNMX", [](Warp& w, const Instruction& i) { minimum(w, i, true); },
     "U32 U16x2 S16x2 RELU"},
    {"LEA", shifted_add, "HI X SX32"},
    {"SEL", select, ""},
    {"FSEL", select, ""},
    {"IDP", dot_product, "4A 2A LO HI U16 U8 S8"},
    {"VABSDIFF", difference, "U32"},
    {"VABSDIFF4", differences, "U8 ACC"},
    {"SGXT", extend_sign, "U32 W"},
    {"BMSK", make_mask, "W"},
    {"FLO", find_highest, "U32 SH"},
    {"BREV", reverse_bits, ""},
    {"POPC", count_bits, ""},
    {"IABS", absolute, ""},
    {"P2R", pack, ""},
    {"R2P", unpack, ""},
};

}  // namespace sass
