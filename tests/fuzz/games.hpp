// tests/fuzz/games.hpp: a game of any cartridge type and number of players.
#pragma once

#include "console.hpp"

namespace cule::fuzz {

// Draws, reads and writes everything but VSYNC, waits for lines, switches banks. A cell that counts
// frames is in graphics, motion and sound.
constexpr u8 kProgram[] = {
    0xE6, 0x83, 0xA4, 0x83, 0x84, 0x1C, 0x84, 0x21, 0x84, 0x15, 0x84, 0x16,  // frames
    0xA9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0xA9, 0x00, 0x85, 0x00,  // VSYNC
    0xA2, 0x64, 0x85, 0x02, 0x86, 0x1B, 0x86, 0x06, 0x85, 0x2A, 0xA5, 0x07,  // 100 lines
    0x65, 0x80, 0x85, 0x80, 0xB5, 0x00, 0xE0, 0x33, 0xF0, 0x02, 0x95, 0x0D,  //
    0xAD, 0x84, 0x02, 0x85, 0x20, 0x85, 0x10, 0xA4, 0x0A, 0xC8, 0xAD, 0x10,  //
    0x10, 0xAD, 0xE3, 0x1F, 0xAD, 0xF9, 0x1F, 0xCA, 0xD0, 0xD4, 0x8D, 0x96,
    0x02, 0xA2, 0x96, 0x85, 0x02, 0xCA, 0xD0, 0xFB, 0x4C, 0x00, 0x15,  // 150 lines
};

// An operand of it: adding to a cell makes each line of each frame another one. A constant instead
// leaves most lines as they were in the last frame.
constexpr size_t kSumAt = 36;
static_assert(kProgram[kSumAt] == 0x65, "ADC");
constexpr u8 kLoadImmediate = 0xA9;

// How many lines the second loop waits for; with as many as here a frame is one of PAL.
constexpr size_t kLinesAt = sizeof kProgram - 9;
static_assert(kProgram[kLinesAt] == 150);
constexpr u8 kLinesOfPal = 210;

struct GameKind {
  u32 cartridge;  // of image_kinds()
  u32 num_players;
  bool is_steady;  // most lines of a frame are those of the last one
  bool translates;

  bool operator<(const GameKind& o) const {
    return std::tie(cartridge, num_players, is_steady, translates) <
           std::tie(o.cartridge, o.num_players, o.is_steady, o.translates);
  }
};

inline Bytes make_rom(const GameKind& kind) {
  Bytes body{u8(kind.cartridge), 0x00, 0x15, 0x00, 0x15};
  for (size_t i = 0; i < kBankBytes; ++i) {
    const size_t at = (i - 0x500) % kBankBytes;
    body.push_back(at < sizeof kProgram ? kProgram[at] : 0xEA);
    if (at == kSumAt && kind.is_steady) body.back() = kLoadImmediate;
    if (at == kLinesAt && kind.cartridge == 1) body.back() = kLinesOfPal;
  }
  Input in(body.data(), body.size());
  return read_image(in);
}

// Two objects at the cell that counts frames, and one that reads a cell that seldom changes.
inline std::vector<i32> make_objects() {
  const std::vector<i32> moving = {kRamAt, 3, kEmit,  0, kRow,  1, 0,
                                   0,      0, kRamAt, 3, kEmit, 1, kEnd};
  const std::vector<i32> still = {kRow,   0, 7,      0, 0,     kRamAt, 2,
                                  kTable, 2, -40000, 7, kEmit, 5,      kEnd};
  const i32 at = i32(kFirstKind + 2 * (kKindWords + kGroupWords));
  const i32 after = at + i32(moving.size());
  std::vector<i32> words = {2,                     // two kinds of one group
                            1, 2,     8, 0, 0, 0,  //
                            2, at,    8, 0, 0, 0,  //
                            1, 1,     4, 0, 0, 0,  //
                            1, after, 4, 0, 0, 0};
  for (const auto* part : {&moving, &still}) {
    words.insert(words.end(), part->begin(), part->end());
  }
  return words;
}

// The first writes a cell, turns actions around and samples rewards; the second does nothing.
inline std::vector<i32> make_modifications() {
  const std::vector<i32> programs[] = {
      {kConst, 2, kConst, 5, kPoke, kEnd},
      {kLoad, kValueSlot, kConst, 1, kXor, kStore, kValueSlot, kEnd},
      {kConst, 100, kRandBelow, kStore, kValueSlot, kEnd},
      {kEnd},
      {kEnd},
      {kEnd},
  };
  std::vector<i32> words = {2};
  i32 at = 1 + i32(std::size(programs));
  for (const auto& program : programs) {
    words.push_back(at);
    at += i32(program.size());
  }
  for (const auto& program : programs) words.insert(words.end(), program.begin(), program.end());
  return words;
}

// The score is a cell, the game ends when another is large, and a life
// is lost in every fourth frame. Mode 1 waits
// for a draw, two frames and an action. Every other cartridge type has modifications.
inline std::shared_ptr<const Game> make_game(const GameKind& kind) {
  GameSpec spec;
  spec.game_id = "fuzz";
  spec.rom = make_rom(kind);
  spec.properties.first_line = 34;
  spec.properties.height = kind.cartridge == 3 ? kMaxHeight : 210;
  spec.properties.left_paddles = kind.cartridge & 1;
  spec.properties.right_paddles = kind.num_players > 2;
  spec.legal_actions = spec.minimal_actions = {0, 1, 3, 4};
  spec.starting_actions = {1};
  spec.modes = {0, 1};
  spec.difficulties = {0, 1};
  spec.num_players = kind.num_players;
  spec.state = {0, 0, 0, 0, 0, 0};
  spec.step_code = {kRamAt, 0,   kStore, kRewardSlot, kRamAt,        1,
                    kConst, 250, kGe,    kStore,      kTerminalSlot, kEnd};
  spec.lives_code = {kShr + kWithCell, 3, 2, kInvert, kAnd + kWithConstant, 7, kEnd};
  if (kind.num_players > 1) {
    const std::vector<i32> code = spec.lives_code;
    for (u32 player = 1; player < kind.num_players; ++player) {
      spec.lives_at.push_back(i32(spec.lives_code.size()));
      spec.lives_code.insert(spec.lives_code.end(), code.begin(), code.end());
    }
    spec.step_code.insert(spec.step_code.end() - 1, {kRamAt, 3, kStore, i32(reward_slot(1))});
    spec.kept_slots = {5};
  } else {
    spec.setup_code = {kLoad,   kModeSlot, kJumpIfZero, 17,   kRand,      kConst,
                       1,       kAnd,      kStore,      4,    kConst,     2,
                       kSelect, kConst,    1,           kAct, kSoftReset, kEnd};
  }
  spec.objects = make_objects();
  if (kind.cartridge % 2 == 0) spec.modifications = make_modifications();
  spec.translates = kind.translates;
  return std::make_shared<Game>(spec);
}

}  // namespace cule::fuzz
