// The actions of group.h.
#include "tests/transport/group.h"

#include <utility>

namespace weft {

WireHeader numbered_header(std::uint32_t n) {
  WireHeader header;
  header.kind = NoticeKind::data;
  header.form = PieceForm::payload;
  header.operation = n;
  header.piece = ~n;
  header.weight = 1.0 / (n + 1.0);
  header.word = std::uint64_t{n} << 32 | n;
  return header;
}

std::vector<std::byte> numbered_payload(std::uint32_t n, std::size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(n * 31 + i * 7 + 1);
  return payload;
}

testing::AssertionResult is_number(const Notice& notice, std::uint32_t n, std::size_t bytes) {
  if (notice.header == nullptr) return testing::AssertionFailure() << "no notice instead of " << n;
  const WireHeader expected = numbered_header(n);
  const WireHeader& got = *notice.header;
  if (got.operation != n) {
    return testing::AssertionFailure() << "notice " << got.operation << " instead of " << n;
  }
  if (got.kind != expected.kind || got.form != expected.form || got.piece != expected.piece ||
      got.weight != expected.weight || got.word != expected.word) {
    return testing::AssertionFailure() << "the header of notice " << n << " has changed on its way";
  }
  const std::vector<std::byte> payload = numbered_payload(n, bytes);
  if (bytes != 0 && std::memcmp(notice.payload, payload.data(), bytes) != 0) {
    return testing::AssertionFailure()
           << "the payload of notice " << n << " has changed on its way";
  }
  return testing::AssertionSuccess();
}

Completion wait_completion(Interface& interface) {
  std::array<Completion, 1> completion;
  if (!eventually([&] { return interface.poll(completion) == 1; })) {
    throw std::runtime_error("posted work never completed");
  }
  return completion[0];
}

Group::Group(const TransportFactory& transport, int ranks, const InterfaceOptions& options)
    : transport_(transport), options_(options) {
  for (Rank rank = 0; rank < ranks; ++rank) open(rank);
}

void Group::open(Rank rank) {
  auto resolver = [this](Rank peer) -> Result<std::string> {
    const auto found = interfaces_.find(peer);
    if (found == interfaces_.end()) return Status(Code::unavailable, "no such rank", peer);
    return found->second->address();
  };
  auto opened = must(transport_.open(rank, options_, resolver));
  if (auto& place = interfaces_[rank]) replaced_.push_back(std::move(place));
  interfaces_[rank] = std::move(opened);
}

}  // namespace weft
