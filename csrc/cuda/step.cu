// cuda/step.cu: the interpreter as a kernel for each cartridge family, and one for several players.
//
// Games for several players are all of one family (bindings/bind_cuda.cpp refuses others).
#include "cuda/interpreter_kernel.hpp"
#include "cuda/launch.hpp"
#include "cuda/step_launch.hpp"

namespace cule {
namespace {

template <class Fetch, u32 kPlayers>
__global__ void __launch_bounds__(kMaxStepWarps* kWarpLanes, kStepBlocks)
    step_consoles_kernel(const DeviceBatch b, const Tile* tiles, u32 num_tiles,
                         const StepActions actions) {
  interpret<Fetch, kPlayers>(b, tiles, num_tiles, actions);
}

struct StepKernel {
  const char* name;
  void (*kernel)(DeviceBatch, const Tile*, u32, StepActions);
};

StepKernel kernel_of(Family family, u32 num_players) {
  if (num_players > 1)
    return {"step_consoles_kernel<BankFetch, 4>", step_consoles_kernel<BankFetch, kMaxPlayers>};
  switch (family) {
    case kE0Family:
      return {"step_consoles_kernel<E0Fetch, 1>", step_consoles_kernel<E0Fetch, 1>};
    case kFeFamily:
      return {"step_consoles_kernel<FeFetch, 1>", step_consoles_kernel<FeFetch, 1>};
    default:
      return {"step_consoles_kernel<BankFetch, 1>", step_consoles_kernel<BankFetch, 1>};
  }
}

}  // namespace

cudaError_t launch_step(Family family, const DeviceBatch& b, const TileList& tiles,
                        const StepActions& actions, cudaStream_t stream) {
  const StepGeometry g = step_geometry(b, tiles, kMostInterpreted, sizeof(LaneOpcodes));
  return launch_kernel(kernel_of(family, b.num_players).kernel, dim3(g.blocks), dim3(g.threads),
                       g.shared_bytes, stream, b, tiles.tiles, tiles.size, actions);
}

cudaError_t describe_step(Family family, u32 num_players, KernelResources& out) {
  const StepKernel k = kernel_of(family, num_players);
  return describe(k.name, k.kernel, out);
}

}  // namespace cule
