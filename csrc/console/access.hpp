// console/access.hpp: what a back end chooses about the machine it runs.
//
// Machine<Access> is the console for every back end. Access names three things:
//
//   Ram                  a view of the 128 bytes while the machine runs (console/ram.hpp)
//   Renderer             renders the write log as far as the program can see it: the latches
//   kForeseesCharges     the cycle that ends each paddle's charge is kept up to date, for code that
//                        compares with it; otherwise it is computed when a paddle is read
//
// PlainRenderer is the rule. A back end can supply another one that does less work for the same
// results; it has these members, all called by Machine and run_frame():
//
//   Renderer(console, engine)   a frame step begins; its log has begun
//   render(m, is_end)           brings TiaState and Beam up to the end of m's log; is_end: which is
//                               that of the frame step
//   read_latches(m, reg)        those of a collision register that the program reads, in their
//                               places; calls m.render() before it if it has to
//   before_spill(m)             after render(): the full log is painted, and another one begins
//   end_step(m, is_drawn)       after render(): is_drawn if the log holds the whole picture
#pragma once

#include "console/picture.hpp"
#include "tia/collisions.hpp"

namespace cule {

// Renders every entry, and records every latch.
struct PlainRenderer {
  Shapes shapes;
  CollisionSink collisions;

  template <class Engine>
  CULE_HD PlainRenderer(const Console&, const Engine&) {
    shapes.reset();
  }

  template <class Machine>
  CULE_HD CULE_NOINLINE void render(Machine& m, bool /*is_end*/) {
    render_entries(m.console, *m.log, m.rendered, m.s.tia, m.s.beam, shapes, collisions);
  }
  template <class Machine>
  CULE_HD CULE_INLINE u32 read_latches(Machine& m, u32 /*reg*/) {
    m.render();
    return m.s.tia.collisions;
  }
  template <class Machine>
  CULE_HD CULE_INLINE void before_spill(Machine&) {}
  template <class Machine>
  CULE_HD CULE_INLINE void end_step(Machine&, bool /*is_drawn*/) {}
};

// One thread, nothing else.
struct PlainAccess {
  using Ram = FlatRam;
  using Renderer = PlainRenderer;
  static constexpr bool kForeseesCharges = false;
};

}  // namespace cule
