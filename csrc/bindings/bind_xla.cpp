// bindings/bind_xla.cpp: environments as calls of XLA, for jax.ffi.
//
// Two kinds of calls (cule/envs/xla_calls.py makes them). Those with a handle, uint8 [8], change
// the environment that the handle names, and return the handle. Those of snapshots get and return
// snapshots; their target is an attribute. Results follow in one order: observations, the rows of
// the int32 table, the rows of the bool table; and for steps with SameStep the last observations of
// episodes that ended and the rows of their int32 table. XLA calls from threads of its own, without
// the GIL.
#include <pybind11/pybind11.h>

#include "bindings/bind.hpp"
#include "bindings/xla_handler.hpp"
#include "bindings/xla_target.hpp"

namespace cule {
namespace {

// Results `first` and following, for n environments.
class Results {
 public:
  Results(const xla::Buffers& buffers, i64 first, const BatchOptions& o, size_t n)
      : buffers_(buffers), next_(first), n_(n), ints_(int_rows(1) * n), flags_(flag_rows(1) * n) {
    to_.obs = xla::take<u8>(buffers, next_++, n * o.obs_bytes(), "obs");
    to_.obs_stride = std::ptrdiff_t(o.obs_bytes());
    to_.ints = ints_.data();
    to_.flags = flags_.data();
    to_.width = n;
    const i64 rows = i64(int_rows(1)) + flag_rows(1);
    if (buffers.size <= next_ + rows) return;
    to_.final_obs = xla::take<u8>(buffers, next_ + rows, n * o.obs_bytes(), "final_obs");
    to_.final_obs_stride = to_.obs_stride;
    // Observations of episodes that did not end; the memory is not initialized.
    std::memset(to_.final_obs, 0, n * o.obs_bytes());
    final_ints_.resize(int_rows(1) * n);
    to_.final_ints = final_ints_.data();
  }

  const Outputs& outputs() const { return to_; }

  // Copies the tables to the results.
  void finish() {
    copy_rows<i32>(ints_);
    copy_rows<bool>(flags_);
    if (to_.final_obs == nullptr) return;
    ++next_;
    copy_rows<i32>(final_ints_);
  }

 private:
  template <class T, class Table>
  void copy_rows(const Table& table) {
    static_assert(sizeof(T) == sizeof(table[0]));
    for (size_t from = 0; from < table.size(); from += n_)
      std::memcpy(xla::take<T>(buffers_, next_++, n_, "a result"), table.data() + from,
                  n_ * sizeof(T));
  }

