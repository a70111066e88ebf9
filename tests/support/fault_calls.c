// Preloaded into a process: its calls that change files are counted, and one of them fails, or ends
// the process. Used by tests/support/fault_calls.py.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { kKill = -1, kKillHalfway = -2 };  // otherwise a number of errno

static long calls, target;
static int effect;

// The call number `call` from now on has this effect; 0: none.
void cule_fault_at(long call, int wanted) {
  calls = 0;
  target = call;
  effect = wanted;
}

long cule_fault_calls(void) { return calls; }

static int fails(void) {
  if (++calls != target) return 0;
  if (effect < 0) kill(getpid(), SIGKILL);
  errno = effect;
  return 1;
}

static int is_file(int descriptor) {
  struct stat status;
  return descriptor > 2 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void* data, size_t size) {
  if (is_file(descriptor)) {
    if (effect == kKillHalfway && calls + 1 == target) REAL(write)(descriptor, data, size / 2);
    if (fails()) return -1;
  }
  return REAL(write)(descriptor, data, size);
}

int fsync(int descriptor) { return fails() ? -1 : REAL(fsync)(descriptor); }

int rename(const char* from, const char* to) { return fails() ? -1 : REAL(rename)(from, to); }

int unlink(const char* path) { return fails() ? -1 : REAL(unlink)(path); }

int mkdir(const char* path, mode_t mode) { return fails() ? -1 : REAL(mkdir)(path, mode); }

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (flags & (O_WRONLY | O_RDWR) && fails()) return -1;
  return REAL(open64)(path, flags, mode);
}
