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

// Clocks from a write until pixels are drawn with it, at most, by register and cycle modulo 4.
struct DrawDelays {
  u8 of[kNumRegisters][4];
};
constexpr DrawDelays make_draw_delays() {
  DrawDelays d{};
  for (u32 reg = 0; reg < kNumRegisters; ++reg) {
    const Register& r = kRegisters.of[reg];
    const bool is_reset = r.kind == RegisterKind::kPlacePlayer;
    for (u32 cycle = 0; cycle < 4; ++cycle) {
      d.of[reg][cycle] = u8(is_reset ? kResetDrawClocks : delay_clocks(r, cycle * kClocksPerCycle));
    }
  }
  return d;
}
inline constexpr DrawDelays kDrawDelays = make_draw_delays();

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
      : start_(state), visible_(line * kClocksPerLine + kHblankClocks) {
    memcpy(hm_, state.hm, sizeof state.hm);
    if (state.stars) use(tia_bytes::position(kMissile0));
  }

  // An access of the scanline. The same code for all registers: which one comes next is hard to
  // predict.
  void access(u32 clock, u32 reg, u32 v) {
    const RegisterEffect& effect = effect_of(reg, v);
    TiaBytes used = effect.reads | effect.changes;
    values_[reg] |= u8(v);
    written_registers_ |= 1ULL << reg;
    hm_[reg - HMP0 < kPlayfield ? reg - HMP0 : kPlayfield] = u8(v >> 4);
    if (reg == HMOVE) {
      used &= ~tia_bytes::kAllPositions | moved_positions(cycle_of_line(clock));
    } else if (reg == HMCLR) {
      memset(hm_, 0, sizeof hm_);
    } else if (reg == HMM0 && v >> 4 == kStarNibble) {
      used |= tia_bytes::position(kMissile0);  // moved by the star field
    }
    use(used);
    written_ |= effect.sets;
    const u32 mark = clock + kDrawDelays.of[reg][clock / kClocksPerCycle & 3];
    if (mark > mark_) mark_ = mark;
    early_ |= mark_ <= visible_ ? effect.sets : 0;
  }

  // All accesses have been seen. is_drawn: any of the scanline was.
  void finish(bool is_drawn) {
    if (is_drawn && (!start_.vblank || has_written(VBLANK))) show();
  }

  TiaBytes used() const { return used_; }
  TiaBytes written() const { return written_; }

 private:
  // Needed as it is now, which is as it was at the start unless it has been written.
  void use(TiaBytes bytes) { used_ |= bytes & ~written_; }

  // Needed by what is drawn, unless it was written before any pixel of the scanline.
  void shown(TiaBytes bytes) { used_ |= bytes & ~early_; }

  bool has_written(u32 reg) const { return written_registers_ >> reg & 1; }

  // Positions that an HMOVE changes.
  TiaBytes moved_positions(u32 cycle) const {
    TiaBytes moved = 0;
    for (u32 object = 0; object < kPlayfield; ++object) {
      const bool moves = moves_fully(cycle) ? hm_[object] : hmove_pixels(cycle, hm_[object]);
      if (moves) moved |= tia_bytes::position(object);
    }
    return moved;
  }

  void show() {
    using namespace tia_bytes;
    const bool has_score = (start_.ctrlpf | values_[CTRLPF]) & 2;
    const bool has_playfield = (start_.pf[0] & 0xF0) | start_.pf[1] | start_.pf[2] | values_[PF0] |
                               values_[PF1] | values_[PF2];
    TiaBytes bytes = color(3);
    for (u32 n = 0; n < 2; ++n) {
      const bool changes_delay = has_written(VDELP0 + n);
      const bool may_delay = start_.vdelp[n] || changes_delay;
      if (!start_.vdelp[n] || changes_delay) bytes |= grp(n);
      if (may_delay) bytes |= old_grp(n);
      u32 graphics = values_[GRP0 + n];
      // Used already: it became the delayed copy, whatever was written after that.
      if (!(early_ & grp(n)) || (used_ & grp(n))) graphics |= start_.grp[n];
      if (may_delay && !(early_ & old_grp(n))) graphics |= start_.old_grp[n];
      if (graphics) bytes |= position(n) | nusiz(n) | refp(n) | color(n);
      const bool is_enabled = start_.enam[n] | (values_[ENAM0 + n] & 2);
      if (is_enabled && (!start_.resmp[n] || has_written(RESMP0 + n))) {
        bytes |= position(kMissile0 + n) | nusiz(n) | color(n);
      }
      if (has_score && has_playfield) bytes |= color(n);
    }
    if (has_playfield) bytes |= color(2);
    if (start_.enabl | start_.old_enabl | (values_[ENABL] & 2)) {
      used_ |= kVdelbl;
      const bool changes_ball = has_written(GRP1) || has_written(ENABL) || has_written(VDELBL);
      if (changes_ball || shown_ball(start_)) bytes |= position(kBall) | color(2);
    }
    shown(bytes);
  }

  const TiaState& start_;
  const u32 visible_;  // frame clock of the first pixel of the line
  TiaBytes used_ = kAlways;
  TiaBytes written_ = 0;
  TiaBytes early_ = 0;             // written before any pixel
  u32 mark_ = 0;                   // where the beam mark may be, at most
  u64 written_registers_ = 0;      // one bit each
  u8 values_[kNumRegisters] = {};  // by register: all bits written
  u8 hm_[kPlayfield + 1];          // as of the last access; the last one is not used
};

}  // namespace cule
