// Which operations are voted on, and the group of a machine's ranks.
#include "engine/context/nccl_jobs.h"

#include <fmt/core.h>

#include <algorithm>

#include "engine/gpu/gpu.h"
#include "engine/request/request.h"
#include "scheduler/plan/plan.h"

namespace weft {
namespace {

// A vote costs a small allreduce, which takes longer than a smaller operation.
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

}  // namespace

bool NcclJobs::could() {
  if (config_.nccl == NcclUse::off) {
    why_not_ = "WEFT_NCCL is off";
  } else if (config_.size < 2) {
    why_not_ = "there is one rank";
  } else if (!may_have_gpu_memory()) {
    why_not_ = "the CUDA driver was not loaded when the context was made";
  } else if (const Status library = check_nccl(); !library.ok()) {
    why_not_ = library.text();
  } else {
    could_ = true;
  }
  return could_;
}

// A rank that could not itself knows the answer without the others' records.
Result<std::optional<NcclJob>> NcclJobs::job_of(const Request& request) {
  const std::optional<NcclJob> none;
  const Bits bits = bits_of(request, config_.bits);
  if (request.algorithm == AllreduceAlgorithm::nccl) {
    WEFT_RETURN_IF_ERROR(check_bits(request.algorithm, bits));
    return asked_job_of(request);
  }
  const bool is_fixed = has<kSums>(request.collective) && bits == Bits::fixed;
  if (!could_ || is_fixed || request.algorithm != AllreduceAlgorithm::automatic) return none;
  const bool is_hierarchical = request.collective == Collective::hierarchical_neighbor_allreduce;
  NcclJob job{request.collective, is_hierarchical ? ReduceOp::average : request.op,
              request.output.type, request.output.count};
  if (!job.is_known() || job.bytes() < kLeastBytes) return none;
  WEFT_ASSIGN(const Machines* all, machines_.get());
  const bool is_of_machines = request.collective == Collective::local_allreduce;
  const std::vector<Rank>& members = all->ranks_beside(config_.rank);
  const bool all_could = std::ranges::find(all->nccl, false) == all->nccl.end();
  if (!all_could || members.size() < 2) return none;
  // On all ranks alike: each machine has something to do for NCCL.
  const auto is_single = [](const std::vector<Rank>& ranks) { return ranks.size() < 2; };
  if (is_hierarchical && std::ranges::any_of(all->ranks, is_single)) return none;
  if (!is_hierarchical && !is_of_machines && all->count() != 1) return none;
  job.root = request.root;  // ranks of one machine that are all ranks have their own numbers
  if (group_ == nullptr) group_ = make_group(members);
  return std::optional(job);
}

// Of any size but nothing.
Result<std::optional<NcclJob>> NcclJobs::asked_job_of(const Request& request) {
  const auto refused = [](Code code, std::string_view why) {
    return Status(code, fmt::format("allreduce by nccl: {}", why));
  };
  if (config_.size == 1 || request.output.count == 0) return std::optional<NcclJob>();
  if (!could_) return refused(Code::unavailable, why_not_);
  const NcclJob job{.op = request.op,
                    .type = request.output.type,
                    .count = request.output.count,
                    .is_asked = true};
  if (!job.is_known()) {
    return refused(Code::invalid_argument,
                   fmt::format("it has no {} of {}", name(job.op), name(job.type)));
  }
  WEFT_ASSIGN(const Machines* all, machines_.get());
  if (all->count() != 1)
    return refused(Code::invalid_argument, fmt::format("the ranks are on {}", all->describe()));
  if (!all->nccl.front()) return refused(Code::unavailable, "another rank cannot use it");
  if (group_ == nullptr) group_ = make_group(all->ranks.front());
  return std::optional(job);
}

std::shared_ptr<NcclGroup> NcclJobs::make_group(const std::vector<Rank>& members) const {
  const auto index = std::ranges::find(members, config_.rank) - members.begin();
  const auto key = [prefix = fmt::format("context/{}/nccl/", context_)](Rank rank,
                                                                        const std::string& what) {
    return fmt::format("{}{}/{}", prefix, rank, what);
  };
  NcclPeers peers;
  peers.index = static_cast<int>(index);
  peers.size = static_cast<int>(members.size());
  peers.deadline_ms = config_.deadline_ms;
  peers.put = [key, rank_map = rank_map_, own = config_.rank](const std::string& what,
                                                              std::string value) {
    return rank_map.put(key(own, what), std::move(value));
  };
  peers.get = [key, rank_map = rank_map_, members](int of, const std::string& what,
                                                   Deadline deadline) {
    const Rank rank = members[static_cast<std::size_t>(of)];
    return rank_map.get_from(rank, key(rank, what), deadline);
  };
  return NcclGroup::make(std::move(peers), config_.nccl);
}

void NcclJobs::close() {
  if (group_ != nullptr) group_->close();
}

std::string NcclJobs::describe() const {
  if (!may_have_gpu_memory()) return "";
  if (!could_) return "not used: " + why_not_;
  return group_ == nullptr ? "not used yet" : group_->describe();
}

}  // namespace weft
