// cuda/interpreter_kernel.hpp: the body of a state-update kernel that interprets the programs.
//
// In shared memory, after what each warp needs: the table of opcodes.
#pragma once

#include "cuda/step_kernel.hpp"
#include "warp/interpreter.hpp"

namespace cule {

// Lanes of the interpreter render their own logs.
constexpr u32 kMostInterpreted = 0;

template <class Fetch, u32 kPlayers>
__device__ CULE_INLINE void interpret(const DeviceBatch& b, const Tile* tiles, u32 num_tiles,
                                      const StepActions& actions) {
  const u32 warps = blockDim.x / kWarpLanes;
  auto* opcodes = reinterpret_cast<LaneOpcode*>(dynamic_shared() +
                                                warps * warp_shared_bytes(b, kMostInterpreted));
  for (u32 k = threadIdx.x; k < kNumOpcodes; k += blockDim.x) opcodes[k] = b.opcodes[k];
  __syncthreads();
  step_consoles<Interpreter<Fetch>, LaneGroup, kMostInterpreted, kPlayers>({opcodes}, b, tiles,
                                                                           num_tiles, actions);
}

}  // namespace cule
