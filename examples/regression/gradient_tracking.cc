// gradient_tracking: fits a linear model to samples, of which each rank has only a part. In each
// step a rank sends to one other rank, without knowing who sends to it.
//
//   weft run -n 4 -- gradient_tracking examples/data/diabetes.csv [GRAPH [ITERATIONS]]
//
// The method is push-sum gradient tracking (BlueFog, appendix B, equations 27 to 31 and Listing 7)
// over the one-peer schedule of a graph. P = [p_ij] is the matrix of a step, in which each rank
// keeps one half and gives the other half away; g_i is the gradient of rank i:
//   u_i := sum_j p_ij (u_j - GAMMA y_j)       v_i := sum_j p_ij v_j       x_i := u_i / v_i
//   y_i := sum_j p_ij (y_j + g_j(new x_j) - g_j(old x_j))
// Columns of P sum to 1, rows do not: x_i = u_i / v_i corrects that, as in push-sum. The sum of all
// y is always the sum of the gradients, so each y_i goes to a share of that sum. The ranks come to
// rest where it is 0, at the solution, for any GAMMA that is small enough
// for the graph.
//
// A rank that receives learns only from what arrives who has sent to it (NeighborWeights: push).
//
// Exits with 1 if a rank's model is not the solution to 4 digits.
#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "examples/regression/program.h"
#include "examples/regression/task.h"
#include "examples/shared/tensor.h"

namespace regression {
namespace {

constexpr double kStepLength = 0.2;
constexpr std::size_t kIterations = 6000;  // for features that nearly follow from each other
constexpr double kLargestDistance = 1e-4;

// x := sum_j p_ij x_j, in place, with the P of this step.
weft::Status push(weft::Context& context, const weft::Schedule& schedule, std::size_t step,
                  std::span<double> x) {
  const weft::LocalView view = schedule.local_view(step, context.rank());
  std::vector<weft::NeighborWeight> shares;
  for (const weft::Peer& peer : view.out) shares.push_back({peer.rank, peer.weight});
  const weft::NeighborWeights how{
      .self = view.self_weight, .sources = {}, .destinations = shares, .push_sum = true};
  return context.neighbor_allreduce(weft::in(x.data(), x.size()), weft::out(x.data(), x.size()),
                                    how);
}

weft::Result<Distances> track(weft::Context& context, const weft::Schedule& schedule,
                              const Task& task, std::size_t iterations) {
  WEFT_ASSIGN(const auto u, examples::make_tensor<double>(kFeatures + 1));  // v is its last element
  WEFT_ASSIGN(const auto y, examples::make_tensor<double>(kFeatures));
  std::vector<double> x(kFeatures);
  std::vector<double> slope(kFeatures);
  std::vector<double> last_slope(kFeatures);
  u[kFeatures] = 1;
  gradient(x, task.mine, task.scale, last_slope);
  std::ranges::copy(last_slope, y.get());
  Progress progress(context, task, "push-sum gradient tracking", iterations);
  for (std::size_t k = 1; k <= iterations; ++k) {
    for (std::size_t i = 0; i < kFeatures; ++i) u[i] -= kStepLength * y[i];
    WEFT_RETURN_IF_ERROR(push(context, schedule, k, {u.get(), kFeatures + 1}));
    for (std::size_t i = 0; i < kFeatures; ++i) x[i] = u[i] / u[kFeatures];
    gradient(x, task.mine, task.scale, slope);
    for (std::size_t i = 0; i < kFeatures; ++i) y[i] += slope[i] - last_slope[i];
    std::swap(slope, last_slope);
    WEFT_RETURN_IF_ERROR(push(context, schedule, k, {y.get(), kFeatures}));
    WEFT_RETURN_IF_ERROR(progress.after(k, x));
  }
  return progress.distances();
}

weft::Status run(const Arguments& arguments) {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const Task task, read_task(arguments.path, context->rank(), context->size()));
  WEFT_ASSIGN(const weft::Graph graph, weft::make_graph(arguments.graph, context->size()));
  WEFT_RETURN_IF_ERROR(context->set_graph(graph));
  const weft::Schedule schedule = weft::one_peer(graph);
  if (context->rank() == 0) {
    std::printf("gradient_tracking: %d ranks, about %zu samples each; %s; step length %.2f\n",
                context->size(), task.mine.size(), schedule.name().c_str(), kStepLength);
  }
  WEFT_ASSIGN(const Distances distances, track(*context, schedule, task, arguments.iterations));
  WEFT_RETURN_IF_ERROR(
      expect_at_most("the distance to the solution", distances.solution, kLargestDistance));
  return expect_at_most("the consensus distance", distances.consensus, kLargestDistance);
}

}  // namespace
}  // namespace regression

int main(int argc, char** argv) {
  return regression::program(argc, argv, "gradient_tracking", {"", "grid", regression::kIterations},
                             regression::run);
}
