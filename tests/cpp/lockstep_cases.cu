// tests/cpp/lockstep_cases.cu: kernels that try the lockstep shim (tests/shim), valid CUDA all of
// them as far as a compiler can see. run_case(name) runs one: right cases compare with plain loops,
// wrong ones break a rule that the shim must notice.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if !defined(__CUDACC__)
#include "cuda/launch.hpp"
#else
__device__ unsigned char* cule_dynamic_shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return bytes;
}
#endif

constexpr unsigned kAll = 0xffffffffu;

// ---- right -------------------------------------------------------------------------------------

__global__ void vote_kernel(const unsigned* in, unsigned mask, unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  if ((mask >> lane & 1) == 0) return;
  out[3 * threadIdx.x] = __ballot_sync(mask, static_cast<int>(in[threadIdx.x]));
  out[3 * threadIdx.x + 1] = static_cast<unsigned>(__any_sync(mask, in[threadIdx.x] == 7));
  out[3 * threadIdx.x + 2] = __reduce_min_sync(mask, in[threadIdx.x]);
}

// Lane i reads from lane i + distance of a warp: 4 bytes, then 8.
__global__ void shuffle_kernel(const unsigned* in, int distance, unsigned long long* out) {
  const unsigned x = in[threadIdx.x];
  const int source = static_cast<int>(threadIdx.x) + distance;
  out[2 * threadIdx.x] = __shfl_sync(kAll, x, source);
  out[2 * threadIdx.x + 1] = __shfl_sync(kAll, 0x100000001ull * x + 1, source);
}

__global__ void atomic_kernel(unsigned* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ unsigned total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, i);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&out[0], total);
  atomicOr(&out[1], 1u << i % 32);
}

// Static and dynamic shared memory, first as it is found, then turned round.
__global__ void shared_kernel(unsigned* found, unsigned* out) {
  __shared__ unsigned fixed[96];
  unsigned* sized = reinterpret_cast<unsigned*>(cule_dynamic_shared());
  const unsigned i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  found[2 * (block * threads + i)] = fixed[i];
  found[2 * (block * threads + i) + 1] = sized[i];
  __syncthreads();
  fixed[i] = i;
  sized[i] = 1000 * block;
  __syncthreads();
  out[block * threads + i] = fixed[threads - 1 - i] + sized[threads - 1 - i];
}

// Half warps that go different ways, pairs that meet more often than others, and all again.
__global__ void divergent_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x;
  const unsigned pair = 3u << (lane & ~1u);
  unsigned got;
  if (lane % 2 == 0) {
    got = __ballot_sync(0x55555555u, lane >= 16);
    if (lane < 8) got += __reduce_min_sync(0x55u, lane + 1);
  } else {
    got = __ballot_sync(0xaaaaaaaau, lane < 16);
  }
  for (unsigned i = 0; i < lane / 2; ++i) got += __reduce_min_sync(pair, got);
  __syncwarp();
  out[lane] = got + __ballot_sync(kAll, 1);
}

__global__ void barrier_kernel(unsigned* out) {
  __shared__ unsigned arrived;
  if (threadIdx.x % 5 == 4) return;
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  atomicAdd(&arrived, 1u);
  __syncthreads();
  out[threadIdx.x] = arrived;
}

