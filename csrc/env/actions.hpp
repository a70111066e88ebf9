// env/actions.hpp: ALE action numbers and what they press.
#pragma once

#include "console/state.hpp"

namespace cule {

enum Action : i32 { kNoop = 0, kFire = 1, kActions = 18, kResetSwitch = 40 };

enum Press : u32 { kPressUp = 1, kPressDown = 2, kPressLeft = 4, kPressRight = 8, kPressFire = 16 };

// Actions 2 to 9 are the directions UP RIGHT LEFT DOWN UPRIGHT UPLEFT DOWNRIGHT DOWNLEFT, and 10 to
// 17 the same with FIRE. What each presses, four bits a direction:
constexpr u32 kDirections = 8;
constexpr u32 kFirstDirection = 2;
constexpr u32 kFirstFireDirection = kFirstDirection + kDirections;
constexpr u32 kDirectionPresses = 0x6A592481;

CULE_HD constexpr u32 pressed_by(i32 action) {
  if (action <= kNoop || action >= kActions) return 0;
  if (action == kFire) return kPressFire;
  const bool is_fire = u32(action) >= kFirstFireDirection;
  const u32 direction = u32(action) - (is_fire ? kFirstFireDirection : kFirstDirection);
  return (kDirectionPresses >> (4 * direction) & 0xF) | (is_fire ? u32(kPressFire) : 0);
}

// horizontal: -1 left, 1 right; vertical: -1 down, 1 up.
CULE_HD constexpr i32 action_of_direction(i32 horizontal, i32 vertical, bool is_fire) {
  const u32 pressed = (horizontal > 0   ? u32(kPressRight)
                       : horizontal < 0 ? u32(kPressLeft)
                                        : 0) |
                      (vertical > 0   ? u32(kPressUp)
                       : vertical < 0 ? u32(kPressDown)
                                      : 0);
  for (u32 direction = 0; direction < kDirections; ++direction) {
    if ((kDirectionPresses >> (4 * direction) & 0xF) == pressed) {
      return i32((is_fire ? kFirstFireDirection : kFirstDirection) + direction);
    }
  }
  return is_fire ? kFire : kNoop;
}

static_assert(action_of_direction(0, 1, false) == 2 && action_of_direction(1, 0, true) == 11 &&
              action_of_direction(-1, -1, true) == 17 && action_of_direction(0, 0, true) == kFire);
static_assert(pressed_by(6) == (kPressUp | kPressRight));

constexpr u32 kMaxPlayers = 4;

// What a player does in a frame: an ALE action, and how fast it turns a paddle.
struct Command {
  i32 action;
  float strength;
};
constexpr Command kIdleCommand{kNoop, 1.0f};

// A command per player.
template <u32 kPlayers>
struct Commands {
  Command of[kPlayers];
};

enum class ConsoleSwitch : u8 { kNone, kReset, kSelect };

CULE_HD constexpr u32 joystick_bits(u32 pressed) {
  return (pressed & kPressUp ? 0x10u : 0) | (pressed & kPressDown ? 0x20u : 0) |
         (pressed & kPressLeft ? 0x40u : 0) | (pressed & kPressRight ? 0x80u : 0);
}

CULE_HD constexpr u8 switch_pins(ConsoleSwitch held, u32 difficulty) {
  const u32 released = 0x3F | (difficulty & 3) << 6;
  return u8(held == ConsoleSwitch::kReset    ? released & ~1u
            : held == ConsoleSwitch::kSelect ? released & ~2u
                                             : released);
}

// Sets the pins of both ports and the console switches: a joystick per player, or a paddle per
// player, two to a port (NOTES.md 3.1, 9.4). `difficulty`: bit 0 left A, bit 1 right A.
CULE_HD inline void set_inputs(ConsoleState& s, const ConsoleProperties& p, u32 num_players,
                               const Command* commands, ConsoleSwitch held, u32 difficulty,
                               const i32* paddle_resistance) {
  Inputs& in = s.inputs;
  u32 swcha = 0xFF;
  in.fire[0] = in.fire[1] = 0x80;
  for (i32& r : in.resistance) r = kNoPaddle;
  const bool has_paddles = p.left_paddles || p.right_paddles;
  for (u32 player = 0; player < (has_paddles ? kMaxPlayers : 2); ++player) {
    const u32 pressed = player < num_players ? pressed_by(commands[player].action) : 0;
    if (has_paddles) {
      const u32 pot = player ^ (p.swap_paddles ? 1 : 0);
      if (!(pot < 2 ? p.left_paddles : p.right_paddles)) continue;
      // Players who are not of the mode are idle; with one player the right port has none at all.
      in.resistance[pot] = num_players == 1 && pot >= 2 ? 0 : paddle_resistance[player];
      // The buttons of INPT0 to INPT3 are bits 7, 6, 3 and 2.
      if (pressed & kPressFire) swcha &= ~(0x80u >> (pot + (pot & 2)));
    } else {
      const u32 port = (player ^ u32(p.swap_ports)) & 1;
      const u32 stick = joystick_bits(pressed);
      swcha &= ~(port ? stick >> 4 : stick);
      if (pressed & kPressFire) in.fire[port] = 0;
    }
  }
  in.swcha = u8(swcha);
  in.swchb = switch_pins(held, difficulty);
}

}  // namespace cule
