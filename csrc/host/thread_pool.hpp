// host/thread_pool.hpp: a persistent pool of threads for one batch.
//
// run() loops over items and returns when all are done; the caller works too. Each thread begins
// with a share of its own, the same in every loop, so that an environment's memory is in its core's
// cache; then it helps the others. post() queues single items for the threads alone (asynchronous
// stepping). Not both at once.
//
// What a task throws in run() ends the loop early, and is thrown to its caller once every thread
// has left. So is Interrupted, from the frames of a run() that was given an Interruption; stop()
// interrupts posted items.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/int.hpp"
#include "host/affinity.hpp"
#include "host/interruption.hpp"

namespace cule {

// A thread cannot be started; none is left running.
struct ThreadStartFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ThreadPool {
 public:
  // Called with (item, worker). Workers are numbered from 0 to size(), the last being the caller of
  // run(); 0 is only for posted items.
  using Task = std::function<void(i32, i32)>;

  // `threads` in all, the caller of run() included. affinity_offset >= 0 pins worker i to that CPU
  // plus i.
  ThreadPool(i32 threads, i32 affinity_offset)
      : size_(threads < 1 ? 1 : threads),
        affinity_offset_(affinity_offset),
        shares_(size_t(size_)) {
    threads_.reserve(size_t(size_));  // so that a thread that runs is always one that is joined
    try {
      for (i32 i = 1; i < size_; ++i) start_thread(i);
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  i32 size() const { return size_; }
  // Besides the caller; the first post() starts one. Without a lock, which a thread may have held
  // when this process was forked.
  bool has_threads() const { return has_threads_; }

  void run(i32 items, const Task& task, Interruption* interruption = nullptr) {
    if (threads_.empty() || items <= 1) {
      const InterruptionScope scope(interruption);
      for (i32 i = 0; i < items; ++i) task(i, size_);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      task_ = &task;
      interruption_ = interruption;
      for (i32 i = 0; i < size_; ++i) {
        shares_[size_t(i)].next = i32(i64(items) * i / size_);
        shares_[size_t(i)].end = i32(i64(items) * (i + 1) / size_);
      }
      busy_ = i32(threads_.size());
      ++generation_;
      ++calls_;
    }
    wake_.notify_all();
    work(size_);
    spin([this] { return busy_ == 0; });
    std::unique_lock<std::mutex> lock(mutex_);
    while (!done_.wait_for(lock, Interruption::kPollInterval, [this] { return busy_ == 0; })) {
      if (interruption == nullptr) continue;
      lock.unlock();
      interruption->is_wanted();
      lock.lock();
    }
    task_ = nullptr;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // Before post(): sees to it that there is a thread besides the caller.
  void prepare_post() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (threads_.empty()) start_thread(0);
  }

  // Queues items; `task` must outlive them, and not throw.
  void post(const std::vector<i32>& items, const Task& task) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (const i32 item : items) posted_.push_back({item, &task});
      ++calls_;
    }
    wake_.notify_all();
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_stopping_ = true;
      stopping_.want();
      posted_.clear();
      ++calls_;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

 private:
  void start_thread(i32 worker) {
    try {
      threads_.emplace_back([this, worker, seen = generation_] { loop(worker, seen); });
      has_threads_ = true;
    } catch (const std::system_error& error) {
      const size_t wanted = size_ > 1 ? size_t(size_) - 1 : 1;
      throw ThreadStartFailed(std::to_string(wanted) + " threads besides the caller are wanted, " +
                              std::to_string(threads_.size()) + " could be started: " +
                              error.code().message() + "; choose fewer with num_threads");
    }
    if (affinity_offset_ >= 0) {
      bind_to_processor(threads_.back(), u32(affinity_offset_) + u32(worker));
    }
  }

  void work(i32 worker) {
    const InterruptionScope scope(interruption_);
    for (i32 k = 0; k < size_; ++k) {
      Share& share = shares_[size_t((worker + k) % size_)];
      for (;;) {
        const i32 i = share.next.fetch_add(1, std::memory_order_relaxed);
        if (i >= share.end) break;
        try {
          (*task_)(i, worker);
        } catch (...) {
          const std::lock_guard<std::mutex> lock(mutex_);
          if (!error_) error_ = std::current_exception();
          for (Share& other : shares_) other.next = other.end;
        }
      }
    }
  }

  // Waking a thread that sleeps can take as long as stepping a console, so a thread looks about for
  // a while before it sleeps, giving way to any other that is ready to run.
  template <typename Condition>
  static void spin(Condition is_met) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (!is_met() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }

  void loop(i32 worker, u64 seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (const u64 calls = calls_; !is_stopping_ && generation_ == seen && posted_.empty()) {
        lock.unlock();
        spin([&] { return calls_ != calls; });
        lock.lock();
      }
      wake_.wait(lock, [&] { return is_stopping_ || generation_ != seen || !posted_.empty(); });
      if (is_stopping_) return;
      if (generation_ != seen) {
        seen = generation_;
        lock.unlock();
        work(worker);
        lock.lock();
        if (--busy_ == 0) done_.notify_one();
        continue;
      }
      const Posted posted = posted_.front();
      posted_.pop_front();
      lock.unlock();
      {
        const InterruptionScope scope(&stopping_);
        (*posted.task)(posted.item, worker);
      }
      lock.lock();
    }
  }

  struct Posted {
    i32 item;
    const Task* task;
  };

  // A line of the cache each.
  struct alignas(64) Share {
    std::atomic<i32> next{0};
    i32 end = 0;
  };

  static constexpr std::chrono::microseconds kSpin{100};

  const i32 size_;
  const i32 affinity_offset_;
  std::vector<std::thread> threads_;
  std::atomic<bool> has_threads_{false};
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const Task* task_ = nullptr;
  Interruption* interruption_ = nullptr;
  std::exception_ptr error_;  // the first that a task of this run() threw
  std::deque<Posted> posted_;
  std::vector<Share> shares_;
  std::atomic<i32> busy_{0};
  u64 generation_ = 0;
  std::atomic<u64> calls_{0};  // of run(), post() and stop(): what a thread that looks about sees
  bool is_stopping_ = false;
  Interruption stopping_;
};

}  // namespace cule
