// capi/cule.cpp: see capi/cule.h. No exception leaves a function of the library.
#include "capi/cule.h"

#include <cstdint>
#include <cstdio>
#include <locale>
#include <new>
#include <sstream>

#include "host/batch.hpp"
#include "host/rules_file.hpp"
#include "obs/palette.hpp"

struct cule_game {
  std::shared_ptr<const cule::Game> game;
};

struct cule_batch {
  cule::Batch batch;
  std::vector<cule::i32> ints;  // the tables of a call's results (batch/state.hpp)
  std::vector<cule::u8> flags;
  std::vector<cule::Command> commands;
};

namespace cule {
namespace {

// Texts of any length are cut: an error is reported without memory, too.
thread_local char last_error[1024] = "";
constexpr size_t kMostStructBytes = 1 << 16;  // of any version

int fail(cule_status status, const char* text) {
  std::snprintf(last_error, sizeof last_error, "%s", text);
  return status;
}

template <class Call>
int guard(const Call& call) noexcept {
  try {
    call();
    return CULE_OK;
  } catch (const std::invalid_argument& error) {
    return fail(CULE_INVALID_ARGUMENT, error.what());
  } catch (const UnsupportedRom& error) {
    return fail(CULE_UNSUPPORTED_ROM, error.what());
  } catch (const NotReady& error) {
    return fail(CULE_NOT_READY, error.what());
  } catch (const std::bad_alloc&) {
    return fail(CULE_OUT_OF_MEMORY, "there is not enough memory");
  } catch (const std::exception& error) {
    return fail(CULE_FAILED, error.what());
  } catch (...) {
    return fail(CULE_FAILED, "unknown error");
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) refuse(std::string(name) + " is NULL; it must point to memory");
}

void require_size(const char* name, size_t given, size_t needed) {
  if (given != needed)
    refuse(std::string(name) + " is " + std::to_string(given) + "; it must be " +
           std::to_string(needed));
}

// The bytes that a structure of the caller's has, whose header may be of another version.
template <class Struct>
size_t size_of(const char* name, const Struct* given) {
  require(given, name);
  if (given->size < sizeof given->size || given->size > kMostStructBytes) {
    refuse(std::string(name) + "->size is " + std::to_string(given->size) +
           "; it must be the size of the structure, " + std::to_string(sizeof *given));
  }
  return given->size;
}

// What an older structure lacks is as in `known`; what a newer one has in addition must be zero.
template <class Struct>
Struct read_struct(const char* name, const Struct* given, Struct known) {
  const size_t size = size_of(name, given);
  const u8* const bytes = reinterpret_cast<const u8*>(given);
  for (size_t i = sizeof known; i < size; ++i) {
    if (bytes[i] != 0)
      refuse(std::string(name) + " has a field that libcule " CULE_VERSION " does not know");
  }
  std::memcpy(&known, bytes, std::min(size, sizeof known));
  return known;
}

// As much of the fields as the caller's structure of `size` bytes has.
template <class Struct>
void write_struct(Struct* out, size_t size, Struct value) {
  value.size = size;
  std::memset(out, 0, size);
  std::memcpy(out, &value, std::min(size, sizeof value));
}

// --- Options -----------------------------------------------------------------------------------

constexpr i32 kMost = 2147483647;

// visit(name, field of `o`, where it goes in `b`, standard, low, high) for each number of
// EnvOptions in cule/envs/options.py.
template <class Options, class Visit>
void visit_numbers(Options& o, BatchOptions& b, const Visit& visit) {
  AgentOptions& a = b.agent;
  i32 of_game = 0;  // not an option of a batch, which has one of each environment
  visit("num_threads", o.num_threads, b.num_threads, 0, 0, 1024);
  visit("thread_affinity_offset", o.thread_affinity_offset, b.thread_affinity_offset, -1, -1, 4095);
  visit("frameskip", o.frameskip, a.frameskip, 4, 1, 1024);
  visit("max_num_frames_per_episode", o.max_num_frames_per_episode, a.max_num_frames_per_episode,
        108000, 1, kMost);
  visit("noop_max", o.noop_max, a.noop_max, 30, 0, 100000);
  visit("stack_num", o.stack_num, b.stack_num, 4, 1, 256);
  visit("img_height", o.img_height, b.img_height, 84, 1, kMost);
  visit("img_width", o.img_width, b.img_width, 84, 1, i32(kScreenWidth));
  visit("max_sprites", o.max_sprites, b.max_sprites, 64, 1, i32(kMaxSpriteRows));
  visit("num_reset_states", o.num_reset_states, b.num_reset_states, 30, 1, 4096);
  visit("mode", o.mode, of_game, CULE_DEFAULT_MODE, CULE_DEFAULT_MODE, kMost);
  visit("difficulty", o.difficulty, of_game, 0, 0, kMost);
  visit("obs_type", o.obs_type, b.obs, CULE_OBS_IMAGE, CULE_OBS_IMAGE, CULE_OBS_SPRITES);
  visit("autoreset_mode", o.autoreset_mode, b.autoreset, CULE_NEXT_STEP, CULE_NEXT_STEP,
        CULE_DISABLED);
  visit("grayscale", o.grayscale, b.grayscale, 1, 0, 1);
  visit("maxpool", o.maxpool, b.maxpool, 1, 0, 1);
  visit("use_fire_reset", o.use_fire_reset, b.use_fire_reset, 1, 0, 1);
  visit("full_action_space", o.full_action_space, b.full_action_space, 0, 0, 1);
  visit("episodic_life", o.episodic_life, a.episodic_life, 0, 0, 1);
  visit("life_loss_info", o.life_loss_info, a.life_loss_info, 0, 0, 1);
  visit("reward_clipping", o.reward_clipping, a.reward_clipping, 1, 0, 1);
  visit("fire_after_life_loss", o.fire_after_life_loss, a.fire_after_life_loss, 0, 0, 1);
  visit("cached_resets", o.cached_resets, b.cached_resets, 0, 0, 1);
  visit("action_delay", o.action_delay, b.max_action_delay, 0, 0, kMaxActionDelay);
  visit("low_memory", o.low_memory, b.low_memory, 0, 0, 1);
}

static_assert(i32(ObsKind::kImage) == CULE_OBS_IMAGE && i32(ObsKind::kRam) == CULE_OBS_RAM);
static_assert(i32(ObsKind::kObjects) == CULE_OBS_OBJECTS);
static_assert(i32(ObsKind::kSprites) == CULE_OBS_SPRITES);
static_assert(i32(Autoreset::kNextStep) == CULE_NEXT_STEP);
static_assert(i32(Autoreset::kSameStep) == CULE_SAME_STEP);
static_assert(i32(Autoreset::kDisabled) == CULE_DISABLED);

cule_options default_options() {
  cule_options o{};
  o.size = sizeof o;
  BatchOptions unused;
  visit_numbers(o, unused, [](const char*, i32& field, const auto&, i32 standard, i32, i32) {
    field = standard;
  });
  return o;
}

// As ALE's settings store it: six significant digits.
float stored_probability(float value) {
  std::stringstream text;
  text.imbue(std::locale::classic());
  double stored = 0;
  text << value;
  text >> stored;
  return float(stored);
}

BatchOptions batch_options(const cule_options& o, const Game& game) {
  BatchOptions b;
  visit_numbers(o, b, [](const char* name, i32 value, auto& to, i32, i32 low, i32 high) {
    check_range(std::string("options->") + name, value, low, high);
    to = std::decay_t<decltype(to)>(value);
  });
  if (!(o.repeat_action_probability >= 0 && o.repeat_action_probability <= 1)) {
    refuse("options->repeat_action_probability is " + std::to_string(o.repeat_action_probability) +
           "; it must be in 0..1");
  }
  b.repeat_action_probability = stored_probability(o.repeat_action_probability);
  b.object_rows = game.num_objects();
  return b;
}

void check_choice(const char* name, i32 value, i32 standard, const std::vector<i32>& allowed) {
  if (value == standard || std::find(allowed.begin(), allowed.end(), value) != allowed.end())
    return;
  std::string text;
  for (const i32 one : allowed) text += (text.empty() ? "" : ", ") + std::to_string(one);
  refuse(std::string("options->") + name + " is " + std::to_string(value) + "; it must be one of " +
         text);
}

// --- Results -----------------------------------------------------------------------------------

constexpr std::pair<i32 * cule_results::*, u32> kIntResults[] = {
    {&cule_results::reward, kIntReward},
    {&cule_results::raw_reward, kIntRawReward},
    {&cule_results::lives, kIntLives},
    {&cule_results::frame_number, kIntFrameNumber},
    {&cule_results::episode_frame_number, kIntEpisodeFrameNumber},
    {&cule_results::episode_return, kIntEpisodeReturn},
    {&cule_results::episode_length, kIntEpisodeLength},
};
constexpr std::pair<u8 * cule_results::*, u32> kFlagResults[] = {
    {&cule_results::terminated, kFlagTerminated}, {&cule_results::truncated, kFlagTruncated},
    {&cule_results::life_lost, kFlagLifeLost},    {&cule_results::first, kFlagFirst},
    {&cule_results::ended, kFlagEnded},
};

template <class T, class Rows>
void copy_rows(const cule_results& to, const Rows& rows, const std::vector<T>& table, size_t n) {
  for (const auto& [field, row] : rows) {
    if (to.*field != nullptr) std::copy_n(table.data() + row * n, n, to.*field);
  }
}

// The caller's arrays, and the tables that numbers pass through.
class ResultArrays {
 public:
  ResultArrays(cule_batch& b, const cule_results* results)
      : b_(b), arrays_(read_struct("results", results, cule_results{})) {
    require(arrays_.obs, "results->obs");
    const size_t each = b.batch.options().obs_bytes();
    require_size("results->obs_bytes", arrays_.obs_bytes, each * size());
    outputs_.obs = static_cast<u8*>(arrays_.obs);
    outputs_.final_obs = static_cast<u8*>(arrays_.final_obs);
    outputs_.obs_stride = outputs_.final_obs_stride = std::ptrdiff_t(each);
    outputs_.ints = b.ints.data();
    outputs_.flags = b.flags.data();
    outputs_.width = size();
  }

