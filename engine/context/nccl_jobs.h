// nccl_jobs: which operations the ranks vote on before they run them, because NCCL could
// (engine/nccl). All ranks come to the same answer without a word: by the request, and by what each
// has said of itself when it joined. Internal to the module.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/config/config.h"
#include "engine/job/job.h"
#include "engine/nccl/nccl.h"

namespace weft {

// Belongs to the holder of the lane's token.
class NcclJobs {
 public:
  NcclJobs(const Config& config, const RankMap& rank_map, MachineTable& machines,
           std::uint16_t context)
      : config_(config), rank_map_(rank_map), machines_(machines), context_(context) {}

  // Whether this rank could, which it tells the others when it joins; called once.
  bool could();
  // Nothing: the ranks do not vote before this operation. An error: the request names NCCL, which cannot
  // run it. That is so on all ranks, but another may name another reason.
  [[nodiscard]] Result<std::optional<NcclJob>> job_of(const Request& request);
  // Before a job's operation.
  [[nodiscard]] NcclGroup& group() { return *group_; }
  void close();
  // For people; empty: the rank has no GPU.
  [[nodiscard]] std::string describe() const;

 private:
  [[nodiscard]] Result<std::optional<NcclJob>> asked_job_of(const Request& request);
  [[nodiscard]] std::shared_ptr<NcclGroup> make_group(const std::vector<Rank>& members) const;

  const Config& config_;
  const RankMap& rank_map_;
  MachineTable& machines_;
  const std::uint16_t context_;
  bool could_ = false;
  std::string why_not_;
  std::shared_ptr<NcclGroup> group_;  // null: there was no vote yet
};

}  // namespace weft
