// tests/shim/host_api.hpp: the CUDA runtime as the host sees it: one small device, all at once.
//
// Memory of the device is the host's, filled with garbage when it is allocated; streams are done
// with what they are given before the call returns.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "grid.hpp"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999
};

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrReservedSharedMemoryPerBlock = 111
};

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};

struct CUstream_st;
using cudaStream_t = CUstream_st*;

inline constexpr unsigned cudaHostAllocDefault = 0;
inline constexpr unsigned cudaHostAllocPortable = 1;
inline constexpr unsigned cudaHostAllocMapped = 2;
inline constexpr unsigned cudaHostAllocWriteCombined = 4;
inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  std::size_t sharedMemPerBlockOptin;
  std::size_t sharedMemPerMultiprocessor;
  std::size_t reservedSharedMemPerBlock;
  int regsPerMultiprocessor;
  int warpSize;
  int maxThreadsPerBlock;
  int maxThreadsPerMultiProcessor;
  int maxBlocksPerMultiProcessor;
  int multiProcessorCount;
  int l2CacheSize;
  int major;
  int minor;
};

struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  std::size_t constSizeBytes;
  std::size_t localSizeBytes;
  int maxThreadsPerBlock;
  int numRegs;
  int ptxVersion;
  int binaryVersion;
  int maxDynamicSharedSizeBytes;
};

namespace cule::shim {

inline constexpr std::size_t kGlobalBytes = std::size_t{4} << 30;
inline constexpr int kSharedBytes = 48 * 1024;  // dynamic shared memory without asking for more
inline constexpr int kSharedOptinBytes = 227 * 1024;
inline constexpr int kRuntimeVersion = 13000;

inline unsigned long long launches = 0;  // under the mutex of the grid

// What kernels were allowed by cudaFuncSetAttribute; under the mutex of the grid.
inline std::map<const void*, int>& shared_limits() {
  static std::map<const void*, int> limits;
  return limits;
}

inline int shared_limit(const void* kernel) {
  const auto found = shared_limits().find(kernel);
  return found == shared_limits().end() ? kSharedBytes : found->second;
}

inline cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

inline cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

inline cudaError_t allocate(void** to, std::size_t bytes) {
  *to = nullptr;
  if (bytes == 0) return cudaSuccess;
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*to == nullptr) return report(cudaErrorMemoryAllocation);
  std::memset(*to, kPoison, bytes);
  return cudaSuccess;
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
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotSupported:
      return "operation not supported";
    default:
      return "unknown error";
  }
}
inline cudaError_t cudaPeekAtLastError() { return cule::shim::last_error(); }
inline cudaError_t cudaGetLastError() {
  return std::exchange(cule::shim::last_error(), cudaSuccess);
}

