// Registering chunks of the shared heap for peers.
#include "verbs/ib/exposures.h"

namespace weft::ib {

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
  Exposed& exposed = place->second;
  if (is_new) {
    exposed.pages = HeapHold(chunk * kChunkBytes, kChunkBytes);
    Result<Owned<ibv_mr>> made =
        registrar.add_host(memory, kChunkBytes,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
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

}  // namespace weft::ib
