// game/objects.hpp: the objects on the screen, computed from RAM.
//
// In: RAM after a frame, and the words that cule/games/objects.py makes of a game's table. Out: a
// row of i16 for each object: x, y, width, height, visible, value (kObjectColumns), saturated.
// Objects that are not visible, and rows that the game does not have, are zeros.
//
// Words: the number of kinds and the place of the first program; for each kind of object the number
// of its groups and of its objects, the place of its program, and four words with a bit for each
// cell of RAM that its objects may read; after each kind its groups: the number of objects, and the
// cells that these may read. Then the programs. The first one computes names that all others use;
// that of a kind is run for each object, with its number within the kind in kIndexSlot. A kind of a
// few objects in the table is a kind for each of them here.
#pragma once

#include <cstring>

#include "game/vm.hpp"

namespace cule {

constexpr u32 kMaxObjects = 2048;
constexpr u32 kCellWords = 4;                // of 128 cells
constexpr u32 kKindWords = 3 + kCellWords;   // groups, objects, place, cells
constexpr u32 kGroupWords = 1 + kCellWords;  // objects, cells
constexpr u32 kFirstKind = 2;                // after the number of kinds and a place
constexpr size_t kObjectBytes = kObjectColumns * sizeof(i16);

struct ObjectRow {
  static constexpr ProgramKind kKind = ProgramKind::kObjects;
  i16* row;

  CULE_HD void emit(u32 column, i32 value) {
    row[column] = i16(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
  }
};

// Cells of RAM as a bit for each.
struct CellSet {
  u32 word[kCellWords];

  // Those that differ between two RAMs.
  CULE_HD static CellSet differing(const u8* a, const u8* b) {
    constexpr u64 kLow = 0x7F7F7F7F7F7F7F7F;
    CellSet set{};
    for (u32 at = 0; at < 32 * kCellWords; at += 8) {
      u64 x, y;
      memcpy(&x, a + at, 8);
      memcpy(&y, b + at, 8);
      x ^= y;
      x = (((x & kLow) + kLow) | x) & ~kLow;  // bit 7 of each byte that is not 0
      const u64 bits = ((x >> 7) * 0x0102040810204080) >> 56;
      set.word[at / 32] |= u32(bits) << (at % 32);
    }
    return set;
  }
  CULE_HD CULE_INLINE bool meets(const i32* words) const {
    u32 both = 0;
    for (u32 i = 0; i < kCellWords; ++i) both |= word[i] & u32(words[i]);
    return both != 0;
  }
};

// The rows of an earlier time, and the cells of RAM that have changed since.
struct EarlierObjects {
  const i16* rows;
  CellSet changed;
};

// earlier: rows of groups that read none of the changed cells are taken from there, which may be
// `rows`; null: none are.
CULE_HD inline void write_objects(const i32* words, const u8* ram, const u8* cart_ram, u32 num_rows,
                                  i16* rows, const EarlierObjects* earlier = nullptr) {
  const size_t size = num_rows * kObjectBytes;
  if (earlier == nullptr)
    memset(rows, 0, size);
  else if (earlier->rows != rows)
    memcpy(rows, earlier->rows, size);
  const RuleMemory memory{ram, cart_ram};
  i32 slots[kMaxSlots] = {};
  ObjectRow object{rows};
  run_program(words + words[1], slots, memory, object);
  const auto is_kept = [&](const i32* cells) {
    return earlier != nullptr && !earlier->changed.meets(cells);
  };
  const i32* kind = words + kFirstKind;
  for (i32 n = 0; n < words[0]; ++n) {
    const i32* group = kind + kKindWords;
    const i32* const end = group + kind[0] * i32(kGroupWords);
    const i32* const program = words + kind[2];
    if (is_kept(kind + 3)) {
      object.row += kind[1] * i32(kObjectColumns);
      group = end;
    }
    for (i32 number = 0; group < end; group += kGroupWords) {
      const i32 after = number + group[0];
      if (is_kept(group + 1)) {
        object.row += group[0] * i32(kObjectColumns);
        number = after;
      }
      for (; number < after; ++number, object.row += kObjectColumns) {
        slots[kIndexSlot] = number;
        if (earlier != nullptr) memset(object.row, 0, kObjectBytes);
        run_program(program, slots, memory, object);
      }
    }
    kind = end;
  }
}

inline u32 count_objects(const i32* words) {
  u32 count = 0;
  const i32* kind = words + kFirstKind;
  for (i32 n = 0; n < words[0]; ++n, kind += kKindWords + u32(kind[0]) * kGroupWords)
    count += u32(kind[1]);
  return count;
}

// Whether write_objects stays within the words and kMaxObjects rows.
inline bool is_valid_objects(const i32* words, u32 size) {
  if (size < kFirstKind || words[0] < 1) return false;
  if (words[1] < i32(kFirstKind) || u32(words[1]) > size) return false;
  u32 program = u32(words[1]), count = 0;
  const auto is_program_until = [&](u32 until) {
    const u32 at = program;
    program = until;
    return at < until && until <= size &&
           find_program_error(words + at, until - at, ProgramKind::kObjects) < 0;
  };
  u32 at = kFirstKind;
  const u32 end = program;
  for (i32 n = 0; n < words[0]; ++n) {
    if (end - at < kKindWords) return false;
    const i32* const kind = words + at;
    at += kKindWords;
    if (kind[0] < 1 || u32(kind[0]) > (end - at) / kGroupWords) return false;
    if (kind[2] < 0 || !is_program_until(u32(kind[2]))) return false;
    u32 of_kind = 0;
    for (i32 group = 0; group < kind[0]; ++group, at += kGroupWords) {
      if (words[at] < 1 || u32(words[at]) > kMaxObjects - of_kind) return false;
      of_kind += u32(words[at]);
    }
    if (kind[1] < 0 || u32(kind[1]) != of_kind || of_kind > kMaxObjects - count) return false;
    count += of_kind;
  }
  return at == end && is_program_until(size);
}

}  // namespace cule
