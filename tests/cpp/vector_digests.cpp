// Digests of the results of vectorised routines on random input. The test compiles this twice, once
// with CULE_PLAIN, and compares the output.
#include <cstdio>
#include <cstring>
#include <vector>

#include "host/incremental/cached_renderer.hpp"
#include "host/resize_simd.hpp"
#include "obs/pool.hpp"
#include "random.hpp"
#include "tia/span.hpp"

#if defined(CULE_PLAIN) && (defined(CULE_SSE2) || defined(CULE_AVX2))
#error "CULE_PLAIN leaves vectors out"
#endif

namespace {

using namespace cule;

// FNV-1a.
struct Digest {
  u64 value = 0xCBF29CE484222325ULL;
  void add(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      value = (value ^ static_cast<const u8*>(data)[i]) * 0x100000001B3ULL;
    }
  }
  void print(const char* what) const {
    std::printf("%s %016llx\n", what, static_cast<unsigned long long>(value));
  }
};

std::vector<u8> random_bytes(Random& random, size_t size) {
  std::vector<u8> bytes(size);
  for (u8& byte : bytes) byte = u8(random.next() >> 9);
  return bytes;
}

// Entries that have an effect, what they show, and how many of two logs are the same.
void digest_logs(Random& random) {
  Digest effective, shown, equal;
  for (u32 number = 0; number < 4000; ++number) {
    const u32 n = random.below(100);
    // Some logs have few registers, as those of a game do.
    const u32 registers = random.below(2) ? 64 : 1 + random.below(8);
    const u32 first = random.below(64);
    std::vector<LogEntry> log(n), copy(n + kSpareEntries);
    u32 cycle = 0;
    for (LogEntry& e : log) {
      cycle += random.below(60);
      const u32 reg = (first + random.below(registers)) % 64;
      e = pack_log_entry(cycle, reg, random.below(256));
    }
    const u32 size = copy_effective(copy.data(), log.data(), n);
    effective.add(&size, sizeof size);
    effective.add(copy.data(), size * sizeof(LogEntry));
    for (LogEntry& e : log) e &= random.below(2) ? ~0u : ~0xFFu;
    const u32 objects = objects_shown(log.data(), n);
    shown.add(&objects, sizeof objects);
    const u32 shift = pack_log_entry(random.below(3), 0, 0);
    std::vector<LogEntry> later(log);
    for (LogEntry& e : later) e += shift;
    if (n != 0 && random.below(4) != 0) later[random.below(n)] ^= 1u << random.below(32);
    for (u32 from = 0; from <= n; from += 1 + random.below(9)) {
      const u32 same = equal_entries(later.data() + from, log.data() + from, shift, n - from);
      equal.add(&same, sizeof same);
    }
  }
  effective.print("copy_effective");
  shown.print("objects_shown");
  equal.print("equal_entries");
}

// Bytes of two states that differ, few of them or many.
void digest_states(Random& random) {
  Digest digest;
  for (u32 number = 0; number < 20'000; ++number) {
    const std::vector<u8> bytes = random_bytes(random, sizeof(TiaState));
    TiaState a, b;
    std::memcpy(static_cast<void*>(&a), bytes.data(), sizeof a);
    b = a;
    for (u32 changes = random.below(random.below(2) ? 4 : 90); changes > 0; --changes) {
      reinterpret_cast<u8*>(&b)[random.below(sizeof b)] ^= u8(1u << random.below(8));
    }
    const TiaBytes different = tia_bytes::differing(a, b);
    digest.add(&different, sizeof different);
  }
  digest.print("differing");
}

void digest_spans(Random& random) {
  constexpr u32 kGuard = 32;
  Digest digest;
  for (u32 number = 0; number < 20'000; ++number) {
    Mask objects[kObjects];
    for (Mask& mask : objects) {
      const bool is_shown = random.below(2);
      for (u64& word : mask.word) {
        const u64 bits = u64(random.next()) << 40 ^ u64(random.next()) << 20 ^ random.next();
        word = is_shown && random.below(3) ? bits : 0;
      }
      mask.word[2] &= 0xFFFFFFFF;
    }
    const ColorOrder order{random.below(4) == 0, random.below(3) == 0};
    u8 colors[4];
    for (u8& color : colors) color = u8(random.below(256));
    const u32 x0 = random.below(kScreenWidth), x1 = x0 + 1 + random.below(kScreenWidth - x0);
    std::vector<u8> row = random_bytes(random, kScreenWidth + kGuard);
    paint_objects(objects, order, colors, row.data(), x0, x1);
    digest.add(row.data(), row.size());
  }
  digest.print("paint_objects");
}

void digest_pictures(Random& random) {
  Digest resized, pooled;
  const i32 sizes[][2] = {{84, 84}, {105, 80}, {210, 160}, {64, 64}, {200, 159}, {7, 3}};
  for (const i32 channels : {1, 3}) {
    for (const auto& size : sizes) {
      const ResizePlan plan = make_resize_plan(210, i32(kScreenWidth), size[0], size[1], channels);
      std::vector<u8> target(size_t(size[0] * size[1] * channels));
      for (u32 number = 0; number < 4; ++number) {
        std::vector<u8> a = random_bytes(random, 210 * kScreenWidth * size_t(channels));
        const std::vector<u8> b = random_bytes(random, a.size());
        max_rows(a.data(), a.data(), b.data(), a.size());
        pooled.add(a.data(), a.size());
        resize(plan, a.data(), target.data());
        resized.add(target.data(), target.size());
      }
    }
  }
  pooled.print("max_rows");
  resized.print("resize");
}

}  // namespace

int main() {
  Random random;
  digest_logs(random);
  digest_states(random);
  digest_spans(random);
  digest_pictures(random);
  return 0;
}
