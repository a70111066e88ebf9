// console/state.hpp: the whole state of one console, flat, without pointers.
//
// Copying a ConsoleState (and, for frames that ended before the picture did, its pictures) is save,
// restore, clone and cache. Units: *_cycle and cycles count CPU cycles since the running frame was
// started (rebased at every frame start, cpu/NOTES.md 5.1); frame clocks as in tia/clocks.hpp.
#pragma once

#include "base/random.hpp"
#include "cart/cartridge.hpp"
#include "console/ram.hpp"
#include "cpu/registers.hpp"
#include "riot/timer.hpp"
#include "tia/line_cache.hpp"
#include "tia/paint.hpp"

namespace cule {

constexpr u32 kMaxInstructions = 25000;  // per frame step; then the frame goes on in the next step

// What is plugged in and how the picture is cut out: constant for a ROM.
struct ConsoleProperties {
  Format format;
  u8 hmove_blanks;
  u8 left_paddles;
  u8 right_paddles;
  u8 swap_ports;
  u8 swap_paddles;
  u8 reserved[2];
  u32 first_line;
  u32 height;
};

constexpr i32 kNoPaddle = -1;  // resistance of a joystick port: never charges

// Pins and switches as the program can read them; set before every frame.
struct Inputs {
  u8 swcha;  // active low
  u8 swchb;
  u8 fire[2];         // INPT4, INPT5: $80 not pressed, 0 pressed
  i32 resistance[4];  // INPT0-INPT3; 0 reads charged, kNoPaddle never
};

// A picture is kept as pixels only where it must be; a completely drawn frame is kept as its log.
// kBorrowed: pixels that are not the console's own, to be copied before they are drawn over.
enum class PictureKind : u8 { kBlank, kPixels, kLog, kBorrowed };

struct PictureState {
  PictureKind kind[2];  // of the two frame buffers
  u8 log_slot[2];       // for kLog
  u8 current;           // buffer of the running or last frame
  u8 recording_slot;    // log of the running or last frame step
  u8 is_painted;        // the running frame is being drawn into pixels part by part
  u8 is_dimmed;         // the running unfinished frame has been dimmed
};

struct ConsoleState {
  u8 ram[kRamBytes];
  Registers cpu;
  Timer timer;
  u8 swacnt;         // written value, read back only
  u8 data_bus;       // last byte transferred, where the next read can see it
  u8 vblank;         // last VBLANK write: bit 7 is the paddle dump
  u8 is_unfinished;  // the last frame step ended without an end of frame
  u32 cycles;
  u32 phase_cycles;        // how far into a line the frame began, 0..75
  i32 vsync_finish_clock;  // a VSYNC release counts from here; cycles * 3 units
  i32 dump_cycle;          // when the paddle dump ended
  u32 last_frame_lines;
  u32 first_line;  // line shown in row 0 of the running frame
  TiaState tia;    // as of the last replay
  Beam beam;
  PictureState picture;
  Inputs inputs;
  CartState cart;
};

static_assert(std::is_trivially_copyable_v<ConsoleState>);

CULE_HD CULE_INLINE u32 current_line(const ConsoleState& s) {
  return (s.cycles + s.phase_cycles) / kCyclesPerLine;
}

// The recorded log of one frame step and where its replay starts from.
struct TiaWriteLog {
  TiaState start;
  Beam start_beam;
  u32 base_clock;  // frame clock of log cycle 0
  u32 first_line;
  u32 size;
  LogEntry entries[kLogCapacity];
};

constexpr u32 kLogSlots = 3;  // at least: the running frame and the two pictures before it

// Which latches a program reads (console/latches.hpp). A guess that costs or saves time, no state.
struct LatchWatch {
  u16 watched;     // latches read lately: these are recorded
  u16 recent;      // and those read in the present stretch of kWatchFrames
  u8 frames;       // of that stretch
  u8 full_frames;  // for so many frame steps everything is recorded
  u8 penalty;      // the last full_frames began with this
  u8 is_on;
};

// What of a console's pictures is somebody else's, and the other way round.
struct SharedFramebuffers {
  const u8* borrowed;  // pictures of PictureKind::kBorrowed, one after the other
  u8 num_logs;
  u8 lent_logs;  // bit n: log n is a picture elsewhere as well
};

// Large memory of a console outside its state, wherever it lies.
struct FrameMemory {
  TiaWriteLog* logs;  // kLogSlots of them, or as `shared` has it
  u8* pixels;         // of the two frame buffers: palette indices, where PictureKind says so
  u32 picture_bytes;  // between the two
  LatchWatch* watch = nullptr;                 // null: all latches are recorded
  LineCache* lines = nullptr;                  // null: every line is rendered
  const SharedFramebuffers* shared = nullptr;  // null: none, and kLogSlots logs

  CULE_HD CULE_INLINE u8* picture(u32 n) const { return pixels + size_t(n) * picture_bytes; }
};

// The same as one object for any height of the picture.
struct FrameStore {
  TiaWriteLog logs[kLogSlots];
  u8 pixels[2][kMaxRows * kScreenWidth];
  LatchWatch watch;
  LineCache lines;

  CULE_HD FrameMemory memory() {
    return {logs, pixels[0], u32(sizeof pixels[0]), watch.is_on ? &watch : nullptr,
            lines.is_on ? &lines : nullptr};
  }
};

// A picture wanted of the next frame: drawn while the frame is rendered, if it is drawn to the end.
struct Observation {
  u8* rows;       // height x 160
  const u8* map;  // what a colour looks like: 256 entries
  bool is_drawn;  // set by run_frame(); else draw_picture() has to do it
};

// One console as the frame loop takes it.
struct Console {
  ConsoleState& s;
  const FrameMemory memory;
  const Cart cart;
  const ConsoleProperties& properties;
  Observation* observation = nullptr;
};

}  // namespace cule
