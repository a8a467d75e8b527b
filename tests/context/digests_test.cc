// Damage on purpose: a byte of a tensor that changes while it is read is an error that names the rank, the way
// and the operation, by the checksums of pieces and by the comparison of results.
#include <latch>

#include "tests/context/outcomes.h"

namespace weft {
namespace {

constexpr std::size_t kCount = (std::size_t{1} << 20) / sizeof(float);

Config with_digests(Digests digests) {
  Config config = test_config();
  config.transports = {.automatic = false,
                       .shm = true};  // where a receiver reads the sender's memory
  config.digests = digests;
  return config;
}

// A broadcast of rank 0, in whose tensor one bit changes after it has been sent and before the others read it.
std::vector<Status> broadcast_with_damage(int ranks, Digests digests) {
  Config config = with_digests(digests);
  config.progress = ProgressMode::waiter;  // rank 0 does something only when it is told to
  std::vector<Status> statuses(static_cast<std::size_t>(ranks));
  std::latch is_damaged(1);
  run_job(
      ranks,
      [&](Context& context) {
        Array<float> x(kCount, false), y(kCount, false);
        for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i);
        Status& status = statuses[static_cast<std::size_t>(context.rank())];
        if (context.rank() != 0) {
          is_damaged.wait();
          status = context.broadcast(in(x.data(), kCount), out(y.data(), kCount), 0);
          return;
        }
        Result<Handle> handle =
            context.broadcast_start(in(x.data(), kCount), out(y.data(), kCount), 0);
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        EXPECT_FALSE(handle->test());  // it has sent its tensor, and copied it
        reinterpret_cast<unsigned char*>(x.data())[kCount / 2] ^= 4;
        is_damaged.count_down();
        status = handle->wait();
        // The root compares its result with nobody's, and hears of it later.
        if (status.ok() && digests != Digests::off) status = context.barrier();
      },
      config);
  return statuses;
}

TEST(DamagedPieces, AreAnErrorThatNamesRankWayAndOperation) {
  const std::vector<Status> statuses = broadcast_with_damage(2, Digests::pieces);
  expect_names(statuses[1], Code::corrupted, {"broadcast", "rank 0", "shm", "CRC-32C"});
  EXPECT_EQ(statuses[1].rank(), 0);
  EXPECT_EQ(statuses[0].code(), Code::corrupted) << statuses[0].to_string();
}

TEST(DamagedResults, OfTwoRanksAreAnError) {
  const std::vector<Status> statuses = broadcast_with_damage(2, Digests::results);
  bool is_told = false;
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::corrupted) << status.to_string();
    is_told |= status.text().find("broadcast") != std::string_view::npos &&
               status.text().find("the result of rank") != std::string_view::npos;
  }
  EXPECT_TRUE(is_told) << statuses[0].to_string();
}

TEST(DamagedResults, OfThreeRanksNameTheOneThatStandsAlone) {
  const std::vector<Status> statuses = broadcast_with_damage(3, Digests::all);
  for (const Status& status : statuses)
    EXPECT_EQ(status.code(), Code::corrupted) << status.to_string();
}

// Without digests nobody notices: that is why there are digests.
TEST(DamagedResults, WithoutDigestsPassUnnoticed) {
  for (const Status& status : broadcast_with_damage(2, Digests::off))
    EXPECT_TRUE(status.ok()) << status.to_string();
}

class DifferentDigests : public testing::TestWithParam<Digests> {};

TEST_P(DifferentDigests, AreAnErrorOfAllRanks) {
  std::vector<Status> statuses(2);
  run_job_with(
      2,
      [](Rank rank) {
        Config config = with_digests(rank == 0 ? Digests::off : GetParam());
        config.deadline_ms = 5000;
        return config;
      },
      [&](Context& context) {
        float x = 1, y = 0;
        Status status = context.allreduce(in(&x, 1), out(&y, 1));
        if (status.ok()) status = context.barrier();
        statuses[static_cast<std::size_t>(context.rank())] = status;
      });
  bool is_told = false;
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    is_told |= status.text().find("WEFT_DIGESTS") != std::string_view::npos;
  }
  EXPECT_TRUE(is_told) << statuses[0].to_string();
}

INSTANTIATE_TEST_SUITE_P(Kinds, DifferentDigests,
                         testing::Values(Digests::pieces, Digests::results, Digests::all));

}  // namespace
}  // namespace weft
