// What `weft predict` was asked for, understood and checked before anything is simulated. Internal
// to the command.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "scheduler/simulate/simulate.h"
#include "tools/weft/common/like.h"
#include "tools/weft/common/place.h"
#include "tools/weft/predict/operation.h"
#include "topology/cluster/cluster.h"

namespace weft {

// As typed on the command line.
struct PredictArguments {
  ClusterArguments cluster;
  std::vector<std::string> chakra;  // traces; empty: `operations` are predicted
  std::string graph = "exponential";
  std::string operations = "neighbor_allreduce,allreduce";
  std::string algorithms = "auto";
  std::string bits = "auto";
  std::string sizes = "1M,16M,64M";
  std::string ranks;
  std::string lanes;  // empty: one, and how many would help
  std::string stragglers;
  std::string lost;
  std::string rails = "auto";
  double message_us = 0;
  std::string piece;  // empty: the network's
  double combine_gbyte_per_s = 0;
  double compute_ms = 0;
  PlaceArguments place;
  bool every_rank = false;
  std::string svg;
  std::string title;
  std::string run_svg;
  std::string plan_svg;
  std::string json;
  bool explain = false;
};

struct PredictOptions {
  Cluster cluster;
  std::vector<Collective> operations;
  std::vector<AskedAlgorithm> algorithms;
  Bits bits = Bits::automatic;
  std::vector<std::size_t> sizes;
  std::vector<int> ranks;
  std::vector<int> lanes;
  RailPolicy policy = RailPolicy::automatic;
  std::vector<LostRail> lost;
  SimulateOptions simulate;
  PredictArguments asked;
};

// Everything understood, or an error that names what is wrong.
[[nodiscard]] Result<PredictOptions> understand(const PredictArguments& asked);

// Bytes of the pieces in which the engine sends on these rails.
[[nodiscard]] std::size_t network_piece(const Cluster& cluster);

// A cluster's first ranks, and the machines that they are on.
[[nodiscard]] Cluster first_ranks(const Cluster& cluster, int ranks);

}  // namespace weft
