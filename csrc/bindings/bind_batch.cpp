// bindings/bind_batch.cpp: cule._core.Batch, its options, and the memory that results go to.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "batch/snapshot_errors.hpp"
#include "bindings/bind.hpp"
#include "bindings/parse.hpp"
#include "bindings/xla_handler.hpp"
#include "bindings/xla_target.hpp"
#include "obs/palette.hpp"

namespace cule {
namespace {

// The numpy arrays that a call writes to. Observations are the caller's; the tables are made here.
struct OutputArrays {
  py::array_t<u8> obs;                       // [n, ...], each row contiguous
  std::optional<py::array_t<u8>> final_obs;  // as obs
  bool stacked;
  Contiguous<i32> ints, final_ints;  // [int_rows(), n]; final_ints only with final_obs
  Contiguous<bool> flags;            // [flag_rows(), n]

  OutputArrays(py::array_t<u8> obs_array, std::optional<py::array_t<u8>> final_array,
               bool is_stacked, u32 num_players)
      : obs(std::move(obs_array)),
        final_obs(std::move(final_array)),
        stacked(is_stacked),
        ints({py::ssize_t(int_rows(num_players)), size()}),
        final_ints({py::ssize_t(int_rows(num_players)), final_obs ? size() : 0}),
        flags({py::ssize_t(flag_rows(num_players)), size()}) {}

  py::ssize_t size() const { return obs.ndim() > 0 ? obs.shape(0) : 0; }

  // For `n` environments of a batch.
  Outputs pointers(const BatchOptions& o, i32 n) {
    check_range("rows of the tables", ints.shape(0), int_rows(u32(o.num_players)),
                int_rows(u32(o.num_players)));
    const size_t bytes = stacked ? o.obs_bytes() : o.frame_bytes();
    Outputs out;
    out.obs = parse_rows(obs, "obs", n, bytes);
    out.obs_stride = obs.strides(0);
    out.ints = ints.mutable_data();
    out.flags = reinterpret_cast<u8*>(flags.mutable_data());
    out.width = size_t(n);
    out.stacked = stacked;
    if (final_obs) {
      out.final_obs = parse_rows(*final_obs, "final_obs", n, bytes);
      out.final_obs_stride = final_obs->strides(0);
      out.final_ints = final_ints.mutable_data();
    }
    return out;
  }

 private:
  // A writable array of n leading entries whose rest is contiguous and `bytes` long.
  static u8* parse_rows(py::array_t<u8>& a, const char* name, i32 n, size_t bytes) {
    size_t inner = 1;
    bool is_contiguous = a.ndim() > 1;
    for (py::ssize_t d = a.ndim() - 1; d > 0; --d) {
      is_contiguous &= a.shape(d) <= 1 || a.strides(d) == py::ssize_t(inner);
      inner *= size_t(a.shape(d));
    }
    if (!is_contiguous || a.shape(0) != n || inner != bytes) {
      refuse(std::string(name) + " has shape " + shape_text(a) + "; it must be " +
             std::to_string(n) + " contiguous rows of " + std::to_string(bytes) + " bytes");
    }
    return a.mutable_data();  // throws for a read-only array
  }
};

// The Python object: the batch and a buffer for its commands.
class PyBatch {
 public:
  PyBatch(const std::vector<std::shared_ptr<Game>>& games, const py::object& game_index,
          const py::object& modes, const py::object& difficulties, const py::object& action_delays,
          const py::object& modifications, const py::object& num_modifications,
          const BatchOptions& options) {
    const i32 n = i32(py::len(game_index));
    const auto copy = [n](const i32* p) { return std::vector<i32>(p, p + n); };
    shared_ = std::make_shared<SharedBatch>(
        std::vector<std::shared_ptr<const Game>>(games.begin(), games.end()),
        copy(parse_indices<i32>(game_index, "game_index", n, games.size())),
        copy(parse_vector<i32>(modes, "modes", n)),
        copy(parse_vector<i32>(difficulties, "difficulties", n)),
        copy(parse_vector<i32>(action_delays, "action_delays", n)),
        copy(parse_vector<i32>(modifications, "modifications", n)),
        copy(parse_vector<i32>(num_modifications, "num_modifications", n)), options);
  }

  Batch& batch() { return shared_->batch; }
  Batch& open() { return shared_->open(); }

