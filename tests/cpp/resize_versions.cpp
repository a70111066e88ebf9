// The versions of the area resize against each other: plain float32, whole numbers, and AVX2 where
// the machine has it. Also sets of rows, and the max of two pictures. Prints the first difference;
// exit status 1.
#include <cstdio>
#include <vector>

#include "host/resize_simd.hpp"
#include "obs/pool.hpp"
#include "random.hpp"

namespace {

using cule::i32;
using cule::u32;
using cule::u8;

// Noise of few levels (many ties) or many, with some lines repeated as games do.
void fill(Random& random, i32 row_bytes, std::vector<u8>& image_out) {
  u8 levels[16];
  for (u8& level : levels) level = u8(random.next() >> 11);
  const u32 mask = random.next() % 2 == 0 ? 1 : 15;
  const bool repeats_lines = random.next() % 2 == 0;
  for (size_t i = 0; i < image_out.size(); ++i) {
    image_out[i] = levels[random.next() >> 9 & mask];
    if (repeats_lines && i >= size_t(row_bytes) && i / size_t(row_bytes) % 4 != 0) {
      image_out[i] = image_out[i - size_t(row_bytes)];
    }
  }
}

bool check_resize(Random& random, i32 rows, i32 target_rows, i32 target_columns, i32 channels) {
  constexpr i32 kColumns = i32(cule::kScreenWidth);
  constexpr int kImages = 6;
  const cule::ResizePlan fast =
      cule::make_resize_plan(rows, kColumns, target_rows, target_columns, channels);
  const cule::ResizePlan portable =
      cule::make_resize_plan(rows, kColumns, target_rows, target_columns, channels, false);
  std::vector<u8> image(size_t(rows * kColumns * channels));
  const size_t target_bytes = size_t(target_rows * target_columns * channels);
  constexpr u8 kGuard = 0xA5;
  for (int number = 0; number < kImages; ++number) {
    fill(random, kColumns * channels, image);
    std::vector<u8> expected(target_bytes + 1, kGuard);
    cule::resize(fast.resizer, image.data(), expected.data());
    for (const cule::ResizePlan* plan : {&portable, &fast}) {
      std::vector<u8> target(target_bytes + 1, kGuard);
      cule::resize(*plan, image.data(), target.data());
      if (target == expected) continue;
      std::printf("%dx%d to %dx%d, %d channels, image %d, %s\n", rows, kColumns, target_rows,
                  target_columns, channels, number, plan == &fast ? "fast" : "portable");
      return false;
    }
  }
  return true;
}

// Rows that are known not to have changed may be taken from the target of before, in place or not.
bool check_changes(Random& random, i32 rows, i32 target_rows, i32 target_columns, i32 channels) {
  constexpr i32 kColumns = i32(cule::kScreenWidth);
  const size_t row_bytes = size_t(kColumns * channels);
  std::vector<u8> image(size_t(rows) * row_bytes);
  for (const bool may_vectorise : {false, true}) {
    const cule::ResizePlan plan = cule::make_resize_plan(rows, kColumns, target_rows,
                                                         target_columns, channels, may_vectorise);
    fill(random, kColumns * channels, image);
    std::vector<u8> expected(size_t(target_rows * target_columns * channels));
    cule::resize(plan, image.data(), expected.data());
    for (int number = 0; number < 12; ++number) {
      std::vector<u8> before = expected;
      cule::RowSet changed;
      for (u32 stretches = random.next() % 4; stretches > 0; --stretches) {
        const u32 from = random.next() % u32(rows);
        const u32 to = from + random.next() % (u32(rows) - from + 1);
        changed.add(from, to);
        for (size_t i = from * row_bytes; i < to * row_bytes; ++i)
          image[i] = u8(random.next() >> 9);
      }
      cule::resize(plan, image.data(), expected.data());
      std::vector<u8> apart(expected.size());
      cule::resize(plan, image.data(), apart.data(), {&changed, before.data()});
      cule::resize(plan, image.data(), before.data(), {&changed, before.data()});
      if (apart == expected && before == expected) continue;
      std::printf("%d rows changed to %dx%d, %d channels\n", rows, target_rows, target_columns,
                  channels);
      return false;
    }
  }
  return true;
}

bool check_row_set(Random& random) {
  constexpr u32 kRows = cule::kMaxRows;
  for (int number = 0; number < 200; ++number) {
    cule::RowSet set;
    std::vector<bool> model(kRows);
    for (u32 stretches = random.next() % 6; stretches > 0; --stretches) {
      const u32 from = random.next() % (kRows + 1);
      const u32 to = random.next() % (kRows + 1);
      set.add(from, to);
      for (u32 row = from; row < to; ++row) model[row] = true;
    }
    const u32 end = random.next() % (kRows + 1);
    std::vector<bool> seen(kRows);
    set.each_stretch(end, [&](u32 from, u32 to) {
      for (u32 row = from; row < to; ++row) seen[row] = true;
    });
    for (u32 row = 0; row < kRows; ++row) {
      const bool expected = model[row] && row < end;
      if (seen[row] == expected && set.has_any(row, row + 1) == model[row]) continue;
      std::printf("row %u of a set\n", row);
      return false;
    }
  }
  return true;
}

bool check_max(Random& random) {
  std::vector<u8> a(1000);
  std::vector<u8> b(a.size());
  for (u8& level : a) level = u8(random.next() >> 7);
  for (u8& level : b) level = u8(random.next() >> 7);
  std::vector<u8> brighter(a.size());
  for (size_t i = 0; i < a.size(); ++i) brighter[i] = a[i] < b[i] ? b[i] : a[i];
  std::vector<u8> apart(a.size());
  cule::max_rows(apart.data(), a.data(), b.data(), a.size());
  cule::max_rows(a.data(), a.data(), b.data(), a.size());  // in place
  if (apart == brighter && a == brighter) return true;
  std::printf("max_rows\n");
  return false;
}

}  // namespace

int main() {
  Random random;
  const i32 sizes[][2] = {{84, 84},  {96, 72},  {64, 64},   {105, 80},  {105, 84},
                          {210, 84}, {84, 160}, {105, 160}, {200, 159}, {128, 128},
                          {70, 40},  {7, 3},    {1, 160},   {2, 80}};
  for (const i32 rows : {210, 214, 220, 230, 250}) {
    for (const i32 channels : {1, 3}) {
      for (const auto& size : sizes) {
        if (!check_resize(random, rows, size[0], size[1], channels)) return 1;
        if (!check_changes(random, rows, size[0], size[1], channels)) return 1;
      }
    }
  }
  return check_row_set(random) && check_max(random) ? 0 : 1;
}
