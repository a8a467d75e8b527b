// What most transports have in common: payloads in host memory, no reads that the caller
// does itself, no second connection; and the names of this rank's memory.
#include "verbs/transport/transport.h"

#include <cstring>

#include "verbs/memory/memory.h"

namespace weft {

Status Notices::expect_pieces(std::span<const std::byte>, PieceMemory where) {
  if (where == PieceMemory::host) return {};
  return Status(Code::unavailable, "this transport sends host memory alone");
}

Status Notices::copy_payload(std::span<std::byte> to, const Notice& notice) {
  if (!to.empty()) std::memcpy(to.data(), notice.payload, to.size());
  return {};
}

Status RemoteMemory::read_now(std::span<std::byte>, const RemoteBuffer&) {
  return Status(Code::unavailable, "a read over a network takes time, of the peer or of a device");
}

Result<Endpoint*> Reconnection::reconnect(Rank peer, std::string_view) {
  return Status(Code::unavailable, "this transport does not connect again", peer);
}

RemoteBuffer describe_memory(const void* pointer, std::size_t bytes) {
  const std::uint64_t offset = heap_offset(pointer, bytes);
  if (offset != kNotInHeap) return {PieceForm::view, offset, bytes};
  return {PieceForm::process, reinterpret_cast<std::uintptr_t>(pointer), bytes};
}

}  // namespace weft
