// dpsgd, dmsgd, qg_dmsgd, hierarchical: averages over the neighbors of a graph.
#include "engine/strategies/table.h"

namespace weft {
namespace {

// Adapt then combine: x_i := sum_j w_ij (x_j - r g_j).
class DecentralizedSgd : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status step(const void* gradient) override {
    descend(model(), gradient);
    return average_neighbors(model(), model());
  }
};

// Adapt while combining: x_i := sum_j w_ij x_j - r g_i.
class DecentralizedSgdWhile : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;
  // An iteration that is given up: its sum still comes to next_, and is of the model.
  ~DecentralizedSgdWhile() override {
    if (combining_.is_empty() || combining_.test()) return;
    const auto keep = [next = next_, owner = options().owner](const Status&) {};
    if (options().owner == nullptr || !combining_.then(keep).ok()) (void)combining_.wait();
  }

  Status open() override {
    WEFT_ASSIGN(next_, shared_vector());
    return {};
  }
  Status begin() override {
    WEFT_ASSIGN(combining_, average_neighbors_start(model(), next_->data()));
    return {};
  }
  Status step(const void* gradient) override {
    WEFT_RETURN_IF_ERROR(combining_.wait());
    descend(next_->data(), gradient);
    copy(model(), next_->data());
    return {};
  }

 private:
  std::shared_ptr<Memory> next_;
  Handle combining_;
};

// DmSGD (Yu, Jin and Yang 2019): m_i := sum_j w_ij m_j beside x.
class DecentralizedMomentum : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status step(const void* gradient) override {
    descend(model(), gradient);
    WEFT_ASSIGN(Handle momenta, average_neighbors_start(momentum(), momentum()));
    WEFT_RETURN_IF_ERROR(average_neighbors(model(), model()));
    return momenta.wait();
  }
};

// QG-DmSGD (Lin et al. 2021). With b the momentum:
//   y_i := sum_j w_ij (x_j - r (g_j + b m_j)),   m_i := b m_i + (1 - b) (x_i - y_i) / r,   x_i := y_i
class QuasiGlobalMomentum : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status open() override {
    WEFT_ASSIGN(next_, vector());
    return {};
  }
  Status step(const void* gradient) override {
    const double b = *options().momentum;
    const double share = (1 - b) / rate();
    void* next = next_.data();
    set(next, {{model(), 1.0}, {gradient, -rate()}, {momentum(), -rate() * b}});
    WEFT_RETURN_IF_ERROR(average_neighbors(next, next));
    set(momentum(), {{momentum(), b}, {model(), share}, {next, -share}});
    copy(model(), next);
    return {};
  }

 private:
  Memory next_;
};

// dpsgd over machines, each of which is the mean of its ranks. Machines without a graph get an
// exponential one.
class Hierarchical : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status open() override {
    WEFT_ASSIGN(placement_, context().placement());
    if (!context().machine_graph()) {
      WEFT_ASSIGN(const Graph graph, exponential_graph(placement_.machine_size));
      WEFT_RETURN_IF_ERROR(context().set_machine_graph(graph));
    }
    receivers_ = context().machine_graph()->out_edges(placement_.machine_rank).size();
    return {};
  }
  Status step(const void* gradient) override {
    descend(model(), gradient);
    const auto local = static_cast<std::size_t>(placement_.local_size);
    count_reduced(local);
    counts().bytes += receivers_ * bytes() / local;
    return context().hierarchical_neighbor_allreduce(input(model()), output(model()));
  }

 private:
  Context::Placement placement_;
  std::size_t receivers_ = 0;  // machines
};

StrategySetup with_momentum(StrategySetup setup) {
  if (!setup.options.momentum) setup.options.momentum = 0.9;
  return setup;
}

}  // namespace

std::unique_ptr<StrategyMethod> make_dpsgd(StrategySetup setup) {
  return std::make_unique<DecentralizedSgd>(std::move(setup));
}
std::unique_ptr<StrategyMethod> make_dpsgd_awc(StrategySetup setup) {
  return std::make_unique<DecentralizedSgdWhile>(std::move(setup));
}
std::unique_ptr<StrategyMethod> make_dmsgd(StrategySetup setup) {
  return std::make_unique<DecentralizedMomentum>(with_momentum(std::move(setup)));
}
std::unique_ptr<StrategyMethod> make_qg_dmsgd(StrategySetup setup) {
  return std::make_unique<QuasiGlobalMomentum>(with_momentum(std::move(setup)));
}
std::unique_ptr<StrategyMethod> make_hierarchical(StrategySetup setup) {
  return std::make_unique<Hierarchical>(std::move(setup));
}

}  // namespace weft
