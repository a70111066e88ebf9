// bindings/bind_cuda.cpp: the Python module cule._cuda: batches on a GPU.
//
// Nothing but local memory allocates device memory; nothing but that and HostMemory waits for the
// device.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "batch/snapshot_errors.hpp"
#include "bindings/bind.hpp"
#include "bindings/cuda_batch.hpp"
#include "cuda/host_memory.hpp"
#include "cuda/learner.hpp"
#include "cuda/local_memory.hpp"
#include "host/env_slot.hpp"

namespace cule {
namespace {

// The bytes of the pool.
size_t make_local_memory(size_t bytes) {
  size_t pool = 0;
  check(reserve_local_memory(bytes, pool), "local memory of kernels");
  return pool;
}

GameSource make_source(const std::shared_ptr<Game>& game, const BatchOptions& o) {
  const GameSetup setup = make_game_setup(game, o);
  const GameSpec& spec = game->spec();
  GameSource g;
  g.image = game->image();
  g.type = game->bankswitch();
  g.properties = game->properties();
  g.facts = game->facts();
  g.ale = setup.ale;
  g.agent = setup.agent;
  if (o.draws()) g.resizer = setup.plan.resizer;
  g.actions = setup.actions;
  g.step_code = spec.step_code;
  g.lives_code = spec.lives_code;
  g.objects = spec.objects;
  g.modifications = spec.modifications;
  g.key = game->key();
  return g;
}

std::shared_ptr<CudaBatch> make_batch(const std::vector<std::shared_ptr<Game>>& games,
                                      const py::object& game_index, const py::object& modes,
                                      const py::object& difficulties,
                                      const py::object& action_delays,
                                      const py::object& num_modifications,
                                      const BatchOptions& options, const py::object& reset_set,
                                      const std::vector<Contiguous<u8>>& reset_snapshots,
                                      u32 log_capacity, u32 lanes_per_warp, u32 warps_per_block) {
  const i32 n = i32(py::len(game_index));
  const i32* game = parse_indices<i32>(game_index, "game_index", n, games.size());
  const i32* set = parse_indices<i32>(reset_set, "reset_set", n, reset_snapshots.size());
  const i32* mode = parse_vector<i32>(modes, "modes", n);
  const i32* difficulty = parse_vector<i32>(difficulties, "difficulties", n);
  const i32* delay = parse_vector<i32>(action_delays, "action_delays", n);
  const i32* count = parse_vector<i32>(num_modifications, "num_modifications", n);
  check_range("max_action_delay", options.max_action_delay, 0, kMaxActionDelay);
  check_range("log_capacity", log_capacity, 1, kLogCapacity);
  check_range("lanes_per_warp", lanes_per_warp, 1, kWarpLanes);
  check_range("warps_per_block", warps_per_block, 1, kMaxStepWarps);
  BatchSource b;
  for (const auto& entry : games) {
    b.games.push_back(make_source(entry, options));
    const Bankswitch type = entry->bankswitch();
    if (options.num_players > 1 && (type == Bankswitch::kE0 || type == Bankswitch::kFE))
      refuse("num_players must be 1 with a cartridge of type E0 or FE");
  }
  for (i32 i = 0; i < n; ++i) {
    check_range("num_modifications", count[i], 1, i32(reset_snapshots.size()) - set[i]);
    check_range("action_delay", delay[i], 0, options.max_action_delay);
    b.setups.push_back(
        {u32(game[i]), u32(set[i]), u32(count[i]), mode[i], difficulty[i], delay[i]});
  }
  for (const Contiguous<u8>& rows : reset_snapshots) {
    b.reset_snapshots.emplace_back(rows.data(), rows.data() + rows.size());
  }
  b.options = options;
  b.autoreset = options.autoreset;
  b.log_capacity = log_capacity;
  b.pool_slots = u32(n);
  b.lanes_per_warp = lanes_per_warp;
  b.warps_per_block = warps_per_block;
  check(choose_blocks(n, b.draw_blocks), "occupancy of the render kernel");
  return std::make_shared<CudaBatch>(std::move(b));
}

// Addresses on the device; 0 for no memory.
StepOutputs make_outputs(u64 obs, u64 obs_stride, u64 ints, u64 flags, u32 width, u64 final_obs,
                         u64 final_obs_stride, u64 final_ints, bool stacked) {
  return {pointer<u8>(obs),
          obs_stride,
          pointer<i32>(ints),
          pointer<u8>(flags),
          pointer<u8>(final_obs),
          final_obs_stride,
          pointer<i32>(final_ints),
          width,
          stacked};
}

py::list kernel_resources() {
  py::list all;
  const auto add = [&all](cudaError_t error, const KernelResources& r) {
    check(error, "kernel attributes");
    py::dict d;
    d["name"] = r.name;
    d["registers"] = r.registers;
    d["local_bytes"] = r.local_bytes;
    d["shared_bytes"] = r.shared_bytes;
    d["max_threads"] = r.max_threads;
    all.append(d);
  };
  KernelResources r{};
  for (u32 family = 0; family < kFamilies; ++family) add(describe_step(Family(family), 1, r), r);
  add(describe_step(kBankFamily, kMaxPlayers, r), r);
  add(describe_finish_step(r), r);
  return all;
}

}  // namespace

void bind_cuda(py::module_& m) {
  py::register_exception<LaunchError>(m, "LaunchError", PyExc_RuntimeError);
  m.attr("ARCHITECTURES") = CULE_CUDA_ARCHITECTURES;
  m.attr("TOOLKIT") = CULE_CUDA_TOOLKIT;
  m.def("fault_text", &fault_text, py::arg("faults"), py::arg("num_actions"));
  m.attr("FAULT_ACTION") = u32(kFaultAction);
  m.def("kernel_resources", &kernel_resources);
  m.def("reserve_local_memory", &make_local_memory, py::arg("bytes"));
  // Why this module's runtime finds no device, whatever torch's says; None where it does.
  m.def("unavailable_reason", []() -> std::optional<std::string> {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) return std::nullopt;
    cudaGetLastError();
    return cudaGetErrorString(error);
  });
  // The newest CUDA that the driver supports, as 1000 major + 10 minor; 0 without a driver.
  m.def("driver_version", [] {
    int version = 0;
    check(cudaDriverGetVersion(&version), "version of the driver");
    return version;
  });
  m.def(
      "snapshot_error_text",
      [](u32 error, i32 index, const std::string& game_id) {
        return text_of(SnapshotError(error), index, game_id);
      },
      py::arg("error"), py::arg("index"), py::arg("game_id"));
  m.attr("BLOCK_SIDE") = kBlockSide;
  m.def(
      "gather_blocks",
      [](u64 frames, u64 index, u32 stacks, u32 stack, u32 height, u32 width, u64 out, u64 stream) {
        check(launch_gather_blocks(pointer<u8>(frames), pointer<i64>(index),
                                   {stacks, stack, height, width}, pointer<u16>(out),
                                   pointer<CUstream_st>(stream)),
              "kernel that gathers observations");
      },
      py::arg("frames"), py::arg("index"), py::arg("stacks"), py::arg("stack"), py::arg("height"),
      py::arg("width"), py::arg("out"), py::arg("stream"));
  m.def(
      "linear_recurrence",
      [](u64 added, u64 factors, u32 steps, u32 columns, u64 out, u64 stream) {
        check(launch_linear_recurrence(pointer<float>(added), pointer<float>(factors), steps,
                                       columns, pointer<float>(out), pointer<CUstream_st>(stream)),
              "kernel of returns");
      },
      py::arg("added"), py::arg("factors"), py::arg("steps"), py::arg("columns"), py::arg("out"),
      py::arg("stream"));
  py::class_<HostMemory>(m, "HostMemory", py::module_local())
      .def(py::init([](size_t bytes) {
             HostMemory memory;
             check(memory.allocate(bytes), "pinned host memory");
             return memory;
           }),
           py::arg("bytes"))
      .def_property_readonly("address", [](const HostMemory& memory) {
        void* address = nullptr;
        check(memory.find_address(address), "address of pinned host memory");
        return reinterpret_cast<u64>(address);
      });
  py::class_<StepOutputs>(m, "Outputs", py::module_local())
      .def(py::init(&make_outputs), py::kw_only(), py::arg("obs"), py::arg("obs_stride"),
           py::arg("ints"), py::arg("flags"), py::arg("width"), py::arg("final_obs") = 0,
           py::arg("final_obs_stride") = 0, py::arg("final_ints") = 0, py::arg("stacked") = true);
  const py::call_guard<WithoutGil> release;
  py::class_<CudaBatch, std::shared_ptr<CudaBatch>>(m, "Batch", py::module_local())
      .def(py::init(&make_batch), py::arg("games"), py::arg("game_index"), py::arg("modes"),
           py::arg("difficulties"), py::arg("action_delays"), py::arg("num_modifications"),
           py::arg("options"), py::arg("reset_set"), py::arg("reset_snapshots"),
           py::arg("log_capacity"), py::arg("lanes_per_warp"), py::arg("warps_per_block"))
      .def_property_readonly("bytes", [](CudaBatch& b) { return b.layout().bytes(); })
      .def_property_readonly("console_bytes",
                             [](CudaBatch& b) { return b.layout().console_bytes(); })
      .def_property_readonly("slot_bytes", [](CudaBatch& b) { return b.layout().slot_bytes(); })
      .def_property_readonly("pool_bytes", [](CudaBatch& b) { return b.layout().pool_bytes(); })
      .def_property_readonly("reserve_bytes",
                             [](CudaBatch& b) { return b.layout().reserve_bytes(); })
      .def_property_readonly("state_size", [](CudaBatch& b) { return b.layout().snapshot_bytes(); })
      .def("set_pool_slots", &CudaBatch::set_pool_slots, py::arg("slots"))
      .def("place_at", &CudaBatch::place_at, py::arg("address"), py::arg("pool_address"),
           py::arg("reserve_address"))
      .def_property_readonly("live", &CudaBatch::live)
      .def("step", &CudaBatch::step, release, py::arg("indices"), py::arg("joysticks"),
           py::arg("out"), py::arg("faults"), py::arg("stream"))
      .def("decorrelate", &CudaBatch::decorrelate, release, py::arg("max_steps"), py::arg("seed"),
           py::arg("faults"), py::arg("stream"))
      .def("reset", &CudaBatch::reset, release, py::arg("mask"), py::arg("seeds"), py::arg("out"),
           py::arg("stream"))
      .def("observe", &CudaBatch::observe, release, py::arg("out"), py::arg("stream"))
      .def("load_program", &CudaBatch::load_program, py::arg("code"))
      .def("close", &CudaBatch::close)
      .def_property_readonly("has_reset", &CudaBatch::has_reset)
      .def_property_readonly("has_program", &CudaBatch::has_program)
      .def("gather_snapshots", &CudaBatch::gather_snapshots, py::arg("indices"), py::arg("n"),
           py::arg("states"), py::arg("stream"))
      .def("check_snapshots", &CudaBatch::check_snapshots, py::arg("indices"), py::arg("n"),
           py::arg("states"), py::arg("errors"), py::arg("stream"))
      .def("scatter_snapshots", &CudaBatch::scatter_snapshots, py::arg("indices"), py::arg("n"),
           py::arg("states"), py::arg("stream"))
      .def("draw_screens", &CudaBatch::draw_screens, py::arg("indices"), py::arg("n"),
           py::arg("screens"), py::arg("stride"), py::arg("stream"))
      .def("write_objects", &CudaBatch::write_objects, py::arg("num_rows"), py::arg("rows"),
           py::arg("stream"));
  bind_cuda_xla(m);
}

}  // namespace cule
