// cuda/launchers.hpp: every kernel as a function of plain pointers, sizes and a stream.
#pragma once

#include <cuda_runtime.h>

#include "cuda/device_batch.hpp"

namespace cule {

// Cartridge families, each with its own state-update kernel: how a program counter becomes an index
// of the ROM is compiled in.
enum Family : u32 { kBankFamily, kE0Family, kFeFamily, kFamilies };

// The tiles of one cartridge family, one warp each.
struct TileList {
  const Tile* tiles;  // on the device
  u32 size;
  u32 warps_per_block;
};

// The consoles that a reset concerns, and their seeds; on the device.
struct ResetRequest {
  const u8* mask;    // [size]; null: all
  const i64* seeds;  // [size]; negative: the console's stream continues
};

// Frames of one step (cuda/step_kernel.hpp).
cudaError_t launch_step(Family family, const DeviceBatch& b, const TileList& tiles,
                        const StepActions& actions, cudaStream_t stream);

// The objects or sprites of the step that was launched before, where observations are those.
cudaError_t launch_push_rows(const DeviceBatch& b, cudaStream_t stream);

// The objects of all consoles as they are, i16 [size][num_rows][kObjectColumns].
cudaError_t launch_write_objects(const DeviceBatch& b, u32 num_rows, i16* rows_out,
                                 cudaStream_t stream);

// Pictures, resets and results of the step that was launched before. `blocks` is at most what
// DeviceBatch::planes has room for. With `resets_ended`, consoles whose episode has just ended
// are reset in every autoreset mode (decorrelation).
cudaError_t launch_finish_step(const DeviceBatch& b, const StepOutputs& out, bool resets_ended,
                               u32 blocks, cudaStream_t stream);
// New episodes, and the results of all consoles.
cudaError_t launch_reset(const DeviceBatch& b, const ResetRequest& request, const StepOutputs& out,
                         u32 blocks, cudaStream_t stream);
// The results as they are.
cudaError_t launch_observe(const DeviceBatch& b, const StepOutputs& out, u32 blocks,
                           cudaStream_t stream);

// Snapshots of n consoles, [n][snapshot_bytes].
cudaError_t launch_gather_snapshots(const DeviceBatch& b, const i64* consoles, u32 n,
                                    u8* snapshots_out, u32 blocks, cudaStream_t stream);
// Why each snapshot cannot be restored: SnapshotError, [n].
cudaError_t launch_check_snapshots(const DeviceBatch& b, const i64* consoles, u32 n,
                                   const u8* snapshots, u8* errors_out, cudaStream_t stream);
// Restores snapshots that launch_check_snapshots has found good.
cudaError_t launch_scatter_snapshots(const DeviceBatch& b, const i64* consoles, u32 n,
                                     const u8* snapshots, cudaStream_t stream);
// Current pictures of n consoles as palette indices, `stride` bytes apart.
cudaError_t launch_draw_screens(const DeviceBatch& b, const i64* consoles, u32 n, u8* pixels_out,
                                u64 stride, u32 blocks, cudaStream_t stream);

// Resources of a kernel, as the runtime reports them.
struct KernelResources {
  const char* name;
  int registers;
  size_t local_bytes;  // a thread: stack and spills
  size_t shared_bytes;
  int max_threads;
};

template <class... Parameters>
cudaError_t describe(const char* name, void (*kernel)(Parameters...), KernelResources& out) {
  cudaFuncAttributes a{};
  const cudaError_t error = cudaFuncGetAttributes(&a, kernel);
  out.name = name;
  out.registers = a.numRegs;
  out.local_bytes = a.localSizeBytes;
  out.shared_bytes = a.sharedSizeBytes;
  out.max_threads = a.maxThreadsPerBlock;
  return error;
}
cudaError_t describe_step(Family family, u32 num_players, KernelResources& out);
cudaError_t describe_finish_step(KernelResources& out);

// The best number of blocks for the kernels that draw: as many as the device holds at once.
cudaError_t choose_blocks(int consoles, u32& blocks_out);

}  // namespace cule
