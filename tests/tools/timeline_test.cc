// weft timeline: files of ranks on one clock, and what they add up to.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

using nlohmann::json;

// A timeline of one operation and one name, as a rank writes it.
std::string file_of(int rank, const std::string& machine, double day_us, double begin_us) {
  const auto span = [&](const char* name, const char* category, const char* id, double begin,
                        double us, const json& args) {
    json same = {
        {"pid", rank}, {"tid", 1}, {"name", name}, {"cat", category}, {"id2", {{"local", id}}}};
    json b = same, e = same;
    b["ph"] = "b", b["ts"] = begin, b["args"] = args;
    e["ph"] = "e", e["ts"] = begin + us;
    return std::vector<json>{b, e};
  };
  json events = json::array();
  const auto add = [&](const std::vector<json>& more) {
    for (const json& each : more) events.push_back(each);
  };
  events.push_back({{"pid", rank},
                    {"tid", 1},
                    {"ph", "M"},
                    {"name", "thread_name"},
                    {"args", {{"name", "lane"}, {"records_lost", 2}}}});
  add(span("allreduce ring", "operation", "0x1", begin_us, 30, {{"result", "ok"}}));
  add(span("wait", "wait", "0x100000001", begin_us + 5, 10, {{"peer", 7}}));
  add(span("queued", "name", "0x1", begin_us, 4, json::object()));
  add(span("agreed on", "name", "0x1", begin_us + 4, 6, json::object()));
  add(span("run", "name", "0x1", begin_us + 10, 20, {{"names_together", 3}}));
  add(span("layer.weight", "name", "0x1", begin_us, 30, {{"result", "ok"}}));
  events.push_back({{"pid", rank},
                    {"tid", 1},
                    {"ph", "X"},
                    {"name", "combine"},
                    {"cat", "combine"},
                    {"ts", begin_us + 20},
                    {"dur", 8},
                    {"args", json::object()}});
  return json{{"traceEvents", events},
              {"otherData", {{"format", "weft 1"}, {"machine", machine}, {"day_us", day_us}}}}
      .dump();
}

TEST(Timeline, FilesOfMachinesAreOnOneClock) {
  const Folder folder;
  // Machine b was started 500 us later than a, so its clock is behind.
  folder.write("0", file_of(0, "a", 1000, 100));
  folder.write("1", file_of(1, "a", 1003, 140));  // one clock, which was set meanwhile
  folder.write("2", file_of(2, "b", 1500, 100));
  const Ran ran = run_weft("timeline merge " + folder.path("0") + " " + folder.path("1") + " " +
                           folder.path("2") + " --output " + folder.path("all"));
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  const json all = json::parse(folder.content("all"), nullptr, false);
  std::map<int, double> begins;
  for (const json& event : all.at("traceEvents"))
    if (event.value("name", "") == "layer.weight" && event.value("ph", "") == "b")
      begins[event.at("pid")] = event.at("ts");
  EXPECT_EQ(begins, (std::map<int, double>{{0, 0}, {1, 40}, {2, 500}}));
}

TEST(Timeline, FilesOfOneRankAreItsThreads) {
  const Folder folder;
  folder.write("t.0", file_of(0, "a", 0, 100));
  folder.write("t.0.named0", file_of(0, "a", 0, 100));
  const Ran ran = run_weft("timeline merge " + folder.path("t.0") + " " +
                           folder.path("t.0.named0") + " -o " + folder.path("all"));
  ASSERT_EQ(ran.exit_status, 0);
  std::map<std::string, std::string> threads;
  std::set<std::string> spans;
  const json all = json::parse(folder.content("all"), nullptr, false);
  for (const json& event : all.at("traceEvents")) {
    if (event.value("name", "") == "thread_name")
      threads[event.at("tid").dump()] = event.at("args").at("name");
    if (event.value("name", "") == "allreduce ring") spans.insert(event.at("id2").dump());
  }
  EXPECT_EQ(threads, (std::map<std::string, std::string>{{"1", "lane (t.0)"},
                                                         {"1001", "lane (t.0.named0)"}}));
  EXPECT_EQ(spans.size(), 2U);
  // A merged file is a timeline again.
  EXPECT_EQ(run_weft("timeline show " + folder.path("all")).exit_status, 0);
}

