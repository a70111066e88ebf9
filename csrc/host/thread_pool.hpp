// host/thread_pool.hpp: a persistent pool of threads for one batch.
//
// run() does a loop over items and returns when all are done; the caller works too. post() queues
// single items for the threads alone (asynchronous stepping). Not both at once.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/int.hpp"

namespace cule {

class ThreadPool {
 public:
  // Called with (item, worker); workers are numbered 0 to size(), the last being the caller of
  // run().
  using Task = std::function<void(i32, i32)>;

  // `threads` in all, the caller of run() included. affinity_offset >= 0 pins worker i to that CPU
  // plus i.
  ThreadPool(i32 threads, i32 affinity_offset)
      : size_(threads < 1 ? 1 : threads), affinity_offset_(affinity_offset) {
    for (i32 i = 1; i < size_; ++i) start_thread(i);
  }
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  i32 size() const { return size_; }

  void run(i32 items, const Task& task) {
    if (threads_.empty() || items <= 1) {
      for (i32 i = 0; i < items; ++i) task(i, size_);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      task_ = &task;
      items_ = items;
      next_.store(0, std::memory_order_relaxed);
      busy_ = i32(threads_.size());
      ++generation_;
    }
    wake_.notify_all();
    work(size_);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    task_ = nullptr;
  }

  // Queues items; `task` must outlive them. There is always a thread besides the caller.
  void post(const std::vector<i32>& items, const Task& task) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (threads_.empty()) start_thread(0);
      for (const i32 item : items) posted_.push_back({item, &task});
    }
    wake_.notify_all();
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_stopping_ = true;
      posted_.clear();
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

 private:
  void start_thread(i32 worker) {
    threads_.emplace_back([this, worker, seen = generation_] { loop(worker, seen); });
    if (affinity_offset_ >= 0) {
      const u32 cpus = std::thread::hardware_concurrency();
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET((u32(affinity_offset_) + u32(worker)) % (cpus ? cpus : 1), &set);
      pthread_setaffinity_np(threads_.back().native_handle(), sizeof set, &set);
    }
  }

  void work(i32 worker) {
    for (;;) {
      const i32 i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= items_) return;
      (*task_)(i, worker);
    }
  }

  void loop(i32 worker, u64 seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
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
      (*posted.task)(posted.item, worker);
      lock.lock();
    }
  }

  struct Posted {
    i32 item;
    const Task* task;
  };

  const i32 size_;
  const i32 affinity_offset_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const Task* task_ = nullptr;
  std::deque<Posted> posted_;
  std::atomic<i32> next_{0};
  i32 items_ = 0;
  i32 busy_ = 0;
  u64 generation_ = 0;
  bool is_stopping_ = false;
};

}  // namespace cule
