// exact_diffusion: fits a linear model to samples, of which each rank has only a part. It finds
// exactly the model that one rank with all samples would find.
//
//   weft run -n 4 -- exact_diffusion examples/data/diabetes.csv [GRAPH [ITERATIONS]]
//
// The method is in BlueFog, appendix A and Listing 6. Each rank takes a step along its own
// gradient, adds what the last averaging took away from its model, and averages with its
// in-neighbors. g_i is the gradient of rank i, GAMMA the step length:
//   psi_i := x_i - GAMMA g_i(x_i)
//   phi_i := psi_i + x_i - the last psi_i
//   x_i   := sum_j w_ij phi_j
// When the iteration comes to rest, the ranks agree and the mean of their gradients is 0, for any
// GAMMA that is small enough. The bias that keeps dgd at a distance accumulates in the correction
// and cancels. The method needs more from the weights than dgd does; weights.h says what and why.
//
// Exits with 1 if a rank's model is not the solution to 6 digits.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "examples/regression/program.h"
#include "examples/regression/task.h"
#include "examples/regression/weights.h"
#include "examples/shared/tensor.h"

namespace regression {
namespace {

constexpr double kStepLength = 0.2;
constexpr std::size_t kIterations = 10'000;
constexpr double kLargestDistance = 1e-6;

weft::Result<Distances> diffuse(weft::Context& context, const Task& task, std::size_t iterations) {
  WEFT_ASSIGN(const auto x, examples::make_tensor<double>(kFeatures));
  WEFT_ASSIGN(const auto phi, examples::make_tensor<double>(kFeatures));
  std::vector<double> last_psi(kFeatures);  // begins with the same values as x
  std::vector<double> slope(kFeatures);
  Progress progress(context, task, "exact diffusion", iterations);
  for (std::size_t k = 1; k <= iterations; ++k) {
    gradient({x.get(), kFeatures}, task.mine, task.scale, slope);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      const double psi = x[i] - kStepLength * slope[i];
      phi[i] = psi + x[i] - last_psi[i];
      last_psi[i] = psi;
    }
    WEFT_RETURN_IF_ERROR(
        context.neighbor_allreduce(weft::in(phi.get(), kFeatures), weft::out(x.get(), kFeatures)));
    WEFT_RETURN_IF_ERROR(progress.after(k, {x.get(), kFeatures}));
  }
  return progress.distances();
}

weft::Status run(const Arguments& arguments) {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const Task task, read_task(arguments.path, context->rank(), context->size()));
  WEFT_ASSIGN(const weft::Graph named, weft::make_graph(arguments.graph, context->size()));
  WEFT_RETURN_IF_ERROR(weft::check_doubly_stochastic(named));
  WEFT_RETURN_IF_ERROR(check_symmetric(named));
  WEFT_ASSIGN(const weft::Graph graph, halfway(named));
  WEFT_RETURN_IF_ERROR(context->set_graph(graph, true));
  if (context->rank() == 0) {
    std::printf("exact_diffusion: %d ranks, about %zu samples each; graph %s; step length %.2f\n",
                context->size(), task.mine.size(), graph.name().c_str(), kStepLength);
  }
  WEFT_ASSIGN(const Distances distances, diffuse(*context, task, arguments.iterations));
  WEFT_RETURN_IF_ERROR(
      expect_at_most("the distance to the solution", distances.solution, kLargestDistance));
  return expect_at_most("the consensus distance", distances.consensus, kLargestDistance);
}

}  // namespace
}  // namespace regression

int main(int argc, char** argv) {
  return regression::program(argc, argv, "exact_diffusion", {"", "ring", regression::kIterations},
                             regression::run);
}
