// host/game.hpp: a game on the host: ROM bytes, console properties, compiled rules, and the state
// after loading.
//
// Immutable after construction and shared by the environments that run it. Everything loadROM does
// before the first environment reset depends only on the ROM and the machine generator's seed, so
// it is done once for the default seed and copied (env/ale.hpp, load_console).
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "game/objects.hpp"
#include "host/cartridge_image.hpp"
#include "host/checks.hpp"
#include "host/engine.hpp"
#include "host/frame_store.hpp"

namespace cule {

constexpr u32 kDefaultMachineSeed = 4753849;

// The mode cannot be reached with these settings; the reference would never return.
struct ModeUnreachable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check_fault(const EnvState& env, const std::string& game_id) {
  if (env.fault == EnvFault::kNone) return;
  throw ModeUnreachable("mode is " + std::to_string(env.mode) + "; " + game_id +
                        " did not reach mode " + std::to_string(env.mode) +
                        " in its reset; a small max_num_frames_per_episode can prevent it");
}

// The arguments of cule._core.Game's constructor.
struct GameSpec {
  std::string game_id;
  Bytes rom;
  bool detect_format = true;
  ConsoleProperties properties{};
  u32 property_difficulty = 0;  // bit 0 left A, bit 1 right A; seen by the format detection only
  std::vector<i32> legal_actions, minimal_actions, starting_actions, modes, difficulties;
  i32 default_mode = 0;
  i32 paddle_max = kDefaultPaddleMax;
  std::vector<i32> state, step_code, lives_code, setup_code;
  u32 num_players = 1;
  std::vector<i32> kept_slots;     // which a reset leaves as they are
  std::vector<i32> lives_at{0};    // where in lives_code the expression of each player begins
  std::vector<i32> objects;        // words of game/objects.hpp; empty: there is no table
  std::vector<i32> modifications;  // words of game/modifications.hpp; empty: there are none
  bool translates = true;          // run translated code where this machine supports it
};

constexpr u32 kMaxFirstLine = 64;
constexpr u32 kMaxHeight = kMaxRows - 40;

class Game {
 public:
  explicit Game(GameSpec spec)
      : spec_(checked(std::move(spec))), properties_(spec_.properties), image_(spec_.rom) {
    if (spec_.translates) translation_ = jit::Translation::make(cart());
    check_program("step_code", spec_.step_code, ProgramKind::kRules);
    if (!spec_.setup_code.empty())
      check_program("setup_code", spec_.setup_code, ProgramKind::kSetup);
    check_objects();
    check_modifications();
    check_players();
    make_facts();
    const FrameStores stores(1, kMaxRows * kScreenWidth);  // the height follows from the format
    const FrameStore& memory = stores[0];
    machine_random_.seed(kDefaultMachineSeed);
    properties_ = load_console(loaded_, machine_random_, memory);
    key_ = make_key();
    if (spec_.num_players == 1) play_first_reset(memory);
  }

  const GameSpec& spec() const { return spec_; }
  const GameFacts& facts() const { return facts_; }
  const ConsoleProperties& properties() const { return properties_; }
  const Bytes& image() const { return image_.bytes(); }  // with four spare bytes
  Cart cart() const { return image_.cart(); }
  Bankswitch bankswitch() const { return image_.type(); }
  // incremental: of the console that the engine runs; null: see IncrementalRenderer.
  HostEngine engine(IncrementalMemory* incremental = nullptr) const {
    return {translation_.get(), incremental};
  }
  size_t code_bytes() const { return translation_ == nullptr ? 0 : translation_->code_bytes(); }
  const char* bankswitch_name() const {
    for (const BankswitchName& b : kSupportedBankswitches) {
      if (b.type == bankswitch()) return b.name;
    }
    return "";
  }
  u32 num_objects() const {
    return spec_.objects.empty() ? 0 : count_objects(spec_.objects.data());
  }
  u32 num_modifications() const { return count_modifications(facts_.modifications); }
  // Identifies ROM, properties, rules and modifications in saved states.
  u64 key() const { return key_; }
  i32 default_mode() const { return spec_.default_mode; }
  // Resets to another mode would search for it in vain.
  bool has_mode(i32 mode) const {
    return mode == spec_.default_mode ||
           std::find(spec_.modes.begin(), spec_.modes.end(), mode) != spec_.modes.end();
  }
  // No sticky actions, no limits.
  AleSettings ale_settings() const {
    AleSettings settings;
    settings.paddle_max = spec_.paddle_max;
    return settings;
  }

