// The flight recorders of several ranks together: what is told of dumps, whole and damaged.
#include "engine/trace/flight.h"

#include <gtest/gtest.h>

#include "tools/weft/flight/judge.h"

namespace weft::dumps {
namespace {

FlightContext context_of(Rank rank, int size, std::uint64_t next) {
  FlightContext context;
  context.context = "job";
  context.job = "1";
  context.rank = context.rank_in_job = rank;
  context.size = size;
  context.next = next;
  return context;
}

FlightRecord call(std::uint64_t number, Collective collective, std::uint64_t count,
                  FlightState state) {
  FlightRecord record;
  record.number = number;
  record.collective = collective;
  record.type = DataType::f32;
  record.count = count;
  record.state = state;
  return record;
}

std::vector<Part> parts_of(std::string text) {
  const Result<Dump> dump = read_dump("file", text);
  EXPECT_TRUE(dump.ok()) << dump.status().to_string();
  return dump.ok() ? dump->parts : std::vector<Part>();
}

TEST(FlightJudge, ARankWithoutADumpIsTheCauseIfOthersWaitForIt) {
  FlightText text;
  text.context(context_of(0, 2, 5));
  text.operation(call(4, Collective::barrier, 0, FlightState::runs), {{1, "data"}});
  const auto verdicts = judge(parts_of(std::move(text).text()));
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_NE(verdicts[0].text.find("rank 1 tells nothing"), std::string::npos) << verdicts[0].text;
  EXPECT_NE(verdicts[0].text.find("rank 0 has waited for it in barrier #4"), std::string::npos)
      << verdicts[0].text;
}

// Rank 1 waits for rank 2, which has not called: rank 0, which waits for rank 1, is not told.
TEST(FlightJudge, OfAChainOnlyTheEndIsTold) {
  FlightText text;
  text.context(context_of(0, 3, 5));
  text.operation(call(4, Collective::barrier, 0, FlightState::runs), {{1, "data"}});
  text.context(context_of(1, 3, 5));
  text.operation(call(4, Collective::barrier, 0, FlightState::runs), {{2, "data"}});
  text.context(context_of(2, 3, 4));
  text.operation(call(3, Collective::allreduce, 1, FlightState::done));
  const auto verdicts = judge(parts_of(std::move(text).text()));
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].culprits, std::vector<Rank>{2});
  EXPECT_EQ(verdicts[0].waiting, std::vector<Rank>{1});
}

TEST(FlightJudge, AContextThatWasSplitOffNamesTheRanksOfTheJob) {
  FlightText text;
  for (const Rank rank : {0, 1}) {
    FlightContext context = context_of(rank, 2, rank == 0 ? 1 : 0);
    context.context = "0/split/1/";
    context.members = {5, 7};
    text.context(context);
    if (rank == 0)
      text.operation(call(0, Collective::broadcast, 256, FlightState::runs), {{1, "arrival"}});
  }
  const auto verdicts = judge(parts_of(std::move(text).text()));
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_NE(verdicts[0].text.find("rank 7 has not called broadcast #0 (1 KiB, f32) in context "
                                  "0/split/1/, for which rank 5"),
            std::string::npos)
      << verdicts[0].text;
}

TEST(FlightJudge, NobodyIsBlamedWhenNobodyWaits) {
  FlightText text;
  for (const Rank rank : {0, 1}) {
    text.context(context_of(rank, 2, 2));
    text.operation(call(0, Collective::allgather, rank == 0 ? 10 : 20, FlightState::done));
    text.operation(call(1, Collective::barrier, 0, FlightState::done));
  }
  EXPECT_TRUE(judge(parts_of(std::move(text).text())).empty());
}

TEST(FlightDump, ThatIsCutShortCountsAsFarAsItGoes) {
  FlightText text;
  text.context(context_of(0, 2, 5));
  text.operation(call(3, Collective::barrier, 0, FlightState::done));
  text.operation(call(4, Collective::barrier, 0, FlightState::done));
  const std::string whole = std::move(text).text();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Result<Dump> dump = read_dump("file", whole.substr(0, bytes));
    if (!dump.ok()) {
      EXPECT_EQ(dump.status().text(), "file: is no dump of the flight recorder");
      continue;
    }
    ASSERT_EQ(dump->remarks.size(), 1U);
    EXPECT_EQ(dump->remarks[0].find("file: cut short after "), 0U);
  }
  const Result<Dump> most = read_dump("file", whole.substr(0, whole.size() - 30));
  ASSERT_TRUE(most.ok());
  ASSERT_EQ(most->parts.size(), 1U);
  EXPECT_EQ(most->parts[0].ops.size(), 1U);
}

TEST(FlightDump, OfAnotherVersionOrKindIsAnErrorThatSaysSo) {
  EXPECT_EQ(read_dump("x", "{\"weft_flight\":2}\n").status().text(),
            "x: version 2 of the flight recorder; this weft reads version 1");
  EXPECT_EQ(read_dump("x", "{\"traceEvents\":[]}\n").status().text(),
            "x: is no dump of the flight recorder");
  EXPECT_EQ(read_dump("x", "\x7f\x45LF").status().text(), "x: is no dump of the flight recorder");
}

TEST(FlightDump, WhatContextsAndNamesAreCalledIsEscaped) {
  FlightText text;
  FlightContext context = context_of(0, 1, 0);
  context.failure = "a \"b\"\\\n\tc";
  text.context(context);
  text.named("grad \"7\"\n", Collective::allreduce, 1, false);
  const std::vector<Part> parts = parts_of(std::move(text).text());
  ASSERT_EQ(parts.size(), 1U);
  ASSERT_EQ(parts[0].names.size(), 1U);
  EXPECT_EQ(parts[0].names[0].name, "grad \"7\"\n");
}

TEST(RanksText, ListsRunsOfRanks) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({1, 0}), "ranks 0 and 1");
  EXPECT_EQ(ranks_text({0, 1, 2, 5}), "ranks 0-2 and 5");
}

}  // namespace
}  // namespace weft::dumps
