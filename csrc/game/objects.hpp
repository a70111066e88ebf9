// game/objects.hpp: the objects on the screen, computed from RAM.
//
// In: RAM after a frame, and the words that cule/games/objects.py makes of a game's table. Out: a
// row of i16 for each object: x, y, width, height, visible, value (kObjectColumns), saturated.
// Objects that are not visible, and rows that the game does not have, are zeros.
//
// Words: the number of groups; for each group the count of objects, the number of the first within
// its kind, the place of the program, and four words with a bit for each cell of RAM that its
// objects may read; then the programs. The first one, right after the groups, computes names that
// all others use; each other one is run for every object of its groups, with the object's number in
// kIndexSlot. Groups of one program follow each other.
#pragma once

#include <cstring>

#include "game/vm.hpp"

namespace cule {

constexpr u32 kMaxObjects = 2048;
constexpr u32 kGroupWords = 7;  // count, first, place, cells
constexpr u32 kCellWords = 4;   // of 128 cells
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
    CellSet set{};
    for (u32 at = 0; at < 32 * kCellWords; at += 8) {
      u64 x, y;
      memcpy(&x, a + at, 8);
      memcpy(&y, b + at, 8);
      if ((x ^= y) == 0) continue;
      for (u32 i = 0; i < 8; ++i, x >>= 8)
        set.word[at / 32] |= u32((x & 0xFF) != 0) << (at % 32 + i);
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
  const i32* group = words + 1;
  const i32* const end = group + kGroupWords * words[0];
  run_program(end, slots, memory, object);
  for (; group < end; group += kGroupWords) {
    if (earlier != nullptr && !earlier->changed.meets(group + 3)) {
      object.row += group[0] * i32(kObjectColumns);
      continue;
    }
    for (i32 i = 0; i < group[0]; ++i, object.row += kObjectColumns) {
      slots[kIndexSlot] = group[1] + i;
      if (earlier != nullptr) memset(object.row, 0, kObjectBytes);
      run_program(words + group[2], slots, memory, object);
    }
  }
}

inline u32 count_objects(const i32* words) {
  u32 count = 0;
  for (i32 group = 0; group < words[0]; ++group) count += u32(words[1 + kGroupWords * group]);
  return count;
}

// Whether write_objects stays within the words and kMaxObjects rows.
inline bool is_valid_objects(const i32* words, u32 size) {
  if (size < 1 || words[0] < 1 || u32(words[0]) >= size / kGroupWords) return false;
  const i32* const first = words + 1;
  const i32* const end = first + kGroupWords * words[0];
  const auto is_program = [&](i32 at, i32 until) {
    return at >= end - words && until > at && u32(until) <= size &&
           find_program_error(words + at, u32(until - at), ProgramKind::kObjects) < 0;
  };
  if (!is_program(i32(end - words), first[2])) return false;
  u32 count = 0;
  for (const i32* group = first; group < end; group += kGroupWords) {
    if (group[0] < 1 || u32(group[0]) > kMaxObjects - count) return false;
    if (group[1] < 0 || u32(group[1]) >= kMaxObjects) return false;
    count += u32(group[0]);
    const bool is_last = group + kGroupWords == end;
    const i32 until = is_last ? i32(size) : group[kGroupWords + 2];
    if (!(until == group[2] && !is_last) && !is_program(group[2], until)) return false;
  }
  return true;
}

}  // namespace cule
