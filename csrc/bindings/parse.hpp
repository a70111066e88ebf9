// bindings/parse.hpp: Python arguments as C++ values; each refusal names the argument and what it
// may be.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "batch/options.hpp"

namespace cule {

namespace py = pybind11;

template <class T>
using Contiguous = py::array_t<T, py::array::c_style>;

[[noreturn]] inline void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

inline std::string shape_text(const py::array& a) {
  std::string text = "[";
  for (py::ssize_t d = 0; d < a.ndim(); ++d) text += (d ? ", " : "") + std::to_string(a.shape(d));
  return text + "]";
}

template <class T>
const T* parse_vector(const py::object& o, const char* name, i32 size) {
  if (!py::isinstance<Contiguous<T>>(o))
    refuse(std::string(name) + ": a contiguous array of another dtype is needed");
  auto a = py::reinterpret_borrow<Contiguous<T>>(o);
  if (a.ndim() != 1 || (size >= 0 && a.shape(0) != size)) {
    refuse(std::string(name) + ": shape " + shape_text(a) + "; needed is [" + std::to_string(size) +
           "]");
  }
  return a.data();
}

inline std::vector<i32> copy_vector(const py::object& o, const char* name, i32 size) {
  const i32* p = parse_vector<i32>(o, name, size);
  return std::vector<i32>(p, p + size);
}

inline Autoreset parse_autoreset(const std::string& mode) {
  if (mode == "NextStep") return Autoreset::kNextStep;
  if (mode == "SameStep") return Autoreset::kSameStep;
  if (mode == "Disabled") return Autoreset::kDisabled;
  refuse("autoreset: '" + mode + "'; allowed are NextStep, SameStep, Disabled");
}

// What the batches of both back ends are made of.
struct BatchRequest {
  BatchOptions options;
  Autoreset autoreset;
  bool is_continuous;
  std::vector<i32> game_index, modes, difficulties;
};

inline BatchRequest parse_request(const py::object& game_index, const py::object& modes,
                                  const py::object& difficulties, size_t games,
                                  const py::kwargs& kwargs) {
  size_t taken = 0;
  const auto take = [&kwargs, &taken](const char* name) -> py::object {
    if (!kwargs.contains(name))
      throw py::type_error(std::string("Batch() is missing the argument ") + name);
    ++taken;
    return kwargs[name];
  };
  const auto parse_int = [&take](const char* name, i64 low, i64 high) {
    const i64 value = take(name).cast<i64>();
    if (value < low || value > high) {
      refuse(std::string(name) + ": " + std::to_string(value) + "; allowed is " +
             std::to_string(low) + " to " + std::to_string(high));
    }
    return i32(value);
  };
  constexpr i64 kMost = 2147483647;
  const i32 n = i32(py::len(game_index));
  if (n < 1) refuse("num_envs: 0; at least 1 is needed");
  BatchRequest r;
  BatchOptions& o = r.options;
  o.num_threads = parse_int("num_threads", 0, 4096);
  o.thread_affinity_offset = parse_int("thread_affinity_offset", -1, kMost);
  o.agent.frameskip = parse_int("frameskip", 1, 1000000);
  o.agent.max_num_frames_per_episode = parse_int("max_num_frames_per_episode", 1, kMost);
  o.agent.noop_max = parse_int("noop_max", 0, kMost);
  o.agent.episodic_life = take("episodic_life").cast<bool>();
  o.agent.life_loss_info = take("life_loss_info").cast<bool>();
  o.agent.reward_clipping = take("reward_clipping").cast<bool>();
  o.use_fire_reset = take("use_fire_reset").cast<bool>();
  o.repeat_action_probability = take("repeat_action_probability").cast<float>();
  if (!(o.repeat_action_probability >= 0.0f && o.repeat_action_probability <= 1.0f)) {
    refuse("repeat_action_probability: " + std::to_string(o.repeat_action_probability) +
           "; allowed is 0 to 1");
  }
  o.stack_num = parse_int("stack_num", 1, 1024);
  o.img_height = parse_int("img_height", 1, kMaxRows);
  o.img_width = parse_int("img_width", 1, kScreenWidth);
  o.grayscale = take("grayscale").cast<bool>();
  o.maxpool = take("maxpool").cast<bool>();
  o.ram_obs = take("ram_obs").cast<bool>();
  o.full_action_space = take("full_action_space").cast<bool>();
  o.continuous_action_threshold = take("continuous_action_threshold").cast<float>();
  o.cached_resets = take("cached_resets").cast<bool>();
  o.num_reset_states = parse_int("num_reset_states", 1, 1000000);
  r.autoreset = parse_autoreset(take("autoreset").cast<std::string>());
  r.is_continuous = take("continuous").cast<bool>();
  if (taken != kwargs.size()) throw py::type_error("Batch(): an argument has an unknown name");
  r.game_index = copy_vector(game_index, "game_index", n);
  for (const i32 g : r.game_index) {
    if (g < 0 || size_t(g) >= games)
      refuse("game_index: " + std::to_string(g) + " is not one of the games");
  }
  r.modes = copy_vector(modes, "modes", n);
  r.difficulties = copy_vector(difficulties, "difficulties", n);
  return r;
}

}  // namespace cule
