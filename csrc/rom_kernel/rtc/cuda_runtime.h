// Stands in for the CUDA runtime, which NVRTC has built in as far as device code needs it.
#pragma once
