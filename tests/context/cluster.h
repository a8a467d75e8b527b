// A job on several machines, played by one process: ranks that call themselves different machines
// and reach each other over the interfaces that the environment names, else over UCX on the
// loopback.
#pragma once

#include <string>

#include "tests/context/job.h"

namespace weft {

// Rank r is on machine machine_of[r].
inline void run_machines(const std::vector<int>& machine_of, const RankBody& body,
                         Config config = test_config()) {
  if (config.interfaces.empty()) config.interfaces = "lo";
  run_job_with(
      static_cast<int>(machine_of.size()),
      [&](Rank rank) {
        Config own = config;
        own.host = "machine" + std::to_string(machine_of[static_cast<std::size_t>(rank)]);
        return own;
      },
      body);
}

// Rank r is on machine r modulo `machines`.
inline void run_cluster(int ranks, int machines, const RankBody& body,
                        const Config& config = test_config()) {
  std::vector<int> machine_of;
  for (int rank = 0; rank < ranks; ++rank) machine_of.push_back(rank % machines);
  run_machines(machine_of, body, config);
}

}  // namespace weft
