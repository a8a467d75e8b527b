// The list of GPUs, and what each can do.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

// Attributes of a device, by the driver's numbers.
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kGpuDirectRdma = 116,
              kFlushOptions = 117, kWritesOrdering = 118, kDmaBuf = 124;

GpuDevice device_of(const cuda::Driver& driver, int number, int count) {
  GpuDevice found;
  found.number = number;
  int device = 0;
  if (driver.device_get(&device, number) != cuda::kSuccess) return found;
  std::array<char, 256> text{};
  if (driver.device_name(text.data(), text.size(), device) == cuda::kSuccess)
    found.name = text.data();
  found.address = cuda::address_of(driver, device);
  found.numa_node = cuda::numa_node_of(found.address);
  std::size_t bytes = 0;
  if (driver.device_bytes(&bytes, device) == cuda::kSuccess) found.bytes = bytes;
  const auto attribute = [&](int which) {
    int value = 0;
    return driver.device_attribute(&value, which, device) == cuda::kSuccess ? value : 0;
  };
  found.major = attribute(kMajor);
  found.minor = attribute(kMinor);
  found.multiprocessors = attribute(kMultiprocessors);
  found.has_gpudirect_rdma = attribute(kGpuDirectRdma) != 0;
  const cuda::RdmaWrites writes = cuda::rdma_writes_of(driver, device);
  found.settles_rdma_writes = writes.keep_order || writes.can_be_flushed;
  found.exports_dma_buf = attribute(kDmaBuf) != 0;
  for (int other = 0; other < count; ++other) {
    int peer = 0, can = 0;
    if (other == number || driver.device_get(&peer, other) != cuda::kSuccess) continue;
    if (driver.can_access_peer(&can, device, peer) == cuda::kSuccess && can != 0)
      found.reads.push_back(other);
  }
  return found;
}

}  // namespace

std::string cuda::address_of(const Driver& driver, int device) {
  std::array<char, 64> text{};
  if (driver.device_address(text.data(), text.size(), device) != kSuccess) return {};
  std::string address = text.data();
  std::ranges::transform(address, address.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return address;
}

int cuda::numa_node_of(const std::string& address, const std::string& sys) {
  std::ifstream file(sys + "/bus/pci/devices/" + address + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

cuda::RdmaWrites cuda::rdma_writes_of(const Driver& driver, int device) {
  constexpr int kOrderedForOwner = 100, kOrderedForAll = 200, kFlushByHost = 1;
  int ordering = 0, options = 0;
  (void)driver.device_attribute(&ordering, kWritesOrdering, device);
  (void)driver.device_attribute(&options, kFlushOptions, device);
  return {ordering >= kOrderedForOwner, ordering >= kOrderedForAll, (options & kFlushByHost) != 0};
}

Result<std::vector<GpuDevice>> gpu_devices() {
  WEFT_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  int count = 0;
  WEFT_RETURN_IF_ERROR(cuda::status_of(*driver, driver->device_count(&count), "cuDeviceGetCount"));
  std::vector<GpuDevice> all;
  for (int number = 0; number < count; ++number) all.push_back(device_of(*driver, number, count));
  return all;
}

Result<std::string> cuda_version() {
  WEFT_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  return fmt::format("{}.{}", driver->version / 1000, driver->version % 1000 / 10);
}

}  // namespace weft
