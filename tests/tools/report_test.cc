// weft report: a page that needs nothing else, of files that other commands write; bad files are named and the rest goes on.
#include <gtest/gtest.h>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

constexpr const char* kFindings =
    R"({"hosts": ["a", "b"], "findings": [{"severity": "severe", "check": "rails", "hosts": ["b"], "what": "1 of <2> rails",)"
    R"( "seen": "rail1 is down", "mend": "ip link set rail1 up", "cost": {"times": 1.98}}], "missing": []})";
constexpr const char* kRow =
    R"({"operation": "allreduce", "ranks": 2, "bytes": 4096, "p50_us": 10.5, "algbw_GBps": 0.39, "busbw_GBps": 0.39})";
constexpr const char* kDrawing =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\"><rect width=\"9\" "
    "height=\"9\"/></svg>";

TEST(Report, IsOnePageThatLoadsNothing) {
  const Folder folder;
  folder.write("doctor.json", kFindings);
  folder.write("perf.json", std::string(kRow) + "\n");
  folder.write("machine.svg", kDrawing);
  folder.write("metrics.0", "# HELP weft_operations done\nweft_operations{rank=\"0\"} 12\n");
  const Ran ran = run_weft("report " + folder.path("doctor.json") + " " + folder.path("perf.json") +
                           " " + folder.path("machine.svg") + " " + folder.path("metrics.0") +
                           " -o " + folder.path("page.html"));
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors.front());
  const std::string page = folder.content("page.html");
  for (const char* part :
       {"severe: 1 of &lt;2&gt; rails", "ip link set rail1 up", "1.98 times as long", "10.50",
        "weft_operations", "data:image/svg+xml;base64,", "default-src 'none'"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"src=\"http", "href=\"http", "<script", "<2>"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.substr(page.size() - 8), "</html>\n");
}

TEST(Report, HardwareAndAMapAreTables) {
  const Folder folder;
  ASSERT_EQ(
      run_weft("topo --from " WEFT_MACHINES "/8gpu-8nic.xml --json " + folder.path("machine.json"))
          .exit_status,
      0);
  ASSERT_EQ(run_weft("map --cluster " WEFT_CLUSTERS "/two-leaves.toml --graph ring --json " +
                     folder.path("map.json"))
                .exit_status,
            0);
  const Ran ran = run_weft("report " + folder.path("machine.json") + " " + folder.path("map.json") +
                           " -o " + folder.path("page.html"));
  EXPECT_EQ(ran.exit_status, 0);
  const std::string page = folder.content("page.html");
  for (const char* part : {"<td>mlx5_3</td>", "<caption>gpus</caption>", "<td>node7</td>",
                           "seat 1 reads", "and 64 more"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(Report, WhatCannotBeReadIsNamedAndTheRestGoesOn) {
  const Folder folder;
  folder.write("doctor.json", kFindings);
  folder.write("cut.json", std::string(kRow).substr(0, 40));
  folder.write("cut.svg", std::string(kDrawing).substr(0, 50));
  folder.write("active.svg",
               "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"></svg>");
  std::string line = "report -o " + folder.path("page.html") + " /nowhere/at/all";
  for (const char* name : {"doctor.json", "cut.json", "cut.svg", "active.svg"})
    line += " " + folder.path(name);
  const Ran ran = run_weft(line);
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_EQ(ran.errors.size(), 4U);
  for (const char* word : {"/nowhere/at/all", "cut.json: a line is no row",
                           "cut.svg: no drawing, or one that is cut short",
                           "active.svg: the drawing has parts that run"})
    EXPECT_TRUE(mentions(ran.errors, word)) << word;
  EXPECT_NE(folder.content("page.html").find("rail1 is down"), std::string::npos);
  EXPECT_TRUE(mentions(run_weft("report x -o /nowhere/page.html").errors,
                       "cannot write /nowhere/page.html"));
}

}  // namespace
}  // namespace weft
