// weft tune as an operator has it: a profile, or the reason why there is none; who takes the profile, and who does not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

// Algorithms by name for every size, so that `--explain` of perf tells whether the profile is used.
std::string profile_for(const std::string& topology) {
  return fmt::format(
      "format = 1\nweft = \"0\"\ntopology = \"{}\"\nabout = \"a test\"\n[settings]\n"
      "WEFT_ALLREDUCE = \"ring\"\n[end]\ncomplete = true\n",
      topology);
}

Ran measured(const std::string& profile) {
  return run_line(
      fmt::format("WEFT_PROFILE={} {{weft}} run -n 2 -- {{weft}} perf allreduce --sizes 64 "
                  "--seconds 0.001 --explain",
                  profile));
}

// The word before " (" of the topology that the refusal says the job has.
std::string topology_in(const std::string& refusal) {
  const std::string before = "and this job's is ";
  const std::size_t at = refusal.find(before);
  return at == std::string::npos ? "" : refusal.substr(at + before.size(), 16);
}

TEST(Tune, AProfileOfAnotherTopologyIsRefusedAndBothAreNamed) {
  const Folder folder;
  folder.write("a.toml", profile_for("0000000000000001"));
  const Ran refused = measured(folder.path("a.toml"));
  EXPECT_EQ(refused.exit_status, 2);
  const std::string topology = topology_in(text_of(refused.errors));
  ASSERT_EQ(topology.size(), 16U) << text_of(refused.errors);
  EXPECT_TRUE(mentions(refused.errors, "0000000000000001"));
  folder.write("a.toml", profile_for(topology));
  const Ran taken = measured(folder.path("a.toml"));
  EXPECT_EQ(taken.exit_status, 0) << text_of(taken.errors);
  EXPECT_TRUE(mentions(taken.errors, "allreduce: ring")) << text_of(taken.errors);
}

TEST(Tune, RanksWithoutTheProfileOfTheOthersAreNamed) {
  const Folder folder;
  folder.write("a.toml", profile_for("0000000000000001"));
  const Ran ran =
      run_line(fmt::format("{{weft}} run -n 2 -- sh -c '[ $WEFT_RANK = 0 ] || export "
                           "WEFT_PROFILE={}; exec {{weft}} perf allreduce --sizes 64 "
                           "--seconds 0.001'",
                           folder.path("a.toml")));
  EXPECT_NE(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.errors, "rank 1 has a profile")) << text_of(ran.errors);
}

TEST(Tune, WritesAProfileThatTheSameJobTakesOrSaysWhyNot) {
  const Folder folder;
  const Ran ran = run_weft("tune -n 2 --time 1s --sizes 256,32K -o " + folder.path("a.toml"));
  ASSERT_EQ(ran.exit_status, 0) << text_of(ran.errors);
  const std::string text = folder.content("a.toml");
  if (mentions(ran.out, "no profile is written: ")) {
    EXPECT_EQ(text, "");
    return;
  }
  EXPECT_TRUE(mentions(ran.out, "times as fast as the defaults; written to "));
  EXPECT_EQ(measured(folder.path("a.toml")).exit_status, 0) << text;
  const Ran explained = run_weft("tune --explain " + folder.path("a.toml"));
  EXPECT_EQ(explained.exit_status, 0);
  EXPECT_TRUE(mentions(explained.out, "the check")) << text_of(explained.out);
}

// The signal comes when the first value has been measured, long before the time is over.
TEST(Tune, CtrlCEndsTheSearchAndLeavesAValidFileOrNone) {
  const Folder folder;
  const Ran ran = run_line(fmt::format(
      "mkfifo {0}; {{weft}} tune -n 2 --time 10m --sizes 256 -o {1} 2>{0} & pid=$!; "
      "while read -r line; do case $line in *times*) [ $told ] || kill -INT $pid; told=1;; esac; "
      "done <{0}; wait $pid; exit $?",
      folder.path("pipe"), folder.path("a.toml")));
  EXPECT_EQ(ran.exit_status, 130) << text_of(ran.out);
  if (mentions(ran.out, "no profile is written: ")) {
    EXPECT_EQ(folder.content("a.toml"), "");
  } else {
    EXPECT_TRUE(mentions(ran.out, "interrupted")) << text_of(ran.out);
    EXPECT_EQ(run_weft("tune --explain " + folder.path("a.toml")).exit_status, 0);
  }
}

TEST(Tune, WhatIsWrongIsSaidInALine) {
  const auto error = [](const std::string& arguments) {
    const Ran ran = run_weft(arguments);
    EXPECT_NE(ran.exit_status, 0) << arguments;
    return text_of(ran.errors);
  };
  EXPECT_NE(error("tune -n 2 -o /nowhere/a.toml").find("cannot write /nowhere/a.toml"),
            std::string::npos);
  EXPECT_NE(error("tune --time soon").find("--time soon: expected a time"), std::string::npos);
  EXPECT_NE(error("tune --sizes 1T").find("--sizes"), std::string::npos);
  EXPECT_NE(error("tune --explain /nowhere").find("No such file"), std::string::npos);
  const Folder folder;
  folder.write("a.toml", profile_for("0000000000000001"));
  const Ran set = run_line("WEFT_PROFILE=" + folder.path("a.toml") + " {weft} tune -n 2");
  EXPECT_TRUE(mentions(set.errors, "WEFT_PROFILE is set: unset it"));
}

}  // namespace
}  // namespace weft
