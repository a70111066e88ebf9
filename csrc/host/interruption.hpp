// host/interruption.hpp: lets a call that takes long end early, before a frame.
//
// The thread of the call asks `poll` every kPollInterval, also while it waits for others. Once it
// has said true, or another thread has called want(), each thread of the call throws Interrupted
// before its next frame.
#pragma once

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace cule {

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

class Interruption {
 public:
  static constexpr std::chrono::milliseconds kPollInterval{100};

  // Belongs to the thread that makes it. Without `poll` only want() ends a call.
  explicit Interruption(bool (*poll)() = nullptr) : poll_(poll) {}

  void want() { is_wanted_ = true; }

  void check() {
    if (is_wanted()) throw Interrupted();
  }

  bool is_wanted() {
    if (poll_ != nullptr && std::this_thread::get_id() == caller_) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= next_) {
        next_ = now + kPollInterval;
        if (poll_()) want();
      }
    }
    return is_wanted_.load(std::memory_order_relaxed);
  }

 private:
  bool (*const poll_)();
  const std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kPollInterval;
  std::atomic<bool> is_wanted_{false};
};

// What the frames of this thread ask; null: nothing.
inline thread_local Interruption* current_interruption = nullptr;

class InterruptionScope {
 public:
  explicit InterruptionScope(Interruption* interruption) : before_(current_interruption) {
    current_interruption = interruption;
  }
  ~InterruptionScope() { current_interruption = before_; }
  InterruptionScope(const InterruptionScope&) = delete;
  InterruptionScope& operator=(const InterruptionScope&) = delete;

 private:
  Interruption* const before_;
};

}  // namespace cule
