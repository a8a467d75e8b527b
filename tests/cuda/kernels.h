// The kernels of the fake of libcuda.so.1, by name: the same text as on a GPU, made by the host's compiler,
// with one worker.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "engine/gpu_kernels/bodies.h"

namespace weft {

struct Kernel {
  std::size_t argument_bytes = 0;
  void (*run)(const void* arguments) = nullptr;
};
inline const std::map<std::string, Kernel>& kernels() {
  using namespace weft::gpu;
#define WEFT_KERNEL(name, function, Arguments)                              \
  {"weft_" #name, {sizeof(Arguments), [](const void* given) {               \
                     function(*static_cast<const Arguments*>(given), 0, 1); \
                   }}},
  static const std::map<std::string, Kernel> all = {WEFT_KERNELS(WEFT_KERNEL)};
#undef WEFT_KERNEL
  return all;
}

}  // namespace weft
