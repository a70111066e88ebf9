// cuda/resize_rows.hpp: the area resize of gray pictures in whole numbers, by a warp.
//
// In: two pictures of 160 levels a row, whose maximum is resized. Out: the bytes of resize_pixel().
// First rows are summed, sixteen columns at a time, into shared memory; then columns, with two dot
// products a byte and four bytes a lane. Doubtful bytes are noted, and decided together.
#pragma once

#include "base/bits.hpp"
#include "console/ram.hpp"
#include "cuda/bytes16.hpp"
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

  // `shared`: where kSharedBytes of shared memory of the warp are, from a multiple of 16 bytes on.
  __device__ DotRows(const DotResizer& d, const AreaResizer& r, LevelPair levels, u32 shared,
                     u8* target_out)
      : d_(d),
        resizer_(r),
        levels_(levels),
        shared_(shared),
        doubtful_(reinterpret_cast<u16*>(dynamic_shared() + shared + kSumBytes)),
        target_(target_out),
        columns_(d.num_columns),
        group_rows_(kTurns * kWarpLanes / ((d.num_columns + kQuad - 1) / kQuad)),
        offset_(d.offset),
        divisor_(2 * d.unit),
        multiplier_(d.multiplier),
        shift_(d.shift),
        num_sure_(d.num_sure) {}

  // Rows [begin, end) of the target.
  __device__ void run(u32 begin, u32 end) {
    const bool stores_words =
        columns_ % kQuad == 0 && reinterpret_cast<size_t>(target_) % sizeof(u32) == 0;
    const bool is_paired = d_.is_paired && begin % 2 == 0 && end % 2 == 0;
    const Quad first = quad_of(0), second = quad_of(1);
    for (u32 row = begin; row < end; row += kRows) {
      const u32 rows = end - row < kRows ? end - row : kRows;
      __syncwarp();
      if (is_paired) {
        sum_pairs(row, rows);
      } else {
        sum_rows(row, rows);
      }
      __syncwarp();
      if (stores_words) {
        resize_columns<true>(first, second, row, rows);
      } else {
        resize_columns<false>(first, second, row, rows);
      }
    }
    decide();
  }

 private:
  static constexpr u32 kGroup = sizeof(Bytes16);  // columns that are summed together
  static constexpr u32 kGroups = kScreenWidth / kGroup;
  static constexpr u32 kQuad = 4;  // columns of the target that a lane finds together
  static constexpr u32 kTurns = 2;
  static constexpr u32 kSumRow = kScreenWidth * sizeof(u16);

  // Sixteen columns of the maximum of a row, two in each word.
  struct Columns {
    u32 word[8];
  };
  __device__ CULE_INLINE Columns load(u32 row, u32 group) const {
    const u32 at = row * kGroups + group;
    const Bytes16 a = reinterpret_cast<const Bytes16*>(levels_.first)[at];
    const Bytes16 b = reinterpret_cast<const Bytes16*>(levels_.second)[at];
    Columns out;
    for (u32 w = 0; w < 8; ++w) {
      const u32 selector = w % 2 == 0 ? 0x4140 : 0x4342;
      out.word[w] = CULE_MAX_HALVES(CULE_PICK_BYTES(a.word[w / 2], 0u, selector),
                                    CULE_PICK_BYTES(b.word[w / 2], 0u, selector));
    }
    return out;
  }
  __device__ CULE_INLINE void store(u32 row, u32 group, const Columns& c) const {
    Bytes16* const to =
        reinterpret_cast<Bytes16*>(dynamic_shared() + shared_) + 2 * (row * kGroups + group);
    to[0] = {{c.word[0], c.word[1], c.word[2], c.word[3]}};
    to[1] = {{c.word[4], c.word[5], c.word[6], c.word[7]}};
  }

  __device__ CULE_INLINE void sum_rows(u32 row, u32 rows) const {
    for (u32 i = lane_; i < rows * kGroups; i += kWarpLanes) {
      const DotTaps taps = d_.rows[row + i / kGroups];
      Columns sum{};
      for (u32 tap = 0; tap < kDotTaps; ++tap) {
        const u32 weight = taps.weights >> 8 * tap & 0xFF;
        const Columns c = load(taps.first + tap, i % kGroups);
        for (u32 w = 0; w < 8; ++w) sum.word[w] += weight * c.word[w];
      }
      store(i / kGroups, i % kGroups, sum);
    }
  }

  // Two rows of the target for five of the source.
  __device__ CULE_INLINE void sum_pairs(u32 row, u32 rows) const {
    for (u32 i = lane_; i < rows / 2 * kGroups; i += kWarpLanes) {
      const u32 pair = i / kGroups, group = i % kGroups;
      const u32 from = (row / 2 + pair) * 5;
      const auto add = [](Columns a, const Columns& b, u32 factor) {
        for (u32 w = 0; w < 8; ++w) a.word[w] = a.word[w] * factor + b.word[w];
        return a;
      };
      const Columns shared = load(from + 2, group);
      store(2 * pair, group, add(add(load(from, group), load(from + 1, group), 1), shared, 2));
      store(2 * pair + 1, group,
            add(add(load(from + 3, group), load(from + 4, group), 1), shared, 2));
    }
  }

  // Four columns of the target, and which of the rows that are found together.
  struct Quad {
    u32 row;
    u32 column;
    u32 sums[kQuad];  // where those of each column are in a row, in bytes
    u32 weights[kQuad];
  };
  // Quads from lane to lane, in two turns; lanes beyond the last one repeat it.
  __device__ CULE_INLINE Quad quad_of(u32 turn) const {
    const u32 quads = (columns_ + kQuad - 1) / kQuad;
    const u32 last = group_rows_ * quads - 1;
    const u32 at = turn * kWarpLanes + lane_;
    const u32 quad = at < last ? at : last;
    Quad q{quad / quads, quad % quads * kQuad, {}, {}};
    for (u32 k = 0; k < kQuad; ++k) {
      const u32 column = q.column + k;
      const DotTaps taps = d_.columns[column < columns_ ? column : columns_ - 1];
      q.sums[k] = taps.first * u32(sizeof(u32));
      q.weights[k] = taps.weights;
    }
    return q;
  }

  // The columns of summed rows, which are those from `row` on of the target.
  template <bool kStoresWords>
  __device__ CULE_INLINE void resize_columns(const Quad& a, const Quad& b, u32 row, u32 rows) {
    for (u32 begin = 0; begin < rows; begin += group_rows_) {
      const Resized first = resize_quad<kStoresWords>(a, row, rows, begin);
      const Resized second = resize_quad<kStoresWords>(b, row, rows, begin);
      if (LaneGroup{~0u}.any(first.is_doubtful || second.is_doubtful)) {
        note_doubts(first);
        note_doubts(second);
      }
    }
  }

  struct Resized {
    u32 at;           // of four bytes of the target
    u32 rest[kQuad];  // of the quotients: as many as are sure leave no doubt
    bool is_doubtful;
  };
  template <bool kStoresWords>
  __device__ CULE_INLINE Resized resize_quad(const Quad& q, u32 row, u32 rows, u32 begin) const {
    const u32 summed = begin + q.row < rows ? begin + q.row : rows - 1;
    Resized r{(row + summed) * columns_ + q.column, {}, false};
    u32 level[kQuad];
    for (u32 k = 0; k < kQuad; ++k) {
      const u32* const from =
          reinterpret_cast<const u32*>(dynamic_shared() + (shared_ + summed * kSumRow + q.sums[k]));
      const u32 n = CULE_DOT_HALVES_HIGH(from[1], q.weights[k],
                                         CULE_DOT_HALVES_LOW(from[0], q.weights[k], offset_));
      level[k] = CULE_HIGH_PRODUCT(n, multiplier_) >> shift_;
      if (!kStoresWords && q.column + k >= columns_) continue;
      r.rest[k] = n - level[k] * divisor_;
      r.is_doubtful |= r.rest[k] >= num_sure_;
      if (!kStoresWords) target_[r.at + k] = u8(level[k]);
    }
    if (kStoresWords) {
      const u32 low = CULE_PICK_BYTES(level[0], level[1], 0x0040);
      const u32 high = CULE_PICK_BYTES(level[2], level[3], 0x0040);
      *reinterpret_cast<u32*>(target_ + r.at) = CULE_PICK_BYTES(low, high, 0x5410);
    }
    return r;
  }

  // All lanes call it together.
  __device__ CULE_INLINE void note_doubts(const Resized& r) {
    for (u32 k = 0; k < kQuad; ++k) note_doubt(r.is_doubtful && r.rest[k] >= num_sure_, r.at + k);
  }
  __device__ CULE_INLINE void note_doubt(bool is_doubtful, u32 at) {
    const u32 lanes = LaneGroup{~0u}.ballot(is_doubtful);
    if (is_doubtful) {
      doubtful_[num_doubtful_ + CULE_COUNT_BITS(lanes & ((1u << lane_) - 1))] = u16(at);
    }
    num_doubtful_ += CULE_COUNT_BITS(lanes);
    if (num_doubtful_ + kWarpLanes > kMaxDoubtful) decide();
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
  const u32 shared_;     // sums: [kRows][kScreenWidth], halves
  u16* const doubtful_;  // [kMaxDoubtful], bytes of the target
  u8* const target_;
  const u32 lane_ = threadIdx.x % kWarpLanes;
  // Of the resizer. The stores of bytes do not change them.
  const u32 columns_;
  const u32 group_rows_;  // of the target, that two turns of the lanes find
  const u32 offset_, divisor_, multiplier_, shift_, num_sure_;
  u32 num_doubtful_ = 0;
};

}  // namespace cule
