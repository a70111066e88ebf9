// obs/colours.hpp: a picture of colour register values as gray levels or RGB.
#pragma once

#include "obs/palette.hpp"

namespace cule {

// In: `n` pixels, a table of 256 entries of `channels` bytes (obs/palette.hpp). Out: their entries.
inline void look_up_colours(const u8* pixels, size_t n, const u8* table, u32 channels, u8* out) {
  for (size_t i = 0; i < n; ++i) {
    for (u32 k = 0; k < channels; ++k) *out++ = table[pixels[i] * channels + k];
  }
}

}  // namespace cule
