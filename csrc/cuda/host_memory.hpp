// cuda/host_memory.hpp: memory of the host that kernels of the current device read and write.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace cule {

class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  // Waits for the kernels that use it.
  ~HostMemory() {
    if (data_ == nullptr) return;
    cudaDeviceSynchronize();
    cudaFreeHost(data_);
  }

  cudaError_t allocate(size_t bytes) { return cudaHostAlloc(&data_, bytes, cudaHostAllocMapped); }
  // Where kernels see it.
  cudaError_t find_address(void*& address_out) const {
    return cudaHostGetDevicePointer(&address_out, data_, 0);
  }

 private:
  void* data_ = nullptr;
};

}  // namespace cule
