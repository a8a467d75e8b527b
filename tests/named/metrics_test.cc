// Metrics of contexts and of operations by name, as text and in a file.
#include <stdlib.h>
#include <weft/metrics.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/context/job.h"

namespace weft {
namespace {

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, TellWhatContextsAndNamesHaveDone) {
  std::string folder = (std::filesystem::temp_directory_path() / "weft-metrics-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  Config config = test_config();
  config.metrics = folder + "/{rank}.prom";
  run_job(
      2,
      [](Context& context) {
        const float x = 1;
        float y = 0;
        ASSERT_TRUE(context.allreduce(in(&x, 1), out(&y, 1)).ok());
        Result<Named> named = context.named();
        ASSERT_TRUE(named.ok()) << named.status().to_string();
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(named->allreduce("x", in(&x, 1), out(&y, 1)).ok());
        const std::string text = metrics();
        const std::string rank = "rank=\"" + std::to_string(context.rank()) + "\"";
        const std::string job = "{" + rank + ",context=\"job\"}";
        EXPECT_TRUE(has_line(text, "weft_operations_total" + job + " 1")) << text;
        EXPECT_TRUE(has_line(text, "weft_connected_peers" + job + " 1")) << text;
        const std::string names = rank + ",context=\"0/named/0/\"";
        EXPECT_TRUE(has_line(text, "weft_named_submitted_total{" + names + "} 3")) << text;
        EXPECT_TRUE(has_line(text, "weft_named_batch_names_bucket{" + names + ",le=\"1\"} 3"))
            << text;
        EXPECT_TRUE(has_line(text, "weft_named_batch_names_count{" + names + "} 3")) << text;
        ASSERT_TRUE(named->end().ok());
      },
      config);
  for (int rank = 0; rank < 2; ++rank) {
    const std::string text = content(folder + "/" + std::to_string(rank) + ".prom");
    EXPECT_NE(
        text.find("weft_operations_total{rank=\"" + std::to_string(rank) + "\",context=\"job\"} "),
        std::string::npos)
        << text;
  }
  EXPECT_EQ(metrics().find("context=\"job\""), std::string::npos);  // they are closed
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