  Console console(ConsoleState& s, const FrameStore& memory) const {
    return {s, memory.memory(), cart(), properties_};
  }

  // The environment of a console. `settings` outlive it.
  Ale ale(ConsoleState& s, const FrameStore& memory, EnvState& env, ExactStreams& streams,
          const AleSettings& settings, const StickySource& sticky) const {
    return {console(s, memory),        env, &streams, facts_, settings, sticky,
            engine(memory.incremental)};
  }

  // The state after the first environment reset, if it is the same for every seed: then a batch,
  // which resets twice when it is seeded, need not run it again. Pictures do not outlast a reset.
  struct FirstReset {
    ConsoleState console;
    EnvState env;
    Mt19937 machine_random;
  };
  const FirstReset* first_reset() const { return has_first_reset_ ? &first_reset_ : nullptr; }

  // State, machine generator and environment right before the first environment reset.
  void load(u32 machine_seed, ConsoleState& s, Mt19937& machine_random,
            const FrameStore& memory) const {
    if (machine_seed == kDefaultMachineSeed) {
      s = loaded_;
      machine_random = machine_random_;
      return;
    }
    machine_random.seed(machine_seed);
    load_console(s, machine_random, memory);
  }

  EnvState loaded_env() const {
    EnvState env{};
    env.mode = default_mode();
    // A single player's rules begin with zeros.
    if (spec_.num_players > 1) std::copy(spec_.state.begin(), spec_.state.end(), env.slots);
    return env;
  }

 private:
  // Power-on up to the switch-on reset; returns the properties with the detected format.
  ConsoleProperties load_console(ConsoleState& s, Mt19937& machine_random,
                                 const FrameStore& memory) const {
    ConsoleProperties properties = spec_.properties;
    const Console c{s, memory.memory(), cart(), properties};
    cule::load_console(c, properties, machine_random, spec_.detect_format,
                       spec_.property_difficulty, engine());
    return properties;
  }

  // A mode selection that samples random numbers or acts makes it differ by seed and settings.
  void play_first_reset(const FrameStore& memory) {
    const auto streams = make_zeroed<ExactStreams>();
    FirstReset& first = first_reset_;
    load(kDefaultMachineSeed, first.console, streams->machine, memory);
    streams->env.seed(0);
    first.env = loaded_env();
    const AleSettings settings = ale_settings();
    Ale first_ale = ale(first.console, memory, first.env, *streams, settings, {true, 0});
    first_ale.engine = engine();  // all latches recorded: the state is used without these logs
    has_first_reset_ = first_ale.reset() && streams->env.position == Mt19937::kWords;
    first.machine_random = streams->machine;
  }

  // What the rest takes for granted.
  static GameSpec checked(GameSpec g) {
    const ConsoleProperties& p = g.properties;
    check_range("ystart", p.first_line, 0, kMaxFirstLine);
    check_range("height", p.height, kMinHeight, kMaxHeight);
    if (p.swap_ports && (p.left_paddles || p.right_paddles))
      refuse("swap_ports is True; with paddles it must be False");
    check_range("paddle_max", g.paddle_max, 1, kMostPaddle);
    check_actions("legal_actions", g.legal_actions, false);
    check_actions("minimal_actions", g.minimal_actions, false);
    check_actions("starting_actions", g.starting_actions, true);
    return g;
  }

  static void check_actions(const char* name, const std::vector<i32>& actions, bool allows_reset) {
    for (const i32 a : actions) {
      if ((a < 0 || a >= kActions) && !(allows_reset && a == kResetSwitch)) {
        refuse(std::string(name) + " holds " + std::to_string(a) + "; actions must be in 0..17" +
               (allows_reset ? ", or 40 (RESET)" : ""));
      }
    }
  }

  static void check_program(const char* name, const std::vector<i32>& code, ProgramKind kind) {
    const i32 bad = find_program_error(code.data(), u32(code.size()), kind);
    if (bad >= 0) {
      refuse(std::string(name) + " is invalid at word " + std::to_string(bad) +
             "; it must be a compiled rule program");
    }
  }

