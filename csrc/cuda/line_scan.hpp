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
#include "cuda/bytes16.hpp"
#include "cuda/lane_team.hpp"
#include "cuda/line_motion.hpp"
#include "cuda/line_state.hpp"
#include "cuda/register_rules.hpp"

namespace cule {

constexpr u32 kLongestDelay = 8;  // of Register::delay

// The last scanline of a window that has none.
constexpr u32 kNoLastLine = ~0u;

// The lanes of a warp copy the rules of all registers before a scan of its memory.
__device__ CULE_INLINE void make_line_rules(u32 memory) {
  static_assert(sizeof(RuleTable) == kLineScanBytes - kLineRulesAt);
  const u32 lane = threadIdx.x % kWarpLanes;
  if (lane < sizeof(RuleTable) / sizeof(Bytes16)) {
    reinterpret_cast<Bytes16*>(dynamic_shared() + memory + kLineRulesAt)[lane] =
        reinterpret_cast<const Bytes16*>(&kRuleTable)[lane];
  }
  __syncwarp();
}

struct ScanWindow {
  u32 first_line;
  u32 last_line;    // it owns all accesses after it
  u32 lines_above;  // that a lane takes as one where they are above the window
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

// Some accesses of a scanline, in order: the first kNotedEntries of it as bits, then all.
struct EntryList {
  static constexpr u32 kNotedEntries = 32;

  const LogEntry* first;  // of the scanline
  const LogEntry* rest;
  const LogEntry* end;
  u32 left;

  // False if there is none left.
  __device__ CULE_INLINE bool next(LogEntry& e) {
    if (left != 0) {
      e = first[lowest_bit(left)];
      left &= left - 1;
      return true;
    }
    if (CULE_LIKELY(rest >= end)) return false;
    e = *rest++;
    return true;
  }
};

// The accesses of each scanline that a picture depends on, in shared memory: entry i of lane l at
// word 32 i + l. After the last one is kEnd, later than all.
struct PaintedList {
  static constexpr u32 kMost = 24;  // of a scanline; a log with more has another renderer
  static constexpr u32 kBytes = (kMost + 1) * kWarpLanes * sizeof(LogEntry);
  static constexpr u32 kStep = kWarpLanes * sizeof(LogEntry);
  static constexpr LogEntry kEnd = ~0u;
};

// With `kKeepsPainted` it lists what a picture depends on, behind kLineScanBytes of memory;
// without, it notes what moves.
template <class Team, bool kKeepsPainted = false>
struct LineScan {
  const TiaWriteLog& log;
  const Team team;
  const ScanWindow window;
  const u32 lane;           // of the team
  const LineState state;    // of the lane's scanline
  const LineState written;  // the last value that it writes to a register
  const u32 memory;         // where kLineScanBytes of shared memory of the warp are
  u32 line;                 // the lane's scanline
  bool is_begun;            // it began before the scan
  u32 begin;                // its entries of the log
  u32 end;
  i32 hmove_clock;       // the last HMOVE before it,
  i32 next_hmove_clock;  // and before the scanlines after those of all lanes
  u64 present = 0;       // registers that it writes, a bit each
  // Its accesses of kMovingRegisters and kOrderedRegisters (EntryList::left).
  u32 moving = 0, ordered = 0;
  u32 drawn = 0;        // players to whose graphics it writes more than 0, a bit each
  u32 num_painted = 0;  // accesses in its PaintedList
  // It moves objects by one HMOVE, before its first pixel, and by nothing else.
  bool moves_early = false;
  bool has_moved = false;  // if so, to these positions
  Positions moved;
  bool carries_blank;  // it begins behind its HMOVE blank, and the next scanline has one

