// env/ale.hpp: one console as an ALE environment: load, reset, act, lives, game over
// (NOTES.md 1-3).
//
// In: actions (ALE numbers), settings, the game's rules. Out: reward of each act; state ready for
// the next. The order of frames and random draws is the reference's: see NOTES.md of this room.
#pragma once

#include "console/frame.hpp"
#include "env/actions.hpp"
#include "game/vm.hpp"

namespace cule {

constexpr i32 kDefaultPaddleMin = 27450;
constexpr i32 kDefaultPaddleMax = 790196;
constexpr double kPaddleStep = 23000.0;
constexpr i32 kMaxSetupFrames = 200000;  // a mode selection that takes longer never ends
constexpr i32 kMaxSetupJumps = 1000000;

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
  // Of games for several players (env/players.hpp):
  u32 num_players;
  u32 kept_slots;             // bit per slot that a reset leaves as it is
  u32 lives_at[kMaxPlayers];  // where in lives_code the expression of each player begins
};

struct AleSettings {
  float repeat_action_probability = 0.0f;
  i32 frame_skip = 1;
  i32 max_num_frames_per_episode = 0;  // 0: no limit
  u8 truncate_on_loss_of_life = 0;
  i32 reward_min = -2147483647 - 1;
  i32 reward_max = 2147483647;
  i32 paddle_min = kDefaultPaddleMin;
  i32 paddle_max = kDefaultPaddleMax;
};

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
  i32 paddle[2];       // resistances
  i32 last_action[2];  // remembered for sticky actions; players A and B
  float last_strength[2];
  i32 slots[kMaxSlots];
  u64 acted_frames;  // frames asked for since seeding: step of the counter-based generator
  EnvFault fault;
  u8 reserved[7];
};

static_assert(std::is_trivially_copyable_v<EnvState>);

constexpr i32 kMostPaddle = 10000000;     // resistance
constexpr float kMaxStrength = 10000.0f;  // of an action: far beyond any use

// Whether bytes from outside are the state of an environment: arithmetic with it cannot overflow.
CULE_HD inline bool is_valid_env(const EnvState& e) {
  bool is_valid = e.fault == EnvFault::kNone;
  for (u32 player = 0; player < 2; ++player) {
    // Also refuses what is no number.
    is_valid &= e.last_strength[player] >= -kMaxStrength && e.last_strength[player] <= kMaxStrength;
    is_valid &= e.paddle[player] >= -kMostPaddle && e.paddle[player] <= kMostPaddle;
  }
  return is_valid;
}

// The exact random streams of the reference.
struct ExactStreams {
  Mt19937 machine;
  Mt19937 env;
};

// An ALE action with its strength.
struct Command {
  i32 action;
  float strength;
};

// Where sticky actions come from: the environment's Mersenne Twister, or the counter-based
// generator.
struct StickySource {
  bool is_exact;
  u64 seed;  // counter-based only
  u32 console;
};

template <class Engine>
struct BasicAle {
  Console console;
  EnvState& env;
  ExactStreams* streams;  // null without exact random streams: then reset() must not be called
  const GameFacts& game;
  const AleSettings& settings;
  const StickySource sticky;
  Engine engine{};
  i32 setup_frames = 0;
  i32 setup_jumps = 0;
  bool in_setup = false;

  CULE_HD i32 lives() const {
    NoEffects none;
    return run_program(game.lives_code, env.slots, memory(), none);
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
    env.paddle[0] = env.paddle[1] = (settings.paddle_min + settings.paddle_max) / 2;
    reset_machine(console, streams->machine);
    emulate(kNoop, 1.0f, ConsoleSwitch::kNone, 60);
    soft_reset();
    for (u32 i = 0; i < game.state_size; ++i) env.slots[i] = game.state[i];
    if (!select_mode(effects)) return false;
    soft_reset();
    for (u32 i = 0; i < game.starting_actions_size; ++i) {
      const i32 action = game.starting_actions[i];
      emulate(action, 1.0f, action == kResetSwitch ? ConsoleSwitch::kReset : ConsoleSwitch::kNone);
    }
    return true;
  }

