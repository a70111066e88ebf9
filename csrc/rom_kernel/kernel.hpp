// rom_kernel/kernel.hpp: what is the same in the kernels of all games.
//
// Compiled once for an architecture, and linked with each game's parts (rom_kernel/program.hpp), or
// with them as one source. A source that includes this has the type cule::Group, how lanes vote.
#pragma once

#include "cuda/step_kernel.hpp"
#include "rom_kernel/limits.hpp"
#include "rom_kernel/program.hpp"

namespace cule {

static_assert(kPartRegisters == 65536 / (kStepBlocks * kMaxStepWarps * kWarpLanes) / 8 * 8,
              "registers of the parts and of the kernel");

CULE_HD u32 read_device(LaneMachine& m, Clock clock, u32 address, u32 open_bus) {
  return m.read_device(clock, address, open_bus);
}
CULE_HD u32 read_tia(LaneMachine& m, Clock clock, u32 address, u32 open_bus) {
  return m.read_tia(clock, address, open_bus);
}
CULE_HD Clock write_device(LaneMachine& m, Clock clock, u32 address, u32 value) {
  return m.write_device(clock, address, value, false);
}
CULE_HD Clock write_tia_slow(LaneMachine& m, Clock clock, u32 reg, u32 value, bool follows_write) {
  return m.write_tia_slow(clock, reg, value, follows_write);
}
CULE_HD Clock step_slowly(LaneMachine& m, Clock clock) { return step_slowly<TeamAccess>(m, clock); }
CULE_HD void render_logs(LaneMachine& m, bool asks) {
  m.renderer.let_ask(true);
  if (asks || !m.renderer.team.has_helpers) {
    m.render();
  } else {
    serve(m.renderer.team, m.console, kNothing);
  }
  m.renderer.let_ask(false);
}

}  // namespace cule

// The parts of a game.
extern "C" __device__ void cule_run_program(cule::LaneMachine& m, const cule::Group& lanes);

namespace cule {

// As LaneEngine calls them.
struct LinkedProgram {
  using Access = TeamAccess;

  __device__ void run(LaneMachine& m, const Group& lanes) const {
    cule_run_program(m, lanes);
    m.renderer.let_ask(true);
  }
};

}  // namespace cule

extern "C" __global__ void __launch_bounds__(cule::kMaxStepWarps* cule::kWarpLanes,
                                             cule::kStepBlocks)
    cule_step(const cule::DeviceBatch b, const cule::Tile* tiles, cule::u32 num_tiles,
              const cule::StepActions actions) {
  cule::step_consoles<cule::LinkedProgram, cule::Group, cule::kMostServed>({}, b, tiles, num_tiles,
                                                                           actions);
}
