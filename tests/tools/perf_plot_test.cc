// weft perf --svg: pictures of rows that were measured before.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <pugixml.hpp>
#include <sstream>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

std::string row(const char* op, int ranks, int bytes, double us, double peer_us) {
  return fmt::format(
             R"({{"op":"{}","ranks":{},"graph":"ring","bytes":{},"p50_us":{},"limit_us":{},"peer":"openmpi",)"
             R"("peer_p50_us":{},"speedup":{}}})",
             op, ranks, bytes, us, us / 2, peer_us, peer_us / us) +
         "\n";
}

// The picture, which has to be XML.
std::string picture_of(const std::string& rows) {
  const Folder folder;
  folder.write("rows.json", rows);
  const Ran ran = run_line("{weft} perf --from " + folder.path("rows.json") + " --svg " +
                           folder.path("rows.svg"));
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  pugi::xml_document document;
  EXPECT_TRUE(document.load_file(folder.path("rows.svg").c_str()));
  std::ostringstream text;
  text << std::ifstream(folder.path("rows.svg")).rdbuf();
  return std::move(text).str();
}

std::string complaint_about(const std::string& rows) {
  const Folder folder;
  folder.write("rows.json", rows);
  const Ran ran =
      run_line("cd " + folder.path("") + " && {weft} perf --from rows.json --svg a.svg");
  EXPECT_EQ(ran.exit_status, 2);
  return ran.errors.empty() ? "" : ran.errors[0];
}

TEST(PerfPlot, OneSeriesIsDrawnAsTimes) {
  const std::string svg =
      picture_of(row("allreduce", 2, 4, 0.5, 1) + row("allreduce", 2, 4096, 2, 6));
  for (const char* word : {">Weft<", ">limit<", ">openmpi<", ">4K<", ">allreduce, 2 ranks, ring<"})
    EXPECT_NE(svg.find(word), std::string::npos) << word;
}

TEST(PerfPlot, SeveralSeriesAreDrawnAsSpeeds) {
  const std::string svg =
      picture_of(row("allreduce", 2, 4, 0.5, 1) + row("allreduce", 2, 4096, 2, 6) +
                 row("allreduce", 4, 4, 1, 1.5) + row("allreduce", 4, 4096, 2, 8));
  for (const char* word :
       {">allreduce, 2 ranks<", ">allreduce, 4 ranks<", "times as fast as openmpi"})
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  EXPECT_EQ(svg.find(">Weft<"), std::string::npos);
}

TEST(PerfPlot, WhatCannotBeDrawnIsNamedWithItsLine) {
  EXPECT_NE(
      complaint_about(row("a", 2, 4, 1, 1) + "hello\n").find("rows.json:2: is no JSON object"),
      std::string::npos);
  EXPECT_NE(complaint_about(R"({"op":"a","p50_us":1})").find("rows.json:1: a row needs \"bytes\""),
            std::string::npos);
  EXPECT_NE(complaint_about("\n").find("rows.json: has no row"), std::string::npos);
  EXPECT_EQ(run_weft("perf --from /nowhere.json --svg /tmp/a.svg").exit_status, 1);
  EXPECT_NE(run_weft("perf --from /nowhere.json").exit_status, 0);
  EXPECT_EQ(run_weft("perf idle --svg a.svg").exit_status, 2);
}

}  // namespace
}  // namespace weft