  // How step_agent() says what the player does.
  using Choice = Command;
  CULE_HD static Choice all_do(i32 action) { return {action, 1.0f}; }
  CULE_HD i32 act(const Choice& choice) { return act(choice.action, choice.strength); }

  // One act(): frame_skip frames with sticky actions; the clamped sum of their rewards.
  CULE_HD i32 act(i32 action, float strength) {
    i32 reward = 0;
    for (i32 k = 0; k < settings.frame_skip; ++k) {
      u32 keeps[2];
      draw_sticky(keeps);
      if (!keeps[0]) {
        env.last_action[0] = action;
        env.last_strength[0] = strength;
      }
      if (!keeps[1]) {
        env.last_action[1] = kNoop;
        env.last_strength[1] = 0.0f;
      }
      if (is_over()) continue;
      i32 applied = env.last_action[0];
      if (applied < 0 || applied >= kActions || !(game.legal_actions >> applied & 1))
        applied = kNoop;
      emulate(applied, env.last_strength[0], ConsoleSwitch::kNone);
      count_frame();
      reward = i32(u32(reward) + u32(env.slots[kRewardSlot]));
    }
    return reward < settings.reward_min   ? settings.reward_min
           : reward > settings.reward_max ? settings.reward_max
                                          : reward;
  }

  // --- effects of mode-selection programs ---
  static constexpr ProgramKind kKind = ProgramKind::kSetup;

  CULE_HD bool select(i32 wanted) {
    const i32 frames = wanted < 0 ? 0 : wanted < kMaxSetupFrames ? wanted : kMaxSetupFrames;
    set_inputs(console.s, console.properties, kNoop, ConsoleSwitch::kSelect, u32(env.difficulty),
               env.paddle);
    for (i32 i = 0; i < frames; ++i) run_frame(console, engine);
    look_at_ram();
    set_inputs(console.s, console.properties, kNoop, ConsoleSwitch::kNone, u32(env.difficulty),
               env.paddle);
    run_frame(console, engine);
    run_rules();
    look_at_ram();
    count_frame();
    return count_setup_frames(frames + 1);
  }
  CULE_HD bool soft_reset() {
    emulate(kNoop, 1.0f, ConsoleSwitch::kReset, 4);
    env.last_action[0] = env.last_action[1] = kNoop;
    return count_setup_frames(4);
  }
  CULE_HD bool act(i32 action) {
    // Once the episode is over this emulates nothing, and a program that waits for an effect loops
    // forever (the reference hangs): the frame count below turns that into a fault.
    act(action, 1.0f);
    return count_setup_frames(settings.frame_skip);
  }
  CULE_HD bool count_jump() {
    if (++setup_jumps <= kMaxSetupJumps) return true;
    env.fault = EnvFault::kModeUnreachable;
    return false;
  }
  CULE_HD i32 draw() { return i32(streams->env.next()); }
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
  // Two draws a frame, for player A and player B, whether or not they matter.
  CULE_HD void draw_sticky(u32* keeps) {
    const double p = settings.repeat_action_probability;
    ++env.acted_frames;
    if (sticky.is_exact) {
      keeps[0] = streams->env.next_double() < p;
      keeps[1] = streams->env.next_double() < p;
    } else {
      const u32 r = counter_random(sticky.seed, sticky.console, env.acted_frames, Purpose::kSticky);
      keeps[0] = r * (1.0 / 4294967296.0) < p;
      keeps[1] = 0;
    }
  }

  CULE_HD void move_paddle(u32 pressed, float strength) {
    const double magnitude = strength < 0 ? -double(strength) : double(strength);
    const i32 step = i32(kPaddleStep * magnitude);
    env.paddle[0] = moved_paddle(settings, env.paddle[0], pressed, step);
  }

  // Frames with player A's action, each followed by the rules.
  CULE_HD void emulate(i32 action, float strength, ConsoleSwitch held, i32 frames = 1) {
    for (i32 i = 0; i < frames; ++i) {
      move_paddle(pressed_by(action), strength);
      set_inputs(console.s, console.properties, action, held, u32(env.difficulty), env.paddle);
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
    const i32 no_resistance[2] = {0, 0};
    set_inputs(s, properties, kNoop, ConsoleSwitch::kNone, property_difficulty, no_resistance);
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
