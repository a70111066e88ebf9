// env/players.hpp: one console as an environment of two or four players (NOTES.md 9).
//
// In: an action for each player. Out: their rewards and lives. Everything that players have of
// their own is in PlayersState; the rest is EnvState's, as for one player.
#pragma once

#include "env/agent.hpp"

namespace cule {

// What a step or an episode gave to each player.
struct PlayersTotals {
  i32 reward[kMaxPlayers];  // of the last step, not clipped
  i32 episode_return[kMaxPlayers];
  u8 has_lost_life[kMaxPlayers];  // in the last step, and the game continues
};

struct PlayersState {
  i32 paddle[kMaxPlayers];    // resistances
  PlayersAction last_action;  // remembered for sticky actions
  i32 lives[kMaxPlayers];     // -1: the player is out
  PlayersTotals totals;       // of the running episode
  // As of the last step or reset; of the ended episode where it was reset in the step.
  PlayersTotals reported;
};

static_assert(std::is_trivially_copyable_v<PlayersState> && sizeof(PlayersState) % 8 == 0);

// Whether bytes from outside are the state of players: arithmetic with it cannot overflow.
CULE_HD inline bool is_valid_players(const PlayersState& s) {
  bool is_valid = true;
  for (const i32 paddle : s.paddle) is_valid &= paddle >= -kMostPaddle && paddle <= kMostPaddle;
  return is_valid;
}

// One generator serves the machine and sticky actions: `machine` of ExactStreams.
template <class Engine>
struct PlayersAle : BasicAle<Engine> {
  using Base = BasicAle<Engine>;
  using Choice = PlayersAction;
  using Base::console;
  using Base::engine;
  using Base::env;
  using Base::game;
  using Base::settings;
  using Base::sticky;
  using Base::streams;

  PlayersState& players;

  CULE_HD static Choice all_do(i32 action) { return {{action, action, action, action}}; }

  CULE_HD i32 lives(u32 player = 0) const {
    NoEffects none;
    return run_program(game.lives_code + game.lives_at[player], env.slots, this->memory(), none);
  }

  // Right after loading, before the reset that belongs to it.
  CULE_HD void load() {
    players = PlayersState{};
    for (u32 i = 0; i < game.state_size; ++i) env.slots[i] = game.state[i];
  }

  // False: the mode could not be selected (env.fault says why).
  CULE_HD bool reset() {
    env.fault = EnvFault::kNone;
    env.episode_frame_number = 0;
    for (i32& r : players.paddle) r = (settings.paddle_min + settings.paddle_max) / 2;
    reset_machine(console, streams->machine);
    emulate(all_do(kNoop), ConsoleSwitch::kNone, 60);
    soft_reset();
    for (u32 i = 0; i < game.state_size; ++i) {
      if (!(game.kept_slots >> i & 1)) env.slots[i] = game.state[i];
    }
    if (!this->select_mode(*this)) return false;
    soft_reset();
    for (u32 player = 0; player < 2; ++player) {
      for (u32 i = 0; i < game.starting_actions_size; ++i) {
        Choice choice = all_do(kNoop);
        choice.of[player] = game.starting_actions[i];
        emulate(choice, ConsoleSwitch::kNone);
      }
      emulate(all_do(kNoop), ConsoleSwitch::kNone);
    }
    return true;
  }

  // One frame with sticky actions. Returns the reward of the first player; `players` has all.
  CULE_HD i32 act(const Choice& choice) { return act(choice, game.num_players); }

  // The totals around step_agent().
  CULE_HD void begin_step() {
    for (u32 player = 0; player < kMaxPlayers; ++player) players.totals.reward[player] = 0;
  }
  CULE_HD void end_step(bool is_over) {
    PlayersTotals& t = players.totals;
    for (u32 player = 0; player < game.num_players; ++player) {
      const i32 before = players.lives[player];
      players.lives[player] = lives(player);
      t.has_lost_life[player] = players.lives[player] < before && !is_over;
      t.episode_return[player] = add_wrapping(t.episode_return[player], t.reward[player]);
    }
    players.reported = t;
  }
  CULE_HD void begin_episode() {
    players.totals = players.reported = PlayersTotals{};
    for (u32 player = 0; player < game.num_players; ++player) players.lives[player] = lives(player);
  }

