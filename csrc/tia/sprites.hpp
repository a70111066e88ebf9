// tia/sprites.hpp: the sink that finds players, missiles and ball in a frame, and draws nothing.
//
// In: a write log. Out: rows of i16 (SpriteColumn), one a run, by y, then by the columns in their
// order.
//
// The pixels of an object in a scanline are those that it covers, also where another object is in
// front of it or the HMOVE blank is over it; not where the picture is blanked. They form pieces:
// two pixels are of one piece if fewer than 8 pixels of the object's size lie between them, so that
// copies are pieces of their own. A run is a stack of pieces of one object: from left to right,
// each piece continues the leftmost run that it touches, also with a corner, and that no piece
// before it in the scanline continues; the others begin runs. So each pixel is of one run. If
// there are more runs than rows, the last row summarizes the runs that do not fit.
#pragma once

#include "tia/paint.hpp"

namespace cule {

enum SpriteColumn : u32 {
  kSpriteX,  // box in pixels of the picture
  kSpriteY,
  kSpriteWidth,
  kSpriteHeight,
  kSpriteVisible,  // pixels that show: in front of other objects, and not under the HMOVE blank
  kSpriteObject,   // Object; -1: several
  kSpritePixels,   // pixels that the object covers
  kSpriteColor,    // palette index of the first pixel of the first scanline; 0: several
  kSpriteCopies,   // that NUSIZ asks for there; 0: several
  kSpriteShape,    // hash of all pixels, wherever they are, 0 to 32767; 0: several
  kSpriteRuns,     // number of runs in the row; 0: the row is not used, and all zeros
  kSpriteColumns
};

constexpr u32 kSprites = kPlayfield;  // objects that are found
constexpr u32 kAllSprites = (1u << kSprites) - 1;
constexpr u32 kMaxSpriteRows = 1024;
constexpr size_t kSpriteBytes = kSpriteColumns * sizeof(i16);

constexpr u32 kMinGap = 8;  // clear pixels between two pieces
constexpr u32 kMaxPieces = (kScreenWidth + kMinGap) / (kMinGap + 1);

CULE_HD CULE_INLINE i16 saturated(u32 x) { return i16(x < 32767 ? x : 32767); }

// The rows of a picture, which are filled as runs end.
struct SpriteRows {
  i16* const rows;
  const u32 capacity;  // at least 1
  u32 size = 0;
  u32 left_out = 0;               // runs that have no row,
  u32 box[4] = {~0u, ~0u, 0, 0};  // their box, as two corners,
  u32 visible = 0, pixels = 0;    // and their pixels

  CULE_HD void add(const i16 (&run)[kSpriteColumns]) {
    if (size == capacity) {
      i16* const last = rows + (size - 1) * kSpriteColumns;
      if (!is_before(run, last)) return leave_out(run);
      leave_out(last);
      --size;
    }
    u32 at = size++;
    for (; at > 0 && is_before(run, rows + (at - 1) * kSpriteColumns); --at)
      memcpy(rows + at * kSpriteColumns, rows + (at - 1) * kSpriteColumns, kSpriteBytes);
    memcpy(rows + at * kSpriteColumns, run, kSpriteBytes);
  }

  CULE_HD void finish() {
    if (left_out != 0) {
      i16* const last = rows + (capacity - 1) * kSpriteColumns;
      leave_out(last);
      const i16 rest[kSpriteColumns] = {i16(box[0]),
                                        i16(box[1]),
                                        i16(box[2] - box[0]),
                                        i16(box[3] - box[1]),
                                        saturated(visible),
                                        -1,
                                        saturated(pixels),
                                        0,
                                        0,
                                        0,
                                        saturated(left_out)};
      memcpy(last, rest, sizeof rest);
    }
    memset(rows + size * kSpriteColumns, 0, (capacity - size) * kSpriteBytes);
  }

