// Conformance between processes: the same contract when ranks share nothing but what the transport
// gives them.
#include <sys/wait.h>

#include "tests/transport/locking.h"
#include "tests/transport/ranks.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class Processes : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Processes);

constexpr std::size_t kBytes = 500;

TEST_P(Processes, StreamsOfAllPairsArriveWholeAndReturnTheirCredits) {
  run_ranks(GetParam(), 4, [](RankProcess& rank) {
    constexpr std::uint32_t kCount = 2'000;
    std::vector<std::uint32_t> sent(4, 0);
    std::vector<std::uint32_t> received(4, 0);
    EXPECT_TRUE(rank.eventually([&] {
      bool done = true;
      for (Rank peer = 0; peer < rank.ranks(); ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        Endpoint& link = rank.link(peer);
        if (sent[p] < kCount &&
            link.post_notice(1, numbered_header(sent[p]), numbered_payload(sent[p], kBytes)) ==
                Posted::posted) {
          ++sent[p];
        }
        if (link.front(1).header != nullptr) {
          EXPECT_TRUE(is_number(link.front(1), received[p]++, kBytes));
          link.release(1);
        }
        done = done && received[p] == kCount && link.released(1) == kCount;
      }
      return done;
    }));
  });
}

// Tells `peer` where a buffer is; notices are how real programs do that too.
void announce(RankProcess& rank, Rank peer, const RemoteBuffer& buffer) {
  WireHeader header;
  header.form = buffer.form;
  header.word = buffer.word;
  header.bytes = static_cast<std::uint32_t>(buffer.bytes);
  ASSERT_TRUE(rank.eventually(
      [&] { return rank.link(peer).post_notice(1, header, {}) == Posted::posted; }));
}

RemoteBuffer announced(RankProcess& rank, Rank owner) {
  Endpoint& peer = rank.link(owner);
  if (!rank.eventually([&] { return peer.front(1).header != nullptr; }))
    throw std::runtime_error("nothing announced");
  const WireHeader header = *peer.front(1).header;
  peer.release(1);
  return {header.form, header.word, header.bytes};
}

// Rank 0 owns `owned`; rank 1 reads what rank 0 put there, sees it in place where it can, and
// writes something else.
void read_and_write_back(RankProcess& rank, std::span<std::byte> owned) {
  const std::vector<std::byte> first = numbered_payload(1, owned.size());
  const std::vector<std::byte> second = numbered_payload(2, owned.size());
  if (rank.self() == 0) {
    std::copy(first.begin(), first.end(), owned.begin());
    announce(rank, 1, describe_memory(owned.data(), owned.size()));
    rank.meet();
    EXPECT_TRUE(std::equal(second.begin(), second.end(), owned.begin()));
    return;
  }
  Endpoint& owner = rank.link(0);
  const RemoteBuffer remote = announced(rank, 0);
  std::vector<std::byte> got(owned.size());
  ASSERT_EQ(owner.post_read(got, remote, 1), Posted::posted);
  const Status read = wait_completion(rank.interface()).status;
  EXPECT_TRUE(read.ok()) << read.to_string();
  EXPECT_EQ(got, first);
  const std::byte* seen = owner.view(remote);
  EXPECT_TRUE(seen == nullptr || std::memcmp(seen, first.data(), first.size()) == 0);
  ASSERT_EQ(owner.post_write(second, remote, 2), Posted::posted);
  EXPECT_TRUE(wait_completion(rank.interface()).status.ok());
  rank.meet();
}

TEST_P(Processes, SharedMemoryIsReadInPlaceAndWritten) {
  run_ranks(GetParam(), 2, [](RankProcess& rank) {
    SharedBuffer buffer(5 << 20);
    read_and_write_back(rank, buffer.bytes().subspan(3, (4 << 20) + 1));
  });
}

