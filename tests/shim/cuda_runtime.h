// tests/shim/cuda_runtime.h: replaces the CUDA runtime, so that g++ compiles kernels and runs them
// on the CPU, thread by thread, with the rules of a warp checked.
//
//   g++ -std=c++17 -x c++ -Itests/shim -Icsrc -include cuda_runtime.h kernel.cu
//
// grid.hpp says how threads run and what ends a launch, intrinsics.hpp and host_api.hpp hold the
// names. CULE_SHIM_ORDER=forward|reverse|random:<seed> in the environment chooses the order of
// threads.
// __CUDACC__ stays undefined: the core is compiled as for the host. There is no <<<>>>:
// cudaLaunchKernel() launches kernels, and returns when the grid is done.
#pragma once

// These use words in attributes that become macros below.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "grid.hpp"
#include "host_api.hpp"
#include "intrinsics.hpp"
#include "vector_types.hpp"

#define __host__
#define __device__
#define __global__
#define __constant__
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

// Static shared memory: blocks run one after the other, so one copy is enough. All of it is in a
// section of its own, which is filled with garbage before every block. gcc refuses to put variables
// of inline and of other functions into one section, but what follows the name here is a comment to
// the assembler and makes the names differ to the compiler. In templates gcc 12 ignores the
// section: there a variable keeps what the last block left. A plain function that holds the
// variable and returns a reference is filled everywhere.
#define CULE_SHIM_TEXT_OF(x) #x
#define CULE_SHIM_TEXT(x) CULE_SHIM_TEXT_OF(x)
#if defined(__clang__)
#define __shared__ static __attribute__((section("cule_shared")))
#elif defined(__aarch64__)
#define __shared__ \
  static __attribute__((section("cule_shared,\"aw\" // " CULE_SHIM_TEXT(__COUNTER__))))
#else
#define __shared__ \
  static __attribute__((section("cule_shared,\"aw\" # " CULE_SHIM_TEXT(__COUNTER__))))
#endif

inline constexpr const uint3& threadIdx = cule::shim::thread_index;
inline constexpr const uint3& blockIdx = cule::shim::block_index;
inline constexpr const dim3& blockDim = cule::shim::block_size;
inline constexpr const dim3& gridDim = cule::shim::grid_size;
inline constexpr int warpSize = 32;

// Dynamic shared memory of the running block, as many bytes as its launch asked for.
inline unsigned char* cule_dynamic_shared() { return cule::shim::grid().dynamic_shared(); }

// Counters of the launch that ran last.
inline const cule::shim::Counters& cule_shim_counters() { return cule::shim::grid().last(); }
