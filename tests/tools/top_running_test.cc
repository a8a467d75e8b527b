// weft top beside ranks that run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// A line of the shell that starts ranks, asks when all answer, and ends them. $live: their folder.
std::string beside(const Folder& folder, int ranks, const std::string& program,
                   const std::string& line) {
  return fmt::format(
      "export live={0}/live; export stop={0}/stop; "
      "WEFT_LIVE=$live {{weft}} run -n {1} --no-tag -- " WEFT_TOP_RANK
      " $stop {2} > {0}/steps & "
      "job=$!; "
      "until [ \"$(ls $live 2>/dev/null | grep -vc new)\" = {1} ]; do kill -0 $job || exit 9; "
      "done; "
      "{3}; status=$?; touch $stop; wait $job || exit 8; exit $status",
      folder.path("."), ranks, program, line);
}

Json last_row(const Ran& ran) {
  return ran.out.empty() ? Json() : Json::parse(ran.out.back(), nullptr, false);
}

std::string errors_of(const Ran& ran) {
  return fmt::format("{}\n{}", ran.exit_status, fmt::join(ran.errors, "\n"));
}

// Looks until it is named: the first may be at ranks that have only begun, and on a busy machine all are slow at times.
TEST(TopRunning, NamesTheRankThatIsSlowAndWhy) {
  const Folder folder;
  const Ran ran = run_line(
      beside(folder, 3, "4 0 1 200",
             "for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do row=$({weft} top --live $live "
             "--once --json); case $row in *slow_rank*) break ;; esac; done; echo \"$row\""));
  ASSERT_EQ(ran.exit_status, 0) << errors_of(ran);
  const Json row = last_row(ran);
  ASSERT_TRUE(row.is_object());
  EXPECT_EQ(row["ranks"].size(), 3U);
  EXPECT_TRUE(row["remarks"].empty()) << row.dump(2);
  const auto slow = std::ranges::find_if(
      row["causes"], [](const Json& cause) { return cause["kind"] == "slow_rank"; });
  ASSERT_NE(slow, row["causes"].end()) << row.dump(2);
  EXPECT_EQ((*slow)["ranks"], Json::array({1}));
  EXPECT_NE((*slow)["text"].get<std::string>().find("rank 1 is "), std::string::npos);
}

// Hosts that answer, are silent, have no such command, or another version: through a shell that plays them.
TEST(TopRunning, AsksHostsAndGoesOnWithoutThoseThatDoNotAnswer) {
  const Folder folder;
  folder.write("ssh",
               "#!/bin/sh\n"
               "host=$1; shift\n"
               "case $host in\n"
               "  good) echo Welcome; exec \"$@\" ;;\n"
               "  none) echo 'sh: weft: not found' >&2; exit 127 ;;\n"
               "  old) echo '{\"weft_flight\":7}' ;;\n"
               "  silent) exec tail -f /dev/null ;;\n"
               "esac\n");
  ASSERT_EQ(::chmod(folder.path("ssh").c_str(), 0700), 0);
  const Ran ran = run_line(
      beside(folder, 2, "4 1",
             fmt::format("{{weft}} top --hosts good,none,old,silent --timeout 2 --live $live "
                         "--remote-weft {{weft}} --ssh {} --once --json",
                         folder.path("ssh"))));
  ASSERT_EQ(ran.exit_status, 0) << errors_of(ran);
  const Json row = last_row(ran);
  EXPECT_EQ(row["ranks"].size(), 2U) << row.dump(2);
  EXPECT_EQ(row["remarks"],
            Json::array({"none: sh: weft: not found",
                         "old: version 7 of the flight recorder; this weft reads version 1",
                         "silent: does not answer within 2 s (--timeout)"}));
}

TEST(TopRunning, EndsByCtrlCWithWholeRows) {
  const Folder folder;
  const Ran ran =
      run_line(beside(folder, 2, "4 1",
                      "{weft} top --live $live --interval 0.05 --json " + folder.path("rows") +
                          " > /dev/null & top=$!; until [ \"$(wc -l < " + folder.path("rows") +
                          ")\" -ge 3 ]; do :; done; kill -INT $top; kill -TERM $top; ! wait $top"));
  ASSERT_EQ(ran.exit_status, 0) << errors_of(ran);
  const std::string rows = folder.content("rows");
  ASSERT_TRUE(rows.ends_with("\n"));
  std::istringstream lines(rows);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(Json::accept(line)) << line;
}

TEST(TopRunning, SaysThatNobodyIsThereAndWhatAWrongAddressIs) {
  const Folder folder;
  const Ran ran = run_weft("top --interval 0.05 --once --live " + folder.path("none"));
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "no rank answers"));
  for (const char* address : {"nonsense", "127.0.0.1:99999999", "example.org:80"}) {
    const Ran wrong = run_weft("top --once --interval 0.05 --live " + folder.path("none") +
                               " --prometheus " + address);
    EXPECT_EQ(wrong.exit_status, 2) << address;
    EXPECT_TRUE(mentions(wrong.errors, address));
  }
}

double step_us(const Folder& folder) {
  return std::stod(folder.content("steps"));
}

// What it predicts for a straggler, against what a run without one takes.
TEST(TopRunningPerf, PredictsWhatAJobGainsWithoutItsStraggler) {
  const Folder slow, even;
  const Ran with =
      run_line(beside(slow, 4, "4 20 2 60", "{weft} top --live $live --interval 3 --once --json"));
  ASSERT_EQ(with.exit_status, 0) << errors_of(with);
  const Ran without =
      run_line(beside(even, 4, "4 20", "{weft} top --live $live --interval 3 --once --json"));
  ASSERT_EQ(without.exit_status, 0) << errors_of(without);
  const Json row = last_row(with);
  ASSERT_EQ(row["causes"].size(), 1U) << row.dump(2);
  const double predicted = row["causes"][0]["gain"];
  const double measured = 1 - step_us(even) / step_us(slow);
  std::printf("gain predicted %.3f, measured %.3f\n", predicted, measured);
  EXPECT_NEAR(predicted / measured, 1, 0.2);
}

}  // namespace
}  // namespace weft
