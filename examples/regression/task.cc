// Distances are taken in double precision by collectives that all ranks call.
#include "examples/regression/task.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "examples/shared/csv.h"

namespace regression {
namespace {

constexpr std::size_t kParts = 10;

double distance(Model a, Model b) {
  double sum = 0;
  for (std::size_t i = 0; i < kFeatures; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

}  // namespace

weft::Result<Task> read_task(const std::string& path, int rank, int ranks) {
  WEFT_ASSIGN(const Samples all, examples::read_file(path, read_samples));
  if (all.size() < static_cast<std::size_t>(ranks)) {
    return weft::Status(weft::Code::invalid_argument,
                        path + ": fewer samples than " + std::to_string(ranks) + " ranks");
  }
  WEFT_ASSIGN(std::vector<double> solution, least_squares(all));
  return Task{share(all, rank, ranks), ranks / static_cast<double>(all.size()),
              std::move(solution)};
}

weft::Result<Distances> measure(weft::Context& context, const Task& task, Model mine) {
  std::array<double, kFeatures> mean{};
  WEFT_RETURN_IF_ERROR(context.allreduce(weft::in(mine.data(), kFeatures),
                                         weft::out(mean.data(), kFeatures),
                                         weft::ReduceOp::average));
  const double unit = distance(task.solution, std::array<double, kFeatures>{});
  const std::array<double, 2> own{distance(mine, task.solution) / unit,
                                  distance(mine, mean) / unit};
  std::array<double, 2> largest{};
  WEFT_RETURN_IF_ERROR(context.allreduce(weft::in(own.data(), 2), weft::out(largest.data(), 2),
                                         weft::ReduceOp::max));
  return Distances{largest[0], largest[1]};
}

Progress::Progress(weft::Context& context, const Task& task, const std::string& title,
                   std::size_t iterations)
    : context_(context), task_(task), iterations_(iterations) {
  if (context_.rank() == 0) {
    std::printf("\n%s\n%12s%26s%20s\n", title.c_str(), "iterations", "distance to the solution",
                "consensus distance");
  }
}

weft::Status Progress::after(std::size_t iteration, Model mine) {
  if (iteration % std::max(iterations_ / kParts, std::size_t{1}) != 0) return {};
  WEFT_ASSIGN(distances_, measure(context_, task_, mine));
  if (context_.rank() == 0) {
    std::printf("%12zu%26.3e%20.3e\n", iteration, distances_.solution, distances_.consensus);
  }
  return {};
}

weft::Status expect_at_most(const std::string& what, double value, double most) {
  if (value <= most) return {};
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), " is %.3e; expected at most %.3e", value, most);
  return {weft::Code::mismatch, what + text.data()};
}

}  // namespace regression
