// host/frame_store.hpp: the large memory of a console on the host.
#pragma once

#include <algorithm>
#include <vector>

#include "host/incremental/renderer.hpp"
#include "host/large_pages.hpp"
#include "host/zeroed.hpp"

namespace cule {

// Zeroed memory is a valid FrameStore.
struct FrameStore {
  TiaWriteLog logs[kLogSlots];
  u8 pixels[2][kMaxRows * kScreenWidth];
  IncrementalMemory incremental;

  FrameMemory memory() { return {logs, pixels[0], u32(sizeof pixels[0])}; }
};

// The stores of a batch, in pieces: systems refuse a piece that is larger than their memory.
class FrameStores {
 public:
  FrameStores(size_t n, bool has_pictures) {
    for (size_t made = 0; made < n; made += kPiece) {
      const size_t size = std::min(kPiece, n - made);
      pieces_.push_back(make_zeroed<FrameStore>(size));
      if (has_pictures) ask_for_large_pages(pieces_.back().get(), size);
    }
  }

  FrameStore& operator[](size_t i) const { return pieces_[i / kPiece].get()[i % kPiece]; }

 private:
  static constexpr size_t kPiece = 64;

  std::vector<CallocPtr<FrameStore>> pieces_;
};

}  // namespace cule
