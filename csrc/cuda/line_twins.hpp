// cuda/line_twins.hpp: scanlines that look the same in two pictures of a console.
//
// Two warps of a block paint two pictures at the same time, the same scanlines of both. Pictures of
// one step differ little: a scanline of the second picture is often in the state of the first one's
// at its start, as far as this shows, and has the same accesses. Then it is not painted; its lane
// of the first warp writes both rows. The second warp compares, before either paints.
#pragma once

#include "cuda/line_scan.hpp"

namespace cule {

// Two pictures that are painted together, unless `are_twins` is false.
struct TwinPictures {
  bool are_twins;
  u32 to_second;  // bytes from a row to the second picture's
  u32 to_first;   // to add to an entry of the second log, for what is at the same clock
};

__device__ CULE_INLINE TwinPictures make_twins(const TiaWriteLog& first, const TiaWriteLog& second,
                                               u32 bytes) {
  return {
      first.first_line == second.first_line && first.start.color_loss == second.start.color_loss,
      bytes,
      pack_log_entry(second.base_clock / kClocksPerCycle - first.base_clock / kClocksPerCycle, 0,
                     0)};
}

// Bytes of a state, each in a lane that compares it for all scanlines, with the bits that matter:
// those that show whatever else does.
struct ComparedBytes {
  u8 byte[kWarpLanes];
  u8 bits[kWarpLanes];
};
CULE_HD constexpr ComparedBytes make_compared_bytes() {
  constexpr u64 registers = kLineRegisters & ~(kMotionRegisters | register_bits(COLUP0, COLUPF) |
                                               register_bits(VDELBL, VDELBL));
  ComparedBytes c{};
  u32 lane = 0;
  for (u32 reg = 0; reg < kNumRegisters; ++reg) {
    if (!(registers >> reg & 1)) continue;
    c.byte[lane] = u8(reg);
    c.bits[lane++] = u8(line_rule(reg).seen);
  }
  for (u32 byte = kLineOldGraphics; byte <= kLineHmoveBlank; ++byte) {
    c.byte[lane] = u8(byte);
    c.bits[lane++] = byte == kLineOldBall ? 2 : 0xFF;
  }
  return c;
}
static __device__ const ComparedBytes kComparedBytes = make_compared_bytes();

// In the shared memory of a warp, behind what it paints: whether it can paint its scanlines; of the
// first warp, which are the same in both pictures.
constexpr u32 kTwinsAt = kLineScanBytes + PaintedList::kBytes;
constexpr u32 kTwinsBytes = 16;

// Compares the scanlines of a warp with those of the other one. All lanes of both warps call its
// functions together.
template <class Scan>
struct LineTwins {
  const Scan& scan;
  const TwinPictures pictures;
  const u32 first, second;  // shared memory of the warps

  // The lanes whose scanlines are the same in both. Changes `are_twins` if a warp cannot paint
  // its own: then both go on alone.
  __device__ CULE_INLINE u32 find_same(bool can_paint, bool& are_twins) const {
    const bool is_second = scan.memory == second;
    shared_word(scan.memory + kHmoveAt + scan.lane * kWordBytes) = u32(scan.hmove_clock);
    if (scan.team.leads()) shared_word(scan.memory + kTwinsAt) = can_paint;
    __syncthreads();
    are_twins = shared_word(first + kTwinsAt) && shared_word(second + kTwinsAt);
    if (!are_twins) return 0;
    if (is_second) {
      const u32 same = scan.team.ballot(is_same());
      if (scan.team.leads()) shared_word(first + kTwinsAt + kWordBytes) = same;
    }
    __syncthreads();
    return shared_word(first + kTwinsAt + kWordBytes);
  }

 private:
  // The last HMOVE of each lane, where a state has no bytes.
  static constexpr u32 kHmoveAt = (kLineHmoveBlank + 1) * kWarpLanes;
  static_assert(kLineHmoveBlank + 1 + kWordBytes <= kLineBytes);

  // Bits of objects that a scanline may show, from bit 1 on.
  __device__ CULE_INLINE static constexpr u32 bit_of(u32 object) { return 2u << object; }

