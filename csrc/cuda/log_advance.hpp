// cuda/log_advance.hpp: brings the TIA to the end of a write log, without pixels and latches.
//
// In: the state at an entry of a log. Out: the state after its last entry, as LogRenderer leaves
// it, but for the latches. The lanes of a team take as many entries at a time as they are. A
// register keeps its last write. What depends on the order of accesses is followed entry by entry,
// all lanes together; each of the first five lanes has an object.
//
// The star field (tia/NOTES.md 10) is not known here: run() says so.
#pragma once

#include "cuda/lane_team.hpp"
#include "cuda/line_state.hpp"
#include "tia/rules.hpp"

namespace cule {

template <class Team>
class LogAdvance {
 public:
  static constexpr u32 kLeastLanes = 8;  // of a team

  // `tia` and `beam`: before entry `from`. `memory`: as of a scan, with the rules.
  __device__ LogAdvance(const Team& team, const TiaWriteLog& log, u32 from, const TiaState& tia,
                        const Beam& beam, const VisibleWindow& window, bool hmove_blanks,
                        u32 memory)
      : team_(team),
        log_(log),
        from_(from),
        window_(window),
        hmove_blanks_(hmove_blanks),
        memory_(memory),
        lane_(team.lane()),
        position_(tia.position[lane_ < kPlayfield ? lane_ : 0]),
        motion_(tia.hm[lane_ < kPlayfield ? lane_ : 0]),
        mark_(beam.mark),
        drawn_(beam.drawn),
        hmove_clock_(tia.hmove_clock),
        copies_{tia.nusiz[0], tia.nusiz[1]},
        locks_(tia.resmp[0] | tia.resmp[1] << 1),
        skips_(tia.skip[0] | tia.skip[1] << 1),
        control_(tia.ctrlpf),
        mirror_(tia.pf_mirror),
        blank_(tia.hmove_blank),
        graphics_{tia.grp[0], tia.grp[1]},
        ball_(u32(tia.enabl) << 1) {
    for (u32 reg = lane_; reg < kNumRegisters; reg += team.size()) last_write(reg) = 0;
    team.sync();
  }

  // Goes over the log. Returns false if the star field starts.
  __device__ CULE_INLINE bool run() {
    const u32 size = team_.size();
    for (u32 first = from_; first < log_.size; first += size) {
      const u32 i = first + lane_;
      const bool has_entry = i < log_.size;
      const LogEntry e = has_entry ? log_.entries[i] : 0;
      const u32 reg = log_register(e);
      u32 reached = 0;  // by this entry and those before it
      if (has_entry) {
        atomicMax(&last_write(reg), (i - from_ + 1) << kIndexShift | log_value(e));
        reached = within_window(clock_of(e) + delay_of(reg, clock_of(e)));
      }
      for (u32 step = 1; step < size; step *= 2) {
        const u32 before = team_.take_from(reached, lane_ < step ? lane_ : lane_ - step);
        if (before > reached) reached = before;
      }
      for (u32 left = team_.ballot(has_entry && (kFollowed >> reg & 1)); left != 0;
           left &= left - 1) {
        const u32 at = lowest_bit(left);
        move_mark(team_.take_from(reached, at));
        if (!follow(team_.take_from(e, at))) return false;
      }
      move_mark(team_.take_from(reached, size - 1));
    }
    draw();
    return true;
  }

  bool has_cleared = false;  // CXCLR was written

  // The beam after run().
  __device__ CULE_INLINE Beam end(const Beam& start) const {
    return {mark_, mark_, mark_ - mark_ % kClocksPerLine, start.first};
  }

