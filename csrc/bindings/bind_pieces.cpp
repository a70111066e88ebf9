// bindings/bind_pieces.cpp: build_config(), and single functions of the core.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>

#include "bindings/bind.hpp"
#include "bindings/parse.hpp"
#include "env/agent.hpp"
#include "game/objects.hpp"
#include "host/resize_simd.hpp"
#include "obs/palette.hpp"

namespace cule {
namespace {

std::map<std::string, std::string> build_config() {
  return {{"version", CULE_VERSION},
          {"compiler", CULE_COMPILER},
          {"flags", CULE_FLAGS},
          {"cuda", CULE_CUDA_CONFIG}};
}

py::tuple run_rules(const std::vector<i32>& code, std::vector<i32> slots, const py::bytes& ram,
                    const py::bytes& cart_ram) {
  const auto cells = std::string_view(ram);
  const auto cart_cells = std::string_view(cart_ram);
  if (cells.size() != kRamBytes || cart_cells.size() != kRamBytes)
    refuse("ram and cart_ram must be of 128 bytes each");
  const i32 bad = find_program_error(code.data(), u32(code.size()), ProgramKind::kRules);
  if (bad >= 0) refuse("code[" + std::to_string(bad) + "] is no valid instruction");
  slots.resize(kMaxSlots);
  NoEffects none;
  const RuleMemory memory{reinterpret_cast<const u8*>(cells.data()),
                          reinterpret_cast<const u8*>(cart_cells.data())};
  const i32 result = run_program(code.data(), slots.data(), memory, none);
  return py::make_tuple(result, slots);
}

py::array_t<i16> objects_of(const std::vector<i32>& words, const py::bytes& ram) {
  const auto cells = std::string_view(ram);
  if (cells.size() != kRamBytes) refuse("ram must be of 128 bytes");
  if (!is_valid_objects(words.data(), u32(words.size())))
    refuse("words must be a compiled table of objects");
  const u8* bytes = reinterpret_cast<const u8*>(cells.data());
  const u32 count = count_objects(words.data());
  py::array_t<i16> rows({py::ssize_t(count), py::ssize_t(kObjectColumns)});
  const u8 no_ram[kRamBytes] = {};
  write_objects(words.data(), bytes, no_ram, count, rows.mutable_data());
  return rows;
}

py::array_t<u8> area_resize(const Contiguous<u8>& image, i64 height, i64 width) {
  if (image.ndim() != 2 && !(image.ndim() == 3 && image.shape(2) == 3))
    refuse("image has shape " + shape_text(image) + "; it must be (H, W) or (H, W, 3)");
  const i64 rows = image.shape(0);
  const i64 columns = image.shape(1);
  if (rows > kMaxAxis || columns > kMaxAxis || height > rows || width > columns ||
      !can_resize(i32(rows), i32(columns), i32(height), i32(width))) {
    refuse("height x width is " + std::to_string(height) + " x " + std::to_string(width) +
           "; it must be in 1 x 1 .. " + std::to_string(rows) + " x " + std::to_string(columns) +
           ", and the image at most 300 x 300");
  }
  const i32 channels = image.ndim() == 3 ? 3 : 1;
  std::vector<py::ssize_t> shape{height, width};
  if (channels == 3) shape.push_back(3);
  py::array_t<u8> out(shape);
  resize(make_resize_plan(i32(rows), i32(columns), i32(height), i32(width), channels), image.data(),
         out.mutable_data());
  return out;
}

py::array_t<u8> palette_array(const std::string& name) {
  if (name != "NTSC" && name != "PAL")
    refuse("format is '" + name + "'; it must be 'NTSC' or 'PAL'");
  const Format format = name == "PAL" ? Format::kPal : Format::kNtsc;
  py::array_t<u8> out({256, 4});
  auto cells = out.mutable_unchecked<2>();
  for (u32 i = 0; i < 256; ++i) {
    for (u32 k = 0; k < 3; ++k) cells(i, k) = rgb_table(format)[3 * i + k];
    cells(i, 3) = gray_table(format)[i];
  }
  return out;
}

}  // namespace

void bind_pieces(py::module_& m) {
  m.def("build_config", &build_config);
  m.def("run_program", &run_rules, py::arg("code"), py::arg("slots"), py::arg("ram"),
        py::arg("cart_ram"));
  m.def("objects_of", &objects_of, py::arg("words"), py::arg("ram"));
  m.def("area_resize", &area_resize, py::arg("image"), py::arg("height"), py::arg("width"));
  m.def("palette", &palette_array, py::arg("format"));
}

}  // namespace cule
