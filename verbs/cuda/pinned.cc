// Pinned blocks of the heap, by powers of two.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "verbs/cuda/counts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

constexpr std::size_t kLeastBytes = 64 << 10;
// Blocks that nobody uses are kept up to so many bytes.
constexpr std::size_t kMostKept = std::size_t{1} << 30;
constexpr unsigned kForAllContexts = 1, kMapped = 2;

struct Pool {
  std::mutex mutex;
  std::map<std::pair<std::size_t, int>, std::vector<std::byte*>> free;  // by size and NUMA node
  std::size_t kept = 0;
  std::map<int, int> nodes;  // by GPU, as far as they were asked for
};
// Never destroyed: blocks may end after the end of main().
Pool& pool() {
  static auto* const pool = new Pool;
  return *pool;
}

std::size_t size_of_block(std::size_t bytes) {
  return std::max(kLeastBytes, std::bit_ceil(bytes));
}

// The pool's mutex is held.
int node_of(Pool& all, const GpuMemory& gpu) {
  const auto [place, is_new] = all.nodes.emplace(gpu.device, -1);
  const cuda::Driver* const driver = cuda::loaded_driver();
  int device = 0;
  if (is_new && driver != nullptr && driver->device_get(&device, gpu.device) == cuda::kSuccess)
    place->second = cuda::numa_node_of(cuda::address_of(*driver, device));
  return place->second;
}

Status pin(std::byte* data, std::size_t bytes, const GpuMemory& gpu) {
  WEFT_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  const cuda::Current current(*driver, gpu.context);
  return cuda::status_of(*driver, driver->host_register(data, bytes, kForAllContexts | kMapped),
                         fmt::format("pin {} bytes of host memory", bytes));
}

// Gives back blocks that nobody uses while there are too many. Not when a block ends: a thread of
// the driver may end it, which must not call the driver.
void trim(Pool& all, const GpuMemory& gpu) {
  const cuda::Driver* const driver = cuda::loaded_driver();
  while (driver != nullptr && all.kept > kMostKept && cuda::closed_gates() == 0) {
    const auto largest = std::ranges::find_if(
        all.free.rbegin(), all.free.rend(), [](const auto& each) { return !each.second.empty(); });
    if (largest == all.free.rend()) return;
    std::byte* const data = largest->second.back();
    largest->second.pop_back();
    all.kept -= largest->first.first;
    {
      const cuda::Current current(*driver, gpu.context);
      (void)driver->host_unregister(data);
    }
    cuda::counts().pinned_bytes.fetch_sub(largest->first.first, std::memory_order_relaxed);
    deallocate(data);
  }
}

}  // namespace

Result<PinnedBlock> PinnedBlock::take(std::size_t bytes, const GpuMemory& gpu) {
  PinnedBlock block;
  block.bytes_ = size_of_block(bytes);
  {
    Pool& all = pool();
    const std::lock_guard lock(all.mutex);
    block.node_ = node_of(all, gpu);
    std::vector<std::byte*>& free = all.free[{block.bytes_, block.node_}];
    if (!free.empty()) {
      block.data_ = free.back();
      free.pop_back();
      all.kept -= block.bytes_;
      return block;
    }
    trim(all, gpu);
  }
  const MemoryPreference near(block.node_);  // of pages that nobody has touched yet
  WEFT_ASSIGN(void* memory, allocate(block.bytes_));
  auto* const data = static_cast<std::byte*>(memory);
  if (const Status status = pin(data, block.bytes_, gpu); !status.ok()) {
    deallocate(data);
    return status;
  }
  cuda::counts().pinned_bytes.fetch_add(block.bytes_, std::memory_order_relaxed);
  block.data_ = data;
  return block;
}

Result<PinnedBlock> copy_to_host(const GpuMemory& gpu, const void* memory, std::size_t bytes) {
  WEFT_ASSIGN(PinnedBlock block, PinnedBlock::take(bytes, gpu));
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(gpu));
  WEFT_RETURN_IF_ERROR(queue->copy_out(block.data(), memory, bytes));
  WEFT_ASSIGN(const std::unique_ptr<GpuMark> mark, queue->mark([] {}));
  mark->wait();
  if (!mark->is_over())
    return Status(Code::system, fmt::format("GPU {} does not end a copy", gpu.device));
  WEFT_RETURN_IF_ERROR(mark->status());
  return block;
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr) return;
  Pool& all = pool();
  const std::lock_guard lock(all.mutex);
  all.free[{bytes_, node_}].push_back(data_);
  all.kept += bytes_;
}

}  // namespace weft