  // The state after run().
  __device__ CULE_INLINE void leave(TiaState& tia) const {
    team_.sync();
    const u32 copied[2] = {last_write(GRP1) >> kIndexShift, last_write(GRP0) >> kIndexShift};
    u32 old_graphics[2] = {tia.old_grp[0], tia.old_grp[1]};
    u32 old_ball = u32(tia.old_enabl) << 1;
    for (u32 n = 0; n < 2; ++n) {
      if (copied[n] != 0) old_graphics[n] = value_before(copied[n], GRP0 + n, graphics_[n]);
    }
    if (copied[0] != 0) old_ball = value_before(copied[0], ENABL, ball_);
    const u32 color_loss = tia.color_loss;
    team_.sync();
    for (u32 reg = lane_; reg < kNumRegisters; reg += team_.size()) {
      const Register& r = register_row(reg);
      const u32 written = last_write(reg);
      if (written == 0 || !(kKept >> reg & 1)) continue;
      const u32 loss = r.kind == RegisterKind::kColor ? color_loss : 0;
      reinterpret_cast<u8*>(&tia)[r.field] = u8((written & r.kept) >> r.shift | loss);
    }
    if (lane_ < kPlayfield) {
      tia.position[lane_] = u8(position_);
      tia.hm[lane_] = u8(motion_);
    }
    if (team_.leads()) {
      for (u32 n = 0; n < 2; ++n) {
        tia.old_grp[n] = u8(old_graphics[n]);
        tia.skip[n] = skips_ >> n & 1;
      }
      tia.old_enabl = old_ball >> 1 & 1;
      tia.pf_mirror = u8(mirror_);
      tia.hmove_blank = u8(blank_);
      tia.hmove_clock = hmove_clock_;
    }
    team_.sync();
  }

 private:
  static constexpr u32 kIndexShift = 8;
  static constexpr u64 kMotion = registers_of(RegisterKind::kMotion, RegisterKind::kStarMotion);
  // Registers whose last write is their value.
  static constexpr u64 kKept =
      kEffectiveRegisters & ~kMotion &
      ~registers_of(RegisterKind::kPlacePlayer, RegisterKind::kPlaceMissile,
                    RegisterKind::kPlaceBall, RegisterKind::kMove, RegisterKind::kClearMotion,
                    RegisterKind::kClearLatches);
  // What is followed entry by entry.
  static constexpr u64 kFollowed =
      kMotion | registers_of(RegisterKind::kCopies, RegisterKind::kControl,
                             RegisterKind::kPlacePlayer, RegisterKind::kPlaceMissile,
                             RegisterKind::kPlaceBall, RegisterKind::kLock, RegisterKind::kMove,
                             RegisterKind::kClearMotion, RegisterKind::kClearLatches);

  // The last write to a register: the number of its entry, from 1 on, and the value.
  __device__ CULE_INLINE u32& last_write(u32 reg) const {
    return shared_word(memory_ + reg * kWordBytes);
  }
  __device__ CULE_INLINE u32 clock_of(LogEntry e) const {
    return log_.base_clock + clocks_from_cycles(log_cycle(e));
  }
  __device__ CULE_INLINE u32 delay_of(u32 reg, u32 clock) const {
    const PackedRule rule{shared_word(memory_ + kLineRulesAt + reg * kWordBytes)};
    return rule.delay(clock / kClocksPerCycle);
  }
  __device__ CULE_INLINE u32 within_window(u32 clock) const {
    return clock < window_.begin_clocks ? 0
           : clock < window_.end_clocks ? clock
                                        : window_.end_clocks;
  }
  __device__ CULE_INLINE void move_mark(u32 clock) {
    if (clock > mark_) mark_ = clock;
  }

  // What follows from the ends of lines and of the HMOVE blank before the mark (tia/NOTES.md 4.1).
  __device__ CULE_INLINE void draw() {
    if (mark_ <= drawn_) return;
    const u32 line_begin = mark_ - 1 - (mark_ - 1) % kClocksPerLine;
    if (line_begin >= drawn_ && line_begin > window_.begin_clocks) {
      mirror_ = control_ & 1;
      skips_ = 0;
    }
    constexpr u32 kBlankEnd = kHblankClocks + kHmoveBlankPixels;
    if (mark_ - (mark_ - kBlankEnd) % kClocksPerLine > drawn_) blank_ = 0;
    drawn_ = mark_;
  }

