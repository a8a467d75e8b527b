// The actions of pair.h.
#include "tests/ib/pair.h"

#include <utility>

namespace weft::ib {

Ranks::Ranks(int ranks, std::vector<int> networks, IbOptions options_of_ib, int devices)
    : ib(std::move(options_of_ib)),
      devices_(devices == 0 ? ranks : devices),
      interfaces_(static_cast<std::size_t>(ranks)) {
  for (Rank rank = 0; rank < devices_; ++rank) fabric.add_device(device(rank), rank + 1, networks);
}

// Whatever a test did, nothing may leak and no rule of verbs may have been broken.
Ranks::~Ranks() {
  fabric.hold(false);
  interfaces_.clear();
  EXPECT_EQ(fabric.leaks(), "");
  EXPECT_EQ(fabric.violations(), "");
}

Result<std::unique_ptr<Interface>> Ranks::try_open(Rank rank) {
  IbOptions own = ib;
  own.device = device(rank % devices_);
  const auto resolver = [this](Rank peer) -> Result<std::string> { return at(peer).address(); };
  return IbInterface::open(Fabric::library(), rank, options, own, resolver);
}

void Ranks::open_all() {
  for (std::size_t rank = 0; rank < interfaces_.size(); ++rank) open(static_cast<Rank>(rank));
}

bool Ranks::post(Rank from, Rank to, std::uint32_t n, std::size_t bytes, std::uint32_t channel) {
  return link(from, to).post_notice(channel, numbered_header(n), numbered_payload(n, bytes)) ==
         Posted::posted;
}

testing::AssertionResult Ranks::receive(Rank from, Rank to, std::uint32_t n, std::size_t bytes,
                                        std::uint32_t channel) {
  Endpoint& end = link(to, from);
  if (!eventually([&] { return end.front(channel).header != nullptr || !end.failure().ok(); }))
    return testing::AssertionFailure() << "nothing came";
  if (end.front(channel).header == nullptr)
    return testing::AssertionFailure() << end.failure().to_string();
  const testing::AssertionResult right = is_number(end.front(channel), n, bytes);
  end.release(channel);
  return right;
}

void Ranks::meet(Rank a, Rank b) {
  for (const auto& [from, to] : {std::pair{a, b}, {b, a}}) {
    ASSERT_TRUE(post(from, to, 0));
    ASSERT_TRUE(receive(from, to, 0));
  }
}

void Ranks::turn() {
  for (auto& interface : interfaces_) {
    if (interface != nullptr) interface->progress();
  }
}

}  // namespace weft::ib
