// host/ale_console.hpp: one console behind the ALE interface; construction is loadROM, first reset
// included.
#pragma once

#include <cstring>
#include <functional>
#include <limits>

#include "console/sprites.hpp"
#include "console/valid_state.hpp"
#include "host/game.hpp"
#include "obs/averaging.hpp"
#include "obs/palette.hpp"
#include "tia/sound.hpp"

namespace cule {

struct AleConsoleOptions {
  AleSettings settings;
  i32 reward_min = std::numeric_limits<i32>::min();
  i32 reward_max = std::numeric_limits<i32>::max();
  u32 random_seed = 0;
  u32 machine_seed = kDefaultMachineSeed;
  bool color_averaging = false;
  bool sound_obs = false;
  i32 action_delay = 0;  // frames between an action and its effect; ALE has no such option
  // Called around every frame of an act, those of mode selections included (host/NOTES.md 7).
  std::function<void(class AleConsole&)> before_frame;
  std::function<void(class AleConsole&)> after_frame;
};

class AleConsole {
 public:
  AleConsole(std::shared_ptr<const Game> game, const AleConsoleOptions& options)
      : game_(std::move(game)),
        options_(options),
        frame_settings_(options.settings),
        pending_(size_t(options.action_delay)),
        stores_(1, u32(pixel_count())),
        state_(make_zeroed<State>()) {
    frame_settings_.frame_skip = 1;  // act() and the setup repeat it
    State& s = *state_;
    game_->load(options_.machine_seed, s.console, s.streams.machine, memory());
    s.streams.env.seed(options_.random_seed);
    s.env = game_->loaded_env();
    s.env.action_delay = u8(options.action_delay);
    s.paddle_min = frame_settings_.paddle_min;
    s.paddle_max = frame_settings_.paddle_max;
    screen_.resize(pixel_count());
    previous_.resize(options_.color_averaging ? pixel_count() : 0);
    if (options_.color_averaging) {
      average_.resize(1);
      make_average_table(game_->properties().format, average_[0]);
    }
    reset();
  }

  void reset() {
    if (const u32 count = game_->num_modifications(); count > 0) {
      EnvState& env = state_->env;
      env.modification = 1 + choose_modification(env, options_.random_seed, count);
    }
    Ale environment = ale();
    AudibleSetup effects{environment, *this};
    environment.reset(effects);
    std::fill(pending_.begin(), pending_.end(), kIdleCommand);
    check_fault(state_->env, game_->spec().game_id);
    is_screen_current_ = false;
    has_frame_ = true;
    remember_ram();
  }

  i32 act(i32 action, float strength) {
    const i32 before = state_->env.frame_number;
    i32 rewards[kMaxPlayers] = {};
    for (i32 k = 0; k < options_.settings.frame_skip; ++k) {
      const i32 number = state_->env.frame_number;
      // After the end of a game act() runs no frame.
      if (current_interruption != nullptr) current_interruption->check();
      begin_frame();
      Ale environment = ale();
      environment.act(environment.due(Ale::one_does(0, {action, strength})), rewards);
      if (state_->env.frame_number != number) {
        is_screen_current_ = false;
        has_frame_ = true;
      }
      end_frame();
    }
    make_sound();
    if (state_->env.frame_number != before) remember_ram();
    return rewards[0] < options_.reward_min   ? options_.reward_min
           : rewards[0] > options_.reward_max ? options_.reward_max
                                              : rewards[0];
  }

  i32 lives() { return ale().lives(); }
  bool is_terminal() { return ale().is_terminal(); }
  bool is_truncated() { return ale().is_truncated(); }
  EnvState& env() { return state_->env; }
  const Game& game() const { return *game_; }
  const u8* audio() const { return audio_; }              // kSoundSamples; zeros unless sound_obs
  const u8* frame_audio() const { return frame_audio_; }  // of the frame, in after_frame
  const u8* ram() const { return ram_; }
  void set_ram(u32 i, u8 value) { ram_[i] = state_->console.ram[i] = value; }
  u32 height() const { return game_->properties().height; }

