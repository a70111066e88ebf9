// rom_kernel/source.hpp: a ROM as the source of a state-update kernel of its own.
//
// In: a cartridge, and the places that its program has reached. Out: C++ that cuda/step_kernel.hpp
// and rom_kernel/program.hpp give a meaning, for the compiler of the device or, in tests, of the
// host. The source covers the places reached and everything that direct jumps, branches and calls
// lead to from there, as long as there is room. Facts and rules: NOTES.md.
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

std::string make_source(const Cart& cart, size_t image_bytes, const SourceOptions& options,
                        std::vector<Place> reached);

}  // namespace cule::rom_kernel