  __device__ LineScan(const TiaWriteLog& l, const Team& t, const ScanWindow& w,
                      const ScanStart& start, u32 at)
      : log(l),
        team(t),
        window(w),
        lane(t.lane()),
        state{at + threadIdx.x % kWarpLanes},
        written{at + kLineStateBytes + threadIdx.x % kWarpLanes},
        memory(at),
        line(start.line + lane - t.size()),
        is_begun(lane == 0),
        begin(start.entry),
        end(start.entry),
        hmove_clock(start.tia.hmove_clock),
        next_hmove_clock(start.tia.hmove_clock),
        carries_blank(start.is_behind_blank && start.tia.hmove_blank && lane == 0) {
    team.sync();
    if (team.leads()) set_next(start.tia);
    team.sync();
  }

  __device__ CULE_INLINE PackedRule rule_of(u32 reg) const {
    return {shared_word(memory + kLineRulesAt + reg * kWordBytes)};
  }

  // Where its first entry of PaintedList is.
  __device__ CULE_INLINE u32 painted_at() const {
    return memory + kLineScanBytes + threadIdx.x % kWarpLanes * u32(sizeof(LogEntry));
  }
  __device__ CULE_INLINE EntryList entries_of(u32 left) const {
    const LogEntry* const first = log.entries + begin;
    return {first, first + EntryList::kNotedEntries, log.entries + end, left};
  }

  __device__ CULE_INLINE u32 clock_of(LogEntry e) const {
    return log.base_clock + clocks_from_cycles(log_cycle(e));
  }
  __device__ CULE_INLINE u32 line_begin() const { return line * kClocksPerLine; }

  // Takes the next scanlines, one a lane; `state` is its own to change until the next call. Returns
  // false if one of them starts the star field: only another renderer can draw this log.
  __device__ CULE_NOINLINE bool find_lines() { return find_lines_inlined(); }
  // For a caller where registers are not as scarce: after a call this object is in local memory.
  __device__ CULE_INLINE bool find_lines_inlined() {
    line += team.size();
    const u32 last_end = team.take_from(end, team.size() - 1);
    end = line < window.last_line ? first_beyond(last_end, line_end()) : log.size;
    const u32 before = team.take_from(end, lane == 0 ? 0 : lane - 1);
    begin = lane == 0 ? last_end : before;

    const LineWrites writes = note_writes();
    present = writes.present;
    moving = writes.moving;
    num_painted = writes.painted;
    ordered = writes.ordered;
    drawn = writes.drawn;
    const bool has_ended = line > window.first_line && !is_begun;  // the scanline before
    const bool has_next_ended = next_line() > window.first_line;
    take_next(has_ended);
    fill_registers(writes.present);
    if (team.any_bits64(present) & register_bits(GRP0, GRP1)) fill_old_graphics(writes);
    const u32 movers = team.ballot(writes.present >> HMOVE & 1);
    hmove_clock = last_hmove(writes, movers & lanes_before());
    next_hmove_clock = last_hmove(writes, movers);
    if (has_ended) state[kLineMirror] = state[CTRLPF] & 1;
    if (has_next_ended && team.leads()) {
      next(kLineSkip) = next(kLineSkip + 1) = next(kLineHmoveBlank) = 0;
    }
    const bool is_blank_left = leaves_blank(writes) || carries_blank;
    carries_blank = false;
    moves_early = writes.hmoves == 1 && !(present & kPlacingRegisters) &&
                  writes.hmove + i32(kResetDrawClocks) <= i32(line_begin() + kHblankClocks);
    has_moved = false;
    const bool is_ordered = depends_on_order(writes);
    bool is_regular = true;
    if (team.any(is_ordered || is_blank_left)) {
      is_regular = kKeepsPainted ? fill_ordered(is_ordered, is_blank_left)
                                 : fill_ordered_apart(is_ordered, is_blank_left);
    }
    is_begun = false;
    const bool lacks_motion =
        writes.hmoves != 0 && !moves_early && (writes.before_hmove & kMotionRegisters);
    if (kKeepsPainted && lacks_motion && line >= window.first_line) list_with_motion();
    team.sync();
    return team.ballot(!is_regular) == 0;
  }

