// cuda/step_fe.cu: the state-update kernel of one cartridge family.
//
// Few games have such cartridges: whatever schedule is asked for, lanes meet at the end of a line.
#include "cuda/describe.hpp"
#include "cuda/step_kernel.hpp"

namespace cule {

cudaError_t launch_step_fe(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                           cudaStream_t stream) {
  return launch_step<FeFetch, Schedule::kLine>(b, tiles, actions, stream);
}

cudaError_t describe_step_fe(KernelResources& out) {
  return describe("step_consoles_kernel<FeFetch, line>",
                  step_consoles_kernel<FeFetch, Schedule::kLine>, out);
}

}  // namespace cule