  const Outputs& outputs() const { return outputs_; }
  void copy_numbers() const {
    copy_rows(arrays_, kIntResults, b_.ints, size());
    copy_rows(arrays_, kFlagResults, b_.flags, size());
  }

 private:
  size_t size() const { return size_t(b_.batch.size()); }

  const cule_batch& b_;
  const cule_results arrays_;
  Outputs outputs_;
};

const std::vector<i32>& actions_of(const cule_batch& b) { return b.batch.slot(0).setup().actions; }

void check_index(const std::string& name, i32 index, const cule_batch& b) {
  check_range(name, index, 0, b.batch.size() - 1);
}

void check_was_reset(const cule_batch& b, i32 index) {
  if (b.batch.slot(index).state().has_reset) return;
  throw NotReady("environment " + std::to_string(index) +
                 " has not been reset; call cule_reset() first");
}

// The environments of snapshots, which have `states_bytes` in all.
std::vector<i32> choose_envs(const cule_batch& b, const i32* indices, size_t n,
                             size_t states_bytes) {
  if (indices == nullptr) require_size("num_indices", n, size_t(b.batch.size()));
  const size_t most = SIZE_MAX / b.batch.state_bytes();
  if (n > most) {
    refuse("num_indices is " + std::to_string(n) + "; it must be at most " + std::to_string(most));
  }
  require_size("states_bytes", states_bytes, n * b.batch.state_bytes());
  std::vector<i32> chosen(n);
  for (size_t k = 0; k < n; ++k) {
    chosen[k] = indices == nullptr ? i32(k) : indices[k];
    check_index("indices[" + std::to_string(k) + "]", chosen[k], b);
  }
  return chosen;
}

}  // namespace
}  // namespace cule

