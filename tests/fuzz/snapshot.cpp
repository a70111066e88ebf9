// tests/fuzz/snapshot.cpp: any bytes as a snapshot or a state, behind a right and a wrong checksum:
// they are refused, or can be run, drawn, reset and saved again; what is saved is valid.
//
// The bytes of an input are the differences from a genuine state, so that zeros keep what is there.
#include "games.hpp"
#include "host/ale_console.hpp"
#include "host/batch.hpp"

using namespace cule;
using namespace cule::fuzz;

namespace {

// The games that snapshots are restored into, one of each cartridge type.
const std::shared_ptr<const Game>& game_of(u32 kind) {
  static std::vector<std::shared_ptr<const Game>> games;
  for (u32 k = u32(games.size()); k < image_kinds().size(); ++k)
    games.push_back(make_game({k, 1, k % 2 == 1, k < 4}));
  return games[kind];
}

// Changes bytes by those of the input.
void change(u8* bytes, size_t size, Input& in) {
  for (size_t i = 0; i < size && !in.is_empty(); ++i) bytes[i] ^= in.byte();
}

struct BatchRig {
  Batch batch;
  Bytes genuine;
  Bytes obs;
  std::vector<i32> ints = std::vector<i32>(int_rows(1));
  Bytes flags = Bytes(flag_rows(1));