  // The picture after the last emulated frame, as palette indices; a restore keeps it until the
  // next frame.
  const std::vector<u8>& screen() {
    if (is_screen_current_) return screen_;
    const Console c = console();
    draw_picture(c, c.s.picture.current, screen_.data(), make_identity_map().value);
    if (options_.color_averaging) {
      draw_picture(c, c.s.picture.current ^ 1u, previous_.data(), make_identity_map().value);
      average_frames(average_[0], screen_.data(), previous_.data(), screen_.size(), screen_.data());
    }
    is_screen_current_ = true;
    return screen_;
  }

  // Whether a frame has been emulated since the console was restored.
  bool has_frame() const { return has_frame_; }

  // Players, missiles and ball of the last emulated frame: i16 [num_rows][kSpriteColumns].
  void write_sprites(u32 num_rows, i16* rows) {
    SpriteMemory memory;
    cule::write_sprites(console(), memory, num_rows, rows);
  }

  struct State {
    ConsoleState console;
    EnvState env;
    ExactStreams streams;
    i32 paddle_min;  // unlike other settings part of a state, as in ALE
    i32 paddle_max;
  };

  size_t state_bytes() const { return sizeof(State) + 2 * pixel_count() + pending_bytes(); }

  // Turns both pictures into pixels, because the state holds no logs. What set_state does not
  // restore is 0, so that states are equal where restoring them has the same effect.
  void get_state(u8* out, bool include_rng) {
    const Console c = console();
    complete_latches(c);
    for (u32 n = 0; n < 2; ++n) make_pixels(c, n);
    auto saved = make_zeroed<State>();
    std::memcpy(static_cast<void*>(saved.get()), state_.get(), sizeof(State));
    for (u32 player = 0; player < kMaxPlayers; ++player) {
      saved->env.last_action[player] = 0;
      saved->env.last_strength[player] = 0.0f;
    }
    if (saved->env.modification == 0) saved->env.acted_frames = 0;  // else draws depend on it
    if (!include_rng) std::memset(static_cast<void*>(&saved->streams.env), 0, sizeof(Mt19937));
    std::memcpy(out, saved.get(), sizeof(State));
    for (u32 n = 0; n < 2; ++n)
      std::memcpy(out + sizeof(State) + n * pixel_count(), memory().picture(n), pixel_count());
    std::memcpy(out + sizeof(State) + 2 * pixel_count(), pending_.data(), pending_bytes());
  }

  // Whether the bytes can be a state or a snapshot: a checksum is no proof.
  bool can_restore(const u8* in) const {
    auto saved = make_zeroed<State>();
    std::memcpy(static_cast<void*>(saved.get()), in, sizeof(State));
    std::vector<Command> pending(pending_.size());
    std::memcpy(pending.data(), in + sizeof(State) + 2 * pixel_count(), pending_bytes());
    bool is_valid = is_valid_state(saved->console, game_->properties(), game_->bankswitch()) &&
                    is_valid_env(saved->env, game_->num_modifications(), options_.action_delay) &&
                    game_->has_mode(saved->env.mode) && 0 <= saved->paddle_min &&
                    saved->paddle_min <= saved->paddle_max && saved->paddle_max <= kMostPaddle;
    for (const Command& command : pending) is_valid &= is_valid_strength(command.strength);
    return is_valid;
  }

  // The remembered actions of sticky actions stay as they are; so does the environment's generator
  // without include_rng.
  void set_state(const u8* in, bool include_rng) {
    (void)screen();
    has_frame_ = false;
    State& s = *state_;
    const EnvState kept = s.env;
    const Mt19937 kept_random = s.streams.env;
    std::memcpy(&s, in, sizeof(State));
    frame_settings_.paddle_min = s.paddle_min;
    frame_settings_.paddle_max = s.paddle_max;
    for (u32 n = 0; n < 2; ++n)
      std::memcpy(memory().picture(n), in + sizeof(State) + n * pixel_count(), pixel_count());
    std::memcpy(pending_.data(), in + sizeof(State) + 2 * pixel_count(), pending_bytes());
    for (u32 player = 0; player < kMaxPlayers; ++player) {
      s.env.last_action[player] = kept.last_action[player];
      s.env.last_strength[player] = kept.last_strength[player];
    }
    if (!include_rng) s.streams.env = kept_random;
    remember_ram();
  }

