// console/state.hpp: the whole state of one console, flat, without pointers.
//
// Copying a ConsoleState (and, for frames that ended before the picture did, its pixels) saves,
// restores and clones a console. Units: *_cycle and cycles count CPU cycles since the running frame
// was started (rebased at every frame start, cpu/NOTES.md 5.1); frame clocks as in tia/clocks.hpp.
#pragma once

#include "base/random.hpp"
#include "cart/cartridge.hpp"
#include "console/ram.hpp"
#include "cpu/registers.hpp"
#include "riot/timer.hpp"
#include "tia/log.hpp"
#include "tia/state.hpp"

namespace cule {

constexpr u32 kMaxInstructions = 25000;  // of a frame step; the next one continues the frame

// What is plugged in and which part of the frame is the picture: constant for a ROM.
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

// A completely drawn frame is kept as its log, another one as pixels. kBorrowed: pixels that are
// shared (SharedFramebuffers) and copied before anything is drawn over them.
enum class PictureKind : u8 { kBlank, kPixels, kLog, kBorrowed };

struct PictureState {
  PictureKind kind[2];  // of the two framebuffers
  u8 log_slot[2];       // for kLog
  u8 current;           // framebuffer of the running or last frame
  u8 recording_slot;    // log of the running or last frame step
  u8 is_painted;        // the running frame is being drawn into pixels part by part
  u8 is_dimmed;         // the running unfinished frame has been dimmed
};

struct ConsoleState {
  alignas(kWordBytes) u8 ram[kRamBytes];
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
  TiaState tia;    // as of the last log entry rendered
  Beam beam;
  PictureState picture;
  Inputs inputs;
  CartState cart;
};

static_assert(std::is_trivially_copyable_v<ConsoleState>);

CULE_HD CULE_INLINE u32 current_line(const ConsoleState& s) {
  return (s.cycles + s.phase_cycles) / kCyclesPerLine;
}

// The log of one frame step, and the state that rendering it starts from. A back end may give a log
// less memory than its type has: FrameMemory says for how many entries.
struct TiaWriteLog {
  TiaState start;
  Beam start_beam;
  u32 base_clock;  // frame clock of log cycle 0
  u32 first_line;
  u32 size;
  LogEntry entries[kLogCapacity];
};

// Bytes of a log with room for so many entries.
CULE_HD CULE_INLINE constexpr u32 log_bytes(u32 capacity) {
  return u32(sizeof(TiaWriteLog) - (kLogCapacity - capacity) * sizeof(LogEntry));
}

constexpr u32 kLogSlots = 3;  // at least: the running frame and the two pictures before it

struct PixelPool;  // of a back end

// Framebuffers and logs that a console shares with other uses of a back end.
struct SharedFramebuffers {
  const u8* borrowed;     // pixels of PictureKind::kBorrowed, two pictures in a row; not written to
  u8* pixels;             // of the two framebuffers; null until the console needs some
  const PixelPool* pool;  // that they come from
  u32 console;            // its number
  u8 num_logs;
  u8 lent_logs;  // bit n: log n is in use outside the console
  // What a back end predicts from, which affects speed only: the latches that the program has read,
  // and of the last eight frames, the newest in bit 0, in which it has cleared all of them, and in
  // which it has read one before.
  u16 read_latches;
  u8 clearing_frames;
  u8 reading_frames;
};

// The large memory of a console, which is not part of its state.
struct FrameMemory {
  TiaWriteLog* logs;  // [kLogSlots], or as many as `shared` says
  u8* pixels;         // of the two framebuffers: palette indices, where PictureKind says so
  u32 picture_bytes;  // between the two
  SharedFramebuffers* shared = nullptr;  // null: none, and kLogSlots logs; else it has the pixels
  u32 log_capacity = kLogCapacity;       // entries, at most as many

  CULE_HD CULE_INLINE TiaWriteLog& log(u32 slot) const {
    u8* const first = reinterpret_cast<u8*>(logs);
    return *reinterpret_cast<TiaWriteLog*>(first + size_t(slot) * log_bytes(log_capacity));
  }
  CULE_HD CULE_INLINE u8* picture(u32 n) const {
    return (shared != nullptr ? shared->pixels : pixels) + size_t(n) * picture_bytes;
  }
};

// A console and everything that running a frame of it needs.
struct Console {
  ConsoleState& s;
  const FrameMemory memory;
  const Cart cart;
  const ConsoleProperties& properties;
};

}  // namespace cule
