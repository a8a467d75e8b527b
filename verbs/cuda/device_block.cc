// Blocks of GPUs' memory that are kept and used again.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "verbs/cuda/counts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{2} << 20;  // what the driver takes at once
// Blocks that nobody uses are kept up to so many bytes of a GPU.
constexpr std::size_t kMostKept = std::size_t{1} << 30;

struct Pool {
  std::multimap<std::size_t, void*> free;  // by size
  std::size_t kept = 0;
};
// By context. Never destroyed, as pinned blocks.
struct Pools {
  std::mutex mutex;
  std::map<void*, Pool> pools;
};
Pools& pools() {
  static auto* const pools = new Pools;
  return *pools;
}

// At most an eighth is lost.
std::size_t size_of_block(std::size_t bytes) {
  const std::size_t grain = std::max(kLeastBytes, std::bit_floor(bytes) / 8);
  return (std::max<std::size_t>(bytes, 1) + grain - 1) / grain * grain;
}

// Frees blocks that nobody uses while there are too many.
void trim(const cuda::Driver& driver, Pool& pool) {
  while (pool.kept > kMostKept && cuda::closed_gates() == 0) {
    const auto largest = std::prev(pool.free.end());
    pool.kept -= largest->first;
    (void)driver.free(reinterpret_cast<cuda::Pointer>(largest->second));
    pool.free.erase(largest);
  }
}

}  // namespace

Result<DeviceBlock> DeviceBlock::take(std::size_t bytes, const GpuMemory& gpu) {
  WEFT_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  DeviceBlock block;
  block.gpu_ = gpu;
  block.bytes_ = size_of_block(bytes);
  const std::string what =
      fmt::format("GPU {}: allocate a block of {} bytes", gpu.device, block.bytes_);
  const cuda::Current current(*driver, gpu.context);
  WEFT_RETURN_IF_ERROR(cuda::status_of(*driver, current.answer(), what));
  {
    const std::lock_guard lock(pools().mutex);
    Pool& pool = pools().pools[gpu.context];
    if (const auto found = pool.free.find(block.bytes_); found != pool.free.end()) {
      block.data_ = static_cast<std::byte*>(found->second);
      pool.kept -= block.bytes_;
      pool.free.erase(found);
      return block;
    }
    trim(*driver, pool);
  }
  cuda::Pointer pointer = 0;
  WEFT_RETURN_IF_ERROR(cuda::status_of(*driver, driver->allocate(&pointer, block.bytes_), what));
  block.data_ = reinterpret_cast<std::byte*>(pointer);
  return block;
}

// A thread of the driver may end a block, which must not call the driver.
DeviceBlock::~DeviceBlock() {
  if (data_ == nullptr) return;
  const std::lock_guard lock(pools().mutex);
  Pool& pool = pools().pools[gpu_.context];
  pool.free.emplace(bytes_, data_);
  pool.kept += bytes_;
}

}  // namespace weft
