// tia/line_dependencies.hpp: which bytes of TiaState the accesses of a line, and its pixels, depend
// on.
//
// In: the state a line begins in, and its accesses. Out: two masks of bytes of TiaState (bit i for
// byte i). `used`: what a pixel, a latch or a later value may depend on. `written`: what the line
// leaves the same whatever it was. All other bytes pass through unseen: where an object is that is
// not shown, the colour it would have, motion that no HMOVE follows. `used` may hold too much,
// never too little; whatever decides it is itself in it.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/platform.hpp"

#if defined(CULE_SSE2)
#include <emmintrin.h>
#endif

#include "tia/log_renderer.hpp"
#include "tia/span.hpp"

namespace cule {

// Masks of bytes of TiaState.
using TiaBytes = u64;

constexpr u32 kSoundRegisters = sizeof(TiaState::audio);

namespace tia_bytes {

constexpr TiaBytes of(size_t offset, size_t size) { return ((1ULL << size) - 1) << offset; }

constexpr TiaBytes color(u32 n) { return of(offsetof(TiaState, color) + n, 1); }
constexpr TiaBytes nusiz(u32 n) { return of(offsetof(TiaState, nusiz) + n, 1); }
constexpr TiaBytes refp(u32 n) { return of(offsetof(TiaState, refp) + n, 1); }
constexpr TiaBytes grp(u32 n) { return of(offsetof(TiaState, grp) + n, 1); }
constexpr TiaBytes old_grp(u32 n) { return of(offsetof(TiaState, old_grp) + n, 1); }
constexpr TiaBytes hm(u32 object) { return of(offsetof(TiaState, hm) + object, 1); }
constexpr TiaBytes position(u32 object) { return of(offsetof(TiaState, position) + object, 1); }
constexpr TiaBytes audio(u32 n) { return of(offsetof(TiaState, audio) + n, 1); }
constexpr TiaBytes kVdelbl = of(offsetof(TiaState, vdelbl), 1);
constexpr TiaBytes kAllHm = of(offsetof(TiaState, hm), sizeof(TiaState::hm));
constexpr TiaBytes kHmoveClock = of(offsetof(TiaState, hmove_clock), sizeof(TiaState::hmove_clock));
constexpr TiaBytes kCollisions = of(offsetof(TiaState, collisions), sizeof(TiaState::collisions));

// Bytes that may pass through a line. All others are always used, but for latches.
constexpr TiaBytes kFree = of(offsetof(TiaState, color), 4) | of(offsetof(TiaState, nusiz), 2) |
                           of(offsetof(TiaState, refp), 2) | of(offsetof(TiaState, grp), 2) |
                           of(offsetof(TiaState, old_grp), 2) | kVdelbl | kAllHm |
                           of(offsetof(TiaState, position), sizeof(TiaState::position)) |
                           of(offsetof(TiaState, audio), kSoundRegisters) | kHmoveClock;
constexpr TiaBytes kPadding =
    of(offsetof(TiaState, are_latches_partial) + 1,
       offsetof(TiaState, collisions) - offsetof(TiaState, are_latches_partial) - 1) |
    of(offsetof(TiaState, collisions) + sizeof(TiaState::collisions),
       offsetof(TiaState, hmove_clock) - offsetof(TiaState, collisions) -
           sizeof(TiaState::collisions));
constexpr TiaBytes kRelevant = of(0, sizeof(TiaState)) & ~kCollisions & ~kPadding;
constexpr TiaBytes kAlways = kRelevant & ~kFree;

// Where word w of eight lies; the last one shares four bytes with the one before.
constexpr u32 word_offset(u32 w) { return w < 7 ? 8 * w : u32(sizeof(TiaState)) - 8; }

static_assert(sizeof(TiaState) >= 56 && sizeof(TiaState) <= 64);

struct Words {
  u64 of[8];
};

inline Words words_of(const void* bytes) {
  Words x;
  for (u32 w = 0; w < 8; ++w) {
    memcpy(&x.of[w], static_cast<const u8*>(bytes) + word_offset(w), sizeof(u64));
  }
  return x;
}

// Bytes that differ.
inline TiaBytes differing(const TiaState& a, const TiaState& b) {
  TiaBytes found = 0;
#if defined(CULE_SSE2)
  constexpr u32 kOffsets[4] = {0, 16, 32, sizeof(TiaState) - 16};
  for (const u32 offset : kOffsets) {
    const auto* x = reinterpret_cast<const __m128i*>(reinterpret_cast<const u8*>(&a) + offset);
    const auto* y = reinterpret_cast<const __m128i*>(reinterpret_cast<const u8*>(&b) + offset);
    const __m128i same = _mm_cmpeq_epi8(_mm_loadu_si128(x), _mm_loadu_si128(y));
    found |= u64(u32(_mm_movemask_epi8(same)) ^ 0xFFFF) << offset;
  }
#else
  const Words left = words_of(&a);
  const Words right = words_of(&b);
  for (u32 w = 0; w < 8; ++w) {
    const u64 x = left.of[w] ^ right.of[w];
    const u64 low = 0x7F7F7F7F7F7F7F7FULL;
    const u64 tops = (((x & low) + low) | x) & ~low;
    found |= (tops >> 7) * 0x0102040810204080ULL >> 56 << word_offset(w);
  }
#endif
  return found;
}

// Some bytes, $FF for each.
struct Selection {
  TiaBytes bytes;
  u64 mask[8];

