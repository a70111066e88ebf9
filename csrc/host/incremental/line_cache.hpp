// host/incremental/line_cache.hpp: skips scanlines that repeat those of an earlier frame.
//
// What the accesses of a scanline do depends on the state that the scanline begins in and on
// nothing else (tia/NOTES.md 15). The cache holds the last one or two frames that were drawn to the
// end: their accesses, the state at the first access of each scanline, and their pixels. When
// rendering reaches a scanline in the cached state, apart from bytes that do not matter there
// (line_dependencies.hpp), it skips all following scanlines whose accesses are the same: the state
// becomes that of the scanline after them, and the pixels are in place, because a frame is drawn
// over the one it is compared with. Frames that are not drawn use the cache without changing it.
// Which frame is compared: cache_tuning.hpp.
//
// Accesses without an effect are left out: they only move the beam mark, which shows only in frames
// that end before the window does (tia/NOTES.md 15), and those are not cached. Latches that are set
// at the start of a scanline, and not in the cache, stay set unless a CXCLR is skipped.
#pragma once

#include "host/incremental/cache_tuning.hpp"
#include "host/incremental/line_dependencies.hpp"
#include "host/incremental/log_filter.hpp"
#include "host/incremental/row_set.hpp"

namespace cule {

constexpr u32 kCachedLines = 320;  // of a frame; further scanlines are always rendered

struct CachedLine {
  TiaState tia;  // right before its first access, everything before that drawn
  Beam beam;
};

constexpr u16 kNoEntry = 0xFFFF;
constexpr u16 kNoLine = 0xFFFF;

// What decides how many scanlines are reused.
struct LineLink {
  u16 first;      // entry that begins the scanline, or kNoEntry
  u16 next;       // the next scanline that an entry begins, or kNoLine
  TiaBytes used;  // LineDependencies, or kUseUnknown; with kHasClear if CXCLR is among its accesses
  TiaBytes written;  // LineDependencies
};

// Beyond the bytes of TiaState:
constexpr TiaBytes kUseUnknown = 1ULL << 63;
constexpr TiaBytes kHasClear = 1ULL << 62;
static_assert(sizeof(TiaState) <= 62);

// A frame that was drawn to the end.
struct CachedFrame {
  u8 is_valid;
  u8 buffer;  // index into LineCache::entries
  u32 base_clock;
  u32 size;
  LineLink link[kCachedLines];
  CachedLine line[kCachedLines];
  u8 rows[kMaxRows * kScreenWidth];
  RowSet painted;  // rows that were painted, not reused, when it was drawn
};

struct LineCache {
  u8 is_on;
  u8 is_drawing;  // the running frame is drawn over the one it is compared with
  u8 own;         // index of the latter
  u8 running_buffer;
  u16 wanted;  // latches recorded in the cached frames
  CachedFrame frame[2];
  LogEntry entries[3][kLogCapacity + kSpareEntries];
  CacheTuning tuning;

  // The running frame.
  u32 running_line;
  u32 last_line;  // the last scanline that an entry begins; kNoLine: none yet
  u32 running_size;
  u32 limit;            // an entry from here on begins another scanline
  u32 common_end;       // entries up to here equal the cached ones,
  u32 common_lag;       // which have an index so much greater
  u32 reused;           // entries
  RowSet repainted;     // rows painted before
  u32 repainted_until;  // this frame clock
  u32 window_begin;

  void start() {
    is_on = 1;
    for (u8 n = 0; n < 2; ++n) frame[n].buffer = n;
    running_buffer = 2;
  }

  // Where the next frame is drawn, if it is drawn.
  CachedFrame& next_frame() { return frame[own ^ tuning.alternates]; }

  void forget() { frame[0].is_valid = frame[1].is_valid = 0; }

  // False: the cache is not used in this frame step. draws: into next_frame().
  bool begin_frame(bool draws, u32 recorded_latches, const VisibleWindow& window) {
    own ^= tuning.alternates;
    CachedFrame& f = frame[own];
    if (draws) f.painted = RowSet::all();
    if (wanted != recorded_latches) forget();
    wanted = u16(recorded_latches);
    if (tuning.rest != 0) {
      --tuning.rest;
      if (draws) forget();
      return false;
    }
    if (!draws && !f.is_valid) return false;
    limit = running_size = common_end = reused = 0;
    is_drawing = draws;
    last_line = kNoLine;
    repainted = RowSet{};
    repainted_until = window_begin = window.begin_clocks;
    return true;
  }

  // The frame step is over. is_drawn: the frame was drawn to the end, if it was drawn.
  void end_frame(bool is_drawn, u32 log_base_clock) {
    CachedFrame& f = frame[own];
    if (f.is_valid) tuning.note(reused, running_size);
    if (!is_drawing) return;
    f.is_valid = is_drawn;
    is_drawing = 0;
    end_links(f.link);
    repaint_until(~0u);
    f.painted = repainted;
    const u8 freed = f.buffer;
    f.buffer = running_buffer;
    running_buffer = freed;
    f.base_clock = log_base_clock;
    f.size = running_size;
  }

