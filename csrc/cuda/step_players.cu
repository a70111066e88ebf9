// cuda/step_players.cu: the interpreter as a kernel for environments of several players.
//
// Their games are all of one cartridge family (bindings/bind_cuda.cpp refuses others).
#include "cuda/interpreter_kernel.hpp"
#include "cuda/launch.hpp"
#include "cuda/step_launch.hpp"

namespace cule {
namespace {

__global__ void __launch_bounds__(kMaxStepWarps* kWarpLanes, kStepBlocks)
    step_players_kernel(const DeviceBatch b, const Tile* tiles, u32 num_tiles,
                        const StepActions actions) {
  interpret<BankFetch, LanePlayersAction>(b, tiles, num_tiles, actions);
}

}  // namespace

cudaError_t launch_step_players(const DeviceBatch& b, const TileList& tiles,
                                const StepActions& actions, cudaStream_t stream) {
  const StepGeometry g = step_geometry(b, tiles, kMostInterpreted, sizeof(LaneOpcodes));
  return launch_kernel(step_players_kernel, dim3(g.blocks), dim3(g.threads), g.shared_bytes, stream,
                       b, tiles.tiles, tiles.size, actions);
}

cudaError_t describe_step_players(KernelResources& out) {
  return describe("step_players_kernel", step_players_kernel, out);
}

}  // namespace cule
