// Replaces the CUDA runtime; NVRTC has built in what device code needs of it.
#pragma once
