// digits: ranks learn to read handwritten digits. Each rank has its own images and talks only to
// its neighbors.
//
//   weft run -n 4 -- digits examples/data/digits.csv [GRAPH [METHOD]]
//
// METHOD is averaging (decentralized SGD), sgp (push-sum) or ad-psgd (pairs); methods.h says what
// they do. No rank sees all images, and none holds all models. For comparison, each rank also
// learns without its neighbors. Rank 0 also learns centrally: from all images, with the same number
// of steps, each on a batch as large as those of all ranks together.
//
// Exits with 1 if a rank reads less than 93% of the held-out images, or if the models do not agree.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/context/context.h"
#include "examples/digits/dataset.h"
#include "examples/digits/methods.h"
#include "examples/digits/softmax.h"
#include "examples/shared/csv.h"
#include "examples/shared/tensor.h"

namespace digits {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kHeldOutOneIn = 5;
constexpr double kLeastAccuracy = 0.93;
constexpr double kLargestDistance = 0.02;  // without averaging it is 0.3

struct Task {
  Dataset data;
  Split rows;
};

weft::Result<Task> read_task(const std::string& path, int ranks) {
  WEFT_ASSIGN(Dataset data, examples::read_file(path, read_dataset));
  Split rows = split(data.size(), kHeldOutOneIn, kSeed);
  if (rows.training.size() < static_cast<std::size_t>(ranks)) {
    return weft::Status(weft::Code::invalid_argument,
                        path + ": fewer images than " + std::to_string(ranks) + " ranks");
  }
  return Task{std::move(data), std::move(rows)};
}

std::vector<float> learn_alone(const Dataset& data, Batches batches) {
  std::vector<float> model(kParameters);
  for (std::size_t step = 0; step < kSteps; ++step) descend(data, batches, model);
  return model;
}

// The largest distance of a rank's model from the mean of all, relative to the mean's length.
weft::Result<double> consensus_distance(weft::Context& context, const float* model) {
  WEFT_ASSIGN(Tensor mean, examples::make_tensor<float>(kParameters));
  WEFT_RETURN_IF_ERROR(context.allreduce(
      weft::in(model, kParameters), weft::out(mean.get(), kParameters), weft::ReduceOp::average));
  double apart = 0;
  double length = 0;
  for (std::size_t i = 0; i < kParameters; ++i) {
    apart += std::pow(static_cast<double>(model[i]) - static_cast<double>(mean[i]), 2);
    length += std::pow(static_cast<double>(mean[i]), 2);
  }
  const double mine = std::sqrt(apart / length);
  double largest = 0;
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(&mine, 1), weft::out(&largest, 1), weft::ReduceOp::max));
  return largest;
}

// The values of `mine` of all ranks.
weft::Result<std::vector<double>> gather(weft::Context& context, double mine) {
  std::vector<double> own(static_cast<std::size_t>(context.size()));
  std::vector<double> all(own.size());
  own[static_cast<std::size_t>(context.rank())] = mine;
  WEFT_RETURN_IF_ERROR(context.allreduce(weft::in(own.data(), own.size()),
                                         weft::out(all.data(), all.size()), weft::ReduceOp::sum));
  return all;
}

struct Outcome {
  std::vector<double> together;  // accuracy of each rank
  std::vector<double> alone;
  double distance = 0;
};

weft::Result<Outcome> learn(weft::Context& context, const Task& task, const Method& method) {
  const Batches batches(share(task.rows.training, context.rank(), context.size()), kBatch,
                        kSeed + 1000 * static_cast<std::uint64_t>(context.rank() + 1));
  WEFT_ASSIGN(const Tensor model, learn_by(method, context, task.data, batches));
  const std::vector<float> alone = learn_alone(task.data, batches);
  const auto measure = [&](Model which) { return accuracy(which, task.data, task.rows.held_out); };

  Outcome outcome;
  WEFT_ASSIGN(outcome.distance, consensus_distance(context, model.get()));
  WEFT_ASSIGN(outcome.together, gather(context, measure({model.get(), kParameters})));
  WEFT_ASSIGN(outcome.alone, gather(context, measure(alone)));
  return outcome;
}

void print_report(const weft::Context& context, const Task& task, const std::string& how,
                  const Outcome& outcome) {
  const Rows& training = task.rows.training;
  const int ranks = context.size();
  const std::size_t batch = kBatch * static_cast<std::size_t>(ranks);
  const auto central = learn_alone(task.data, Batches(training, batch, kSeed));

  std::printf("digits: %zu images to learn from, %zu held out; %zu steps; %s\n", training.size(),
              task.rows.held_out.size(), kSteps, how.c_str());
  std::printf("%-12s%8s%7s  %s\n", "", "images", "batch", "accuracy on held-out images");
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::printf("rank %-7d%8zu%7zu  %.4f (without its neighbors %.4f)\n", rank,
                share(training, rank, ranks).size(), kBatch, outcome.together[r], outcome.alone[r]);
  }
  std::printf("%-12s%8zu%7zu  %.4f\n", "centralized", training.size(), batch,
              accuracy(central, task.data, task.rows.held_out));
  std::printf(
      "consensus distance %.1e: the largest distance of a model from their mean, relative\n",
      outcome.distance);
}

// All ranks reach the same verdict, because all judge the same numbers.
weft::Status judge(const Outcome& outcome) {
  const auto failed = [](const char* what, double is, const char* expected, double limit) {
    std::array<char, 128> text{};
    std::snprintf(text.data(), text.size(), "%s is %.4f; expected %s %.2f", what, is, expected,
                  limit);
    return weft::Status(weft::Code::mismatch, text.data());
  };
  const double worst = *std::ranges::min_element(outcome.together);
  if (!(worst >= kLeastAccuracy)) {  // NaN fails too
    return failed("the lowest accuracy", worst, "at least", kLeastAccuracy);
  }
  if (!(outcome.distance <= kLargestDistance)) {
    return failed("the consensus distance", outcome.distance, "at most", kLargestDistance);
  }
  return {};
}

weft::Result<Method> method_of(const std::string& name) {
  const auto* found = std::ranges::find(kMethods, name, &Method::name);
  if (found != kMethods.end()) return *found;
  std::string text = "there is no method " + name + ", only";
  for (const Method& method : kMethods) text.append(" ").append(method.name);
  return weft::Status(weft::Code::invalid_argument, text);
}

weft::Status run(const std::string& path, const std::string& graph_name,
                 const std::string& method_name) {
  WEFT_ASSIGN(const Method method, method_of(method_name));
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const Task task, read_task(path, context->size()));
  WEFT_ASSIGN(const weft::Graph graph, weft::make_graph(graph_name, context->size()));
  WEFT_RETURN_IF_ERROR(context->set_graph(graph, true));  // with the graph's weights w_ij
  WEFT_ASSIGN(const Outcome outcome, learn(*context, task, method));
  if (context->rank() == 0) {
    print_report(*context, task, "graph " + graph.name() + "; " + method_name, outcome);
  }
  return judge(outcome);
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr,
                 "usage: weft run -n RANKS -- digits examples/data/digits.csv [GRAPH [METHOD]]\n");
    return 2;
  }
  const weft::Status done =
      digits::run(argv[1], argc > 2 ? argv[2] : "exponential", argc > 3 ? argv[3] : "averaging");
  if (!done.ok()) std::fprintf(stderr, "digits: %s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