  // Entry `first` of the running frame begins the scanline; none begins those since last_line.
  void note_line(LineLink* link, u32 line, u32 first) {
    for (u32 n = last_line == kNoLine ? 0 : last_line + 1; n < line; ++n) link[n].first = kNoEntry;
    if (last_line != kNoLine) link[last_line].next = u16(line);
    link[line].first = u16(first);
    last_line = line;
  }
  void end_links(LineLink* link) {
    const u32 end = last_line == kNoLine ? 0 : last_line + 1;
    for (u32 n = end; n < kCachedLines; ++n) link[n].first = kNoEntry;
    if (last_line != kNoLine) link[last_line].next = kNoLine;
  }

  // Everything since repainted_until has been painted.
  void repaint_until(u32 clock) {
    if (clock <= repainted_until) return;
    const u32 visible = clock - window_begin;
    const u32 to = visible > kHblankClocks ? (visible - kHblankClocks - 1) / kClocksPerLine + 1 : 0;
    const u32 from = (repainted_until - window_begin) / kClocksPerLine;
    if (from < to) repainted.add(from, to);
  }

  // The pixels between the two clocks were reused.
  void keep_rows(u32 begin, u32 end) {
    repaint_until(begin);
    if (end > repainted_until) repainted_until = end;
  }
};

// How many of the first `most` entries are later by `shift` in a and otherwise equal.
inline u32 equal_entries(const LogEntry* a, const LogEntry* b, u32 shift, u32 most) {
  u32 n = 0;
#if defined(CULE_SSE2)
  const __m128i shifts = _mm_set1_epi32(i32(shift));
  for (; n + 4 <= most; n += 4) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + n));
    const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + n));
    const __m128i same = _mm_cmpeq_epi32(_mm_sub_epi32(x, y), shifts);
    const u32 different = u32(_mm_movemask_ps(_mm_castsi128_ps(same))) ^ 0xF;
    if (different) return n + lowest_bit(different);
  }
#endif
  while (n < most && a[n] - b[n] == shift) ++n;
  return n;
}

// Renders a part of a frame's log scanline by scanline, with a cache.
template <class R>
class CachedLogRenderer {
 public:
  CachedLogRenderer(R& renderer, LineCache& cache, u32 base_clock)
      : r_(renderer),
        cache_(cache),
        frame_(cache.frame[cache.own]),
        entries_(cache.entries[cache.running_buffer]),
        cached_entries_(cache.entries[frame_.buffer]),
        base_clock_(base_clock) {}

  void run(const LogEntry* log, u32 from, u32 to) {
    if (from == to) return;
    u32 i = cache_.running_size;
    const u32 size = i + copy_effective(entries_ + i, log + from, to - from);
    cache_.running_size = size;
    u32 limit = cache_.limit;
    while (i < size) {
      if (entries_[i] >= limit) {
        i = begin_line(i);
        limit = cache_.limit;
      }
      const LogEntry e = entries_[i];
      if (log_register(e) == CXCLR) note_clear();
      r_.write(base_clock_ + clocks_from_cycles(log_cycle(e)), log_register(e), log_value(e), i);
      ++i;
    }
    r_.move_mark(base_clock_ + clocks_from_cycles(log_cycle(log[to - 1])));
  }

 private:
  // Entry i is the first access of a scanline. Returns the entry to continue with: i, or the first
  // after the reused scanlines.
  u32 begin_line(u32 i) {
    const u32 clock = base_clock_ + clocks_from_cycles(log_cycle(entries_[i]));
    u32 line = clock / kClocksPerLine;
    r_.move_mark(clock);
    r_.flush(i);
    if (line >= kCachedLines) {
      cache_.running_line = kCachedLines;
      cache_.limit = ~0u;
      return i;
    }
    // Read before note_line() replaces it: a frame is drawn over the one it is compared with.
    const u32 from = frame_.link[line].first;
    if (cache_.is_drawing) cache_.note_line(frame_.link, line, i);
    if (frame_.is_valid && from != kNoEntry) i = reuse_lines(i, from, line);
    if (cache_.is_drawing) {
      CachedLine& now = frame_.line[line];
      now.tia = r_.s;
      now.beam = r_.beam;
      frame_.link[line].used = kUseUnknown;
    }
    cache_.running_line = line;
    const u32 end_cycle = (line + 1) * kCyclesPerLine - base_clock_ / kClocksPerCycle;
    cache_.limit = end_cycle < 1u << 18 ? pack_log_entry(end_cycle, 0, 0) : ~0u;
    return i;
  }