  void reset(const py::object& mask, const py::object& seeds, OutputArrays& out) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    const bool* which = mask.is_none() ? nullptr : parse_vector<bool>(mask, "mask", b.size());
    const i64* seed = parse_vector<i64>(seeds, "seeds", b.size());
    write(out, b.size(), [&](const Outputs& to, Interruption* interruption) {
      b.reset(reinterpret_cast<const u8*>(which), seed, to, interruption);
    });
  }

  void decorrelate(i32 max_steps, u64 seed, OutputArrays& out) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    b.check_ready(nullptr, b.size());
    write(out, b.size(), [&](const Outputs& to, Interruption* interruption) {
      b.decorrelate(max_steps, seed, to, interruption);
    });
  }

  void step(const py::object& actions, OutputArrays& out) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    b.check_ready(nullptr, b.size());
    read_actions(actions, nullptr, b.size());
    const Outputs to = out.pointers(b.options(), b.size());
    WithoutGil without_gil;
    b.step(commands_, to);
  }

  void observe(OutputArrays& out) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    const Outputs to = out.pointers(b.options(), b.size());
    WithoutGil without_gil;
    b.observe(to);
  }

  void send_reset(const py::object& seeds) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    const i64* seed = parse_vector<i64>(seeds, "seeds", b.size());
    run_interruptibly([&](Interruption* interruption) { b.send_reset(seed, interruption); });
  }

  void send(const py::object& actions, const py::object& env_ids) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    const i32 n = i32(py::len(env_ids));
    const i32* ids = parse_indices<i32>(env_ids, "env_ids", n, size_t(b.size()));
    b.check_ready(ids, n);
    read_actions(actions, ids, n);
    WithoutGil without_gil;
    b.send(commands_, ids, n);
  }

  void recv(OutputArrays& out) {
    Batch& b = open();
    const i32 n = i32(out.size());
    write(out, n,
          [&](const Outputs& to, Interruption* interruption) { b.receive(n, to, interruption); });
  }

  py::array_t<u8> get_state(const py::object& indices) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    const auto [ids, n] = parse_envs(indices);
    py::array_t<u8> out({py::ssize_t(n), py::ssize_t(b.state_bytes())});
    u8* rows = out.mutable_data();
    WithoutGil without_gil;
    for (i32 k = 0; k < n; ++k) b.save(i32(ids[k]), rows + size_t(k) * b.state_bytes());
    return out;
  }

  void set_state(const py::object& states, const py::object& indices) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    const auto [ids, n] = parse_envs(indices);
    const size_t bytes = b.state_bytes();
    const u8* rows = parse_array<u8>(states, "states", {n, py::ssize_t(bytes)});
    for (i32 k = 0; k < n; ++k) {
      const std::string error = b.find_snapshot_error(i32(ids[k]), rows + size_t(k) * bytes);
      if (!error.empty()) refuse("states[" + std::to_string(k) + "]: " + error);
    }
    run_interruptibly([&](Interruption* interruption) { b.prepare_restore(interruption); });
    WithoutGil without_gil;
    for (i32 k = 0; k < n; ++k) b.restore(i32(ids[k]), rows + size_t(k) * bytes);
  }

  // The cached reset states of one environment as snapshots.
  py::array_t<u8> reset_states(i32 index) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    check_range("index", index, 0, b.size() - 1);
    const std::vector<std::vector<u8>>* rows = nullptr;
    run_interruptibly(
        [&](Interruption* interruption) { rows = &b.reset_states(index, interruption); });
    py::array_t<u8> out({py::ssize_t(rows->size()), py::ssize_t(b.state_bytes())});
    u8* to = out.mutable_data();
    for (const std::vector<u8>& row : *rows) to = std::copy(row.begin(), row.end(), to);
    return out;
  }

  py::array_t<u8> screens(const std::string& kind, const py::object& indices) {
    const auto lock = wait_for_calls();
    Batch& b = open();
    const auto [ids, n] = parse_envs(indices);
    const u32 height = n > 0 ? b.picture_height(i32(ids[0])) : 0;
    for (i32 k = 0; k < n; ++k) {
      if (b.picture_height(i32(ids[k])) != height)
        refuse("indices name environments with screens of different heights");
    }
    const bool is_rgb = kind == "rgb";
    std::vector<py::ssize_t> shape{n, py::ssize_t(height), kScreenWidth};
    if (is_rgb) shape.push_back(3);
    py::array_t<u8> out(shape);
    u8* rows = out.mutable_data();
    const size_t picture = size_t(height) * kScreenWidth;
    const auto identity = make_identity_map();
    WithoutGil without_gil;
    std::vector<u8> levels(is_rgb ? picture : 0);
    for (size_t k = 0; k < size_t(n); ++k) {
      const i32 i = i32(ids[k]);
      const Format format = b.slot(i).setup().game->properties().format;
      if (is_rgb) {
        b.draw(i, levels.data(), identity.value);
        write_rgb(format, levels.data(), picture, rows + k * picture * 3);
      } else {
        b.draw(i, rows + k * picture, kind == "gray" ? gray_table(format) : identity.value);
      }
    }
    return out;
  }

  void close() {
    const auto lock = wait_for_calls();
    shared_->is_closed = true;
    WithoutGil without_gil;
    shared_->batch.close();
  }

  // Whether every environment has an episode, which a call of XLA may have begun.
  bool has_reset() {
    const auto lock = wait_for_calls();
    Batch& b = open();
    bool has = true;
    for (i32 i = 0; i < b.size(); ++i) has &= b.slot(i).state().has_reset != 0;
    return has;
  }

  std::unique_ptr<xla::Registered<XlaTarget>> xla_target(const Contiguous<i32>& action_table) {
    const i32 n = open().size();
    if (action_table.ndim() != 2 || (action_table.size() != 0 && action_table.shape(0) != n))
      refuse("action_table has shape " + shape_text(action_table) + "; it must be (N, actions)");
    const i32* first = action_table.data();
    return std::make_unique<xla::Registered<XlaTarget>>(
        XlaTarget{shared_, {first, first + action_table.size()}, i32(action_table.shape(1))});
  }

 private:
  // Calls of Python and of XLA one after the other. The GIL is not held while waiting.
  std::unique_lock<std::mutex> wait_for_calls() {
    refuse_in_signal_handler();
    std::unique_lock<std::mutex> lock(shared_->mutex, std::try_to_lock);
    if (!lock) {
      WithoutGil without_gil;
      lock.lock();
    }
    return lock;
  }

  template <class Call>
  void write(OutputArrays& out, i32 n, const Call& call) {
    const Outputs to = out.pointers(shared_->batch.options(), n);
    run_interruptibly([&](Interruption* interruption) { call(to, interruption); });
  }

  std::pair<const i64*, i32> parse_envs(const py::object& indices) {
    const i32 n = i32(py::len(indices));
    return {parse_indices<i64>(indices, "indices", n, size_t(open().size())), n};
  }

  // Fills commands_ from indices into the action sets, or from rows of x, y, fire and strength.
  void read_actions(const py::object& actions, const i32* ids, i32 n) {
    Batch& b = open();
    if (b.options().continuous) {
      const float* rows = parse_array<float>(actions, "actions", {n, kJoystickSize});
      b.command_from_joysticks(rows, n, commands_);
    } else {
      const i32* indices = parse_vector<i32>(actions, "actions", n * b.options().num_players);
      b.command_from_indices(indices, ids, n, commands_);
    }
  }

  std::shared_ptr<SharedBatch> shared_;
  std::vector<Command> commands_;
};

