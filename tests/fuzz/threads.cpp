// tests/fuzz/threads.cpp: two threads translate the same programs while a third one forks; every
// thread and every child computes what the interpreter computes. A child that hangs is ended by an
// alarm. Arguments: number of programs, first seed.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "console.hpp"

using namespace cule;
using namespace cule::fuzz;

namespace {

constexpr u32 kFrames = 3;
constexpr u32 kForks = 4;  // a program

// Frames of stores, arithmetic, branches and calls that lead everywhere in the bank.
Bytes random_program(u32 seed) {
  constexpr u8 kOpcodes[] = {0xA9, 0x85, 0x65, 0xA2, 0xCA, 0xD0, 0x10, 0x90, 0xE8, 0x86, 0x95,
                             0xB5, 0xC9, 0x4A, 0x20, 0x4C, 0x60, 0x48, 0x68, 0xE6, 0x84, 0xA0};
  Mt19937 random;
  random.seed(seed);
  Bytes program(kBankBytes);
  for (size_t i = 0; i < program.size(); ++i) {
    const u32 draw = random.next();
    program[i] = draw % 3 == 0 ? u8(draw >> 8) : kOpcodes[(draw >> 8) % std::size(kOpcodes)];
    if (draw % 3 == 1 && i % 3 == 0) program[i] |= 0xF0;  // addresses in the cartridge
  }
  return program;
}

u64 run(const Cart& cart, jit::Translation* translation) {
  ConsoleProperties properties{};
  properties.first_line = 34;
  properties.height = 210;
  u64 digest = 0;
  for (u32 seed = 0; seed < 8; ++seed) {
    Rig rig(cart, properties, kLogCapacity);
    rig.power_on(seed);
    rig.state().cpu.pc = u16(0xF000 | seed << 9);
    CountedHostEngine engine;
    engine.translation = translation;
    for (u32 frame = 0; frame < kFrames; ++frame) {
      fuzz::set_inputs(rig.state(), properties, u8(frame));
      run_frame(rig.console(), engine);
      digest = mix64(digest ^ checksum_of(rig.state().ram, kRamBytes)) + rig.state().cycles;
    }
  }
  return digest;
}

void fork_and_check(const Cart& cart, jit::Translation* translation, u64 expected) {
  constexpr u32 kPatience = 20;  // seconds
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience);
    _exit(run(cart, translation) == expected ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) report("no child");
  if (WIFSIGNALED(status)) report("a forked process hangs or crashes");
  if (WEXITSTATUS(status) != 0) report("a forked process differs from the interpreter");
}

}  // namespace

int main(int count, char** arguments) {
  const u32 programs = count > 1 ? u32(std::atoi(arguments[1])) : 20;
  const u32 first = count > 2 ? u32(std::atoi(arguments[2])) : 0;
  for (u32 seed = first; seed < first + programs; ++seed) {
    const CartridgeImage image(random_program(seed));
    const u64 expected = run(image.cart(), nullptr);
    const auto translation = jit::Translation::make(image.cart());
    if (translation == nullptr) report("nothing can be translated on this machine");
    std::atomic<bool> is_equal{true};
    const auto check = [&] {
      if (run(image.cart(), translation.get()) != expected) is_equal = false;
    };
    std::thread one(check), other(check);
    for (u32 n = 0; n < kForks; ++n) fork_and_check(image.cart(), translation.get(), expected);
    one.join();
    other.join();
    if (!is_equal) report("a thread differs from the interpreter");
    ++totals().inputs;
  }
  return 0;
}
