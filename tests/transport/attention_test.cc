// Conformance: a notice on the control channel reaches a rank that has never heard of the sender,
// however many ask at once.
#include <set>

#include "tests/transport/group.h"

namespace weft {
namespace {

class Attention : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Attention);

// The rank whose control notice rank 0 serves next, or kNoRank if patience ended; its notice is
// released.
Rank serve_next(Group& group) {
  Endpoint* asker = nullptr;
  if (!group.eventually([&] { return (asker = must(group.at(0).attention())) != nullptr; }))
    return kNoRank;
  if (asker->front(kControlChannel).header == nullptr)
    throw std::runtime_error("attention for nothing");
  asker->release(kControlChannel);
  return asker->peer();
}

TEST_P(Attention, NobodyAsks) {
  Group group(GetParam(), 2);
  EXPECT_EQ(must(group.at(0).attention()), nullptr);
  (void)group.link(1, 0);
  EXPECT_EQ(must(group.at(0).attention()), nullptr);
  ASSERT_EQ(group.link(1, 0).post_notice(1, numbered_header(0), {}), Posted::posted);
  EXPECT_EQ(must(group.at(0).attention()), nullptr)
      << "only the control channel asks for attention";
}

TEST_P(Attention, AStrangerIsConnectedThroughTheResolver) {
  Group group(GetParam(), 2);
  const std::vector<std::byte> payload = numbered_payload(3, 100);
  ASSERT_EQ(group.link(1, 0).post_notice(kControlChannel, numbered_header(3), payload),
            Posted::posted);
  Endpoint* asker = nullptr;
  ASSERT_TRUE(group.eventually([&] { return (asker = must(group.at(0).attention())) != nullptr; }));
  EXPECT_EQ(asker->peer(), 1);
  EXPECT_TRUE(is_number(asker->front(kControlChannel), 3, 100));
  asker->release(kControlChannel);
  EXPECT_TRUE(group.eventually([&] { return group.link(1, 0).released(kControlChannel) == 1; }));
  EXPECT_EQ(must(group.at(0).attention()), nullptr);
}

TEST_P(Attention, WhatFrontHasTakenAsksNoMore) {
  Group group(GetParam(), 2);
  Endpoint& known = group.link(0, 1);
  ASSERT_EQ(group.link(1, 0).post_notice(kControlChannel, numbered_header(0), {}), Posted::posted);
  ASSERT_TRUE(group.eventually([&] { return known.front(kControlChannel).header != nullptr; }));
  known.release(kControlChannel);
  EXPECT_EQ(must(group.at(0).attention()), nullptr);
}

TEST_P(Attention, NoStrangerIsForgottenWhenManyAskAtOnce) {
  constexpr Rank kStrangers = 70;
  Group group(GetParam(), kStrangers + 1);
  for (Rank rank = 1; rank <= kStrangers; ++rank) {
    ASSERT_EQ(group.link(rank, 0).post_notice(kControlChannel, numbered_header(0), {}),
              Posted::posted);
  }
  std::vector<int> served(kStrangers + 1, 0);
  for (Rank count = 0; count < kStrangers; ++count) {
    const Rank rank = serve_next(group);
    ASSERT_NE(rank, kNoRank);
    ++served[static_cast<std::size_t>(rank)];
  }
  EXPECT_EQ(must(group.at(0).attention()), nullptr);
  for (std::size_t rank = 1; rank <= kStrangers; ++rank) EXPECT_EQ(served[rank], 1) << rank;
}

TEST_P(Attention, RanksMayBeFarApart) {
  Group group(GetParam(), 1);
  for (const Rank rank : {63, 64, 4095, 65'535}) {
    group.open(rank);
    ASSERT_EQ(group.link(rank, 0).post_notice(kControlChannel, numbered_header(0), {}),
              Posted::posted);
    EXPECT_EQ(serve_next(group), rank);
  }
}

TEST_P(Attention, ARankThatCannotBeResolvedDoesNotHideTheNextAndIsServedLater) {
  InterfaceOptions options = small_options();
  std::string known_address;
  std::string late_address;
  auto resolver = [&](Rank peer) -> Result<std::string> {
    if (peer == 1 && !late_address.empty()) return late_address;
    if (peer == 1) return Status(Code::timed_out, "the store does not know rank 1", peer);
    return known_address;
  };
  auto owner = must(GetParam().open(0, options, resolver));
  auto lost = must(GetParam().open(1, options, resolver));
  auto found = must(GetParam().open(2, options, resolver));
  known_address = found->address();
  for (Interface* stranger : {lost.get(), found.get()}) {
    Endpoint* to_owner = must(stranger->connect(0, owner->address()));
    ASSERT_EQ(to_owner->post_notice(kControlChannel, numbered_header(0), {}), Posted::posted);
  }
  // Over UCX a rank's address comes with its first message, so nobody has to be resolved.
  const bool is_resolved = GetParam().name != "ucx";
  int errors = 0;
  std::set<Rank> served;
  ASSERT_TRUE(eventually([&] {
    for (Interface* each : {owner.get(), lost.get(), found.get()}) each->progress();
    const Result<Endpoint*> asked = owner->attention();
    if (!asked.ok() && asked.status().rank() == 1) ++errors;
    if (asked.ok() && asked.value() != nullptr) {  // each comes when it comes
      served.insert(asked.value()->peer());
      asked.value()->release(kControlChannel);
    }
    return served.contains(2) && (is_resolved ? errors != 0 : served.contains(1));
  }));
  EXPECT_EQ(errors != 0, is_resolved);
  EXPECT_EQ(served.contains(1), !is_resolved);
  if (!is_resolved) return;
  late_address = lost->address();
  Endpoint* asker = nullptr;
  ASSERT_TRUE(eventually([&] {
    for (Interface* each : {owner.get(), lost.get(), found.get()}) each->progress();
    asker = must(owner->attention());
    return asker != nullptr;
  }));
  EXPECT_EQ(asker->peer(), 1);
}

// Askers and the owner run freely: an attention lost between setting and clearing would leave a
// notice unserved.
TEST_P(Attention, NoneIsLostWhileOthersAsk) {
  constexpr Rank kStrangers = 3;
  Group group(GetParam(), kStrangers + 1);
  std::array<Endpoint*, kStrangers + 1> to_owner{};
  for (Rank rank = 1; rank <= kStrangers; ++rank) {
    to_owner[static_cast<std::size_t>(rank)] = &group.link(rank, 0);
  }
  const std::uint32_t each = to_owner[1]->properties().shares_memory ? 20'000 : 4'000;
  const auto ask = [&](Interface& own, Endpoint& owner) {
    for (std::uint32_t n = 0; n < each; ++n) {
      ASSERT_TRUE(eventually(own, [&] {
        return owner.post_notice(kControlChannel, numbered_header(n), {}) == Posted::posted;
      }));
    }
  };
  std::vector<std::uint32_t> next(kStrangers + 1, 0);
  std::uint32_t served = 0;
  const auto serve = [&](Interface& own) {
    return eventually(own, [&] {
      Endpoint* asker = must(own.attention());
      if (asker == nullptr) return served == kStrangers * each;
      for (Notice notice = asker->front(0); notice.header != nullptr; notice = asker->front(0)) {
        EXPECT_EQ(notice.header->operation, next[static_cast<std::size_t>(asker->peer())]++);
        asker->release(0);
        ++served;
      }
      return false;
    });
  };
  group.run([&](Rank rank) {
    if (rank != 0) return ask(group.at(rank), *to_owner[static_cast<std::size_t>(rank)]);
    EXPECT_TRUE(serve(group.at(0))) << served << " served";
  });
}

}  // namespace
}  // namespace weft