 private:
  CULE_HD static bool is_before(const i16* a, const i16* b) {
    if (a[kSpriteY] != b[kSpriteY]) return a[kSpriteY] < b[kSpriteY];
    u32 k = 0;
    while (k + 1 < kSpriteColumns && a[k] == b[k]) ++k;
    return a[k] < b[k];
  }
  CULE_HD void leave_out(const i16* run) {
    const u32 x = u32(run[kSpriteX]), y = u32(run[kSpriteY]);
    const u32 right = x + u32(run[kSpriteWidth]), bottom = y + u32(run[kSpriteHeight]);
    box[0] = x < box[0] ? x : box[0];
    box[1] = y < box[1] ? y : box[1];
    box[2] = right > box[2] ? right : box[2];
    box[3] = bottom > box[3] ? bottom : box[3];
    visible += u32(run[kSpriteVisible]);
    pixels += u32(run[kSpritePixels]);
    ++left_out;
  }
};

// A run that may continue in the next scanline.
struct SpriteRun {
  u64 hash;
  u16 row, lines;
  u16 pixels, visible;
  u8 first_x;           // left end in its first scanline
  u8 x0, x1;            // columns of all its pieces,
  u8 last_x0, last_x1;  // and of the last one
  u8 color, copies;
  u8 last_pixels, last_visible;  // of the last piece,
  u64 last_hash;                 // and what it added
};

// What an object's colour and NUSIZ mode were, from which pixel of the scanline on. A change
// takes a write, and writes are at least a cycle apart.
struct SpriteTints {
  struct Tint {
    u8 x, color, mode;
  };
  u32 size;
  Tint of[kCyclesPerLine + 4];

  CULE_HD void note(u32 x, u32 color, u32 mode) {
    if (size != 0 && of[size - 1].color == color && of[size - 1].mode == mode) return;
    if (size != 0 && of[size - 1].x == x) --size;
    if (size < sizeof of / sizeof *of) of[size++] = {u8(x), u8(color), u8(mode)};
  }
  CULE_HD const Tint& at(u32 x) const {
    u32 i = size;
    do --i;
    while (i > 0 && of[i].x > x);
    return of[i];
  }
};

// What a sink needs to remember.
struct SpriteMemory {
  Mask layers[3];
  Mask covered[kSprites];  // of the scanline
  Mask shown[kSprites];
  SpriteTints tints[3];
  u32 open_size[kSprites];
  SpriteRun open[kSprites][kMaxPieces];  // from left to right
  SpriteRun next[kMaxPieces];
};

struct SpriteSink {
  static constexpr bool kPaints = false;
  static constexpr bool kExact = false;

  SpriteMemory& m;
  SpriteRows rows;
  const u32 first_line;
  const u32 height;

  CULE_HD SpriteSink(SpriteMemory& memory, i16* to, u32 capacity, u32 first, u32 num_lines)
      : m(memory), rows{to, capacity}, first_line(first), height(num_lines) {
    for (u32 object = 0; object < kSprites; ++object) {
      m.covered[object] = m.shown[object] = Mask{};
      m.open_size[object] = 0;
    }
    for (SpriteTints& tints : m.tints) tints.size = 0;
  }

  CULE_HD void colors_changed() {}
  CULE_HD void control_changed() { is_control_stale_ = true; }
  CULE_HD void latches_cleared() {}
  CULE_HD static bool could_set_any(const TiaState&, const Shapes&) { return false; }
  void state_changed() { is_control_stale_ = true; }

  // Whether what was shown until now of the objects that change, or of what is around them,
  // matters.
  CULE_HD CULE_INLINE bool concerns(const TiaState& s, const Shapes&, u32 changed) const {
    return ((changed | active_objects(s)) & kAllSprites) != 0;
  }
  CULE_HD CULE_INLINE bool needs_pixels(const TiaState& s, Shapes& shapes) const {
    if (s.vblank) return false;
    shapes.refresh_active(s);
    return (shapes.active & kAllSprites) != 0;
  }

