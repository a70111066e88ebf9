// floats.cpp: floating point, of which the kernels have little. Compiled with -frounding-math.
#include <cfenv>
#include <cmath>

#include "warp.hpp"

namespace sass {
namespace {

// The rounding mode that the instruction names, while this lives.
class Rounding {
 public:
  explicit Rounding(const Instruction& i) : before_(std::fegetround()) {
    std::fesetround(i.is(kRP)   ? FE_UPWARD
                    : i.is(kRM) ? FE_DOWNWARD
                    : i.is(kRZ) ? FE_TOWARDZERO
                                : FE_TONEAREST);
  }
  ~Rounding() { std::fesetround(before_); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  int before_;
};

template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class T>
T with_flags(T x, const Operand& o) {
  if (o.flags & kAbsolute) x = std::fabs(x);
  return o.flags & kNegative ? -x : x;
}

// Operands as float32 or float64.
void read(const Warp& w, const Instruction& i, u32 k, float* out) {
  Operand o = i.operands[k];
  o.flags = 0;
  Row t;
  const u32* a = w.words(o, t);
  for (u32 l = 0; l < kLanes; ++l) {
    float x = bits<float>(a[l]);
    if (i.is(kFTZ) && std::fpclassify(x) == FP_SUBNORMAL) x = std::copysign(0.0f, x);
    out[l] = with_flags(x, i.operands[k]);
  }
}
void read(const Warp& w, const Instruction& i, u32 k, double* out) {
  Operand o = i.operands[k];
  o.flags = 0;
  u64 a[kLanes];
  w.pairs(o, a);
  for (u32 l = 0; l < kLanes; ++l) out[l] = with_flags(bits<double>(a[l]), i.operands[k]);
}

void store(Warp& w, const Operand& to, const float* values) {
  Row out;
  for (u32 l = 0; l < kLanes; ++l) out.lane[l] = bits<u32>(values[l]);
  w.store(to, out.lane);
}
void store(Warp& w, const Operand& to, const double* values) {
  u64 out[kLanes];
  for (u32 l = 0; l < kLanes; ++l) out[l] = bits<u64>(values[l]);
  w.store_pair(to, out);
}

// Stores f of up to three operands; the last is repeated for those that are missing.
template <class T, class F>
void map(Warp& w, const Instruction& i, F f) {
  T in[3][kLanes], out[kLanes];
  for (u32 k = 0; k < 3; ++k) read(w, i, std::min(k + 1, u32(i.count) - 1), in[k]);
  const Rounding rounding(i);
  for (u32 l = 0; l < kLanes; ++l) {
    out[l] = f(in[0][l], in[1][l], in[2][l]);
    if (i.is(kFTZ) && std::fpclassify(out[l]) == FP_SUBNORMAL) out[l] = std::copysign(T(0), out[l]);
  }
  store(w, i.operands[0], out);
}

template <class T>
void add(Warp& w, const Instruction& i) {
  map<T>(w, i, [](T a, T, T last) { return a + last; });  // DADD has an unused operand between
}
template <class T>
void multiply(Warp& w, const Instruction& i) {
  map<T>(w, i, [](T a, T b, T) { return a * b; });
}
template <class T>
void multiply_add(Warp& w, const Instruction& i) {
  map<T>(w, i, [](T a, T b, T c) { return std::fma(a, b, c); });
}

void minimum(Warp& w, const Instruction& i) {
  const u32 is_minimum = w.lanes_of(i.operands[3]);
  float a[kLanes], b[kLanes], out[kLanes];
  read(w, i, 1, a);
  read(w, i, 2, b);
  for (u32 l = 0; l < kLanes; ++l) {
    out[l] = is_minimum >> l & 1 ? std::fmin(a[l], b[l]) : std::fmax(a[l], b[l]);
  }
  store(w, i.operands[0], out);
}

// FSETP and DSETP.
template <class T>
void compare(Warp& w, const Instruction& i) {
  T a[kLanes], b[kLanes];
  read(w, i, 2, a);
  read(w, i, 3, b);
  u32 value = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const bool is_nan = std::isnan(a[l]) || std::isnan(b[l]);
    const bool is_ordered = i.is(kEQ)    ? a[l] == b[l]
                            : i.is(kLT)  ? a[l] < b[l]
                            : i.is(kLE)  ? a[l] <= b[l]
                            : i.is(kGT)  ? a[l] > b[l]
                            : i.is(kGE)  ? a[l] >= b[l]
                            : i.is(kNE)  ? !is_nan && a[l] != b[l]
                            : i.is(kNUM) ? !is_nan
                                         : false;
    const bool is_unordered = i.is(kEQU)   ? is_nan || a[l] == b[l]
                              : i.is(kNEU) ? is_nan || a[l] != b[l]
                              : i.is(kLTU) ? is_nan || a[l] < b[l]
                              : i.is(kLEU) ? is_nan || a[l] <= b[l]
                              : i.is(kGTU) ? is_nan || a[l] > b[l]
                              : i.is(kGEU) ? is_nan || a[l] >= b[l]
                              : i.is(kNAN) ? is_nan
                                           : false;
    value |= u32(is_ordered || is_unordered) << l;
  }
  set_comparison(w, i, value);
}

// I2F and I2FP: words to float32 or float64.
template <class T>
void from_integer_to(Warp& w, const Instruction& i) {
  if (i.is(kU64) || i.is(kS64)) throw Unknown("I2F of pairs");
  Row t;
  const u32* a = w.words(i.operands[1], t);
  const bool is_unsigned = i.is(kU32) || i.is(kU8) || i.is(kU16);
  T out[kLanes];
  const Rounding rounding(i);
  for (u32 l = 0; l < kLanes; ++l) {
    const u32 x = i.is(kU8) ? u8(a[l]) : i.is(kU16) ? u16(a[l]) : a[l];
    const i64 value = is_unsigned  ? i64(x)
                      : i.is(kS8)  ? i64(int8_t(x))
                      : i.is(kS16) ? i64(int16_t(x))
                                   : i64(i32(x));
    out[l] = T(value);
  }
  store(w, i.operands[0], out);
}
void from_integer(Warp& w, const Instruction& i) {
  i.is(kF64) ? from_integer_to<double>(w, i) : from_integer_to<float>(w, i);
}

template <class T>
T whole_of(const Instruction& i, T x) {
  return i.is(kTRUNC)   ? std::trunc(x)
         : i.is(kFLOOR) ? std::floor(x)
         : i.is(kCEIL)  ? std::ceil(x)
                        : std::nearbyint(x);
}

// F2I: to words, with saturation; NaN is 0.
void to_integer(Warp& w, const Instruction& i) {
  if (i.is(kU64) || i.is(kS64)) throw Unknown("F2I to pairs");
  double x[kLanes];
  if (i.is(kF64)) {
    read(w, i, 1, x);
  } else {
    float single[kLanes];
    read(w, i, 1, single);
    std::copy_n(single, kLanes, x);
  }
  const bool is_unsigned = i.is(kU32);
  Row out;
  for (u32 l = 0; l < kLanes; ++l) {
    const double whole = whole_of(i, x[l]);
    const double low = is_unsigned ? 0.0 : -2147483648.0;
    const double high = is_unsigned ? 4294967295.0 : 2147483647.0;
    out.lane[l] = std::isnan(whole) ? 0 : u32(i64(std::min(std::max(whole, low), high)));
  }
  w.store(i.operands[0], out.lane);
}

void round(Warp& w, const Instruction& i) {
  map<float>(w, i, [&](float a, float, float) { return whole_of(i, a); });
}

// MUFU.RCP, and RCP64H of the high word of a float64. The hardware's last bit may differ.
void reciprocal(Warp& w, const Instruction& i) {
  if (i.is(kRCP)) {
    map<float>(w, i, [](float a, float, float) { return 1 / a; });
    return;
  }
  if (!i.is(kRCP64H)) throw Unknown("MUFU");
  Row t, out;
  const u32* a = w.words(i.operands[1], t);
  for (u32 l = 0; l < kLanes; ++l) {
    out.lane[l] = u32(bits<u64>(1 / bits<double>(u64(a[l]) << 32)) >> 32);
  }
  w.store(i.operands[0], out.lane);
}

// F2F.
template <class To, class From>
void convert(Warp& w, const Instruction& i) {
  From from[kLanes];
  To to[kLanes];
  read(w, i, 1, from);
  for (u32 l = 0; l < kLanes; ++l) to[l] = To(from[l]);
  store(w, i.operands[0], to);
}

// HFMA2 as the compiler uses it to load a constant: the product is -0, so the sum is operand 3,
// two halves that the decoder has packed.
void load_halves(Warp& w, const Instruction& i) {
  const bool is_zero = i.operands[1].index == kZero && i.operands[2].index == kZero;
  if (!is_zero || i.operands[3].kind != OperandKind::kNumber) throw Unknown("HFMA2");
  w.store_all(i.operands[0], u32(i.operands[3].value));
}

#define COMPARISONS "EQ NE LT LE GT GE NUM NAN EQU NEU LTU LEU GTU GEU AND OR XOR FTZ"
#define ROUNDINGS "RN RZ RM RP FTZ"

}  // namespace

const std::vector<OperationEntry> kFloats = {
    {"FADD", add<float>, ROUNDINGS},
    {"FMUL", multiply<float>, ROUNDINGS},
    {"FFMA", multiply_add<float>, ROUNDINGS},
    {"DADD", add<double>, ROUNDINGS},
    {"DMUL", multiply<double>, ROUNDINGS},
    {"DFMA", multiply_add<double>, ROUNDINGS},
    {"FMNMX", minimum, "FTZ"},
    {"FSETP", compare<float>, COMPARISONS},
    {"DSETP", compare<double>, COMPARISONS},
    {"I2F", from_integer, "U8 S8 U16 S16 U32 S32 F32 F64 RN RZ RM RP"},
    {"I2FP", from_integer, "U32 S32 F32 RN RZ RM RP"},
    {"F2I", to_integer, "FTZ U32 S32 F64 TRUNC FLOOR CEIL NTZ"},
    {"FRND", round, "TRUNC FLOOR CEIL FTZ"},
    {"MUFU", reciprocal, "RCP RCP64H"},
    {"F2F.F64.F32", convert<double, float>, ""},
    {"F2F.F32.F64", convert<float, double>, ""},
    {"HFMA2", load_halves, "MMA"},
};

}  // namespace sass
