// tests/fuzz/batch.cpp: runs a batch under random options and calls, and compares it with a batch
// that interprets everything on one thread: results, errors and snapshots are the same. Games have
// one, two or four players.
//
// The header of an input and the next three bytes hold the options; each byte of the rest is a call
// or what it needs.
#include "host/batch.hpp"

#include "games.hpp"

using namespace cule;
using namespace cule::fuzz;

namespace {

std::shared_ptr<const Game> game_of(const GameKind& kind) {
  static std::map<GameKind, std::shared_ptr<const Game>> games;
  std::shared_ptr<const Game>& game = games[kind];
  if (game == nullptr) game = make_game(kind);
  return game;
}

// Heights of over 210 are those of games for PAL.
BatchOptions read_options(Input& in) {
  constexpr i32 kHeights[] = {84, 1, 105, 210, 209, 97, 71, 11, 250};
  constexpr i32 kWidths[] = {84, 1, 21, 80, 160, 40};
  constexpr i32 kPlayers[] = {1, 2, 4, 1};
  BatchOptions o;
  const u32 flags = in.byte() | u32(in.byte()) << 8;
  o.grayscale = flags & 1;
  o.maxpool = flags >> 1 & 1;
  o.continuous = flags >> 2 & 1;
  o.full_action_space = flags >> 4 & 1;
  o.use_fire_reset = flags >> 5 & 1;
  o.agent.episodic_life = flags >> 6 & 1;
  o.agent.life_loss_info = flags >> 7 & 1;
  o.agent.reward_clipping = flags >> 8 & 1;
  o.agent.fire_after_life_loss = flags >> 9 & 1;
  o.cached_resets = flags >> 10 & 1;
  o.autoreset = Autoreset((flags >> 11 & 3) % 3);
  o.num_players = kPlayers[flags >> 13 & 3];
  o.max_action_delay = flags >> 15 ? 5 : 0;
  o.img_height = kHeights[in.below(9)];
  o.img_width = kWidths[in.below(6)];
  o.stack_num = 1 + i32(in.below(4));
  o.agent.frameskip = 1 + i32(in.below(3));
  o.agent.noop_max = i32(in.below(4));
  constexpr i32 kMostFrames[] = {400, 1, 7, 20, 61, 400, 400, 20};
  o.agent.max_num_frames_per_episode = kMostFrames[in.below(8)];
  o.repeat_action_probability = 0.25f * float(in.below(5));
  o.num_reset_states = 1 + i32(in.below(2));
  return o;
}

// The kind of observations and their number of rows; some are refused.
void read_observations(Input& in, BatchOptions& o) {
  constexpr ObsKind kKinds[] = {ObsKind::kImage, ObsKind::kObjects, ObsKind::kSprites,
                                ObsKind::kRam};
  constexpr u32 kRows[] = {3, 64, 5, 2};
  const u32 byte = in.byte();
  o.obs = kKinds[byte & 1 ? 0 : byte >> 1 & 3];
  o.object_rows = kRows[byte >> 3 & 3];
  o.max_sprites = byte >> 5 < 7 ? kRows[byte >> 5 & 3] : 0;
}

// Of each environment: the number of a modification, and how many follow from which each episode
// draws one. Some are refused.
struct Modified {
  i32 first, count;
};

// A batch with its results.
struct BatchRig {
  Batch batch;
  Bytes obs, final_obs, flags, rows, picture;
  std::vector<i32> ints, final_ints;
  std::string error;

  BatchRig(const std::shared_ptr<const Game>& game, size_t n, Modified m,
           const BatchOptions& options)
      : batch({game}, std::vector<i32>(n, 0), modes(n), modes(n),
              std::vector<i32>(n, options.max_action_delay), std::vector<i32>(n, m.first),
              std::vector<i32>(n, m.count), options) {
    resize(n);
    const EnvBytes bytes = env_bytes(options, batch.picture_height(0));
    if (bytes.snapshot != batch.state_bytes()) report("a snapshot has another size");
  }
  // The second environment plays another mode at another difficulty.
  static std::vector<i32> modes(size_t n) {
    std::vector<i32> modes(n, 0);
    if (n > 1) modes[1] = 1;
    return modes;
  }
  void resize(size_t n) {
    const u32 num_players = u32(batch.options().num_players);
    obs.assign(n * batch.options().obs_bytes(), 0);
    final_obs = obs;
    ints.assign(n * int_rows(num_players), 0);
    final_ints = ints;
    flags.assign(n * flag_rows(num_players), 0);
    rows.assign(n * batch.state_bytes(), 0);
  }
  Outputs outputs(bool stacked = true) {
    const size_t n = flags.size() / flag_rows(u32(batch.options().num_players));
    const auto stride = std::ptrdiff_t(batch.options().obs_bytes());
    return {obs.data(),       stride, ints.data(),       flags.data(), n,
            final_obs.data(), stride, final_ints.data(), stacked};
  }
  // Keeps what a call that is allowed to fail throws.
  template <class Call>
  void run(const Call& call) {
    error.clear();
    try {
      call(*this);
    } catch (const std::runtime_error& e) {  // NotReady, CallOutOfTurn, ModeUnreachable
      error = e.what();
    } catch (const std::invalid_argument& e) {
      error = e.what();
    }
  }
};

void check_same(const BatchRig& a, const BatchRig& b) {
  if (a.error != b.error) report("errors differ");
  if (a.ints != b.ints || a.flags != b.flags) report("results differ");
  if (a.obs != b.obs) report("observations differ");
  if (a.final_obs != b.final_obs || a.final_ints != b.final_ints) report("final results differ");
  if (a.rows != b.rows) report("snapshots differ");
  if (a.picture != b.picture) report("pictures differ");
  for (const u8 flag : a.flags) {
    if (flag > 1) report("a flag is neither 0 nor 1");
  }
}

class Calls {
 public:
  Calls(BatchRig& a, BatchRig& b) : rigs_{&a, &b}, n_(size_t(a.batch.size())) {}