  void note_clear() {
    if (cache_.is_drawing && cache_.running_line < kCachedLines) {
      frame_.link[cache_.running_line].used |= kHasClear;
    }
  }

  // Skips scanlines from `line` on, which begins with entry i and, in the cached frame, with
  // `from`. Sets `line` to the scanline that the state is then at the start of; returns its first
  // entry.
  u32 reuse_lines(u32 i, u32 from, u32& line) {
    const CachedLine& begin = frame_.line[line];
    const u32 next = frame_.link[line].next;
    if (next == kNoLine) return i;
    const u32 more_latches = r_.s.collisions & ~u32(begin.tia.collisions);
    if (begin.tia.collisions & ~u32(r_.s.collisions)) return i;
    if (!(begin.beam == r_.beam)) return i;
    const u32 end = from + find_common(i, from) - i;
    if (frame_.link[next].first > end) return i;
    const TiaBytes differing = tia_bytes::differing(r_.s, begin.tia) & LineDependencies::kRelevant;
    if (differing & LineDependencies::kAlways) return i;
    tia_bytes::Selection different(differing | (more_latches ? kHasClear : 0));
    const Reused reused = walk(line, i, from, end, u16(more_latches), different);
    if (reused.last == line) return i;
    line = reused.last;
    const CachedLine& after = frame_.line[line];
    if (cache_.is_drawing) {
      cache_.last_line = line;
      cache_.keep_rows(r_.beam.drawn, after.beam.drawn);
    }
    TiaState tia = after.tia;
    different.copy(tia, r_.s);
    tia.collisions |= u16(more_latches);
    r_.continue_from(tia, after.beam);
    if (reused.used & kHasClear) r_.sink.latches_cleared();
    cache_.reused += reused.first - from;
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
  // cached frame that is drawn over becomes the running one's.
  Reused walk(u32 line, u32 i, u32 from, u32 end, u16 more_latches,
              tia_bytes::Selection& different) {
    LineLink* const link = frame_.link;
    Reused r{line, from, 0};
    u32 next = link[line].next;
    do {
      const u32 next_first = link[next].first;
      if (next_first > end) break;
      LineLink& here = link[r.last];
      if (different.bytes) {
        if (here.used & kUseUnknown) find_use(r.last, r.first, next, next_first);
        if (different.bytes & here.used) break;
        if (cache_.is_drawing) {
          different.copy(frame_.line[r.last].tia, r_.s);
          frame_.line[r.last].tia.collisions |= more_latches;
        }
        if (different.bytes & here.written) different.choose(different.bytes & ~here.written);
      }
      r.used |= here.used;
      r.last = next;
      r.first = next_first;
      if (cache_.is_drawing) link[next].first = u16(next_first + i - from);
      next = link[next].next;
    } while (next != kNoLine);
    return r;
  }

  // Fills in the dependencies of a cached scanline; `first` and `next_first` are entries.
  void find_use(u32 line, u32 first, u32 next, u32 next_first) {
    const CachedLine& l = frame_.line[line];
    LineDependencies use(l.tia, line);
    for (u32 i = first; i < next_first; ++i) {
      const LogEntry e = cached_entries_[i];
      use.access(frame_.base_clock + clocks_from_cycles(log_cycle(e)), log_register(e),
                 log_value(e));
    }
    use.finish(frame_.line[next].beam.mark != l.beam.mark);
    LineLink& link = frame_.link[line];
    link.used = (link.used & kHasClear) | use.used();
    link.written = use.written();
  }

  // The end of the accesses that are the same from entry i and cached entry `from` on. The access
  // at the end is at the same time at least: only its time matters to the scanline before it.
  u32 find_common(u32 i, u32 from) {
    if (i >= cache_.common_end || from - i != cache_.common_lag) {
      cache_.common_lag = from - i;
      cache_.common_end = i + common_size(i, from);
    }
    return cache_.common_end;
  }

  u32 common_size(u32 i, u32 from) const {
    const i32 later = i32(frame_.base_clock - base_clock_) / i32(kClocksPerCycle);
    const u32 shift = pack_log_entry(u32(later), 0, 0);
    const LogEntry* a = entries_ + i;
    const LogEntry* b = cached_entries_ + from;
    const u32 left = cache_.running_size - i;
    const u32 most = left < frame_.size - from ? left : frame_.size - from;
    const u32 n = equal_entries(a, b, shift, most);
    if (n == 0 || (n < most && log_cycle(a[n] - shift) == log_cycle(b[n]))) return n;
    return n - 1;
  }

  R& r_;
  LineCache& cache_;
  CachedFrame& frame_;
  LogEntry* entries_;  // of the running frame
  const LogEntry* cached_entries_;
  const u32 base_clock_;
};

}  // namespace cule