TEST(Timeline, ShowAddsUpWhatEachRankDid) {
  const Folder folder;
  folder.write("0", file_of(0, "a", 0, 100));
  folder.write("1", file_of(1, "a", 0, 100));
  const std::string files = folder.path("0") + " " + folder.path("1");
  const Ran ran = run_weft("timeline show --json - " + files);
  ASSERT_EQ(ran.exit_status, 0);
  ASSERT_EQ(ran.out.size(), 2U);
  const json row = json::parse(ran.out[1], nullptr, false);
  EXPECT_EQ(row.at("rank"), 1);
  EXPECT_EQ(row.at("us"), 30);
  EXPECT_EQ(row.at("records_lost"), 2);
  const auto totals = [&](const char* what) {
    std::map<std::string, double> all;
    for (const json& each : row.at(what)) all[each.at("name")] = each.at("total_us");
    return all;
  };
  EXPECT_EQ(totals("operations"), (std::map<std::string, double>{{"allreduce ring", 30}}));
  EXPECT_EQ(totals("phases"),
            (std::map<std::string, double>{{"queued", 4}, {"agreed on", 6}, {"run", 20}}));
  EXPECT_EQ(totals("names"), (std::map<std::string, double>{{"layer.weight", 30}}));
  EXPECT_EQ(totals("waiting"), (std::map<std::string, double>{{"rank 7", 10}}));
  EXPECT_EQ(totals("combining"), (std::map<std::string, double>{{"combine", 8}}));
  const Ran table = run_weft("timeline show " + files);
  EXPECT_EQ(table.exit_status, 0);
  for (const char* word : {"rank 1: 0.030 ms", "2 older records", "agreed on", "layer.weight"})
    EXPECT_TRUE(mentions(table.out, word)) << word;
}

TEST(Timeline, AFileThatIsGivenTwiceCountsOnce) {
  const Folder folder;
  folder.write("0", file_of(0, "a", 0, 100));
  std::filesystem::create_symlink(folder.path("0"), folder.path("link"));
  const std::string once = "timeline show --json - " + folder.path("0");
  const Ran ran = run_weft(once + " " + folder.path("link"));
  EXPECT_EQ(ran.out, run_weft(once).out);
  EXPECT_TRUE(mentions(ran.errors, "/link is given twice and counts once"));
}

TEST(Timeline, OfAJobWithWindows) {
  const Folder folder;
  const Ran job =
      run_line("WEFT_TRACE=" + folder.path("t-{rank}.json") +
               " {weft} perf win_accumulate --ranks 2 --sizes 4 --seconds 0.02 --transport ucx");
  ASSERT_EQ(job.exit_status, 0) << (job.errors.empty() ? "" : job.errors[0]);
  const Ran ran = run_line("{weft} timeline show --json - " + folder.path("") + "t-*");
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  ASSERT_EQ(ran.out.size(), 2U);
  const auto calls = [&](std::size_t rank) {
    std::set<std::string> all;
    const json row = json::parse(ran.out[rank], nullptr, false);
    for (const json& each : row.at("windows")) {
      const std::string name = each.at("name");
      all.insert(name.substr(0, name.find(' ')));
      EXPECT_GT(each.at("count"), 0);
    }
    return all;
  };
  EXPECT_TRUE(calls(0).contains("win_accumulate")) << ran.out[0];
  EXPECT_TRUE(calls(1).contains("win_wait_signal")) << ran.out[1];
}

