// Conformance: the one-sided work of one endpoint takes effect in the order in which it was posted,
// and work that fails ends what was posted behind it until its completion was polled.
#include <algorithm>
#include <atomic>
#include <deque>

#include "tests/transport/group.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class WorkOrderOf : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(WorkOrderOf);

// Sizes that transports send in different ways: inside a request, copied, by rendezvous, in chunks.
constexpr std::array<std::size_t, 4> kSizes = {8, 1'000, 70'000, (std::size_t{2} << 20) + 4'096};
constexpr std::size_t kMost = kSizes.back();

// Memory of rank 1 that rank 0 works on: data, and a word that is published behind it.
class Published {
 public:
  Published()
      : buffer_(kMost + 8),
        word_(buffer_.bytes().data() + kMost),
        remote_word_(describe_memory(word_, 8)) {}

  [[nodiscard]] RemoteBuffer data(std::size_t bytes) {
    return describe_memory(buffer_.bytes().data(), bytes);
  }
  [[nodiscard]] const RemoteBuffer& word() const { return remote_word_; }
  [[nodiscard]] std::uint64_t seen() const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word_))
        .load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_all(std::size_t bytes, std::byte value) const {
    return std::ranges::all_of(buffer_.bytes().first(bytes),
                               [value](std::byte byte) { return byte == value; });
  }

 private:
  SharedBuffer buffer_;
  std::byte* word_;
  RemoteBuffer remote_word_;
};

std::byte value_of(std::uint64_t round) {
  return static_cast<std::byte>(round % 255 + 1);
}

// The next `count` completions of rank 0.
std::vector<Completion> completions(Group& group, std::size_t count) {
  std::vector<Completion> all(count);
  std::size_t come = 0;
  EXPECT_TRUE(group.eventually([&] {
    come += group.at(0).poll(std::span(all).subspan(come));
    return come == count;
  }));
  return all;
}

// The peer looks after every turn, as its own thread would.
TEST_P(WorkOrderOf, APeerThatSeesAWordHasTheDataWrittenBeforeIt) {
  Group group(GetParam(), 2);
  Published memory;
  Endpoint& peer = group.link(0, 1);
  std::uint64_t round = 0;
  for (int times = 0; times < 3; ++times) {
    for (const std::size_t bytes : kSizes) {
      ++round;
      SCOPED_TRACE(testing::Message() << bytes << " bytes, round " << round);
      const std::vector<std::byte> data(bytes, value_of(round));
      ASSERT_EQ(peer.post_write(data, memory.data(bytes), 1), Posted::posted);
      ASSERT_EQ(peer.post_write(std::as_bytes(std::span(&round, 1)), memory.word(), 2),
                Posted::posted);
      ASSERT_TRUE(group.eventually([&] { return memory.seen() == round; }));
      ASSERT_TRUE(memory.is_all(bytes, value_of(round)));
      for (const Completion& completion : completions(group, 2))
        EXPECT_TRUE(completion.status.ok()) << completion.status.to_string();
    }
  }
}

TEST_P(WorkOrderOf, AReadReturnsWhatWasWrittenBeforeItAndNothingLater) {
  Group group(GetParam(), 2);
  Published memory;
  Endpoint& peer = group.link(0, 1);
  std::uint64_t round = 0;
  for (const std::size_t first : kSizes) {
    for (const std::size_t later : kSizes) {
      round += 2;
      SCOPED_TRACE(testing::Message() << first << " bytes, then " << later);
      const std::vector<std::byte> before(first, value_of(round));
      const std::vector<std::byte> behind(later, value_of(round + 1));
      std::vector<std::byte> got(first);
      ASSERT_EQ(peer.post_write(before, memory.data(first), 1), Posted::posted);
      ASSERT_EQ(peer.post_read(got, memory.data(first), 2), Posted::posted);
      ASSERT_EQ(peer.post_write(behind, memory.data(later), 3), Posted::posted);
      for (const Completion& completion : completions(group, 3))
        ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
      EXPECT_EQ(got, before);
      EXPECT_TRUE(memory.is_all(later, value_of(round + 1)));
    }
  }
}

