// host/frame_pooling.hpp: the pooled picture of an agent step, the maximum of its last two frames.
//
// Gray pictures are drawn in the rows of the line cache, where an earlier frame is already; others,
// and those of environments without such a cache, go into the workspace. Where both frames were
// drawn in the rows of those of the previous step, picture rows that have not been painted since
// are in the pooled picture already. A step that ends early pools what it has with the picture of
// the previous step.
#pragma once

#include <cstring>
#include <vector>

#include "batch/options.hpp"
#include "console/sprites.hpp"
#include "host/incremental/renderer.hpp"
#include "obs/palette.hpp"
#include "obs/pool.hpp"

namespace cule {

// Scratch of one worker.
struct Workspace {
  std::vector<u8> newest;    // last picture of a skip
  std::vector<u8> previous;  // last but one
  std::vector<u8> indices;   // a picture as palette indices, for RGB
  SpriteMemory sprites;
};

// The screen as gray levels or RGB.
inline void draw_levels(const Console& c, bool grayscale, u8* out, Workspace& w) {
  const Format format = c.properties.format;
  if (grayscale) {
    draw_picture(c, c.s.picture.current, out, gray_table(format));
    return;
  }
  w.indices.resize(size_t(c.properties.height) * kScreenWidth);
  draw_picture(c, c.s.picture.current, w.indices.data(), make_identity_map().value);
  write_rgb(format, w.indices.data(), w.indices.size(), out);
}

// The last two frames of a step, where the line cache holds them; null: elsewhere.
struct CachedFrames {
  const CachedFrame* previous;
  const CachedFrame* newest;
  bool operator==(const CachedFrames& o) const {
    return previous == o.previous && newest == o.newest;
  }
};

// What the pooled picture is made of, where both frames are in the line cache, and the rows that
// were painted in the newest.
struct PooledFrames {
  CachedFrames cached;
  RowSet painted_last;
};

// ObservationSink of step_agent().
class FramePooling {
 public:
  // `pooled` and `kept` belong to the console, as the previous step left them.
  FramePooling(const Console& console, const BatchOptions& options, IncrementalMemory& memory,
               u8* pooled, PooledFrames& kept, Workspace& w)
      : console_(console),
        options_(options),
        memory_(memory),
        pooled_(pooled),
        kept_(kept),
        w_(w),
        size_(options.pooled_bytes(console.properties.height)) {
    w.newest.resize(size_);
    w.previous.resize(size_);
  }

  void begin_frame(i32 frames_left) {
    target_ = Observation{};
    memory_.observation = nullptr;
    if (!options_.draws() || !options_.grayscale || frames_left > (options_.maxpool ? 1 : 0))
      return;
    if (memory_.lines != nullptr) {
      running_ = &memory_.lines->next_frame();
      if (cached_.previous == running_) set_previous_aside();
      target_.rows = running_->rows;
    } else {
      target_.rows = frames_left > 0 ? w_.previous.data() : w_.newest.data();
    }
    target_.map = gray_table(console_.properties.format);
    memory_.observation = &target_;
  }
  void newest() {
    if (!options_.draws()) return;
    if (target_.is_drawn) cached_.newest = running_;
    newest_rows_ = target_.is_drawn ? target_.rows : draw(w_.newest);
  }
  void previous() {
    if (!options_.draws() || !options_.maxpool) return;
    if (target_.is_drawn && running_ != nullptr) {
      cached_.previous = running_;
      changed_ = running_->painted;
    }
    previous_rows_ = target_.is_drawn ? target_.rows : draw(w_.previous);
  }

  void restart() {
    if (is_folded_) {
      each_row_of(changed_, [&](size_t at, size_t size) {
        std::memcpy(pooled_ + at, w_.previous.data() + at, size);
      });
    }
    is_folded_ = false;
    changed_ = {};
    cached_ = {};
    kept_ = {};  // a frame that it names may be drawn over
    newest_rows_ = previous_rows_ = nullptr;
  }

  // The step is over. Which rows of the pooled picture may have changed; null: not known.
  const RowSet* finish() {
    memory_.observation = nullptr;
    const RowSet* known = nullptr;
    if (cached_.newest != nullptr && cached_ == kept_.cached) {
      known = &changed_;
      RowSet stale = cached_.newest->painted;  // folded rows hold the previous frame already
      if (!is_folded_) stale.add(changed_);
      changed_.add(stale);
      each_row_of(stale, [&](size_t at, size_t size) {
        max_rows(pooled_ + at, previous_rows_ + at, newest_rows_ + at, size);
      });
    } else if (is_folded_ && newest_rows_ == nullptr) {
      each_row_of(changed_, [&](size_t at, size_t size) {
        max_rows(pooled_ + at, pooled_ + at, w_.previous.data() + at, size);
      });
    } else if (newest_rows_ && previous_rows_) {
      max_rows(pooled_, newest_rows_, previous_rows_, size_);
    } else if (newest_rows_) {
      std::memcpy(pooled_, newest_rows_, size_);
    } else if (previous_rows_) {
      max_rows(pooled_, pooled_, previous_rows_, size_);
    }
    kept_.cached = cached_.previous && cached_.newest ? cached_ : CachedFrames{};
    if (cached_.newest) kept_.painted_last = cached_.newest->painted;
    return known;
  }

 private:
  // The next frame is drawn over the previous one.
  void set_previous_aside() {
    if (!(kept_.cached == CachedFrames{running_, running_})) {
      std::memcpy(w_.previous.data(), running_->rows, w_.previous.size());
      previous_rows_ = w_.previous.data();
      return;
    }
    is_folded_ = true;
    changed_.add(kept_.painted_last);
    each_row_of(changed_, [&](size_t at, size_t size) {
      std::memcpy(w_.previous.data() + at, pooled_ + at, size);
      std::memcpy(pooled_ + at, running_->rows + at, size);
    });
    previous_rows_ = pooled_;
  }

  template <class Use>
  void each_row_of(const RowSet& rows, Use use) const {
    rows.each_stretch(console_.properties.height, [&](u32 from, u32 to) {
      use(size_t(from) * kScreenWidth, size_t(to - from) * kScreenWidth);
    });
  }

  const u8* draw(std::vector<u8>& rows) {
    draw_levels(console_, options_.grayscale, rows.data(), w_);
    return rows.data();
  }

  const Console console_;
  const BatchOptions& options_;
  IncrementalMemory& memory_;
  u8* const pooled_;
  PooledFrames& kept_;
  Workspace& w_;
  const size_t size_;  // bytes of the pooled picture
  Observation target_{};
  const CachedFrame* running_ = nullptr;  // where the frame is drawn; null: in the workspace
  const u8* newest_rows_ = nullptr;
  const u8* previous_rows_ = nullptr;
  CachedFrames cached_{};
  bool is_folded_ = false;  // pooled_ holds `previous`, and what `changed_` of it held is set aside
  RowSet changed_;          // rows of the pooled picture
};

}  // namespace cule
