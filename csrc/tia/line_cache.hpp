// tia/line_cache.hpp: lines that are as they were when they were last drawn are not replayed again.
//
// What the accesses of a line do depends on the state that the line begins in and on nothing else
// (NOTES.md 15). The cache holds the last frame that was drawn to the end: its accesses, the state
// at the first access of each line, and its pixels. A replay that comes to a line in the same
// state, apart from bytes that do not matter there (tia/line_use.hpp), takes over all lines whose
// accesses are the same: the state becomes that of the line after them, and the pixels are there
// already. Frames that are not drawn use the cache too, and leave it alone.
//
// Accesses without an effect are left out: all they do is move the mark, which shows in frames
// alone that end before the window does (NOTES.md 15), and those are not cached. Latches set at the
// start of a line and not in the cache stay set, as far as no CXCLR is taken over.
#pragma once

#include "tia/line_use.hpp"

namespace cule {

constexpr u32 kCachedLines = 320;  // of a frame; further lines are always replayed

struct CachedLine {
  TiaState tia;  // right before its first access, everything before that drawn
  Beam beam;
  TiaBytes used;
  TiaBytes written;
};

struct LineCache {
  static constexpr u16 kNoEntry = 0xFFFF;
  static constexpr u32 kNoLine = kCachedLines;

  u8 is_on;
  u8 is_valid;    // it holds a frame
  u8 is_drawing;  // which the running frame replaces
  u8 buffer;      // of `entries` and `first`: the frame's; the other one is the running frame's
  u16 wanted;     // latches recorded
  u32 base_clock;
  u32 size;
  u16 first[2][kCachedLines];  // entry that begins the line, if any does
  LogEntry entries[2][kLogCapacity];
  CachedLine line[kCachedLines];
  u8 rows[kMaxRows * kScreenWidth];

  // The running frame.
  u32 limit;         // an entry from here on begins a further line
  u32 running_size;  // accesses with an effect so far
  u32 running_line;  // that `use` is about, if it is drawn
  LineUse use;

  void begin_frame(bool draws, u32 recorded_latches) {
    limit = 0;
    running_size = 0;
    running_line = kNoLine;
    is_drawing = draws;
    if (wanted != recorded_latches) is_valid = 0;
    if (!draws) return;
    wanted = u16(recorded_latches);
    memset(first[buffer ^ 1], 0xFF, sizeof first[0]);
  }

  // The frame step cannot be cached after all.
  void abandon_frame() {
    is_valid = 0;
    is_drawing = 0;
  }

  // The running frame has been drawn to the end.
  void keep_frame(u32 log_base_clock) {
    buffer ^= 1;
    base_clock = log_base_clock;
    size = running_size;
    is_valid = 1;
    is_drawing = 0;
  }
};

// Replays a part of a frame's log line by line, with the help of a cache.
template <class R>
class CachedReplay {
 public:
  CachedReplay(R& replay, LineCache& cache, u32 base_clock)
      : r_(replay),
        cache_(cache),
        entries_(cache.entries[cache.buffer ^ 1]),
        first_(cache.first[cache.buffer ^ 1]),
        cached_entries_(cache.entries[cache.buffer]),
        cached_first_(cache.first[cache.buffer]),
        base_clock_(base_clock) {}

  void run(const LogEntry* log, u32 from, u32 to) {
    if (from == to) return;
    u32 i = cache_.running_size;
    u32 size = i;
    for (u32 k = from; k < to; ++k) {
      entries_[size] = log[k];
      size += u32(kEffectiveRegisters >> log_register(log[k]) & 1);
    }
    cache_.running_size = size;
    while (i < size) {
      if (entries_[i] >= cache_.limit) i = begin_line(i);
      const LogEntry e = entries_[i];
      const u32 clock = base_clock_ + clocks_from_cycles(log_cycle(e));
      if (cache_.running_line != LineCache::kNoLine) {
        cache_.use.access(clock, log_register(e), log_value(e));
      }
      r_.write(clock, log_register(e), log_value(e), i);
      ++i;
    }
    r_.move_mark(base_clock_ + clocks_from_cycles(log_cycle(log[to - 1])));
  }

