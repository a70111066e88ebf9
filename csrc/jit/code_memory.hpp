// jit/code_memory.hpp: memory that machine code is put into and executed from.
//
// One stretch of addresses is reserved, and pieces of code are added to it from its start: a piece
// is written into fresh pages, which then become executable and are never written again, so other
// threads may run what was added before.
#pragma once

#include <cstring>

#include "base/int.hpp"
#include "base/platform.hpp"

#if defined(CULE_HAS_JIT)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace cule::jit {

#if defined(CULE_HAS_JIT)

class CodeMemory {
 public:
  // Each piece takes whole pages: where they are large there is more room, within reach of jumps.
  explicit CodeMemory(size_t bytes) : size_(page_bytes() > 4096 ? 4 * bytes : bytes) {
    void* p = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = p == MAP_FAILED ? nullptr : static_cast<u8*>(p);
  }
  ~CodeMemory() {
    if (base_ != nullptr) munmap(base_, size_);
  }
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  bool is_valid() const { return base_ != nullptr; }
  // Where the next piece will lie.
  u64 next() const { return reinterpret_cast<u64>(base_ + used_); }
  size_t used() const { return used_; }

  // False: no room, or the system does not let memory become executable.
  bool add(const u8* code, size_t bytes) {
    const size_t whole = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
    if (whole > size_ - used_) return false;
    u8* at = base_ + used_;
    if (mprotect(at, whole, PROT_READ | PROT_WRITE) != 0) return false;
    std::memcpy(at, code, bytes);
    CULE_FLUSH_CODE(reinterpret_cast<char*>(at), reinterpret_cast<char*>(at + bytes));
    if (mprotect(at, whole, PROT_READ | PROT_EXEC) != 0) return false;
    used_ += whole;
    return true;
  }

 private:
  static size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }

  u8* base_;
  size_t size_;
  size_t used_ = 0;
};

#else

class CodeMemory {
 public:
  explicit CodeMemory(size_t) {}
  bool is_valid() const { return false; }
  u64 next() const { return 0; }
  size_t used() const { return 0; }
  bool add(const u8*, size_t) { return false; }
};

#endif

}  // namespace cule::jit
