// host/frame_store.hpp: the large memory of consoles on the host.
#pragma once

#include <algorithm>
#include <vector>

#include "batch/options.hpp"
#include "host/incremental/renderer.hpp"
#include "host/pages.hpp"
#include "host/zeroed.hpp"

namespace cule {

struct FrameStore {
  TiaWriteLog* logs;  // [kLogSlots]
  IncrementalMemory* incremental;
  u8* pixels;  // of the two pictures, where they are no logs
  u32 picture_bytes;
  LineCache* lines;  // null: none
  u8* rows;          // of its frames, as large as the pictures; null: none

  FrameMemory memory() const { return {logs, pixels, picture_bytes}; }
  u8* picture(u32 n) const { return pixels + size_t(n) * picture_bytes; }

  // Where both pictures are logs.
  void give_back_pixels() const { give_back_pages(pixels, 2 * size_t(picture_bytes)); }

  // Before the first frame, from the thread that plays: memory is mapped by the first write.
  void start(bool draws) const {
    incremental->lines = lines;
    if (lines != nullptr) lines->start(draws, rows, rows == nullptr ? 0 : picture_bytes);
  }
};

// What the stores of a batch have besides logs and pixels.
struct LineMemory {
  bool has_lines = false;  // the line cache
  bool has_rows = false;   // pixels of its frames

  static LineMemory of(const BatchOptions& o) {
    // Without one for sprites, so that there is a plain way for tests to compare the others with.
    const bool has_lines =
        !o.low_memory && o.obs != ObsKind::kSprites && (o.grayscale || !o.draws());
    return {has_lines, has_lines && o.draws()};
  }
};

// The stores of a batch, in pieces: systems refuse a piece that is larger than their memory.
class FrameStores {
 public:
  FrameStores(size_t n, u32 picture_bytes, LineMemory memory = {}) {
    stores_.reserve(n);
    for (size_t made = 0; made < n; made += kPiece)
      add(std::min(kPiece, n - made), picture_bytes, memory);
  }

  // Bytes of a store: those that each step uses, and those that it uses at times.
  static size_t used_bytes(u32 picture_bytes, LineMemory memory) {
    const size_t bytes = sizeof(Logs) + (memory.has_lines ? sizeof(LineCache) : 0) +
                         (memory.has_rows ? 2 * size_t(picture_bytes) : 0);
    return (bytes + kLine - 1) / kLine * kLine;
  }
  static size_t pixel_bytes(u32 picture_bytes) { return 2 * size_t(picture_bytes); }

  const FrameStore& operator[](size_t i) const { return stores_[i]; }

 private:
  static constexpr size_t kPiece = 64;
  static constexpr size_t kLine = 64;  // of the processor's caches, bytes

  struct Logs {
    TiaWriteLog logs[kLogSlots];
    IncrementalMemory incremental;
  };
  static_assert(sizeof(Logs) % alignof(LineCache) == 0);

  void add(size_t n, u32 picture_bytes, LineMemory memory) {
    const size_t stride = used_bytes(picture_bytes, memory);
    pieces_.push_back(make_zeroed<u8>(n * stride));
    u8* at = pieces_.back().get();
    if (memory.has_rows) ask_for_large_pages(at, n * stride);
    pieces_.push_back(make_zeroed<u8>(n * pixel_bytes(picture_bytes)));
    u8* pixels = pieces_.back().get();
    for (size_t i = 0; i < n; ++i, at += stride, pixels += pixel_bytes(picture_bytes)) {
      Logs* const logs = reinterpret_cast<Logs*>(at);
      LineCache* const lines = memory.has_lines ? reinterpret_cast<LineCache*>(logs + 1) : nullptr;
      u8* const rows = memory.has_rows ? reinterpret_cast<u8*>(lines + 1) : nullptr;
      stores_.push_back({logs->logs, &logs->incremental, pixels, picture_bytes, lines, rows});
    }
  }

  std::vector<CallocPtr<u8>> pieces_;
  std::vector<FrameStore> stores_;
};

}  // namespace cule
