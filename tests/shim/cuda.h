// tests/shim/cuda.h: replaces the part of the CUDA driver that loads and launches modules.
//
// The code of a module is the path of a shared library. That launches its kernel itself, because
// threads of the shim know the grid of the library they were compiled into (loaded_kernel.hpp).
#pragma once

#include <dlfcn.h>

#include <string>

#include "cuda_runtime.h"

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_INVALID_IMAGE = 200 };
enum CUfunction_attribute { CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3 };

struct CuleLoadedKernel {
  cudaError_t (*launch)(dim3 grid, dim3 block, std::size_t shared_bytes, void** arguments);
};
using CUmodule = void*;
using CUfunction = const CuleLoadedKernel*;

inline CUresult cuModuleLoadData(CUmodule* module, const void* code) {
  *module = dlopen(static_cast<const char*>(code), RTLD_NOW | RTLD_LOCAL);
  if (*module == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  ++cule::shim::modules;
  return CUDA_SUCCESS;
}
inline CUresult cuModuleUnload(CUmodule module) {
  --cule::shim::modules;
  dlclose(module);
  return CUDA_SUCCESS;
}
inline CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  *function = static_cast<CUfunction>(dlsym(module, (std::string(name) + "_loaded").c_str()));
  return *function == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
inline CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  *value = static_cast<int>(cule::shim::kLocalBytes);
  return CUDA_SUCCESS;
}
inline CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, cudaStream_t,
                               void** arguments, void** /*extra*/) {
  const dim3 grid(grid_x, grid_y, grid_z), block(block_x, block_y, block_z);
  return CUresult(function->launch(grid, block, shared_bytes, arguments));
}

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1
};
enum { cudaEnableDefault = 0 };

inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                    unsigned long long,
                                                    cudaDriverEntryPointQueryResult* result) {
  const struct {
    const char* name;
    void* function;
  } all[] = {{"cuModuleLoadData", reinterpret_cast<void*>(cuModuleLoadData)},
             {"cuModuleUnload", reinterpret_cast<void*>(cuModuleUnload)},
             {"cuModuleGetFunction", reinterpret_cast<void*>(cuModuleGetFunction)},
             {"cuFuncGetAttribute", reinterpret_cast<void*>(cuFuncGetAttribute)},
             {"cuLaunchKernel", reinterpret_cast<void*>(cuLaunchKernel)}};
  *function = nullptr;
  for (const auto& entry : all) {
    if (std::string(name) == entry.name) *function = entry.function;
  }
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
