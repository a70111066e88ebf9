// tests/shim/host_api.hpp: the part of the CUDA runtime that cule's host code uses: one small
// device.
//
// Memory of the device is the host's, filled with garbage when it is allocated; a stream has
// finished what it is given before the call returns.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>

#include "grid.hpp"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidKernelImage = 200,
  cudaErrorNotSupported = 801
};

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39
};

enum cudaLimit { cudaLimitStackSize = 0 };

struct CUstream_st;
using cudaStream_t = CUstream_st*;

struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  std::size_t localSizeBytes;
  int maxThreadsPerBlock;
  int numRegs;
};

namespace cule::shim {

inline constexpr std::size_t kSharedBytes = 48 * 1024;  // dynamic shared memory of a block
inline constexpr int kMultiprocessors = 2;
inline constexpr int kBlocksPerMultiprocessor = 4;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr std::size_t kLocalBytes = 1632;  // a thread of each kernel

inline std::size_t stack_limit_bytes = 1024;
inline unsigned long long launches = 0;  // under the mutex of the grid
inline unsigned long long modules = 0;   // loaded now

inline cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

inline cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

}  // namespace cule::shim

inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidKernelImage:
      return "device kernel image is invalid";
    case cudaErrorNotSupported:
      return "operation not supported";
  }
  return "unknown error";
}
inline cudaError_t cudaGetLastError() {
  return std::exchange(cule::shim::last_error(), cudaSuccess);
}

// ---- device ------------------------------------------------------------------------------------

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cule::shim::report(cudaErrorInvalidValue);
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = cule::shim::kMultiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = cule::shim::kThreadsPerMultiprocessor;
      break;
  }
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit) {
  *value = cule::shim::stack_limit_bytes;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t value) {
  cule::shim::stack_limit_bytes = value;
  return cudaSuccess;
}

inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

// ---- capture ------------------------------------------------------------------------------------

enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeRelaxed = 2 };
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return cudaSuccess;
}

// ---- memory ------------------------------------------------------------------------------------

constexpr unsigned cudaHostAllocMapped = 2;

inline cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned /*flags*/) {
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*to == nullptr) return cule::shim::report(cudaErrorMemoryAllocation);
  std::memset(*to, cule::shim::kPoison, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaHostGetDevicePointer(void** to, void* memory, unsigned /*flags*/) {
  *to = memory;
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

// ---- kernels -----------------------------------------------------------------------------------

// What the compiler would decide has plausible values.
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, Kernel* kernel) {
  if (kernel == nullptr) return cule::shim::report(cudaErrorInvalidValue);
  *to = cudaFuncAttributes{};
  to->maxThreadsPerBlock = static_cast<int>(cule::shim::kMaxThreads);
  to->localSizeBytes = cule::shim::kLocalBytes;
  to->numRegs = 64;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int /*threads*/,
                                                          std::size_t /*shared_bytes*/) {
  *blocks = cule::shim::kBlocksPerMultiprocessor;
  return cudaSuccess;
}

namespace cule::shim {

template <class... Parameters, std::size_t... kIndex>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<kIndex...>) {
  kernel(*static_cast<std::decay_t<Parameters>*>(arguments[kIndex])...);
}

// A launch as `launch_hook` sees it.
struct HookedLaunch {
  const void* kernel;
  const void* parameters;  // in order, each aligned to its type, as a kernel of a GPU takes them
  std::size_t parameter_bytes;
  unsigned grid[3], block[3];
  std::size_t shared_bytes;  // dynamic
};

// If set, called before a grid is run; says whether it has run it (launch_hook.cpp).
inline bool (*launch_hook)(const HookedLaunch*) = nullptr;

template <class... Parameters>
bool call_hook(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
               std::size_t shared_bytes) {
  std::string packed;
  const auto put = [&](const void* value, std::size_t size, std::size_t alignment) {
    packed.resize((packed.size() + alignment - 1) / alignment * alignment);
    packed.append(static_cast<const char*>(value), size);
  };
  (put(*arguments++, sizeof(Parameters), alignof(Parameters)), ...);
  const HookedLaunch launch{
      reinterpret_cast<const void*>(kernel), packed.data(), packed.size(), {grid.x, grid.y, grid.z},
      {block.x, block.y, block.z},           shared_bytes};
  return launch_hook(&launch);
}

}  // namespace cule::shim

// Runs a grid to its end. Throws std::runtime_error where a kernel breaks a rule.
template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             std::size_t dynamic_shared_bytes, cudaStream_t) {
  const unsigned long long threads = 1ull * block.x * block.y * block.z;
  if (threads == 0 || threads > cule::shim::kMaxThreads || block.z > 64 || grid.x == 0 ||
      grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
    return cule::shim::report(cudaErrorInvalidConfiguration);
  }
  if (dynamic_shared_bytes > cule::shim::kSharedBytes) {
    return cule::shim::report(cudaErrorInvalidValue);
  }
  const std::lock_guard<std::mutex> lock(cule::shim::grid().mutex);
  auto run_thread = [&] {
    cule::shim::call(kernel, arguments, std::index_sequence_for<Parameters...>{});
  };
  ++cule::shim::launches;
  if (cule::shim::launch_hook != nullptr &&
      cule::shim::call_hook(kernel, grid, block, arguments, dynamic_shared_bytes)) {
    return cudaSuccess;
  }
  const auto enter = [](void* of) { (*static_cast<decltype(run_thread)*>(of))(); };
  cule::shim::grid().run(grid, block, dynamic_shared_bytes, enter, &run_thread);
  return cudaSuccess;
}

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};
template <class... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               std::decay_t<Parameters>... arguments) {
  void* addresses[] = {&arguments...};
  return cudaLaunchKernel(kernel, config->gridDim, config->blockDim, addresses,
                          config->dynamicSmemBytes, config->stream);
}