  explicit Selection(TiaBytes b) { choose(b); }
  void choose(TiaBytes b) {
    bytes = b;
    for (u32 w = 0; w < 8; ++w) mask[w] = expand_bits(u32(b >> (8 * w)) & 0xFF);
  }

  // Takes them over.
  void copy(TiaState& to, const TiaState& from) const {
    if (bytes == 0) return;
    Words x = words_of(&to);
    const Words y = words_of(&from);
    const Words m = words_of(mask);
    for (u32 w = 0; w < 8; ++w) x.of[w] ^= (x.of[w] ^ y.of[w]) & m.of[w];
    for (u32 w = 0; w < 8; ++w) {
      memcpy(reinterpret_cast<u8*>(&to) + word_offset(w), &x.of[w], sizeof(u64));
    }
  }
};

}  // namespace tia_bytes

class LineDependencies {
 public:
  // `state`: right before the first access of the line.
  LineDependencies(const TiaState& state, u32 line)
      : start_(state),
        visible_(line * kClocksPerLine + kHblankClocks),
        missiles_{state.enam[0], state.enam[1]},
        ball_(state.enabl | state.old_enabl),
        playfield_(u8((state.pf[0] & 0xF0) | state.pf[1] | state.pf[2])),
        control_(state.ctrlpf),
        is_lit_(!state.vblank) {
    memcpy(hm_, state.hm, sizeof hm_);
    if (state.stars) use(tia_bytes::position(kMissile0));
  }

  // An access of the line.
  void access(u32 clock, u32 reg, u32 v) {
    using namespace tia_bytes;
    switch (reg) {
      case VBLANK:
        is_lit_ = true;
        break;
      case NUSIZ0:
      case NUSIZ1:
        write(nusiz(reg - NUSIZ0), clock, reg);
        break;
      case COLUP0:
      case COLUP1:
      case COLUPF:
      case COLUBK:
        write(color(reg - COLUP0), clock, reg);
        break;
      case CTRLPF:
        control_ |= u8(v);
        break;
      case REFP0:
      case REFP1:
        write(refp(reg - REFP0), clock, reg);
        break;
      case PF0:
      case PF1:
      case PF2:
        playfield_ |= u8(v);
        break;
      case RESP0:
      case RESP1:
        use(position(reg - RESP0) | nusiz(reg - RESP0));
        written_ |= position(reg - RESP0);
        break;
      case RESM0:
      case RESM1:
      case RESBL:
        use(kHmoveClock);
        write(position(kMissile0 + reg - RESM0), clock, reg);
        break;
      case AUDC0:
      case AUDC1:
      case AUDF0:
      case AUDF1:
      case AUDV0:
      case AUDV1:
        written_ |= audio(reg - AUDC0);
        break;
      case GRP0:
      case GRP1: {
        const u32 n = reg - GRP0;
        use(grp(1 - n));  // becomes the delayed copy
        write(grp(n) | old_grp(1 - n), clock, reg);
        graphics_[n] |= u8(v);
        changes_ball_ |= n == 1;
        break;
      }
      case ENAM0:
      case ENAM1:
        missiles_[reg - ENAM0] |= v & 2;
        break;
      case ENABL:
        ball_ |= v & 2;
        changes_ball_ = true;
        break;
      case HMM0:
        if (v >> 4 == 6) use(hm(kMissile0) | kHmoveClock | position(kMissile0));
        [[fallthrough]];
      case HMP0:
      case HMP1:
      case HMM1:
      case HMBL:
        hm_[reg - HMP0] = u8(v >> 4);
        written_ |= hm(reg - HMP0);
        break;
      case VDELP0:
      case VDELP1:
        changes_delay_[reg - VDELP0] = true;
        break;
      case VDELBL:
        changes_ball_ = true;
        written_ |= kVdelbl;
        break;
      case RESMP0:
      case RESMP1: {
        const u32 n = reg - RESMP0;
        use(position(n) | position(kMissile0 + n) | nusiz(n));
        unlocked_[n] = true;
        break;
      }
      case HMOVE: {
        use(kAllHm);
        const u32 cycle = clock % kClocksPerLine / kClocksPerCycle;
        for (u32 object = 0; object < kPlayfield; ++object) {
          if (hmove_pixels(cycle, hm_[object]) != 0) use(position(object));
        }
        written_ |= kHmoveClock;
        break;
      }
      case HMCLR:
        memset(hm_, 0, sizeof hm_);
        written_ |= kAllHm;
        break;
      default:
        break;
    }
  }

