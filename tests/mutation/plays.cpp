// tests/mutation/plays.cpp: plays the ROM files that are named; prints a digest for each of what a
// player can see: RAM, picture, sprites and sound after every frame.
//
//     plays FRAMES FILE [FRAMES FILE]...
//
// Runs the plain interpreter or, compiled with CULE_HOST, the back end for processors: translated
// code and incremental rendering.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "console/sprites.hpp"
#include "obs/palette.hpp"
#include "rig.hpp"
#include "tia/sound.hpp"

#if defined(CULE_HOST)  // in one piece: nothing else is linked
#include "host/engine_bank.cpp"
#include "host/engine_e0.cpp"
#include "host/engine_fe.cpp"
#include "host/frame_store.hpp"
#include "jit/instructions.cpp"
#include "jit/operands.cpp"
#include "jit/translation.cpp"
#include "jit/translator.cpp"
#endif

using namespace cule;

namespace {

constexpr u32 kSpriteRows = 24;  // some programs have more

struct Digest {  // FNV-1a
  u64 value = 0xCBF29CE484222325ULL;
  void add(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      value = (value ^ static_cast<const u8*>(data)[i]) * 0x100000001B3ULL;
    }
  }
};

ConsoleProperties properties_of(u32 number) {
  ConsoleProperties p{};
  p.format = number % 3 == 2 ? Format::kPal : Format::kNtsc;
  p.first_line = number % 5 == 4 ? 0 : 34;
  p.height = 210;
  p.hmove_blanks = number % 7 != 6;
  p.left_paddles = p.right_paddles = number % 4 == 3;
  return p;
}

#if defined(CULE_HOST)
class Player {
 public:
  Player(const CartridgeImage& image, Format format)
      : map_(gray_table(format)), translation_(jit::Translation::make(image.cart())) {
    stores_[0].start(true);
  }
  // Every other frame with an observation, which is drawn as it runs.
  void run(const Console& console, Digest& digest, bool is_observed) {
    IncrementalMemory& memory = *stores_[0].incremental;
    Observation observation{memory.lines->next_frame().rows, map_, false};
    memory.observation = is_observed ? &observation : nullptr;
    HostEngine engine{translation_.get(), &memory};
    run_frame(console, engine);
    if (observation.is_drawn) {
      digest.add(observation.rows, console.properties.height * kScreenWidth);
    }
  }

 private:
  const u8* const map_;
  const std::unique_ptr<jit::Translation> translation_;
  const FrameStores stores_{1, kMaxRows * kScreenWidth, {true, true}};
};
#else
struct Player {
  Player(const CartridgeImage& /*image*/, Format /*format*/) {}
  void run(const Console& console, Digest& /*digest*/, bool /*is_observed*/) const {
    const fuzz::PlainEngine engine{[](Clock) {}};
    run_frame(console, engine);
  }
};
#endif

u64 play(const CartridgeImage& image, u32 number, u32 frames) {
  const ConsoleProperties properties = properties_of(number);
  // A log that fills up is drawn early.
  fuzz::Rig rig(image.cart(), properties, number % 6 == 5 ? 100 : kLogCapacity);
  rig.power_on(number);
  Mt19937 random;
  random.seed(number);
  const IdentityMap colors = make_identity_map();
  Player player(image, properties.format);
  SoundGenerator sound;
  u8 samples[kSoundSamples];
  SpriteMemory sprite_memory;
  i16 sprites[kSpriteRows][kSpriteColumns];
  Digest digest;
  u8 pressed = 0;
  for (u32 frame = 0; frame < frames; ++frame) {
    if (frame % 5 == 0) pressed = u8(random.next() >> 8);
    fuzz::set_inputs(rig.state(), properties, pressed);
    player.run(rig.console(), digest, frame % 2 != 0);
    write_sprites(rig.console(), sprite_memory, kSpriteRows, sprites[0]);
    const Bytes rows = rig.picture(rig.state().picture.current, colors.value);
    generate_sound(sound, rig.state().tia.audio, samples);
    digest.add(rig.state().ram, kRamBytes);
    digest.add(rows.data(), rows.size());
    digest.add(sprites, sizeof sprites);
    digest.add(samples, sizeof samples);
  }
  return digest.value;
}

}  // namespace

int main(int count, char** words) {
  for (int i = 1; i + 1 < count; i += 2) {
    const u32 frames = u32(std::atoi(words[i]));
    std::ifstream file(words[i + 1], std::ios::binary);
    const Bytes bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.empty()) {
      std::fprintf(stderr, "%s cannot be read\n", words[i + 1]);
      return 2;
    }
    const u64 digest = play(CartridgeImage(bytes), u32(i / 2), frames);
    std::printf("%016llx\n", static_cast<unsigned long long>(digest));
    std::fflush(stdout);
  }
  return 0;
}
