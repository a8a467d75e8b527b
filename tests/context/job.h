// A job whose ranks are threads of the test: run(n, body) gives each its Context and fails the test
// on any error.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>
#include <type_traits>
#include <vector>

#include "engine/context/context.h"

namespace weft {

// A configuration for tests: waits end soon, so that a hang is a failure and not a time-out of the
// suite. Transports, interfaces and digests are the environment's: the same tests run over every network,
// and with everything checked.
inline Config test_config() {
  const Result<Config> given = Config::from_environment();
  EXPECT_TRUE(given.ok()) << given.status().to_string();
  Config config;
  if (given.ok()) {
    config.transports = given->transports;
    config.interfaces = given->interfaces;
    config.digests = given->digests;
  }
  config.deadline_ms = 20'000;
  config.log = LogLevel::off;
  config.heap_mib = 4096;
  return config;
}

using RankBody = std::function<void(Context&)>;

// Each rank with the configuration that `config_of` gives it.
inline void run_job_with(int ranks, const std::function<Config(Rank)>& config_of,
                         const RankBody& body) {
  Result<std::vector<std::shared_ptr<Store>>> stores = make_local_stores(ranks);
  ASSERT_TRUE(stores.ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::shared_ptr<Store> store = (*stores)[static_cast<std::size_t>(rank)];
      {
        Result<std::unique_ptr<Context>> context = Context::create(config_of(rank), store);
        ASSERT_TRUE(context.ok()) << context.status().to_string();
        body(**context);
      }
      (void)store->goodbye(Deadline::after_ms(10'000));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void run_job(int ranks, const RankBody& body, const Config& config = test_config()) {
  run_job_with(
      ranks, [&](Rank) { return config; }, body);
}

// Memory from weft::allocate, or of our own: what users call weft and private memory.
template <typename T>
class Array {
 public:
  Array(std::size_t count, bool foreign) : count_(count), is_private_(foreign) {
    const std::size_t bytes = count * sizeof(T) + 1;
    data_ = static_cast<T*>(foreign ? std::calloc(bytes, 1) : allocate(bytes).value());
  }
  ~Array() { is_private_ ? std::free(data_) : deallocate(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  bool is_private_;
  T* data_;
};

// Are the `count` elements from `got` on what `want` says, a value or a function of the place, to within
// `tolerance`? One assertion for all of them, as there may be millions; it names the first that is not.
template <typename T, typename Want>
testing::AssertionResult holds(const T* got, std::size_t count, const Want& want,
                               double tolerance = 0) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto wanted = [&] {
      if constexpr (std::is_invocable_v<Want, std::size_t>)
        return want(i);
      else
        return want;
    }();
    if (got[i] == wanted) continue;
    if (std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted)) <= tolerance) continue;
    return testing::AssertionFailure()
           << "element " << i << " of " << count << " is " << got[i] << ", not " << wanted;
  }
  return testing::AssertionSuccess();
}

}  // namespace weft
