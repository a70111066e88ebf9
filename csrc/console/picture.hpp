// console/picture.hpp: the two framebuffers, drawn from logs on demand.
//
// A cell that a frame does not draw keeps what the framebuffer held, the picture of two frames
// earlier (tia/NOTES.md 3.1). A frame that was drawn to the end of the window replaces every cell,
// so its log is its picture: pixels are made when the picture is read, or when a later frame in the
// same framebuffer ends early.
#pragma once

#include <cstring>

#include "console/state.hpp"
#include "tia/log_renderer.hpp"
#include "tia/paint.hpp"

namespace cule {

struct IdentityMap {
  u8 value[256];
};

CULE_HD constexpr IdentityMap make_identity_map() {
  IdentityMap m{};
  for (u32 i = 0; i < 256; ++i) m.value[i] = u8(i);
  return m;
}

CULE_HD CULE_INLINE VisibleWindow picture_window(const Console& c) {
  return make_window(c.properties.first_line, c.properties.height);
}

// Begins the console's recording log. Log cycles count from step_cycle.
CULE_HD inline TiaWriteLog& begin_log(const Console& c, u32 step_cycle) {
  const ConsoleState& s = c.s;
  TiaWriteLog& log = c.memory.log(s.picture.recording_slot);
  log.start = s.tia;
  log.start_beam = s.beam;
  log.base_clock = clocks_from_cycles(step_cycle + s.phase_cycles);
  log.first_line = s.first_line;
  log.size = 0;
  return log;
}

// Whether the recording log holds the whole picture of a frame that is over.
CULE_HD CULE_INLINE bool holds_picture(const Console& c) {
  return !c.s.is_unfinished && !c.s.picture.is_painted &&
         c.s.beam.mark == picture_window(c).end_clocks;
}

// Renders the entries from `from` on into a sink; brings `tia` and `beam` forward.
template <bool by_register = false, class Sink>
CULE_HD CULE_INLINE void render_entries(const Console& c, const TiaWriteLog& log, u32 from,
                                        TiaState& tia, Beam& beam, Shapes& shapes, Sink& sink) {
  LogRenderer<Sink, TiaState, Beam> r{
      beam, tia, shapes, sink, picture_window(c), c.properties.hmove_blanks != 0};
  if constexpr (by_register) {
    r.run_by_register(log.entries, from, log.size, log.base_clock);
  } else {
    r.run(log.entries, from, log.size, log.base_clock);
  }
  r.flush();
  tia = r.s;
  beam = r.beam;
}

// Renders a whole log; returns the state after it. `tia`: log.start, or that with other latches.
template <class Sink>
CULE_HD TiaState render_log(const Console& c, const TiaWriteLog& log, TiaState tia, Sink& sink) {
  Beam beam = log.start_beam;
  Shapes shapes;
  shapes.reset();
  render_entries(c, log, 0, tia, beam, shapes, sink);
  return tia;
}

template <bool exact>
CULE_HD void paint_log(const Console& c, const TiaWriteLog& log, u8* rows, const u8* map) {
  PaintSink<exact> sink(Canvas{rows, log.first_line, c.properties.height, map});
  render_log(c, log, log.start, sink);
}

// Draws a log over the pixels of a framebuffer, with the cells ahead of the beam (tia/NOTES.md 12).
CULE_HD CULE_DEVICE_NOINLINE inline void paint_buffer(const Console& c, const TiaWriteLog& log,
                                                      u8* pixels) {
  const IdentityMap identity = make_identity_map();
  paint_log<true>(c, log, pixels, identity.value);
}

// The pixels of framebuffer `n`, where it is kept as pixels.
CULE_HD CULE_INLINE const u8* pixels_of(const Console& c, u32 n) {
  return c.s.picture.kind[n] == PictureKind::kBorrowed
             ? c.memory.shared->borrowed + size_t(n) * c.properties.height * kScreenWidth
             : c.memory.picture(n);
}

// Turns the picture of framebuffer `n` into pixels of the console's own.
CULE_HD CULE_DEVICE_NOINLINE inline void make_pixels(const Console& c, u32 n) {
  PictureState& p = c.s.picture;
  u8* pixels = c.memory.picture(n);
  if (p.kind[n] == PictureKind::kBlank) {
    memset(pixels, 0, c.properties.height * kScreenWidth);
  } else if (p.kind[n] == PictureKind::kBorrowed) {
    memcpy(pixels, pixels_of(c, n), c.properties.height * kScreenWidth);
  } else if (p.kind[n] == PictureKind::kLog) {
    paint_buffer(c, c.memory.log(p.log_slot[n]), pixels);
  }
  p.kind[n] = PictureKind::kPixels;
}

// Declares both pictures pixels (kPixels or kBorrowed); the logs are free.
CULE_HD inline void forget_logs(PictureState& p, PictureKind kind) {
  p.kind[0] = p.kind[1] = kind;
  p.log_slot[0] = p.log_slot[1] = p.recording_slot = 0;
}

// Draws a part of a frame over what its framebuffer holds.
CULE_HD CULE_DEVICE_NOINLINE inline void paint_part(const Console& c, const TiaWriteLog& log) {
  const u32 n = c.s.picture.current;
  make_pixels(c, n);
  paint_buffer(c, log, c.memory.picture(n));
}

// Dims the rest of an unfinished picture, from the row of the beam on.
CULE_HD CULE_DEVICE_NOINLINE inline void dim_picture(const Console& c) {
  const u32 line = current_line(c.s);
  const u32 first = c.properties.first_line;
  u8* pixels = c.memory.picture(c.s.picture.current);
  for (u32 i = ((line > first ? line : first) - first) * kScreenWidth;
       i < c.properties.height * kScreenWidth; ++i) {
    pixels[i] = (pixels[i] & 0x0F) >> 1;
  }
}

// Writes the picture of framebuffer `n` to `rows` (u8 [height][160]), each palette index mapped
// through `map` (u8 [256]).
CULE_HD inline void draw_picture(const Console& c, u32 n, u8* rows, const u8* map) {
  const PictureState& p = c.s.picture;
  const u32 size = c.properties.height * kScreenWidth;
  if (p.kind[n] == PictureKind::kLog) {
    paint_log<false>(c, c.memory.log(p.log_slot[n]), rows, map);
  } else if (p.kind[n] == PictureKind::kBlank) {
    memset(rows, map[0], size);
  } else {
    const u8* pixels = pixels_of(c, n);
    for (u32 i = 0; i < size; ++i) rows[i] = map[pixels[i]];
  }
}

}  // namespace cule
