// bindings/bind_batch.cpp: cule._core.Batch and the rows of its result tables.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/bind.hpp"
#include "bindings/parse.hpp"
#include "host/batch.hpp"

namespace py = pybind11;

namespace cule {
namespace {

// A writable array of `rows` leading entries whose rest is contiguous and `bytes` long.
struct Rows {
  u8* data;
  std::ptrdiff_t stride;
};
Rows parse_rows(const py::object& o, const char* name, i32 rows, size_t bytes) {
  const auto a = py::reinterpret_borrow<py::array>(o);
  if (!py::isinstance<py::array_t<u8>>(o)) refuse(std::string(name) + ": a uint8 array is needed");
  if (!a.writeable()) refuse(std::string(name) + ": the array is read-only");
  size_t inner = 1;
  bool is_contiguous = true;
  for (py::ssize_t d = a.ndim() - 1; d > 0; --d) {
    is_contiguous &= a.shape(d) <= 1 || a.strides(d) == py::ssize_t(inner);
    inner *= size_t(a.shape(d));
  }
  if (a.ndim() < 2 || a.shape(0) != rows || inner != bytes || !is_contiguous) {
    refuse(std::string(name) + ": shape " + shape_text(a) + "; needed are " + std::to_string(rows) +
           " contiguous rows of " + std::to_string(bytes) + " bytes");
  }
  return {static_cast<u8*>(const_cast<void*>(a.data())), a.strides(0)};
}

template <class T>
T* parse_table(const py::object& o, const char* name, u32 rows, i32 width) {
  if (!py::isinstance<Contiguous<T>>(o))
    refuse(std::string(name) + ": a contiguous array of another dtype is needed");
  auto a = py::reinterpret_borrow<Contiguous<T>>(o);
  if (a.ndim() != 2 || a.shape(0) != py::ssize_t(rows) || a.shape(1) != width || !a.writeable()) {
    refuse(std::string(name) + ": shape " + shape_text(a) + "; needed is [" + std::to_string(rows) +
           ", " + std::to_string(width) + "]");
  }
  return a.mutable_data();
}

Outputs parse_outputs(const Batch& b, i32 width, const py::object& obs, const py::object& ints,
                      const py::object& flags, const py::object& final_obs,
                      const py::object& final_ints, bool stacked) {
  const BatchOptions& o = b.options();
  const size_t bytes = stacked ? o.obs_bytes() : o.frame_bytes();
  Outputs out;
  const Rows rows = parse_rows(obs, "obs", width, bytes);
  out.obs = rows.data;
  out.obs_stride = rows.stride;
  out.ints = parse_table<i32>(ints, "ints", kIntRows, width);
  out.flags = reinterpret_cast<u8*>(parse_table<bool>(flags, "flags", kFlagRows, width));
  out.width = size_t(width);
  out.stacked = stacked;
  if (!final_obs.is_none()) {
    const Rows finals = parse_rows(final_obs, "final_obs", width, bytes);
    out.final_obs = finals.data;
    out.final_obs_stride = finals.stride;
  }
  if (!final_ints.is_none())
    out.final_ints = parse_table<i32>(final_ints, "final_ints", kIntRows, width);
  return out;
}

// The Python object: the batch and a buffer for its commands.
struct PyBatch {
  std::unique_ptr<Batch> batch;
  std::vector<Command> commands;
  bool is_closed = false;

  Batch& open() {
    if (is_closed) throw NotReady("the batch is closed");
    return *batch;
  }

