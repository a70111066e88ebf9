// cuda/line_memory.hpp: the state of a scanline, and the shared memory that a scan of a log needs.
#pragma once

#include "console/ram.hpp"
#include "cuda/register_rules.hpp"

namespace cule {

// The state of a scanline: the registers as they were written, each at its own number, and what
// follows from the order of accesses.
enum LineByte : u32 {
  kLinePosition = 0x30,  // [5]
  kLineOldGraphics = 0x35,
  kLineOldBall = 0x37,
  kLineSkip = 0x38,
  kLineMirror = 0x3A,
  kLineHmoveBlank = 0x3B,
  kLineBytes = 0x40,
};

// Shared memory of a warp: the states, what the scanlines write, the state for the scanlines after
// them, the rules of the registers and the selectors of four lanes (register_rules.hpp).
constexpr u32 kLineStateBytes = kLineBytes * kWarpLanes;
constexpr u32 kLineNextAt = 2 * kLineStateBytes;
constexpr u32 kLineRulesAt = kLineNextAt + kLineBytes;
constexpr u32 kLineSelectorsAt = kLineRulesAt + kNumRegisters * sizeof(u32);
constexpr u32 kLineScanBytes = kLineSelectorsAt + kNumSelectors * sizeof(u32);

}  // namespace cule