// A read-only view of one field of every environment, which changes with it.
template <class T>
py::array live_view(const py::object& self, const T* first, size_t stride,
                    std::vector<py::ssize_t> inner = {}) {
  const Batch& b = self.cast<PyBatch&>().open();
  std::vector<py::ssize_t> shape{b.size()};
  std::vector<py::ssize_t> strides{py::ssize_t(stride)};
  for (const py::ssize_t n : inner) {
    shape.push_back(n);
    strides.push_back(sizeof(T));
  }
  py::array_t<T> view(shape, strides, first, self);
  view.attr("setflags")(py::arg("write") = false);
  return std::move(view);
}

const SlotState& first_state(const py::object& self) {
  return self.cast<PyBatch&>().open().slot(0).state();
}

py::array live_lives(const py::object& self) {
  const i32 num_players = self.cast<PyBatch&>().open().options().num_players;
  std::vector<py::ssize_t> inner;
  if (num_players > 1) inner.push_back(num_players);
  return live_view(self, first_state(self).agent.lives, sizeof(SlotState), std::move(inner));
}

void bind_options(py::module_& m) {
  py::enum_<Autoreset>(m, "Autoreset")
      .value("NextStep", Autoreset::kNextStep)
      .value("SameStep", Autoreset::kSameStep)
      .value("Disabled", Autoreset::kDisabled)
      .def("__reduce__", [](const py::object& self) {
        return py::make_tuple(py::type::of(self), py::make_tuple(py::int_(self)));
      });
  py::enum_<ObsKind>(m, "ObsKind")
      .value("image", ObsKind::kImage)
      .value("ram", ObsKind::kRam)
      .value("objects", ObsKind::kObjects)
      .value("sprites", ObsKind::kSprites);
  py::class_<BatchOptions> options(m, "BatchOptions");
  options.def(py::init<>())
      .def_readwrite("num_threads", &BatchOptions::num_threads)
      .def_readwrite("thread_affinity_offset", &BatchOptions::thread_affinity_offset)
      .def_readwrite("low_memory", &BatchOptions::low_memory)
      .def_readwrite("use_fire_reset", &BatchOptions::use_fire_reset)
      .def_readwrite("repeat_action_probability", &BatchOptions::repeat_action_probability)
      .def_readwrite("stack_num", &BatchOptions::stack_num)
      .def_readwrite("img_height", &BatchOptions::img_height)
      .def_readwrite("img_width", &BatchOptions::img_width)
      .def_readwrite("grayscale", &BatchOptions::grayscale)
      .def_readwrite("maxpool", &BatchOptions::maxpool)
      .def_readwrite("obs", &BatchOptions::obs)
      .def_readwrite("object_rows", &BatchOptions::object_rows)
      .def_readwrite("max_sprites", &BatchOptions::max_sprites)
      .def_readwrite("full_action_space", &BatchOptions::full_action_space)
      .def_readwrite("continuous", &BatchOptions::continuous)
      .def_readwrite("continuous_action_threshold", &BatchOptions::continuous_action_threshold)
      .def_readwrite("autoreset", &BatchOptions::autoreset)
      .def_readwrite("cached_resets", &BatchOptions::cached_resets)
      .def_readwrite("num_reset_states", &BatchOptions::num_reset_states)
      .def_readwrite("num_players", &BatchOptions::num_players)
      .def_readwrite("max_action_delay", &BatchOptions::max_action_delay);
  const auto agent = [](BatchOptions& o) -> AgentOptions& { return o.agent; };
  bind_part(options, agent, "frameskip", &AgentOptions::frameskip);
  bind_part(options, agent, "max_num_frames_per_episode",
            &AgentOptions::max_num_frames_per_episode);
  bind_part(options, agent, "noop_max", &AgentOptions::noop_max);
  bind_part(options, agent, "episodic_life", &AgentOptions::episodic_life);
  bind_part(options, agent, "life_loss_info", &AgentOptions::life_loss_info);
  bind_part(options, agent, "reward_clipping", &AgentOptions::reward_clipping);
  bind_part(options, agent, "fire_after_life_loss", &AgentOptions::fire_after_life_loss);
}