  explicit BatchRig(u32 kind) : batch({game_of(kind)}, {0}, {0}, {0}, {3}, {0}, {1}, options()) {
    obs.resize(batch.options().obs_bytes());
    const i64 seed = 1;
    batch.reset(nullptr, &seed, outputs());
    for (u32 step = 0; step < 3; ++step) batch.step({{3, 1.0f}}, outputs());
    genuine.resize(batch.state_bytes());
    batch.save(0, genuine.data());
  }
  static BatchOptions options() {
    BatchOptions o;
    o.num_threads = 1;
    o.agent.frameskip = 2;
    o.agent.max_num_frames_per_episode = 1000;
    o.agent.noop_max = 1;
    o.img_height = o.img_width = 21;
    o.stack_num = 2;
    o.repeat_action_probability = 0.25f;
    o.max_action_delay = 3;
    return o;
  }
  Outputs outputs() {
    Outputs out;
    out.obs = obs.data();
    out.obs_stride = std::ptrdiff_t(obs.size());
    out.ints = ints.data();
    out.flags = flags.data();
    out.width = 1;
    return out;
  }
};

// Gives a snapshot of pure functions its checksum.
void sign_logged(const GameSetup& setup, const BatchOptions& options, u8* row) {
  const SnapshotLayout at = snapshot_layout(options, setup.game->properties().height);
  const LoggedRow logged{row, at, setup.picture_bytes()};
  const PictureState p = logged.state().console.picture;
  for (u32 n = 0; n < 2; ++n) {
    if (p.kind[n] == PictureKind::kLog && logged.head(n).size > kLogCapacity) return;
  }
  SnapshotHeader h;
  std::memcpy(&h, row, sizeof h);
  h.checksum = logged.checksum(logged.used(p));
  std::memcpy(row, &h, sizeof h);
}

void check_saved(BatchRig& rig) {
  Bytes row(rig.batch.state_bytes());
  rig.batch.save(0, row.data());
  if (!rig.batch.find_snapshot_error(0, row.data()).empty()) report("a saved snapshot is refused");
  rig.batch.restore(0, row.data());
}

void try_batch(u32 kind, Input& header, Input& body) {
  static std::unique_ptr<BatchRig> rigs[16];
  if (rigs[kind] == nullptr) rigs[kind] = std::make_unique<BatchRig>(kind);
  BatchRig& rig = *rigs[kind];
  const bool has_right_checksum = header.below(8) != 0;
  const u32 steps = header.below(4);
  Bytes row = rig.genuine;
  SnapshotHeader h;
  std::memcpy(&h, row.data(), sizeof h);
  change(row.data() + sizeof h, row.size() - sizeof h, body);
  const bool is_changed = row != rig.genuine;
  if (has_right_checksum) {
    h.checksum = checksum_of(row.data() + sizeof h, row.size() - sizeof h);
    std::memcpy(row.data(), &h, sizeof h);
  } else {
    change(row.data(), sizeof h, header);
  }
  const bool is_refused = !rig.batch.find_snapshot_error(0, row.data()).empty();
  if (!is_changed && has_right_checksum && is_refused) report("a genuine snapshot is refused");
  if (is_changed && !has_right_checksum && !is_refused) report("a wrong checksum is not noticed");
  if (is_refused) return;
  rig.batch.restore(0, row.data());
  rig.batch.observe(rig.outputs());
  for (u32 step = 0; step < steps; ++step) {
    rig.batch.step({{i32(header.below(kActions)), 1.0f}}, rig.outputs());
    for (const u8 flag : rig.flags) {
      if (flag > 1) report("a flag is neither 0 nor 1");
    }
    check_saved(rig);
  }
}

// The same of the snapshots of pure functions.
void try_logged(u32 kind, Input& header, Input& body) {
  static std::unique_ptr<BatchRig> rigs[16];
  if (rigs[kind] == nullptr) rigs[kind] = std::make_unique<BatchRig>(kind);
  BatchRig& rig = *rigs[kind];
  Bytes row(rig.batch.state_bytes()), after = row;
  rig.batch.reset_snapshots({1}, row.data(), rig.outputs());
  for (u32 steps = header.below(3); steps > 0; --steps)
    rig.batch.step_snapshots(row.data(), {{3, 1.0f}}, row.data(), rig.outputs());
  const Bytes genuine = row;
  change(row.data() + sizeof(SnapshotHeader), row.size() - sizeof(SnapshotHeader), body);
  sign_logged(rig.batch.slot(0).setup(), rig.batch.options(), row.data());
  const bool is_refused = !rig.batch.find_snapshot_error(0, row.data()).empty();
  if (row == genuine && is_refused) report("a genuine snapshot is refused");
  if (is_refused) return;
  rig.batch.step_snapshots(row.data(), {{2, 1.0f}}, after.data(), rig.outputs());
  rig.batch.restore(0, row.data());
  check_saved(rig);
}

void try_console(u32 kind, Input& header, Input& body) {
  static std::unique_ptr<AleConsole> consoles[16];
  if (consoles[kind] == nullptr) {
    AleConsoleOptions options;
    options.sound_obs = kind % 2 == 0;
    options.color_averaging = kind % 3 != 0;
    options.settings.truncate_on_loss_of_life = kind % 4 == 0;
    options.settings.frame_skip = 1 + i32(kind);
    if (kind % 2 == 1) options.reward_min = options.reward_max = 1;
    options.settings.max_num_frames_per_episode = 1000;
    options.before_frame = [](AleConsole& c) { c.set_ram(1, c.ram()[1]); };
    options.after_frame = [](AleConsole& c) {
      if (c.audio() == c.frame_audio()) report("two sounds are one");
    };
    options.action_delay = i32(kind % 4);
    consoles[kind] = std::make_unique<AleConsole>(game_of(kind), options);
  }
  AleConsole& console = *consoles[kind];
  const bool is_snapshot = header.below(2) != 0;
  const bool has_random = header.below(2) != 0;
  const u32 acts = header.below(4);
  Bytes bytes(is_snapshot ? console.snapshot_bytes() : console.state_bytes());
  if (is_snapshot) {
    console.get_snapshot(bytes.data());
  } else {
    console.get_state(bytes.data(), has_random);
  }
  const Bytes genuine = bytes;
  change(bytes.data(), bytes.size(), body);
  if (!console.can_restore(genuine.data())) report("a genuine state is refused");
  if (!console.can_restore(bytes.data())) return;
  is_snapshot ? console.set_snapshot(bytes.data()) : console.set_state(bytes.data(), has_random);
  for (u32 k = 0; k < acts; ++k) {
    console.act(i32(header.below(kActions)), 1.0f);
    console.env().mode = i32(acts % 2);
    console.screen();
    i16 rows[4 * kSpriteColumns];
    if (console.has_frame()) console.write_sprites(4, rows);
    if (console.is_terminal() || console.is_truncated() || console.lives() > 100) console.reset();
  }
  console.get_state(bytes.data(), true);
  if (!console.can_restore(bytes.data())) report("a saved state is refused");
  is_snapshot ? console.set_snapshot(genuine.data()) : console.set_state(genuine.data(), true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  InputParts in(data, size);
  const u32 kind = in.header.below(u32(image_kinds().size()));
  const u32 form = in.header.below(3);
  (form == 0 ? try_batch : form == 1 ? try_console : try_logged)(kind, in.header, in.body);
  return 0;
}