using namespace cule;

const char* cule_version(void) { return CULE_VERSION; }

const char* cule_last_error(void) { return last_error; }

int cule_game_create(const void* rom, size_t rom_bytes, const void* rules, size_t rules_bytes,
                     cule_game** game_out) {
  return guard([&] {
    require(rom, "rom");
    require(rules, "rules");
    require(game_out, "game_out");
    const u8* const image = static_cast<const u8*>(rom);
    GameSpec spec =
        read_rules(static_cast<const u8*>(rules), rules_bytes, Bytes(image, image + rom_bytes));
    *game_out = new cule_game{std::make_shared<const Game>(std::move(spec))};
  });
}

void cule_game_destroy(cule_game* game) { delete game; }

int cule_options_init(cule_options* options, size_t size) {
  return guard([&] {
    require(options, "options");
    if (size < sizeof size)
      refuse("size is " + std::to_string(size) + "; it must be that of options");
    write_struct(options, size, default_options());
  });
}

int cule_batch_create(const cule_game* game, int32_t num_envs, const cule_options* options,
                      cule_batch** batch_out) {
  return guard([&] {
    require(game, "game");
    require(batch_out, "batch_out");
    check_range("num_envs", num_envs, 1, 1 << 20);
    const cule_options standard = default_options();
    const cule_options o =
        options == nullptr ? standard : read_struct("options", options, standard);
    const GameSpec& spec = game->game->spec();
    const BatchOptions native = batch_options(o, *game->game);
    check_choice("mode", o.mode, CULE_DEFAULT_MODE, spec.modes);
    check_choice("difficulty", o.difficulty, 0, spec.difficulties);
    if (native.obs == ObsKind::kObjects && native.object_rows == 0)
      refuse("options->obs_type is CULE_OBS_OBJECTS; " + spec.game_id + " has no table of objects");
    const i32 mode = o.mode == CULE_DEFAULT_MODE ? spec.default_mode : o.mode;
    const size_t n = size_t(num_envs);
    const std::vector<i32> zeros(n), ones(n, 1);
    *batch_out = new cule_batch{{{game->game},
                                 zeros,
                                 std::vector<i32>(n, mode),
                                 std::vector<i32>(n, o.difficulty),
                                 std::vector<i32>(n, o.action_delay),
                                 zeros,
                                 ones,
                                 native},
                                std::vector<i32>(int_rows(1) * n),
                                std::vector<u8>(flag_rows(1) * n),
                                {}};
  });
}

