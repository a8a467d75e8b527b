// dpsgd, dmsgd, sgp: each rank waits for its neighbors of the step. ad_psgd: nobody waits.
#include <weft/graph/schedule.h>

#include "scheduler/forecast/table.h"

namespace weft {
namespace {

class NeighborsModel : public TrainingModel {
 public:
  struct Options {
    int tensors = 1;         // to each neighbor
    bool is_beside = false;  // they travel while the gradient is computed
  };
  NeighborsModel(Training& training, Options options) : TrainingModel(training), options_(options) {
    const std::optional<int>& peers = training.job().peers;
    if (!peers) return;
    const int ranks = training.job().ranks;
    schedule_.emplace(
        (*peers == 1 ? one_peer_exponential(ranks) : two_peer_exponential(ranks)).value());
  }

  void begun(Rank rank) override {
    if (options_.is_beside) send(rank);
  }
  void computed(Rank rank) override {
    if (!options_.is_beside) send(rank);
    take(training().iteration(rank), rank, training().now());
  }

 private:
  void send(Rank rank) {
    const std::uint64_t step = training().iteration(rank);
    if (schedule_) return send(step, rank, schedule_->local_view(step, rank).out);
    send(step, rank, training().job().graph->out_edges(rank));
  }
  void send(std::uint64_t step, Rank rank, std::span<const Peer> receivers) {
    const double bytes = options_.tensors * training().job().model_bytes;
    for (const Peer& peer : receivers)
      take(step, peer.rank, training().fabric().send(training().now(), rank, peer.rank, bytes));
  }
  // What a neighbor has sent, or the rank's own gradient.
  void take(std::uint64_t step, Rank rank, double there) {
    const std::size_t senders = schedule_ ? schedule_->local_view(step, rank).in.size()
                                          : training().job().graph->in_edges(rank).size();
    const auto all_there = training().arrive(step, rank, senders + 1, there);
    if (all_there) training().end(rank, *all_there);
  }

  const Options options_;
  std::optional<Schedule> schedule_;
};

// The model of a random neighbor comes, and their mean goes back.
class AsynchronousModel : public TrainingModel {
 public:
  using TrainingModel::TrainingModel;

  void computed(Rank rank) override {
    Training& it = training();
    const std::span<const Peer> peers = it.job().graph->out_edges(rank);
    if (peers.empty()) return it.end(rank, it.now());
    const Rank peer = peers[it.draws().below(peers.size())].rank;
    const double bytes = it.job().model_bytes;
    it.at(it.fabric().send(it.now(), peer, rank, bytes), [&it, rank, peer, bytes] {
      it.end(rank, it.fabric().send(it.now(), rank, peer, bytes));
    });
  }
};

}  // namespace

std::unique_ptr<TrainingModel> forecast_dpsgd(Training& training) {
  return std::make_unique<NeighborsModel>(training, NeighborsModel::Options{});
}
std::unique_ptr<TrainingModel> forecast_dpsgd_awc(Training& training) {
  return std::make_unique<NeighborsModel>(training, NeighborsModel::Options{.is_beside = true});
}
std::unique_ptr<TrainingModel> forecast_dmsgd(Training& training) {
  return std::make_unique<NeighborsModel>(training, NeighborsModel::Options{.tensors = 2});
}
std::unique_ptr<TrainingModel> forecast_ad_psgd(Training& training) {
  return std::make_unique<AsynchronousModel>(training);
}

}  // namespace weft