 private:
  // Entry i is the first access of a line. Returns the entry to go on with, of this line or, lines
  // having been taken over, of a later one.
  u32 begin_line(u32 i) {
    const u32 clock = base_clock_ + clocks_from_cycles(log_cycle(entries_[i]));
    u32 line = clock / kClocksPerLine;
    r_.move_mark(clock);
    r_.flush(i);
    if (cache_.running_line != LineCache::kNoLine) finish_line();
    if (line >= kCachedLines) {
      cache_.limit = ~0u;
      return i;
    }
    if (cache_.is_valid) i = take_lines(i, line);
    if (cache_.is_drawing) {
      cache_.line[line].tia = r_.s;
      cache_.line[line].beam = r_.beam;
      first_[line] = u16(i);
      cache_.running_line = line;
      cache_.use.begin(r_.s, line);
    }
    const u32 end_cycle = (line + 1) * kCyclesPerLine - base_clock_ / kClocksPerCycle;
    cache_.limit = end_cycle < 1u << 18 ? pack_log_entry(end_cycle, 0, 0) : ~0u;
    return i;
  }

  void finish_line() {
    CachedLine& line = cache_.line[cache_.running_line];
    cache_.use.finish(r_.beam.mark != line.beam.mark, line.used, line.written);
    cache_.running_line = LineCache::kNoLine;
  }

  u32 take_lines(u32 i, u32& line) {
    const u32 from = cached_first_[line];
    if (from == LineCache::kNoEntry) return i;
    const CachedLine& begin = cache_.line[line];
    if (memcmp(&begin.beam, &r_.beam, sizeof r_.beam) != 0) return i;
    const u32 more_latches = r_.s.collisions & ~u32(begin.tia.collisions);
    if (begin.tia.collisions & ~u32(r_.s.collisions)) return i;
    TiaBytes different = tia_bytes::differing(r_.s, begin.tia) & tia_bytes::kRelevant;
    TiaBytes barrier = more_latches ? tia_bytes::kCollisions : 0;
    if (different & begin.used) return i;
    const u32 end = from + common_size(i, from);
    TiaBytes written = 0;
    u32 last = line;
    for (u32 next = line + 1; next < kCachedLines; ++next) {
      const u32 first = cached_first_[next];
      if (first == LineCache::kNoEntry) continue;
      CachedLine& taken = cache_.line[last];
      if (first > end || different & taken.used || taken.written & barrier) break;
      if (cache_.is_drawing) {
        first_[last] = u16(i + cached_first_[last] - from);
        tia_bytes::copy(taken.tia, r_.s, different);
        taken.tia.collisions |= u16(more_latches);
      }
      different &= ~taken.written;
      written |= taken.written;
      last = next;
    }
    if (last == line) return i;
    TiaState tia = cache_.line[last].tia;
    tia_bytes::copy(tia, r_.s, different);
    tia.collisions |= u16(more_latches);
    r_.take_over(tia, cache_.line[last].beam);
    if (written & tia_bytes::kCollisions) r_.sink.latches_cleared();
    line = last;
    return i + cached_first_[last] - from;
  }

  // Accesses that are the same from entry i and, among the cached ones, `from` on. The one after
  // them is at the same time at least: only that matters of the access after the last line taken.
  u32 common_size(u32 i, u32 from) const {
    constexpr u32 kBlock = 8;
    const i32 later = i32(cache_.base_clock - base_clock_) / i32(kClocksPerCycle);
    const u32 shift = pack_log_entry(u32(later), 0, 0);
    const LogEntry* a = entries_ + i;
    const LogEntry* b = cached_entries_ + from;
    const u32 left = cache_.running_size - i;
    const u32 most = left < cache_.size - from ? left : cache_.size - from;
    u32 n = 0;
    for (; n + kBlock <= most; n += kBlock) {
      u32 differences = 0;
      for (u32 k = 0; k < kBlock; ++k) differences |= (a[n + k] - b[n + k]) ^ shift;
      if (differences) break;
    }
    while (n < most && a[n] - b[n] == shift) ++n;
    if (n == 0 || (n < most && log_cycle(a[n] - shift) == log_cycle(b[n]))) return n;
    return n - 1;
  }

  R& r_;
  LineCache& cache_;
  LogEntry* entries_;  // of the running frame
  u16* first_;
  const LogEntry* cached_entries_;
  const u16* cached_first_;
  const u32 base_clock_;
};

}  // namespace cule
