// env/agent.hpp: one agent step of a console in a batch: frame skip, lives, truncation, reset
// (NOTES.md 8).
//
// In: what the players do. Out: AgentState. An ObservationSink reads the two pictures that
// an observation is made of while they are on the screen:
//
//   begin_frame(frames_left)  a frame is about to run; so many follow it
//   previous()                the last but one frame of the skip is on the screen
//   newest()                  the last one is
//   restart()                 other frames follow, of which the observation is made instead
//
// A step that ends early calls none of them from then on.
#pragma once

#include "env/ale.hpp"

namespace cule {

struct AgentOptions {
  i32 frameskip;
  i32 max_num_frames_per_episode;
  i32 noop_max;
  u8 presses_fire;  // use_fire_reset, and FIRE is in the action set
  u8 episodic_life;
  u8 life_loss_info;
  u8 reward_clipping;
  u8 fire_after_life_loss;  // the same for all consoles of a batch
  u8 has_fire;              // FIRE is in the action set
  i32 third_action;         // of the action set; NOOP if there are fewer
};

// Actions after a lost life, a step each: a no-op, FIRE, the third action (NOTES.md 8.3.1).
constexpr i32 kActionsAfterLifeLoss = 3;
CULE_HD CULE_INLINE i32 action_after_life_loss(const AgentOptions& o, i32 number) {
  return number == 0 ? kNoop : number == 1 ? kFire : o.third_action;
}

struct AgentState {
  // Per player.
  i32 reward[kMaxPlayers];          // of the last step, not clipped
  i32 lives[kMaxPlayers];           // with several players, -1: the player is out
  i32 episode_return[kMaxPlayers];  // unclipped
  u8 has_lost_life[kMaxPlayers];    // in the last step, and the game continues
  // Shared.
  i32 step_frames;     // frames of the steps of this episode
  i32 episode_length;  // steps
  u8 is_over;          // game over
  u8 is_first;         // no step since the reset
  u8 reserved[2];
};

static_assert(std::is_trivially_copyable_v<AgentState>);

// Whether bytes from outside are such a state: what is reported as bool is 0 or 1.
CULE_HD inline bool is_valid_agent(const AgentState& a) {
  bool is_valid = a.is_over <= 1 && a.is_first <= 1;
  for (const u8 has_lost : a.has_lost_life) is_valid &= has_lost <= 1;
  return is_valid;
}

CULE_HD CULE_INLINE bool is_terminated(const AgentState& a, const AgentOptions& o) {
  return a.is_over || ((o.episodic_life || o.life_loss_info) && a.has_lost_life[0]);
}
CULE_HD CULE_INLINE bool is_truncated(const AgentState& a, const AgentOptions& o) {
  return a.step_frames >= o.max_num_frames_per_episode && !is_terminated(a, o);
}
// The episode has ended: a reset has to follow.
CULE_HD CULE_INLINE bool is_ended(const AgentState& a, const AgentOptions& o) {
  return a.is_over || a.step_frames >= o.max_num_frames_per_episode ||
         (o.episodic_life && a.has_lost_life[0]);
}
CULE_HD CULE_INLINE i32 paid_reward(i32 reward, const AgentOptions& o) {
  if (!o.reward_clipping) return reward;
  return reward < -1 ? -1 : reward > 1 ? 1 : reward;
}

template <class Ale, class ObservationSink>
CULE_HD void step_agent(Ale& ale, AgentState& a, const AgentOptions& o, typename Ale::Choice choice,
                        ObservationSink& observation) {
  const u32 num_players = ale.num_players();
  i32 lives_before[Ale::kMostPlayers];
  for (u32 player = 0; player < num_players; ++player) {
    a.reward[player] = 0;
    lives_before[player] = a.lives[player];
  }
  a.is_first = 0;
  bool is_running = true;
  bool fires = false;
  // One call of act() in all, because it is inlined; consoles in step run the same loops.
  for (i32 number = 0;; ++number) {
    for (i32 k = o.frameskip; k > 0; --k) {
      if (!ale.engine.align(is_running, is_running && !ale.is_over())) break;
      if (!is_running) continue;
      observation.begin_frame(k - 1);
      ale.act(number == 0 ? ale.due(choice) : choice, a.reward);
      a.is_over = ale.is_over();
      a.step_frames = add_wrapping(a.step_frames, 1);
      for (u32 player = 0; player < num_players; ++player) {
        a.lives[player] = ale.lives(player);
        const bool is_in = num_players > 1 ? !a.is_over : a.lives[player] > 0;
        a.has_lost_life[player] =
            fires ? !a.is_over : a.lives[player] < lives_before[player] && is_in;
      }
      is_running = !is_ended(a, o);
      if (!is_running) continue;
      if (k == 2) observation.previous();
      if (k == 1) observation.newest();
    }
    if (!o.fire_after_life_loss || number == kActionsAfterLifeLoss) break;
    if (number == 0) fires = o.has_fire && a.has_lost_life[0];
    is_running = fires && !is_ended(a, o);
    if (is_running) observation.restart();
    choice = Ale::all_do(action_after_life_loss(o, number));
  }
  for (u32 player = 0; player < num_players; ++player)
    a.episode_return[player] = add_wrapping(a.episode_return[player], a.reward[player]);
  a.episode_length = add_wrapping(a.episode_length, 1);
}

// reset_game, FIRE, no-ops: FIRE and no-ops together are max(U, 1) frames, U uniform below
// noop_max.
template <class Ale>
CULE_HD bool reset_agent(Ale& ale, AgentState& a, const AgentOptions& o, Mt19937& noop_random) {
  if (!ale.reset()) return false;
  if (o.presses_fire) ale.act(Ale::all_do(kFire), a.reward);
  i32 noops =
      i32(noop_random.next_below(u32(o.noop_max > 1 ? o.noop_max : 1))) - (o.presses_fire ? 1 : 0);
  for (; noops > 0; --noops) {
    ale.act(Ale::all_do(kNoop), a.reward);
    if (ale.is_over() && !ale.reset()) return false;
  }
  a = AgentState{};
  for (u32 player = 0; player < ale.num_players(); ++player) a.lives[player] = ale.lives(player);
  a.is_first = 1;
  return true;
}

// ALE action for a point on the joystick (x to the right, y up) and a button value, each against
// the threshold. With a negative one opposite directions can be pressed, and cancel.
CULE_HD inline i32 action_from_joystick(float x, float y, float fire, float threshold) {
  const i32 horizontal = i32(x > threshold) - i32(x < -threshold);
  const i32 vertical = i32(y > threshold) - i32(y < -threshold);
  return action_of_direction(horizontal, vertical, fire > threshold);
}

}  // namespace cule