  // Everything that later calls depend on, unlike a state: remembered actions, screen and sound
  // too.
  size_t snapshot_bytes() const {
    return state_bytes() + pixel_count() + sizeof(audio_) + sizeof(sound_);
  }

  void get_snapshot(u8* out) {
    (void)screen();
    get_state(out, true);
    std::memcpy(out, state_.get(), sizeof(State));
    out = copy_out(out + state_bytes(), screen_.data(), screen_.size());
    out = copy_out(out, audio_, sizeof(audio_));
    copy_out(out, &sound_, sizeof(sound_));
  }

  void set_snapshot(const u8* in) {
    set_state(in, true);
    std::memcpy(static_cast<void*>(state_.get()), in, sizeof(State));
    in += state_bytes();
    std::memcpy(screen_.data(), in, screen_.size());
    std::memcpy(audio_, in += screen_.size(), sizeof(audio_));
    std::memcpy(static_cast<void*>(&sound_), in + sizeof(audio_), sizeof(sound_));
  }

 private:
  static u8* copy_out(u8* out, const void* from, size_t bytes) {
    std::memcpy(out, from, bytes);
    return out + bytes;
  }

  // The steps of a mode selection; acts make sound there too.
  struct AudibleSetup {
    static constexpr ProgramKind kKind = Ale::kKind;
    Ale& environment;
    AleConsole& console;

    bool select(i32 frames) { return environment.select(frames); }
    bool soft_reset() { return environment.soft_reset(); }
    bool act(i32 action) {
      bool continues = true;
      for (i32 k = 0; k < console.options_.settings.frame_skip; ++k) {
        console.is_screen_current_ = false;
        console.begin_frame();
        continues = environment.act(action);
        console.is_screen_current_ = false;
        console.end_frame();
      }
      console.make_sound();
      return continues;
    }
    bool count_jump() { return environment.count_jump(); }
    i32 draw() { return environment.draw(); }
    void fail(i32 code) { environment.fail(code); }
  };

  void begin_frame() {
    if (options_.before_frame) options_.before_frame(*this);
  }
  void end_frame() {
    if (!options_.after_frame) return;
    generate_sound(frame_sound_, state_->console.tia.audio, frame_audio_);
    options_.after_frame(*this);
  }
  void make_sound() {
    if (options_.sound_obs) generate_sound(sound_, state_->console.tia.audio, audio_);
  }
  const FrameStore& memory() const { return stores_[0]; }
  size_t pixel_count() const { return size_t(height()) * kScreenWidth; }
  size_t pending_bytes() const { return pending_.size() * sizeof(Command); }
  Console console() { return game_->console(state_->console, memory()); }
  Ale ale() {
    Ale environment = game_->ale(state_->console, memory(), state_->env, state_->streams,
                                 frame_settings_, {true, options_.random_seed});
    environment.pending = pending_.data();
    return environment;
  }
  void remember_ram() { std::memcpy(ram_, state_->console.ram, kRamBytes); }

  std::shared_ptr<const Game> game_;
  AleConsoleOptions options_;
  AleSettings frame_settings_;
  std::vector<Command> pending_;  // actions that are delayed
  const FrameStores stores_;
  CallocPtr<State> state_;
  u8 ram_[kRamBytes] = {};
  u8 audio_[kSoundSamples] = {};
  u8 frame_audio_[kSoundSamples] = {};
  SoundGenerator sound_, frame_sound_;
  std::vector<u8> screen_, previous_;
  std::vector<AverageTable> average_;
  bool is_screen_current_ = false;
  bool has_frame_ = true;
};

}  // namespace cule
