// bindings/bind_game.cpp: cule._core.Game and the errors it raises.
#include <pybind11/stl.h>

#include <string>
#include <string_view>

#include "bindings/bind.hpp"
#include "bindings/parse.hpp"
#include "host/coverage.hpp"
#include "host/game.hpp"
#include "host/rules_file.hpp"
#include "rom_kernel/limits.hpp"

namespace cule {
namespace {

bool is_paddles(const std::string& controller, const char* name) {
  if (controller != "joystick" && controller != "none" && controller != "paddles") {
    refuse(std::string(name) + " is '" + controller +
           "'; it must be 'joystick', 'paddles' or 'none'");
  }
  return controller == "paddles";
}

void bind_spec(py::module_& m) {
  py::class_<GameSpec> spec(m, "GameSpec");
  spec.def(py::init<>())
      .def_readwrite("game_id", &GameSpec::game_id)
      .def_readwrite("legal_actions", &GameSpec::legal_actions)
      .def_readwrite("minimal_actions", &GameSpec::minimal_actions)
      .def_readwrite("starting_actions", &GameSpec::starting_actions)
      .def_readwrite("modes", &GameSpec::modes)
      .def_readwrite("default_mode", &GameSpec::default_mode)
      .def_readwrite("difficulties", &GameSpec::difficulties)
      .def_readwrite("paddle_max", &GameSpec::paddle_max)
      .def_readwrite("state", &GameSpec::state)
      .def_readwrite("step_code", &GameSpec::step_code)
      .def_readwrite("lives_code", &GameSpec::lives_code)
      .def_readwrite("setup_code", &GameSpec::setup_code)
      .def_readwrite("num_players", &GameSpec::num_players)
      .def_readwrite("kept_slots", &GameSpec::kept_slots)
      .def_readwrite("lives_at", &GameSpec::lives_at)
      .def_readwrite("objects", &GameSpec::objects)
      .def_readwrite("modifications", &GameSpec::modifications)
      .def_readwrite("translates", &GameSpec::translates);
  // The others can be written only.
  const auto set = [&spec](const char* name, auto setter) {
    spec.def_property(name, nullptr, py::cpp_function(setter, py::is_method(spec)));
  };
  set("rom", [](GameSpec& g, const py::bytes& rom) {
    const auto bytes = std::string_view(rom);
    g.rom.assign(bytes.begin(), bytes.end());
  });
  set("format", [](GameSpec& g, const std::string& format) {
    if (format != "auto" && format != "NTSC" && format != "PAL")
      refuse("format is '" + format + "'; it must be 'auto', 'NTSC' or 'PAL'");
    g.detect_format = format == "auto";
    g.properties.format = format == "PAL" ? Format::kPal : Format::kNtsc;
  });
  set("ystart", [](GameSpec& g, u32 line) { g.properties.first_line = line; });
  set("height", [](GameSpec& g, u32 height) { g.properties.height = height; });
  set("controller_left", [](GameSpec& g, const std::string& controller) {
    g.properties.left_paddles = is_paddles(controller, "controller_left");
  });
  set("controller_right", [](GameSpec& g, const std::string& controller) {
    g.properties.right_paddles = is_paddles(controller, "controller_right");
  });
  set("swap_ports", [](GameSpec& g, bool swaps) { g.properties.swap_ports = swaps; });
  set("swap_paddles", [](GameSpec& g, bool swaps) { g.properties.swap_paddles = swaps; });
  set("hmove_blanks", [](GameSpec& g, bool blanks) { g.properties.hmove_blanks = blanks; });
  set("left_difficulty_a", [](GameSpec& g, bool is_a) {
    g.property_difficulty = (g.property_difficulty & ~1u) | u32(is_a);
  });
  set("right_difficulty_a", [](GameSpec& g, bool is_a) {
    g.property_difficulty = (g.property_difficulty & ~2u) | u32(is_a) << 1;
  });
}

}  // namespace

void bind_game(py::module_& m) {
#if defined(CULE_HAS_JIT)
  m.attr("HAS_JIT") = true;
#else
  m.attr("HAS_JIT") = false;
#endif
  py::register_exception<UnsupportedRom>(m, "UnsupportedRomError", PyExc_ValueError);
  py::register_exception<ModeUnreachable>(m, "ModeUnreachableError", PyExc_RuntimeError);
  bind_spec(m);
  py::class_<Game, std::shared_ptr<Game>>(m, "Game")
      .def(py::init([](const GameSpec& spec) { return std::make_shared<Game>(spec); }),
           py::arg("spec"))
      .def_property_readonly("game_id", [](const Game& g) { return g.spec().game_id; })
      .def_property_readonly("bankswitch", &Game::bankswitch_name)
      .def_property_readonly(
          "format",
          [](const Game& g) { return g.properties().format == Format::kPal ? "PAL" : "NTSC"; })
      .def_property_readonly("is_translated",
                             [](const Game& g) { return g.engine().translation != nullptr; })
      .def_property_readonly("code_bytes", &Game::code_bytes)
      .def_property_readonly("rules_file",
                             [](const Game& g) {
                               const std::string bytes = write_rules(g.spec());
                               return py::bytes(bytes);
                             })
      .def_property_readonly("rom",
                             [](const Game& g) {
                               const Bytes& rom = g.spec().rom;
                               return py::bytes(reinterpret_cast<const char*>(rom.data()),
                                                rom.size());
                             })
      .def(
          "lane_source",
          [](const Game& g, u32 frames, u32 seeds, u32 most, bool is_alone) {
            return rom_kernel::make_source(g.cart(), g.image().size() - sizeof(u32),
                                           {is_alone, most}, find_reached(g, frames, seeds));
          },
          py::arg("frames"), py::arg("seeds"), py::arg("most"), py::arg("is_alone") = false,
          py::call_guard<WithoutGil>())
      .def_property_readonly("screen_height", [](const Game& g) { return g.properties().height; })
      .def_property_readonly("minimal_actions",
                             [](const Game& g) { return g.spec().minimal_actions; })
      .def_property_readonly("legal_actions", [](const Game& g) { return g.spec().legal_actions; });
  m.attr("LANE_PART_REGISTERS") = kPartRegisters;
  m.attr("LANE_QUIET_ENTRIES") = kQuietEntries;
  m.def("lane_kernel_source", &rom_kernel::make_kernel_source, py::arg("is_alone"));
  m.def(
      "detect_bankswitch",
      [](const py::bytes& rom) {
        const auto bytes = std::string_view(rom);
        const std::string name = detect_bankswitch(Bytes(bytes.begin(), bytes.end()));
        if (name.empty())
          refuse("rom holds " + std::to_string(bytes.size()) + " bytes; no cartridge type fits");
        return name;
      },
      py::arg("rom"));
}

}  // namespace cule
