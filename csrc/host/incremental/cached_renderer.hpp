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
  // In a frame that is not kept, up to so many scanlines are rendered without a comparison where
  // the last ones found nothing to reuse.
  static constexpr u32 kMostPassed = 4;

  // Applies the entries from i on that are before `limit`; returns the first that is not.
  CULE_INLINE u32 write_line(u32 i, u32 limit) {
    for (LogEntry e; (e = entries_[i]) < limit; ++i) {
      const u32 clock = base_clock_ + clocks_from_cycles(log_cycle(e));
      write_by_register<true>(log_register(e), *this, clock, log_value(e));
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
    const u32 begin = i;
    if (frame_.is_valid && from != kNoEntry) i = reuse_lines(i, from, line);
    u32 last = line;
    if (run_.is_kept) {
      LineState& now = frame_.begin[line];
      now.tia = r_.s;
      now.beam = r_.beam;
      if (!keeps_use_) frame_.link[line].used = kUseUnknown;
    } else if (i != begin) {
      run_.failed = 0;
    } else {
      last += run_.failed;
      if (run_.failed < kMostPassed) ++run_.failed;
    }
    run_.line = line;
    run_.limit = pack_log_entry((last + 1) * kCyclesPerLine - base_clock_ / kClocksPerCycle, 0, 0);
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
  CULE_INLINE u32 reuse_lines(u32 i, u32 from, u32& line) {
    const LineState& begin = frame_.begin[line];
    const LineLink& link = frame_.link[line];
    if (link.next == kNoLine) return i;
    const u32 end = from + find_common(i, from) - i;
    if (frame_.link[link.next].first > end) return i;
    if (begin.tia.collisions & ~u32(r_.s.collisions)) return i;
    if (!(begin.beam == r_.beam)) return i;
    const u32 more_latches = r_.s.collisions & ~u32(begin.tia.collisions);
    const TiaBytes differing = tia_bytes::differing(r_.s, begin.tia) & LineDependencies::kRelevant;
    if (differing & LineDependencies::kAlways) return i;
    const TiaBytes different = differing | (more_latches ? kHasClear : 0);
    if (!(link.used & kUseUnknown) && (different & link.used)) {
      keeps_use_ = !(different & link.used & LineDependencies::kInspected);
      return i;
    }
    const Reused reused = walk(line, i, from, end, u16(more_latches), different);
    if (reused.last == line) return i;
    line = reused.last;
    skip_to(line, u16(more_latches), reused.different);
    if (reused.used & kHasClear) r_.sink.latches_cleared();
    run_.reused += reused.first - from;
    return i + reused.first - from;
  }

  // Continues at the start of scanline `line`, after reused ones. different: bytes that none of
  // them used or wrote.
  void skip_to(u32 line, u16 more_latches, TiaBytes different) {
    const LineState& after = frame_.begin[line];
    if (run_.is_kept) {
      run_.chain.keep_until(line);
      run_.painted.keep(r_.beam.drawn, after.beam.drawn);
    }
    TiaState tia = after.tia;
    tia_bytes::copy(different, tia, r_.s);
    tia.collisions |= more_latches;
    r_.continue_from(tia, after.beam);
  }

  // Scanlines up to `last`, which begins with cached entry `first`; what they used; and the bytes
  // that differ after them.
  struct Reused {
    u32 last;
    u32 first;
    TiaBytes used;
    TiaBytes different;
  };

  // Goes from scanline to scanline as long as the accesses are the same, which they are up to
  // cached entry `end`, and use none of the bytes in `different`; removes those that are written. A
  // cached frame that is replaced becomes the running one.
  CULE_NOINLINE Reused walk(u32 line, u32 i, u32 from, u32 end, u16 more_latches,
                            TiaBytes different) {
    const bool is_kept = run_.is_kept;
    const u32 later = i - from;
    LineLink* here = frame_.link + line;
    TiaBytes used = 0;
    u32 first = from, next = here->next;
    do {
      LineLink* const after = frame_.link + next;
      const u32 next_first = after->first;
      if (next_first > end) break;
      if (different) {
        if (here->used & kUseUnknown) frame_.find_use(line, first, next, next_first);
        if (different & here->used) {
          keeps_use_ = !(different & here->used & LineDependencies::kInspected);
          break;
        }
        if (is_kept) {
          LineState& begin = frame_.begin[line];
          tia_bytes::copy(different, begin.tia, r_.s);
          begin.tia.collisions |= more_latches;
        }
        different &= ~here->written;
      }
      used |= here->used;
      here = after;
      line = next;
      first = next_first;
      if (is_kept) here->first = u16(first + later);
      next = here->next;
    } while (next != kNoLine);
    return {line, first, used, different};
  }

  // The end of the accesses that are the same from entry i and cached entry `from` on. The access
  // at the end is at the same time at least: only its time matters to the scanline before it.
  CULE_INLINE u32 find_common(u32 i, u32 from) {
    if (i >= run_.common_end || from - i != run_.common_lag) {
      run_.common_lag = from - i;
      run_.common_end = i + common_size(i, from);
    }
    return run_.common_end;
  }

  CULE_NOINLINE u32 common_size(u32 i, u32 from) const {
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