__global__ void ticket_kernel(unsigned* count, unsigned* out) {
  __syncthreads();
  out[atomicAdd(count, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
}

// ---- wrong -------------------------------------------------------------------------------------

__global__ void wrong_kernel(int which, unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  switch (which) {
    case 0:  // a lane that its own mask does not name
      __syncwarp(2u);
      break;
    case 1:  // a lane that is gone, and before the others came
      if (lane != 0) out[lane] = __ballot_sync(kAll, 1);
      break;
    case 2:  // a lane that goes when the others wait
      if (lane != 9) out[lane] = __ballot_sync(kAll, 1);
      break;
    case 3:  // two intrinsics
      if (lane < 16) {
        out[lane] = __ballot_sync(kAll, 1);
      } else {
        out[lane] = static_cast<unsigned>(__any_sync(kAll, 1));
      }
      break;
    case 4:  // two places
      if (lane < 16) {
        __syncwarp();
      } else {
        __syncwarp();
      }
      break;
    case 5:  // the last lane waits for one less
      if (lane < 3) __syncwarp(lane == 2 ? 6u : 7u);
      break;
    case 6:  // lane 0 waits for lane 1 and so on, in a ring
      if (lane < 3) __syncwarp(1u << lane | 1u << (lane + 1) % 3);
      break;
    case 7:  // two barriers
      if (warp == 0) {
        __syncthreads();
      } else {
        __syncthreads();
      }
      break;
    case 8:  // half a warp in a barrier, the other half waits for it
      if (lane < 16) {
        __syncthreads();
      } else {
        __syncwarp();
      }
      break;
    case 9:  // one byte too far
      cule_dynamic_shared()[100] = 1;
      break;
    case 10:
      cule_dynamic_shared()[-1] = 1;
      break;
    case 11:  // mutual waiting at two places that never completes
      if (lane == 0) __syncwarp(7u);
      if (lane == 1) __syncwarp(11u);
      if (lane == 2 || lane == 3) __syncthreads();
      break;
    case 12:  // the first lane waits for one less, which shows when no thread can run
      if (lane < 3) __syncwarp(lane == 0 ? 3u : 7u);
      break;
    case 13:  // lanes of the mask read from one that it does not name
      if (lane < 8) out[lane] = __shfl_sync(0xffu, lane, 8);
      break;
    default:
#if !defined(__CUDACC__)
      throw std::range_error("thrown by a kernel");
#endif
      break;
  }
}

#if !defined(__CUDACC__)

namespace {

void check(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error("wrong result: " + what);
}

template <class... Arguments>
void launch(Arguments... arguments) {
  check(cule::launch_kernel(arguments...) == cudaSuccess, "launch_kernel");
}

// Numbers with all kinds of bits, the same in every run.
std::vector<unsigned> numbers(std::size_t count, unsigned below = 0) {
  std::vector<unsigned> all(count);
  unsigned x = 12345;
  for (unsigned& value : all) {
    x = x * 1664525u + 1013904223u;
    value = below == 0 ? x ^ x >> 15 : (x >> 16) % below;
  }
  return all;
}

void run_votes() {
  for (const unsigned below : {1u, 8u, 9u, 10u}) {
    for (const unsigned mask : {kAll, 0x00ff00f1u, 1u << 31}) {
      const std::vector<unsigned> in = numbers(64, below);
      std::vector<unsigned> out(3 * 64, 77);
      launch(vote_kernel, 1, 64, 0, nullptr, in.data(), mask, out.data());
      for (unsigned i = 0; i < 64; ++i) {
        unsigned ballot = 0, any = 0, least = kAll;
        for (unsigned j = 0; j < 32; ++j) {
          const unsigned x = in[i / 32 * 32 + j];
          if ((mask >> j & 1) == 0) continue;
          ballot |= (x != 0 ? 1u : 0u) << j;
          any |= x == 7;
          least = std::min(least, x);
        }
        const bool is_named = (mask >> i % 32 & 1) != 0;
        const unsigned want[3] = {ballot, any, least};
        for (unsigned k = 0; k < 3; ++k) {
          check(out[3 * i + k] == (is_named ? want[k] : 77), "vote " + std::to_string(k));
        }
      }
    }
  }
}

void run_shuffles() {
  const std::vector<unsigned> in = numbers(64);
  for (const int distance : {0, 5, 31, 77, -1}) {
    std::vector<unsigned long long> out(2 * 64);
    launch(shuffle_kernel, 1, 64, 0, nullptr, in.data(), distance, out.data());
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned lane = (i + static_cast<unsigned>(distance)) % 32;
      const unsigned x = in[i / 32 * 32 + lane];
      check(out[2 * i] == x && out[2 * i + 1] == 0x100000001ull * x + 1, "shuffle");
    }
  }
}

void run_atomics() {
  unsigned out[2] = {};
  launch(atomic_kernel, 3, 70, 0, nullptr, out);
  check(out[0] == 210 * 209 / 2 && out[1] == kAll, "atomics");
}

void run_shared_memory() {
  std::vector<unsigned> found(2 * 12 * 84), out(12 * 84);
  launch(shared_kernel, dim3(3, 2, 2), dim3(7, 4, 3), 84 * sizeof(unsigned), nullptr, found.data(),
         out.data());
  for (unsigned i = 0; i < 12 * 84; ++i) {
    check(out[i] == 83 - i % 84 + 1000 * (i / 84), "shared memory");
    check(found[2 * i] == 0xCDCDCDCD && found[2 * i + 1] == 0xCDCDCDCD, "garbage at the start");
  }
}

void run_partial_warps() {
  for (const unsigned threads : {1u, 50u, 97u}) {
    const std::vector<unsigned> in(threads, 7);
    std::vector<unsigned> out(3 * threads);
    const unsigned mask = (1u << threads % 32) - 1;
    launch(vote_kernel, 1, threads, 0, nullptr, in.data(), mask, out.data());
    for (unsigned i = 0; i < threads; ++i) {
      check(out[3 * i] == (i % 32 < threads % 32 ? mask : 0), "partial warp");
    }
  }
}

void run_divergent() {
  unsigned out[32], want[32];
  launch(divergent_kernel, 1, 32, 0, nullptr, out);
  for (unsigned i = 0; i < 32; i += 2) {
    want[i] = 0x55550000u + (i < 8 ? 1 : 0);
    want[i + 1] = 0x0000aaaau;
    for (unsigned k = 0; k < i / 2; ++k) {
      const unsigned least = std::min(want[i], want[i + 1]);
      want[i] += least;
      want[i + 1] += least;
    }
  }
  for (unsigned i = 0; i < 32; ++i) check(out[i] == want[i] + kAll, "divergent masks");
}

void run_barriers() {
  std::vector<unsigned> out(100, 77);
  launch(barrier_kernel, 1, 100, 0, nullptr, out.data());
  for (unsigned i = 0; i < 100; ++i) check(out[i] == (i % 5 == 4 ? 77 : 80), "barrier");
}

void run_order() {
  unsigned count = 0;
  std::vector<unsigned> out(3 * 40);
  launch(ticket_kernel, 3, 40, 0, nullptr, &count, out.data());
  for (const unsigned thread : out) std::printf("%u ", thread);
}

void run_counters() {
  std::vector<unsigned> in(64), out(6 * 64);
  launch(vote_kernel, 2, 64, 0, nullptr, in.data(), 0xffffu, out.data());
  const cule::shim::Counters counted = cule_shim_counters();
  check(counted.blocks == 2 && counted.threads == 128, "blocks and threads");
  check(counted.warp_syncs == 12 && counted.lane_waits == 12 * 16, "warp_syncs");
  launch(barrier_kernel, 3, 10, 0, nullptr, out.data());
  check(cule_shim_counters().block_syncs == 6 && cule_shim_counters().warp_syncs == 0, "barriers");
}

void run_host_api() {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, 400, cudaHostAllocMapped) == cudaSuccess, "cudaHostAlloc");
  check(static_cast<unsigned*>(memory)[99] == 0xCDCDCDCD, "garbage at the start");
  void* in_kernels = nullptr;
  check(cudaHostGetDevicePointer(&in_kernels, memory, 0) == cudaSuccess && in_kernels == memory,
        "cudaHostGetDevicePointer");
  check(cudaFreeHost(memory) == cudaSuccess, "cudaFreeHost");
  unsigned out[96], found[192];
  check(cule::launch_kernel(shared_kernel, 1, 1025, 0, nullptr, found, out) ==
            cudaErrorInvalidConfiguration,
        "too many threads");
  check(cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess,
        "cudaGetLastError");
  check(cule::launch_kernel(shared_kernel, 1, 96, 100000, nullptr, found, out) ==
            cudaErrorInvalidValue,
        "too much shared memory");
}

