// host/batch.cpp: see host/batch.hpp.
#include "host/batch.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <random>
#include <tuple>

#include "batch/snapshot_errors.hpp"

namespace cule {
namespace {

u32 entropy() { return std::random_device{}(); }

i32 choose_threads(i32 asked, size_t consoles) {
  if (asked > 0) return asked;
  const size_t cpus = std::max(1u, std::thread::hardware_concurrency());
  return i32(std::min(cpus, consoles));
}

u32 largest_picture(const std::vector<std::shared_ptr<const Game>>& games) {
  u32 bytes = 0;
  for (const auto& game : games) bytes = std::max(bytes, game->properties().height * kScreenWidth);
  return bytes;
}

}  // namespace

EnvBytes env_bytes(const BatchOptions& options, u32 height) {
  const size_t small = sizeof(SlotState) + sizeof(RandomStreams) + sizeof(EnvSlot) +
                       options.pending_bytes() + options.pooled_bytes(height) +
                       options.stack_bytes();
  const size_t logs = kLogSlots * sizeof(TiaWriteLog);
  const u32 picture = height * kScreenWidth;
  const size_t store = FrameStores::used_bytes(picture, LineMemory::of(options));
  return {small + (options.draws() ? store : logs),
          small + store + FrameStores::pixel_bytes(picture), snapshot_layout(options, height).end};
}

Batch::Batch(std::vector<std::shared_ptr<const Game>> games, const std::vector<i32>& game_index,
             const std::vector<i32>& modes, const std::vector<i32>& difficulties,
             const std::vector<i32>& action_delays, const std::vector<i32>& modifications,
             const std::vector<i32>& num_modifications, const BatchOptions& options)
    : options_(options),
      game_index_(game_index),
      modes_(modes),
      difficulties_(difficulties),
      action_delays_(action_delays),
      modifications_(modifications.begin(), modifications.end()),
      num_modifications_(num_modifications.begin(), num_modifications.end()),
      states_(make_zeroed<SlotState>(game_index.size())),
      frames_(game_index.size(), largest_picture(games), LineMemory::of(options)),
      is_loaded_(game_index.size(), 0),
      queue_(game_index.size(), num_players()),
      pool_(choose_threads(options.num_threads, game_index.size()),
            options.thread_affinity_offset) {
  for (auto& game : games) setups_.push_back(make_game_setup(std::move(game), options_));
  workspaces_.resize(size_t(pool_.size()) + 1);
  check_action_delays();
  check_modifications();
  make_slots();
  for (const EnvSlot& u : slots_) state_bytes_ = std::max(state_bytes_, u.snapshot_layout().end);
}

void Batch::check_action_delays() const {
  check_range("max_action_delay", options_.max_action_delay, 0, kMaxActionDelay);
  for (const i32 delay : action_delays_)
    check_range("action_delay", delay, 0, options_.max_action_delay);
}

void Batch::check_modifications() const {
  for (size_t i = 0; i < modifications_.size(); ++i) {
    const Game& game = *setups_[size_t(game_index_[i])].game;
    const u64 last = u64(modifications_[i]) + num_modifications_[i] - 1;
    if (num_modifications_[i] < 1 || last > game.num_modifications()) {
      refuse("modifications and num_modifications hold " + std::to_string(modifications_[i]) +
             " and " + std::to_string(num_modifications_[i]) + "; they must be within 0 to " +
             std::to_string(game.num_modifications()) + " for " + game.spec().game_id);
    }
  }
}

void Batch::make_slots() {
  const size_t n = game_index_.size();
  // The first write maps a page: on all threads in parallel, on the NUMA node of the stepping
  // thread.
  pool_.run(i32(n), [&](i32 i, i32) { frames_[size_t(i)].incremental->watch = {}; });
  slots_.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    slots_.emplace_back(&setups_[size_t(game_index_[i])], &options_, &states_.get()[i],
                        &frames_[i]);
  }
}

