// The resize of cuda/resize_rows.hpp, by warps under the lockstep shim, against the plain one:
// noise of few levels (many ties) or many, every height of the games, several targets, and the
// maximum of two pictures. Prints the first difference; exit status 1.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "cuda/launch.hpp"
#include "cuda/resize_rows.hpp"
#include "random.hpp"

namespace {

using namespace cule;

constexpr u32 kColumns = kScreenWidth;

__global__ void resize_kernel(const DotResizer& d, const AreaResizer& r, LevelPair levels,
                              u8* target_out) {
  const u32 warp = threadIdx.x / kWarpLanes;
  DotRows(d, r, levels, warp * DotRows::kSharedBytes, target_out)
      .run(d.num_rows * warp / 2, d.num_rows * (warp + 1) / 2);
}

bool check(Random& random, u32 rows, u32 target_rows, u32 target_columns) {
  const AreaResizer r =
      make_area_resizer(i32(rows), i32(kColumns), i32(target_rows), i32(target_columns), 1);
  const DotResizer d = make_dot_resizer(r);
  if (!d.is_usable) {
    std::printf("%ux%u to %ux%u is not resized so\n", rows, kColumns, target_rows, target_columns);
    return false;
  }
  for (u32 image = 0; image < 8; ++image) {
    std::vector<u32> pictures[2];
    const u32 mask = image % 2 == 0 ? 1 : 15;
    u8 levels[16];
    for (u8& level : levels) level = u8(random.next() >> 11);
    for (std::vector<u32>& picture : pictures) {
      picture.resize(rows * kColumns / 4);
      for (u32& word : picture) {
        for (u32 k = 0; k < 32; k += 8) word = word << 8 | levels[random.next() >> 9 & mask];
      }
    }
    const LevelPair pair{reinterpret_cast<const u8*>(pictures[0].data()),
                         reinterpret_cast<const u8*>(pictures[image % 3 == 0 ? 0 : 1].data())};
    std::vector<u8> both(rows * kColumns);
    for (u32 i = 0; i < both.size(); ++i) both[i] = std::max(pair.first[i], pair.second[i]);
    std::vector<u8> expected(target_rows * target_columns + 1, 7), actual = expected;
    resize(r, both.data(), expected.data());
    launch_kernel(resize_kernel, dim3(1), dim3(2 * kWarpLanes), 2 * DotRows::kSharedBytes, nullptr,
                  d, r, pair, actual.data());
    if (actual == expected) continue;
    const u32 at =
        u32(std::mismatch(actual.begin(), actual.end(), expected.begin()).first - actual.begin());
    std::printf("%u rows to %ux%u, image %u: row %u, column %u is %u instead of %u\n", rows,
                target_rows, target_columns, image, at / target_columns, at % target_columns,
                actual[at], expected[at]);
    return false;
  }
  return true;
}

}  // namespace

int main() {
  Random random;
  for (const u32 rows : {210, 214, 220, 230, 250}) {
    if (!check(random, rows, 84, 84) || !check(random, rows, 85, 84)) return 1;
    if (!check(random, rows, 100, 101)) return 1;
  }
  return check(random, 210, 126, 120) && check(random, 210, 84, 81) ? 0 : 1;
}