  // All accesses have been seen. is_drawn: any of the line was.
  void finish(bool is_drawn) {
    if (is_drawn && is_lit_) show();
  }

  TiaBytes used() const { return used_; }
  TiaBytes written() const { return written_; }

 private:
  // Needed as it is now, which is as it was at the start unless it has been written.
  void use(TiaBytes bytes) { used_ |= bytes & ~written_; }

  void write(TiaBytes bytes, u32 clock, u32 reg) {
    written_ |= bytes;
    if (clock + write_delay_clocks(reg, clock) <= visible_) early_ |= bytes;
  }

  // Needed by what is drawn, unless it was written before any pixel of the line.
  void shown(TiaBytes bytes) { used_ |= bytes & ~early_; }

  void show() {
    using namespace tia_bytes;
    const bool has_score = control_ & 2;
    TiaBytes bytes = color(3);
    for (u32 n = 0; n < 2; ++n) {
      const bool may_delay = start_.vdelp[n] || changes_delay_[n];
      if (!start_.vdelp[n] || changes_delay_[n]) bytes |= grp(n);
      if (may_delay) bytes |= old_grp(n);
      u32 graphics = graphics_[n];
      // Used already: it has become the delayed copy, whatever was written after that.
      if (!(early_ & grp(n)) || (used_ & grp(n))) graphics |= start_.grp[n];
      if (may_delay && !(early_ & old_grp(n))) graphics |= start_.old_grp[n];
      if (graphics) bytes |= position(n) | nusiz(n) | refp(n) | color(n);
      if (missiles_[n] && (!start_.resmp[n] || unlocked_[n])) {
        bytes |= position(kMissile0 + n) | nusiz(n) | color(n);
      }
      if (has_score && playfield_) bytes |= color(n);
    }
    if (playfield_) bytes |= color(2);
    if (ball_) {
      used_ |= kVdelbl;
      if (changes_ball_ || shown_ball(start_)) bytes |= position(kBall) | color(2);
    }
    shown(bytes);
  }

  const TiaState& start_;
  const u32 visible_;  // frame clock of the first pixel of the line
  TiaBytes used_ = tia_bytes::kAlways;
  TiaBytes written_ = 0;
  TiaBytes early_ = 0;     // written before any pixel
  u8 hm_[5];               // as of the last access
  u8 graphics_[2] = {};    // all bits written
  u8 missiles_[2];         // not 0: enabled at some time
  u8 ball_;                // not 0: may be shown
  u8 playfield_;           // all bits
  u8 control_;             // all bits of CTRLPF
  bool unlocked_[2] = {};  // RESMPn was written
  bool changes_delay_[2] = {};
  bool changes_ball_ = false;
  bool is_lit_;  // not blanked throughout
};

}  // namespace cule
