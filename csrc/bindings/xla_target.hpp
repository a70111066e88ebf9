// bindings/xla_target.hpp: a batch that calls of XLA name by a number.
//
// Machine code of XLA knows no Python objects, so it carries the number of a target as data. A
// number of no target is refused.
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

// A target for as long as this lives.
class RegisteredTarget {
 public:
  explicit RegisteredTarget(XlaTarget target);
  ~RegisteredTarget();
  RegisteredTarget(const RegisteredTarget&) = delete;
  RegisteredTarget& operator=(const RegisteredTarget&) = delete;

  i64 id() const { return id_; }

 private:
  const i64 id_;
};

}  // namespace cule
