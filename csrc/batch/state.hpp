// batch/state.hpp: the plain data of one environment of a batch, and what a step reports of it.
//
// Results are two tables, [rows, width] of i32 and of bool bytes; an environment's results are one
// column.
#pragma once

#include "env/players.hpp"

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

// Rows of the i32 and bool result tables.
enum IntRow : u32 {
  kIntReward,
  kIntRawReward,
  kIntLives,
  kIntFrameNumber,
  kIntEpisodeFrameNumber,
  kIntEpisodeReturn,
  kIntEpisodeLength,
  kIntEnvId,
  kIntRows,
};
enum FlagRow : u32 {
  kFlagTerminated,
  kFlagTruncated,
  kFlagLifeLost,
  kFlagFirst,
  kFlagEnded,
  kFlagRows
};

// `ints`: the environment's column.
CULE_HD inline void write_ints(const SlotState& s, const AgentOptions& o, i32 console, i32* ints,
                               size_t width) {
  const AgentState& a = s.reported;
  ints[kIntReward * width] = paid_reward(a.reward, o);
  ints[kIntRawReward * width] = a.reward;
  ints[kIntLives * width] = s.agent.lives;
  ints[kIntFrameNumber * width] = s.env.frame_number;
  ints[kIntEpisodeFrameNumber * width] = s.env.episode_frame_number;
  ints[kIntEpisodeReturn * width] = a.episode_return;
  ints[kIntEpisodeLength * width] = a.episode_length;
  ints[kIntEnvId * width] = console;
}

// Further rows of the i32 table with several players: num_players of each kind, the first player's
// first.
enum PlayerRow : u32 {
  kPlayerReward,
  kPlayerRawReward,
  kPlayerLives,
  kPlayerReturn,
  kPlayerLifeLost,
  kPlayerRows,
};

CULE_HD constexpr u32 int_rows(u32 num_players) {
  return kIntRows + (num_players > 1 ? kPlayerRows * num_players : 0);
}

CULE_HD inline void write_player_ints(const PlayersState& s, const AgentOptions& o, u32 num_players,
                                      i32* ints, size_t width) {
  const PlayersTotals& t = s.reported;
  for (u32 player = 0; player < num_players; ++player) {
    const auto row = [&](PlayerRow kind) -> i32& {
      return ints[(kIntRows + kind * num_players + player) * width];
    };
    row(kPlayerReward) = paid_reward(t.reward[player], o);
    row(kPlayerRawReward) = t.reward[player];
    row(kPlayerLives) = s.lives[player];
    row(kPlayerReturn) = t.episode_return[player];
    row(kPlayerLifeLost) = t.has_lost_life[player];
  }
}

CULE_HD inline void write_flags(const SlotState& s, const AgentOptions& o, u8* flags,
                                size_t width) {
  const AgentState& a = s.reported;
  flags[kFlagTerminated * width] = is_terminated(a, o);
  flags[kFlagTruncated * width] = is_truncated(a, o);
  flags[kFlagLifeLost * width] = a.has_lost_life;
  flags[kFlagFirst * width] = s.agent.is_first;
  flags[kFlagEnded * width] = is_ended(a, o);
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
  s = cached;
  s.seed = seed;
  s.env.acted_frames = acted_frames;
  s.env.mode = mode;
  s.env.difficulty = difficulty;
}

// Samples which of `count` cached reset states the next episode begins with. Advances the counter,
// so that every reset samples anew.
CULE_HD inline u32 choose_reset_state(SlotState& s, u32 count) {
  const u64 step = ++s.env.acted_frames;
  const u32 choice = counter_random(s.seed, 0, step, Purpose::kResetState);
  return u32(u64(choice) * count >> 32);
}

}  // namespace cule