  CULE_HD void segment(TiaState& s, Shapes& shapes, u32 line, u32 x0, u32 x1) {
    if (!needs_pixels(s, shapes) || line - first_line >= height) return;
    shapes.refresh(s);
    if (is_control_stale_ || version_ != shapes.version) {
      make_layers(shapes.mask, color_order(s, shapes), m.layers);
      version_ = shapes.version;
      is_control_stale_ = false;
      look_ += 2;
    }
    if (line != line_) begin_line(line);
    if (x0 == 0 && x1 == kScreenWidth) {
      whole_ = look_ | u32(s.hmove_blank != 0);
      if (whole_ == last_whole_) return;
    }
    for (u32 n = 0; n < 2; ++n) {
      const u32 objects = (1u << kPlayer0 | 1u << kMissile0) << n;
      if (shapes.active & objects) m.tints[n].note(x0, s.color[n], s.nusiz[n] & 7);
    }
    if (shapes.active >> kBall & 1) m.tints[2].note(x0, s.color[2], 0);
    const u64 range[kMaskWords] = {range_bits(0, x0, x1), range_bits(1, x0, x1),
                                   range_bits(2, x0, x1)};
    for (u32 left = shapes.active & kAllSprites; left; left &= left - 1) {
      const u32 object = lowest_bit(left);
      const Mask& layer = m.layers[layer_of(object)];
      u64 any = 0;
      for (u32 w = 0; w < kMaskWords; ++w) {
        const u64 pixels = shapes.mask[object].word[w] & range[w];
        m.covered[object].word[w] |= pixels;
        m.shown[object].word[w] |= pixels & layer.word[w];
        any |= pixels;
      }
      touched_ |= u32(any != 0) << object;
    }
  }

  CULE_HD void blank_left(u32 line, u32 x0, u32 x1) {
    if (line != line_ || x1 <= x0 || is_repeated()) return;
    for (Mask& mask : m.shown) mask.word[0] &= ~range_bits(0, x0, x1);
  }

  // The log is over.
  CULE_HD void finish() {
    begin_line(kNoLine);
    rows.finish();
  }

 private:
  static constexpr u32 kNoLine = ~0u;

  CULE_HD static u32 layer_of(u32 object) { return object == kBall ? 2 : object & 1; }

  // The first pixel from x on that is in a mask, or not in it; kScreenWidth: there is none.
  CULE_HD static u32 next_pixel(const Mask& m, u32 x, u64 flip) {
    for (u32 w = x >> 6; w < kMaskWords; ++w) {
      const u64 word = (m.word[w] ^ flip) & range_bits(w, x, kScreenWidth);
      if (u32(word)) return w * 64 + lowest_bit(u32(word));
      if (word) return w * 64 + 32 + lowest_bit(u32(word >> 32));
    }
    return kScreenWidth;
  }
  CULE_HD static u32 count_pixels(const Mask& m, u32 x0, u32 x1) {
    u32 count = 0;
    for (u32 w = x0 >> 6; w < kMaskWords && w * 64 < x1; ++w) {
      const u64 word = m.word[w] & range_bits(w, x0, x1);
      count += CULE_COUNT_BITS(u32(word)) + CULE_COUNT_BITS(u32(word >> 32));
    }
    return count;
  }

  // The scanline before is whole.
  CULE_HD void begin_line(u32 line) {
    for (u32 left = touched_ | open_; left; left &= left - 1) {
      const u32 object = lowest_bit(left);
      if (is_repeated()) {
        for (u32 i = 0; i < m.open_size[object]; ++i) add_piece(m.open[object][i]);
      } else {
        stack_pieces(object);
      }
    }
    for (SpriteTints& tints : m.tints) tints.size = 0;
    if (!is_repeated()) open_ = touched_;
    touched_ = 0;
    last_whole_ = line == line_ + 1 ? whole_ : 0;
    whole_ = 0;
    for (u32 left = line == line_ + 1 ? 0 : open_; left; left &= left - 1) {
      const u32 object = lowest_bit(left);
      for (u32 i = 0; i < m.open_size[object]; ++i) end_run(object, m.open[object][i]);
      m.open_size[object] = 0;
    }
    line_ = line;
  }

