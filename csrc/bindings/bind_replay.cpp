// bindings/bind_replay.cpp: the replay memories of cule/replay on tensors of the processor.
//
// Arguments are numpy views of tensors whose sizes the callers in cule/replay know to be right;
// types, lengths and indices are checked here all the same.
#include <pybind11/numpy.h>

#include <utility>

#include "bindings/bind.hpp"
#include "bindings/replay_arrays.hpp"
#include "replay/permutation.hpp"
#include "replay/prioritized.hpp"

namespace py = pybind11;

namespace cule {
namespace {

// Transitions whose windows are listed, [B, S + n] rows of flat memory.
struct ListedWindow {
  const i64* rows;
  i64 operator()(i64 column) const { return rows[column]; }
};

py::tuple read_windows(const PyRows& rows, const Contiguous<i64>& windows, i64 n_step) {
  const i64 columns = rows.rules.stack + n_step;
  if (windows.ndim() != 2 || windows.shape(1) != columns || n_step < 1)
    refuse("windows: shape " + shape_text(windows) + "; needed are S + n columns");
  const i64* listed = windows.data();
  for (i64 k = 0; k < windows.size(); ++k) {
    if (listed[k] < 0 || listed[k] >= rows.flags.size())
      refuse("windows: " + std::to_string(listed[k]) + " is not a row");
  }
  PyTaken t = take(rows, {nullptr, nullptr, 0, 0}, n_step, windows.shape(0),
                   [&](i64 k) { return ListedWindow{listed + k * columns}; });
  return py::make_tuple(t.obs, t.actions, t.next_obs, t.numbers);
}

Priorities parse_priorities(const py::object& o) {
  if (py::isinstance<Contiguous<float>>(o))
    return {parse_vector<float>(o, "priorities", -1), nullptr, i64(py::len(o))};
  return {nullptr, parse_vector<double>(o, "priorities", -1), i64(py::len(o))};
}

struct PySums {
  Contiguous<i64> leaves, block_sums;
  i64 max_units;
  PrioritySums sums;

  PySums(Contiguous<i64> leaves_in, Contiguous<i64> block_sums_in, i64 most)
      : leaves(std::move(leaves_in)),
        block_sums(std::move(block_sums_in)),
        max_units(most),
        sums(checked_leaves(), block_sums.mutable_data(), block_sums.size()) {}

  i64* checked_leaves() {
    if (block_sums.size() < 1 || leaves.size() != block_sums.size() * kBlockLeaves + 1)
      refuse("leaves: 128 a block and one more are needed");
    return leaves.mutable_data();
  }

  void assign(const py::object& index, const py::object& units) {
    const i64 size = size_of<i64>(index, "index");
    const i64* at = parse_vector<i64>(index, "index", i32(size));
    const i64* to = parse_vector<i64>(units, "units", i32(size));
    for (i64 k = 0; k < size; ++k) {
      if (at[k] < 0 || at[k] > sums.waste())
        refuse("index: " + std::to_string(at[k]) + " is not a leaf");
    }
    for (i64 k = 0; k < size; ++k) sums.set(at[k], 0);
    for (i64 k = 0; k < size; ++k) {
      if (to[k] > sums.leaf(at[k])) sums.set(at[k], to[k]);
    }
  }

  Contiguous<i64> draw(const py::object& fractions) const {
    const i64 size = size_of<double>(fractions, "fractions");
    const double* fraction = parse_vector<double>(fractions, "fractions", i32(size));
    Contiguous<i64> drawn(size);
    i64* leaf = drawn.mutable_data();
    for (i64 k = 0; k < size; ++k) leaf[k] = sums.at(fraction[k]);
    return drawn;
  }
};

struct PyRing {
  PyRows memory;
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
      refuse("the arrays are not those of a ring of this many environments");
    ring.rows = memory.rows;
    ring.finals = {num_finals ? final_slot.mutable_data() : nullptr, final_count.mutable_data(),
                   cells, num_finals};
    ring.head = head.mutable_data();
    ring.num_envs = num_envs;
    ring.num_slots = cells / num_envs;
    ring.num_rows = ring.num_slots - 1;
    ring.ignores_first = rules["autoreset_mode"].cast<std::string>() == "NextStep";
  }

  ValidRows valid(i64 n_step) const { return valid_rows(ring, memory.rules.stack, n_step); }

