// bindings/cuda_batch.hpp: a batch on a GPU, as Python and XLA call it.
//
// Device memory belongs to the caller, who gives addresses (torch tensors' data_ptr(), buffers of
// XLA) and the stream to launch on.
#pragma once

#include <pybind11/numpy.h>

#include <array>
#include <mutex>
#include <vector>

#include "bindings/parse.hpp"
#include "cuda/device_layout.hpp"
#include "host/step_queue.hpp"
#include "rom_kernel/loaded_step.hpp"

namespace cule {

// A launch that the runtime refused.
struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    cudaGetLastError();  // or the next launch would be taken for the one that failed
    throw LaunchError(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

template <class T>
T* pointer(u64 address) {
  return reinterpret_cast<T*>(address);
}

// What kernels of earlier steps have reported: faults of cuda/device_batch.hpp.
inline std::string fault_text(u32 faults, i32 num_actions) {
  if (faults & kFaultAction) {
    return "actions of an earlier step held an index that is not in 0.." +
           std::to_string(num_actions - 1) + "; it was taken as 0";
  }
  return "an earlier step found environments whose episode had ended, and left them unchanged; "
         "reset them with options={'reset_mask': ...}";
}

// A batch on the device; its methods launch and return. Threads of Python and of XLA launch.
class CudaBatch {
 public:
  explicit CudaBatch(BatchSource source) : layout_(std::move(source)) {}

  DeviceLayout& layout() { return layout_; }
  const BatchOptions& options() const { return layout_.source().options; }
  size_t size() const { return layout_.source().setups.size(); }

  // No launch after this.
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closed_ = true;
    for (LoadedStep& program : programs_) program.unload();
    programs_.clear();
  }
  // Whether the environments have episodes.
  bool has_reset() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return has_reset_;
  }

  void set_pool_slots(u32 slots) {
    check_range("pool_slots", slots, 1, i32(layout_.source().setups.size()));
    layout_.set_pool_slots(slots);
  }

  py::array_t<u8> place_at(u64 address, u64 pool_address, u64 reserve_address) {
    base_ = address;
    const std::vector<u8> bytes = layout_.place_at(address, pool_address, reserve_address);
    return py::array_t<u8>(py::ssize_t(bytes.size()), bytes.data());
  }

  // Stride between environments, and where their live RAM, lives and frame counts begin, in bytes
  // from the beginning of the block.
  std::array<u64, 4> live() const {
    const SlotState* s = layout_.batch().states;
    const auto offset = [this](const void* p) { return reinterpret_cast<u64>(p) - base_; };
    return {sizeof(SlotState), offset(s->console.ram), offset(s->agent.lives),
            offset(&s->env.episode_frame_number)};
  }

  void step(u64 indices, u64 joysticks, const StepOutputs& out, u64 faults, u64 stream) {
    if (indices == 0 && joysticks == 0) refuse("indices or joysticks must be an address");
    const auto lock = begin();
    run({pointer<i32>(indices), pointer<float>(joysticks), 0, 0, 0}, out, false, faults, stream);
  }
  void decorrelate(i32 max_steps, u64 seed, u64 faults, u64 stream) {
    const auto lock = begin();
    for (i32 step = 0; step < max_steps; ++step)
      run({nullptr, nullptr, seed, step, max_steps}, StepOutputs{}, true, faults, stream);
  }
  void reset(u64 mask, u64 seeds, const StepOutputs& out, u64 stream) {
    const auto lock = begin();
    has_reset_ = true;
    check(launch_reset(layout_.batch(), {pointer<u8>(mask), pointer<i64>(seeds)}, out,
                       draw_blocks(), pointer<CUstream_st>(stream)),
          "reset kernel");
  }
  void observe(const StepOutputs& out, u64 stream) {
    const auto lock = begin();
    check(launch_observe(layout_.batch(), out, draw_blocks(), pointer<CUstream_st>(stream)),
          "observation kernel");
  }

  // From the next step on, the kernel of one game runs it. CUDA graphs may hold those before it.
  void load_program(const py::bytes& code) {
    LoadedStep loaded;
    check(loaded.load(code), "loading of a compiled kernel");
    const auto lock = begin();
    programs_.push_back(loaded);
  }
  bool has_program() const { return !programs_.empty(); }

  void gather_snapshots(u64 indices, u32 n, u64 states, u64 stream) {
    const auto lock = begin();
    check(launch_gather_snapshots(layout_.batch(), pointer<i64>(indices), n, pointer<u8>(states),
                                  draw_blocks(), pointer<CUstream_st>(stream)),
          "snapshot kernel");
  }
  void check_snapshots(u64 indices, u32 n, u64 states, u64 errors, u64 stream) {
    const auto lock = begin();
    check(launch_check_snapshots(layout_.batch(), pointer<i64>(indices), n, pointer<u8>(states),
                                 pointer<u8>(errors), pointer<CUstream_st>(stream)),
          "snapshot kernel");
  }
  void scatter_snapshots(u64 indices, u32 n, u64 states, u64 stream) {
    const auto lock = begin();
    has_reset_ = true;
    check(launch_scatter_snapshots(layout_.batch(), pointer<i64>(indices), n, pointer<u8>(states),
                                   pointer<CUstream_st>(stream)),
          "snapshot kernel");
  }
  void draw_screens(u64 indices, u32 n, u64 screens, u64 stride, u64 stream) {
    const auto lock = begin();
    check(launch_draw_screens(layout_.batch(), pointer<i64>(indices), n, pointer<u8>(screens),
                              stride, draw_blocks(), pointer<CUstream_st>(stream)),
          "screen kernel");
  }
  // rows: i16 [size][num_rows][kObjectColumns].
  void write_objects(u32 num_rows, u64 rows, u64 stream) {
    for (const GameSource& game : layout_.source().games) {
      if (game.objects.empty()) refuse("games without a table of objects have none");
      check_range("num_rows", num_rows, i32(count_objects(game.objects.data())), i32(kMaxObjects));
    }
    const auto lock = begin();
    check(launch_write_objects(layout_.batch(), num_rows, pointer<i16>(rows),
                               pointer<CUstream_st>(stream)),
          "objects kernel");
  }

 private:
  std::unique_lock<std::mutex> begin() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (is_closed_) throw BatchClosed();
    return lock;
  }

  void run(const StepActions& actions, const StepOutputs& out, bool resets_ended, u64 faults,
           u64 stream) {
    const auto s = pointer<CUstream_st>(stream);
    DeviceBatch b = layout_.batch();
    b.faults = pointer<u32>(faults);
    for (u32 family = 0; family < kFamilies; ++family) {
      const TileList& tiles = layout_.tiles(Family(family));
      if (tiles.size == 0) continue;
      check(has_program() ? programs_.back().launch(b, tiles, actions, s)
                          : launch_step(Family(family), b, tiles, actions, s),
            "state-update kernel");
    }
    if (b.obs == ObsKind::kObjects || b.obs == ObsKind::kSprites)
      check(launch_push_rows(b, s), "objects kernel");
    check(launch_finish_step(b, out, resets_ended, draw_blocks(), s), "render kernel");
  }

  u32 draw_blocks() const { return layout_.source().draw_blocks; }

  DeviceLayout layout_;
  u64 base_ = 0;
  std::mutex mutex_;
  bool is_closed_ = false;
  bool has_reset_ = false;
  std::vector<LoadedStep> programs_;  // the last one runs the game; none: the interpreter does
};

}  // namespace cule
