// obs/palette.hpp: colours of the two television formats.
//
// In: a colour register value, 0 to 255; odd ones appear on a PAL machine that lost colour. Out:
// the levels ale-py shows for it. Source and rules: obs/NOTES.md 1. The colours of even values are
// written out in palette.generated.hpp; the rules give the rest.
#pragma once

#include <cstring>

#include "base/int.hpp"
#include "base/platform.hpp"
#include "obs/palette.generated.hpp"
#include "tia/clocks.hpp"

namespace cule {

// Colours of one television format, by colour register value.
struct Palette {
  u8 gray[256];
  u8 rgb[256 * 3];  // red, green, blue of value 0, of value 1, ...
};

constexpr Palette make_palette(const EvenColours& even_colours) {
  Palette palette{};
  for (int even = 0; even < 256; even += 2) {
    const int odd = even + 1;
    const u8* const rgb = even_colours + 3 * (even / 2);
    // NOTES.md 1.2: the luma of an even value.
    const u8 gray = u8((2989 * rgb[0] + 5870 * rgb[1] + 1140 * rgb[2] + 5000) / 10000);
    palette.gray[even] = gray;
    // NOTES.md 1.3: an odd value has the gray of the even one before it as its colour, and the blue
    // of the even one after it as its gray.
    palette.gray[odd] = odd == 255 ? u8(0) : rgb[3 + 2];
    for (int channel = 0; channel < 3; ++channel) {
      palette.rgb[3 * even + channel] = rgb[channel];
      palette.rgb[3 * odd + channel] = gray;
    }
  }
  return palette;
}

inline constexpr Palette kNtscPalette = make_palette(kNtscColours);
inline constexpr Palette kPalPalette = make_palette(kPalColours);

static_assert(kNtscPalette.gray[0x0E] == 236 && kPalPalette.gray[0x0E] == 236, "white");
static_assert(kNtscPalette.rgb[3 * 0x40] == 148 && kPalPalette.rgb[3 * 0x40] == 112, "red");

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
