// bindings/bind_console.cpp: cule._core.Console, one console behind the ALE interface, and the
// console's constants.
#include <pybind11/numpy.h>

#include "batch/snapshot.hpp"
#include "bindings/bind.hpp"
#include "bindings/parse.hpp"
#include "env/agent.hpp"
#include "host/ale_console.hpp"
#include "obs/palette.hpp"

namespace cule {
namespace {

using Array = py::array_t<u8>;

Array copy_array(const u8* data, std::vector<py::ssize_t> shape) {
  Array out(shape);
  std::memcpy(out.mutable_data(), data, size_t(out.size()));
  return out;
}

py::ssize_t rows(AleConsole& c) { return py::ssize_t(c.height()); }

Array screen_rgb(AleConsole& c) {
  Array out({rows(c), py::ssize_t(kScreenWidth), py::ssize_t(3)});
  const std::vector<u8>& screen = c.screen();
  write_rgb(c.game().properties().format, screen.data(), screen.size(), out.mutable_data());
  return out;
}

Array screen_gray(AleConsole& c) {
  Array out({rows(c), py::ssize_t(kScreenWidth)});
  const u8* table = gray_table(c.game().properties().format);
  u8* to = out.mutable_data();
  for (const u8 index : c.screen()) *to++ = table[index];
  return out;
}

// Emulation, which signals can end between frames.
template <class Call>
void run_frames(const Call& call) {
  refuse_in_signal_handler();
  run_interruptibly([&](Interruption* interruption) {
    const InterruptionScope scope(interruption);
    call();
  });
}

// Calls a Python function, which must not raise, with what `look` returns; nothing for None.
template <class Look>
std::function<void(AleConsole&)> hook(const py::object& function, Look look) {
  if (function.is_none()) return {};
  // The console may be freed where the GIL is not held.
  const std::shared_ptr<py::object> held(new py::object(function), [](py::object* object) {
    py::gil_scoped_acquire gil;
    delete object;
  });
  return [held, look](AleConsole& c) {
    py::gil_scoped_acquire gil;
    (*held)(look(c));
  };
}

// The options as ALE's settings are: paddles below 0 have the game's range.
AleConsoleOptions make_console_options() {
  AleConsoleOptions o;
  o.settings.repeat_action_probability = 0.25f;
  o.settings.paddle_min = o.settings.paddle_max = -1;
  return o;
}

std::shared_ptr<AleConsole> make_console(std::shared_ptr<Game> game, AleConsoleOptions o,
                                         const py::object& on_screen, const py::object& on_sound) {
  check_range("action_delay", o.action_delay, 0, kMaxActionDelay);
  AleSettings& a = o.settings;
  a.frame_skip = a.frame_skip < 1 ? 1 : a.frame_skip;
  if (a.paddle_min < 0) a.paddle_min = kDefaultPaddleMin;
  if (a.paddle_max < 0) a.paddle_max = game->spec().paddle_max;
  check_range("paddle_min", a.paddle_min, 0, kMostPaddle);
  check_range("paddle_max", a.paddle_max, 0, kMostPaddle);
  // As in ALE, where a lower bound exceeds the upper one, the upper one holds.
  a.paddle_min = std::min(a.paddle_min, a.paddle_max);
  o.reward_min = std::min(o.reward_min, o.reward_max);
  o.before_frame = hook(on_screen, [](AleConsole& c) { return screen_rgb(c); });
  o.after_frame =
      hook(on_sound, [](AleConsole& c) { return copy_array(c.frame_audio(), {kSoundSamples}); });
  std::shared_ptr<AleConsole> console;
  run_frames([&] { console = std::make_shared<AleConsole>(std::move(game), o); });
  return console;
}

void bind_console_options(py::module_& m) {
  py::class_<AleConsoleOptions> options(m, "ConsoleOptions");
  options.def(py::init(&make_console_options))
      .def_readwrite("color_averaging", &AleConsoleOptions::color_averaging)
      .def_readwrite("sound_obs", &AleConsoleOptions::sound_obs)
      .def_readwrite("action_delay", &AleConsoleOptions::action_delay)
      .def_readwrite("reward_min", &AleConsoleOptions::reward_min)
      .def_readwrite("reward_max", &AleConsoleOptions::reward_max);
  const auto seed = [&options](const char* name, u32 AleConsoleOptions::* field) {
    options.def_property(
        name, [field](const AleConsoleOptions& o) { return o.*field; },
        [field](AleConsoleOptions& o, i64 value) { o.*field = u32(value); });
  };
  seed("random_seed", &AleConsoleOptions::random_seed);
  seed("system_random_seed", &AleConsoleOptions::machine_seed);
  const auto settings = [](AleConsoleOptions& o) -> AleSettings& { return o.settings; };
  bind_part(options, settings, "repeat_action_probability",
            &AleSettings::repeat_action_probability);
  bind_part(options, settings, "frame_skip", &AleSettings::frame_skip);
  bind_part(options, settings, "max_num_frames_per_episode",
            &AleSettings::max_num_frames_per_episode);
  bind_part(options, settings, "truncate_on_loss_of_life", &AleSettings::truncate_on_loss_of_life);
  bind_part(options, settings, "paddle_min", &AleSettings::paddle_min);
  bind_part(options, settings, "paddle_max", &AleSettings::paddle_max);
}

constexpr u32 kStateMagic = 0x32454C41;  // "ALE2"

// A saved state: this header, then the bytes of the console.
struct StateHeader {
  u32 magic;
  u32 include_rng;
  u64 key;       // of the game
  u64 checksum;  // of what follows
};

py::bytes get_state(AleConsole& c, bool include_rng) {
  std::string bytes(sizeof(StateHeader) + c.state_bytes(), '\0');
  u8* p = reinterpret_cast<u8*>(bytes.data());
  c.get_state(p + sizeof(StateHeader), include_rng);
  const StateHeader h{kStateMagic, include_rng, c.game().key(),
                      checksum_of(p + sizeof(StateHeader), c.state_bytes())};
  std::memcpy(p, &h, sizeof h);
  return py::bytes(bytes);
}

void set_state(AleConsole& c, const py::bytes& state) {
  const auto bytes = std::string_view(state);
  const u8* p = reinterpret_cast<const u8*>(bytes.data());
  StateHeader h{};
  if (bytes.size() < sizeof h) refuse("state is too short to be a saved console");
  std::memcpy(&h, p, sizeof h);
  if (h.magic != kStateMagic) refuse("state is not a saved console");
  if (h.key != c.game().key() || bytes.size() != sizeof h + c.state_bytes())
    refuse("state is of another game than " + c.game().spec().game_id +
           ", or of another action_delay");
  if (h.checksum != checksum_of(p + sizeof h, c.state_bytes()) || !c.can_restore(p + sizeof h))
    refuse("state is corrupted");
  c.set_state(p + sizeof h, h.include_rng != 0);
}

// A snapshot: the same header with another magic number, then everything.
constexpr u32 kSnapshotMagic = 0x534E4150;  // "SNAP"

py::bytes get_snapshot(AleConsole& c) {
  std::string bytes(sizeof(StateHeader) + c.snapshot_bytes(), '\0');
  u8* p = reinterpret_cast<u8*>(bytes.data());
  c.get_snapshot(p + sizeof(StateHeader));
  const StateHeader h{kSnapshotMagic, 1, c.game().key(),
                      checksum_of(p + sizeof(StateHeader), c.snapshot_bytes())};
  std::memcpy(p, &h, sizeof h);
  return py::bytes(bytes);
}

void set_snapshot(AleConsole& c, const py::bytes& snapshot) {
  const auto bytes = std::string_view(snapshot);
  const u8* p = reinterpret_cast<const u8*>(bytes.data());
  StateHeader h{};
  if (bytes.size() != sizeof h + c.snapshot_bytes()) refuse("snapshot is of another console");
  std::memcpy(&h, p, sizeof h);
  if (h.magic != kSnapshotMagic || h.key != c.game().key() ||
      h.checksum != checksum_of(p + sizeof h, c.snapshot_bytes()) || !c.can_restore(p + sizeof h))
    refuse("snapshot is damaged, or of another game than " + c.game().spec().game_id);
  c.set_snapshot(p + sizeof h);
}

}  // namespace

void bind_console(py::module_& m) {
  m.attr("SCREEN_WIDTH") = kScreenWidth;
  m.attr("RAM_BYTES") = kRamBytes;
  m.attr("MAX_SPRITES") = kMaxSpriteRows;
  m.attr("SOUND_SAMPLES") = kSoundSamples;
  m.attr("RESET_ACTION") = i32(kResetSwitch);
  m.def("joystick_action", &action_from_joystick, py::arg("x"), py::arg("y"), py::arg("fire"),
        py::arg("threshold"));
  bind_console_options(m);
  py::class_<AleConsole, std::shared_ptr<AleConsole>>(m, "Console")
      .def(py::init(&make_console), py::arg("game"), py::arg("options"),
           py::arg("on_screen") = py::none(), py::arg("on_sound") = py::none())
      .def("reset_game", [](AleConsole& c) { run_frames([&] { c.reset(); }); })
      .def(
          "act",
          [](AleConsole& c, i32 action, float strength) {
            i32 reward = 0;
            run_frames([&] { reward = c.act(action, strength); });
            return reward;
          },
          py::arg("action"), py::arg("paddle_strength") = 1.0f)
      .def("lives", &AleConsole::lives)
      .def(
          "game_over",
          [](AleConsole& c, bool with_truncation) {
            return c.is_terminal() || (with_truncation && c.is_truncated());
          },
          py::arg("with_truncation") = true)
      .def("game_truncated", &AleConsole::is_truncated)
      .def_property_readonly("frame_number", [](AleConsole& c) { return c.env().frame_number; })
      .def_property_readonly("episode_frame_number",
                             [](AleConsole& c) { return c.env().episode_frame_number; })
      .def_property(
          "mode", [](AleConsole& c) { return c.env().mode; },
          [](AleConsole& c, i32 mode) { c.env().mode = mode; })
      .def_property(
          "difficulty", [](AleConsole& c) { return c.env().difficulty; },
          [](AleConsole& c, i32 difficulty) { c.env().difficulty = difficulty; })
      .def("ram", [](AleConsole& c) { return copy_array(c.ram(), {kRamBytes}); })
      .def("set_ram",
           [](AleConsole& c, i64 index, u8 value) {
             check_range("index", index, 0, kRamBytes - 1);
             c.set_ram(u32(index), value);
           })
      .def("screen_index",
           [](AleConsole& c) { return copy_array(c.screen().data(), {rows(c), kScreenWidth}); })
      .def("screen_rgb", &screen_rgb)
      .def("screen_gray", &screen_gray)
      .def_property_readonly("has_frame", &AleConsole::has_frame)
      .def(
          "sprites",
          [](AleConsole& c, i64 max_sprites) {
            check_range("max_sprites", max_sprites, 1, kMaxSpriteRows);
            if (!c.has_frame()) refuse("no frame has been emulated since the restore");
            py::array_t<i16> out({py::ssize_t(max_sprites), py::ssize_t(kSpriteColumns)});
            c.write_sprites(u32(max_sprites), out.mutable_data());
            return out;
          },
          py::arg("max_sprites"))
      .def("audio", [](AleConsole& c) { return copy_array(c.audio(), {kSoundSamples}); })
      .def("get_state", &get_state, py::arg("include_rng"))
      .def("set_state", &set_state, py::arg("state"))
      .def("get_snapshot", &get_snapshot)
      .def("set_snapshot", &set_snapshot, py::arg("snapshot"));
}

}  // namespace cule
