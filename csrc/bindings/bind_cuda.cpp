// bindings/bind_cuda.cpp: the Python module cule._cuda: batches on a GPU.
//
// Device memory belongs to the caller, who gives addresses (torch tensors' data_ptr()) and the
// stream to launch on. Nothing but OnDemandMemory allocates device memory or waits for the device.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "batch/snapshot_errors.hpp"
#include "bindings/parse.hpp"
#include "cuda/device_layout.hpp"
#include "cuda/on_demand.hpp"
#include "host/env_slot.hpp"
#include "rom_kernel/loaded_step.hpp"

namespace cule {
namespace {

// A launch that the runtime refused.
struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    cudaGetLastError();  // or the next launch would be taken for the one that failed
    throw LaunchError(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

template <class T>
T* pointer(u64 address) {
  return reinterpret_cast<T*>(address);
}

GameSource make_source(const std::shared_ptr<Game>& game, const BatchOptions& o,
                       bool is_continuous) {
  const GameSetup setup = make_game_setup(game, o, is_continuous);
  const GameSpec& spec = game->spec();
  GameSource g;
  g.image = game->image();
  g.type = game->bankswitch();
  g.properties = game->properties();
  g.facts = game->facts();
  g.ale = setup.ale;
  g.agent = setup.agent;
  if (!o.ram_obs) g.resizer = setup.plan.resizer;
  g.actions = setup.actions;
  g.step_code = spec.step_code;
  g.lives_code = spec.lives_code;
  g.key = game->key();
  return g;
}

// A batch on the device; its methods launch and return.
class CudaBatch {
 public:
  CudaBatch(const std::vector<std::shared_ptr<Game>>& games, const py::object& game_index,
            const py::object& modes, const py::object& difficulties, const py::object& reset_set,
            const std::vector<Contiguous<u8>>& reset_snapshots, u32 lanes_per_warp,
            u32 warps_per_block, const py::kwargs& kwargs)
      : layout_(make_batch_source(games, game_index, modes, difficulties, reset_set,
                                  reset_snapshots, lanes_per_warp, warps_per_block, kwargs)) {}

  DeviceLayout& layout() { return layout_; }

  py::array_t<u8> place_at(u64 address, u64 spill_address) {
    const std::vector<u8> bytes = layout_.place_at(address, spill_address);
    return py::array_t<u8>(py::ssize_t(bytes.size()), bytes.data());
  }

  // Counts from the beginning of the block.
  u64 offset_of(const void* p) const { return reinterpret_cast<u64>(p) - base(); }

  void step(const StepActions& actions, const StepOutputs& out, bool resets_ended, u64 faults,
            u64 stream) {
    const auto s = pointer<CUstream_st>(stream);
    DeviceBatch b = layout_.batch();
    b.faults = pointer<u32>(faults);
    for (u32 family = 0; family < kFamilies; ++family) {
      const TileList& tiles = layout_.tiles(Family(family));
      if (tiles.size == 0) continue;
      check(has_program() ? program_.launch(b, tiles, actions, s)
                          : launch_step(Family(family), b, tiles, actions, s),
            "state-update kernel");
    }
    check(launch_finish_step(b, out, resets_ended, draw_blocks(), s), "render kernel");
  }
  // From the next step on, the game's own kernel, a module in a file, runs it. For one game.
  void load_program(const std::string& path) {
    LoadedStep loaded;
    check(loaded.load(path), "loading of a translated game");
    program_ = loaded;
  }
  bool has_program() const { return program_.kernel != nullptr; }

  void reset(const ResetRequest& request, const StepOutputs& out, u64 stream) {
    check(launch_reset(layout_.batch(), request, out, draw_blocks(), pointer<CUstream_st>(stream)),
          "reset kernel");
  }
  void observe(const StepOutputs& out, u64 stream) {
    check(launch_observe(layout_.batch(), out, draw_blocks(), pointer<CUstream_st>(stream)),
          "observation kernel");
  }
  void gather(u64 consoles, u32 n, u64 rows, u64 stream) {
    check(launch_gather_snapshots(layout_.batch(), pointer<i64>(consoles), n, pointer<u8>(rows),
                                  draw_blocks(), pointer<CUstream_st>(stream)),
          "row kernel");
  }
  void check_snapshots(u64 consoles, u32 n, u64 rows, u64 faults, u64 stream) {
    check(launch_check_snapshots(layout_.batch(), pointer<i64>(consoles), n, pointer<u8>(rows),
                                 pointer<u8>(faults), pointer<CUstream_st>(stream)),
          "row kernel");
  }
  void scatter(u64 consoles, u32 n, u64 rows, u64 stream) {
    check(launch_scatter_snapshots(layout_.batch(), pointer<i64>(consoles), n, pointer<u8>(rows),
                                   pointer<CUstream_st>(stream)),
          "row kernel");
  }
  void draw(u64 consoles, u32 n, u64 rows, u64 stride, u64 stream) {
    check(launch_draw_screens(layout_.batch(), pointer<i64>(consoles), n, pointer<u8>(rows), stride,
                              draw_blocks(), pointer<CUstream_st>(stream)),
          "screen kernel");
  }

 private:
  static BatchSource make_batch_source(const std::vector<std::shared_ptr<Game>>& games,
                                       const py::object& game_index, const py::object& modes,
                                       const py::object& difficulties, const py::object& reset_set,
                                       const std::vector<Contiguous<u8>>& reset_snapshots,
                                       u32 lanes_per_warp, u32 warps_per_block,
                                       const py::kwargs& kwargs) {
    const BatchRequest r = parse_request(game_index, modes, difficulties, games.size(), kwargs);
    if (!r.options.cached_resets) refuse("cached_resets: False; only cached resets are built in");
    if (lanes_per_warp < 1 || lanes_per_warp > kWarpLanes)
      refuse("lanes_per_warp: " + std::to_string(lanes_per_warp) + "; allowed is 1 to 32");
    if (warps_per_block < 1 || warps_per_block > kMaxStepWarps)
      refuse("warps_per_block: " + std::to_string(warps_per_block) + "; allowed is 1 to " +
             std::to_string(kMaxStepWarps));
    const i32 n = i32(r.game_index.size());
    const std::vector<i32> sets = copy_vector(reset_set, "reset_set", n);
    BatchSource b;
    for (const auto& game : games) b.games.push_back(make_source(game, r.options, r.is_continuous));
    for (size_t i = 0; i < size_t(n); ++i) {
      if (sets[i] < 0 || size_t(sets[i]) >= reset_snapshots.size())
        refuse("reset_set: " + std::to_string(sets[i]) + " is not one of the sets");
      b.setups.push_back({u32(r.game_index[i]), u32(sets[i]), r.modes[i], r.difficulties[i]});
    }
    for (const Contiguous<u8>& rows : reset_snapshots) {
      b.reset_snapshots.emplace_back(rows.data(), rows.data() + rows.size());
    }
    b.options = r.options;
    b.autoreset = r.autoreset;
    b.lanes_per_warp = lanes_per_warp;
    b.warps_per_block = warps_per_block;
    check(choose_blocks(n, b.draw_blocks), "occupancy of the render kernel");
    return b;
  }

  u64 base() const { return reinterpret_cast<u64>(layout_.batch().states) - states_offset(); }
  u64 states_offset() const { return (layout_.constant_bytes() + 255) / 256 * 256; }
  u32 draw_blocks() const { return layout_.source().draw_blocks; }

  DeviceLayout layout_;
  LoadedStep program_;  // kernel null: the interpreter's kernels run the games
};

// The tables that results go into, [rows, width], and observations; addresses, 0 for none.
StepOutputs make_outputs(const py::tuple& t) {
  if (t.size() != 9) refuse("outputs: 9 numbers are needed");
  StepOutputs out{};
  out.obs = pointer<u8>(t[0].cast<u64>());
  out.obs_stride = t[1].cast<u64>();
  out.ints = pointer<i32>(t[2].cast<u64>());
  out.flags = pointer<u8>(t[3].cast<u64>());
  out.final_obs = pointer<u8>(t[4].cast<u64>());
  out.final_obs_stride = t[5].cast<u64>();
  out.final_ints = pointer<i32>(t[6].cast<u64>());
  out.width = t[7].cast<u32>();
  out.stacked = t[8].cast<bool>();
  return out;
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
  for (u32 family = 0; family < kFamilies; ++family) add(describe_step(Family(family), r), r);
  add(describe_find_bands(r), r);
  add(describe_finish_step(r), r);
  return all;
}

}  // namespace

void bind_cuda(py::module_& m) {
  py::register_exception<LaunchError>(m, "LaunchError", PyExc_RuntimeError);
  m.attr("ARCHITECTURES") = CULE_CUDA_ARCHITECTURES;
  m.attr("TOOLKIT") = CULE_CUDA_TOOLKIT;
  m.attr("FAULT_ACTION") = u32(kFaultAction);
  m.attr("FAULT_ENDED") = u32(kFaultEnded);
  m.def("kernel_resources", &kernel_resources);
  // Why this module's runtime finds no device, whatever torch's says; None where it does.
  m.def("unavailable_reason", []() -> std::optional<std::string> {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) return std::nullopt;
    cudaGetLastError();
    return cudaGetErrorString(error);
  });
  m.def("row_fault_text", [](u32 fault, i32 console, const std::string& game_id) {
    return text_of(SnapshotError(fault), console, game_id);
  });
  py::class_<OnDemandMemory>(m, "OnDemandMemory", py::module_local())
      .def(py::init([](size_t bytes) {
             OnDemandMemory memory;
             check(memory.allocate(bytes), "managed memory");
             return memory;
           }),
           py::arg("bytes"))
      .def_static("is_supported",
                  [] {
                    bool is_supported = false;
                    check(OnDemandMemory::is_supported(is_supported), "device attributes");
                    return is_supported;
                  })
      .def_property_readonly("address", [](const OnDemandMemory& memory) {
        return reinterpret_cast<u64>(memory.data());
      });
  py::class_<CudaBatch>(m, "Batch")
      .def(py::init<const std::vector<std::shared_ptr<Game>>&, const py::object&, const py::object&,
                    const py::object&, const py::object&, const std::vector<Contiguous<u8>>&, u32,
                    u32, const py::kwargs&>(),
           py::arg("games"), py::arg("game_index"), py::arg("modes"), py::arg("difficulties"),
           py::arg("reset_set"), py::arg("reset_snapshots"), py::arg("lanes_per_warp"),
           py::arg("warps_per_block"))
      .def_property_readonly("bytes", [](CudaBatch& b) { return b.layout().bytes(); })
      .def_property_readonly("console_bytes",
                             [](CudaBatch& b) { return b.layout().console_bytes(); })
      .def_property_readonly("spill_bytes", [](CudaBatch& b) { return b.layout().spill_bytes(); })
      .def_property_readonly("state_size", [](CudaBatch& b) { return b.layout().snapshot_bytes(); })
      .def("place_at", &CudaBatch::place_at, py::arg("address"), py::arg("spill_address"))
      .def_property_readonly("live",
                             [](CudaBatch& b) {
                               const SlotState* s = b.layout().batch().states;
                               return py::make_tuple(sizeof(SlotState), b.offset_of(s->console.ram),
                                                     b.offset_of(&s->agent.lives),
                                                     b.offset_of(&s->env.episode_frame_number));
                             })
      .def(
          "step",
          [](CudaBatch& b, u64 indices, u64 joysticks, const py::tuple& outputs, u64 faults,
             u64 stream) {
            const StepActions actions{pointer<i32>(indices), pointer<float>(joysticks), 0, 0, 0};
            if (indices == 0 && joysticks == 0) refuse("actions: an address is needed");
            const StepOutputs out = make_outputs(outputs);
            py::gil_scoped_release release;
            b.step(actions, out, false, faults, stream);
          },
          py::arg("indices"), py::arg("joysticks"), py::arg("outputs"), py::arg("faults"),
          py::arg("stream"))
      .def(
          "decorrelate",
          [](CudaBatch& b, i32 max_steps, u64 seed, u64 faults, u64 stream) {
            py::gil_scoped_release release;
            for (i32 step = 0; step < max_steps; ++step) {
              const StepActions actions{nullptr, nullptr, seed, step, max_steps};
              b.step(actions, StepOutputs{}, true, faults, stream);
            }
          },
          py::arg("max_steps"), py::arg("seed"), py::arg("faults"), py::arg("stream"))
      .def(
          "reset",
          [](CudaBatch& b, u64 mask, u64 seeds, const py::tuple& outputs, u64 stream) {
            const StepOutputs out = make_outputs(outputs);
            const ResetRequest request{pointer<u8>(mask), pointer<i64>(seeds)};
            py::gil_scoped_release release;
            b.reset(request, out, stream);
          },
          py::arg("mask"), py::arg("seeds"), py::arg("outputs"), py::arg("stream"))
      .def(
          "observe",
          [](CudaBatch& b, const py::tuple& outputs, u64 stream) {
            const StepOutputs out = make_outputs(outputs);
            py::gil_scoped_release release;
            b.observe(out, stream);
          },
          py::arg("outputs"), py::arg("stream"))
      .def("load_program", &CudaBatch::load_program, py::arg("path"))
      .def_property_readonly("has_program", &CudaBatch::has_program)
      .def("gather_snapshots", &CudaBatch::gather, py::arg("consoles"), py::arg("n"),
           py::arg("rows"), py::arg("stream"))
      .def("check_snapshots", &CudaBatch::check_snapshots, py::arg("consoles"), py::arg("n"),
           py::arg("rows"), py::arg("faults"), py::arg("stream"))
      .def("scatter_snapshots", &CudaBatch::scatter, py::arg("consoles"), py::arg("n"),
           py::arg("rows"), py::arg("stream"))
      .def("draw_screens", &CudaBatch::draw, py::arg("consoles"), py::arg("n"), py::arg("rows"),
           py::arg("stride"), py::arg("stream"));
}

}  // namespace cule
