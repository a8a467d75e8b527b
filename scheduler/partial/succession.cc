// succession: a generator made of what workers report.
#include <fmt/format.h>
#include <weft/macros.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "scheduler/partial/generator.h"

namespace weft {
namespace {

Status wrong(const GroupReport& report, std::string_view what) {
  return Status(Code::invalid_argument,
                fmt::format("report of rank {} to a new group generator: {}", report.worker, what),
                report.worker);
}

Status check(const GroupReport& report, int size) {
  if (report.worker < 0 || report.worker >= size)
    return wrong(report, fmt::format("the rank is outside 0…{}", size - 1));
  if (report.group == 0 || report.is_done) return {};
  const std::vector<Rank>& members = report.members;
  for (const Rank rank : members) {
    if (rank < 0 || rank >= size) {
      return wrong(
          report, fmt::format("rank {} of group {} is outside 0…{}", rank, report.group, size - 1));
    }
  }
  const auto falls = std::ranges::adjacent_find(members, std::greater_equal<>());
  if (falls != members.end()) {
    return wrong(report, fmt::format("group {} names rank {} {}", report.group, *falls,
                                     *falls == *(falls + 1) ? "twice" : "out of order"));
  }
  if (!std::ranges::binary_search(members, report.worker))
    return wrong(report, fmt::format("group {} is without it", report.group));
  return {};
}

}  // namespace

Result<GroupGenerator> GroupGenerator::succeed(GroupOptions options,
                                               std::span<const GroupReport> reports) {
  WEFT_ASSIGN(GroupGenerator made, open(std::move(options)));
  std::vector<const GroupReport*> by_rank(made.workers_.size());
  for (const GroupReport& report : reports) {
    WEFT_RETURN_IF_ERROR(check(report, made.options_.size));
    const GroupReport*& of_rank = by_rank[static_cast<std::size_t>(report.worker)];
    if (of_rank != nullptr) return wrong(report, "it has reported before");
    of_rank = &report;
  }
  for (Rank rank = 0; rank < made.options_.size; ++rank) {
    const GroupReport* const report = by_rank[static_cast<std::size_t>(rank)];
    if (report == nullptr) {
      made.bury(rank);
      continue;
    }
    made.of(rank).requests = report->requests;
    made.of(rank).has_asked = report->has_asked;
    made.pace_.add(rank, report->computed_us);
  }
  for (const GroupReport& report : reports) {
    if (report.group != 0 && !report.is_done) WEFT_RETURN_IF_ERROR(made.restore(report, by_rank));
  }
  for (const GroupReport& report : reports)
    made.last_number_ = std::max(made.last_number_, report.group);
  std::vector<Rank> unanswered;
  for (const Rank rank : made.living_) {
    if (made.of(rank).has_asked && !made.is_answered(rank)) unanswered.push_back(rank);
    if (!made.of(rank).has_asked && made.is_answered(rank)) made.of(rank).untaken = 1;
  }
  for (const Rank rank : unanswered) made.serve(rank);
  for (const Rank rank : made.deferred_) made.of(rank).due = 0;  // they have computed for a while
  return made;
}

// The group of a report, which runs, unless another member's report has restored it. A member that has
// heard of an earlier succession knows fewer members than one that has not; those that are alive and not
// done with the group are the same.
Status GroupGenerator::restore(const GroupReport& report,
                               std::span<const GroupReport* const> by_rank) {
  std::vector<Rank> open;
  Rank asker = kNobody;
  for (const Rank rank : report.members) {
    const GroupReport* const member = by_rank[static_cast<std::size_t>(rank)];
    if (member == nullptr) continue;
    const bool has_heard = member->group == report.group;
    if (has_heard && member->answers) asker = rank;
    if (member->group < report.group || (has_heard && !member->is_done)) open.push_back(rank);
  }
  const int own = of(report.worker).first;
  if (own != kNone && at(own).number == report.group) {
    if (at(own).members == open) return {};
    return wrong(report,
                 fmt::format("group {} has other members than another member says", report.group));
  }
  const int place = make(open, options_.law.kind == GroupLaw::Kind::smart ? kNoRank : asker);
  Group& group = at(place);
  group.number = report.group;
  group.is_running = true;
  for (const Rank rank : group.members) {
    if (of(rank).first != kNone) {
      return wrong(report, fmt::format("group {} has rank {}, which group {} has, too",
                                       report.group, rank, at(of(rank).first).number));
    }
    of(rank).first = of(rank).last = place;
    assign(group, rank);
  }
  return {};
}

// Whether the group that runs for a worker is the answer to its request, or will be to its next one.
bool GroupGenerator::is_answered(Rank rank) const {
  const int place = of(rank).first;
  if (place == kNone) return false;
  const Rank asker = groups_[static_cast<std::size_t>(place)].asker;
  return asker == rank || asker == kNoRank;
}

}  // namespace weft