TEST_P(WorkOrderOf, ACompareSwapTakesItsTurnBetweenWrites) {
  Group group(GetParam(), 2);
  Published memory;
  Endpoint& peer = group.link(0, 1);
  const std::vector<std::byte> data(kMost, std::byte{7});
  const std::uint64_t five = 5;
  const std::uint64_t nine = 9;
  std::uint64_t found = 0;
  std::uint64_t between = 0;
  const auto bytes_of = [](const std::uint64_t& word) {
    return std::as_bytes(std::span(&word, 1));
  };
  ASSERT_EQ(peer.post_write(data, memory.data(kMost), 1), Posted::posted);
  ASSERT_EQ(peer.post_write(bytes_of(five), memory.word(), 2), Posted::posted);
  ASSERT_EQ(peer.post_compare_swap(memory.word(), 5, 6, &found, 3), Posted::posted);
  ASSERT_EQ(peer.post_read(std::as_writable_bytes(std::span(&between, 1)), memory.word(), 4),
            Posted::posted);
  ASSERT_EQ(peer.post_write(bytes_of(nine), memory.word(), 5), Posted::posted);
  for (const Completion& completion : completions(group, 5))
    ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
  EXPECT_EQ(found, 5u);
  EXPECT_EQ(between, 6u);
  EXPECT_EQ(memory.seen(), 9u);
}

// A word that was published behind data that never came would be a lie.
TEST_P(WorkOrderOf, NothingBehindAFailureIsDoneUntilItWasPolled) {
  Group group(GetParam(), 2);
  Published memory;
  Endpoint& peer = group.link(0, 1);
  const RemoteBuffer outside{PieceForm::view, must(heap_identity()).bytes, 16};
  std::uint64_t number = 0;
  std::deque<std::uint64_t> numbers;  // each stays as it is until its completion
  const auto publish = [&](std::uint64_t ticket) {
    numbers.push_back(++number);
    return peer.post_write(std::as_bytes(std::span(&numbers.back(), 1)), memory.word(), ticket);
  };
  for (const std::size_t bytes : kSizes) {
    SCOPED_TRACE(testing::Message() << bytes << " bytes");
    const std::vector<std::byte> data(bytes, std::byte{1});
    std::uint64_t found = 77;
    const std::uint64_t before = number;
    ASSERT_EQ(peer.post_write(data, memory.data(bytes), 1), Posted::posted);
    ASSERT_EQ(peer.post_write(std::span(data).first(8), outside, 2), Posted::posted);
    ASSERT_EQ(publish(3), Posted::posted);
    ASSERT_EQ(peer.post_compare_swap(memory.word(), before, 99, &found, 4), Posted::posted);
    ASSERT_EQ(completions(group, 1).front().ticket, 1u);
    ASSERT_EQ(publish(5), Posted::posted) << "the failure is not known yet";
    const std::vector<Completion> ends = completions(group, 4);
    for (std::size_t e = 0; e < ends.size(); ++e) {
      EXPECT_EQ(ends[e].ticket, e + 2);
      EXPECT_FALSE(ends[e].status.ok()) << "ticket " << e + 2;
    }
    EXPECT_EQ(ends.front().status.code(), Code::invalid_argument);
    EXPECT_EQ(memory.seen(), before);
    EXPECT_EQ(found, 77u);
    ASSERT_EQ(publish(6), Posted::posted) << "the failure is known";
    EXPECT_TRUE(completions(group, 1).front().status.ok());
    EXPECT_EQ(memory.seen(), number);
  }
}

TEST_P(WorkOrderOf, AFailureEndsNoWorkOfAnotherEndpoint) {
  Group group(GetParam(), 3);
  SharedBuffer buffer(16);
  const RemoteBuffer outside{PieceForm::view, must(heap_identity()).bytes, 16};
  const std::vector<std::byte> local(8, std::byte{3});
  ASSERT_EQ(group.link(0, 1).post_write(local, outside, 1), Posted::posted);
  const RemoteBuffer good = describe_memory(buffer.bytes().data(), 8);
  ASSERT_EQ(group.link(0, 2).post_write(local, good, 2), Posted::posted);
  for (const Completion& completion : completions(group, 2))
    EXPECT_EQ(completion.status.ok(), completion.ticket == 2) << completion.ticket;
}

TEST_P(WorkOrderOf, AnEndpointIsAtWorkUntilAllCompletionsWerePolled) {
  Group group(GetParam(), 2);
  Published memory;
  Endpoint& peer = group.link(0, 1);
  const std::vector<std::byte> local(8);
  EXPECT_FALSE(peer.at_work());
  for (const std::uint64_t ticket : {1, 2})
    ASSERT_EQ(peer.post_write(local, memory.data(8), ticket), Posted::posted);
  (void)completions(group, 1);
  EXPECT_TRUE(peer.at_work());
  (void)completions(group, 1);
  EXPECT_FALSE(peer.at_work());
}

}  // namespace
}  // namespace weft
