// host/batch.hpp: N environments stepped together by CPU threads.
//
// A step of one environment: (autoreset,) actions to frames, observation, results. Environments
// share no state, so results do not depend on the number of threads or on how a batch is split.
// step() allocates nothing.
#pragma once

#include <map>
#include <tuple>

#include "host/env_slot.hpp"
#include "host/step_queue.hpp"
#include "host/thread_pool.hpp"

namespace cule {

// Where results go. Tables are [rows, width]; an environment's results are one column.
struct Outputs {
  u8* obs = nullptr;
  std::ptrdiff_t obs_stride = 0;  // bytes between environments
  i32* ints = nullptr;
  u8* flags = nullptr;
  size_t width = 0;
  u8* final_obs = nullptr;  // may be null
  std::ptrdiff_t final_obs_stride = 0;
  i32* final_ints = nullptr;  // may be null
  bool stacked = true;
};

constexpr i32 kJoystickSize = 4;  // numbers of a continuous action

// Bytes of one environment and of its snapshot. Of what is mapped, a batch without pictures touches
// a part.
struct EnvBytes {
  size_t touched, mapped, snapshot;
};
EnvBytes env_bytes(const BatchOptions& options, u32 height);

class Batch {
 public:
  Batch(std::vector<std::shared_ptr<const Game>> games, const std::vector<i32>& game_index,
        const std::vector<i32>& modes, const std::vector<i32>& difficulties,
        const std::vector<i32>& action_delays, const std::vector<i32>& modifications,
        const std::vector<i32>& num_modifications, const BatchOptions& options);

  i32 size() const { return i32(slots_.size()); }
  i32 num_threads() const { return pool_.size(); }
  bool has_threads() const { return pool_.has_threads(); }
  const BatchOptions& options() const { return options_; }
  const EnvSlot& slot(i32 i) const { return slots_[size_t(i)]; }
  size_t state_bytes() const { return state_bytes_; }
  u32 picture_height(i32 i) const { return slots_[size_t(i)].setup().game->properties().height; }

  // mask null: all. seeds: one per environment; a negative one keeps the random streams. After what
  // reset() or decorrelate() throws, the environments have to be reset.
  void reset(const u8* mask, const i64* seeds, const Outputs& out,
             Interruption* interruption = nullptr);
  // commands: [size()][num_players], here and below.
  void step(const std::vector<Command>& commands, const Outputs& out);
  void observe(const Outputs& out);
  void decorrelate(i32 max_steps, u64 seed, const Outputs& out,
                   Interruption* interruption = nullptr);

  // Pure forms: of any number of snapshots, whatever the environments were before. Snapshot k is
  // run in environment k % size(). Those that they write (host/logged_row.hpp) may take the place
  // of those that they read.
  void reset_snapshots(const std::vector<i64>& seeds, u8* rows_out, const Outputs& out);
  void step_snapshots(const u8* rows, const std::vector<Command>& commands, u8* rows_out,
                      const Outputs& out);

  // The commands for indices into the action sets, which the caller has checked.
  void command_from_indices(const i32* actions, const i32* ids, i32 n,
                            std::vector<Command>& commands) const;
  // The same for rows of x, y, button value and paddle strength.
  void command_from_joysticks(const float* actions, i32 n, std::vector<Command>& commands) const;
  // Throws unless every environment in `ids` can be stepped.
  void check_ready(const i32* ids, i32 n) const;

  // seeds: as for reset(), or kKeepState for an environment that is reported only.
  void send_reset(const i64* seeds, Interruption* interruption = nullptr);
  void send(const std::vector<Command>& commands, const i32* ids, i32 n);
  void receive(i32 n, const Outputs& out, Interruption* interruption = nullptr);

  void save(i32 i, u8* row);
  // The cached reset states of environment i, num_reset_states snapshots; made on first use.
  const std::vector<std::vector<u8>>& reset_states(i32 i, Interruption* interruption = nullptr);
  // Why a snapshot cannot be restored into environment i; empty if it can.
  std::string find_snapshot_error(i32 i, const u8* row) const;
  // Before restore(): what later resets need.
  void prepare_restore(Interruption* interruption = nullptr) {
    if (options_.cached_resets) fill_cache(interruption);
  }
  void restore(i32 i, const u8* row);
  void draw(i32 i, u8* rows, const u8* map) { slots_[size_t(i)].draw(rows, map); }

  i32 num_in_flight() const { return queue_.num_in_flight(); }  // sent and not received

  void close() {
    queue_.close();
    pool_.stop();
  }

 private:
  struct CacheKey {
    i32 game;
    i32 mode;
    i32 difficulty;
    u32 modification;
    bool operator<(const CacheKey& o) const {
      return std::tie(game, mode, difficulty, modification) <
             std::tie(o.game, o.mode, o.difficulty, o.modification);
    }
  };

  u32 num_players() const { return u32(options_.num_players); }
  void check_action_delays() const;
  void check_modifications() const;
  void make_slots();
  bool reset_slot(i32 i, i64 seed, Workspace& w);
  // `before`: of the pictures that the row holds, which is of this environment; null: another row.
  void save_logged(i32 i, u8* row, const PictureBytes* before);
  void write_numbers(i32 i, i32* ints, size_t width) const;
  void advance(i32 i, const Command* commands, u8* final_obs, i32* final_ints, size_t final_width,
               bool stacked, Workspace& w);
  void write_results(i32 i, const Outputs& out, size_t column) const;
  size_t run_snapshots(size_t n, const std::function<bool(i32, size_t, Workspace&)>& task);
  void fill_cache(Interruption* interruption);
  void run_or_forget(const u8* mask, const ThreadPool::Task& task, Interruption* interruption);
  template <class Work>
  void finish_after(i32 i, Work work) {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    queue_.finish(i, error);
  }
  // Of the `drawn`-th modification of environment i.
  CacheKey cache_key(i32 i, u32 drawn = 0) const {
    return {game_index_[size_t(i)], modes_[size_t(i)], difficulties_[size_t(i)],
            modifications_[size_t(i)] + drawn};
  }

  BatchOptions options_;
  std::vector<GameSetup> setups_;
  std::vector<i32> game_index_, modes_, difficulties_, action_delays_;
  // An episode of environment i has one of num_modifications_[i], from number modifications_[i] on.
  std::vector<u32> modifications_, num_modifications_;
  CallocPtr<SlotState> states_;
  const FrameStores frames_;
  std::vector<EnvSlot> slots_;
  std::vector<u8> is_loaded_;  // environment i has been loaded
  size_t state_bytes_ = 0;
  std::map<CacheKey, std::vector<std::vector<u8>>> cache_;  // rows
  std::vector<Workspace> workspaces_;

  // Asynchronous stepping.
  StepQueue queue_;
  const ThreadPool::Task step_sent_ = [this](i32 i, i32 worker) {
    finish_after(i, [&] {
      advance(i, queue_.commands(i), queue_.final_results.obs(i), queue_.final_results.ints(i), 1,
              true, workspaces_[size_t(worker)]);
    });
  };
  const ThreadPool::Task reset_sent_ = [this](i32 i, i32 worker) {
    finish_after(i, [&] {
      const i64 seed = queue_.seed(i);
      if (seed != kKeepState) reset_slot(i, seed, workspaces_[size_t(worker)]);
    });
  };

  ThreadPool pool_;  // last: its threads use the rest
};

}  // namespace cule
