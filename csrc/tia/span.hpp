// tia/span.hpp: fills a stretch of one row of pixels from the masks of the objects (NOTES.md 8.2).
//
// paint_objects_plain() is the rule; where the host has AVX2, paint_objects() does 32 pixels at a
// time, with NEON 16.
#pragma once

#include "base/platform.hpp"

#if defined(CULE_VECTOR)
#include "tia/pixel_vector.hpp"
#endif

#include "tia/shapes.hpp"

namespace cule {

// Which object a pixel shows where several are.
struct ColorOrder {
  bool splits_playfield;  // its halves have the colours of the players
  bool is_field_first;    // playfield and ball are in front of the players
};

CULE_HD CULE_INLINE ColorOrder color_order(const TiaState& s, const Shapes& shapes) {
  if ((s.ctrlpf & 6) == 0) return {false, false};
  const bool score = s.ctrlpf >> 1 & 1;
  const bool priority = s.ctrlpf >> 2 & 1;
  const bool lone_playfield = shapes.active == 1u << kPlayfield;
  return {score && (!priority || lone_playfield), priority && !(score && lone_playfield)};
}

// The pixels in colours 0 to 2, disjoint; the rest has colour 3.
CULE_HD inline void make_layers(const Mask (&objects)[kObjects], ColorOrder order,
                                Mask (&layers)[3]) {
  for (u32 w = 0; w < kMaskWords; ++w) {
    const u64 left = range_bits(w, 0, kScreenWidth / 2);
    const u64 playfield = objects[kPlayfield].word[w];
    const u64 field = playfield | objects[kBall].word[w];
    u64 first = objects[kPlayer0].word[w] | objects[kMissile0].word[w];
    u64 second = objects[kPlayer1].word[w] | objects[kMissile1].word[w];
    if (order.splits_playfield) {
      first |= playfield & left;
      second |= playfield & ~left;
    }
    if (order.is_field_first) {
      first &= ~field;
      second &= ~field;
    }
    layers[0].word[w] = first;
    layers[1].word[w] = second & ~first;
    layers[2].word[w] = order.is_field_first ? field : field & ~first & ~second;
  }
}

// Byte i of the result is $FF where bit i of `bits` is set.
CULE_HD CULE_INLINE constexpr u64 expand_bits(u32 bits) {
  u64 x = (bits * 0x0101010101010101ULL) & 0x8040201008040201ULL;
  x = ((x | ((x & 0x7F7F7F7F7F7F7F7FULL) + 0x7F7F7F7F7F7F7F7FULL)) >> 7) & 0x0101010101010101ULL;
  return x * 0xFF;
}

static_assert(expand_bits(0x81) == 0xFF000000000000FFULL && expand_bits(0xFF) == ~0ULL);

// Pixels [x0, x1) of a row of 160, in colours as they are written.
CULE_HD inline void paint_objects_plain(const Mask (&objects)[kObjects], ColorOrder order,
                                        const u8 (&colors)[4], u8* row, u32 x0, u32 x1) {
  Mask layers[3];
  make_layers(objects, order, layers);
  u64 color[4];
  for (u32 i = 0; i < 4; ++i) color[i] = colors[i] * 0x0101010101010101ULL;
  for (u32 x = x0 & ~7u; x < x1; x += 8) {
    const u32 w = x >> 6;
    const u32 shift = x & 63;
    u64 pixels = color[3];
    for (u32 i = 0; i < 3; ++i) {
      const u32 bits = u32(layers[i].word[w] >> shift) & 0xFF;
      if (bits) pixels ^= (pixels ^ color[i]) & expand_bits(bits);
    }
    if (x < x0 || x + 8 > x1) {
      const u32 low = x < x0 ? x0 - x : 0;
      const u32 high = x1 - x < 8 ? x1 - x : 8;
      const u64 inside = expand_bits(((1u << high) - 1) & ~((1u << low) - 1));
      u64 old;
      memcpy(&old, row + x, sizeof old);
      pixels = (pixels & inside) | (old & ~inside);
    }
    memcpy(row + x, &pixels, sizeof pixels);
  }
}

#if defined(CULE_VECTOR)

// The bytes from of + kSize - n on are $FF from byte n on; those from of + 2 kSize - n on, up to
// byte n.
struct EdgeBytes {
  u8 of[3 * PixelVector::kSize];
};
constexpr EdgeBytes make_edge_bytes() {
  EdgeBytes e{};
  for (u32 i = PixelVector::kSize; i < 2 * PixelVector::kSize; ++i) e.of[i] = 0xFF;
  return e;
}
inline constexpr EdgeBytes kEdgeBytes = make_edge_bytes();

template <bool in_usual_order>
CULE_VECTOR void paint_objects_at_once(const Mask* objects, ColorOrder order, const u8* colors,
                                       u8* row, u32 x0, u32 x1) {
  using Bits = PixelVector::Bits;
  constexpr u32 kSize = PixelVector::kSize;
  const u8* bits = reinterpret_cast<const u8*>(objects) + x0 / kSize * sizeof(Bits);
  const auto bits_of = [&](Object object) {
    Bits found;
    memcpy(&found, bits + object * sizeof(Mask), sizeof found);
    return u32(found);
  };
  u32 x = x0 & ~(kSize - 1);
  do {
    u32 first = bits_of(kPlayer0) | bits_of(kMissile0);
    u32 second = bits_of(kPlayer1) | bits_of(kMissile1);
    const u32 playfield = bits_of(kPlayfield), field = playfield | bits_of(kBall);
    if (!in_usual_order && order.splits_playfield) {
      const u32 left = Bits(range_bits(x / 64, 0, kScreenWidth / 2) >> (x & 63));
      first |= playfield & left;
      second |= playfield & ~left;
    }
    const bool is_field_first = !in_usual_order && order.is_field_first;
    PixelVector pixels(colors[3]);
    if (!is_field_first) pixels.paint(field, colors[2]);
    pixels.paint(second, colors[1]);
    pixels.paint(first, colors[0]);
    if (is_field_first) pixels.paint(field, colors[2]);
    if (x < x0 || x + kSize > x1) {
      pixels.keep(row + x, kEdgeBytes.of + kSize - (x < x0 ? x0 - x : 0),
                  kEdgeBytes.of + 2 * kSize - (x1 - x < kSize ? x1 - x : kSize));
    }
    pixels.store(row + x);
    x += kSize;
    bits += sizeof(Bits);
  } while (x < x1);
}

inline void paint_objects(const Mask (&objects)[kObjects], ColorOrder order, const u8 (&colors)[4],
                          u8* row, u32 x0, u32 x1) {
  if (!CULE_HAS_VECTORS()) {
    paint_objects_plain(objects, order, colors, row, x0, x1);
  } else if (order.splits_playfield || order.is_field_first) {
    paint_objects_at_once<false>(objects, order, colors, row, x0, x1);
  } else {
    paint_objects_at_once<true>(objects, order, colors, row, x0, x1);
  }
}

#else

CULE_HD CULE_INLINE void paint_objects(const Mask (&objects)[kObjects], ColorOrder order,
                                       const u8 (&colors)[4], u8* row, u32 x0, u32 x1) {
  paint_objects_plain(objects, order, colors, row, x0, x1);
}

#endif

}  // namespace cule
