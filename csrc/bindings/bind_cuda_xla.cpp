// bindings/bind_cuda_xla.cpp: environments on a GPU as calls of XLA, for jax.ffi.
//
// Buffers are device memory and calls launch on XLA's stream, so nothing passes through the host
// and nothing waits. The target is an attribute; the handle, uint8 [8], only orders calls, and its
// result is its argument (an alias). Results (cule/envs/xla_calls.py): the handle, observations,
// the int32 table, the bool table; and for steps with SameStep the last observations of episodes
// that ended and their int32 table. Faults are reported by the call that follows, as by step().
#include <pybind11/pybind11.h>

#include <utility>

#include "bindings/bind.hpp"
#include "bindings/cuda_batch.hpp"
#include "bindings/xla_handler.hpp"
#include "host/batch.hpp"

namespace cule {
namespace {

constexpr size_t kHandleBytes = 8;

struct CudaTarget {
  std::shared_ptr<CudaBatch> batch;
  u32* faults;  // pinned; kernels write it
  i32 num_actions;
  int device;
};

// The stream of a call. Only a platform without streams gives none, and there calls are
// synchronous, as under the shim of the tests.
u64 stream_of(const xla::CallFrame& frame) {
  xla::StreamArguments arguments{sizeof(xla::StreamArguments), nullptr, frame.context, nullptr};
  xla::Error* error = frame.api->get_stream(&arguments);
  if (error == nullptr) return reinterpret_cast<u64>(arguments.stream);
  xla::ErrorArgument unused{sizeof(xla::ErrorArgument), nullptr, error};
  frame.api->destroy_error(&unused);
  return 0;
}

void raise_faults(const CudaTarget& target) {
  const u32 faults = std::exchange(*static_cast<volatile u32*>(target.faults), 0u);
  if (faults == 0) return;
  const std::string text = fault_text(faults, target.num_actions);
  if (faults & kFaultAction) refuse(text);
  throw NotReady(text);
}

std::shared_ptr<const CudaTarget> begin_call(const xla::CallFrame& frame) {
  const auto target = xla::read_target<CudaTarget>(frame);
  check(cudaSetDevice(target->device), "device of the environments");
  raise_faults(*target);
  const u8* handle = xla::take<u8>(frame.arguments, 0, kHandleBytes, "handle");
  if (xla::take<u8>(frame.results, 0, kHandleBytes, "handle") != handle)
    throw std::runtime_error("the handle of a result is not that of the argument");
  return target;
}

// Results after the handle.
StepOutputs take_outputs(const xla::Buffers& results, const CudaBatch& batch, u64 stream) {
  const size_t n = batch.size();
  const size_t obs_bytes = batch.options().obs_bytes(), ints = int_rows(1) * n;
  StepOutputs out{};
  out.obs = xla::take<u8>(results, 1, n * obs_bytes, "obs");
  out.obs_stride = obs_bytes;
  out.ints = xla::take<i32>(results, 2, ints, "the numbers");
  out.flags = reinterpret_cast<u8*>(xla::take<bool>(results, 3, flag_rows(1) * n, "the flags"));
  out.width = u32(n);
  out.stacked = true;
  if (results.size <= 4) return out;
  out.final_obs = xla::take<u8>(results, 4, n * obs_bytes, "final_obs");
  out.final_obs_stride = obs_bytes;
  out.final_ints = xla::take<i32>(results, 5, ints, "the last numbers");
  // Of episodes that did not end; the memory is not initialized.
  const auto s = pointer<CUstream_st>(stream);
  check(cudaMemsetAsync(out.final_obs, 0, n * obs_bytes, s), "clearing of final_obs");
  check(cudaMemsetAsync(out.final_ints, 0, ints * sizeof(i32), s), "clearing of the last numbers");
  return out;
}

void call_reset(const xla::CallFrame& frame) {
  const auto target = begin_call(frame);
  CudaBatch& batch = *target->batch;
  const size_t n = batch.size();
  // Two halves of 64 bits each: JAX has no wide integers by default.
  const i32* seeds = xla::take<i32>(frame.arguments, 1, 2 * n, "seed");
  const bool* mask = nullptr;
  if (frame.arguments.size > 2) {
    mask = xla::take<bool>(frame.arguments, 2, n, "reset_mask");
    if (!batch.has_reset()) throw NotReady("the first reset must reset every environment");
  }
  const u64 stream = stream_of(frame);
  const StepOutputs out = take_outputs(frame.results, batch, stream);
  batch.reset(reinterpret_cast<u64>(mask), reinterpret_cast<u64>(seeds), out, stream);
}

void call_step(const xla::CallFrame& frame) {
  const auto target = begin_call(frame);
  CudaBatch& batch = *target->batch;
  const size_t n = batch.size();
  if (!batch.has_reset()) throw NotReady("the environments have no episode; call reset first");
  u64 indices = 0, joysticks = 0;
  if (batch.options().continuous) {
    joysticks =
        reinterpret_cast<u64>(xla::take<float>(frame.arguments, 1, n * kJoystickSize, "actions"));
  } else {
    indices = reinterpret_cast<u64>(xla::take<i32>(frame.arguments, 1, n, "actions"));
  }
  const u64 stream = stream_of(frame);
  const StepOutputs out = take_outputs(frame.results, batch, stream);
  batch.step(indices, joysticks, out, reinterpret_cast<u64>(target->faults), stream);
}

py::dict handlers() {
  py::dict all;
  all["cule_cuda_reset"] = xla::capsule_of(xla::handle<call_reset>);
  all["cule_cuda_step"] = xla::capsule_of(xla::handle<call_step>);
  return all;
}

}  // namespace

void bind_cuda_xla(py::module_& m) {
  using Target = xla::Registered<CudaTarget>;
  py::class_<Target>(m, "XlaTarget", py::module_local())
      .def(py::init([](std::shared_ptr<CudaBatch> batch, u64 faults, i32 num_actions, int device) {
             return std::make_unique<Target>(
                 CudaTarget{std::move(batch), pointer<u32>(faults), num_actions, device});
           }),
           py::arg("batch"), py::arg("faults"), py::arg("num_actions"), py::arg("device"))
      .def_property_readonly("id", &Target::id);
  m.def("xla_handlers", &handlers);
}

}  // namespace cule
