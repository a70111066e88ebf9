// env/ale.hpp: one console as an ALE environment of one or several players: load, reset, act,
// lives, game over (NOTES.md 1-3, 9).
//
// In: a command per player, settings, the game's rules. Out: each player's reward of a frame; state
// ready for the next. The order of frames and random draws is the references': see NOTES.md of this
// room.
#pragma once

#include "console/frame.hpp"
#include "env/actions.hpp"
#include "game/modifications.hpp"

namespace cule {

constexpr i32 kDefaultPaddleMin = 27450;
constexpr i32 kDefaultPaddleMax = 790196;
constexpr double kPaddleStep = 23000.0;
constexpr i32 kMaxSetupFrames = 5000;  // the longest mode selection of a known game takes 919
constexpr i32 kMaxSetupJumps = 5000;   // 827

// A game's rules and actions. Programs end with kEnd; setup_code may be null.
struct GameFacts {
  const i32* step_code;
  const i32* lives_code;
  const i32* setup_code;
  i32 state[kMaxSlots];  // reset values of the slots
  u32 state_size;
  const i32* starting_actions;
  u32 starting_actions_size;
  u32 legal_actions;  // bit per action
  i32 initial_lives;  // lives expression of the reset values
  u32 num_players;
  u32 kept_slots;             // bit per slot that a reset leaves as it is
  u32 lives_at[kMaxPlayers];  // where in lives_code the expression of each player begins
  const i32* modifications;   // words of game/modifications.hpp; null: there are none
};

struct AleSettings {
  float repeat_action_probability = 0.0f;
  i32 frame_skip = 1;
  i32 max_num_frames_per_episode = 0;  // 0: no limit
  u8 truncate_on_loss_of_life = 0;
  i32 paddle_min = kDefaultPaddleMin;
  i32 paddle_max = kDefaultPaddleMax;
};

// Rules may give any rewards, whose sums wrap.
CULE_HD CULE_INLINE i32 add_wrapping(i32 a, i32 b) { return i32(u32(a) + u32(b)); }

// Where a paddle of resistance `r` is after a frame.
CULE_HD inline i32 moved_paddle(const AleSettings& settings, i32 r, u32 pressed, i32 step) {
  if (pressed & kPressRight) r -= step;
  if (pressed & kPressLeft) r += step;
  return r < settings.paddle_min   ? settings.paddle_min
         : r > settings.paddle_max ? settings.paddle_max
                                   : r;
}

enum class EnvFault : u8 { kNone, kModeUnreachable, kModeRefused };

// The state of an environment, without its console and random generators.
struct EnvState {
  i32 frame_number;
  i32 episode_frame_number;
  i32 mode;
  i32 difficulty;
  // Per player; rows beyond the players of the game stay idle.
  i32 paddle[kMaxPlayers];       // resistances
  i32 last_action[kMaxPlayers];  // remembered for sticky actions
  float last_strength[kMaxPlayers];
  i32 slots[kMaxSlots];
  i32 modified[kMaxSlots];  // slots of the modification
  u64 acted_frames;         // frames asked for since seeding: step of the counter-based generator
  u32 modification;         // number of it among those of the game; 0: none
  EnvFault fault;
  u8 action_delay;  // frames between an action and its effect
  u8 reserved[2];
};

static_assert(std::is_trivially_copyable_v<EnvState>);

constexpr i32 kMostPaddle = 1000000000;   // resistance
constexpr float kMaxStrength = 10000.0f;  // of an action: far beyond any use
constexpr i32 kMaxActionDelay = 255;

// Also refuses what is no number.
CULE_HD inline bool is_valid_strength(float strength) {
  return strength >= -kMaxStrength && strength <= kMaxStrength;
}

// Whether bytes from outside are the state of an environment: arithmetic with it cannot overflow.
CULE_HD inline bool is_valid_env(const EnvState& e, u32 num_modifications, i32 max_action_delay) {
  bool is_valid = e.fault == EnvFault::kNone && e.modification <= num_modifications &&
                  e.action_delay <= max_action_delay;
  for (u32 player = 0; player < kMaxPlayers; ++player) {
    is_valid &= is_valid_strength(e.last_strength[player]);
    is_valid &= e.paddle[player] >= -kMostPaddle && e.paddle[player] <= kMostPaddle;
  }
  return is_valid;
}

// Which of `count` modifications the next episode has, by their places.
CULE_HD inline u32 choose_modification(const EnvState& e, u64 seed, u32 count) {
  const u32 draw = counter_random(seed, 0, e.acted_frames, Purpose::kModificationChoice);
  return u32(u64(draw) * count >> 32);
}

// Runs the program of the environment's modification on an action or reward; returns the new one.
CULE_HD CULE_NOINLINE inline i32 modify(ConsoleState& s, EnvState& e, const i32* words, u64 seed,
                                        Moment moment, i32 value) {
  e.modified[kValueSlot] = value;
  PokedRam effects{s.ram, seed, e.acted_frames * kMoments + moment};
  run_program(modification_program(words, e.modification, moment), e.modified, {s.ram, s.cart.ram},
              effects);
  return e.modified[kValueSlot];
}

// The exact random streams of the references; with several players `machine` serves all.
struct ExactStreams {
  Mt19937 machine;
  Mt19937 env;
};

// Where sticky actions come from: a Mersenne Twister, or the counter-based generator.
struct StickySource {
  bool is_exact;
  u64 seed;  // of the counter-based generator, which modifications use too
};

// kMost: players that a game may have; 1 leaves no trace of the others in the code.
template <class Engine, u32 kMost = kMaxPlayers>
struct BasicAle {
  static constexpr u32 kMostPlayers = kMost;

