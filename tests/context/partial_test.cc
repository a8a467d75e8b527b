// Operations of some ranks: messages, pairs and groups, alone, in flight together, and beside
// operations of all.
#include <atomic>
#include <latch>
#include <random>

#include "tests/context/job.h"

namespace weft {
namespace {

void expect_ok(const Status& status) {
  ASSERT_TRUE(status.ok()) << status.to_string();
}

TEST(SendRecv, EverySizeAndKindOfMemory) {
  run_job(3, [](Context& context) {
    for (const std::size_t count : {0UL, 1UL, 3UL, 4000UL, 100'003UL, 700'001UL}) {
      for (const bool foreign : {false, true}) {
        Array<std::int32_t> x(count, foreign), y(count, foreign);
        for (std::size_t i = 0; i < count; ++i)
          x[i] = static_cast<std::int32_t>(i) * 3 + context.rank();
        // Around the ring, which would be a circle of waits if sends were not sent on before.
        const Rank to = (context.rank() + 1) % 3, from = (context.rank() + 2) % 3;
        auto sent = context.send_start(in(x.data(), count), to);
        ASSERT_TRUE(sent.ok());
        expect_ok(context.recv(out(y.data(), count), from));
        expect_ok(sent->wait());
        ASSERT_TRUE(holds(y.data(), count,
                          [&](std::size_t i) { return static_cast<std::int32_t>(i) * 3 + from; }));
      }
    }
  });
}

TEST(SendRecv, MessagesOfAPairArriveInOrderBothWaysAtOnce) {
  run_job(2, [](Context& context) {
    constexpr std::size_t kMessages = 60;
    const Rank peer = 1 - context.rank();
    std::vector<std::int64_t> out_values(kMessages), in_values(kMessages, -1);
    std::vector<Handle> handles;
    for (std::size_t k = 0; k < kMessages; ++k) {
      out_values[k] = static_cast<std::int64_t>(k) * 10 + context.rank();
      // One rank sends first, the other receives first: directions do not wait for each other.
      for (const bool sends : {context.rank() == 0, context.rank() != 0}) {
        auto handle = sends ? context.send_start(in(&out_values[k], 1), peer)
                            : context.recv_start(out(&in_values[k], 1), peer);
        ASSERT_TRUE(handle.ok());
        handles.push_back(*handle);
      }
    }
    for (std::size_t k = handles.size(); k-- > 0;) expect_ok(handles[k].wait());
    for (std::size_t k = 0; k < kMessages; ++k)
      EXPECT_EQ(in_values[k], static_cast<std::int64_t>(k) * 10 + peer);
  });
}

// A waits for C before it receives from B, whose large message is started first: it holds up
// nobody.
TEST(SendRecv, AMessageThatIsNotTakenHoldsUpNoOtherPeer) {
  run_job(3, [](Context& context) {
    Array<float> large(500'000, false);
    float small = 7;
    if (context.rank() == 0) {
      expect_ok(context.recv(out(&small, 1), 2));
      expect_ok(context.recv(out(large.data(), large.size()), 1));
    } else if (context.rank() == 1) {
      auto first = context.send_start(in(large.data(), large.size()), 0);
      auto second = context.send_start(in(&small, 1), 2);
      ASSERT_TRUE(first.ok() && second.ok());
      expect_ok(second->wait());
      expect_ok(first->wait());
    } else {
      expect_ok(context.recv(out(&small, 1), 1));
      expect_ok(context.send(in(&small, 1), 0));
    }
  });
}

TEST(SendRecv, LeavesOperationsOfAllAlone) {
  run_job(4, [](Context& context) {
    for (int round = 0; round < 30; ++round) {
      float x = static_cast<float>(context.rank()), y = 0, z = 0;
      // Ranks make different numbers of these between the operations of all.
      if (context.rank() == 0) {
        for (Rank to = 1; to < 4; ++to) expect_ok(context.send(in(&x, 1), to));
      } else {
        expect_ok(context.recv(out(&z, 1), 0));
      }
      expect_ok(context.allreduce(in(&x, 1), out(&y, 1)));
      ASSERT_FLOAT_EQ(y, 1.5F);
    }
  });
}

// Rank 0 takes messages of any rank: it asks who has sent, and then receives.
TEST(SendRecv, AReceiverCanAskWhoHasSent) {
  run_job(4, [](Context& context) {
    for (const std::size_t count : {0UL, 1UL, 4000UL, 300'000UL}) {
      std::vector<float> x(count, static_cast<float>(context.rank()));
      if (context.rank() != 0) {
        for (int i = 0; i < 2; ++i) expect_ok(context.send(in(x.data(), count), 0));
        continue;
      }
      std::vector<int> taken(4);
      while (taken != std::vector<int>{0, 2, 2, 2}) {
        for (Rank from = 1; from < 4; ++from) {
          if (taken[static_cast<std::size_t>(from)] == 2)
            continue;  // its next one is of another size
          const auto there = context.has_message(from);
          ASSERT_TRUE(there.ok()) << there.status().to_string();
          if (!*there) continue;
          expect_ok(context.recv(out(x.data(), count), from));
          ASSERT_TRUE(count == 0 || x[count - 1] == static_cast<float>(from));
          ++taken[static_cast<std::size_t>(from)];
        }
      }
    }
    EXPECT_EQ(context.has_message(context.rank()).status().code(), Code::invalid_argument);
    EXPECT_EQ(context.has_message(4).status().code(), Code::invalid_argument);
  });
}

// The message of a recv that was called is not one that can be received by another.
TEST(SendRecv, AMessageThatARecvTakesIsNotAnnounced) {
  run_job(2, [](Context& context) {
    std::vector<float> x(300'000, 1.0F);
    float small = 0;
    if (context.rank() == 1) {
      expect_ok(context.recv(out(&small, 1), 0));
      expect_ok(context.send(in(x.data(), x.size()), 0));
      expect_ok(context.send(in(&small, 1), 0));
      return;
    }
    auto large = context.recv_start(out(x.data(), x.size()), 1);
    ASSERT_TRUE(large.ok());
    expect_ok(context.send(in(&small, 1), 1));
    while (!large->test()) {
      const auto there = context.has_message(1);
      ASSERT_TRUE(there.ok());
      ASSERT_TRUE(!*there || large->test());
    }
    expect_ok(context.recv(out(&small, 1), 1));
    const auto more = context.has_message(1);
    ASSERT_TRUE(more.ok() && !*more);
  });
}

TEST(PairAverage, DefaultsAndWeightsInPlaceOrNot) {
  run_job(4, [](Context& context) {
    const Rank peer = context.rank() ^ 1;
    for (const std::size_t count : {0UL, 1UL, 1001UL, 400'003UL}) {
      Array<float> x(count, false), y(count, true);
      for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(context.rank());
      expect_ok(context.pair_average(in(x.data(), count), out(y.data(), count), peer));
      ASSERT_TRUE(holds(y.data(), count, static_cast<float>(context.rank() + peer) / 2));
      // Each end has its own weights.
      const double pair = context.rank() < peer ? 0.25 : 0.5;
      expect_ok(context.pair_average(in(x.data(), count), out(x.data(), count), peer, 1.0, pair));
      ASSERT_TRUE(holds(x.data(), count, context.rank() + pair * peer));
    }
  });
}

TEST(GroupAverage, ConcurrentGroupsThatChangeAtEveryStep) {
  for (const std::size_t count : {1UL, 5000UL, 200'001UL}) {
    run_job(5, [count](Context& context) {
      std::mt19937 random(17);  // the same on all ranks: so they agree on the groups
      Array<double> x(count, count == 5000), y(count, false);
      for (int step = 0; step < 40; ++step) {
        std::vector<Rank> order{0, 1, 2, 3, 4};
        std::shuffle(order.begin(), order.end(), random);
        const auto cut = order.begin() + 1 + static_cast<int>(random() % 4);
        const bool first = std::find(order.begin(), cut, context.rank()) != cut;
        const std::vector<Rank> group =
            first ? std::vector(order.begin(), cut) : std::vector(cut, order.end());
        double mean = 0;
        for (const Rank rank : group) mean += rank + step;
        mean /= static_cast<double>(group.size());
        for (std::size_t i = 0; i < count; ++i) x[i] = context.rank() + step;
        double* to = step % 2 == 0 ? y.data() : x.data();
        expect_ok(context.group_average(in(x.data(), count), out(to, count), group));
        ASSERT_TRUE(holds(to, count, mean, 1e-9));
      }
    });
  }
}

// Each rank begins with another of its two groups: blocking, that would be a circle of waits.
TEST(GroupAverage, OverlappingGroupsInFlightNeedNoCommonOrder) {
  run_job(3, [](Context& context) {
    const Rank next = (context.rank() + 1) % 3, previous = (context.rank() + 2) % 3;
    for (int round = 0; round < 20; ++round) {
      float x = static_cast<float>(context.rank()), a = 0, b = 0;
      const Rank with_next[] = {context.rank(), next}, with_previous[] = {previous, context.rank()};
      auto first = context.group_average_start(in(&x, 1), out(&a, 1), with_next);
      auto second = context.group_average_start(in(&x, 1), out(&b, 1), with_previous);
      ASSERT_TRUE(first.ok() && second.ok());
      expect_ok(first->wait());
      expect_ok(second->wait());
      EXPECT_FLOAT_EQ(a, static_cast<float>(context.rank() + next) / 2);
      EXPECT_FLOAT_EQ(b, static_cast<float>(context.rank() + previous) / 2);
    }
  });
}

TEST(Partial, AllocatesNothingOnceItsShapesAreKnown) {
  run_job(4, [](Context& context) {
    Array<float> x(50'000, false), y(50'000, false);
    const auto step = [&](int k) {
      const Rank peer = context.rank() ^ (1 + k % 3);
      expect_ok(context.pair_average(in(x.data(), x.size()), out(y.data(), y.size()), peer));
      const Rank group[] = {context.rank(), peer};
      expect_ok(context.group_average(in(x.data(), x.size()), out(y.data(), y.size()), group));
    };
    for (int k = 0; k < 12; ++k) step(k);
    expect_ok(context.barrier());
    const std::uint64_t before = context.usage().allocations;
    for (int k = 0; k < 60; ++k) step(k);
    EXPECT_EQ(context.usage().allocations, before);
  });
}

// At rank 0 the mean of three waits for a message of rank 1, and the mean of two needs rank 2 alone.
TEST(Partial, AnOperationThatWaitsIsNotOvertakenOnItsStreams) {
  std::latch started(1);
  run_job(3, [&](Context& context) {
    Array<double> x(4, false), of_three(4, false), of_two(4, false);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank();
    const Rank three[] = {0, 1, 2};
    const Rank two[] = {0, 2};
    double word = 0;
    std::vector<Result<Handle>> handles;
    if (context.rank() == 0) handles.push_back(context.recv_start(out(&word, 1), 1));
    if (context.rank() == 1) {
      started.wait();
      handles.push_back(context.send_start(in(&word, 1), 0));
    }
    handles.push_back(context.group_average_start(in(x.data(), 4), out(of_three.data(), 4), three));
    if (context.rank() != 1)
      handles.push_back(context.group_average_start(in(x.data(), 2), out(of_two.data(), 2), two));
    if (context.rank() == 0) started.count_down();
    for (Result<Handle>& each : handles) {
      ASSERT_TRUE(each.ok());
      expect_ok(each->wait());
    }
    EXPECT_TRUE(holds(of_three.data(), 4, 1.0));
    EXPECT_TRUE(context.rank() == 1 || holds(of_two.data(), 2, 1.0));
  });
}

TEST(Partial, ProgressesWithoutAnybodyWaiting) {
  run_job(2, [](Context& context) {
    Array<float> x(300'000, true), y(300'000, true);
    const Rank peer = 1 - context.rank();
    x[299'999] = static_cast<float>(context.rank() + 5);
    std::atomic<bool> done{false};
    auto sent = context.send_start(in(x.data(), x.size()), peer);
    auto received = context.recv_start(out(y.data(), y.size()), peer);
    ASSERT_TRUE(sent.ok() && received.ok());
    const Status taken = received->then([&](const Status& status) {
      EXPECT_TRUE(status.ok());
      done.store(true);
      done.notify_one();
    });
    ASSERT_TRUE(taken.ok()) << taken.to_string();
    done.wait(false);
    EXPECT_FLOAT_EQ(y[299'999], static_cast<float>(peer + 5));
    expect_ok(sent->wait());
  });
}

}  // namespace
}  // namespace weft
