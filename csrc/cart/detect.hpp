// cart/detect.hpp: which cartridge type a ROM image is, by size and content (NOTES.md 2). Host
// only.
//
// Returns the type's name. Types that no bundled ROM needs are recognised by name and refused by
// the caller: "CV", "3E", "3F", "UA", "E7", "F4", "F4SC", "FASC", "MB", "MC", "AR". "" when nothing
// fits.
#pragma once

#include <cstring>
#include <initializer_list>
#include <vector>

#include "cart/cartridge.hpp"

namespace cule {

using Bytes = std::vector<u8>;

// Occurrences of `pattern`, the search the reference makes: the last possible position is not
// examined and a match skips one byte more than its length.
inline bool contains_pattern(const Bytes& rom, const Bytes& pattern, int needed) {
  int found = 0;
  for (size_t i = 0; i + pattern.size() < rom.size();) {
    if (std::memcmp(rom.data() + i, pattern.data(), pattern.size()) == 0) {
      if (++found == needed) return true;
      i += pattern.size() + 1;
    } else {
      ++i;
    }
  }
  return false;
}

inline bool contains_any(const Bytes& rom, std::initializer_list<Bytes> patterns) {
  for (const Bytes& p : patterns) {
    if (contains_pattern(rom, p, 1)) return true;
  }
  return false;
}

inline bool has_equal_halves(const Bytes& rom) {
  return std::memcmp(rom.data(), rom.data() + rom.size() / 2, rom.size() / 2) == 0;
}

// In every bank the first 256 bytes are equal to the first: space of cartridge RAM.
inline bool looks_like_superchip(const Bytes& rom) {
  for (size_t bank = 0; bank < rom.size(); bank += kBankBytes) {
    for (size_t i = 1; i < 256; ++i) {
      if (rom[bank + i] != rom[bank]) return false;
    }
  }
  return true;
}

inline bool looks_like_e7(const Bytes& rom) {
  for (size_t i = 0x3800; i < 0x3A00; ++i) {
    if (rom[i] != rom[0x3800]) return false;
  }
  for (size_t i = 0x37E0; i < 0x3A20; ++i) {
    if (rom[i] != rom[0x3800]) return true;
  }
  return false;
}

inline const char* detect_bankswitch(const Bytes& rom) {
  const size_t size = rom.size();
  const auto is_3e = [&] { return contains_pattern(rom, {0x85, 0x3E, 0xA9, 0x00}, 1); };
  const auto is_3f = [&] { return contains_pattern(rom, {0x85, 0x3F}, 2); };
  const auto is_cv = [&] { return contains_any(rom, {{0x9D, 0xFF, 0xF3}, {0x99, 0x00, 0xF4}}); };
  if (size == 0) return "";
  if (size % 8448 == 0) return "AR";
  if (size == 2048 || (size == 4096 && has_equal_halves(rom))) return is_cv() ? "CV" : "2K";
  if (size == 4096) return is_cv() ? "CV" : "4K";
  if (size == 8192) {
    if (looks_like_superchip(rom)) return "F8SC";
    if (has_equal_halves(rom)) return "4K";
    if (contains_any(rom, {{0x8D, 0xE0, 0x1F},
                           {0x8D, 0xE0, 0x5F},
                           {0x8D, 0xE9, 0xFF},
                           {0xAD, 0xE9, 0xFF},
                           {0xAD, 0xED, 0xFF},
                           {0xAD, 0xF3, 0xBF}})) {
      return "E0";
    }
    if (is_3e()) return "3E";
    if (is_3f()) return "3F";
    if (contains_pattern(rom, {0x8D, 0x40, 0x02}, 1)) return "UA";
    if (contains_any(rom, {{0x20, 0x00, 0xD0, 0xC6, 0xC5},
                           {0x20, 0xC3, 0xF8, 0xA5, 0x82},
                           {0xD0, 0xFB, 0x20, 0x73, 0xFE},
                           {0x20, 0x00, 0xF0, 0x84, 0xD6}})) {
      return "FE";
    }
    return "F8";
  }
  if (size == 10240 || size == 10495 || size == 10496) return "DPC";
  if (size == 12288) return "FASC";
  if (size == 16384 || size == 32768) {
    const bool is_16k = size == 16384;
    if (looks_like_superchip(rom)) return is_16k ? "F6SC" : "F4SC";
    if (is_16k && looks_like_e7(rom)) return "E7";
    if (is_3e()) return "3E";
    if (is_3f()) return "3F";
    return is_16k ? "F6" : "F4";
  }
  if (is_3e()) return "3E";
  if (is_3f()) return "3F";
  if (size == 65536) return "MB";
  if (size == 131072) return "MC";
  return "";
}

struct BankswitchName {
  const char* name;
  Bankswitch type;
};

constexpr BankswitchName kSupportedBankswitches[] = {
    {"2K", Bankswitch::k2K},     {"4K", Bankswitch::k4K}, {"F8", Bankswitch::kF8},
    {"F8SC", Bankswitch::kF8SC}, {"F6", Bankswitch::kF6}, {"F6SC", Bankswitch::kF6SC},
    {"E0", Bankswitch::kE0},     {"FE", Bankswitch::kFE}, {"DPC", Bankswitch::kDPC},
};

}  // namespace cule