  Console console;
  EnvState& env;
  ExactStreams* streams;  // null without exact random streams: then reset() must not be called
  const GameFacts& game;
  const AleSettings& settings;
  const StickySource sticky;
  Engine engine{};
  Command* pending = nullptr;  // [env.action_delay][num_players], the oldest first
  i32 setup_frames = 0;
  i32 setup_jumps = 0;
  bool in_setup = false;

  using Choice = Commands<kMost>;
  CULE_HD static Choice all_do(i32 action) {
    Choice choice;
    for (Command& c : choice.of) c = {action, 1.0f};
    return choice;
  }
  // The others do nothing.
  CULE_HD static Choice one_does(u32 player, const Command& command) {
    Choice choice = all_do(kNoop);
    choice.of[player] = command;
    return choice;
  }

  // What takes effect in the next frame, for which `given` has been chosen (NOTES.md 8.3.2).
  CULE_HD CULE_INLINE Choice due(const Choice& given) {
    if (env.action_delay == 0) return given;
    Choice oldest = all_do(kNoop);
    const u32 n = num_players();
    const u32 size = env.action_delay * n;
    for (u32 player = 0; player < n; ++player) oldest.of[player] = pending[player];
    for (u32 i = n; i < size; ++i) pending[i - n] = pending[i];
    for (u32 player = 0; player < n; ++player) pending[size - n + player] = given.of[player];
    return oldest;
  }

  CULE_HD u32 num_players() const { return kMost == 1 ? 1 : game.num_players; }
  CULE_HD i32 lives(u32 player = 0) const {
    NoEffects none;
    return run_program(game.lives_code + game.lives_at[player], env.slots, memory(), none);
  }
  CULE_HD bool is_terminal() const { return env.slots[kTerminalSlot] != 0; }
  CULE_HD bool is_truncated() const {
    if (settings.max_num_frames_per_episode > 0 &&
        env.episode_frame_number >= settings.max_num_frames_per_episode) {
      return true;
    }
    return settings.truncate_on_loss_of_life && lives() < game.initial_lives;
  }
  CULE_HD bool is_over() const { return is_terminal() || is_truncated(); }

  // reset_game(). False: the mode could not be selected (env.fault says why).
  CULE_HD bool reset() { return reset(*this); }

