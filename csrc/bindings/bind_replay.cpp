// bindings/bind_replay.cpp: cule/replay on CPU tensors.
//
// Arguments are numpy views of tensors. cule/replay passes the right sizes; types, lengths and
// indices are checked here all the same.
#include <pybind11/numpy.h>

#include <utility>

#include "bindings/bind.hpp"
#include "bindings/replay_arrays.hpp"
#include "replay/permutation.hpp"
#include "replay/prioritized.hpp"

namespace py = pybind11;

namespace cule {
namespace {

template <class T>
struct Span {
  const T* data;
  i64 size;
};

template <class T>
Span<T> parse_span(const py::object& o, const char* name) {
  const T* data = parse_vector<T>(o, name, -1);
  return {data, i64(py::len(o))};
}

Priorities parse_priorities(const py::object& o) {
  if (py::isinstance<Contiguous<float>>(o)) {
    const auto given = parse_span<float>(o, "priorities");
    return {given.data, nullptr, given.size};
  }
  const auto given = parse_span<double>(o, "priorities");
  return {nullptr, given.data, given.size};
}

// Transitions of listed windows, [B, S + n] cells.
py::tuple gather_windows(const CellArrays& memory, const Contiguous<i64>& windows, i64 n_step) {
  const i64 columns = memory.rules.stack + n_step;
  if (windows.ndim() != 2 || windows.shape(1) != columns || n_step < 1)
    refuse("windows has shape " + shape_text(windows) + "; it must have S + n columns");
  const i64* cells = windows.data();
  for (i64 k = 0; k < windows.size(); ++k) {
    if (cells[k] < 0 || cells[k] >= memory.flags.size())
      refuse("windows has " + std::to_string(cells[k]) + ", which is not a cell");
  }
  const BatchArrays b = gather(
      memory, {nullptr, nullptr, 0, 0}, n_step, windows.shape(0),
      [&](i64 k) { return [window = cells + k * columns](i64 column) { return window[column]; }; });
  return py::make_tuple(b.obs, b.actions, b.next_obs, b.numbers);
}

struct PySums {
  Contiguous<i64> leaves, block_sums;
  i64 max_mass;
  PrioritySums sums;

  PySums(Contiguous<i64> leaves_in, Contiguous<i64> block_sums_in, i64 most)
      : leaves(std::move(leaves_in)),
        block_sums(std::move(block_sums_in)),
        max_mass(most),
        sums(checked_leaves(), block_sums.mutable_data(), block_sums.size()) {}

  i64* checked_leaves() {
    if (block_sums.size() < 1 || leaves.size() != block_sums.size() * kBlockLeaves + 1)
      refuse("leaves must have 128 a block, and one more");
    return leaves.mutable_data();
  }

  void assign(const py::object& index, const py::object& masses) {
    const auto at = parse_span<i64>(index, "index");
    const i64* to = parse_vector<i64>(masses, "masses", i32(at.size));
    for (i64 k = 0; k < at.size; ++k) {
      if (at.data[k] < 0 || at.data[k] > sums.waste())
        refuse("index has " + std::to_string(at.data[k]) + ", which is not a leaf");
    }
    for (i64 k = 0; k < at.size; ++k) sums.set(at.data[k], 0);
    for (i64 k = 0; k < at.size; ++k) {
      if (to[k] > sums.leaf(at.data[k])) sums.set(at.data[k], to[k]);
    }
  }

  Contiguous<i64> sample(const py::object& fractions) const {
    const auto at = parse_span<double>(fractions, "fractions");
    Contiguous<i64> leaves_out(at.size);
    i64* leaf = leaves_out.mutable_data();
    for (i64 k = 0; k < at.size; ++k) leaf[k] = sums.at(at.data[k]);
    return leaves_out;
  }
};

PrioritiesSeen seen_in(Contiguous<double>& largest, Contiguous<i64>& num_rejected, double limit) {
  if (largest.size() != 1 || num_rejected.size() != 1)
    refuse("largest and num_rejected must have one element");
  return {largest.mutable_data(), num_rejected.mutable_data(), limit};
}

struct PyRing {
  CellArrays memory;
  Contiguous<i32> final_slot;
  Contiguous<i64> final_count, head;
  Ring ring;

