// The index of exchanged gradients: what counts, who waits, who drops, and that copies agree.
#include "scheduler/exchange_index/exchange_index.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace weft {
namespace {

using What = ExchangeIndex::Verdict::What;

ExchangeIndex index_of(const ExchangeOptions& options) {
  Result<ExchangeIndex> made = ExchangeIndex::make(options);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return *made;
}

void begin(ExchangeIndex& index, Rank worker, std::int64_t iteration) {
  const Status status = index.begin(worker, iteration);
  ASSERT_TRUE(status.ok()) << status.to_string();
}

void send_all(ExchangeIndex& index, Rank worker, int colayers, std::int64_t iteration) {
  for (int colayer = 0; colayer < colayers; ++colayer)
    ASSERT_TRUE(index.add(worker, colayer, iteration).ok());
}

TEST(ExchangeIndex, CountsWhoseGradientsASumHas) {
  ExchangeIndex index = index_of({.workers = 100, .colayers = 3, .proportion = 1});
  for (const Rank worker : {0, 63, 64, 99}) begin(index, worker, 0);
  for (const Rank worker : {0, 63, 64, 99, 64}) ASSERT_TRUE(index.add(worker, 1, 0).ok());
  EXPECT_EQ(index.contributors(1, 0), 4) << "a piece that comes twice counts once";
  EXPECT_EQ(index.contributors(0, 0), 0);
  EXPECT_TRUE(index.has(64, 1, 0));
  EXPECT_FALSE(index.has(65, 1, 0));
  EXPECT_FALSE(index.is_complete(0));
}

TEST(ExchangeIndex, InBulkAllWaitForTheLastPiece) {
  ExchangeIndex index = index_of({.workers = 3, .colayers = 2, .rule = ExchangeRule::bulk});
  for (Rank worker = 0; worker < 3; ++worker) begin(index, worker, 0);
  send_all(index, 0, 2, 0);
  send_all(index, 1, 2, 0);
  ASSERT_TRUE(index.add(2, 0, 0).ok());
  EXPECT_EQ(index.verdict(0).what, What::wait);
  ASSERT_TRUE(index.add(2, 1, 0).ok());
  EXPECT_EQ(index.verdict(0).what, What::go_on);
}

TEST(ExchangeIndex, ABoundHoldsTheFastestBack) {
  ExchangeIndex index = index_of({.workers = 2,
                                  .colayers = 1,
                                  .rule = ExchangeRule::bounded,
                                  .staleness = 2,
                                  .proportion = 0});
  begin(index, 0, 0);
  begin(index, 1, 0);
  EXPECT_EQ(index.verdict(0).what, What::go_on);
  begin(index, 0, 1);
  EXPECT_EQ(index.verdict(0).what, What::go_on);
  begin(index, 0, 2);
  EXPECT_EQ(index.verdict(0).what, What::wait);
  EXPECT_EQ(index.verdict(1).what, What::go_on);
  begin(index, 1, 1);
  EXPECT_EQ(index.verdict(0).what, What::go_on);
}

TEST(ExchangeIndex, AsynchronousWorkersNeverWait) {
  ExchangeIndex index =
      index_of({.workers = 2, .colayers = 1, .rule = ExchangeRule::asynchronous, .proportion = 0});
  begin(index, 0, 1'000);
  EXPECT_EQ(index.verdict(0).what, What::go_on);
  EXPECT_EQ(index.verdict(1).what, What::go_on);
}

TEST(ExchangeIndex, CanaryDropsWhatIsLateAndHasHardlyLeft) {
  ExchangeIndex index =
      index_of({.workers = 3, .colayers = 4, .staleness = 2, .proportion = 2, .rows = 8});
  for (Rank worker = 0; worker < 3; ++worker) begin(index, worker, 5);
  begin(index, 2, 7);
  EXPECT_EQ(index.verdict(0).what, What::go_on) << "2 iterations behind are allowed";
  begin(index, 2, 8);
  EXPECT_EQ(index.staleness_of(0), 3);
  EXPECT_EQ(index.verdict(0).what, What::drop);
  EXPECT_EQ(index.verdict(0).from, 2);
  ASSERT_TRUE(index.add(0, 3, 5).ok());
  EXPECT_EQ(index.verdict(0).what, What::drop) << "1 of 4 is out, 2 are asked";
  ASSERT_TRUE(index.add(0, 0, 5).ok());
  EXPECT_EQ(index.proportion_of(0), 2);
  EXPECT_EQ(index.verdict(0).what, What::go_on);
  EXPECT_EQ(index.verdict(2).what, What::go_on);
  begin(index, 0, 8);  // with the parameters of rank 2
  EXPECT_EQ(index.verdict(0).what, What::go_on);
}

TEST(ExchangeIndex, WhoeverLeftIsNotWaitedForAndNotPulledFrom) {
  for (const ExchangeRule rule : {ExchangeRule::bulk, ExchangeRule::bounded}) {
    ExchangeIndex index =
        index_of({.workers = 3, .colayers = 1, .rule = rule, .staleness = 1, .proportion = 0});
    for (Rank worker = 0; worker < 3; ++worker) begin(index, worker, 0);
    send_all(index, 0, 1, 0);
    send_all(index, 1, 1, 0);
    begin(index, 0, 1);
    send_all(index, 0, 1, 1);
    begin(index, 1, 1);
    send_all(index, 1, 1, 1);
    EXPECT_EQ(index.verdict(0).what, What::wait);
    ASSERT_TRUE(index.leave(2).ok());
    EXPECT_EQ(index.verdict(0).what, What::go_on);
    EXPECT_EQ(index.contributors(0, 0), 2);
  }
  ExchangeIndex index = index_of({.workers = 3, .colayers = 1, .staleness = 0, .proportion = 1});
  begin(index, 0, 0);
  begin(index, 1, 1);
  begin(index, 2, 2);
  ASSERT_TRUE(index.leave(2).ok());
  EXPECT_EQ(index.verdict(0).from, 1);
}

TEST(ExchangeIndex, OldRowsAreForgottenAndTheirPiecesRefused) {
  ExchangeIndex index =
      index_of({.workers = 2, .colayers = 1, .staleness = 1, .proportion = 0, .rows = 3});
  begin(index, 0, 0);
  begin(index, 1, 0);
  ASSERT_TRUE(index.add(0, 0, 0).ok());
  begin(index, 0, 3);
  const Status late = index.add(1, 0, 0);
  EXPECT_EQ(late.code(), Code::unavailable);
  EXPECT_NE(late.text().find("iteration 0 of rank 1 is too old: 3 is the newest"),
            std::string_view::npos)
      << late.to_string();
  EXPECT_EQ(index.contributors(0, 0), 0);
  EXPECT_EQ(index.contributors(0, 3), 0) << "the row of iteration 0 was emptied for 3";
}

// Workers run at speeds of their own, and each piece carries what its sender knows. When all have
// exchanged with all, their copies are equal, and no bit was invented.
TEST(ExchangeIndex, CopiesAreEqualAfterEachExchange) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const int workers = 2 + static_cast<int>(random() % 80);
    const int colayers = 1 + static_cast<int>(random() % 5);
    const ExchangeOptions options{
        .workers = workers, .colayers = colayers, .staleness = 3, .proportion = 0, .rows = 16};
    std::vector<ExchangeIndex> copies(static_cast<std::size_t>(workers), index_of(options));
    ExchangeIndex truth = index_of(options);
    std::vector<std::uint64_t> words;
    for (int round = 0; round < 30; ++round) {
      for (Rank worker = 0; worker < workers; ++worker) {
        ExchangeIndex& own = copies[static_cast<std::size_t>(worker)];
        if (random() % 3 != 0) {
          const std::int64_t next = own.iteration_of(worker) + 1 + random() % 2;
          begin(own, worker, next);
          begin(truth, worker, next);
        }
        if (own.iteration_of(worker) < 0) continue;
        for (int colayer = 0; colayer < colayers; ++colayer) {
          if (random() % 2 == 0) continue;  // it still computes: the piece is empty
          (void)own.add(worker, colayer, own.iteration_of(worker));
          (void)truth.add(worker, colayer, own.iteration_of(worker));
        }
      }
      // Around a ring, twice: each hears of all others through those before it.
      for (int step = 0; step < 2 * workers; ++step) {
        copies[static_cast<std::size_t>(step % workers)].write(words);
        ASSERT_TRUE(copies[static_cast<std::size_t>((step + 1) % workers)].merge(words).ok());
      }
      for (const ExchangeIndex& copy : copies) {
        ASSERT_EQ(copy, copies[0]) << "seed " << seed << ", round " << round;
        ASSERT_EQ(copy.newest(), truth.newest());
        for (std::int64_t row = std::max<std::int64_t>(0, truth.newest() - 15);
             row <= truth.newest(); ++row) {
          for (int colayer = 0; colayer < colayers; ++colayer)
            ASSERT_EQ(copy.contributors(colayer, row), truth.contributors(colayer, row));
        }
      }
    }
  }
}

