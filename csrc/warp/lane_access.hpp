// warp/lane_access.hpp: the machine of a lane, and how its write log is rendered.
//
// LaneAccess: by the lane itself, in the interpreter, whose loop lacks the registers that all lanes
// of a warp need to render together.
//
// TeamAccess: by all lanes of the warp. Some of them run consoles, the callers; the others help.
// Rendering needs all of them: helpers wait in serve() until the step is over, and the callers come
// to it together, at the end of a frame or where one of them asks. The warp renders one log after
// the other. Where not all callers come, and with few entries to render, a lane renders by itself.
// With many callers there are no helpers: when one asks, every caller renders its own log, since
// all of them together take little longer than one. The device defines serve()
// (cuda/step_kernel.hpp).
//
// A frame that cannot stay a log gets memory for pixels first: take_pixels() of the device.
#pragma once

#include "console/latches.hpp"
#include "console/machine.hpp"
#include "console/pending_latches.hpp"

namespace cule {

// With fewer entries a lane is faster than a warp; several callers can render at the same time.
constexpr u32 kEntriesForTeam = 12, kEntriesForTeamOfSeveral = 40;
// Without helpers: with fewer entries the others go on.
constexpr u32 kEntriesForAll = 24;
constexpr u32 kNeverAsks = ~0u;

// How a lane gets its log rendered.
struct RenderTeam {
  u32 least_entries;  // to ask for before a latch is read
  bool has_helpers;   // lanes without a console come too
  bool is_lone;       // no other caller must come when it asks, or it never asks
  u32 memory;         // where kLineScanBytes of the warp's shared memory are (cuda/line_memory.hpp)
};

// What a caller asks for: to render a part of its log, nothing, or to end the service.
struct RenderRequest {
  u32 word;

  CULE_HD static RenderRequest part(u32 from, u32 recorded, bool is_end, bool has_cleared) {
    return {from | u32(is_end) << kEndAt | u32(has_cleared) << kClearedAt | recorded << kLatchesAt};
  }
  CULE_HD u32 from() const { return word & ((1u << kEndAt) - 1); }     // an entry of the log
  CULE_HD u32 recorded() const { return word >> kLatchesAt; }          // latches
  CULE_HD bool is_end() const { return word >> kEndAt & 1; }           // of the frame step
  CULE_HD bool has_cleared() const { return word >> kClearedAt & 1; }  // before: CXCLR

 private:
  static constexpr u32 kEndAt = 14, kClearedAt = 15, kLatchesAt = 16;
};
static_assert(kLogCapacity < 1u << 14 && !(kAllLatches & 1u << 12),
              "no request is kNothing or kGo");
constexpr u32 kGo = ~0u;
constexpr u32 kNothing = ~0u - 1;

enum class Served { kRendered, kRenderedWithClear, kNotRendered, kGone };

// Records the latches that the program reads; at the end of a frame none, if it clears them before
// it reads one.
struct LaneRenderer : PlainRenderer {
  bool has_cleared = false;  // CXCLR is in what has been rendered of the log
  bool has_read = false;     // a latch, before
  bool may_wait = false;     // the end of the frame records nothing
  PendingLatches pending;

  template <class Engine>
  CULE_HD LaneRenderer(const Console& c, const Engine& engine) : PlainRenderer(c, engine) {
    const SharedFramebuffers* const predicted = c.memory.shared;
    if (predicted != nullptr && predicted->clearing_frames == 0xFF) {
      collisions.wanted = predicted->read_latches;
      may_wait = predicted->reading_frames == 0;
    }
  }

