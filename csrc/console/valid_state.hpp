// console/valid_state.hpp: whether bytes from outside are the state of a console between frame
// steps.
//
// A frame step indexes by parts of its state and trusts them. Every state that a program can reach
// is valid, and running a valid state stays within the console's memory, for any contents of RAM
// and registers.
#pragma once

#include "console/picture.hpp"

namespace cule {

// The beam is within the picture, and in the line that it says.
CULE_HD inline bool is_valid_beam(const Beam& b, const ConsoleProperties& p) {
  const u32 end = make_window(p.first_line, p.height).end_clocks;
  return b.line_begin % kClocksPerLine == 0 && b.line_begin <= b.drawn &&
         b.drawn - b.line_begin < kClocksPerLine && b.drawn <= b.mark && b.mark <= end;
}

CULE_HD inline bool is_valid_tia(const TiaState& t) {
  bool is_valid = t.missing_latches == 0;
  for (const u8 hm : t.hm) is_valid &= hm < 16;
  for (const u8 position : t.position) is_valid &= position < kScreenWidth;
  return is_valid;
}

CULE_HD inline bool is_valid_cart(const CartState& c, Bankswitch type) {
  bool is_valid = c.bank_bytes % kBankBytes == 0 && c.bank_bytes / kBankBytes < num_banks(type);
  for (const u32 bytes : c.window_bytes) {
    is_valid &= bytes % kSliceBytes == 0 && bytes / kSliceBytes < kSlices;
  }
  is_valid &= c.window_bytes[3] == (kSlices - 1) * kSliceBytes;
  for (const u16 counter : c.dpc.counter) is_valid &= counter <= kMaxDpcCounter;
  // Also refuses what is no number.
  return is_valid && c.dpc.music_fraction > -1.0 && c.dpc.music_fraction < 1.0;
}

// `s` has both pictures as pixels.
CULE_HD inline bool is_valid_state(const ConsoleState& s, const ConsoleProperties& p,
                                   Bankswitch type) {
  const PictureState& picture = s.picture;
  bool is_valid = picture.current < 2 && picture.recording_slot < kLogSlots;
  for (u32 n = 0; n < 2; ++n) {
    is_valid &= picture.kind[n] == PictureKind::kPixels && picture.log_slot[n] < kLogSlots;
  }
  is_valid &= s.phase_cycles < kCyclesPerLine;
  is_valid &= s.first_line == 0 || s.first_line == p.first_line;
  bool is_timer_valid = false;
  for (u32 i = 0; i < 4; ++i) is_timer_valid |= s.timer.shift == timer_shift(i);
  return is_valid && is_timer_valid && is_valid_beam(s.beam, p) && is_valid_tia(s.tia) &&
         is_valid_cart(s.cart, type);
}

}  // namespace cule