  __device__ CULE_INLINE void set_positions(const Positions& p) const {
    for (u32 i = 0; i < kPlayfield; ++i) state[kLinePosition + i] = u8(p[i]);
  }

 private:
  __device__ CULE_INLINE u32 lanes_before() const { return (1u << lane) - 1; }
  // Byte i of the state at the start of the scanlines after those of all lanes.
  __device__ CULE_INLINE u8& next(u32 i) const {
    return dynamic_shared()[memory + kLineNextAt + i];
  }
  __device__ CULE_INLINE u32 next_line() const { return line - lane + team.size(); }
  __device__ CULE_INLINE u32 line_end() const {
    if (line >= window.first_line) return line_begin() + kClocksPerLine;
    const u32 above = (window.first_line - 1 - line) * window.lines_above;
    return above < window.first_line ? (window.first_line - above) * kClocksPerLine : 0;
  }

  __device__ CULE_NOINLINE void set_next(const TiaState& s) const {
    for (u32 i = 0; i < 4; ++i) next(COLUP0 + i) = s.color[i];
    next(VBLANK) = u8(s.vblank << 1);
    next(CTRLPF) = s.ctrlpf;
    for (u32 n = 0; n < 2; ++n) {
      next(NUSIZ0 + n) = s.nusiz[n];
      next(REFP0 + n) = u8(s.refp[n] << 3);
      next(GRP0 + n) = s.grp[n];
      next(VDELP0 + n) = s.vdelp[n];
      next(ENAM0 + n) = u8(s.enam[n] << 1);
      next(RESMP0 + n) = u8(s.resmp[n] << 1);
      next(kLineOldGraphics + n) = s.old_grp[n];
      next(kLineSkip + n) = s.skip[n];
    }
    next(ENABL) = u8(s.enabl << 1);
    next(kLineOldBall) = u8(s.old_enabl << 1);
    next(VDELBL) = s.vdelbl;
    for (u32 i = 0; i < 3; ++i) next(PF0 + i) = s.pf[i];
    for (u32 i = 0; i < 5; ++i) {
      next(HMP0 + i) = u8(s.hm[i] << 4);
      next(kLinePosition + i) = s.position[i];
    }
    next(kLineMirror) = s.pf_mirror;
    next(kLineHmoveBlank) = s.hmove_blank;
  }

  // What is no register begins as the scanlines before have left it, but for what ends with one.
  __device__ CULE_INLINE void take_next(bool has_ended) const {
    constexpr u32 kOthers = kLineHmoveBlank + 1 - kLinePosition;
    static_assert(kOthers == 3 * kWordBytes && kLinePosition % kWordBytes == 0);
    for (u32 i = 0; i < kOthers; i += kWordBytes) {
      u32 bytes = shared_word(memory + kLineNextAt + kLinePosition + i);
      for (u32 k = 0; k < kWordBytes; ++k, bytes >>= 8) state[kLinePosition + i + k] = u8(bytes);
    }
    if (has_ended && lane != 0) {
      state[kLineSkip] = state[kLineSkip + 1] = state[kLineHmoveBlank] = 0;
    }
  }

  // The first entry from `from` on that moves the mark beyond a clock; log.size if there is none.
  __device__ CULE_INLINE u32 first_beyond(u32 from, u32 clock) const {
    // Entries of earlier cycles do not, whatever their delay.
    const i32 clocks = i32(clock) - i32(log.base_clock + kLongestDelay);
    const LogEntry earliest =
        pack_log_entry(clocks < 0 ? 0 : u32(clocks) / kClocksPerCycle + 1, 0, 0);
    u32 low = from;
    for (u32 high = log.size; low < high;) {
      const u32 middle = (low + high) / 2;
      const bool is_beyond = log.entries[middle] >= earliest;
      high = is_beyond ? middle : high;
      low = is_beyond ? low : middle + 1;
    }
    for (; low < log.size; ++low) {
      const LogEntry e = log.entries[low];
      const u32 at = clock_of(e);
      if (at + rule_of(log_register(e)).delay(at / kClocksPerCycle) > clock) break;
    }
    return low;
  }

