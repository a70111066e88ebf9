// cuda/step.cu: the interpreter as a kernel for each cartridge family.
#include "cuda/interpreter_kernel.hpp"
#include "cuda/launch.hpp"
#include "cuda/step_launch.hpp"

namespace cule {
namespace {

template <class Fetch>
__global__ void __launch_bounds__(kMaxStepWarps* kWarpLanes, kStepBlocks)
    step_consoles_kernel(const DeviceBatch b, const Tile* tiles, u32 num_tiles,
                         const StepActions actions) {
  interpret<Fetch, LaneAction>(b, tiles, num_tiles, actions);
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
  if (b.num_players > 1) return launch_step_players(b, tiles, actions, stream);
  const StepGeometry g = step_geometry(b, tiles, kMostInterpreted, sizeof(LaneOpcodes));
  return launch_kernel(kernel_of(family).kernel, dim3(g.blocks), dim3(g.threads), g.shared_bytes,
                       stream, b, tiles.tiles, tiles.size, actions);
}

cudaError_t describe_step(Family family, KernelResources& out) {
  const StepKernel k = kernel_of(family);
  return describe(k.name, k.kernel, out);
}

}  // namespace cule
