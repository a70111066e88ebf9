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

// An action for each player.
struct PlayersAction {
  i32 of[kMaxPlayers];
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

// Sets the pins of both ports and the console switches. `difficulty`: bit 0 left A, bit 1 right A.
// Player A drives the left port (the right one with swapped ports), player B stays idle.
CULE_HD inline void set_inputs(ConsoleState& s, const ConsoleProperties& p, i32 action,
                               ConsoleSwitch held, u32 difficulty, const i32* paddle_resistance) {
  Inputs& in = s.inputs;
  const u32 pressed = pressed_by(action);
  u32 swcha = 0xFF;
  in.fire[0] = in.fire[1] = 0x80;
  for (i32& r : in.resistance) r = kNoPaddle;
  if (p.left_paddles || p.right_paddles) {
    // Paddle A is on pin 9 (INPT0, bit 7), paddle B on pin 5 (INPT1, bit 6); swapped the other way
    // round.
    const u32 a = p.swap_paddles ? 1 : 0;
    if (p.left_paddles) {
      in.resistance[a] = paddle_resistance[0];
      in.resistance[1 - a] = paddle_resistance[1];
      if (pressed & kPressFire) swcha &= ~(0x80u >> a);
    }
    if (p.right_paddles) in.resistance[2] = in.resistance[3] = 0;
  } else {
    const u32 port = p.swap_ports ? 1 : 0;
    const u32 stick = joystick_bits(pressed);
    swcha &= ~(port ? stick >> 4 : stick);
    if (pressed & kPressFire) in.fire[port] = 0;
  }
  in.swcha = u8(swcha);
  in.swchb = switch_pins(held, difficulty);
}

// The same for several players: a joystick each, or a paddle each, two to a port (NOTES.md 9.4).
CULE_HD inline void set_inputs(ConsoleState& s, const ConsoleProperties& p,
                               const PlayersAction& actions, ConsoleSwitch held, u32 difficulty,
                               const i32* paddle_resistance) {
  Inputs& in = s.inputs;
  u32 swcha = 0xFF;
  in.fire[0] = in.fire[1] = 0x80;
  for (i32& r : in.resistance) r = kNoPaddle;
  const bool has_paddles = p.left_paddles || p.right_paddles;
  for (u32 player = 0; player < (has_paddles ? kMaxPlayers : 2); ++player) {
    const u32 pressed = pressed_by(actions.of[player]);
    if (has_paddles) {
      const u32 pot = player ^ (p.swap_paddles ? 1 : 0);
      if (!(pot < 2 ? p.left_paddles : p.right_paddles)) continue;
      in.resistance[pot] = paddle_resistance[player];
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
