// host/cartridge_image.hpp: a ROM image as the instruction loops read it: its cartridge type, its
// bytes, and the two arrays that opcodes are fetched from (cart/cartridge.hpp, Cart).
#pragma once

#include <stdexcept>
#include <string>

#include "cart/detect.hpp"

namespace cule {

// No supported cartridge type.
struct UnsupportedRom : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CartridgeImage {
 public:
  explicit CartridgeImage(const Bytes& rom) : type_(detect(rom)), bytes_(rom) {
    if (type_ == Bankswitch::k2K) {
      bytes_.resize(kBankBytes / 2);
      bytes_.insert(bytes_.end(), rom.begin(), rom.begin() + kBankBytes / 2);
    }
    opcodes_ = bytes_;
    for (size_t i = 0; i < opcodes_.size(); ++i) {
      if (!is_fast_opcode(type_, u32(i))) opcodes_[i] = kTrapOpcode;
    }
    traps_.assign(bytes_.size(), kTrapOpcode);
    bytes_.resize(bytes_.size() + sizeof(u32));  // idle loops are recognised by four bytes
  }

  Cart cart() const { return {bytes_.data(), opcodes_.data(), traps_.data(), type_}; }
  Bankswitch type() const { return type_; }
  const Bytes& bytes() const { return bytes_; }  // with four spare bytes

 private:
  static Bankswitch detect(const Bytes& rom) {
    const std::string name = detect_bankswitch(rom);
    const std::string size = std::to_string(rom.size());
    if (name.empty()) {
      throw UnsupportedRom("rom is an image of " + size +
                           " bytes, which fits no cartridge type; it must be an Atari 2600 ROM, "
                           "usually of 2048, 4096, 8192 or 16384 bytes");
    }
    for (const BankswitchName& b : kSupportedBankswitches) {
      if (name == b.name) return b.type;
    }
    throw UnsupportedRom("rom is for cartridge type " + name + " (" + size +
                         " bytes); it must be for type 2K, 4K, F8, F8SC, F6, F6SC, E0, FE or DPC");
  }

  Bankswitch type_;
  Bytes bytes_, opcodes_, traps_;
};

}  // namespace cule