void bind_constants(py::module_& m) {
  const std::pair<const char*, i64> constants[] = {
      {"INT_FRAME_NUMBER", kIntFrameNumber},
      {"INT_EPISODE_FRAME_NUMBER", kIntEpisodeFrameNumber},
      {"INT_EPISODE_LENGTH", kIntEpisodeLength},
      {"INT_ENV_ID", kIntEnvId},
      {"INT_OF_PLAYERS", kIntOfPlayers},
      {"INT_REWARD", kIntReward},
      {"INT_RAW_REWARD", kIntRawReward},
      {"INT_LIVES", kIntLives},
      {"INT_EPISODE_RETURN", kIntEpisodeReturn},
      {"FLAG_TERMINATED", kFlagTerminated},
      {"FLAG_TRUNCATED", kFlagTruncated},
      {"FLAG_FIRST", kFlagFirst},
      {"FLAG_ENDED", kFlagEnded},
      {"FLAG_OF_PLAYERS", kFlagOfPlayers},
      {"FLAG_LIFE_LOST", kFlagLifeLost},
      {"KEEP_STATE", kKeepState},
  };
  for (const auto& [name, value] : constants) m.attr(name) = value;
  m.def("int_rows", &int_rows, py::arg("num_players"));
  m.def("flag_rows", &flag_rows, py::arg("num_players"));
}

}  // namespace