  PyRing(py::array frames, py::array actions, Contiguous<float> rewards, Contiguous<u8> flags,
         Contiguous<i32> final_slot_in, Contiguous<i64> final_count_in, Contiguous<i64> head_in,
         i64 num_envs, i64 num_finals, const py::dict& rules)
      : memory(std::move(frames), std::move(actions), std::move(rewards), std::move(flags), rules),
        final_slot(std::move(final_slot_in)),
        final_count(std::move(final_count_in)),
        head(std::move(head_in)) {
    const i64 cells = memory.flags.size();
    if (num_envs < 1 || num_finals < 0 || cells % num_envs || cells / num_envs < 2 ||
        memory.frames.shape(0) < cells + num_finals || final_count.size() != 1 ||
        head.size() != 1 || (num_finals && final_slot.size() != cells))
      refuse("the arrays must have the sizes of a ring of num_envs environments");
    ring.cells = memory.cells;
    ring.finals = {num_finals ? final_slot.mutable_data() : nullptr, final_count.mutable_data(),
                   cells, num_finals};
    ring.head = head.mutable_data();
    ring.num_envs = num_envs;
    ring.num_slots = cells / num_envs;
    ring.num_timesteps = ring.num_slots - 1;
    ring.ignores_first = rules["autoreset_mode"].cast<std::string>() == "NextStep";
  }

  ValidRange valid(i64 n_step) const { return valid_range(ring, memory.rules.stack, n_step); }

  // Data of an array [N, ...] or [T, N, ...] whose entries equal those of `like`, or null.
  const u8* step_entries(const py::object& o, const py::array& like, i64 lead,
                         i64 num_steps) const {
    if (!py::isinstance<py::array>(o)) return nullptr;
    const auto a = py::reinterpret_borrow<py::array>(o);
    bool fits = (a.dtype().is(like.dtype()) || a.dtype().equal(like.dtype())) &&
                (a.flags() & py::array::c_style) && a.ndim() == lead + like.ndim() - 1 &&
                a.shape(lead - 1) == ring.num_envs && (lead == 1 || a.shape(0) == num_steps);
    for (py::ssize_t d = 1; fits && d < like.ndim(); ++d)
      fits = a.shape(lead + d - 1) == like.shape(d);
    return fits ? static_cast<const u8*>(a.data()) : nullptr;
  }

  template <class T>
  const T* step_values(const py::object& o, i64 lead, i64 num_steps) const {
    if (!py::isinstance<Contiguous<T>>(o)) return nullptr;
    const auto a = py::reinterpret_borrow<Contiguous<T>>(o);
    const bool fits = a.ndim() == lead && a.shape(lead - 1) == ring.num_envs &&
                      (lead == 1 || a.shape(0) == num_steps);
    return fits ? a.data() : nullptr;
  }

