// bindings/replay_arrays.hpp: numpy arrays of cells, and batches of transitions gathered from them.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/parse.hpp"
#include "replay/transitions.hpp"

namespace cule {

// Memory of large batches, reused. The first touch of memory from the system takes several times as
// long as a copy into memory that was touched before, and large blocks go back to the system when
// they are freed. So the pool keeps the blocks of the latest batch that Python has released. Used
// under Python's lock only.
class BlockPool {
 public:
  using Block = py::array_t<u8>;

  Block acquire(py::ssize_t bytes) {
    for (auto block = idle_.begin(); block != idle_.end(); ++block) {
      if (block->size() != bytes) continue;
      Block found = std::move(*block);
      idle_.erase(block);
      return found;
    }
    return Block(bytes);  // of numpy, which asks the system for large pages
  }

  // Drops the oldest block if the pool is full.
  void release(Block block) {
    if (idle_.size() == kMost) idle_.erase(idle_.begin());
    idle_.push_back(std::move(block));
  }

 private:
  static constexpr size_t kMost = 2;  // observations and next observations
  std::vector<Block> idle_;
};

// A new array whose entries have the shape of those of `like`. Large ones use the pool, if there is
// one.
inline py::array empty_like(const py::array& like, std::vector<py::ssize_t> shape,
                            const std::shared_ptr<BlockPool>& pool) {
  constexpr py::ssize_t kLargeBytes = 1 << 16;
  py::ssize_t bytes = like.itemsize();
  for (py::ssize_t d = 1; d < like.ndim(); ++d) shape.push_back(like.shape(d));
  for (const py::ssize_t n : shape) bytes *= n;
  if (!pool || bytes < kLargeBytes) return py::array(like.dtype(), std::move(shape));
  struct Loan {
    std::shared_ptr<BlockPool> pool;
    BlockPool::Block block;
  };
  auto loan = std::make_unique<Loan>(Loan{pool, pool->acquire(bytes)});
  void* const data = loan->block.mutable_data();
  const py::capsule owner(loan.get(), [](void* p) {
    const std::unique_ptr<Loan> held(static_cast<Loan*>(p));
    held->pool->release(std::move(held->block));
  });
  static_cast<void>(loan.release());
  return py::array(like.dtype(), std::move(shape), data, owner);
}

inline u8* bytes_of(const py::array& a) { return static_cast<u8*>(const_cast<void*>(a.data())); }

inline size_t entry_bytes(const py::array& a) {
  return a.shape(0) ? size_t(a.nbytes()) / size_t(a.shape(0)) : 0;
}

// The arrays of flat memory, and the rules to read them with.
struct CellArrays {
  py::array frames, actions;
  Contiguous<float> rewards;
  Contiguous<u8> flags;
  Cells cells;
  ReadRules rules;
  std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>();

  CellArrays(py::array frames_in, py::array actions_in, Contiguous<float> rewards_in,
             Contiguous<u8> flags_in, const py::dict& rules_in)
      : frames(std::move(frames_in)),
        actions(std::move(actions_in)),
        rewards(std::move(rewards_in)),
        flags(std::move(flags_in)) {
    for (const py::array* a :
         {&frames, &actions, static_cast<py::array*>(&rewards), static_cast<py::array*>(&flags)}) {
      if (!(a->flags() & py::array::c_style) || !a->writeable() || a->ndim() < 1 ||
          a->shape(0) < flags.size())
        refuse("frames, actions, rewards: each must be writable, contiguous and as long as flags");
    }
    cells = {bytes_of(frames),     bytes_of(actions),   rewards.mutable_data(),
             flags.mutable_data(), entry_bytes(frames), entry_bytes(actions)};
    rules.stack = rules_in["stack"].cast<i64>();
    rules.pads_repeat = rules_in["pad"].cast<std::string>() == "repeat";
    rules.gamma = rules_in["gamma"].cast<float>();
    const auto clipping = rules_in["reward_clipping"].cast<std::string>();
    rules.clipping = clipping == "clip"   ? Clipping::kClip
                     : clipping == "sign" ? Clipping::kSign
                                          : Clipping::kNone;
    rules.terminal = kTerminated;
    if (rules_in["terminal_on_life_loss"].cast<bool>()) rules.terminal |= kLifeLost;
    if (rules.stack < 1)
      refuse("stack is " + std::to_string(rules.stack) + "; it must be at least 1");
  }

  // Observations have an axis of stacks only if a stack has several frames.
  py::array empty_obs(i64 size) const {
    std::vector<py::ssize_t> shape{size};
    if (rules.stack > 1) shape.push_back(rules.stack);
    return empty_like(frames, std::move(shape), pool);
  }
};

// B transitions: observations, actions, next observations, and `numbers`, [4, B]: returns,
// discounts, weights (0 or 1 at first), probabilities (unset at first).
struct BatchArrays {
  py::array obs, actions, next_obs;
  Contiguous<float> numbers;
  i64 size;

  BatchArrays(const CellArrays& memory, i64 count)
      : obs(memory.empty_obs(count)),
        actions(empty_like(memory.actions, {count}, nullptr)),
        next_obs(memory.empty_obs(count)),
        numbers({i64(4), count}),
        size(count) {}

  float* weights() { return numbers.mutable_data() + 2 * size; }
  float* probabilities() { return numbers.mutable_data() + 3 * size; }
};

// Reads `size` transitions; window(k) is the window of the k-th.
template <class WindowOf>
BatchArrays gather(const CellArrays& memory, const Finals& finals, i64 n_step, i64 size,
                   const WindowOf& window) {
  BatchArrays batch(memory, size);
  const size_t obs_bytes = size_t(memory.rules.stack) * memory.cells.frame_bytes;
  float* const numbers = batch.numbers.mutable_data();
  Transition out{bytes_of(batch.obs), bytes_of(batch.actions), numbers, numbers + size,
                 bytes_of(batch.next_obs)};
  float* const weights = batch.weights();
  {
    WithoutGil without_gil;
    for (i64 k = 0; k < size; ++k) {
      weights[k] = read_transition(memory.cells, finals, memory.rules, n_step, window(k), out);
      out.obs += obs_bytes;
      out.action += memory.cells.action_bytes;
      ++out.returns;
      ++out.discount;
      out.next_obs += obs_bytes;
    }
  }
  return batch;
}

}  // namespace cule
