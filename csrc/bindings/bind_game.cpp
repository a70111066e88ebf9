// bindings/bind_game.cpp: cule._core.Game and the errors it raises.
#include <pybind11/stl.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "bindings/bind.hpp"
#include "host/coverage.hpp"
#include "host/game.hpp"

namespace py = pybind11;

namespace cule {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

template <class T>
T take(const py::kwargs& kwargs, const char* name) {
  if (!kwargs.contains(name))
    throw py::type_error(std::string("Game() is missing the argument ") + name);
  try {
    return kwargs[name].cast<T>();
  } catch (const py::cast_error&) {
    refuse(std::string(name) + ": not of the right type: " + std::string(py::repr(kwargs[name])));
  }
}

bool is_paddles(const std::string& controller, const char* name) {
  if (controller == "paddles") return true;
  if (controller == "joystick" || controller == "none") return false;
  refuse(std::string(name) + ": '" + controller + "'; allowed are joystick, paddles, none");
}

u32 parse_ranged(const py::kwargs& kwargs, const char* name, i64 low, i64 high) {
  const i64 value = take<i64>(kwargs, name);
  if (value < low || value > high) {
    refuse(std::string(name) + ": " + std::to_string(value) + "; allowed is " +
           std::to_string(low) + " to " + std::to_string(high));
  }
  return u32(value);
}

std::vector<i32> parse_actions(const py::kwargs& kwargs, const char* name, bool allows_reset) {
  const auto actions = take<std::vector<i32>>(kwargs, name);
  for (const i32 a : actions) {
    if ((a < 0 || a >= kActions) && !(allows_reset && a == kResetSwitch)) {
      refuse(std::string(name) + ": " + std::to_string(a) +
             " is not an action; allowed are 0 to 17" + (allows_reset ? " and 40 (RESET)" : ""));
    }
  }
  return actions;
}

GameSpec parse_spec(const py::kwargs& kwargs) {
  GameSpec g;
  g.game_id = take<std::string>(kwargs, "game_id");
  const auto rom = take<py::bytes>(kwargs, "rom");
  const auto bytes = std::string_view(rom);
  g.rom.assign(bytes.begin(), bytes.end());
  const auto format = take<std::string>(kwargs, "format");
  if (format != "auto" && format != "NTSC" && format != "PAL") {
    refuse("format: '" + format + "'; allowed are auto, NTSC, PAL");
  }
  g.detect_format = format == "auto";
  ConsoleProperties& p = g.properties;
  p.format = format == "PAL" ? Format::kPal : Format::kNtsc;
  p.first_line = parse_ranged(kwargs, "ystart", 0, 64);
  p.height = parse_ranged(kwargs, "height", kMinHeight, kMaxRows - 40);
  p.hmove_blanks = take<bool>(kwargs, "hmove_blanks");
  p.left_paddles = is_paddles(take<std::string>(kwargs, "controller_left"), "controller_left");
  p.right_paddles = is_paddles(take<std::string>(kwargs, "controller_right"), "controller_right");
  p.swap_ports = take<bool>(kwargs, "swap_ports");
  p.swap_paddles = take<bool>(kwargs, "swap_paddles");
  if (p.swap_ports && (p.left_paddles || p.right_paddles))
    refuse("swap_ports: not supported with paddles");
  g.property_difficulty = u32(take<bool>(kwargs, "left_difficulty_a")) |
                          u32(take<bool>(kwargs, "right_difficulty_a")) << 1;
  g.legal_actions = parse_actions(kwargs, "legal_actions", false);
  g.minimal_actions = parse_actions(kwargs, "minimal_actions", false);
  g.starting_actions = parse_actions(kwargs, "starting_actions", true);
  g.modes = take<std::vector<i32>>(kwargs, "modes");
  g.difficulties = take<std::vector<i32>>(kwargs, "difficulties");
  g.default_mode = take<i32>(kwargs, "default_mode");
  g.paddle_max = i32(parse_ranged(kwargs, "paddle_max", 1, 10000000));
  g.state = take<std::vector<i32>>(kwargs, "state");
  g.step_code = take<std::vector<i32>>(kwargs, "step_code");
  g.lives_code = take<std::vector<i32>>(kwargs, "lives_code");
  g.setup_code = take<std::vector<i32>>(kwargs, "setup_code");
  const char* wish = std::getenv("CULE_TRANSLATION");
  g.translates = wish == nullptr || std::string_view(wish) != "0";
  constexpr size_t kArguments = 23;
  if (kwargs.size() != kArguments) throw py::type_error("Game(): an argument has an unknown name");
  return g;
}

}  // namespace

void bind_game(py::module_& m) {
  py::register_exception<UnsupportedRom>(m, "UnsupportedRomError", PyExc_ValueError);
  py::register_exception<ModeUnreachable>(m, "ModeUnreachableError", PyExc_RuntimeError);
  py::class_<Game, std::shared_ptr<Game>>(m, "Game")
      .def(py::init(
          [](const py::kwargs& kwargs) { return std::make_shared<Game>(parse_spec(kwargs)); }))
      .def_property_readonly("game_id", [](const Game& g) { return g.spec().game_id; })
      .def_property_readonly("bankswitch", &Game::bankswitch_name)
      .def_property_readonly(
          "format",
          [](const Game& g) { return g.properties().format == Format::kPal ? "PAL" : "NTSC"; })
      .def_property_readonly("code_bytes", &Game::code_bytes)
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
          py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("screen_height", [](const Game& g) { return g.properties().height; })
      .def_property_readonly("minimal_actions",
                             [](const Game& g) { return g.spec().minimal_actions; })
      .def_property_readonly("legal_actions", [](const Game& g) { return g.spec().legal_actions; });
  m.def("detect_bankswitch", [](const py::bytes& rom) {
    const auto bytes = std::string_view(rom);
    const std::string name = detect_bankswitch(Bytes(bytes.begin(), bytes.end()));
    if (name.empty()) {
      throw std::invalid_argument("rom: no cartridge type fits an image of " +
                                  std::to_string(bytes.size()) + " bytes");
    }
    return name;
  });
}

}  // namespace cule
