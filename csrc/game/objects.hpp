// game/objects.hpp: the objects on the screen, computed from RAM.
//
// In: RAM after a frame, and the words that cule/games/objects.py makes of a game's table. Out: a
// row of i16 for each object: x, y, width, height, visible, value (kObjectColumns), saturated.
// Objects that are not visible, and rows that the game does not have, are zeros.
//
// Words: the number of kinds; for each kind the count of objects, the place of the program, and
// four words with a bit for each cell of RAM that it may read; then the programs. The first one,
// right after the kinds, computes names that all others use; each other one is run for every object
// of its kind, whose number is in kIndexSlot.
#pragma once

#include <cstring>

#include "game/vm.hpp"

namespace cule {

constexpr u32 kMaxObjects = 2048;
constexpr u32 kKindWords = 6;  // count, place, cells
constexpr u32 kCellWords = 4;  // of 128 cells
constexpr size_t kObjectBytes = kObjectColumns * sizeof(i16);

struct ObjectRow {
  static constexpr ProgramKind kKind = ProgramKind::kObjects;
  i16* row;

  CULE_HD void emit(u32 column, i32 value) {
    row[column] = i16(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
  }
};

// The rows of an earlier time, and a bit for each cell of RAM that has changed since.
struct EarlierObjects {
  const i16* rows;
  u32 changed[kCellWords];
};

// earlier: kinds that read none of the changed cells are copied from there, which may be `rows`;
// null: none are.
CULE_HD inline void write_objects(const i32* words, const u8* ram, const u8* cart_ram, u32 num_rows,
                                  i16* rows, const EarlierObjects* earlier = nullptr) {
  const RuleMemory memory{ram, cart_ram};
  i32 slots[kMaxSlots] = {};
  ObjectRow object{rows};
  const i32* kinds = words + 1;
  run_program(kinds + kKindWords * words[0], slots, memory, object);
  for (i32 kind = 0; kind < words[0]; ++kind, kinds += kKindWords) {
    const size_t at = size_t(object.row - rows), size = size_t(kinds[0]) * kObjectColumns;
    u32 changed = earlier == nullptr;
    for (u32 i = 0; i < kCellWords && earlier != nullptr; ++i)
      changed |= earlier->changed[i] & u32(kinds[2 + i]);
    if (!changed) {
      const i16* from = earlier->rows + at;
      if (from != object.row) memcpy(object.row, from, size * sizeof(i16));
      object.row += size;
      continue;
    }
    for (size_t i = 0; i < size; ++i) object.row[i] = 0;
    for (slots[kIndexSlot] = 0; slots[kIndexSlot] < kinds[0]; ++slots[kIndexSlot]) {
      run_program(words + kinds[1], slots, memory, object);
      object.row += kObjectColumns;
    }
  }
  for (i16* rest = object.row; rest < rows + num_rows * kObjectColumns; ++rest) *rest = 0;
}

inline u32 count_objects(const i32* words) {
  u32 count = 0;
  for (i32 kind = 0; kind < words[0]; ++kind) count += u32(words[1 + kKindWords * kind]);
  return count;
}

// Whether write_objects stays within the words and kMaxObjects rows.
inline bool is_valid_objects(const i32* words, u32 size) {
  if (size < 1 || words[0] < 1 || u32(words[0]) >= size / kKindWords) return false;
  const u32 start = 1 + kKindWords * u32(words[0]);
  u32 count = 0;
  for (u32 kind = 0; kind <= u32(words[0]); ++kind) {  // the first program, then those of kinds
    const i32* entry = words + 1 + kKindWords * kind;
    const i32 at = kind == 0 ? i32(start) : entry[1 - i32(kKindWords)];
    const bool is_last = kind == u32(words[0]);
    const i32 end = is_last ? i32(size) : entry[1];
    if (at < i32(start) || end <= at || u32(end) > size) return false;
    if (find_program_error(words + at, u32(end - at), ProgramKind::kObjects) >= 0) return false;
    if (is_last) continue;
    if (entry[0] < 1 || u32(entry[0]) > kMaxObjects - count) return false;
    count += u32(entry[0]);
  }
  return true;
}

}  // namespace cule