  // The rules of tia/rules.hpp, for an object a lane. Returns false if the star field starts.
  __device__ CULE_INLINE bool follow(LogEntry e) {
    const u32 reg = log_register(e);
    const u32 v = log_value(e);
    const u32 clock = clock_of(e);
    switch (reg) {
      case NUSIZ0:
      case NUSIZ1:
        draw();
        copies_[reg - NUSIZ0] = v;
        skips_ &= ~(1u << (reg - NUSIZ0));
        break;
      case CTRLPF:
        draw();
        control_ = v;
        if (clock % kClocksPerLine < kLatestMirrorClock) mirror_ = v & 1;
        break;
      case RESP0:
      case RESP1:
        reset_player(reg - RESP0, clock);
        break;
      case RESM0:
      case RESM1:
      case RESBL:
        place(small_object(reg), reset_small_position(small_object(reg), clock, hmove_clock_));
        break;
      case RESMP0:
      case RESMP1: {
        const u32 n = reg - RESMP0;
        if ((locks_ >> n & 1) && !(v & 2)) {
          const u32 x = team_.take_from(position_, n) + locked_missile_offset(copies_[n] & 7);
          place(kMissile0 + n, wrap_position(i32(x)));
        }
        locks_ = (locks_ & ~(1u << n)) | (v >> 1 & 1) << n;
        break;
      }
      case HMOVE: {
        draw();
        const u32 cycle = cycle_of_line(clock);
        if (is_blanking(cycle) && hmove_blanks_) blank_ = 1;
        position_ = wrap_position(i32(position_) + hmove_pixels(cycle, motion_));
        skips_ = 0;
        hmove_clock_ = i32(clock);
        break;
      }
      case HMCLR:
        motion_ = 0;
        break;
      case CXCLR:
        has_cleared = true;
        break;
      default: {
        const u32 object = reg - HMP0;
        const bool starts =
            reg == HMM0 && lane_ == object && begins_stars(v, motion_, clock, hmove_clock_);
        if (v >> 4 == kStarNibble && team_.any(starts)) return false;
        if (lane_ == object) motion_ = v >> 4;
      }
    }
    return true;
  }
  __device__ CULE_INLINE void place(u32 object, u32 x) {
    if (lane_ == object) position_ = x;
  }
  __device__ CULE_INLINE void reset_player(u32 n, u32 clock) {
    draw();
    const u32 x = reset_player_position(clock % kClocksPerLine);
    const u32 distance = wrap_position(i32(x) - i32(team_.take_from(position_, n)));
    const PlayerReset reset = classify_player_reset(copies_[n] & 7, distance);
    if (reset == PlayerReset::kDisplay) {
      move_mark(within_window(clock + kResetDrawClocks));
      draw();
    }
    skips_ = (skips_ & ~(1u << n)) | u32(reset != PlayerReset::kDelay) << n;
    place(n, x);
  }

  // The value of a register before the write with this number.
  __device__ u32 value_before(u32 number, u32 reg, u32 start) const {
    const u32 written = last_write(reg);
    if (written == 0) return start;
    if (written >> kIndexShift < number) return written & 0xFF;
    for (u32 end = from_ + number - 1; end > from_;) {
      const u32 first = end - from_ > team_.size() ? end - team_.size() : from_;
      const LogEntry e = first + lane_ < end ? log_.entries[first + lane_] : 0;
      const u32 found = team_.ballot(first + lane_ < end && log_register(e) == reg);
      if (found != 0) return log_value(team_.take_from(e, highest_bit(found)));
      end = first;
    }
    return start;
  }

  const Team& team_;
  const TiaWriteLog& log_;
  const u32 from_;
  const VisibleWindow window_;
  const bool hmove_blanks_;
  const u32 memory_;
  const u32 lane_;
  u32 position_, motion_;  // of the lane's object
  u32 mark_, drawn_;       // Beam
  i32 hmove_clock_;
  u32 copies_[2];                 // NUSIZn
  u32 locks_, skips_;             // a bit for each player
  u32 control_;                   // CTRLPF
  u32 mirror_, blank_;            // TiaState::pf_mirror, hmove_blank
  const u32 graphics_[2], ball_;  // GRPn and ENABL at the start
};

}  // namespace cule