  // --- effects of mode-selection programs ---
  CULE_HD bool select(i32 wanted) {
    const i32 frames = wanted < 0 ? 0 : wanted < kMaxSetupFrames ? wanted : kMaxSetupFrames;
    press(all_do(kNoop), ConsoleSwitch::kSelect);
    for (i32 i = 0; i < frames; ++i) run_frame(console, engine);
    this->look_at_ram();
    press(all_do(kNoop), ConsoleSwitch::kNone);
    run_frame(console, engine);
    this->run_rules();
    this->look_at_ram();
    this->count_frame();
    return this->count_setup_frames(frames + 1);
  }
  CULE_HD bool soft_reset() {
    emulate(all_do(kNoop), ConsoleSwitch::kReset, 4);
    players.last_action = all_do(kNoop);
    return this->count_setup_frames(4);
  }
  // The first player acts, the second does nothing, in every mode.
  CULE_HD bool act(i32 action) {
    Choice choice = all_do(kNoop);
    choice.of[0] = action;
    act(choice, 2);
    return this->count_setup_frames(1);
  }
  CULE_HD i32 draw() { return i32(streams->machine.next()); }

 private:
  CULE_HD i32 act(const Choice& choice, u32 num_players) {
    ++env.acted_frames;
    for (u32 player = 0; player < num_players; ++player) {
      if (!draws_repeat(player)) players.last_action.of[player] = choice.of[player];
    }
    if (this->is_over()) return 0;
    emulate(players.last_action, ConsoleSwitch::kNone);
    this->count_frame();
    for (u32 player = 0; player < num_players; ++player) {
      i32& sum = players.totals.reward[player];
      sum = add_wrapping(sum, env.slots[reward_slot(player)]);
    }
    return env.slots[kRewardSlot];
  }

  CULE_HD bool draws_repeat(u32 player) {
    const double p = settings.repeat_action_probability;
    if (sticky.is_exact) return streams->machine.next_double() < p;
    const u32 r = counter_random(sticky.seed, player, env.acted_frames, Purpose::kSticky);
    return r * (1.0 / 4294967296.0) < p;
  }

  CULE_HD void press(const Choice& choice, ConsoleSwitch held) {
    set_inputs(console.s, console.properties, choice, held, u32(env.difficulty), players.paddle);
  }

  // Frames with these actions, each followed by the rules.
  CULE_HD void emulate(const Choice& choice, ConsoleSwitch held, i32 frames = 1) {
    for (i32 i = 0; i < frames; ++i) {
      for (u32 player = 0; player < kMaxPlayers; ++player) {
        i32& paddle = players.paddle[player];
        paddle = moved_paddle(settings, paddle, pressed_by(choice.of[player]), i32(kPaddleStep));
      }
      press(choice, held);
      run_frame(console, engine);
      this->run_rules();
    }
    this->look_at_ram();
  }
};

template <class Engine, class ObservationSink>
CULE_HD void step_players(PlayersAle<Engine>& ale, AgentState& a, const AgentOptions& o,
                          const PlayersAction& choice, ObservationSink& observation) {
  ale.begin_step();
  step_agent(ale, a, o, choice, observation);
  ale.end_step(a.is_over);
}

template <class Engine>
CULE_HD bool reset_players(PlayersAle<Engine>& ale, AgentState& a, const AgentOptions& o,
                           Mt19937& noop_random) {
  if (!reset_agent(ale, a, o, noop_random)) return false;
  ale.begin_episode();
  return true;
}

}  // namespace cule
