// tia/shapes.hpp: which pixels of a line each object covers, as 160-bit masks (bit x = pixel x).
//
// The masks are a cache of TiaState: a write that changes an object marks it stale, refresh()
// rebuilds what is stale. `version` changes whenever a mask did.
#pragma once

#include "tia/state.hpp"

namespace cule {

constexpr u32 kMaskWords = 3;

struct Mask {
  u64 word[kMaskWords];
};

CULE_HD CULE_INLINE void add(Mask& m, const Mask& more) {
  for (u32 w = 0; w < kMaskWords; ++w) m.word[w] |= more.word[w];
}

// ORs a pattern of at most 32 pixels (bit 0 leftmost) in at pixel x, wrapping at the right edge.
CULE_HD CULE_INLINE void place_pattern(Mask& m, u32 x, u64 pattern) {
  const u32 w = x >> 6;
  const u32 shift = x & 63;
  m.word[w] |= pattern << shift;
  if (w < 2) {
    if (shift > 32) m.word[w + 1] |= pattern >> (64 - shift);
  } else {
    m.word[0] |= m.word[2] >> 32;
    m.word[2] &= 0xFFFFFFFFULL;
  }
}

// Pixels that a bit of a player's graphics is wide.
CULE_HD CULE_INLINE constexpr u32 player_width(u32 mode) {
  return mode == 5 ? 2 : mode == 7 ? 4 : 1;
}

// Pixels of player n showing `graphics` (bit 7 leftmost before reflection).
CULE_HD inline Mask player_mask(const TiaState& s, u32 n, u32 graphics) {
  Mask m{};
  const u32 mode = s.nusiz[n] & 7;
  const u32 bits = s.refp[n] ? graphics : reverse_bits8(graphics);
  const u32 width = player_width(mode);
  const u64 pattern = widen_byte(bits, width);
  const u32 position = s.position[kPlayer0 + n];
  if (!s.skip[n]) place_pattern(m, wrap_position(i32(position + (width > 1))), pattern);
  const PlayerCopies copies = player_copies(mode);
  if (copies.second) place_pattern(m, wrap_position(i32(position + copies.second)), pattern);
  if (copies.third) place_pattern(m, wrap_position(i32(position + copies.third)), pattern);
  return m;
}

// 1, 2, 4 or 8 pixels at each position.
struct SmallMasks {
  Mask of[4][kScreenWidth];
};
CULE_HD constexpr SmallMasks make_small_masks() {
  SmallMasks t{};
  for (u32 size = 0; size < 4; ++size) {
    for (u32 x = 0; x < kScreenWidth; ++x) {
      for (u32 i = 0; i < 1u << size; ++i) {
        const u32 pixel = (x + i) % kScreenWidth;
        t.of[size][x].word[pixel >> 6] |= 1ULL << (pixel & 63);
      }
    }
  }
  return t;
}
CULE_TABLE(SmallMasks, kSmallMasks, make_small_masks());

CULE_HD inline Mask missile_mask(const TiaState& s, u32 n) {
  u32 size = (s.nusiz[n] >> 4) & 3;
  if (n == 0) {
    if (s.missile0_look == Missile0Look::kHidden) return {};
    if (s.missile0_look == Missile0Look::kWide) size |= 1;
  }
  const auto& masks = CULE_LOOK_UP(kSmallMasks).of[size];
  const u32 position = s.position[kMissile0 + n];
  const PlayerCopies copies = player_copies(s.nusiz[n] & 7);
  Mask m = masks[position];
  if (copies.second) add(m, masks[wrap_position(i32(position + copies.second))]);
  if (copies.third) add(m, masks[wrap_position(i32(position + copies.third))]);
  return m;
}

CULE_HD inline Mask ball_mask(const TiaState& s) {
  return CULE_LOOK_UP(kSmallMasks).of[(s.ctrlpf >> 4) & 3][s.position[kBall]];
}

// The pixels of eight cells of the playfield, by the byte of PFn that has them.
struct CellTable {
  u32 rising[256];   // bit 0 leftmost: PF0 and PF2, mirrored PF1
  u32 falling[256];  // bit 7 leftmost
};
CULE_HD constexpr CellTable make_cell_table() {
  CellTable t{};
  for (u32 byte = 0; byte < 256; ++byte) {
    for (u32 bit = 0; bit < 8; ++bit) {
      if (!(byte >> bit & 1)) continue;
      t.rising[byte] |= 0xFu << 4 * bit;
      t.falling[byte] |= 0xFu << 4 * (7 - bit);
    }
  }
  return t;
}
CULE_TABLE(CellTable, kCells, make_cell_table());

// Each half of a line has 80 pixels: 16 of PF0, 32 of PF1 and 32 of PF2, or in reverse.
CULE_HD inline Mask playfield_mask(const TiaState& s) {
  const CellTable& cells = CULE_LOOK_UP(kCells);
  const u64 pf0 = cells.rising[s.pf[0]] >> 16, pf1 = cells.falling[s.pf[1]];
  const u64 pf2 = cells.rising[s.pf[2]];
  const u64 first = pf0 | pf1 << 16 | pf2 << 48;
  if (!s.pf_mirror) return {{first, pf2 >> 16 | pf0 << 16 | pf1 << 32, pf2}};
  const u64 mirrored1 = cells.rising[s.pf[1]];
  return {{first, pf2 >> 16 | u64(cells.falling[s.pf[2]]) << 16 | mirrored1 << 48,
           mirrored1 >> 16 | u64(cells.falling[s.pf[0]] & 0xFFFF) << 16}};
}

// Latch bits (TiaState::collisions) an object takes part in.
CULE_HD CULE_INLINE constexpr u32 latches_of(u32 object) {
  switch (object) {
    case kPlayer0:
      return 1u << 0 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 15;
    case kPlayer1:
      return 1u << 1 | 1u << 2 | 1u << 6 | 1u << 7 | 1u << 15;
    case kMissile0:
      return 1u << 0 | 1u << 1 | 1u << 8 | 1u << 9 | 1u << 14;
    case kMissile1:
      return 1u << 2 | 1u << 3 | 1u << 10 | 1u << 11 | 1u << 14;
    case kBall:
      return 1u << 4 | 1u << 6 | 1u << 8 | 1u << 10 | 1u << 13;
    default:
      return 1u << 5 | 1u << 7 | 1u << 9 | 1u << 11 | 1u << 13;
  }
}

// The latches that some objects can set together.
struct LatchTable {
  u16 of[1u << kObjects];
};
CULE_HD constexpr LatchTable make_latch_table() {
  LatchTable t{};
  for (u32 objects = 0; objects < 1u << kObjects; ++objects) {
    u32 latches = 0xEFFF;  // bit 12 does not exist
    for (u32 object = 0; object < kObjects; ++object) {
      if (!(objects >> object & 1)) latches &= ~latches_of(object);
    }
    t.of[objects] = u16(latches);
  }
  return t;
}
CULE_TABLE(LatchTable, kLatchesOfObjects, make_latch_table());

CULE_HD CULE_INLINE u32 latches_among(u32 objects) {
  return CULE_LOOK_UP(kLatchesOfObjects).of[objects];
}

struct Shapes {
  Mask mask[kObjects];
  u32 stale;             // bit per object: its mask
  u32 active_stale;      // bit per object: its bit of `active`
  u32 active;            // active_objects() when last looked at
  u32 possible_latches;  // pairs of active objects
  u32 version;
  u32 nonzero;  // bit per object: its mask may have pixels

