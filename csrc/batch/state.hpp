// batch/state.hpp: the plain data of one environment of a batch, and what a step reports of it.
//
// Results are two tables, [rows, width] of i32 and of bool bytes; an environment's results are one
// column. What each player has of their own is a row per player, the first player's first.
#pragma once

#include "env/agent.hpp"

namespace cule {

struct SlotState {
  ConsoleState console;
  EnvState env;
  AgentState agent;
  // As of the last step or reset; of the ended episode where it was reset in the step.
  AgentState reported;
  u64 seed;          // of the counter-based generator
  u32 newest_frame;  // index into the stack
  u8 has_reset;      // an episode has begun
  u8 is_ended;       // and has ended
  u8 reserved[2];
};

static_assert(std::is_trivially_copyable_v<SlotState>);

// Kinds of rows of the i32 and bool result tables, first those that all players share.
enum IntRow : u32 {
  kIntFrameNumber,
  kIntEpisodeFrameNumber,
  kIntEpisodeLength,
  kIntEnvId,
  kIntOfPlayers,
  kIntReward = kIntOfPlayers,
  kIntRawReward,
  kIntLives,
  kIntEpisodeReturn,
  kIntKinds,
};
enum FlagRow : u32 {
  kFlagTerminated,
  kFlagTruncated,
  kFlagFirst,
  kFlagEnded,
  kFlagOfPlayers,
  kFlagLifeLost = kFlagOfPlayers,
  kFlagKinds,
};

// The first row of a kind.
CULE_HD constexpr u32 int_row(u32 kind, u32 num_players) {
  return kind < kIntOfPlayers ? kind : kIntOfPlayers + (kind - kIntOfPlayers) * num_players;
}
CULE_HD constexpr u32 int_rows(u32 num_players) { return int_row(kIntKinds, num_players); }
CULE_HD constexpr u32 flag_rows(u32 num_players) { return kFlagOfPlayers + num_players; }

// `ints`: the environment's column.
CULE_HD CULE_NOINLINE inline void write_ints(const SlotState& s, const AgentOptions& o,
                                             u32 num_players, i32 console, i32* ints,
                                             size_t width) {
  const AgentState& a = s.reported;
  ints[kIntFrameNumber * width] = s.env.frame_number;
  ints[kIntEpisodeFrameNumber * width] = s.env.episode_frame_number;
  ints[kIntEpisodeLength * width] = a.episode_length;
  ints[kIntEnvId * width] = console;
  for (u32 player = 0; player < num_players; ++player) {
    const auto row = [&](IntRow kind) -> i32& {
      return ints[(int_row(kind, num_players) + player) * width];
    };
    row(kIntReward) = paid_reward(a.reward[player], o);
    row(kIntRawReward) = a.reward[player];
    row(kIntLives) = s.agent.lives[player];
    row(kIntEpisodeReturn) = a.episode_return[player];
  }
}

CULE_HD inline void write_flags(const SlotState& s, const AgentOptions& o, u32 num_players,
                                u8* flags, size_t width) {
  const AgentState& a = s.reported;
  flags[kFlagTerminated * width] = is_terminated(a, o);
  flags[kFlagTruncated * width] = is_truncated(a, o);
  flags[kFlagFirst * width] = s.agent.is_first;
  flags[kFlagEnded * width] = is_ended(a, o);
  for (u32 player = 0; player < num_players; ++player)
    flags[(kFlagLifeLost + player) * width] = a.has_lost_life[player];
}

// An episode begins: nothing has ended, and nothing but the reset is reported.
CULE_HD inline void start_episode(SlotState& s) {
  s.has_reset = 1;
  s.is_ended = 0;
  s.reported = s.agent;
}

// Copies a cached reset state, except the position of the environment's own counter-based generator
// and how the environment was set up.
CULE_HD inline void copy_reset_state(SlotState& s, const SlotState& cached) {
  const u64 seed = s.seed;
  const u64 acted_frames = s.env.acted_frames;
  const i32 mode = s.env.mode;
  const i32 difficulty = s.env.difficulty;
  const u8 action_delay = s.env.action_delay;
  s = cached;
  s.seed = seed;
  s.env.acted_frames = acted_frames;
  s.env.mode = mode;
  s.env.difficulty = difficulty;
  s.env.action_delay = action_delay;
}

// Samples which of `count` cached reset states the next episode begins with. Advances the counter,
// so that every reset samples anew.
CULE_HD inline u32 choose_reset_state(SlotState& s, u32 count) {
  const u64 step = ++s.env.acted_frames;
  const u32 choice = counter_random(s.seed, 0, step, Purpose::kResetState);
  return u32(u64(choice) * count >> 32);
}

}  // namespace cule
