// Registering chunks of the shared heap, and regions, for peers.
#include "verbs/ib/exposures.h"

namespace weft::ib {
namespace {

constexpr int kForPeers = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

// Whole chunks of the heap only. The lock is held while a chunk is registered, so that another lane
// does not register it too.
Control Exposures::expose(std::uint64_t chunk, Registrar& registrar, Status& why) {
  Control answer;
  answer.kind = ControlKind::exposed;
  answer.chunk = chunk;
  const Result<HeapIdentity> heap = heap_identity();
  if (heap.ok()) answer.heap_bytes = heap->bytes;
  if (chunk >= answer.heap_bytes / kChunkBytes) return answer;
  void* memory = heap_address(chunk * kChunkBytes);
  const std::scoped_lock lock(mutex_);
  const auto [place, is_new] = chunks_.try_emplace(chunk);
  ExposedMemory& exposed = place->second;
  if (is_new) {
    exposed.pages = HeapHold(chunk * kChunkBytes, kChunkBytes);
    Result<Owned<ibv_mr>> made = registrar.add_host(memory, kChunkBytes, kForPeers);
    if (!made.ok()) {
      chunks_.erase(place);
      why = made.status();
      return answer;
    }
    exposed.region = std::move(made).value();
  }
  answer.address = reinterpret_cast<std::uintptr_t>(memory);
  answer.key = exposed.region->rkey;
  return answer;
}

// The lock is held while the memory is registered, as for chunks. What has been withdrawn is
// forgotten here, and was deregistered before.
Result<std::shared_ptr<const ExposedMemory>> Exposures::expose(std::span<std::byte> memory,
                                                               Registrar& registrar) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(regions_, [](const auto& region) { return region.second.expired(); });
  std::weak_ptr<const ExposedMemory>& known = regions_[{memory.data(), memory.size()}];
  if (std::shared_ptr<const ExposedMemory> exposed = known.lock()) return exposed;
  auto exposed = std::make_shared<ExposedMemory>();
  if (!memory.empty()) {
    const std::uint64_t offset = heap_offset(memory.data(), memory.size());
    if (offset != kNotInHeap) exposed->pages = HeapHold(offset, memory.size());
    WEFT_ASSIGN(exposed->region, registrar.add_host(memory.data(), memory.size(), kForPeers));
  }
  known = exposed;
  return std::shared_ptr<const ExposedMemory>(std::move(exposed));
}

}  // namespace weft::ib
