// batch/snapshot_errors.hpp: why a saved console is refused, in words.
#pragma once

#include <string>

#include "batch/snapshot.hpp"

namespace cule {

// For a message; `game_id` is the game of the console that should have taken the row.
inline std::string text_of(SnapshotError fault, i32 console, const std::string& game_id) {
  switch (fault) {
    case SnapshotError::kNone:
      return "";
    case SnapshotError::kNotARow:
      return "not a saved console";
    case SnapshotError::kOtherGame:
      return "saved from another game than environment " + std::to_string(console) + " runs (" +
             game_id + ")";
    case SnapshotError::kOtherLayout:
      return "saved from an environment with other observations or the other kind of resets";
    default:
      return "the bytes are corrupted";
  }
}

}  // namespace cule
