// gradient_tracking: fits a linear model to samples, of which each rank has only a part. In each step
// a rank sends to one other rank, without knowing who sends to it.
//
//   weft run -n 4 -- gradient_tracking examples/data/diabetes.csv [GRAPH]
//
// The method is push-sum gradient tracking (BlueFog, appendix B, equations 27 to 31 and Listing 7)
// over the one-peer schedule of a graph. P = [p_ij] is the matrix of a step, in which each rank
// keeps one half and gives the other half away; g_i is the gradient of rank i:
//   u_i := sum_j p_ij (u_j - GAMMA y_j)       v_i := sum_j p_ij v_j       x_i := u_i / v_i
//   y_i := sum_j p_ij (y_j + g_j(new x_j) - g_j(old x_j))
// Columns of P sum to 1, rows do not: x_i = u_i / v_i corrects that, as in push-sum. The sum of all
// y is always the sum of the gradients, so each y_i goes to a share of that sum. The ranks come to
// rest where it is 0, at the solution, for any GAMMA that is small enough.
//
// u with v, and y, are two PushSum objects over the same schedule; the weight of the first is v.
//
// Exits with 1 if a rank's model is not the solution to 6 digits.
#include <cstdio>
#include <string>
#include <vector>

#include "engine/algorithms/algorithms.h"
#include "examples/regression/task.h"
#include "examples/shared/tensor.h"

namespace regression {
namespace {

constexpr double kStepLength = 0.15;
constexpr std::size_t kIterations = 12'000;
constexpr double kLargestDistance = 1e-6;

weft::Result<Distances> track(weft::Context& context, const weft::Schedule& schedule,
                              const Task& task) {
  WEFT_ASSIGN(const auto u, examples::make_tensor<double>(kFeatures));
  WEFT_ASSIGN(const auto y, examples::make_tensor<double>(kFeatures));
  WEFT_ASSIGN(
      weft::PushSum models,
      weft::PushSum::create(context, schedule, weft::out(u.get(), kFeatures), {.name = "models"}));
  WEFT_ASSIGN(
      weft::PushSum slopes,
      weft::PushSum::create(context, schedule, weft::out(y.get(), kFeatures), {.name = "slopes"}));
  std::vector<double> x(kFeatures);
  std::vector<double> slope(kFeatures);
  std::vector<double> last_slope(kFeatures);
  gradient(x, task.mine, task.scale, last_slope);
  std::copy(last_slope.begin(), last_slope.end(), y.get());
  Progress progress(context, task, "push-sum gradient tracking", kIterations);
  for (std::size_t k = 1; k <= kIterations; ++k) {
    for (std::size_t i = 0; i < kFeatures; ++i) u[i] -= kStepLength * y[i];
    WEFT_RETURN_IF_ERROR(models.step());
    WEFT_RETURN_IF_ERROR(models.debias(weft::out(x.data(), kFeatures)));
    gradient(x, task.mine, task.scale, slope);
    for (std::size_t i = 0; i < kFeatures; ++i) y[i] += slope[i] - last_slope[i];
    std::swap(slope, last_slope);
    WEFT_RETURN_IF_ERROR(slopes.step());
    WEFT_RETURN_IF_ERROR(progress.after(k, x));
  }
  WEFT_RETURN_IF_ERROR(models.end());
  WEFT_RETURN_IF_ERROR(slopes.end());
  return progress.distances();
}

weft::Status run(const std::string& path, const std::string& graph_name) {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const Task task, read_task(path, context->rank(), context->size()));
  WEFT_ASSIGN(const weft::Graph graph, weft::make_graph(graph_name, context->size()));
  const weft::Schedule schedule = weft::one_peer(graph);
  if (context->rank() == 0) {
    std::printf("gradient_tracking: %d ranks, about %zu samples each; %s; step length %.2f\n",
                context->size(), task.mine.size(), schedule.name().c_str(), kStepLength);
  }
  WEFT_ASSIGN(const Distances distances, track(*context, schedule, task));
  WEFT_RETURN_IF_ERROR(
      expect_at_most("the distance to the solution", distances.solution, kLargestDistance));
  return expect_at_most("the consensus distance", distances.consensus, kLargestDistance);
}

}  // namespace
}  // namespace regression

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr,
                 "usage: weft run -n RANKS -- gradient_tracking examples/data/diabetes.csv "
                 "[GRAPH]\n");
    return 2;
  }
  const weft::Status done = regression::run(argv[1], argc == 3 ? argv[2] : "grid");
  if (!done.ok()) std::fprintf(stderr, "gradient_tracking: %s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
