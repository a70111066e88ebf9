// replay/priority_sums.hpp: sums of priority masses and sampling in proportion to them. The native
// form of cule/replay/priority_sums.py.
//
// Masses are integers, so correcting a sum by the change of a leaf is exact. Above the block sums,
// which Python shares, each level sums 128 numbers of the level below, up to one number. An update
// corrects one number a level; a sample scans at most 128 numbers a level.
#pragma once

#include <vector>

#include "base/int.hpp"

namespace cule {

constexpr i64 kBlockLeaves = 128;

// Mass of a priority of 1.
constexpr i64 kMassScale = i64(1) << 20;

class PrioritySums {
 public:
  // The caller owns the leaves and their sums: [128 * num_blocks + 1] and [num_blocks].
  PrioritySums(i64* leaves, i64* block_sums, i64 num_blocks)
      : leaves_(leaves), block_sums_(block_sums), num_blocks_(num_blocks) {
    for (i64 size = num_blocks; size > 1;) {
      size = (size + kBlockLeaves - 1) / kBlockLeaves;
      upper_.emplace_back(size_t(size), 0);
    }
    rebuild();
  }

  // The leaf outside all sums.
  i64 waste() const { return num_blocks_ * kBlockLeaves; }
  i64 leaf(i64 index) const { return leaves_[index]; }
  i64 total() const { return upper_.empty() ? block_sums_[0] : upper_.back()[0]; }

  // Recomputes all sums from the leaves.
  void rebuild() {
    for (i64 b = 0; b < num_blocks_; ++b) block_sums_[b] = sum(leaves_, b, waste());
    const i64* below = block_sums_;
    i64 size = num_blocks_;
    for (auto& level : upper_) {
      for (size_t k = 0; k < level.size(); ++k) level[k] = sum(below, i64(k), size);
      below = level.data();
      size = i64(level.size());
    }
  }

  void set(i64 index, i64 mass) {
    const i64 change = mass - leaves_[index];
    leaves_[index] = mass;
    if (index == waste()) return;
    i64 k = index / kBlockLeaves;
    block_sums_[k] += change;
    for (auto& level : upper_) level[size_t(k /= kBlockLeaves)] += change;
  }

  // The leaf at a fraction of the total in [0, 1); the last leaf if the total is 0.
  i64 at(double fraction) const {
    if (total() <= 0) return waste() - 1;
    i64 target = i64(fraction * double(total()));
    if (target >= total()) target = total() - 1;
    i64 k = 0;
    for (size_t level = upper_.size(); level-- > 0;) {
      k = level ? descend(upper_[level - 1].data(), k, i64(upper_[level - 1].size()), target)
                : descend(block_sums_, k, num_blocks_, target);
    }
    return descend(leaves_, k, waste(), target);
  }

 private:
  static i64 end_of(i64 block, i64 size) {
    const i64 end = (block + 1) * kBlockLeaves;
    return end < size ? end : size;
  }

  static i64 sum(const i64* values, i64 block, i64 size) {
    i64 total = 0;
    for (i64 k = block * kBlockLeaves; k < end_of(block, size); ++k) total += values[k];
    return total;
  }

  // Index of the value in a block that contains `target`, which is reduced by the values before it.
  static i64 descend(const i64* values, i64 block, i64 size, i64& target) {
    const i64 last = end_of(block, size) - 1;
    i64 k = block * kBlockLeaves;
    while (k < last && target >= values[k]) target -= values[k++];
    return k;
  }

  i64* leaves_;
  i64* block_sums_;
  i64 num_blocks_;
  std::vector<std::vector<i64>> upper_;
};

}  // namespace cule
