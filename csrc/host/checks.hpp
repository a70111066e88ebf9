// host/checks.hpp: numbers from outside, refused with what was given and what is allowed.
#pragma once

#include <stdexcept>
#include <string>

#include "base/int.hpp"

namespace cule {

[[noreturn]] inline void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

inline void check_range(const std::string& name, i64 value, i64 low, i64 high) {
  if (value < low || value > high) {
    refuse(name + " is " + std::to_string(value) + "; it must be in " + std::to_string(low) + ".." +
           std::to_string(high));
  }
}

}  // namespace cule
