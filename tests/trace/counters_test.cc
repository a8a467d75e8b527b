// trace: counters count, and a scraper can read them.
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "engine/trace/trace.h"

namespace weft {
namespace {

TEST(Counters, AppearInPrometheusTextPerLane) {
  Counters shm;
  Counters ib;
  shm.operations.add();
  shm.bytes_sent.add(4096);
  shm.bytes_sent.add(4096);
  ib.wakes.add(3);
  const std::array<LaneCounters, 2> lanes{{{"shm", &shm}, {"mlx5_0/1", &ib}}};
  const std::string text = prometheus_text(5, lanes);
  EXPECT_NE(text.find("# TYPE weft_operations_total counter\n"
                      "weft_operations_total{rank=\"5\",lane=\"shm\"} 1\n"
                      "weft_operations_total{rank=\"5\",lane=\"mlx5_0/1\"} 0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("weft_sent_bytes_total{rank=\"5\",lane=\"shm\"} 8192\n"), std::string::npos);
  EXPECT_NE(text.find("weft_wakes_total{rank=\"5\",lane=\"mlx5_0/1\"} 3\n"), std::string::npos);
}

TEST(Counters, EveryLineIsACommentOrASample) {
  Counters counters;
  const std::array<LaneCounters, 1> lanes{{{"a \"quoted\"\nlane", &counters}}};
  std::istringstream lines(prometheus_text(0, lanes));
  int samples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) continue;
    EXPECT_TRUE(line.starts_with("weft_"));
    EXPECT_TRUE(line.ends_with("{rank=\"0\",lane=\"a \\\"quoted\\\"\\nlane\"} 0")) << line;
    ++samples;
  }
  EXPECT_EQ(samples, 8);
}

}  // namespace
}  // namespace weft