bool Batch::reset_slot(i32 i, i64 seed, Workspace& w) {
  EnvSlot& slot = slots_[size_t(i)];
  SlotState& s = slot.state();
  if (options_.cached_resets) {
    if (seed >= 0 || !is_loaded_[size_t(i)]) {
      s.seed = seed >= 0 ? u64(seed) : u64(entropy()) << 32 | entropy();
      s.env.acted_frames = 0;
      s.env.mode = modes_[size_t(i)];
      s.env.difficulty = difficulties_[size_t(i)];
      s.env.action_delay = u8(action_delays_[size_t(i)]);
      is_loaded_[size_t(i)] = 1;
    }
    const u32 drawn = choose_modification(s.env, s.seed, num_modifications_[size_t(i)]);
    const auto& rows = cache_.at(cache_key(i, drawn));
    slot.restore_cached(rows[choose_reset_state(s, u32(rows.size()))].data());
    return true;
  }
  if (seed >= 0 || !is_loaded_[size_t(i)]) {
    is_loaded_[size_t(i)] = 1;
    const u32 value = seed >= 0 ? u32(seed) : entropy();
    if (!slot.load(value, modes_[size_t(i)], difficulties_[size_t(i)], action_delays_[size_t(i)]))
      return false;
  }
  s.env.modification =
      modifications_[size_t(i)] + choose_modification(s.env, s.seed, num_modifications_[size_t(i)]);
  return slot.reset(w);
}

void Batch::fill_cache(Interruption* interruption) {
  std::vector<std::pair<CacheKey, i32>> wanted;
  for (i32 i = 0; i < size(); ++i) {
    for (u32 drawn = 0; drawn < num_modifications_[size_t(i)]; ++drawn) {
      auto [entry, is_new] = cache_.try_emplace(cache_key(i, drawn));
      if (!is_new) continue;
      entry->second.resize(size_t(options_.num_reset_states));
      for (i32 k = 0; k < options_.num_reset_states; ++k) wanted.emplace_back(entry->first, k);
    }
  }
  if (wanted.empty()) return;
  BatchOptions exact = options_;
  exact.cached_resets = false;
  const auto fill_one = [&](i32 k, i32 worker) {
    const auto& [key, seed] = wanted[size_t(k)];
    const auto state = make_zeroed<SlotState>();
    const GameSetup& setup = setups_[size_t(key.game)];
    const FrameStores stores(1, u32(setup.picture_bytes()), LineMemory::of(exact));
    EnvSlot slot(&setup, &exact, state.get(), &stores[0]);
    const bool is_loaded = slot.load(u32(seed), key.mode, key.difficulty, 0);
    state->env.modification = key.modification;
    if (!is_loaded || !slot.reset(workspaces_[size_t(worker)])) {
      throw ModeUnreachable("mode was not reached in the reset of a game");
    }
    std::vector<u8>& row = cache_.find(key)->second[size_t(seed)];
    row.resize(state_bytes_);
    slot.save(row.data(), options_);
  };
  try {
    pool_.run(i32(wanted.size()), fill_one, interruption);
  } catch (...) {
    cache_.clear();
    throw;
  }
}

// Runs a task for every environment. If one throws, those of the mask have to be reset.
void Batch::run_or_forget(const u8* mask, const ThreadPool::Task& task,
                          Interruption* interruption) {
  try {
    pool_.run(size(), task, interruption);
  } catch (...) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (mask != nullptr && !mask[i]) continue;
      slots_[i].state().has_reset = 0;
      is_loaded_[i] = 0;
    }
    throw;
  }
}

void Batch::reset(const u8* mask, const i64* seeds, const Outputs& out,
                  Interruption* interruption) {
  queue_.check_empty("reset");
  for (i32 i = 0; mask != nullptr && i < size(); ++i) {
    if (!mask[i] && !slots_[size_t(i)].state().has_reset) {
      throw NotReady("reset_mask leaves out environment " + std::to_string(i) +
                     ", which has not been reset yet");
    }
  }
  if (options_.cached_resets) fill_cache(interruption);
  const auto reset_one = [&](i32 i, i32 worker) {
    if (mask == nullptr || mask[i]) reset_slot(i, seeds[i], workspaces_[size_t(worker)]);
    EnvSlot& slot = slots_[size_t(i)];
    check_fault(slot.state().env, slot.setup().game->spec().game_id);
    write_results(i, out, size_t(i));
  };
  run_or_forget(mask, reset_one, interruption);
}

