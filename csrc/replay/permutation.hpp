// replay/permutation.hpp: a keyed random permutation of 0 ... size-1 with random access. The native
// form of cule/replay/permutation.py, which explains why it is a permutation.
#pragma once

#include <cmath>

#include "base/int.hpp"

namespace cule {

constexpr i64 kPermutationRounds = 6;

// Upper bound of keys.
constexpr double kKeyRange = 4611686018427387904.0;  // 2**62

// Pseudorandom; below 2**31.
inline i64 hashed(i64 value, i64 key, i64 turn) {
  u64 mixed = (u64(value) + u64(key) + u64(turn) * 0x51ED270B) * 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 32)) * 0xBF58476D1CE4E5B9;
  return i64(mixed >> 29 & 0x7FFFFFFF);
}

inline i64 permuted(i64 position, i64 size, i64 key) {
  const i64 width = i64(std::ceil(std::sqrt(double(size))));
  const i64 full_rows = size / width;
  const i64 last_width = size - full_rows * width;  // 0 if the last row is full
  i64 value = position;
  for (i64 turn = 0; turn < kPermutationRounds; ++turn) {
    i64 row = value / width, column = value % width;
    const i64 row_width = row < full_rows ? width : last_width > 1 ? last_width : 1;
    column = (column + hashed(row, key, 2 * turn)) % row_width;
    const i64 height = full_rows + (column < last_width);
    row = (row + hashed(column, key, 2 * turn + 1)) % height;
    value = row * width + column;
  }
  return value;
}

}  // namespace cule
