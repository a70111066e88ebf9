// host/incremental/observing_sink.hpp: records collisions and draws in one pass over the log.
#pragma once

#include "tia/collisions.hpp"
#include "tia/paint.hpp"

namespace cule {

struct ObservingSink {
  static constexpr bool kPaints = true;
  static constexpr bool kExact = false;

  CollisionSink& collisions;
  PaintSink<false>& painter;

  void colors_changed() { painter.colors_changed(); }
  void control_changed() { painter.control_changed(); }
  void latches_cleared() { collisions.latches_cleared(); }
  void state_changed() {
    collisions.state_changed();
    painter.state_changed();
  }
  bool could_set_any(const TiaState& s, Shapes& shapes) const {
    return collisions.could_set_any(s, shapes);
  }
  void blank_left(u32 line, u32 x0, u32 x1) { painter.blank_left(line, x0, x1); }
  CULE_INLINE void segment(TiaState& s, Shapes& shapes, u32 line, u32 x0, u32 x1) {
    if (!s.vblank) {
      shapes.refresh(s);
      if (shapes.possible_latches & collisions.open(s)) collisions.record(s, shapes, x0, x1);
    }
    painter.segment(s, shapes, line, x0, x1);
  }
};

}  // namespace cule
