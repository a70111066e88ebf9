// console/picture.hpp: the two frame buffers, drawn from logs when somebody looks.
//
// A cell that a frame does not draw shows what the same buffer held, the picture of two frames
// earlier (tia/NOTES.md 3.1). So a frame that was drawn to the end of the window is kept as its log
// only, and its pixels are made when it is looked at or when a later frame in the same buffer stops
// short.
#pragma once

#include <cstring>

#include "console/state.hpp"
#include "tia/observe.hpp"

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

CULE_HD inline void begin_log(TiaWriteLog& log, const ConsoleState& s, u32 step_cycle) {
  log.start = s.tia;
  log.start_beam = s.beam;
  log.base_clock = clocks_from_cycles(step_cycle + s.phase_cycles);
  log.first_line = s.first_line;
  log.size = 0;
}

template <bool exact>
CULE_HD void paint_log(const Console& c, const TiaWriteLog& log, u8* rows, const u8* map) {
  TiaState tia = log.start;
  Beam beam = log.start_beam;
  Shapes shapes;
  shapes.reset();
  PaintSink<exact> sink(Canvas{rows, log.first_line, c.properties.height, map});
  LogRenderer<PaintSink<exact>> renderer{
      tia, beam, shapes, sink, picture_window(c), c.properties.hmove_blanks != 0};
  renderer.run(log.entries, 0, log.size, log.base_clock);
  renderer.flush(log.size);
}

// Draws a log over the pixels of a buffer. Of a frame drawn to the end of the window, what the beam
// touches ahead of its mark is drawn over again later.
CULE_HD CULE_DEVICE_NOINLINE inline void paint_buffer(const Console& c, const TiaWriteLog& log,
                                                      u8* pixels) {
  const IdentityMap identity = make_identity_map();
  paint_log<true>(c, log, pixels, identity.value);
}

// The pixels of buffer `n`, where it is kept as such.
CULE_HD CULE_INLINE const u8* pixels_of(const Console& c, u32 n) {
  return c.s.picture.kind[n] == PictureKind::kBorrowed
             ? c.memory.shared->borrowed + size_t(n) * c.properties.height * kScreenWidth
             : c.memory.picture(n);
}

// Makes the pixels of buffer `n` real.
CULE_HD CULE_DEVICE_NOINLINE inline void make_pixels(const Console& c, u32 n) {
  PictureState& p = c.s.picture;
  u8* pixels = c.memory.picture(n);
  if (p.kind[n] == PictureKind::kBlank) {
    memset(pixels, 0, c.properties.height * kScreenWidth);
  } else if (p.kind[n] == PictureKind::kBorrowed) {
    memcpy(pixels, pixels_of(c, n), c.properties.height * kScreenWidth);
  } else if (p.kind[n] == PictureKind::kLog) {
    paint_buffer(c, c.memory.logs[p.log_slot[n]], pixels);
  }
  p.kind[n] = PictureKind::kPixels;
}

// Both pictures are pixels from now on, wherever these are; no log means anything.
CULE_HD inline void forget_logs(PictureState& p, PictureKind kind) {
  p.kind[0] = p.kind[1] = kind;
  p.log_slot[0] = p.log_slot[1] = p.recording_slot = 0;
}

// Draws a part of a frame over what its buffer holds.
CULE_HD CULE_DEVICE_NOINLINE inline void paint_part(const Console& c, const TiaWriteLog& log) {
  const u32 n = c.s.picture.current;
  make_pixels(c, n);
  paint_buffer(c, log, c.memory.picture(n));
}

// The rest of an unfinished picture is shown dimmed, from the row of the beam on.
CULE_HD CULE_DEVICE_NOINLINE inline void dim_picture(const Console& c) {
  const u32 line = current_line(c.s);
  const u32 first = c.properties.first_line;
  u8* pixels = c.memory.picture(c.s.picture.current);
  for (u32 i = ((line > first ? line : first) - first) * kScreenWidth;
       i < c.properties.height * kScreenWidth; ++i) {
    pixels[i] = (pixels[i] & 0x0F) >> 1;
  }
}

// Writes the picture of buffer `n`, mapped through `map` (gray values, say), to `rows` (height x
// 160).
CULE_HD inline void draw_picture(const Console& c, u32 n, u8* rows, const u8* map) {
  const PictureState& p = c.s.picture;
  const u32 size = c.properties.height * kScreenWidth;
  if (p.kind[n] == PictureKind::kLog) {
    paint_log<false>(c, c.memory.logs[p.log_slot[n]], rows, map);
  } else if (p.kind[n] == PictureKind::kBlank) {
    memset(rows, map[0], size);
  } else {
    const u8* pixels = pixels_of(c, n);
    for (u32 i = 0; i < size; ++i) rows[i] = map[pixels[i]];
  }
}

}  // namespace cule
