// cuda/device_layout.hpp: the layout of a batch in its block of device memory.
//
// In: the games and consoles of a batch. Out: the number of bytes it needs; then, for a block at a
// device address, the constant part as bytes to be copied to its beginning, and the DeviceBatch
// that points into it. A second block, which begins as zeros, is the PixelPool, and memory of the
// host is its reserve. Host code; calls no device.
#pragma once

#include <cstring>
#include <vector>

#include "cuda/device_batch.hpp"
#include "cuda/launchers.hpp"

namespace cule {

// A game on the host, from which its DeviceGame is made.
struct GameSource {
  std::vector<u8> image;  // with the spare bytes that instruction_word() reads
  Bankswitch type;
  ConsoleProperties properties;
  GameFacts facts;  // pointers into the host's memory
  AleSettings ale;
  AgentOptions agent;
  AreaResizer resizer;
  std::vector<i32> actions, step_code, lives_code, objects, modifications;
  u64 key;
};

// The consoles of a batch and how they are spread over warps.
struct BatchSource {
  std::vector<GameSource> games;
  std::vector<ConsoleSetup> setups;
  std::vector<std::vector<u8>> reset_snapshots;  // of each reset set, one after the other
  BatchOptions options;
  Autoreset autoreset;
  u32 log_capacity;  // entries, at most kLogCapacity
  u32 pool_slots;    // of the PixelPool, at most as many as consoles
  u32 lanes_per_warp;
  u32 warps_per_block;
  u32 draw_blocks;
};

class DeviceLayout {
 public:
  explicit DeviceLayout(BatchSource source);

  size_t bytes() const { return bytes_; }
  size_t constant_bytes() const { return constant_bytes_; }
  size_t pool_bytes() const { return pool_bytes_; }
  u32 slot_bytes() const { return pool_.slot_bytes; }
  size_t reserve_bytes() const {
    const size_t n = source_.setups.size();
    return pool_.num_slots < n ? n * pool_.slot_bytes : 0;
  }
  // Before place_at(); a slot for every console unless set.
  void set_pool_slots(u32 slots) {
    source_.pool_slots = slots;
    place_pool(0, 0);
  }
  // Returns the constant_bytes() bytes for the beginning of a block at this address, and makes
  // batch() and tiles() point there.
  std::vector<u8> place_at(u64 address, u64 pool_address, u64 reserve_address);

  const DeviceBatch& batch() const { return batch_; }
  const TileList& tiles(Family family) const { return tiles_[family]; }
  const BatchSource& source() const { return source_; }
  size_t console_bytes() const { return console_bytes_; }
  u32 snapshot_bytes() const { return snapshot_bytes_; }

 private:
  class Writer;
  void lay_out(Writer& w);
  void place_changing(u64 address, size_t offset);
  void place_pool(u64 address, u64 reserve_address);

  BatchSource source_;
  DeviceBatch batch_{};
  PixelPool pool_{};
  TileList tiles_[kFamilies] = {};
  u32 picture_bytes_ = 0;
  u32 snapshot_bytes_ = 0;
  size_t constant_bytes_ = 0;
  size_t pool_bytes_ = 0;
  size_t console_bytes_ = 0;
  size_t bytes_ = 0;
};

}  // namespace cule
