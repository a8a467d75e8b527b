// The libraries that Weft looks up at run time: which are there, what each is for, what to install.
#include "tools/weft/devices/devices.h"
#include "verbs/base/base.h"

namespace weft {

std::vector<OptionalLibrary> optional_libraries() {
  std::vector<OptionalLibrary> libraries{
      {"libibverbs.so.1", "RDMA", "libibverbs1, and ibverbs-providers for the card"},
      {"libucp.so.0", "other networks between machines", "libucx0"},
      {"libhwloc.so.15", "caches, and machines as hwloc files", "libhwloc15"},
      {"libpmix.so.2", "jobs that mpirun or srun starts", "libpmix2"},
      {"libnvidia-ml.so.1", "GPUs and their links", "NVIDIA's driver"},
      {"libcuda.so.1", "GPU memory", "NVIDIA's driver"},
  };
  for (OptionalLibrary& library : libraries) {
    library.missing = DynamicLibrary(library.file.c_str()).status("not found").text();
  }
  return libraries;
}

}  // namespace weft
