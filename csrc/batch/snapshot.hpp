// batch/snapshot.hpp: a snapshot of an environment as bytes: header, state, pictures, observations.
//
// Snapshots of one layout and game are exchangeable between batches, back ends, processes and
// builds of one version of the format: SnapshotHeader, SlotState, the exact random streams
// (resets="exact" only), both pictures, pending actions (where they are delayed), the pooled
// picture, the frame stack. Those of a batch have the size of the longest, and end in zeros.
#pragma once

#include <cstring>

#include "batch/options.hpp"
#include "batch/state.hpp"
#include "console/valid_state.hpp"

namespace cule {

// "ROW" and the version of the format: another one for each change of the structs below or of their
// parts (tests/property/test_golden_snapshots.py notices).
constexpr char kSnapshotVersion = '4';
constexpr u32 kSnapshotName = 0x574F52;
constexpr u32 kSnapshotMagic = kSnapshotName | u32(kSnapshotVersion) << 24;
// Of the snapshots of pure functions on a host (host/logged_row.hpp), which no build need keep.
constexpr u32 kLoggedMagic = kSnapshotName | u32('L') << 24;
constexpr size_t kRowAlignment = 8;

struct SnapshotHeader {
  u32 magic;
  u32 layout;    // layout_code
  u64 key;       // of the game
  u64 checksum;  // of the bytes after the header
};

struct RandomStreams {
  ExactStreams exact;
  Mt19937 noop;
};

// Offsets of the parts of a snapshot, in bytes from the start of the header.
struct SnapshotLayout {
  size_t streams;
  size_t pictures;
  size_t pending;
  size_t pooled;
  size_t stack;
  size_t stack_end;  // zeros from here on
  size_t end;        // of what the checksum covers; a multiple of kRowAlignment
};

inline SnapshotLayout snapshot_layout(const BatchOptions& o, u32 height) {
  SnapshotLayout at;
  at.streams = sizeof(SnapshotHeader) + sizeof(SlotState);
  at.pictures = at.streams + (o.cached_resets ? 0 : sizeof(RandomStreams));
  at.pending = at.pictures + 2 * size_t(height) * kScreenWidth;
  at.pooled = at.pending + o.pending_bytes();
  at.stack = at.pooled + o.pooled_bytes(height);
  at.stack_end = at.stack + o.stack_bytes();
  at.end = (at.stack_end + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  return at;
}

constexpr u32 kSpriteRowsBit = 1u << 15;

// SnapshotHeader.layout: the options that observations and random streams depend on, in bits.
inline u32 layout_code(const BatchOptions& o) {
  const u32 slot_words = sizeof(SlotState) / 8;  // of the build; its lowest 5 bits
  // With objects and sprites the number of rows takes the place of the size. That of RAM, 84 x 84,
  // is more than kMaxObjects if read as rows, and has no kSpriteRowsBit.
  const u32 size = o.obs == ObsKind::kObjects   ? o.object_rows
                   : o.obs == ObsKind::kSprites ? o.max_sprites | kSpriteRowsBit
                                                : u32(o.img_height) | u32(o.img_width) << 8;
  return size | u32(o.stack_num - 1) << 16 | u32(o.grayscale) << 24 | u32(!o.draws()) << 25 |
         u32(o.cached_resets) << 26 | slot_words << 27;
}

// The options that layout_code was given; the others have their defaults.
inline BatchOptions layout_options(u32 code) {
  BatchOptions o;
  o.img_height = i32(code & 0xFF);
  o.img_width = i32(code >> 8 & 0xFF);
  o.stack_num = i32(code >> 16 & 0xFF) + 1;
  o.grayscale = (code >> 24 & 1) != 0;
  if (code >> 25 & 1) {
    const u32 rows = code & 0xFFFF;
    o.obs = rows & kSpriteRowsBit ? ObsKind::kSprites
            : rows <= kMaxObjects ? ObsKind::kObjects
                                  : ObsKind::kRam;
    if (o.obs == ObsKind::kObjects) o.object_rows = rows;
    if (o.obs == ObsKind::kSprites) o.max_sprites = rows & ~kSpriteRowsBit;
    o.img_height = o.img_width = 84;
  }
  o.cached_resets = (code >> 26 & 1) != 0;
  return o;
}

// Of the n bytes after a header.
CULE_HD inline u64 checksum_of(const u8* data, size_t n) {
  u64 h = 0x9E3779B97F4A7C15ULL;
  for (; n >= 8; n -= 8, data += 8) {
    u64 word;
    memcpy(&word, data, sizeof word);
    h = (h ^ word) * 0x9FB21C651E98DF25ULL;
    h ^= h >> 32;
  }
  for (; n > 0; --n, ++data) h = (h ^ *data) * 0x100000001B3ULL;
  return mix64(h);
}

// Why a snapshot cannot be restored.
enum class SnapshotError : u8 {
  kNone,
  kNotARow,
  kOtherVersion,
  kOtherGame,
  kOtherLayout,
  kDamaged,
  kOfPureFunctions
};

// Whether the environment of a snapshot can be run: a checksum is no proof, because anybody can
// compute it.
CULE_HD inline bool is_valid_slot(const SlotState& s, const ConsoleProperties& p, Bankswitch type,
                                  u32 stack_num, u32 num_modifications, i32 max_action_delay) {
  return s.newest_frame < stack_num && s.has_reset <= 1 && s.is_ended <= 1 &&
         is_valid_state(s.console, p, type) &&
         is_valid_env(s.env, num_modifications, max_action_delay) && is_valid_agent(s.agent) &&
         is_valid_agent(s.reported);
}

// Of the pending actions of a snapshot.
CULE_HD inline bool has_valid_pending(const u8* row, const SnapshotLayout& at) {
  bool is_valid = true;
  Command pending;
  for (size_t i = at.pending; i < at.pooled; i += sizeof pending) {
    memcpy(&pending, row + i, sizeof pending);
    is_valid &= is_valid_strength(pending.strength);
  }
  return is_valid;
}

// What the snapshots of a game and of a batch's options have in common.
struct SnapshotOwner {
  u32 layout;
  u64 key;
  SnapshotLayout at;
  Bankswitch type;
  u32 stack_num;
  u32 num_modifications;
  i32 max_action_delay;
};

CULE_HD inline SnapshotError find_snapshot_error(const u8* row, const SnapshotOwner& owner,
                                                 const ConsoleProperties& properties) {
  SnapshotHeader h;
  memcpy(&h, row, sizeof h);
  if ((h.magic & 0xFFFFFF) != kSnapshotName) return SnapshotError::kNotARow;
  if (h.magic == kLoggedMagic) return SnapshotError::kOfPureFunctions;
  if (h.magic != kSnapshotMagic) return SnapshotError::kOtherVersion;
  if (h.key != owner.key) return SnapshotError::kOtherGame;
  if (h.layout != owner.layout) return SnapshotError::kOtherLayout;
  if (h.checksum != checksum_of(row + sizeof h, owner.at.end - sizeof h))
    return SnapshotError::kDamaged;
  SlotState s;
  memcpy(&s, row + sizeof h, sizeof s);
  const bool is_valid = is_valid_slot(s, properties, owner.type, owner.stack_num,
                                      owner.num_modifications, owner.max_action_delay) &&
                        has_valid_pending(row, owner.at);
  return is_valid ? SnapshotError::kNone : SnapshotError::kDamaged;
}

}  // namespace cule
