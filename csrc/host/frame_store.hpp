// host/frame_store.hpp: the large memory of a console on the host.
#pragma once

#include "host/incremental/renderer.hpp"

namespace cule {

// Zeroed memory is a valid FrameStore.
struct FrameStore {
  TiaWriteLog logs[kLogSlots];
  u8 pixels[2][kMaxRows * kScreenWidth];
  IncrementalMemory incremental;

  FrameMemory memory() { return {logs, pixels[0], u32(sizeof pixels[0])}; }
};

}  // namespace cule