  // Fills `commands` from indices or joystick rows; refuses before anything moves.
  void read_actions(const py::object& actions, const i32* ids, i32 n) {
    Batch& b = open();
    if (py::isinstance<Contiguous<float>>(actions)) {
      const auto a = py::reinterpret_borrow<Contiguous<float>>(actions);
      if (a.ndim() != 2 || a.shape(0) != n || a.shape(1) != kJoystickSize) {
        refuse("actions: shape " + shape_text(a) + "; needed is [" + std::to_string(n) + ", " +
               std::to_string(kJoystickSize) + "]");
      }
      b.command_from_joysticks(a.data(), n, commands);
    } else {
      b.command_from_indices(parse_vector<i32>(actions, "actions", n), ids, n, commands);
    }
  }
};

std::unique_ptr<PyBatch> make_batch(const std::vector<std::shared_ptr<Game>>& games,
                                    const py::object& game_index, const py::object& modes,
                                    const py::object& difficulties, const py::kwargs& kwargs) {
  const BatchRequest r = parse_request(game_index, modes, difficulties, games.size(), kwargs);
  std::vector<std::shared_ptr<const Game>> shared(games.begin(), games.end());
  auto out = std::make_unique<PyBatch>();
  out->batch = std::make_unique<Batch>(std::move(shared), r.game_index, r.modes, r.difficulties,
                                       r.options, r.autoreset, r.is_continuous);
  return out;
}

// A live read-only view of one field of every console.
template <class T>
py::array live_view(const py::object& self, const Batch& b, const T* first,
                    std::vector<py::ssize_t> inner_shape) {
  std::vector<py::ssize_t> shape{b.size()};
  std::vector<py::ssize_t> strides{py::ssize_t(b.state_stride())};
  for (const py::ssize_t n : inner_shape) {
    shape.push_back(n);
    strides.push_back(sizeof(T));
  }
  py::array_t<T> view(shape, strides, first, self);
  view.attr("setflags")(py::arg("write") = false);
  return std::move(view);
}

py::array_t<u8> get_state(PyBatch& p, const py::object& indices) {
  Batch& b = p.open();
  const i32 n = i32(py::len(indices));
  const i64* ids = parse_vector<i64>(indices, "indices", n);
  for (i32 k = 0; k < n; ++k) {
    if (ids[k] < 0 || ids[k] >= b.size())
      refuse("indices: " + std::to_string(ids[k]) + " is not a console");
  }
  py::array_t<u8> out({py::ssize_t(n), py::ssize_t(b.state_bytes())});
  u8* rows = out.mutable_data();
  py::gil_scoped_release release;
  for (i32 k = 0; k < n; ++k) b.save(i32(ids[k]), rows + size_t(k) * b.state_bytes());
  return out;
}

// The cached reset states of one console as rows.
py::array_t<u8> reset_states(PyBatch& p, i32 console) {
  Batch& b = p.open();
  if (console < 0 || console >= b.size())
    refuse("console: " + std::to_string(console) + " is not a console");
  if (!b.options().cached_resets) refuse("reset_states: the batch was made with exact resets");
  const std::vector<std::vector<u8>>* rows = nullptr;
  {
    py::gil_scoped_release release;
    rows = &b.reset_states(console);
  }
  py::array_t<u8> out({py::ssize_t(rows->size()), py::ssize_t(b.state_bytes())});
  u8* to = out.mutable_data();
  for (const std::vector<u8>& row : *rows) to = std::copy(row.begin(), row.end(), to);
  return out;
}

void set_state(PyBatch& p, const py::object& states, const py::object& indices) {
  Batch& b = p.open();
  const i32 n = i32(py::len(indices));
  const i64* ids = parse_vector<i64>(indices, "indices", n);
  if (!py::isinstance<Contiguous<u8>>(states)) refuse("states: a contiguous uint8 array is needed");
  const auto a = py::reinterpret_borrow<Contiguous<u8>>(states);
  if (a.ndim() != 2 || a.shape(0) != n || a.shape(1) != py::ssize_t(b.state_bytes())) {
    refuse("states: shape " + shape_text(a) + "; needed is [" + std::to_string(n) + ", " +
           std::to_string(b.state_bytes()) + "]");
  }
  for (i32 k = 0; k < n; ++k) {
    if (ids[k] < 0 || ids[k] >= b.size())
      refuse("indices: " + std::to_string(ids[k]) + " is not a console");
    const std::string error = b.find_snapshot_error(i32(ids[k]), a.data(k, 0));
    if (!error.empty()) refuse("states: row " + std::to_string(k) + ": " + error);
  }
  py::gil_scoped_release release;
  b.prepare_restore();
  for (i32 k = 0; k < n; ++k) b.restore(i32(ids[k]), a.data() + size_t(k) * b.state_bytes());
}

py::array_t<u8> screens(PyBatch& p, const std::string& kind, const py::object& indices) {
  Batch& b = p.open();
  if (kind != "index" && kind != "gray" && kind != "rgb") {
    refuse("kind: '" + kind + "'; allowed are index, gray, rgb");
  }
  const i32 n = i32(py::len(indices));
  const i64* ids = parse_vector<i64>(indices, "indices", n);
  u32 height = 0;
  for (i32 k = 0; k < n; ++k) {
    if (ids[k] < 0 || ids[k] >= b.size())
      refuse("indices: " + std::to_string(ids[k]) + " is not a console");
    const u32 h = b.picture_height(i32(ids[k]));
    if (height != 0 && h != height)
      refuse("indices: the consoles named have screens of different heights");
    height = h;
  }
  std::vector<py::ssize_t> shape{n, py::ssize_t(height), kScreenWidth};
  if (kind == "rgb") shape.push_back(3);
  py::array_t<u8> out(shape);
  u8* rows = out.mutable_data();
  const size_t picture = size_t(height) * kScreenWidth;
  py::gil_scoped_release release;
  std::vector<u8> indexed(picture);
  for (i32 k = 0; k < n; ++k) {
    const i32 i = i32(ids[k]);
    const Format format = b.slot(i).setup().game->properties().format;
    if (kind == "gray") {
      b.draw(i, rows + size_t(k) * picture, gray_table(format));
    } else if (kind == "index") {
      b.draw(i, rows + size_t(k) * picture, make_identity_map().value);
    } else {
      b.draw(i, indexed.data(), make_identity_map().value);
      u8* p_out = rows + size_t(k) * picture * 3;
      for (const u8 index : indexed) {
        std::memcpy(p_out, rgb_table(format) + 3 * index, 3);
        p_out += 3;
      }
    }
  }
  return out;
}

void bind_rows(py::module_& m) {
  m.attr("INT_REWARD") = u32(kIntReward);
  m.attr("INT_RAW_REWARD") = u32(kIntRawReward);
  m.attr("INT_LIVES") = u32(kIntLives);
  m.attr("INT_FRAME_NUMBER") = u32(kIntFrameNumber);
  m.attr("INT_EPISODE_FRAME_NUMBER") = u32(kIntEpisodeFrameNumber);
  m.attr("INT_EPISODE_RETURN") = u32(kIntEpisodeReturn);
  m.attr("INT_EPISODE_LENGTH") = u32(kIntEpisodeLength);
  m.attr("INT_ENV_ID") = u32(kIntEnvId);
  m.attr("INT_ROWS") = u32(kIntRows);
  m.attr("FLAG_TERMINATED") = u32(kFlagTerminated);
  m.attr("FLAG_TRUNCATED") = u32(kFlagTruncated);
  m.attr("FLAG_LIFE_LOST") = u32(kFlagLifeLost);
  m.attr("FLAG_FIRST") = u32(kFlagFirst);
  m.attr("FLAG_ENDED") = u32(kFlagEnded);
  m.attr("FLAG_ROWS") = u32(kFlagRows);
}

}  // namespace

void bind_batch(py::module_& m) {
  bind_rows(m);
  py::register_exception<NotReady>(m, "NotReadyError", PyExc_RuntimeError);
  const auto none = py::none();
  py::class_<PyBatch>(m, "Batch")
      .def(py::init(&make_batch), py::arg("games"), py::arg("game_index"), py::arg("modes"),
           py::arg("difficulties"))
      .def_property_readonly("num_threads", [](PyBatch& p) { return p.batch->num_threads(); })
      .def_property_readonly("state_size", [](PyBatch& p) { return p.batch->state_bytes(); })
      .def_property_readonly("console_bytes", [](PyBatch& p) { return p.batch->console_bytes(); })
      .def(
          "reset",
          [](PyBatch& p, const py::object& mask, const py::object& seeds, const py::object& obs,
             const py::object& ints, const py::object& flags, bool stacked) {
            Batch& b = p.open();
            const Outputs out =
                parse_outputs(b, b.size(), obs, ints, flags, py::none(), py::none(), stacked);
            const bool* which =
                mask.is_none() ? nullptr : parse_vector<bool>(mask, "mask", b.size());
            const i64* seed = parse_vector<i64>(seeds, "seeds", b.size());
            py::gil_scoped_release release;
            b.reset(reinterpret_cast<const u8*>(which), seed, out);
          },
          py::arg("mask"), py::arg("seeds"), py::arg("obs"), py::arg("ints"), py::arg("flags"),
          py::arg("stacked") = true)
      .def(
          "decorrelate",
          [](PyBatch& p, i32 max_steps, u64 seed, const py::object& obs, const py::object& ints,
             const py::object& flags, bool stacked) {
            Batch& b = p.open();
            if (max_steps < 0)
              refuse("max_steps: " + std::to_string(max_steps) + "; allowed is 0 or more");
            b.check_ready(nullptr, b.size());
            const Outputs out =
                parse_outputs(b, b.size(), obs, ints, flags, py::none(), py::none(), stacked);
            py::gil_scoped_release release;
            b.decorrelate(max_steps, seed, out);
          },
          py::arg("max_steps"), py::arg("seed"), py::arg("obs"), py::arg("ints"), py::arg("flags"),
          py::arg("stacked") = true)
      .def(
          "step",
          [](PyBatch& p, const py::object& actions, const py::object& obs, const py::object& ints,
             const py::object& flags, const py::object& final_obs, const py::object& final_ints,
             bool stacked) {
            Batch& b = p.open();
            b.check_ready(nullptr, b.size());
            p.read_actions(actions, nullptr, b.size());
            const Outputs out =
                parse_outputs(b, b.size(), obs, ints, flags, final_obs, final_ints, stacked);
            py::gil_scoped_release release;
            b.step(p.commands, out);
          },
          py::arg("actions"), py::arg("obs"), py::arg("ints"), py::arg("flags"),
          py::arg("final_obs") = none, py::arg("final_ints") = none, py::arg("stacked") = true)
      .def("send_reset",
           [](PyBatch& p, const py::object& seeds) {
             Batch& b = p.open();
             const i64* seed = parse_vector<i64>(seeds, "seeds", b.size());
             py::gil_scoped_release release;
             b.send_reset(seed);
           })
      .def("send",
           [](PyBatch& p, const py::object& actions, const py::object& env_ids) {
             Batch& b = p.open();
             const i32 n = i32(py::len(env_ids));
             const i32* ids = parse_vector<i32>(env_ids, "env_ids", n);
             for (i32 k = 0; k < n; ++k) {
               if (ids[k] < 0 || ids[k] >= b.size())
                 refuse("env_ids: " + std::to_string(ids[k]) + " is not a console");
             }
             b.check_ready(ids, n);
             p.read_actions(actions, ids, n);
             py::gil_scoped_release release;
             b.send(p.commands, ids, n);
           })
      .def(
          "recv",
          [](PyBatch& p, const py::object& obs, const py::object& ints, const py::object& flags,
             const py::object& final_obs, const py::object& final_ints) {
            Batch& b = p.open();
            const i32 n = i32(py::len(obs));
            const Outputs out = parse_outputs(b, n, obs, ints, flags, final_obs, final_ints, true);
            py::gil_scoped_release release;
            b.receive(n, out);
          },
          py::arg("obs"), py::arg("ints"), py::arg("flags"), py::arg("final_obs") = none,
          py::arg("final_ints") = none)
      .def("ram",
           [](const py::object& self) {
             Batch& b = self.cast<PyBatch&>().open();
             return live_view<u8>(self, b, b.slot(0).state().console.ram, {kRamBytes});
           })
      .def("lives",
           [](const py::object& self) {
             Batch& b = self.cast<PyBatch&>().open();
             return live_view<i32>(self, b, &b.slot(0).state().agent.lives, {});
           })
      .def("episode_frames",
           [](const py::object& self) {
             Batch& b = self.cast<PyBatch&>().open();
             return live_view<i32>(self, b, &b.slot(0).state().env.episode_frame_number, {});
           })
      .def("get_state", &get_state)
      .def("reset_states", &reset_states)
      .def("set_state", &set_state)
      .def(
          "observe",
          [](PyBatch& p, const py::object& obs, const py::object& ints, const py::object& flags,
             bool stacked) {
            Batch& b = p.open();
            const Outputs out =
                parse_outputs(b, b.size(), obs, ints, flags, py::none(), py::none(), stacked);
            py::gil_scoped_release release;
            b.observe(out);
          },
          py::arg("obs"), py::arg("ints"), py::arg("flags"), py::arg("stacked") = true)
      .def("screens", &screens)
      .def("close", [](PyBatch& p) {
        p.is_closed = true;
        py::gil_scoped_release release;
        p.batch->close();
      });
}

}  // namespace cule
