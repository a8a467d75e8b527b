// The subcommands that show things and start nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <weft/graph.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

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

// rho of a law of groups, and the matrix from which it is.
TEST(ShowGraph, HasRhoOfALawOfGroups) {
  const Ran words = run_weft("graph --groups static -n 16 --machines 4");
  EXPECT_EQ(words.exit_status, 0);
  EXPECT_TRUE(mentions(words.out, "static: 16 ranks on 4 machines"));
  EXPECT_TRUE(mentions(words.out, "exact, over a period of 4 rounds"));
  EXPECT_TRUE(mentions(run_weft("graph --groups pairs -n 16").out, "of 256 sampled rounds"));
  for (const char* law : {"random:3", "smart:3", "pairs", "static"}) {
    const Ran ran = run_weft(fmt::format("graph --groups {} --ranks 8 --machines 2 --json", law));
    ASSERT_EQ(ran.exit_status, 0) << law;
    const nlohmann::json object = nlohmann::json::parse(ran.out.at(0), nullptr, false);
    EXPECT_EQ(object["name"], law);
    EXPECT_EQ(object["exact"], std::string(law) == "static");
    const Result<Graph> mean = Graph::from_edges(8, edges_in(object), object["self_weights"], "");
    ASSERT_TRUE(mean.ok()) << law;
    EXPECT_TRUE(is_row_stochastic(*mean)) << law;
    EXPECT_TRUE(is_column_stochastic(*mean)) << law;
    EXPECT_NEAR(object["rho"].get<double>(), sigma2(*mean), 1e-9) << law;
    EXPECT_LT(object["rho"].get<double>(), 1) << law;
  }
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"best -n 8", "unknown law of groups 'best'"},
      {"random:1 -n 8", "group size 1: a group has 2 to 1024 workers"},
      {"smart -n 8 --machines 3", "8 ranks on 3 machines: each machine needs as many"},
      {"smart -n 2048", "rho is known for 1 to 1024 ranks"}};
  for (const auto& [arguments, error] : wrong) {
    const Ran ran = run_weft("graph --groups " + arguments);
    EXPECT_EQ(ran.exit_status, 2) << arguments;
    EXPECT_TRUE(mentions(ran.errors, error)) << arguments;
  }
  EXPECT_TRUE(mentions(run_weft("graph -n 8").errors, "is missing, or --groups LAW"));
  EXPECT_EQ(run_weft("graph ring 8 --groups smart").exit_status, 2);
  EXPECT_EQ(run_weft("graph ring 8 --machines 2").exit_status, 2);
}

TEST(ShowGraph, ErrorsNameWhatIsWrong) {
  const Ran unknown = run_weft("graph nonsense 8");
  EXPECT_EQ(unknown.exit_status, 2);
  ASSERT_EQ(unknown.errors.size(), 1U);
  EXPECT_NE(unknown.errors[0].find("'nonsense'"), std::string::npos);
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"one_peer_exponetial",
       "unknown graph or schedule 'one_peer_exponetial'; did you mean "
       "'one_peer_exponential'?"},
      {"one_peer:rung", "unknown graph 'rung'"},
      {"inner_outer_ring:loca=2", "inner_outer_ring: unknown argument 'loca=2'"}};
  for (const auto& [name, words] : wrong) {
    EXPECT_TRUE(mentions(run_weft("graph " + name + " 8").errors, words)) << name;
    const std::string cluster = std::string(WEFT_CLUSTERS) + "/ethernet.toml";
    const Ran predicted =
        run_weft("predict --cluster " + cluster + " --ranks 8 --sizes 1M --graph " + name);
    EXPECT_TRUE(mentions(predicted.errors, words)) << name;
  }
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

