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
  const auto ranks = static_cast<std::size_t>(graph_.size());
  input_ = buffer(most * ranks);  // pages that nobody touches cost nothing
  gathered_ = buffer(most * weights_.size());
  output_ = buffer(most * ranks);
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

Subject Operations::subject(Collective collective, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  const Recipe wanted = recipe(collective, graph_, rank_);
  const bool gathers =
      collective == Collective::neighbor_allreduce || collective == Collective::neighbor_allgather;
  blocks_ = wanted.blocks;
  output_count_ = collective == Collective::neighbor_allgather ? 0 : output_count(wanted, count);
  count_ = count;
  // Pages are touched before they are timed.
  std::fill_n(gathered_.get(), gathers ? count * weights_.size() : 0, 0.0F);
  std::fill_n(output_.get(), output_count_, 0.0F);
  rewrite(0);
  return {[this](std::uint64_t lap) { rewrite(lap); },
          [this, collective](int times) { return run(collective, times); },
          [this, collective](std::uint64_t lap) { return check(collective, lap); }};
}

void Operations::rewrite(std::uint64_t lap) {
  std::fill_n(input_.get(), blocks_ * count_, value(rank_, lap));
}

Status Operations::run(Collective collective, int times) {
  const int count = as_int(count_);
  int error = MPI_SUCCESS;
  for (int i = 0; i < times && error == MPI_SUCCESS; ++i) {
    switch (collective) {
      case Collective::neighbor_allreduce:
        error = MPI_Neighbor_allgather(input_.get(), count, MPI_FLOAT, gathered_.get(), count,
                                       MPI_FLOAT, neighbors_);
        weighted_sum(self_weight_, input_.get(), weights_, gathered_.get(), output_.get(), count_);
        break;
      case Collective::neighbor_allgather:
        error = MPI_Neighbor_allgather(input_.get(), count, MPI_FLOAT, gathered_.get(), count,
                                       MPI_FLOAT, neighbors_);
        break;
      case Collective::allreduce:  // the sum: scaling it to the average is left out in MPI's favor
        error =
            MPI_Allreduce(input_.get(), output_.get(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::broadcast:  // from and to one buffer: no copy at the root, in MPI's favor
        error = MPI_Bcast(rank_ == 0 ? input_.get() : output_.get(), count, MPI_FLOAT, 0,
                          MPI_COMM_WORLD);
        break;
      case Collective::barrier:
        error = MPI_Barrier(MPI_COMM_WORLD);
        break;
      default:
        error = run_parts(collective);
        break;
    }
  }
  if (error == MPI_SUCCESS) return {};
  return Status(Code::system, "MPI error " + std::to_string(error));
}

// Operations whose inputs or outputs have a part for each rank, and reduce. Sums, as above.
int Operations::run_parts(Collective collective) {
  const int count = as_int(count_);
  float* x = input_.get();
  float* y = output_.get();
  switch (collective) {
    case Collective::allgather:
      return MPI_Allgather(x, count, MPI_FLOAT, y, count, MPI_FLOAT, MPI_COMM_WORLD);
    case Collective::reduce_scatter:
      return MPI_Reduce_scatter_block(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case Collective::reduce:
      return MPI_Reduce(x, y, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    case Collective::gather:
      return MPI_Gather(x, count, MPI_FLOAT, y, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    case Collective::scatter:
      return MPI_Scatter(x, count, MPI_FLOAT, y, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    case Collective::alltoall:
      return MPI_Alltoall(x, count, MPI_FLOAT, y, count, MPI_FLOAT, MPI_COMM_WORLD);
    default:
      return MPI_ERR_OP;
  }
}

std::pair<double, double> Operations::expected(Collective collective, std::uint64_t lap) const {
  double sum = 0;
  switch (collective) {
    case Collective::neighbor_allreduce:
      sum = double{self_weight_} * double{value(rank_, lap)};
      for (const Peer& peer : graph_.in_edges(rank_)) {
        sum += peer.weight * double{value(peer.rank, lap)};
      }
      return {sum, sum};
    case Collective::allreduce:
    case Collective::reduce_scatter:
    case Collective::reduce:
      for (Rank rank = 0; rank < graph_.size(); ++rank) sum += double{value(rank, lap)};
      return {sum, sum};
    case Collective::allgather:
    case Collective::gather:
    case Collective::alltoall:
      return {double{value(0, lap)}, double{value(graph_.size() - 1, lap)}};
    default:  // what comes from the root
      return {double{value(0, lap)}, double{value(0, lap)}};
  }
}

Status Operations::check(Collective collective, std::uint64_t lap) const {
  // The root of a broadcast keeps its input; a neighbor_allgather has no output of one value.
  const bool is_root = collective == Collective::broadcast && rank_ == 0;
  if (output_count_ == 0 || is_root) return {};
  const auto [first, last] = expected(collective, lap);
  for (const auto& [got, wanted] :
       {std::pair{output_[0], first}, std::pair{output_[output_count_ - 1], last}}) {
    if (std::abs(double{got} - wanted) <= 1e-5 * std::abs(wanted)) continue;
    return Status(Code::mismatch, "the peer's result is " + std::to_string(got) + " and not " +
                                      std::to_string(wanted));
  }
  return {};
}

}  // namespace weft::peers
