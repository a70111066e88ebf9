// tests/shim/cuda/launch.hpp: in place of csrc/cuda/launch.hpp; the shim's runtime launches kernels
// itself.
#pragma once

#include <cuda_runtime.h>
