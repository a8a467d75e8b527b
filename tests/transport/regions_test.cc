// Conformance: memory that a rank exposes as a region is written, read and swapped by its peers, in
// the heap and elsewhere; work outside of it and after its end is refused; and nothing of it stays.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/transport/bonded_pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class Regions : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Regions);

constexpr std::size_t kBytes = (std::size_t{2} << 20) + 4'096;  // more than a work request has
constexpr std::size_t kGuard = 64;  // bytes on both sides of a region, which nobody may touch

// Memory in the heap or not, with guards around what is exposed.
class Guarded {
 public:
  Guarded(bool in_heap, std::size_t bytes)
      : private_(in_heap ? 0 : bytes + 2 * kGuard), bytes_(bytes) {
    if (in_heap) heap_.emplace(bytes + 2 * kGuard);
  }
  [[nodiscard]] std::span<std::byte> region() const { return all().subspan(kGuard, bytes_); }
  [[nodiscard]] bool guards_are_whole() const {
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    return std::ranges::all_of(all().first(kGuard), is_zero) &&
           std::ranges::all_of(all().last(kGuard), is_zero);
  }
  [[nodiscard]] std::uint64_t word(std::size_t at) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(&region()[at])).load();
  }

 private:
  // operator new aligns to 16, so the region begins at a word.
  [[nodiscard]] std::span<std::byte> all() const {
    return heap_ ? heap_->bytes() : std::span<std::byte>(private_);
  }
  std::optional<SharedBuffer> heap_;
  mutable std::vector<std::byte> private_;
  std::size_t bytes_;
};

// Rank 1 exposes, rank 0 works; over plain interfaces or over bonds.
class Ends {
 public:
  Ends(const TransportFactory& transport, std::uint32_t rails) {
    if (rails == 0)
      plain_.emplace(transport, 2);
    else
      bonded_.emplace(transport, rails);
  }
  [[nodiscard]] Interface& at(Rank rank) { return plain_ ? plain_->at(rank) : bonded_->bond(rank); }
  [[nodiscard]] Endpoint& link() { return plain_ ? plain_->link(0, 1) : bonded_->link(0); }
  Status end() {
    Completion completion;
    const auto polled = [&] { return at(0).poll({&completion, 1}) == 1; };
    EXPECT_TRUE(plain_ ? plain_->eventually(polled) : bonded_->eventually(polled));
    return completion.status;
  }
  Status write(std::span<const std::byte> local, const RemoteBuffer& remote) {
    EXPECT_EQ(link().post_write(local, remote, 1), Posted::posted);
    return end();
  }
  Status read(std::span<std::byte> local, const RemoteBuffer& remote) {
    EXPECT_EQ(link().post_read(local, remote, 2), Posted::posted);
    return end();
  }
  Status swap(const RemoteBuffer& remote, std::uint64_t expected, std::uint64_t desired,
              std::uint64_t& found) {
    EXPECT_EQ(link().post_compare_swap(remote, expected, desired, &found, 3), Posted::posted);
    return end();
  }

 private:
  std::optional<Group> plain_;
  std::optional<BondedPair> bonded_;
};

RemoteBuffer part(std::uint32_t number, std::uint64_t offset, std::size_t bytes) {
  return {PieceForm::region, offset, bytes, number};
}

void expect_reached(Ends& ends, const Guarded& memory, std::uint32_t number) {
  const std::span<std::byte> region = memory.region();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8},
                                  std::size_t{1'000}, std::size_t{70'001}, kBytes - 7}) {
    for (const std::size_t start : {std::size_t{0}, std::size_t{7}}) {
      if (start != 0 && bytes > 1'000) continue;
      SCOPED_TRACE(testing::Message() << bytes << " bytes at " << start);
      const std::vector<std::byte> sent =
          numbered_payload(static_cast<std::uint32_t>(bytes + start), bytes);
      const Status written = ends.write(sent, part(number, start, bytes));
      ASSERT_TRUE(written.ok()) << written.to_string();
      EXPECT_TRUE(std::ranges::equal(region.subspan(start, bytes), sent));
      std::vector<std::byte> got(bytes);
      ASSERT_TRUE(ends.read(got, part(number, start, bytes)).ok());
      EXPECT_EQ(got, sent);
    }
  }
  std::uint64_t found = 0;
  const std::uint64_t before = memory.word(16);
  ASSERT_TRUE(ends.swap(part(number, 16, 8), before, ~before, found).ok());
  EXPECT_EQ(found, before);
  ASSERT_TRUE(ends.swap(part(number, 16, 8), before, 1, found).ok());
  EXPECT_EQ(found, ~before);
  EXPECT_EQ(memory.word(16), ~before);
  EXPECT_TRUE(memory.guards_are_whole());
}

