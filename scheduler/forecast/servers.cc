// parameter_server: the gradients of all go to rank 0, and its model to all.
// hierarchical: means of machines, which go to the neighbors of each machine.
#include <weft/graph/generators.h>

#include "scheduler/forecast/table.h"

namespace weft {
namespace {

class ParameterServerModel : public TrainingModel {
 public:
  using TrainingModel::TrainingModel;

  void computed(Rank rank) override {
    Training& it = training();
    const double bytes = it.job().model_bytes;
    const double there = rank == 0 ? it.now() : it.fabric().send(it.now(), rank, 0, bytes);
    const auto all_there = it.arrive(it.iteration(rank), 0, it.all().size(), there);
    if (all_there) it.at(*all_there, [this] { answer(); });
  }

 private:
  void answer() {
    Training& it = training();
    double last = it.now();
    for (Rank rank = 1; rank < it.job().ranks; ++rank) {
      const double there = it.fabric().send(it.now(), 0, rank, it.job().model_bytes);
      it.end(rank, there);
      last = std::max(last, there);
    }
    it.end(0, last);
  }
};

class HierarchicalModel : public TrainingModel {
 public:
  explicit HierarchicalModel(Training& training)
      : TrainingModel(training), graph_(exponential_graph(training.fabric().machines()).value()) {}

  void computed(Rank rank) override {
    Training& it = training();
    const int machine = it.fabric().machine_of(rank);
    const std::span<const Rank> members = ranks_of(machine);
    if (!it.is_last(2 * it.iteration(rank), machine, members.size())) return;
    const double bytes = it.job().model_bytes;
    const double mean_at =
        members.size() < 2 ? it.now()
                           : it.fabric().average(it.now(), members, bytes, AverageWay::by_machine);
    it.at(mean_at, [this, machine] { send(machine); });
  }

 private:
  [[nodiscard]] std::span<const Rank> ranks_of(int machine) const {
    const auto size = static_cast<std::size_t>(training().job().per_machine);
    return std::span(training().all()).subspan(static_cast<std::size_t>(machine) * size, size);
  }
  void send(int machine) {
    Training& it = training();
    const Rank from = ranks_of(machine).front();
    const std::uint64_t step = it.iteration(from);
    for (const Peer& peer : graph_.out_edges(machine)) {
      const Rank to = ranks_of(peer.rank).front();
      take(step, peer.rank, it.fabric().send(it.now(), from, to, it.job().model_bytes));
    }
    take(step, machine, it.now());
  }
  // The machine's own mean, or that of another one.
  void take(std::uint64_t step, int machine, double there) {
    const auto all_there =
        training().arrive(2 * step + 1, machine, graph_.in_edges(machine).size() + 1, there);
    if (!all_there) return;
    for (const Rank rank : ranks_of(machine)) training().end(rank, *all_there);
  }

  const Graph graph_;  // of the machines
};

}  // namespace

std::unique_ptr<TrainingModel> forecast_parameter_server(Training& training) {
  return std::make_unique<ParameterServerModel>(training);
}
std::unique_ptr<TrainingModel> forecast_hierarchical(Training& training) {
  return std::make_unique<HierarchicalModel>(training);
}

}  // namespace weft