void run_wrong(int which, unsigned threads) {
  std::vector<unsigned> out(threads);
  launch(wrong_kernel, 1, threads, 100, nullptr, which, out.data());
}

// A launch that failed leaves nothing behind for the next.
void run_after_failure() {
  for (int which = 0; which < 15; ++which) {
    bool has_thrown = false;
    try {
      run_wrong(which, 64);
    } catch (const std::runtime_error&) {
      has_thrown = true;
    }
    check(has_thrown, "wrong case " + std::to_string(which));
    run_divergent();
    run_barriers();
  }
}

void run_two_host_threads() {
  const auto work = [] {
    for (int i = 0; i < 20; ++i) run_atomics();
  };
  std::thread other(work);
  work();
  other.join();
}

using Case = void (*)();

const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all = {
      {"votes", run_votes},
      {"shuffles", run_shuffles},
      {"atomics", run_atomics},
      {"shared_memory", run_shared_memory},
      {"partial_warps", run_partial_warps},
      {"divergent", run_divergent},
      {"barriers", run_barriers},
      {"order", run_order},
      {"counters", run_counters},
      {"host_api", run_host_api},
      {"after_failure", run_after_failure},
      {"two_host_threads", run_two_host_threads},
      {"wrong_mask_without_self", [] { run_wrong(0, 32); }},
      {"wrong_lane_is_gone", [] { run_wrong(1, 32); }},
      {"wrong_lane_goes", [] { run_wrong(2, 32); }},
      {"wrong_lane_never_was", [] { run_wrong(3, 20); }},
      {"wrong_intrinsic", [] { run_wrong(3, 32); }},
      {"wrong_place", [] { run_wrong(4, 32); }},
      {"wrong_masks_differ", [] { run_wrong(5, 32); }},
      {"wrong_ring", [] { run_wrong(6, 32); }},
      {"wrong_barriers", [] { run_wrong(7, 64); }},
      {"wrong_half_in_barrier", [] { run_wrong(8, 64); }},
      {"wrong_above_shared", [] { run_wrong(9, 32); }},
      {"wrong_below_shared", [] { run_wrong(10, 32); }},
      {"wrong_stuck_pair", [] { run_wrong(11, 32); }},
      {"wrong_stuck_masks", [] { run_wrong(12, 32); }},
      {"wrong_shuffle", [] { run_wrong(13, 32); }},
      {"wrong_throw", [] { run_wrong(14, 32); }},
  };
  return all;
}

}  // namespace

// 0: ran to its end; 1: the shim ended a launch; 2: a result was wrong. The message is printed.
extern "C" __attribute__((visibility("default"))) int run_case(const char* name) {
  try {
    cases().at(name)();
    return 0;
  } catch (const std::runtime_error& error) {
    std::printf("%s\n", error.what());
    return 1;
  } catch (const std::logic_error& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
}

// Runs the case that is named, or lists all.
int main(int count, char** arguments) {
  if (count == 2) return run_case(arguments[1]);
  for (const auto& named : cases()) std::printf("%s\n", named.first.c_str());
  return 0;
}

#endif
