// A rank of a gradient exchange among several hosts: checks every mean, and tells what each rail has carried.
//
//   tools/netns -n 4 -r 2 --rates 100 --each exchange_program COLAYERS BYTES ITERATIONS LEAST
//
// COLAYERS of BYTES each travel in each of ITERATIONS, under the rule `bulk`. Rank 0 prints one JSON line: the
// median iteration, and the share of the rail that carried the least of what this host has sent. The exit status
// is 1 if that share is below LEAST.
#include <weft/gradient_exchange.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "engine/context/context.h"

namespace weft {
namespace {

struct Job {
  std::size_t colayers = 0;
  std::size_t count = 0;  // elements of each
  int iterations = 0;
  double least = 0;
};

// Of a rail of this host, by the kernel; nothing: there is no such rail.
std::optional<double> sent_bytes(std::size_t rail) {
  std::ifstream file("/sys/class/net/rail" + std::to_string(rail) + "/statistics/tx_bytes");
  double bytes = 0;
  return file >> bytes ? std::optional(bytes) : std::nullopt;
}

// Whole numbers, whose mean over four ranks is exact.
float given(Rank rank, int iteration, std::size_t colayer) {
  return static_cast<float>(static_cast<std::size_t>(rank + 4 * iteration) + 3 * colayer);
}

Status iterate(GradientExchange& exchange, Context& context, const Job& job, int iteration,
               std::vector<float>& mean) {
  WEFT_RETURN_IF_ERROR(exchange.begin());
  for (std::size_t colayer = 0; colayer < job.colayers; ++colayer) {
    const std::vector<float> gradient(job.count, given(context.rank(), iteration, colayer));
    WEFT_RETURN_IF_ERROR(exchange.push(static_cast<int>(colayer), in(gradient.data(), job.count)));
  }
  WEFT_RETURN_IF_ERROR(exchange.end_iteration(out(mean.data(), mean.size())).status());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    float right = 0;
    for (Rank rank = 0; rank < context.size(); ++rank)
      right += given(rank, iteration, i / job.count);
    right /= static_cast<float>(context.size());
    if (mean[i] == right) continue;
    return {Code::system, "element " + std::to_string(i) + " of the mean is " +
                              std::to_string(mean[i]) + ", not " + std::to_string(right)};
  }
  return {};
}

Status run(const Job& job) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::from_environment());
  std::vector<float> model(job.colayers * job.count), mean(model.size());
  const std::vector<std::size_t> colayers(job.colayers, job.count);
  WEFT_ASSIGN(GradientExchange exchange,
              GradientExchange::create(*context, out(model.data(), model.size()), colayers,
                                       {.rule = ExchangeRule::bulk}));
  std::vector<double> before;
  while (const auto sent = sent_bytes(before.size())) before.push_back(*sent);
  std::vector<double> times_us;
  for (int iteration = 0; iteration < job.iterations; ++iteration) {
    const std::int64_t begin = now_ns();
    WEFT_RETURN_IF_ERROR(iterate(exchange, *context, job, iteration, mean));
    times_us.push_back(static_cast<double>(now_ns() - begin) / 1000);
  }
  WEFT_RETURN_IF_ERROR(exchange.end());
  double all = 0, least = 0;
  for (std::size_t rail = 0; rail < before.size(); ++rail) {
    const double sent = sent_bytes(rail).value_or(0) - before[rail];
    all += sent;
    least = rail == 0 ? sent : std::min(least, sent);
  }
  std::ranges::sort(times_us);
  if (context->rank() == 0) {
    std::printf(
        "{\"op\": \"exchange\", \"p50_us\": %.0f, \"least_share\": %.3f, \"bytes\": %.0f}\n",
        times_us[times_us.size() / 2], least / all, all);
  }
  if (least >= job.least * all) return {};
  return {Code::system, "a rail has carried " + std::to_string(least / all) + " of the bytes"};
}

}  // namespace
}  // namespace weft

int main(int count, char** words) {
  if (count != 5) return 2;
  const weft::Job job{.colayers = std::strtoul(words[1], nullptr, 10),
                      .count = std::strtoul(words[2], nullptr, 10) / sizeof(float),
                      .iterations = std::atoi(words[3]),
                      .least = std::atof(words[4])};
  const weft::Status done = weft::run(job);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
