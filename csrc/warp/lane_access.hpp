// warp/lane_access.hpp: the machine of a lane: its write log is rendered by a team of lanes.
//
// One lane of a team runs a console. The others wait until it asks for its log to be rendered, or
// has done with its step: serve(), which all lanes of the team call together and the device defines
// (cuda/step_kernel.hpp). A lane without helpers, or with few entries to render, renders by itself.
// A frame that cannot stay a log gets memory for pixels first: take_pixels() of the device.
#pragma once

#include "console/machine.hpp"

namespace cule {

// The lanes that work for one console: one, or all of a warp.
struct RenderTeam {
  u32 first;  // lane of the warp, which has the console
  u32 size;
  u32 memory;  // where kLineScanBytes of the warp's shared memory are (cuda/line_memory.hpp)
};

// What the lane with the console asks for: to render from an entry of the log on, or to go.
constexpr u32 kGo = ~0u;

enum class Served { kRendered, kCannotRender, kGone };

// With fewer entries a lane is faster than a team.
constexpr u32 kEntriesForTeam = 12;

struct LaneRenderer : PlainRenderer {
  const RenderTeam team;

  template <class Engine>
  CULE_HD LaneRenderer(const Console& c, const Engine& engine)
      : PlainRenderer(c, engine), team(engine.team) {}

  template <class Machine>
  CULE_HD CULE_NOINLINE void render(Machine& m) {
    const bool is_for_team = team.size > 1 && m.log->size - m.rendered >= kEntriesForTeam;
    if (is_for_team && serve(m.renderer.team, m.console, m.rendered) == Served::kRendered) {
      shapes.reset();
      collisions.state_changed();
    } else {
      PlainRenderer::render(m);
    }
  }
  template <class Machine>
  CULE_HD CULE_INLINE void before_spill(Machine& m) {
    take_pixels(m.console);
  }
  template <class Machine>
  CULE_HD CULE_INLINE void end_step(Machine& m, bool is_drawn) {
    if (!is_drawn) take_pixels(m.console);
  }
};

// A lane of a warp: pictures are drawn later, by other threads.
struct LaneAccess {
  using Ram = InterleavedRam;
  using Renderer = LaneRenderer;
  static constexpr bool kForeseesCharges = true;
};

}  // namespace cule