TEST_P(Regions, AreWrittenReadAndSwappedInTheHeapAndElsewhere) {
  for (const std::uint32_t rails : {0U, 1U, 2U}) {
    for (const bool in_heap : {true, false}) {
      SCOPED_TRACE(testing::Message() << rails << " rails, in the heap: " << in_heap);
      const Guarded memory(in_heap, kBytes);
      Ends ends(GetParam(), rails);
      const Region region = must(ends.at(1).expose(memory.region()));
      EXPECT_LE(region.key.size(), kRegionKeyBytes * std::max(rails, 1U));
      expect_reached(ends, memory, must(ends.link().import_region(region.key)));
    }
  }
}

// A registered region needs no lane at its owner, but for transports that say so.
TEST_P(Regions, NeedTheOwnersLaneOnlyWhereTheTransportSaysSo) {
  const Guarded memory(false, 4'096);
  Group group(GetParam(), 2);
  Endpoint& link = group.link(0, 1);
  const Region region = must(group.at(1).expose(memory.region()));
  const std::uint32_t number = must(link.import_region(region.key));
  const std::vector<std::byte> sent = numbered_payload(1, 4'096);
  ASSERT_EQ(link.post_write(sent, part(number, 0, 4'096), 1), Posted::posted);
  ASSERT_TRUE(group.wait_completion(0).status.ok()) << "connected";
  EXPECT_EQ(link.properties().work_needs_peer, GetParam().name == "ucx");
  if (link.properties().work_needs_peer) return;
  std::vector<std::byte> got(4'096);
  ASSERT_EQ(link.post_read(got, part(number, 0, 4'096), 2), Posted::posted);
  EXPECT_TRUE(wait_completion(group.at(0)).status.ok());
  EXPECT_EQ(got, sent);
}

TEST_P(Regions, PublishAWordBehindData) {
  const Guarded memory(false, kBytes);
  Ends ends(GetParam(), 0);
  const std::uint32_t number =
      must(ends.link().import_region(must(ends.at(1).expose(memory.region())).key));
  constexpr std::size_t kData = kBytes - 8;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::vector<std::byte> data(kData, static_cast<std::byte>(round));
    const auto bytes = std::as_bytes(std::span(&round, 1));
    ASSERT_EQ(ends.link().post_write(data, part(number, 0, kData), 1), Posted::posted);
    ASSERT_EQ(ends.link().post_write(bytes, part(number, kData, 8), 2), Posted::posted);
    ASSERT_TRUE(ends.end().ok());
    ASSERT_TRUE(ends.end().ok());
    EXPECT_EQ(memory.word(kData), round);
    EXPECT_TRUE(std::ranges::equal(memory.region().first(kData), data));
  }
}

void expect_refused(Ends& ends, const RemoteBuffer& bad, std::string_view text) {
  SCOPED_TRACE(testing::Message() << "offset " << std::hex << bad.word << " bytes " << bad.bytes);
  std::vector<std::byte> local(16, std::byte{0xee});
  std::uint64_t found = 77;
  for (const Status& status :
       {ends.write(local, bad), ends.read(local, bad), ends.swap(bad, 0, 1, found)}) {
    EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
    EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
    EXPECT_EQ(status.rank(), 1);
  }
  EXPECT_EQ(found, 77u);
  EXPECT_EQ(ends.link().view(bad), nullptr);
}

TEST_P(Regions, WorkOutsideIsRefused) {
  constexpr std::uint64_t kTop = ~std::uint64_t{0} - 7;
  for (const std::uint32_t rails : {0U, 2U}) {
    const Guarded memory(true, 4'096);
    const Guarded other(false, 4'096);
    Ends ends(GetParam(), rails);
    const std::uint32_t number =
        must(ends.link().import_region(must(ends.at(1).expose(memory.region())).key));
    for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::size_t>{4'096, 16},
                                        {4'088, 16},
                                        {kTop, 16},
                                        {kTop, 8 + 8},
                                        {0, kTop},
                                        {8, kTop},
                                        {kTop - 4'096, 4'104},
                                        {std::uint64_t{1} << 63, 16}})
      expect_refused(ends, part(number, offset, bytes), "outside of the region");
    expect_refused(ends, part(number + 1'000, 0, 16), "is imported here");
    expect_refused(ends, part(0, 0, 16), "is imported here");
    const std::vector<std::byte> longer(17);
    EXPECT_EQ(ends.write(longer, part(number, 0, 16)).code(), Code::invalid_argument);
    std::uint64_t found = 0;
    for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::size_t>{4, 8}, {8, 7}})
      EXPECT_EQ(ends.swap(part(number, offset, bytes), 0, 1, found).code(), Code::invalid_argument);
    EXPECT_TRUE(ends.write({}, part(number, 5'000, 0)).ok()) << "nothing is touched";
    EXPECT_TRUE(memory.guards_are_whole());
    EXPECT_TRUE(
        std::ranges::all_of(memory.region(), [](std::byte b) { return b == std::byte{0}; }));
    ends.link().drop_region(number);
    expect_refused(ends, part(number, 0, 16), "is imported here");
  }
}

// Over RDMA the path ends with it, as the device knows only that the key is not its own.
TEST_P(Regions, WorkAfterItsEndFailsAndTouchesNothing) {
  const Guarded memory(false, 4'096);
  Ends ends(GetParam(), 0);
  const Region region = must(ends.at(1).expose(memory.region()));
  const std::uint32_t number = must(ends.link().import_region(region.key));
  const std::vector<std::byte> before(4'096, std::byte{1});
  ASSERT_TRUE(ends.write(before, part(number, 0, 4'096)).ok());
  ends.at(1).withdraw(region.number);
  ends.at(1).withdraw(region.number);
  const std::vector<std::byte> later(4'096, std::byte{2});
  const Status status = ends.write(later, part(number, 0, 4'096));
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(status.text().find("withdrawn") != std::string_view::npos ||
              status.text().find("given back") != std::string_view::npos)
      << status.to_string();
  EXPECT_TRUE(std::ranges::equal(memory.region(), before));
}

TEST_P(Regions, OfOneMemoryEndOneByOne) {
  const Guarded memory(false, 4'096);
  Ends ends(GetParam(), 0);
  const Region first = must(ends.at(1).expose(memory.region()));
  const Region second = must(ends.at(1).expose(memory.region()));
  EXPECT_NE(first.number, second.number);
  const std::uint32_t number = must(ends.link().import_region(second.key));
  ends.at(1).withdraw(first.number);
  const std::vector<std::byte> sent = numbered_payload(3, 4'096);
  EXPECT_TRUE(ends.write(sent, part(number, 0, 4'096)).ok());
  EXPECT_TRUE(std::ranges::equal(memory.region(), sent));
}

TEST_P(Regions, ImportedTwiceAreDroppedOneByOne) {
  for (const std::uint32_t rails : {0U, 2U}) {
    const Guarded memory(true, 64);
    Ends ends(GetParam(), rails);
    const Region region = must(ends.at(1).expose(memory.region()));
    const std::uint32_t first = must(ends.link().import_region(region.key));
    const std::uint32_t second = must(ends.link().import_region(region.key));
    EXPECT_NE(first, second);
    ends.link().drop_region(first);
    const std::vector<std::byte> sent = numbered_payload(4, 64);
    EXPECT_TRUE(ends.write(sent, part(second, 0, 64)).ok());
    EXPECT_TRUE(std::ranges::equal(memory.region(), sent));
    EXPECT_FALSE(ends.write(sent, part(first, 0, 64)).ok());
  }
}

TEST_P(Regions, OfNoBytesAreRegionsOnWhichNothingFits) {
  Ends ends(GetParam(), 2);
  const Region region = must(ends.at(1).expose({}));
  const std::uint32_t number = must(ends.link().import_region(region.key));
  EXPECT_TRUE(ends.write({}, part(number, 0, 0)).ok());
  const std::vector<std::byte> one(1);
  EXPECT_EQ(ends.write(one, part(number, 0, 1)).code(), Code::invalid_argument);
}

TEST_P(Regions, AKeyThatIsNoneIsAMismatch) {
  for (const std::uint32_t rails : {0U, 2U}) {
    const Guarded memory(true, 64);
    Ends ends(GetParam(), rails);
    const std::string key = must(ends.at(1).expose(memory.region())).key;
    const std::string own = must(ends.at(0).expose(memory.region())).key;
    const auto code_of = [&](std::string_view bytes) {
      return ends.link().import_region(bytes).status().code();
    };
    EXPECT_EQ(code_of(""), Code::mismatch);
    EXPECT_EQ(code_of(own), Code::mismatch) << "of another interface";
    EXPECT_EQ(code_of(std::string(2'000, 'x')), Code::mismatch);
    for (std::size_t at = 0; at < key.size(); ++at) {
      const bool is_shorter_key = at != 0 && at % sizeof(RegionKey) == 0;  // of one member alone
      EXPECT_TRUE(is_shorter_key || code_of(key.substr(0, at)) == Code::mismatch) << at;
      std::string damaged = key;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      EXPECT_EQ(code_of(damaged), Code::mismatch) << at;
    }
    EXPECT_EQ(code_of(key), Code::ok);
  }
}

std::size_t descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

// Kilobytes that are locked or pinned.
std::size_t pinned() {
  std::ifstream status("/proc/self/status");
  std::size_t sum = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:") || line.starts_with("VmPin:"))
      sum += std::stoul(line.substr(line.find(':') + 1));
  }
  return sum;
}

TEST_P(Regions, ManyThatEndedLeaveNothing) {
  for (const bool in_heap : {true, false}) {
    Ends ends(GetParam(), 2);
    const Guarded memory(in_heap, 1 << 20);
    const std::vector<std::byte> local(100);
    const auto use_one = [&] {
      const Region region = must(ends.at(1).expose(memory.region()));
      const std::uint32_t number = must(ends.link().import_region(region.key));
      ASSERT_TRUE(ends.write(local, part(number, 5, local.size())).ok());
      ends.link().drop_region(number);
      ends.at(1).withdraw(region.number);
    };
    use_one();
    const std::size_t open = descriptors();
    const std::size_t locked = pinned();
    constexpr int kRounds = 200;
    for (int round = 0; round < kRounds; ++round) use_one();
    EXPECT_LT(descriptors(), open + kRounds / 10);  // UCX may still be connecting
    EXPECT_EQ(pinned(), locked);
  }
}

// With one rail and with two: what belongs to one interface of the peer is reached over the path to
// it, and over no other; by a rank itself, too.
TEST_P(Regions, AreReachedOverThePathToEachInterface) {
  for (const int rails : {1, 2}) {
    BondedPair pair(GetParam(), static_cast<std::uint32_t>(rails));
    const Guarded memory(true, 64);
    const Region region = must(pair.bond(1).expose(memory.region()));
    for (Endpoint* link : {&pair.link(0), &pair.link_to_self(1)}) {
      Interface& from = pair.bond(link == &pair.link(0) ? 0 : 1);
      const std::uint32_t number = must(link->import_region(region.key));
      std::uint64_t counted = memory.word(0);
      for (int member = 0; member < rails; ++member) {
        Endpoint* const path = link->over(member);
        ASSERT_NE(path, nullptr) << member;
        EXPECT_TRUE(member == 0 || path != link->over(0));
        EXPECT_EQ(path->over(member), path);
        std::uint64_t found = 0;
        ASSERT_EQ(path->post_compare_swap(part(number, 0, 8), counted, counted + 1, &found, 9),
                  Posted::posted);
        Completion end;
        ASSERT_TRUE(pair.eventually([&] { return from.poll({&end, 1}) == 1; }));
        EXPECT_TRUE(end.status.ok()) << end.status.to_string();
        EXPECT_EQ(end.ticket, 9u);
        EXPECT_EQ(memory.word(0), ++counted);
      }
      EXPECT_EQ(link->over(rails), nullptr);
      EXPECT_EQ(link->over(-1), nullptr);
      EXPECT_FALSE(link->work_may_linger());
      EXPECT_EQ(link->properties().work_needs_peer, GetParam().name == "ucx");
    }
  }
}

// Bytes of work that failed with its path may arrive until the peer has closed its end, and says so.
TEST_P(Regions, FailedWorkLingersNoLongerThanThePeersEnd) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory has no path that could be given up";
  constexpr std::size_t kWrites = 8;
  const Guarded memory(false, kBytes);
  BondedPair pair(GetParam());
  Endpoint& link = pair.link(0);
  const std::uint32_t number =
      must(link.import_region(must(pair.bond(1).expose(memory.region())).key));
  ASSERT_TRUE(pair.stream_until([&] { return pair.received(1) > 50 && pair.received(0) > 50; }));
  const std::vector<std::byte> sent(kBytes, std::byte{1});
  for (std::size_t n = 0; n < kWrites; ++n)
    ASSERT_EQ(link.post_write(sent, part(number, 0, kBytes), n), Posted::posted);
  pair.bond(0).progress();
  EXPECT_FALSE(link.work_may_linger());
  Endpoint& path = link.over(0)->at_work() ? *link.over(0) : *link.over(1);
  path.abandon(Status(Code::unavailable, "given up by the test", 1));
  const bool lingers = path.work_may_linger();
  EXPECT_EQ(link.work_may_linger(), lingers);
  ASSERT_TRUE(pair.stream_until([&] { return !link.work_may_linger(); }));
  std::array<Completion, kWrites> ends;
  std::size_t count = 0;
  ASSERT_TRUE(pair.eventually([&] {
    count += pair.bond(0).poll(std::span(ends).subspan(count));
    return count == kWrites;
  }));
  EXPECT_TRUE(!lingers || !ends.back().status.ok());
}

// After a path has come back its new endpoint knows the regions that were imported before.
TEST_P(Regions, AreKnownToAPathThatCameBack) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory has no path that could be given up";
  BondedPair pair(GetParam());
  const Guarded memory(false, 64);
  Endpoint& link = pair.link(0);
  const std::uint32_t number =
      must(link.import_region(must(pair.bond(1).expose(memory.region())).key));
  ASSERT_TRUE(pair.stream_until([&] { return pair.received(1) > 50 && pair.received(0) > 50; }));
  Endpoint* const before = link.over(1);
  ASSERT_NE(before, nullptr);
  before->abandon(Status(Code::unavailable, "given up by the test", 1));
  EXPECT_EQ(link.over(1), nullptr);
  ASSERT_TRUE(pair.stream_until([&] { return link.over(1) != nullptr; }));
  EXPECT_NE(link.over(1), before);
  const std::vector<std::byte> sent = numbered_payload(5, 64);
  ASSERT_EQ(link.over(1)->post_write(sent, part(number, 0, 64), 1), Posted::posted);
  Completion end;
  ASSERT_TRUE(pair.eventually([&] { return pair.bond(0).poll({&end, 1}) == 1; }));
  EXPECT_TRUE(end.status.ok()) << end.status.to_string();
  EXPECT_TRUE(std::ranges::equal(memory.region(), sent));
  EXPECT_FALSE(link.work_may_linger());
}

}  // namespace
}  // namespace weft
