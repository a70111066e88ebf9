// game/objects.hpp: the objects on the screen, computed from RAM.
//
// In: RAM after a frame, and the words that cule/games/objects.py makes of a game's table. Out: a
// row of i16 for each object: x, y, width, height, visible, value (kObjectColumns), saturated.
// Objects that are not visible, and rows that the game does not have, are zeros.
//
// Words: the number of kinds; for each kind of object the number of its groups and of its objects,
// and four words with a bit for each cell of RAM that its objects may read; after each kind its
// groups, whose objects may all read the same cells: the number of objects, the place of the
// program that writes their rows, and the cells. Then the programs, in the order of the groups.
#pragma once

#include <cstring>

#include "game/vm.hpp"

namespace cule {

constexpr u32 kMaxObjects = 2048;
constexpr u32 kCellWords = 4;                // of 128 cells
constexpr u32 kKindWords = 2 + kCellWords;   // groups, objects, cells
constexpr u32 kGroupWords = 2 + kCellWords;  // objects, place, cells
constexpr u32 kFirstKind = 1;                // after the number of kinds
constexpr size_t kObjectBytes = kObjectColumns * sizeof(i16);

// The rows of a group.
struct ObjectRows {
  static constexpr ProgramKind kKind = ProgramKind::kObjects;
  i16* first;
  i16* row = first;

  // Writes all columns of a row; those that the program computes follow.
  CULE_HD void begin(u32 number, const i32* columns) {
    row = first + number * kObjectColumns;
    for (u32 i = 0; i < kObjectColumns; ++i) row[i] = i16(columns[i / 2] >> (16 * (i % 2)));
  }
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
  ObjectRows at{rows};
  const auto is_kept = [&](const i32* cells) {
    return earlier != nullptr && !earlier->changed.meets(cells);
  };
  const i32* kind = words + kFirstKind;
  for (i32 n = 0; n < words[0]; ++n) {
    const i32* group = kind + kKindWords;
    const i32* const end = group + kind[0] * i32(kGroupWords);
    if (is_kept(kind + 2)) {
      at.first += kind[1] * i32(kObjectColumns);
      group = end;
    }
    for (; group < end; group += kGroupWords) {
      if (!is_kept(group + 2)) {
        if (earlier != nullptr) memset(at.first, 0, size_t(group[0]) * kObjectBytes);
        at.row = at.first;
        run_program(words + group[1], slots, memory, at);
      }
      at.first += group[0] * i32(kObjectColumns);
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
  constexpr u32 kFirstPlace = kFirstKind + kKindWords + 1;
  if (size <= kFirstPlace || words[0] < 1) return false;
  const u32 end = u32(words[kFirstPlace]);
  if (end > size) return false;
  u32 program = end, rows = 0, count = 0;
  const auto is_program_until = [&](u32 until) {
    const u32 at = program;
    program = until;
    return at < until && until <= size &&
           find_program_error(words + at, until - at, ProgramKind::kObjects, rows) < 0;
  };
  u32 at = kFirstKind;
  for (i32 n = 0; n < words[0]; ++n) {
    if (at > end || end - at < kKindWords) return false;
    const i32* const kind = words + at;
    at += kKindWords;
    if (kind[0] < 1 || u32(kind[0]) > (end - at) / kGroupWords) return false;
    u32 of_kind = 0;
    for (i32 group = 0; group < kind[0]; ++group, at += kGroupWords) {
      if (words[at] < 1 || u32(words[at]) > kMaxObjects - of_kind) return false;
      if (rows > 0 && !is_program_until(u32(words[at + 1]))) return false;
      rows = u32(words[at]);
      of_kind += rows;
    }
    if (kind[1] < 0 || u32(kind[1]) != of_kind || of_kind > kMaxObjects - count) return false;
    count += of_kind;
  }
  return at == end && is_program_until(size);
}

}  // namespace cule
