// Sixteen ranks, as threads, use eight windows in every way at once. Tests that no read is torn, no
// mass is lost and nobody waits for ever.
//   hammer SECONDS
#include <fmt/core.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/context/context.h"

namespace {

using weft::Context;
using weft::NeighborWeight;
using weft::Rank;
using weft::Status;
using weft::Window;

constexpr int kRanks = 16;
constexpr std::size_t kCounts[] = {1, 64, 5000, 1, 64, 5000};
constexpr int kPuts = 3;  // windows of puts and gets, whose elements are all equal
constexpr int kSums = 6;  // from kPuts on: windows of accumulations, whose mass stays
constexpr int kAll = 8;   // from kSums on: windows with a number that the mutex protects

Status wrong(const std::string& text) {
  return Status(weft::Code::mismatch, text);
}

struct Worker {
  explicit Worker(Context& context) : context(context), random(std::mt19937(context.rank())) {}

  Status make() {
    for (int w = 0; w < kAll; ++w) {
      const std::size_t count = w < kSums ? kCounts[w] : 2;
      WEFT_ASSIGN(weft::Memory memory, weft::Memory::allocate(count * sizeof(double)));
      auto* x = memory.as<double>();
      for (std::size_t i = 0; i < count; ++i) x[i] = w < kPuts ? 0 : w < kSums ? 16 : 0;
      memories.push_back(std::move(memory));
      weft::WindowOptions options;
      options.zero_init = true;
      WEFT_ASSIGN(Window window,
                  context.win_create(weft::out(x, count), fmt::format("w{}", w), options));
      windows.push_back(window);
      tensors.push_back(weft::out(x, count));
      if (w >= kPuts && w < kSums) WEFT_RETURN_IF_ERROR(windows.back().set_associated_p(true));
    }
    return context.barrier();
  }

  [[nodiscard]] double* data(int w) const {
    return memories[static_cast<std::size_t>(w)].as<double>();
  }
  [[nodiscard]] Window& window(int w) { return windows[static_cast<std::size_t>(w)]; }
  [[nodiscard]] const weft::Output& tensor(int w) const {
    return tensors[static_cast<std::size_t>(w)];
  }
  int draw(int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); }

  // Each slot has equal elements, whoever writes it now.
  Status put_and_read(int w) {
    const std::size_t count = tensor(w).count;
    std::vector<double> x(count, 1 + draw(1000));
    weft::WindowPut put;
    put.require_mutex = draw(8) == 0;
    WEFT_RETURN_IF_ERROR(window(w).put(weft::out(x.data(), count), put));
    if (draw(4) == 0) WEFT_RETURN_IF_ERROR(window(w).get());
    if (draw(4) == 0) WEFT_RETURN_IF_ERROR(window(w).update());
    const auto sources = window(w).in_neighbors();
    const Rank from = sources[static_cast<std::size_t>(draw(static_cast<int>(sources.size())))];
    const NeighborWeight one[] = {{from, 1.0}};
    weft::WindowUpdate how;
    how.self_weight = 0.0;
    how.sources = one;
    how.clone = weft::out(x.data(), count);
    how.reset = draw(4) == 0;
    WEFT_RETURN_IF_ERROR(window(w).update(how));
    for (const double each : x) {
      if (each != x[0]) return wrong(fmt::format("a torn read of a slot of rank {}", from));
    }
    return {};
  }

  // Gives a quarter of what is here to four ranks at most, in whole numbers, and takes what came.
  Status accumulate_and_collect(int w) {
    const auto targets = window(w).out_neighbors();
    std::vector<NeighborWeight> to;
    for (const Rank rank : targets) {
      if (to.size() < 3 && draw(2) == 0) to.push_back({rank, 0.25});
    }
    weft::WindowPut how;
    how.destinations = to;
    how.self_weight = 1.0 - 0.25 * static_cast<double>(to.size());
    how.require_mutex = draw(8) == 0;
    WEFT_RETURN_IF_ERROR(window(w).accumulate(tensor(w), how));
    return draw(2) == 0 ? window(w).update_then_collect(draw(8) == 0) : Status();
  }

