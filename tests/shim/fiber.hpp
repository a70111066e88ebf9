// tests/shim/fiber.hpp: stacks and the switch between them; a fiber is a CUDA thread on the CPU.
//
// prepare_fiber() makes a fiber begin at a function on a stack of its own, switch_fiber() leaves
// one and continues another. Stacks are mapped once and reused; a fiber that is abandoned leaves
// only its frames behind. ucontext saves the signal mask with a system
// call at every switch, so it is used only where there is no switch written by hand.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#if !defined(CULE_SHIM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define CULE_SHIM_UCONTEXT
#endif

#if defined(CULE_SHIM_UCONTEXT)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cule::shim {

inline constexpr std::size_t kStackBytes = 256 * 1024;

// Stacks with an unmapped page below each, so that an overflow is a fault.
class Stacks {
 public:
  // Address just above stack `index`, aligned to 64 bytes.
  unsigned char* top(std::size_t index) {
    while (bottoms_.size() <= index) bottoms_.push_back(map());
    // Stacks are a whole number of pages apart: without this offset the same frame of every lane
    // would lie in the same few sets of the first-level cache.
    const std::size_t colour = (index * 2 + index / 32) % 64 * 64;
    return bottoms_[index] + kStackBytes - colour;
  }

  // To be called when fibers were abandoned: frames that no fiber has left are still out of bounds
  // for the address sanitizer.
  void forget_frames() const {
#if defined(__SANITIZE_ADDRESS__)
    for (unsigned char* bottom : bottoms_) __asan_unpoison_memory_region(bottom, kStackBytes);
#endif
  }

 private:
  static unsigned char* map() {
    const std::size_t guard = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const base = mmap(nullptr, guard + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base, guard, PROT_NONE) != 0) throw std::bad_alloc();
    return static_cast<unsigned char*>(base) + guard;
  }

  std::vector<unsigned char*> bottoms_;  // lowest usable byte of each stack; mapped for good
};

#if defined(CULE_SHIM_UCONTEXT)

struct Fiber {
  ucontext_t context;
};

inline void prepare_fiber(Fiber& fiber, unsigned char* top, void (*entry)()) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = top - kStackBytes / 2;
  fiber.context.uc_stack.ss_size = kStackBytes / 2;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}

inline void switch_fiber(Fiber& from, const Fiber& to) { swapcontext(&from.context, &to.context); }

#else

struct Fiber {
  void* stack_pointer = nullptr;  // what switch_fiber() left there is on the stack below it
};

// Lays out the stack as switch_fiber() leaves it, with `entry` as the place to go on. The zeros
// above are where an unwinder stops.
inline void prepare_fiber(Fiber& fiber, unsigned char* top, void (*entry)()) {
  void** words = reinterpret_cast<void**>(top) - 8;
  for (int i = 0; i < 8; ++i) words[i] = nullptr;
#if defined(__x86_64__)
  words[0] = reinterpret_cast<void*>(entry);  // the return address of `entry` is the zero above
#else
  words[2] = reinterpret_cast<void*>(entry);
#endif
  fiber.stack_pointer = words;
}

// Every register that a call keeps is named as clobbered, so the compiler saves what it needs; the
// frame pointer cannot be named and is saved here. Never inlined, and noipa where it exists: a
// caller must believe that all other registers are lost as well.
#if defined(__clang__)
__attribute__((noinline))
#else
__attribute__((noinline, noipa))
#endif
inline void switch_fiber(Fiber& from, const Fiber& to) {
#if defined(__x86_64__)
  void** save = &from.stack_pointer;
  void* load = to.stack_pointer;
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"  // past the red zone
      "pushq %%rbp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%[save])\n\t"
      "movq %[load], %%rsp\n\t"
      "popq %%rax\n\t"
      "jmp *%%rax\n"
      "1:\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp"
      : [save] "+D"(save), [load] "+S"(load)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc",
        "memory");
#else
  register void** save asm("x0") = &from.stack_pointer;
  register void* load asm("x1") = to.stack_pointer;
  asm volatile(
      "stp x29, x30, [sp, #-32]!\n\t"
      "adr x9, 1f\n\t"
      "str x9, [sp, #16]\n\t"
      "mov x10, sp\n\t"
      "str x10, [%[save]]\n\t"
      "mov sp, %[load]\n\t"
      "ldr x9, [sp, #16]\n\t"
      "ldp x29, x30, [sp], #32\n\t"
      "ret x9\n"  // not br: a return needs no landing pad under branch protection
      "1:"
      : [save] "+r"(save), [load] "+r"(load)
      :
      : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
        "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "v8",
        "v9", "v10", "v11", "v12", "v13", "v14", "v15", "cc", "memory");
#endif
}

#endif

}  // namespace cule::shim
