// tia/sound.hpp: the sound generator (NOTES.md 17). Feeds nothing back; runs only when asked for.
//
// In: AUDC0 AUDC1 AUDF0 AUDF1 AUDV0 AUDV1 as last written. Out: 512 unsigned 8-bit mono samples an
// agent step, one a generator tick (31400 Hz), with the registers held constant.
#pragma once

#include "base/int.hpp"
#include "base/platform.hpp"

namespace cule {

constexpr u32 kSoundSamples = 512;

struct SoundChannel {
  u32 counter = 0;
  u32 a = 1;  // "4-bit" register, 8 bits kept
  u32 b = 1;  // "5-bit" register, 8 bits kept

  CULE_HD void clock(u32 control) {
    const auto bit = [](u32 value, u32 n) { return value >> n & 1; };
    const auto poly4 = [&] { a = (a & 15) == 0 ? 1 : (a << 1 | (bit(a, 3) ^ bit(a, 2))) & 0xFF; };
    const auto poly5 = [&] { b = (b & 31) == 0 ? 1 : (b << 1 | (bit(b, 4) ^ bit(b, 2))) & 0xFF; };
    const auto div2 = [&] { a = (a << 1 | (~a & 1)) & 0xFF; };
    const auto div6 = [&] { a = (~a << 1 | u32(bit(a, 2) == 0 && (a & 7) != 0)) & 0xFF; };
    const auto tick31 = [&] { return (b & 15) == 8; };
    switch (control) {
      case 0:
      case 11:
        a = (a << 1 | 1) & 0xFF;
        break;
      case 1:
        poly4();
        break;
      case 2:
        poly5();
        if (tick31()) poly4();
        break;
      case 3:
        poly5();
        if (bit(b, 4)) poly4();
        break;
      case 4:
      case 5:
        div2();
        break;
      case 6:
        poly5();
        if (tick31()) div2();
        break;
      case 7:
        poly5();
        if (bit(b, 4)) div2();
        break;
      case 8:
        b = (b & 31) == 0 && (a & 15) == 0 ? 1 : (b << 1 | (bit(a, 3) ^ bit(b, 4))) & 0xFF;
        a = (a << 1 | bit(b, 5)) & 0xFF;
        break;
      case 9:
        poly5();
        a = (a << 1 | bit(b, 5)) & 0xFF;
        break;
      case 10:
        poly5();
        if (tick31()) a = (a << 1 | bit(b, 4)) & 0xFF;
        break;
      case 12:
      case 13:
        div6();
        break;
      case 14:
        poly5();
        if (tick31()) div6();
        break;
      default:
        poly5();
        if (bit(b, 4)) div6();
        break;
    }
  }
};

struct SoundGenerator {
  SoundChannel channel[2];
};

CULE_HD inline void generate_sound(SoundGenerator& g, const u8* audio, u8* samples_out) {
  for (u32 i = 0; i < kSoundSamples; ++i) {
    u32 sample = 128;
    for (u32 n = 0; n < 2; ++n) {
      SoundChannel& ch = g.channel[n];
      if (++ch.counter > (audio[2 + n] & 31u)) {
        ch.counter = 0;
        ch.clock(audio[n] & 15u);
      }
      if (ch.a & 8) sample += (audio[4 + n] & 15u) * 4;
    }
    samples_out[i] = u8(sample);
  }
}

}  // namespace cule
