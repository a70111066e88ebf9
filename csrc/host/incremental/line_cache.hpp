// host/incremental/line_cache.hpp: skips scanlines that repeat those of an earlier frame.
//
// What the accesses of a scanline do depends on the state that the scanline begins in and on
// nothing else (tia/NOTES.md 15). The cache holds the last one or two frames that were kept: their
// accesses, the state at the first access of each scanline, and their pixels. When rendering
// reaches a scanline in the cached state, apart from bytes that do not matter there
// (line_dependencies.hpp), it skips all following scanlines whose accesses are the same: the state
// becomes that of the scanline after them, and the pixels are in place, because a frame is drawn
// over the one it is compared with. Where observations are drawn, frames are kept that are drawn to
// the end, and the others use the cache without changing it. Where none is, all frames are kept,
// without pixels, as long as that pays (cache_trial.hpp). Which frame it is compared with:
// cache_tuning.hpp.
//
// Accesses without an effect are left out: they only move the beam mark, which shows only in frames
// that end before the window does (tia/NOTES.md 15), and those are not cached. Latches that are set
// at the start of a scanline, and not in the cache, stay set unless a CXCLR is skipped.
#pragma once

#include <cstring>

#include "host/incremental/cache_trial.hpp"
#include "host/incremental/cache_tuning.hpp"
#include "host/incremental/cached_frame.hpp"
#include "tia/log_passes.hpp"

namespace cule {

// The frame that is rendered with the cache.
struct RunningFrame {
  u8 is_kept;      // in place of the frame it is compared with
  u32 line;        // the scanline that began last
  u32 size;        // entries so far
  u32 limit;       // an entry from here on begins another scanline
  u32 common_end;  // entries up to here equal the cached ones,
  u32 common_lag;  // which have an index so much greater
  u32 reused;      // entries
  u32 failed;      // comparisons since a scanline was reused
  LineChain chain;
  PaintedRows painted;

  void begin(bool keeps, u32 window_begin) {
    is_kept = keeps;
    size = limit = common_end = reused = failed = 0;
    chain.begin();
    painted.begin(window_begin);
  }
};

// Keeps the frames that scanlines are looked up in, and replaces them.
struct LineCache {
  u8 keeps_all;  // none is drawn
  u8 own;        // index of the frame that the running one is compared with
  u16 wanted;    // latches recorded in the cached frames
  CachedFrame frame[2];
  CacheTuning tuning;
  CacheTrial trial;  // where none is drawn
  RunningFrame running;

  // rows: pixels of the two frames, row_bytes each; null where none is drawn.
  void start(bool draws, u8* rows, u32 row_bytes) {
    keeps_all = !draws;
    for (u32 n = 0; n < 2; ++n) frame[n].rows = rows + size_t(n) * row_bytes;
  }

  // What the next frame replaces, if it is kept.
  CachedFrame& next_frame() { return frame[own ^ tuning.alternates]; }

  void forget() { frame[0].is_valid = frame[1].is_valid = 0; }

  // False: the cache is not used in this frame step. draws: into next_frame().
  bool begin_frame(bool draws, u32 recorded_latches, const VisibleWindow& window) {
    if (keeps_all && !trial.uses_cache()) {
      forget();
      return false;
    }
    const bool keeps = draws || keeps_all;
    own ^= tuning.alternates;
    CachedFrame& f = frame[own];
    if (draws) f.painted = RowSet::all();
    if (wanted != recorded_latches) forget();
    wanted = u16(recorded_latches);
    if (tuning.rest != 0) {
      --tuning.rest;
      if (keeps) forget();
      return false;
    }
    if (!keeps && !f.is_valid) return false;
    running.begin(keeps, window.begin_clocks);
    return true;
  }

  // The frame step is over. entries: those of the running frame. is_whole: its log holds the whole
  // picture.
  void end_frame(const LogEntry* entries, bool is_whole, u32 log_base_clock) {
    CachedFrame& f = frame[own];
    if (f.is_valid) tuning.note(running.reused, running.size);
    if (!running.is_kept) return;
    running.is_kept = 0;
    f.is_valid = is_whole;
    running.chain.end(f.link);
    f.painted = running.painted.end();
    std::memcpy(f.entries, entries, running.size * sizeof(LogEntry));
    f.base_clock = log_base_clock;
    f.size = running.size;
  }
};

}  // namespace cule
