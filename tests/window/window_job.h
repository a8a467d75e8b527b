// What the tests of windows share: jobs whose ranks share memory, and jobs whose ranks are on
// different machines and reach each other by UCX on the loopback.
#pragma once

#include <string>

#include "tests/context/cluster.h"

namespace weft {

enum class Ways { memory, network };

inline std::string name_of(const testing::TestParamInfo<Ways>& info) {
  return info.param == Ways::memory ? "memory" : "network";
}

class OverBoth : public testing::TestWithParam<Ways> {
 protected:
  static void run(int ranks, const RankBody& body) {
    if (GetParam() == Ways::memory)
      run_job(ranks, body);
    else
      run_cluster(ranks, ranks, body);
  }
};

#ifdef HAS_UCX
inline const auto kBothWays = testing::Values(Ways::memory, Ways::network);
#else
inline const auto kBothWays = testing::Values(Ways::memory);
#endif

inline void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// A window of `count` doubles, all of them `value` at first.
struct Owned {
  Owned(Context& context, std::size_t count, double value, const char* name = "w",
        const WindowOptions& options = {}, bool foreign = false)
      : x(count, foreign) {
    for (std::size_t i = 0; i < count; ++i) x[i] = value;
    Result<Window> made = context.win_create(out(x.data(), count), name, options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) window = *made;
  }
  [[nodiscard]] Output tensor() { return out(x.data(), x.size()); }

  Array<double> x;
  Window window;
};

}  // namespace weft