void cule_batch_destroy(cule_batch* batch) { delete batch; }

int cule_batch_info(const cule_batch* batch, cule_info* info_out) {
  return guard([&] {
    require(batch, "batch");
    const size_t size = size_of("info_out", info_out);
    const Batch& b = batch->batch;
    const BatchOptions& o = b.options();
    cule_info info{};
    info.num_envs = b.size();
    info.num_threads = b.num_threads();
    info.num_actions = i32(actions_of(*batch).size());
    info.screen_height = i32(b.picture_height(0));
    const auto add = [&info](u32 n) { info.obs_shape[info.obs_dims++] = i32(n); };
    info.obs_item_bytes = 1;
    if (o.obs == ObsKind::kRam) {
      add(kRamBytes);
    } else {
      add(u32(o.stack_num));
      add(o.obs == ObsKind::kImage     ? u32(o.img_height)
          : o.obs == ObsKind::kObjects ? o.object_rows
                                       : o.max_sprites);
      if (o.obs == ObsKind::kImage) {
        add(u32(o.img_width));
        if (!o.grayscale) add(o.channels());
      } else {
        add(o.obs == ObsKind::kObjects ? kObjectColumns : u32(kSpriteColumns));
        info.obs_item_bytes = 2;
      }
    }
    info.obs_bytes = o.obs_bytes();
    info.state_bytes = b.state_bytes();
    write_struct(info_out, size, info);
  });
}

int cule_batch_actions(const cule_batch* batch, int32_t* actions_out, size_t num_actions) {
  return guard([&] {
    require(batch, "batch");
    require(actions_out, "actions_out");
    const std::vector<i32>& actions = actions_of(*batch);
    require_size("num_actions", num_actions, actions.size());
    std::copy(actions.begin(), actions.end(), actions_out);
  });
}