  void run(Input& in) {
    switch (in.below(16)) {
      case 0:
        return reset(in.byte(), i64(in.below(5)) - 1);
      case 1:
        return both([&, commands = joysticks(in)](BatchRig& r) { step(r, commands); });
      case 2:
        return both([&](BatchRig& r) {
          r.batch.check_ready(nullptr, r.batch.size());
          r.batch.observe(r.outputs(false));
        });
      case 3:
        return both([&, to = in.below(u32(n_)), from = in.below(u32(n_))](BatchRig& r) {
          r.batch.check_ready(nullptr, r.batch.size());
          r.batch.save(i32(from), r.rows.data());
          if (!r.batch.find_snapshot_error(i32(to), r.rows.data()).empty()) return;
          r.batch.prepare_restore();
          r.batch.restore(i32(to), r.rows.data());
          r.batch.observe(r.outputs());
        });
      case 4:
        return both([&, commands = indices(in), is_reset = in.below(4) == 0](BatchRig& r) {
          send_and_receive(r, commands, is_reset);
        });
      case 5:
        return both([&, most = i32(in.below(4)), seed = in.byte()](BatchRig& r) {
          r.batch.check_ready(nullptr, r.batch.size());
          r.batch.decorrelate(most, seed, r.outputs());
        });
      case 6:
        return both([&, commands = indices(in), damaged = in.byte()](BatchRig& r) {
          r.batch.check_ready(nullptr, r.batch.size());
          Bytes before(r.rows.size());
          for (size_t i = 0; i < n_; ++i) {
            r.batch.save(i32(i), &before[i * r.batch.state_bytes()]);
          }
          if (damaged < sizeof(SnapshotHeader)) before[damaged] ^= 1;
          r.batch.step_snapshots(before.data(), commands, r.rows.data(), r.outputs());
        });
      case 7:
        return both([&, seed = in.byte()](BatchRig& r) {
          r.batch.reset_snapshots(std::vector<i64>(n_, seed), r.rows.data(), r.outputs());
        });
      case 8:
        return both([&, i = i32(in.below(u32(n_)))](BatchRig& r) {
          r.batch.check_ready(nullptr, r.batch.size());
          const Bytes& row = r.batch.reset_states(i).back();
          std::copy(row.begin(), row.end(), r.rows.begin());
          r.picture.resize(r.batch.picture_height(i) * kScreenWidth);
          r.batch.draw(i, r.picture.data(), make_identity_map().value);
        });
      case 9:
        return both([&, at = in.below(sizeof(SnapshotHeader))](BatchRig& r) {
          r.batch.check_ready(nullptr, r.batch.size());
          r.batch.save(0, r.rows.data());
          r.rows[at] ^= 1;
          throw std::invalid_argument(r.batch.find_snapshot_error(0, r.rows.data()));
        });
      case 10:
        both([&](BatchRig& r) {
          Interruption interruption;
          interruption.want();
          r.batch.reset(nullptr, std::vector<i64>(n_, 1).data(), r.outputs(), &interruption);
        });
        return reset(255, in.byte());
      case 11:
        return both([&, commands = indices(in)](BatchRig& r) { break_turns(r, commands); });
      default:
        return both([&, commands = indices(in)](BatchRig& r) { step(r, commands); });
    }
  }
  // The last call: what is in flight is given up.
  void close(Input& in) {
    both([&, commands = indices(in)](BatchRig& r) {
      const i32 id = 0;
      r.batch.check_ready(&id, 1);
      r.batch.send(commands, &id, 1);
      r.batch.close();
      r.batch.receive(1, r.outputs());
    });
  }
  // A mask above 127 is none. The seed of the first reset is no random one.
  void reset(u32 mask, i64 seed) {
    if (!has_begun_) seed = std::max<i64>(seed, 0);
    has_begun_ |= mask > 127;
    Bytes chosen(n_);
    const std::vector<i64> seeds(n_, seed);
    for (size_t i = 0; i < n_; ++i) chosen[i] = mask >> i & 1;
    both([&](BatchRig& r) {
      r.batch.reset(mask > 127 ? nullptr : chosen.data(), seeds.data(), r.outputs());
    });
  }

