// bindings/xla_target.hpp: a batch of the CPU as a target of calls of XLA (bind_xla.cpp).
#pragma once

#include <memory>
#include <vector>

#include "bindings/shared_batch.hpp"

namespace cule {

struct XlaTarget {
  std::shared_ptr<SharedBatch> shared;
  // [N, num_actions]: of an environment's action set, what an action means. Empty: joysticks.
  std::vector<i32> action_table;
  i32 num_actions;
};

}  // namespace cule
