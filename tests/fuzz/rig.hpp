// tests/fuzz/rig.hpp: a console with memory of its own, and the plain interpreter to run it.
#pragma once

#include <memory>

#include "console/frame.hpp"
#include "console/step.hpp"
#include "env/actions.hpp"
#include "host/cartridge_image.hpp"

namespace cule::fuzz {

inline void set_inputs(ConsoleState& s, const ConsoleProperties& p, u8 pressed) {
  const i32 resistance[kMaxPlayers] = {i32(pressed) * 3000, 100000};
  const Command command{pressed % kActions, 1.0f};
  const auto held = ConsoleSwitch(pressed / kActions % 3);
  cule::set_inputs(s, p, 1, &command, held, pressed >> 6, resistance);
}

// A console with memory of exactly the size it needs.
class Rig {
 public:
  Rig(const Cart& cart, const ConsoleProperties& properties, u32 log_capacity)
      : properties_(properties),
        cart_(cart),
        log_capacity_(log_capacity),
        logs_(kLogSlots * log_bytes(log_capacity)),
        pixels_(2 * size_t(properties.height) * kScreenWidth),
        state_(std::make_unique<ConsoleState>()) {}

  Console console() {
    const FrameMemory memory{reinterpret_cast<TiaWriteLog*>(logs_.data()), pixels_.data(),
                             properties_.height * kScreenWidth, nullptr, log_capacity_};
    return {*state_, memory, cart_, properties_};
  }
  ConsoleState& state() { return *state_; }
  void power_on(u32 seed) {
    Mt19937 random;
    random.seed(seed);
    cule::power_on(*state_, random);
    reset_machine(console(), random);
  }
  Bytes picture(u32 n, const u8* map) {
    Bytes rows(properties_.height * kScreenWidth);
    draw_picture(console(), n, rows.data(), map);
    return rows;
  }
  // Of the last frame step.
  const TiaWriteLog& log() { return console().memory.log(state_->picture.recording_slot); }
  const ConsoleProperties& properties() const { return properties_; }

 private:
  const ConsoleProperties properties_;
  const Cart cart_;
  const u32 log_capacity_;
  std::vector<u8> logs_, pixels_;
  std::unique_ptr<ConsoleState> state_;
};

// The plain interpreter. Count: called with the clock at the end of each frame step.
template <class Count>
struct PlainEngine {
  using Access = PlainAccess;

  Count count;

  FlatRam ram(ConsoleState& s) const { return {s.ram}; }
  void run(Machine<PlainAccess>& m) const {
    switch (m.console.cart.type) {
      case Bankswitch::kE0:
        return count(run_step(m, cule::run_fast<E0Fetch, PlainAccess>));
      case Bankswitch::kFE:
        return count(run_step(m, cule::run_fast<FeFetch, PlainAccess>));
      default:
        return count(run_step(m, cule::run_fast<BankFetch, PlainAccess>));
    }
  }
};
template <class Count>
PlainEngine(Count) -> PlainEngine<Count>;

}  // namespace cule::fuzz
