// survivors: see the header.
#include "engine/context/survivors.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace weft {

Status in_numbers_of(const std::vector<Rank>& ranks, const Status& status) {
  if (status.rank() < 0 || status.rank() >= std::ssize(ranks)) return status;
  const Rank rank = ranks[static_cast<std::size_t>(status.rank())];
  if (rank == status.rank()) return status;
  return Status(status.code(),
                fmt::format("{} (ranks are counted in {})", status.text(), fmt::join(ranks, ", ")),
                rank);
}

// Cores that were tried stay open until the end, so that nobody takes this rank for gone.
Result<Survivors> find_survivors(Context::Core& first, Survivors present, Status why,
                                 const std::function<Status(Context::Core&)>& meet) {
  std::vector<std::shared_ptr<Context::Core>> tried;
  while (true) {
    std::vector<Rank> left;
    for (std::size_t number = 0; number < present.ranks.size(); ++number) {
      const auto rank = static_cast<Rank>(number);
      const bool is_named = is_gone(why) && why.rank() == rank;
      if (!is_named && !present.core->is_gone(rank)) left.push_back(present.ranks[number]);
    }
    // Nobody is gone, or the others take this rank for gone.
    const bool is_here = std::ranges::binary_search(left, first.config().rank);
    if (is_gone(why) && (left.size() == present.ranks.size() || !is_here))
      return in_numbers_of(present.ranks, why);
    WEFT_ASSIGN(std::shared_ptr<Context::Core> core, first.left(left));
    tried.push_back(core);
    why = meet(*core);
    present = {std::move(left), std::move(core)};
    if (why.ok()) return present;
    if (!is_gone(why)) return in_numbers_of(present.ranks, why);
  }
}

Result<std::shared_ptr<Context::Core>> Context::Core::left(const std::vector<Rank>& ranks) {
  Config config = config_;
  if (config.local_size == 0) config.local_size = config.size;
  RankMap left = rank_map_.left(ranks, number_);
  if (!config.trace.empty()) config.trace += fmt::format(".{}", digest_of(ranks));
  return open_at(std::move(config), left, number_, hardware_);
}

bool Context::Core::is_gone(Rank rank) {
  rank_map_.events().tell_events();
  return membership_.died(rank) || membership_.left(rank) || peers_.has_left(rank);
}

void Context::Core::give_up(const Status& why) {
  const Lane::Hold hold(lane_);
  if (!has_failed()) failures_.fail(why);
}

std::vector<Rank> Context::Core::members() {
  std::vector<Rank> ranks = ranks_of_size(config_.size);
  std::erase_if(ranks, [this](Rank rank) { return is_gone(rank); });
  return ranks;
}

Result<std::shared_ptr<Context::Core>> Context::Core::shrink() {
  Status why;
  {
    const Lane::Hold hold(lane_);
    if (has_failed()) why = lane_.failure();
  }
  const auto meet = [](Core& core) { return core.run(Request{.collective = Collective::barrier}); };
  WEFT_ASSIGN(Survivors left,
              find_survivors(*this, {ranks_of_size(config_.size), shared_from_this()}, why, meet));
  return std::move(left.core);
}

}  // namespace weft