  template <class Machine>
  CULE_HD CULE_NOINLINE void render(Machine& m, bool is_end) {
    TiaState& tia = m.s.tia;
    const u32 wanted = collisions.wanted, recorded = recorded_latches(is_end);
    collisions.wanted = recorded;
    collisions.has_seen_clear = false;
    collisions.state_changed();
    PlainRenderer::render(m, is_end);
    collisions.wanted = wanted;
    has_cleared |= collisions.has_seen_clear;
    Latches l{0, tia.missing_latches};
    l.note(tia.collisions, recorded, collisions.has_seen_clear);
    l = settle_latches(m.console, *m.log, l, recorded, is_end,
                       has_cleared && holds_picture(m.console), FindLatches{m.console});
    tia.collisions = u16(l.set);
    tia.missing_latches = u16(l.missing);
  }
  template <class Machine>
  CULE_HD CULE_INLINE u32 read_latches(Machine& m, u32 reg) {
    const u32 latches = latches_of_register(reg);
    if (m.console.memory.shared != nullptr) m.console.memory.shared->read_latches |= latches;
    // Where one of the lanes that read together has to render, all of them do.
    const bool is_known = knows(m, u32(m.next - m.log->entries), latches);
    if (CULE_LEAST_HERE(u32(is_known)) != 0) {
      has_read = has_read || !(has_cleared || pending.has_cleared());
      return pending.set();
    }
    m.render();
    has_read = has_read || !has_cleared;
    if (CULE_UNLIKELY(m.s.tia.missing_latches & latches)) record_too(m, latches);
    return m.s.tia.collisions;
  }
  template <class Machine>
  CULE_HD CULE_INLINE void before_spill(Machine& m) {
    take_pixels(m.console);
    record_too(m, kAllLatches);
    pending.forget();
    has_cleared = false;
  }
  template <class Machine>
  CULE_HD CULE_NOINLINE void end_step(Machine& m, bool is_drawn) {
    if (!is_drawn) take_pixels(m.console);
    if (SharedFramebuffers* const shared = m.console.memory.shared) {
      shared->clearing_frames = u8(shared->clearing_frames << 1 | has_cleared);
      shared->reading_frames = u8(shared->reading_frames << 1 | has_read);
    }
  }

 protected:
  // Whether some latches are known after so many entries, without rendering.
  template <class Machine>
  CULE_HD CULE_INLINE bool knows(const Machine& m, u32 size, u32 latches) {
    return !(latches & (m.s.tia.missing_latches | ~collisions.wanted)) &&
           pending.know(m.s.tia, m.log->entries, m.rendered, size, latches);
  }

  CULE_HD CULE_INLINE u32 recorded_latches(bool is_end) const {
    return is_end && may_wait ? 0 : collisions.wanted;
  }

 private:
  // Finds all latches, and records some more from now on.
  template <class Machine>
  CULE_HD CULE_NOINLINE void record_too(Machine& m, u32 latches) {
    m.s.tia.collisions = all_latches(m.console, *m.log);
    m.s.tia.missing_latches = 0;
    collisions.wanted |= latches;
    collisions.state_changed();
  }
};

// The same, by all lanes of the warp where they come together.
struct TeamRenderer : LaneRenderer {
  const RenderTeam team;
  bool may_ask;  // all callers come to serve() now

  template <class Engine>
  CULE_HD TeamRenderer(const Console& c, const Engine& engine)
      : LaneRenderer(c, engine), team(engine.render_team()), may_ask(team.is_lone) {}

  template <class Machine>
  CULE_HD CULE_NOINLINE void render(Machine& m, bool is_end) {
    if (!team.has_helpers) {
      LaneRenderer::render(m, is_end);
      return;
    }
    const bool asks =
        is_end ? m.log->size - m.rendered >= kEntriesForTeam : has_much_to_render(m, m.log->size);
    const bool comes = may_ask && (asks || !team.is_lone);
    const u32 request =
        asks ? RenderRequest::part(m.rendered, recorded_latches(is_end), is_end, has_cleared).word
             : kNothing;
    Served served = Served::kNotRendered;
    if (comes) served = serve(team, m.console, request);
    if (served == Served::kNotRendered) {
      LaneRenderer::render(m, is_end);
    } else {
      has_cleared |= served == Served::kRenderedWithClear;
      shapes.reset();
      collisions.state_changed();
    }
  }
  // Whether to ask for it before a latch is read; `size`: of the log.
  template <class Machine>
  CULE_HD CULE_INLINE bool has_much_to_render(const Machine& m, u32 size) {
    if (m.s.tia.missing_latches & collisions.wanted) return true;
    return size - m.rendered >= team.least_entries && !knows(m, size, collisions.wanted);
  }
  CULE_HD CULE_INLINE void let_ask(bool all_come) { may_ask = all_come || team.is_lone; }
};

// A lane of a warp: pictures are drawn later, by other threads.
struct LaneAccess {
  using Ram = InterleavedRam;
  using Renderer = LaneRenderer;
  static constexpr bool kForeseesCharges = true;
};

// A lane of a warp whose lanes render together.
struct TeamAccess : LaneAccess {
  using Renderer = TeamRenderer;
};

}  // namespace cule
