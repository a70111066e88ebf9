// cuda/line_scan.hpp: a write log by scanlines: a team of lanes, one lane a scanline.
//
// In: a log, and the state at one of its entries. Out, for each scanline in its own lane: the state
// at its start and its part of the log. All lanes of the team call these functions together.
//
// A scanline owns the accesses that move the beam mark no further than its end (tia/NOTES.md 4).
// Its state at the start is, for a register, what the last scanline before it that writes the
// register leaves; so one pass in which every lane looks at its own scanline, and votes over who
// wrote what, find the states of all of them at once. Positions are the exception: HMOVE adds to
// what is there. A lane finds what its scanline does to them, and the warp applies that scanline by
// scanline, where one does anything.
//
// The star field (tia/NOTES.md 10) is not known here: find_lines() says so.
#pragma once

#include "console/picture.hpp"
#include "cuda/lane_team.hpp"
#include "cuda/line_memory.hpp"
#include "cuda/line_motion.hpp"
#include "cuda/register_rules.hpp"

namespace cule {

// In the block's shared memory: byte i of lane l at 32 i + l.
struct LineState {
  u32 at;  // of the lane's byte 0

  __device__ CULE_INLINE u8& operator[](u32 i) const {
    return dynamic_shared()[at + i * kWarpLanes];
  }
  __device__ CULE_INLINE LineState of(u32 lane, u32 other) const { return {at + other - lane}; }
};

constexpr u32 kLongestDelay = 8;  // write_delay_clocks()

// The last scanline of a window that has none.
constexpr u32 kNoLastLine = ~0u;

// The rules of all registers, which the lanes of a warp make before a scan of its memory.
__device__ CULE_INLINE u32* line_rules(u32 memory) {
  return reinterpret_cast<u32*>(dynamic_shared() + memory + 2 * kLineStateBytes);
}
__device__ CULE_INLINE void make_line_rules(u32 memory) {
  for (u32 reg = threadIdx.x % kWarpLanes; reg < kNumRegisters; reg += kWarpLanes) {
    line_rules(memory)[reg] = register_rule(reg);
  }
  __syncwarp();
}

struct ScanWindow {
  u32 first_line;
  u32 last_line;  // it owns all accesses after it
  bool hmove_blanks;
};

// Where a scan begins: a state, the entry of the log after it, and the scanline in which it is;
// what follows from the end of the scanline before has happened.
struct ScanStart {
  const TiaState& tia;
  u32 entry;
  u32 line;
  bool is_behind_blank;  // the first eight pixels of the scanline are past
};

template <class Team>
struct LineScan {
  const TiaWriteLog& log;
  const Team team;
  const u32 first_line;
  const u32 last_line;
  const bool hmove_blanks;
  const u32 lane;           // of the team
  const LineState state;    // of the lane's scanline
  const LineState written;  // the last value that it writes to a register
  u32 line;                 // the lane's scanline
  u32 begin;                // its entries of the log
  u32 end;
  i32 hmove_clock;  // the last HMOVE before it
  u64 present = 0;  // registers that it writes, a bit each
  u32 moving =
      0;  // its accesses that write one of kMovingRegisters: a bit for each of the first 32
  bool carries_blank;  // it begins behind its HMOVE blank, and the next scanline has one

  // `memory`: where kLineScanBytes of shared memory of the warp are.
  __device__ LineScan(const TiaWriteLog& l, const Team& t, const ScanWindow& window,
                      const ScanStart& start, u32 memory)
      : log(l),
        team(t),
        first_line(window.first_line),
        last_line(window.last_line),
        hmove_blanks(window.hmove_blanks),
        lane(t.lane()),
        state{memory + threadIdx.x % kWarpLanes},
        written{memory + kLineStateBytes + threadIdx.x % kWarpLanes},
        line(start.line + lane - t.size()),
        begin(start.entry),
        end(start.entry),
        hmove_clock(start.tia.hmove_clock),
        carries_blank(start.is_behind_blank && start.tia.hmove_blank && lane == 0) {
    set_state(start.tia);
  }

  __device__ CULE_INLINE u32 rule_of(u32 reg) const { return rules()[reg]; }

