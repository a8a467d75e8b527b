// side_lanes: opening lanes, and cutting operations.
#include "engine/context/side_lanes.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// The rails among which stripes are divided, by the bond's numbers: those that the rank uses, if their
// rates are known. Else stripes prefer none, because one that kept to a slow rail would be late.
std::vector<int> rails_of(const Machines& machines, Rank rank) {
  if (machines.rail_rates.empty()) return {};
  return machines.used_numbers[static_cast<std::size_t>(rank)];
}

// The bond's number of the rail that a stripe prefers.
int rail_of(const Call& call, const std::vector<int>& rails, std::size_t stripe,
            std::size_t stripes) {
  const int rail = preferred_rail(bytes_of(call), rails.size(), stripe, stripes);
  return rail == kAnyRail ? kAnyRail : rails[static_cast<std::size_t>(rail)];
}

}  // namespace

Status SideLanes::open(std::size_t lanes) {
  while (lanes_.size() + 1 < lanes) {
    const std::size_t number = lanes_.size() + 1;
    Result<std::unique_ptr<SideLane>> lane = open_(number);
    if (!lane.ok()) {
      const Status& why = lane.status();
      return Status(why.code(), fmt::format("lane {} (WEFT_LANES): {}", number, why.text()),
                    why.rank());
    }
    const std::lock_guard lock(mutex_);
    lanes_.push_back(*std::move(lane));
  }
  return {};
}

Result<SideLanes::Parts> SideLanes::cut_large(const std::shared_ptr<Operation>& operation) {
  WEFT_ASSIGN(const Machines* all, machines_.get());
  BoundCall& bound_call = operation->bound_call;
  const std::size_t lanes = std::min(most_, static_cast<std::size_t>(all->lanes));
  const std::size_t stripes = stripes_of(bound_call.call, lanes);
  if (stripes == 1) return Parts();
  WEFT_RETURN_IF_ERROR(open(stripes));
  bound_call.call.stripes = static_cast<int>(stripes);
  const std::vector<int> rails = rails_of(*all, config_.rank);
  const Cut cut(lanes, all->rail_rates);
  Parts parts;
  for (std::size_t lane = 1; lane < stripes; ++lane) {
    auto part = std::make_shared<Operation>(std::weak_ptr<Lane>());
    part->bound_call = cut.part_of(bound_call, lane);
    part->bound_call.call.rail = rail_of(part->bound_call.call, rails, lane, stripes);
    part->whole = operation;
    parts.push_back(std::move(part));
  }
  cut.narrow(bound_call, 0);
  bound_call.call.rail = rail_of(bound_call.call, rails, 0, stripes);
  operation->is_in_parts = true;
  operation->parts = static_cast<int>(stripes);
  return parts;
}

void SideLanes::post(const Parts& parts, std::uint64_t number) {
  for (std::size_t lane = 0; lane < parts.size(); ++lane) {
    parts[lane]->number = number;
    lanes_[lane]->lane().post(parts[lane]);
  }
}

bool SideLanes::are_idle() const {
  return std::ranges::all_of(lanes_,
                             [](const auto& each) { return each->lane().has_none_in_flight(); });
}

void SideLanes::wake() {
  const std::lock_guard lock(mutex_);
  for (const auto& each : lanes_) each->lane().interface().wake();
}

void SideLanes::close() {
  for (const auto& each : lanes_) each->close();
}

std::string SideLanes::describe() const {
  if (most_ == 1) return "";
  const Machines* all = machines_.known();
  if (all == nullptr) {
    return fmt::format("up to {} for operations of {} MiB and more, if all ranks can", most_,
                       2 * kLeastStripeBytes >> 20);
  }
  return fmt::format("up to {}, as many as all ranks can have (this rank {}); {} open",
                     std::min(most_, static_cast<std::size_t>(all->lanes)), most_,
                     lanes_.size() + 1);
}

}  // namespace weft
