// trace: what contexts have done, as text that a scraper reads.
#include "engine/trace/metrics.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace weft {
namespace {

TEST(Metrics, SamplesOfAFamilyStandTogether) {
  Metrics metrics;
  metrics.counter("weft_a_total", "What a is.", R"(rank="0")", 7);
  metrics.gauge("weft_b", "What b is.", "", 3);
  metrics.counter("weft_a_total", "What a is.", R"(rank="1")", 8);
  EXPECT_EQ(metrics.text(),
            "# HELP weft_a_total What a is.\n# TYPE weft_a_total counter\n"
            "weft_a_total{rank=\"0\"} 7\nweft_a_total{rank=\"1\"} 8\n"
            "# HELP weft_b What b is.\n# TYPE weft_b gauge\nweft_b 3\n");
}

TEST(Metrics, AHistogramAddsUp) {
  Metrics metrics;
  const std::array<std::uint64_t, 2> bounds = {1, 3};
  const std::array<std::uint64_t, 3> counts = {5, 2, 1};
  metrics.histogram("weft_h", "Sizes.", R"(rank="0")", bounds, counts, 20);
  EXPECT_EQ(metrics.text(),
            "# HELP weft_h Sizes.\n# TYPE weft_h histogram\n"
            "weft_h_bucket{rank=\"0\",le=\"1\"} 5\nweft_h_bucket{rank=\"0\",le=\"3\"} 7\n"
            "weft_h_bucket{rank=\"0\",le=\"+Inf\"} 8\n"
            "weft_h_sum{rank=\"0\"} 20\nweft_h_count{rank=\"0\"} 8\n");
}

TEST(Metrics, LabelsAreEscaped) {
  EXPECT_EQ(metric_label("context", "a \"b\"\\\n"), "context=\"a \\\"b\\\"\\\\\\n\"");
}

class One final : public MetricSource {
 public:
  void collect(Metrics& to) override { to.counter("weft_one_total", "One.", "", 1); }
};

TEST(Metrics, TheRegistryHasWhatWasAdded) {
  MetricRegistry& all = MetricRegistry::of_process();
  One one;
  all.add(&one);
  EXPECT_NE(all.text().find("weft_one_total 1\n"), std::string::npos);
  all.remove(&one);
  EXPECT_EQ(all.text().find("weft_one_total"), std::string::npos);
}

TEST(Metrics, AFileIsReplacedAsAWhole) {
  std::string folder = (std::filesystem::temp_directory_path() / "weft-metrics-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/weft.prom";
  One one;
  MetricRegistry::of_process().add(&one);
  {
    const auto file = MetricsFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
  }
  MetricRegistry::of_process().remove(&one);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("weft_one_total 1\n"), std::string::npos);
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder + "/victim", path);
  EXPECT_TRUE(write_metrics(path).ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/victim"));
  // Nothing else is left beside it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_EQ(write_metrics(folder + "/nowhere/x").code(), Code::system);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
