// console/sprites.hpp: players, missiles and ball in the frame that was emulated last.
//
// Read from the log of the last frame step, before anything else is done with the console. A frame
// that is kept as pixels, because it ended before its picture did, takes several frame steps or
// more accesses than a log holds, gives what its last log drew.
#pragma once

#include "console/picture.hpp"
#include "tia/sprites.hpp"

namespace cule {

// rows: i16 [num_rows][kSpriteColumns]. memory: scratch.
CULE_HD inline void write_sprites(const Console& c, SpriteMemory& memory, u32 num_rows, i16* rows) {
  const TiaWriteLog& log = c.memory.log(c.s.picture.recording_slot);
  SpriteSink sink(memory, rows, num_rows, log.first_line, c.properties.height);
  render_log(c, log, log.start, sink);
  sink.finish();
}

}  // namespace cule
