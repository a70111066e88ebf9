// obs/averaging.hpp: colour averaging of two frames (ALE's color_averaging), on colour register
// values.
//
// In: the picture of a frame and of the emulated frame before it, neither averaged, one value a
// pixel. Out: the even value whose colour is nearest to a mixture of the two. Rule and source:
// obs/NOTES.md 2.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"
#include "obs/palette.hpp"

namespace cule {

// The averaged value of every pair; symmetric.
struct AverageTable {
  u8 value[256][256];
};

// One channel of the mixture: 77 hundredths of the way to the brighter level, in steps of four.
constexpr i32 mix_channel(i32 a, i32 b) {
  const i32 high = a > b ? a : b;
  const i32 low = a > b ? b : a;
  return (77 * (high - low) / 100 + low) & ~3;
}

// Even value nearest to a colour by the sum of channel differences; the lowest one of several.
constexpr u8 nearest_even_value(const Palette& palette, i32 red, i32 green, i32 blue) {
  constexpr i32 kFarther = 3 * 256;
  i32 best = kFarther;
  u8 best_value = 0;
  for (i32 value = 0; value < 256; value += 2) {
    const u8* rgb = palette.rgb + 3 * value;
    const i32 dr = rgb[0] > red ? rgb[0] - red : red - rgb[0];
    const i32 dg = rgb[1] > green ? rgb[1] - green : green - rgb[1];
    const i32 db = rgb[2] > blue ? rgb[2] - blue : blue - rgb[2];
    if (dr + dg + db < best) {
      best = dr + dg + db;
      best_value = u8(value);
    }
  }
  return best_value;
}

constexpr u8 average_value(const Palette& palette, u8 a, u8 b) {
  const u8* x = palette.rgb + 3 * a;
  const u8* y = palette.rgb + 3 * b;
  return nearest_even_value(palette, mix_channel(x[0], y[0]), mix_channel(x[1], y[1]),
                            mix_channel(x[2], y[2]));
}

static_assert(mix_channel(0, 236) == 180 && mix_channel(236, 236) == 236);

// Fills the table of one format; a few milliseconds, once.
inline void make_average_table(Format format, AverageTable& table_out) {
  const Palette& colours = palette(format);
  for (i32 a = 0; a < 256; ++a) {
    for (i32 b = 0; b <= a; ++b) {
      table_out.value[a][b] = table_out.value[b][a] = average_value(colours, u8(a), u8(b));
    }
  }
}

// dst may be current or previous.
inline void average_frames(const AverageTable& table, const u8* current, const u8* previous,
                           size_t n, u8* dst) {
  for (size_t i = 0; i < n; ++i) dst[i] = table.value[current[i]][previous[i]];
}

}  // namespace cule
