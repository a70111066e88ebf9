// host/incremental/cached_frame.hpp: a whole frame, by scanlines.
//
// A scanline is a key and a result. Key: its accesses, and the state it begins in as far as they
// use it. Result: the state that the next scanline begins in, as far as they write it, and a row of
// pixels. So one table of states holds both, and one of links says how far they matter.
#pragma once

#include "host/incremental/line_dependencies.hpp"
#include "host/row_set.hpp"
#include "tia/log.hpp"

namespace cule {

constexpr u32 kCachedLines = 320;  // of a frame; further scanlines are always rendered

constexpr u16 kNoEntry = 0xFFFF;
constexpr u16 kNoLine = 0xFFFF;

// Right before the first access of a scanline, everything before that drawn.
struct LineState {
  TiaState tia;
  Beam beam;
};

// What decides how many scanlines are reused.
struct LineLink {
  u16 first;         // entry that begins the scanline, or kNoEntry
  u16 next;          // the next scanline that an entry begins, or kNoLine
  TiaBytes used;     // LineDependencies, or kUseUnknown; with kHasClear if it accesses CXCLR
  TiaBytes written;  // LineDependencies
};

// Beyond the bytes of TiaState:
constexpr TiaBytes kUseUnknown = 1ULL << 63;
constexpr TiaBytes kHasClear = 1ULL << 62;
static_assert(sizeof(TiaState) <= 62);

struct CachedFrame {
  u8 is_valid;
  u32 base_clock;
  u32 size;
  LineLink link[kCachedLines];
  LineState begin[kCachedLines];
  u8* rows;        // u8 [height][160], as Observation has them
  RowSet painted;  // rows that were painted, not reused, when it was drawn
  LogEntry entries[kLogCapacity];

  // Fills in the dependencies of scanline `line`, whose accesses are entries[first, next_first).
  CULE_NOINLINE void find_use(u32 line, u32 first, u32 next, u32 next_first) {
    LineDependencies use(begin[line].tia, line);
    for (u32 i = first; i < next_first; ++i) {
      const LogEntry e = entries[i];
      use.access(base_clock + clocks_from_cycles(log_cycle(e)), log_register(e), log_value(e));
    }
    use.finish(begin[next].beam.mark != begin[line].beam.mark);
    link[line].used = (link[line].used & kHasClear) | use.used();
    link[line].written = use.written();
  }
};

// Links the scanlines of a frame while it runs. It may replace an earlier frame: links of
// scanlines that have not been reached are that frame's.
class LineChain {
 public:
  void begin() { after_ = 0; }

  // Entry `first` begins the scanline; none begins those since the last call.
  void add(LineLink* link, u32 line, u32 first) {
    for (u32 n = after_; n < line; ++n) link[n].first = kNoEntry;
    if (after_ != 0) link[after_ - 1].next = u16(line);
    link[line].first = u16(first);
    after_ = line + 1;
  }
  // The links up to `line` are as they were.
  void keep_until(u32 line) { after_ = line + 1; }

  void end(LineLink* link) const {
    for (u32 n = after_; n < kCachedLines; ++n) link[n].first = kNoEntry;
    if (after_ != 0) link[after_ - 1].next = kNoLine;
  }

 private:
  u32 after_;  // the scanline after the last one that an entry begins; 0: none yet
};

// Rows that are painted while a frame is drawn over another: all but those that are kept.
class PaintedRows {
 public:
  void begin(u32 window_begin) {
    rows_ = RowSet{};
    until_ = window_begin_ = window_begin;
  }
  // The pixels between two frame clocks are kept; all before that has been painted or kept.
  void keep(u32 begin, u32 end) {
    paint_until(begin);
    if (end > until_) until_ = end;
  }
  RowSet end() {
    paint_until(~0u);
    return rows_;
  }

 private:
  void paint_until(u32 clock) {
    if (clock <= until_) return;
    const u32 visible = clock - window_begin_;
    const u32 to = visible > kHblankClocks ? (visible - kHblankClocks - 1) / kClocksPerLine + 1 : 0;
    const u32 from = (until_ - window_begin_) / kClocksPerLine;
    if (from < to) rows_.add(from, to);
  }

  RowSet rows_;
  u32 until_;  // frame clock
  u32 window_begin_;
};

}  // namespace cule
