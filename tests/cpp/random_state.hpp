// Random states of the TIA.
#pragma once

#include "random.hpp"
#include "tia/collisions.hpp"

namespace cule {

// Each field within its range; a third of the bits that enable something are set.
inline TiaState random_state(Random& random, u32 clock) {
  TiaState s{};
  const auto bit = [&] { return u8(random.below(3) == 0); };
  for (u8& color : s.color) color = u8(random.below(256));
  s.color_loss = bit();
  s.vblank = u8(random.below(8) == 0);
  s.ctrlpf = u8(random.below(256));
  s.pf_mirror = bit();
  for (u32 n = 0; n < 2; ++n) {
    s.nusiz[n] = u8(random.below(256));
    s.refp[n] = bit();
    s.grp[n] = u8(bit() * random.below(256));
    s.old_grp[n] = u8(bit() * random.below(256));
    s.vdelp[n] = bit();
    s.enam[n] = bit();
    s.resmp[n] = bit();
    s.skip[n] = bit();
  }
  s.enabl = bit();
  s.old_enabl = bit();
  s.vdelbl = bit();
  for (u32 object = 0; object < kPlayfield; ++object) {
    s.hm[object] = u8(random.below(16));
    s.position[object] = u8(random.below(kScreenWidth));
  }
  if (bit()) s.hm[kMissile0] = 7;
  s.missile0_look = Missile0Look(random.below(3));
  s.stars = u8(random.below(8) == 0);
  s.star_count = u8(random.below(4));
  s.hmove_blank = bit();
  for (u8& pf : s.pf) pf = u8(bit() * random.below(256));
  for (u8& audio : s.audio) audio = u8(random.below(256));
  s.collisions = u16(random.below(0x10000) & kAllLatches);
  // The distances from an HMOVE that matter, and others.
  const i32 gaps[] = {9, 18, 21, 54, 60, 63, 300};
  s.hmove_clock = i32(clock) - gaps[random.below(7)];
  return s;
}

}  // namespace cule
