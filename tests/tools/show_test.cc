// The subcommands that show things and start nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"

namespace weft {
namespace {

std::vector<Edge> edges_in(const nlohmann::json& object) {
  std::vector<Edge> edges;
  for (const nlohmann::json& edge : object["edges"])
    edges.push_back({edge["from"], edge["to"], edge["weight"]});
  return edges;
}

TEST(ShowGraph, TellsEdgesWeightsAndMixing) {
  const Ran ran = run_weft("graph exponential 8");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "8 ranks, 24 edges"));
  EXPECT_TRUE(mentions(ran.out, "spectral gap"));
  EXPECT_TRUE(mentions(ran.out, "rank 7"));
}

TEST(ShowGraph, TellsAScheduleStepByStep) {
  const Ran ran = run_weft("graph one_peer_exponential 8");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "step 2"));
}

// A program that reads it has the graph again, to the last bit.
TEST(ShowGraph, JsonHasTheWholeGraph) {
  for (const auto& [name, ranks] :
       {std::pair("exponential", 6), std::pair("star", 7), std::pair("ring:style=1", 3)}) {
    const Ran ran = run_weft(fmt::format("graph {} {} --json", name, ranks));
    ASSERT_EQ(ran.exit_status, 0);
    ASSERT_EQ(ran.out.size(), 1U);
    const nlohmann::json object = nlohmann::json::parse(ran.out[0], nullptr, false);
    ASSERT_TRUE(object.is_object()) << ran.out[0];
    const Result<Graph> wanted = make_graph(name, ranks);
    const Result<Graph> read =
        Graph::from_edges(object["ranks"], edges_in(object), object["self_weights"], name);
    ASSERT_TRUE(wanted.ok() && read.ok());
    EXPECT_EQ(*read, *wanted) << name;
    EXPECT_EQ(object["mixing"]["sigma2"], mixing(*wanted).sigma2);
    EXPECT_EQ(object["mixing"]["rounds"].get<int>(), mixing(*wanted).rounds);
  }
}

TEST(ShowGraph, JsonHasAScheduleStepByStep) {
  const Ran ran = run_weft("graph one_peer_exponential 6 --json");
  ASSERT_EQ(ran.exit_status, 0);
  const nlohmann::json object = nlohmann::json::parse(ran.out.at(0), nullptr, false);
  const Result<Schedule> wanted = make_schedule("one_peer_exponential", 6);
  ASSERT_TRUE(wanted.ok());
  ASSERT_EQ(object["steps"].size(), wanted->cover());
  const nlohmann::json& step = object["steps"][1];
  const Result<Graph> read = Graph::from_edges(6, edges_in(step), step["self_weights"], "");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, *step_graph(*wanted, 1));
}

TEST(ShowGraph, DrawsAnSvg) {
  const auto path = std::filesystem::path(testing::TempDir()) / "weft-graph.svg";
  EXPECT_EQ(run_weft("graph ring 6 --svg " + path.string()).exit_status, 0);
  std::ifstream file(path);
  std::string first;
  std::getline(file, first);
  EXPECT_NE(first.find("<svg"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(ShowGraph, ErrorsNameWhatIsWrong) {
  const Ran unknown = run_weft("graph nonsense 8");
  EXPECT_EQ(unknown.exit_status, 2);
  ASSERT_EQ(unknown.errors.size(), 1U);
  EXPECT_NE(unknown.errors[0].find("'nonsense'"), std::string::npos);
  EXPECT_EQ(run_weft("graph ring 0").exit_status, 2);
  EXPECT_EQ(run_weft("graph ring").exit_status, 2);
  EXPECT_EQ(run_weft("graph ring 4 --svg /nonexistent/file.svg").exit_status, 1);
}

TEST(ShowMachine, TellsWhatIsThere) {
  const Ran ran = run_weft("machine");
  EXPECT_EQ(ran.exit_status, 0);
  for (const char* word : {"processor", "cache", "memory", "huge pages", "RDMA"}) {
    EXPECT_TRUE(mentions(ran.out, word)) << word;
  }
}

TEST(Usage, WithoutASubcommandItIsAnError) {
  EXPECT_EQ(run_weft("").exit_status, 2);
  EXPECT_EQ(run_weft("--help").exit_status, 0);
}

}  // namespace
}  // namespace weft
