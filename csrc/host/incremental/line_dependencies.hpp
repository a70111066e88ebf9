// host/incremental/line_dependencies.hpp: which bytes of TiaState the accesses of a scanline, and
// its pixels, depend on.
//
// In: the state a scanline begins in, and its accesses. Out: two sets of bytes of TiaState. `used`:
// what a pixel, a latch or a later value may depend on. `written`: what the scanline leaves the
// same, whatever it was. All other bytes pass through: the position of an object that is not shown,
// its colour, motion that no HMOVE follows. `used` may hold too much, never too little; whatever
// decides it is itself in it.
#pragma once

#include "host/incremental/register_effects.hpp"

namespace cule {

class LineDependencies {
 public:
  // Bytes that a comparison of states looks at; latches are compared apart.
  static constexpr TiaBytes kRelevant =
      tia_bytes::of(0, sizeof(TiaState)) & ~tia_bytes::kCollisions & ~tia_bytes::kPadding;
  // Subset read by every scanline; the rest may be left unread.
  static constexpr TiaBytes kAlways =
      kRelevant &
      ~(tia_bytes::color(0) | tia_bytes::color(1) | tia_bytes::color(2) | tia_bytes::color(3) |
        tia_bytes::nusiz(0) | tia_bytes::nusiz(1) | tia_bytes::refp(0) | tia_bytes::refp(1) |
        tia_bytes::grp(0) | tia_bytes::grp(1) | tia_bytes::old_grp(0) | tia_bytes::old_grp(1) |
        tia_bytes::kVdelbl | tia_bytes::kAllHm | tia_bytes::kAllPositions | tia_bytes::kAllAudio |
        tia_bytes::kHmoveClock);
  // The bytes beyond these whose values decide about the sets.
  static constexpr TiaBytes kInspected = tia_bytes::grp(0) | tia_bytes::grp(1) |
                                         tia_bytes::old_grp(0) | tia_bytes::old_grp(1) |
                                         tia_bytes::kVdelbl | tia_bytes::kAllHm;

  // `state`: right before the first access of the scanline.
  LineDependencies(const TiaState& state, u32 line)
      : start_(state),
        visible_(line * kClocksPerLine + kHblankClocks),
        enabled_{state.enam[0], state.enam[1], u8(state.enabl | state.old_enabl)},
        playfield_(u8((state.pf[0] & 0xF0) | state.pf[1] | state.pf[2])),
        control_(state.ctrlpf),
        is_lit_(!state.vblank) {
    memcpy(hm_, state.hm, sizeof hm_);
    if (state.stars) use(tia_bytes::position(kMissile0));
  }

  // An access of the scanline.
  void access(u32 clock, u32 reg, u32 v) { write_by_register(reg, *this, clock, v); }

  template <u32 reg>
  CULE_INLINE void write(u32 clock, u32 v) {
    using namespace tia_bytes;
    constexpr Register r = kRegisters.of[reg];
    const RegisterEffect effect = effect_of(reg, v);
    TiaBytes used = effect.reads | effect.changes;
    switch (r.kind) {
      case RegisterKind::kBlank:
        is_lit_ = true;
        break;
      case RegisterKind::kControl:
        control_ |= u8(v);
        break;
      case RegisterKind::kPlayfield:
        playfield_ |= u8(v);
        break;
      case RegisterKind::kGraphics:
        graphics_[r.n] |= u8(v);
        changes_ball_ |= r.n == 1;
        break;
      case RegisterKind::kEnable:
        enabled_[r.n - kMissile0] |= v & 2;
        changes_ball_ |= r.n == kBall;
        break;
      case RegisterKind::kStarMotion:
        if (v >> 4 == kStarNibble) used |= position(r.n);  // moved by the star field
        [[fallthrough]];
      case RegisterKind::kMotion:
        hm_[r.n] = u8(v >> 4);
        break;
      case RegisterKind::kDelay:
        (r.n == kBall ? changes_ball_ : changes_delay_[r.n]) = true;
        break;
      case RegisterKind::kLock:
        unlocked_[r.n] = true;
        break;
      case RegisterKind::kMove:
        for (u32 object = 0; object < kPlayfield; ++object) {
          if (hmove_pixels(cycle_of_line(clock), hm_[object]) == 0) used &= ~position(object);
        }
        break;
      case RegisterKind::kClearMotion:
        memset(hm_, 0, sizeof hm_);
        break;
      default:
        break;
    }
    use(used);
    written_ |= effect.sets;
    if (mark_ > visible_) return;  // some pixels have been drawn with the state before the write
    const bool is_reset = r.kind == RegisterKind::kPlacePlayer;
    const u32 mark = clock + (is_reset ? kResetDrawClocks : delay_clocks(r, clock));
    if (mark > mark_) mark_ = mark;
    if (mark_ <= visible_) early_ |= effect.sets;
  }

  // All accesses have been seen. is_drawn: any of the scanline was.
  void finish(bool is_drawn) {
    if (is_drawn && is_lit_) show();
  }

  TiaBytes used() const { return used_; }
  TiaBytes written() const { return written_; }

 private:
  // Needed as it is now, which is as it was at the start unless it has been written.
  void use(TiaBytes bytes) { used_ |= bytes & ~written_; }

  // Needed by what is drawn, unless it was written before any pixel of the scanline.
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
      // Used already: it became the delayed copy, whatever was written after that.
      if (!(early_ & grp(n)) || (used_ & grp(n))) graphics |= start_.grp[n];
      if (may_delay && !(early_ & old_grp(n))) graphics |= start_.old_grp[n];
      if (graphics) bytes |= position(n) | nusiz(n) | refp(n) | color(n);
      if (enabled_[n] && (!start_.resmp[n] || unlocked_[n])) {
        bytes |= position(kMissile0 + n) | nusiz(n) | color(n);
      }
      if (has_score && playfield_) bytes |= color(n);
    }
    if (playfield_) bytes |= color(2);
    if (enabled_[2]) {
      used_ |= kVdelbl;
      if (changes_ball_ || shown_ball(start_)) bytes |= position(kBall) | color(2);
    }
    shown(bytes);
  }

  const TiaState& start_;
  const u32 visible_;  // frame clock of the first pixel of the line
  TiaBytes used_ = kAlways;
  TiaBytes written_ = 0;
  TiaBytes early_ = 0;     // written before any pixel
  u32 mark_ = 0;           // where the beam mark may be, at most
  u8 hm_[5];               // as of the last access
  u8 graphics_[2] = {};    // all bits written
  u8 enabled_[3];          // missiles, ball; not 0: at some time
  u8 playfield_;           // all bits
  u8 control_;             // all bits of CTRLPF
  bool unlocked_[2] = {};  // RESMPn was written
  bool changes_delay_[2] = {};
  bool changes_ball_ = false;
  bool is_lit_;  // not blanked throughout
};

}  // namespace cule
