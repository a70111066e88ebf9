// cuda/resize_rows.hpp: the area resize of gray pictures in whole numbers, by a warp.
//
// In: two pictures of 160 levels a row, whose maximum is resized. Out: the bytes of resize_pixel().
// First rows are summed, four columns at a time, into shared memory; then columns, with two dot
// products a byte. Doubtful bytes are noted, and decided together.
#pragma once

#include "base/bits.hpp"
#include "console/ram.hpp"
#include "cuda/dot_resize.hpp"
#include "cuda/lane_group.hpp"

namespace cule {

// The maximum of two pictures; both may be the same.
struct LevelPair {
  const u8* first;
  const u8* second;

  CULE_HD CULE_INLINE u8 operator[](i32 i) const {
    return first[i] > second[i] ? first[i] : second[i];
  }
};

// Resizes rows of a picture, in all lanes of a warp.
class DotRows {
 public:
  // Rows that are summed at a time: six of the pairs below.
  static constexpr u32 kRows = 12;
  static constexpr u32 kSumBytes = kRows * kScreenWidth * sizeof(u16);
  static constexpr u32 kMaxDoubtful = 256;
  static constexpr u32 kSharedBytes = kSumBytes + kMaxDoubtful * sizeof(u16);

  // `shared`: kSharedBytes of shared memory of the warp, from a multiple of 8 bytes on.
  __device__ DotRows(const DotResizer& d, const AreaResizer& r, LevelPair levels, u8* shared,
                     u8* target_out)
      : d_(d),
        resizer_(r),
        levels_(levels),
        sums_(reinterpret_cast<u32*>(shared)),
        doubtful_(reinterpret_cast<u16*>(shared + kSumBytes)),
        target_(target_out),
        columns_(d.num_columns),
        unit_(d.unit),
        divisor_(2 * d.unit),
        multiplier_(d.multiplier),
        shift_(d.shift),
        first_sure_(d.first_sure),
        num_sure_(d.num_sure) {}

  // Rows [begin, end) of the target.
  __device__ void run(u32 begin, u32 end) {
    const bool is_paired = d_.is_paired && begin % 2 == 0 && end % 2 == 0;
    for (u32 row = begin; row < end; row += kRows) {
      const u32 rows = end - row < kRows ? end - row : kRows;
      __syncwarp();
      if (is_paired) {
        sum_pairs(row, rows);
      } else {
        sum_rows(row, rows);
      }
      __syncwarp();
      for (u32 first = 0; first < columns_; first += kWarpLanes) resize_columns(first, row, rows);
    }
    decide();
  }

 private:
  static constexpr u32 kGroupRows = 6;
  static constexpr u32 kRowWords = kScreenWidth / sizeof(u32);

  // Words of both pictures.
  struct Words {
    const u32* first;
    const u32* second;
  };
  __device__ CULE_INLINE Words words_at(u32 at) const {
    return {reinterpret_cast<const u32*>(levels_.first) + at,
            reinterpret_cast<const u32*>(levels_.second) + at};
  }
  // Four columns of the maximum, `rows` below, two in each word.
  __device__ CULE_INLINE static void load(const Words& w, u32 rows, u32& left, u32& right) {
    const u32 a = w.first[rows * kRowWords], b = w.second[rows * kRowWords];
    left = CULE_MAX_HALVES(CULE_PICK_BYTES(a, 0u, 0x4140), CULE_PICK_BYTES(b, 0u, 0x4140));
    right = CULE_MAX_HALVES(CULE_PICK_BYTES(a, 0u, 0x4342), CULE_PICK_BYTES(b, 0u, 0x4342));
  }
  __device__ CULE_INLINE void store(u32 row, u32 word, u32 left, u32 right) const {
    reinterpret_cast<u64*>(sums_)[row * kRowWords + word] = left | u64(right) << 32;
  }

  __device__ CULE_INLINE void sum_rows(u32 row, u32 rows) const {
    for (u32 i = lane_; i < rows * kRowWords; i += kWarpLanes) {
      const DotTaps taps = d_.rows[row + i / kRowWords];
      const Words words = words_at(taps.first * kRowWords + i % kRowWords);
      u32 left = 0, right = 0;
      for (u32 tap = 0; tap < kDotTaps; ++tap) {
        const u32 weight = taps.weights >> 8 * tap & 0xFF;
        u32 a, b;
        load(words, tap, a, b);
        left += weight * a;
        right += weight * b;
      }
      store(i / kRowWords, i % kRowWords, left, right);
    }
  }

