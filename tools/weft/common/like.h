// Which cluster: a file, or as many machines of one kind. The options that `weft map` and `weft predict`
// have in common. Internal to the commands.
#pragma once

#include <string>
#include <string_view>

#include "topology/cluster/cluster.h"

namespace CLI {
class App;
}  // namespace CLI

namespace weft {

// As typed on the command line.
struct ClusterArguments {
  std::string file;
  std::string like;
  std::string correct;
  int machines = 0;
  int per_machine = 1;
  double latency_us = 2;
};
// --cluster, --like, --correct, --machines, --per-machine, --latency.
void add_cluster_options(CLI::App& command, ClusterArguments& to);

// `command`: "weft map", for the error where none is given.
[[nodiscard]] Result<Cluster> cluster_of(const ClusterArguments& asked, std::string_view command);

}  // namespace weft