// What a job writes: operations, names, and their parts.
TEST(Timeline, OfAJobWithOperationsByName) {
  const Folder folder;
  const Ran job = run_line("WEFT_TRACE=" + folder.path("t-{rank}.json") +
                           " {weft} perf named --ranks 2 --tensors 20x100 --seconds 0.02");
  ASSERT_EQ(job.exit_status, 0) << (job.errors.empty() ? "" : job.errors[0]);
  const Ran ran = run_line("{weft} timeline show --json - " + folder.path("") + "t-*");
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  ASSERT_EQ(ran.out.size(), 2U);
  for (const std::string& line : ran.out) {
    const json row = json::parse(line, nullptr, false);
    std::set<std::string> phases;
    for (const json& each : row.at("phases")) phases.insert(each.at("name"));
    EXPECT_EQ(phases, (std::set<std::string>{"queued", "agreed on", "run"}));
    EXPECT_EQ(row.at("names").size(), 21U);  // and the group
    EXPECT_GT(row.at("operations").size(), 0U);
  }
}

// The calls of all ranks, with their bytes, are those of the timeline.
TEST(Timeline, OfAJobAsChakraTracesThatArePlayed) {
  const TreeFolder folder;
  const Ran job =
      run_line("WEFT_LANES=2 WEFT_TRACE=" + folder.path("t-{rank}.json") +
               " {weft} perf neighbor_allreduce --graph ring --ranks 2 --sizes 2M --seconds 0.02");
  ASSERT_EQ(job.exit_status, 0) << (job.errors.empty() ? "" : job.errors[0]);
  const Ran ran =
      run_line("{weft} timeline chakra -o " + folder.path("s") + " " + folder.path("") + "t-*");
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  EXPECT_TRUE(ran.errors.empty()) << ran.errors[0];
  const Ran shown = run_line("{weft} timeline show --json - " + folder.path("") + "t-*");
  const Ran played = run_line("{weft} predict --json --cluster " + folder.tree() + " --chakra " +
                              folder.path("") + "s.*.et");
  ASSERT_EQ(played.exit_status, 0) << (played.errors.empty() ? "" : played.errors[0]);
  std::map<std::string, std::uint64_t> shown_counts;
  const json summary = json::parse(shown.out.at(0), nullptr, false);
  for (const json& each : summary.at("operations")) {
    const std::string title = each.at("name");
    shown_counts[title.substr(0, title.find(' '))] += each.at("count").get<std::uint64_t>();
  }
  std::uint64_t messages = 0, bytes = 0;
  const json step = json::parse(played.out.at(0), nullptr, false);
  for (const json& each : step.at("operations")) {
    if (each.at("operation") == "message") {
      messages += each.at("count").get<std::uint64_t>();
      bytes = each.at("bytes");
    } else {
      EXPECT_EQ(each.at("count"), shown_counts[each.at("operation")]) << each;
    }
  }
  EXPECT_EQ(messages, 2 * shown_counts["neighbor_allreduce"]);
  EXPECT_EQ(bytes, std::uint64_t{2} << 20);
}

TEST(Timeline, WhatIsNoTimelineIsNamed) {
  const Folder folder;
  const std::string good = file_of(0, "a", 0, 1);
  folder.write("text", "hello");
  folder.write("other", R"({"traceEvents":[]})");
  folder.write("broken", R"({"traceEvents":[{"ph":"b"}],"otherData":{"format":"weft 1"}})");
  folder.write("cut", good.substr(0, good.size() / 2));
  for (const char* name : {"text", "other", "broken", "cut", "missing", "."}) {
    for (const std::string command : {"show ", "merge -o /dev/null ", "chakra -o /dev/null "}) {
      const Ran ran = run_weft("timeline " + command + folder.path(name));
      EXPECT_EQ(ran.exit_status, 2) << name;
      EXPECT_TRUE(mentions(ran.errors, folder.path(name))) << name;
    }
  }
  EXPECT_EQ(run_weft("timeline").exit_status, 2);
  EXPECT_EQ(run_weft("timeline show").exit_status, 2);
}

}  // namespace
}  // namespace weft
