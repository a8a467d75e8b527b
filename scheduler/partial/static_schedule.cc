// static_schedule: see the header.
#include "scheduler/partial/static_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace weft {
namespace {

struct Machine {
  int number = 0;
  int locals = 0;
  Rank first = 0;
};

// The local rank that meets the opposite machine in iteration 2.
int traveler_of(int locals) {
  return std::min(1, locals - 1);
}

std::optional<int> opposite(int machine, int machines) {
  const int paired = machines - machines % 2;
  if (machine >= paired) return std::nullopt;
  return (machine + paired / 2) % paired;
}

// With whom a local rank above 0 is paired in iteration 0.
std::optional<int> pair_from_the_top(int local, int locals) {
  const int from_top = locals - 1 - local;
  const int other = from_top % 2 == 0 ? local - 1 : local + 1;
  if (other == 0) return std::nullopt;
  return other;
}

// The local rank with which this one is paired in iteration 2.
std::optional<int> pair_of_ends(int local, int locals) {
  const int last = locals - 1;
  if (last <= traveler_of(locals) || (local != 0 && local != last)) return std::nullopt;
  return last - local;
}

}  // namespace

Result<std::vector<Rank>> static_group(std::uint64_t iteration, std::span<const int> locals,
                                       Rank rank) {
  const auto invalid = [](const std::string& why, Rank at = kNoRank) {
    return Status(Code::invalid_argument, "static groups: " + why, at);
  };
  if (locals.empty()) return invalid("0 machines; at least 1 is needed");
  std::int64_t ranks = 0;
  Machine own;
  std::vector<Rank> heads;  // the first rank of each machine
  for (const int each : locals) {
    if (each < 1 || each > kMostRanks - ranks)
      return invalid(
          fmt::format("{} ranks on a machine; 1 to {} in all are possible", each, kMostRanks));
    const auto first = static_cast<Rank>(ranks);
    if (rank >= first) own = {static_cast<int>(heads.size()), each, first};
    heads.push_back(first);
    ranks += each;
  }
  if (rank < 0 || rank >= ranks)
    return invalid(fmt::format("rank {} is outside 0…{}", rank, ranks - 1), rank);
  const int local = rank - own.first;
  std::vector<Rank> group = {rank};
  const auto add_local = [&](std::optional<int> other) {
    if (other) group.push_back(own.first + *other);
  };
  const std::uint64_t phase = iteration % kStaticPeriod;
  if (phase % 2 == 1) {
    for (int other = 0; other < own.locals; ++other)
      if (other != local) add_local(other);
  } else if (phase == 0 && local == 0) {
    group = std::move(heads);
  } else if (phase == 0) {
    add_local(pair_from_the_top(local, own.locals));
  } else if (local == traveler_of(own.locals)) {
    if (const auto other = opposite(own.number, static_cast<int>(locals.size()))) {
      const auto machine = static_cast<std::size_t>(*other);
      group.push_back(heads[machine] + traveler_of(locals[machine]));
    }
  } else {
    add_local(pair_of_ends(local, own.locals));
  }
  std::ranges::sort(group);
  return group;
}

Result<std::vector<Rank>> static_group(std::uint64_t iteration, MachineShape shape, Rank rank) {
  const auto [machines, locals] = shape;
  if (machines < 1 || locals < 1 || locals > kMostRanks / machines) {
    return Status(Code::invalid_argument,
                  fmt::format("static groups of {} machines x {} ranks: 1 to {} ranks are possible",
                              machines, locals, kMostRanks));
  }
  return static_group(iteration, std::vector<int>(static_cast<std::size_t>(machines), locals),
                      rank);
}

}  // namespace weft
