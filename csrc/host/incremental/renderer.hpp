// host/incremental/renderer.hpp: the host's Renderer (console/access.hpp).
//
// Does four things that PlainRenderer does not, without a visible difference: it draws an
// observation in the pass that records the latches (ObservingSink), records only the latches that
// the program reads (LatchWatch), answers most reads of them without rendering (PendingLatches),
// and renders no scanline that repeats an earlier frame's (LineCache). Their memory outlasts the
// frame step, but is no part of the console's state: it is not saved, and restoring a console
// leaves it as it is.
#pragma once

#include "console/machine.hpp"
#include "console/pending_latches.hpp"
#include "host/incremental/cached_renderer.hpp"
#include "host/incremental/latch_watch.hpp"
#include "host/incremental/observing_sink.hpp"

namespace cule {

// A picture to draw while the next frame is rendered.
struct Observation {
  u8* rows;       // u8 [height][160]
  const u8* map;  // what a palette index becomes: u8 [256]
  bool is_drawn;  // out: drawn to the end; otherwise draw_picture() has to do it
};

struct IncrementalMemory {
  Observation* observation;  // null: none
  LatchWatch watch;
  LineCache* lines;  // null: none
};

class IncrementalRenderer {
 public:
  // engine.incremental: IncrementalMemory of the console; null: works like PlainRenderer.
  template <class Engine>
  IncrementalRenderer(const Console& c, const Engine& engine)
      : memory_(engine.incremental),
        observation_(memory_ == nullptr ? nullptr : memory_->observation),
        painter_(canvas(c)) {
    shapes_.reset();
    if (memory_ != nullptr) collisions_.wanted = memory_->watch.wanted();
    note_recorded(c);
    begin_lines(picture_window(c));
  }

  template <class Machine>
  void render(Machine& m, bool /*is_end*/) {
    if (observation_ != nullptr) {
      ObservingSink sink{collisions_, painter_};
      render_into(m, sink);
    } else {
      render_into(m, collisions_);
    }
  }

  template <class Machine>
  CULE_INLINE u32 read_latches(Machine& m, u32 reg) {
    const u32 latches = latches_of_register(reg);
    if (memory_ != nullptr) memory_->watch.note_read(latches);
    if (CULE_UNLIKELY(latches & ~collisions_.wanted)) {
      m.render();
      m.s.tia.collisions = all_latches(m.console, *m.log);
      record(m.console, collisions_.wanted | latches);
    } else if (pending_.know(m.s.tia, m.log->entries, m.rendered, u32(m.next - m.log->entries),
                             latches)) {
      return pending_.set();
    } else {
      m.render();
    }
    return m.s.tia.collisions;
  }

  template <class Machine>
  void before_spill(Machine& m) {
    record_all_latches(m);
    stop_caching();
    pending_.forget();
  }

  template <class Machine>
  void end_step(Machine& m, bool is_drawn) {
    if (observation_ != nullptr) observation_->is_drawn = is_drawn;
    if (lines_ != nullptr) lines_->end_frame(entries_, is_drawn, m.log->base_clock);
    if (memory_ == nullptr) return;
    const bool was_partial = m.s.tia.missing_latches != 0;
    // A log that holds the whole picture is kept as long as its picture.
    const bool is_whole = is_drawn && collisions_.has_seen_clear;
    if (!is_whole) record_all_latches(m);
    memory_->watch.end_step(was_partial, is_whole);
    if (begin_ != 0) memory_->lines->trial.note(u32(ticks() - begin_));
  }

 private:
  Canvas canvas(const Console& c) const {
    if (observation_ == nullptr) return Canvas{};
    return {observation_->rows, c.s.first_line, c.properties.height, observation_->map};
  }

  // Scanlines are cached with their pixels: of no use where an observation is drawn elsewhere.
  void begin_lines(const VisibleWindow& window) {
    if (memory_ == nullptr || memory_->lines == nullptr) return;
    LineCache& lines = *memory_->lines;
    if (lines.keeps_all) begin_ = ticks();
    if (observation_ != nullptr && observation_->rows != lines.next_frame().rows) {
      lines.forget();
    } else if (lines.begin_frame(observation_ != nullptr, collisions_.wanted, window)) {
      lines_ = &lines;
    }
  }

  template <class Machine, class Sink>
  CULE_NOINLINE void render_into(Machine& m, Sink& sink) {
    const Console& c = m.console;
    if (lines_ == nullptr) {
      render_entries<true>(c, *m.log, m.rendered, m.s.tia, m.s.beam, shapes_, sink);
      return;
    }
    LogRenderer<Sink, TiaState, Beam> r{
        m.s.beam, m.s.tia, shapes_, sink, picture_window(c), c.properties.hmove_blanks != 0};
    CachedLogRenderer(r, *lines_, entries_, m.log->base_clock)
        .run(m.log->entries, m.rendered, m.log->size);
    r.flush();
    m.s.tia = r.s;
    m.s.beam = r.beam;
  }

  // Computes the missing latches, and records all of them from now on.
  template <class Machine>
  void record_all_latches(Machine& m) {
    if (m.s.tia.missing_latches == 0) return;
    m.s.tia.collisions = all_latches(m.console, *m.log);
    record(m.console, kAllLatches);
  }

  void record(const Console& c, u32 latches) {
    collisions_.wanted = latches;
    note_recorded(c);
    collisions_.full_line_version = 0;
    stop_caching();
  }

  void note_recorded(const Console& c) const {
    c.s.tia.missing_latches = u16(kAllLatches & ~collisions_.wanted);
  }

  void stop_caching() {
    if (lines_ != nullptr) lines_->forget();
    lines_ = nullptr;
  }

  IncrementalMemory* const memory_;
  Observation* const observation_;
  LineCache* lines_ = nullptr;  // null: not in use in this step
  u64 begin_ = 0;               // in ticks; 0: the frame step is not timed
  Shapes shapes_;
  CollisionSink collisions_;
  PendingLatches pending_;
  PaintSink<false> painter_;                        // of the observation
  LogEntry entries_[kLogCapacity + kSpareEntries];  // of the frame, with the line cache
};

// The machine of a host thread.
struct HostAccess {
  using Ram = FlatRam;
  using Renderer = IncrementalRenderer;
  static constexpr bool kForeseesCharges = true;
};

}  // namespace cule
