// cuda/step.cu: the interpreter as a kernel for each cartridge family.
#include "cuda/launch.hpp"
#include "cuda/step_kernel.hpp"
#include "cuda/step_launch.hpp"
#include "warp/interpreter.hpp"

namespace cule {
namespace {

// Lanes of the interpreter do not meet to render.
constexpr u32 kMost = 1;

template <class Fetch, class Agents>
__device__ CULE_INLINE void interpret(const DeviceBatch& b, const Tile* tiles, u32 num_tiles,
                                      const StepActions& actions) {
  const u32 warps = blockDim.x / kWarpLanes;
  auto* opcodes =
      reinterpret_cast<LaneOpcode*>(dynamic_shared() + warps * warp_shared_bytes(b, kMost));
  for (u32 k = threadIdx.x; k < kNumOpcodes; k += blockDim.x) opcodes[k] = b.opcodes[k];
  __syncthreads();
  step_consoles<Interpreter<Fetch>, LaneGroup, kMost, Agents>({opcodes}, b, tiles, num_tiles,
                                                              actions);
}

template <class Fetch>
__global__ void __launch_bounds__(kMaxStepWarps* kWarpLanes, kStepBlocks)
    step_consoles_kernel(const DeviceBatch b, const Tile* tiles, u32 num_tiles,
                         const StepActions actions) {
  interpret<Fetch, OnePlayer>(b, tiles, num_tiles, actions);
}

// The games for several players are all of one cartridge family.
__global__ void __launch_bounds__(kMaxStepWarps* kWarpLanes, kStepBlocks)
    step_players_kernel(const DeviceBatch b, const Tile* tiles, u32 num_tiles,
                        const StepActions actions) {
  interpret<BankFetch, SeveralPlayers>(b, tiles, num_tiles, actions);
}

struct StepKernel {
  const char* name;
  void (*kernel)(DeviceBatch, const Tile*, u32, StepActions);
};

StepKernel kernel_of(Family family) {
  switch (family) {
    case kE0Family:
      return {"step_consoles_kernel<E0Fetch>", step_consoles_kernel<E0Fetch>};
    case kFeFamily:
      return {"step_consoles_kernel<FeFetch>", step_consoles_kernel<FeFetch>};
    default:
      return {"step_consoles_kernel<BankFetch>", step_consoles_kernel<BankFetch>};
  }
}

}  // namespace

cudaError_t launch_step(Family family, const DeviceBatch& b, const TileList& tiles,
                        const StepActions& actions, cudaStream_t stream) {
  const StepGeometry g = step_geometry(b, tiles, kMost, sizeof(LaneOpcodes));
  const auto kernel = b.num_players > 1 ? step_players_kernel : kernel_of(family).kernel;
  return launch_kernel(kernel, dim3(g.blocks), dim3(g.threads), g.shared_bytes, stream, b,
                       tiles.tiles, tiles.size, actions);
}

cudaError_t describe_step_players(KernelResources& out) {
  return describe("step_players_kernel", step_players_kernel, out);
}

cudaError_t describe_step(Family family, KernelResources& out) {
  const StepKernel k = kernel_of(family);
  return describe(k.name, k.kernel, out);
}

}  // namespace cule
