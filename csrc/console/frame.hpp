// console/frame.hpp: power-on, machine reset and one emulated frame step.
//
// In: inputs set in ConsoleState. Out: state after the step; the frame's TIA log, from which the
// picture is drawn on demand. A frame step runs from frame start to the end of the frame (VSYNC
// released, or too many lines) or for 25,000 instructions, whichever comes first; in the latter
// case the frame is unfinished and the next step continues it.
#pragma once

#include "console/step.hpp"

namespace cule {

// Construction of the machine: RAM and timer from the machine generator, 129 draws.
CULE_HD inline void power_on(ConsoleState& s, Mt19937& machine_random) {
  s = ConsoleState{};
  for (u8& cell : s.ram) cell = u8(machine_random.next());
  machine_random.next();  // the timer start value, replaced by the first machine reset
  power_on_cart(s.cart);
}

// Console switched off and on, in the order of cpu/NOTES.md 2. RAM and the unfinished mark survive.
CULE_HD inline void reset_machine(const Console& c, Mt19937& machine_random) {
  ConsoleState& s = c.s;
  s.cycles = 0;
  s.phase_cycles = 0;
  s.timer = Timer{};
  s.timer.start = u8(25 + machine_random.next() % 75);
  s.timer.shift = 6;
  s.swacnt = 0;
  reset_tia(s.tia);
  s.vblank = 0;
  s.vsync_finish_clock = kNoVsyncFinish;
  s.dump_cycle = 0;
  s.last_frame_lines = 0;
  s.first_line = 0;
  s.beam = make_beam(0);
  s.picture.kind[0] = s.picture.kind[1] = PictureKind::kBlank;
  reset_cart(c.cart.type, s.cart, machine_random);
  const u32 low = read_cart(c.cart, s.cart, 0xFFFC, 0);
  const u32 high = read_cart(c.cart, s.cart, 0xFFFD, 0);
  s.data_bus = u8(high);
  s.cpu = reset_registers(low | high << 8);
}

// A log that holds no picture.
CULE_HD CULE_DEVICE_NOINLINE inline u8 free_log(const PictureState& p,
                                                const SharedFramebuffers* shared) {
  u32 needed = shared != nullptr ? shared->lent_logs : 0;
  for (u32 n = 0; n < 2; ++n) {
    if (p.kind[n] == PictureKind::kLog) needed |= 1u << p.log_slot[n];
  }
  u8 slot = u8(shared != nullptr ? shared->num_logs : kLogSlots);
  do --slot;
  while (needed >> slot & 1);
  return slot;
}

// The previous frame is complete: swaps framebuffers, rebases every remembered time, and moves the
// beam to the first pixel of the window.
CULE_HD inline void start_frame(const Console& c) {
  ConsoleState& s = c.s;
  const u32 cycles = s.cycles;
  const u32 into_frame = cycles + s.phase_cycles;
  const u32 whole_lines = into_frame / kCyclesPerLine;
  s.tia.hmove_clock = i32(u32(s.tia.hmove_clock) - whole_lines * kClocksPerLine);
  s.vsync_finish_clock = i32(u32(s.vsync_finish_clock) - clocks_from_cycles(cycles));
  s.dump_cycle = i32(u32(s.dump_cycle) - cycles);
  rebase_timer(s.timer, cycles);
  s.cart.dpc.music_cycle = i32(u32(s.cart.dpc.music_cycle) - cycles);
  s.phase_cycles = into_frame - whole_lines * kCyclesPerLine;
  s.cycles = 0;
  s.first_line = c.properties.first_line;
  const u32 begin = picture_window(c).begin_clocks;
  s.beam = make_beam(begin);
  if (c.properties.format == Format::kPal) {
    s.tia.color_loss = s.last_frame_lines & 1;
    for (u8& color : s.tia.color) color = u8((color & 0xFE) | s.tia.color_loss);
  }
  PictureState& p = s.picture;
  p.current ^= 1;
  p.is_painted = 0;
  p.is_dimmed = 0;
  p.recording_slot = free_log(p, c.memory.shared);
}

template <class Engine>
CULE_HD CULE_NOINLINE void run_frame(const Console& c, Engine& engine) {
  ConsoleState& s = c.s;
  if (!s.is_unfinished) start_frame(c);
  s.is_unfinished = 1;
  Machine<typename Engine::Access> m(c, engine);
  engine.run(m);
  m.render(true);
  PictureState& p = s.picture;
  const bool is_drawn = holds_picture(c);
  m.renderer.end_step(m, is_drawn);
  if (is_drawn) {
    p.kind[p.current] = PictureKind::kLog;
    p.log_slot[p.current] = p.recording_slot;
  } else {
    paint_part(c, *m.log);
    p.is_painted = 1;
  }
  if (!s.is_unfinished) {
    s.last_frame_lines = current_line(s);
    p.is_painted = p.is_dimmed = 0;
  } else if (!p.is_dimmed) {
    dim_picture(c);
    p.is_dimmed = 1;
  }
}

}  // namespace cule
