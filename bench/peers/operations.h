// Operations: Weft's collectives done with MPI, the way its users do them. A neighbor_allreduce is
// MPI_Neighbor_allgather on a distributed-graph communicator and a weighted sum (BlueFog's way);
// the others are MPI's own. Elements are floats. One object per rank; every call is collective.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tools/limits/limits.h"

namespace weft::peers {

class Operations {
 public:
  // Buffers for inputs, or blocks of them, up to `most_bytes`, allocated once as a training program
  // does. It also lets glibc.malloc.hugetlb back them with huge pages, which it does from 2 MiB up
  // only.
  Operations(const Graph& graph, std::size_t most_bytes);
  ~Operations();
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // What time_laps runs for `bytes` of input per rank, or per block of it, at most `most_bytes`.
  // Valid until the next call.
  [[nodiscard]] Subject subject(Collective collective, std::size_t bytes);

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }  // NOLINT: it comes from malloc
  };
  using Buffer = std::unique_ptr<float[], Free>;

  static Buffer buffer(std::size_t count);
  void rewrite(std::uint64_t lap);
  Status run(Collective collective, int times);
  int run_parts(Collective collective);
  Status check(Collective collective, std::uint64_t lap) const;
  // The ends of this rank's output.
  [[nodiscard]] std::pair<double, double> expected(Collective collective, std::uint64_t lap) const;

  Graph graph_;
  int rank_ = 0;
  MPI_Comm neighbors_ = MPI_COMM_NULL;
  std::vector<float> weights_;  // of the in-neighbors, ascending
  float self_weight_ = 1;
  std::size_t count_ = 0;
  std::size_t blocks_ = 1;  // of `count_` elements in the input
  std::size_t output_count_ = 0;
  Buffer input_;
  Buffer gathered_;
  Buffer output_;
};

}  // namespace weft::peers
