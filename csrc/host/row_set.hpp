// host/row_set.hpp: a set of rows of the picture.
#pragma once

#include "base/bits.hpp"
#include "tia/clocks.hpp"

namespace cule {

class RowSet {
 public:
  static RowSet all() {
    RowSet rows;
    for (u64& w : rows.word_) w = ~0ULL;
    return rows;
  }

  // The rows [from, to).
  void add(u32 from, u32 to) {
    for (u32 w = 0; w < kWords; ++w) word_[w] |= range_bits(w, from, to);
  }
  void add(const RowSet& rows) {
    for (u32 w = 0; w < kWords; ++w) word_[w] |= rows.word_[w];
  }

  bool has_any(u32 from, u32 to) const { return next(from, to, 0) < to; }

  // Calls use(from, to) for each stretch of rows below `end`.
  template <class Use>
  void each_stretch(u32 end, Use use) const {
    for (u32 from = next(0, end, 0); from < end;) {
      const u32 to = next(from, end, ~0ULL);
      use(from, to);
      from = next(to, end, 0);
    }
  }

 private:
  static constexpr u32 kWords = (kMaxRows + 63) / 64;

  // The first row from `from` on whose bit differs from those of `same`; at most `end`.
  u32 next(u32 from, u32 end, u64 same) const {
    while (from < end) {
      const u64 left = (word_[from / 64] ^ same) >> (from % 64);
      if (left != 0) {
        from += u32(CULE_COUNT_TRAILING_ZEROS_64(left));
        break;
      }
      from = (from / 64 + 1) * 64;
    }
    return from < end ? from : end;
  }

  u64 word_[kWords] = {};
};

}  // namespace cule
