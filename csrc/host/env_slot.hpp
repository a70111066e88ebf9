// host/env_slot.hpp: one console of a batch on the host, with the pictures and frames its
// observations need.
//
// A EnvSlot's saved row holds everything: console, environment, random streams, both pictures, the
// pooled picture and the frame stack. Rows of the same batch layout and game are interchangeable.
#pragma once

#include <cstring>

#include "batch/snapshot.hpp"
#include "host/game.hpp"
#include "obs/palette.hpp"
#include "obs/pool.hpp"
#include "obs/resize_simd.hpp"

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
  GameSetup g;
  const i32 height = i32(game->properties().height);
  if (!o.ram_obs) {
    if (!can_resize(height, i32(kScreenWidth), o.img_height, o.img_width)) {
      throw std::invalid_argument("img_height, img_width: " + std::to_string(o.img_height) + " x " +
                                  std::to_string(o.img_width) + "; allowed is 1 x 1 to " +
                                  std::to_string(height) + " x 160 for " + game->spec().game_id);
    }
    g.plan =
        make_resize_plan(height, i32(kScreenWidth), o.img_height, o.img_width, i32(o.channels()));
  }
  g.actions = o.full_action_space || o.continuous ? game->spec().legal_actions
                                                  : game->spec().minimal_actions;
  g.agent = o.agent;
  g.agent.presses_fire = false;
  for (const i32 a : g.actions) g.agent.presses_fire |= o.use_fire_reset && a == kFire;
  g.ale = {o.repeat_action_probability, 1, 0, 0, -2147483647 - 1, 2147483647, kDefaultPaddleMin,
           game->spec().paddle_max};
  g.game = std::move(game);
  return g;
}

// The last two frames of a step, where they were drawn in the line cache; null: elsewhere.
struct DrawnFrames {
  const CachedFrame* previous;
  const CachedFrame* newest;
  bool operator==(const DrawnFrames& o) const {
    return previous == o.previous && newest == o.newest;
  }
};

// Scratch of one worker.
struct Workspace {
  std::vector<u8> newest;    // last picture of a skip
  std::vector<u8> previous;  // last but one
  std::vector<u8> indices;   // a picture as palette indices, for RGB
};

class EnvSlot {
 public:
  // `state` and `memory` are zeroed memory of the caller's, so that those of a batch lie side by
  // side.
  EnvSlot(const GameSetup* setup, const BatchOptions* options, SlotState* state, FrameStore* memory)
      : setup_(setup),
        options_(options),
        s_(state),
        random_(make_zeroed<RandomStreams>()),
        memory_(memory),
        frames_(make_zeroed<u8>(pooled_bytes() + options->stack_bytes())) {
    memory_->watch.is_on = 1;
    if (!options->ram_obs) memory_->lines.start();
  }

  SlotState& state() { return *s_; }
  const SlotState& state() const { return *s_; }
  const GameSetup& setup() const { return *setup_; }

  // loadROM: power-on and the environment reset that belongs to it.
  bool load(u32 seed, i32 mode, i32 difficulty) {
    random_->exact.env.seed(seed);
    bool is_loaded = true;
    if (const Game::FirstReset* first = setup_->game->first_reset()) {
      s_->console = first->console;
      s_->env = first->env;
      random_->exact.machine = first->machine_random;
    } else {
      setup_->game->load(kDefaultMachineSeed, s_->console, random_->exact.machine, *memory_);
      s_->env = EnvState{};
      s_->env.mode = setup_->game->default_mode();
      is_loaded = exact_ale().reset();
    }
    s_->env.mode = mode;
    s_->env.difficulty = difficulty;
    return is_loaded;
  }
  void seed_noops(u32 seed) { random_->noop.seed(seed); }

  // The whole reset of the reference, random streams going on.
  bool reset(Workspace& w) {
    Ale ale = exact_ale();
    if (!reset_agent(ale, s_->agent, setup_->agent, random_->noop)) return false;
    start_episode(*s_);
    if (options_->ram_obs) return true;
    std::memset(stack(), 0, options_->obs_bytes());
    capture(pooled(), w);
    pooled_from_ = {};
    push_frame(nullptr);
    return true;
  }

