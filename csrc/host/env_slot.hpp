// host/env_slot.hpp: one environment of a batch on the host, with the pictures and frames that its
// observations need.
//
// Its snapshot holds everything: console, environment, random streams, both pictures, pending
// actions, the pooled picture and the frame stack (batch/snapshot.hpp).
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "batch/snapshot.hpp"
#include "host/frame_pooling.hpp"
#include "host/game.hpp"
#include "host/logged_row.hpp"
#include "host/resize_simd.hpp"

namespace cule {

// Per game of a batch.
struct GameSetup {
  std::shared_ptr<const Game> game;
  ResizePlan plan;
  AgentOptions agent;
  AleSettings ale;
  std::vector<i32> actions;  // the action set
  size_t picture_bytes() const { return size_t(game->properties().height) * kScreenWidth; }
};

inline GameSetup make_game_setup(std::shared_ptr<const Game> game, const BatchOptions& o) {
  if (game->spec().num_players != u32(o.num_players)) {
    refuse("num_players is " + std::to_string(o.num_players) + "; it must be " +
           std::to_string(game->spec().num_players) + ", as of " + game->spec().game_id);
  }
  if (o.obs == ObsKind::kObjects) {
    const u32 count = game->num_objects();
    if (count < 1 || count > o.object_rows || o.object_rows > kMaxObjects) {
      refuse("object_rows is " + std::to_string(o.object_rows) +
             "; it must be at least the number of objects of " + game->spec().game_id + ", " +
             std::to_string(count) + ", and at most " + std::to_string(kMaxObjects));
    }
  }
  check_range("max_sprites", o.max_sprites, 1, kMaxSpriteRows);
  GameSetup g;
  const i32 height = i32(game->properties().height);
  if (o.draws()) {
    if (!can_resize(height, i32(kScreenWidth), o.img_height, o.img_width)) {
      refuse("img_height, img_width are " + std::to_string(o.img_height) + ", " +
             std::to_string(o.img_width) + "; they must be 1 to " + std::to_string(height) +
             " and 1 to 160 for " + game->spec().game_id);
    }
    g.plan =
        make_resize_plan(height, i32(kScreenWidth), o.img_height, o.img_width, i32(o.channels()));
  }
  g.actions = o.full_action_space || o.continuous ? game->spec().legal_actions
                                                  : game->spec().minimal_actions;
  g.agent = o.agent;
  g.agent.has_fire = false;
  for (const i32 a : g.actions) g.agent.has_fire |= a == kFire;
  g.agent.presses_fire = o.use_fire_reset && g.agent.has_fire;
  g.agent.third_action = g.actions.size() > 2 ? g.actions[2] : kNoop;
  if (o.agent.fire_after_life_loss && o.agent.episodic_life) {  // the game continues
    g.agent.episodic_life = false;
    g.agent.life_loss_info = true;
  }
  g.ale = game->ale_settings();
  g.ale.repeat_action_probability = o.repeat_action_probability;
  g.game = std::move(game);
  return g;
}

class EnvSlot {
 public:
  // `state` and `memory` are zeroed memory of the caller's, so that a batch can allocate them in
  // one piece.
  EnvSlot(const GameSetup* setup, const BatchOptions* options, SlotState* state,
          const FrameStore* memory)
      : setup_(setup),
        options_(options),
        s_(state),
        random_(make_zeroed<RandomStreams>()),
        memory_(memory),
        frames_(
            make_zeroed<u8>(options->pending_bytes() + pooled_bytes() + options->stack_bytes())) {
    memory_->start(options->draws());
  }

  SlotState& state() { return *s_; }
  const SlotState& state() const { return *s_; }
  const GameSetup& setup() const { return *setup_; }

  // loadROM: power-on and the environment reset that belongs to it.
  bool load(u32 seed, i32 mode, i32 difficulty, i32 action_delay) {
    ExactStreams& exact = random_->exact;
    exact.env.seed(seed);
    random_->noop.seed(seed);
    s_->seed = seed;
    bool is_loaded = true;
    if (const Game::FirstReset* first = setup_->game->first_reset()) {
      s_->console = first->console;
      s_->env = first->env;
      exact.machine = first->machine_random;
    } else {
      const bool are_several = options_->num_players > 1;
      setup_->game->load(are_several ? seed : kDefaultMachineSeed, s_->console, exact.machine,
                         *memory_);
      if (are_several) exact.machine.seed(seed);
      s_->env = setup_->game->loaded_env();
      is_loaded = ale().reset();
    }
    s_->env.mode = mode;
    s_->env.difficulty = difficulty;
    s_->env.action_delay = u8(action_delay);
    return is_loaded;
  }

