// tia/paint.hpp: the sink that draws rows of pixels (NOTES.md 8.1, 8.2).
//
// A pixel is map[colour register value]: the identity for palette indices, the gray palette for
// gray pictures. Rows are 160 bytes apart; lines outside [first_line, first_line + height) are not
// drawn.
#pragma once

#include "tia/rules.hpp"
#include "tia/span.hpp"

namespace cule {

// Where pictures go and what a colour looks like there.
struct Canvas {
  u8* rows;
  u32 first_line;
  u32 height;
  const u8* map;  // 256 entries
};

template <bool exact>
struct PaintSink {
  static constexpr bool kPaints = true;
  static constexpr bool kExact = exact;

  const Canvas canvas;
  u8 colors[4];
  u32 version = 0;  // of the shapes that were drawn last
  bool are_colors_stale = true;
  u32 repeat_line = ~0u;  // the line above is whole, and this one looks the same

  CULE_HD explicit PaintSink(const Canvas& c) : canvas(c) {}

  CULE_HD void colors_changed() {
    are_colors_stale = true;
    repeat_line = ~0u;
  }
  CULE_HD void control_changed() { repeat_line = ~0u; }  // score or priority bit
  CULE_HD void latches_cleared() {}
  CULE_HD static bool could_set_any(const TiaState&, const Shapes&) { return false; }
  void state_changed() { colors_changed(); }

  CULE_HD void segment(TiaState& s, Shapes& shapes, u32 line, u32 x0, u32 x1) {
    const u32 row_index = line - canvas.first_line;
    if (row_index >= canvas.height) return;
    u8* row = canvas.rows + row_index * kScreenWidth;
    if (s.vblank) {
      memset(row + x0, canvas.map[0], x1 - x0);
      return;
    }
    shapes.refresh(s);
    if (x0 == 0 && x1 == kScreenWidth) {
      if (repeat_line == line && version == shapes.version) {
        memcpy(row, row - kScreenWidth, kScreenWidth);
      } else {
        paint(s, shapes, row, 0, kScreenWidth);
      }
      version = shapes.version;
      repeat_line = row_index + 1 < canvas.height ? line + 1 : ~0u;
    } else {
      repeat_line = ~0u;
      paint(s, shapes, row, x0, x1);
    }
  }

  CULE_HD void blank_left(u32 line, u32 x0, u32 x1) {
    const u32 row_index = line - canvas.first_line;
    if (row_index < canvas.height && x1 > x0) {
      u8* const pixels = canvas.rows + row_index * kScreenWidth + x0;
      if (x1 - x0 == kHmoveBlankPixels) {
        memset(pixels, canvas.map[0], kHmoveBlankPixels);  // one store
      } else {
        memset(pixels, canvas.map[0], x1 - x0);
      }
    }
    repeat_line = ~0u;
  }

  // Cells the beam touches ahead of the mark on an unfinished line (NOTES.md 12).
  CULE_HD void touch_ahead(TiaState& s, Shapes& shapes, u32 start, u32 mark) {
    const u32 line = mark / kClocksPerLine;
    const u32 p = mark - line * kClocksPerLine;
    const u32 row_index = line - canvas.first_line;
    if (p == 0 || row_index >= canvas.height) return;
    u8* row = canvas.rows + row_index * kScreenWidth;
    if (p > kHblankClocks && !s.vblank) {
      const u32 x_end = p - kHblankClocks;
      const u32 cell = x_end & ~3u;
      const bool drew_cell = start <= line * kClocksPerLine + kHblankClocks + cell;
      if (x_end != cell && drew_cell && may_finish_cell(s, cell)) {
        shapes.refresh(s);
        paint(s, shapes, row, x_end, cell + 4);
      }
    }
    if (s.hmove_blank && p < kHblankClocks + 8) {
      const u32 x0 = p > kHblankClocks ? p - kHblankClocks : 0;
      const u32 x1 = p < kHblankClocks ? kHblankClocks + 8 - p : 8;
      memset(row + x0, canvas.map[0], x1 - x0);
    }
  }

 private:
  CULE_HD static bool may_finish_cell(const TiaState& s, u32 cell) {
    constexpr u32 p0 = 1u << kPlayer0, p1 = 1u << kPlayer1, m0 = 1u << kMissile0;
    constexpr u32 m1 = 1u << kMissile1, bl = 1u << kBall, pf = 1u << kPlayfield;
    const u32 active = active_objects(s);
    const bool score = s.ctrlpf >> 1 & 1;
    switch (active) {
      case pf:
      case p0:
      case p1:
      case p0 | p1:
      case m0:
      case m1:
      case bl:
      case m0 | m1:
      case bl | m0:
      case bl | m1:
      case bl | p1:
        break;
      case pf | p0:
      case pf | p1:
      case pf | bl:
        if (score) return false;
        break;
      default:
        return false;
    }
    const u32 w = cell >> 6;
    const u64 range = range_bits(w, cell, cell + 4);
    for (u32 n = 0; n < 2; ++n) {
      if ((active & p0 << n) && (player_mask(s, n, 0xFF).word[w] & range)) return false;
      if ((active & m0 << n) && (missile_mask(s, n).word[w] & range)) return false;
    }
    return !((active & bl) && (ball_mask(s).word[w] & range));
  }

  CULE_HD CULE_INLINE void paint(const TiaState& s, const Shapes& shapes, u8* row, u32 x0, u32 x1) {
    if (are_colors_stale) {
      for (u32 i = 0; i < 4; ++i) colors[i] = canvas.map[s.color[i]];
      are_colors_stale = false;
    }
    paint_objects(shapes.mask, color_order(s, shapes), colors, row, x0, x1);
  }
};

}  // namespace cule
