// The kernels, for nvcc: one thread is one worker.
#include "engine/gpu_kernels/bodies.h"

#define WEFT_KERNEL(name, function, Arguments)                                                 \
  extern "C" __global__ void weft_##name(const __grid_constant__ weft::gpu::Arguments given) { \
    using namespace weft::gpu;                                                                 \
    function(given, blockIdx.x* std::uint64_t{blockDim.x} + threadIdx.x,                       \
             gridDim.x * std::uint64_t{blockDim.x});                                           \
  }
WEFT_KERNELS(WEFT_KERNEL)
