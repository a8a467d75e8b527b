// The actions of group.h.
#include "tests/transport/group.h"

#include <atomic>
#include <thread>
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
  if (!eventually(interface, [&] { return interface.poll(completion) == 1; })) {
    throw std::runtime_error("posted work never completed");
  }
  return completion[0];
}

Completion Group::wait_completion(Rank rank) {
  std::array<Completion, 1> completion;
  if (!eventually([&] { return at(rank).poll(completion) == 1; })) {
    throw std::runtime_error("posted work never completed");
  }
  return completion[0];
}

void Group::progress() {
  for (auto& [rank, interface] : interfaces_) interface->progress();
  for (auto& interface : replaced_) interface->progress();
}

void Group::run(const std::function<void(Rank)>& body) {
  std::atomic<std::size_t> ended = 0;
  std::vector<std::thread> owners;
  for (auto& [rank, interface] : interfaces_) {
    owners.emplace_back([&, self = rank, &own = *interface] {
      body(self);
      ended.fetch_add(1, std::memory_order_acq_rel);
      weft::eventually(own,
                       [&] { return ended.load(std::memory_order_acquire) == interfaces_.size(); });
    });
  }
  for (std::thread& owner : owners) owner.join();
}

Group::Group(const TransportFactory& transport, int ranks, const InterfaceOptions& options)
    : transport_(transport), options_(options) {
  for (Rank rank = 0; rank < ranks; ++rank) open(rank);
}

void Group::close(Rank rank) {
  run([&](Rank self) {
    if (self == rank) at(self).close();
  });
}

Group::~Group() {
  run([&](Rank self) { at(self).close(); });
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
