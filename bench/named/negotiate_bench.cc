// How long ranks take to agree on names, on a simulated network: a message takes so long on its
// way, and costs its sender and its receiver so much of their time. The negotiators are those of
// the engine (scheduler/negotiate).
//
//   bench_negotiate [TENSORS [LATENCY_US [MESSAGE_US]]]
//
// Prints one JSON object for each number of ranks: a cycle of names that all ranks know, and one
// without a response cache, in which rank 0 hears of every name.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <queue>
#include <string>
#include <vector>

#include "scheduler/negotiate/negotiate.h"

namespace {

using weft::Negotiator;

struct Costs {
  double latency_us = 5;
  double message_us = 1;
};

class Simulation {
 public:
  Simulation(int ranks, std::size_t cache, const Costs& costs)
      : costs_(costs), free_us_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank)
      ranks_.emplace_back(
          weft::NegotiateOptions{.rank = rank, .size = ranks, .cache_capacity = cache});
  }

  // All ranks submit all names at once. Returns when the last rank knows the last decision.
  double round_us(int tensors) {
    const double begin = *std::ranges::max_element(free_us_);
    std::ranges::fill(free_us_, begin);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (int tensor = 0; tensor < tensors; ++tensor) {
        weft::NamedRequest request;
        request.name = "layer" + std::to_string(tensor);
        request.tensors = {{weft::DataType::f32, 1024}};
        (void)ranks_[rank].submit(std::move(request), 0);
      }
      ranks_[rank].step(0);
      collect(rank);
    }
    while (!under_way_.empty()) {
      Message message = under_way_.top();
      under_way_.pop();
      const auto to = static_cast<std::size_t>(message.to);
      free_us_[to] = std::max(free_us_[to], message.at_us) + costs_.message_us;
      ranks_[to].receive(message.from, message.bytes, 0);
      ranks_[to].step(0);
      collect(to);
    }
    return *std::ranges::max_element(free_us_) - begin;
  }
  [[nodiscard]] const Negotiator::Counts& counts(std::size_t rank) const {
    return ranks_[rank].counts();
  }

 private:
  struct Message {
    double at_us;
    int from, to;
    std::vector<std::byte> bytes;
    std::uint64_t order;  // messages of one wire keep theirs
    bool operator<(const Message& other) const {
      return at_us != other.at_us ? at_us > other.at_us : order > other.order;
    }
  };

  void collect(std::size_t rank) {
    for (weft::ControlMessage& message : ranks_[rank].take_messages()) {
      free_us_[rank] += costs_.message_us;
      under_way_.push({free_us_[rank] + costs_.latency_us, static_cast<int>(rank), message.to,
                       std::move(message.bytes), order_++});
    }
    (void)ranks_[rank].take_decisions();
  }

  const Costs costs_;
  std::vector<Negotiator> ranks_;
  std::vector<double> free_us_;  // when each rank has time again
  std::priority_queue<Message> under_way_;
  std::uint64_t order_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int tensors = argc > 1 ? std::atoi(argv[1]) : 161;
  Costs costs;
  if (argc > 2) costs.latency_us = std::atof(argv[2]);
  if (argc > 3) costs.message_us = std::atof(argv[3]);
  for (int ranks = 2; ranks <= 1024; ranks *= 2) {
    Simulation cached(ranks, 4096, costs);
    (void)cached.round_us(tensors);
    const Negotiator::Counts before = cached.counts(0);
    const double cached_us = cached.round_us(tensors);
    const Negotiator::Counts after = cached.counts(0);
    Simulation uncached(ranks, 0, costs);
    const double uncached_us = uncached.round_us(tensors);
    fmt::print(
        R"({{"op":"negotiate","ranks":{},"tensors":{},"cached_us":{:.1f},"uncached_us":{:.1f},)"
        R"("messages":{},"control_bytes":{},"coordinator_messages":{}}})"
        "\n",
        ranks, tensors, cached_us, uncached_us, after.messages - before.messages,
        after.bytes - before.bytes, after.coordinator_messages - before.coordinator_messages);
  }
  return 0;
}