TEST(ExchangeIndex, NamesWhatIsWrong) {
  const auto made = [](const ExchangeOptions& options) {
    const Result<ExchangeIndex> index = ExchangeIndex::make(options);
    EXPECT_EQ(index.status().code(), Code::invalid_argument);
    return std::string(index.status().text());
  };
  EXPECT_EQ(made({.workers = 0}), "exchange index: 0 workers");
  EXPECT_EQ(made({.colayers = -1}), "exchange index: -1 colayers");
  EXPECT_EQ(made({.colayers = 9, .staleness = -2}), "exchange index: a staleness of -2");
  EXPECT_EQ(made({.colayers = 4, .proportion = 5}),
            "exchange index: a proportion of 5 of 4 colayers");
  EXPECT_EQ(made({.colayers = 9, .staleness = 64}),
            "exchange index: 64 rows do not exceed the staleness of 64");
  EXPECT_NE(made({.colayers = 9, .rule = ExchangeRule::bounded, .staleness = 0}).find("bulk"),
            std::string::npos);
  ExchangeIndex index = index_of({.workers = 2, .colayers = 6});
  begin(index, 0, 4);
  EXPECT_EQ(index.begin(0, 4).text(),
            "exchange index: rank 0 begins iteration 4 and has begun 4 before");
  EXPECT_EQ(index.begin(2, 0).text(), "exchange index: rank 2 is not one of the workers 0…1");
  EXPECT_EQ(index.add(0, 6, 4).text(), "exchange index: colayer 6 is not one of 0…5");
  EXPECT_EQ(index.add(1, 0, 0).text(), "exchange index: rank 1 has not begun iteration 0");
  EXPECT_FALSE(index.leave(-1).ok());
}

TEST(ExchangeIndex, CopiesOfAnotherShapeAreRefused) {
  ExchangeIndex index = index_of({.workers = 2, .colayers = 6});
  std::vector<std::uint64_t> words;
  index_of({.workers = 70, .colayers = 6}).write(words);
  EXPECT_EQ(
      index.merge(words).text(),
      "exchange index: a copy of 70 workers, 6 colayers and 64 rows, and this one has 2, 6 and 64");
  index.write(words);
  words.pop_back();
  EXPECT_NE(index.merge(words).text().find("words instead of"), std::string_view::npos);
  EXPECT_EQ(index.merge({}).code(), Code::mismatch);
  index.write(words);
  words[3] = 99;  // an iteration that its rows do not have
  EXPECT_NE(index.merge(words).text().find("contradicts itself"), std::string_view::npos);
  EXPECT_EQ(index.newest(), -1) << "a copy that is refused changes nothing";
}

}  // namespace
}  // namespace weft
