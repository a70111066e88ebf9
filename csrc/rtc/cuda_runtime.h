// What device code takes of the CUDA runtime, for a compiler that knows the language alone.
#pragma once

using cudaStream_t = struct CUstream_st*;
