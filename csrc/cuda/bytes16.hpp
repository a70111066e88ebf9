// cuda/bytes16.hpp: sixteen bytes that a lane loads and stores at once.
#pragma once

#include "base/int.hpp"

namespace cule {

struct alignas(16) Bytes16 {
  u32 word[4];
};

}  // namespace cule
