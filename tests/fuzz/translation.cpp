// tests/fuzz/translation.cpp: translated code against the interpreter: equal state and equal write
// log after every frame, also where the code exists already, and where its memory is full.
#include "console.hpp"

using namespace cule;
using namespace cule::fuzz;

namespace {

void run_image(const CartridgeImage& image, Input& header) {
  constexpr size_t kPage = 4096;
  constexpr size_t kRooms[] = {jit::kCodeBytes, 64 * kPage, 8 * kPage, 4 * kPage, 2 * kPage, kPage};
  const ConsoleProperties properties = read_properties(header);
  const u32 capacity = read_log_capacity(header);
  const u32 seed = header.byte();
  const u32 frames = 1 + header.below(4);
  const auto translation =
      jit::Translation::make(image.cart(), kRooms[header.below(std::size(kRooms))]);
  if (translation == nullptr) report("nothing can be translated on this machine");
  u8 pressed[4];
  for (u8& p : pressed) p = header.byte();

  // Twice: the second time with all code in place.
  for (u32 pass = 0; pass < 2; ++pass) {
    Rig interpreted(image.cart(), properties, capacity);
    Rig translated(image.cart(), properties, capacity);
    interpreted.power_on(seed);
    translated.power_on(seed);
    CountedHostEngine plain, fast;
    fast.translation = translation.get();
    for (u32 frame = 0; frame < frames; ++frame) {
      fuzz::set_inputs(interpreted.state(), properties, pressed[frame]);
      fuzz::set_inputs(translated.state(), properties, pressed[frame]);
      run_frame(interpreted.console(), plain);
      run_frame(translated.console(), fast);
      check_equal(interpreted.state(), translated.state());
      check_equal(interpreted.log(), translated.log());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  InputParts in(data, size);
  try {
    run_image(CartridgeImage(read_image(in.body)), in.header);
  } catch (const UnsupportedRom&) {
  }
  return 0;
}