  // The same; the steps of the mode selection go through `effects`.
  template <class Effects>
  CULE_HD bool reset(Effects& effects) {
    env.fault = EnvFault::kNone;
    env.episode_frame_number = 0;
    for (i32& r : env.paddle) r = (settings.paddle_min + settings.paddle_max) / 2;
    reset_machine(console, streams->machine);
    emulate(all_do(kNoop), ConsoleSwitch::kNone, 60);
    soft_reset();
    for (u32 i = 0; i < game.state_size; ++i) {
      if (!(game.kept_slots >> i & 1)) env.slots[i] = game.state[i];
    }
    if (!select_mode(effects)) return false;
    soft_reset();
    const bool are_several = num_players() > 1;
    for (u32 player = 0; player < (are_several ? 2 : 1); ++player) {
      for (u32 i = 0; i < game.starting_actions_size; ++i) {
        const i32 action = game.starting_actions[i];
        emulate(one_does(player, {action, 1.0f}),
                action == kResetSwitch ? ConsoleSwitch::kReset : ConsoleSwitch::kNone);
      }
      if (are_several) emulate(all_do(kNoop), ConsoleSwitch::kNone);
    }
    if (env.modification != 0) modify(kAtReset, 0);
    return true;
  }

  // One act(): frame_skip frames with sticky actions. Adds what each player gets to `rewards`.
  CULE_HD void act(const Choice& choice, i32* rewards) { act(choice, num_players(), rewards); }

  // --- effects of mode-selection programs ---
  static constexpr ProgramKind kKind = ProgramKind::kSetup;

  CULE_HD bool select(i32 wanted) {
    const i32 frames = wanted < 0 ? 0 : wanted < kMaxSetupFrames ? wanted : kMaxSetupFrames;
    press(all_do(kNoop), ConsoleSwitch::kSelect);
    for (i32 i = 0; i < frames; ++i) run_frame(console, engine);
    look_at_ram();
    press(all_do(kNoop), ConsoleSwitch::kNone);
    run_frame(console, engine);
    run_rules();
    look_at_ram();
    count_frame();
    return count_setup_frames(frames + 1);
  }
  CULE_HD bool soft_reset() {
    emulate(all_do(kNoop), ConsoleSwitch::kReset, 4);
    for (i32& action : env.last_action) action = kNoop;
    return count_setup_frames(4);
  }
  // The first player acts; with several, the second has a draw too, and does nothing.
  CULE_HD bool act(i32 action) {
    // Once the episode is over this emulates nothing, and a program that waits for an effect loops
    // forever (the reference hangs): the frame count below turns that into a fault.
    i32 rewards[kMaxPlayers] = {};
    act(one_does(0, {action, 1.0f}), num_players() > 1 ? 2 : 1, rewards);
    return count_setup_frames(settings.frame_skip);
  }
  CULE_HD bool count_jump() {
    if (++setup_jumps <= kMaxSetupJumps) return true;
    env.fault = EnvFault::kModeUnreachable;
    return false;
  }
  CULE_HD i32 draw() { return i32(random().next()); }
  CULE_HD void fail(i32) { env.fault = EnvFault::kModeRefused; }

 protected:
  // The mode selection of a reset; false: env.fault says why the mode was not reached.
  template <class Effects>
  CULE_HD bool select_mode(Effects& effects) {
    if (game.setup_code == nullptr) return true;
    setup_frames = setup_jumps = 0;
    in_setup = true;
    env.slots[kModeSlot] = env.mode;
    run_program(game.setup_code, env.slots, memory(), effects);
    in_setup = false;
    return env.fault == EnvFault::kNone;
  }

  CULE_HD RuleMemory memory() const { return {console.s.ram, console.s.cart.ram}; }

  CULE_HD void run_rules() {
    NoEffects none;
    run_program(game.step_code, env.slots, {console.s.ram, console.s.cart.ram, &console.s.data_bus},
                none);
  }

  // The environment reads the RAM from the first cell to the last, and the last stays on the data
  // bus.
  CULE_HD void look_at_ram() { console.s.data_bus = console.s.ram[kRamBytes - 1]; }

  CULE_HD bool count_setup_frames(i32 frames) {
    if (!in_setup) return true;
    setup_frames += frames;
    if (setup_frames <= kMaxSetupFrames) return true;
    env.fault = EnvFault::kModeUnreachable;
    return false;
  }

  // Both counters wrap at 2^31.
  CULE_HD void count_frame() {
    env.frame_number = i32(u32(env.frame_number) + 1);
    env.episode_frame_number = i32(u32(env.episode_frame_number) + 1);
  }

 private:
  CULE_HD Mt19937& random() { return num_players() == 1 ? streams->env : streams->machine; }