  void step(i32 action, float strength, Workspace& w) {
    Capture capture(*this, w);
    Ale ale = exact_ale();
    step_agent(ale, s_->agent, setup_->agent, action, strength, capture);
    s_->is_ended = is_ended(s_->agent, setup_->agent);
    if (!options_->ram_obs) push_frame(capture.finish());
  }

  // Observation, oldest frame first; or the newest frame alone.
  void write_obs(u8* out, bool stacked) const {
    if (options_->ram_obs) {
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

  // Fills a row of a batch with options `o`, header included. Both pictures are made real, so that
  // it needs no logs.
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
      std::memcpy(row + at.pictures + n * picture, memory_->pixels[n], picture);
    std::memcpy(row + at.pooled, frames_.get(), at.stack_end - at.pooled);
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
  void restore_cached(const u8* row) {
    SlotState cached;
    std::memcpy(&cached, row + sizeof(SnapshotHeader), sizeof cached);
    copy_reset_state(*s_, cached);
    restore_pictures(row, snapshot_layout());
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

  // Makes the pooled picture of a step, the maximum of its last two frames. Gray pictures are drawn
  // where the line cache has one of before; others go into the workspace. Where both frames were
  // drawn in the places of those of the step before, rows that have been left alone since are in
  // the pooled picture already. A step that ends early pools what it has with the picture of the
  // step before.
  struct Capture {
    EnvSlot& slot;
    Workspace& w;
    LineCache& lines;
    Observation target{};
    const CachedFrame* running = nullptr;  // where the frame is drawn
    const u8* newest_rows = nullptr;
    const u8* previous_rows = nullptr;
    DrawnFrames drawn{};     // where the cache is, if they are
    bool is_folded = false;  // the pooled picture is `previous`, what it was in `changed` is kept
    RowSet changed;          // rows of the pooled picture

    Capture(EnvSlot& u, Workspace& workspace) : slot(u), w(workspace), lines(u.memory_->lines) {
      w.newest.resize(u.pooled_bytes());
      w.previous.resize(u.pooled_bytes());
    }

    Observation* observation(i32 frames_left) {
      const BatchOptions& o = *slot.options_;
      target = Observation{};
      if (o.ram_obs || !o.grayscale || frames_left > (o.maxpool ? 1 : 0)) return nullptr;
      CachedFrame& frame = lines.next_frame();
      running = &frame;
      if (drawn.previous == running) set_previous_aside();
      target.rows = frame.rows;
      target.map = gray_table(slot.setup_->game->properties().format);
      return &target;
    }
    void newest() {
      if (slot.options_->ram_obs) return;
      if (target.is_drawn) drawn.newest = running;
      newest_rows = target.is_drawn ? running->rows : capture(w.newest);
    }
    void previous() {
      if (slot.options_->ram_obs || !slot.options_->maxpool) return;
      if (target.is_drawn) {
        drawn.previous = running;
        changed = running->painted;
      }
      previous_rows = target.is_drawn ? running->rows : capture(w.previous);
    }

    // The step is over. Which rows of the pooled picture may have changed; null: not known.
    const RowSet* finish() {
      const size_t n = slot.pooled_bytes();
      u8* pooled = slot.pooled();
      const RowSet* known = nullptr;
      if (drawn.newest != nullptr && drawn == slot.pooled_from_) {
        known = &changed;
        RowSet stale = drawn.newest->painted;  // folded rows hold the frame before already
        if (!is_folded) stale.add(changed);
        changed.add(stale);
        each_row_of(stale, [&](size_t at, size_t size) {
          max_rows(pooled + at, previous_rows + at, newest_rows + at, size);
        });
      } else if (is_folded && newest_rows == nullptr) {
        each_row_of(changed, [&](size_t at, size_t size) {
          max_rows(pooled + at, pooled + at, w.previous.data() + at, size);
        });
      } else if (newest_rows && previous_rows) {
        max_rows(pooled, newest_rows, previous_rows, n);
      } else if (newest_rows) {
        std::memcpy(pooled, newest_rows, n);
      } else if (previous_rows) {
        max_rows(pooled, pooled, previous_rows, n);
      }
      slot.pooled_from_ = drawn.previous && drawn.newest ? drawn : DrawnFrames{};
      if (drawn.newest) slot.painted_last_ = drawn.newest->painted;
      return known;
    }

   private:
    // The next frame is drawn over the one before it.
    void set_previous_aside() {
      u8* pooled = slot.pooled();
      if (!(slot.pooled_from_ == DrawnFrames{running, running})) {
        std::memcpy(w.previous.data(), running->rows, w.previous.size());
        previous_rows = w.previous.data();
        return;
      }
      is_folded = true;
      changed.add(slot.painted_last_);
      each_row_of(changed, [&](size_t at, size_t size) {
        std::memcpy(w.previous.data() + at, pooled + at, size);
        std::memcpy(pooled + at, running->rows + at, size);
      });
      previous_rows = pooled;
    }

    template <class Use>
    void each_row_of(const RowSet& rows, Use use) const {
      rows.each_stretch(slot.setup_->game->properties().height, [&](u32 from, u32 to) {
        use(size_t(from) * kScreenWidth, size_t(to - from) * kScreenWidth);
      });
    }

    const u8* capture(std::vector<u8>& rows) {
      slot.capture(rows.data(), w);
      return rows.data();
    }
  };

  void restore_pictures(const u8* row, const SnapshotLayout& at) {
    const size_t picture = setup_->picture_bytes();
    for (u32 n = 0; n < 2; ++n)
      std::memcpy(memory_->pixels[n], row + at.pictures + n * picture, picture);
    std::memcpy(frames_.get(), row + at.pooled, at.stack_end - at.pooled);
    pooled_from_ = {};
  }

  Console console() { return setup_->game->console(s_->console, *memory_); }
  Ale exact_ale() {
    const bool is_exact = !options_->cached_resets;
    return {console(),
            s_->env,
            &random_->exact,
            setup_->game->facts(),
            setup_->ale,
            {is_exact, s_->seed, 0},
            setup_->game->engine()};
  }
  size_t pooled_bytes() const { return options_->pooled_bytes(setup_->game->properties().height); }
  u8* pooled() { return frames_.get(); }
  u8* stack() { return frames_.get() + pooled_bytes(); }
  const u8* stack() const { return frames_.get() + pooled_bytes(); }

  // The screen as gray levels or RGB.
  void capture(u8* out, Workspace& w) {
    const Format format = setup_->game->properties().format;
    if (options_->grayscale) {
      draw(out, gray_table(format));
      return;
    }
    w.indices.resize(setup_->picture_bytes());
    draw(w.indices.data(), make_identity_map().value);
    const u8* rgb = rgb_table(format);
    for (const u8 index : w.indices) {
      std::memcpy(out, rgb + 3 * index, 3);
      out += 3;
    }
  }

  // changed: which rows of the pooled picture are not as they were in the last call; null: any.
  void push_frame(const RowSet* changed) {
    const size_t n = options_->frame_bytes();
    const u8* before = stack() + s_->newest_frame * n;
    s_->newest_frame = (s_->newest_frame + 1) % u32(options_->stack_num);
    resize(setup_->plan, pooled(), stack() + s_->newest_frame * n, {changed, before});
  }

  const GameSetup* setup_;
  const BatchOptions* options_;
  SlotState* s_;
  CallocPtr<RandomStreams> random_;
  FrameStore* memory_;
  CallocPtr<u8> frames_;  // pooled picture, then the stack
  // What the pooled picture is made of, where both frames were drawn in the line cache, and the
  // rows that were painted in the newest.
  DrawnFrames pooled_from_{};
  RowSet painted_last_;
};

}  // namespace cule
