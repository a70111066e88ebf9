// tests/fuzz/rom.cpp: any ROM image, for a few frames: the plain interpreter, and the back end for
// processors with its accelerators (host/incremental). Nothing is read or written out of bounds,
// every frame step ends, and both have the same state and pictures.
#include "console.hpp"
#include "obs/palette.hpp"

using namespace cule;
using namespace cule::fuzz;

namespace {

void run_frame_observed(Rig& rig, IncrementalMemory& memory, bool observes) {
  const u8* map = gray_table(rig.properties().format);
  Observation observation{memory.lines->next_frame().rows, map, false};
  memory.observation = observes ? &observation : nullptr;
  CountedHostEngine engine;
  engine.incremental = &memory;
  run_frame(rig.console(), engine);
  if (!observation.is_drawn) return;
  const Bytes rows = rig.picture(rig.state().picture.current, map);
  if (std::memcmp(rows.data(), observation.rows, rows.size()) != 0) report("observations differ");
}

// The state after the frame step, with every latch.
ConsoleState completed(Rig& rig) {
  ConsoleState s = rig.state();
  const Console c = rig.console();
  complete_latches(Console{s, c.memory, c.cart, c.properties});
  return s;
}

void run_image(const CartridgeImage& image, Input& header) {
  const ConsoleProperties properties = read_properties(header);
  const u32 capacity = read_log_capacity(header);
  const u32 seed = header.byte();
  const u32 frames = 1 + header.below(4);
  const u32 observed = header.byte();
  Rig plain(image.cart(), properties, capacity);
  Rig fast(image.cart(), properties, capacity);
  plain.power_on(seed);
  fast.power_on(seed);
  const FrameStores stores(1, kMaxRows * kScreenWidth, {true, true});
  stores[0].start(true);
  const IdentityMap identity = make_identity_map();
  const PlainEngine engine{count_instructions};
  for (u32 frame = 0; frame < frames; ++frame) {
    const u8 pressed = header.byte();
    fuzz::set_inputs(plain.state(), properties, pressed);
    fuzz::set_inputs(fast.state(), properties, pressed);
    run_frame(plain.console(), engine);
    run_frame_observed(fast, *stores[0].incremental, observed >> frame & 1);
    check_equal(plain.state(), completed(fast));
    const u32 current = plain.state().picture.current;
    if (plain.picture(current, identity.value) != fast.picture(current, identity.value)) {
      report("pictures differ");
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
