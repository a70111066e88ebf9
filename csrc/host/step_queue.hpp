// host/step_queue.hpp: asynchronous stepping: what has been sent and not received.
//
// An environment is sent with its commands, or with a seed to be reset. A thread of the pool does
// the work and says finish(); take() waits for environments in the order in which they finish, and
// release() lets them be sent again, once their results have been copied. Results that a reset
// replaces wait here too. send() is the caller's; the others are any thread's.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "env/ale.hpp"
#include "host/interruption.hpp"

namespace cule {

// A call that the state of the batch does not allow; nothing has changed.
struct NotReady : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A call out of turn of asynchronous stepping; nothing has changed.
struct CallOutOfTurn : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A call of a batch that has been closed.
struct BatchClosed : std::runtime_error {
  BatchClosed() : std::runtime_error("the environment has been closed") {}
};

constexpr i64 kKeepState = -2;  // in place of a seed: report only

// The last observation and numbers of episodes that ended, one row per environment.
class FinalResults {
 public:
  bool is_kept() const { return !obs_.empty(); }
  void keep(size_t environments, size_t obs_bytes, u32 int_rows) {
    obs_bytes_ = obs_bytes;
    int_rows_ = int_rows;
    obs_.resize(environments * obs_bytes);
    ints_.resize(environments * int_rows);
  }
  // Null where they are not kept.
  u8* obs(i32 i) { return is_kept() ? obs_.data() + size_t(i) * obs_bytes_ : nullptr; }
  i32* ints(i32 i) { return is_kept() ? ints_.data() + size_t(i) * int_rows_ : nullptr; }

 private:
  size_t obs_bytes_ = 0;
  u32 int_rows_ = 0;
  std::vector<u8> obs_;
  std::vector<i32> ints_;
};

class StepQueue {
 public:
  StepQueue(size_t environments, size_t num_players)
      : num_players_(num_players),
        commands_(environments * num_players),
        seeds_(environments),
        is_sent_(environments) {}

  // Asynchronous results have to be received before any other call.
  void check_empty(const char* call) const {
    if (in_flight_ == 0) return;
    throw CallOutOfTurn(std::string(call) + "() while " + std::to_string(in_flight_.load()) +
                        " environments have been sent; call recv() first");
  }

  // commands: [ids.size()][num_players].
  void send(const std::vector<i32>& ids, const std::vector<Command>& commands) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const i32 id : ids) {
      if (!is_sent_[size_t(id)]) continue;
      throw CallOutOfTurn("environment " + std::to_string(id) +
                          " has been sent already; call recv() first");
    }
    const Command* from = commands.data();
    for (const i32 id : ids) {
      std::copy_n(from, num_players_, &commands_[size_t(id) * num_players_]);
      from += num_players_;
      is_sent_[size_t(id)] = 1;
    }
    in_flight_ += i32(ids.size());
  }
  // All environments; the queue is empty.
  void send_reset(const i64* seeds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    seeds_.assign(seeds, seeds + seeds_.size());
    is_sent_.assign(is_sent_.size(), 1);
    in_flight_ = i32(seeds_.size());
  }

  const Command* commands(i32 i) const { return &commands_[size_t(i) * num_players_]; }
  i64 seed(i32 i) const { return seeds_[size_t(i)]; }

  // `error`: what the work threw, for the next take().
  void finish(i32 i, std::exception_ptr error) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      finished_.push_back(i);
      if (error) error_ = error;
    }
    has_finished_.notify_all();
  }

  i32 num_in_flight() const { return in_flight_; }

  // Ends every take(); to be called before the threads that finish() stop.
  void close() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_closed_ = true;
    }
    has_finished_.notify_all();
  }

  // The next n environments that have finished, for release(); all of them in order of their
  // numbers. None is taken by a call that is interrupted.
  std::vector<i32> take(i32 n, Interruption* interruption) {
    std::vector<i32> ids{};
    ids.reserve(size_t(n));
    std::unique_lock<std::mutex> lock(mutex_);
    if (in_flight_ - awaited_ < n) {
      throw CallOutOfTurn("recv() of " + std::to_string(n) + " environments, but only " +
                          std::to_string(in_flight_ - awaited_) +
                          " have been sent that no other call waits for");
    }
    awaited_ += n;
    const auto is_ready = [&] { return is_closed_ || i32(finished_.size()) >= n; };
    bool is_interrupted = false;
    while (!is_interrupted &&
           !has_finished_.wait_for(lock, Interruption::kPollInterval, is_ready)) {
      if (interruption == nullptr) continue;
      lock.unlock();
      is_interrupted = interruption->is_wanted();
      lock.lock();
    }
    if (is_interrupted || is_closed_) {
      awaited_ -= n;
      if (is_interrupted) throw Interrupted();
      throw BatchClosed();
    }
    ids.assign(finished_.begin(), finished_.begin() + n);
    finished_.erase(finished_.begin(), finished_.begin() + n);
    if (const std::exception_ptr error = std::exchange(error_, nullptr)) {
      lock.unlock();
      release(ids);
      std::rethrow_exception(error);
    }
    if (ids.size() == is_sent_.size()) std::sort(ids.begin(), ids.end());
    return ids;
  }
  void release(const std::vector<i32>& ids) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const i32 n = i32(ids.size());
    awaited_ -= n;
    in_flight_ -= n;
    for (const i32 id : ids) is_sent_[size_t(id)] = 0;
  }

  FinalResults final_results;  // with autoreset SameStep

 private:
  const size_t num_players_;
  std::vector<Command> commands_;  // [N][num_players]
  std::vector<i64> seeds_;
  std::vector<u8> is_sent_;
  std::atomic<i32> in_flight_{0};
  i32 awaited_ = 0;  // of those in flight, by calls of take(), or taken
  bool is_closed_ = false;
  std::exception_ptr error_;
  std::mutex mutex_;  // of what is above, but commands_ and seeds_ of environments in flight
  std::condition_variable has_finished_;
  std::deque<i32> finished_;
};

}  // namespace cule