  // What the scanline writes, in the order of its accesses.
  struct LineWrites {
    u64 present = 0;       // one bit a register
    u64 before_hmove = 0;  // the same when HMOVE was written
    i32 hmove = 0;         // the last HMOVE
    u32 hmoves = 0;        // how many
    u32 moving = 0, ordered = 0;
    u32 painted = 0;                               // how many
    u32 old_graphics[2] = {kAsBefore, kAsBefore};  // what GRP1 and GRP0 have copied
    u32 old_ball = kAsBefore;
    u32 drawn = 0;
    bool may_start_stars = false;
  };
  static constexpr u32 kAsBefore = 0x100;  // as at the start of the scanline

  __device__ CULE_INLINE LineWrites note_writes() const {
    LineWrites w;
    u32 bit = 1;  // of the entry
    const LogEntry* entry = log.entries + begin;
    const LineState values = written;
    for (u32 left = end - begin; left != 0; --left, bit <<= 1) {
      const LogEntry e = *entry++;
      const u32 reg = log_register(e);
      const PackedRule rule = rule_of(reg);
      if (rule.is_noted()) note(w, e, reg);
      values[reg] = u8(log_value(e));
      if (!kKeepsPainted && rule.is_moving()) w.moving |= bit;
      if (kKeepsPainted && rule.is_painted()) {
        painted_entry(w.painted) = e;
        ++w.painted;
      }
      if (rule.is_in_order()) w.ordered |= bit;
      w.present |= 1ULL << reg;
    }
    if (kKeepsPainted) painted_entry(w.painted) = PaintedList::kEnd;
    return w;
  }
  // Lists what HMOVE depends on too.
  __device__ CULE_NOINLINE void list_with_motion() {
    num_painted = 0;
    for (u32 i = begin; i < end; ++i) {
      const LogEntry e = log.entries[i];
      const PackedRule rule = rule_of(log_register(e));
      if (rule.is_painted() | rule.is_in_order()) painted_entry(num_painted++) = e;
    }
    painted_entry(num_painted) = PaintedList::kEnd;
  }
  __device__ CULE_INLINE LogEntry& painted_entry(u32 i) const {
    return shared_word(painted_at() +
                       (i < PaintedList::kMost ? i : PaintedList::kMost) * PaintedList::kStep);
  }
  __device__ CULE_INLINE void note(LineWrites& w, LogEntry e, u32 reg) const {
    const auto written_or_before = [&](u32 of) {
      return w.present >> of & 1 ? u32(written[of]) : kAsBefore;
    };
    if (reg == GRP0) {
      w.old_graphics[1] = written_or_before(GRP1);
      w.drawn |= u32(log_value(e) != 0);
    } else if (reg == GRP1) {
      w.old_graphics[0] = written_or_before(GRP0);
      w.drawn |= u32(log_value(e) != 0) << 1;
      w.old_ball = written_or_before(ENABL);
    } else if (reg == HMM0) {
      if (log_value(e) >> 4 == kStarNibble) w.may_start_stars = true;
    } else if (reg == HMOVE) {
      w.hmove = i32(clock_of(e));
      w.before_hmove = w.present;
      ++w.hmoves;
    } else {  // HMCLR
      for (u32 n = 0; n < 5; ++n) written[HMP0 + n] = 0;
      w.present |= register_bits(HMP0, HMBL);
    }
  }