  // Two rows of the target for five of the source.
  __device__ CULE_INLINE void sum_pairs(u32 row, u32 rows) const {
    for (u32 i = lane_; i < rows / 2 * kRowWords; i += kWarpLanes) {
      const u32 pair = i / kRowWords, word = i % kRowWords;
      const Words words = words_at((row / 2 + pair) * 5 * kRowWords + word);
      u32 a[5], b[5];
      for (u32 k = 0; k < 5; ++k) load(words, k, a[k], b[k]);
      store(2 * pair, word, 2 * (a[0] + a[1]) + a[2], 2 * (b[0] + b[1]) + b[2]);
      store(2 * pair + 1, word, a[2] + 2 * (a[3] + a[4]), b[2] + 2 * (b[3] + b[4]));
    }
  }

  // A column of summed rows in each lane; lanes beyond the last one repeat a column.
  __device__ CULE_INLINE void resize_columns(u32 first, u32 row, u32 rows) {
    u32 column = first + lane_;
    if (column >= columns_) column = lane_ < columns_ ? lane_ : 0;
    const DotTaps taps = d_.columns[column];
    const u32* from = sums_ + taps.first;
    u32 at = row * columns_ + column;
    for (; rows >= kGroupRows; rows -= kGroupRows) {
      resize_group<kGroupRows>(from, taps.weights, at);
      from += kGroupRows * kScreenWidth / 2;
      at += kGroupRows * columns_;
    }
    for (; rows != 0; --rows) {
      resize_group<1>(from, taps.weights, at);
      from += kScreenWidth / 2;
      at += columns_;
    }
  }

  template <u32 kCount>
  __device__ CULE_INLINE void resize_group(const u32* from, u32 weights, u32 at) {
    u8* to = target_ + at;
    u32 doubts = 0;  // a bit a row
    for (u32 k = 0; k < kCount; ++k) {
      const u32 n =
          CULE_DOT_HALVES_HIGH(from[k * kScreenWidth / 2 + 1], weights,
                               CULE_DOT_HALVES_LOW(from[k * kScreenWidth / 2], weights, unit_));
      const u32 level = CULE_HIGH_PRODUCT(n, multiplier_) >> shift_;
      if (n - level * divisor_ - first_sure_ >= num_sure_) doubts |= 1u << k;
      *to = u8(level);
      to += columns_;
    }
    const LaneGroup all{~0u};
    while (all.any(doubts != 0)) {
      const u32 lanes = all.ballot(doubts != 0);
      const u32 before = CULE_COUNT_BITS(lanes & ((1u << lane_) - 1));
      if (doubts != 0) {
        doubtful_[num_doubtful_ + before] = u16(at + lowest_bit(doubts) * columns_);
      }
      doubts &= doubts - 1;
      num_doubtful_ += CULE_COUNT_BITS(lanes);
      if (num_doubtful_ + kWarpLanes > kMaxDoubtful) decide();
    }
  }

  __device__ CULE_INLINE void decide() {
    decide_bytes(resizer_, levels_, doubtful_, num_doubtful_, target_);
    num_doubtful_ = 0;
  }
  __device__ CULE_NOINLINE static void decide_bytes(const AreaResizer& r, const LevelPair levels,
                                                    const u16* doubtful, u32 n, u8* target_out) {
    const u32 columns = u32(r.columns.target_size);
    __syncwarp();
    for (u32 i = threadIdx.x % kWarpLanes; i < n; i += kWarpLanes) {
      const u32 at = doubtful[i];
      target_out[at] = resize_pixel(r, levels, i32(at / columns), i32(at % columns), 0);
    }
    __syncwarp();
  }

  const DotResizer& d_;
  const AreaResizer& resizer_;
  const LevelPair levels_;
  u32* const sums_;      // [kRows][kScreenWidth], halves
  u16* const doubtful_;  // [kMaxDoubtful], bytes of the target
  u8* const target_;
  const u32 lane_ = threadIdx.x % kWarpLanes;
  // Of the resizer. The stores of bytes do not change them.
  const u32 columns_, unit_, divisor_, multiplier_, shift_, first_sure_, num_sure_;
  u32 num_doubtful_ = 0;
};

}  // namespace cule
