// cart/cartridge.hpp: everything behind address bit 12: ROM, bank switching, cartridge RAM.
//
// In: 16-bit address, CPU cycle. Out: a byte, always defined. A hotspot read switches first and
// returns the byte of the newly selected bank; switching takes effect for the next access. The
// types without a bundled ROM are refused when the ROM is loaded (cart/detect.hpp). Facts:
// cart/NOTES.md.
//
// `fast_*` describe the stretch of a bank whose reads neither switch nor have any other effect; the
// CPU loop reads there without asking the cartridge.
#pragma once

#include <type_traits>

#include "base/int.hpp"
#include "base/platform.hpp"
#include "base/random.hpp"

namespace cule {

enum class Bankswitch : u8 { k2K, k4K, kF8, kF8SC, kF6, kF6SC, kE0, kFE, kDPC };

constexpr u32 kBankBytes = 4096;
constexpr u32 kSliceBytes = 1024;   // E0
constexpr u32 kSlices = 8;          // E0
constexpr u32 kCartRamBytes = 128;  // F8SC, F6SC
constexpr u32 kDpcDataBytes = 2048;
constexpr u32 kMaxDpcCounter = kDpcDataBytes - 1;

// The data-fetcher chip of the DPC cartridge. Set at construction only, never by a machine reset.
struct Dpc {
  u8 top[8];
  u8 bottom[8];
  u8 flag[8];      // 0 or $FF
  u16 counter[8];  // 11 bits
  u8 music[8];     // fetchers 5-7 in music mode
  u8 random;       // generator, starts at 1
  u8 reserved[3];
  i32 music_cycle;        // counter at the last music update; rebased at frame starts
  double music_fraction;  // of a music clock
};

struct CartState {
  u32 bank_bytes;       // offset of the selected 4 KiB bank in the image
  u32 window_bytes[4];  // E0: image offset of the slice shown in each window
  u8 ram[kCartRamBytes];
  Dpc dpc;
};

static_assert(std::is_trivially_copyable_v<CartState>);

// The immutable side: image (2K images doubled to 4 KiB) and type. `opcodes` is the image for
// opcode fetches: kTrapOpcode stands wherever an instruction must be executed with every access
// asked for, because one of its bytes may lie outside the fast region. `traps` is an image of
// nothing else. `words`, for who fetches whole instructions: see instruction_word().
struct Cart {
  const u8* image;
  const u8* opcodes;
  const u8* traps;
  Bankswitch type;
  const u32* words = nullptr;
};

constexpr u8 kTrapOpcode = 0x02;  // jams the 6507, so no program is slowed down by it
constexpr u32 kMaxInstructionBytes = 3;

// Never the last byte of a bank: the instruction that the program counter leaves the cartridge
// after is fetched slowly, so that the data bus holds its last byte.
struct FastRegion {
  u32 begin;  // offset within the bank
  u32 size;
};

CULE_HD CULE_INLINE bool has_cart_ram(Bankswitch type) {
  return type == Bankswitch::kF8SC || type == Bankswitch::kF6SC;
}

// Banks that CartState::bank_bytes selects from; FE and E0 select otherwise.
CULE_HD CULE_INLINE u32 num_banks(Bankswitch type) {
  switch (type) {
    case Bankswitch::kF8:
    case Bankswitch::kF8SC:
    case Bankswitch::kDPC:
      return 2;
    case Bankswitch::kF6:
    case Bankswitch::kF6SC:
      return 4;
    default:
      return 1;
  }
}

CULE_HD inline FastRegion fast_region(Bankswitch type) {
  switch (type) {
    case Bankswitch::kF8:
      return {0, 0xFF8};
    case Bankswitch::kF8SC:
      return {0x100, 0xFF8 - 0x100};
    case Bankswitch::kF6:
      return {0, 0xFF6};
    case Bankswitch::kF6SC:
      return {0x100, 0xFF6 - 0x100};
    case Bankswitch::kE0:
      return {0, 0xFE0};
    case Bankswitch::kDPC:
      return {0x080, 0xFC0 - 0x080};
    default:
      return {0, kBankBytes - 1};
  }
}

// Whether an instruction at an offset of the image may be fetched fast.
CULE_HD inline bool is_fast_opcode(Bankswitch type, u32 image_offset) {
  const FastRegion fast = fast_region(type);
  const u32 o = image_offset % kBankBytes;
  if (type == Bankswitch::kE0) {
    // Slices can stand in any window: no instruction may leave its slice or reach the hotspots of
    // the last.
    const u32 in_slice = image_offset % kSliceBytes;
    return in_slice <= kSliceBytes - kMaxInstructionBytes &&
           (image_offset < 7 * kSliceBytes || in_slice < 0x3E0 - kMaxInstructionBytes);
  }
  return o >= fast.begin && o - fast.begin <= fast.size - kMaxInstructionBytes;
}

// The three bytes from an offset of the image on, and whether the instruction that begins there
// must be executed with every access asked for, or stops the processor. `image` has two bytes after
// the last offset.
constexpr u32 kTrapBit = 1u << 24;

CULE_HD inline u32 instruction_word(Bankswitch type, const u8* image, u32 image_offset) {
  const u32 word = u32(image[image_offset]) | u32(image[image_offset + 1]) << 8 |
                   u32(image[image_offset + 2]) << 16;
  const u32 opcode = word & 0xFF;
  const bool jams = (opcode & 0x1F) == 0x12 || (opcode & 0x9F) == 0x02;
  return is_fast_opcode(type, image_offset) && !jams ? word : word | kTrapBit;
}

CULE_HD inline void select_slice(CartState& s, u32 window, u32 slice) {
  s.window_bytes[window] = slice * kSliceBytes;
}

// At construction, before the first machine reset.
CULE_HD inline void power_on_cart(CartState& s) {
  s = CartState{};
  s.dpc.random = 1;
}

// Machine reset: start bank, cartridge RAM from the machine generator. Draws one value per RAM
// cell.
CULE_HD inline void reset_cart(Bankswitch type, CartState& s, Mt19937& machine_random) {
  if (has_cart_ram(type)) {
    for (u8& cell : s.ram) cell = u8(machine_random.next());
  }
  const bool starts_high =
      type == Bankswitch::kF8 || type == Bankswitch::kF8SC || type == Bankswitch::kDPC;
  s.bank_bytes = starts_high ? kBankBytes : 0;
  for (u32 window = 0; window < 4; ++window) select_slice(s, window, 4 + window);
  s.dpc.music_cycle = 0;
  s.dpc.music_fraction = 0.0;
}

// Bank switching by an access at offset o, read or write.
CULE_HD CULE_INLINE void touch_hotspot(Bankswitch type, CartState& s, u32 o) {
  switch (type) {
    case Bankswitch::kF8:
    case Bankswitch::kF8SC:
    case Bankswitch::kDPC:
      if (o == 0xFF8 || o == 0xFF9) s.bank_bytes = (o - 0xFF8) * kBankBytes;
      break;
    case Bankswitch::kF6:
    case Bankswitch::kF6SC:
      if (o >= 0xFF6 && o <= 0xFF9) s.bank_bytes = (o - 0xFF6) * kBankBytes;
      break;
    case Bankswitch::kE0:
      if (o >= 0xFE0 && o < 0xFF8) select_slice(s, (o - 0xFE0) >> 3, o & 7);
      break;
    default:
      break;
  }
}

CULE_HD inline void step_dpc_random(Dpc& d) {
  const u32 g = d.random;
  const u32 bit = ~(g >> 7 ^ g >> 5 ^ g >> 4 ^ g >> 3) & 1;
  d.random = u8(g << 1 | bit);
}

CULE_HD inline void set_dpc_counter_low(Dpc& d, u32 i, u32 low) {
  d.counter[i] = u16((d.counter[i] & 0x700) | low);
}

// Brings the three music fetchers up to `cycle`; 15750 Hz music clock, double arithmetic as given.
CULE_HD inline void update_dpc_music(Dpc& d, u32 cycle) {
  const i32 elapsed = i32(cycle - u32(d.music_cycle));
  d.music_cycle = i32(cycle);
  const double clocks = (15750.0 * elapsed) / 1193191.66666667 + d.music_fraction;
  const i32 whole = i32(clocks);
  d.music_fraction = clocks - whole;
  if (whole <= 0) return;
  for (u32 i = 5; i < 8; ++i) {
    if (!d.music[i]) continue;
    i32 low = d.counter[i] & 0xFF;
    const i32 top = d.top[i];
    if (top != 0) {
      low -= whole % (top + 1);
      if (low < 0) low += top + 1;
    } else {
      low = 0;
    }
    if (low <= d.bottom[i]) {
      d.flag[i] = 0;
    } else if (low <= top) {
      d.flag[i] = 0xFF;
    }
    set_dpc_counter_low(d, i, u32(low) & 0xFF);
  }
}

CULE_HD inline u32 read_dpc_register(const Cart& cart, Dpc& d, u32 o, u32 cycle) {
  const u32 i = o & 7;
  const u32 low = d.counter[i] & 0xFF;
  if (low == d.top[i]) {
    d.flag[i] = 0xFF;
  } else if (low == d.bottom[i]) {
    d.flag[i] = 0;
  }
  u32 result = 0;
  switch (o >> 3) {
    case 0:
      if (i < 4) {
        result = d.random;
      } else {
        update_dpc_music(d, cycle);
        const u32 voices = u32(d.music[5] && d.flag[5]) | u32(d.music[6] && d.flag[6]) << 1 |
                           u32(d.music[7] && d.flag[7]) << 2;
        result = (0xFBA69540u >> (4 * voices)) & 0xF;  // 0 4 5 9 6 10 11 15
      }
      break;
    case 1:
    case 2: {
      const u8* data = cart.image + 2 * kBankBytes;
      result = data[kDpcDataBytes - 1 - d.counter[i]];
      if (o >> 3 == 2) result &= d.flag[i];
      break;
    }
    case 7:
      result = d.flag[i];
      break;
    default:
      break;
  }
  if (i < 5 || !d.music[i]) d.counter[i] = u16((d.counter[i] - 1) & kMaxDpcCounter);
  return result;
}

CULE_HD inline void write_dpc_register(Dpc& d, u32 o, u32 value) {
  const u32 i = o & 7;
  switch (o >> 3 & 7) {
    case 0:
      d.top[i] = u8(value);
      d.flag[i] = 0;
      break;
    case 1:
      d.bottom[i] = u8(value);
      break;
    case 2:
      set_dpc_counter_low(d, i, i >= 5 && d.music[i] ? d.top[i] : value);
      break;
    case 3:
      d.counter[i] = u16((value & 7) << 8 | (d.counter[i] & 0xFF));
      if (i >= 5) d.music[i] = value >> 4 & 1;
      break;
    case 6:
      d.random = 1;
      break;
    default:
      break;
  }
}

CULE_HD inline u32 read_cart(const Cart& cart, CartState& s, u32 address, u32 cycle) {
  const u32 o = address & 0xFFF;
  switch (cart.type) {
    case Bankswitch::kE0:
      touch_hotspot(cart.type, s, o);
      return cart.image[s.window_bytes[o / kSliceBytes] + o % kSliceBytes];
    case Bankswitch::kFE:
      return cart.image[o + (address & 0x2000 ? 0 : kBankBytes)];
    case Bankswitch::kDPC:
      if (o < 0x080 || o >= 0xFC0) step_dpc_random(s.dpc);
      if (o < 0x040) return read_dpc_register(cart, s.dpc, o, cycle);
      break;
    default:
      break;
  }
  if (has_cart_ram(cart.type) && o >= 0x080 && o < 0x100) return s.ram[o - 0x080];
  touch_hotspot(cart.type, s, o);
  return cart.image[s.bank_bytes + o];
}

CULE_HD inline void write_cart(const Cart& cart, CartState& s, u32 address, u32 value) {
  const u32 o = address & 0xFFF;
  if (has_cart_ram(cart.type) && o < 0x080) s.ram[o] = u8(value);
  if (cart.type == Bankswitch::kDPC) {
    step_dpc_random(s.dpc);
    if (o >= 0x040 && o < 0x080) write_dpc_register(s.dpc, o, value);
  }
  touch_hotspot(cart.type, s, o);
}

}  // namespace cule