  // Stores steps if all arrays have exactly the stored types and shapes, and first frames come
  // where they can; returns whether it did.
  bool write(const py::object& frames, const py::object& actions, const py::object& rewards,
             const py::object& terminated, const py::object& truncated, const py::object& life_lost,
             const py::object& first, const py::object& final_frames) {
    if (*ring.head < 0 || !py::isinstance<py::array>(rewards)) return false;
    const auto shape = py::reinterpret_borrow<py::array>(rewards);
    const i64 lead = shape.ndim();
    if (lead != 1 && lead != 2) return false;
    const i64 num_steps = lead == 1 ? 1 : shape.shape(0);
    if (num_steps < 1 || num_steps > ring.num_timesteps) return false;
    StepBlock steps{};
    steps.num_steps = num_steps;
    steps.actions = step_entries(actions, memory.actions, lead, num_steps);
    steps.rewards = step_values<float>(rewards, lead, num_steps);
    steps.terminated = step_values<bool>(terminated, lead, num_steps);
    steps.truncated = step_values<bool>(truncated, lead, num_steps);
    steps.life_lost = step_values<bool>(life_lost, lead, num_steps);
    steps.first = step_values<bool>(first, lead, num_steps);
    if (!steps.actions || !steps.rewards || !steps.terminated || !steps.truncated ||
        !steps.life_lost || !steps.first)
      return false;
    if (has_misplaced_first(ring, steps)) return false;
    if (!frames.is_none()) {
      steps.frames = step_entries(frames, memory.frames, lead, num_steps);
      const i64 next_slot = (*ring.head + 1) % ring.num_slots;
      const size_t slot_bytes = size_t(ring.num_envs) * ring.cells.frame_bytes;
      if (num_steps == 1 && steps.frames == ring.cells.frames + size_t(next_slot) * slot_bytes) {
        steps.frames = nullptr;
      } else if (!steps.frames || overlaps(steps.frames)) {
        return false;
      }
    }
    if (!final_frames.is_none()) {
      steps.final_frames = step_entries(final_frames, memory.frames, lead, num_steps);
      if (!steps.final_frames || overlaps(steps.final_frames)) return false;
    }
    WithoutGil without_gil;
    write_steps(ring, steps);
    return true;
  }

  bool overlaps(const u8* p) const {
    return p >= ring.cells.frames && p < ring.cells.frames + memory.frames.nbytes();
  }

  py::array observe() const {
    py::array out = memory.empty_obs(ring.num_envs);
    u8* to = bytes_of(out);
    const size_t bytes = size_t(memory.rules.stack) * ring.cells.frame_bytes;
    {
      WithoutGil without_gil;
      for (i64 e = 0; e < ring.num_envs; ++e, to += bytes) {
        const RingWindow window = window_of(ring, *ring.head, e, memory.rules.stack);
        copy_stack(ring.cells, memory.rules, window, 0, -1, to);
      }
    }
    return out;
  }

  BatchArrays gather_ids(const Contiguous<i64>& ids, i64 n_step) const {
    if (n_step < 1 || n_step + memory.rules.stack > ring.num_slots)
      refuse("n_step is " + std::to_string(n_step) + ", which does not fit into the ring");
    const i64* id = ids.data();
    const i64 size = ids.size();
    const ValidRange range = valid(n_step);
    BatchArrays b = gather(memory, ring.finals, n_step, size, [&](i64 k) {
      return window_of(ring, floor_div(id[k], ring.num_envs), floor_mod(id[k], ring.num_envs),
                       memory.rules.stack);
    });
    for (i64 k = 0; k < size; ++k) {
      if (!range.contains(floor_div(id[k], ring.num_envs))) b.weights()[k] = 0.0f;
      b.probabilities()[k] = 1.0f / float(range.count);
    }
    return b;
  }

  // The transitions of ids, with the probability of uniform sampling.
  py::tuple gather_uniform(const Contiguous<i64>& ids, i64 n_step) const {
    const BatchArrays b = gather_ids(ids, n_step);
    return py::make_tuple(b.obs, b.actions, b.next_obs, b.numbers, ids);
  }

  py::tuple sample_uniform(const py::object& uniform, i64 n_step) const {
    const auto from = parse_span<double>(uniform, "uniform");
    const ValidRange range = valid(n_step);
    Contiguous<i64> ids(from.size);
    i64* id = ids.mutable_data();
    for (i64 k = 0; k < from.size; ++k) id[k] = uniform_id(ring, range, from.data[k]);
    return gather_uniform(ids, n_step);
  }

  // The next ids of a random order. A new order begins when the head has moved, or when fewer than
  // `count` ids are left.
  Contiguous<i64> sample_distinct(Contiguous<i64> key, Contiguous<i64> position,
                                  Contiguous<i64> order_head, double uniform, i64 count,
                                  i64 n_step) const {
    if (key.size() != 1 || position.size() != 1 || order_head.size() != 1)
      refuse("key, position and order_head must have one element each");
    const ValidRange range = valid(n_step);
    if (count < 0 || count > range.count)
      refuse("count is " + std::to_string(count) + "; it must be at most " +
             std::to_string(range.count));
    i64& begin = *position.mutable_data();
    if (*order_head.data() != *ring.head || begin < 0 || begin > range.count - count) {
      *key.mutable_data() = i64(uniform * kKeyRange);
      begin = 0;
    }
    *order_head.mutable_data() = *ring.head;
    Contiguous<i64> ids(count);
    i64* id = ids.mutable_data();
    for (i64 k = 0; k < count; ++k)
      id[k] = range.oldest * ring.num_envs + permuted(begin + k, range.count, *key.data());
    begin += count;
    return ids;
  }