TEST(Usage, WhatCannotBeWrittenIsAnError) {
  for (const char* what :
       {"graph ring 6", "graph ring 6 --json", "machine", "devices", "devices --json", "topo",
        "config", "config --markdown", "--help", "run -n 2 -- echo x",
        "predict --cluster " WEFT_CLUSTERS "/two-leaves.toml --sizes 1M",
        "map --cluster " WEFT_CLUSTERS "/two-leaves.toml"}) {
    const Ran ran = run_weft(std::string(what) + " > /dev/full");
    EXPECT_EQ(ran.exit_status, 1) << what;
    EXPECT_TRUE(mentions(ran.errors, "standard output")) << what;
    EXPECT_TRUE(mentions(ran.errors, "No space left on device")) << what;
  }
  const Folder folder;
  folder.write("rows.json", R"({"op":"allreduce","bytes":4,"p50_us":1})");
  folder.write("trace.json", R"({"traceEvents":[{"ph":"X","pid":0,"tid":0,"ts":1,"dur":2}],)"
                             R"("otherData":{"format":"weft 1"}})");
  const std::string map = "map --cluster " WEFT_CLUSTERS "/two-leaves.toml ";
  const std::string predict = "predict --cluster " WEFT_CLUSTERS "/two-leaves.toml --sizes 1M ";
  const std::string strategies = "predict strategies --ranks 8 --steps 8 --strategies ring ";
  for (const std::string& what :
       {std::string("graph ring 6 --svg"), std::string("graph one_peer_exponential 8 --svg"),
        std::string("graph --groups smart --ranks 4 --svg"), std::string("topo --svg"),
        map + "--json", map + "--svg", predict + "--json", predict + "--svg", predict + "--run-svg",
        predict + "--plan-svg", strategies + "--json", strategies + "--svg",
        strategies + "--links-svg", "perf --from " + folder.path("rows.json") + " --svg",
        "timeline merge " + folder.path("trace.json") + " --output",
        "timeline show " + folder.path("trace.json") + " --json"}) {
    const Ran ran = run_weft(what + " /dev/full");
    EXPECT_EQ(ran.exit_status, 1) << what;
    EXPECT_TRUE(mentions(ran.errors, "cannot write /dev/full: No space left on device"))
        << what << (ran.errors.empty() ? "" : ": " + ran.errors[0]);
  }
}

// Whether or not the caller ignores SIGPIPE, as services do.
TEST(Usage, WhoHasReadEnoughEndsItQuietly) {
  for (const char* ignored : {"", "trap '' PIPE; "}) {
    for (const char* what : {"config", "run -n 2 -- seq 100000"}) {
      const Ran ran = run_line(fmt::format("({}{{weft}} {}) | head -1", ignored, what));
      EXPECT_EQ(ran.out.size(), 1U) << what;
      EXPECT_TRUE(ran.errors.empty()) << what << ": " << ran.errors[0];
    }
  }
}

TEST(Usage, TheNearestNameIsTold) {
  struct Mistake {
    const char* line;
    const char* told;
  };
  for (const Mistake& mistake : std::initializer_list<Mistake>{
           {"toop", "weft: command 'toop' is unknown; did you mean 'topo'?"},
           {"sleftest", "did you mean 'selftest'?"},
           {"timeline shwo x", "weft timeline: command 'shwo' is unknown; did you mean 'show'?"},
           {"perf allreduce --size 4K",
            "weft perf: option '--size' is unknown; did you mean '--sizes'?"},
           {"perf wire --perr=a:1",
            "weft perf wire: option '--perr' is unknown; did you mean '--peer'?"},
           {"xyzzy", "weft: command 'xyzzy' is unknown"},
           {"run -- true", "weft run: --ranks is required"},
           {"perf allreduce --seconds nan", "--seconds: nan is no number"},
           {"perf allreduce --seconds 0", "--seconds: 0: expected 0.001 to 3600"},
           {"run -n 2 --deadline 5s -- true", "--deadline: 5s is no number"},
           {"run -n 2 --bind-to cores -- true", "--bind-to: cores: there are auto, core, none"}}) {
    const Ran ran = run_weft(mistake.line);
    EXPECT_EQ(ran.exit_status, 2) << mistake.line;
    ASSERT_FALSE(ran.errors.empty()) << mistake.line;
    EXPECT_TRUE(mentions({ran.errors[0]}, mistake.told)) << ran.errors[0];
  }
  EXPECT_FALSE(mentions(run_weft("xyzzy").errors, "did you mean"));
}

TEST(Usage, WithoutASubcommandItIsAnError) {
  EXPECT_EQ(run_weft("").exit_status, 2);
  EXPECT_EQ(run_weft("--help").exit_status, 0);
}

}  // namespace
}  // namespace weft
