// consensus: the ranks find the mean of their vectors without waiting for each other.
//
//   weft run -n 4 -- consensus [GRAPH]
//
// This is asynchronous push-sum (BlueFog, equations 19 to 21 and Listing 3). Rank i has a vector
// x_i and a weight p_i, which is 1 at first. Again and again it keeps the share 1 / (out-degree + 1)
// of both, gives the same share to each out-neighbor, and adds what has arrived meanwhile:
//   win_accumulate: the shares go into the slots of the out-neighbors, which take no part
//   win_update_then_collect: x_i and p_i += the slots of the in-neighbors, which are empty then
// A rank that is faster than others gives and gets more often, so x_i alone goes to no mean. The
// sums of x and of p over all ranks, slots and messages under way never change, and x_i / p_i goes
// to the mean. The window moves p with the tensor (set_associated_p); Listing 3 appends it to x.
//
// Listing 3 takes the mutex of each receiver. Weft's slots need none: a collect takes each message
// exactly once, and whole.
//
// Every five iterations the ranks meet to see how near they are. Without that, on a machine with
// few cores, one rank could be done before the next begins, and nothing would mix.
//
// Exits with 1 if a rank is farther than 1e-10 from the mean in the end, or if the p of all ranks do
// not sum to their number.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "engine/context/context.h"
#include "examples/shared/tensor.h"

namespace {

constexpr std::size_t kElements = 1000;
constexpr int kMeetings = 50;
constexpr int kIterations = 5;  // of each rank between two meetings
constexpr int kMeetingsPerLine = 5;
constexpr double kLargestDistance = 1e-10;
constexpr double kLargestLoss = 1e-10;  // of the sum of p

using Tensor = examples::Tensor<double>;

void fill(double* x, weft::Rank rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  for (std::size_t i = 0; i < kElements; ++i)
    x[i] = static_cast<double>(random() >> 11) * 0x1p-53;  // 0 … 1
}

struct Found {
  double distance = 0;  // the largest of |x_i / p_i - mean|, over all ranks and elements
  double sum_p = 0;     // in the tensors alone; the rest is in slots
  double lowest_p = 0;
  double highest_p = 0;
};

// Collective.
weft::Result<Found> look(weft::Context& context, weft::Window& window, const double* x,
                         const std::vector<double>& mean) {
  WEFT_ASSIGN(const double p, window.associated_p());
  double distance = 0;
  for (std::size_t i = 0; i < kElements; ++i)
    distance = std::max(distance, std::abs(x[i] / p - mean[i]));
  const std::array<double, 3> mine{distance, p, -p};
  std::array<double, 3> most{};
  Found found;
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(mine.data(), 3), weft::out(most.data(), 3), weft::ReduceOp::max));
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(&p, 1), weft::out(&found.sum_p, 1), weft::ReduceOp::sum));
  found.distance = most[0];
  found.highest_p = most[1];
  found.lowest_p = -most[2];
  return found;
}

void print(const weft::Context& context, const char* when, const Found& found) {
  if (context.rank() != 0) return;
  std::printf("%12s%24.3e%12.6f%10.3f … %.3f\n", when, found.distance, found.sum_p, found.lowest_p,
              found.highest_p);
}

weft::Result<Found> find_consensus(weft::Context& context, double* x,
                                   const std::vector<double>& mean) {
  WEFT_ASSIGN(weft::Window window,
              context.win_create(weft::out(x, kElements), "x", {.zero_init = true}));
  WEFT_RETURN_IF_ERROR(window.set_associated_p(true));
  const double share = 1.0 / (static_cast<double>(window.out_neighbors().size()) + 1);
  std::vector<weft::NeighborWeight> shares;
  for (const weft::Rank rank : window.out_neighbors()) shares.push_back({rank, share});

  WEFT_RETURN_IF_ERROR(context.barrier());  // all have switched p on
  for (int meeting = 1; meeting <= kMeetings; ++meeting) {
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      WEFT_RETURN_IF_ERROR(
          window.accumulate(window.tensor(), {.self_weight = share, .destinations = shares}));
      WEFT_RETURN_IF_ERROR(window.update_then_collect());
    }
    WEFT_ASSIGN(const Found found, look(context, window, x, mean));
    if (meeting % kMeetingsPerLine == 0)
      print(context, std::to_string(meeting * kIterations).c_str(), found);
  }
  WEFT_RETURN_IF_ERROR(context.barrier());  // no message is under way any more
  WEFT_RETURN_IF_ERROR(window.update_then_collect());
  WEFT_ASSIGN(const Found found, look(context, window, x, mean));
  print(context, "the rest", found);
  WEFT_RETURN_IF_ERROR(context.win_free("x"));
  return found;
}

weft::Status judge(const Found& found, int ranks) {
  std::array<char, 128> text{};
  if (!(found.distance <= kLargestDistance)) {
    std::snprintf(text.data(), text.size(), "a rank is %.3e from the mean; expected at most %.0e",
                  found.distance, kLargestDistance);
  } else if (!(std::abs(found.sum_p - ranks) <= kLargestLoss)) {
    std::snprintf(text.data(), text.size(), "the p of %d ranks sum to %.12f", ranks, found.sum_p);
  } else {
    return {};
  }
  return {weft::Code::mismatch, text.data()};
}

weft::Status run(const std::string& graph_name) {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const weft::Graph graph, weft::make_graph(graph_name, context->size()));
  WEFT_RETURN_IF_ERROR(context->set_graph(graph));
  WEFT_ASSIGN(const Tensor x, examples::make_tensor<double>(kElements));
  fill(x.get(), context->rank());
  std::vector<double> mean(kElements);  // only for comparison
  WEFT_RETURN_IF_ERROR(context->allreduce(
      weft::in(x.get(), kElements), weft::out(mean.data(), kElements), weft::ReduceOp::average));
  if (context->rank() == 0) {
    std::printf("consensus: %d ranks, %zu elements; graph %s\n%12s%24s%12s%18s\n", context->size(),
                kElements, graph.name().c_str(), "iterations", "distance to the mean", "sum of p",
                "p of the ranks");
  }
  WEFT_ASSIGN(const Found found, find_consensus(*context, x.get(), mean));
  return judge(found, context->size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: weft run -n RANKS -- consensus [GRAPH]\n");
    return 2;
  }
  const weft::Status done = run(argc == 2 ? argv[1] : "exponential");
  if (!done.ok()) std::fprintf(stderr, "consensus: %s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
