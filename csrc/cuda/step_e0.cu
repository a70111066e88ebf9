// cuda/step_e0.cu: the state-update kernel of one cartridge family.
//
// Few games have such cartridges: whatever schedule is asked for, lanes meet at the end of a line.
#include "cuda/describe.hpp"
#include "cuda/step_kernel.hpp"

namespace cule {

cudaError_t launch_step_e0(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                           cudaStream_t stream) {
  return launch_step<E0Fetch, Schedule::kLine>(b, tiles, actions, stream);
}

cudaError_t describe_step_e0(KernelResources& out) {
  return describe("step_consoles_kernel<E0Fetch, line>",
                  step_consoles_kernel<E0Fetch, Schedule::kLine>, out);
}

}  // namespace cule