  Status count(int w) {
    const auto targets = window(w).out_neighbors();
    const Rank owner = targets[static_cast<std::size_t>(draw(static_cast<int>(targets.size())))];
    WEFT_RETURN_IF_ERROR(window(w).lock(std::span(&owner, 1)));
    double pair[2] = {};
    WEFT_RETURN_IF_ERROR(window(w).read(owner, weft::out(pair, 2)));
    if (pair[0] != pair[1]) return wrong(fmt::format("a number of rank {} is torn", owner));
    pair[0] += 1;
    pair[1] += 1;
    const weft::WindowPage page{};
    WEFT_RETURN_IF_ERROR(
        window(w).write(owner, weft::in(pair, 2), std::span(&page, 1), sizeof pair));
    ++counted;
    return window(w).unlock();
  }

  Status step() {
    const int w = draw(kAll);
    ++steps;
    if (w < kPuts) return put_and_read(w);
    if (w < kSums) return accumulate_and_collect(w);
    return count(w);
  }

  Status settle() {
    WEFT_RETURN_IF_ERROR(context.win_fence());
    double sums[2 * kAll + 2] = {};
    for (int w = kPuts; w < kSums; ++w) {
      WEFT_RETURN_IF_ERROR(window(w).update_then_collect());
      for (std::size_t i = 0; i < tensor(w).count; ++i) sums[w] += data(w)[i];
      WEFT_ASSIGN(sums[kAll + w], window(w).associated_p());
    }
    for (int w = kSums; w < kAll; ++w) sums[w] = data(w)[0];
    sums[2 * kAll] = counted;
    sums[2 * kAll + 1] = steps;
    constexpr std::size_t kSumCount = std::size(sums);
    WEFT_RETURN_IF_ERROR(context.allreduce(weft::in(sums, kSumCount), weft::out(sums, kSumCount),
                                           weft::ReduceOp::sum));
    for (int w = kPuts; w < kSums; ++w) {
      const double mass = 16.0 * kRanks * static_cast<double>(tensor(w).count);
      if (std::abs(sums[w] / mass - 1) > 1e-9 || std::abs(sums[kAll + w] / kRanks - 1) > 1e-9) {
        return wrong(
            fmt::format("window {} has a mass of {} and a p of {}", w, sums[w], sums[kAll + w]));
      }
    }
    if (sums[kSums] + sums[kSums + 1] != sums[2 * kAll]) return wrong("a count was lost");
    if (context.rank() == 0) std::printf("%.0f steps\n", sums[2 * kAll + 1]);
    return context.win_free_all();
  }

  Context& context;
  std::mt19937 random;
  std::vector<weft::Memory> memories;
  std::vector<Window> windows;
  std::vector<weft::Output> tensors;
  int counted = 0;
  int steps = 0;
};

Status run(Context& context, std::int64_t end_ns) {
  WEFT_RETURN_IF_ERROR(context.set_graph(*weft::exponential_graph(kRanks)));
  Worker rank(context);
  WEFT_RETURN_IF_ERROR(rank.make());
  while (weft::now_ns() < end_ns) WEFT_RETURN_IF_ERROR(rank.step());
  return rank.settle();
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 10.0;
  weft::Config config;
  auto stores = weft::make_local_stores(kRanks);
  if (!stores.ok()) return 1;
  std::atomic<int> failures{0};
  std::vector<std::thread> ranks;
  const std::int64_t end_ns = weft::now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      Status status;
      {
        auto context = weft::Context::create(config, (*stores)[static_cast<std::size_t>(rank)]);
        status = context.ok() ? run(**context, end_ns) : context.status();
      }
      (void)(*stores)[static_cast<std::size_t>(rank)]->goodbye(weft::Deadline::after_ms(10'000));
      if (status.ok()) return;
      std::printf("rank %d: %s\n", rank, status.to_string().c_str());
      ++failures;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return failures == 0 ? 0 : 1;
}
