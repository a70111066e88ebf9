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
#include "host/incremental/cached_frame.hpp"
#include "host/incremental/log_filter.hpp"

namespace cule {

// The frame that is rendered with the cache.
struct RunningFrame {
  u8 is_drawn;     // over the frame it is compared with
  u32 line;        // the scanline that began last
  u32 size;        // entries so far
  u32 limit;       // an entry from here on begins another scanline
  u32 common_end;  // entries up to here equal the cached ones,
  u32 common_lag;  // which have an index so much greater
  u32 reused;      // entries
  LineChain chain;
  PaintedRows painted;

  void begin(bool draws, u32 window_begin) {
    is_drawn = draws;
    size = limit = common_end = reused = 0;
    chain.begin();
    painted.begin(window_begin);
  }
};

// Keeps the frames that scanlines are looked up in, and replaces them.
struct LineCache {
  u8 is_on;
  u8 own;             // index of the frame that the running one is compared with
  u8 running_buffer;  // index into entries
  u16 wanted;         // latches recorded in the cached frames
  CachedFrame frame[2];
  LogEntry entries[3][kLogCapacity + kSpareEntries];
  CacheTuning tuning;
  RunningFrame running;

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
    running.begin(draws, window.begin_clocks);
    return true;
  }

  // The frame step is over. is_drawn: the frame was drawn to the end, if it was drawn.
  void end_frame(bool is_drawn, u32 log_base_clock) {
    CachedFrame& f = frame[own];
    if (f.is_valid) tuning.note(running.reused, running.size);
    if (!running.is_drawn) return;
    running.is_drawn = 0;
    f.is_valid = is_drawn;
    running.chain.end(f.link);
    f.painted = running.painted.end();
    const u8 freed = f.buffer;
    f.buffer = running_buffer;
    running_buffer = freed;
    f.base_clock = log_base_clock;
    f.size = running.size;
  }
};

}  // namespace cule