 private:
  template <class Call>
  void both(const Call& call) {
    for (BatchRig* rig : rigs_) rig->run(call);
    check_same(*rigs_[0], *rigs_[1]);
  }
  std::vector<Command> indices(Input& in) {
    const Batch& batch = rigs_[0]->batch;
    std::vector<i32> actions(n_ * size_t(batch.options().num_players));
    const u32 count = u32(batch.slot(0).setup().actions.size());
    for (i32& action : actions) action = i32(in.below(count));
    std::vector<Command> commands;
    batch.command_from_indices(actions.data(), nullptr, batch.size(), commands);
    return commands;
  }
  std::vector<Command> joysticks(Input& in) {
    const Batch& batch = rigs_[0]->batch;
    if (batch.options().num_players > 1) return indices(in);
    std::vector<float> actions(n_ * kJoystickSize);
    for (float& number : actions) number = float(in.byte()) / 127.5f - 1.0f;
    std::vector<Command> commands;
    batch.command_from_joysticks(actions.data(), batch.size(), commands);
    return commands;
  }
  static void step(BatchRig& r, const std::vector<Command>& commands) {
    r.batch.check_ready(nullptr, r.batch.size());
    r.batch.step(commands, r.outputs());
  }
  void send_and_receive(BatchRig& r, const std::vector<Command>& commands, bool is_reset) const {
    const i32 n = r.batch.size();
    std::vector<i32> ids(n_);
    for (i32 i = 0; i < n; ++i) ids[size_t(i)] = i;
    r.batch.check_ready(nullptr, n);
    if (is_reset) {
      r.batch.send_reset(std::vector<i64>(n_, kKeepState).data());
    } else {
      r.batch.send(commands, ids.data(), n);
    }
    r.batch.receive(n, r.outputs());
    // That was in the order in which the threads finished.
    r.resize(n_);
    r.batch.observe(r.outputs());
  }

  // Calls that what has been sent does not allow.
  void break_turns(BatchRig& r, const std::vector<Command>& commands) const {
    const i32 id = 0;
    r.batch.check_ready(nullptr, r.batch.size());
    r.batch.send(commands, &id, 1);
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const CallOutOfTurn&) {
        return;
      }
      report("a call out of turn is carried out");
    };
    refused([&] { r.batch.step(commands, r.outputs()); });
    refused([&] { r.batch.send(commands, &id, 1); });
    refused([&] { r.batch.receive(2, r.outputs()); });
    r.batch.receive(1, r.outputs());
    r.resize(n_);
    r.batch.observe(r.outputs());
  }

  BatchRig* const rigs_[2];
  const size_t n_;
  bool has_begun_ = false;
};

// Null if the options are refused.
std::unique_ptr<BatchRig> make_rig(const GameKind& kind, size_t n, Modified m,
                                   const BatchOptions& options) {
  try {
    return std::make_unique<BatchRig>(game_of(kind), n, m, options);
  } catch (const std::invalid_argument&) {
    return nullptr;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr u32 kMostCalls = 20;
  InputParts in(data, size);
  const u32 cartridge = in.header.below(u32(image_kinds().size()));
  const u32 shape = in.header.byte();
  BatchOptions options = read_options(in.header);
  read_observations(in.body, options);
  const Modified modified{i32(in.body.below(4)) % 3, 1 + i32(in.body.below(8)) % 3};
  const u32 players = u32(options.num_players);
  const size_t n = 1 + (shape & 1);
  options.num_threads = shape >> 2 & 1 ? 2 : 0;  // 0: as many as there are processors
  options.thread_affinity_offset = shape >> 1 & 1 ? 0 : -1;
  const bool is_steady = shape >> 3 & 1;
  if (shape >> 4 == 0) ++options.num_players;  // is refused
  const auto fast = make_rig({cartridge, players, is_steady, true}, n, modified, options);
  options.num_threads = 1;
  options.low_memory = true;
  const auto plain = make_rig({cartridge, players, is_steady, false}, n, modified, options);
  if (bool(fast) != bool(plain)) report("options are refused by one batch");
  if (fast == nullptr) return 0;
  Calls calls(*fast, *plain);
  if (shape >> 6 != 0) calls.reset(255, shape);
  for (u32 call = 0; call < kMostCalls && !in.body.is_empty(); ++call) calls.run(in.body);
  if (shape >> 5 & 1) calls.close(in.body);
  return 0;
}
