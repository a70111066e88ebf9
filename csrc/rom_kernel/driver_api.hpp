// rom_kernel/driver_api.hpp: functions of the CUDA driver that load and launch a module.
//
// They are found at run time, because cule._cuda is imported on machines without a driver. The
// runtime's own functions for modules are those of CUDA 12.8 and later; these are in every driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <type_traits>

// Found where the runtime has no function of this name, which it has from 12.5 on; a template is
// the worse match.
namespace cule_before_12_5 {

template <class Result>
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function_out, unsigned,
                                             unsigned long long flags, Result* result_out) {
  return cudaGetDriverEntryPoint(name, function_out, flags, result_out);
}

}  // namespace cule_before_12_5

namespace cule {

struct DriverApi {
  decltype(&cuModuleLoadData) load_module;
  decltype(&cuModuleUnload) unload_module;
  decltype(&cuModuleGetFunction) get_function;
  decltype(&cuFuncGetAttribute) get_attribute;
  decltype(&cuLaunchKernel) launch_kernel;
};

// Errors of the runtime have the numbers of the driver's.
inline cudaError_t runtime_error(CUresult result) { return cudaError_t(result); }

inline cudaError_t find_entry_point(const char* name, void** function_out) {
  using namespace cule_before_12_5;
  constexpr unsigned kVersion = 12000;  // the oldest toolkit that builds this
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, function_out, kVersion, cudaEnableDefault, &found);
  if (error != cudaSuccess) return error;
  return found == cudaDriverEntryPointSuccess ? cudaSuccess : cudaErrorNotSupported;
}

inline cudaError_t find_driver_api(DriverApi& out) {
  cudaError_t error = cudaSuccess;
  const auto find = [&error](const char* name, auto& function) {
    void* found = nullptr;
    if (error == cudaSuccess) error = find_entry_point(name, &found);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find("cuModuleLoadData", out.load_module);
  find("cuModuleUnload", out.unload_module);
  find("cuModuleGetFunction", out.get_function);
  find("cuFuncGetAttribute", out.get_attribute);
  find("cuLaunchKernel", out.launch_kernel);
  return error;
}

}  // namespace cule