void Batch::advance(i32 i, const Command* commands, u8* final_obs, i32* final_ints,
                    size_t final_width, bool stacked, Workspace& w) {
  EnvSlot& slot = slots_[size_t(i)];
  SlotState& s = slot.state();
  if (s.is_ended) {  // NextStep: the action is ignored
    reset_slot(i, -1, w);
    return;
  }
  slot.step(commands, w);
  s.reported = s.agent;
  if (options_.autoreset != Autoreset::kSameStep) return;
  // A lost life that is reported as termination has a final observation, and no reset follows.
  if (final_obs != nullptr && (s.is_ended || is_terminated(s.agent, slot.setup().agent)))
    slot.write_obs(final_obs, stacked);
  if (!s.is_ended) return;
  if (final_ints != nullptr) write_numbers(i, final_ints, final_width);
  // Rewards, returns and flags reported are those of the step that ended; lives and frame numbers
  // are those of the new episode.
  const AgentState ended = s.agent;
  reset_slot(i, -1, w);
  s.reported = ended;
}

// The environment's column of the i32 table.
void Batch::write_numbers(i32 i, i32* ints, size_t width) const {
  const EnvSlot& slot = slots_[size_t(i)];
  write_ints(slot.state(), slot.setup().agent, num_players(), i, ints, width);
}

void Batch::write_results(i32 i, const Outputs& out, size_t column) const {
  const EnvSlot& slot = slots_[size_t(i)];
  slot.write_obs(out.obs + std::ptrdiff_t(column) * out.obs_stride, out.stacked);
  write_numbers(i, out.ints + column, out.width);
  write_flags(slot.state(), slot.setup().agent, num_players(), out.flags + column, out.width);
}

void Batch::step(const std::vector<Command>& commands, const Outputs& out) {
  queue_.check_empty("step");
  pool_.run(size(), [&](i32 i, i32 worker) {
    const size_t n = size_t(i);
    u8* final_obs = out.final_obs == nullptr ? nullptr : out.final_obs + i * out.final_obs_stride;
    i32* final_ints = out.final_ints == nullptr ? nullptr : out.final_ints + n;
    advance(i, &commands[n * num_players()], final_obs, final_ints, out.width, out.stacked,
            workspaces_[size_t(worker)]);
    write_results(i, out, n);
  });
}

void Batch::observe(const Outputs& out) {
  pool_.run(size(), [&](i32 i, i32) { write_results(i, out, size_t(i)); });
}

void Batch::decorrelate(i32 max_steps, u64 seed, const Outputs& out, Interruption* interruption) {
  const auto play = [&](i32 i, i32 worker) {
    Workspace& w = workspaces_[size_t(worker)];
    const std::vector<i32>& actions = slots_[size_t(i)].setup().actions;
    const u32 length = counter_random(seed, u32(i), 0, Purpose::kDecorrelateLength);
    const i32 steps = i32(u64(length) * u64(max_steps + 1) >> 32);
    for (i32 step = 0; step < steps; ++step) {
      Command commands[kMaxPlayers];
      for (u32 player = 0; player < num_players(); ++player) {
        const u32 choice = counter_random(seed, u32(i), u64(step) * num_players() + player,
                                          Purpose::kDecorrelateAction);
        commands[player] = {actions[u64(choice) * actions.size() >> 32], 1.0f};
      }
      advance(i, commands, nullptr, nullptr, 1, true, w);
      if (slots_[size_t(i)].state().is_ended) reset_slot(i, -1, w);
    }
    write_results(i, out, size_t(i));
  };
  run_or_forget(nullptr, play, interruption);
}

// Runs task(environment, row, workspace) for n rows, each environment's in order. Returns the first
// row for which it returned false, or n.
size_t Batch::run_snapshots(size_t n, const std::function<bool(i32, size_t, Workspace&)>& task) {
  queue_.check_empty("reset");
  prepare_restore();
  std::mutex mutex;
  size_t first_failed = n;
  pool_.run(i32(std::min(n, slots_.size())), [&](i32 i, i32 worker) {
    for (size_t k = size_t(i); k < n; k += slots_.size()) {
      if (task(i, k, workspaces_[size_t(worker)])) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      first_failed = std::min(first_failed, k);
    }
  });
  return first_failed;
}

