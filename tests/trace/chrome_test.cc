// trace: the file that a viewer opens. Parsed here by an independent JSON library.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/trace/trace.h"

namespace weft {
namespace {

using nlohmann::json;

// A folder of its own for each test, removed with it.
class Chrome : public testing::Test {
 protected:
  Chrome() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-trace-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Chrome() override { std::filesystem::remove_all(folder_); }

  // The events of a trace, written and read back.
  json events(const Trace& trace, Rank rank = 3) {
    const std::string path = (folder_ / "t-{rank}.json").string();
    const Status written = trace.write_chrome(path, rank);
    EXPECT_TRUE(written.ok()) << written.to_string();
    std::ifstream file(trace_path(path, rank));
    return json::parse(file).at("traceEvents");
  }

  std::filesystem::path folder_;
};

std::vector<json> with(const json& events, const std::string& field, const std::string& value) {
  std::vector<json> found;
  for (const json& event : events) {
    if (event.value(field, "") == value) found.push_back(event);
  }
  return found;
}

TEST_F(Chrome, NamesTheRankAndItsLanes) {
  Trace trace(16);
  (void)trace.add_lane("shm \"near\"");
  (void)trace.add_lane("mlx5_0/1");
  const json all = events(trace);
  for (const json& event : all) EXPECT_EQ(event.at("pid"), 3);
  EXPECT_EQ(with(all, "name", "process_name").at(0).at("args").at("name"), "rank 3");
  const auto threads = with(all, "name", "thread_name");
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[0].at("args").at("name"), "shm \"near\"");
  EXPECT_EQ(threads[1].at("args").at("name"), "mlx5_0/1");
  EXPECT_NE(threads[0].at("tid"), threads[1].at("tid"));
}

TEST_F(Chrome, OperationsMayOverlapAndEndOnAnotherLane) {
  Trace trace(64);
  TraceRing& first = trace.add_lane("a");
  TraceRing& second = trace.add_lane("b");
  const std::uint16_t kind = trace.operation_name("allreduce ring");
  first.add(Event::operation_begin, 1, kNoRank, kind);
  first.add(Event::operation_begin, 2);
  second.add(Event::operation_end, 1, kNoRank, static_cast<std::uint16_t>(Code::ok));
  first.add(Event::operation_end, 2, kNoRank, static_cast<std::uint16_t>(Code::peer_died));

  const json all = events(trace);
  const auto ring = with(all, "name", "allreduce ring");
  ASSERT_EQ(ring.size(), 2U);
  EXPECT_EQ(ring[0].at("ph"), "b");
  EXPECT_EQ(ring[1].at("ph"), "e");
  EXPECT_EQ(ring[0].at("id2"), ring[1].at("id2"));
  EXPECT_LE(ring[0].at("ts"), ring[1].at("ts"));
  EXPECT_EQ(ring[0].at("args"), (json{{"operation", 1}, {"result", "ok"}}));
  const auto other = with(all, "name", "operation");
  ASSERT_EQ(other.size(), 2U);
  EXPECT_NE(other[0].at("id2"), ring[0].at("id2"));
  EXPECT_EQ(other[0].at("args").at("result"), "peer_died");
}

TEST_F(Chrome, AnOperationOfSeveralLanesIsOneWithAllItsBytes) {
  Trace trace(64);
  TraceRing& first = trace.add_lane("lane");
  TraceRing& second = trace.add_lane("lane 1");
  const std::int64_t begin = now_ns() - 9000;
  constexpr std::uint64_t kLarge = 0x1'ffff'fffc;
  first.add_at(begin, Event::operation_begin, 1, 2, 0);
  first.add_bytes(1, kLarge);
  first.add(Event::operation_parts, 1, kNoRank, 2);
  first.add(Event::operation_end, 1);
  second.add(Event::operation_begin, 1, 2, 0);  // begins late
  second.add_bytes(1, 4);
  second.add(Event::operation_parts, 1, kNoRank, 2);
  second.add(Event::operation_end, 1);
  first.add(Event::operation_begin, 2);
  first.add_bytes(2, 0);
  first.add(Event::operation_end, 2);
  const auto begins = with(events(trace), "ph", "b");
  ASSERT_EQ(begins.size(), 2U);
  EXPECT_EQ(begins[0].at("args"),
            (json{{"operation", 1}, {"peer", 2}, {"bytes", kLarge + 4}, {"result", "ok"}}));
  EXPECT_EQ(begins[1].at("args"), (json{{"operation", 2}, {"bytes", 0}, {"result", "ok"}}));
  EXPECT_EQ(with(events(trace), "ph", "e").size(), 2U);
}

TEST_F(Chrome, ANameHasItsPartsWithinIt) {
  Trace trace(64);
  TraceRing& ring = trace.add_lane("names");
  const std::uint16_t kind = trace.operation_name("layer \"1\"");
  const std::int64_t begin = now_ns() - 5000;
  ring.add_at(begin, Event::name_submitted, 7, kNoRank, kind);
  ring.add_at(begin + 1000, Event::name_taken, 7, kNoRank, 0);
  ring.add_at(begin + 3000, Event::name_runs, 7, kNoRank, 12);
  ring.add_at(begin + 4000, Event::name_ended, 7, kNoRank,
              static_cast<std::uint16_t>(Code::peer_died));
  ring.add_at(begin + 4500, Event::name_submitted, 8, kNoRank, kind);
  ring.add_at(begin + 4600, Event::name_ended, 9, kNoRank, 0);  // whose begin was overwritten

  const auto begins = with(events(trace), "ph", "b");
  std::vector<std::string> names;
  for (const json& each : begins) names.push_back(each.at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"queued", "agreed on", "run", "layer \"1\"", "queued",
                                             "layer \"1\""}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(begins.at(i).at("id2"), begins[0].at("id2"));
  EXPECT_EQ(begins.at(2).at("args"), (json{{"names_together", 12}}));
  EXPECT_EQ(begins.at(3).at("args"), (json{{"result", "peer_died"}}));
  EXPECT_EQ(begins.at(5).at("args"), (json{{"unfinished", true}}));
  const double us = begins.at(1).at("ts").get<double>() - begins.at(0).at("ts").get<double>();
  EXPECT_NEAR(us, 1, 0.01);
}

TEST_F(Chrome, CallsOfWindowsAreSpansBesideOperationsOfTheirNumber) {
  Trace trace(64);
  TraceRing& lane = trace.add_lane("lane");
  TraceRing& windows = trace.add_lane("windows");
  lane.add(Event::operation_begin, 1);
  windows.add(Event::call_begin, 1, kNoRank, trace.operation_name("win_put model"));
  windows.add(Event::call_end, 1, kNoRank, static_cast<std::uint16_t>(Code::timed_out));
  lane.add(Event::operation_end, 1);

  const json all = events(trace);
  const auto put = with(all, "name", "win_put model");
  ASSERT_EQ(put.size(), 2U);
  EXPECT_EQ(put[0].at("cat"), "window");
  EXPECT_EQ(put[0].at("args"), (json{{"operation", 1}, {"result", "timed_out"}}));
  ASSERT_EQ(with(all, "cat", "operation").size(), 2U);
  EXPECT_EQ(with(all, "cat", "operation")[0].at("args").at("result"), "ok");
}

TEST_F(Chrome, TheFileTellsItsClockAndItsContext) {
  const std::string path = (folder_ / "clock").string();
  ASSERT_TRUE(Trace(16).write_chrome(path, 0, {.name = "0/split/1/\"", .ranks = {3, 5}}).ok());
  std::ifstream file(trace_path(path, 0));
  const json about = json::parse(file).at("otherData");
  EXPECT_EQ(about.at("context"), "0/split/1/\"");
  EXPECT_EQ(about.at("rank"), 0);
  EXPECT_EQ(about.at("ranks"), (json{3, 5}));
  EXPECT_FALSE(about.at("machine").get<std::string>().empty());
  EXPECT_GT(about.at("day_us"), 1e15);  // 2001
}

TEST_F(Chrome, CombinesAreSpansOnTheirLane) {
  Trace trace(64);
  TraceRing& lane = trace.add_lane("a");
  const std::int64_t before = now_ns();
  lane.add(Event::combine_begin, 9, kNoRank, 4);
  lane.add(Event::combine_end, 9, kNoRank, 4);
  const std::int64_t after = now_ns();

  const auto combines = with(events(trace), "name", "combine");
  ASSERT_EQ(combines.size(), 1U);
  EXPECT_EQ(combines[0].at("ph"), "X");
  EXPECT_EQ(combines[0].at("args"), (json{{"operation", 9}, {"step", 4}}));
  const double start_us = combines[0].at("ts");
  const double length_us = combines[0].at("dur");
  EXPECT_GE(start_us, static_cast<double>(before) / 1e3 - 0.001);
  EXPECT_LE(start_us + length_us, static_cast<double>(after) / 1e3 + 0.001);
}

TEST_F(Chrome, WaitsOfOneOperationOnTwoLanesAreTwo) {
  Trace trace(64);
  TraceRing& first = trace.add_lane("a");
  TraceRing& second = trace.add_lane("b");
  first.add(Event::wait_begin, 1, 6, 0);
  second.add(Event::wait_begin, 1, 7, 0);
  first.add(Event::wait_end, 1, 6, 0);
  second.add(Event::wait_end, 1, 7, 0);
  const auto begins = with(events(trace), "ph", "b");
  ASSERT_EQ(begins.size(), 2U);
  EXPECT_NE(begins[0].at("id2"), begins[1].at("id2"));
  EXPECT_EQ(begins[0].at("args"), (json{{"operation", 1}, {"peer", 6}, {"step", 0}}));
}

TEST_F(Chrome, OtherEventsAreInstants) {
  Trace trace(64);
  TraceRing& lane = trace.add_lane("a");
  lane.add(Event::full, 2, 5, 1);
  lane.add(Event::sleep, 2);
  lane.add(Event::error, 2, 5, static_cast<std::uint16_t>(Code::timed_out));
  const auto instants = with(events(trace), "ph", "i");
  ASSERT_EQ(instants.size(), 3U);
  EXPECT_EQ(instants[0].at("name"), "full");
  EXPECT_EQ(instants[1].at("args"), (json{{"operation", 2}}));
  EXPECT_EQ(instants[2].at("args"), (json{{"operation", 2}, {"peer", 5}, {"code", "timed_out"}}));
}

TEST_F(Chrome, AnEndWithoutItsBeginIsLeftOutAndABeginWithoutEndIsUnfinished) {
  Trace trace(4);  // shows three records
  TraceRing& lane = trace.add_lane("a");
  lane.add(Event::operation_begin, 1);
  lane.add(Event::wait_begin, 2, 5);
  lane.add(Event::operation_end, 1);
  lane.add(Event::sleep, 2);
  const json all = events(trace);
  EXPECT_TRUE(with(all, "cat", "operation").empty());
  const auto waits = with(all, "name", "wait");
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[0].at("args").at("unfinished"), true);
  EXPECT_EQ(waits[1].at("ts"), with(all, "name", "sleep").at(0).at("ts"));
  EXPECT_EQ(with(all, "name", "thread_name").at(0).at("args").at("records_lost"), 1);
}