  // Samples in proportion to priorities. uniform: [B].
  py::tuple sample_prioritized(const PySums& sums, const py::object& uniform,
                               const Contiguous<double>& bases, i64 n_step) const {
    check(sums);
    const i64 size = bases.size();
    const double* from = parse_vector<double>(uniform, "uniform", i32(size));
    Contiguous<i64> ids(size);
    sample_ids(sums.sums, ring, from, size, ids.mutable_data());
    return gather_prioritized(sums, ids, bases, n_step);
  }

  // The transitions of ids with their probabilities, and weights 0 or 1. Writes the bases of the
  // importance weights.
  py::tuple gather_prioritized(const PySums& sums, const Contiguous<i64>& ids,
                               Contiguous<double> bases, i64 n_step) const {
    check(sums);
    BatchArrays b = gather_ids(ids, n_step);
    if (bases.size() != b.size) refuse("bases must have one element an id");
    weigh(sums.sums, ring, valid(n_step), ids.data(), b.size, b.weights(), b.probabilities(),
          bases.mutable_data());
    return py::make_tuple(b.obs, b.actions, b.next_obs, b.numbers, ids);
  }

  void follow(PySums& sums, i64 num_steps, const py::object& priorities, const py::object& powers,
              i64 n_step) const {
    check(sums);
    const i32 size = i32(num_steps * ring.num_envs);
    const double* power = parse_vector<double>(powers, "powers", size);
    const Priorities given =
        priorities.is_none() ? Priorities{nullptr, power, size} : parse_priorities(priorities);
    if (given.size != size) refuse("priorities must have one element a transition");
    follow_head(sums.sums, ring, memory.rules.stack, n_step, num_steps, given, power,
                sums.max_mass);
  }

  void update(PySums& sums, const py::object& ids, const py::object& priorities,
              const py::object& powers, i64 n_step, Contiguous<double> largest,
              Contiguous<i64> num_rejected, double limit) const {
    check(sums);
    const auto at = parse_span<i64>(ids, "ids");
    const Priorities given = parse_priorities(priorities);
    if (given.size != at.size) refuse("priorities must have one element an id");
    update_priorities(sums.sums, ring, valid(n_step), at.data, given,
                      parse_vector<double>(powers, "powers", i32(at.size)), sums.max_mass,
                      seen_in(largest, num_rejected, limit));
  }

