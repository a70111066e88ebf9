// rom_kernel/loaded_step.cpp: see rom_kernel/loaded_step.hpp.
#include "rom_kernel/loaded_step.hpp"

#include <mutex>

#include "cuda/local_memory.hpp"
#include "cuda/step_launch.hpp"

namespace cule {
namespace {

std::mutex modules_mutex;

// Lets this thread load and unload while another one captures a CUDA graph.
class DuringCaptures {
 public:
  DuringCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  DuringCaptures(const DuringCaptures&) = delete;
  DuringCaptures& operator=(const DuringCaptures&) = delete;
  ~DuringCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

LoadedStep::Modules& LoadedStep::modules() {
  static Modules all;
  return all;
}

cudaError_t LoadedStep::load_module(const std::string& code, Module& module) const {
  int bytes = 0;
  CUresult result = driver_.load_module(&module.module, code.c_str());
  if (result == CUDA_SUCCESS)
    result = driver_.get_function(&module.kernel, module.module, "cule_step");
  // The driver may put off what a launch in a capture must not do, and what can fail, until it is
  // asked about the function.
  if (result == CUDA_SUCCESS)
    result = driver_.get_attribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, module.kernel);
  module.local_bytes = size_t(bytes);
  return runtime_error(result);
}

cudaError_t LoadedStep::load(const std::string& code) {
  const std::lock_guard<std::mutex> lock(modules_mutex);
  const DuringCaptures guard;
  int device = 0;
  cudaError_t error = find_driver_api(driver_);
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  // Functions of the driver need a context that is current to the thread; this makes it so.
  if (error == cudaSuccess) error = cudaSetDevice(device);
  if (error != cudaSuccess) return error;
  const auto place = modules().try_emplace({code, device}).first;
  Module& module = place->second;
  if (module.users == 0) error = load_module(code, module);
  size_t pool = 0;
  if (error == cudaSuccess) error = reserve_local_memory(module.local_bytes, pool);
  if (error == cudaSuccess) {
    ++module.users;
    entry_ = &*place;
  } else if (module.users == 0) {
    if (module.module != nullptr) driver_.unload_module(module.module);
    modules().erase(place);
  }
  return error;
}

void LoadedStep::unload() {
  const std::lock_guard<std::mutex> lock(modules_mutex);
  const DuringCaptures guard;
  Module& module = entry_->second;
  if (--module.users == 0) {
    // Errors are of a kernel that failed: then nothing can be unloaded.
    if (cudaSetDevice(entry_->first.second) == cudaSuccess) driver_.unload_module(module.module);
    modules().erase(entry_->first);
  }
  entry_ = nullptr;
}

cudaError_t LoadedStep::launch(const DeviceBatch& b, const TileList& tiles,
                               const StepActions& actions, cudaStream_t stream) const {
  const cudaError_t error = cudaSetDevice(entry_->first.second);  // as in load()
  if (error != cudaSuccess) return error;
  const StepGeometry g = step_geometry(b, tiles, kMostServed, 0);
  const void* const addresses[] = {&b, &tiles.tiles, &tiles.size, &actions};
  return runtime_error(driver_.launch_kernel(entry_->second.kernel, g.blocks, 1, 1, g.threads, 1, 1,
                                             g.shared_bytes, stream, const_cast<void**>(addresses),
                                             nullptr));
}

}  // namespace cule
