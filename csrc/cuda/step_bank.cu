// cuda/step_bank.cu: the state-update kernel of most cartridges, with every schedule.
#include "cuda/describe.hpp"
#include "cuda/step_kernel.hpp"

namespace cule {

cudaError_t launch_step_bank(const DeviceBatch& b, const TileList& tiles,
                             const StepActions& actions, cudaStream_t stream) {
  switch (tiles.schedule) {
    case Schedule::kInstruction:
      return launch_step<BankFetch, Schedule::kInstruction>(b, tiles, actions, stream);
    case Schedule::kBlock:
      return launch_step<BankFetch, Schedule::kBlock>(b, tiles, actions, stream);
    case Schedule::kBranchFree:
      return launch_step<BankFetch, Schedule::kBranchFree>(b, tiles, actions, stream);
    default:
      return launch_step<BankFetch, Schedule::kLine>(b, tiles, actions, stream);
  }
}

cudaError_t describe_step_bank(KernelResources& out) {
  return describe("step_consoles_kernel<BankFetch, line>",
                  step_consoles_kernel<BankFetch, Schedule::kLine>, out);
}
cudaError_t describe_step_bank_instruction(KernelResources& out) {
  return describe("step_consoles_kernel<BankFetch, instruction>",
                  step_consoles_kernel<BankFetch, Schedule::kInstruction>, out);
}
cudaError_t describe_step_bank_block(KernelResources& out) {
  return describe("step_consoles_kernel<BankFetch, block>",
                  step_consoles_kernel<BankFetch, Schedule::kBlock>, out);
}
cudaError_t describe_step_bank_branch_free(KernelResources& out) {
  return describe("step_consoles_kernel<BankFetch, branch_free>",
                  step_consoles_kernel<BankFetch, Schedule::kBranchFree>, out);
}

}  // namespace cule
