// batch/snapshot_errors.hpp: why a snapshot cannot be restored, in words.
#pragma once

#include <string>

#include "batch/snapshot.hpp"

namespace cule {

// For a message; `game_id` is the game of the environment that the snapshot was to be restored
// into.
inline std::string text_of(SnapshotError fault, i32 env, const std::string& game_id) {
  switch (fault) {
    case SnapshotError::kNone:
      return "";
    case SnapshotError::kNotARow:
      return "not a snapshot";
    case SnapshotError::kOtherVersion:
      return "saved in another version of the snapshot format; this build reads version " +
             std::string(1, kSnapshotVersion) +
             ". Make it again here from the seed and the actions that led to it";
    case SnapshotError::kOtherGame:
      return "saved from another game than environment " + std::to_string(env) + " runs (" +
             game_id + "), or with other modifications";
    case SnapshotError::kOtherLayout:
      return "saved from an environment with other observations or another resets option";
    case SnapshotError::kOfPureFunctions:
      return "of xla_pure(); set_state() and get_state() of environments on a CPU make of it what "
             "others take";
    default:
      return "the bytes are corrupted";
  }
}

}  // namespace cule