  void check_objects() const {
    const std::vector<i32>& words = spec_.objects;
    if (!words.empty() && !is_valid_objects(words.data(), u32(words.size())))
      refuse("objects is invalid; it must be a compiled table of objects");
  }

  void check_modifications() const {
    const std::vector<i32>& words = spec_.modifications;
    if (!words.empty() && !is_valid_modifications(words.data(), u32(words.size())))
      refuse("modifications is invalid; it must be compiled modifications");
  }

  // Each player's lives are a program of their own.
  void check_players() const {
    const std::vector<i32>& at = spec_.lives_at;
    const std::vector<i32>& code = spec_.lives_code;
    const u32 n = spec_.num_players;
    if (n < 1 || n > kMaxPlayers || at.size() < n) {
      refuse("num_players is " + std::to_string(n) + "; it must be 1 to " +
             std::to_string(std::min<size_t>(at.size(), kMaxPlayers)) +
             ", the number of lives programs");
    }
    for (u32 player = 0; player < at.size(); ++player) {
      const i32 end = player + 1 < at.size() ? at[player + 1] : i32(code.size());
      if (at[player] < 0 || at[player] > end || end > i32(code.size()))
        refuse("lives_at must ascend within lives_code");
      check_program("lives_code", {code.begin() + at[player], code.begin() + end},
                    ProgramKind::kRules);
    }
    for (const i32 slot : spec_.kept_slots) {
      if (slot < 0 || slot >= i32(spec_.state.size()))
        refuse("kept_slots holds " + std::to_string(slot) + "; it must hold slots of state");
    }
  }

  void make_facts() {
    if (spec_.state.size() < 3 || spec_.state.size() > kModeSlot) {
      refuse("state has " + std::to_string(spec_.state.size()) + " slots; it must have 3 to 31");
    }
    facts_.step_code = spec_.step_code.data();
    facts_.lives_code = spec_.lives_code.data();
    facts_.setup_code = spec_.setup_code.empty() ? nullptr : spec_.setup_code.data();
    facts_.modifications = spec_.modifications.empty() ? nullptr : spec_.modifications.data();
    facts_.state_size = u32(spec_.state.size());
    for (size_t i = 0; i < spec_.state.size(); ++i) facts_.state[i] = spec_.state[i];
    facts_.starting_actions_size = u32(spec_.starting_actions.size());
    facts_.starting_actions = spec_.starting_actions.data();
    for (const i32 action : spec_.legal_actions) facts_.legal_actions |= 1u << action;
    i32 slots[kMaxSlots] = {};
    for (u32 i = 0; i < facts_.state_size; ++i) slots[i] = facts_.state[i];
    const u8 no_ram[kRamBytes] = {};
    NoEffects none;
    facts_.initial_lives = run_program(facts_.lives_code, slots, {no_ram, no_ram}, none);
    facts_.num_players = spec_.num_players;
    for (const i32 slot : spec_.kept_slots) facts_.kept_slots |= 1u << slot;
    for (u32 player = 0; player < facts_.num_players; ++player)
      facts_.lives_at[player] = u32(spec_.lives_at[player]);
  }

  // FNV-1a over what makes two games different.
  u64 make_key() const {
    u64 h = 0xCBF29CE484222325ULL;
    const auto add = [&h](const void* data, size_t n) {
      for (size_t i = 0; i < n; ++i) h = (h ^ static_cast<const u8*>(data)[i]) * 0x100000001B3ULL;
    };
    add(spec_.rom.data(), spec_.rom.size());
    add(&properties_, sizeof properties_);
    for (const auto* code : {&spec_.state, &spec_.step_code, &spec_.lives_code, &spec_.setup_code,
                             &spec_.modifications}) {
      add(code->data(), code->size() * sizeof(i32));
    }
    if (spec_.num_players > 1) add(&spec_.num_players, sizeof spec_.num_players);
    return h | 1;
  }

  GameSpec spec_;
  ConsoleProperties properties_;
  CartridgeImage image_;
  std::unique_ptr<jit::Translation> translation_;
  GameFacts facts_{};
  ConsoleState loaded_{};
  Mt19937 machine_random_{};
  u64 key_ = 0;
  FirstReset first_reset_{};
  bool has_first_reset_ = false;
};

}  // namespace cule