void bind_batch(py::module_& m) {
  bind_constants(m);
  bind_options(m);
  py::register_exception<NotReady>(m, "NotReadyError", PyExc_RuntimeError);
  py::register_exception<CallOutOfTurn>(m, "CallOutOfTurnError", PyExc_RuntimeError);
  py::register_exception<BatchClosed>(m, "BatchClosedError", PyExc_RuntimeError);
  py::register_exception<ThreadStartFailed>(m, "ThreadStartError", PyExc_RuntimeError);
  py::class_<OutputArrays>(m, "Outputs")
      .def(py::init<py::array_t<u8>, std::optional<py::array_t<u8>>, bool, u32>(),
           py::arg("obs").noconvert(), py::arg("final_obs").noconvert() = py::none(),
           py::arg("stacked") = true, py::arg("num_players") = 1)
      .def_readonly("obs", &OutputArrays::obs)
      .def_readonly("final_obs", &OutputArrays::final_obs)
      .def_readonly("stacked", &OutputArrays::stacked)
      .def_readonly("ints", &OutputArrays::ints)
      .def_readonly("final_ints", &OutputArrays::final_ints)
      .def_readonly("flags", &OutputArrays::flags);
  py::class_<PyBatch>(m, "Batch")
      .def(py::init<const std::vector<std::shared_ptr<Game>>&, const py::object&, const py::object&,
                    const py::object&, const py::object&, const py::object&, const py::object&,
                    const BatchOptions&>(),
           py::arg("games"), py::arg("game_index"), py::arg("modes"), py::arg("difficulties"),
           py::arg("action_delays"), py::arg("modifications"), py::arg("num_modifications"),
           py::arg("options"))
      .def_property_readonly("num_threads", [](PyBatch& p) { return p.batch().num_threads(); })
      .def_property_readonly("has_threads", [](PyBatch& p) { return p.batch().has_threads(); })
      .def_property_readonly("state_size", [](PyBatch& p) { return p.batch().state_bytes(); })
      .def_property_readonly("num_in_flight", [](PyBatch& p) { return p.batch().num_in_flight(); })
      // Code is made as programs reach it, and no step waits for it.
      .def_property_readonly("is_compiling", [](PyBatch&) { return false; })
      .def("reset", &PyBatch::reset, py::arg("mask"), py::arg("seeds"), py::arg("out"))
      .def("decorrelate", &PyBatch::decorrelate, py::arg("max_steps"), py::arg("seed"),
           py::arg("out"))
      .def("step", &PyBatch::step, py::arg("actions"), py::arg("out"))
      .def("observe", &PyBatch::observe, py::arg("out"))
      .def("send_reset", &PyBatch::send_reset, py::arg("seeds"))
      .def("send", &PyBatch::send, py::arg("actions"), py::arg("env_ids"))
      .def("recv", &PyBatch::recv, py::arg("out"))
      .def("ram",
           [](const py::object& self) {
             return live_view(self, first_state(self).console.ram, sizeof(SlotState), {kRamBytes});
           })
      .def("lives", &live_lives)
      .def("episode_frames",
           [](const py::object& self) {
             return live_view(self, &first_state(self).env.episode_frame_number, sizeof(SlotState));
           })
      .def("get_state", &PyBatch::get_state, py::arg("indices"))
      .def("set_state", &PyBatch::set_state, py::arg("states"), py::arg("indices"))
      .def("reset_states", &PyBatch::reset_states, py::arg("index"))
      .def("screens", &PyBatch::screens, py::arg("kind"), py::arg("indices"))
      .def("close", &PyBatch::close)
      .def_property_readonly("has_reset", &PyBatch::has_reset)
      .def("xla_target", &PyBatch::xla_target, py::arg("action_table"));
  py::class_<EnvBytes>(m, "EnvBytes")
      .def_readonly("touched", &EnvBytes::touched)
      .def_readonly("mapped", &EnvBytes::mapped)
      .def_readonly("snapshot", &EnvBytes::snapshot);
  m.def("env_bytes", &env_bytes, py::arg("options"), py::arg("height"));
  // What a snapshot was saved with, and is restored with: for messages. None: not a snapshot.
  // ValueError: of another version of the format.
  m.def(
      "snapshot_options",
      [](const py::array_t<u8, py::array::c_style>& row) -> std::optional<BatchOptions> {
        SnapshotHeader h;
        if (size_t(row.size()) < sizeof h) return std::nullopt;
        std::memcpy(&h, row.data(), sizeof h);
        if ((h.magic & 0xFFFFFF) != kSnapshotName) return std::nullopt;
        if (h.magic != kSnapshotMagic && h.magic != kLoggedMagic)
          refuse(text_of(SnapshotError::kOtherVersion, 0, ""));
        return layout_options(h.layout);
      },
      py::arg("row"));
}

}  // namespace cule
