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
  // Of these, the ones that every scanline uses. The others may pass through.
  static constexpr TiaBytes kAlways =
      kRelevant &
      ~(tia_bytes::color(0) | tia_bytes::color(1) | tia_bytes::color(2) | tia_bytes::color(3) |
        tia_bytes::nusiz(0) | tia_bytes::nusiz(1) | tia_bytes::refp(0) | tia_bytes::refp(1) |
        tia_bytes::grp(0) | tia_bytes::grp(1) | tia_bytes::old_grp(0) | tia_bytes::old_grp(1) |
        tia_bytes::kVdelbl | tia_bytes::kAllHm | tia_bytes::kAllPositions | tia_bytes::kAllAudio |
        tia_bytes::kHmoveClock);

  // `state`: right before the first access of the scanline.
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

  // An access of the scanline.
  void access(u32 clock, u32 reg, u32 v) {
    using namespace tia_bytes;
    const RegisterEffect& effect = effect_of(reg, v);
    TiaBytes used = effect.reads | effect.changes;
    switch (reg) {
      case VBLANK:
        is_lit_ = true;
        break;
      case CTRLPF:
        control_ |= u8(v);
        break;
      case PF0:
      case PF1:
      case PF2:
        playfield_ |= u8(v);
        break;
      case GRP0:
      case GRP1:
        graphics_[reg - GRP0] |= u8(v);
        changes_ball_ |= reg == GRP1;
        break;
      case ENAM0:
      case ENAM1:
        missiles_[reg - ENAM0] |= v & 2;
        break;
      case ENABL:
        ball_ |= v & 2;
        changes_ball_ = true;
        break;
      case HMM0:
        if (v >> 4 == 6) used |= position(kMissile0);  // moved by the star field
        [[fallthrough]];
      case HMP0:
      case HMP1:
      case HMM1:
      case HMBL:
        hm_[reg - HMP0] = u8(v >> 4);
        break;
      case VDELP0:
      case VDELP1:
        changes_delay_[reg - VDELP0] = true;
        break;
      case VDELBL:
        changes_ball_ = true;
        break;
      case RESMP0:
      case RESMP1:
        unlocked_[reg - RESMP0] = true;
        break;
      case HMOVE: {
        const u32 cycle = clock % kClocksPerLine / kClocksPerCycle;
        for (u32 object = 0; object < kPlayfield; ++object) {
          if (hmove_pixels(cycle, hm_[object]) == 0) used &= ~position(object);
        }
        break;
      }
      case HMCLR:
        memset(hm_, 0, sizeof hm_);
        break;
      default:
        break;
    }
    use(used);
    written_ |= effect.sets;
    if (mark_ > visible_) return;  // some pixels have been drawn with the state before the write
    const bool is_reset = reg == RESP0 || reg == RESP1;
    const u32 mark = clock + (is_reset ? kResetDrawClocks : write_delay_clocks(reg, clock));
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
  TiaBytes used_ = kAlways;
  TiaBytes written_ = 0;
  TiaBytes early_ = 0;     // written before any pixel
  u32 mark_ = 0;           // where the beam mark may be, at most
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
