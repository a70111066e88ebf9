// tests/shim/launch_hook.cpp: lets a caller of the module execute the kernels in another way.
#include <cuda_runtime.h>

extern "C" __attribute__((visibility("default"))) void cule_set_launch_hook(
    bool (*hook)(const cule::shim::HookedLaunch*)) {
  cule::shim::launch_hook = hook;
}
