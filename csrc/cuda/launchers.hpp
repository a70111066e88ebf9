// cuda/launchers.hpp: every kernel as a function of plain pointers, sizes and a stream.
#pragma once

#include <cuda_runtime.h>

#include "console/lanes.hpp"
#include "cuda/device_batch.hpp"

namespace cule {

constexpr u32 kMaxStepWarps = 4;  // of a block of the state-update kernel

// The tiles of one cartridge family, one warp each.
struct TileList {
  const Tile* tiles;  // on the device
  u32 size;
  u32 warps_per_block;
  Schedule schedule;
};

// Which consoles a reset concerns, and their seeds; on the device.
struct ResetRequest {
  const u8* mask;    // [size]; null: all
  const i64* seeds;  // [size]; negative: the console's stream goes on
};

// Frames of one step (step_kernel.hpp), by cartridge family.
cudaError_t launch_step_bank(const DeviceBatch& b, const TileList& tiles,
                             const StepActions& actions, cudaStream_t stream);
cudaError_t launch_step_e0(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                           cudaStream_t stream);
cudaError_t launch_step_fe(const DeviceBatch& b, const TileList& tiles, const StepActions& actions,
                           cudaStream_t stream);

// Pictures, resets and results of the step that has been launched. `blocks`: as many as
// DeviceBatch::line_starts has room for. `resets_ended`: consoles whose episode has just ended are
// reset whatever the autoreset mode (decorrelation).
cudaError_t launch_finish_step(const DeviceBatch& b, const StepOutputs& out, bool resets_ended,
                               u32 blocks, cudaStream_t stream);
// New episodes, and the results of all consoles.
cudaError_t launch_reset(const DeviceBatch& b, const ResetRequest& request, const StepOutputs& out,
                         u32 blocks, cudaStream_t stream);
// The results as they are.
cudaError_t launch_observe(const DeviceBatch& b, const StepOutputs& out, u32 blocks,
                           cudaStream_t stream);

// Rows of n consoles, [n][snapshot_bytes].
cudaError_t launch_gather_snapshots(const DeviceBatch& b, const i64* consoles, u32 n, u8* rows_out,
                                    u32 blocks, cudaStream_t stream);
// Why each row cannot be taken: SnapshotError, [n].
cudaError_t launch_check_snapshots(const DeviceBatch& b, const i64* consoles, u32 n, const u8* rows,
                                   u8* faults_out, cudaStream_t stream);
cudaError_t launch_scatter_snapshots(const DeviceBatch& b, const i64* consoles, u32 n,
                                     const u8* rows, cudaStream_t stream);
// Current pictures of n consoles as palette indices, `stride` bytes apart.
cudaError_t launch_draw_screens(const DeviceBatch& b, const i64* consoles, u32 n, u8* rows_out,
                                u64 stride, u32 blocks, cudaStream_t stream);

// What a kernel takes of the device: for reports.
struct KernelResources {
  const char* name;
  int registers;
  size_t local_bytes;  // a thread: stack and spills
  size_t shared_bytes;
  int max_threads;
};
cudaError_t describe_step_bank(KernelResources& out);
cudaError_t describe_step_bank_instruction(KernelResources& out);
cudaError_t describe_step_bank_block(KernelResources& out);
cudaError_t describe_step_bank_branch_free(KernelResources& out);
cudaError_t describe_step_e0(KernelResources& out);
cudaError_t describe_step_fe(KernelResources& out);
cudaError_t describe_find_bands(KernelResources& out);
cudaError_t describe_finish_step(KernelResources& out);
// Most useful number of blocks of the kernels that draw.
cudaError_t choose_blocks(int consoles, u32& blocks_out);

}  // namespace cule