  // An array of [N, ...] or [T, N, ...], each row like those of another; null if it is none.
  const u8* step_rows(const py::object& o, const py::array& like, i64 lead, i64 num_steps,
                      py::ssize_t inner) const {
    if (!py::isinstance<py::array>(o)) return nullptr;
    const auto a = py::reinterpret_borrow<py::array>(o);
    bool fits = (a.dtype().is(like.dtype()) || a.dtype().equal(like.dtype())) &&
                (a.flags() & py::array::c_style) && a.ndim() == lead + like.ndim() - inner &&
                a.shape(lead - 1) == ring.num_envs && (lead == 1 || a.shape(0) == num_steps);
    for (py::ssize_t d = inner; fits && d < like.ndim(); ++d)
      fits = a.shape(lead + d - inner) == like.shape(d);
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

  // Stores steps, if all arrays are what rows are made of; otherwise tells that they are not.
  bool write(const py::object& frames, const py::object& actions, const py::object& rewards,
             const py::object& terminated, const py::object& truncated, const py::object& life_lost,
             const py::object& first, const py::object& final_frames) {
    if (*ring.head < 0 || !py::isinstance<py::array>(rewards)) return false;
    const auto shape = py::reinterpret_borrow<py::array>(rewards);
    const i64 lead = shape.ndim();
    if (lead != 1 && lead != 2) return false;
    const i64 num_steps = lead == 1 ? 1 : shape.shape(0);
    if (num_steps < 1 || num_steps > ring.num_rows) return false;
    StepBlock steps{};
    steps.num_steps = num_steps;
    steps.actions = step_rows(actions, memory.actions, lead, num_steps, 1);
    steps.rewards = step_values<float>(rewards, lead, num_steps);
    steps.terminated = step_values<bool>(terminated, lead, num_steps);
    steps.truncated = step_values<bool>(truncated, lead, num_steps);
    steps.life_lost = step_values<bool>(life_lost, lead, num_steps);
    steps.first = step_values<bool>(first, lead, num_steps);
    if (!steps.actions || !steps.rewards || !steps.terminated || !steps.truncated ||
        !steps.life_lost || !steps.first)
      return false;
    if (!frames.is_none()) {
      steps.frames = step_rows(frames, memory.frames, lead, num_steps, 1);
      const i64 next_slot = (*ring.head + 1) % ring.num_slots;
      const size_t slot_bytes = size_t(ring.num_envs) * ring.rows.frame_bytes;
      if (num_steps == 1 && steps.frames == ring.rows.frames + size_t(next_slot) * slot_bytes) {
        steps.frames = nullptr;
      } else if (!steps.frames || is_inside(steps.frames)) {
        return false;
      }
    }
    if (!final_frames.is_none()) {
      steps.final_frames = step_rows(final_frames, memory.frames, lead, num_steps, 1);
      if (!steps.final_frames || is_inside(steps.final_frames)) return false;
    }
    py::gil_scoped_release release;
    write_steps(ring, steps);
    return true;
  }

  bool is_inside(const u8* p) const {
    return p >= ring.rows.frames && p < ring.rows.frames + memory.frames.nbytes();
  }

  py::array newest() const {
    py::array out = memory.empty_obs(ring.num_envs);
    u8* to = bytes_of(out);
    const size_t bytes = size_t(memory.rules.stack) * ring.rows.frame_bytes;
    {
      py::gil_scoped_release release;
      for (i64 e = 0; e < ring.num_envs; ++e, to += bytes) {
        const RingWindow window = window_of(ring, *ring.head, e, memory.rules.stack);
        copy_stack(ring.rows, memory.rules, window, 0, -1, to);
      }
    }
    return out;
  }

  PyTaken taken(const Contiguous<i64>& ids, i64 n_step) const {
    if (n_step < 1 || n_step + memory.rules.stack > ring.num_slots)
      refuse("n_step: " + std::to_string(n_step) + " does not fit into the ring");
    const i64* id = ids.data();
    const i64 size = ids.size();
    const ValidRows rows = valid(n_step);
    PyTaken t = take(memory, ring.finals, n_step, size, [&](i64 k) {
      return window_of(ring, floor_div(id[k], ring.num_envs), floor_mod(id[k], ring.num_envs),
                       memory.rules.stack);
    });
    for (i64 k = 0; k < size; ++k) {
      if (!rows.contains(floor_div(id[k], ring.num_envs))) t.weights()[k] = 0.0f;
      t.probabilities()[k] = 1.0f / float(rows.count);
    }
    return t;
  }

  // The transitions of some ids, as if drawn uniformly.
  py::tuple batch(const Contiguous<i64>& ids, i64 n_step) const {
    const PyTaken t = taken(ids, n_step);
    return py::make_tuple(t.obs, t.actions, t.next_obs, t.numbers, ids);
  }

  // Transitions at random, from numbers from 0 to below 1.
  py::tuple sample(const py::object& uniform, i64 n_step) const {
    const i64 size = size_of<double>(uniform, "uniform");
    const double* from = parse_vector<double>(uniform, "uniform", i32(size));
    const ValidRows rows = valid(n_step);
    Contiguous<i64> ids(size);
    i64* id = ids.mutable_data();
    for (i64 k = 0; k < size; ++k) id[k] = uniform_id(ring, rows, from[k]);
    return batch(ids, n_step);
  }

  // The next ids of a random order, which begins anew when the head has moved or it is at its end.
  Contiguous<i64> deal(Contiguous<i64> key, Contiguous<i64> position, Contiguous<i64> order_head,
                       double uniform, i64 count, i64 n_step) const {
    if (key.size() != 1 || position.size() != 1 || order_head.size() != 1)
      refuse("key, position, order_head: one number each is needed");
    const ValidRows rows = valid(n_step);
    if (count < 0 || count > rows.count) refuse("count: more than there are");
    i64& begin = *position.mutable_data();
    if (*order_head.data() != *ring.head || begin < 0 || begin > rows.count - count) {
      *key.mutable_data() = i64(uniform * kKeyRange);
      begin = 0;
    }
    *order_head.mutable_data() = *ring.head;
    Contiguous<i64> ids(count);
    i64* id = ids.mutable_data();
    for (i64 k = 0; k < count; ++k)
      id[k] = rows.oldest * ring.num_envs + permuted(begin + k, rows.count, *key.data());
    begin += count;
    return ids;
  }

  // Transitions in proportion to their priorities, but for a share of uniform ones; as
  // batch_prioritized. A number each, of a mixture three: where, whether uniform, which then.
  py::tuple sample_prioritized(const PySums& sums, const py::object& uniform,
                               const Contiguous<double>& bases, i64 n_step,
                               double uniform_mixture) const {
    check(sums);
    const i64 size = bases.size();
    const bool is_mixture = uniform_mixture > 0.0;
    const double* from =
        parse_vector<double>(uniform, "uniform", i32(is_mixture ? 3 * size : size));
    Contiguous<i64> ids(size);
    draw_ids(sums.sums, ring, from, size, ids.mutable_data());
    if (is_mixture) {
      mix_ids(ring, valid(n_step), uniform_share(sums.sums, uniform_mixture), from + size, size,
              ids.mutable_data());
    }
    return batch_prioritized(sums, ids, bases, n_step, uniform_mixture);
  }

  // The transitions of some ids with their probabilities, weights being 0 or 1; sets what those are
  // powers of.
  py::tuple batch_prioritized(const PySums& sums, const Contiguous<i64>& ids,
                              Contiguous<double> bases, i64 n_step, double uniform_mixture) const {
    check(sums);
    PyTaken t = taken(ids, n_step);
    if (bases.size() != t.size) refuse("bases: one an id is needed");
    weigh(sums.sums, ring, valid(n_step), uniform_share(sums.sums, uniform_mixture), ids.data(),
          t.size, t.weights(), t.probabilities(), bases.mutable_data());
    return py::make_tuple(t.obs, t.actions, t.next_obs, t.numbers, ids);
  }

  void follow(PySums& sums, i64 num_steps, const py::object& priorities, const py::object& powers,
              i64 n_step) const {
    check(sums);
    const i32 size = i32(num_steps * ring.num_envs);
    const double* power = parse_vector<double>(powers, "powers", size);
    const Priorities given =
        priorities.is_none() ? Priorities{nullptr, power, size} : parse_priorities(priorities);
    if (given.size != size) refuse("priorities: one a transition is needed");
    follow_head(sums.sums, ring, memory.rules.stack, n_step, num_steps, given, power,
                sums.max_units);
  }

  void update(PySums& sums, const py::object& ids, const py::object& priorities,
              const py::object& powers, i64 n_step) const {
    check(sums);
    const i32 size = i32(size_of<i64>(ids, "ids"));
    const Priorities given = parse_priorities(priorities);
    if (given.size != size) refuse("priorities: one an id is needed");
    update_priorities(sums.sums, ring, valid(n_step), parse_vector<i64>(ids, "ids", size), given,
                      parse_vector<double>(powers, "powers", size), sums.max_units);
  }

  void check(const PySums& sums) const {
    if (sums.sums.waste() < memory.flags.size()) refuse("sums: a leaf a row is needed");
  }
};

// Whether these are ids and as many priorities, of types that are read as they are.
bool are_priorities(const py::object& ids, const py::object& priorities) {
  if (!py::isinstance<Contiguous<i64>>(ids)) return false;
  if (!py::isinstance<Contiguous<float>>(priorities) &&
      !py::isinstance<Contiguous<double>>(priorities))
    return false;
  const auto at = py::reinterpret_borrow<py::array>(ids);
  const auto given = py::reinterpret_borrow<py::array>(priorities);
  return at.ndim() == 1 && given.ndim() == 1 && at.size() > 0 && at.size() == given.size();
}

void accept_priorities(Contiguous<double> largest, Contiguous<i64> refused,
                       const py::object& priorities, double instead, double most,
                       Contiguous<double> kept) {
  const Priorities given = parse_priorities(priorities);
  if (kept.size() != given.size) refuse("kept: one a priority is needed");
  accept({largest.mutable_data(), refused.mutable_data()}, given, instead, most,
         kept.mutable_data());
}

// Weights from their powers, in the numbers of a batch.
void finish(Contiguous<float> numbers, const Contiguous<double>& powers) {
  const i64 size = powers.size();
  if (numbers.ndim() != 2 || numbers.shape(0) != 4 || numbers.shape(1) != size)
    refuse("numbers: shape " + shape_text(numbers) + "; needed are four a power");
  finish_weights(powers.data(), size, numbers.mutable_data() + 2 * size);
}

}  // namespace

void bind_replay(py::module_& m) {
  m.attr("ROW_FIRST") = int(kFirst);
  m.attr("ROW_TERMINATED") = int(kTerminated);
  m.attr("ROW_TRUNCATED") = int(kTruncated);
  m.attr("ROW_LIFE_LOST") = int(kLifeLost);
  m.attr("ROW_INVALID") = int(kInvalid);
  m.attr("BLOCK_LEAVES") = kBlockLeaves;
  m.attr("PRIORITY_UNITS") = kPriorityUnits;
  const auto fixed = [](const char* name) { return py::arg(name).noconvert(); };
  py::class_<PyRows>(m, "ReplayRows")
      .def(py::init<py::array, py::array, Contiguous<float>, Contiguous<u8>, py::dict>(),
           fixed("frames"), fixed("actions"), fixed("rewards"), fixed("flags"), py::arg("rules"))
      .def("read", &read_windows, fixed("windows"), py::arg("n_step"));
  py::class_<PySums>(m, "PrioritySums")
      .def(py::init<Contiguous<i64>, Contiguous<i64>, i64>(), fixed("leaves"), fixed("block_sums"),
           py::arg("max_units"))
      .def("total", [](const PySums& s) { return s.sums.total(); })
      .def("restore", [](PySums& s) { s.sums.restore(); })
      .def("assign", &PySums::assign, py::arg("index"), py::arg("units"))
      .def("draw", &PySums::draw, py::arg("fractions"));
  py::class_<PyRing>(m, "ReplayRing")
      .def(py::init<py::array, py::array, Contiguous<float>, Contiguous<u8>, Contiguous<i32>,
                    Contiguous<i64>, Contiguous<i64>, i64, i64, py::dict>(),
           fixed("frames"), fixed("actions"), fixed("rewards"), fixed("flags"), fixed("final_slot"),
           fixed("final_count"), fixed("head"), py::arg("num_envs"), py::arg("num_finals"),
           py::arg("rules"))
      .def("write", &PyRing::write)
      .def("newest", &PyRing::newest)
      .def("sample", &PyRing::sample, py::arg("uniform"), py::arg("n_step"))
      .def("deal", &PyRing::deal, fixed("key"), fixed("position"), fixed("order_head"),
           py::arg("uniform"), py::arg("count"), py::arg("n_step"))
      .def("batch", &PyRing::batch, fixed("ids"), py::arg("n_step"))
      .def("sample_prioritized", &PyRing::sample_prioritized, py::arg("sums"), py::arg("uniform"),
           fixed("bases"), py::arg("n_step"), py::arg("uniform_mixture"))
      .def("batch_prioritized", &PyRing::batch_prioritized, py::arg("sums"), fixed("ids"),
           fixed("bases"), py::arg("n_step"), py::arg("uniform_mixture"))
      .def("follow", &PyRing::follow, py::arg("sums"), py::arg("num_steps"), py::arg("priorities"),
           py::arg("powers"), py::arg("n_step"))
      .def("update", &PyRing::update, py::arg("sums"), py::arg("ids"), py::arg("priorities"),
           py::arg("powers"), py::arg("n_step"));
  m.def("are_priorities", &are_priorities, py::arg("ids"), py::arg("priorities"));
  m.def("accept_priorities", &accept_priorities, fixed("largest"), fixed("refused"),
        py::arg("priorities"), py::arg("instead"), py::arg("most"), fixed("kept"));
  m.def("finish_weights", &finish, fixed("numbers"), fixed("powers"));
}

}  // namespace cule