void Batch::reset_snapshots(const std::vector<i64>& seeds, u8* rows_out, const Outputs& out) {
  const size_t n = seeds.size();
  const size_t failed = run_snapshots(n, [&](i32 i, size_t k, Workspace& w) {
    slots_[size_t(i)].state().newest_frame = 0;  // which a reset leaves as it was
    if (!reset_slot(i, seeds[k], w)) return false;
    write_results(i, out, k);
    save_logged(i, rows_out + k * state_bytes_, nullptr);
    return slots_[size_t(i)].state().env.fault == EnvFault::kNone;
  });
  if (failed < n) throw ModeUnreachable("mode was not reached in the reset of a game");
}

void Batch::step_snapshots(const u8* rows, const std::vector<Command>& commands, u8* rows_out,
                           const Outputs& out) {
  const auto find_error = [&](i32 i, size_t k) {
    return find_snapshot_error(i, rows + k * state_bytes_);
  };
  const size_t n = commands.size() / num_players();
  const size_t failed = run_snapshots(n, [&](i32 i, size_t k, Workspace& w) {
    const u8* const row = rows + k * state_bytes_;
    u8* const row_out = rows_out + k * state_bytes_;
    PictureBytes before;
    const bool is_own = slots_[size_t(i)].take_logged(row, before);
    if (!is_own) {
      if (!find_error(i, k).empty()) return false;
      restore(i, row);
    }
    const SlotState& s = slots_[size_t(i)].state();
    if (options_.autoreset == Autoreset::kDisabled && s.is_ended) return false;
    u8* final_obs = out.final_obs == nullptr
                        ? nullptr
                        : out.final_obs + std::ptrdiff_t(k) * out.final_obs_stride;
    i32* final_ints = out.final_ints == nullptr ? nullptr : out.final_ints + k;
    advance(i, &commands[k * num_players()], final_obs, final_ints, out.width, out.stacked, w);
    write_results(i, out, k);
    save_logged(i, row_out, is_own && row == row_out ? &before : nullptr);
    return true;
  });
  if (failed == n) return;
  const std::string name = "states[" + std::to_string(failed) + "]: ";
  const std::string error = find_error(i32(failed % slots_.size()), failed);
  if (!error.empty()) refuse(name + error);
  throw NotReady(name + "the episode has ended; continue with a snapshot of a reset");
}

void Batch::command_from_indices(const i32* actions, const i32* ids, i32 n,
                                 std::vector<Command>& commands) const {
  const i32 each = options_.num_players;
  commands.resize(size_t(n) * num_players());
  for (i32 k = 0; k < n * each; ++k) {
    const i32 i = k / each;
    const auto& set = slots_[size_t(ids == nullptr ? i : ids[i])].setup().actions;
    assert(actions[k] >= 0 && size_t(actions[k]) < set.size());
    commands[size_t(k)] = {set[size_t(actions[k])], 1.0f};
  }
}

void Batch::command_from_joysticks(const float* actions, i32 n,
                                   std::vector<Command>& commands) const {
  commands.resize(size_t(n));
  for (i32 k = 0; k < n; ++k) {
    const float* a = actions + kJoystickSize * k;
    commands[size_t(k)] = {
        action_from_joystick(a[0], a[1], a[2], options_.continuous_action_threshold), a[3]};
  }
}

void Batch::check_ready(const i32* ids, i32 n) const {
  for (i32 k = 0; k < n; ++k) {
    const i32 i = ids == nullptr ? k : ids[k];
    const SlotState& s = slots_[size_t(i)].state();
    if (!s.has_reset)
      throw NotReady("environment " + std::to_string(i) +
                     " has not been reset; call reset() first");
    if (options_.autoreset == Autoreset::kDisabled && s.is_ended) {
      throw NotReady("the episode of environment " + std::to_string(i) +
                     " has ended; reset it, with reset_mask for it alone");
    }
  }
}

