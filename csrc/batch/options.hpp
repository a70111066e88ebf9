// batch/options.hpp: the options of a batch, on any back end.
#pragma once

#include "console/sprites.hpp"
#include "env/agent.hpp"
#include "game/objects.hpp"

namespace cule {

enum class Autoreset : u8 { kNextStep, kSameStep, kDisabled };

enum class ObsKind : u8 { kImage, kRam, kObjects, kSprites };

struct BatchOptions {
  i32 num_threads = 0;              // host only
  i32 thread_affinity_offset = -1;  // host only
  bool low_memory = false;          // host only: without the line cache
  AgentOptions agent{};
  bool use_fire_reset = true;
  float repeat_action_probability = 0.0f;
  i32 stack_num = 4;
  i32 img_height = 84;
  i32 img_width = 84;
  bool grayscale = true;
  bool maxpool = true;
  ObsKind obs = ObsKind::kImage;
  u32 object_rows = 0;   // of an observation of objects: those of the game with the most
  u32 max_sprites = 64;  // rows of an observation of sprites
  bool full_action_space = false;
  bool continuous = false;
  float continuous_action_threshold = 0.5f;
  Autoreset autoreset = Autoreset::kNextStep;
  bool cached_resets = false;
  i32 num_reset_states = 30;
  i32 num_players = 1;       // of every game of the batch
  i32 max_action_delay = 0;  // of all environments

  u32 channels() const { return grayscale ? 1 : 3; }
  bool draws() const { return obs == ObsKind::kImage; }
  size_t frame_bytes() const {
    if (obs == ObsKind::kRam) return kRamBytes;
    if (obs == ObsKind::kObjects) return object_rows * kObjectBytes;
    if (obs == ObsKind::kSprites) return max_sprites * kSpriteBytes;
    return size_t(img_height) * size_t(img_width) * channels();
  }
  u32 frames_per_obs() const { return obs == ObsKind::kRam ? 1 : u32(stack_num); }
  size_t obs_bytes() const { return frame_bytes() * frames_per_obs(); }
  size_t stack_bytes() const { return obs == ObsKind::kRam ? 0 : obs_bytes(); }
  size_t pending_bytes() const {
    return size_t(max_action_delay) * size_t(num_players) * sizeof(Command);
  }
  size_t pooled_bytes(u32 height) const {
    return draws() ? size_t(height) * kScreenWidth * channels() : 0;
  }
};

}  // namespace cule