  CULE_HD static u64 mix(u64 hash, u64 value) {
    hash = (hash ^ value) * 0x9FB21C651E98DF25ULL;
    return hash ^ hash >> 32;
  }

  // Once more the piece that was added last, or a first time.
  CULE_HD CULE_INLINE static void add_piece(SpriteRun& run) {
    run.hash = mix(run.hash, run.last_hash);
    ++run.lines;
    run.pixels = u16(run.pixels + run.last_pixels);
    run.visible = u16(run.visible + run.last_visible);
  }

  // Whether the scanline shows the same as the one before.
  CULE_HD CULE_INLINE bool is_repeated() const { return whole_ != 0 && whole_ == last_whole_; }

  // Continues the object's runs by its pieces of the scanline, begins others, ends the rest.
  CULE_HD void stack_pieces(u32 object) {
    SpriteRun* const runs = m.open[object];
    const u32 num_runs = m.open_size[object];
    const Mask covered = m.covered[object];
    u32 open = 0, num_next = 0;
    for (u32 x = next_pixel(covered, 0, 0); x < kScreenWidth;) {
      const SpriteTints::Tint tint = m.tints[layer_of(object)].at(x);
      const u32 min_gap = object <= kPlayer1 ? kMinGap * player_width(tint.mode) : kMinGap;
      const u32 begin = x;
      u32 end, pixels = 0;
      u64 hash = 0;
      do {
        end = next_pixel(covered, x, ~0ULL);
        pixels += end - x;
        hash = mix(hash, (x - begin) << 8 | (end - begin));
        x = next_pixel(covered, end, 0);
      } while (x < kScreenWidth && x - end < min_gap);
      while (open < num_runs && runs[open].last_x1 < begin) end_run(object, runs[open++]);
      SpriteRun& run = m.next[num_next++];
      if (open < num_runs && runs[open].last_x0 <= end) {
        run = runs[open++];
      } else {
        run = begin_run(begin, tint);
      }
      run.last_hash = hash ^ (begin + kScreenWidth - run.first_x);
      run.last_pixels = u8(pixels);
      run.last_visible = u8(count_pixels(m.shown[object], begin, end));
      add_piece(run);
      run.last_x0 = u8(begin);
      run.last_x1 = u8(end);
      if (begin < run.x0) run.x0 = u8(begin);
      if (end > run.x1) run.x1 = u8(end);
    }
    while (open < num_runs) end_run(object, runs[open++]);
    for (u32 i = 0; i < num_next; ++i) runs[i] = m.next[i];
    m.open_size[object] = num_next;
    m.covered[object] = m.shown[object] = Mask{};
  }

  CULE_HD SpriteRun begin_run(u32 x, const SpriteTints::Tint& tint) const {
    const PlayerCopies copies = player_copies(tint.mode);
    SpriteRun run{};
    run.row = u16(line_ - first_line);
    run.first_x = run.x0 = u8(x);
    run.color = tint.color;
    run.copies = u8(1 + (copies.second != 0) + (copies.third != 0));
    return run;
  }

  CULE_HD void end_run(u32 object, const SpriteRun& run) {
    const i16 row[kSpriteColumns] = {run.x0,
                                     i16(run.row),
                                     i16(run.x1 - run.x0),
                                     i16(run.lines),
                                     saturated(run.visible),
                                     i16(object),
                                     saturated(run.pixels),
                                     run.color,
                                     run.copies,
                                     i16(run.hash >> 49),
                                     1};
    rows.add(row);
  }

  u32 version_ = 0;  // shapes the layers were made of
  bool is_control_stale_ = true;
  u32 line_ = kNoLine;  // that pixels are collected of
  u32 look_ = 0;        // counts changes of layers, twice
  u32 whole_ = 0;       // how the scanline was drawn, in one piece: look_, and bit 0: with a blank
  u32 last_whole_ = 0;  // likewise the one before; 0: in several pieces
  u32 touched_ = 0;     // objects that have some there
  u32 open_ = 0;        // objects that have runs
};

}  // namespace cule