  __device__ CULE_INLINE u32 clock_of(LogEntry e) const {
    return log.base_clock + clocks_from_cycles(log_cycle(e));
  }
  __device__ CULE_INLINE u32 line_begin() const { return line * kClocksPerLine; }

  // Takes the next scanlines, one a lane. Returns false if one of them starts the star field: only
  // another renderer can draw this log.
  __device__ CULE_NOINLINE bool find_lines() {
    line += team.size();
    const u32 last_end = team.take_from(end, team.size() - 1);
    end = line < last_line ? first_beyond(last_end, line_begin() + kClocksPerLine) : log.size;
    const u32 before = team.take_from(end, lane == 0 ? 0 : lane - 1);
    begin = lane == 0 ? last_end : before;

    const LineWrites writes = note_writes();
    copy_last_state();
    present = writes.present;
    moving = writes.moving;
    const u64 present_anywhere = team.any_bits64(present);
    fill_registers(writes.present, present_anywhere & kLineRegisters);
    if (present_anywhere & register_bits(GRP0, GRP1)) fill_old_graphics(writes);
    const i32 last_hmove = i32(team.take_from(u32(hmove_clock), team.size() - 1));
    const u32 movers = team.ballot(writes.present >> HMOVE & 1) & lanes_before();
    const i32 found = i32(team.take_from(u32(writes.hmove), movers != 0 ? highest_bit(movers) : 0));
    hmove_clock = movers != 0 ? found : last_hmove;
    if (line > first_line && lane != 0) {  // a scanline has ended
      state[kLineMirror] = state[CTRLPF] & 1;
      state[kLineSkip] = state[kLineSkip + 1] = state[kLineHmoveBlank] = 0;
    }
    const bool is_blank_left = leaves_blank(writes) || carries_blank;
    carries_blank = false;
    const bool is_ordered = depends_on_order(writes);
    bool is_regular = true;
    if (team.any(is_ordered || is_blank_left)) {
      is_regular = fill_ordered(is_ordered, is_blank_left);
    }
    team.sync();
    return team.ballot(!is_regular) == 0;
  }

 private:
  __device__ CULE_INLINE u32* rules() const {
    return line_rules(state.at - threadIdx.x % kWarpLanes);
  }
  __device__ CULE_INLINE u32 lanes_before() const { return (1u << lane) - 1; }

  __device__ void set_state(const TiaState& s) {
    for (u32 i = 0; i < 4; ++i) state[COLUP0 + i] = s.color[i];
    state[VBLANK] = u8(s.vblank << 1);
    state[CTRLPF] = s.ctrlpf;
    for (u32 n = 0; n < 2; ++n) {
      state[NUSIZ0 + n] = s.nusiz[n];
      state[REFP0 + n] = u8(s.refp[n] << 3);
      state[GRP0 + n] = s.grp[n];
      state[VDELP0 + n] = s.vdelp[n];
      state[ENAM0 + n] = u8(s.enam[n] << 1);
      state[RESMP0 + n] = u8(s.resmp[n] << 1);
      state[kLineOldGraphics + n] = s.old_grp[n];
      state[kLineSkip + n] = s.skip[n];
    }
    state[ENABL] = u8(s.enabl << 1);
    state[kLineOldBall] = u8(s.old_enabl << 1);
    state[VDELBL] = s.vdelbl;
    for (u32 i = 0; i < 3; ++i) state[PF0 + i] = s.pf[i];
    for (u32 i = 0; i < 5; ++i) {
      state[HMP0 + i] = u8(s.hm[i] << 4);
      state[kLinePosition + i] = s.position[i];
    }
    state[kLineMirror] = s.pf_mirror;
    state[kLineHmoveBlank] = s.hmove_blank;
  }

