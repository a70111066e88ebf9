// rom_kernel/loaded_step.cpp: see rom_kernel/loaded_step.hpp.
#include "rom_kernel/loaded_step.hpp"

#include "cuda/step_launch.hpp"

namespace cule {

cudaError_t LoadedStep::load(const std::string& path) {
  cudaError_t error = find_driver_api(driver);
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  // Functions of the driver need a context that is current to the thread; this makes it so.
  if (error == cudaSuccess) error = cudaSetDevice(device);
  if (error != cudaSuccess) return error;
  CUmodule module = nullptr;
  int bytes = 0;
  CUresult result = driver.load_module(&module, path.c_str());
  if (result == CUDA_SUCCESS) result = driver.get_function(&kernel, module, "cule_step");
  if (result == CUDA_SUCCESS)
    result = driver.get_attribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel);
  local_bytes = size_t(bytes);
  return runtime_error(result);
}

cudaError_t LoadedStep::launch(const DeviceBatch& b, const TileList& tiles,
                               const StepActions& actions, cudaStream_t stream) const {
  const cudaError_t error = cudaSetDevice(device);  // as in load()
  if (error != cudaSuccess) return error;
  const StepGeometry g = step_geometry(tiles, 0);
  const void* const addresses[] = {&b, &tiles.tiles, &tiles.size, &actions};
  return runtime_error(driver.launch_kernel(kernel, g.blocks, 1, 1, g.threads, 1, 1, g.shared_bytes,
                                            stream, const_cast<void**>(addresses), nullptr));
}

}  // namespace cule