  __device__ CULE_INLINE bool is_same() const {
    u32 shown = shown_at_start();
    u32 colors = 0;  // COLUP0, COLUP1 and COLUPF, where they differ
    if (differs_at_start() || differs_in_accesses(shown, colors)) return false;
    const auto writes = [&](u32 reg) { return (scan.present >> reg & 1) != 0; };
    // The positions after an early HMOVE are compared, not what it moves by.
    if (writes(HMOVE) && !scan.moves_early) {
      for (u32 n = 0; n < 5; ++n) {
        if (differs_in(HMP0 + n, 0xF0)) return false;
      }
    }
    if (scan.present & register_bits(RESM0, RESBL) && differs(kHmoveAt + scan.lane * kWordBytes)) {
      return false;
    }
    if (writes(RESP0) || writes(RESMP0)) shown |= bit_of(kPlayer0);
    if (writes(RESP1) || writes(RESMP1)) shown |= bit_of(kPlayer1);
    bool differs_in_shown = shown & bit_of(kBall) && differs_in(VDELBL, 1);
    for (u32 object = 0; object < kPlayfield; ++object) {
      differs_in_shown |= shown & bit_of(object) && differs_in(kLinePosition + object, 0xFF);
    }
    for (u32 i = 0; i < 3; ++i) colors |= u32(differs_in(COLUP0 + i, 0xFE)) << i;
    // With the score's colours the playfield has those of the players.
    const bool keeps_score = scan.state[CTRLPF] & 2 || writes(CTRLPF);
    const u32 of_first = bit_of(kPlayer0) | bit_of(kMissile0);
    const u32 of_field = bit_of(kBall) | bit_of(kPlayfield);
    differs_in_shown |= colors & 1 && (keeps_score || shown & of_first);
    differs_in_shown |= colors & 2 && (keeps_score || shown & of_first << 1);
    differs_in_shown |= colors & 4 && shown & of_field;
    return !differs_in_shown;
  }

  __device__ CULE_INLINE bool differs(u32 at) const {
    return shared_word(first + at) != shared_word(second + at);
  }
  __device__ CULE_INLINE bool differs_in(u32 i, u32 bits) const {
    const u32 at = i * kWarpLanes + scan.lane;
    return ((dynamic_shared()[first + at] ^ dynamic_shared()[second + at]) & bits) != 0;
  }

  __device__ CULE_INLINE u32 shown_at_start() const {
    const LineState& s = scan.state;
    u32 shown = 0;
    for (u32 n = 0; n < 2; ++n) {
      if (s[GRP0 + n] | s[kLineOldGraphics + n]) shown |= bit_of(kPlayer0 + n);
      if (s[ENAM0 + n] & 2) shown |= bit_of(kMissile0 + n);
    }
    if ((s[ENABL] | s[kLineOldBall]) & 2) shown |= bit_of(kBall);
    if ((s[PF0] & 0xF0) | s[PF1] | s[PF2]) shown |= bit_of(kPlayfield);
    return shown;
  }

  // A lane compares a byte of all states, then all lanes tell each other.
  __device__ CULE_INLINE bool differs_at_start() const {
    const u32 at = kComparedBytes.byte[scan.lane] * kWarpLanes;
    const u32 bits = kComparedBytes.bits[scan.lane] * 0x01010101u;
    u32 found = 0;
    for (u32 half = 0; half < 2; ++half) {
      const u32 from = at + half * u32(sizeof(Bytes16));
      const Bytes16 a = *reinterpret_cast<const Bytes16*>(dynamic_shared() + first + from);
      const Bytes16 b = *reinterpret_cast<const Bytes16*>(dynamic_shared() + second + from);
      for (u32 w = 0; w < 4; ++w) {
        const u32 differing = scan.team.any_bits((a.word[w] ^ b.word[w]) & bits);
        if (scan.lane / kWordBytes == 4 * half + w) found = differing;
      }
    }
    return (found >> 8 * (scan.lane % kWordBytes) & 0xFF) != 0;
  }

  // Adds what the accesses may show, and colours of which only the value differs.
  __device__ CULE_INLINE bool differs_in_accesses(u32& shown, u32& colors) const {
    const u32 list = kLineScanBytes + scan.lane * u32(sizeof(LogEntry));
    for (u32 at = list;; at += PaintedList::kStep) {
      const LogEntry a = shared_word(first + at), b = shared_word(second + at);
      if (a == PaintedList::kEnd || b == PaintedList::kEnd) return a != b;
      const PackedRule rule = scan.rule_of(log_register(b));
      const u32 differing = a ^ (b + pictures.to_first);
      if (differing != 0) {
        // Otherwise only values differ. Some bits of them show nothing.
        const u32 reg = log_register(b);
        if (differing > 0xFF || kMotionRegisters >> reg & 1) return true;
        if (rule.seen(differing)) {
          if (reg - COLUP0 > COLUPF - COLUP0) return true;
          colors |= 1u << (reg - COLUP0);
        }
      }
      if (rule.seen(b)) shown |= 1u << rule.shows();
    }
  }
};

}  // namespace cule