  // Every register begins as the last scanline that writes it leaves it. A lane finds one register
  // for all scanlines, four at a time; with fewer lanes than registers, one after the other.
  __device__ CULE_INLINE void fill_registers(u64 registers) const {
    u32 writers = transposed(slots_of(registers));
    const u32 first = state.at - lane;
    team.sync();
    for (u32 slot = lane; slot < 32; slot += team.size()) {
      const u32 reg = register_of_slot(slot);
      u32 last = next(reg);
      for (u32 line_at = 0; line_at < team.size(); line_at += kWordBytes) {
        const u32 at = first + reg * kWarpLanes + line_at;
        const u32 values = shared_word(at + kLineStateBytes);
        const u32 selector =
            shared_word(memory + kLineSelectorsAt + writers % kNumSelectors * kWordBytes);
        shared_word(at) = CULE_PICK_BYTES(values, last, selector);
        last = CULE_PICK_BYTES(values, last, selector >> 16);
        writers >>= kWordBytes;
      }
      next(reg) = u8(last);
    }
    team.sync();
  }

  // Bits of slots in lanes become bits of lanes, those of slot s from bit s / size * size on in
  // lane s % size.
  __device__ CULE_INLINE u32 transposed(u32 bits) const {
    for (u32 step = team.size() / 2; step != 0; step /= 2) {
      const u32 low = ~0u / ((1u << step) + 1);  // `step` bits of every other `step`
      const bool is_high = lane & step;
      const u32 other = team.take_from(bits, lane ^ step);
      const u32 kept = is_high ? ~low : low;
      bits = (bits & kept) | ((is_high ? other >> step : other << step) & ~kept);
    }
    return bits;
  }

  __device__ CULE_INLINE i32 last_hmove(const LineWrites& w, u32 movers) const {
    const i32 found = i32(team.take_from(u32(w.hmove), movers != 0 ? highest_bit(movers) : 0));
    return movers != 0 ? found : next_hmove_clock;
  }

  // The nearest scanline before this one of those in the mask writes its value to `state[i]`.
  __device__ CULE_INLINE void fill(u32 i, u32 writers, u32 value) const {
    if (writers == 0) return;
    const u32 before = writers & lanes_before();
    const u32 found = team.take_from(value, before != 0 ? highest_bit(before) : 0);
    if (before != 0) state[i] = u8(found);
    const u32 last = team.take_from(value, highest_bit(writers));
    if (team.leads()) next(i) = u8(last);
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
    return w.hmoves == 1 && window.hmove_blanks && line >= window.first_line &&
           u32(w.hmove) >= line_begin() + kHblankClocks + kHmoveBlankPixels &&
           is_blanking(cycle_of_line(u32(w.hmove)));
  }

  // Whether follow_order() would find anything.
  __device__ CULE_INLINE bool depends_on_order(const LineWrites& w) const {
    constexpr u64 kPending = register_bits(NUSIZ0, NUSIZ1) | register_bits(CTRLPF, CTRLPF);
    if ((w.present & kPlacingRegisters) || w.may_start_stars) return true;
    if (line < window.first_line) return w.present & (kPending | register_bits(HMOVE, HMOVE));
    if (w.hmoves == 0) return false;
    const u32 cycle = cycle_of_line(u32(w.hmove));
    const u32 motion = state[HMP0] | state[HMP1] | state[HMM0] | state[HMM1] | state[HMBL];
    return w.hmoves > 1 || (w.before_hmove & register_bits(HMP0, HMBL)) || motion >> 4 != 0 ||
           hmove_pixels(cycle, 0) != 0;
  }