  // The whole reset of the reference; the random streams continue.
  bool reset(Workspace& w) {
    Ale environment = ale();
    if (!reset_agent(environment, s_->agent, setup_->agent, random_->noop)) return false;
    start_episode(*s_);
    std::fill_n(pending(), options_->pending_bytes() / sizeof(Command), kIdleCommand);
    std::memset(stack(), 0, options_->stack_bytes());
    has_objects_ = false;
    push_rows(w);
    // In most games the first frames of a reset end within their picture, and no later one does.
    const PictureState& p = s_->console.picture;
    if (p.kind[0] != PictureKind::kPixels && p.kind[1] != PictureKind::kPixels)
      memory_->give_back_pixels();
    if (!options_->draws()) return true;
    draw_levels(console(), options_->grayscale, pooled(), w);
    pooled_frames_.cached = {};
    push_frame(nullptr);
    return true;
  }

  // A command for each player.
  void step(const Command* commands, Workspace& w) {
    FramePooling pooling(console(), *options_, *memory_->incremental, pooled(), pooled_frames_, w);
    Ale environment = ale();
    Ale::Choice choice = Ale::all_do(kNoop);
    std::copy_n(commands, options_->num_players, choice.of);
    step_agent(environment, s_->agent, setup_->agent, choice, pooling);
    s_->is_ended = is_ended(s_->agent, setup_->agent);
    if (options_->draws()) push_frame(pooling.finish());
    push_rows(w);
  }

  // Observation, oldest frame first; or the newest frame alone.
  void write_obs(u8* out, bool stacked) const {
    if (options_->obs == ObsKind::kRam) {
      std::memcpy(out, s_->console.ram, kRamBytes);
      return;
    }
    const size_t n = options_->frame_bytes();
    const u32 count = u32(options_->stack_num);
    if (!stacked) {
      std::memcpy(out, stack() + s_->newest_frame * n, n);
      return;
    }
    const size_t oldest = (s_->newest_frame + 1) % count;
    std::memcpy(out, stack() + oldest * n, (count - oldest) * n);
    std::memcpy(out + (count - oldest) * n, stack(), oldest * n);
  }

  SnapshotLayout snapshot_layout() const { return snapshot_layout(*options_); }

  // Fills a row of a batch with options `o`, header included. Turns both pictures into pixels,
  // because a row holds no logs.
  void save(u8* row, const BatchOptions& o) {
    const Console c = console();
    complete_latches(c);
    for (u32 n = 0; n < 2; ++n) make_pixels(c, n);
    forget_logs(s_->console.picture, PictureKind::kPixels);
    const SnapshotLayout at = snapshot_layout(o);
    const size_t picture = setup_->picture_bytes();
    std::memcpy(row + sizeof(SnapshotHeader), s_, sizeof(SlotState));
    if (at.pictures > at.streams)
      std::memcpy(row + at.streams, random_.get(), sizeof(RandomStreams));
    for (u32 n = 0; n < 2; ++n)
      std::memcpy(row + at.pictures + n * picture, memory_->picture(n), picture);
    std::memcpy(row + at.pending, frames_.get(), at.stack_end - at.pending);
    std::memset(row + at.stack_end, 0, at.end - at.stack_end);
    const SnapshotHeader h{kSnapshotMagic, layout_code(o), setup_->game->key(),
                           checksum_of(row + sizeof h, at.end - sizeof h)};
    std::memcpy(row, &h, sizeof h);
  }
  void restore(const u8* row) {
    const SnapshotLayout at = snapshot_layout();
    std::memcpy(s_, row + sizeof(SnapshotHeader), sizeof(SlotState));
    if (at.pictures > at.streams)
      std::memcpy(random_.get(), row + at.streams, sizeof(RandomStreams));
    restore_pictures(row, at);
  }

  // Fills a row as host/logged_row.hpp has it. `before` is the bytes of the pictures that it holds,
  // with zeros after them: of another use of the row, all.
  void save_logged(u8* row, const PictureBytes& before) {
    const Console c = console();
    const SnapshotLayout at = snapshot_layout();
    const LoggedRow logged{row, at, setup_->picture_bytes()};
    PictureBytes used{};
    for (u32 n = 0; n < 2; ++n) {
      const PictureState& p = s_->console.picture;
      const bool is_log = p.kind[n] == PictureKind::kLog;
      if (!is_log) make_pixels(c, n);
      const TiaWriteLog& log = memory_->logs[p.log_slot[n]];
      used[n] = is_log ? log_bytes(log.size) : logged.picture;
      u8* const to = row + at.pictures + n * logged.picture;
      std::memcpy(to, is_log ? reinterpret_cast<const u8*>(&log) : memory_->picture(n), used[n]);
      if (is_log) clear_latches(to);
      if (before[n] > used[n]) std::memset(to + used[n], 0, before[n] - used[n]);
    }
    const SlotState state = logged_state(*s_, memory_->logs);
    std::memcpy(row + sizeof(SnapshotHeader), &state, sizeof state);
    if (at.pictures > at.streams)
      std::memcpy(row + at.streams, random_.get(), sizeof(RandomStreams));
    std::memcpy(row + at.pending, frames_.get(), at.stack_end - at.pending);
    logged_ = {kLoggedMagic, layout_code(*options_), setup_->game->key(), logged.checksum(used)};
    logged_bytes_ = used;
    std::memcpy(row, &logged_, sizeof logged_);
  }