  CULE_HD void reset() {
    version = 0;
    nonzero = (1u << kObjects) - 1;
    stale = active_stale = (1u << kObjects) - 1;
  }
  // The object has moved or looks different, and is as active as before.
  CULE_HD CULE_INLINE void invalidate(u32 object) {
    CULE_ASSUME_LOCAL(this);
    stale |= 1u << object;
  }
  // Objects that may have become active or stopped being so.
  CULE_HD CULE_INLINE void change(u32 objects) {
    CULE_ASSUME_LOCAL(this);
    stale |= objects;
    active_stale |= objects;
  }

  // Which objects are active, without their masks.
  CULE_HD CULE_INLINE void refresh_active(const TiaState& s) {
    CULE_ASSUME_LOCAL(this);
    if (active_stale == 0) return;
    constexpr u32 kField = 1u << kPlayfield, kPlayers = 1u << kPlayer0 | 1u << kPlayer1;
    if (active_stale == kField) {
      active = (active & ~kField) | active_playfield(s);
    } else if ((active_stale & ~kPlayers) == 0) {
      active = (active & ~kPlayers) | active_players(s);
    } else {
      active = active_objects(s);
    }
    active_stale = 0;
    possible_latches = latches_among(active);
  }

  CULE_HD CULE_INLINE void refresh(const TiaState& s) {
    if (stale == 0) return;
    refresh_active(s);
    rebuild(s);
  }

 private:
  CULE_HD CULE_DEVICE_NOINLINE void rebuild(const TiaState& s) {
    CULE_ASSUME_LOCAL(this);
    const u32 left = stale & active;
    for (u32 gone = stale & ~active & nonzero; gone; gone &= gone - 1) {
      mask[lowest_bit(gone)] = Mask{};
    }
    nonzero = (nonzero & ~stale) | left;
    if (left & 1u << kPlayer0) mask[kPlayer0] = player_mask(s, 0, shown_graphics(s, 0));
    if (left & 1u << kPlayer1) mask[kPlayer1] = player_mask(s, 1, shown_graphics(s, 1));
    if (left & 1u << kMissile0) mask[kMissile0] = missile_mask(s, 0);
    if (left & 1u << kMissile1) mask[kMissile1] = missile_mask(s, 1);
    if (left & 1u << kBall) mask[kBall] = ball_mask(s);
    if (left & 1u << kPlayfield) mask[kPlayfield] = playfield_mask(s);
    stale = 0;
    ++version;
  }
};

}  // namespace cule