TEST_F(Chrome, ABadPathIsAStatusThatNamesIt) {
  const Status status = Trace(16).write_chrome((folder_ / "absent" / "t.json").string(), 2);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.text().find((folder_ / "absent" / "t.json.2").string()), std::string::npos);
  EXPECT_NE(status.text().find("No such file"), std::string::npos);
}

// As under `ulimit -f`, whose signal would end the process.
TEST_F(Chrome, AFileThatMayNotGrowIsAStatus) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 8;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = Trace(16).write_chrome((folder_ / "t.json").string(), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), Code::exhausted) << status.to_string();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));  // no half of a file
}

// Somebody who guesses the name cannot make a job write elsewhere.
TEST_F(Chrome, ALinkAtItsPlaceIsReplacedAndNotFollowed) {
  const std::filesystem::path victim = folder_ / "victim", place = folder_ / "t.json.0";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, place);
  ASSERT_TRUE(Trace(16).write_chrome((folder_ / "t.json").string(), 0).ok());
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(place)));
  std::string text;
  std::getline(std::ifstream(victim), text);
  EXPECT_EQ(text, "precious");
}

TEST_F(Chrome, WhatIsNoFileStays) {
  const std::filesystem::path place = folder_ / "t.json.0";
  ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0);
  const Status status = Trace(16).write_chrome((folder_ / "t.json").string(), 0);
  EXPECT_NE(status.text().find("t.json.0: there is something that is no file"),
            std::string_view::npos);
  EXPECT_TRUE(std::filesystem::is_fifo(place));
}

TEST(Trace, OffHasLanesWithoutRings) {
  Trace trace;
  TraceRing& lane = trace.add_lane("a");
  lane.add(Event::operation_begin, 1);
  EXPECT_FALSE(trace.on());
  EXPECT_FALSE(lane.on());
  EXPECT_EQ(trace.operation_name("barrier"), 0);
}

TEST(Trace, OperationNamesAreSharedAndBounded) {
  Trace trace(16);
  const std::uint16_t barrier = trace.operation_name("barrier");
  EXPECT_NE(barrier, 0);
  EXPECT_EQ(trace.operation_name("barrier"), barrier);
  for (std::size_t i = 0; i < kMaxOperationNames; ++i) {
    (void)trace.operation_name("name " + std::to_string(i));
  }
  EXPECT_EQ(trace.operation_name("one too many"), 0);
  EXPECT_EQ(trace.operation_name("barrier"), barrier);
}

TEST(Trace, PathTakesTheRank) {
  EXPECT_EQ(trace_path("t-{rank}.json", 12), "t-12.json");
  EXPECT_EQ(trace_path("{rank}/{rank}", 1), "1/1");
  EXPECT_EQ(trace_path("t.json", 0), "t.json.0");
}

}  // namespace
}  // namespace weft