  // What depends on the order of accesses, where the lane's scanline has any. Returns false if the
  // star field starts.
  __device__ CULE_INLINE bool fill_ordered(bool is_ordered, bool blank_is_left) {
    LineMotion motion;
    u32 mirror = 2;  // 2: not latched
    bool is_regular = true;
    if (is_ordered) follow_order(motion, mirror, blank_is_left, is_regular);

    Positions start;
    start.word[0] = state[kLinePosition] | state[kLinePosition + 1] << 16;
    start.word[1] = state[kLinePosition + 2] | state[kLinePosition + 3] << 16;
    start.word[2] = state[kLinePosition + 4];
    const u32 movers = team.ballot(motion.is_any());
    if (movers != 0) move_positions(motion, movers, start);

    // Before the window no scanline ends, and what is pending there stays so; from then on it ends
    // with its scanline, unless the access draws into the next one.
    const bool is_above = line < window.first_line;
    const u32 above = team.ballot(is_above);
    const bool is_first = line <= window.first_line;
    const bool is_next_first = next_line() <= window.first_line;
    // A value that scanlines of `writers` leave: to the scanline after each, from the window on;
    // above it to all after it, up to the first of the window.
    const auto leave = [&](u32 i, u32 writers, u32 value) {
      const u32 before = writers & above & lanes_before();
      const u32 from =
          is_first ? (before != 0 ? highest_bit(before) : 0) : (lane == 0 ? 0 : lane - 1);
      const u32 found = team.take_from(value, from);
      if (is_first ? before != 0 : lane != 0) state[i] = u8(found);
      const u32 last =
          team.take_from(value, is_next_first ? highest_bit(writers) : team.size() - 1);
      if (team.leads()) next(i) = u8(last);
    };
    for (u32 n = 0; n < 2; ++n) {
      const u32 changers = team.ballot(motion.reset[n] != 0);
      if (changers == 0) continue;
      const bool is_reset = motion.reset[n] & LineMotion::kReset;
      const PlayerReset kind = is_reset ? motion.kind(n, start) : PlayerReset::kDelay;
      const bool stays = kind == PlayerReset::kDisplay && motion.reset[n] & LineMotion::kLate;
      leave(kLineSkip + n, changers, is_above ? kind != PlayerReset::kDelay : stays);
    }
    const u32 latches = team.ballot(mirror != 2 && is_above);
    if (latches != 0) {
      const u32 before = latches & lanes_before();
      const u32 found = team.take_from(mirror, before != 0 ? highest_bit(before) : 0);
      if (is_first && before != 0) state[kLineMirror] = u8(found);
      const u32 last = team.take_from(mirror, highest_bit(latches));
      if (team.leads()) next(kLineMirror) = u8(last);
    }
    const u32 blanked = team.ballot(blank_is_left);
    if (blanked != 0) leave(kLineHmoveBlank, blanked, blank_is_left);
    return is_regular;
  }

  __device__ CULE_NOINLINE bool fill_ordered_apart(bool is_ordered, bool blank_is_left) {
    return fill_ordered(is_ordered, blank_is_left);
  }

  // Positions, in the order of the scanlines that move any.
  __device__ CULE_INLINE void move_positions(const LineMotion& motion, u32 movers,
                                             Positions& start) {
    Positions now = start;
    for (; movers != 0; movers &= movers - 1) {
      const u32 mover = lowest_bit(movers);
      const Positions end = motion.after(now);
      for (u32 w = 0; w < 3; ++w) now.word[w] = team.take_from(end.word[w], mover);
      if (lane > mover) start = now;
    }
    moved = motion.after(start);
    set_positions(start);
    if (team.leads()) {
      for (u32 i = 0; i < kPlayfield; ++i) next(kLinePosition + i) = u8(now[i]);
    }
    has_moved = true;
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
    EntryList entries = entries_of(ordered);
    for (LogEntry e = 0; entries.next(e);) {
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
          const bool is_late =
              line >= window.first_line && clock + kResetDrawClocks > line_begin() + kClocksPerLine;
          late_resets += is_late;
          motion.reset_player(n, reset_player_position(clock % kClocksPerLine), modes[n] & 7,
                              is_late);
          break;
        }
        case RESM0:
        case RESM1:
        case RESBL:
          motion.put(small_object(reg), reset_small_position(small_object(reg), clock, hmove));
          break;
        case HMM0:
          if (begins_stars(v, hm >> 20 & 0xF, clock, hmove)) is_regular = false;
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
          const u32 cycle = cycle_of_line(clock);
          const bool blanks = window.hmove_blanks && is_blanking(cycle);
          const bool is_behind = clock >= line_begin() + kHblankClocks + kHmoveBlankPixels;
          if (blanks && (is_behind || line < window.first_line)) blank_is_left = true;
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
