// dgd: decentralized gradient descent fits a linear model to samples. Each rank has only a part of
// them.
//
//   weft run -n 4 -- dgd examples/data/diabetes.csv [GRAPH [ITERATIONS]]
//
// Each rank averages its model with those of its in-neighbors and takes a step along its own
// gradient, in one of two orders (BlueFog, equations 22 and 23; GAMMA is the step length):
//   adapt while communicating   x_i := sum_j w_ij x_j - GAMMA g_i(x_i)
//   adapt, then communicate     x_i := sum_j w_ij (x_j - GAMMA g_j(x_j))     (Listing 1)
// The first order computes the gradient while the models travel. Neither order reaches the
// solution. At the solution the mean of the ranks' gradients is 0, but the gradient of each rank is
// not, so each step pulls the ranks apart again. They settle at a distance that is proportional to
// GAMMA. The program shows this by halving GAMMA. exact_diffusion removes this bias.
//
// Exits with 1 if the distance is more than GAMMA, or if half of GAMMA does not bring it near half.
#include <cstdio>
#include <string>
#include <utility>

#include "examples/regression/program.h"
#include "examples/regression/task.h"
#include "examples/shared/tensor.h"

namespace regression {
namespace {

constexpr double kStepLength = 0.12;
constexpr std::size_t kIterations = 6667;  // slow directions shrink by e^-7
constexpr double kRemainder = 1e-3;    // e^-7: the part of the initial distance that is then left
constexpr double kLargestRatio = 0.7;  // of the distances with half and with the whole step length

enum class Order { while_communicating, then_communicate };

class Descent {
 public:
  static weft::Result<Descent> create(weft::Context& context, const Task& task) {
    WEFT_ASSIGN(auto model, examples::make_tensor<double>(kFeatures));
    WEFT_ASSIGN(auto combined, examples::make_tensor<double>(kFeatures));
    return Descent(context, task, std::move(model), std::move(combined));
  }

  weft::Status step(Order order, double length) {
    return order == Order::while_communicating ? adapt_while_communicating(length)
                                               : adapt_then_communicate(length);
  }

  [[nodiscard]] Model model() const { return {model_.get(), kFeatures}; }

 private:
  using Numbers = examples::Tensor<double>;
  Descent(weft::Context& context, const Task& task, Numbers model, Numbers combined)
      : context_(context), task_(task), model_(std::move(model)), combined_(std::move(combined)) {}

  weft::Status adapt_while_communicating(double length) {
    WEFT_ASSIGN(auto averaging,
                context_.neighbor_allreduce_start(weft::in(model_.get(), kFeatures),
                                                  weft::out(combined_.get(), kFeatures)));
    gradient(model(), task_.mine, task_.scale, slope_);
    WEFT_RETURN_IF_ERROR(averaging.wait());
    descend(combined_.get(), length);
    std::swap(model_, combined_);
    return {};
  }

  weft::Status adapt_then_communicate(double length) {
    gradient(model(), task_.mine, task_.scale, slope_);
    descend(model_.get(), length);
    WEFT_RETURN_IF_ERROR(context_.neighbor_allreduce(weft::in(model_.get(), kFeatures),
                                                     weft::out(combined_.get(), kFeatures)));
    std::swap(model_, combined_);
    return {};
  }

  void descend(double* x, double length) const {
    for (std::size_t i = 0; i < kFeatures; ++i) x[i] -= length * slope_[i];
  }

  weft::Context& context_;
  const Task& task_;
  Numbers model_;
  Numbers combined_;
  std::vector<double> slope_ = std::vector<double>(kFeatures);
};

weft::Result<Distances> descend(Descent& descent, Progress progress, Order order, double length) {
  for (std::size_t k = 1; k <= progress.iterations(); ++k) {
    WEFT_RETURN_IF_ERROR(descent.step(order, length));
    WEFT_RETURN_IF_ERROR(progress.after(k, descent.model()));
  }
  return progress.distances();
}

// The second descent begins where the first has settled.
weft::Status compare(weft::Context& context, const Task& task, Order order,
                     std::size_t iterations) {
  const std::string name =
      order == Order::while_communicating ? "adapt while communicating" : "adapt, then communicate";
  WEFT_ASSIGN(Descent descent, Descent::create(context, task));
  WEFT_ASSIGN(const Distances whole,
              descend(descent, {context, task, name, iterations}, order, kStepLength));
  WEFT_ASSIGN(const Distances half,
              descend(descent, {context, task, name + ", half the step length", iterations}, order,
                      kStepLength / 2));
  WEFT_RETURN_IF_ERROR(expect_at_most("the distance to the solution", whole.solution, kStepLength));
  return expect_at_most("the distance to the solution with half the step length", half.solution,
                        kLargestRatio * whole.solution + kRemainder);
}

weft::Status run(const Arguments& arguments) {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const Task task, read_task(arguments.path, context->rank(), context->size()));
  WEFT_ASSIGN(const weft::Graph graph, weft::make_graph(arguments.graph, context->size()));
  WEFT_RETURN_IF_ERROR(weft::check_doubly_stochastic(graph));  // weights.h says why
  WEFT_RETURN_IF_ERROR(context->set_graph(graph, true));
  if (context->rank() == 0) {
    std::printf("dgd: %d ranks, about %zu samples each; graph %s; step length %.2f\n",
                context->size(), task.mine.size(), graph.name().c_str(), kStepLength);
  }
  WEFT_RETURN_IF_ERROR(compare(*context, task, Order::while_communicating, arguments.iterations));
  return compare(*context, task, Order::then_communicate, arguments.iterations);
}

}  // namespace
}  // namespace regression

int main(int argc, char** argv) {
  return regression::program(argc, argv, "dgd", {"", "exponential", regression::kIterations},
                             regression::run);
}