TEST_P(Processes, PrivateMemoryIsReadAndWrittenWhereTheKernelAllowsIt) {
  run_ranks(GetParam(), 2, [](RankProcess& rank) {
    if (!rank.link(1 - rank.self()).properties().process_access.ok())
      return;  // OneSided asks for the refusal
    std::vector<std::byte> buffer(300'007);
    read_and_write_back(rank, buffer);
  });
}

// Rank 0 exposes `owned`; its key is the payload of a notice, as real programs may do it, too.
void work_on_region(RankProcess& rank, std::span<std::byte> owned, bool may_swap) {
  const std::vector<std::byte> first = numbered_payload(1, owned.size());
  const std::vector<std::byte> second = numbered_payload(2, owned.size());
  Endpoint& peer = rank.link(1 - rank.self());
  if (rank.self() == 0) {
    std::copy(first.begin(), first.end(), owned.begin());
    const Region region = must(rank.interface().expose(owned));
    WireHeader header = numbered_header(1);
    header.bytes = static_cast<std::uint32_t>(region.key.size());
    ASSERT_EQ(peer.post_notice(1, header, std::as_bytes(std::span(region.key))), Posted::posted);
    rank.meet();
    EXPECT_TRUE(std::equal(second.begin(), second.end(), owned.begin()));
    rank.interface().withdraw(region.number);
    rank.meet();
    rank.meet();
    EXPECT_TRUE(std::equal(second.begin(), second.end(), owned.begin())) << "after its end";
    return;
  }
  ASSERT_TRUE(rank.eventually([&] { return peer.front(1).header != nullptr; }));
  const Notice notice = peer.front(1);
  const std::string key(reinterpret_cast<const char*>(notice.payload), notice.header->bytes);
  peer.release(1);
  const std::uint32_t number = must(peer.import_region(key));
  const RemoteBuffer all{PieceForm::region, 0, owned.size(), number};
  std::vector<std::byte> got(owned.size());
  ASSERT_EQ(peer.post_read(got, all, 1), Posted::posted);
  EXPECT_TRUE(wait_completion(rank.interface()).status.ok());
  EXPECT_EQ(got, first);
  ASSERT_EQ(peer.post_write(second, all, 2), Posted::posted);
  EXPECT_TRUE(wait_completion(rank.interface()).status.ok());
  std::uint64_t found = 0;
  std::uint64_t expected = 0;
  std::memcpy(&expected, second.data(), sizeof expected);
  const RemoteBuffer word{PieceForm::region, 0, 8, number};
  ASSERT_EQ(peer.post_compare_swap(word, expected, expected, &found, 3), Posted::posted);
  const Status swapped = wait_completion(rank.interface()).status;
  EXPECT_EQ(swapped.ok(), may_swap) << swapped.to_string();
  EXPECT_TRUE(may_swap || swapped.text().find("weft::allocate") != std::string_view::npos)
      << swapped.to_string();
  rank.meet();
  rank.meet();
  ASSERT_EQ(peer.post_write(first, all, 4), Posted::posted);
  const Status late = wait_completion(rank.interface()).status;
  EXPECT_FALSE(late.ok()) << "it was withdrawn";
  EXPECT_NE(late.code(), Code::invalid_argument)
      << late.to_string();  // of the owner, not of this rank
  EXPECT_EQ(late.rank(), 0) << late.to_string();
  rank.meet();
}

TEST_P(Processes, ARegionOfTheHeapIsWorkedOn) {
  run_ranks(GetParam(), 2, [](RankProcess& rank) {
    SharedBuffer buffer(5 << 20);
    work_on_region(rank, buffer.bytes().subspan(8, (4 << 20) + 8), true);
  });
}

// Shared memory reaches private memory by calls of the kernel alone, which swap nothing.
TEST_P(Processes, ARegionOfPrivateMemoryIsWorkedOnWhereItCanBe) {
  run_ranks(GetParam(), 2, [](RankProcess& rank) {
    const Endpoint& peer = rank.link(1 - rank.self());
    if (peer.properties().shares_memory && !peer.properties().process_access.ok())
      return;  // ShmPeers asks for that
    std::vector<std::byte> buffer(300'008);
    work_on_region(rank, buffer, !peer.properties().shares_memory);
  });
}

TEST_P(Processes, OutsideOfThePeersMemoryIsAFailedCompletion) {
  run_ranks(GetParam(), 2, [](RankProcess& rank) {
    constexpr std::uint64_t kTop = ~std::uint64_t{0};
    Endpoint& peer = rank.link(1 - rank.self());
    std::vector<std::byte> local(16);
    for (const RemoteBuffer& bad :
         {RemoteBuffer{PieceForm::view, kTop - 7, 16}, RemoteBuffer{PieceForm::view, 64, kTop},
          RemoteBuffer{PieceForm::process, 8, 16},
          RemoteBuffer{PieceForm::process, kTop - 7, 16}}) {
      ASSERT_EQ(peer.post_read(local, bad, 1), Posted::posted);
      EXPECT_FALSE(wait_completion(rank.interface()).status.ok());
      ASSERT_EQ(peer.post_write(local, bad, 1), Posted::posted);
      EXPECT_FALSE(wait_completion(rank.interface()).status.ok());
    }
  });
}

TEST_P(Processes, ACounterThatAllRanksCountOnLosesNothing) {
  run_ranks(GetParam(), 4, [](RankProcess& rank) {
    const std::uint32_t times = rank.link(0).properties().shares_memory ? 5'000 : 500;
    SharedBuffer word(8);
    if (rank.self() == 0) {
      for (Rank peer = 0; peer < rank.ranks(); ++peer) {
        announce(rank, peer, describe_memory(word.bytes().data(), 8));
      }
    }
    const RemoteBuffer counter = announced(rank, 0);
    std::uint64_t expected = 0;
    for (std::uint32_t done = 0; done < times;) {
      std::uint64_t found = 0;
      ASSERT_EQ(rank.link(0).post_compare_swap(counter, expected, expected + 1, &found, 0),
                Posted::posted);
      ASSERT_TRUE(wait_completion(rank.interface()).status.ok());
      if (found == expected) ++done;
      expected = found == expected ? expected + 1 : found;
    }
    rank.meet();
    std::uint64_t total = 0;
    std::memcpy(&total, word.bytes().data(), sizeof total);
    EXPECT_EQ(total, rank.self() == 0 ? 4u * times : 0u);
  });
}

TEST_P(Processes, ACountUnderALockLosesNothing) {
  run_ranks(GetParam(), 4, [](RankProcess& rank) {
    const std::uint32_t times = rank.link(0).properties().shares_memory ? 400 : 150;
    SharedBuffer buffer(kGuardedBytes);
    if (rank.self() == 0) {
      for (Rank peer = 0; peer < rank.ranks(); ++peer)
        announce(rank, peer, describe_memory(buffer.bytes().data(), kGuardedBytes));
    }
    const RemoteBuffer guarded = announced(rank, 0);
    count_under_lock(rank.interface(), rank.link(0), guarded, rank.self(), times);
    rank.meet();
    std::uint64_t total = 0;
    std::memcpy(&total, buffer.bytes().data() + 8, sizeof total);
    EXPECT_EQ(total, rank.self() == 0 ? 4u * times : 0u);
  });
}

TEST_P(Processes, PingPongOfSleepersLosesNoWakeUp) {
  run_ranks(GetParam(), 2, [](RankProcess& rank) {
    constexpr std::int64_t kMinuteNs = 60'000'000'000;
    Endpoint& peer = rank.link(1 - rank.self());
    const auto arrived = [&] { return peer.front(1).header != nullptr; };
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    const auto post = [&](std::uint32_t n) {
      return peer.post_notice(1, numbered_header(n), {}) == Posted::posted;
    };
    for (std::uint32_t n = 0; n < 10'000; ++n) {
      ASSERT_TRUE(rank.self() == 1 || post(n));
      while (!arrived() && !deadline.passed()) {
        rank.interface().sleep(kMinuteNs, arrived);
        rank.interface().progress();
      }
      ASSERT_TRUE(is_number(peer.front(1), n, 0));
      peer.release(1);
      ASSERT_TRUE(rank.self() == 0 || post(n));
    }
  });
}

// Rank 1 is killed; rank 0 has something under way to it, without which a path may not tell.
// Transports that share memory leave it to who watches processes.
TEST_P(Processes, AKilledPeerIsAFailure) {
  enum Word : Rank { connected, killed };
  const SharedBoard board;
  const SharedBoard told;
  FreshProcess one([&] {
    RankProcess rank(GetParam(), 1, 2, *board, small_options());
    Endpoint& peer = rank.link(0);
    ASSERT_TRUE(rank.eventually([&] {
      return peer.post_notice(1, numbered_header(5), numbered_payload(5, kBytes)) == Posted::posted;
    }));
    ASSERT_TRUE(rank.eventually([&] { return peer.front(1).header != nullptr; }));
    peer.release(1);
    rank.meet();
  });
  FreshProcess zero([&] {
    RankProcess rank(GetParam(), 0, 2, *board, small_options());
    Endpoint& peer = rank.link(1);
    ASSERT_TRUE(rank.eventually([&] { return peer.front(1).header != nullptr; }));
    ASSERT_EQ(peer.post_notice(1, numbered_header(1), {}), Posted::posted);
    ASSERT_TRUE(rank.eventually([&] { return peer.released(1) == 1; }));
    told->put(connected, "yes");
    (void)told->get(killed);
    if (peer.properties().shares_memory)
      GTEST_SKIP() << "memory does not tell that a peer was killed";
    (void)peer.post_notice(1, numbered_header(2), {});
    ASSERT_TRUE(rank.eventually([&] { return !peer.failure().ok(); }));
    EXPECT_EQ(peer.failure().rank(), 1) << peer.failure().to_string();
    EXPECT_FALSE(peer.peer_closed());
    EXPECT_NE(peer.failure().text().find(rank.interface().name()), std::string_view::npos)
        << peer.failure().to_string();
    EXPECT_EQ(peer.post_notice(1, numbered_header(3), {}), Posted::full);
    EXPECT_TRUE(is_number(peer.front(1), 5, kBytes)) << "what had arrived stays readable";
    std::vector<std::byte> local(8);
    ASSERT_EQ(peer.post_read(local, {PieceForm::view, 64, 8}, 3), Posted::posted);
    EXPECT_EQ(wait_completion(rank.interface()).status.to_string(), peer.failure().to_string());
  });
  (void)told->get(connected);
  one.kill();
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(one.pid()), &ended, WEXITED | WNOWAIT), 0);
  told->put(killed, "yes");
  report(zero.join(), "rank 0");
}

TEST_P(Processes, StrangersOfOtherProcessesGetAttention) {
  run_ranks(GetParam(), 4, [](RankProcess& rank) {
    if (rank.self() != 0) {
      EXPECT_EQ(rank.link(0).post_notice(kControlChannel, numbered_header(1),
                                         numbered_payload(1, kBytes)),
                Posted::posted);
      return;
    }
    for (int served = 0; served < rank.ranks() - 1; ++served) {
      Endpoint* asker = nullptr;
      ASSERT_TRUE(
          rank.eventually([&] { return (asker = must(rank.interface().attention())) != nullptr; }));
      EXPECT_TRUE(is_number(asker->front(kControlChannel), 1, kBytes));
      asker->release(kControlChannel);
    }
  });
}

}  // namespace
}  // namespace weft
