// parameter_server: rank 0 gets all gradients and sends the model to all, as a server does that is also
// a worker. Its link carries what the links of all others carry together.
// sharded_server: every rank is the server of a share of the model (BytePS).
#include "engine/strategies/table.h"
#include "scheduler/plan/plan.h"

namespace weft {
namespace {

using Peers = std::vector<NeighborWeight>;

class ParameterServer : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status open() override {
    WEFT_ASSIGN(mean_, vector());
    for (Rank rank = 1; rank < context().size(); ++rank) {
      sources_.push_back({rank, 1.0 / context().size()});
      workers_.push_back({rank, 1.0});
    }
    return {};
  }
  Status step(const void* gradient) override {
    const bool is_server = context().rank() == 0;
    count_sent(is_server ? workers_.size() : 1);
    WEFT_RETURN_IF_ERROR(exchange(gradient, mean_.data(), is_server ? sources_ : Peers(),
                                  is_server ? Peers() : kServer, 1.0 / context().size()));
    if (is_server) descend(model(), mean_.data());
    return exchange(model(), model(), is_server ? Peers() : kServer, is_server ? workers_ : Peers(),
                    is_server ? 1.0 : 0.0);
  }

 private:
  Status exchange(const void* x, void* y, const Peers& sources, const Peers& destinations,
                  double self) const {
    return context().neighbor_allreduce(
        input(x), output(y), {.self = self, .sources = sources, .destinations = destinations});
  }

  const Peers kServer{{0, 1.0}};
  Peers sources_;  // of the server
  Peers workers_;
  Memory mean_;
};

class ShardedServer : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status open() override {
    const auto ranks = static_cast<std::uint32_t>(context().size());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Range range = block_range(setup().model.count, 1, ranks, rank);
      if (rank == static_cast<std::uint32_t>(context().rank())) first_ = range.offset;
      counts_of_.push_back(range.count);
    }
    WEFT_ASSIGN(mean_, Memory::allocate(mine() * size_of(type())));
    return {};
  }
  Status step(const void* gradient) override {
    count_reduced(static_cast<std::size_t>(context().size()));
    WEFT_RETURN_IF_ERROR(context().reduce_scatter(input(gradient), {mean_.data(), mine(), type()},
                                                  ReduceOp::average, counts_of_));
    descend(model(), mean_.data(), first_, mine());
    const auto* own = static_cast<std::byte*>(model()) + first_ * size_of(type());
    return context().allgather({own, mine(), type()}, output(model()), counts_of_);
  }

 private:
  [[nodiscard]] std::size_t mine() const {
    return counts_of_[static_cast<std::size_t>(context().rank())];
  }

  std::vector<std::size_t> counts_of_;  // elements of each rank's share
  std::size_t first_ = 0;               // of this rank's share
  Memory mean_;                         // of this share
};

}  // namespace

std::unique_ptr<StrategyMethod> make_parameter_server(StrategySetup setup) {
  return std::make_unique<ParameterServer>(std::move(setup));
}
std::unique_ptr<StrategyMethod> make_sharded_server(StrategySetup setup) {
  return std::make_unique<ShardedServer>(std::move(setup));
}

}  // namespace weft