  CULE_HD void act(const Choice& choice, u32 num_choosing, i32* rewards) {
    for (i32 k = 0; k < settings.frame_skip; ++k) {
      ++env.acted_frames;
      for (u32 player = 0; player < num_choosing; ++player) {
        if (draws_repeat(player)) continue;
        env.last_action[player] = choice.of[player].action;
        env.last_strength[player] = choice.of[player].strength;
      }
      // A single player's draw is followed by one of player B, who never does anything.
      if (num_players() == 1 && sticky.is_exact) random().next();
      if (is_over()) continue;
      Choice applied;
      for (u32 player = 0; player < kMost; ++player) {
        const i32 action = action_of(player);
        const bool is_legal = action >= 0 && action < kActions && game.legal_actions >> action & 1;
        applied.of[player] = {is_legal ? action : i32(kNoop), env.last_strength[player]};
      }
      emulate(applied, ConsoleSwitch::kNone);
      count_frame();
      for (u32 player = 0; player < num_players(); ++player)
        rewards[player] = add_wrapping(rewards[player], reward_of(player));
    }
  }

  CULE_HD CULE_INLINE i32 modify(Moment moment, i32 value) {
    return cule::modify(console.s, env, game.modifications, sticky.seed, moment, value);
  }
  CULE_HD bool is_modified(u32 player) const {
    return player == 0 && env.modification != 0 && !in_setup;
  }
  CULE_HD CULE_INLINE i32 action_of(u32 player) {
    const i32 action = env.last_action[player];
    return is_modified(player) ? modify(kBeforeFrame, action) : action;
  }
  CULE_HD CULE_INLINE i32 reward_of(u32 player) {
    const i32 reward = env.slots[reward_slot(player)];
    return is_modified(player) ? modify(kAfterFrame, reward) : reward;
  }

  CULE_HD bool draws_repeat(u32 player) {
    const double p = settings.repeat_action_probability;
    if (sticky.is_exact) return random().next_double() < p;
    const u32 r = counter_random(sticky.seed, player, env.acted_frames, Purpose::kSticky);
    return r * (1.0 / 4294967296.0) < p;
  }

  CULE_HD void press(const Choice& choice, ConsoleSwitch held) {
    set_inputs(console.s, console.properties, num_players(), choice.of, held, u32(env.difficulty),
               env.paddle);
  }

  CULE_HD void move_paddle(i32& paddle, const Command& command) const {
    const float strength = command.strength;
    const double magnitude = strength < 0 ? -double(strength) : double(strength);
    const i32 step = i32(kPaddleStep * magnitude);
    paddle = moved_paddle(settings, paddle, pressed_by(command.action), step);
  }

  // Frames with these commands, each followed by the rules.
  CULE_HD void emulate(const Choice& choice, ConsoleSwitch held, i32 frames = 1) {
    for (i32 i = 0; i < frames; ++i) {
      for (u32 player = 0; player < num_players(); ++player)
        move_paddle(env.paddle[player], choice.of[player]);
      press(choice, held);
      run_frame(console, engine);
      run_rules();
    }
    look_at_ram();
  }
};

// Construction up to and including the switch-on reset of loadROM (NOTES.md 1.1).
// With detect_format, 60 frames as NTSC decide between NTSC and PAL; returns the format.
template <class Engine>
CULE_HD Format load_console(Console console, ConsoleProperties& properties, Mt19937& machine_random,
                            bool detect_format, u32 property_difficulty, Engine engine) {
  ConsoleState& s = console.s;
  power_on(s, machine_random);
  if (detect_format) {
    properties.format = Format::kNtsc;
    reset_machine(console, machine_random);
    const Command nothing = kIdleCommand;
    const i32 no_resistance[kMaxPlayers] = {};
    set_inputs(s, properties, 1, &nothing, ConsoleSwitch::kNone, property_difficulty,
               no_resistance);
    u32 long_frames = 0;
    for (u32 frame = 0; frame < 60; ++frame) {
      run_frame(console, engine);
      if (frame >= 30 && current_line(s) > 285) ++long_frames;
    }
    properties.format = long_frames >= 15 ? Format::kPal : Format::kNtsc;
    if (properties.format == Format::kPal && properties.height == 210) properties.height = 250;
  }
  reset_machine(console, machine_random);
  return properties.format;
}

}  // namespace cule
