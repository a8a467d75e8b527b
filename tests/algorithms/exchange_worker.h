// exchange_worker: a rank of a gradient exchange in tests.
#pragma once

#include <optional>
#include <vector>

#include "engine/algorithms/algorithms.h"
#include "tests/window/window_job.h"

namespace weft {

inline const std::vector<std::size_t> kColayers{700, 40, 300};
inline constexpr std::size_t kCount = 1040;

template <typename T>
struct Worker {
  Worker(Context& context, const GradientExchangeOptions& options)
      : x(kCount, false), slope(kCount, false), mean(kCount, false) {
    for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<T>(context.rank());
    Result<GradientExchange> made =
        GradientExchange::create(context, out(x.data(), kCount), kColayers, options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) exchange.emplace(*std::move(made));
  }
  GradientExchange* operator->() { return &*exchange; }

  // The gradient of these colayers is `value` in all elements.
  void push(int first, int last, T value) {
    for (std::size_t i = 0; i < kCount; ++i) slope[i] = value;
    for (int each = first; each < last; ++each)
      expect_ok(exchange->push(each, in(slope.data(), kColayers[static_cast<std::size_t>(each)])));
  }
  EndedIteration end() {
    const Result<EndedIteration> ended = exchange->end_iteration(out(mean.data(), kCount));
    EXPECT_TRUE(ended.ok()) << ended.status().to_string();
    return ended.ok() ? *ended : EndedIteration();
  }
  EndedIteration iterate(T value) {
    expect_ok(exchange->begin());
    push(0, 3, value);
    return end();
  }

  Array<T> x, slope, mean;
  std::optional<GradientExchange> exchange;
};

}  // namespace weft
