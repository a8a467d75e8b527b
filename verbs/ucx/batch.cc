// Writing and reading the parts of a batch.
#include "verbs/ucx/batch.h"

#include <cstring>

namespace weft::ucx {
namespace {

// Whether messages of this kind travel in batches. The first and the last message of an endpoint
// travel alone.
bool fits_a_batch(MessageKind kind) {
  return kind != MessageKind::hello && kind != MessageKind::goodbye && header_bytes_of(kind) != 0;
}

}  // namespace

std::byte* write_part(std::byte* into, std::size_t header_bytes,
                      std::span<const std::byte> payload) {
  const Part part{static_cast<std::uint32_t>(header_bytes + payload.size())};
  std::memcpy(into, &part, sizeof part);
  std::byte* const header = into + sizeof part;
  std::byte* end = header + header_bytes;
  if (!payload.empty()) std::memcpy(end, payload.data(), payload.size());
  end += payload.size();
  // The padding is cleared, so that no bytes of an earlier batch reach this peer.
  std::memset(end, 0, part_bytes(header_bytes, payload.size()) - (end - into));
  return header;
}

std::optional<BatchReader::Entry> BatchReader::next() {
  Part part;
  if (rest_.size() < sizeof part + sizeof(Message)) return std::nullopt;
  std::memcpy(&part, rest_.data(), sizeof part);
  const std::size_t whole = part_bytes(0, part.bytes);
  if (whole > rest_.size() || part.bytes < sizeof(Message)) return std::nullopt;
  MessageKind kind{};
  std::memcpy(&kind, rest_.data() + sizeof part + offsetof(Message, kind), sizeof kind);
  const std::size_t header_bytes = header_bytes_of(kind);
  if (!fits_a_batch(kind) || part.bytes < header_bytes) return std::nullopt;
  const auto message = rest_.subspan(sizeof part, part.bytes);
  rest_ = rest_.subspan(whole);
  return Entry{message.first(header_bytes), message.subspan(header_bytes)};
}

}  // namespace weft::ucx
