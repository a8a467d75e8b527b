// rail_selection: reading the machine records without waiting for ranks that have not joined, and
// choosing rails.
#include "engine/job/rail_selection.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// If a rank has not joined, its record is read again after the first wait. The wait doubles with
// each attempt that reads no new record, up to the longest one. An attempt takes at most a tenth of
// the wait, within the bounds of patience.
constexpr std::int64_t kFirstWaitNs = 50'000'000;
constexpr std::int64_t kLongestWaitNs = 10'000'000'000;
constexpr std::int64_t kLeastPatienceMs = 5;
constexpr std::int64_t kMostPatienceMs = 200;

}  // namespace

RailSelection::RailSelection(const Config& config, MachineTable& machines,
                             std::vector<RailRecord> rails, std::vector<std::string> reasons)
    : config_(config),
      machines_(machines),
      rails_(std::move(rails)),
      reasons_(std::move(reasons)) {}

// Whether there is anything to choose: the rank has opened two interfaces of one kind. Rails of one
// kind stand side by side in rails_.
bool RailSelection::has_choice() const {
  return config_.rails != RailChoice::all && !uses_all_ &&
         std::ranges::adjacent_find(rails_, std::ranges::equal_to(), &RailRecord::kind) !=
             rails_.end();
}

Status RailSelection::ask() {
  if (ask_at_ns_ != 0 && now_ns() < ask_at_ns_) return {};
  const std::size_t read = machines_.ranks_read();
  const std::int64_t patience_ms =
      std::clamp(ask_wait_ns_ / 10'000'000, kLeastPatienceMs, kMostPatienceMs);
  const Status status = machines_.read_by(Deadline::after_ms(patience_ms)).status();
  if (status.ok() || status.code() == Code::mismatch) return status;
  if (status.code() == Code::timed_out) {
    const bool is_news = machines_.ranks_read() != read;
    ask_wait_ns_ =
        is_news ? kFirstWaitNs : std::clamp(2 * ask_wait_ns_, kFirstWaitNs, kLongestWaitNs);
    ask_at_ns_ = now_ns() + ask_wait_ns_;
    return {};
  }
  uses_all_ = true;
  log(LogLevel::warning, fmt::format("all rails carry what goes to other machines, near or far: {}",
                                     status.to_string()));
  return {};
}

Status RailSelection::ask_again() {
  if (ask_at_ns_ == 0 || uses_all_ || machines_.known() != nullptr) return {};
  return ask();
}

Status RailSelection::choose_to(PeerConnection& connection) {
  const bool may_choose = !connection.endpoint->properties().shares_memory && has_choice();
  if (may_choose && machines_.known() == nullptr) WEFT_RETURN_IF_ERROR(ask());
  if (may_choose && !uses_all_ && machines_.known() == nullptr) return {};
  connection.are_rails_chosen = true;
  if (may_choose && !uses_all_) use_rails_to(connection);
  return {};
}

void RailSelection::choose_late(PeerConnection& connection) {
  if (!has_choice()) return;
  if (!connection.endpoint->properties().shares_memory) use_rails_to(connection);
  connection.are_rails_chosen = true;
}

void RailSelection::use_rails_to(PeerConnection& connection) const {
  const auto used = [this](Rank rank) -> const std::vector<int>& {
    return machines_.known()->used[static_cast<std::size_t>(rank)];
  };
  connection.endpoint->use_members(used(config_.rank), used(connection.rank));
}

std::vector<std::string> RailSelection::describe() const {
  std::vector<std::string> lines;
  if (machines_.known() == nullptr || !has_choice()) return lines;
  const std::vector<int>& used = machines_.known()->used[static_cast<std::size_t>(config_.rank)];
  if (used.size() == rails_.size()) return lines;
  for (const int rail : used)
    lines.push_back(
        fmt::format("uses rail {}: {}", rail, reasons_[static_cast<std::size_t>(rail)]));
  return lines;
}

std::vector<std::string> RailSelection::describe_lost() const {
  std::vector<std::string> lines;
  if (machines_.known() == nullptr) return lines;
  for (const int place : machines_.known()->lost[static_cast<std::size_t>(config_.rank)]) {
    const RailRecord& rail = rails_[static_cast<std::size_t>(place)];
    lines.push_back(fmt::format("not {} ({}): no other machine has this network", rail.interface,
                                rail.address.empty() ? rail.rail : rail.address));
  }
  return lines;
}

}  // namespace weft
