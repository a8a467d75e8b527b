// What each rank's body gave, and what an error says: for tests of things that go wrong.
#pragma once

#include "tests/context/job.h"

namespace weft {

// Runs `body` on every rank and returns their Statuses by rank.
inline std::vector<Status> outcomes(int ranks, const std::function<Status(Context&)>& body,
                                    const Config& config = test_config()) {
  std::vector<Status> statuses(static_cast<std::size_t>(ranks));
  run_job(
      ranks,
      [&](Context& context) { statuses[static_cast<std::size_t>(context.rank())] = body(context); },
      config);
  return statuses;
}

inline void expect_names(const Status& status, Code code,
                         std::initializer_list<const char*> words) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const char* word : words) {
    EXPECT_NE(status.text().find(word), std::string_view::npos)
        << "no '" << word << "' in: " << status.to_string();
  }
}

}  // namespace weft
