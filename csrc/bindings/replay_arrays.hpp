// bindings/replay_arrays.hpp: flat memory of rows as numpy arrays, and what is read of it.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/parse.hpp"
#include "replay/rows.hpp"

namespace cule {

// A new array the shape of whose entries is that of another's rows.
inline py::array empty_rows(const py::array& like, std::vector<py::ssize_t> shape) {
  for (py::ssize_t d = 1; d < like.ndim(); ++d) shape.push_back(like.shape(d));
  return py::array(like.dtype(), std::move(shape));
}

// Memory of large batches, given out again. The first touch of memory that comes from the system
// takes several times as long as a copy into memory that has been touched, and large blocks go back
// to the system when they are freed. So the blocks of a batch that nobody holds any more are kept
// for the next one. Used under Python's lock only.
class BlockPool {
 public:
  using Block = py::array_t<u8>;

  Block take(py::ssize_t bytes) {
    for (auto block = idle_.begin(); block != idle_.end(); ++block) {
      if (block->size() != bytes) continue;
      Block found = std::move(*block);
      idle_.erase(block);
      return found;
    }
    return Block(bytes);  // of numpy, which asks the system for large pages
  }

  // Takes a block back; of more than two, the one that has been here longest is let go.
  void give(Block block) {
    if (idle_.size() == kMost) idle_.erase(idle_.begin());
    idle_.push_back(std::move(block));
  }

 private:
  static constexpr size_t kMost = 2;  // observations and next observations
  std::vector<Block> idle_;
};

// As empty_rows, in memory of a pool where it is large.
inline py::array pooled_rows(const std::shared_ptr<BlockPool>& pool, const py::array& like,
                             std::vector<py::ssize_t> shape) {
  constexpr py::ssize_t kLargeBytes = 1 << 16;
  py::ssize_t bytes = like.itemsize();
  for (py::ssize_t d = 1; d < like.ndim(); ++d) shape.push_back(like.shape(d));
  for (const py::ssize_t n : shape) bytes *= n;
  if (bytes < kLargeBytes) return py::array(like.dtype(), std::move(shape));
  struct Lent {
    std::shared_ptr<BlockPool> pool;
    BlockPool::Block block;
  };
  auto lent = std::make_unique<Lent>(Lent{pool, pool->take(bytes)});
  void* const data = lent->block.mutable_data();
  const py::capsule owner(lent.get(), [](void* p) {
    const std::unique_ptr<Lent> held(static_cast<Lent*>(p));
    held->pool->give(std::move(held->block));
  });
  static_cast<void>(lent.release());
  return py::array(like.dtype(), std::move(shape), data, owner);
}

inline u8* bytes_of(const py::array& a) { return static_cast<u8*>(const_cast<void*>(a.data())); }

inline size_t row_bytes(const py::array& a) {
  return a.shape(0) ? size_t(a.nbytes()) / size_t(a.shape(0)) : 0;
}

template <class T>
i64 size_of(const py::object& o, const char* name) {
  parse_vector<T>(o, name, i32(py::len(o)));
  return i64(py::len(o));
}

// The arrays of flat memory, and how they are read.
struct PyRows {
  py::array frames, actions;
  Contiguous<float> rewards;
  Contiguous<u8> flags;
  Rows rows;
  ReadRules rules;
  std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>();

  PyRows(py::array frames_in, py::array actions_in, Contiguous<float> rewards_in,
         Contiguous<u8> flags_in, const py::dict& rules_in)
      : frames(std::move(frames_in)),
        actions(std::move(actions_in)),
        rewards(std::move(rewards_in)),
        flags(std::move(flags_in)) {
    for (const py::array* a :
         {&frames, &actions, static_cast<py::array*>(&rewards), static_cast<py::array*>(&flags)}) {
      if (!(a->flags() & py::array::c_style) || !a->writeable() || a->ndim() < 1 ||
          a->shape(0) < flags.size())
        refuse("a writable, contiguous array with as many rows as flags is needed");
    }
    rows = {bytes_of(frames),     bytes_of(actions), rewards.mutable_data(),
            flags.mutable_data(), row_bytes(frames), row_bytes(actions)};
    rules.stack = rules_in["stack"].cast<i64>();
    rules.pads_repeat = rules_in["pad"].cast<std::string>() == "repeat";
    rules.gamma = rules_in["gamma"].cast<float>();
    const auto clipping = rules_in["reward_clipping"].cast<std::string>();
    rules.clipping = clipping == "clip"   ? Clipping::kClip
                     : clipping == "sign" ? Clipping::kSign
                                          : Clipping::kNone;
    rules.terminal = kTerminated;
    if (rules_in["terminal_on_life_loss"].cast<bool>()) rules.terminal |= kLifeLost;
    if (rules.stack < 1) refuse("stack: at least 1 is needed");
  }

  // Observations have an axis of stacks only where there are any.
  py::array empty_obs(i64 size) const {
    return rules.stack > 1 ? pooled_rows(pool, frames, {size, rules.stack})
                           : pooled_rows(pool, frames, {size});
  }
};

// What is read of B transitions: observations, actions, next observations, and four numbers each,
// [4, B]: returns, discounts, weights (here 0 or 1), probabilities (not set here).
struct PyTaken {
  py::array obs, actions, next_obs;
  Contiguous<float> numbers;
  i64 size;

  PyTaken(const PyRows& rows, i64 count)
      : obs(rows.empty_obs(count)),
        actions(empty_rows(rows.actions, {count})),
        next_obs(rows.empty_obs(count)),
        numbers({i64(4), count}),
        size(count) {}

  float* weights() { return numbers.mutable_data() + 2 * size; }
  float* probabilities() { return numbers.mutable_data() + 3 * size; }
};

// Reads `size` transitions: window(k) is the window of the k-th.
template <class WindowOf>
PyTaken take(const PyRows& rows, const Finals& finals, i64 n_step, i64 size,
             const WindowOf& window) {
  PyTaken taken(rows, size);
  const size_t obs_bytes = size_t(rows.rules.stack) * rows.rows.frame_bytes;
  float* const numbers = taken.numbers.mutable_data();
  Transition out{bytes_of(taken.obs), bytes_of(taken.actions), numbers, numbers + size,
                 bytes_of(taken.next_obs)};
  float* const weights = taken.weights();
  {
    py::gil_scoped_release release;
    for (i64 k = 0; k < size; ++k) {
      weights[k] = read_transition(rows.rows, finals, rows.rules, n_step, window(k), out);
      out.obs += obs_bytes;
      out.action += rows.rows.action_bytes;
      ++out.returns;
      ++out.discount;
      out.next_obs += obs_bytes;
    }
  }
  return taken;
}

}  // namespace cule
