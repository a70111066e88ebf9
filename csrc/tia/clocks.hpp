// tia/clocks.hpp: units of time and picture geometry, each written once.
//
// A CPU cycle is three colour clocks; a line is 76 cycles = 228 clocks, the first 68 of them
// horizontal blank. "Frame clocks" count from clock 0 of line 0 of the running frame: frame clock =
// 3 * (cycles since the frame start) + phase, where the phase (0..225) is how far into a line the
// frame started.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

enum class Format : u8 { kNtsc, kPal };

constexpr u32 kClocksPerCycle = 3;
constexpr u32 kCyclesPerLine = 76;
constexpr u32 kClocksPerLine = kCyclesPerLine * kClocksPerCycle;
constexpr u32 kScreenWidth = 160;
constexpr u32 kHblankClocks = kClocksPerLine - kScreenWidth;
constexpr u32 kMaxRows = 300;
constexpr u32 kMinHeight = 200;

static_assert(kClocksPerLine == 228 && kHblankClocks == 68);

// A write later than this scanline ends the frame.
CULE_HD CULE_INLINE constexpr u32 max_line(Format format) {
  return format == Format::kPal ? 342 : 290;
}

CULE_HD CULE_INLINE constexpr u32 clocks_from_cycles(u32 cycles) {
  return cycles * kClocksPerCycle;
}

// First displayed line and number of displayed lines, as frame clocks.
struct VisibleWindow {
  u32 begin_clocks;
  u32 end_clocks;
};

CULE_HD CULE_INLINE constexpr VisibleWindow make_window(u32 first_line, u32 height) {
  return {first_line * kClocksPerLine, (first_line + height) * kClocksPerLine};
}

}  // namespace cule
