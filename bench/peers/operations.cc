// MPI's calls. Inputs hold one value per rank and lap, so that a result is checked by looking at
// its ends.
#include "bench/peers/operations.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "bench/peers/weighted_sum.h"

namespace weft::peers {
namespace {

float value(Rank rank, std::uint64_t lap) {
  return static_cast<float>(rank + 1) + static_cast<float>(lap % 16);
}

int as_int(std::size_t count) {
  return static_cast<int>(count);
}

std::vector<int> ranks_of(std::span<const Peer> peers) {
  std::vector<int> ranks;
  for (const Peer& peer : peers) ranks.push_back(peer.rank);
  return ranks;
}

}  // namespace

Operations::Operations(const Graph& graph, std::size_t most_bytes) : graph_(graph) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  for (const Peer& peer : graph_.in_edges(rank_)) {
    weights_.push_back(static_cast<float>(peer.weight));
  }
  self_weight_ = static_cast<float>(graph_.self_weight(rank_));
  const std::vector<int> in = ranks_of(graph_.in_edges(rank_));
  const std::vector<int> out = ranks_of(graph_.out_edges(rank_));
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, as_int(in.size()), in.data(), MPI_UNWEIGHTED,
                                 as_int(out.size()), out.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &neighbors_);
  const std::size_t most = most_bytes / sizeof(float);
  input_ = buffer(most);
  gathered_ = buffer(most * weights_.size());
  output_ = buffer(most);
}

Operations::~Operations() {
  MPI_Comm_free(&neighbors_);
}

// malloc and not new or a vector: what MPI programs do, and what glibc.malloc.hugetlb acts on.
Operations::Buffer Operations::buffer(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(float);
  auto* memory = static_cast<float*>(std::malloc(bytes));  // NOLINT
  invariant(memory != nullptr, "no memory for the peer's buffers");
  return Buffer(memory);
}

Subject Operations::subject(Workload collective, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  if (count != count_) {  // pages are touched before they are timed
    count_ = count;
    std::fill_n(gathered_.get(), count * weights_.size(), 0.0F);
    std::fill_n(output_.get(), count, 0.0F);
  }
  rewrite(0);
  return {[this](std::uint64_t lap) { rewrite(lap); },
          [this, collective](int times) { return run(collective, times); },
          [this, collective](std::uint64_t lap) { return check(collective, lap); }};
}

void Operations::rewrite(std::uint64_t lap) {
  std::fill_n(input_.get(), count_, value(rank_, lap));
}

Status Operations::run(Workload collective, int times) {
  const int count = as_int(count_);
  int error = MPI_SUCCESS;
  for (int i = 0; i < times && error == MPI_SUCCESS; ++i) {
    switch (collective) {
      case Workload::neighbor_allreduce:
        error = MPI_Neighbor_allgather(input_.get(), count, MPI_FLOAT, gathered_.get(), count,
                                       MPI_FLOAT, neighbors_);
        weighted_sum(self_weight_, input_.get(), weights_, gathered_.get(), output_.get(), count_);
        break;
      case Workload::neighbor_allgather:
        error = MPI_Neighbor_allgather(input_.get(), count, MPI_FLOAT, gathered_.get(), count,
                                       MPI_FLOAT, neighbors_);
        break;
      case Workload::allreduce:  // the sum: scaling it to the average is left out in MPI's favor
        error =
            MPI_Allreduce(input_.get(), output_.get(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Workload::broadcast:  // from and to one buffer: no copy at the root, in MPI's favor
        error = MPI_Bcast(rank_ == 0 ? input_.get() : output_.get(), count, MPI_FLOAT, 0,
                          MPI_COMM_WORLD);
        break;
      case Workload::barrier:
        error = MPI_Barrier(MPI_COMM_WORLD);
        break;
    }
  }
  if (error == MPI_SUCCESS) return {};
  return Status(Code::system, "MPI error " + std::to_string(error));
}

double Operations::expected(Workload collective, std::uint64_t lap) const {
  double sum = 0;
  switch (collective) {
    case Workload::neighbor_allreduce:
      sum = double{self_weight_} * double{value(rank_, lap)};
      for (const Peer& peer : graph_.in_edges(rank_)) {
        sum += peer.weight * double{value(peer.rank, lap)};
      }
      return sum;
    case Workload::allreduce:
      for (Rank rank = 0; rank < graph_.size(); ++rank) sum += double{value(rank, lap)};
      return sum;
    case Workload::broadcast:
      return double{value(0, lap)};
    default:
      return 0;
  }
}

Status Operations::check(Workload collective, std::uint64_t lap) const {
  const bool has_result = collective == Workload::neighbor_allreduce ||
                          collective == Workload::allreduce ||
                          (collective == Workload::broadcast && rank_ != 0);
  if (count_ == 0 || !has_result) return {};
  const double wanted = expected(collective, lap);
  for (const float got : {output_[0], output_[count_ - 1]}) {
    if (std::abs(double{got} - wanted) <= 1e-5 * std::abs(wanted)) continue;
    return Status(Code::mismatch, "the peer's result is " + std::to_string(got) + " and not " +
                                      std::to_string(wanted));
  }
  return {};
}

}  // namespace weft::peers
