// Memory of CPUs as a GPU reads it. Heaps of peers are pinned in chunks, each at its first use, and
// stay mapped from then on: the driver knows their addresses.
#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "verbs/cuda/chunks.h"
#include "verbs/cuda/counts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"
#include "verbs/memory/memory.h"

namespace weft {
namespace {

using cuda::kChunkBytes;
constexpr unsigned kForAllContexts = 1, kMapped = 2;

// Never destroyed, as pinned blocks.
struct Views {
  std::mutex mutex;
  std::map<std::uintptr_t, bool> chunks;  // by their beginning: whether a GPU may read it
  std::vector<std::shared_ptr<const PeerHeap>> heaps;
};
Views& views() {
  static auto* const views = new Views;
  return *views;
}

// Whether memory that is pinned has one address for the CPU and the GPU, as it has on today's systems.
bool is_pinned_in_place(const cuda::Driver& driver, std::uintptr_t address) {
  cuda::Pointer there = 0;
  return driver.host_pointer(&there, reinterpret_cast<void*>(address), 0) == cuda::kSuccess &&
         there == address;
}

bool is_pinned(const cuda::Driver& driver, std::uintptr_t address) {
  constexpr int kMemoryType = 2;
  constexpr unsigned kHost = 1;
  unsigned type = 0;
  int attribute = kMemoryType;
  void* value = &type;
  return driver.pointer_attributes(1, &attribute, &value, address) == cuda::kSuccess &&
         type == kHost && is_pinned_in_place(driver, address);
}

// The mutex is held. Nothing is pinned while a stream is held (counts.h): the CPU has to do it then.
bool has_chunk(Views& all, const cuda::Driver& driver, std::uintptr_t chunk, bool is_of_peer) {
  if (!all.chunks.contains(chunk) && cuda::closed_gates() != 0) return false;
  const auto [found, is_new] = all.chunks.emplace(chunk, false);
  if (is_new && is_of_peer) {
    const cuda::Answer answer = driver.host_register(reinterpret_cast<void*>(chunk), kChunkBytes,
                                                     kForAllContexts | kMapped);
    found->second = answer == cuda::kSuccess && is_pinned_in_place(driver, chunk);
  }
  return found->second;
}

}  // namespace

const void* gpu_view(const GpuMemory& gpu, const void* memory, std::size_t bytes) {
  const cuda::Driver* const driver = cuda::loaded_driver();
  if (driver == nullptr || bytes == 0) return nullptr;
  const cuda::Current current(*driver, gpu.context);
  if (current.answer() != cuda::kSuccess) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t last = begin + bytes - 1;
  if (is_pinned(*driver, begin) && is_pinned(*driver, last)) return memory;
  Views& all = views();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<const PeerHeap> heap = PeerHeap::around(memory, bytes);
  const bool is_of_peer = heap != nullptr && !heap->is_own();
  for (std::uintptr_t chunk = begin / kChunkBytes * kChunkBytes; chunk <= last;
       chunk += kChunkBytes) {
    if (!has_chunk(all, *driver, chunk, is_of_peer)) return nullptr;
  }
  if (std::ranges::find(all.heaps, heap) == all.heaps.end()) all.heaps.push_back(std::move(heap));
  return memory;
}

}  // namespace weft
