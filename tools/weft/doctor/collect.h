// collect: the facts of the hosts that are asked for: this one, files, a job's, or those behind ssh. What
// cannot be had is a line, and the rest goes on. Internal to the command.
#pragma once

#include <string>
#include <vector>

#include "engine/config/config.h"
#include "tools/diagnosis/diagnosis.h"
#include "tools/weft/common/hosts.h"

namespace weft {

// A host, a rank or a file without facts.
struct Missing {
  std::string who;
  std::string why;
};

struct Collected {
  std::vector<HostFacts> hosts;
  std::vector<Missing> missing;
};

// What the job's settings say is part of a host's facts.
[[nodiscard]] HostFacts facts_here(const Config& config, const FactSources& from);

[[nodiscard]] Collected collect_files(const std::vector<std::string>& paths);

// In the order of the hosts.
[[nodiscard]] Collected collect_remote(const std::vector<std::string>& hosts,
                                       const HostArguments& by);

// The hosts of the job to which this process belongs. Collective; all but rank 0 get none.
struct JobFacts {
  bool leads = false;  // rank 0
  Collected found;
};
[[nodiscard]] Result<JobFacts> collect_job(Config config);

// One host of several names is one; earlier looks give each host's counters a beginning.
void settle(Collected& found, const std::vector<HostFacts>& earlier);

}  // namespace weft
