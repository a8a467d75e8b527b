// weft doctor as an operator has it: on this host, of files, of hosts behind a shell, of a job.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::string text_of(const Ran& ran) {
  std::string text;
  for (const std::string& line : ran.out) text += line + '\n';
  return text;
}

// This host's facts under another name.
Json facts_here(const std::string& host) {
  Json facts = Json::parse(text_of(run_weft("doctor --facts")));
  facts["host"] = facts["boot"] = host;
  return facts;
}

bool has_finding(const Json& report, const std::string& check, const std::string& host) {
  return std::ranges::any_of(report["findings"], [&](const Json& finding) {
    return finding["check"] == check && finding["hosts"] == Json::array({host});
  });
}

TEST(Doctor, LooksAtThisHostInLessThanTenSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const Ran ran = run_weft("doctor");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took, std::chrono::seconds(10));
  EXPECT_TRUE(ran.errors.empty()) << ran.errors.front();
  ASSERT_FALSE(ran.out.empty());
  EXPECT_NE(ran.out.front().find(" severe, "), std::string::npos) << ran.out.front();
  EXPECT_GE(ran.exit_status, 0);
  EXPECT_LE(ran.exit_status, 2);
}

TEST(Doctor, SaysTheSameAsJson) {
  const Ran ran = run_weft("doctor --json");
  const Json report = Json::parse(text_of(ran));
  EXPECT_EQ(report["hosts"].size(), 1U);
  EXPECT_EQ(report["status"], ran.exit_status);
  for (const Json& finding : report["findings"])
    for (const char* field : {"severity", "check", "hosts", "what", "seen", "mend", "cost"})
      EXPECT_TRUE(finding.contains(field)) << field;
}

// A port at half of the rate of its peers: named, with the price of it, and the exit status.
TEST(Doctor, ComparesFilesAndGivesTheCost) {
  const Folder folder;
  for (int host = 0; host < 3; ++host) {
    Json facts = facts_here(fmt::format("node{}", host));
    facts["nics"] = Json::array({{{"name", "mlx5_0"},
                                  {"rdma", "mlx5_0"},
                                  {"kind", "infiniband"},
                                  {"link_layer", "InfiniBand"},
                                  {"state", "ACTIVE"},
                                  {"usable", true},
                                  {"device_file", "/dev/infiniband/uverbs0"},
                                  {"rate", host == 1 ? "10 Gb/sec (4X SDR)" : "20 Gb/sec (4X DDR)"},
                                  {"mbit_per_s", host == 1 ? 10'000 : 20'000}}});
    folder.write(fmt::format("{}.json", host), facts.dump());
  }
  const std::string files =
      folder.path("0.json") + ' ' + folder.path("1.json") + ' ' + folder.path("2.json");
  const Ran ran = run_weft("doctor --json - " + files);
  EXPECT_EQ(ran.exit_status, 2);
  const Json report = Json::parse(text_of(ran));
  ASSERT_TRUE(has_finding(report, "rails", "node1")) << report.dump(2);
  for (const Json& finding : report["findings"]) {
    if (finding["check"] != "rails") continue;
    ASSERT_TRUE(finding["cost"].is_object()) << finding.dump(2);
    EXPECT_GT(finding["cost"]["times"], 1.5);
    EXPECT_LT(finding["cost"]["times"], 2.2);
  }
}

TEST(Doctor, GoesOnWithoutAFileThatCannotBeRead) {
  const Folder folder;
  const std::string whole = facts_here("node0").dump();
  folder.write("0.json", whole);
  folder.write("1.json", whole.substr(0, whole.size() / 3));
  folder.write("2.json", R"({"format": 99, "weft": "7.0.0", "host": "node2"})");
  const Ran ran = run_weft("doctor " + folder.path("0.json") + ' ' + folder.path("1.json") + ' ' +
                           folder.path("2.json") + ' ' + folder.path("absent.json"));
  EXPECT_NE(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "1.json: is cut short"));
  EXPECT_TRUE(mentions(ran.out, "by weft \"7.0.0\""));
  EXPECT_TRUE(mentions(ran.out, "absent.json: No such file"));
  EXPECT_TRUE(mentions(ran.out, "node0: ")) << text_of(ran);
}

TEST(Doctor, CountsErrorsSinceAnEarlierLook) {
  const Folder folder;
  Json facts = facts_here("node0");
  facts["nics"] = Json::array({{{"name", "mlx5_0"},
                                {"rdma", "mlx5_0"},
                                {"state", "ACTIVE"},
                                {"device_file", "x"},
                                {"usable", true}}});
  facts["before"] = Json::object();
  const std::int64_t now = facts["now"]["at_ns"];
  facts["now"]["counters"] = {{"mlx5_0", {{"link_downed", 4}}}};
  folder.write("now.json", facts.dump());
  facts["now"] = {{"at_ns", now - 7'200'000'000'000},
                  {"counters", {{"mlx5_0", {{"link_downed", 1}}}}}};
  folder.write("before.json", facts.dump());
  const Ran ran =
      run_weft("doctor " + folder.path("now.json") + " --since " + folder.path("before.json"));
  EXPECT_EQ(ran.exit_status, 2);
  EXPECT_TRUE(mentions(ran.out, "link_downed of mlx5_0 grew by 3 in 2 hours")) << text_of(ran);
}

// A shell that answers for one host, greets before it, fails for another and is silent for a third.
TEST(Doctor, AsksHostsAndNamesThoseThatDoNotAnswer) {
  const Folder folder;
  folder.write("shell", R"(#!/bin/sh
host=$1; shift
case $host in
  good) echo 'Welcome'; exec "$@" ;;
  old) echo "weft: command 'doctor' is unknown" >&2; exit 2 ;;
  *) exec tail -f /dev/null ;;
esac
)");
  ::chmod(folder.path("shell").c_str(), 0755);
  const Ran ran =
      run_weft("doctor --hosts good,old,silent --timeout 5 --remote-weft {weft} --ssh " +
               folder.path("shell"));
  EXPECT_NE(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "old: weft: command 'doctor' is unknown")) << text_of(ran);
  EXPECT_TRUE(mentions(ran.out, "silent: does not answer within 5 s"));
  EXPECT_TRUE(mentions(ran.out, " severe, "));
  EXPECT_EQ(run_weft("doctor --hosts -oProxyCommand=x").exit_status, 2);
}

TEST(Doctor, LooksAtTheHostsOfAJob) {
  const Ran ran = run_line(
      "{weft} run -n 3 --no-tag -- sh -c 'WEFT_HOST=machine$((WEFT_RANK / 2)) exec {weft} doctor "
      "--json'");
  const Json report = Json::parse(text_of(ran));
  EXPECT_EQ(report["missing"].size(), 0U) << report.dump(2);
  EXPECT_EQ(report["hosts"].size(), 2U) << report.dump(2);
}

}  // namespace
}  // namespace weft
