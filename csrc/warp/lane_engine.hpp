// warp/lane_engine.hpp: frame steps of consoles that run in the lanes of one warp.
//
// Lanes is the policy for the lanes that take part. All lanes of the group call these together:
//   ballot(bool)  mask of the lanes that pass true
//   any(bool)     whether a lane passes true
//   lowest(u32)   the least number passed
//   sync()        waits for all lanes
// and each lane on its own:
//   all()         what ballot() returns when every lane passes true
//   only(mask)    the group of those lanes
//   note_instruction(bool is_slow)  called for every instruction; tests count with it
#pragma once

#include "warp/lane_access.hpp"

namespace cule {

// Runs frame steps in a lane, in step with the other lanes (Engine of BasicAle). Program executes
// the instructions on the machine of Program::Access: Interpreter (warp/interpreter.hpp), or a
// ROM's own (rom_kernel/kernel.hpp).
template <class Program, class Lanes>
struct LaneEngine {
  using Access = typename Program::Access;

  InterleavedRam working_ram;
  bool has_helpers;
  u32 scan_memory;  // RenderTeam::memory
  Program program;
  Lanes all;        // lanes that step
  Lanes emulating;  // lanes that emulate the running frame

  CULE_HD InterleavedRam ram(ConsoleState&) const { return working_ram; }

  CULE_HD bool align(bool is_running, bool emulates) {
    emulating = all.only(all.ballot(emulates));
    return all.any(is_running);
  }

  CULE_HD RenderTeam render_team() const {
    const u32 callers = all.all();
    const bool is_lone = (callers & (callers - 1)) == 0;
    if (!has_helpers) return {is_lone ? kNeverAsks : kEntriesForAll, false, is_lone, scan_memory};
    if (emulating.all() != callers) return {kNeverAsks, false, true, scan_memory};
    return {is_lone ? kEntriesForTeam : kEntriesForTeamOfSeveral, true, is_lone, scan_memory};
  }

  CULE_HD void run(Machine<Access>& m) const {
    working_ram.load(m.s.ram);
    program.run(m, emulating);
    working_ram.store(m.s.ram);
  }
};

}  // namespace cule