  // The first entry from `from` on that moves the mark beyond a clock; log.size if there is none.
  __device__ u32 first_beyond(u32 from, u32 clock) const {
    u32 low = from;
    for (u32 high = log.size; low < high;) {
      const u32 middle = (low + high) / 2;
      if (clock_of(log.entries[middle]) + kLongestDelay > clock) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    for (; low < log.size; ++low) {
      const LogEntry e = log.entries[low];
      const u32 at = clock_of(e);
      if (at + write_delay_clocks(log_register(e), at) > clock) break;
    }
    return low;
  }

  // What the scanline writes, in the order of its accesses.
  struct LineWrites {
    u64 present = 0;       // one bit a register
    u64 before_hmove = 0;  // the same when HMOVE was written
    i32 hmove = 0;         // the last HMOVE
    u32 hmoves = 0;        // how many
    u32 moving = 0;
    u32 graphics[2] = {kAsBefore, kAsBefore};
    u32 ball = kAsBefore;
    u32 old_graphics[2] = {kAsBefore, kAsBefore};  // what GRP1 and GRP0 have copied
    u32 old_ball = kAsBefore;
    bool may_start_stars = false;
  };
  static constexpr u32 kAsBefore = 0x100;  // as at the start of the scanline

  __device__ LineWrites note_writes() const {
    LineWrites w;
    for (u32 i = begin; i < end; ++i) {
      const LogEntry e = log.entries[i];
      const u32 reg = log_register(e);
      const u32 v = log_value(e);
      written[reg] = u8(v);
      const u64 bit = 1ULL << reg;
      if (bit & kMovingRegisters) w.moving |= i - begin < 32 ? 1u << (i - begin) : 0;
      if (reg == GRP0) {
        w.graphics[0] = v;
        w.old_graphics[1] = w.graphics[1];
      }
      if (reg == GRP1) {
        w.graphics[1] = v;
        w.old_graphics[0] = w.graphics[0];
        w.old_ball = w.ball;
      }
      if (reg == ENABL) w.ball = v;
      if (reg == HMM0 && v >> 4 == 6) w.may_start_stars = true;
      if (reg == HMCLR) {
        for (u32 n = 0; n < 5; ++n) written[HMP0 + n] = 0;
        w.present |= register_bits(HMP0, HMBL);
      }
      if (reg == HMOVE) {
        w.hmove = i32(clock_of(e));
        w.before_hmove = w.present;
        ++w.hmoves;
      }
      w.present |= bit;
    }
    return w;
  }

  // All states become that of the last lane.
  __device__ CULE_INLINE void copy_last_state() const {
    constexpr u32 kParts = kLineBytes / kWordBytes;
    const u32 words = team.size() / kWordBytes;  // of a byte of all lanes
    const u32 first = lane >> highest_bit(words);
    const u32 word = state.at - lane + lane % words * kWordBytes;
    const LineState from = state.of(lane, team.size() - 1);
    u32 last[kParts];
    team.sync();
    for (u32 i = 0; i < kParts; ++i) last[i] = from[first + i * kWordBytes] * 0x01010101u;
    team.sync();  // the lanes that share a byte have read it
    for (u32 i = 0; i < kParts; ++i) {
      const u32 at = word + (first + i * kWordBytes) * kWarpLanes;
      *reinterpret_cast<u32*>(dynamic_shared() + at) = last[i];
    }
    team.sync();
  }

  // The nearest scanline before this one of those in the mask writes its value to `state[i]`.
  __device__ CULE_INLINE void fill(u32 i, u32 writers, u32 value) const {
    const u32 before = writers & lanes_before();
    const u32 found = team.take_from(value, before != 0 ? highest_bit(before) : 0);
    if (before != 0) state[i] = u8(found);
  }

  __device__ CULE_INLINE void fill_registers(u64 present, u64 registers) const {
    for (; registers != 0; registers &= registers - 1) {
      const u32 reg = u32(CULE_COUNT_TRAILING_ZEROS_64(registers));
      const u32 writers = team.ballot(present >> reg & 1) & lanes_before();
      if (writers == 0) continue;
      state[reg] = written.of(lane, highest_bit(writers))[reg];
    }
  }

  __device__ CULE_INLINE void fill_old_graphics(const LineWrites& w) const {
    const u32 writers[2] = {team.ballot(w.present >> GRP0 & 1), team.ballot(w.present >> GRP1 & 1)};
    const auto resolve = [&](u32 value, u32 reg) {
      return value == kAsBefore ? state[reg] : value;
    };
    const u32 old[2] = {resolve(w.old_graphics[0], GRP0), resolve(w.old_graphics[1], GRP1)};
    fill(kLineOldGraphics, writers[1], old[0]);
    fill(kLineOldGraphics + 1, writers[0], old[1]);
    fill(kLineOldBall, writers[1], resolve(w.old_ball, ENABL));
  }

  // An HMOVE after the eighth pixel blanks the first eight of the next scanline.
  __device__ CULE_INLINE bool leaves_blank(const LineWrites& w) const {
    return w.hmoves == 1 && hmove_blanks && line >= first_line &&
           u32(w.hmove) >= line_begin() + kHblankClocks + 8 && is_blanking(u32(w.hmove));
  }
  __device__ CULE_INLINE static bool is_blanking(u32 clock) {
    const u32 cycle = clock % kClocksPerLine / kClocksPerCycle;
    return cycle <= 20 || cycle == 75;
  }

  // Whether follow_order() would find anything.
  __device__ CULE_INLINE bool depends_on_order(const LineWrites& w) const {
    constexpr u64 kMoving = register_bits(RESP0, RESBL) | register_bits(RESMP0, RESMP1);
    constexpr u64 kPending = register_bits(NUSIZ0, NUSIZ1) | register_bits(CTRLPF, CTRLPF);
    if ((w.present & kMoving) || w.may_start_stars) return true;
    if (line < first_line) return w.present & (kPending | register_bits(HMOVE, HMOVE));
    if (w.hmoves == 0) return false;
    const u32 cycle = u32(w.hmove) % kClocksPerLine / kClocksPerCycle;
    const u32 motion = state[HMP0] | state[HMP1] | state[HMM0] | state[HMM1] | state[HMBL];
    return w.hmoves > 1 || (w.before_hmove & register_bits(HMP0, HMBL)) || motion >> 4 != 0 ||
           hmove_pixels(cycle, 0) != 0;
  }

  // What depends on the order of accesses, where the lane's scanline has any. Returns false if the
  // star field starts.
  __device__ CULE_NOINLINE bool fill_ordered(bool is_ordered, bool blank_is_left) {
    LineMotion motion;
    u32 mirror = 2;  // 2: not latched
    bool is_regular = true;
    if (is_ordered) follow_order(motion, mirror, blank_is_left, is_regular);

    // Positions, in the order of the scanlines.
    Positions now;
    now.word[0] = state[kLinePosition] | state[kLinePosition + 1] << 16;
    now.word[1] = state[kLinePosition + 2] | state[kLinePosition + 3] << 16;
    now.word[2] = state[kLinePosition + 4];
    Positions start = now;
    const u32 movers = team.ballot(motion.is_any());
    for (u32 left = movers; left != 0; left &= left - 1) {
      const u32 mover = lowest_bit(left);
      const Positions end = motion.after(now);
      for (u32 w = 0; w < 3; ++w) now.word[w] = team.take_from(end.word[w], mover);
      if (lane > mover) start = now;
    }
    if (movers != 0) {
      for (u32 i = 0; i < kPlayfield; ++i) state[kLinePosition + i] = u8(start[i]);
    }

    // Before the window no scanline ends, and what is pending there stays so; from then on it ends
    // with its scanline, unless the access draws into the next one.
    const bool is_above = line < first_line;
    const u32 above = team.ballot(is_above);
    const bool is_first = line <= first_line;
    for (u32 n = 0; n < 2; ++n) {
      const u32 changers = team.ballot(motion.reset[n] != 0);
      if (changers == 0) continue;
      const bool is_reset = motion.reset[n] & LineMotion::kReset;
      const PlayerReset kind = is_reset ? motion.kind(n, start) : PlayerReset::kDelay;
      const bool stays = kind == PlayerReset::kDisplay && motion.reset[n] & LineMotion::kLate;
      const bool skip = is_above ? kind != PlayerReset::kDelay : stays;
      const u32 relevant = changers & above & lanes_before();
      const u32 from =
          is_first ? (relevant != 0 ? highest_bit(relevant) : 0) : (lane == 0 ? 0 : lane - 1);
      const u32 found = team.take_from(u32(skip), from);
      if (is_first ? relevant != 0 : lane != 0) state[kLineSkip + n] = u8(found);
    }
    const u32 latches = team.ballot(mirror != 2 && is_above) & lanes_before();
    const u32 latched = team.take_from(mirror, latches != 0 ? highest_bit(latches) : 0);
    if (is_first && latches != 0) state[kLineMirror] = u8(latched);
    const u32 blanked = team.ballot(blank_is_left);
    if (is_first) {
      if (blanked & above & lanes_before()) state[kLineHmoveBlank] = 1;
    } else if (lane != 0) {
      state[kLineHmoveBlank] = blanked >> (lane - 1) & 1;
    }
    return is_regular;
  }

  // Goes over the scanline's accesses with the registers as they are at its start.
  __device__ CULE_INLINE void follow_order(LineMotion& motion, u32& mirror, bool& blank_is_left,
                                           bool& is_regular) const {
    u32 modes[2] = {state[NUSIZ0], state[NUSIZ1]};
    u32 locks[2] = {state[RESMP0], state[RESMP1]};
    u64 hm = 0;  // a byte each
    for (u32 n = 0; n < 5; ++n) hm |= u64(state[HMP0 + n]) << 8 * n;
    i32 hmove = hmove_clock;
    u32 late_resets = 0;
    for (u32 i = begin; i < end; ++i) {
      const LogEntry e = log.entries[i];
      const u32 reg = log_register(e);
      const u32 v = log_value(e);
      const u32 clock = clock_of(e);
      switch (reg) {
        case NUSIZ0:
        case NUSIZ1:
          modes[reg - NUSIZ0] = v;
          motion.reset[reg - NUSIZ0] = LineMotion::kCleared;
          break;
        case CTRLPF:
          if (clock % kClocksPerLine < kLatestMirrorClock) mirror = v & 1;
          break;
        case RESP0:
        case RESP1: {
          const u32 n = reg - RESP0;
          const bool is_late = clock + kResetDrawClocks > line_begin() + kClocksPerLine;
          late_resets += is_late;
          motion.reset_player(n, reset_player_position(clock % kClocksPerLine), modes[n] & 7,
                              is_late);
          break;
        }
        case RESM0:
        case RESM1:
        case RESBL:
          motion.put(reg == RESBL ? u32(kBall) : kMissile0 + reg - RESM0,
                     reset_small_position(reg, clock, hmove));
          break;
        case HMM0:
          // tia/NOTES.md 10
          if (v >> 4 == 6 && (hm >> 20 & 0xF) == 7 && i32(clock) == hmove + 63) is_regular = false;
          hm = (hm & ~(0xFFULL << 16)) | u64(v) << 16;
          break;
        case HMP0:
        case HMP1:
        case HMM1:
        case HMBL:
          hm = (hm & ~(0xFFULL << 8 * (reg - HMP0))) | u64(v) << 8 * (reg - HMP0);
          break;
        case HMCLR:
          hm = 0;
          break;
        case RESMP0:
        case RESMP1: {
          const u32 n = reg - RESMP0;
          if ((locks[n] & 2) && !(v & 2)) motion.unlock_missile(n, modes[n] & 7);
          locks[n] = v;
          break;
        }
        case HMOVE: {
          const u32 cycle = clock % kClocksPerLine / kClocksPerCycle;
          const bool blanks = hmove_blanks && is_blanking(clock);
          const bool is_behind = clock >= line_begin() + kHblankClocks + 8;
          if (blanks && (is_behind || line < first_line)) blank_is_left = true;
          for (u32 object = 0; object < kPlayfield; ++object) {
            const i32 motion_now = hmove_pixels(cycle, hm >> (8 * object + 4) & 0xF);
            if (motion_now != 0) motion.move(object, motion_now);
          }
          motion.reset[0] = motion.reset[1] = LineMotion::kCleared;
          hmove = i32(clock);
          break;
        }
        default:
          break;
      }
    }
    if (late_resets > 1) is_regular = false;
  }
};

}  // namespace cule
