// cuda/pixel_pool.hpp: memory for pictures that cannot stay logs, a slot a console.
//
// Few consoles need pixels at the same time, so the device has fewer slots than consoles. One that
// finds no slot free near its own place takes the slot that it has in the reserve, memory of the
// host: nothing waits, and results are the same. Where there is a slot for every console, each
// finds its own free, and there is no reserve.
#pragma once

#include "cuda/device_batch.hpp"

namespace cule {

constexpr u32 kSlotsTried = 32;

// Gives a console pixels unless it has some. Called by one thread.
__device__ CULE_NOINLINE inline void take_pixels(const Console& c) {
  SharedFramebuffers& own = *c.memory.shared;
  if (own.pixels != nullptr) return;
  const PixelPool& pool = *own.pool;
  const u32 tried = pool.num_slots < kSlotsTried ? pool.num_slots : kSlotsTried;
  for (u32 n = 0; n < tried; ++n) {
    const u32 slot = (own.console + n) % pool.num_slots;
    if (atomicExch(&pool.is_taken[slot], 1u) != 0) continue;
    __threadfence();  // before writes of this console come those of the one that had the slot
    own.pixels = pool.slots + size_t(slot) * pool.slot_bytes;
    return;
  }
  own.pixels = pool.reserve + size_t(own.console) * pool.slot_bytes;
}

// Takes the pixels back where all pictures of console i are logs. Called by one thread, after the
// others have done with the pixels.
__device__ CULE_NOINLINE inline void return_pixels(const DeviceBatch& b, u32 i) {
  MaxpoolSource& source = b.maxpool_sources[i];
  const PictureState& p = b.states[i].console.picture;
  u8* const pixels = source.shared.pixels;
  if (pixels == nullptr || source.kind == MaxpoolKind::kPixels ||
      p.kind[0] == PictureKind::kPixels || p.kind[1] == PictureKind::kPixels) {
    return;
  }
  source.shared.pixels = nullptr;
  const PixelPool& pool = *b.pool;
  const size_t offset = size_t(pixels) - size_t(pool.slots);  // beyond the pool: in the reserve
  if (offset >= size_t(pool.num_slots) * pool.slot_bytes) return;
  __threadfence();
  atomicExch(&pool.is_taken[offset / pool.slot_bytes], 0u);
}

}  // namespace cule
