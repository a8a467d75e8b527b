// Drawings: what they show, that they stay small, and that names cannot break them.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string_view>

#include "tests/simulate/jobs.h"
#include "topology/canvas/canvas.h"
#include "topology/svg/svg.h"

namespace weft {
namespace {

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

Simulation drawn(const Cluster& cluster, AllreduceAlgorithm algorithm) {
  SimulateOptions options;
  options.keep_bars = true;
  options.collapse = false;
  return simulate_allreduce(cluster, algorithm, 1 << 20, options).value();
}

TEST(Draw, ARunShowsRanksMessagesAndLinks) {
  Cluster cluster = cluster_of(4, 1, 1);
  cluster.machines[2].name = "<third> & \"last\"";
  const Simulation run = drawn(cluster, AllreduceAlgorithm::ring);
  const std::string svg = draw_run(run, cluster, "a < b");
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("&lt;third&gt; &amp; &quot;last&quot;"), std::string::npos);
  EXPECT_EQ(svg.find("<third>"), std::string::npos);
  EXPECT_EQ(count(svg, "text-anchor=\"end\" fill=\"#333\">rank "), 4U);
  EXPECT_EQ(count(svg, " to "), run.messages);
  EXPECT_NE(svg.find("rail nic0 sending"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Draw, ARunOfManyRanksShowsSomeAndSaysSo) {
  const Cluster cluster = cluster_of(200, 1, 1);
  const std::string svg = draw_run(drawn(cluster, AllreduceAlgorithm::ring), cluster, "large");
  EXPECT_EQ(count(svg, "text-anchor=\"end\" fill=\"#333\">rank "), 48U);
  EXPECT_NE(svg.find("48 of 200 ranks"), std::string::npos);
  EXPECT_NE(svg.find(">rank 0<"), std::string::npos);
  EXPECT_NE(svg.find(">rank 199<"), std::string::npos);
  EXPECT_LT(svg.size(), std::size_t{16} << 20);
}

TEST(Draw, APlanShowsEachMessageAsAnArrow) {
  const Cluster cluster = cluster_of(4, 1, 1);
  const Simulation run = drawn(cluster, AllreduceAlgorithm::halving_doubling);
  const std::string svg = draw_plan(run, cluster, "plan");
  EXPECT_EQ(count(svg, "<path"), run.messages);
  EXPECT_EQ(count(svg, ">phase "), 4U);
  const Cluster large = cluster_of(40, 1, 1);
  EXPECT_NE(draw_plan(drawn(large, AllreduceAlgorithm::ring), large, "plan")
                .find("the first 32 of 40 ranks, the first 24 of 78 phases"),
            std::string::npos);
}

// As many as there may be curves.
TEST(Draw, NoTwoSeriesLookAlike) {
  std::set<std::string> looks;
  for (int number = 0; number < 64; ++number)
    looks.insert(std::string(line_color(number)) + " " + std::string(line_dashes(number)));
  EXPECT_EQ(looks.size(), 64U);
}

// Long names take room, and not that of others.
TEST(Draw, LongNamesStayInTheDrawing) {
  Cluster cluster = cluster_of(4, 1, 8);
  for (ClusterMachine& machine : cluster.machines) machine.name = "node-of-a-rack-with-a-long-name";
  for (Rail& rail : cluster.rails) rail.name = "mlx5_bond_" + rail.name + "_of_the_second_network";
  const Simulation run = drawn(cluster, AllreduceAlgorithm::ring);
  const std::string title(400, 'x');
  for (const std::string& svg : {draw_run(run, cluster, title), draw_plan(run, cluster, title)}) {
    const double width = std::stod(svg.substr(svg.find(" width=\"") + 8));
    const std::regex text(
        R"re(<text x="([0-9.]+)" y="[0-9.]+" font-size="([0-9.]+)" text-anchor="start"[^>]*>([^<]*)<)re");
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), text); at != std::sregex_iterator();
         ++at) {
      const double right =
          std::stod((*at)[1]) + svg::text_width((*at)[3].str(), std::stod((*at)[2]));
      EXPECT_LE(right, width) << (*at)[3];
    }
  }
}

TEST(Draw, AxesHaveRoundNumbers) {
  EXPECT_EQ(round_steps(1404, 8), (std::vector<double>{0, 200, 400, 600, 800, 1000, 1200, 1400}));
  EXPECT_EQ(round_steps(0, 8), std::vector<double>{0});
  EXPECT_EQ(us_text(0.25), "250 ns");
  EXPECT_EQ(us_text(1500), "1.5 ms");
}

}  // namespace
}  // namespace weft
