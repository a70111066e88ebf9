// host/logged_row.hpp: the snapshots that pure functions pass from step to step.
//
// They have the layout of batch/snapshot.hpp, with three differences that make them cheap. A
// picture that is a log stays one, in the place of its pixels, and what follows it there is zero.
// Collision latches that the logs tell are left out, because which of them have been recorded
// depends on what the console played before. The checksum is a faster one, over what is in use. So
// the bytes are a function of the environment alone, which knows those that it wrote last by their
// checksum, and need not restore them.
#pragma once

#include <array>
#include <cstring>

#include "batch/snapshot.hpp"
#include "console/latches.hpp"

namespace cule {

// The part of a log before its entries.
struct LogHead {
  TiaState start;
  Beam start_beam;
  u32 base_clock;
  u32 first_line;
  u32 size;
};
static_assert(sizeof(LogHead) == log_bytes(0));
static_assert(sizeof(TiaWriteLog) <= kMinHeight * kScreenWidth);

// Of the log of a snapshot: latches are found from its entries, or need not be.
inline void clear_latches(u8* log) {
  LogHead head;
  std::memcpy(&head, log, sizeof head);
  head.start.collisions = head.start.missing_latches = 0;
  std::memcpy(log, &head, sizeof head);
}

inline bool clears_latches(const TiaWriteLog& log) {
  for (u32 i = 0; i < log.size; ++i) {
    if (log_register(log.entries[i]) == CXCLR) return true;
  }
  return false;
}

// A state as such a snapshot has it. Where the log of the last frame holds a CXCLR, it tells all
// latches.
inline SlotState logged_state(const SlotState& state, const TiaWriteLog* logs) {
  SlotState s = state;
  PictureState& p = s.console.picture;
  const bool is_log = p.kind[p.current] == PictureKind::kLog;
  if (is_log && clears_latches(logs[p.log_slot[p.current]])) {
    s.console.tia.collisions = 0;
    s.console.tia.missing_latches = kAllLatches;
  }
  for (u32 n = 0; n < 2; ++n) p.log_slot[n] = p.kind[n] == PictureKind::kLog ? u8(n) : u8(0);
  p.recording_slot = kLogSlots - 1;
  return s;
}

using PictureBytes = std::array<size_t, 2>;

// Where the parts of a snapshot are.
struct LoggedRow {
  const u8* row;
  const SnapshotLayout at;
  size_t picture;  // bytes

  bool is_one() const { return read<SnapshotHeader>(0).magic == kLoggedMagic; }
  SlotState state() const { return read<SlotState>(sizeof(SnapshotHeader)); }
  LogHead head(u32 n) const { return read<LogHead>(at.pictures + n * picture); }
  const u8* picture_of(u32 n) const { return row + at.pictures + n * picture; }

  // Bytes of the pictures, of which logs have at most kLogCapacity entries.
  PictureBytes used(const PictureState& p) const {
    PictureBytes bytes{};
    for (u32 n = 0; n < 2; ++n)
      bytes[n] = p.kind[n] == PictureKind::kLog ? log_bytes(head(n).size) : picture;
    return bytes;
  }

  u64 checksum(const PictureBytes& used) const {
    u64 h = lanes(0, row + sizeof(SnapshotHeader), at.pictures - sizeof(SnapshotHeader));
    for (u32 n = 0; n < 2; ++n) h = lanes(h, picture_of(n), used[n]);
    return lanes(h, row + at.pending, at.stack_end - at.pending);
  }

  SnapshotError find_error(const SnapshotOwner& owner, const ConsoleProperties& properties) const {
    const auto h = read<SnapshotHeader>(0);
    if (h.key != owner.key) return SnapshotError::kOtherGame;
    if (h.layout != owner.layout) return SnapshotError::kOtherLayout;
    SlotState s = state();
    PictureState& p = s.console.picture;
    bool is_valid = p.current < 2;
    for (u32 n = 0; is_valid && n < 2; ++n) {
      if (p.kind[n] == PictureKind::kLog)
        is_valid = p.log_slot[n] == n && is_valid_log(n, properties);
    }
    if (!is_valid || p.recording_slot != kLogSlots - 1 || h.checksum != checksum(used(p)))
      return SnapshotError::kDamaged;
    if (p.kind[p.current] == PictureKind::kLog) s.console.tia.missing_latches = 0;
    for (PictureKind& kind : p.kind) {
      if (kind == PictureKind::kLog) kind = PictureKind::kPixels;
    }
    return is_valid_slot(s, properties, owner.type, owner.stack_num, owner.num_modifications,
                         owner.max_action_delay) &&
                   has_valid_pending(row, owner.at)
               ? SnapshotError::kNone
               : SnapshotError::kDamaged;
  }

 private:
  template <class T>
  T read(size_t from) const {
    T value;
    std::memcpy(&value, row + from, sizeof value);
    return value;
  }

  // Drawing such a log stays within a picture.
  bool is_valid_log(u32 n, const ConsoleProperties& p) const {
    const LogHead log = head(n);
    return log.size <= kLogCapacity && is_valid_tia(log.start) &&
           is_valid_beam(log.start_beam, p) &&
           (log.first_line == 0 || log.first_line == p.first_line);
  }

  // Several sums at a time: a multiplication need not wait for the one before.
  static u64 lanes(u64 start, const u8* data, size_t n) {
    constexpr u32 kLanes = 8;
    u64 sums[kLanes];
    for (u32 i = 0; i < kLanes; ++i) sums[i] = start + i;
    for (; n >= sizeof sums; n -= sizeof sums, data += sizeof sums) {
      u64 words[kLanes];
      std::memcpy(words, data, sizeof words);
      for (u32 i = 0; i < kLanes; ++i) sums[i] = (sums[i] + words[i]) * 0x9FB21C651E98DF25ULL;
    }
    u8 bytes[sizeof sums];
    std::memcpy(bytes, sums, sizeof sums);
    return checksum_of(bytes, sizeof bytes) ^ checksum_of(data, n);
  }
};

}  // namespace cule
