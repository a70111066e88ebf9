// host/coverage.hpp: which instructions of its ROM a game executes, found by playing it.
#pragma once

#include <vector>

#include "host/game.hpp"
#include "rom_kernel/source.hpp"

namespace cule {

// Engine of BasicAle: notes the place of every instruction, and executes it slowly.
struct CoverageEngine {
  using Access = PlainAccess;

  struct Note {
    u32 pc;
    bool is_reached;
    bool is_entered;
    u64 count;
  };
  std::vector<Note>* notes;  // by offset in the image

  FlatRam ram(ConsoleState& s) const { return {s.ram}; }
  bool align(bool is_running, bool /*emulates*/) const { return is_running; }

  void run(Machine<PlainAccess>& m) const {
    Clock clock = Clock(m.s.cycles) << kClockShift;
    u32 before = ~0u;
    while (!m.s.cpu.is_jammed) {
      note(m, before);
      clock = step_slowly(m, clock);
      if (m.must_stop || instructions_of(clock) >= kMaxInstructions) break;
    }
    m.s.cycles = cycles_of(clock);
  }

 private:
  void note(const Machine<PlainAccess>& m, u32& before) const {
    const u32 pc = m.s.cpu.pc;
    if (!(pc & 0x1000)) {
      before = ~0u;
      return;
    }
    const u32 offset = offset_of(m, pc);
    Note& n = (*notes)[offset];
    if (!n.is_reached) n = {pc, true, false, 0};
    ++n.count;
    if (before == ~0u || offset - before - 1 >= kMaxInstructionBytes) n.is_entered = true;
    before = offset;
  }

  static u32 offset_of(const Machine<PlainAccess>& m, u32 pc) {
    switch (m.console.cart.type) {
      case Bankswitch::kE0:
        return E0Fetch::index(m.s, pc);
      case Bankswitch::kFE:
        return FeFetch::index(m.s, pc);
      default:
        return BankFetch::base(m.s) + BankFetch::index(m.s, pc);
    }
  }
};

// Plays `frames` frames from a reset for each seed, random actions held for 8 frames each.
inline std::vector<rom_kernel::Place> find_reached(const Game& game, u32 frames, u32 seeds) {
  constexpr u32 kHold = 8;
  std::vector<CoverageEngine::Note> notes(game.image().size());
  const FrameStores stores(1, game.properties().height * kScreenWidth);
  const FrameStore& memory = stores[0];
  const auto streams = make_zeroed<ExactStreams>();
  const auto& actions = game.spec().minimal_actions;
  for (u32 seed = 0; seed < seeds; ++seed) {
    ConsoleState state{};
    EnvState env = game.loaded_env();
    game.load(kDefaultMachineSeed, state, streams->machine, memory);
    streams->env.seed(seed);
    const AleSettings settings = game.ale_settings();
    BasicAle<CoverageEngine> ale{
        game.console(state, memory), env, streams.get(), game.facts(), settings, {true, 0},
        CoverageEngine{&notes}};
    Mt19937 random;
    random.seed(seed);
    if (!ale.reset()) continue;
    i32 action = kNoop;
    i32 rewards[kMaxPlayers] = {};
    for (u32 frame = 0; frame < frames; ++frame) {
      if (frame % kHold == 0) action = actions[random.next_below(u32(actions.size()))];
      ale.act(ale.one_does(0, {action, 1.0f}), rewards);
      if (ale.is_over() && !ale.reset()) break;
    }
  }
  std::vector<rom_kernel::Place> places;
  for (u32 offset = 0; offset < notes.size(); ++offset) {
    const CoverageEngine::Note& n = notes[offset];
    if (n.is_reached) places.push_back({offset, n.pc, n.is_entered, n.count});
  }
  return places;
}

}  // namespace cule
