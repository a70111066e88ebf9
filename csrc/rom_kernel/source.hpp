// rom_kernel/source.hpp: a ROM as the source of the parts of its own state-update kernel.
//
// In: a cartridge, and the places that its program has reached. Out: C++ that
// rom_kernel/program.hpp gives a meaning, for the compiler of the device or, in tests, of the host.
// Linked with what is the same for all games (rom_kernel/kernel.hpp), or followed by an include of
// it, this is a kernel. The source covers the places reached and everything that direct jumps,
// branches and calls lead to from there, as long as there is room. Facts and rules: NOTES.md.
#pragma once

#include <string>
#include <vector>

#include "cart/cartridge.hpp"

namespace cule::rom_kernel {

// An instruction that a program has executed.
struct Place {
  u32 image_offset;
  u32 pc;
  bool is_entered;  // otherwise than from the instruction before it
  u64 count;        // how often
};

struct SourceOptions {
  bool is_alone;  // for lanes that have a warp each: without votes, without meetings at WSYNC
  u32 most;       // instructions to compile, the most frequent first; the others are interpreted
};

// The source of what is the same for all games.
std::string make_kernel_source(bool is_alone);
std::string make_source(const Cart& cart, size_t image_bytes, const SourceOptions& options,
                        std::vector<Place> reached);

}  // namespace cule::rom_kernel