  const xla::Buffers& buffers_;
  i64 next_;
  size_t n_;
  std::vector<i32> ints_, final_ints_;
  std::vector<u8> flags_;
  Outputs to_;
};

// --- Calls ----------------------------------------------------------------------------------

// Commands of rows of actions; row k is for environment k % N.
std::vector<Command> read_commands(const XlaTarget& target, const xla::Buffers& arguments,
                                   size_t n) {
  const Batch& batch = target.shared->batch;
  const size_t envs = size_t(batch.size());
  std::vector<Command> commands;
  if (target.action_table.empty()) {
    const float* rows = xla::take<float>(arguments, 1, n * kJoystickSize, "actions");
    batch.command_from_joysticks(rows, i32(n), commands);
    return commands;
  }
  const i32* actions = xla::take<i32>(arguments, 1, n, "actions");
  std::vector<i32> indices(n), ids(n);
  for (size_t k = 0; k < n; ++k) {
    check_range("actions[" + std::to_string(k) + "]", actions[k], 0, target.num_actions - 1);
    ids[k] = i32(k % envs);
    indices[k] =
        target.action_table[size_t(ids[k]) * size_t(target.num_actions) + size_t(actions[k])];
  }
  batch.command_from_indices(indices.data(), ids.data(), i32(n), commands);
  return commands;
}

std::vector<i64> read_seeds(const i32* seeds, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    // What cule/envs/xla_calls.py writes for a sum that is too large.
    if (seeds[k] == INT32_MIN) {
      refuse("seed gives environment " + std::to_string(k) + " a seed above " +
             std::to_string(INT32_MAX) + ", the largest allowed");
    }
  }
  return {seeds, seeds + n};
}

// The target that a handle names. Returns the handle.
std::shared_ptr<const XlaTarget> pass_handle(const xla::CallFrame& frame) {
  i64 id = 0;
  const u8* handle = xla::take<u8>(frame.arguments, 0, sizeof id, "handle");
  std::memcpy(&id, handle, sizeof id);
  std::memcpy(xla::take<u8>(frame.results, 0, sizeof id, "handle"), handle, sizeof id);
  return xla::Registry<XlaTarget>::instance().find(id);
}

void call_reset(const xla::CallFrame& frame) {
  const auto target = pass_handle(frame);
  const std::lock_guard<std::mutex> lock(target->shared->mutex);
  Batch& batch = target->shared->open();
  const size_t n = size_t(batch.size());
  const std::vector<i64> seeds = read_seeds(xla::take<i32>(frame.arguments, 1, n, "seed"), n);
  const bool* mask = xla::take<bool>(frame.arguments, 2, n, "reset_mask");
  Results results(frame.results, 1, batch.options(), n);
  batch.reset(reinterpret_cast<const u8*>(mask), seeds.data(), results.outputs());
  results.finish();
}

void call_step(const xla::CallFrame& frame) {
  const auto target = pass_handle(frame);
  const std::lock_guard<std::mutex> lock(target->shared->mutex);
  Batch& batch = target->shared->open();
  const size_t n = size_t(batch.size());
  batch.check_ready(nullptr, batch.size());
  const std::vector<Command> commands = read_commands(*target, frame.arguments, n);
  Results results(frame.results, 1, batch.options(), n);
  batch.step(commands, results.outputs());
  results.finish();
}

void call_reset_snapshots(const xla::CallFrame& frame) {
  const auto target = xla::read_target<XlaTarget>(frame);
  const std::lock_guard<std::mutex> lock(target->shared->mutex);
  Batch& batch = target->shared->open();
  if (frame.arguments.size != 1) refuse("there must be one argument, seeds");
  const size_t n = xla::count_entries(*frame.arguments.buffers[0]);
  const std::vector<i64> seeds = read_seeds(xla::take<i32>(frame.arguments, 0, n, "seed"), n);
  for (size_t k = 0; k < n; ++k)
    check_range("seed[" + std::to_string(k) + "]", seeds[k], 0, INT32_MAX);
  u8* rows = xla::take<u8>(frame.results, 0, n * batch.state_bytes(), "states");
  Results results(frame.results, 1, batch.options(), n);
  batch.reset_snapshots(seeds, rows, results.outputs());
  results.finish();
}

void call_step_snapshots(const xla::CallFrame& frame) {
  const auto target = xla::read_target<XlaTarget>(frame);
  const std::lock_guard<std::mutex> lock(target->shared->mutex);
  Batch& batch = target->shared->open();
  if (frame.arguments.size != 2) refuse("there must be two arguments, states and actions");
  const size_t n = xla::count_entries(*frame.arguments.buffers[0]) / batch.state_bytes();
  const u8* rows = xla::take<u8>(frame.arguments, 0, n * batch.state_bytes(), "states");
  u8* next_rows = xla::take<u8>(frame.results, 0, n * batch.state_bytes(), "states");
  const std::vector<Command> commands = read_commands(*target, frame.arguments, n);
  Results results(frame.results, 1, batch.options(), n);
  batch.step_snapshots(rows, commands, next_rows, results.outputs());
  results.finish();
}

py::dict handlers() {
  py::dict all;
  all["cule_reset"] = xla::capsule_of(xla::handle<call_reset>);
  all["cule_step"] = xla::capsule_of(xla::handle<call_step>);
  all["cule_reset_snapshots"] = xla::capsule_of(xla::handle<call_reset_snapshots>);
  all["cule_step_snapshots"] = xla::capsule_of(xla::handle<call_step_snapshots>);
  return all;
}

}  // namespace

void bind_xla(py::module_& m) {
  using Target = xla::Registered<XlaTarget>;
  py::class_<Target>(m, "XlaTarget").def_property_readonly("id", &Target::id);
  m.def("xla_handlers", &handlers);
}

}  // namespace cule
