// tests/cpp/arm64_code.cpp: pieces of AArch64 code, executed by tests/fuzz/arm64_cpu.hpp, against
// the same in C++: arithmetic of 8 bits with all operands, constants, addresses and jumps.
#include <cstdio>
#include <functional>
#include <vector>

#include "../fuzz/arm64_cpu.hpp"
#include "jit/arm64.hpp"
#include "random.hpp"

using namespace cule;
using namespace cule::jit;
using namespace cule::jit::arm64;

namespace {

constexpr size_t kRoom = 4 << 20, kFar = 3 << 20;

struct Io {
  u32 a, b, c;  // in
  u32 result, carry, overflow, zero, sign;
  u8 bytes[70'000];
};
Io io;
std::vector<u8> room(kRoom);
u32 num_failures = 0;

u32 word(Random& random) { return random.next() << 16 ^ random.next(); }

constexpr Mem in_io(size_t offset) { return {kContext, i32(offset)}; }

// A function with a, b and c in kA, kX and kCarry, which stores kA.
void write_function(const std::function<void(Assembler&)>& body) {
  Assembler as(reinterpret_cast<u64>(room.data()));
  as.enter();
  as.load(kA, in_io(offsetof(Io, a)));
  as.load(kX, in_io(offsetof(Io, b)));
  as.load(kCarry, in_io(offsetof(Io, c)));
  body(as);
  as.store(in_io(offsetof(Io, result)), kA);
  as.leave();
  if (!as.is_valid()) ++num_failures;
  std::memcpy(room.data(), as.bytes().data(), as.size());
}

void run(u32 a, u32 b, u32 c) {
  io.a = a, io.b = b, io.c = c;
  io.result = io.carry = io.overflow = io.zero = io.sign = 0;
  arm64_cpu::run(reinterpret_cast<u64>(room.data()), &io, 0);
}

void expect(const char* what, u32 a, u32 b, u32 found, u32 wanted) {
  if (found == wanted) return;
  if (num_failures++ < 10) std::printf("%s of %x, %x: %x, not %x\n", what, a, b, found, wanted);
}

void store_flags(Assembler& as, Reg of) {
  as.set_if(kIfBelow, in_io(offsetof(Io, carry)));
  as.set_if(kIfOverflow, in_io(offsetof(Io, overflow)));
  if (!as.shows_nz()) as.test8(of);
  as.set_if(kIfZero, in_io(offsetof(Io, zero)));
  as.set_if(kIfSign, in_io(offsetof(Io, sign)));
}

// --- arithmetic of 8 bits ---

enum class From { kRegister, kMemory, kConstant };

void check_sums(Alu op, From from, u32 constant) {
  const bool adds = op == kAdd || op == kAdcc, is_chained = op == kAdcc || op == kSbb;
  for (u32 known = 0; known < 3; ++known) {  // the carry: 0, 1, in a register
    write_function([&](Assembler& as) {
      if (known == 0) as.clear_carry();
      if (known == 1) as.set_carry();
      if (known == 2 && op == kAdcc) as.carry_from(kCarry);
      if (known == 2 && op == kSbb) as.alu8(kCmp, kCarry, 1), as.complement_carry();
      if (from == From::kRegister) as.alu8(op, kA, kX);
      if (from == From::kMemory) as.alu8(op, kA, in_io(offsetof(Io, b)));
      if (from == From::kConstant) as.alu8(op, kA, constant);
      store_flags(as, kA);
    });
    for (u32 n = 0; n < 1 << 17; ++n) {
      const u32 a = n & 0xFF, b = from == From::kConstant ? constant : n >> 8 & 0xFF, c = n >> 16;
      if (from == From::kConstant && (n >> 8 & 0xFF) != 0) continue;
      const u32 carry = !is_chained ? 0 : known == 2 ? c : known;
      run(a, b, c);
      const u32 sum = adds ? a + b + carry : a - b - carry;
      const i32 exact = adds ? i8(a) + i8(b) + i32(carry) : i8(a) - i8(b) - i32(carry);
      expect("result", a, b, io.result, sum & 0xFF);
      expect("carry", a, b, io.carry, sum >> 8 & 1);
      expect("overflow", a, b, io.overflow, exact != i8(exact));
      expect("zero", a, b, io.zero, (sum & 0xFF) == 0);
      expect("sign", a, b, io.sign, sum >> 7 & 1);
    }
  }
}

// `f`: the result, and the carry as bit 8.
void check_one(const char* what, const std::function<void(Assembler&)>& body, bool has_carry,
               u32 (*f)(u32 a, u32 b, u32 c)) {
  write_function(body);
  for (u32 n = 0; n < 1 << 17; ++n) {
    const u32 a = n & 0xFF, b = n >> 8 & 0xFF, c = n >> 16;
    run(a, b, c);
    const u32 wanted = f(a, b, c);
    expect(what, a, b, io.result, wanted & 0xFF);
    if (has_carry) expect("its carry", a, b, io.carry, wanted >> 8 & 1);
    expect("its zero", a, b, io.zero, (wanted & 0xFF) == 0);
    expect("its sign", a, b, io.sign, wanted >> 7 & 1);
  }
}

void check_arithmetic() {
  for (const Alu op : {kAdd, kAdcc, kSub, kSbb}) {
    check_sums(op, From::kRegister, 0);
    check_sums(op, From::kMemory, 0);
    for (const u32 constant : {0u, 1u, 0x7Fu, 0x80u, 0xFFu}) {
      check_sums(op, From::kConstant, constant);
    }
  }
  const auto shift = [](Shift op) {
    return [op](Assembler& as) {
      as.carry_from(kCarry);
      as.shift8_by_one(op, kA);
      store_flags(as, kA);
    };
  };
  check_one("shift", shift(kShr), true, [](u32 a, u32, u32) { return a >> 1 | (a & 1) << 8; });
  check_one("turn", shift(kRcr), true,
            [](u32 a, u32, u32 c) { return a >> 1 | c << 7 | (a & 1) << 8; });
  const auto then_flags = [](const std::function<void(Assembler&)>& f) {
    return [f](Assembler& as) { f(as), store_flags(as, kA); };
  };
  check_one("increment", then_flags([](Assembler& as) { as.increment8(kA); }), false,
            [](u32 a, u32, u32) { return a + 1; });
  check_one("decrement", then_flags([](Assembler& as) { as.decrement8(kA); }), false,
            [](u32 a, u32, u32) { return a - 1; });
  check_one("and", then_flags([](Assembler& as) { as.alu8(kAndd, kA, kX); }), false,
            [](u32 a, u32 b, u32) { return a & b; });
  check_one("or", then_flags([](Assembler& as) { as.alu8(kOrr, kA, kX); }), false,
            [](u32 a, u32 b, u32) { return a | b; });
  check_one("exclusive or", then_flags([](Assembler& as) { as.alu8(kXor, kA, 0x5A); }), false,
            [](u32 a, u32, u32) { return a ^ 0x5A; });
  check_one("comparison",
            then_flags([](Assembler& as) { as.alu8(kCmp, kA, kX), as.set_if(kIfBelow, kA); }),
            false, [](u32 a, u32 b, u32) { return u32(a < b); });
}

// --- constants, addresses, jumps ---

u32 calculated(Alu op, u32 a, u32 b) {
  return op == kAdd ? a + b : op == kSub ? a - b : op == kAndd ? a & b : op == kOrr ? a | b : a ^ b;
}

void check_constants(Random& random) {
  for (u32 n = 0; n < 20'000; ++n) {
    // Words of all sizes, and runs of ones.
    const u32 any = word(random) >> (n & 31);
    const u32 value = n & 64 ? (~0u >> (n & 31)) & (~0u << (any & 31)) : n & 32 ? 0u - any : any;
    const u32 a = word(random), b = word(random);
    const Alu op = n % 5 == 0   ? kAdd
                   : n % 5 == 1 ? kSub
                   : n % 5 == 2 ? kAndd
                   : n % 5 == 3 ? kOrr
                                : kXor;
    write_function([&](Assembler& as) { as.alu(op, kA, value); });
    run(a, b, 0);
    expect("calculation", a, value, io.result, calculated(op, a, value));
    write_function([&](Assembler& as) { as.set(kA, value); });
    run(a, b, 0);
    expect("constant", 0, 0, io.result, value);
    write_function([&](Assembler& as) {
      as.alu(kCmp, kA, value);
      as.set_if(n & 1 ? kIfAbove : kIfNotAbove, in_io(offsetof(Io, zero)));
      as.set_if(n & 1 ? kIfNotBelow : kIfBelow, in_io(offsetof(Io, carry)));
    });
    const u32 near = n & 2 ? value : value + (n >> 8 & 2) - 1;
    run(near, 0, 0);
    expect("above", near, value, io.zero, (near > value) == (n & 1));
    expect("below", near, value, io.carry, (near < value) != (n & 1));
    const u8 scale = u8(n & 3);
    const i32 displacement = i32(value << 8) >> 8;  // below 2^23
    write_function(
        [&](Assembler& as) { as.lea(kA, {kA, displacement, n & 4 ? kX : kNoReg, scale}); });
    run(a, b, 0);
    expect("address", a, b, io.result, a + u32(displacement) + (n & 4 ? b << scale : 0));
    write_function(
        [&](Assembler& as) { as.lea(kX, {kA, displacement, kX, scale}), as.move(kA, kX); });
    run(a, b, 0);
    expect("address over index", a, b, io.result, a + u32(displacement) + (b << scale));
  }
}

void check_memory(Random& random) {
  for (u8& byte : io.bytes) byte = u8(word(random));
  for (u32 n = 0; n < 20'000; ++n) {
    const u32 size = 1u << n % 3, index = n & 4 ? word(random) & 0x3FF : 0;
    const u8 scale = u8(n & 8 ? n % 3 : 0);
    const i32 most = n & 16 ? 300 : 60'000;
    const i32 displacement = i32(word(random) % u32(most)) - (n & 32 ? 150 : 0);
    const i32 begin = i32(offsetof(Io, bytes)) + 256;
    const u32 at = u32(i32(256 + (index << scale)) + displacement);
    if (displacement < -256) continue;
    // The base is a place within the bytes, as RAM and images are.
    write_function([&](Assembler& as) {
      as.move64(kRam, kContext);
      as.alu64(kAdd, kRam, u32(begin));
      const Mem mem{kRam, displacement, n & 4 ? kX : kNoReg, scale};
      if (n & 64) {
        if (size == 1) as.store8(mem, kA);
        if (size == 2) as.store16(mem, 0x8001u + (n & 0xFF));
        if (size == 4) as.store(mem, kA);
      }
      if (size == 1) as.load8(kA, mem);
      if (size == 2) as.load16(kA, mem);
      if (size == 4) as.load(kA, mem);
    });
    const u32 a = word(random);
    run(a, index, 0);
    u32 wanted = 0;
    std::memcpy(&wanted, io.bytes + at, size);
    expect("what is loaded", at, size, io.result, wanted);
    if (n & 64) {
      const u32 stored = size == 1 ? a & 0xFF : size == 2 ? 0x8001u + (n & 0xFF) : a;
      expect("what is stored", at, size, wanted, stored);
    }
  }
}

void check_jumps() {
  const u64 far = reinterpret_cast<u64>(room.data()) + kFar;
  Assembler there(far);
  there.set(kA, 7);
  there.store(in_io(offsetof(Io, result)), kA);
  there.leave();
  std::memcpy(room.data() + kFar, there.bytes().data(), there.size());
  for (const Condition c : {kIfBelow, kIfNotBelow, kIfZero, kIfNotZero, kIfAbove, kIfNotAbove}) {
    for (const u32 a : {1u, 2u, 3u}) {
      const bool holds = c == kIfBelow      ? a < 2
                         : c == kIfNotBelow ? a >= 2
                         : c == kIfZero     ? a == 2
                         : c == kIfNotZero  ? a != 2
                         : c == kIfAbove    ? a > 2
                                            : a <= 2;
      write_function([&](Assembler& as) { as.alu(kCmp, kA, 2), as.jump(c, far); });
      run(a, 0, 0);
      expect("far jump", a, u32(c), io.result, holds ? 7 : a);
      write_function([&](Assembler& as) {
        as.alu(kCmp, kA, 2);
        const size_t over = as.jump_later(c);
        as.set(kA, 9);
        as.patch_here(over);
      });
      run(a, 0, 0);
      expect("near jump", a, u32(c), io.result, holds ? a : 9);
    }
  }
  Assembler as(reinterpret_cast<u64>(room.data()));
  as.patch(as.jump_later(kIfZero), far);
  expect("a jump that is too far", 0, 0, as.is_valid(), 0);
}

}  // namespace

int main() {
  Random random;
  check_arithmetic();
  check_constants(random);
  check_memory(random);
  check_jumps();
  std::printf("%u failures\n", num_failures);
  return num_failures != 0;
}
