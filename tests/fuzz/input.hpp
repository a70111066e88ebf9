// tests/fuzz/input.hpp: what every fuzz target shares: the bytes of an input, how a finding is
// reported, and the totals that a run prints when it ends.
//
// A target is one LLVMFuzzerTestOneInput(). It is linked with libFuzzer (`make fuzz`), or with
// run_files.cpp, which runs files.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/int.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace cule::fuzz {

// Printed at the end of the process: how much a run has covered is counted, not estimated.
struct Totals {
  std::atomic<u64> inputs{0};
  std::atomic<u64> instructions{
      0};  // of the 6507, emulated; those of skipped idle loops are counted too

  Totals() = default;
  Totals(const Totals&) = delete;
  Totals& operator=(const Totals&) = delete;
  ~Totals() {
    std::fprintf(stderr, "totals: %llu inputs, %llu instructions\n",
                 static_cast<unsigned long long>(inputs.load()),
                 static_cast<unsigned long long>(instructions.load()));
  }
};

inline Totals& totals() {
  static Totals t;
  return t;
}

[[noreturn]] inline void report(const char* what) {
  std::fprintf(stderr, "finding: %s\n", what);
  std::abort();
}

// Reads an input from its start; zeros follow the last byte.
class Input {
 public:
  Input(const u8* data, size_t size) : next_(data), end_(data + size) {}

  u8 byte() { return next_ == end_ ? u8(0) : *next_++; }
  u32 below(u32 n) { return byte() % n; }
  u32 word() {
    u32 value = 0;
    for (u32 i = 0; i < 4; ++i) value |= u32(byte()) << (8 * i);
    return value;
  }
  bool is_empty() const { return next_ == end_; }
  std::vector<u8> rest() {
    std::vector<u8> bytes(next_, end_);
    next_ = end_;
    return bytes;
  }

 private:
  const u8* next_;
  const u8* end_;
};

// An input in two parts, so that a target can read options behind the bytes they belong to.
struct InputParts {
  static constexpr size_t kHeaderBytes = 12;

  Input header, body;

  InputParts(const u8* data, size_t size)
      : header(data, size < kHeaderBytes ? size : kHeaderBytes),
        body(data + (size < kHeaderBytes ? size : kHeaderBytes),
             size < kHeaderBytes ? 0 : size - kHeaderBytes) {
    ++totals().inputs;
  }
};

}  // namespace cule::fuzz