// ---- device ------------------------------------------------------------------------------------

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  return cule::shim::report(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int device) {
  if (device != 0) return cule::shim::report(cudaErrorInvalidDevice);
  *to = cudaDeviceProp{};
  std::strcpy(to->name, "cule lockstep shim");
  to->totalGlobalMem = cule::shim::kGlobalBytes;
  to->sharedMemPerBlock = cule::shim::kSharedBytes;
  to->sharedMemPerBlockOptin = cule::shim::kSharedOptinBytes;
  to->sharedMemPerMultiprocessor = 228 * 1024;
  to->reservedSharedMemPerBlock = 1024;
  to->regsPerMultiprocessor = 65536;
  to->warpSize = 32;
  to->maxThreadsPerBlock = 1024;
  to->maxThreadsPerMultiProcessor = 2048;
  to->maxBlocksPerMultiProcessor = 32;
  to->multiProcessorCount = 2;
  to->l2CacheSize = 1 << 20;
  to->major = 9;
  to->minor = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp device_is;
  const cudaError_t error = cudaGetDeviceProperties(&device_is, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = device_is.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(device_is.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = device_is.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = device_is.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = device_is.maxThreadsPerMultiProcessor;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = device_is.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device_is.minor;
      return cudaSuccess;
    case cudaDevAttrConcurrentManagedAccess:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(device_is.sharedMemPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = device_is.regsPerMultiprocessor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(device_is.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = device_is.maxBlocksPerMultiProcessor;
      return cudaSuccess;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = static_cast<int>(device_is.reservedSharedMemPerBlock);
      return cudaSuccess;
  }
  return cule::shim::report(cudaErrorInvalidValue);
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = cule::shim::kRuntimeVersion;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = cule::shim::kRuntimeVersion;
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = *total_bytes = cule::shim::kGlobalBytes;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

// ---- streams and events
// --------------------------------------------------------------------------

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

// ---- memory ------------------------------------------------------------------------------------

template <class T>
cudaError_t cudaMalloc(T** to, std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cule::shim::allocate(&memory, bytes);
  *to = static_cast<T*>(memory);
  return error;
}
template <class T>
cudaError_t cudaMallocHost(T** to, std::size_t bytes, unsigned = cudaHostAllocDefault) {
  return cudaMalloc(to, bytes);
}
template <class T>
cudaError_t cudaMallocManaged(T** to, std::size_t bytes, unsigned = 0) {
  return cudaMalloc(to, bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** to, std::size_t bytes, unsigned) {
  return cudaMalloc(to, bytes);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** to, void* host, unsigned) {
  *to = static_cast<T*>(host);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (bytes != 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t = nullptr) {
  return cudaMemset(to, value, bytes);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, std::size_t bytes,
                               std::size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) {
    return cule::shim::report(cudaErrorInvalidValue);
  }
  return cudaMemcpy(reinterpret_cast<unsigned char*>(&symbol) + offset, from, bytes, kind);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** to, const T& symbol) {
  *to = const_cast<T*>(&symbol);
  return cudaSuccess;
}

// ---- kernels -----------------------------------------------------------------------------------

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > cule::shim::kSharedOptinBytes) {
    return cule::shim::report(cudaErrorInvalidValue);
  }
  const std::lock_guard<std::mutex> lock(cule::shim::grid().mutex);
  cule::shim::shared_limits()[reinterpret_cast<const void*>(kernel)] = value;
  return cudaSuccess;
}
// What the compiler would decide is left at plausible figures.
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, Kernel* kernel) {
  *to = cudaFuncAttributes{};
  const std::lock_guard<std::mutex> lock(cule::shim::grid().mutex);
  to->maxThreadsPerBlock = static_cast<int>(cule::shim::kMaxThreads);
  to->numRegs = 64;
  to->ptxVersion = to->binaryVersion = 90;
  to->maxDynamicSharedSizeBytes = cule::shim::shared_limit(reinterpret_cast<const void*>(kernel));
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int threads,
                                                          std::size_t shared_bytes) {
  if (threads < 1) return cule::shim::report(cudaErrorInvalidValue);
  const int by_threads = 2048 / ((threads + 31) / 32 * 32);
  const int by_shared = static_cast<int>(228 * 1024 / (shared_bytes + 1024));
  *blocks = std::min({by_threads, by_shared, 32});
  if (threads > 1024 || shared_bytes > cule::shim::kSharedOptinBytes) *blocks = 0;
  return cudaSuccess;
}

// A module loaded at run time is a shared library that launches its kernel itself, because threads
// of the shim know the grid of the library they were compiled into (loaded_kernel.hpp).
using cudaLibrary_t = void*;
struct CuleLoadedKernel {
  cudaError_t (*launch)(dim3 grid, dim3 block, std::size_t shared_bytes, void** arguments);
};
using cudaKernel_t = const CuleLoadedKernel*;

inline cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, void*, void**,
                                           unsigned, void*, void**, unsigned) {
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return *library == nullptr ? cule::shim::report(cudaErrorInvalidValue) : cudaSuccess;
}
inline cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library,
                                        const char* name) {
  *kernel = static_cast<cudaKernel_t>(dlsym(library, (std::string(name) + "_loaded").c_str()));
  return *kernel == nullptr ? cule::shim::report(cudaErrorInvalidValue) : cudaSuccess;
}
inline cudaError_t cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t) {
  return kernel->launch(grid, block, shared_bytes, arguments);
}

namespace cule::shim {

template <class... Parameters, std::size_t... kIndex>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<kIndex...>) {
  kernel(*static_cast<std::decay_t<Parameters>*>(arguments[kIndex])...);
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
  const std::lock_guard<std::mutex> lock(cule::shim::grid().mutex);
  if (dynamic_shared_bytes >
      static_cast<std::size_t>(cule::shim::shared_limit(reinterpret_cast<const void*>(kernel)))) {
    return cule::shim::report(cudaErrorInvalidValue);
  }
  auto run_thread = [&] {
    cule::shim::call(kernel, arguments, std::index_sequence_for<Parameters...>{});
  };
  ++cule::shim::launches;
  const auto enter = [](void* of) { (*static_cast<decltype(run_thread)*>(of))(); };
  cule::shim::grid().run(grid, block, dynamic_shared_bytes, enter, &run_thread);
  return cudaSuccess;
}