int cule_reset(cule_batch* batch, const uint8_t* reset_mask, const int64_t* seeds,
               const cule_results* results) {
  return guard([&] {
    require(batch, "batch");
    const ResultArrays to(*batch, results);
    const i64 most = (i64(1) << 32) - 2;
    const size_t n = size_t(batch->batch.size());
    const std::vector<i64> own(seeds == nullptr ? n : 0, -1);
    for (size_t i = 0; seeds != nullptr && i < n; ++i)
      check_range("seeds[" + std::to_string(i) + "]", seeds[i], -1, most);
    batch->batch.reset(reset_mask, seeds == nullptr ? own.data() : seeds, to.outputs());
    to.copy_numbers();
  });
}

int cule_step(cule_batch* batch, const int32_t* actions, const cule_results* results) {
  return guard([&] {
    require(batch, "batch");
    require(actions, "actions");
    const ResultArrays to(*batch, results);
    Batch& b = batch->batch;
    b.check_ready(nullptr, b.size());
    const i32 count = i32(actions_of(*batch).size());
    for (i32 i = 0; i < b.size(); ++i) {
      if (actions[i] < 0 || actions[i] >= count)
        check_range("actions[" + std::to_string(i) + "]", actions[i], 0, count - 1);
    }
    b.command_from_indices(actions, nullptr, b.size(), batch->commands);
    b.step(batch->commands, to.outputs());
    to.copy_numbers();
  });
}

int cule_observe(cule_batch* batch, const cule_results* results) {
  return guard([&] {
    require(batch, "batch");
    const ResultArrays to(*batch, results);
    for (i32 i = 0; i < batch->batch.size(); ++i) check_was_reset(*batch, i);
    batch->batch.observe(to.outputs());
    to.copy_numbers();
  });
}

int cule_get_state(cule_batch* batch, const int32_t* indices, size_t num_indices, void* states_out,
                   size_t states_bytes) {
  return guard([&] {
    require(batch, "batch");
    require(states_out, "states_out");
    const std::vector<i32> chosen = choose_envs(*batch, indices, num_indices, states_bytes);
    for (const i32 i : chosen) check_was_reset(*batch, i);
    u8* row = static_cast<u8*>(states_out);
    for (const i32 i : chosen) {
      batch->batch.save(i, row);
      row += batch->batch.state_bytes();
    }
  });
}

int cule_set_state(cule_batch* batch, const int32_t* indices, size_t num_indices,
                   const void* states, size_t states_bytes) {
  return guard([&] {
    require(batch, "batch");
    require(states, "states");
    const std::vector<i32> chosen = choose_envs(*batch, indices, num_indices, states_bytes);
    Batch& b = batch->batch;
    const u8* const rows = static_cast<const u8*>(states);
    for (size_t k = 0; k < num_indices; ++k) {
      const std::string error = b.find_snapshot_error(chosen[k], rows + k * b.state_bytes());
      if (!error.empty()) refuse("states[" + std::to_string(k) + "]: " + error);
    }
    b.prepare_restore();
    for (size_t k = 0; k < num_indices; ++k) b.restore(chosen[k], rows + k * b.state_bytes());
  });
}

int cule_get_ram(const cule_batch* batch, int32_t index, uint8_t ram_out[128]) {
  return guard([&] {
    require(batch, "batch");
    require(ram_out, "ram_out");
    check_index("index", index, *batch);
    check_was_reset(*batch, index);
    std::copy_n(batch->batch.slot(index).state().console.ram, kRamBytes, ram_out);
  });
}

int cule_get_screen(cule_batch* batch, int32_t index, void* screen_out, size_t screen_bytes) {
  return guard([&] {
    require(batch, "batch");
    require(screen_out, "screen_out");
    check_index("index", index, *batch);
    check_was_reset(*batch, index);
    Batch& b = batch->batch;
    const size_t pixels = size_t(b.picture_height(index)) * kScreenWidth;
    require_size("screen_bytes", screen_bytes, 3 * pixels);
    std::vector<u8> values(pixels);
    b.draw(index, values.data(), make_identity_map().value);
    write_rgb(b.slot(index).setup().game->properties().format, values.data(), pixels,
              static_cast<u8*>(screen_out));
  });
}
