// tests/fuzz/console.hpp: a cartridge and a console made from the bytes of an input.
//
// An input is a header (CartridgePlan, then a few bytes of each target) and a program. The program
// is repeated over an image of the chosen size, so that short inputs fill a whole cartridge.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "batch/snapshot.hpp"
#include "host/engine.hpp"
#include "host/game.hpp"
#include "input.hpp"
#include "rig.hpp"

namespace cule::fuzz {

// What an image of some size needs so that it is detected as of a type.
struct ImageKind {
  u32 bytes;
  bool has_ram = false;  // the first 256 bytes of each bank are equal
  std::vector<u8> mark;  // at its start
};

inline const std::vector<ImageKind>& image_kinds() {
  static const std::vector<ImageKind> kinds = {
      {2048, false, {}},                              // 2K
      {4096, false, {}},                              // 4K
      {8192, false, {}},                              // F8
      {8192, true, {}},                               // F8SC
      {16384, false, {}},                             // F6
      {16384, true, {}},                              // F6SC
      {8192, false, {0x8D, 0xE0, 0x1F}},              // E0
      {8192, false, {0x20, 0x00, 0xD0, 0xC6, 0xC5}},  // FE
      {10240, false, {}},                             // DPC
  };
  return kinds;
}

// The image: of one of the kinds above, or, with any other number, the program itself.
inline Bytes read_image(Input& in) {
  const u32 kind = in.byte();
  const u32 reset = in.byte() | u32(in.byte()) << 8;
  const u32 brk = in.byte() | u32(in.byte()) << 8;
  const Bytes program = in.rest();
  if (kind >= image_kinds().size() || program.empty()) return program;
  const ImageKind& k = image_kinds()[kind];
  Bytes image(k.bytes);
  for (size_t i = 0; i < image.size(); ++i) image[i] = program[i % program.size()];
  for (size_t bank = 0; bank + kBankBytes / 2 <= image.size(); bank += kBankBytes) {
    const size_t end = image.size() - bank < kBankBytes ? image.size() : bank + kBankBytes;
    image[end - 5] = u8(bank / kBankBytes);  // banks differ
    image[end - 4] = u8(reset);
    image[end - 3] = u8(reset >> 8);
    image[end - 2] = u8(brk);
    image[end - 1] = u8(brk >> 8);
    if (k.has_ram) std::memset(image.data() + bank, program[0], 256);
  }
  std::copy(k.mark.begin(), k.mark.end(), image.begin());
  return image;
}

inline ConsoleProperties read_properties(Input& in) {
  const u32 flags = in.byte();
  ConsoleProperties p{};
  p.format = flags & 1 ? Format::kPal : Format::kNtsc;
  p.hmove_blanks = flags >> 1 & 1;
  p.left_paddles = flags >> 2 & 1;
  p.right_paddles = flags >> 3 & 1;
  p.swap_paddles = flags >> 4 & 1;
  p.swap_ports = !p.left_paddles && !p.right_paddles && (flags >> 5 & 1);
  p.first_line = in.below(65);
  p.height = kMinHeight + in.below(kMaxRows - 40 - kMinHeight + 1);
  return p;
}

// The log that a console records into is short in some inputs, so that it fills up.
inline u32 read_log_capacity(Input& in) {
  constexpr u32 kCapacities[] = {kLogCapacity, 1500, 600, 100, 17, 1};
  return kCapacities[in.below(std::size(kCapacities))];
}

// Counts the instructions of frame steps, and that none executes too many.
inline void count_instructions(Clock end) {
  constexpr u32 kLongestSkip = 2 * kMaxSkippedInstructions;
  const u32 instructions = instructions_of(end);
  if (instructions > kMaxInstructions + kLongestSkip) report("a frame step does not end");
  totals().instructions += instructions;
}

struct CountedHostEngine : HostEngine {
  void run(Machine<HostAccess>& m) const { count_instructions(HostEngine::run(m)); }
};

inline void check_equal(const ConsoleState& a, const ConsoleState& b) {
  if (std::memcmp(a.ram, b.ram, kRamBytes) != 0) report("RAM differs");
  if (std::memcmp(&a.cpu, &b.cpu, sizeof a.cpu) != 0) report("registers of the processor differ");
  if (a.cycles != b.cycles) report("cycles differ");
  if (std::memcmp(&a.timer, &b.timer, sizeof a.timer) != 0) report("timers differ");
  if (std::memcmp(&a.cart, &b.cart, sizeof a.cart) != 0) report("cartridges differ");
  if (std::memcmp(&a.tia, &b.tia, sizeof a.tia) != 0) report("registers of the TIA differ");
  if (std::memcmp(&a, &b, sizeof a) != 0) report("states differ");
}

inline void check_equal(const TiaWriteLog& a, const TiaWriteLog& b) {
  if (a.size != b.size || std::memcmp(a.entries, b.entries, a.size * sizeof(LogEntry)) != 0) {
    report("write logs differ");
  }
}

}  // namespace cule::fuzz