void Batch::send_reset(const i64* seeds, Interruption* interruption) {
  queue_.check_empty("reset");
  prepare_restore(interruption);
  pool_.prepare_post();
  queue_.send_reset(seeds);
  std::vector<i32> ids(slots_.size());
  std::iota(ids.begin(), ids.end(), 0);
  pool_.post(ids, reset_sent_);
}

void Batch::send(const std::vector<Command>& commands, const i32* ids, i32 n) {
  const std::vector<i32> sent(ids, ids + n);
  if (options_.autoreset == Autoreset::kSameStep && !queue_.final_results.is_kept())
    queue_.final_results.keep(slots_.size(), options_.obs_bytes(), int_rows(num_players()));
  pool_.prepare_post();
  queue_.send(sent, commands);
  pool_.post(sent, step_sent_);
}

void Batch::receive(i32 n, const Outputs& out, Interruption* interruption) {
  const std::vector<i32> ids = queue_.take(n, interruption);
  struct Release {
    StepQueue& queue;
    const std::vector<i32>& ids;
    ~Release() { queue.release(ids); }
  } const at_end{queue_, ids};
  for (const i32 id : ids) {
    const EnvSlot& u = slots_[size_t(id)];
    check_fault(u.state().env, u.setup().game->spec().game_id);
  }
  FinalResults& finals = queue_.final_results;
  for (size_t k = 0; k < ids.size(); ++k) {
    const i32 i = ids[k];
    write_results(i, out, k);
    const EnvSlot& slot = slots_[size_t(i)];
    if (!finals.is_kept() || !is_ended(slot.state().reported, slot.setup().agent)) continue;
    if (out.final_obs != nullptr) {
      std::memcpy(out.final_obs + std::ptrdiff_t(k) * out.final_obs_stride, finals.obs(i),
                  options_.obs_bytes());
    }
    for (u32 row = 0; out.final_ints != nullptr && row < int_rows(num_players()); ++row)
      out.final_ints[row * out.width + k] = finals.ints(i)[row];
  }
}

void Batch::save(i32 i, u8* row) {
  EnvSlot& slot = slots_[size_t(i)];
  slot.save(row, options_);
  const size_t end = slot.snapshot_layout().end;
  std::memset(row + end, 0, state_bytes_ - end);
}

void Batch::save_logged(i32 i, u8* row, const PictureBytes* before) {
  EnvSlot& slot = slots_[size_t(i)];
  const size_t all = slot.setup().picture_bytes(), end = slot.snapshot_layout().stack_end;
  slot.save_logged(row, before != nullptr ? *before : PictureBytes{all, all});
  if (before == nullptr) std::memset(row + end, 0, state_bytes_ - end);
}

const std::vector<std::vector<u8>>& Batch::reset_states(i32 i, Interruption* interruption) {
  fill_cache(interruption);
  return cache_.at(cache_key(i));
}

std::string Batch::find_snapshot_error(i32 i, const u8* row) const {
  const Game& game = *slots_[size_t(i)].setup().game;
  const SnapshotOwner owner{layout_code(options_),
                            game.key(),
                            slots_[size_t(i)].snapshot_layout(),
                            game.bankswitch(),
                            u32(options_.stack_num),
                            game.num_modifications(),
                            options_.max_action_delay};
  const LoggedRow logged{row, owner.at, game.properties().height * size_t(kScreenWidth)};
  SnapshotError fault = logged.is_one() ? logged.find_error(owner, game.properties())
                                        : cule::find_snapshot_error(row, owner, game.properties());
  if (fault == SnapshotError::kNone) {
    SlotState s;
    std::memcpy(&s, row + sizeof(SnapshotHeader), sizeof s);
    if (!game.has_mode(s.env.mode)) fault = SnapshotError::kDamaged;
  }
  return text_of(fault, i, game.spec().game_id);
}

void Batch::restore(i32 i, const u8* row) {
  slots_[size_t(i)].restore(row);
  is_loaded_[size_t(i)] = 1;
}

}  // namespace cule