  // Whether a row is what save_logged() wrote last, and nothing has been played since: then
  // `before` becomes the bytes of its pictures.
  bool take_logged(const u8* row, PictureBytes& before) {
    const SnapshotHeader last = std::exchange(logged_, {});
    const LoggedRow logged{row, snapshot_layout(), setup_->picture_bytes()};
    if (last.magic != kLoggedMagic || std::memcmp(row, &last, sizeof last) != 0 ||
        logged.checksum(logged_bytes_) != last.checksum)
      return false;
    before = logged_bytes_;
    return true;
  }
  void restore_cached(const u8* row) {
    const SnapshotLayout at = snapshot_layout();
    SlotState cached;
    std::memcpy(&cached, row + sizeof(SnapshotHeader), sizeof cached);
    copy_reset_state(*s_, cached);
    restore_pictures(row, at);
  }

  // The current picture: palette indices (map null), or bytes mapped through a table.
  void draw(u8* rows, const u8* map) {
    const Console c = console();
    draw_picture(c, c.s.picture.current, rows, map);
  }

 private:
  SnapshotLayout snapshot_layout(const BatchOptions& o) const {
    return cule::snapshot_layout(o, setup_->game->properties().height);
  }

  void restore_pictures(const u8* row, const SnapshotLayout& at) {
    const LoggedRow logged{row, at, setup_->picture_bytes()};
    const PictureBytes used = logged.used(s_->console.picture);
    for (u32 n = 0; n < 2; ++n) {
      const bool is_log = s_->console.picture.kind[n] == PictureKind::kLog;
      void* const to = is_log ? static_cast<void*>(&memory_->logs[n]) : memory_->picture(n);
      std::memcpy(to, logged.picture_of(n), used[n]);
    }
    complete_latches(console());
    std::memcpy(frames_.get(), row + at.pending, at.stack_end - at.pending);
    pooled_frames_.cached = {};
    has_objects_ = false;
  }

  Console console() { return setup_->game->console(s_->console, *memory_); }
  Ale ale() {
    const bool is_exact = !options_->cached_resets;
    Ale environment = setup_->game->ale(s_->console, *memory_, s_->env, random_->exact, setup_->ale,
                                        {is_exact, s_->seed});
    environment.pending = pending();
    return environment;
  }
  size_t pooled_bytes() const { return options_->pooled_bytes(setup_->game->properties().height); }
  Command* pending() { return reinterpret_cast<Command*>(frames_.get()); }
  u8* pooled() { return frames_.get() + options_->pending_bytes(); }
  u8* stack() { return pooled() + pooled_bytes(); }
  const u8* stack() const { return frames_.get() + options_->pending_bytes() + pooled_bytes(); }

  const u8* newest_frame() const { return stack() + s_->newest_frame * options_->frame_bytes(); }
  u8* next_frame() {
    s_->newest_frame = (s_->newest_frame + 1) % u32(options_->stack_num);
    return stack() + s_->newest_frame * options_->frame_bytes();
  }
  void push_rows(Workspace& w) {
    if (options_->obs == ObsKind::kObjects) push_objects();
    if (options_->obs != ObsKind::kSprites) return;
    i16* const rows = reinterpret_cast<i16*>(next_frame());
    write_sprites(console(), w.sprites, options_->max_sprites, rows);
  }
  void push_objects() {
    const u8* ram = s_->console.ram;
    const EarlierObjects earlier{reinterpret_cast<const i16*>(newest_frame()),
                                 CellSet::differing(ram, objects_ram_)};
    write_objects(setup_->game->spec().objects.data(), ram, s_->console.cart.ram,
                  options_->object_rows, reinterpret_cast<i16*>(next_frame()),
                  has_objects_ ? &earlier : nullptr);
    std::memcpy(objects_ram_, ram, kRamBytes);
    has_objects_ = true;
  }
  // changed: rows of the pooled picture that may differ from the last call's; null: all.
  void push_frame(const RowSet* changed) {
    const u8* before = newest_frame();
    resize(setup_->plan, pooled(), next_frame(), {changed, before});
  }

  const GameSetup* setup_;
  const BatchOptions* options_;
  SlotState* s_;
  CallocPtr<RandomStreams> random_;
  const FrameStore* memory_;
  CallocPtr<u8> frames_;  // pending actions, the pooled picture, the stack
  PooledFrames pooled_frames_{};
  bool has_objects_ = false;  // the newest frame is that of objects_ram_
  u8 objects_ram_[kRamBytes];
  SnapshotHeader logged_{};  // of the last save_logged(), until the environment plays on
  PictureBytes logged_bytes_{};
};

}  // namespace cule
