// tia/lines.hpp: draws the scanlines of a frame independently of each other.
//
// A pass over the log, without drawing, finds the state at the start of every scanline shown
// (`find_line_starts`); after that they can be drawn in any order or in parallel (`draw_line`). The
// pass can be split: one over the whole log that notes the first scanline of every band, and then
// one for each band, in parallel. A scanline needs its TiaState, the beam with its mark, and the
// log entry to continue from: the access that moved the mark into the scanline is applied again,
// which changes nothing before its own effect (NOTES.md 4.1, 15). Accesses after the one that moves
// the mark to the end of the scanlines wanted change none of their pixels, so a pass stops there.
#pragma once

#include "tia/log_renderer.hpp"
#include "tia/paint.hpp"

namespace cule {

struct LineStart {
  TiaState tia;  // before the end-of-line actions of the line above
  Beam beam;     // drawn: where the line begins, or where the log does within it
  u32 index;     // log entry to continue from
  u8 is_drawn;   // the beam reached this scanline
};

// `lines` scanlines from first_line on, in bands of `band` scanlines.
struct LineRange {
  u32 first_line;
  u32 lines;
  u32 band;
};

// Sink of the pass that finds the starts. It has kPaints, because a scanline begins before the
// colour change that makes it be drawn.
struct LineStartSink {
  static constexpr bool kPaints = true;
  static constexpr bool kExact = false;

  LineStart* starts;  // of bands
  const LineRange range;

  CULE_HD void line_start(const TiaState& s, const Beam& beam, u32 line, u32 index) {
    if (line - range.first_line >= range.lines) return;
    LineStart& start = starts[(line - range.first_line) / range.band];
    if (!start.is_drawn) start = LineStart{s, beam, index, 1};
  }
  CULE_HD void colors_changed() {}
  CULE_HD void control_changed() {}
  CULE_HD void latches_cleared() {}
  CULE_HD void blank_left(u32, u32, u32) {}
  CULE_HD void segment(TiaState&, Shapes&, u32, u32, u32) {}
};

// Finds the first scanline that the beam reaches in each band. `from`: where to begin, at or before
// the range.
CULE_HD inline void find_line_starts(const LineStart& from, const LogEntry* log, u32 size,
                                     u32 base_clock, const VisibleWindow& window, bool hmove_blanks,
                                     const LineRange& range, LineStart* starts_out) {
  const u32 bands = (range.lines + range.band - 1) / range.band;
  for (u32 i = 0; i < bands; ++i) starts_out[i].is_drawn = 0;
  if (!from.is_drawn) return;
  const u32 range_end = (range.first_line + range.lines) * kClocksPerLine;
  const u32 end = range_end < window.end_clocks ? range_end : window.end_clocks;
  LineStartSink sink{starts_out, range};
  Shapes shapes;
  shapes.reset();
  LogRenderer<LineStartSink, TiaState, Beam> renderer{
      from.tia, from.beam, shapes, sink, {window.begin_clocks, end}, hmove_blanks};
  Beam& beam = renderer.beam;
  if (beam.mark > end) beam.mark = end;
  if (beam.drawn != beam.line_begin) {  // the log begins within a line
    sink.line_start(renderer.s, beam, beam.line_begin / kClocksPerLine, from.index);
  }
  u32 i = from.index;
  for (; i < size && beam.mark < end; ++i) renderer.run(log, i, i + 1, base_clock);
  renderer.flush(i);
}

// Draws one scanline, as far as the beam got in it.
CULE_HD inline void draw_line(const LineStart& start, const LogEntry* log, u32 size, u32 base_clock,
                              const VisibleWindow& window, bool hmove_blanks,
                              const Canvas& canvas) {
  if (!start.is_drawn) return;
  const u32 line_end = start.beam.line_begin + kClocksPerLine;
  Shapes shapes;
  shapes.reset();
  PaintSink<false> sink(canvas);
  TiaState s = start.tia;
  Beam beam = start.beam;
  LogRenderer<PaintSink<false>> renderer{
      s, beam, shapes, sink, {window.begin_clocks, line_end}, hmove_blanks};
  if (beam.mark > line_end) beam.mark = line_end;
  u32 i = start.index;
  for (; i < size && beam.mark < line_end; ++i) renderer.run(log, i, i + 1, base_clock);
  renderer.flush(i);
}

}  // namespace cule
