// cuda/on_demand.hpp: device memory whose pages are allocated when a kernel first writes to them.
//
// This is managed memory: a page is allocated on the device that touches it, and on the host if the
// device is full. Devices without concurrent managed access (Windows, some virtual machines)
// allocate all of it at once. Used on request only (docs/gpu_memory.md, spill memory).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace cule {

class OnDemandMemory {
 public:
  OnDemandMemory() = default;
  OnDemandMemory(OnDemandMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  OnDemandMemory& operator=(OnDemandMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  // Waits for the kernels that use it.
  ~OnDemandMemory() {
    if (data_ != nullptr) cudaFree(data_);
  }

  // Of the current device.
  static cudaError_t is_supported(bool& supported_out) {
    int device = 0;
    int value = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
      error = cudaDeviceGetAttribute(&value, cudaDevAttrConcurrentManagedAccess, device);
    supported_out = value != 0;
    return error;
  }
  cudaError_t allocate(size_t bytes) { return cudaMallocManaged(&data_, bytes); }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace cule
