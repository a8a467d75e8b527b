// What the strategies have in common: arithmetic on tensors of the model's shape, and averages that
// are counted.
#include "engine/strategies/method.h"

#include <weft/graph/schedule.h>

#include <cstring>
#include <utility>
#include <vector>

#include "engine/compress/compress.h"

namespace weft {

StrategyMethod::StrategyMethod(StrategySetup setup) : setup_(std::move(setup)) {}

Status StrategyMethod::open_all() {
  if (options().momentum) {
    WEFT_ASSIGN(momentum_, vector());
  }
  if (options().peers) {
    WEFT_ASSIGN(const Schedule made, *options().peers == 1
                                         ? one_peer_exponential(context().size())
                                         : two_peer_exponential(context().size()));
    schedule_.emplace(made);
  }
  return open();
}

std::size_t StrategyMethod::bytes() const {
  return setup_.model.count * size_of(type());
}

Result<std::shared_ptr<Memory>> StrategyMethod::shared_vector() const {
  WEFT_ASSIGN(Memory made, vector());
  return std::make_shared<Memory>(std::move(made));
}

void StrategyMethod::set(void* to, std::initializer_list<Term> terms) const {
  if (setup_.model.count == 0) return;
  combine(type(), Reduction::weighted_sum, {terms.begin(), terms.size()}, to, setup_.model.count);
}

void StrategyMethod::copy(void* to, const void* from) const {
  if (bytes() != 0) std::memcpy(to, from, bytes());
}

void StrategyMethod::descend(void* x, const void* gradient, std::size_t first, std::size_t count) {
  if (count == 0) return;
  const auto part = [&](void* whole) {
    return static_cast<std::byte*>(whole) + first * size_of(type());
  };
  const void* slope = gradient;
  if (options().momentum) {
    const Term terms[] = {{part(momentum()), *options().momentum}, {gradient, 1.0}};
    combine(type(), Reduction::weighted_sum, terms, part(momentum()), count);
    slope = part(momentum());
  }
  const Term terms[] = {{part(x), 1.0}, {slope, -rate()}};
  combine(type(), Reduction::weighted_sum, terms, part(x), count);
}

Status StrategyMethod::average_all(const void* x, void* y, AllreduceAlgorithm algorithm) {
  count_reduced(static_cast<std::size_t>(context().size()));
  return context().run({.collective = Collective::allreduce,
                        .input = input(x),
                        .output = output(y),
                        .algorithm = algorithm,
                        .compression = options().compression});
}

Result<Handle> StrategyMethod::average_neighbors_start(const void* x, void* y) {
  Request request{.collective = Collective::neighbor_allreduce,
                  .input = input(x),
                  .output = output(y),
                  .compression = options().compression};
  if (!schedule_) {
    count_sent(context().graph().out_edges(context().rank()).size());
    return context().start(request);
  }
  const LocalView view = schedule_->local_view(counts_.steps, context().rank());
  std::vector<NeighborWeight> sources, destinations;
  for (const Peer& peer : view.in) sources.push_back({peer.rank, peer.weight});
  for (const Peer& peer : view.out) destinations.push_back({peer.rank, 1.0});
  const NeighborWeights weights{
      .self = view.self_weight, .sources = sources, .destinations = destinations};
  request.weights = &weights;
  count_sent(destinations.size());
  return context().start(request);
}

Status StrategyMethod::average_neighbors(const void* x, void* y) {
  WEFT_ASSIGN(Handle averaging, average_neighbors_start(x, y));
  return averaging.wait();
}

void StrategyMethod::count_sent(std::size_t tensors) {
  counts_.bytes += tensors * (options().compression == Compression::none
                                  ? bytes()
                                  : encoded_bytes(options().compression, setup_.model.count));
}

void StrategyMethod::count_reduced(std::size_t ranks) {
  const StrategyCounts before = counts_;
  count_sent(2 * (ranks - 1));
  counts_.bytes = before.bytes + (counts_.bytes - before.bytes) / ranks;
}

}  // namespace weft
