// obs/palette.hpp: colours of the two television formats.
//
// In: a colour register value, 0 to 255; odd ones appear on a PAL machine that lost colour. Out:
// the levels ale-py shows for it. Source and rules: obs/NOTES.md 1. The tables are written out in
// palette.generated.hpp; the asserts below hold them to the rules.
#pragma once

#include <cstring>

#include "base/int.hpp"
#include "base/platform.hpp"
#include "obs/palette.generated.hpp"
#include "tia/clocks.hpp"

namespace cule {

inline constexpr Palette kNtscPalette = make_ntsc_palette();
inline constexpr Palette kPalPalette = make_pal_palette();

// NOTES.md 1.2: the luma of an even value.
constexpr bool is_gray_the_luma(const Palette& palette) {
  for (int value = 0; value < 256; value += 2) {
    const u8* rgb = palette.rgb + 3 * value;
    if (palette.gray[value] != (2989 * rgb[0] + 5870 * rgb[1] + 1140 * rgb[2] + 5000) / 10000)
      return false;
  }
  return true;
}

// NOTES.md 1.3: an odd value has the gray of the even one before it as its colour, and the blue of
// the even one after it as its gray.
constexpr bool are_odd_values_shifted(const Palette& palette) {
  for (int value = 1; value < 256; value += 2) {
    const u8* rgb = palette.rgb + 3 * value;
    const u8 before = palette.gray[value - 1];
    if (rgb[0] != before || rgb[1] != before || rgb[2] != before) return false;
    if (palette.gray[value] != (value == 255 ? 0 : rgb[3 + 2])) return false;
  }
  return true;
}

static_assert(kNtscPalette.gray[0x0E] == 236 && kPalPalette.gray[0x0E] == 236, "white");
static_assert(kNtscPalette.rgb[3 * 0x40] == 148 && kPalPalette.rgb[3 * 0x40] == 112, "red");
static_assert(is_gray_the_luma(kNtscPalette) && is_gray_the_luma(kPalPalette));
static_assert(are_odd_values_shifted(kNtscPalette) && are_odd_values_shifted(kPalPalette));

constexpr const Palette& palette(Format format) {
  return format == Format::kPal ? kPalPalette : kNtscPalette;
}

// 256 gray levels, by colour register value.
constexpr const u8* gray_table(Format format) { return palette(format).gray; }

// 256 colours of three bytes (red, green, blue), by colour register value.
constexpr const u8* rgb_table(Format format) { return palette(format).rgb; }

// Writes the colours of n palette indices, three bytes each.
inline void write_rgb(Format format, const u8* indices, size_t n, u8* rgb_out) {
  const u8* table = rgb_table(format);
  for (size_t i = 0; i < n; ++i, rgb_out += 3) memcpy(rgb_out, table + 3 * indices[i], 3);
}

}  // namespace cule
