// warp/lane_access.hpp: the machine of a lane: its write log is rendered by all lanes of the warp.
//
// Some lanes of a warp run consoles, the callers; the others help. Rendering needs all of them:
// helpers wait in serve() until the step is over, and the callers come to it together, at the end
// of a frame or where one of them asks. The warp renders one log after the other. Where not all
// callers come, and with few entries to render, a lane renders by itself. The device defines
// serve() (cuda/step_kernel.hpp). A frame that cannot stay a log gets memory for pixels first:
// take_pixels() of the device.
#pragma once

#include "console/machine.hpp"

namespace cule {

// How a lane gets its log rendered.
struct RenderTeam {
  u32 least_entries;  // to ask for; ~0: it has no helpers
  bool is_lone;       // no other lane must come when it asks, or it has no helpers
  u32 memory;         // where kLineScanBytes of the warp's shared memory are (cuda/line_memory.hpp)
};

// With fewer entries a lane is faster than a warp; several callers can render at the same time.
constexpr u32 kEntriesForTeam = 12, kEntriesForTeamOfSeveral = 40;

// What a caller asks for: to render from an entry of the log on, nothing, or to end the service.
constexpr u32 kGo = ~0u;
constexpr u32 kNothing = ~0u - 1;

enum class Served { kRendered, kNotRendered, kGone };

struct LaneRenderer : PlainRenderer {
  const RenderTeam team;
  bool may_ask;  // all callers come to serve() now

  template <class Engine>
  CULE_HD LaneRenderer(const Console& c, const Engine& engine)
      : PlainRenderer(c, engine), team(engine.render_team()), may_ask(team.is_lone) {}

  template <class Machine>
  CULE_HD CULE_NOINLINE void render(Machine& m) {
    const bool asks = m.log->size - m.rendered >= team.least_entries;
    const bool comes = may_ask && (asks || !team.is_lone);
    const u32 request = asks ? m.rendered : kNothing;
    if (comes && serve(m.renderer.team, m.console, request) == Served::kRendered) {
      shapes.reset();
      collisions.state_changed();
    } else {
      PlainRenderer::render(m);
    }
  }
  CULE_HD CULE_INLINE void let_ask(bool all_come) { may_ask = all_come || team.is_lone; }
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
