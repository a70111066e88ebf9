// host/incremental/cached_renderer.hpp: renders a log scanline by scanline with a LineCache.
//
// At each first access of a scanline: is the cached frame in the same state there, as far as it
// matters? Then all following scanlines with the same accesses are skipped.
#pragma once

#include "host/incremental/line_cache.hpp"

namespace cule {

// Renders a part of a frame's log scanline by scanline, with a cache.
template <class R>
class CachedLogRenderer {
 public:
  // entries: of the running frame so far, with kSpareEntries more than a log has.
  CachedLogRenderer(R& renderer, LineCache& cache, LogEntry* entries, u32 base_clock)
      : r_(renderer),
        run_(cache.running),
        frame_(cache.frame[cache.own]),
        entries_(entries),
        base_clock_(base_clock) {}

  void run(const LogEntry* log, u32 from, u32 to) {
    if (from == to) return;
    u32 i = run_.size;
    const u32 size = i + copy_effective(entries_ + i, log + from, to - from);
    entries_[size] = kEndOfLog;
    run_.size = size;
    for (;;) {
      i = write_line(i, run_.limit);
      if (i == size) break;
      i = begin_line(i);
    }
    r_.move_mark(base_clock_ + clocks_from_cycles(log_cycle(log[to - 1])));
  }

  // Applies an entry of the scanline that began last.
  template <u32 reg>
  CULE_INLINE void write(u32 clock, u32 v) {
    if constexpr (reg == CXCLR) note_clear();
    r_.template write<reg>(clock, v);
  }

 private:
  // Applies the entries from i on that are before `limit`; returns the first that is not.
  CULE_INLINE u32 write_line(u32 i, u32 limit) {
    for (LogEntry e; (e = entries_[i]) < limit; ++i) {
      const u32 clock = base_clock_ + clocks_from_cycles(log_cycle(e));
      write_by_register(log_register(e), *this, clock, log_value(e));
    }
    return i;
  }

  // Entry i is the first access of a scanline. Returns the entry to continue with: i, or the first
  // after the reused scanlines.
  u32 begin_line(u32 i) {
    const u32 clock = base_clock_ + clocks_from_cycles(log_cycle(entries_[i]));
    u32 line = clock / kClocksPerLine;
    r_.move_mark(clock);
    r_.flush();
    if (line >= kCachedLines) {
      run_.line = kCachedLines;
      run_.limit = ~0u;
      return i;
    }
    // Read before add() replaces it: a frame that is kept replaces the one it is compared with.
    const u32 from = frame_.link[line].first;
    if (run_.is_kept) run_.chain.add(frame_.link, line, i);
    keeps_use_ = false;
    if (frame_.is_valid && from != kNoEntry) i = reuse_lines(i, from, line);
    if (run_.is_kept) {
      LineState& now = frame_.begin[line];
      now.tia = r_.s;
      now.beam = r_.beam;
      if (!keeps_use_) frame_.link[line].used = kUseUnknown;
    }
    run_.line = line;
    const u32 end_cycle = (line + 1) * kCyclesPerLine - base_clock_ / kClocksPerCycle;
    run_.limit = end_cycle < 1u << 18 ? pack_log_entry(end_cycle, 0, 0) : ~0u;
    return i;
  }

  void note_clear() {
    if (run_.is_kept && run_.line < kCachedLines) {
      frame_.link[run_.line].used |= kHasClear;
    }
  }

  // Skips scanlines from `line` on, which begins with entry i and, in the cached frame, with
  // `from`. Sets `line` to the scanline that the state is then at the start of; returns its first
  // entry.
  u32 reuse_lines(u32 i, u32 from, u32& line) {
    const LineState& begin = frame_.begin[line];
    const u32 next = frame_.link[line].next;
    if (next == kNoLine) return i;
    const u32 more_latches = r_.s.collisions & ~u32(begin.tia.collisions);
    if (begin.tia.collisions & ~u32(r_.s.collisions)) return i;
    if (!(begin.beam == r_.beam)) return i;
    const u32 end = from + find_common(i, from) - i;
    if (frame_.link[next].first > end) return i;
    const TiaBytes differing = tia_bytes::differing(r_.s, begin.tia) & LineDependencies::kRelevant;
    if (differing & LineDependencies::kAlways) return i;
    TiaBytes different = differing | (more_latches ? kHasClear : 0);
    const Reused reused = walk(line, i, from, end, u16(more_latches), different);
    if (reused.last == line) return i;
    line = reused.last;
    const LineState& after = frame_.begin[line];
    if (run_.is_kept) {
      run_.chain.keep_until(line);
      run_.painted.keep(r_.beam.drawn, after.beam.drawn);
    }
    TiaState tia = after.tia;
    tia_bytes::copy(different, tia, r_.s);
    tia.collisions |= u16(more_latches);
    r_.continue_from(tia, after.beam);
    if (reused.used & kHasClear) r_.sink.latches_cleared();
    run_.reused += reused.first - from;
    return i + reused.first - from;
  }

  // Scanlines up to `last`, which begins with cached entry `first`, and what they used.
  struct Reused {
    u32 last;
    u32 first;
    TiaBytes used;
  };

  // Goes from scanline to scanline as long as the accesses are the same, which they are up to
  // cached entry `end`, and use none of the bytes in `different`; removes those that are written. A
  // cached frame that is replaced becomes the running one.
  Reused walk(u32 line, u32 i, u32 from, u32 end, u16 more_latches, TiaBytes& different) {
    LineLink* const link = frame_.link;
    Reused r{line, from, 0};
    u32 next = link[line].next;
    do {
      const u32 next_first = link[next].first;
      if (next_first > end) break;
      LineLink& here = link[r.last];
      if (different) {
        if (here.used & kUseUnknown) frame_.find_use(r.last, r.first, next, next_first);
        if (different & here.used) {
          keeps_use_ = !(different & LineDependencies::kInspected);
          break;
        }
        if (run_.is_kept) {
          tia_bytes::copy(different, frame_.begin[r.last].tia, r_.s);
          frame_.begin[r.last].tia.collisions |= more_latches;
        }
        different &= ~here.written;
      }
      r.used |= here.used;
      r.last = next;
      r.first = next_first;
      if (run_.is_kept) link[next].first = u16(next_first + i - from);
      next = link[next].next;
    } while (next != kNoLine);
    return r;
  }

  // The end of the accesses that are the same from entry i and cached entry `from` on. The access
  // at the end is at the same time at least: only its time matters to the scanline before it.
  u32 find_common(u32 i, u32 from) {
    if (i >= run_.common_end || from - i != run_.common_lag) {
      run_.common_lag = from - i;
      run_.common_end = i + common_size(i, from);
    }
    return run_.common_end;
  }

  u32 common_size(u32 i, u32 from) const {
    const i32 later = i32(frame_.base_clock - base_clock_) / i32(kClocksPerCycle);
    const u32 shift = pack_log_entry(u32(later), 0, 0);
    const LogEntry* a = entries_ + i;
    const LogEntry* b = frame_.entries + from;
    const u32 left = run_.size - i;
    const u32 most = left < frame_.size - from ? left : frame_.size - from;
    const u32 n = equal_entries(a, b, shift, most);
    if (n == 0 || (n < most && log_cycle(a[n] - shift) == log_cycle(b[n]))) return n;
    return n - 1;
  }

  R& r_;
  RunningFrame& run_;
  CachedFrame& frame_;
  LogEntry* const entries_;
  const u32 base_clock_;
  // The scanline to render differs from the cached one, but not in what it uses.
  bool keeps_use_ = false;
};

}  // namespace cule
