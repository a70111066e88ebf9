// console/latches.hpp: recording only the collision latches a program reads.
//
// Most programs read a few of the 15 latches and clear all of them once a frame. A host console
// records those that have been read lately (LatchWatch) and marks the others as missing
// (TiaState::are_latches_partial). What is missing can be made up at any time, because the log that
// holds the last CXCLR is kept until then:
//
//   while a frame runs, the last CXCLR is in its log or in the one before, and both are there;
//   a frame that ends without a CXCLR, without a log, or before its picture does is completed.
//
// So every read and every saved state shows what recording everything would have given.
#pragma once

#include "console/picture.hpp"

namespace cule {

constexpr u32 kWatchFrames = 64;     // a latch not read for so long is recorded no more
constexpr u32 kMostFullFrames = 31;  // longest stretch of recording everything

CULE_HD CULE_INLINE constexpr u32 latches_of_register(u32 reg) {
  return 3u << (2 * reg) & kAllLatches;
}

CULE_HD inline void render_latches(const Console& c, const TiaWriteLog& log, u32 size,
                                   TiaState& tia) {
  Beam beam = log.start_beam;
  Shapes shapes;
  shapes.reset();
  CollisionSink sink;
  LogRenderer<CollisionSink> renderer{
      tia, beam, shapes, sink, picture_window(c), c.properties.hmove_blanks != 0};
  renderer.run(log.entries, 0, size, log.base_clock);
  renderer.flush(size);
}

// All latches after the first `size` entries of the running frame's log.
CULE_HD CULE_DEVICE_NOINLINE inline u16 all_latches(const Console& c, const TiaWriteLog& log,
                                                    u32 size) {
  TiaState tia = log.start;
  if (tia.are_latches_partial) {
    const PictureState& p = c.s.picture;
    const TiaWriteLog& before = c.memory.logs[p.log_slot[p.current ^ 1u]];
    TiaState last = before.start;
    render_latches(c, before, before.size, last);
    tia.collisions = last.collisions;
  }
  render_latches(c, log, size, tia);
  return tia.collisions;
}

// Makes up what is missing of a console at rest.
CULE_HD inline void complete_latches(const Console& c) {
  ConsoleState& s = c.s;
  if (!s.tia.are_latches_partial) return;
  const TiaWriteLog& log = c.memory.logs[s.picture.log_slot[s.picture.current]];
  TiaState tia = log.start;  // its latches do not matter: a CXCLR follows
  render_latches(c, log, log.size, tia);
  s.tia.collisions = tia.collisions;
  s.tia.are_latches_partial = 0;
}

// The latches a frame step begins to record.
CULE_HD inline u32 choose_latches(const LatchWatch* watch) {
  return watch == nullptr || watch->full_frames != 0 ? kAllLatches : watch->watched;
}

// A frame step is over. was_missing: it had to be completed.
CULE_HD inline void age_watch(LatchWatch& w, bool was_lazy, bool was_missing) {
  if (was_missing) {
    w.full_frames = w.penalty =
        u8(w.penalty < kMostFullFrames / 2 ? 2 * w.penalty + 1 : kMostFullFrames);
  } else if (was_lazy) {
    w.penalty = 0;
  } else if (w.full_frames != 0) {
    --w.full_frames;
  }
  if (++w.frames < kWatchFrames) return;
  w.frames = 0;
  w.watched = w.recent;
  w.recent = 0;
}

}  // namespace cule
