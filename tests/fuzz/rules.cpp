// tests/fuzz/rules.cpp: any words as the program of a game's rules: a program that
// find_program_error() lets pass stays within its stack and slots, and ends. So do a table of
// objects, modifications, and the words of a rules file.
//
// One byte is one word where that is enough: an opcode, or a small operand.
#include "game/modifications.hpp"
#include "game/objects.hpp"
#include "games.hpp"
#include "host/rules_file.hpp"

using namespace cule;
using namespace cule::fuzz;

namespace {

std::vector<i32> read_program(Input& in) {
  constexpr u32 kWide = 0xFF;  // a word of four bytes follows
  std::vector<i32> words;
  while (!in.is_empty()) {
    const u32 byte = in.byte();
    words.push_back(byte == kWide ? i32(in.word()) : i32(byte));
  }
  return words;
}

// What a mode selection may do, without a console. Counts as BasicAle does.
struct CountedEffects {
  static constexpr ProgramKind kKind = ProgramKind::kSetup;
  u32 seed;
  i32 jumps = 0;
  i32 frames = 0;

  bool wait(i32 more) { return (frames += more < 1 ? 1 : more & 0xFFFF) < 10000; }
  bool select(i32 wanted) { return wait(wanted); }
  bool soft_reset() { return wait(4); }
  bool act(i32) { return wait(1); }
  bool count_jump() { return ++jumps < 10000; }
  i32 draw() { return i32(seed = seed * 1664525 + 1013904223); }
  void fail(i32) {}
};

// The words as a table of objects: rows are the same whether those of groups that read no changed
// cell are copied or not.
void run_objects(const std::vector<i32>& words, std::vector<u8> ram) {
  if (!is_valid_objects(words.data(), u32(words.size()))) return;
  const u32 count = count_objects(words.data());
  const auto rows_of = [&](const EarlierObjects* earlier) {
    std::vector<i16> rows(count * kObjectColumns);
    write_objects(words.data(), ram.data(), ram.data(), count, rows.data(), earlier);
    return rows;
  };
  const std::vector<i16> before = rows_of(nullptr);
  const EarlierObjects same{before.data(), {}};
  if (rows_of(&same) != before) report("objects differ without a change");
}

// The words as modifications: slots and RAM take what programs write.
void run_modifications(const std::vector<i32>& words, std::vector<u8> ram, u32 seed) {
  if (!is_valid_modifications(words.data(), u32(words.size()))) return;
  std::vector<i32> slots(kMaxSlots, i32(seed));
  for (u32 number = 1; number <= count_modifications(words.data()); ++number) {
    for (const Moment moment : {kAtReset, kAfterFrame}) {
      PokedRam effects{ram.data(), seed, number};
      run_program(modification_program(words.data(), number, moment), slots.data(),
                  {ram.data(), ram.data()}, effects);
    }
  }
}

// The words behind a right header: what is read of them is written again, and is refused or makes a
// game. Without its mode selection, which may take long. wrong: a byte of the header; 0: none.
void run_rules_file(const std::vector<i32>& words, u32 wrong) {
  const Bytes rom = make_rom({1, 1, true, true});
  RulesHeader h{};
  std::memcpy(h.name, kRulesName, sizeof h.name);
  h.version = kRulesVersion;
  h.num_words = u32(words.size());
  h.checksum = checksum_of_words(words);
  h.rom_checksum = checksum_of(rom.data(), rom.size());
  std::vector<u8> file(sizeof h + words.size() * sizeof(i32));
  std::memcpy(file.data(), &h, sizeof h);
  if (!words.empty()) std::memcpy(file.data() + sizeof h, words.data(), file.size() - sizeof h);
  const bool is_wrong = wrong > 0 && wrong < sizeof h;
  if (is_wrong) file[wrong] ^= 1;
  try {
    GameSpec spec = read_rules(file.data(), file.size(), rom);
    if (is_wrong) report("a wrong header is read");
    const std::string written = write_rules(spec);
    if (!std::equal(file.begin(), file.end(), written.begin(), written.end(),
                    [](u8 a, char b) { return a == u8(b); }))
      report("rules differ when they are written again");
    spec.setup_code.clear();
    spec.translates = false;
    const Game game(spec);
    if (game.spec().rom != rom) report("a game has another ROM");
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  InputParts in(data, size);
  std::vector<u8> ram(kRamBytes), cart_ram(kCartRamBytes);
  const u32 seed = in.header.word();
  for (u32 i = 0; i < kRamBytes; ++i) ram[i] = cart_ram[i ^ 1] = u8(seed >> (i % 25));
  const std::vector<i32> code = read_program(in.body);
  for (const ProgramKind kind : {ProgramKind::kRules, ProgramKind::kSetup}) {
    const i32 error = find_program_error(code.data(), u32(code.size()), kind);
    if (error >= 0) continue;
    std::vector<i32> slots(kMaxSlots, i32(seed));
    u8 data_bus = 0;
    const RuleMemory memory{ram.data(), cart_ram.data(), &data_bus};
    if (kind == ProgramKind::kSetup) {
      CountedEffects effects{seed};
      run_program(code.data(), slots.data(), memory, effects);
    } else {
      NoEffects none;
      run_program(code.data(), slots.data(), memory, none);
    }
  }
  run_objects(code, ram);
  run_modifications(code, ram, seed);
  run_rules_file(code, seed >> 24);
  return 0;
}