  void check(const PySums& sums) const {
    if (sums.sums.waste() < memory.flags.size()) refuse("sums must have a leaf a cell");
  }
};

// Whether these are int64 ids and as many float priorities that can be read without a conversion.
bool are_priorities(const py::object& ids, const py::object& priorities) {
  if (!py::isinstance<Contiguous<i64>>(ids)) return false;
  if (!py::isinstance<Contiguous<float>>(priorities) &&
      !py::isinstance<Contiguous<double>>(priorities))
    return false;
  const auto at = py::reinterpret_borrow<py::array>(ids);
  const auto given = py::reinterpret_borrow<py::array>(priorities);
  return at.ndim() == 1 && given.ndim() == 1 && at.size() > 0 && at.size() == given.size();
}

void accept_priorities(Contiguous<double> largest, Contiguous<i64> num_rejected,
                       const py::object& priorities, double fallback, double limit,
                       Contiguous<double> accepted) {
  const Priorities given = parse_priorities(priorities);
  if (accepted.size() != given.size) refuse("accepted must have one element a priority");
  accept(given, fallback, seen_in(largest, num_rejected, limit), accepted.mutable_data());
}

void finish(Contiguous<float> numbers, const Contiguous<double>& powers) {
  const i64 size = powers.size();
  if (numbers.ndim() != 2 || numbers.shape(0) != 4 || numbers.shape(1) != size)
    refuse("numbers has shape " + shape_text(numbers) + "; it must be [4, " + std::to_string(size) +
           "]");
  finish_weights(powers.data(), size, numbers.mutable_data() + 2 * size);
}

}  // namespace

void bind_replay(py::module_& m) {
  m.attr("CELL_FIRST") = int(kFirst);
  m.attr("CELL_TERMINATED") = int(kTerminated);
  m.attr("CELL_TRUNCATED") = int(kTruncated);
  m.attr("CELL_LIFE_LOST") = int(kLifeLost);
  m.attr("CELL_INVALID") = int(kInvalid);
  m.attr("BLOCK_LEAVES") = kBlockLeaves;
  m.attr("MASS_SCALE") = kMassScale;
  const auto fixed = [](const char* name) { return py::arg(name).noconvert(); };
  py::class_<CellArrays>(m, "ReplayCells")
      .def(py::init<py::array, py::array, Contiguous<float>, Contiguous<u8>, py::dict>(),
           fixed("frames"), fixed("actions"), fixed("rewards"), fixed("flags"), py::arg("rules"))
      .def("gather", &gather_windows, fixed("windows"), py::arg("n_step"));
  py::class_<PySums>(m, "PrioritySums")
      .def(py::init<Contiguous<i64>, Contiguous<i64>, i64>(), fixed("leaves"), fixed("block_sums"),
           py::arg("max_mass"))
      .def("total", [](const PySums& s) { return s.sums.total(); })
      .def("rebuild", [](PySums& s) { s.sums.rebuild(); })
      .def("assign", &PySums::assign, py::arg("index"), py::arg("masses"))
      .def("sample", &PySums::sample, py::arg("fractions"));
  py::class_<PyRing>(m, "ReplayRing")
      .def(py::init<py::array, py::array, Contiguous<float>, Contiguous<u8>, Contiguous<i32>,
                    Contiguous<i64>, Contiguous<i64>, i64, i64, py::dict>(),
           fixed("frames"), fixed("actions"), fixed("rewards"), fixed("flags"), fixed("final_slot"),
           fixed("final_count"), fixed("head"), py::arg("num_envs"), py::arg("num_finals"),
           py::arg("rules"))
      .def("write", &PyRing::write)
      .def("observe", &PyRing::observe)
      .def("sample", &PyRing::sample_uniform, py::arg("uniform"), py::arg("n_step"))
      .def("sample_distinct", &PyRing::sample_distinct, fixed("key"), fixed("position"),
           fixed("order_head"), py::arg("uniform"), py::arg("count"), py::arg("n_step"))
      .def("gather", &PyRing::gather_uniform, fixed("ids"), py::arg("n_step"))
      .def("sample_prioritized", &PyRing::sample_prioritized, py::arg("sums"), py::arg("uniform"),
           fixed("bases"), py::arg("n_step"))
      .def("gather_prioritized", &PyRing::gather_prioritized, py::arg("sums"), fixed("ids"),
           fixed("bases"), py::arg("n_step"))
      .def("follow_head", &PyRing::follow, py::arg("sums"), py::arg("num_steps"),
           py::arg("priorities"), py::arg("powers"), py::arg("n_step"))
      .def("update_priorities", &PyRing::update, py::arg("sums"), py::arg("ids"),
           py::arg("priorities"), py::arg("powers"), py::arg("n_step"), fixed("largest"),
           fixed("num_rejected"), py::arg("limit"));
  m.def("are_priorities", &are_priorities, py::arg("ids"), py::arg("priorities"));
  m.def("accept_priorities", &accept_priorities, fixed("largest"), fixed("num_rejected"),
        py::arg("priorities"), py::arg("fallback"), py::arg("limit"), fixed("accepted"));
  m.def("finish_weights", &finish, fixed("numbers"), fixed("powers"));
}

}  // namespace cule
